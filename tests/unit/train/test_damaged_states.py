"""Training states that are damaged, mixed, foreign, newer or missing: none is ever taken for a whole one, and a run
never starts again without saying so."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import torch

from omnivoice.errors import FileError, InputError
from omnivoice.intake.tensors import read_own_tensors, write_tensors
from omnivoice.train.loop import Outcome, train
from omnivoice.train.run import open_run, read_state
from omnivoice.train.state_files import ForeignStateError, write_state
from omnivoice.train.trainer import Trainer
from tests.unit.train.training_fixtures import tiny_trainer

CHANGES = {"steps": 4, "save_every": 1, "validate_every": 0, "rank": 1}
NEWEST, OLDER = "state-00000004.safetensors", "state-00000003.safetensors"


def run(folder: Path, data: str = "clips", **changes: object) -> Trainer:
    trainer = tiny_trainer(**{**CHANGES, **changes})
    opened = open_run(folder, trainer.settings, data=data, base="model")
    opened.resume(trainer)
    assert train(trainer, opened) == Outcome("finished", 4)
    return trainer


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two finished runs, whose training states differ in values alone."""
    folder = tmp_path_factory.mktemp("runs")
    run(folder / "one")
    run(folder / "other", seed=1)
    return folder / "one", folder / "other"


@pytest.fixture
def copied(runs: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs[0], tmp_path / "copied"))


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small training state with every kind of tensor."""
    path = tmp_path_factory.mktemp("state") / NEWEST
    generator = torch.Generator().manual_seed(2)
    tensors = {
        "weights.a": torch.randn(7, 9, generator=generator),
        "optimizer.exp_avg.a": torch.randn(7, 9, generator=generator).to(torch.bfloat16),
        "optimizer.step.a": torch.tensor(4.0),
        "losses": torch.randn(4, generator=generator, dtype=torch.float64),
    }
    write_state(path, tensors, {"step": 4, "epoch": 0, "run": 123})
    return path


def refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(FileError):
        read_state(path)


def test_every_truncation_is_noticed(state: Path, tmp_path: Path) -> None:
    data = state.read_bytes()
    for size in range(len(data)):
        refused(tmp_path / NEWEST, data[:size])
    refused(tmp_path / NEWEST, data + b"\0")


def test_every_flipped_bit_is_noticed(state: Path, tmp_path: Path) -> None:
    data = state.read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        refused(tmp_path / NEWEST, bytes(flipped))


def test_damage_of_a_real_state_is_noticed(copied: Path) -> None:
    path, moments = copied / NEWEST, random.Random(18)
    data = path.read_bytes()
    for index in range(20):
        refused(path, data[: len(data) * index // 20])
        flipped = bytearray(data)
        flipped[moments.randrange(len(data))] ^= 1 << moments.randrange(8)
        refused(path, bytes(flipped))


@pytest.mark.parametrize("kind", ["optimizer.", "weights."])
def test_tensors_of_another_run_in_a_state_are_noticed(
    kind: str, runs: tuple[Path, Path], copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is a valid safetensors file of the right shapes, but its parts do not belong together."""
    tensors, metadata = read_own_tensors(copied / NEWEST)
    others, _ = read_own_tensors(runs[1] / NEWEST)
    mixed = {name: others[name] if name.startswith(kind) else tensor for name, tensor in tensors.items()}
    assert any(not torch.equal(mixed[name], tensors[name]) for name in tensors)
    write_tensors(copied / NEWEST, mixed, metadata)
    trainer = tiny_trainer(**CHANGES)
    assert open_run(copied, trainer.settings, data="clips", base="model").resume(trainer)
    assert trainer.step_count == 3
    assert f"a damaged training state is skipped: {NEWEST} is damaged: its content does not match" in caplog.text


