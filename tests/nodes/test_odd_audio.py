"""Forty odd AUDIO tensors at the node boundary and on the way to a voice: one defined result each, or a refusal."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from omnivoice.audio.reference import prepare_reference
from omnivoice.errors import AudioError
from omnivoice.types import Waveform

RATE = 24_000
TONE = 0.2 * torch.sin(torch.arange(2 * RATE) * 0.1)
NAN, INF = float("nan"), float("inf")
NOT_FINITE = "must be finite, got NaN or infinite samples"


def one(samples: torch.Tensor) -> torch.Tensor:
    return samples.expand(1, 1, -1) if samples.ndim == 1 else samples[None]


def with_value(value: float, place: int = 100) -> torch.Tensor:
    samples = TONE.clone()
    samples[place] = value
    return one(samples)


# name -> (waveform, sample rate, what the refusal says, or how many voices come out)
CASES: dict[str, tuple[object, object, str | int]] = {
    "float64": (one(TONE.double()), RATE, 1),
    "float16": (one(TONE.half()), RATE, 1),
    "bfloat16": (one(TONE.bfloat16()), RATE, 1),
    "stereo": (one(torch.stack([TONE, TONE])), RATE, 1),
    "eight channels": (one(torch.stack([TONE] * 8)), RATE, 1),
    "requires grad": (one(TONE).clone().requires_grad_(), RATE, 1),
    "not contiguous": (one(TONE.repeat_interleave(2)[::2]), RATE, 1),
    "expanded": (TONE.expand(3, 2, -1), RATE, 3),
    "transposed": (TONE.view(1, -1, 1).transpose(1, 2), RATE, 1),
    "negative strides by flip": (one(TONE.flip(0)), RATE, 1),
    "inference tensor": (torch.inference_mode()(lambda: one(TONE).clone())(), RATE, 1),
    "a parameter": (torch.nn.Parameter(one(TONE).clone()), RATE, 1),
    "batch of 64": (one(TONE).repeat(64, 1, 1), RATE, 64),
    "loud": (one(TONE * 1e6), RATE, 1),
    "half a second": (one(TONE[: RATE // 2]), RATE, 1),
    "lowest rate": (one(TONE), 4_000, 1),
    "odd rate": (one(TONE), 22_051, 1),
    "prime rate": (one(TONE), 23_993, 1),
    "highest rate": (one(TONE.repeat(6)), 384_000, 1),
    "subnormal": (one(TONE * 1e-40), RATE, "silent"),
    "anti-phase": (one(torch.stack([TONE, -TONE])), RATE, 1),
    "silence": (one(torch.zeros(RATE)), RATE, "silent"),
    "constant": (one(torch.full((RATE,), 0.5)), RATE, "silent"),
    "NaN": (with_value(NAN), RATE, NOT_FINITE),
    "Inf": (with_value(INF), RATE, NOT_FINITE),
    "minus Inf at the end": (with_value(-INF, -1), RATE, NOT_FINITE),
    "all NaN": (one(torch.full((RATE,), NAN)), RATE, NOT_FINITE),
    "no samples": (one(TONE[:0]), RATE, "empty, got 0 samples"),
    "one sample": (one(TONE[:1]), RATE, "at least 0.5 s long"),
    "61 seconds": (one(TONE.repeat(31)), RATE, "at most 60 s long"),
    "no batch": (one(TONE)[:0], RATE, "at least one recording, got an empty batch"),
    "no channels": (one(TONE)[:, :0], RATE, "must have 1-8 channels, got 0"),
    "nine channels": (one(torch.stack([TONE] * 9)), RATE, "must have 1-8 channels, got 9"),
    "int16": (one(TONE).short(), RATE, "must hold a float waveform"),
    "bool": (one(TONE) > 0, RATE, "must hold a float waveform"),
    "complex": (one(TONE).to(torch.complex64), RATE, "must hold a float waveform"),
    "two dimensions": (TONE[None], RATE, "must hold a float waveform"),
    "four dimensions": (one(TONE)[None], RATE, "must hold a float waveform"),
    "endless by stride": (torch.zeros(1).expand(1, 8, 10**12), RATE, "is too long"),
    "rate of 2^64": (one(TONE), 2**64, "must be a whole number of Hz, 4000-384000"),
    "rate of 0": (one(TONE), 0, "must be a whole number of Hz, 4000-384000"),
    "rate of NaN": (one(TONE), NAN, "must be a whole number of Hz, 4000-384000"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_has_one_result(pack: SimpleNamespace, name: str) -> None:
    waveform, rate, expected = CASES[name]
    before = waveform.detach().clone() if waveform.numel() < 10**7 else None

    def voices() -> list[torch.Tensor]:
        recordings = pack.host.values.waveforms_from({"waveform": waveform, "sample_rate": rate})
        return [prepare_reference(Waveform(found.samples, found.sample_rate)).samples for found in recordings]

    if isinstance(expected, str):
        with pytest.raises((AudioError, ValueError), match=expected):
            voices()
    else:
        prepared = voices()
        assert len(prepared) == expected
        for samples in prepared:
            assert samples.dtype == torch.float32 and samples.shape[0] == 1 and samples.shape[1] % 960 == 0
            assert bool(torch.isfinite(samples).all()) and not samples.requires_grad
    if before is not None:
        assert torch.equal(before.nan_to_num(7.0), waveform.detach().nan_to_num(7.0)), "an input is never changed"
