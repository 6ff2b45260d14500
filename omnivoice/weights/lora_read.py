"""Reading LoRAs: PEFT folders, single safetensors files as ComfyUI writes them, and dicts of tensors.

Reading is strict. Every tensor is used, or left out for a reason and named, or else the LoRA is refused, because nobody
can hear which part of it had no effect. Files are read into memory, not mapped, since others may replace them. Pickles
are refused. `lora` applies the changes, and `lora_keys` knows the names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from os.path import isdir, isfile
from pathlib import Path

import torch
from torch import Tensor

from ..config import LMConfig
from ..errors import LoraError
from ..intake.limits import (
    MAX_CONFIG_BYTES,
    MAX_CONSENT_CHARS,
    MAX_TENSOR_NAME_CHARS,
    MAX_TENSORS,
    MAX_TENSORS_BYTES,
    shown,
)
from ..intake.paths import as_path, shown_name
from ..intake.strict_json import read_json
from ..intake.tensors import read_small_tensors
from ..intake.voice_files import clean_label
from . import lora_keys as keys
from .lora import Change, Difference, LoRA, LowRank, Replacement, lora_targets
from .lora_keys import PEFT_PREFIX, check_names, module_of, shown_tensor, split_name, without_prefix
from .lora_peft import PeftSettings, checked_rank, checked_scale, parse_settings
from .read import FLOATS

ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
Parts = dict[str, tuple[str, Tensor]]  # kind of tensor -> (module as the file spells it, tensor)


def is_adapter_folder(folder: Path) -> bool:
    """Whether `folder` holds the two files of a PEFT adapter; cheap, for menus."""
    return isfile(folder / ADAPTER) and isfile(folder / ADAPTER_CONFIG)


def read_lora(path: str | PathLike[str], config: LMConfig) -> LoRA:
    """Read a PEFT folder or a .safetensors file of at most 512 MB, for a model of these sizes.

    Raises LoraError, which says what is wrong and what to do, or FileError for a file that cannot be read.
    """
    where = as_path(path)
    name = shown_name(where)
    if isdir(where):
        _check_folder(where, name)
        where = where / ADAPTER
    settings = None
    if where.name == ADAPTER and isfile(where.parent / ADAPTER_CONFIG):
        settings = parse_settings(read_json(where.parent / ADAPTER_CONFIG, limit=MAX_CONFIG_BYTES))
    tensors, metadata = read_small_tensors(where)
    consent = clean_label(metadata.get("consent", "")[:MAX_CONSENT_CHARS], "consent", MAX_CONSENT_CHARS)
    return replace(_assemble(tensors, config, name, settings), consent=consent)


def lora_from_tensors(tensors: object, config: LMConfig, source: str = "the lora input") -> LoRA:
    """Read the value of a LORA_MODEL socket: a dict of tensors with the names of a single file. It is not changed.

    Raises LoraError for anything else.
    """
    if not isinstance(tensors, Mapping):
        raise LoraError(f"{source} must be a LORA_MODEL, a dict of tensors, got {shown(tensors)}: connect a LoRA")
    if len(tensors) > MAX_TENSORS:
        raise LoraError(f"{source} must hold at most {MAX_TENSORS} tensors, got {len(tensors)}")
    size = 0
    for name, tensor in tensors.items():
        if not isinstance(name, str) or len(name) > MAX_TENSOR_NAME_CHARS:
            raise LoraError(f"{source}: tensor names must be strings of at most {MAX_TENSOR_NAME_CHARS} characters")
        if not isinstance(tensor, Tensor) or tensor.layout is not torch.strided or tensor.is_quantized:
            raise LoraError(f"{source}: {shown_tensor(name)} must be a plain tensor, got {shown(tensor)}")
        size += tensor.numel() * tensor.element_size()
    if size > MAX_TENSORS_BYTES:
        raise LoraError(f"{source} must be at most {MAX_TENSORS_BYTES} bytes, got {size}")
    return _assemble({name: tensor.detach() for name, tensor in tensors.items()}, config, source, None)


def _check_folder(folder: Path, name: str) -> None:
    if is_adapter_folder(folder):
        return
    missing = " and ".join(part for part in (ADAPTER, ADAPTER_CONFIG) if not isfile(folder / part))
    hint = "give the folder that PEFT saved"
    if isfile(folder / "adapter_model.bin"):
        hint = "adapter_model.bin is a pickle: save the adapter again as safetensors"
    elif isfile(folder / "config.json"):
        hint = "it is a model folder: put it into models/omnivoice and choose it in Load OmniVoice"
    raise LoraError(f"{name} is not a PEFT adapter: missing {missing}; {hint}")


def _assemble(tensors: Mapping[str, Tensor], config: LMConfig, source: str, settings: PeftSettings | None) -> LoRA:
    check_names(tensors.keys(), source)
    targets = lora_targets(config)
    modules, unused = _sorted_by_module(tensors, targets.keys(), source, peft=settings is not None)
    if not modules:
        raise LoraError(f"{source} changes no module of this model: it is not an OmniVoice LoRA")
    changes = {
        module: _change(module, parts, targets[module], source, settings) for module, parts in sorted(modules.items())
    }
    for name in settings.saved if settings else ():
        saved = [module for module in targets if module == name or module.endswith(f".{name}")]
        if any(not isinstance(changes.get(module), Replacement) for module in saved):
            raise LoraError(f"{source} lists {shown(name)} in modules_to_save, but does not hold it: it is incomplete")
    return LoRA(source, changes, tuple(sorted(unused)))


def _sorted_by_module(
    tensors: Mapping[str, Tensor], targets: Iterable[str], source: str, *, peft: bool
) -> tuple[dict[str, Parts], list[str]]:
    """Sort tensors by module and kind; also return the names of those left out: copies of base weights, idle pairs."""
    known, modules, unused, unknown = set(targets), defaultdict[str, Parts](dict), [], []
    for name, tensor in tensors.items():
        spelled, kind = split_name(name, peft=peft)
        module = module_of(spelled)
        copied = kind == keys.BASE_COPY and (module in known or module.endswith("embed_tokens"))
        if copied or _is_idle(tensor, module, kind):
            unused.append(name)
        elif not kind or module not in known or (peft and kind == keys.ALPHA):
            unknown.append(name)
        elif kind in modules[module]:
            raise LoraError(f"{source} has {kind} of {shown(module)} twice, in two spellings: keep one")
        else:
            modules[module][kind] = (spelled, tensor)
    if unknown:
        some = ", ".join(shown_tensor(name) for name in sorted(unknown)[:5])
        if any(modules.values()):
            raise LoraError(f"{source} has {len(unknown)} tensors that do not belong to this model or LoRA: {some}")
        raise LoraError(
            f"{source} is not an OmniVoice LoRA: none of its tensors belongs to the language model ({some})"
        )
    return dict(modules), unused


def _is_idle(tensor: Tensor, module: str, kind: str) -> bool:
    """Whether a tensor belongs to an untrained LoRA A/B pair of the codec.

    PEFT wraps the codec's q_proj too if the model was loaded with it. Training the language model leaves its lora_B at
    zero, so the pair does nothing. A trained pair of the codec is refused as unknown.
    """
    if not module.startswith("audio_tokenizer.") or kind not in (keys.UP, keys.DOWN):
        return False
    return kind == keys.DOWN or not bool(tensor.any())


def _change(module: str, parts: Parts, shape: tuple[int, int], source: str, settings: PeftSettings | None) -> Change:
    """Return the one change that the tensors of a module describe."""
    kinds = set(parts)
    if kinds == {keys.FULL}:
        return Replacement(_checked(parts[keys.FULL][1], module, shape, source))
    if kinds == {keys.DIFFERENCE}:
        return Difference(_checked(parts[keys.DIFFERENCE][1], module, shape, source))
    if kinds == {keys.EMBEDDING_DOWN, keys.EMBEDDING_UP}:  # PEFT stores the pair of an embedding transposed
        down, up = parts[keys.EMBEDDING_UP][1], parts[keys.EMBEDDING_DOWN][1]
        down, up = (t.T if t.ndim == 2 else t for t in (down, up))
    elif kinds - {keys.ALPHA} == {keys.DOWN, keys.UP}:
        down, up = parts[keys.DOWN][1], parts[keys.UP][1]
    else:
        raise LoraError(f"{source} has {', '.join(sorted(kinds))} of {shown(module)}: a pair is lora_A and lora_B")
    rank = checked_rank(down.shape[0] if down.ndim else 0, module)
    down, up = _checked(down, module, (rank, shape[1]), source), _checked(up, module, (shape[0], rank), source)
    spelled = next(iter(parts.values()))[0]
    return LowRank(down, up, _scale(spelled, rank, parts.get(keys.ALPHA), source, settings))


def _scale(
    spelled: str, rank: int, alpha: tuple[str, Tensor] | None, source: str, settings: PeftSettings | None
) -> float:
    if settings is not None:
        return settings.scale(without_prefix(spelled), rank)
    if alpha is not None:
        value = alpha[1]
        if value.numel() != 1 or value.is_complex():
            raise LoraError(
                f"{source}: the alpha of {shown_tensor(spelled)} must be one number, got {tuple(value.shape)}"
            )
        return checked_scale(float(value.reshape(())), rank, spelled)
    if spelled.startswith(PEFT_PREFIX):
        raise LoraError(
            f"{source} was saved by PEFT, and its scale is in the {ADAPTER_CONFIG} that belongs to it: put both into "
            "a folder without other files, and choose the folder"
        )
    return 1.0  # ComfyUI's convention


def _checked(tensor: Tensor, module: str, shape: tuple[int, ...], source: str) -> Tensor:
    """Return `tensor` on the CPU if it has that shape and a float dtype and is finite; raises LoraError."""
    if tuple(tensor.shape) != shape:
        raise LoraError(
            f"{source}: {shown(module)} has a tensor of shape {tuple(tensor.shape)}, this model needs {shape}: the "
            "LoRA was made for another model"
        )
    if tensor.dtype not in FLOATS:
        raise LoraError(f"{source}: {shown(module)} is {tensor.dtype}, allowed are float32, float16 and bfloat16")
    if not bool(torch.isfinite(tensor).all()):
        raise LoraError(f"{source}: {shown(module)} holds NaN or Inf: the training failed, use an earlier checkpoint")
    return tensor.cpu()
