"""Reading tensors from safetensors files into a module, straight into the target dtype: names and shapes first.

Each tensor is read from the memory map, converted, checked, and becomes the parameter; one that needs no conversion
stays mapped, so its pages are the system's to drop and to read again. Unknown and missing keys raise and name up to
five; NaN and Inf are found here. Which keys a model has is the business of `load` and `load_codec`.
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
    """Where a tensor is: its file, and its name and header entry there."""

    path: Path
    stored: str
    info: TensorInfo


Found = Mapping[str, Place]


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """The exact table of keys and shapes: that of a module built with plain torch layers on the meta device."""
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def fill(module: Loaded, tensors: Mapping[str, Tensor]) -> Loaded:
    """The module with `tensors` as its parameters, ready to run."""
    module.load_state_dict(dict(tensors), strict=False, assign=True)
    return module.eval().requires_grad_(False)


def find_tensors(files: Sequence[Path], part: str) -> dict[str, Place]:
    """Which file holds which tensor, from the headers alone; a name in two shards is refused. part: LM or CODEC, for
    a file that holds both (`single_file`)."""
    found: dict[str, Place] = {}
    for path in files:
        with open_tensors(path) as source:
            for name, stored in names_of_part(source.info, source.metadata, part):
                if name in found:
                    raise CheckpointError(f"{name} is in both {found[name].path.name} and {path.name}; {HOW_TO_GET}")
                found[name] = Place(path, stored, source.info[stored])
    return found


def check_tensors(found: Found, table: Mapping[str, tuple[int, ...]], files: Sequence[Path]) -> None:
    """Refuse files that hold other names or shapes than `table`; no value is read."""
    _check_keys(set(table), set(found), files)
    for name, place in found.items():
        shape = tuple(place.info.shape)
        if shape != table[name]:
            raise CheckpointError(
                f"{place.path.name}: {name} has shape {shape}, the config asks for {table[name]}; {HOW_TO_GET}"
            )


def read_tensors(
    found: Found,
    *,
    device: torch.device,
    dtype: torch.dtype,
    as_stored: Collection[str] = (),
    rows: Mapping[str, tuple[str, int, int]] = MappingProxyType({}),
) -> dict[str, Tensor]:
    """Every tensor of `found`, on `device` in `dtype`; those named in `as_stored` on the CPU in the file's dtype.

    rows: {name: (of which tensor it becomes rows, the first, how many)}. They are read right into their place: a copy
    on the way would leave as much memory behind as it took.
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
    """One tensor as it is stored, after its values have been checked: they must survive becoming `dtype`."""
    raw = source.get(place.stored)
    _check_values(raw, name, place.path, dtype)
    return raw


def _check_values(raw: Tensor, name: str, path: Path, dtype: torch.dtype) -> None:
    """Refuses integers, NaN and Inf, also those that converting to `dtype` would make."""
    if raw.dtype not in FLOATS:
        raise CheckpointError(f"{path.name}: {name} is {raw.dtype}, allowed are float32, float16 and bfloat16")
    ends = torch.stack(torch.aminmax(raw))
    if not bool(torch.isfinite(ends).all()):
        raise CheckpointError(f"{path.name}: {name} holds NaN or Inf: the file is damaged; {HOW_TO_GET}")
    if not bool(torch.isfinite(ends.to(dtype)).all()):
        raise CheckpointError(f"{path.name}: {name} overflows in {dtype_name(dtype)}: load it as bf16 or fp32")


def _check_keys(expected: set[str], found: set[str], files: Sequence[Path]) -> None:
    unknown, missing = sorted(found - expected), sorted(expected - found)
    if not unknown and not missing:
        return
    where = files[0].name if len(files) == 1 else f"{len(files)} files in {files[0].parent.name}"
    hint = ""
    if any(name.startswith(("module.", "_orig_mod.", "model.llm.")) for name in unknown):
        hint = "; these are a training run's wrapped weights: export the plain model first"
    elif any("lora_" in name or name.startswith("base_model.") for name in unknown):
        hint = "; this is a LoRA adapter, not a model: load the base model and apply the adapter to it"
    parts = [
        f"{len(names)} {kind}: {', '.join(names[:5])}"
        for kind, names in (("unknown", unknown), ("missing", missing))
        if names
    ]
    raise CheckpointError(f"{where} does not hold this model's tensors ({'; '.join(parts)}){hint}")
