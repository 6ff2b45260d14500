"""The names of finished speech: every field counts, or stands in a table of those that nobody hears."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from omnivoice.generate.plan import make_plan
from omnivoice.productions.keys import PLAN_LABELS, PLANNED, REQUEST_LABELS, VOICE_LABELS, plan_key, request_key
from omnivoice.types import (
    Change,
    Chunk,
    Dictionary,
    DictionaryEntry,
    GenerationPlan,
    GenerationRequest,
    Sampling,
    VoiceDesign,
    VoicePrompt,
)
from tests import warm_children

VOICE = VoicePrompt(torch.full((8, 20), 5), "This is a voice.", 0.1)
BASE = GenerationRequest("This is a text.", seed=1, language="en", voice=VOICE)
REQUESTS: dict[str, Any] = {
    "text": "Another one.",
    "voice": None,
    "design": VoiceDesign(("female",)),
    "language": "de",
    "seed": 2**64 - 1,
    "speed": 1.5,
    "duration": 3.0,
    "exact_length": True,
    "sampling": Sampling(steps=4),
    "denoise": False,
    "post_process": False,
    "pad_seconds": 0.0,
    "fade_seconds": 0.0,
    "chunking": "upstream",
    "chunk_seconds": 9.0,
    "chunk_threshold_seconds": 9.0,
    "first_seconds": 3.0,
    "text_as_written": True,
    "normalise": True,
    "dictionary": Dictionary((DictionaryEntry("a", "b"),)),
    "given": frozenset({"steps", "speed"}),
}
PLANS: dict[str, Any] = {
    "request": replace(BASE, denoise=False),
    "chunks": (Chunk("Another one.", 40),),
    "language": "German",
    "instruct": "female",
    "seed": 2**64 - 1,
    "chunked": True,
    "tail_samples": 1,
    "target_samples": 1,
    "warnings": ("a warning",),
    "notes": ("a note",),
    "respelled": (Change(0, 1, "a", "b"),),
    "normalised": (Change(0, 1, "a", "b"),),
    "used_entries": frozenset({DictionaryEntry("a", "b")}),
}
VOICES: dict[str, Any] = {
    "codes": torch.full((8, 20), 6),
    "text": "Another voice.",
    "rms": 0.2,
    "name": "Anna",
    "language": "de",
    "warnings": ("quiet",),
    "consent": "Anna",
    "codec": "0" * 16,
}
SAMPLING: dict[str, Any] = {
    "steps": 4,
    "guidance": 3.0,
    "t_shift": 0.2,
    "layer_penalty": 4.0,
    "position_temperature": 4.0,
    "class_temperature": 0.5,
    "unconditional_every": 2,
    "prefix_every": 2,
    "codebook_steps": (2,) * 8,
}


@pytest.mark.parametrize(
    ("kind", "values"),
    [(GenerationRequest, REQUESTS), (GenerationPlan, PLANS), (VoicePrompt, VOICES), (Sampling, SAMPLING)],
)
def test_no_field_is_forgotten(kind: type, values: dict[str, Any]) -> None:
    """A field that is new needs a value in the tables above, which the tests below then change."""
    assert [one.name for one in fields(kind)] == list(values)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_differs_by_all_but_its_labels(name: str) -> None:
    changed = request_key(replace(BASE, **{name: REQUESTS[name]}), model="m")
    assert (changed == request_key(BASE, model="m")) == (name in REQUEST_LABELS)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_differs_by_all_but_its_labels(name: str) -> None:
    plan = make_plan(BASE)
    changed = plan_key(replace(plan, **{name: PLANS[name]}), model="m")
    assert (changed == plan_key(plan, model="m")) == (name in PLAN_LABELS)


@pytest.mark.parametrize("name", REQUESTS)
def test_of_a_request_a_plan_ignores_only_what_it_has_used(name: str) -> None:
    plan = make_plan(BASE)
    changed = replace(plan, request=replace(BASE, **{name: REQUESTS[name]}))
    assert (plan_key(changed, model="m") == plan_key(plan, model="m")) == (name in PLANNED)


@pytest.mark.parametrize("name", VOICES)
def test_a_voice_differs_by_all_but_its_labels(name: str) -> None:
    changed = replace(BASE, voice=replace(VOICE, **{name: VOICES[name]}))
    assert (request_key(changed, model="m") == request_key(BASE, model="m")) == (name in VOICE_LABELS)


@pytest.mark.parametrize("name", SAMPLING)
def test_every_setting_of_the_sampling_counts(name: str) -> None:
    changed = replace(BASE, sampling=replace(BASE.sampling, **{name: SAMPLING[name]}))
    assert request_key(changed, model="m") != request_key(BASE, model="m")


def test_model_and_level_count() -> None:
    plan = make_plan(BASE)
    keys = {plan_key(plan, model="m"), plan_key(plan, model="n"), plan_key(plan, model="m", level=0.1)}
    assert len(keys) == 3
    assert request_key(BASE, model="m") != request_key(BASE, model="n")


def test_a_key_is_the_same_in_every_process() -> None:
    """The order of a set differs from process to process."""
    code = (
        "from omnivoice.productions.keys import request_key; from omnivoice.types import GenerationRequest as R;"
        "print(request_key(R('Hi.', seed=1, given=frozenset(['steps', 'speed', 'guidance', 'language'])), model='m'))"
    )
    given = frozenset(["steps", "speed", "guidance", "language"])
    key = request_key(GenerationRequest("Hi.", seed=1, given=given), model="m")
    assert warm_children.run(code) == (0, f"{key}\n", "")
