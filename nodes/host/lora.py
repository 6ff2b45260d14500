"""LoRAs on ComfyUI's patchers: the files to choose from, and a patcher of the language model with a LoRA added.

A patched model is a clone of the patcher around the same module. ComfyUI swaps the weights when it loads one or the
other, and puts back the very tensors that it took out, so the incoming model is not changed and LoRAs stack. Query,
key and value are one weight here, and so are gate and up: a patch covers some rows of it. The engine reads and checks
the files (`weights.lora_read`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import folder_paths
from comfy.weight_adapter import LoRAAdapter
from torch import Tensor

from ...omnivoice.errors import InputError, LoraError
from ...omnivoice.intake.limits import check_number
from ...omnivoice.text.vocabulary import named
from ...omnivoice.weights.lora import Change, LoRA, LowRank, lora_digest, lora_targets, placed, relative_size
from ...omnivoice.weights.lora_read import ADAPTER, is_adapter_folder, lora_from_tensors, read_lora
from . import folders, models

KEY = "loras"
SUFFIX = ".safetensors"
NO_FILE = "none (use the lora input)"
LARGE = 1.0  # a change as large as the weights themselves


@dataclass(frozen=True)
class Applied:
    """model: with the LoRA. report: one line about what it changes. warnings: what the user should look at."""

    model: models.LoadedModel
    report: str
    warnings: tuple[str, ...] = ()


def lora_paths() -> dict[str, Path]:
    """Return {name: path} of the safetensors files anywhere in models/loras and the PEFT folders directly in it."""
    peft = folders.entries(is_adapter_folder, KEY)
    names = [name for name in folder_paths.get_filename_list(KEY) if name.endswith(SUFFIX)]
    files = {name: folder_paths.get_full_path(KEY, name) for name in names}
    inside = {folder / ADAPTER for folder in peft.values()}  # listed under its folder's name
    found = {name: Path(path) for name, path in files.items() if path is not None and Path(path) not in inside}
    return {name: path for name, path in sorted((found | peft).items()) if name != NO_FILE}


def lora_names() -> list[str]:
    """Return the menu."""
    return [NO_FILE, *lora_paths()]


def find_lora(name: object, *, none: str = NO_FILE, input_name: str = "lora_name") -> Path | None:
    """Return the file or folder of a name in a list made just now, None for `none`; raises InputError for others."""
    paths = lora_paths()
    return None if name == none else paths[folders.chosen(input_name, name, paths, none=none)]


def apply_lora(model: models.LoadedModel, name: object, tensors: object, strength: object) -> Applied:
    """Return the model with the named LoRA, or the one on the socket (exactly one of the two), at that strength.

    Raises InputError for the choice or the strength, LoraError or FileError for the LoRA.
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
    patched = replace(model, lm=patcher, loras=(*model.loras, (lora_digest(lora), amount)))
    return Applied(patched, _report(model, lora, amount, size), _warnings(lora, size))


def _chosen(model: models.LoadedModel, name: object, tensors: object) -> LoRA:
    config, path = model.engine.lm.config, find_lora(name)
    if path is not None and tensors is not None:
        raise InputError(f"two LoRAs given: disconnect the lora input, or set lora_name to {NO_FILE!r}")
    if path is not None:
        return read_lora(path, config)
    if tensors is None:
        raise InputError("no LoRA given: choose one in lora_name, or connect the lora input")
    return lora_from_tensors(tensors, config)


def is_fused(model: models.LoadedModel) -> bool:
    """Whether query, key, value and gate, up are one weight each in this model."""
    return model.engine.sampler.speedups.fused_linears


def _base_weights(model: models.LoadedModel, lora: LoRA) -> dict[str, Tensor]:
    """Return {module: its rows of the weight without any patch}, wherever ComfyUI keeps the weight at the moment."""
    patched = model.lm.get_key_patches()
    found = {}
    for module, weight, rows, _ in placed(lora, model.engine.lm.config, fused=is_fused(model)):
        full = patched[weight][0][0]
        found[module] = full if rows is None else full.narrow(0, *rows)
    return found


def _patch(change: Change, base: Tensor) -> object:
    """Return the change in ComfyUI's form: its LoRA adapter (up, down, alpha, three unused values), or a difference."""
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
    if lora.consent:
        parts.append(f"consent: {lora.consent}")
    if lora.unused:
        parts.append(f"left out, because they change nothing: {len(lora.unused)} tensors ({named(lora.unused)})")
    return "; ".join(parts)


def _warnings(lora: LoRA, size: float) -> tuple[str, ...]:
    if size == 0:
        return (f"LoRA {lora.source} changes nothing: it was never trained",)
    if size > LARGE:
        return (f"LoRA {lora.source} changes the weights by {size:.0%}: if speech breaks, lower its strength",)
    return ()
