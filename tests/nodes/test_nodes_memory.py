"""What ComfyUI is asked for before speaking, and that the run keeps to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture
def model(pack: SimpleNamespace, host, checkpoint: Path) -> object:
    shutil.copytree(checkpoint, host.folder / "OmniVoice")
    (model,) = pack.load.LoadOmniVoice.execute(model_name="OmniVoice", dtype="fp32").values
    return model


def test_what_is_free_without_displacing_anything(pack: SimpleNamespace, host, model: object) -> None:
    """Two models of 1000 bytes, 300 of each already there; ComfyUI clears 500 - 100 for any run."""
    for free, expected in ((10_000, 8_600), (1_500, 400), (0, 400)):
        host.free_memory = free
        assert pack.host.speech.working_memory(model) == expected


@pytest.mark.parametrize("free", [0, 10**12])
def test_the_run_gets_the_budget_that_was_estimated(
    pack: SimpleNamespace, host, model: object, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int, int]] = []

    def spied(name: str) -> Callable[..., object]:
        original = getattr(model.engine, name)

        def spy(plans: object, *, free_bytes: int, **options: object) -> object:
            calls.append((name, free_bytes, len(host.loads)))
            return original(plans, free_bytes=free_bytes, **options)

        return spy

    for name in ("estimate_bytes", "generate_plans"):
        monkeypatch.setattr(model.engine, name, spied(name))
    host.free_memory = free
    request = pack.engine.GenerationRequest("Hello.", duration=0.5, sampling=pack.engine.Sampling(steps=1), seed=1)
    pack.host.speech.speak(model, {"": request})
    budget = pack.host.speech.working_memory(model)
    assert calls == [("estimate_bytes", budget, 0), ("generate_plans", budget, 1)]
    assert host.loads[0][1] == model.engine.estimate_bytes(model.engine.plan([request]), free_bytes=budget)
