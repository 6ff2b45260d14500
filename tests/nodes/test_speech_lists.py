"""Synthesize and Reference Audio with lists and batches, and what Synthesize tells about its work."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch


@pytest.fixture(scope="module")
def loaded(loaded_pack: SimpleNamespace, stand_in, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory):
    stand_in.reset(tmp_path_factory.mktemp("models"))
    loaded_pack.host.models.register_model_folder()
    shutil.copytree(checkpoint, stand_in.folder / "OmniVoice")
    return loaded_pack.host.models.load_model("OmniVoice", "auto", "auto")


@pytest.fixture
def model(loaded, host):
    return loaded


def speak(nodes, model, **inputs):
    """The four output lists; an input that is no list becomes a list of one."""
    lists = {name: value if isinstance(value, list) else [value] for name, value in inputs.items()}
    return nodes["OmniVoiceSynthesize"].execute(model=[model], **{"steps": [2], "seed": [3], **lists}).values


def encode(nodes, model, batch, transcript):
    sound = 0.3 * torch.sin(torch.arange(48_000) * 0.05 * torch.arange(1, batch + 1)[:, None, None])
    audio = {"waveform": sound.float(), "sample_rate": 24_000}
    (voices,) = nodes["OmniVoiceReferenceAudio"].execute(model=model, audio=audio, transcript=transcript).values
    return voices


def test_each_item_of_a_list_is_spoken_as_if_alone_and_in_order(nodes, model, host) -> None:
    voices = encode(nodes, model, 2, "The first one.\nThe second one.")
    texts = ["Hello.", "A good deal longer than that.", "Third."]
    audios, spoke_with, seconds, reports = speak(nodes, model, text=texts, voice=voices, speed=[1.0, 1.5])
    assert [len(out) for out in (audios, spoke_with, seconds, reports)] == [3, 3, 3, 3]
    assert spoke_with == [voices[0], voices[1], voices[1]]  # the last value is repeated
    assert host.progress[-1] == (6, 6) and len(host.loads) == 2  # the voices, then all three together
    for i, text in enumerate(texts):
        alone = speak(nodes, model, text=text, voice=voices[min(i, 1)], speed=[1.0, 1.5, 1.5][i])
        assert torch.equal(alone[0][0]["waveform"], audios[i]["waveform"]) and alone[3][0] == reports[i]
        assert seconds[i] == audios[i]["waveform"].shape[2] / 24_000
        assert text in reports[i]


def test_lines_of_a_text(nodes, model) -> None:
    audios, _, _, reports = speak(nodes, model, text="One.\n\n  \nTwo, longer.\n", split_lines=True)
    assert len(audios) == 2 and "Two, longer." in reports[1]
    whole = speak(nodes, model, text="One.\n\n  \nTwo, longer.\n")
    assert len(whole[0]) == 1


def test_a_batch_of_recordings(nodes, model) -> None:
    first, second = encode(nodes, model, 2, "The first one.\n\nThe second one.")
    assert (first.text, second.text) == ("The first one.", "The second one.")
    assert not torch.equal(first.codes, second.codes)
    assert [voice.text for voice in encode(nodes, model, 2, "")] == ["", ""]
    (alone,) = encode(nodes, model, 1, "The first one.")
    assert torch.equal(alone.codes, first.codes) and alone.rms == first.rms
    with pytest.raises(ValueError, match="one line for each of the 3 recordings, or be empty, got 2 lines"):
        encode(nodes, model, 3, "One.\nTwo.")


def test_lists_that_cannot_be(nodes, model, loaded_pack) -> None:
    with pytest.raises(ValueError, match="text is an empty list"):
        speak(nodes, model, text=[])
    other = loaded_pack.host.models.LoadedModel(model.engine, model.lm, model.decoder)
    with pytest.raises(ValueError, match="model must be the same for every item, got a list of 2 different ones"):
        nodes["OmniVoiceSynthesize"].execute(model=[model, other], text=["Hello."])
    with pytest.raises(ValueError, match="at most 10000 texts can be spoken at once, got 10001"):
        speak(nodes, model, text="\n".join(["a"] * 10_001), split_lines=True)


@pytest.mark.parametrize("design", [None, {"gender": "female", "accent": "british accent"}])
def test_a_voice_that_was_not_recorded_can_be_kept(nodes, model, design) -> None:
    extra = {"design": nodes["OmniVoiceVoiceDesignAttributes"].execute(**design).values[0]} if design else {}
    _, (voice,), _, (report,) = speak(nodes, model, text="Hello there.", language="English", **extra)
    assert voice.text == "Hello there." and voice.frames > 0
    assert ("designed: female, british accent" if design else "the model's own choice") in report
    _, (again,), _, (onward,) = speak(nodes, model, text="And on.", voice=voice)
    assert again is voice and f"a recording of {voice.frames / 25:.1f} s" in onward


def test_the_report_names_what_was_asked_and_what_came(nodes, model) -> None:
    _, _, (seconds,), (report,) = speak(
        nodes,
        model,
        text="Hello. [sneeze] Bye.",
        duration=2.0,
        exact_length=True,
        guidance=1.5,
        t_shift=0.2,
        pad_seconds=0.5,
        denoise=False,
        steps=3,
        experimental_unconditional_every=2,
        chunking="upstream",
    )
    assert seconds == 2.0
    first, voice, frames, *_ = report.splitlines()
    assert first == "2.00 s, seed 3, 3 steps, guidance 1.5"
    assert voice == "voice: the model's own choice; language: auto"
    assert frames.startswith("frames: ") and "in 1 chunks" in frames
    (settings,) = [line for line in report.splitlines() if line.startswith("settings: ")]
    assert settings == (
        "settings: duration 2.0, chunking upstream, exact_length True, denoise False, pad_seconds 0.5, t_shift 0.2, "
        "unconditional_every 2"
    )
    assert "warning: " in report and "sneeze" in report and "unconditional_every" in report.split("settings")[1]
    plain = speak(nodes, model, text="Hello.")[3][0]
    assert "settings" not in plain and "warning" not in plain


@pytest.mark.parametrize(
    "inputs, words",
    [
        ({"text": ["Hello."]}, True),
        ({"text": None, "duration": None, "exact_length": None}, True),  # linked
        ({"text": ["  "]}, "text"),
        ({"text": ["x" * 200_001]}, "200000"),
        ({"text": [3]}, "text must be a string, got 3"),
        ({"duration": [-1.0]}, "duration must be above 0 and at most 600, got -1.0"),
        ({"duration": [float("nan")]}, "duration must be above 0 and at most 600, got nan"),
        ({"exact_length": [True], "duration": [0.0]}, "exact_length needs a duration"),
        ({"exact_length": [True], "duration": [2.0]}, True),
        ({"exact_length": [True], "duration": None}, True),
        ({"exact_length": ["yes"]}, "exact_length must be true or false, got 'yes'"),
    ],
)
def test_validation_speaks_our_words(nodes, inputs, words) -> None:
    got = nodes["OmniVoiceSynthesize"].validate_inputs(**inputs)
    assert got is True if words is True else words in got


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("split_lines", 1, "split_lines must be true or false, got 1"),
        ("denoise", "no", "denoise must be true or false, got 'no'"),
        ("pad_seconds", -1, "pad_seconds must be 0-10, got -1"),
        ("t_shift", 0, "t_shift must be 0.01-10, got 0"),
        ("chunking", "words", "chunking must be one of sentences, upstream, got 'words'"),
        ("preset", "best", "preset must be one of custom, quality, balanced, fast, draft, got 'best'"),
        ("experimental_prefix_every", 0, "prefix_every must be 1-64, got 0"),
    ],
)
def test_values_that_came_by_a_link_are_checked_too(nodes, model, name, value, words) -> None:
    with pytest.raises(ValueError, match=words):
        speak(nodes, model, text="Hello.", **{name: value})
