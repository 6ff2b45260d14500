"""Preparing a recording to be encoded as a voice: one channel, 24 kHz, speech level, silences shortened.

On an ordinary clip the result equals upstream's create_voice_clone_prompt (models/omnivoice.py:729,
preprocess_prompt=True) sample for sample. A long recording without a transcript is cut where upstream cuts it, but
from the first speech on, and what is left must hold speech, where upstream may make a voice of silence. An unsuitable
clip is refused with a reason or used with a warning (`PreparedReference.warnings`). As in upstream, peaks that
amplification drives over 1 are clipped, since quiet clips are common. This module neither encodes nor transcribes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..constants import HOP, SAMPLE_RATE
from ..errors import AudioError
from ..intake.cancel import hear_cancel
from ..intake.limits import MAX_VOICE_SECONDS, MIN_VOICE_SECONDS
from ..types import Waveform
from .loudness import raise_to_speech, rms, to_mono, without_offset
from .resample import resample
from .silence import SEEK_MS, Clip, grid_clip, remove_silence, silent_ranges
from .speech import Speech, find_speech

SILENT_RANGE = 2 / 32768  # peak to peak: one 16-bit step around a constant
SILENT = "the reference is silent: check that the right track was recorded"
LOW_RATE_HZ = 16_000
CLIPPED_PEAK, CLIPPED_SHARE = 0.9999, 5e-4
SHORT_SECONDS = 1.0
LONG_SECONDS = 20.0  # models/omnivoice.py:800, utils/audio.py:258
# Up to this much before the first word is left to the ordinary trimming of silence, as in upstream; of more, a little
# stays, since words begin softly. The same holds for what follows the last word of a cut recording.
LEAD_SECONDS, KEPT_SECONDS = 1.0, 0.2
FEW_SECONDS = 2.0  # of sound in what is left of a long recording
LOWER_DB = -70.0  # 50 dB below speech level
TRIM_LIMIT_MS, TRIM_SPEECH_MS, TRIM_SEARCH_MS = 15_000, 1_000, 10_000
PAUSE_MS, PAUSE_DB = 100, -40.0  # a pause that may end a trimmed reference, utils/audio.py:278
END_SECONDS, VOICED_END = 0.05, 0.25  # 12 dB below the level of the recording


@dataclass(frozen=True, eq=False)
class PreparedReference:
    """samples: [1, N] float32 at 24 kHz, N a multiple of the codec's hop. rms: level before amplification."""

    samples: Tensor
    rms: float
    warnings: tuple[str, ...] = ()


def prepare_reference(waveform: Waveform, *, has_text: bool = True) -> PreparedReference:
    """Return what the codec encodes, from a recording of any rate and channel count.

    has_text: there is a transcript, so the recording must not be trimmed. Without one, a recording of more than 20 s
    begins at its first speech, and is trimmed to at most 15 s, up to a pause, if more than 20 s are left. Raises
    AudioError if the recording is empty or silent, holds NaN or infinite samples, is shorter than 0.5 s or longer than
    60 s, has a rate outside 4,000-384,000 Hz, or if no speech is found in one that is to be trimmed.
    """
    warnings: list[str] = []
    _refuse_unusable(waveform)
    samples = resample_audible(_mono(waveform, warnings), waveform.sample_rate, SILENT)
    is_long, start = not has_text and samples.shape[1] / SAMPLE_RATE > LONG_SECONDS, 0
    if is_long:
        start = _start(samples)
        samples = samples[:, start:]
    level = rms(samples)
    raised = raise_to_speech(samples, level)
    if is_long:
        raised = _trim_long(raised, samples, warnings)
        warnings.append(_which_part(waveform.seconds, start / SAMPLE_RATE, raised.shape[1] / SAMPLE_RATE))
    elif not has_text and find_speech(samples, SAMPLE_RATE) is None:
        warnings.append("no speech was found in the reference: listen to it, and give 3-10 s of one speaker")
    hear_cancel()
    samples = _shorten_silences(raised, warnings)
    hear_cancel()
    _warn_of_length_and_end(samples, warnings)
    N = samples.shape[1] // HOP * HOP
    return PreparedReference(samples[:, :N], level, tuple(warnings))


