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
from ..intake.tensors import TensorFile, TensorSource, open_tensors
from .files import CheckpointFiles
from .load import lm_tensors
from .load_codec import codec_tensors
from .lora import Change, LoRA, merged
from .read import FLOATS, Found, Place, read_tensor
from .single_file import CODEC, EMBEDDED, LM, write_single_file

STORED = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def export_checkpoint(
    files: CheckpointFiles,
    path: str | PathLike[str],
    *,
    dtype: torch.dtype | None = None,
    loras: Sequence[tuple[LoRA, float]] = (),
    tensors: Mapping[str, Tensor] = MappingProxyType({}),
    codec_dtype: torch.dtype | None = None,
    words: Sequence[str] = (),
    overwrite: bool = False,
) -> Path:
    """Write the model of `files` to `path` and return the path written.

    dtype, codec_dtype: precision of the language model and of the codec, None for as stored. loras: (LoRA, strength);
    their changes add up. tensors: weights that replace those of the language model before any LoRA, by their names in
    the checkpoint, such as the result of a full fine-tune. words: all words that the model can say; if empty, those of
    `files`. Raises CheckpointError or FileError for a model that would not load or a file that cannot be written,
    LoraError if a merged weight overflows.
    """
    lm = lm_tensors(files.lm_config, files.lm_weights)
    codec, _ = codec_tensors(files.codec_config, files.codec_weights)
    texts = {name: files.text(name) for name in EMBEDDED}
    with opened(files) as maps:
        parts = {
            LM: tensor_sources(lm, maps, dtype=dtype, loras=loras, tensors=tensors),
            CODEC: tensor_sources(codec, maps, dtype=codec_dtype),
        }
        return write_single_file(
            path, parts, texts, words=words or files.words, settings=files.settings_json, overwrite=overwrite
        )


@contextmanager
def opened(files: CheckpointFiles) -> Iterator[Mapping[Path, TensorFile]]:
    """Map every weight file of the checkpoint."""
    with ExitStack() as stack:
        yield {file: stack.enter_context(open_tensors(file)) for file in {*files.lm_weights, *files.codec_weights}}


def tensor_sources(
    found: Found,
    maps: Mapping[Path, TensorFile],
    *,
    dtype: torch.dtype | None = None,
    loras: Sequence[tuple[LoRA, float]] = (),
    tensors: Mapping[str, Tensor] = MappingProxyType({}),
) -> dict[str, TensorSource]:
    """Return the tensors that `export_checkpoint` describes; each is read, checked and made when it is asked for."""
    changes: dict[str, list[tuple[Change, float]]] = {}
    for lora, strength in loras:
        amount = check_number("strength", strength)
        for module, change in lora.changes.items() if amount != 0 else ():
            changes.setdefault(f"{module}.weight", []).append((change, amount))
    _check_replacements(found, tensors)

    def make(name: str, place: Place, target: torch.dtype) -> Tensor:
        changed = changes.get(name, [])
        if name in tensors:
            raw = tensors[name].detach().cpu()
        else:
            raw = read_tensor(maps[place.path], name, place, torch.float32 if changed else target)
        result = merged(raw, changed, name, target) if changed else raw.to(target)
        if name in tensors and not bool(torch.isfinite(result).all()):
            raise CheckpointError(
                f"{name} holds NaN or Inf in {dtype_name(target)}: use an earlier checkpoint, or another dtype"
            )
        return result

    sources: dict[str, TensorSource] = {}
    for name, place in found.items():
        target = dtype or stored_dtype(place)
        sources[name] = TensorSource(target, place.info.shape, partial(make, name, place, target))
    return sources


def stored_dtype(place: Place) -> torch.dtype:
    """Return the dtype of a tensor in its file; float32 for unsupported ones, which are refused when they are read."""
    return STORED.get(place.info.dtype, torch.float32)


def _check_replacements(found: Found, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if name not in found:
            raise CheckpointError(f"{name} is not a tensor of this model, so it cannot be replaced")
        shape, got = tuple(found[name].info.shape), tuple(tensor.shape)
        if got != shape or tensor.dtype not in FLOATS:
            raise CheckpointError(f"{name} must have shape {shape} and a float type, got {got} {tensor.dtype}")
