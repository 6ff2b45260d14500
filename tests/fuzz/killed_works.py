"""What `kills` kills: work that goes on where it was, and tells what it has finished.

Each work runs once without a kill; later runs, of many lives, must give the same files. `live` is called in a forked
child, so it may patch what it likes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import torch

from omnivoice.__main__ import main
from omnivoice.commands import batch, dialogue, narrate, subtitles
from omnivoice.engine import Engine
from omnivoice.intake.audio_files import read_audio, write_wav
from omnivoice.intake.files import remove_stale_temps, write_atomic
from omnivoice.intake.strict_json import read_json
from omnivoice.intake.voice_files import read_voice, write_voice
from omnivoice.productions import batch as rows
from omnivoice.productions.batch_rows import SPOKEN
from omnivoice.productions.kept import PARTS, KeptSpeech
from omnivoice.productions.parts import PartStore
from omnivoice.train.loop import train
from omnivoice.train.results import write_loras
from omnivoice.train.run import RunFolder, lock_run, open_run
from omnivoice.train.state_files import read_state, write_state
from omnivoice.train.trainer import Trainer
from omnivoice.types import VoicePrompt, Waveform
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora import LoRA, LowRank
from omnivoice.weights.lora_read import read_lora
from omnivoice.weights.lora_write import write_lora
from tests.unit.train.training_fixtures import CHECKPOINT, tiny_trainer

FINISHED = "finished"  # the last report of a life
STEPS = 12
LAST_STATE = f"state-{STEPS:08d}.safetensors"
IGNORED = frozenset({".ovtmp", ".lock"})
_MODULE = "llm.layers.0.self_attn.q_proj"
Report = Callable[[str], object]


class Work(Protocol):
    """A kind of work in a folder of its own."""

    def live(self, report: Report) -> None:
        """Go on with the work, in the child, and report what is finished."""

    def check(self, told: list[str]) -> None:
        """Raise AssertionError or OmniVoiceError if something is torn or lost. told: by this life."""


Unharmed = Callable[[Work], object]  # lets a work live to its end


class Files:
    """Files of several kinds, which hold a number and are replaced by the next, again and again."""

    def __init__(self, folder: Path, unharmed: Unharmed) -> None:
        self.folder = folder / "files"
        self.folder.mkdir()
        self.config = locate_checkpoint(CHECKPOINT).lm_config
        self.last = dict.fromkeys(self._writers(0), 0)
        for write in self._writers(0).values():
            write()

    def live(self, report: Report) -> None:
        for number in count(max(self.last.values()) + 1):
            for name, write in self._writers(number).items():
                write()
                report(f"{name} {number}")

    def check(self, told: list[str]) -> None:
        for line in told:
            name, number = line.split()
            self.last[name] = int(number)
        remove_stale_temps(self.folder, seconds=-3600)
        assert sorted(path.name for path in self.folder.iterdir()) == sorted(self.last)
        newest = max(self.last.values())
        for name, number in self._numbers().items():
            assert self.last[name] <= number <= newest + 1, f"{name} holds {number}, not {self.last[name]} or the next"
            self.last[name] = number

    def _writers(self, number: int) -> dict[str, Callable[[], object]]:
        place, value = self.folder, torch.full((2, 40), float(number))
        lora = LoRA("x", {_MODULE: LowRank(value, torch.ones(96, 2), 1.0)})
        samples = torch.full((1, 3000), number % 30_000 / 32_768)
        return {
            "v.safetensors": lambda: write_voice(
                place / "v.safetensors", VoicePrompt(torch.full((8, 50), number % 1000), str(number), 0.1)
            ),
            "l.safetensors": lambda: write_lora(place / "l.safetensors", lora, overwrite=True),
            "s.safetensors": lambda: write_state(place / "s.safetensors", {"a": value}, {"step": number}),
            "w.wav": lambda: write_wav(place / "w.wav", Waveform(samples, 24_000)),
            "t.json": lambda: write_atomic(place / "t.json", json.dumps([number] * 500).encode()),
        }

    def _numbers(self) -> dict[str, int]:
        """Return the number in each file; every value in it must be that one."""
        pair = read_lora(self.folder / "l.safetensors", self.config).changes[_MODULE]
        tensors, numbers = read_state(self.folder / "s.safetensors")
        voice = read_voice(self.folder / "v.safetensors")
        table = read_json(self.folder / "t.json", limit=1 << 20)
        sound = read_audio(self.folder / "w.wav", require_complete=True).samples * 32_768
        assert isinstance(pair, LowRank) and isinstance(table, list)
        values = {
            "v.safetensors": [int(voice.text)],
            "l.safetensors": pair.down.unique().tolist(),
            "s.safetensors": [*tensors["a"].unique().tolist(), numbers["step"]],
            "w.wav": sound.unique().tolist(),
            "t.json": table,
        }
        assert int(voice.codes.unique()) == int(voice.text) % 1000 and sound.shape == (1, 3000)
        assert all(len(set(found)) == 1 for found in values.values()), values
        return {name: int(found[0]) for name, found in values.items()}


class Training:
    """A training run with its states, metrics and results, and when it has ended the next one."""

    def __init__(self, folder: Path, unharmed: Unharmed) -> None:
        self.folder, self.saved = folder / "training", 0
        self.trainer = tiny_trainer(steps=STEPS, save_every=3, validate_every=4)  # trained in the children only
        unharmed(self)
        self.whole = self._results()
        shutil.rmtree(self.folder)

    def live(self, report: Report) -> None:
        with lock_run(self.folder):
            opened = open_run(self.folder, self.trainer.settings, data="clips", base="model")
            save = opened.save

            def save_and_report(trainer: Trainer) -> None:
                save(trainer)
                report(f"saved {trainer.step_count}")

            opened.save = save_and_report  # type: ignore[method-assign]
            opened.resume(self.trainer)
            train(self.trainer, opened, on_step=lambda step: bool(report(f"step {step.step}")) and False)
            for path in write_loras(self.trainer, opened, "anna", {"steps": str(STEPS)}):
                report(f"written {path.name}")

    def check(self, told: list[str]) -> None:
        self.saved = max([self.saved, *(int(line.split()[1]) for line in told if line.startswith("saved"))])
        if not self.folder.exists():
            assert not told
            return
        run = RunFolder(self.folder)
        assert run.saved_step() >= self.saved, f"the state of step {self.saved} is lost"
        for state in run.states():
            read_state(state)
        results = self._results()
        assert all(results[line.split()[1]] == self.whole[line.split()[1]] for line in told if line[:7] == "written")
        assert {name: data for name, data in results.items() if name.startswith("anna")}.items() <= self.whole.items()
        if FINISHED in told:
            assert results == self.whole
            shutil.rmtree(self.folder)
            self.saved = 0

    def _results(self) -> dict[str, object]:
        """Return the bytes of the results and of the last state, and the metrics without the seconds that they took."""
        names = ("anna.safetensors", "anna-best.safetensors", LAST_STATE)
        found: dict[str, object] = {
            name: (self.folder / name).read_bytes() for name in names if (self.folder / name).exists()
        }
        lines = (self.folder / "metrics.jsonl").read_text().splitlines() if LAST_STATE in found else []
        return found | {"metrics": [{**json.loads(line), "seconds": 0, "tokens_per_second": 0} for line in lines]}


class Command:
    """A command that speaks, which goes on after each kill; when it has ended, it starts over existing files."""

    def __init__(self, folder: Path, unharmed: Unharmed, name: str, text: str, arguments: Sequence[str]) -> None:
        self.folder, self.arguments, self.kept = folder / name, [*arguments, "--steps", "1"], set[str]()
        self.source, self.text, self.engine = arguments[1], text, tiny_engine()
        self.old, self.parts = dict[str, bytes](), dict[str, bytes]()
        self._start()
        ends = [] if arguments[0] == "batch" else ["--keep-parts"]
        self.arguments += ends
        unharmed(self)
        self.parts = self._found()
        self.new = {path: data for path, data in self.parts.items() if PARTS not in path}
        self.arguments = self.arguments[: len(self.arguments) - len(ends)]
        if ends:
            self._start()
            self.arguments += ["--seed", "5"]
            unharmed(self)
            self.old, self.arguments = self._found(), self.arguments[:-2]
        self._start()

    def _start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.kept.clear()
        for name, data in {self.source: self.text.encode(), **self.old}.items():
            (self.folder / name).write_bytes(data)

    def live(self, report: Report) -> None:
        """Patch the child, so that it tells what it has kept, and run the command there."""
        os.chdir(self.folder)
        for module in (batch, dialogue, narrate, subtitles):
            module.load_identified = lambda options: (self.engine, "tiny")  # type: ignore[assignment]
        for kind, name in ((PartStore, "write"), (KeptSpeech, "_write")):
            setattr(kind, name, _reporting(getattr(kind, name), report))
        rows.append_line = _reporting_rows(rows.append_line, report)
        said = StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(self.arguments)
        assert code == 0, said.getvalue()[-300:]

    def check(self, told: list[str]) -> None:
        self.kept.update(line for line in told if line != FINISHED)
        found = self._found()
        for path, data in found.items():
            assert data in (self.old.get(path), self.parts.get(path)), f"{path} is torn"
        outputs = {path: data for path, data in found.items() if PARTS not in path}
        if outputs != self.new:  # else the parts may be removed already
            assert self.kept <= found.keys(), f"{sorted(self.kept - found.keys())} were kept and are lost"
        if FINISHED in told:
            assert found == self.new, f"{sorted(found.keys() ^ self.new.keys())} differ"
            self._start()

    def _found(self) -> dict[str, bytes]:
        """Return the files under final names, without the input, the locks and what may be cut short: the manifest."""
        paths = [path for path in self.folder.rglob("*") if path.is_file() and path.suffix not in IGNORED]
        found = {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}
        return {path: data for path, data in found.items() if path != self.source and "manifest" not in path}


def _reporting(write: Callable[..., object], report: Report) -> Callable[..., object]:
    """Return `write` of kept speech so that it reports the path, relative to the working folder."""

    def call(store: Any, key: str, value: object) -> None:
        write(store, key, value)
        report(os.path.relpath(store._path(key)))

    return call


def _reporting_rows(append: Callable[..., object], report: Report) -> Callable[..., object]:
    """Return `append_line` so that it reports the file of a row when the manifest says that it is spoken."""

    def call(path: Path, line: str, **options: bool) -> None:
        append(path, line, **options)
        entry = json.loads(line)
        if entry["status"] == SPOKEN:
            report(os.path.relpath(path.with_name(entry["file"])))

    return call


@cache
def tiny_engine() -> Engine:
    """Return the tiny model, loaded once for all lives."""
    return Engine.load(CHECKPOINT)
