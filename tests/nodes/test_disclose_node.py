"""Spoken AI Notice: the audio keeps its samples, rate, channels and batch, and gets a notice that the model speaks."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

SENTENCE = "This recording was made with AI."


@pytest.fixture
def inputs_of(loaded_pack: SimpleNamespace) -> SimpleNamespace:
    return importlib.import_module(f"{loaded_pack.package.__name__}.nodes.inputs.disclosure")


@pytest.fixture
def disclose(nodes, loaded, host, inputs_of, monkeypatch: pytest.MonkeyPatch):
    """Runs the node, with two decoding steps to be quick: (waveform, sample rate, start)."""
    request_from = inputs_of.request_from

    def quick(given: dict[str, object]) -> object:
        request = request_from(given)
        return replace(request, sampling=replace(request.sampling, steps=2))

    monkeypatch.setattr(inputs_of, "request_from", quick)

    def run(audio: object, **inputs: object) -> tuple[torch.Tensor, int, float]:
        made, start = nodes["OmniVoiceDisclose"].execute(model=loaded, audio=audio, **inputs).values
        return made["waveform"], made["sample_rate"], start

    return run


def audio(*shape: int, rate: int = 24_000, dtype: torch.dtype = torch.float32) -> dict[str, object]:
    samples = torch.rand(shape, generator=torch.Generator().manual_seed(7)) - 0.5
    return {"waveform": samples.to(dtype), "sample_rate": rate}


@pytest.mark.parametrize(
    "shape, rate, dtype",
    [
        ((1, 1, 9_000), 24_000, torch.float32),
        ((1, 2, 9_001), 44_100, torch.float32),
        ((3, 2, 777), 16_000, torch.float32),
        ((1, 6, 5_000), 48_000, torch.float32),
        ((2, 1, 500), 22_050, torch.float16),
    ],
)
def test_the_audio_itself_is_bit_identical(disclose, shape: tuple[int, ...], rate: int, dtype: torch.dtype) -> None:
    given = audio(*shape, rate=rate, dtype=dtype)
    kept = given["waveform"].clone()
    made, made_rate, start = disclose(given, gap_seconds=0.25)
    first = round(start * rate)
    assert made_rate == rate and made.shape[:2] == shape[:2] and made.dtype == torch.float32
    assert first > 0.5 * rate and made.shape[2] == first + shape[2] and made.is_contiguous()
    assert torch.equal(made[:, :, first:], kept.float()) and torch.equal(given["waveform"], kept)
    assert made[:, :, :first].abs().amax() > 0.01 and not made[:, :, first - round(0.25 * rate) : first].any()


def test_before_after_and_both_are_the_same_notice(disclose) -> None:
    given = audio(1, 1, 4_800)
    before, _, start = disclose(given, place="before")
    after, _, none = disclose(given, place="after")
    both, _, again = disclose(given, place="both")
    first = round(start * 24_000)
    notice = before[:, :, : first - 12_000]
    assert (none, again) == (0.0, start) and torch.equal(disclose(given)[0], before)
    assert torch.equal(after[:, :, :4_800], given["waveform"]) and torch.equal(after[:, :, 16_800:], notice)
    assert torch.equal(both[:, :, : first + 4_800], before) and torch.equal(both[:, :, first:], after)


def test_language_text_seed_and_voice_decide_what_is_heard(disclose, nodes, loaded) -> None:
    given = audio(1, 1, 100)
    sound = {"waveform": 0.3 * torch.sin(torch.arange(48_000) * 0.05)[None, None], "sample_rate": 24_000}
    ((voice,),) = nodes["OmniVoiceReferenceAudio"].execute(model=loaded, audio=sound, transcript="Some words.").values
    every = [
        disclose(given, **inputs)[0]
        for inputs in ({}, {"language": "de"}, {"text": "Made by a machine."}, {"seed": 1}, {"voice": voice})
    ]
    assert len({tuple(made.flatten()[4_000:6_000].tolist()) for made in every}) == len(every)
    for same in ({"language": "English"}, {"language": "auto", "text": " "}, {"text": SENTENCE, "language": "en"}):
        assert torch.equal(disclose(given, **same)[0], every[0])


def test_the_node_says_what_it_spoke(disclose, host) -> None:
    host.texts.clear()
    disclose(audio(1, 1, 100), seed=5)
    assert host.texts[-1][0].startswith(f"{SENTENCE} (") and host.texts[-1][0].endswith(" s, seed 5)")


@pytest.mark.parametrize(
    "inputs, told",
    [
        ({"place": "middle"}, "place must be one of before, after, both"),
        ({"gap_seconds": -1}, "gap_seconds must be 0-60"),
        ({"gap_seconds": float("nan")}, "gap_seconds must be"),
        ({"language": "sw"}, "there is no sentence in language 'sw': write the text of the notice yourself"),
        ({"language": "Klingonish"}, "language 'Klingonish' is not known"),
        ({"text": 3}, "the text of the notice must be a string"),
        ({"text": "a" * 1_001}, "the text of the notice must be at most 1000 characters, got 1001"),
        ({"text": "..."}, "nothing"),
        ({"seed": -1}, "seed must be"),
        ({"voice": {"kind": "clone"}}, "voice must come from"),
        ({"audio": None}, "audio must be ComfyUI's AUDIO, got None"),
        ({"audio": {"waveform": torch.full((1, 1, 9), float("nan")), "sample_rate": 24_000}}, "audio holds NaN or Inf"),
        ({"audio": {"waveform": torch.zeros(0, 1, 9), "sample_rate": 24_000}}, "an empty batch"),
        ({"audio": {"waveform": torch.zeros(1, 1, 9), "sample_rate": 1}}, "sample_rate must be"),
        ({"model": "x"}, "model"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_spoken(nodes, loaded, host, inputs: dict, told: str) -> None:
    given = {"model": loaded, "audio": audio(1, 1, 100), **inputs}
    with pytest.raises(Exception, match=told) as failed:
        nodes["OmniVoiceDisclose"].execute(**given)
    assert type(failed.value).__module__.endswith("omnivoice.errors") and not host.loads


def test_an_empty_recording_becomes_the_notice(disclose) -> None:
    made, _, start = disclose(audio(1, 2, 0))
    assert made.shape[2] == round(start * 24_000) and made.abs().amax() > 0.01
