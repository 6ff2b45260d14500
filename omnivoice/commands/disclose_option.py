"""`--disclose`: a spoken notice that a recording was made with AI, in the voice of the recording."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from ..engine import Engine
from ..errors import InputError
from ..productions.disclosure import GAP_SECONDS, PLACES, notice_of, with_notice
from ..productions.takes import SpeakWithRetries
from ..types import GenerationRequest, Speech, Waveform
from .text_input import text_argument


@dataclass(frozen=True)
class Notice:
    """What to say, in which language (None: the model infers it), and where."""

    text: str
    language: str | None
    place: str


def add_disclose_options(parser: argparse.ArgumentParser) -> None:
    """Add --disclose and --disclose-text."""
    parser.add_argument(
        "--disclose",
        choices=PLACES,
        help="say before the speech, after it, or both, that it was made with AI; in the language of --language",
    )
    parser.add_argument(
        "--disclose-text", metavar="TEXT", help="your own words for this notice, in place of a ready sentence"
    )


def chosen_notice(options: argparse.Namespace) -> Notice | None:
    """Return the notice that the options ask for, or None; raises InputError, before a model is loaded."""
    if options.disclose is None:
        if options.disclose_text is not None:
            raise InputError("--disclose-text needs --disclose: say where it goes, as in --disclose before")
        return None
    text, language = notice_of(text_argument(options.disclose_text or "", "--disclose-text"), options.language)
    return Notice(text, language, options.disclose)


def disclosed(notice: Notice, engine: Engine, speech: Speech, speak: SpeakWithRetries) -> tuple[Waveform, Speech]:
    """Return the speech with the notice in the same voice, and the speech of the notice itself."""
    sampling = GenerationRequest("").sampling if speech.request is None else speech.request.sampling
    request = GenerationRequest(
        notice.text, language=notice.language, voice=speech.voice, seed=speech.seed, sampling=sampling
    )
    (spoken,) = speak(engine.plan([request]))
    waveform, _ = with_notice(speech.waveform, spoken.waveform, notice.place, GAP_SECONDS)
    return waveform, spoken
