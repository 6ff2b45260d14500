"""The folder of a run: its settings, its metrics, its last and best states; and finding the one to go on from.

    settings.json   what the run was begun with        metrics.jsonl   one line a step and validation
    checkpoint-00000100.safetensors (the last two)     best.safetensors   the weights of the lowest validation loss

Unusual: a state is one file, written beside and renamed, with a hash of its values: a kill leaves the old one or the
new one, and a damaged one is known, named and passed over. A folder is only gone on with if it was begun with the same
settings, data and model, and only begun in if it holds no run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..errors import FileError, InputError
from ..intake.files import append_line, file_size, read_bytes, remove_file, remove_stale_temps, write_atomic
from ..intake.folders import check_space, make_folder
from ..intake.limits import MAX_CONFIG_BYTES, MAX_TABLE_BYTES, MAX_TENSORS_BYTES, shown
from ..intake.paths import shown_name
from ..intake.strict_json import parse_json, read_json
from ..intake.tensors import check_header, open_tensors, read_small_tensors, write_tensors
from .settings import TrainSettings
from .trainer import Trainer

FORMAT, FORMAT_VERSION = "omnivoice_training", "1"
SETTINGS, METRICS, BEST = "settings.json", "metrics.jsonl", "best.safetensors"
KEPT = 2
WRITTEN_SECONDS = 600  # no state takes longer to write: an older part was left by a kill
# What may differ when a run is gone on with: it changes no weight.
CHANGEABLE = frozenset({"validate_every", "save_every", "sample_every", "sample_text", "patience"})
_CHECKPOINT = re.compile(r"checkpoint-(\d{8})\.safetensors")
_LOG = logging.getLogger("omnivoice_nodes")


class RunFolder:
    """An opened run folder; made by `open_run`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = False
        self._damaged: set[Path] = set()  # found so by `resume`; they go when a whole state is written

    def checkpoints(self) -> list[Path]:
        """The states there are, the latest first."""
        return sorted(self.folder / name for name in os.listdir(self.folder) if _CHECKPOINT.fullmatch(name))[::-1]

    def resume(self, trainer: Trainer) -> bool:
        """Bring the trainer to the latest whole state; False if there is none yet. What is damaged is told in the log.

        Raises FileError if there are states and none is whole: starting afresh must be the user's decision.
        """
        damaged = []
        for path in self.checkpoints():
            try:
                tensors, numbers = read_state(path)
                if path.name != f"checkpoint-{numbers.get('step', -1):08d}.safetensors":
                    raise FileError(f"{path.name} is not what its name says: it is of step {numbers.get('step')}")
            except FileError as error:
                damaged.append(str(error))
                self._damaged.add(path)
                _LOG.warning("a checkpoint is damaged and is passed over: %s", error)
                continue
            trainer.restore(tensors, numbers)
            self._cut_metrics(trainer.step_count)
            return True
        if damaged:
            raise FileError(
                f"no training state in {shown_name(self.folder)} is intact ({damaged[0]}): name another folder"
            )
        return False

    def save(self, trainer: Trainer) -> bool:
        """Write the state, and remove all but the last two; False, and a warning, if that failed: nothing is lost."""
        tensors, numbers = trainer.state()
        path = self.folder / f"checkpoint-{numbers['step']:08d}.safetensors"
        try:
            if path in self._damaged:
                remove_file(path)  # the writer would not replace what is not ours
                self._damaged.remove(path)
            write_state(path, tensors, numbers)
            whole = [there for there in self.checkpoints() if there not in self._damaged]
            for old in [*whole[KEPT:], *self._damaged]:
                remove_file(old)
            self._damaged.clear()
        except FileError as error:
            _LOG.warning("the checkpoint of step %d could not be written: %s", numbers["step"], error)
            return False
        return True

    def check_space(self, trainer: Trainer) -> None:
        """Raise FileError if the disk has no room for the states that this run will write."""
        weights = sum(4 * parameter.numel() for parameter in trainer.trained.values())
        states = max(1, KEPT + 1 - len(self.checkpoints()))  # one more than are kept, while it is written
        check_space(self.folder, 3 * states * weights + weights, action="written")  # AdamW keeps two moments

    def save_best(self, trainer: Trainer) -> None:
        """Keep the weights as the best so far; a warning if that failed."""
        weights = {name: t for name, t in trainer.state()[0].items() if name.startswith("weights.")}
        try:
            _discard_torn(self.folder / BEST)
            write_state(self.folder / BEST, weights, {"step": trainer.step_count})
        except FileError as error:
            _LOG.warning("the best state could not be written: %s", error)

    def best(self) -> tuple[dict[str, Tensor], int] | None:
        """(weights by the checkpoint's names, their step) of the best state, or None. Raises FileError."""
        if not os.path.isfile(self.folder / BEST):
            return None
        tensors, numbers = read_state(self.folder / BEST)
        return {name.removeprefix("weights."): tensor for name, tensor in tensors.items()}, numbers["step"]

    def log(self, entry: Mapping[str, object]) -> None:
        """A line of metrics; NaN and Inf become null. A failure is told once and stops nothing."""
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in entry.items()}
        try:
            append_line(self.folder / METRICS, json.dumps(plain))
        except FileError as error:
            if not self._warned:
                _LOG.warning("metrics are not written: %s", error)
            self._warned = True

    def _cut_metrics(self, step: int) -> None:
        """Drop what was logged after the state that is gone on from."""
        path = self.folder / METRICS
        if os.path.isfile(path):
            lines = read_bytes(path, limit=MAX_TABLE_BYTES * 8).splitlines(keepends=True)
            write_atomic(path, b"".join(line for line in lines if _step_of(line) <= step))