def _refuse_unusable(waveform: Waveform) -> None:
    samples, seconds = waveform.samples, waveform.seconds
    if samples.shape[1] == 0:
        raise AudioError("the reference is empty, got 0 samples: give 3-10 s of one speaker")
    if seconds < MIN_VOICE_SECONDS:
        raise AudioError(
            f"the reference must be at least {MIN_VOICE_SECONDS} s long, got {seconds:.3f} s: "
            "give 3-10 s of one speaker"
        )
    if seconds > MAX_VOICE_SECONDS:
        raise AudioError(
            f"the reference must be at most {MAX_VOICE_SECONDS} s long, got {seconds:.3f} s: cut 3-10 s out of it"
        )
    if not bool(torch.isfinite(samples).all()):
        raise AudioError("the reference must be finite, got NaN or infinite samples: export the recording again")


def resample_audible(mono: Tensor, sample_rate: int, message: str) -> Tensor:
    """Resample [1, N] to 24 kHz; raises AudioError with `message` if it is silent before or afterwards."""
    samples = resample(mono, sample_rate, SAMPLE_RATE)
    hear_cancel()
    for audio in (mono, samples):  # everything audible may have been above the new Nyquist frequency
        if float(audio.max() - audio.min()) < SILENT_RANGE:
            raise AudioError(message)
    return samples


def _mono(waveform: Waveform, warnings: list[str]) -> Tensor:
    """Mix to [1, N]; scale to peak 1 if the recording is clipped and goes beyond 1."""
    if waveform.sample_rate < LOW_RATE_HZ:
        warnings.append(
            f"the reference's sample rate is {waveform.sample_rate} Hz: below {LOW_RATE_HZ} Hz the voice sounds dull"
        )
    hear_cancel()
    mono, problem = to_mono(waveform.samples)
    hear_cancel()
    if problem:
        warnings.append(f"only one channel of the reference is used: {problem}")
    size = mono.abs()
    if _share(size >= CLIPPED_PEAK) > CLIPPED_SHARE or _is_clipped_off_centre(waveform.samples):
        warnings.append("the reference is clipped (many samples at or over full scale): record it more quietly")
        mono = mono / max(1.0, float(size.max()))
    return mono


def _share(these: Tensor) -> float:
    return float(these.to(torch.float32).mean())


def _is_clipped_off_centre(samples: Tensor) -> bool:
    """Whether a recording with an offset is clipped: once the offset is removed, its peaks are not at full scale."""
    size = samples.abs()
    return without_offset(samples) is not samples and _share((size >= CLIPPED_PEAK) & (size <= 1)) > CLIPPED_SHARE


def _start(samples: Tensor) -> int:
    """Return the sample at which the voice of a long recording begins: 0, or a little before the first speech."""
    speech = _speech(samples)
    return 0 if speech.start <= LEAD_SECONDS * SAMPLE_RATE else speech.start - round(KEPT_SECONDS * SAMPLE_RATE)


def _speech(samples: Tensor) -> Speech:
    speech = find_speech(samples, SAMPLE_RATE)
    if speech is None:
        raise AudioError(
            "no speech was found in the reference, which is long and has no transcript, only silence, steady noise or "
            "short sounds: cut 3-10 s of one speaker out of it, or add the words that are spoken in it"
        )
    return speech


