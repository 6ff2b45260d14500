"""Join Audio and Audio Image."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import pytest
import torch

NAN = torch.full((1, 1, 100), math.nan)


def audio(*shape: int, rate: int = 24_000, value: float | None = None) -> dict[str, object]:
    """Noise, or a constant, as ComfyUI's AUDIO."""
    generator = torch.Generator().manual_seed(sum(shape))
    samples = torch.rand(shape, generator=generator) - 0.5 if value is None else torch.full(shape, value)
    return {"waveform": samples, "sample_rate": rate}


@pytest.fixture
def join(nodes):
    def run(items: list[object], gap: object = 0.3) -> tuple:
        return nodes["OmniVoiceJoinAudio"].execute(audio=items, gap_seconds=[gap]).values

    return run


@pytest.fixture
def draw(nodes):
    pytest.importorskip("PIL", reason="Audio Image needs Pillow, which ComfyUI brings")
    return lambda *values, **named: nodes["OmniVoiceAudioImage"].execute(*values, **named).values[0]


# Join Audio.


def test_items_gaps_and_starts_are_exact(join) -> None:
    first, second, third = audio(1, 1, 24_000), audio(1, 1, 12_345), audio(1, 1, 10)
    joined, starts, seconds = join([first, second, third], 0.25)
    samples, gap = joined["waveform"], torch.zeros(1, 1, 6_000)
    expected = [first["waveform"], gap, second["waveform"], gap, third["waveform"]]
    assert torch.equal(samples, torch.cat(expected, dim=2)) and joined["sample_rate"] == 24_000
    assert starts == [0.0, 1.25, (24_000 + 6_000 + 12_345 + 6_000) / 24_000]
    assert seconds == samples.shape[2] / 24_000


@pytest.mark.parametrize("gap, count", [(0, 0), (0.0, 0), (1 / 24_000, 1), (0.29, 6960), (60, 1_440_000)])
def test_a_gap_is_a_whole_number_of_zeros(join, gap: float, count: int) -> None:
    joined, starts, _ = join([audio(1, 1, 5, value=0.5), audio(1, 1, 5, value=0.5)], gap)
    assert joined["waveform"].shape[2] == 10 + count and starts[1] == (5 + count) / 24_000
    assert int((joined["waveform"] == 0).sum()) == count


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_one_item_passes_through_bit_for_bit(join, dtype: torch.dtype) -> None:
    item = audio(1, 2, 77, rate=22_050)
    item["waveform"] = item["waveform"].to(dtype)
    joined, starts, seconds = join([item])
    assert joined["waveform"] is item["waveform"] and joined["sample_rate"] == 22_050
    assert (starts, seconds) == ([0.0], 77 / 22_050)


def test_a_batch_counts_as_its_items_in_order(join) -> None:
    batch, single = audio(3, 1, 100), audio(1, 1, 50)
    joined, starts, _ = join([batch, single], 0)
    assert torch.equal(
        joined["waveform"].flatten(), torch.cat([batch["waveform"].flatten(), single["waveform"].flatten()])
    )
    assert starts == [0.0, 100 / 24_000, 200 / 24_000, 300 / 24_000]


def test_inputs_are_never_changed(join) -> None:
    items = [audio(1, 1, 100), audio(1, 2, 100, rate=48_000)]
    before = [item["waveform"].clone() for item in items]
    join(items)
    assert all(torch.equal(item["waveform"], copy) for item, copy in zip(items, before))


def test_rates_and_channels_become_the_highest(join, pack: SimpleNamespace) -> None:
    mono, stereo = audio(1, 1, 24_000), audio(1, 2, 48_000, rate=48_000)
    joined, starts, seconds = join([mono, stereo], 0.5)
    resampled = sys.modules[f"{pack.package.__name__}.omnivoice.audio.resample"].resample(
        mono["waveform"][0], 24_000, 48_000
    )
    assert joined["sample_rate"] == 48_000 and joined["waveform"].shape == (1, 2, 48_000 + 24_000 + 48_000)
    assert torch.equal(joined["waveform"][0, :, :48_000], resampled.expand(2, -1))
    assert torch.equal(joined["waveform"][:, :, 72_000:], stereo["waveform"])
    assert (starts, seconds) == ([0.0, 1.5], 2.5)


