"""Reading LoRA adapters: PEFT folders, single safetensors files as ComfyUI writes them, and dicts of tensors.

Unusual: strict. Every tensor is either used, or left out for a reason and named, or the adapter is refused, since
"it has no effect" and "it sounds wrong" cannot be told apart by ear. Values are read whole, never mapped: strangers can
replace these files. Pickles are refused. What a change does is `lora`, how names are spelled `lora_keys`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from os import PathLike
from os.path import isdir, isfile
from pathlib import Path

import torch
from torch import Tensor

from ..config import LMConfig
from ..errors import LoraError
from ..intake.files import file_stamp
from ..intake.limits import MAX_CONFIG_BYTES, MAX_TENSOR_NAME_CHARS, MAX_TENSORS, MAX_TENSORS_BYTES, shown
from ..intake.paths import as_path, shown_name
from ..intake.strict_json import read_json
from ..intake.tensors import read_small_tensors
from .lora import Change, Difference, LoRA, LowRank, Replacement, lora_targets
from .lora_keys import (
    ALPHA,
    COPY,
    DIFFERENCE,
    DOWN,
    EMBEDDING_DOWN,
    EMBEDDING_UP,
    PEFT_PREFIX,
    UP,
    WHOLE,
    module_of,
    named,
    refuse_foreign,
    split_name,
    without_prefix,
)
from .lora_peft import PeftSettings, checked_alpha, checked_rank, parse_settings
from .read import FLOATS

ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
Parts = dict[str, tuple[str, Tensor]]  # kind of tensor -> (module as the file spells it, tensor)


def is_adapter_folder(folder: Path) -> bool:
    """Whether `folder` looks like a PEFT adapter; cheap, for menus."""
    return isfile(folder / ADAPTER) and isfile(folder / ADAPTER_CONFIG)


def read_lora(path: str | PathLike[str], config: LMConfig) -> LoRA:
    """A PEFT folder or a .safetensors file of at most 512 MB, for a model of these sizes.

    Raises LoraError, which says what is wrong and what to do, or FileError for a file that cannot be read.
    """
    where = as_path(path)
    name = shown_name(where)
    settings = None
    if isdir(where):
        _check_folder(where, name)
        settings = parse_settings(read_json(where / ADAPTER_CONFIG, limit=MAX_CONFIG_BYTES))
        where = where / ADAPTER
    elif where.name == ADAPTER and isfile(where.parent / ADAPTER_CONFIG):
        settings = parse_settings(read_json(where.parent / ADAPTER_CONFIG, limit=MAX_CONFIG_BYTES))
    tensors, _ = read_small_tensors(where)
    return _assemble(tensors, config, name, settings)


def lora_from_tensors(tensors: object, config: LMConfig, source: str = "the lora input") -> LoRA:
    """What a LORA_MODEL socket carries: a dict of tensors with the names of a single file. Nothing of it is changed.

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
            raise LoraError(f"{source}: {named(name)} must be a plain tensor, got {shown(tensor)}")
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
    refuse_foreign(tensors.keys(), source)
    targets = lora_targets(config)
    modules, unused = _sorted_by_module(tensors, targets.keys(), source, peft=settings is not None)
    if not modules:
        raise LoraError(f"{source} changes no module of this model: it is not an OmniVoice LoRA")
    changes = {
        module: _change(module, parts, targets[module], source, settings) for module, parts in sorted(modules.items())
    }
    for name in settings.saved if settings else ():
        lost = [module for module in targets if module == name or module.endswith(f".{name}")]
        if any(not isinstance(changes.get(module), Replacement) for module in lost):
            raise LoraError(f"{source} says that it saved {shown(name)} whole, but does not hold it: it is incomplete")
    return LoRA(source, changes, tuple(sorted(unused)))