def _step_of(line: bytes) -> float:
    try:
        entry = parse_json(line, METRICS)
    except FileError:
        return math.inf  # cut short by a kill
    step = entry.get("step") if isinstance(entry, dict) else None
    return step if isinstance(step, int) else math.inf


def _discard_torn(path: Path) -> None:
    """Make way for a state where a file lies that is none: the writer would not replace it."""
    if os.path.lexists(path):
        try:
            check_header(path)
        except FileError:
            remove_file(path)


def open_run(folder: Path, settings: TrainSettings, *, data: str, base: str, resume: bool = True) -> RunFolder:
    """The folder of this run, made if needed. data, base: fingerprints of the clips and of the model.

    Raises InputError if it holds a run that cannot be gone on with: other settings, clips or model, or not `resume`.
    """
    own = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "settings": settings.as_table(),
        "data": data,
        "base": base,
    }
    own = json.loads(json.dumps(own))  # as it will be read
    remove_stale_temps(make_folder(folder), seconds=WRITTEN_SECONDS)
    path = folder / SETTINGS
    if os.path.isfile(path):
        difference = _difference(read_json(path, limit=MAX_CONFIG_BYTES), own)
        if difference or not resume:
            reason = difference or "resume is off"
            raise InputError(f"{shown_name(folder)} holds another run ({reason}): name another folder")
    elif any(_CHECKPOINT.fullmatch(name) for name in os.listdir(folder)):
        raise InputError(f"{shown_name(folder)} holds checkpoints without {SETTINGS}: name another folder")
    write_atomic(path, json.dumps(own, indent=1).encode())
    return RunFolder(folder)


def holds_run(folder: Path) -> bool:
    """Whether a run was begun in the folder."""
    return os.path.isfile(folder / SETTINGS)


def is_finished(folder: Path, settings: TrainSettings) -> bool:
    """Whether the run in the folder has done all its steps."""
    return os.path.isfile(folder / f"checkpoint-{settings.steps:08d}.safetensors")


def _difference(there: object, own: Mapping[str, object]) -> str:
    """What differs, in words; empty if it is the same run."""
    if not isinstance(there, dict) or there.get("format") != FORMAT:
        return f"{SETTINGS} is not a training's"
    if there.get("format_version") != FORMAT_VERSION:
        return f"format_version {shown(there.get('format_version'))}, this one reads {FORMAT_VERSION}"
    old, new = there.get("settings"), own["settings"]
    if not isinstance(old, dict) or not isinstance(new, dict):
        return f"{SETTINGS} holds no settings"
    for name in sorted((old.keys() | new.keys()) - CHANGEABLE):
        if old.get(name) != new.get(name):
            return f"{name} was {shown(old.get(name))}, now {shown(new.get(name))}"
    words = {"data": "it was started on other clips", "base": "it was started from another model or LoRA"}
    return next((text for key, text in words.items() if there.get(key) != own[key]), "")


def write_state(path: Path, tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> None:
    """One state as one file, atomically. Raises FileError."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    metadata = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "numbers": json.dumps(dict(numbers)),
        "sha256": _digest(plain, numbers),
    }
    write_tensors(path, plain, metadata)


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, int]]:
    """What `write_state` wrote. Raises FileError for anything else, also for one changed byte."""
    name = shown_name(path)
    if file_size(path) <= MAX_TENSORS_BYTES:
        tensors, metadata = read_small_tensors(path)
    else:
        with open_tensors(path) as source:
            tensors, metadata = {key: source.get(key) for key in source.info}, dict(source.metadata)
    if metadata.get("format") != FORMAT or metadata.get("format_version") != FORMAT_VERSION:
        raise FileError(f"{name} is no training state of format {FORMAT_VERSION}")
    numbers = parse_json(metadata.get("numbers", "").encode(), name)
    if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
        raise FileError(f"{name} is damaged: it holds no numbers")
    if metadata.get("sha256") != _digest(dict(sorted(tensors.items())), numbers):
        raise FileError(f"{name} is damaged: its content is not what was written")
    return tensors, numbers


def _digest(tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> str:
    digest = hashlib.sha256(json.dumps(dict(numbers), sort_keys=True).encode())
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
