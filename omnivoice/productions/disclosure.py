"""A spoken notice that a recording was made with AI, put before it, after it, or both.

The notice is as loud as the speech in the recording and has its sample rate and channels. The recording's own samples
stay as they are. The sentences are in text/disclosure.json; any other text may be spoken instead.
"""

from __future__ import annotations

from typing import TypeVar, cast

import torch

from ..audio.loudness import RMS_FLOOR, level_of_speech
from ..audio.resample import resample
from ..errors import AudioError, InputError
from ..intake.limits import MAX_NOTICE_CHARS, MAX_TOTAL_SECONDS, check_choice, check_number, check_text_length, shown
from ..intake.tables import load_table
from ..text.languages import language_id, language_options
from ..types import Waveform
from .lines import MAX_PEAK

BEFORE, AFTER, BOTH = PLACES = ("before", "after", "both")
_Language = TypeVar("_Language")
GAP_SECONDS = 0.5
DEFAULT_LANGUAGE = "en"


def notice_languages() -> list[str]:
    """Return the names of the languages that have a sentence, sorted."""
    sentences = _sentences()
    return [name for code, name in language_options() if code in sentences]


def notice_of(text: object, language: _Language) -> tuple[str, _Language | str]:
    """Return what to say and in which language: `text`, or the sentence of the language if `text` is blank.

    Without a text and a language, the sentence is English. Raises TextError for a text that is not a string or too
    long, InputError for a language that has no sentence.
    """
    own = check_text_length(text, name="the text of the notice", limit=MAX_NOTICE_CHARS)
    if own.strip():
        return own, language
    code, sentences = language_id(language) or DEFAULT_LANGUAGE, _sentences()
    if code not in sentences:
        raise InputError(
            f"there is no sentence in language {shown(language)}: write the text of the notice yourself, or choose "
            f"{', '.join(notice_languages())}"
        )
    return sentences[code], code


def check_placement(place: object, gap_seconds: object) -> tuple[str, float]:
    """Return where the notice goes and the silence between it and the recording; raises InputError."""
    return check_choice("place", place, PLACES), check_number("gap_seconds", gap_seconds)


def with_notice(recording: Waveform, notice: Waveform, place: str, gap_seconds: float) -> tuple[Waveform, float]:
    """Return a recording [C, N] with a notice [1, M] of any rate, and at which second the recording starts in it.

    The notice comes to the level of the speech in the recording, as near as its peak allows, and is the same in every
    channel. Raises AudioError for a result of more than `MAX_TOTAL_SECONDS`.
    """
    rate, samples = recording.sample_rate, recording.samples
    spoken = resample(notice.samples, notice.sample_rate, rate)
    spoken = (spoken * _gain(recording, Waveform(spoken, rate))).expand(samples.shape[0], -1)  # [C, M]
    gap = samples.new_zeros(samples.shape[0], round(gap_seconds * rate))
    before = [] if place == AFTER else [spoken, gap]
    after = [] if place == BEFORE else [gap, spoken]
    parts = [*before, samples, *after]
    seconds = sum(part.shape[1] for part in parts) / rate
    if seconds > MAX_TOTAL_SECONDS:
        raise AudioError(
            f"with the notice, the audio would last {seconds / 3600:.1f} hours, at most {MAX_TOTAL_SECONDS // 3600} "
            "are allowed: split it"
        )
    return Waveform(torch.cat(parts, dim=1), rate), sum(part.shape[1] for part in before) / rate


def _gain(recording: Waveform, notice: Waveform) -> float:
    """Return the factor for the notice. A silent recording leaves it as it is, a faint one does not make it faint."""
    own, level = (level_of_speech(one.samples, one.sample_rate) for one in (notice, recording))
    if not own or not level:
        return 1.0
    return min(max(level, RMS_FLOOR) / own, MAX_PEAK / float(notice.samples.abs().max()))


def _sentences() -> dict[str, str]:
    return cast("dict[str, dict[str, str]]", load_table("text/disclosure.json"))["sentences"]
