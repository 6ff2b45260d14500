"""Counts the right words of a model in training with the user's Whisper, which ComfyUI moves as any other model."""

from __future__ import annotations

from collections.abc import Sequence

from ...omnivoice.errors import InputError
from ...omnivoice.productions.right_words import WordTest
from ...omnivoice.text.languages import whisper_language_id
from ...omnivoice.train.settings import TrainSettings
from ...omnivoice.types import Waveform
from ..inputs.training import NO_RECOGNISER
from . import transcribe

INPUT = "recogniser"
OR_OFF = "or set stop_words_points to 0"


def recogniser_names() -> list[str]:
    """Return the menu of Whisper models."""
    return [NO_RECOGNISER, *transcribe.model_folders()]


def load_recogniser(settings: TrainSettings, name: object) -> transcribe.Whisper | None:
    """Return the named Whisper, or None if the words are not counted; raises InputError, CheckpointError, FileError."""
    if not settings.stop_words_points:
        return None
    if name in (None, NO_RECOGNISER):
        raise InputError(f"stop_words_points needs a Whisper model that counts the words: choose a {INPUT}, {OR_OFF}")
    return transcribe.load_whisper(name, input_name=INPUT, otherwise=OR_OFF)


class Listener:
    """A Whisper that counts the words of `test`. Raises InputError for a language that it does not know."""

    def __init__(self, whisper: transcribe.Whisper, test: WordTest) -> None:
        self.whisper, self.test = whisper, test
        self._languages = [None if one is None else whisper_language_id(one) for one in test.languages]
        transcribe.check_languages(whisper, self._languages)

    def share(self, waveforms: Sequence[Waveform]) -> float:
        """Return the share of right words, 0 to 1; raises ComfyUI's interrupt."""
        return self.test.share(transcribe.hear(self.whisper, waveforms, self._languages))
