"""From the widgets of Synthesize to the engine's requests, and from its results to a report.

What is unusual: every input is a list. A list on any of them (lines of a text, voices of a batch) makes one request
for each item; shorter lists repeat their last value, as everywhere in ComfyUI. Every value is checked here once more:
linked ones skip ComfyUI's own checks. Schema and sockets are `synthesize`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...omnivoice.constants import FRAME_RATE
from ...omnivoice.errors import InputError
from ...omnivoice.generate.plan import CHUNKING, make_plan
from ...omnivoice.generate.presets import PRESETS
from ...omnivoice.intake.limits import check_number, check_whole, shown
from ...omnivoice.types import GenerationRequest, Sampling, Speech, VoiceDesign, VoicePrompt
from .. import host

AUTO = "auto"
CUSTOM = "custom"
STEPS = Sampling().steps
EXPERIMENTAL = "experimental_"
MAX_REQUESTS = 10_000
NUMBERS = ("pad_seconds", "fade_seconds", "chunk_seconds", "chunk_threshold_seconds")
SWITCHES = ("exact_length", "denoise", "post_process")
SAMPLING = ("guidance", "t_shift", "layer_penalty", "position_temperature", "class_temperature")
EXPERIMENTS = ("unconditional_every", "prefix_every")


def requests_from(inputs: Mapping[str, Sequence[object]]) -> list[GenerationRequest]:
    """One request for each item of the longest list, or for each line where split_lines is on; raises InputError."""
    sizes = {name: len(values) for name, values in inputs.items()}
    if 0 in sizes.values():
        raise InputError(f"{', '.join(name for name, size in sizes.items() if not size)} is an empty list")
    items = [
        {name: values[min(i, len(values) - 1)] for name, values in inputs.items()} for i in range(max(sizes.values()))
    ]
    requests = [_request(line) for item in items for line in _lines(item)]
    if len(requests) > MAX_REQUESTS:
        raise InputError(f"at most {MAX_REQUESTS} texts can be spoken at once, got {len(requests)}: split the list")
    return requests


def _lines(item: Mapping[str, object]) -> list[dict[str, object]]:
    """The item as it is, or once for each line of its text that is not blank."""
    rest = {name: value for name, value in item.items() if name != "split_lines"}
    if not _switch("split_lines", item.get("split_lines", False)):
        return [rest]
    lines = [line for line in _string("text", item["text"]).splitlines() if line.strip()]
    return [{**rest, "text": line} for line in lines] or [rest]


def _request(item: Mapping[str, object]) -> GenerationRequest:
    voice, design, duration = item.get("voice"), item.get("design"), item.get("duration", 0.0)
    language, chunking = _string("language", item.get("language", AUTO)), item.get("chunking", CHUNKING[0])
    if voice is not None:
        voice = host.values.checked(VoicePrompt, voice, "voice", "Reference Audio, Load Voice or another Synthesize")
    if design is not None:
        design = host.values.checked(VoiceDesign, design, "design", "Voice Design Attributes")
    if not isinstance(chunking, str) or chunking not in CHUNKING:
        raise InputError(f"chunking must be one of {', '.join(CHUNKING)}, got {shown(chunking)}")
    return GenerationRequest(
        text=_string("text", item["text"]),
        voice=voice,
        design=design,
        language=None if language == AUTO else language,
        seed=check_whole("seed", item.get("seed", 0)),
        speed=check_number("speed", item.get("speed", 1.0)),
        # 0 stands for "not given"; anything else must be a duration, so -1 and NaN are refused.
        duration=None if type(duration) in (int, float) and duration == 0 else check_number("duration", duration),
        sampling=_sampling(item),
        chunking=chunking,
        **{name: _switch(name, item[name]) for name in SWITCHES if name in item},
        **{name: check_number(name, item[name]) for name in NUMBERS if name in item},
    )


def _sampling(item: Mapping[str, object]) -> Sampling:
    preset = item.get("preset", CUSTOM)
    if not isinstance(preset, str) or preset not in (CUSTOM, *PRESETS):
        raise InputError(f"preset must be one of {', '.join((CUSTOM, *PRESETS))}, got {shown(preset)}")
    sampling = Sampling(
        steps=check_whole("steps", item.get("steps", STEPS)),
        **{name: check_number(name, item[name]) for name in SAMPLING if name in item},
        **{name: check_number(name, item[EXPERIMENTAL + name]) for name in EXPERIMENTS if EXPERIMENTAL + name in item},
    )
    return PRESETS[preset].apply(sampling) if preset in PRESETS else sampling


def _string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, got {shown(value)}")
    return value


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {shown(value)}")
    return value


def steps_warnings(inputs: Mapping[str, Sequence[object]], requests: Sequence[GenerationRequest]) -> list[str]:
    """The steps widgets that a preset overrides."""
    taken = {request.sampling.steps for request in requests}
    lost = sorted({asked for asked in inputs.get("steps", ()) if isinstance(asked, int)} - taken - {STEPS})
    return [
        f"the preset decides the steps; the steps widget ({asked}) counts only where preset is {CUSTOM}"
        for asked in lost
    ]


def refusal(text: object, duration: object, exact_length: object) -> bool | str:
    """For validation: True, or what is wrong with values that are no links. Each is None, or a list of one."""
    try:
        for value in text if isinstance(text, list) else ():
            make_plan(GenerationRequest(_string("text", value), seed=0))
        seconds = [value for value in duration if value != 0] if isinstance(duration, list) else None
        for value in seconds or ():
            check_number("duration", value)
        exact = isinstance(exact_length, list) and any(_switch("exact_length", value) for value in exact_length)
        if exact and seconds == []:
            raise InputError("exact_length needs a duration: give the seconds the speech must last")
    except InputError as error:
        return str(error)
    return True


def report(request: GenerationRequest, speech: Speech) -> str:
    """What was spoken, with which settings: several lines of plain text."""
    sampling, frames = request.sampling, [codes.shape[1] for codes in speech.codes]
    lines = [
        f"{speech.seconds:.2f} s, seed {speech.seed}, {sampling.steps} steps, guidance {sampling.guidance:g}",
        f"voice: {_voice(request)}; language: {request.language or AUTO}",
        f"frames: {sum(frames)} ({FRAME_RATE} a second) in {len(frames)} chunks",
        *(f"  {count:>5}  {text}" for count, text in zip(frames, speech.chunks)),
    ]
    changed = [
        f"{name} {getattr(request, name)}"
        for name in ("speed", "duration", "chunking", *SWITCHES, *NUMBERS)
        if getattr(request, name) not in (_PLAIN_VALUES[name], 1.0 if name == "speed" else None)
    ]
    changed += [
        f"{name} {getattr(sampling, name):g}"
        for name in (*SAMPLING[1:], *EXPERIMENTS)
        if getattr(sampling, name) != getattr(Sampling(), name)
    ]
    lines += [f"settings: {', '.join(changed)}"] if changed else []
    return "\n".join([*lines, *(f"warning: {warning}" for warning in speech.warnings)])


_PLAIN = GenerationRequest(text="")
_PLAIN_VALUES = {name: getattr(_PLAIN, name) for name in ("speed", "duration", "chunking", *SWITCHES, *NUMBERS)}


def _voice(request: GenerationRequest) -> str:
    if request.voice is not None:
        name = f"{request.voice.name!r}, " if request.voice.name else ""
        return f"{name}a recording of {request.voice.frames / FRAME_RATE:.1f} s"
    if isinstance(request.design, VoiceDesign):
        return f"designed: {', '.join(request.design.attributes)}"
    return "the model's own choice"
