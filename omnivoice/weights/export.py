"""A checkpoint written as one single file, in another precision and with a LoRA merged in, if asked.

Names, shapes and values are checked as for loading, so what is written loads. One tensor is held at a time. The codec
keeps its precision: it runs in float32 anyway. What training alone needs is left out.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from ..intake.limits import check_number
from ..intake.tensors import TensorSource, open_tensors
from .files import CheckpointFiles
from .load import lm_tensors
from .load_codec import codec_tensors
from .lora import Change, LoRA, merged
from .read import Place, read_tensor
from .single_file import CODEC, EMBEDDED, LM, write_single_file

STORED = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def export_checkpoint(
    files: CheckpointFiles, path: str | PathLike[str], *, dtype: torch.dtype | None = None, lora: LoRA | None = None,
    strength: float = 1.0, overwrite: bool = False,
) -> Path:  # fmt: skip
    """Write the model of `files` to `path`, and return the path written. dtype: of the language model, None: as stored.

    Raises CheckpointError or FileError for a model that would not load or a file that cannot be written, LoraError if
    a merged weight overflows.
    """
    strength = check_number("strength", strength)
    changes = lora.changes if lora is not None and strength != 0 else {}
    lm = lm_tensors(files.lm_config, files.lm_weights)
    codec, _ = codec_tensors(files.codec_config, files.codec_weights)
    texts = {name: files.text(name) for name in EMBEDDED}
    with ExitStack() as stack:
        opened = {file: stack.enter_context(open_tensors(file)) for file in {*files.lm_weights, *files.codec_weights}}

        def make(name: str, place: Place, target: torch.dtype, change: Change | None) -> Tensor:
            raw = read_tensor(opened[place.path], name, place, torch.float32 if change else target)
            return raw.to(target) if change is None else merged(raw, change, strength, name, target)

        sources: dict[str, dict[str, TensorSource]] = {LM: {}, CODEC: {}}
        for part, found, wanted in ((LM, lm, dtype), (CODEC, codec, None)):
            for name, place in found.items():
                target = wanted or STORED.get(place.info.dtype, torch.float32)
                change = changes.get(name.removesuffix(".weight")) if part == LM else None
                sources[part][name] = TensorSource(target, place.info.shape, partial(make, name, place, target, change))
        return write_single_file(path, sources, texts, overwrite=overwrite)
