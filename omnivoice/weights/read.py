"""Reading tensors from safetensors files into a module, straight into the target dtype.

Names and shapes are checked first. A tensor that needs no conversion is mapped and becomes the parameter, so the system
can drop its pages and read them again. Any other is read in pieces, which are checked and converted while they are in
the processor's caches; of them nothing stays mapped. Errors name up to five unknown and missing keys; NaN and Inf are
refused. `load` and `load_codec` know which keys a model has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..devices import dtype_name
from ..errors import CheckpointError
from ..intake.cancel import cancellable
from ..intake.tensor_header import DTYPES, TensorInfo
from ..intake.tensors import TensorFile, open_tensors
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


def dtypes_of(module: nn.Module) -> dict[str, torch.dtype]:
    """Return {key: dtype} of the weights that a module has."""
    return {name: tensor.dtype for name, tensor in module.state_dict().items()}


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
    dtypes: Mapping[str, torch.dtype] = MappingProxyType({}),
    rows: Mapping[str, tuple[str, int, int]] = MappingProxyType({}),
    nonzero: Mapping[str, Collection[int]] = MappingProxyType({}),
) -> dict[str, Tensor]:
    """Read every tensor of `found` to `device` in `dtype`; those in `as_stored` to the CPU in the dtype of the file.

    dtypes: {name: another dtype}. rows: {name: (target tensor, first row, number of rows)} for tensors that become rows
    of another one, the same row several times if it is a vector. nonzero: {name: rows that must not be zero}. Raises
    CheckpointError for values that do not fit, see `check_values`.
    """
    tensors: dict[str, Tensor] = {}
    heights: dict[str, int] = {}
    for target, first, count in rows.values():
        heights[target] = max(heights.get(target, 0), first + count)
    for path in dict.fromkeys(place.path for place in found.values()):
        with open_tensors(path) as source:
            for name, place in ((name, place) for name, place in found.items() if place.path == path):
                info, into, vector = place.info, None, len(place.info.shape) == 1
                target, first, count = rows.get(name, (name, 0, 0))
                wanted, pieces = dtypes.get(target, dtype), source.pieces(place.stored)
                if name in rows:
                    if target not in tensors:
                        tensors[target] = torch.empty(heights[target], info.shape[-1], device=device, dtype=wanted)
                    into = tensors[target][first] if vector else tensors[target][first : first + count]
                elif name in as_stored:
                    tensors[name] = source.get(place.stored)  # but read in pieces: its pages are not needed yet
                elif DTYPES[info.dtype] == wanted and device.type == "cpu":
                    tensors[name] = source.get(place.stored)
                    pieces = iter([(0, tensors[name])])
                else:
                    into = tensors[name] = torch.empty(info.shape, device=device, dtype=wanted)
                _take(name, place, pieces, wanted, into, nonzero.get(name, ()))
                if name in rows and vector:
                    tensors[target][first + 1 : first + count] = tensors[target][first]
    return tensors


def _take(
    name: str,
    place: Place,
    pieces: Iterable[tuple[int, Tensor]],
    dtype: torch.dtype,
    into: Tensor | None,
    nonzero: Collection[int],
) -> None:
    """Check the pieces of a tensor and copy them to where they belong, if that is not where they are."""
    zero: set[int] = set()
    for first, piece in cancellable(pieces):
        check_values(piece, f"{place.path.name}: {name}", dtype)
        if into is not None:
            (into[first : first + len(piece)] if into.ndim else into[None]).copy_(piece)
        if nonzero:
            zero.update((first + zero_rows(piece)).tolist())
    bad = [row for row in nonzero if row in zero]
    if bad:
        raise CheckpointError(
            f"{place.path.name}: {len(bad)} rows of {name} that are in use are all zero (first: {bad[:5]}), so words "
            f"would be missing from the speech; the file was badly converted; {HOW_TO_GET}"
        )


def zero_rows(weight: Tensor) -> Tensor:
    """Return the indices of the rows of [R, E] that are all zero. Only rows that begin with a zero are looked at."""
    maybe = (weight[:, 0] == 0).nonzero().flatten()
    return maybe[(weight[maybe] == 0).all(dim=1)]


def read_tensor(source: TensorFile, name: str, place: Place, dtype: torch.dtype) -> Tensor:
    """Return one tensor as stored, mapped. Raises as `check_values`."""
    raw = source.get(place.stored)
    check_values(raw, f"{place.path.name}: {name}", dtype)
    return raw


def check_values(raw: Tensor, where: str, dtype: torch.dtype) -> None:
    """Raise CheckpointError for integers, NaN and Inf, and for overflow in `dtype`. where: what to call the tensor."""
    if raw.dtype not in FLOATS:
        raise CheckpointError(f"{where} is {raw.dtype}, allowed are float32, float16 and bfloat16")
    ends = torch.stack(torch.aminmax(raw))
    if not bool(torch.isfinite(ends).all()):
        raise CheckpointError(f"{where} holds NaN or Inf: the file is damaged; {HOW_TO_GET}")
    if float(ends.abs().max()) > torch.finfo(dtype).max:
        raise CheckpointError(f"{where} overflows in {dtype_name(dtype)}: load it as bf16 or fp32")


def _explain_keys(unknown: Sequence[str], missing: Sequence[str], files: Sequence[Path]) -> str:
    where = files[0].name if len(files) == 1 else f"{len(files)} files in {files[0].parent.name}"
    hint = ""
    if any(name.startswith(("module.", "_orig_mod.", "model.llm.")) for name in unknown):
        hint = "; these are a training run's wrapped weights: export the plain model first"
    elif any(name.endswith(".base_layer.weight") for name in unknown):
        hint = "; the model was saved with a LoRA still inside: call merge_and_unload (PEFT) before save_pretrained"
    elif any("lora_" in name or name.startswith("base_model.") for name in unknown):
        hint = "; this is a LoRA adapter, not a model: load the base model and apply the adapter to it"
    kinds = {"unknown": unknown, "missing": missing}
    parts = [f"{len(names)} {kind}: {', '.join(names[:5])}" for kind, names in kinds.items() if names]
    return f"{where} does not hold this model's tensors ({'; '.join(parts)}){hint}"
