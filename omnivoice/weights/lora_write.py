"""Writing LoRAs: as ComfyUI's single file, as the dict of a LORA_MODEL socket, and as a PEFT folder.

The settings of a PEFT folder are derived from the changes: ranks, scales, target modules and modules_to_save. What
differs from the most common value becomes rank_pattern and alpha_pattern, so tensors and settings cannot contradict
each other. Metadata has a list of allowed keys and holds no paths, since such files are shared. `lora_read` reads all
that this module writes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from os import PathLike
from os.path import isdir, isfile, lexists
from pathlib import Path
from types import MappingProxyType
from typing import cast

import torch
from torch import Tensor

from ..devices import DTYPES, dtype_name
from ..errors import FileError, InputError, LoraError
from ..intake.files import file_stamp, read_bytes, remove_file, sync_folder, write_atomic
from ..intake.folders import make_folder
from ..intake.limits import MAX_CONFIG_BYTES, MAX_LORA_TEXT_CHARS, MAX_TENSORS_BYTES, shown
from ..intake.paths import as_path, shown_name
from ..intake.tables import load_table
from ..intake.tensors import check_header, write_tensors
from .lora import Change, Difference, LoRA, LowRank, Replacement
from .lora_keys import PEFT_PREFIX
from .lora_peft import checked_rank, checked_scale, parse_settings
from .lora_read import ADAPTER, ADAPTER_CONFIG
from .read import FLOATS

FORMAT, FORMAT_VERSION = "omnivoice_lora", "1"
METADATA_KEYS = ("name", "base", "data", "settings", "steps", "consent")
# A root, a home, a drive or a share at the start of a path; and the form of access tokens.
_PRIVATE = re.compile(r"(?:^|[\s\"'=:,;(\[{<])(?:/\w|~[/\\]|\\\\)|(?<![A-Za-z])[A-Za-z]:[\\/]|file:|\bhf_\w{16}", re.I)
_EMBEDDING = "audio_embeddings"
_NO_TARGETS = "dummy-target-modules"  # PEFT's name for no target (peft/utils/constants.py:406)
_DIGITS = 12  # of an alpha: rank * scale then equals what was set, without rounding noise


def lora_tensors(lora: LoRA, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Return the LoRA's tensors by ComfyUI's names (comfy/lora.py:72, comfy/weight_adapter/lora.py:160).

    A LoRA A/B pair becomes MODULE.lora_up.weight [out, r], .lora_down.weight [r, in] and .alpha, a difference .diff,
    a full weight .set_weight. The tensors are new, contiguous, on the CPU, in `dtype` (alpha: float32) and share no
    memory, as core's SaveLoRA requires. Raises InputError for another dtype, LoraError for values that do not fit it.
    """
    tensors: dict[str, Tensor] = {}
    for module, change in _sorted_changes(lora).items():
        if isinstance(change, LowRank):
            tensors[f"{module}.lora_up.weight"] = _stored(change.up, dtype, module)
            tensors[f"{module}.lora_down.weight"] = _stored(change.down, dtype, module)
            alpha = change.scale * checked_rank(change.rank, module)
            checked_scale(alpha, change.rank, module)
            tensors[f"{module}.alpha"] = torch.tensor(alpha, dtype=torch.float32)
        else:
            suffix = "set_weight" if isinstance(change, Replacement) else "diff"
            tensors[f"{module}.{suffix}"] = _stored(change.values, dtype, module)
    return tensors


def write_lora(
    path: str | PathLike[str],
    lora: LoRA,
    metadata: Mapping[str, str] = MappingProxyType({}),
    *,
    dtype: torch.dtype = torch.float32,
    overwrite: bool = False,
) -> Path:
    """Write one .safetensors file atomically and return the path written. metadata: see `METADATA_KEYS`.

    With `overwrite`, only a file of this format is replaced. Raises FileError, InputError for the metadata, LoraError
    for a LoRA that cannot be written.
    """
    where = as_path(path)
    if where.suffix != ".safetensors":
        raise InputError(f"a LoRA file must end in .safetensors, got {shown(where.name)}")
    about = {"format": FORMAT, "format_version": FORMAT_VERSION, **checked_metadata(metadata)}
    return write_tensors(where, _checked_size(lora_tensors(lora, dtype)), about, overwrite=overwrite)