def test_an_empty_item_takes_no_time(join) -> None:
    assert join([audio(1, 1, 0), audio(1, 1, 24)], 1)[1:] == ([0.0, 1.0], 1.001)


def test_items_of_any_length_are_joined(join, pack: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speech of hours is larger than what may become a voice."""
    monkeypatch.setattr(pack.host.values, "MAX_AUDIO_BYTES", 100)
    assert join([audio(1, 1, 100), audio(1, 1, 100)], 0)[2] == 200 / 24_000


@pytest.mark.parametrize(
    "items, message",
    [
        ([], "audio is an empty list"),
        ([audio(1, 1, 9), None, audio(1, 1, 9)], "item 2 of 3: audio must be ComfyUI's AUDIO, got None"),
        ([None], "^audio must be ComfyUI's AUDIO, got None"),
        ([audio(1, 1, 9), "speech.wav"], "item 2 of 2: audio must be ComfyUI's AUDIO"),
        ([audio(1, 1, 9), {"waveform": NAN, "sample_rate": 24_000}], "item 2 of 2: audio holds NaN or Inf"),
        ([audio(1, 2, 9), audio(1, 6, 9)], "recording 1 of 2 has 2 channels and another one has 6"),
        ([audio(1, 1, 9, rate=1)], "sample_rate must be a whole number of Hz"),
        (
            [{"waveform": torch.zeros(1, 1, 1).expand(1, 1, 60_000_000), "sample_rate": 4_000}] * 2,
            "8.3 hours, at most 4",
        ),
    ],
    ids=["none", "None", "only None", "text", "NaN", "channels", "rate", "hours"],
)
def test_bad_items_are_refused_and_named(join, items: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        join(items)


@pytest.mark.parametrize("gap", [None, "0.3", True, -0.1, 61, math.nan], ids=repr)
def test_bad_gaps(join, gap: object) -> None:
    with pytest.raises(ValueError, match="gap_seconds must be 0-60"):
        join([audio(1, 1, 9)], gap)


def test_one_gap_for_all(nodes) -> None:
    with pytest.raises(ValueError, match="gap_seconds must be the same for every item"):
        nodes["OmniVoiceJoinAudio"].execute(audio=[audio(1, 1, 9)], gap_seconds=[0.1, 0.2])


# Audio Image.


@pytest.mark.parametrize("scale", ["mel", "linear"])
@pytest.mark.parametrize("size", [(1024, 512), (256, 192), (257, 333), (4096, 192)], ids=str)
def test_an_image_for_each_recording(draw, scale: str, size: tuple[int, int]) -> None:
    image = draw(audio(2, 1, 12_000), scale, *size)
    assert image.shape == (2, size[1], size[0], 3) and image.dtype == torch.float32
    assert 0 <= float(image.min()) < float(image.max()) <= 1
    assert not torch.equal(image[0], image[1])


@pytest.mark.parametrize("samples, rate", [(1, 24_000), (2, 384_000), (500, 4_000), (48_000, 48_000), (300_000, 8_000)])
def test_any_length_and_rate(draw, samples: int, rate: int) -> None:
    assert draw(audio(1, 2, samples, rate=rate)).shape == (1, 512, 1024, 3)


def pictures(pack: SimpleNamespace):
    return pack.host.pictures


@pytest.mark.parametrize("scale", ["mel", "linear"])
def test_a_tone_is_where_its_frequency_says(pack: SimpleNamespace, scale: str) -> None:
    tone = torch.sin(2 * math.pi * 3000 * torch.arange(24_000) / 24_000)[None]
    power = pictures(pack).spectrogram(pack.engine.Waveform(tone, 24_000), scale, 300, 100)
    mel, top = math.log10(1 + 3000 / 700), math.log10(1 + 12_000 / 700)
    share = mel / top if scale == "mel" else 3000 / 12_000
    assert power.shape == (300, 100)
    assert abs(int(power.mean(dim=1).argmax()) / 300 - share) < 0.01


def test_a_short_click_in_a_long_recording_is_seen(pack: SimpleNamespace) -> None:
    """Every sample counts, however many of them one column stands for."""
    samples = torch.zeros(1, 24_000 * 300)
    samples[0, 24_000 * 150 + 1234] = 0.9
    recording = pack.engine.Waveform(samples, 24_000)
    low, high = pictures(pack).envelope(samples, 200)
    assert int(high.argmax()) == 100 and float(high.max()) == pytest.approx(0.9) and float(low.min()) == 0
    assert int(pictures(pack).spectrogram(recording, "mel", 50, 200).sum(dim=0).argmax()) == 100


def test_blocks_change_nothing(pack: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = pack.engine.Waveform(audio(1, 2, 50_000)["waveform"][0], 24_000)
    whole = pictures(pack).spectrogram(recording, "mel", 60, 90)
    monkeypatch.setattr(pictures(pack), "_BLOCK_ELEMENTS", 1)
    assert torch.allclose(pictures(pack).spectrogram(recording, "mel", 60, 90), whole, rtol=1e-4, atol=1e-12)


def test_clipping_is_red_and_silence_is_black(draw) -> None:
    red = torch.tensor([255, 84, 84]) / 255
    assert bool((draw(audio(1, 1, 24_000, value=1.0)) - red).abs().sum(-1).min() < 0.01)
    silent = draw(audio(1, 1, 24_000, value=0.0))
    assert not bool((silent - red).abs().sum(-1).min() < 0.01)
    assert float(silent[0, 250:450, 200:800].max()) < 0.05


def test_cancel(draw, host, pack: SimpleNamespace) -> None:
    host.interrupt_after = 0
    with pytest.raises(pack.host.models.mm.InterruptProcessingException):
        draw(audio(1, 1, 24_000))


BAD = [
    ("audio", None, "audio must be ComfyUI's AUDIO, got None"),
    ("audio", "x", "audio must be ComfyUI's AUDIO"),
    ("audio", audio(1, 1, 0), "audio is empty"),
    ("audio", {"waveform": NAN, "sample_rate": 24_000}, "audio holds NaN or Inf"),
    ("scale", None, "scale must be one of mel, linear, got None"),
    ("scale", "bark", "scale must be one of mel, linear"),
    ("width", None, "width must be a whole number 256-4096, got None"),
    ("width", 255, "width must be 256-4096, got 255"),
    ("width", 512.0, "width must be"),
    ("height", None, "height must be a whole number 192-2160"),
    ("height", 10**9, "height must be 192-2160"),
]


@pytest.mark.parametrize("name, value, message", BAD, ids=lambda value: repr(value)[:20])
def test_bad_values(draw, name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        draw(**{"audio": audio(1, 1, 100), name: value})


def test_the_table_of_bad_values_has_every_input(nodes) -> None:
    inputs = nodes["OmniVoiceAudioImage"].define_schema().inputs
    assert [i.id for i in inputs] == list(dict.fromkeys(name for name, *_ in BAD))


def test_too_many_images(draw) -> None:
    with pytest.raises(ValueError, match="100 images of 4096 x 2160 need"):
        draw(audio(100, 1, 10), "mel", 4096, 2160)


def test_without_pillow(nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match=r"needs the Python package Pillow, 10\.1 or newer: run pip install -U pillow"):
        nodes["OmniVoiceAudioImage"].execute(audio(1, 1, 100))
