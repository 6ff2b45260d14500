"""Turns the inputs of Subtitles into cues, a cast and options. None means "not connected"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...omnivoice.generate.presets import find_preset
from ...omnivoice.productions.cast import Cast, Speaker
from ...omnivoice.productions.cues import Subtitles
from ...omnivoice.productions.subtitle_parser import parse_subtitles
from ...omnivoice.productions.subtitle_report import not_spoken
from ...omnivoice.productions.subtitle_report import summary as summary
from ...omnivoice.productions.subtitle_schedule import DEFAULT_REQUEST, SubtitleOptions
from ...omnivoice.productions.subtitles import SpokenSubtitles
from ...omnivoice.text.rules import PUBLISHED, TextRules
from ...omnivoice.types import Dictionary, GenerationRequest, Sampling, VoiceDesign, VoicePrompt
from .. import host
from .cast import cast_from
from .synthesize import AUTO, DEFAULTS, PRESET, SpeechSettings

MAX_SHOWN = 10  # texts that are not spoken, on the node; the report has all
OWN = ("pad_seconds", "fade_seconds")  # Settings' own defaults leave them as short as cues need


def production_from(
    inputs: Mapping[str, object], rules: TextRules = PUBLISHED
) -> tuple[Subtitles, Cast, SubtitleOptions]:
    """Return the cues, the cast and the options; raises InputError for a value that is not allowed."""
    given = {name: value for name, value in inputs.items() if value is not None}
    voice, design = given.get("voice"), given.get("design")
    if voice is not None:
        host.values.checked(VoicePrompt, voice, "voice", "Reference Audio, Load Voice or Synthesize")
    if design is not None:
        host.values.checked(VoiceDesign, design, "design", "Voice Design Attributes")
    cast = Cast(cast_from(given.get("names"), given.get("voices")), Speaker("", voice, design))
    defaults = SubtitleOptions()
    options = SubtitleOptions(
        given.get("mode", defaults.mode),
        given.get("total_seconds", defaults.total_seconds),
        given.get("slowest_rate", defaults.slowest_rate),
        _request(given),
    )
    return parse_subtitles(given.get("subtitles"), cast.names, rules), cast, options.checked()


def _request(given: Mapping[str, object]) -> GenerationRequest:
    """Return what all cues have in common."""
    settings = given.get("settings", SpeechSettings({}))
    host.values.checked(SpeechSettings, settings, "settings", "OmniVoice Settings")
    values = {name: value for name, value in settings.values.items() if _is_set(name, value)}
    language, dictionary = given.get("language", AUTO), given.get("dictionary")
    if dictionary is not None:
        host.values.checked(Dictionary, dictionary, "dictionary", "OmniVoice Pronunciation Dictionary")
    request = replace(
        DEFAULT_REQUEST,
        language=None if language == AUTO else language,
        seed=given.get("seed", 0),
        sampling=find_preset(given.get("preset", PRESET)).apply(Sampling()),
        dictionary=dictionary,
    )
    return SpeechSettings(values).apply(request)


def _is_set(name: str, value: object) -> bool:
    return name not in OWN or value != getattr(DEFAULTS, name)


def validate_subtitles(text: object) -> bool | str:
    """Return True, or why the subtitles cannot be read. None is a linked value, which ComfyUI does not know yet."""
    return host.values.validate(parse_subtitles, text)


def warnings_of(spoken: SpokenSubtitles) -> tuple[str, ...]:
    """Return what the user should know, the first texts that are not spoken included."""
    return (*not_spoken(spoken, most=MAX_SHOWN), *spoken.subtitles.notes, *spoken.warnings)
