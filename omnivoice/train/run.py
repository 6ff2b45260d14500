"""The folder of a run: settings, metrics and training states, and which of them to resume from.

    settings.json   what the run was started with        metrics.jsonl   one line per step and validation
    state-00000100.safetensors (the last two)       best.safetensors   weights of the lowest validation loss*

* With stop_words_points, of the lowest loss among those that have not lost words.
A damaged training state is noticed, named and skipped. On a full disk, older states make room for what is written, and
a reserve of the LoRA's size for the LoRA at the end. A run resumes only with the settings, data and model that it was
started with. A new run needs a folder that holds no other run. Whoever trains in a folder holds its lock (`lock_run`),
so two runs never write to one folder.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from ..errors import DiskFullError, FileError, InputError
from ..intake.files import (
    append_line,
    file_size,
    read_bytes,
    remove_file,
    remove_stale_temps,
    write_atomic,
    write_parts_atomic,
)
from ..intake.folders import check_space, make_folder
from ..intake.limits import MAX_CONFIG_BYTES, MAX_TABLE_BYTES
from ..intake.locks import FolderLock, lock_folder
from ..intake.paths import shown_name
from ..intake.strict_json import parse_json, read_json
from ..intake.tensors import check_header
from .same_run import difference_between, run_number
from .settings import TrainSettings
from .state_files import FORMAT, FORMAT_VERSION, ForeignStateError, read_state, write_state
from .trainer import Trainer

SETTINGS, METRICS, BEST, LOCK = "settings.json", "metrics.jsonl", "best.safetensors", "run.lock"
RESERVE, RESERVE_SPARE = "reserve.bin", 1 << 20  # spare: for the names of the tensors, and for metrics
KEPT = 2
STALE_SECONDS = 600  # no state takes this long to write, so an older temporary file was left by a kill
Made = TypeVar("Made")
_STATE = re.compile(r"state-(\d{8})\.safetensors")
_LOG = logging.getLogger("omnivoice_nodes")


class RunFolder:
    """An opened run folder, as `open_run` returns it. run: identifies the run in its training states, 0 for any run."""

    def __init__(self, folder: Path, run: int = 0) -> None:
        self.folder, self.run = folder, run
        self._warned = False
        self._damaged: dict[Path, str] = {}  # states found by `resume`, deleted once a new one is written -> reason

    def states(self) -> list[Path]:
        """Return the training states, the latest first."""
        return sorted(self.folder / name for name in os.listdir(self.folder) if _STATE.fullmatch(name))[::-1]

    def saved_step(self) -> int:
        """Return the step of the latest training state, by its name; 0 if there is none."""
        return max((int(path.stem.rpartition("-")[2]) for path in self.states()), default=0)

    def resume(self, trainer: Trainer) -> bool:
        """Restore the latest intact training state; return False if there is no state yet. Damaged ones are logged.

        Raises FileError if every state is damaged: only the user may decide to start again. Raises ForeignStateError
        for a state of another run or of a newer version, which is neither used nor deleted.
        """
        for path in self.states():
            try:
                tensors, numbers = read_state(path)
                if path.name != _state_name(numbers.get("step", -1)):
                    raise FileError(f"{path.name} is misnamed: it is the state of step {numbers.get('step')}")
                if numbers.pop("run", self.run) != self.run and self.run:
                    raise ForeignStateError(f"{path.name} belongs to another run: move it back, or name another folder")
            except ForeignStateError:
                raise
            except FileError as error:
                self._damaged[path] = str(error)
                _LOG.warning("a damaged training state is skipped: %s", error)
                continue
            trainer.restore(tensors, numbers)
            self._cut_metrics(trainer.step_count)
            return True
        for reason in self._damaged.values():
            raise FileError(f"no training state in {shown_name(self.folder)} is intact ({reason}): name another folder")
        if self._cut_metrics(-1):
            name = shown_name(self.folder)
            _LOG.warning("%s holds metrics but no training state: the run starts again at its first step", name)
        return False

    def save(self, trainer: Trainer) -> None:
        """Write the training state and delete all but the last two; raises FileError if it cannot be written."""
        tensors, numbers = trainer.state()
        numbers |= {"run": self.run} if self.run else {}
        path = self.folder / _state_name(numbers["step"])
        if path in self._damaged:
            remove_file(path)  # the writer does not replace files of another format
            del self._damaged[path]
        self.with_room(lambda: write_state(path, tensors, numbers))
        intact = [state for state in self.states() if state not in self._damaged]
        try:
            for old in [*intact[KEPT:], *self._damaged]:
                remove_file(old)
            self._damaged.clear()
        except FileError as error:
            _LOG.warning("%s", error)

    def with_room(self, write: Callable[[], Made]) -> Made:
        """Return `write()`. If the disk is full, delete all training states but the newest intact one and try again.

        Raises what `write` raises, DiskFullError if there was nothing to delete.
        """
        try:
            return write()
        except DiskFullError:
            if not self._make_room():
                raise
            return write()

    def _make_room(self) -> bool:
        """Delete the training states older than the newest intact one; return whether there were any."""
        newest, old = None, list[Path]()
        for path in self.states():
            if newest is None and path not in self._damaged and _is_intact(path):
                newest = path
            elif newest is not None:
                old.append(path)
        for path in old:
            remove_file(path)
            self._damaged.pop(path, None)
            _LOG.warning("the disk is full: the training state %s was deleted to make room", path.name)
        return bool(old)

    def reserve(self, trainer: Trainer) -> None:
        """Write a file as large as the LoRA, so that a disk that fills up has room for it; raises FileError.

        A full fine-tune has no reserve, since its model is too large to be kept room for.
        """
        path, size = self.folder / RESERVE, _weight_bytes(trainer) + RESERVE_SPARE
        if trainer.settings.method == "lora" and file_size(path) != size:
            block = os.urandom(RESERVE_SPARE)  # zeros would take no room on a disk that compresses
            parts = (block[: min(len(block), size - start)] for start in range(0, size, len(block)))
            write_parts_atomic(path, parts, size=size)

    def release(self) -> None:
        """Delete the reserve, before the results are written; raises FileError."""
        remove_file(self.folder / RESERVE)

    def check_space(self, trainer: Trainer) -> None:
        """Raise DiskFullError if the disk is too full for the training states of this run."""
        weights = _weight_bytes(trainer)
        states = max(1, KEPT + 1 - len(self.states()))  # the oldest is deleted after the next one is written
        check_space(self.folder, 3 * states * weights + weights, action="written")  # AdamW has two moments

    def save_best(self, trainer: Trainer) -> bool:
        """Write the weights as the best so far and return whether that worked; if not, warn. Raises DiskFullError."""
        weights = {name: t for name, t in trainer.state()[0].items() if name.startswith("weights.")}
        try:
            _discard_torn(self.folder / BEST)
            self.with_room(lambda: write_state(self.folder / BEST, weights, {"step": trainer.step_count}))
        except DiskFullError:
            raise
        except FileError as error:
            _LOG.warning("the best weights could not be written, the file has earlier ones: %s", error)
            return False
        return True

    def best(self) -> tuple[dict[str, Tensor], int] | None:
        """Return the weights of the lowest validation loss, by the checkpoint's names, and their step; or None.

        Raises FileError.
        """
        if not os.path.isfile(self.folder / BEST):
            return None
        tensors, numbers = read_state(self.folder / BEST)
        return {name.removeprefix("weights."): tensor for name, tensor in tensors.items()}, numbers["step"]

    def log(self, entry: Mapping[str, object]) -> None:
        """Append a line of metrics; NaN and Inf become null. Raises DiskFullError; another failure is logged, once."""
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in entry.items()}
        try:
            self.with_room(lambda: append_line(self.folder / METRICS, json.dumps(plain)))
        except DiskFullError:
            raise
        except FileError as error:
            if not self._warned:
                _LOG.warning("metrics cannot be written: %s", error)
            self._warned = True

    def _cut_metrics(self, step: int) -> bool:
        """Delete the metrics of the steps after `step`, and lines that are damaged; return whether there were any."""
        path = self.folder / METRICS
        if not os.path.isfile(path):
            return False
        lines = read_bytes(path, limit=MAX_TABLE_BYTES * 8).splitlines(keepends=True)
        kept = [line for line in lines if _step_of(line) <= step]
        write_atomic(path, b"".join(kept))
        return len(kept) < len(lines)


def _step_of(line: bytes) -> float:
    try:
        entry = parse_json(line, METRICS)
    except FileError:
        return math.inf  # cut short by a kill
    step = entry.get("step") if isinstance(entry, dict) else None
    return step if isinstance(step, int) else math.inf


def _weight_bytes(trainer: Trainer) -> int:
    return sum(4 * parameter.numel() for parameter in trainer.trained.values())


def _is_intact(path: Path) -> bool:
    try:
        read_state(path)
    except FileError:
        return False
    return True


def _discard_torn(path: Path) -> None:
    """Delete a file that is not a safetensors file, since the writer would refuse to replace it."""
    if os.path.lexists(path):
        try:
            check_header(path)
        except FileError:
            remove_file(path)


def lock_run(folder: Path) -> FolderLock:
    """Return the lock on the folder of a run, created if needed; raises LockedError, which names who is using it."""
    return lock_folder(make_folder(folder), LOCK)


def open_run(folder: Path, settings: TrainSettings, *, data: str, base: str, resume: bool = True) -> RunFolder:
    """Return the folder of a run, created if needed. data, base: fingerprints of the clips and the model.

    The caller holds the folder's lock. Raises InputError if the folder holds a run with other settings, clips or model,
    or any run if `resume` is False.
    """
    remove_stale_temps(make_folder(folder), seconds=STALE_SECONDS)
    own = check_run(folder, settings, data=data, base=base, resume=resume)
    write_atomic(folder / SETTINGS, json.dumps(own, indent=1).encode())
    return RunFolder(folder, run_number(own))


def check_run(
    folder: Path, settings: TrainSettings, *, data: str, base: str, resume: bool = True
) -> Mapping[str, object]:
    """Return the content of settings.json for this run; raises InputError as `open_run` does, and changes nothing."""
    own = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "settings": settings.as_table(),
        "data": data,
        "base": base,
    }
    own = json.loads(json.dumps(own))  # as it will be read back
    path = folder / SETTINGS
    if os.path.isfile(path):
        difference = difference_between(read_json(path, limit=MAX_CONFIG_BYTES), own)
        if difference or not resume:
            reason = difference or "resume is off"
            raise InputError(f"{shown_name(folder)} holds another run ({reason}): name another folder")
    elif os.path.isdir(folder) and RunFolder(folder).states():
        raise InputError(f"{shown_name(folder)} holds training states without {SETTINGS}: name another folder")
    return own


def is_finished(folder: Path, settings: TrainSettings) -> bool:
    """Whether the folder holds a run that has finished all steps."""
    return all(os.path.isfile(folder / name) for name in (SETTINGS, _state_name(settings.steps)))


def _state_name(step: int) -> str:
    return f"state-{step:08d}.safetensors"
