"""The sockets of a cast: only voices and designs, numbered from 1."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def voice(pack):
    return pack.engine.types.VoicePrompt(torch.zeros(8, 50, dtype=torch.int64), "Hello.", 0.1, name="Anna")


def test_sockets_become_speakers(pack, voice) -> None:
    design = pack.engine.types.VoiceDesign(("male",))
    speakers = pack.cast.cast_from("Alice\n\nCarol", {"voice_1": design, "voice_2": voice, "voice_4": None})
    assert [(one.name, one.voice, one.design) for one in speakers] == [
        ("Alice", None, design),
        ("Anna", voice, None),
        ("Carol", None, None),
    ]
    assert pack.cast.cast_from(None, None) == pack.cast.cast_from("", {}) == ()


@pytest.mark.parametrize("voices", [[1], "x", {"voice_0": 1}, {"voice_1": "x"}, {"voice_33": None, "voice_2": {}}])
def test_anything_else_is_refused(pack, voices: object) -> None:
    with pytest.raises(pack.engine.errors.InputError, match=r"must come from .*, got "):
        pack.cast.cast_from("", voices)


def test_the_inputs(pack) -> None:
    names, voices = pack.cast.cast_inputs("Alice")
    assert (names.id, names.default, names.multiline) == ("names", "Alice", True)
    assert (voices.id, voices.kind, voices.optional) == ("voices", "OMNIVOICE_VOICE,OMNIVOICE_DESIGN[32]", True)
    assert voices.template.names[0] == "voice_1"