def _trim_long(raised: Tensor, samples: Tensor, warnings: list[str]) -> Tensor:
    """Return what is used of a recording that begins with speech, and check that it is speech.

    raised: `samples` at the level of speech. Their own level is what tells the noise of a room from a voice.
    """
    if raised.shape[1] / SAMPLE_RATE > LONG_SECONDS:
        raised = _cut_long(raised)
    speech = _speech(samples[:, : raised.shape[1]])
    if raised.shape[1] - speech.end > LEAD_SECONDS * SAMPLE_RATE:
        raised = raised[:, : speech.end + round(KEPT_SECONDS * SAMPLE_RATE)]
    if not speech.is_clear:
        warnings.append(
            "the reference's level hardly changes, so it may be noise rather than speech: listen to it, and cut 3-10 s "
            "of one speaker out of it"
        )
    elif speech.seconds < FEW_SECONDS:
        warnings.append(
            f"only {speech.seconds:.1f} s of the reference seem to be speech: cut 3-10 s of one speaker out of it"
        )
    return raised


def _which_part(seconds: float, start: float, used: float) -> str:
    part = f"{start:.1f}-{start + used:.1f} s, from the first speech on," if start else f"its first {used:.1f} s"
    return f"the reference is {seconds:.1f} s long and has no transcript: only {part} are used"


def _cut_long(samples: Tensor) -> Tensor:
    """Keep at most the first 15 s, up to the last pause that has at least 1 s of audio before it.

    Without such a pause, cut in the quietest 100 ms between 10 and 15 s. Upstream (utils/audio.py:249) cuts at exactly
    15 s if it finds no pause after 3 s.
    """
    clip = grid_clip(samples, SAMPLE_RATE)
    pauses = silent_ranges(clip, PAUSE_MS, PAUSE_DB)
    first_audio_ms = pauses[0][1] if pauses and pauses[0][0] == 0 else 0
    ends = [
        min(end, TRIM_LIMIT_MS)
        for start, end in pauses
        if start >= first_audio_ms + TRIM_SPEECH_MS and start + PAUSE_MS <= TRIM_LIMIT_MS
    ]
    end = ends[-1] if ends else _quietest_end(clip)
    return clip.cut(0, end).samples[None]


def _quietest_end(clip: Clip) -> int:
    """Return the end, in ms, of the quietest 100 ms between 10 and 15 s of a clip that is longer than that."""
    ends = torch.arange(TRIM_SEARCH_MS, TRIM_LIMIT_MS + 1, SEEK_MS)
    samples_per_ms = clip.sample_rate / 1000.0
    after = clip.energy[(ends * samples_per_ms).to(torch.int64)]
    before = clip.energy[((ends - PAUSE_MS) * samples_per_ms).to(torch.int64)]
    return int(ends[(after - before).argmin()])


def _shorten_silences(samples: Tensor, warnings: list[str]) -> Tensor:
    """Shorten silences as upstream does, but with a lower threshold or not at all if too little would be left.

    That happens to a quiet recording with loud moments, which determine the level that it is amplified to.
    """
    least = MIN_VOICE_SECONDS * SAMPLE_RATE
    shortened = remove_silence(samples, SAMPLE_RATE, mid_ms=200, lead_ms=100, trail_ms=200)
    if shortened.shape[1] >= least:
        return shortened
    warnings.append("almost all of the reference is as quiet as silence: its quiet parts are kept")
    shortened = remove_silence(samples, SAMPLE_RATE, mid_ms=200, lead_ms=100, trail_ms=200, threshold_db=LOWER_DB)
    return shortened if shortened.shape[1] >= least else samples.clamp(-1.0, 1.0)


def _warn_of_length_and_end(samples: Tensor, warnings: list[str]) -> None:
    seconds = samples.shape[1] / SAMPLE_RATE
    if seconds < SHORT_SECONDS:
        warnings.append(f"the reference holds only {seconds:.2f} s of audio: give 3-10 s")
    if seconds > LONG_SECONDS:
        warnings.append(
            f"the reference is {seconds:.1f} s long: above {LONG_SECONDS:.0f} s speech is slower and less like the "
            "voice; 3-10 s are best"
        )
    if rms(samples[:, -int(END_SECONDS * SAMPLE_RATE) :]) > VOICED_END * rms(samples):
        warnings.append(
            "the reference ends without a pause: end it with a pause of 0.2 s, otherwise speech may start badly"
        )
