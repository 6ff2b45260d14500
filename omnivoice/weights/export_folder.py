"""Writing a checkpoint as a folder that upstream's package loads, on request with LoRAs merged in or weights replaced.

The folder appears complete or not at all. The codec is copied byte for byte, including what only training needs. The
small files that upstream's tokenizer and feature extractor read are copied too, or made if the source, a single file,
has none. config.json is copied except for the precision that it names. `export` chooses the tensors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from os.path import isfile
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor

from ..errors import CheckpointError
from ..intake.files import file_size, write_atomic
from ..intake.folders import check_new_folder, check_space, copy_file, make_folder, new_folder
from ..intake.paths import as_path
from ..intake.strict_json import parse_json
from ..intake.tables import load_table
from ..intake.tensors import TensorSource, stream_tensors
from .export import opened, stored_dtype, tensor_sources
from .files import CODEC_FOLDER, INDEX, WEIGHTS, CheckpointFiles
from .load import lm_tensors
from .load_codec import codec_tensors
from .lora import LoRA
from .model_settings import FILE as SETTINGS
from .read import Found
from .single_file import CODEC_CONFIG, CONFIG, TOKENIZER

OFFSETS = "codebook_layer_offsets"  # a buffer that upstream keeps (models/omnivoice.py:305), int64 [K]
_Part = bytes | Path | Mapping[str, TensorSource]  # a file's content, the file to copy, or the tensors to write


def export_folder(
    files: CheckpointFiles,
    folder: str | PathLike[str],
    *,
    dtype: torch.dtype | None = None,
    loras: Sequence[tuple[LoRA, float]] = (),
    tensors: Mapping[str, Tensor] = MappingProxyType({}),
) -> Path:
    """Write the model of `files` as a new folder and return it; the arguments are those of `export_checkpoint`.

    `folder` may exist if it is empty; missing folders above it are made. Raises as `export_checkpoint` does, and
    FileError for a folder that is not empty or a disk without enough space. After an error, nothing is left behind.
    """
    where = as_path(folder)
    check_new_folder(where)
    lm = lm_tensors(files.lm_config, files.lm_weights)
    codec, _ = codec_tensors(files.codec_config, files.codec_weights)
    parts = _small_files(files, _config_text(files, dtype or _widest_dtype(lm)))
    with opened(files) as maps:
        sources = tensor_sources(lm, maps, dtype=dtype, loras=loras, tensors=tensors)
        parts[WEIGHTS] = {**sources, OFFSETS: _offsets(files)}
        if _is_separate(files.texts[CODEC_CONFIG]):
            parts |= {f"{CODEC_FOLDER}/{path.name}": path for path in _codec_weights(files)}
        else:
            parts[f"{CODEC_FOLDER}/{WEIGHTS}"] = tensor_sources(codec, maps)
        check_space(make_folder(where.parent), sum(map(_size, parts.values())), action="written")
        with new_folder(where) as place:
            make_folder(place / CODEC_FOLDER)
            for name, part in parts.items():
                _write(place / name, part)
    return where


def _write(path: Path, part: _Part) -> None:
    if isinstance(part, bytes):
        write_atomic(path, part, overwrite=False)
    elif isinstance(part, Path):
        copy_file(part, path)
    else:
        stream_tensors(path, part, {"format": "pt"}, overwrite=False)


def _size(part: _Part) -> int:
    if isinstance(part, bytes):
        return len(part)
    if isinstance(part, Path):
        return file_size(part)
    return sum(torch.Size(source.shape).numel() * source.dtype.itemsize for source in part.values())


def _small_files(files: CheckpointFiles, config: bytes) -> dict[str, _Part]:
    """Return every file except the weights, by name in the folder."""
    table = cast("dict[str, Any]", load_table("weights/folder_files.json"))
    parts: dict[str, _Part] = {name: files.text(name) for name in (TOKENIZER, CODEC_CONFIG)}
    parts[CONFIG] = config
    parts |= {SETTINGS: files.settings_json} if files.settings_json else {}
    for prefix, kind, made, config_path in (
        ("", "model", "tokenizer_config.json", files.texts[CONFIG]),
        (f"{CODEC_FOLDER}/", "codec", "preprocessor_config.json", files.texts[CODEC_CONFIG]),
    ):
        parts[prefix + made] = _json_bytes(table["made"][made])
        if _is_separate(config_path):
            parts |= {prefix + name: path for name in table[kind] if isfile(path := config_path.parent / name)}
    return parts


def _is_separate(text: Path) -> bool:
    """Whether a text is in its own file, and not in a single-file model, next to which other models' files may be."""
    return text.suffix == ".json"


def _codec_weights(files: CheckpointFiles) -> list[Path]:
    """Return the codec's weight files, and the index that names them if there are several."""
    index = files.texts[CODEC_CONFIG].parent / INDEX
    return [*files.codec_weights, *([index] if files.codec_weights[0].name != WEIGHTS else [])]


def _config_text(files: CheckpointFiles, dtype: torch.dtype) -> bytes:
    """Return config.json with the precision of the weights, in which upstream loads, under the key that it uses.

    The size of the vocabulary is in `llm_config`, where upstream reads it.
    """
    text = files.text(CONFIG)
    raw = parse_json(text, CONFIG)
    if not isinstance(raw, dict) or not isinstance(raw.get("llm_config"), dict):
        raise CheckpointError(f"{CONFIG} changed while it was read: try again")
    name, inner = str(dtype).removeprefix("torch."), cast("dict[str, object]", raw["llm_config"])
    keys = [key for key in ("dtype", "torch_dtype") if key in raw] or ["dtype"]
    new = {**raw, **dict.fromkeys(keys, name)}
    new["llm_config"] = {**inner, **{key: name for key in ("dtype", "torch_dtype") if inner.get(key) is not None}}
    new["llm_config"]["vocab_size"] = files.lm_config.vocab_size
    return text if new == raw else _json_bytes(new)


def _json_bytes(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _widest_dtype(found: Found) -> torch.dtype:
    """Return the one dtype that holds every tensor as stored."""
    kinds = {stored_dtype(place) for place in found.values()}
    return kinds.pop() if len(kinds) == 1 else torch.float32


def _offsets(files: CheckpointFiles) -> TensorSource:
    offsets = torch.arange(files.lm_config.codebooks, dtype=torch.int64) * files.lm_config.audio_vocab_size
    return TensorSource(offsets.dtype, tuple(offsets.shape), offsets.clone)
