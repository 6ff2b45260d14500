"""A run that was stopped, killed or damaged resumes bit for bit, or says why it cannot."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from omnivoice.errors import FileError, InputError
from omnivoice.train.loop import Outcome, train
from omnivoice.train.run import RunFolder, is_finished, open_run, read_state, write_state
from omnivoice.train.trainer import StepReport, Trainer
from tests.unit.train.training_fixtures import FEW_WEIGHTS, SMALL, tiny_trainer

KINDS = {
    "lora": {},
    "all pairs, dropout, checkpointing": {"audio_modules": "lora", "gradient_checkpointing": True},
    "full": {"method": "full"},
    "accumulation, SGD": {"grad_accumulation_steps": 2, "batch_tokens": 64, "optimizer": "SGD"},
    "Muon": {"optimizer": "Muon"},
    "RMSprop, constant": {"optimizer": "RMSprop", "schedule": "constant", "warmup": 0.5},
}


def run(folder: Path, stop: int | None = None, **changes: object) -> tuple[Trainer, Outcome]:
    trainer = tiny_trainer(**changes)
    opened = open_run(folder, trainer.settings, data="clips", base="model")
    opened.resume(trainer)
    return trainer, train(trainer, opened, on_step=lambda report: report.step == stop)


def assert_equal(a: Trainer, b: Trainer) -> None:
    assert a.losses == b.losses and a.best == b.best and a.cursor == b.cursor and a.tokens == b.tokens
    for name, weight in a.state()[0].items():
        assert torch.equal(weight, b.state()[0][name]), name


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_is_bit_equal(kind: str, tmp_path: Path) -> None:
    if kind == "Muon" and not hasattr(torch.optim, "Muon"):
        with pytest.raises(InputError, match=r"^optimizer Muon needs torch 2\.9 or newer, this is 2\.\d"):
            run(tmp_path, **KINDS[kind])
        return
    whole, outcome = run(tmp_path / "whole", **KINDS[kind])
    assert outcome == Outcome("finished", SMALL.steps)
    first, outcome = run(tmp_path / "parts", stop=3, **KINDS[kind])
    assert outcome == Outcome("stopped", 3) and first.losses == whole.losses[:3]
    second, outcome = run(tmp_path / "parts", **KINDS[kind])
    assert outcome == Outcome("finished", SMALL.steps)
    assert_equal(whole, second)
    kept = ("step", "loss", "validation_loss", "learning_rate")
    lines = [[{k: e.get(k) for k in kept} for e in metrics(tmp_path / part)] for part in ("whole", "parts")]
    assert lines[0] == lines[1]


def test_the_global_generator_is_given_back(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    run(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked child")
def test_ten_kills_lose_nothing(tmp_path: Path) -> None:
    """SIGKILL in ten lives of a run; each resumes from the last state, and the end equals an uninterrupted run.

    A life reports each step through a pipe and is killed at a random moment after a given number of steps; after one
    more step it waits for that. So how far it comes does not depend on the speed or load of the machine. States are
    saved in the middle of an epoch too, so that the place in the data counts.
    """
    steps = {"steps": 40, "save_every": 2, "validate_every": 7, **FEW_WEIGHTS}
    straight, _ = run(tmp_path / "straight", **steps)
    folder, moments = tmp_path / "killed", random.Random(5)
    reached = [0]
    for wanted in (4, 1, 4, 2, 4, 3, 1, 4, 2, 4):
        child, reports = _life(folder, wanted, steps)
        for _ in range(wanted):
            os.read(reports, 1)
        time.sleep(moments.uniform(0, 0.02))  # anywhere in the next step or save
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        os.close(reports)
        states = RunFolder(folder).states()
        if states:
            read_state(states[0])  # intact, whatever happened
            reached.append(int(states[0].stem.rpartition("-")[2]))
    assert reached == sorted(reached) and len(set(reached)) > 4 and reached[-1] < 40
    last, outcome = run(folder, **steps)
    assert outcome == Outcome("finished", 40)
    assert_equal(straight, last)
    assert [e["step"] for e in metrics(folder) if "loss" in e] == list(range(1, 41))
    assert len(RunFolder(folder).states()) == 2


def _life(folder: Path, wanted: int, steps: dict[str, object]) -> tuple[int, int]:
    """Return a forked child that trains `wanted` steps and one more, and a pipe with a byte for each step."""
    reports, report = os.pipe()
    child = os.fork()
    if child:
        os.close(report)
        return child, reports
    try:
        trainer = tiny_trainer(**steps)
        opened = open_run(folder, trainer.settings, data="clips", base="model")
        opened.resume(trainer)
        last = trainer.step_count + wanted + 1

        def on_step(done: StepReport) -> bool:
            os.write(report, b".")
            while done.step == last:
                signal.pause()
            return False

        train(trainer, opened, on_step=on_step)
    finally:
        os._exit(1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run(folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def test_a_finished_run_is_known_and_left_alone(copied: Path) -> None:
    assert is_finished(copied, SMALL)
    before = (copied / "metrics.jsonl").read_bytes()
    trainer, outcome = run(copied)
    assert outcome == Outcome("finished", SMALL.steps) and len(trainer.losses) == SMALL.steps
    assert (copied / "metrics.jsonl").read_bytes() == before


def test_a_damaged_state_is_skipped_and_named(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    newest, older = RunFolder(copied).states()
    data = newest.read_bytes()
    moments = random.Random(3)
    damages = [data[: moments.randrange(len(data))] for _ in range(8)] + [b""]
    for _ in range(16):
        flipped, place = bytearray(data), moments.randrange(len(data))
        flipped[place] ^= 1 << moments.randrange(8)
        damages.append(bytes(flipped))
    for damage in damages:
        newest.write_bytes(damage)
        caplog.clear()
        trainer = tiny_trainer()
        assert RunFolder(copied).resume(trainer)
        assert trainer.step_count == int(older.stem.rpartition("-")[2])
        assert newest.name in caplog.text


def test_without_an_intact_state_no_run_starts_again(copied: Path) -> None:
    for path in RunFolder(copied).states():
        path.write_bytes(b"")
    with pytest.raises(FileError, match=r"no training state in copied is intact .* name another folder"):
        RunFolder(copied).resume(tiny_trainer())


def test_a_state_of_another_run_is_refused(copied: Path) -> None:
    with pytest.raises(FileError, match="other weights"):
        RunFolder(copied).resume(tiny_trainer(rank=3))


def test_a_newer_format_is_named(copied: Path) -> None:
    table = json.loads((copied / "settings.json").read_text())
    (copied / "settings.json").write_text(json.dumps({**table, "format_version": "2"}))
    with pytest.raises(InputError, match=r"holds another run \(format_version '2', this one reads 1\)"):
        open_run(copied, SMALL, data="clips", base="model")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"settings": replace(SMALL, rank=3)}, "rank was 2, now 3"),
        ({"settings": replace(SMALL, seed=1)}, "seed was 0, now 1"),
        ({"data": "others"}, "other clips"),
        ({"base": "another"}, "another model"),
        ({"resume": False}, "resume is off"),
    ],
)
def test_another_run_is_refused_by_what_differs(finished: Path, changes: dict, words: str) -> None:
    asked = {"settings": SMALL, "data": "clips", "base": "model", **changes}
    settings = asked.pop("settings")
    with pytest.raises(InputError, match=words):
        open_run(finished, settings, **asked)


GROWING = {
    "constant": {"schedule": "constant", "warmup": 0.0},
    "constant, as long a warm-up": {"schedule": "constant", "warmup": 0.1},
    "constant, from a stop": {"schedule": "constant", "warmup": 0.0, "stop": 3},
}


@pytest.mark.parametrize("kind", GROWING)
def test_more_steps_go_on_where_that_equals_a_longer_run(kind: str, tmp_path: Path) -> None:
    changes = dict(GROWING[kind])
    stop = changes.pop("stop", None)
    run(tmp_path / "parts", stop=stop, **changes)
    longer, outcome = run(tmp_path / "parts", **changes, steps=9)
    assert outcome == Outcome("finished", 9)
    whole, _ = run(tmp_path / "whole", **changes, steps=9)
    assert whole.losses == longer.losses
    assert all(torch.equal(weight, whole.trained[name]) for name, weight in longer.trained.items())
    assert is_finished(tmp_path / "parts", replace(SMALL, steps=9))


@pytest.mark.parametrize(
    "old, new",
    [
        ({"schedule": "cosine"}, {"schedule": "cosine", "steps": 9}),
        ({"schedule": "constant"}, {"schedule": "constant", "steps": 5}),
        ({"schedule": "constant", "warmup": 0.5}, {"schedule": "constant", "warmup": 0.5, "steps": 9}),
        ({"schedule": "cosine"}, {"schedule": "constant", "steps": 9}),
    ],
    ids=["cosine", "fewer", "longer warm-up", "another schedule"],
)
def test_other_steps_that_would_be_another_run_say_how_to_train_further(tmp_path: Path, old, new) -> None:
    open_run(tmp_path, replace(SMALL, **old), data="clips", base="model")
    same = old["schedule"] == new["schedule"]
    words = (
        rf"steps was 6, now {new['steps']}: a run goes on to more steps only with a constant schedule and an equally "
        r"long warm-up, .* To train further, start from its LoRA \(lora in a config file, existing_lora in ComfyUI\)\)"
    )
    with pytest.raises(InputError, match=words if same else "schedule was 'cosine', now 'constant'"):
        open_run(tmp_path, replace(SMALL, **new), data="clips", base="model")
    assert json.loads((tmp_path / "settings.json").read_text())["settings"]["steps"] == 6


def test_what_changes_no_weight_may_differ(copied: Path) -> None:
    open_run(copied, replace(SMALL, save_every=1, sample_every=2, sample_text="Hi."), data="clips", base="model")


def test_states_without_settings_are_not_taken_for_new(copied: Path) -> None:
    (copied / "settings.json").unlink()
    with pytest.raises(InputError, match=r"holds training states without settings\.json"):
        open_run(copied, SMALL, data="clips", base="model")


def test_a_state_is_one_file_with_a_hash(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(2), "empty": torch.zeros(0)}
    write_state(tmp_path / "state.safetensors", tensors, {"step": 3})
    again, numbers = read_state(tmp_path / "state.safetensors")
    assert numbers == {"step": 3} and all(torch.equal(again[name], tensors[name]) for name in tensors)


def test_patience_stops_a_run_that_does_not_improve(tmp_path: Path) -> None:
    changes = {"steps": 30, "learning_rate": 0.5, "validate_every": 2, "patience": 2}
    trainer, outcome = run(tmp_path, **changes)
    assert outcome.reason == "no better" and outcome.step < 30 and trainer.stale == 2
    best, step = RunFolder(tmp_path).best()  # type: ignore[misc]
    assert step < outcome.step and best.keys() == trainer.trained.keys()
    assert run(tmp_path, **changes)[1] == outcome  # started again, it does not continue