@pytest.mark.parametrize("name", [NEWEST, OLDER, "state-00000009.safetensors"])
def test_a_whole_state_of_another_run_is_refused_and_stays(name: str, runs: tuple[Path, Path], copied: Path) -> None:
    source = NEWEST if name == NEWEST else OLDER
    if name == OLDER:
        (copied / NEWEST).unlink()
    if name == "state-00000009.safetensors":
        tensors, numbers = read_state(runs[1] / NEWEST)
        write_state(copied / name, tensors, {**numbers, "step": 9})
    else:
        shutil.copy(runs[1] / source, copied / name)
    before = (copied / name).read_bytes()
    with pytest.raises(ForeignStateError, match=rf"^{name} belongs to another run: move it back, or name another"):
        run(copied)
    assert (copied / name).read_bytes() == before


def test_a_state_of_a_newer_version_is_refused_and_stays(copied: Path) -> None:
    tensors, metadata = read_own_tensors(copied / NEWEST)
    write_tensors(copied / NEWEST, tensors, {**metadata, "format_version": "2"})
    words = r"was written by a newer version of this pack \(training state 2, this one reads 1\): update the pack"
    with pytest.raises(ForeignStateError, match=words):
        run(copied)
    assert {NEWEST, OLDER} <= {path.name for path in copied.iterdir()}


def test_a_state_of_an_earlier_version_of_this_pack_has_no_number_of_its_run(copied: Path) -> None:
    tensors, numbers = read_state(copied / NEWEST)
    assert numbers.pop("run") > 0
    write_state(copied / NEWEST, tensors, numbers)
    assert run(copied).step_count == 4


def test_the_number_of_a_run_outlives_what_may_change(tmp_path: Path) -> None:
    steady = {**CHANGES, "schedule": "constant", "warmup": 0.0}
    numbers = set()
    for changes in (
        {},
        {"save_every": 3},
        {"patience": 5, "validate_every": 2},
        {"sample_text": "Hi.", "sample_every": 2},
        {"steps": 9},
    ):
        trainer = tiny_trainer(**{**steady, **changes})
        numbers.add(open_run(tmp_path / "same", trainer.settings, data="clips", base="model").run)
    assert len(numbers) == 1
    for place, given in enumerate(({"data": "clips", "base": "b"}, {"data": "d", "base": "model"})):
        numbers.add(open_run(tmp_path / f"other {place}", tiny_trainer(**steady).settings, **given).run)
    numbers.add(open_run(tmp_path / "seed", tiny_trainer(**steady, seed=3).settings, data="clips", base="model").run)
    assert len(numbers) == 4 and min(numbers) > 0


def test_a_missing_state_is_replaced_by_the_one_before(copied: Path, runs: tuple[Path, Path]) -> None:
    (copied / NEWEST).unlink()
    run(copied)
    assert (copied / NEWEST).read_bytes() == (runs[0] / NEWEST).read_bytes()


def test_without_any_state_the_log_says_that_the_run_starts_again(
    copied: Path, runs: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    for name in (NEWEST, OLDER):
        (copied / name).unlink()
    run(copied)
    assert "copied holds metrics but no training state: the run starts again at its first step" in caplog.text
    assert (copied / NEWEST).read_bytes() == (runs[0] / NEWEST).read_bytes()


def test_a_new_run_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path / "new")
    assert caplog.text == ""


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": "x"}', b"\0" * 400])
def test_damaged_settings_end_in_an_error(copied: Path, damage: bytes) -> None:
    (copied / "settings.json").write_bytes(damage)
    with pytest.raises((FileError, InputError)):
        run(copied)
    assert {NEWEST, OLDER} <= {path.name for path in copied.iterdir()}


def test_other_files_of_a_run_may_be_missing(copied: Path, runs: tuple[Path, Path]) -> None:
    (copied / "metrics.jsonl").unlink()
    (copied / NEWEST).unlink()
    assert run(copied).losses == run(Path(shutil.copytree(runs[0], copied.parent / "again"))).losses
    assert [json.loads(line)["step"] for line in (copied / "metrics.jsonl").read_text().splitlines()] == [4]
