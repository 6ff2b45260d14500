"""The loss of opened frames against a forward pass written out by hand, alone and in batches; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from omnivoice.engine import Engine
from omnivoice.errors import DeviceMemoryError, InputError, NumericError
from omnivoice.generate import filling_loss
from omnivoice.generate.filling_loss import OpenedSpeech, opened_losses
from omnivoice.generate.graphs import StepGraphs
from omnivoice.generate.sample import Sampler
from omnivoice.lm import PackedLayout
from omnivoice.text.prompt import build_prompt
from omnivoice.types import ALL_SPEEDUPS
from tests.simulated_cuda import CPU, CUDA, SimulatedCuda


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


def _opened(
    engine: Engine, frames: int = 20, span: tuple[int, int] = (7, 12), *, seed: int = 0, shown: int = 8
) -> OpenedSpeech:
    """Random codes with the mask in the span, and in the codebooks from `shown` on."""
    mask_id, generator = engine.lm.config.audio_mask_id, torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 1024, (8, frames), generator=generator)
    masked = codes.clone()
    masked[:, span[0] : span[1]] = mask_id
    masked[shown:] = mask_id
    prompt = build_prompt(engine.tokenizer, text="Good morning to you.", language="en")
    return OpenedSpeech(prompt, masked, codes[0])


def by_hand(engine: Engine, speech: OpenedSpeech) -> Tensor:
    """-log p of the first codebook in the masked frames, from one document without a batch."""
    lm, config = engine.lm, engine.lm.config
    K, T = speech.codes.shape
    table = lm.audio_embeddings.weight.view(K, config.audio_vocab_size, -1)
    text = engine.sampler.text.rows(speech.prompt_ids, dtype=torch.float32, device=torch.device("cpu"))
    rows = torch.cat((text, sum(table[k][speech.codes[k]] for k in range(K))))
    layout = PackedLayout.build(
        [len(rows)], [T], head_dim=config.head_dim, theta=config.rope_theta, device=torch.device("cpu")
    )
    probabilities = lm(rows, layout)[:, 0].double().exp()  # [T, V]
    opened = (speech.codes[0] == config.audio_mask_id).nonzero()[:, 0]
    return torch.stack([-(probabilities[t, speech.first[t]] / probabilities[t].sum()).log() for t in opened])


@pytest.mark.parametrize("shown", [1, 3, 8])
@pytest.mark.parametrize("span", [(7, 12), (0, 4), (18, 20), (0, 20)])
def test_a_loss_is_that_of_one_forward_pass(engine: Engine, span: tuple[int, int], shown: int) -> None:
    speech = _opened(engine, span=span, shown=shown)
    with torch.no_grad():
        expected = by_hand(engine, speech)
    (found,) = engine.opened_losses([speech])
    assert found.dtype == torch.float32 and len(found) == span[1] - span[0]
    assert torch.allclose(found.double(), expected, atol=1e-5)


@pytest.mark.parametrize("free_bytes", [None, 1])
def test_a_recording_alone_has_the_loss_that_it_has_in_a_batch(engine: Engine, free_bytes: int | None) -> None:
    speech = [_opened(engine, frames, seed=frames, shown=shown) for frames, shown in ((20, 8), (31, 1), (13, 2))]
    together = engine.opened_losses(speech, free_bytes=free_bytes)
    for one, found in zip(speech, together):
        assert torch.allclose(engine.opened_losses([one])[0], found, atol=1e-5)


@pytest.mark.parametrize("switch", list(vars(ALL_SPEEDUPS)))
def test_no_exact_shortcut_changes_a_loss(checkpoint: Path, engine: Engine, switch: str) -> None:
    slow, speech = Engine.load(checkpoint, speedups=replace(ALL_SPEEDUPS, **{switch: False})), [_opened(engine)]
    assert torch.allclose(slow.opened_losses(speech)[0], engine.opened_losses(speech)[0], atol=1e-5)


def test_progress_counts_recordings_and_may_cancel(engine: Engine) -> None:
    told: list[tuple[int, int]] = []
    speech = [_opened(engine, seed=seed) for seed in range(3)]
    engine.opened_losses(speech, free_bytes=1, on_step=lambda *at: told.append(at))
    assert told == [(1, 3), (2, 3), (3, 3)]

    def cancel(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.opened_losses(speech, on_step=cancel)


def test_nothing_to_measure_gives_nothing(engine: Engine) -> None:
    assert engine.opened_losses([]) == []


def test_no_gradient_and_nothing_given_changes(engine: Engine) -> None:
    speech = _opened(engine)
    before = speech.codes.clone()
    (found,) = engine.opened_losses([speech])
    assert not found.requires_grad and torch.equal(speech.codes, before)


def test_losses_that_are_not_finite_are_an_error(checkpoint: Path) -> None:
    broken = Engine.load(checkpoint)
    with torch.no_grad():
        broken.lm.audio_heads.weight.fill_(float("nan"))
    with pytest.raises(NumericError, match="the model produced NaN or Inf on cpu: load it in fp32"):
        broken.opened_losses([_opened(broken)])


def test_an_overflow_of_float16_goes_on_in_bfloat16(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half, plain, calls = Engine.load(checkpoint, dtype=torch.float16), Engine.load(checkpoint), []
    real = filling_loss.predict

    def overflows_once(*given: object) -> Tensor:
        calls.append(half.lm.get_dtype())
        found = real(*given)  # type: ignore[arg-type]
        return found * float("nan") if len(calls) == 1 else found

    speech = [_opened(plain)]
    expected = plain.opened_losses(speech)[0]
    monkeypatch.setattr(filling_loss, "predict", overflows_once)
    (found,) = half.opened_losses(speech)
    assert calls == [torch.float16, torch.bfloat16] and half.lm.overflowed
    assert torch.allclose(found, expected, atol=0.2)


def test_a_gpu_computes_what_the_cpu_does(checkpoint: Path, engine: Engine) -> None:
    """On the simulated device, which refuses to mix devices."""
    speech = [_opened(engine, frames, seed=frames) for frames in (20, 31)]
    expected = engine.opened_losses(speech)
    moved = Engine.load(checkpoint)
    with torch.no_grad(), SimulatedCuda() as cuda:
        sampler = Sampler(cuda.place(moved.lm), moved.sampler.text, CUDA, ALL_SPEEDUPS, StepGraphs(enabled=False))
        found = opened_losses(sampler, speech)
    assert cuda.kernels and all(one.device == CPU for one in found)
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(found, expected))


def test_a_lack_of_memory_is_told_in_words(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Tensor:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(filling_loss, "predict", full)
    with pytest.raises(DeviceMemoryError, match="cpu is out of memory: close other programs"):
        engine.opened_losses([_opened(engine)])


Fault = Callable[[OpenedSpeech], OpenedSpeech]
FAULTS: dict[str, tuple[Fault, str]] = {
    "codebooks": (lambda s: replace(s, codes=s.codes[:7]), r"must be \[8, T\] int64, got Tensor"),
    "no frame axis": (lambda s: replace(s, codes=s.codes[0]), r"must be \[8, T\] int64"),
    "small integers": (lambda s: replace(s, codes=s.codes.to(torch.int16)), r"must be \[8, T\] int64"),
    "no tensor": (lambda s: replace(s, codes=[[1]]), r"must be \[8, T\] int64, got list"),  # type: ignore[arg-type]
    "no frames": (lambda s: replace(s, codes=s.codes[:, :0], first=s.first[:0]), "must be 0-1024"),
    "too high": (lambda s: replace(s, codes=s.codes + 1), "the codes of a recording must be 0-1024"),
    "negative": (lambda s: replace(s, codes=s.codes - 1025), "the codes of a recording must be 0-1024"),
    "length": (lambda s: replace(s, first=s.first[:-1]), "the first codebook must be 20 codes of 0-1023"),
    "mask to find": (
        lambda s: replace(s, first=s.first.masked_fill(s.first >= 0, 1024)),
        "the first codebook must be 20 codes of 0-1023",
    ),
    "nothing open": (
        lambda s: replace(s, codes=s.codes.clamp(max=1023)),
        "the mask must stand in every codebook of the opened frames, and there must be some",
    ),
    "half open": (
        lambda s: replace(s, codes=torch.cat((s.codes[:4], s.codes[4:].clamp(max=1023)))),
        "the mask must stand in every codebook of the opened frames",
    ),
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
def test_what_does_not_fit_is_refused(engine: Engine, fault: Fault, message: str) -> None:
    with pytest.raises(InputError, match=message):
        engine.opened_losses([_opened(engine), fault(_opened(engine))])
