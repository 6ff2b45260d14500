"""Loading the two halves of the codec from its weight files, in float32 whatever the files hold.

The names and shapes of all tensors are checked by the headers whichever half is loaded, so files that do not fit are
refused at once. Values are read, and checked for NaN and Inf, only for the half that is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import torch

from ..codec import CodecDecoder, CodecEncoder
from ..codec.keys import WEIGHT_NORM_PAIRS, WEIGHT_NORM_TARGET, fold_weight_norm, is_training_only
from ..config import CodecConfig
from ..ops import TORCH_OPS, Ops
from .read import META, Found, check_tensors, fill, find_tensors, read_tensors, shapes_of
from .single_file import CODEC

DTYPE = torch.float32


def load_codec_encoder(config: CodecConfig, files: Sequence[Path], *, ops: Ops, device: torch.device) -> CodecEncoder:
    """Load the half that turns audio into codes.

    Raises CheckpointError for keys, shapes, dtypes or values that do not fit, FileError for a corrupt file.
    """
    found, pair = codec_tensors(config, files)
    names = {*_shapes(CodecEncoder, config), *pair}
    tensors = read_tensors({name: at for name, at in found.items() if name in names}, device=device, dtype=DTYPE)
    gain, direction = (tensors.pop(name) for name in pair)
    tensors[WEIGHT_NORM_TARGET] = fold_weight_norm(gain, direction)
    return fill(CodecEncoder(config, ops=ops, device=META, dtype=DTYPE), tensors)


def load_codec_decoder(config: CodecConfig, files: Sequence[Path], *, ops: Ops, device: torch.device) -> CodecDecoder:
    """Load the half that turns codes into audio. Raises as `load_codec_encoder` does."""
    found, names = codec_tensors(config, files)[0], _shapes(CodecDecoder, config)
    tensors = read_tensors({name: at for name, at in found.items() if name in names}, device=device, dtype=DTYPE)
    return fill(CodecDecoder(config, ops=ops, device=META, dtype=DTYPE), tensors)


def codec_tensors(config: CodecConfig, files: Sequence[Path]) -> tuple[Found, tuple[str, str]]:
    """Return where the tensors of both halves are, and the names of the weight-normed kernel; none is read."""
    found = {name: at for name, at in find_tensors(files, CODEC).items() if not is_training_only(name)}
    table = {**_shapes(CodecEncoder, config), **_shapes(CodecDecoder, config)}
    gain, direction = next((pair for pair in WEIGHT_NORM_PAIRS if pair[0] in found), WEIGHT_NORM_PAIRS[0])
    kernel = table.pop(WEIGHT_NORM_TARGET)
    table[gain], table[direction] = (1, 1, kernel[2]), kernel
    check_tensors(found, table, files)
    return found, (gain, direction)


@lru_cache(maxsize=4)
def _shapes(half: type[CodecEncoder | CodecDecoder], config: CodecConfig) -> Mapping[str, tuple[int, ...]]:
    return shapes_of(half(config, ops=TORCH_OPS, device=META, dtype=DTYPE))
