"""Writing a checkpoint as a single file, on request in another precision, with LoRAs merged in or weights replaced.

Names, shapes and values are checked as in loading, so the file that is written can be loaded. Only one tensor at a time
is in memory. By default the codec keeps its precision; it always runs in float32. Tensors that only training needs are
left out of the single file; `export_folder` keeps them for upstream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from ..devices import dtype_name
from ..errors import CheckpointError
from ..intake.limits import check_number
from ..intake.tensors import MappedTensors, TensorSource, open_tensors
from .files import CheckpointFiles
from .load import lm_tensors
from .load_codec import codec_tensors
from .lora import Change, LoRA, merged
from .read import FLOATS, Found, Place, read_tensor
from .single_file import CODEC, EMBEDDED, LM, write_single_file

STORED = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
NO_TENSORS: Mapping[str, Tensor] = MappingProxyType({})


def export_checkpoint(
    files: CheckpointFiles,
    path: str | PathLike[str],
    *,
    dtype: torch.dtype | None = None,
    loras: Sequence[tuple[LoRA, float]] = (),
    tensors: Mapping[str, Tensor] = NO_TENSORS,
    codec_dtype: torch.dtype | None = None,
    words: Sequence[str] = (),
    overwrite: bool = False,
) -> Path:
    """Write the model of `files` to `path` and return the path written.

    dtype, codec_dtype: precision of the language model and of the codec, None for as stored. loras: (LoRA, strength);
    their changes add up. tensors: weights that replace those of the language model before any LoRA, by their names in
    the checkpoint, such as the result of a full fine-tuning. words: all words that the model can say; if empty, those
    of `files`.
    Raises CheckpointError or FileError for a model that would not load or a file that cannot be written, LoraError if
    a merged weight overflows.
    """
    lm = lm_tensors(files.lm_config, files.lm_weights)
    codec, _ = codec_tensors(files.codec_config, files.codec_weights)
    texts = {name: files.text(name) for name in EMBEDDED}
    with opened(files) as sources:
        parts = {
            LM: lm_sources(lm, sources, dtype=dtype, loras=loras, tensors=tensors),
            CODEC: stored_sources(codec, sources, codec_dtype),
        }
        return write_single_file(path, parts, texts, words=words or files.words, overwrite=overwrite)


@contextmanager
def opened(files: CheckpointFiles) -> Iterator[Mapping[Path, MappedTensors]]:
    """Map every weight file of the checkpoint."""
    with ExitStack() as stack:
        yield {file: stack.enter_context(open_tensors(file)) for file in {*files.lm_weights, *files.codec_weights}}


def lm_sources(
    found: Found,
    sources: Mapping[Path, MappedTensors],
    *,
    dtype: torch.dtype | None,
    loras: Sequence[tuple[LoRA, float]],
    tensors: Mapping[str, Tensor],
) -> dict[str, TensorSource]:
    """Return the language model's tensors as described in `export_checkpoint`; each is made when it is requested."""
    strengths = [check_number("strength", strength) for _, strength in loras]
    changes: dict[str, list[tuple[Change, float]]] = {}
    for (lora, _), strength in zip(loras, strengths):
        for module, change in lora.changes.items() if strength != 0 else ():
            changes.setdefault(f"{module}.weight", []).append((change, strength))
    _check_replaced(found, tensors)

    def make(name: str, place: Place, target: torch.dtype) -> Tensor:
        changed = changes.get(name, [])
        if name in tensors:
            raw = tensors[name].detach().cpu()
        else:
            raw = read_tensor(sources[place.path], name, place, torch.float32 if changed else target)
        result = merged(raw, changed, name, target) if changed else raw.to(target)
        if name in tensors and not bool(torch.isfinite(result).all()):
            raise CheckpointError(
                f"{name} holds NaN or Inf in {dtype_name(target)}: use an earlier checkpoint, or another dtype"
            )
        return result

    described = {name: (place, dtype or stored_dtype(place)) for name, place in found.items()}
    return {
        name: TensorSource(target, place.info.shape, partial(make, name, place, target))
        for name, (place, target) in described.items()
    }


def stored_sources(
    found: Found, sources: Mapping[Path, MappedTensors], dtype: torch.dtype | None = None
) -> dict[str, TensorSource]:
    """Return tensors as stored or in `dtype`; the values of each are checked when it is requested."""

    def make(name: str, place: Place, target: torch.dtype) -> Tensor:
        return read_tensor(sources[place.path], name, place, target).to(target)

    return {
        name: TensorSource(target, place.info.shape, partial(make, name, place, target))
        for name, place, target in ((name, place, dtype or stored_dtype(place)) for name, place in found.items())
    }


def stored_dtype(place: Place) -> torch.dtype:
    """Return the dtype of a tensor in its file. Other dtypes than floats are refused later, when the tensor is read."""
    return STORED.get(place.info.dtype, torch.float32)


def _check_replaced(found: Found, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if name not in found:
            raise CheckpointError(f"{name} is not a tensor of this model, so it cannot be replaced")
        if tuple(tensor.shape) != tuple(found[name].info.shape) or tensor.dtype not in FLOATS:
            raise CheckpointError(
                f"{name} must have shape {tuple(found[name].info.shape)} and a float type, got {tuple(tensor.shape)} "
                f"{tensor.dtype}"
            )
