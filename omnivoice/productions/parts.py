"""The finished parts of a long text on disk, one safetensors file each, so that a stopped run resumes.

A part's name is a hash of everything that its sound depends on (`keys`). The folder is not trusted: a part that is
damaged or foreign is reported in the log and made again. Samples are stored as they will be in a 16-bit WAV file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..errors import FileError
from ..intake.files import file_size, remove_file
from ..intake.folders import make_folder, remove_empty_folder
from ..intake.libsndfile import to_pcm16
from ..intake.limits import MAX_AUDIO_SECONDS
from ..intake.tensors import read_small_tensors, write_tensors

FORMAT, FORMAT_VERSION = "omnivoice_part", "1"
SUFFIX = ".safetensors"
_NAME = re.compile(r"[0-9a-f]{32}\.safetensors")
_MAX_BYTES = 4 * MAX_AUDIO_SECONDS * SAMPLE_RATE
_LOG = logging.getLogger("omnivoice_nodes")


@dataclass(frozen=True, eq=False)
class Part:
    """The sound of one chunk. samples: [N] int16 at 24,000 Hz. codes: [K, T] int16."""

    samples: Tensor
    codes: Tensor


class Parts(Protocol):
    """Where parts are kept."""

    def read(self, key: str) -> Part | None:
        """Return the part with that key, if it is there and intact."""

    def write(self, key: str, part: Part) -> None:
        """Keep a part; raises FileError."""

    def reported(self, key: str) -> None:
        """Note that the caller has got this part."""


class PartsInMemory:
    """Parts that are kept until they are reported, for a stream."""

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}

    def read(self, key: str) -> Part | None:
        """Return the part with that key."""
        return self._parts.get(key)

    def write(self, key: str, part: Part) -> None:
        """Keep a part."""
        self._parts[key] = part

    def reported(self, key: str) -> None:
        """Forget a part."""
        self._parts.pop(key, None)


class PartStore:
    """The parts in a folder, which is made when the first one is written. used: the keys that were read or written."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.used = folder, dict[str, None]()

    def read(self, key: str) -> Part | None:
        """Return the part with that key; None if there is none or it is damaged."""
        path = self._path(key)
        if not os.path.lexists(path):
            return None
        self.used[key] = None
        try:
            tensors, metadata = read_small_tensors(path, limit=_MAX_BYTES)
            part = _checked(tensors)
            if metadata != _metadata(key, part):
                raise FileError("it is not the part of this text")
        except FileError as error:
            _LOG.warning("%s is made again: %s", path.name, error)
            remove_file(path)
            return None
        return part

    def write(self, key: str, part: Part) -> None:
        """Write a part; raises FileError."""
        make_folder(self.folder)
        self.used[key] = None
        write_tensors(self._path(key), {"samples": part.samples, "codes": part.codes}, _metadata(key, part))

    def reported(self, key: str) -> None:
        """Do nothing: parts stay on disk for `samples_of` and for the next run."""

    def others(self) -> tuple[int, int]:
        """Return how many parts besides `used` are in the folder, and their bytes."""
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        found = [name for name in names if _NAME.fullmatch(name) and name.removesuffix(SUFFIX) not in self.used]
        return len(found), sum(file_size(self.folder / name) for name in found)

    def remove(self, keys: list[str]) -> None:
        """Remove these parts, and the folder if nothing else is in it."""
        for key in keys:
            remove_file(self._path(key))
        remove_empty_folder(self.folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"


def to_int16(samples: Tensor) -> Tensor:
    """Return samples [N] float32 as a 16-bit WAV file holds them."""
    return torch.from_numpy(to_pcm16(samples.numpy()))


def _checked(tensors: dict[str, Tensor]) -> Part:
    if tensors.keys() != {"samples", "codes"}:
        raise FileError("it is not a part of a text")
    samples, codes = tensors["samples"], tensors["codes"]
    if samples.dtype != torch.int16 or samples.ndim != 1 or codes.dtype != torch.int16 or codes.ndim != 2:
        raise FileError("its tensors have other shapes")
    return Part(samples, codes)


def _metadata(key: str, part: Part) -> dict[str, str]:
    digest = hashlib.sha256(part.samples.numpy().data)
    digest.update(part.codes.contiguous().numpy().data)
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "key": key, "sha256": digest.hexdigest()}
