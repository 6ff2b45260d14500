"""Finished speech on disk, one safetensors file each, so that a stopped dialogue or subtitle run resumes.

`KeptSpeech` stands before whatever runs plans: what it has is read, the rest runs in batches and is written at once. A
file's name is a hash of everything that the speech depends on, and its samples are kept bit for bit, so a run that was
stopped gives the bytes of one that was not. The folder is not trusted: what is damaged is made again. Long texts have
their own parts (`parts`), which are stored as they will be in the WAV file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..errors import FileError, InputError
from ..intake.files import remove_file, remove_stale_temps
from ..intake.folders import make_folder, remove_empty_folder
from ..intake.limits import MAX_TENSORS_BYTES
from ..intake.locks import only_run
from ..intake.strict_json import parse_json
from ..intake.tensors import read_small_tensors, write_tensors
from ..types import GenerationPlan, OnStep, Speech, VoicePrompt, Waveform
from .keys import plan_key
from .lines import RunPlans

FORMAT, FORMAT_VERSION = "omnivoice_speech", "1"
PARTS = ".parts"  # the ending of the folder, after the name of the WAV file
BATCH = 16  # plans in one run, all of which are lost if it is stopped; on a CPU one, which is no slower
_LOG = logging.getLogger("omnivoice_nodes")


class KeptSpeech:
    """Runs plans with `run`, except those whose speech is in `folder` already.

    model: identifies the weights and how they compute. together: plans in one run, at most. read, written: how many of
    each.
    """

    def __init__(self, folder: Path, run: RunPlans, *, model: str, together: int = BATCH) -> None:
        self.folder, self._run, self._model, self._together = folder, run, model, min(together, BATCH)
        self.read, self.written = 0, 0
        self._keys: dict[str, None] = {}

    def __call__(self, plans: Sequence[GenerationPlan], *, on_step: OnStep | None = None) -> list[Speech]:
        """Return the speech of every plan in order; raises FileError if nothing can be written."""
        keys = [plan_key(plan, model=self._model) for plan in plans]
        found: dict[str, Speech | None] = {key: self._read(key, plan) for key, plan in zip(keys, plans)}
        missing = [(key, plan) for key, plan in zip(keys, plans) if found[key] is None]
        self.read += sum(found[key] is not None and key not in self._keys for key in keys)
        self._keys.update(dict.fromkeys(keys))
        steps = [len(plan.chunks) * plan.request.sampling.steps for _, plan in missing]
        for first in range(0, len(missing), self._together):
            batch = missing[first : first + self._together]
            report = None if on_step is None else _shifted(on_step, sum(steps[:first]), sum(steps))
            for (own, _), speech in zip(batch, self._run([plan for _, plan in batch], on_step=report)):
                self._write(own, speech)
                found[own] = speech
        return [one for key in keys if (one := found[key]) is not None]

    def speech_of(self, plan: GenerationPlan, /) -> Speech | None:
        """Return the speech of a plan that has run, None if it is not there any more."""
        return self._read(plan_key(plan, model=self._model), plan)

    def remove(self) -> None:
        """Remove what this run has used, and the folder if nothing else is in it."""
        for key in self._keys:
            remove_file(self._path(key))
        remove_empty_folder(self.folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def _read(self, key: str, plan: GenerationPlan) -> Speech | None:
        path = self._path(key)
        if not os.path.lexists(path):
            return None
        try:
            tensors, metadata = read_small_tensors(path, limit=MAX_TENSORS_BYTES)
            if metadata.get("format") != FORMAT or metadata.get("digest") != _digest(key, tensors, metadata["content"]):
                raise FileError("it is not the speech of this text, or has changed")
            return _speech(tensors, parse_json(metadata["content"].encode(), path.name), plan)
        except (FileError, InputError, KeyError, TypeError) as error:
            _LOG.warning("%s is made again: %s", path.name, error)
            remove_file(path)
            return None

    def _write(self, key: str, speech: Speech) -> None:
        voice = speech.voice
        content = json.dumps(
            {
                "chunks": speech.chunks,
                "seed": speech.seed,
                "warnings": speech.warnings,
                "voice": {"text": voice.text, "rms": voice.rms, "language": voice.language, "codec": voice.codec},
            }
        )
        tensors = {"samples": speech.waveform.samples.contiguous(), "voice": voice.codes}
        tensors |= {f"codes{index:04d}": codes for index, codes in enumerate(speech.codes)}
        make_folder(self.folder)
        metadata = {"format": FORMAT, "format_version": FORMAT_VERSION, "content": content}
        write_tensors(self._path(key), tensors, {**metadata, "digest": _digest(key, tensors, content)})
        self.written += 1


@contextmanager
def parts_folder(output: Path) -> Iterator[Path]:
    """Yield the folder of the finished parts of `output`, which no other run can use meanwhile.

    It is removed at the end if nothing is in it. Raises FileError, or LockedError while another run uses it.
    """
    folder = make_folder(output.with_name(output.name + PARTS))
    try:
        with only_run(folder):
            remove_stale_temps(folder, seconds=0)  # a killed run left them, or they would keep the folder there
            yield folder
    finally:
        remove_empty_folder(folder)


def _speech(tensors: dict[str, Tensor], content: Any, plan: GenerationPlan) -> Speech:
    """Return the speech in a file whose digest is right. A given voice is that of the plan, not a copy."""
    voice = plan.request.voice or VoicePrompt(tensors["voice"], **content["voice"])
    codes = tuple(tensors[name] for name in sorted(tensors) if name.startswith("codes"))
    waveform = Waveform(tensors["samples"], SAMPLE_RATE)
    chunks, warnings = tuple(content["chunks"]), tuple(content["warnings"])
    speech = Speech(waveform, codes, chunks, waveform.seconds, content["seed"], voice, warnings, request=plan.request)
    told = {name: getattr(plan, name) for name in ("respelled", "normalised", "used_entries")}
    return replace(speech, **told)


def _digest(key: str, tensors: dict[str, Tensor], content: str) -> str:
    digest = hashlib.sha256(f"{key} {content}".encode())
    for name in sorted(tensors):
        flat = tensors[name].contiguous().reshape(-1)
        digest.update(f"{name} {flat.dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _shifted(on_step: OnStep, before: int, total: int) -> OnStep:
    """Return a callback that reports a batch's steps as part of `total`, after `before` others."""

    def report(done: int, _: int, /) -> None:
        on_step(min(before + done, total), total)

    return report
