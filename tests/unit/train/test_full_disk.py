"""A disk that fills up: older states make room, then the run ends at once, and nothing that was saved is lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from omnivoice.errors import DiskFullError
from omnivoice.intake import files
from omnivoice.train.loop import Outcome, train
from omnivoice.train.results import write_loras
from omnivoice.train.run import RunFolder, open_run, read_state
from omnivoice.train.state_files import write_state
from omnivoice.train.trainer import Trainer
from omnivoice.weights.lora_read import read_lora
from tests.unit.train.training_fixtures import FEW_WEIGHTS, tiny_trainer

STEPS = 4
CHANGES = {"steps": STEPS, "save_every": 1, "validate_every": 2, "learning_rate": 1e-2, "rank": 16, **FEW_WEIGHTS}
METADATA = {"steps": str(STEPS)}
WRITES = 15  # of a run with CHANGES and its results


class Disk:
    """Fails writes of the product as a full disk does: those that `is_full` says, by their number and size.

    Files that are replaced or deleted give their room back, as on a disk.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_full: Callable[[int, int], bool]) -> None:
        self.writes, self.is_full = list[str](), is_full
        write, append = files._write_synced, files._append

        def write_synced(temp: Path, parts: object) -> None:
            data = [bytes(part) for part in parts]  # type: ignore[attr-defined]
            self._use(temp.name[1:].partition(".")[0], sum(map(len, data)))
            write(temp, data)

        def append_data(file: object, data: bytes) -> None:
            self._use("metrics", len(data))
            append(file, data)  # type: ignore[arg-type]

        monkeypatch.setattr(files, "_write_synced", write_synced)
        monkeypatch.setattr(files, "_append", append_data)

    def _use(self, name: str, size: int) -> None:
        self.writes.append(name)
        if self.is_full(len(self.writes), size):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def begin(folder: Path) -> tuple[Trainer, RunFolder]:
    trainer = tiny_trainer(**CHANGES)
    opened = open_run(folder, trainer.settings, data="clips", base="model")
    opened.resume(trainer)
    return trainer, opened


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trainer, list[str]]:
    """A run without faults, and what it wrote in which order."""
    with pytest.MonkeyPatch.context() as patch:
        trainer, opened = begin(tmp_path_factory.mktemp("whole"))
        disk = Disk(patch, lambda number, size: False)
        assert train(trainer, opened) == Outcome("finished", STEPS)
        assert len([*write_loras(trainer, opened, "anna", METADATA)]) == 2
    return trainer, disk.writes


def resumed(folder: Path, whole: Trainer) -> None:
    """With room again, the same call ends with the same weights, and with one line of metrics per step."""
    trainer, opened = begin(folder)
    assert train(trainer, opened) == Outcome("finished", STEPS)
    assert trainer.losses == whole.losses
    assert all(torch.equal(weight, whole.trained[name]) for name, weight in trainer.trained.items())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    told = [line["step"] for line in lines if "loss" in line]
    assert told == sorted(set(told)) and len(told) >= STEPS - 1  # the line that did not fit is lost


def test_the_cases_cover_every_kind_of_write(whole: tuple[Trainer, list[str]]) -> None:
    """In this order: so the numbers below mean these writes."""
    assert len(whole[1]) == WRITES
    assert whole[1][0].startswith("reserve") and whole[1][-2:] == ["anna", "anna-best"]
    assert {name.rstrip("0123456789") for name in whole[1][1:-2]} == {"metrics", "best", "state-"}


def step_of(writes: list[str], number: int) -> int:
    """The step in which that write happened."""
    return 1 + sum(name.startswith("state") for name in writes[: number - 1])


