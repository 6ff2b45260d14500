"""Every crash of a training run: the newest training state that was said to be saved is there, and the run goes on to
the same losses, LoRA and metrics as one that was not stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from omnivoice.train import run as run_module
from omnivoice.train.code_cache import CodeCache
from omnivoice.train.loop import Outcome, train
from omnivoice.train.results import write_loras
from omnivoice.train.run import open_run, read_state
from omnivoice.train.trainer import Trainer
from tests.crash_replay import Crash, Log, crashes, recorded
from tests.unit.train.training_fixtures import FEW_WEIGHTS, tiny_trainer

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no way to flush a folder")
STEPS = 4
CHANGES = {"steps": STEPS, "save_every": 1, "validate_every": 2, "rank": 1, "learning_rate": 1e-2, **FEW_WEIGHTS}
RESULTS = ("anna.safetensors", "anna-best.safetensors", "best.safetensors", f"state-{STEPS:08d}.safetensors")


def whole_run(folder: Path, log: Log | None = None) -> Trainer:
    """Begin or go on, and write the results."""
    trainer = tiny_trainer(**CHANGES)
    opened = open_run(folder, trainer.settings, data="clips", base="model")
    opened.resume(trainer)
    if log:
        save = opened.save

        def saved(trainer: Trainer) -> None:
            save(trainer)
            log.reached(f"state-{trainer.step_count:08d}.safetensors")

        opened.save = saved  # type: ignore[method-assign]
    assert train(trainer, opened) == Outcome("finished", STEPS)
    for path in write_loras(trainer, opened, "anna", {"steps": str(STEPS)}):
        if log:
            log.reached(path.name)
    return trainer


def metrics(folder: Path) -> list[object]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: entry.get(name) for name in ("step", "loss", "validation_loss")} for entry in lines]


def check(crash: Crash, whole: dict[str, bytes]) -> None:
    """What was reached is there, as it will be in the end; of the states, at least the last."""
    states = [name for name in crash.reached if name.startswith("state")]
    there = [name for name in crash.content if name.startswith("state")]
    assert not states or max(there) >= states[-1], f"{states[-1]} is lost after change {crash.after}"
    for name in crash.reached:
        assert name.startswith("state") or crash.content[name] == whole[name]


def different(found: Iterator[Crash]) -> dict[object, Crash]:
    """Of the crashes after which a run goes on alike, one: the temporary files and the lost metrics make no difference,
    but for each way in which metrics are torn one is kept."""
    kept: dict[object, Crash] = {}
    for crash in found:
        content = crash.without_temporaries()
        log = content.pop("metrics.jsonl", b"") or b""
        content.pop("reserve.bin", None)
        torn = (log[:1] == b"\0", log[-1:] == b"\n", bool(log)) if len(kept) < 40 else ()
        kept.setdefault((frozenset(content), torn), crash)
    return kept


def test_every_crash_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "RESERVE_SPARE", 100)
    folder = tmp_path / "recorded"
    folder.mkdir()
    with recorded(folder) as log:
        trainer = whole_run(folder, log)
    whole = {name: (folder / name).read_bytes() for name in RESULTS}
    found = list(crashes(log))
    states = {data: name for crash in found for name, data in crash.content.items() if name.startswith("state-")}
    for data, name in states.items():
        (tmp_path / name).write_bytes(data or b"")
        read_state(tmp_path / name)  # so no crash leaves a torn one
    assert log.prefixes > 60 and len(states) == STEPS
    for crash in found:
        check(crash, whole)
    resumed = different(iter(found))
    assert len(resumed) > 15
    for crash in resumed.values():
        place = crash.write(tmp_path / "crashed")
        again = whole_run(place)
        assert again.losses == trainer.losses and again.best == trainer.best
        assert {name: (place / name).read_bytes() for name in RESULTS} == whole
        steps = [entry["step"] for entry in metrics(place) if entry["loss"] is not None]  # type: ignore[index]
        assert steps == sorted(set(steps)) and all(entry in metrics(folder) for entry in metrics(place))


def test_every_crash_of_the_code_cache(tmp_path: Path) -> None:
    codes = [torch.full((8, 40), value, dtype=torch.int16) for value in range(3)]
    folder = tmp_path / "recorded"
    folder.mkdir()
    with recorded(folder) as log:
        cache = CodeCache(folder / "codes", "codec", 8, 1024)
        for index, one in enumerate(codes):
            cache.write(str(index), one)
            log.reached(str(index))
    for crash in crashes(log):
        again = CodeCache(crash.write(tmp_path / "crashed") / "codes", "codec", 8, 1024)
        found = [again.read(str(index)) for index in range(3)]
        assert all(one is None or torch.equal(one, codes[index]) for index, one in enumerate(found))
        assert all(found[int(index)] is not None for index in crash.reached)
        assert again.notes == ()
        again.write("0", codes[0])
        assert torch.equal(again.read("0"), codes[0])  # type: ignore[arg-type]