def _sorted_by_module(
    tensors: Mapping[str, Tensor], targets: Iterable[str], source: str, *, peft: bool
) -> tuple[dict[str, Parts], list[str]]:
    """Tensors by module and kind, and the names of those that are left out: copies of base weights, idle pairs."""
    known, modules, unused, unknown = set(targets), defaultdict[str, Parts](dict), [], []
    for name, tensor in tensors.items():
        spelled, kind = split_name(name, peft=peft)
        module = module_of(spelled)
        if _is_idle(tensor, module, kind) or (kind == COPY and (module in known or module.endswith("embed_tokens"))):
            unused.append(name)
        elif not kind or module not in known or (peft and kind == ALPHA):
            unknown.append(name)
        elif kind in modules[module]:
            raise LoraError(f"{source} has {kind} of {shown(module)} twice, in two spellings: keep one")
        else:
            modules[module][kind] = (spelled, tensor)
    if unknown:
        some = ", ".join(named(name) for name in sorted(unknown)[:5])
        if any(modules.values()):
            raise LoraError(f"{source} has {len(unknown)} tensors that do not belong to this model or LoRA: {some}")
        raise LoraError(
            f"{source} is not an OmniVoice LoRA: none of its tensors belongs to the language model ({some})"
        )
    return dict(modules), unused


def _is_idle(tensor: Tensor, module: str, kind: str) -> bool:
    """Half of an untrained pair of the codec: PEFT wraps its q_proj too when the model was loaded with it, but a
    training of the language model leaves lora_B zero, so the pair does nothing. A trained one is refused as unknown."""
    if not module.startswith("audio_tokenizer.") or kind not in (UP, DOWN):
        return False
    return kind == DOWN or not bool(tensor.any())


def _change(module: str, parts: Parts, shape: tuple[int, int], source: str, settings: PeftSettings | None) -> Change:
    """The one change that the tensors of a module describe."""
    kinds = set(parts)
    if kinds == {WHOLE} or kinds == {DIFFERENCE}:
        (kind,) = kinds
        values = _checked(parts[kind][1], module, shape, source)
        return Replacement(values) if kind == WHOLE else Difference(values)
    if kinds == {EMBEDDING_DOWN, EMBEDDING_UP}:  # PEFT keeps an embedding's pair transposed
        down, up = parts[EMBEDDING_UP][1], parts[EMBEDDING_DOWN][1]
        down, up = (t.T if t.ndim == 2 else t for t in (down, up))
    elif kinds - {ALPHA} == {DOWN, UP}:
        down, up = parts[DOWN][1], parts[UP][1]
    else:
        raise LoraError(f"{source} has {', '.join(sorted(kinds))} of {shown(module)}: a pair is lora_A and lora_B")
    rank = checked_rank(down.shape[0] if down.ndim else 0, module)
    down, up = _checked(down, module, (rank, shape[1]), source), _checked(up, module, (shape[0], rank), source)
    spelled = next(iter(parts.values()))[0]
    return LowRank(down, up, _scale(spelled, rank, parts.get(ALPHA), source, settings))


def _scale(
    spelled: str, rank: int, alpha: tuple[str, Tensor] | None, source: str, settings: PeftSettings | None
) -> float:
    if settings is not None:
        return settings.scale(without_prefix(spelled), rank)
    if alpha is not None:
        value = alpha[1]
        if value.numel() != 1 or value.is_complex():
            raise LoraError(f"{source}: the alpha of {named(spelled)} must be one number, got {tuple(value.shape)}")
        return checked_alpha(float(value.reshape(())), rank, spelled) / rank
    if spelled.startswith(PEFT_PREFIX):
        raise LoraError(
            f"{source} was saved by PEFT, and its scale is in the {ADAPTER_CONFIG} that belongs to it: put both into "
            "one folder of their own, and choose that"
        )
    return 1.0  # ComfyUI's convention


def _checked(tensor: Tensor, module: str, shape: tuple[int, ...], source: str) -> Tensor:
    """`tensor` on the CPU, when it is of that shape, a float type, and finite."""
    if tuple(tensor.shape) != shape:
        raise LoraError(
            f"{source}: {shown(module)} has a tensor of shape {tuple(tensor.shape)}, this model asks for {shape}: the "
            "LoRA was made for another model"
        )
    if tensor.dtype not in FLOATS:
        raise LoraError(f"{source}: {shown(module)} is {tensor.dtype}, allowed are float32, float16 and bfloat16")
    if not bool(torch.isfinite(tensor).all()):
        raise LoraError(f"{source}: {shown(module)} holds NaN or Inf: the training failed, use an earlier checkpoint")
    return tensor.cpu()


def lora_stamp(path: Path) -> str:
    """Return a text that changes when a file of the LoRA is edited or replaced, for a host's cache."""
    files = [path / ADAPTER, path / ADAPTER_CONFIG] if isdir(path) else [path]
    return " ".join(f"{file.name} {file_stamp(file)}" for file in files)
