"""LoRA on ComfyUI's patchers: which adapters there are, and the language model's patcher with one more of them.

What is unusual: a patched model is a clone of the patcher around the same module; ComfyUI swaps the weights when the
one or the other is loaded, and gives back the very tensors that it took. So the model that comes in stays as it is, and
adapters stack. Query, key, value and gate, up are one weight here, so a patch is for rows of it. Reading and checking
adapters is the engine's (`weights.lora_read`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from os.path import isfile  # unlike Path.is_file, it never raises
from pathlib import Path

import folder_paths
from comfy.weight_adapter import LoRAAdapter
from torch import Tensor

from ...omnivoice.errors import InputError, LoraError
from ...omnivoice.intake.limits import check_number, shown
from ...omnivoice.weights.lora import Change, LoRA, LowRank, lora_targets, placed, relative_size
from ...omnivoice.weights.lora_read import ADAPTER, is_adapter_folder, lora_from_tensors, lora_stamp, read_lora
from . import folders, models

KEY = "loras"
SUFFIX = ".safetensors"
NO_FILE = "none (use the lora input)"
LARGE = 1.0  # a change as large as the weights themselves


@dataclass(frozen=True)
class Applied:
    """model: with the adapter. report: one line about what it changes. warnings: what the user should look at."""

    model: models.LoadedModel
    report: str
    warnings: tuple[str, ...] = ()


def lora_paths() -> dict[str, Path]:
    """Name -> safetensors file anywhere in models/loras, or PEFT folder directly in it, found just now."""
    peft = {path.name: path for path in reversed(folders.entries(KEY, is_adapter_folder))}
    names = [name for name in folder_paths.get_filename_list(KEY) if name.endswith(SUFFIX)]
    files = {name: folder_paths.get_full_path(KEY, name) for name in names}
    own = {folder / ADAPTER for folder in peft.values()}  # listed under its folder's name
    found = {name: Path(path) for name, path in files.items() if path is not None and Path(path) not in own}
    return {name: path for name, path in sorted((found | peft).items()) if name != NO_FILE}


def lora_names() -> list[str]:
    """The menu."""
    return [NO_FILE, *lora_paths()]


def lora_fingerprint(name: object) -> str:
    """Changes when the adapter's files do; empty for a name that is linked or gone, and for none."""
    path = lora_paths().get(name) if isinstance(name, str) else None
    return lora_stamp(path) if path is not None and (isfile(path) or is_adapter_folder(path)) else ""


def apply_lora(model: models.LoadedModel, name: object, tensors: object, strength: object) -> Applied:
    """The model with the named adapter, or the one on the socket (exactly one of them), at that strength.

    Raises InputError for the choice or the strength, LoraError or FileError for the adapter.
    """
    amount = check_number("strength", strength)
    lora = _chosen(model, name, tensors)
    if amount == 0:
        return Applied(model, f"LoRA {lora.source}: strength 0, the model is unchanged")
    base = _base_weights(model, lora)
    patcher = model.lm.clone()
    patches = {}
    for module, weight, rows, change in placed(lora, model.engine.lm.config, fused=is_fused(model)):
        key = weight if rows is None else (weight, (0, *rows))
        patches[key] = _patch(change, base[module])
    taken = patcher.add_patches(patches, amount)
    if len(taken) != len(patches):
        raise LoraError(f"ComfyUI took {len(taken)} of the {len(patches)} changes of {lora.source}: nothing is applied")
    size = relative_size(lora, base.__getitem__, amount)
    return Applied(replace(model, lm=patcher), _report(model, lora, amount, size), _warnings(lora, size))


def _chosen(model: models.LoadedModel, name: object, tensors: object) -> LoRA:
    config = model.engine.lm.config
    if name == NO_FILE:
        if tensors is None:
            raise InputError("no LoRA given: choose one in lora_name, or connect the lora input")
        return lora_from_tensors(tensors, config)
    if tensors is not None:
        raise InputError(f"two LoRAs given: disconnect the lora input, or set lora_name to {NO_FILE!r}")
    paths = lora_paths()
    if not isinstance(name, str) or name not in paths:
        raise InputError(f"lora_name must be one of models/loras, got {shown(name)}: press R to refresh the list")
    return read_lora(paths[name], config)


def is_fused(model: models.LoadedModel) -> bool:
    """Whether query, key, value and gate, up are one weight here."""
    return model.engine.sampler.speedups.fused_linears


def _base_weights(model: models.LoadedModel, lora: LoRA) -> dict[str, Tensor]:
    """Module -> its rows of the weight without any patch, wherever ComfyUI keeps it at the moment."""
    patched = model.lm.get_key_patches()
    found = {}
    for module, weight, rows, _ in placed(lora, model.engine.lm.config, fused=is_fused(model)):
        whole = patched[weight][0][0]
        found[module] = whole if rows is None else whole.narrow(0, *rows)
    return found


def _patch(change: Change, base: Tensor) -> object:
    """ComfyUI's form: its own LoRA adapter (up, down, alpha, and three things we have no use for), or a difference."""
    if isinstance(change, LowRank):
        return LoRAAdapter(set(), (change.up, change.down, change.scale * change.rank, None, None, None))
    return "diff", (change.change(base),)


def _report(model: models.LoadedModel, lora: LoRA, strength: float, size: float) -> str:
    every = len(lora_targets(model.engine.lm.config))
    parts = [
        f"LoRA {lora.source}: applied to {len(lora.changes)} of {every} modules at strength {strength:g}",
        f"changes their weights by {size:.2%}",
        lora.describe(),
    ]
    if lora.unused:
        some = ", ".join(lora.unused[:5]) + (" ..." if len(lora.unused) > 5 else "")
        parts.append(f"not used, as they change nothing: {len(lora.unused)} tensors ({some})")
    return "; ".join(parts)


def _warnings(lora: LoRA, size: float) -> tuple[str, ...]:
    if size == 0:
        return (f"LoRA {lora.source} changes nothing: it was never trained",)
    if size > LARGE:
        return (f"LoRA {lora.source} changes the weights by {size:.0%}: if speech breaks, lower its strength",)
    return ()
