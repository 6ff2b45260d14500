"""Reading tensors from safetensors files into a module, straight into the target dtype.

Names and shapes are checked first. Then each tensor is read from the memory map, checked, converted, and becomes the
parameter. A tensor that needs no conversion stays mapped, so the system can drop its pages and read them again. Errors
name up to five unknown and missing keys; NaN and Inf are refused. `load` and `load_codec` know which keys a model has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..devices import dtype_name
from ..errors import CheckpointError
from ..intake.tensor_header import TensorInfo
from ..intake.tensors import MappedTensors, open_tensors
from .files import HOW_TO_GET
from .single_file import names_of_part

META = torch.device("meta")
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
Loaded = TypeVar("Loaded", bound=nn.Module)


@dataclass(frozen=True)
class Place:
    """Where a tensor is: its file, its name there, and its entry in the header."""

    path: Path
    stored: str
    info: TensorInfo


Found = Mapping[str, Place]


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Return {key: shape} of a module that was built with plain torch layers on the meta device."""
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def fill(module: Loaded, tensors: Mapping[str, Tensor]) -> Loaded:
    """Make `tensors` the parameters of the module and return it, ready to run."""
    module.load_state_dict(dict(tensors), strict=False, assign=True)
    return module.eval().requires_grad_(False)


def find_tensors(files: Sequence[Path], part: str) -> dict[str, Place]:
    """Return where each tensor is, from the headers only. A name in two shards is refused.

    part: LM or CODEC, for a file that holds both (`single_file`).
    """
    found: dict[str, Place] = {}
    for path in files:
        with open_tensors(path) as source:
            for name, stored in names_of_part(source.info, source.metadata, part):
                if name in found:
                    raise CheckpointError(f"{name} is in both {found[name].path.name} and {path.name}; {HOW_TO_GET}")
                found[name] = Place(path, stored, source.info[stored])
    return found


def check_tensors(found: Found, table: Mapping[str, tuple[int, ...]], files: Sequence[Path]) -> None:
    """Refuse files whose names or shapes differ from `table`, without reading values."""
    unknown, missing = sorted(found.keys() - table.keys()), sorted(table.keys() - found.keys())
    if unknown or missing:
        raise CheckpointError(_explain_keys(unknown, missing, files))
    for name, place in found.items():
        shape = tuple(place.info.shape)
        if shape != table[name]:
            raise CheckpointError(
                f"{place.path.name}: {name} has shape {shape}, the config needs {table[name]}; {HOW_TO_GET}"
            )


def read_tensors(
    found: Found,
    *,
    device: torch.device,
    dtype: torch.dtype,
    as_stored: Collection[str] = (),
    rows: Mapping[str, tuple[str, int, int]] = MappingProxyType({}),
) -> dict[str, Tensor]:
    """Read every tensor of `found` to `device` in `dtype`; those in `as_stored` to the CPU in the dtype of the file.

    rows: {name: (target tensor, first row, number of rows)} for tensors that become rows of another one. They are
    copied straight into it, since a temporary copy would keep its memory reserved.
    """
    tensors: dict[str, Tensor] = {}
    heights: dict[str, int] = {}
    for target, first, count in rows.values():
        heights[target] = max(heights.get(target, 0), first + count)
    for path in dict.fromkeys(place.path for place in found.values()):
        with open_tensors(path) as source:
            for name in (name for name, place in found.items() if place.path == path):
                raw = read_tensor(source, name, found[name], dtype)
                if name in rows:
                    target, first, count = rows[name]
                    if target not in tensors:
                        tensors[target] = torch.empty(heights[target], raw.shape[1], device=device, dtype=dtype)
                    tensors[target][first : first + count].copy_(raw)
                else:
                    tensors[name] = raw if name in as_stored else raw.to(device=device, dtype=dtype)
    return tensors


def read_tensor(source: MappedTensors, name: str, place: Place, dtype: torch.dtype) -> Tensor:
    """Return one tensor as stored. Raises CheckpointError for integers, NaN and Inf, and for overflow in `dtype`."""
    raw, where = source.get(place.stored), f"{place.path.name}: {name}"
    if raw.dtype not in FLOATS:
        raise CheckpointError(f"{where} is {raw.dtype}, allowed are float32, float16 and bfloat16")
    ends = torch.stack(torch.aminmax(raw))
    if not bool(torch.isfinite(ends).all()):
        raise CheckpointError(f"{where} holds NaN or Inf: the file is damaged; {HOW_TO_GET}")
    if not bool(torch.isfinite(ends.to(dtype)).all()):
        raise CheckpointError(f"{where} overflows in {dtype_name(dtype)}: load it as bf16 or fp32")
    return raw


def _explain_keys(unknown: Sequence[str], missing: Sequence[str], files: Sequence[Path]) -> str:
    where = files[0].name if len(files) == 1 else f"{len(files)} files in {files[0].parent.name}"
    hint = ""
    if any(name.startswith(("module.", "_orig_mod.", "model.llm.")) for name in unknown):
        hint = "; these are a training run's wrapped weights: export the plain model first"
    elif any("lora_" in name or name.startswith("base_model.") for name in unknown):
        hint = "; this is a LoRA adapter, not a model: load the base model and apply the adapter to it"
    kinds = {"unknown": unknown, "missing": missing}
    parts = [f"{len(names)} {kind}: {', '.join(names[:5])}" for kind, names in kinds.items() if names]
    return f"{where} does not hold this model's tensors ({'; '.join(parts)}){hint}"
