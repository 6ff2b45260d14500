"""From rows of recordings and transcripts to a `Dataset` of codes: each row is checked, and each clip encoded once.

Texts and descriptions of voices are stored as generation would put them into the prompt, so training and generation
see the same prompts. A bad clip is rejected with a reason and does not stop the others. Codes are cached by content
(`code_cache`), so an interrupted run continues where it stopped. Nothing here forms batches or masks codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import torch

from ..audio.training_clip import VERSION, prepare_clip
from ..codec import CodecEncoder
from ..constants import FRAME_RATE
from ..devices import device_errors_in_words
from ..errors import FileError, InputError
from ..intake.audio_files import read_audio
from ..intake.cancel import hear_cancel
from ..intake.limits import MAX_LABEL_CHARS, MAX_VOICE_TEXT_CHARS
from ..intake.text_in import clean_text
from ..text.clean import plain_text, speakable
from ..text.design import MAX_CHARS, parse_design, render_design
from ..text.duration import rate_fault
from ..text.languages import language_id, own_languages
from ..text.removed import Removed
from ..text.rules import PUBLISHED, TextRules
from ..types import OnStep, Waveform
from .clips import Clip, Dataset, Rejected
from .code_cache import CodeCache, content_of
from .rows import Manifest, Row, some_names

_UNSET = ("", "none", "null")
_MAX_NAMED = 5


def graph_rows(recordings: Sequence[Waveform | InputError], texts: Sequence[str]) -> Manifest:
    """Return a manifest of recordings with one text each; an error in place of a recording rejects its row.

    Raises InputError if there are not as many texts as recordings.
    """
    if len(recordings) != len(texts):
        raise InputError(f"there must be one text for each recording, got {len(texts)} for {len(recordings)}")
    rows: list[Row] = []
    rejected: list[Rejected] = []
    for number, (recording, text) in enumerate(zip(recordings, texts), start=1):
        name = f"clip {number}"
        if isinstance(recording, Waveform):
            rows.append(Row(name, recording, text))
        else:
            rejected.append(Rejected(name, str(recording)))
    return Manifest("the audio input", tuple(rows), tuple(rejected))


def build_dataset(
    manifest: Manifest,
    encoder: CodecEncoder,
    device: torch.device | str,
    *,
    cache: str | PathLike[str] | None = None,
    language: str | None = None,
    instruct: str | None = None,
    on_clip: OnStep | None = None,
    on_read: Callable[[], None] | None = None,
    rules: TextRules = PUBLISHED,
) -> Dataset:
    """Check and encode every row; the encoder computes on `device`. rules: the model's for texts.

    cache: a folder for codes, created if needed; None for no cache. language, instruct: for rows without their own.
    on_clip gets (clips done, all clips), and on_read is called several times a second while a recording is read; both
    may raise, and the codes encoded so far stay in the cache. Raises InputError for an invalid language or instruct,
    and with the first five reasons if no clip is usable.
    """
    spoken, described = _language(language, rules), _label(instruct)
    config = encoder.config
    store = CodeCache(cache, f"{codec_identity(encoder)} {VERSION}", config.codebooks, config.codebook_size)
    reader = _Reader(encoder, torch.device(device), store, spoken, described, rules, on_read)
    clips: list[Clip] = []
    rejected = list(manifest.rejected)
    seen: set[tuple[str, str]] = set()
    copies: list[str] = []
    for done, row in enumerate(manifest.rows, start=1):
        try:
            clip, content = reader.clip(row)
        except (InputError, FileError) as error:
            rejected.append(Rejected(row.label, str(error)))
        else:
            if (content, clip.text) in seen:
                copies.append(row.label)
            seen.add((content, clip.text))
            clips.append(clip)
        if on_clip is not None:
            on_clip(done, len(manifest.rows))
    if not clips:
        raise _no_clip(manifest.source, rejected)
    same = [f"clips with the recording and text of an earlier one, all used: {some_names(copies)}"] if copies else []
    own = own_languages((clip.language for clip in clips), rules.languages)
    notes = (*manifest.notes, *same, *own, *rules.warnings(reader.removed, "texts"))
    return Dataset(tuple(clips), tuple(rejected), (*notes, *store.notes))


def _no_clip(source: str, rejected: Sequence[Rejected]) -> InputError:
    reasons = "; ".join(f"{row.name}: {row.reason}" for row in rejected[:_MAX_NAMED])
    return InputError(f"no usable clip in {source}, {len(rejected)} rejected: {reasons}")


def codec_identity(encoder: CodecEncoder) -> str:
    """Return the SHA-256, in hex, of the codec's configuration, its quantizer and the layer before it."""
    digest = hashlib.sha256(repr(encoder.config).encode())
    for part in (encoder.fc, encoder.quantizer):
        for name, weight in sorted(part.state_dict().items()):
            digest.update(f"{name} {tuple(weight.shape)}".encode())
            digest.update(weight.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Reader:
    """Turns rows into clips, with the help of the code cache. language, instruct: for rows without their own.

    removed: collects what the clean-up removes from their texts.
    """

    encoder: CodecEncoder
    device: torch.device
    store: CodeCache
    language: str | None
    instruct: str
    rules: TextRules
    on_read: Callable[[], None] | None
    removed: Removed = field(default_factory=Removed)

    def clip(self, row: Row) -> tuple[Clip, str]:
        """Return the clip and a hash of its recording; raises InputError or FileError with the reason to reject it."""
        shielded, pinyin = self._text(row.text, "the text"), ""
        text = self.rules.restored(shielded)
        if row.pinyin is not None and row.pinyin.strip().lower() not in _UNSET:
            pinyin = self.rules.restored(self._text(row.pinyin, "text_pinyin"))
        language = _language(row.language, self.rules) or self.language
        instruct = _instruct(_label(row.instruct) or self.instruct, text)
        content = content_of(row.audio)
        codes = self.store.read(content)
        if codes is None:
            audio = row.audio
            if isinstance(audio, Path):
                audio = read_audio(audio, require_complete=True, on_read=self.on_read)
            hear_cancel()
            samples = prepare_clip(audio)
            _check(shielded, row.clean_start, samples.shape[1] // self.encoder.config.hop_length)
            with device_errors_in_words(self.device, "close other programs that use it"):
                codes = self.encoder.encode(samples.to(self.device)).cpu()
            self.store.write(content, codes)
        else:
            _check(shielded, row.clean_start, codes.shape[1])
        with torch.inference_mode(False):  # hosts run nodes in inference mode, whose tensors cannot be trained on
            codes = codes.to(torch.int16).clone()
        return Clip(row.name, codes, text, language, instruct, pinyin or None, row.clean_start), content

    def _text(self, text: str, name: str) -> str:
        """Return the text as generation reads it, shielded."""
        cleaned = clean_text(text, name=name, limit=MAX_VOICE_TEXT_CHARS).strip()
        if not cleaned:
            raise InputError(f"{name} is empty: write the words of the recording")
        shielded = self.rules.shielded(cleaned, self.removed)
        return speakable(plain_text(shielded, self.removed, self.rules), self.removed, self.rules)


def _language(name: str | None, rules: TextRules) -> str | None:
    """Return the id of a language, or None; raises InputError for an unknown one, which would be lost silently."""
    if name is not None and len(name) > MAX_LABEL_CHARS:
        raise InputError(f"language must be at most {MAX_LABEL_CHARS} characters, got {len(name)}")
    return None if name is None else language_id(name, rules.languages)


def _label(instruct: str | None) -> str:
    """Return an instruct on one line, empty if there is none."""
    cleaned = " ".join(clean_text(instruct or "", name="instruct", limit=MAX_CHARS).split())
    return "" if cleaned.lower() in _UNSET else cleaned


def _instruct(label: str, text: str) -> str | None:
    """Return a described voice as generation spells it for this text; other labels, such as names, are unchanged."""
    if not label:
        return None
    try:
        design = parse_design(label)
    except InputError:
        return label
    return label if design is None else render_design(design, text)


def _check(text: str, clean_start: int | None, frames: int) -> None:
    seconds = frames / FRAME_RATE
    if problem := rate_fault(text, seconds):
        raise InputError(f"its text is {problem} for {seconds:.1f} s of speech: check that it is the transcript")
    if clean_start is not None and clean_start >= frames:
        raise InputError(f"clean_start_token_idx must be below its {frames} frames, got {clean_start}")