def write_peft(
    folder: str | PathLike[str],
    lora: LoRA,
    metadata: Mapping[str, str] = MappingProxyType({}),
    *,
    rslora: bool = False,
    dropout: float = 0.0,
    dtype: torch.dtype = torch.float32,
    overwrite: bool = False,
) -> Path:
    """Write adapter_model.safetensors and adapter_config.json for PEFT 0.21 on upstream's model; return the folder.

    A missing folder is made. rslora, dropout: what the config says about the training; rslora changes how a scale is
    written, not its value. With `overwrite`, only a LoRA that this function wrote is replaced; other files in the
    folder stay. Raises as `write_lora` does, and LoraError for a difference, which PEFT has no form for.
    """
    changes = _sorted_changes(lora)
    config = peft_config(changes, rslora=rslora, dropout=dropout)
    about = {"format": "pt", "writer": FORMAT, "format_version": FORMAT_VERSION, **checked_metadata(metadata)}
    tensors = _checked_size(_peft_tensors(changes, dtype))
    where = make_folder(folder)
    replaced = _check_folder(where, overwrite=overwrite)
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    _write_pair(where, text.encode(), partial(write_tensors, where / ADAPTER, tensors, about, overwrite=replaced))
    return where


def _write_pair(where: Path, text: bytes, write_weights: Callable[..., object]) -> None:
    """Write weights and settings, so that a crash never leaves new weights with old settings, which would scale them.

    The old settings are removed when both new files are on the disk under temporary names. After an error they come
    back, or the new ones if the weights are new; only a disk that refuses every rename from then on prevents that.
    """
    settings, weights = where / ADAPTER_CONFIG, where / ADAPTER
    old = read_bytes(settings, limit=MAX_CONFIG_BYTES) if lexists(settings) else None
    if old == text:
        write_weights()
        return
    stamp = file_stamp(weights)

    def remove_old() -> None:
        remove_file(settings)
        sync_folder(where)

    try:
        write_atomic(settings, text, before=partial(write_weights, before=remove_old))
    except BaseException:
        fitting = old if file_stamp(weights) == stamp else text
        if fitting is not None and not lexists(settings):
            with suppress(FileError):
                write_atomic(settings, fitting)
        raise


def checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return `metadata` if it holds only short texts under `METADATA_KEYS`, and no path or token; raises InputError."""
    for key, value in metadata.items():
        if key not in METADATA_KEYS:
            raise InputError(f"metadata of a LoRA may hold {', '.join(METADATA_KEYS)} only, got {shown(key)}")
        if not isinstance(value, str) or len(value) > MAX_LORA_TEXT_CHARS or not value.isprintable():
            raise InputError(
                f"metadata {key} must be one line of at most {MAX_LORA_TEXT_CHARS} printable characters, got "
                f"{shown(value)}"
            )
        if _PRIVATE.search(value):
            raise InputError(f"metadata {key} holds a path or a token, which may not go into a shared file: remove it")
    return dict(metadata)


def peft_config(changes: Mapping[str, Change], *, rslora: bool = False, dropout: float = 0.0) -> dict[str, object]:
    """Return adapter_config.json for these changes: the keys of peft 0.21.2 that matter, and those it warns about."""
    if not 0 <= dropout < 1:
        raise InputError(f"dropout must be at least 0 and below 1, got {shown(dropout)}")
    pairs = {module: change for module, change in changes.items() if isinstance(change, LowRank)}
    ranks = {module: checked_rank(pair.rank, module) for module, pair in pairs.items()}
    alphas = {module: _peft_alpha(pair, module, rslora=rslora) for module, pair in pairs.items()}
    rank, rank_pattern = _common_and_others(ranks, changes)
    alpha, alpha_pattern = _common_and_others(alphas, changes)
    config = {
        **cast("dict[str, dict[str, object]]", load_table("weights/peft_config.json"))["written"],
        "alpha_pattern": alpha_pattern,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "modules_to_save": [module for module in changes if module not in pairs] or None,
        "r": rank,
        "rank_pattern": rank_pattern,
        "target_modules": [name for name, _ in _groups(pairs, changes)] or _NO_TARGETS,
        "use_rslora": rslora,
    }
    settings = parse_settings(config)  # what is written here can be read here
    for module, pair in pairs.items():
        assert math.isclose(settings.scale(module, pair.rank), pair.scale, rel_tol=1e-9), "the patterns give the scale"
    return config


def _sorted_changes(lora: LoRA) -> dict[str, Change]:
    if not lora.changes:
        raise LoraError(f"{lora.source} changes nothing: there is nothing to write")
    return dict(sorted(lora.changes.items()))


def _stored(tensor: Tensor, dtype: torch.dtype, module: str) -> Tensor:
    """Return a contiguous copy on the CPU that shares no memory."""
    if dtype not in FLOATS:
        raise InputError(f"a LoRA is written in {', '.join(DTYPES)}, got {dtype_name(dtype)}")
    copy = torch.empty(tensor.shape, dtype=dtype)
    copy.copy_(tensor.detach())
    if not bool(torch.isfinite(copy).all()):
        raise LoraError(
            f"{module} holds NaN or Inf in {dtype_name(dtype)}: write it in fp32, or use an earlier checkpoint"
        )
    return copy


def _checked_size(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if size > MAX_TENSORS_BYTES:
        raise LoraError(
            f"the LoRA would be {size} bytes large, at most {MAX_TENSORS_BYTES} can be read again: write it in "
            "bf16, or train a lower rank"
        )
    return tensors


def _peft_tensors(changes: Mapping[str, Change], dtype: torch.dtype) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for module, change in changes.items():
        stem = PEFT_PREFIX + module
        if isinstance(change, Difference):
            raise LoraError(f"PEFT has no form for the difference of {module}: write one file instead")
        if isinstance(change, Replacement):
            tensors[f"{stem}.weight"] = _stored(change.values, dtype, module)
        elif module == _EMBEDDING:  # PEFT stores the pair of an embedding transposed: (r, rows) and (E, r)
            tensors[f"{stem}.lora_embedding_A"] = _stored(change.up.T, dtype, module)
            tensors[f"{stem}.lora_embedding_B"] = _stored(change.down.T, dtype, module)
        else:
            tensors[f"{stem}.lora_A.weight"] = _stored(change.down, dtype, module)
            tensors[f"{stem}.lora_B.weight"] = _stored(change.up, dtype, module)
    return tensors


def _check_folder(folder: Path, *, overwrite: bool) -> bool:
    """Whether the folder holds a LoRA that may be replaced; raises FileError for one that may not be."""
    model, config = folder / ADAPTER, folder / ADAPTER_CONFIG
    if not lexists(model) and not lexists(config):
        return False
    name = shown_name(folder)
    if not overwrite:
        raise FileError(f"the folder {name} holds a LoRA already: choose another name")
    if isdir(config) or not isfile(model) or check_header(model).metadata.get("writer") != FORMAT:
        raise FileError(f"the folder {name} holds a LoRA that this program did not write: choose another name")
    return True


def _peft_alpha(pair: LowRank, module: str, *, rslora: bool) -> float:
    divisor = math.sqrt(pair.rank) if rslora else pair.rank
    alpha = float(f"{pair.scale * divisor:.{_DIGITS}g}")
    checked_scale(alpha, divisor, module)
    return int(alpha) if alpha.is_integer() else alpha


def _groups(modules: Mapping[str, object], every: Mapping[str, object]) -> list[tuple[str, list[str]]]:
    """Group modules as (name, members): by their kind (q_proj) if that name means no other module of `every`."""
    kinds = defaultdict[str, list[str]](list)
    for module in modules:
        kinds[module.rpartition(".")[2]].append(module)
    found: list[tuple[str, list[str]]] = []
    for kind, members in kinds.items():
        complete = sum(module.rpartition(".")[2] == kind for module in every) == len(members)
        exact = complete and _same_layers(members, every)
        found += [(kind, members)] if exact else [(name, [name]) for name in members]
    return found


def _same_layers(members: list[str], every: Mapping[str, object]) -> bool:
    """Whether the members are in each layer, from the first to the last that the LoRA changes."""
    layers, own = (
        {name.split(".")[2] for name in names if name.startswith("llm.layers.")} for names in (every, members)
    )
    return not own or own == layers == {str(layer) for layer in range(len(layers))}


def _common_and_others(values: Mapping[str, float], every: Mapping[str, object]) -> tuple[float, dict[str, float]]:
    """Return the most common value, 1 if there is none, and a pattern for each group or module with another value."""
    if not values:
        return 1, {}
    common = Counter(values.values()).most_common(1)[0][0]
    patterns: dict[str, float] = {}
    for name, members in _groups(values, every):
        found = {values[module] for module in members}
        if len(found) == 1:
            patterns |= {name: found.pop()} if found != {common} else {}
        else:
            patterns |= {module: values[module] for module in members if values[module] != common}
    return common, patterns
