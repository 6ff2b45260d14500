"""Tensors from safetensors files into the modules, straight into the target dtype.

The module is built on the meta device, so that nothing is allocated twice: each tensor is read from the
memory map, converted, checked, and becomes the parameter; one that needs no conversion stays mapped, so its
pages are the system's to drop and to read again. The exact table of keys and shapes is that of
the module itself built with plain torch layers (a host's layers may have no weights before loading).
Unknown and missing keys raise and name up to five. NaN, Inf and all-zero embedding rows are found here
(upstream.md 16: such a model drops words without a sign). Merging LoRA is not here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..codec import Codec
from ..codec.keys import WEIGHT_NORM_PAIRS, WEIGHT_NORM_TARGET, fold_weight_norm, is_training_only
from ..config import CodecConfig, LMConfig
from ..errors import CheckpointError
from ..intake.tensor_header import TensorInfo
from ..intake.tensors import open_tensors
from ..lm import OmniVoiceLM
from ..lm.fused import fused_rows
from ..ops import TORCH_OPS, Ops
from .files import HOW_TO_GET

META = torch.device("meta")
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
LM_UNUSED = ("codebook_layer_offsets", "lm_head.weight", "llm.lm_head.weight")
ROWS_AT_ONCE = 8192
Loaded = TypeVar("Loaded", bound=nn.Module)


def load_lm(
    config: LMConfig, files: Sequence[Path], *, ops: Ops, device: torch.device, dtype: torch.dtype,
    used_ids: Collection[int],
) -> OmniVoiceLM:  # fmt: skip
    """The language model with its weights. used_ids: token ids that texts can produce; their rows must not be zero.

    Raises CheckpointError for keys, shapes, dtypes, values or a vocabulary that do not fit, FileError for a
    corrupt file.
    """
    if max(used_ids) >= config.vocab_size:
        raise CheckpointError(
            f"tokenizer.json has ids up to {max(used_ids)}, but the model embeds only {config.vocab_size}: "
            "the two files belong to different models; take both from the same one"
        )
    module = OmniVoiceLM(config, ops=ops, device=META, dtype=dtype)
    table = _unfused(_shapes(OmniVoiceLM(config, ops=TORCH_OPS, device=META, dtype=dtype)), config)
    found = {name: at for name, at in _find(files).items() if name not in LM_UNUSED}
    tensors = _read(found, table, files, device=device, dtype=dtype)
    _fuse(tensors, config)
    _refuse_zero_rows("llm.embed_tokens.weight", tensors, sorted(used_ids), files)
    _refuse_zero_rows("audio_embeddings.weight", tensors, range(config.codebooks * config.audio_vocab_size), files)
    return _fill(module, tensors)


def load_codec(config: CodecConfig, files: Sequence[Path], *, ops: Ops, device: torch.device) -> Codec:
    """The codec with its weights, in float32 whatever the file holds. Raises as `load_lm` does."""
    dtype = torch.float32
    module = Codec(config, ops=ops, device=META, dtype=dtype)
    table = _shapes(Codec(config, ops=TORCH_OPS, device=META, dtype=dtype))
    found = {name: at for name, at in _find(files).items() if not is_training_only(name)}
    gain, direction = next((pair for pair in WEIGHT_NORM_PAIRS if pair[0] in found), WEIGHT_NORM_PAIRS[0])
    kernel = table.pop(WEIGHT_NORM_TARGET)
    table[gain], table[direction] = (1, 1, kernel[2]), kernel
    tensors = _read(found, table, files, device=device, dtype=dtype)
    tensors[WEIGHT_NORM_TARGET] = fold_weight_norm(tensors.pop(gain), tensors.pop(direction))
    return _fill(module, tensors)


def _unfused(shapes: dict[str, tuple[int, ...]], config: LMConfig) -> dict[str, tuple[int, ...]]:
    """The table with the checkpoint's linears in place of the fused ones."""
    fused = fused_rows(config)
    parts = {name: (rows, shapes[target][1]) for name, (target, _, rows) in fused.items()}
    targets = {target for target, _, _ in fused.values()}
    return {name: shape for name, shape in shapes.items() if name not in targets} | parts


