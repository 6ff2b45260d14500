"""Cache of the codes of training clips on disk, one small safetensors file per recording.

An entry's name is a hash of the recording's content, the codec and the preparation of the audio, so no entry can be
out of date. The folder is not trusted: an entry that is damaged, foreign or of another shape counts as missing and is
written again. If the folder cannot be written to, the run continues with a warning. Several processes may share it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from ..constants import FRAME_RATE
from ..errors import FileError, InputError
from ..intake.files import remove_file, sha256_of
from ..intake.folders import make_folder
from ..intake.limits import MAX_CLIP_SECONDS, MAX_CODES_BYTES
from ..intake.paths import as_path, shown_name
from ..intake.tensors import read_small_tensors, write_tensors
from ..types import Waveform

FORMAT, FORMAT_VERSION = "omnivoice_codes", "1"
FOLDER = ".omnivoice_codes"  # in the dataset; hidden, so that it is not searched for recordings
_LOG = logging.getLogger("omnivoice_nodes")
_MAX_CODE = 1 << 15  # what int16 holds
_MAX_FRAMES = MAX_CLIP_SECONDS * FRAME_RATE


def content_of(audio: Path | Waveform) -> str:
    """Return the SHA-256, in hex, of a file's bytes, or of samples and rate; raises FileError."""
    if isinstance(audio, Path):
        return sha256_of(audio)
    digest = hashlib.sha256(repr((tuple(audio.samples.shape), audio.sample_rate)).encode())
    digest.update(audio.samples.contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_clip_codes(codes: Tensor, codebooks: int, codebook_size: int) -> Tensor:
    """Return `codes` [K, T] if they are valid and at most 30 s long; raises InputError."""
    if codes.ndim != 2 or codes.shape[0] != codebooks or not 1 <= codes.shape[1] <= _MAX_FRAMES:
        raise InputError(f"codes must have shape [{codebooks}, 1-{_MAX_FRAMES}], got {list(codes.shape)}")
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= min(codebook_size, _MAX_CODE):
        raise InputError(f"codes must be 0-{min(codebook_size, _MAX_CODE) - 1}, got {low if low < 0 else high}")
    return codes


class CodeCache:
    """The entries of one codec in a folder; with None nothing is cached.

    codec: identifies the codec and the preparation of the audio.
    """

    def __init__(self, folder: str | PathLike[str] | None, codec: str, codebooks: int, codebook_size: int):
        self._folder, self._codec = None if folder is None else as_path(folder), codec
        self._codebooks, self._size = codebooks, codebook_size
        self._damaged, self._warning = set[Path](), ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about damaged entries and about a folder that cannot be written to."""
        damaged = f"damaged entries in the code cache, encoded again: {len(self._damaged)}" if self._damaged else ""
        return tuple(note for note in (damaged, self._warning) if note)

    def read(self, content: str) -> Tensor | None:
        """Return the codes [K, T] int16 of the recording with that content; None without a valid entry."""
        path = self._path(content)
        if path is None or not os.path.lexists(path):
            return None
        try:
            tensors, metadata = read_small_tensors(path, limit=MAX_CODES_BYTES)
            if metadata != _metadata(path) or tensors.keys() != {"codes"} or tensors["codes"].dtype != torch.int16:
                raise InputError("it is not the entry of this recording")
            return check_clip_codes(tensors["codes"], self._codebooks, self._size)
        except (FileError, InputError) as error:
            if os.path.lexists(path):  # else another process is replacing it
                _LOG.warning("%s is encoded again: %s", path.name, error)
                self._damaged.add(path)
            return None

    def write(self, content: str, codes: Tensor) -> None:
        """Write the codes [K, T]. Raises InputError for invalid ones; a failure to write is only noted, once."""
        check_clip_codes(codes, self._codebooks, self._size)
        path = self._path(content)
        if path is None:
            return
        try:
            make_folder(path.parent)
            if path in self._damaged:
                remove_file(path)  # the writer does not replace files of another format
            write_tensors(path, {"codes": codes.to(torch.int16)}, _metadata(path))
        except FileError as error:
            if not self._warning:
                folder = shown_name(path.parent.parent)
                self._warning = f"codes cannot be cached in {folder} and will be encoded again: {error}"
                _LOG.warning("%s", self._warning)

    def _path(self, content: str) -> Path | None:
        """Return the path of an entry, in one of 256 folders, since one huge folder would make every write slow."""
        if self._folder is None:
            return None
        key = hashlib.sha256(f"{content} {self._codec}".encode()).hexdigest()
        return self._folder / key[:2] / f"{key}.safetensors"


def _metadata(path: Path) -> dict[str, str]:
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "key": path.stem}
