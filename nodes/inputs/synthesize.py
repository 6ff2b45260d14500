"""Turns the inputs of Synthesize and Settings into the engine's requests, and the engine's results into a report.

Every input of Synthesize is a list. A list on any of them (lines of a text, voices of a batch) makes one request for
each item; shorter lists repeat their last value, as everywhere in ComfyUI. None means "not connected". Only what the
engine does not know (sockets, presets, lines) is checked here; numbers, switches and texts are checked by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...omnivoice.constants import FRAME_RATE
from ...omnivoice.errors import InputError, TextError
from ...omnivoice.generate.items import first_words
from ...omnivoice.generate.plan import checked_request, make_plan
from ...omnivoice.generate.presets import PRESETS, find_preset
from ...omnivoice.generate.written import unused_entries
from ...omnivoice.intake.limits import MAX_REQUESTS, check_run_length, check_switch
from ...omnivoice.types import Dictionary, GenerationRequest, Sampling, Speech, VoiceDesign, VoicePrompt
from .. import host

AUTO = "auto"
TOKEN_LIKE = re.compile(r"<\|[^<>|\s]{1,64}\|>")
PRESET = next(iter(PRESETS))  # the default
SHOWN_LABELS = 5
LONG_SECONDS = 600  # on a CPU, finishing them takes about half a GB beside the weights
TOO_LONG = (
    f"this is more than {LONG_SECONDS // 60} minutes of speech: OmniVoice Long Text needs less memory, keeps what is "
    "finished after a stop, and can be heard while it is made"
)
FROM_PRESET = ("steps", "unconditional_every", "prefix_every")  # 0 leaves them to the preset
LEFT_TO_THE_MODEL = ("text_as_written",)  # False leaves it to the model
OWN_LINES = (
    "text",
    "given",
    "voice",
    "design",
    "language",
    "seed",
    "sampling",
    "steps",
    "guidance",
    "dictionary",
)  # of the report
DEFAULTS = GenerationRequest(text="")


@dataclass(frozen=True)
class SpeechSettings:
    """What an OMNIVOICE_SETTINGS socket carries: the values that Settings gives, by name, checked by the engine.

    A value that is missing is the preset's, what the model recommends, or the engine's default.
    """

    values: Mapping[str, Any]

    def apply(self, request: GenerationRequest) -> GenerationRequest:
        """Return a copy of `request` with these values."""
        sampling = {name: value for name, value in self.values.items() if hasattr(request.sampling, name)}
        options = {name: value for name, value in self.values.items() if name not in sampling}
        given = request.given.union(self.values)
        return replace(request, sampling=replace(request.sampling, **sampling), given=given, **options)


def settings_from(inputs: Mapping[str, object]) -> SpeechSettings:
    """Return the settings that the widgets of Settings give. Raises InputError for a value that is out of range."""
    given = {name: value for name, value in inputs.items() if value is not None}
    by_preset = [name for name in FROM_PRESET if type(given.get(name)) is int and given[name] == 0]
    unset = [name for name in LEFT_TO_THE_MODEL if given.get(name) is False]
    settings = SpeechSettings({name: value for name, value in given.items() if name not in (*by_preset, *unset)})
    checked_request(settings.apply(DEFAULTS))
    return settings


def requests_from(inputs: Mapping[str, Sequence[object]]) -> dict[str, GenerationRequest]:
    """Return {label: request} for each item of the longest list, or for each line where split_lines is on.

    A label names the item of the list or the line of the text, with its first words; it is empty for a single item.
    Raises InputError, which starts with the label.
    """
    sizes = {name: len(values) for name, values in inputs.items()}
    if 0 in sizes.values():
        raise InputError(f"{', '.join(name for name, size in sizes.items() if not size)} is an empty list")
    count = max(sizes.values())
    _check_count(count)
    rows = [{name: values[min(i, len(values) - 1)] for name, values in inputs.items()} for i in range(count)]
    check_run_length(row.get("text") for row in rows)
    places = [f"item {i} of {count}" if count > 1 else "" for i in range(1, count + 1)]
    spoken = [(line, text, row) for row, place in zip(rows, places) for line, text in _lines(row, place)]
    _check_count(len(spoken))
    requests = {}
    for place, text, row in spoken:
        label = f"{place} {first_words(text)}" if len(spoken) > 1 else ""
        given = {name: value for name, value in row.items() if value is not None and name != "split_lines"}
        with host.values.naming(label):
            requests[label] = request_from({**given, "text": text})
    return requests


def _check_count(count: int) -> None:
    if count > MAX_REQUESTS:
        raise InputError(f"at most {MAX_REQUESTS} texts can be spoken at once, got {count}: split the list")


def _lines(row: Mapping[str, object], place: str) -> list[tuple[str, object]]:
    """Return [(place, text)], or one pair for each line of the text that is not blank, numbered as in the text."""
    split, text = row.get("split_lines"), row.get("text")
    with host.values.naming(place):
        check_switch("split_lines", False if split is None else split)
    lines = text.splitlines() if split and isinstance(text, str) else []
    before = f"{place}, " * bool(place)
    return [(f"{before}line {i}", line) for i, line in enumerate(lines, 1) if line.strip()] or [(place, text)]


def request_from(given: Mapping[str, Any]) -> GenerationRequest:
    """Return the request of one item, from inputs by name without None. The engine checks what is not checked here."""
    voice, design, settings = given.get("voice"), given.get("design"), given.get("settings", SpeechSettings({}))
    host.values.checked(SpeechSettings, settings, "settings", "OmniVoice Settings")
    if voice is not None:
        host.values.checked(VoicePrompt, voice, "voice", "Reference Audio, Load Voice or another Synthesize")
    if design is not None:
        host.values.checked(VoiceDesign, design, "design", "Voice Design Attributes")
    dictionary = given.get("dictionary")
    if dictionary is not None:
        host.values.checked(Dictionary, dictionary, "dictionary", "OmniVoice Pronunciation Dictionary")
    preset, language, duration = given.get("preset", PRESET), given.get("language", AUTO), given.get("duration", 0)
    request = GenerationRequest(
        text=given.get("text"),
        voice=voice,
        design=design,
        language=None if language == AUTO else language,
        seed=given.get("seed", 0),
        speed=given.get("speed", 1.0),
        duration=None if type(duration) in (int, float) and duration == 0 else duration,
        exact_length=given.get("exact_length", False),
        sampling=find_preset(preset).apply(Sampling()),
        dictionary=dictionary,
    )
    return settings.apply(request)


def validate_text(text: object) -> bool | str:
    """Return True, or why the text cannot be spoken. `text` is a list of one, and holds None if it is linked."""
    return host.values.validate(_check_text, text[0] if isinstance(text, list) else None)


def _check_text(text: Any) -> None:
    if text == "None":  # ComfyUI turns a null in a prompt over HTTP into this string
        raise InputError('text must be a string, got None: write a text, or "None." to speak the word')
    try:
        make_plan(GenerationRequest(text, seed=0))
    except TextError:
        if not (isinstance(text, str) and TOKEN_LIKE.search(text)):
            raise  # but with a token of its own, only the model can tell


def warnings_of(spoken: Mapping[str, Speech]) -> tuple[str, ...]:
    """Return every warning once. One that is not about the whole batch starts with the labels of its items."""
    labels: dict[str, list[str]] = {}
    for label, speech in spoken.items():
        long = (TOO_LONG,) if speech.seconds > LONG_SECONDS else ()
        for warning in dict.fromkeys((*speech.warnings, *long)):
            labels.setdefault(warning, []).append(label)
    return tuple(
        warning if len(about) == len(spoken) else f"{_listed(about)}: {warning}" for warning, about in labels.items()
    )


def _listed(labels: Sequence[str]) -> str:
    more = len(labels) - SHOWN_LABELS
    return ", ".join(labels[:SHOWN_LABELS]) + (f" and {more} more" if more > 0 else "")


def reports(requests: Mapping[str, GenerationRequest], spoken: Mapping[str, Speech]) -> list[str]:
    """Return the report of each item; the last one also says which entries of the dictionary no item used."""
    texts = [report(requests[label], one) for label, one in spoken.items()]
    return [*texts[:-1], "\n".join([*texts[-1:], *unused_entries([*spoken.values()])])]


def report(request: GenerationRequest, speech: Speech) -> str:
    """Return what was spoken and with which settings, as several lines of plain text."""
    request = request if speech.request is None else speech.request
    sampling, frames = request.sampling, [codes.shape[1] for codes in speech.codes]
    lines = [
        f"{speech.seconds:.2f} s, seed {speech.seed}, {sampling.steps} steps, guidance {sampling.guidance:g}",
        f"voice: {_voice(request)}; language: {request.language or AUTO}",
        f"frames: {sum(frames)} ({FRAME_RATE} a second) in {len(frames)} chunks",
        *(f"  {count:>5}  {text}" for count, text in zip(frames, speech.chunks)),
    ]
    used, defaults = ({**vars(one), **vars(one.sampling)} for one in (request, replace(DEFAULTS, speed=1.0)))
    changed = [f"{n} {value}" for n, value in used.items() if n not in OWN_LINES and value != defaults[n]]
    lines += [f"settings: {', '.join(changed)}"] if changed else []
    return "\n".join([*lines, *speech.notes, *(f"warning: {warning}" for warning in speech.warnings)])


def _voice(request: GenerationRequest) -> str:
    if request.voice is not None:
        name = f"{request.voice.name!r}, " if request.voice.name else ""
        return f"{name}a recording of {request.voice.frames / FRAME_RATE:.1f} s"
    if isinstance(request.design, VoiceDesign):
        return f"designed: {', '.join(request.design.attributes)}"
    return "the model's own choice"


def summary(requests: Mapping[str, GenerationRequest], spoken: Mapping[str, Speech]) -> str:
    """Return one line for the node: what was spoken."""
    if len(spoken) == 1:
        ((label, speech),) = spoken.items()
        return report(requests[label], speech).partition("\n")[0]
    return f"{len(spoken)} recordings, {sum(speech.seconds for speech in spoken.values()):.2f} s"
