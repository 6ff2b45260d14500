"""Voices: made from a recording, made from generated speech, and checked against the model that is to use them."""

from __future__ import annotations

from torch import Tensor

from ..audio.loudness import SPEECH_RMS, UNVOICED_PEAK
from ..audio.reference import prepare_reference
from ..constants import SAMPLE_RATE
from ..errors import AudioError, InputError, TextError
from ..intake.limits import MAX_CONSENT_CHARS, MAX_VOICE_FRAMES, MAX_VOICE_TEXT_CHARS, check_text_length, shown
from ..intake.text_in import clean_text
from ..text.characters import end_punctuation
from ..text.clean import plain_text, speakable
from ..text.duration import rate_fault
from ..text.languages import language_label
from ..text.removed import Removed
from ..text.rules import PUBLISHED, TextRules
from ..types import GenerationPlan, VoicePrompt, Waveform
from ..voice import DESIGNED
from .codec import Codec

UNKNOWN_CODEC = (
    "this voice does not say which codec it was made with; if the speech is noise, make the voice again from its "
    "recording with this model"
)


def encode_voice(codec: Codec, waveform: Waveform, text: str, rules: TextRules = PUBLISHED) -> VoicePrompt:
    """Return a voice made from a recording [C, N] of any rate. text: its transcript. rules: the model's for texts.

    Raises AudioError for a recording that cannot be a reference. The voice's `warnings` list what is unusual about
    the recording, and a transcript that is missing or does not fit its length.
    """
    if not isinstance(waveform, Waveform):
        raise AudioError(f"the reference must be a Waveform, got {shown(waveform)}: Waveform(samples, sample_rate)")
    channels, length = waveform.samples.shape
    if channels > length > 0:
        raise AudioError(f"samples must be [channels, samples], got [{channels}, {length}]: transpose them")
    removed = Removed()
    shielded = _transcript(text, removed, rules)
    text = rules.restored(shielded)
    prepared = prepare_reference(waveform, has_text=bool(text))
    warnings = [*prepared.warnings, *rules.warnings(removed, "transcript")]
    seconds = prepared.samples.shape[1] / SAMPLE_RATE
    if not text:
        warnings.append(
            "the reference has no transcript, which harms pace and likeness: add the words that are spoken in it"
        )
    elif problem := rate_fault(shielded, seconds):  # the transcript of another recording (upstream.md 19)
        warnings.append(
            f"the transcript is {problem} for {seconds:.1f} s of speech: words will be cut off or repeated; "
            "write exactly what the recording says"
        )
    codes = codec.encode(prepared.samples)
    return VoicePrompt(codes, text, prepared.rms, warnings=tuple(warnings), codec=codec.fingerprint)


def voice_of_speech(
    plan: GenerationPlan, codes: Tensor, *, peak: float, codec: str, by_lora: bool = False
) -> VoicePrompt:
    """Return the first chunk as a voice, so that a described or automatic voice can be kept.

    peak: of the chunk's decoded samples. The voice's level makes later speech as loud as this one, whose peak was
    brought to 0.5. A chunk longer than a voice may be is cut; its text is then left out, because it would say more
    than the audio. A described voice has the description as its note of consent, but not with a LoRA (by_lora), with
    which it may be the voice of the person in the LoRA's recordings.
    """
    text = plan.chunks[0].text if codes.shape[1] <= MAX_VOICE_FRAMES else ""
    rms = SPEECH_RMS * UNVOICED_PEAK / max(peak, UNVOICED_PEAK)
    language = language_label(plan.language) if plan.language else ""
    consent = f"{DESIGNED}: {plan.instruct}"[:MAX_CONSENT_CHARS] if plan.instruct and not by_lora else ""
    kept = codes[:, :MAX_VOICE_FRAMES].clone()
    return VoicePrompt(kept, text, rms, language=language, consent=consent, codec=codec)


def check_voice(voice: VoicePrompt, codec: Codec) -> tuple[str, ...]:
    """Return the warnings about using `voice` with a model of this codec.

    Raises InputError for a voice beyond the limits or made with another codec.
    """
    if voice.frames > MAX_VOICE_FRAMES:
        raise InputError(
            f"a voice must be at most {MAX_VOICE_FRAMES} frames long, got {voice.frames}: encode 3-10 s of speech"
        )
    check_text_length(voice.text, name="voice text", limit=MAX_VOICE_TEXT_CHARS)
    if voice.codec and voice.codec != codec.fingerprint:
        raise InputError(
            f"this voice was made with another model's codec ({voice.codec}) and would come out as noise; this model's "
            f"codec is {codec.fingerprint}: make the voice again from its recording with this model"
        )
    highest, size, codebooks = int(voice.codes.max()), codec.config.codebook_size, codec.config.codebooks
    if voice.codes.shape[0] != codebooks or highest >= size:
        raise InputError(
            f"this voice has {voice.codes.shape[0]} codebooks and codes up to {highest}, the model {codebooks} and "
            f"{size - 1}: it was made with another model; make it again from its recording with this model"
        )
    return () if voice.codec else (UNKNOWN_CODEC,)


def _transcript(text: str, removed: Removed, rules: TextRules) -> str:
    """Return a transcript as the model reads it: clean, shielded, with final punctuation; empty if there is none."""
    text = clean_text(text, name="transcript", limit=MAX_VOICE_TEXT_CHARS)
    if not text.strip():
        return ""
    try:
        return end_punctuation(speakable(plain_text(rules.shielded(text, removed), removed, rules), removed, rules))
    except TextError:
        raise TextError("the transcript has no word in it: write what the recording says, or leave it empty") from None
