"""Every text of every node with what is no text, which a link or a program can give: one of our errors refuses it."""

from __future__ import annotations

import importlib

import pytest
import torch

SPOKEN = "Good morning everyone."
# Inputs besides the defaults, without which a node refuses before it comes to the text.
NEEDED = {
    "OmniVoiceReferenceAudio": {"audio"},
    "OmniVoiceSaveVoice": {"voice"},
    "OmniVoiceSynthesize": {"settings"},
    "OmniVoiceLongText": {"settings"},
    "OmniVoiceTakes": {"settings"},
    "OmniVoiceDialogue": {"settings"},
    "OmniVoiceSubtitles": {"settings"},
    "OmniVoicePreviewText": set(),
    "OmniVoiceEditSpeech": {"audio", "settings"},
    "OmniVoiceRedo": {"audio", "settings"},
    "OmniVoiceDictionary": set(),
    "OmniVoiceDisclose": {"audio"},
    "OmniVoiceVoiceDesignAttributes": set(),
    "OmniVoiceTimings": set(),
    "OmniVoiceTrainingSettings": set(),
}
# Texts that belong together, where a node uses one of them only with another.
WITH = {
    ("OmniVoiceDisclose", "text"): {"language": "English"},
    ("OmniVoiceEditSpeech", "span"): {"transcript": SPOKEN, "new_transcript": "Good evening everyone."},
    ("OmniVoiceEditSpeech", "new_transcript"): {"transcript": SPOKEN},
    ("OmniVoiceRedo", "transcript"): {"words": "morning"},
    ("OmniVoiceRedo", "words"): {"transcript": SPOKEN},
    ("OmniVoiceRedo", "span"): {"transcript": SPOKEN},
    ("OmniVoiceRedo", "line"): {"transcript": SPOKEN},
    ("OmniVoiceRedo", "timings"): {"words": "morning"},
}
VALUES = ({}, {"a": 1}, [], ["Hello."], 3, 1.5, True, object(), b"Hello.")


def texts(nodes: dict[str, type]) -> list[tuple[str, str]]:
    """Every (node, input) that takes a text."""
    found = []
    for kind, node in nodes.items():
        for item in node.define_schema().inputs:
            if "STRING" in item.kind.split(",") and kind in NEEDED:
                found.append((kind, item.id))
    return found


def test_every_node_with_a_text_is_tried(nodes: dict[str, type]) -> None:
    known = {"OmniVoiceDataset", "OmniVoiceTranscribe", "OmniVoiceTrainLoRA"}  # have tests of their own for this
    for kind, node in nodes.items():
        takes = any("STRING" in item.kind.split(",") for item in node.define_schema().inputs)
        assert takes == (kind in NEEDED or kind in known), kind


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__ + str(value)[:8].strip("<"))
def test_what_is_no_text_is_refused(nodes: dict[str, type], loaded: object, loaded_pack, host, value: object) -> None:
    errors = importlib.import_module(loaded_pack.package.__name__ + ".omnivoice.errors")
    sound = {"waveform": 0.3 * torch.sin(torch.arange(48_000) * 0.05)[None, None], "sample_rate": 24_000}
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=1).values
    (voices,) = nodes["OmniVoiceReferenceAudio"].execute(model=loaded, audio=sound, transcript=SPOKEN).values
    given = {"audio": sound, "settings": settings, "voice": voices[0]}
    missed = []
    for kind, name in texts(nodes):
        node = nodes[kind]
        inputs = {item.id: getattr(item, "default", None) for item in node.define_schema().inputs}
        inputs |= {key: given[key] for key in NEEDED[kind]} | ({"model": loaded} if "model" in inputs else {})
        inputs = {key: one for key, one in (inputs | WITH.get((kind, name), {})).items() if one is not None}
        inputs[name] = value
        listed = getattr(node.define_schema(), "is_input_list", False)
        try:
            node.execute(**{key: [one] for key, one in inputs.items()} if listed else inputs)
        except errors.OmniVoiceError:
            continue
        except Exception as error:  # noqa: BLE001 - all of them are told together
            missed.append((kind, name, type(error).__name__, str(error)[:80]))
        else:
            missed.append((kind, name, "accepted", ""))
    assert missed == []
