"""Whether a run may go on in the folder of another: the same settings, clips and model, or only more steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from ..intake.limits import shown
from .state_files import FORMAT, FORMAT_VERSION
from .trainer import warmup_steps

# Settings that may change when a run resumes, since they do not affect the weights.
CHANGEABLE = frozenset({"validate_every", "save_every", "sample_every", "sample_text", "patience", "stop_words_points"})
_MORE_STEPS = (
    "a run goes on to more steps only with a constant schedule and an equally long warm-up, since its learning rates "
    "would have been others. To train further, start from its LoRA (lora in a config file, existing_lora in ComfyUI)"
)


def _may_go_on(old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Whether a run of the old steps, continued to the new ones, equals one that was started with the new ones.

    It does if no step so far had another learning rate: with a constant schedule and as many steps of warm-up.
    """
    before, after, warmup = old.get("steps"), new.get("steps"), new.get("warmup")
    if not (isinstance(before, int) and isinstance(after, int) and isinstance(warmup, float)):
        return False
    same_warmup = warmup_steps(before, warmup) == warmup_steps(after, warmup)
    return after > before and new["schedule"] == old.get("schedule") == "constant" and same_warmup


def run_number(own: Mapping[str, object]) -> int:
    """Return a number of 52 bits that tells a run from all others, from what settings.json holds; the same for a run
    that goes on to more steps."""
    settings = own["settings"]
    assert isinstance(settings, dict), "as `check_run` makes it"
    fixed = {name: value for name, value in settings.items() if name not in CHANGEABLE | {"steps"}}
    text = json.dumps([fixed, own["data"], own["base"]], sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:13], 16)


def difference_between(found: object, own: Mapping[str, object]) -> str:
    """Return what keeps the run `own` from going on where `found` ended, or an empty text; both as in settings.json."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return "its settings.json does not belong to a training run"
    if found.get("format_version") != FORMAT_VERSION:
        return f"format_version {shown(found.get('format_version'))}, this one reads {FORMAT_VERSION}"
    old, new = found.get("settings"), own["settings"]
    if not isinstance(old, dict) or not isinstance(new, dict):
        return "its settings.json contains no settings"
    for name in sorted((old.keys() | new.keys()) - CHANGEABLE):
        if old.get(name) != new.get(name):
            difference = f"{name} was {shown(old.get(name))}, now {shown(new.get(name))}"
            if name != "steps":
                return difference
            if not _may_go_on(old, new):
                return f"{difference}: {_MORE_STEPS}"
    words = {"data": "it was started on other clips", "base": "it was started from another model or LoRA"}
    return next((text for key, text in words.items() if found.get(key) != own[key]), "")
