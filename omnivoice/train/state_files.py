"""The file of a training state: its tensors and numbers, with a hash of them.

It is written to a temporary file and renamed. A kill therefore leaves the old file or the new one, and a file that is
damaged later does not match its hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..errors import FileError
from ..intake.paths import shown_name
from ..intake.strict_json import parse_json
from ..intake.tensors import read_own_tensors, write_tensors

FORMAT, FORMAT_VERSION = "omnivoice_training", "1"


class ForeignStateError(FileError):
    """A training state is whole, but not one that this run may use, nor delete."""


def write_state(path: Path, tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> None:
    """Write a training state as one file, atomically. Raises FileError."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    metadata = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "numbers": json.dumps(dict(numbers)),
        "sha256": _digest(plain, numbers),
    }
    write_tensors(path, plain, metadata)


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Read what `write_state` wrote. Raises FileError for anything else, even a single changed byte, and
    ForeignStateError for a state of a newer version."""
    name = shown_name(path)
    tensors, metadata = read_own_tensors(path)
    version = metadata.get("format_version", "")
    if metadata.get("format") == FORMAT and version in map(str, range(int(FORMAT_VERSION) + 1, 100)):
        raise ForeignStateError(
            f"{name} was written by a newer version of this pack (training state {version}, this one reads "
            f"{FORMAT_VERSION}): update the pack"
        )
    if metadata.get("format") != FORMAT or version != FORMAT_VERSION:
        raise FileError(f"{name} is not a training state of format {FORMAT_VERSION}")
    numbers = parse_json(metadata.get("numbers", "").encode(), name)
    if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
        raise FileError(f"{name} is damaged: its numbers are missing")
    if metadata.get("sha256") != _digest(dict(sorted(tensors.items())), numbers):
        raise FileError(f"{name} is damaged: its content does not match its hash")
    return tensors, numbers


def _digest(tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> str:
    digest = hashlib.sha256(json.dumps(dict(numbers), sort_keys=True).encode())
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
