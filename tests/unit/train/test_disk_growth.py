"""A run that saves, validates and improves at every step takes no more room on the disk than a run that saves once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnivoice.train import run as run_module
from omnivoice.train.loop import Outcome, train
from omnivoice.train.run import KEPT, METRICS, RESERVE, open_run
from omnivoice.train.state_files import write_state
from tests.unit.train.training_fixtures import tiny_trainer

STEPS = 12
OTHERS = {"best.safetensors", METRICS, RESERVE, "settings.json"}


def sizes(folder: Path) -> dict[str, int]:
    """{name: bytes} of the training states in a folder, temporary files among them."""
    return {name: (folder / name).stat().st_size for name in sorted(os.listdir(folder)) if "state-" in name}


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
@pytest.mark.parametrize("validate_every", [0, 1])
def test_states_of_every_step_never_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str, validate_every: int
) -> None:
    """Looked at when a state has just been written and the oldest still lies there, and after every step."""
    trainer = tiny_trainer(steps=STEPS, save_every=1, validate_every=validate_every, optimizer=optimizer)
    weights = sum(4 * parameter.numel() for parameter in trainer.trained.values())
    folder = open_run(tmp_path, trainer.settings, data="clips", base="model")
    written, between = list[dict[str, int]](), list[dict[str, int]]()

    def writing(path: Path, *content: object) -> None:
        write_state(path, *content)  # type: ignore[arg-type]
        if path.name.startswith("state-"):
            written.append(sizes(tmp_path))

    monkeypatch.setattr(run_module, "write_state", writing)
    ended = train(trainer, folder, on_step=lambda report: bool(between.append(sizes(tmp_path))))
    assert ended == Outcome("finished", STEPS)
    between = [*between[1:], sizes(tmp_path)]
    assert [[*found] for found in between] == [names(step - KEPT + 1, step) for step in range(1, STEPS + 1)]
    assert [[*found] for found in written] == [names(step - KEPT, step) for step in range(1, STEPS + 1)]
    of_one = (3 if optimizer == "AdamW" else 1) * weights + 30_000  # 30,000 for the names of the tensors
    assert max(sum(found.values()) for found in between) <= KEPT * of_one
    assert max(sum(found.values()) for found in written) <= (KEPT + 1) * of_one
    assert {*os.listdir(tmp_path)} - {*between[-1]} <= OTHERS
    assert (tmp_path / METRICS).stat().st_size <= STEPS * 500


def names(first: int, last: int) -> list[str]:
    return [f"state-{step:08d}.safetensors" for step in range(max(first, 1), last + 1)]