def _fuse(tensors: dict[str, Tensor], config: LMConfig) -> None:
    """Stack the parts of each fused linear, and let go of them one layer at a time."""
    parts: dict[str, list[str]] = {}
    for name, (target, _, _) in fused_rows(config).items():
        parts.setdefault(target, []).append(name)
    for target, names in parts.items():
        tensors[target] = torch.cat([tensors.pop(name) for name in names])


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def _fill(module: Loaded, tensors: Mapping[str, Tensor]) -> Loaded:
    module.load_state_dict(dict(tensors), strict=False, assign=True)
    return module.eval().requires_grad_(False)


def _find(files: Sequence[Path]) -> dict[str, tuple[Path, TensorInfo]]:
    """Which file holds which tensor; a name in two shards is refused."""
    found: dict[str, tuple[Path, TensorInfo]] = {}
    for path in files:
        with open_tensors(path) as source:
            for name, info in source.info.items():
                if name in found:
                    raise CheckpointError(f"{name} is in both {found[name][0].name} and {path.name}; {HOW_TO_GET}")
                found[name] = (path, info)
    return found


def _read(
    found: Mapping[str, tuple[Path, TensorInfo]], table: Mapping[str, tuple[int, ...]], files: Sequence[Path], *,
    device: torch.device, dtype: torch.dtype,
) -> dict[str, Tensor]:  # fmt: skip
    """Every tensor of `table`; keys and shapes of all files are checked before any value is read."""
    _check_keys(set(table), set(found), files)
    for name, (path, info) in found.items():
        if tuple(info.shape) != table[name]:
            raise CheckpointError(
                f"{path.name}: {name} has shape {tuple(info.shape)}, the config asks for {table[name]}; {HOW_TO_GET}"
            )
    tensors = {}
    for path in files:
        with open_tensors(path) as source:
            for name in (name for name, (where, _) in found.items() if where == path):
                tensors[name] = _convert(source.get(name), name, path, device, dtype)
    return tensors


def _convert(raw: Tensor, name: str, path: Path, device: torch.device, dtype: torch.dtype) -> Tensor:
    """On `device` in `dtype`, still mapped if it is so in the file.

    Refuses integers, NaN and Inf, also those that the conversion makes.
    """
    if raw.dtype not in FLOATS:
        raise CheckpointError(f"{path.name}: {name} is {raw.dtype}, allowed are float32, float16 and bfloat16")
    tensor = raw.to(device=device, dtype=dtype)
    low, high = torch.aminmax(tensor)
    if not bool(torch.isfinite(low) & torch.isfinite(high)):
        if bool(torch.isfinite(torch.stack(torch.aminmax(raw))).all()):
            raise CheckpointError(f"{path.name}: {name} overflows in {dtype}; load it as bfloat16 or float32")
        raise CheckpointError(f"{path.name}: {name} holds NaN or Inf: the file is damaged; {HOW_TO_GET}")
    return tensor


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
    parts = [f"{len(names)} {kind}: {', '.join(names[:5])}" for kind, names in
             (("unknown", unknown), ("missing", missing)) if names]  # fmt: skip
    raise CheckpointError(f"{where} does not hold this model's tensors ({'; '.join(parts)}){hint}")


def _refuse_zero_rows(name: str, tensors: Mapping[str, Tensor], ids: Sequence[int], files: Sequence[Path]) -> None:
    weight = tensors[name]
    zero = torch.cat([(rows == 0).all(dim=1) for rows in weight.split(ROWS_AT_ONCE)])  # in pieces: no full-size mask
    zero_ids = set(zero.nonzero().flatten().tolist())
    bad = [i for i in ids if i in zero_ids]
    if bad:
        raise CheckpointError(
            f"{files[0].name}: {len(bad)} rows of {name} that are in use are all zero (first: {bad[:5]}); words would "
            f"vanish from the speech; the file was badly converted; {HOW_TO_GET}"
        )