@pytest.mark.parametrize("number", range(2, WRITES + 1))
def test_a_disk_that_stays_full_ends_the_run_at_once(
    number: int, whole: tuple[Trainer, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full from the n-th write on, whatever is deleted; every n of a run and its results."""
    trainer, opened = begin(tmp_path)
    with monkeypatch.context() as patch:
        disk = Disk(patch, lambda count, size: count >= number)
        outcome = train(trainer, opened)
        tries = len(disk.writes) - number
        results = []
        try:
            for path in write_loras(trainer, opened, "anna", METADATA):
                results.append(path.name)
        except DiskFullError as error:
            assert "the disk is full, " in str(error)
    step = step_of(whole[1], number)
    if number <= WRITES - 2:
        assert outcome.step == step and outcome.reason == ("finished" if step == STEPS else "not saved")
        assert "the disk is full" in outcome.fault and tries <= 6, "it does not go on"
        assert opened.saved_step() == step - 1
    else:
        assert outcome == Outcome("finished", STEPS)
    assert results == (["anna.safetensors"] if number == WRITES else [])
    states = opened.states()
    assert all(read_state(state) for state in states) and len(states) == min(1, opened.saved_step())
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".ovtmp")]
    resumed(tmp_path, whole[0])


@pytest.mark.parametrize("number", range(2, WRITES + 1))
def test_room_made_by_older_states_lets_the_run_go_on(
    number: int, whole: tuple[Trainer, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    """The n-th write alone fails. From the third step on there is an older state to delete."""
    trainer, opened = begin(tmp_path)
    with monkeypatch.context() as patch:
        Disk(patch, lambda count, size: count == number)
        outcome = train(trainer, opened)
        step = step_of(whole[1], number)
        if step <= 2:
            unsaved = whole[1][number - 1].startswith("state")
            assert (outcome.reason, outcome.step, opened.saved_step()) == ("not saved", step, step - unsaved)
        else:
            assert outcome == Outcome("finished", STEPS)
        names = [path.name for path in write_loras(trainer, opened, "anna", METADATA)]
        assert names[0] == "anna.safetensors"
        assert step <= 2 or "was deleted to make room" in caplog.text
    resumed(tmp_path, whole[0])


@pytest.mark.parametrize("states", [1.7, 2.2, 3.7])
def test_a_small_disk_holds_what_was_learnt(
    states: float, whole: tuple[Trainer, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk of that many training states, of three times the weights each. The LoRA of the end is always written."""
    trainer, opened = begin(tmp_path)
    size = 12 * sum(weight.numel() for weight in trainer.trained.values())
    monkeypatch.setattr("omnivoice.train.run.RESERVE_SPARE", 2_000)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "check_space", lambda *_: None)

        def is_full(count: int, needed: int) -> bool:
            return sum(path.stat().st_size for path in tmp_path.iterdir()) + needed > states * size

        Disk(patch, is_full)
        outcome = train(trainer, opened)
        names = []
        try:
            for path in write_loras(trainer, opened, "anna", METADATA):
                names.append(path.name)
        except DiskFullError:
            assert states < 3
    assert outcome.reason == ("finished" if states > 3 else "not saved") and names[0] == "anna.safetensors"
    lora, kept = read_lora(tmp_path / "anna.safetensors", trainer.model.lm.config), opened.saved_step()
    assert lora.changes and kept >= outcome.step - 1
    (tmp_path / "anna.safetensors").unlink()
    resumed(tmp_path, whole[0])


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EACCES])
def test_best_weights_that_could_not_be_written_are_not_taken_for_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """The second validation is worse than the first, but better than what is on the disk: nothing."""
    trainer, opened = begin(tmp_path)
    losses, tried = iter([1.0, 2.0]), list[Path]()

    def write(path: Path, *content: object) -> None:
        tried.append(path)
        if tried.count(path) == 1 and path.name == "best.safetensors":
            raise files.write_error(path, 0, OSError(code, os.strerror(code)))
        write_state(path, *content)  # type: ignore[arg-type]

    monkeypatch.setattr(trainer, "validate", lambda: next(losses))
    monkeypatch.setattr("omnivoice.train.run.write_state", write)
    assert train(trainer, opened) == Outcome("finished", STEPS)
    assert "the best weights could not be written, the file has earlier ones: cannot write" in caplog.text
    assert (trainer.best, trainer.stale) == (2.0, 0)
    best = opened.best()
    assert best is not None and best[1] == STEPS


def test_a_disk_too_full_to_begin_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, opened = begin(tmp_path)
    Disk(monkeypatch, lambda count, size: True)
    with pytest.raises(DiskFullError, match=r"^cannot write reserve\.bin: the disk is full, 1\.07 MB are needed"):
        train(trainer, opened)
    assert trainer.step_count == 0
