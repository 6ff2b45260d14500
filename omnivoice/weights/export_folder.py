"""Writing a checkpoint as a folder that upstream's package loads, on request with LoRAs merged in or weights replaced.

The folder appears complete or not at all. The codec is copied byte for byte, including what only training needs. The
small files that upstream's tokenizer and feature extractor read are copied too, or made if the source, a single file,
has none. config.json is copied except for the precision that it names. `export` chooses the tensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from os.path import isfile
from pathlib import Path
from typing import TypedDict, cast

import torch
from torch import Tensor

from ..errors import CheckpointError
from ..intake.files import file_size, write_atomic
from ..intake.folders import check_new_folder, check_space, copy_file, make_folder, new_folder
from ..intake.paths import as_path
from ..intake.strict_json import parse_json
from ..intake.tables import load_table
from ..intake.tensors import TensorSource, stream_tensors
from .export import NO_TENSORS, lm_sources, opened, stored_dtype, stored_sources
from .files import CODEC_FOLDER, INDEX, WEIGHTS, CheckpointFiles
from .load import lm_tensors
from .load_codec import codec_tensors
from .lora import LoRA
from .read import Found
from .single_file import CODEC_CONFIG, CONFIG, TOKENIZER

OFFSETS = "codebook_layer_offsets"  # a buffer that upstream stores (models/omnivoice.py:305), int64 [K]
METADATA = {"format": "pt"}
TOKENIZER_CONFIG, FEATURE_CONFIG = "tokenizer_config.json", "preprocessor_config.json"


class _Tables(TypedDict):
    model: list[str]
    codec: list[str]
    made: dict[str, dict[str, object]]


def export_folder(
    files: CheckpointFiles,
    folder: str | PathLike[str],
    *,
    dtype: torch.dtype | None = None,
    loras: Sequence[tuple[LoRA, float]] = (),
    tensors: Mapping[str, Tensor] = NO_TENSORS,
) -> Path:
    """Write the model of `files` as a new folder and return it; the arguments are those of `export_checkpoint`.

    `folder` may exist if it is empty; missing folders above it are made. Raises as `export_checkpoint` does, and
    FileError for a folder that is not empty or a disk without enough space. After an error, nothing is left behind.
    """
    where = as_path(folder)
    check_new_folder(where)
    lm = lm_tensors(files.lm_config, files.lm_weights)
    codec, _ = codec_tensors(files.codec_config, files.codec_weights)
    texts, copies = _small_files(files, _config_text(files, dtype or _widest(lm)))
    with opened(files) as sources:
        weights = {WEIGHTS: _with_offsets(lm_sources(lm, sources, dtype=dtype, loras=loras, tensors=tensors), files)}
        if _in_folder(files.texts[CODEC_CONFIG]):
            copies |= {f"{CODEC_FOLDER}/{path.name}": path for path in _codec_weights(files)}
        else:
            weights[f"{CODEC_FOLDER}/{WEIGHTS}"] = stored_sources(codec, sources)
        parent = make_folder(where.parent)
        check_space(parent, _bytes(texts, copies, weights), action="written")
        with new_folder(where) as place:
            _fill(place, texts, copies, weights)
    return where


def _fill(
    place: Path,
    texts: Mapping[str, bytes],
    copies: Mapping[str, Path],
    weights: Mapping[str, Mapping[str, TensorSource]],
) -> None:
    make_folder(place / CODEC_FOLDER)
    for name, data in texts.items():
        write_atomic(place / name, data, overwrite=False)
    for name, path in copies.items():
        copy_file(path, place / name)
    for name, sources in weights.items():
        stream_tensors(place / name, sources, METADATA, overwrite=False)


def _small_files(files: CheckpointFiles, config: bytes) -> tuple[dict[str, bytes], dict[str, Path]]:
    """Return what is written as text and what is copied, each by its name in the folder."""
    tables = cast(_Tables, load_table("weights/folder_files.json"))
    texts = {CONFIG: config, TOKENIZER: files.text(TOKENIZER), CODEC_CONFIG: files.text(CODEC_CONFIG)}
    copies: dict[str, Path] = {}
    for prefix, names, place in (
        ("", tables["model"], files.texts[CONFIG]),
        (f"{CODEC_FOLDER}/", tables["codec"], files.texts[CODEC_CONFIG]),
    ):
        if _in_folder(place):
            copies |= {prefix + name: place.parent / name for name in names if isfile(place.parent / name)}
    for name in (TOKENIZER_CONFIG, f"{CODEC_FOLDER}/{FEATURE_CONFIG}"):
        if name not in copies:
            texts[name] = _json_bytes(tables["made"][name.rpartition("/")[2]])
    return texts, copies


def _in_folder(text: Path) -> bool:
    """Whether a text is a separate file. The folder of a single-file model may hold files of other models."""
    return text.suffix == ".json"


def _codec_weights(files: CheckpointFiles) -> list[Path]:
    """Return the codec's weight files, and the index that names them if there are several."""
    index = files.texts[CODEC_CONFIG].parent / INDEX
    return [*files.codec_weights, *([index] if files.codec_weights[0].name != WEIGHTS else [])]


def _config_text(files: CheckpointFiles, dtype: torch.dtype) -> bytes:
    """Return config.json with the precision of the weights, in which upstream loads, under the key that it uses."""
    text = files.text(CONFIG)
    raw = parse_json(text, CONFIG)
    if not isinstance(raw, dict) or not isinstance(raw.get("llm_config"), dict):
        raise CheckpointError(f"{CONFIG} changed while it was read: try again")
    name, inner = str(dtype).removeprefix("torch."), cast(dict[str, object], raw["llm_config"])
    keys = [key for key in ("dtype", "torch_dtype") if key in raw] or ["dtype"]
    new = {**raw, **dict.fromkeys(keys, name)}
    new["llm_config"] = {**inner, **{key: name for key in ("dtype", "torch_dtype") if inner.get(key) is not None}}
    return text if new == raw else _json_bytes(new)


def _json_bytes(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _widest(found: Found) -> torch.dtype:
    """Return the one precision that holds every tensor as stored."""
    kinds = {stored_dtype(place) for place in found.values()}
    return kinds.pop() if len(kinds) == 1 else torch.float32


def _with_offsets(sources: dict[str, TensorSource], files: CheckpointFiles) -> dict[str, TensorSource]:
    offsets = torch.arange(files.lm_config.codebooks, dtype=torch.int64) * files.lm_config.audio_vocab_size
    return {**sources, OFFSETS: TensorSource(offsets.dtype, tuple(offsets.shape), offsets.clone)}


def _bytes(
    texts: Mapping[str, bytes], copies: Mapping[str, Path], weights: Mapping[str, Mapping[str, TensorSource]]
) -> int:
    made: Iterable[TensorSource] = (source for sources in weights.values() for source in sources.values())
    tensors = sum(torch.Size(source.shape).numel() * source.dtype.itemsize for source in made)
    return sum(map(len, texts.values())) + sum(map(file_size, copies.values())) + tensors
