"""Tampered states, strange folders and processes that disagree: each is reported, and no training is lost."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from omnivoice.commands import train as command
from omnivoice.commands.train_config import read_order
from omnivoice.commands.train_progress import tensorboard
from omnivoice.engine import Engine
from omnivoice.errors import CheckpointError, DiskFullError, FileError, InputError, LoraError, NumericError
from omnivoice.intake.tensors import open_tensors
from omnivoice.train import batches
from omnivoice.train.adapter import start_from_lora, trained_lora
from omnivoice.train.build import build_trainer
from omnivoice.train.clips import Dataset
from omnivoice.train.loop import train
from omnivoice.train.manifests import read_manifest
from omnivoice.train.run import RunFolder, open_run, read_state, write_state
from omnivoice.train.trainer import StepReport, Trainer
from omnivoice.train.world import World
from omnivoice.weights import locate_checkpoint
from tests.unit.train.test_world import in_two_processes, needs_fork
from tests.unit.train.training_fixtures import (
    CHECKPOINT,
    CPU,
    SMALL,
    random_clips,
    tiny_model,
    tiny_tokenizer,
    tiny_trainer,
)

LAST = f"state-{SMALL.steps:08d}.safetensors"
Change = Callable[[dict[str, Tensor], dict[str, int]], object]


def resume(folder: Path) -> Trainer:
    trainer = tiny_trainer()
    opened = open_run(folder, SMALL, data="d", base="b")
    opened.resume(trainer)
    train(trainer, opened)
    return trainer


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    resume(folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def test_a_damaged_state_is_written_again_at_its_step(finished: Path, copied: Path) -> None:
    """The writer replaces only files of its format, so a damaged file would stay in the way for ever."""
    (copied / LAST).write_bytes(b"")
    (copied / "best.safetensors").write_bytes(b"torn")
    resume(copied)
    for name in (LAST, "best.safetensors"):
        assert (copied / name).read_bytes() == (finished / name).read_bytes()
    assert [path.name for path in RunFolder(copied).states()] == [LAST, "state-00000004.safetensors"]


def test_a_state_is_of_the_step_that_its_name_says(finished: Path, copied: Path, caplog) -> None:
    """Otherwise a run would resume from a copy with a high number for ever."""
    shutil.copy(copied / "state-00000004.safetensors", copied / "state-00000999.safetensors")
    (copied / LAST).unlink()
    os.symlink("nowhere", copied / "state-00000998.safetensors")
    resume(copied)
    assert "state-00000999.safetensors is misnamed: it is the state of step 4" in caplog.text
    assert "state-00000998.safetensors does not exist" in caplog.text
    assert (copied / LAST).read_bytes() == (finished / LAST).read_bytes()
    assert len(RunFolder(copied).states()) == 2


STATE = "is not consistent"
TAMPERED: dict[str, tuple[Change, str]] = {
    "no losses": (lambda t, n: t.pop("losses"), STATE),
    "two bests": (lambda t, n: t.update(best=torch.zeros(2, dtype=torch.float64)), STATE),
    "no epoch": (lambda t, n: n.pop("epoch"), STATE),
    "before the first clip": (lambda t, n: n.update(position=-3), STATE),
    "after the last clip": (lambda t, n: n.update(position=10**9), STATE),
    "a stranger's moment": (lambda t, n: t.update({"optimizer.exp_avg.x": torch.zeros(1)}), "other weights"),
    "moments of another shape": (
        lambda t, n: t.update({k: torch.zeros(3) for k in t if ".exp_avg." in k}),
        "other weights",
    ),
    "NaN": (lambda t, n: [v.fill_(math.nan) for k, v in t.items() if k.startswith("weights.")], "contains NaN or Inf"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_state_that_cannot_be_is_refused(finished: Path, kind: str) -> None:
    tensors, numbers = read_state(finished / LAST)
    TAMPERED[kind][0](tensors, numbers)
    trainer = tiny_trainer()
    before = {name: p.detach().clone() for name, p in trainer.trained.items()}
    with pytest.raises(CheckpointError, match=TAMPERED[kind][1]):
        trainer.restore(tensors, numbers)
    assert all(torch.equal(p, before[name]) for name, p in trainer.trained.items()), "nothing was taken over"


@pytest.mark.parametrize("numbers", [{"step": "4"}, {"step": True}, {"step": 4.0}, {"step": None}])
def test_numbers_that_are_none_are_damage(numbers: dict, tmp_path: Path) -> None:
    write_state(tmp_path / "a.safetensors", {"a": torch.zeros(1)}, numbers)
    with pytest.raises(FileError, match="its numbers are missing"):
        read_state(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "line", [b"[" * 100_000, b'{"step": 1' + b"0" * 400 + b"}", b"\xff\0", b"3", b"{}", b'{"step": "1"}']
)
def test_garbage_among_the_metrics_stops_nothing(line: bytes, copied: Path) -> None:
    whole = (copied / "metrics.jsonl").read_bytes()
    (copied / "metrics.jsonl").write_bytes(line + b"\n" + whole)
    RunFolder(copied).resume(tiny_trainer())
    assert (copied / "metrics.jsonl").read_bytes() == whole


def test_states_from_before_outlive_steps_that_learn_nothing(tmp_path: Path, monkeypatch) -> None:
    """After a step that ruins the weights every loss is NaN; saving them would push the good states out."""
    trainer = tiny_trainer(save_every=1, steps=20)
    learn = Trainer.learn
    monkeypatch.setattr(
        Trainer, "learn", lambda self, ex: learn(self, ex) if self.step_count < 3 else (math.nan, math.nan)
    )
    with pytest.raises(NumericError, match=r"not finite in 5 steps in a row \(step 8\)"):
        train(trainer, open_run(tmp_path, trainer.settings, data="d", base="b"))
    assert [path.stem for path in RunFolder(tmp_path).states()] == ["state-00000003", "state-00000002"]


def test_patience_without_a_clip_to_validate_on_is_refused(caplog) -> None:
    """5 % of 6 clips is less than one: without an error, the run would never stop early."""
    lm, text = tiny_model()
    settings = replace(SMALL, validation=0.05, patience=2)
    dataset, about = Dataset(random_clips()), {"device": CPU}
    with pytest.raises(InputError, match=r"patience needs validation clips, but 0\.05 of 6 clips"):
        build_trainer(lm, text, tiny_tokenizer(), dataset, settings, **about)
    build_trainer(lm, text, tiny_tokenizer(), dataset, replace(settings, patience=0), **about)
    assert "no validation: 0.05 of 6 clips" in caplog.text


def test_several_processes_cannot_offload() -> None:
    settings = replace(SMALL, offloading=True, gradient_checkpointing=True)
    about = {"device": CPU, "world": World(0, 2, 0)}
    with pytest.raises(InputError, match="offloading works in a single process only"):
        build_trainer(*tiny_model(), tiny_tokenizer(), Dataset(random_clips()), settings, **about)


def test_a_full_fine_tune_starts_from_no_lora() -> None:
    lora = trained_lora(tiny_trainer().model, "mine")
    full = tiny_trainer(method="full")
    with pytest.raises(LoraError, match="method full cannot start from mine: merge it into the model"):
        start_from_lora(full.model, lora, full.settings)


def test_an_order_is_made_once_an_epoch() -> None:
    batches._order.cache_clear()
    source = tiny_trainer().source
    cursor = batches.Cursor()
    while cursor.epoch < 3:
        _, cursor = source.take(cursor, tokens=1, clips=1)
    assert batches._order.cache_info().misses == 3


@needs_fork
def test_processes_see_whether_they_agree(tmp_path: Path) -> None:
    def work(world: World) -> None:
        assert world.agree(torch.tensor([2**59 + 1, 7]))
        assert not world.agree(torch.tensor([7, world.rank]))
        assert not world.agree(torch.tensor([2**59 + world.rank]))

    in_two_processes(tmp_path / "meeting", work)
    assert World().agree(torch.tensor([1]))


def order(folder: Path, **entries: object) -> str:
    (folder / "clips").mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"data": "clips", "output": "runs/anna", **entries}))
    return str(folder / "config.json")


@pytest.mark.parametrize(
    "entries, words",
    [
        ({"name": "Best"}, "name 'Best' is taken by a file of the run"),
        ({"output": "state-00000100"}, "is taken by a file of the run"),
        ({"name": "con"}, "con"),
        ({"output": "clips"}, "output and data must be different folders"),
        ({"output": "clips/../clips/"}, "output and data must be different folders"),
        ({"settings": {"lr": 1}}, "unknown setting lr"),
        ({"preset": "voice", "settings": {"rank": 0}}, "rank must be 1-256"),
    ],
)
def test_what_would_fail_after_hours_is_reported_at_once(tmp_path: Path, entries: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_order(order(tmp_path, **entries))


def test_a_run_in_the_folder_of_its_config_has_that_folders_name(tmp_path: Path, monkeypatch) -> None:
    order(tmp_path, output=".")
    monkeypatch.chdir(tmp_path)
    assert read_order("config.json").result_name == tmp_path.name


@pytest.mark.parametrize("text", ["data = " + "[" * 5000, "data = " + "9" * 6000, "data = '\xff'"])
def test_strange_toml_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(FileError, match=r"config\.toml is not (valid|usable) TOML"):
        read_order(str(tmp_path / "config.toml"))


def test_a_reader_that_has_left_stops_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    progress = command.Progress(shown=True, terminal=False)
    progress.show(StepReport(1, 2, 3.0, 1e-4, 1.0, 10, 1.0, False))
    progress.say("validation")


def engine_of(trainer: Trainer) -> Engine:
    """The engine with which the command line speaks samples."""
    return command._engine(trainer, locate_checkpoint(CHECKPOINT), tiny_tokenizer())


def test_a_sample_that_fails_stops_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def full(*_: object, **options: object) -> None:
        raise FileError("write-protected")

    trainer = tiny_trainer(sample_every=3, sample_text="Red book.")
    speak = command._speaker(trainer, engine_of(trainer), RunFolder(tmp_path), None)
    monkeypatch.setattr(command, "write_wav", full)
    assert train(trainer, on_sample=speak).reason == "finished"
    assert "no sample was written at step 3: write-protected" in caplog.text
    with pytest.raises(InputError, match="nothing to speak"):
        trainer.settings = replace(trainer.settings, sample_text="...")
        command._speaker(trainer, engine_of(trainer), RunFolder(tmp_path), None)


def test_a_sample_that_does_not_fit_on_the_disk_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **options: object) -> None:
        raise DiskFullError("the disk is full")

    trainer = tiny_trainer(sample_every=2, sample_text="Red book.")
    speak = command._speaker(trainer, engine_of(trainer), RunFolder(tmp_path), None)
    monkeypatch.setattr(command, "write_wav", full)
    outcome = train(trainer, on_sample=speak)
    assert (outcome.reason, outcome.step, outcome.fault) == ("not saved", 2, "the disk is full")


def test_the_best_of_a_full_fine_tuning_is_a_model_too(tmp_path: Path) -> None:
    trainer, folder = tiny_trainer(method="full"), RunFolder(tmp_path)
    trainer.step_count = 2
    folder.save_best(trainer)
    first = {name: p.detach().clone() for name, p in trainer.trained.items()}
    trainer.step_count = 6
    with torch.no_grad():
        for parameter in trainer.trained.values():
            parameter.add_(1)
    written = [*command._write_models(trainer, folder, locate_checkpoint(CHECKPOINT), tmp_path)]
    assert [path.name for path in written] == ["model-00000006", "model-best-00000002"]
    with open_tensors(written[1] / "model.safetensors") as best:
        assert all(torch.equal(best.get(name), weight) for name, weight in first.items())
    assert [*command._write_models(trainer, folder, locate_checkpoint(CHECKPOINT), tmp_path)] == written


def test_folders_that_are_not_entered_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("open", "shut", "real"):
        (tmp_path / "data" / folder).mkdir(parents=True)
        (tmp_path / "data" / folder / "a.wav").write_bytes(b"")
        (tmp_path / "data" / folder / "a.txt").write_text("A.")
    os.symlink(tmp_path / "data" / "real", tmp_path / "data" / "linked")
    list_folder = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = read_manifest(tmp_path / "data", root=tmp_path / "data")
    assert [row.name for row in found.rows] == ["open/a.wav", "real/a.wav"]
    assert found.notes == (
        "linked not entered: links to folders are not followed",
        "shut not entered: Permission denied",
    )


def test_a_disk_without_room_is_reported_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = tiny_trainer()
    opened = open_run(tmp_path, trainer.settings, data="d", base="b")
    size = 4 * sum(parameter.numel() for parameter in trainer.trained.values())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 20 * size - 1))
    with pytest.raises(FileError, match=r"are to be written and .* must stay free: make room"):
        train(trainer, opened)
    assert trainer.step_count == 0
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 20 * size))
    assert train(trainer, opened).reason == "finished"


def test_tensorboard_has_everything_when_a_run_ends_or_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            calls.append(folder)

        def add_scalar(self, *scalar: object) -> None:
            calls.append(scalar)

        def close(self) -> None:
            calls.append("closed")

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=SummaryWriter))
    with pytest.raises(KeyboardInterrupt), tensorboard(tmp_path) as board:
        board("loss", 2.0, 1)
        raise KeyboardInterrupt
    assert calls == [str(tmp_path), ("loss", 2.0, 1), "closed"]
    with tensorboard(None) as board:
        board("loss", 1.0, 2)
    assert len(calls) == 3
