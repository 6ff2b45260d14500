"""PEFT's adapter_config.json: the scale of each LoRA A/B pair, and which settings are not supported.

The scale is alpha / r, or alpha / sqrt(r) with use_rslora. rank_pattern and alpha_pattern give some modules other
values (peft 0.21.2 tuners/lora/model.py:309, utils/other.py:1524). The patterns are regular expressions from a file
that a stranger may have written, so only simple ones are accepted. `peft_config.json` lists the settings that are read
here, and those that shaped the training but not the meaning of the tensors. Others are refused unless they are off.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ..errors import LoraError
from ..intake.limits import LIMITS, shown
from ..intake.tables import load_table
from .lora_keys import EMBEDDING_ADVICE

MAX_PATTERNS = 512
MAX_PATTERN_CHARS = 200
MIN_SCALE, MAX_SCALE = 1e-30, 1e4  # float32 holds an alpha of either for any rank
ROUNDING = 1e-6  # of an alpha in float32
Patterns = tuple[tuple[re.Pattern[str], float], ...]

# Initialisations that leave the base model unchanged; others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA) change it.
UNCHANGED_BASE = (True, False, None, "gaussian", "orthogonal", "eva")
# Names, digits and at most one wildcard, without groups: matching is cheap whatever the file says.
_SAFE_PATTERN = re.compile(
    r"\^?(?:\w|\\?\.(?![*+])|\\d\+|\[0-9\]\+)*(?:\.[*+])?(?:\w|\\?\.(?![*+])|\\d\+|\[0-9\]\+)*\$?", re.ASCII
)


@dataclass(frozen=True)
class PeftSettings:
    """What adapter_config.json says about scales. saved: its modules_to_save, as it spells them."""

    rank: int
    alpha: float
    rank_pattern: Patterns
    alpha_pattern: Patterns
    rslora: bool
    saved: tuple[str, ...]

    def scale(self, module: str, rank: int) -> float:
        """Return the scale of a module's pair of that rank; the module is spelled as in the file, without its prefix.

        Raises LoraError if the settings give it another rank, because they then belong to another LoRA.
        """
        expected = _pick(self.rank_pattern, module, self.rank)
        if rank != expected:
            raise LoraError(
                f"{shown(module)} has rank {rank}, adapter_config.json says {expected:g}: the two files belong to "
                "different LoRAs"
            )
        alpha = _pick(self.alpha_pattern, module, self.alpha)
        return checked_scale(alpha, math.sqrt(rank) if self.rslora else rank, module)


def parse_settings(raw: object) -> PeftSettings:
    """Check a parsed adapter_config.json. Raises LoraError that names what is wrong or not supported."""
    if not isinstance(raw, dict):
        raise LoraError(f"adapter_config.json: expected a JSON object, got {type(raw).__name__}")
    if raw.get("peft_type") != "LORA":
        raise LoraError(f"adapter_config.json: peft_type must be LORA, got {shown(raw.get('peft_type'))}")
    if raw.get("use_dora"):
        raise LoraError("this LoRA is a DoRA (use_dora), which is not supported: merge it into the model with PEFT")
    if raw.get("trainable_token_indices"):
        raise LoraError(f"this LoRA changes rows of the text embedding (trainable_token_indices), {EMBEDDING_ADVICE}")
    start = raw.get("init_lora_weights")
    if not any(start is allowed or start == allowed for allowed in UNCHANGED_BASE):
        raise LoraError(
            f"this LoRA was initialised by init_lora_weights {shown(start)}, which changes the base model too: convert "
            "it to a plain LoRA with PEFT (path_initial_model_for_weight_conversion)"
        )
    known = cast("dict[str, list[str]]", load_table("weights/peft_config.json"))
    unknown = sorted(key for key in raw.keys() - {*known["read"], *known["neutral"]} if raw[key])
    if unknown:
        raise LoraError(f"adapter_config.json: {', '.join(shown(key) for key in unknown[:5])} is not supported")
    saved = raw.get("modules_to_save") or []
    if not isinstance(saved, list) or not all(isinstance(name, str) for name in saved):
        raise LoraError("adapter_config.json: modules_to_save must be a list of names")
    return PeftSettings(
        rank=int(_number(raw, "r", integer=True)),
        alpha=_number(raw, "lora_alpha"),
        rank_pattern=_patterns(raw, "rank_pattern", integer=True),
        alpha_pattern=_patterns(raw, "alpha_pattern"),
        rslora=raw.get("use_rslora") is True,
        saved=tuple(saved),
    )


def checked_scale(alpha: float, divisor: float, module: str) -> float:
    """Return the scale `alpha / divisor` if it is from `MIN_SCALE` to `MAX_SCALE`; raises LoraError.

    divisor: the rank, or its square root (rsLoRA). A scale is written as another alpha than it was read from, so the
    limits are those of the scale, with some room for rounding.
    """
    scale = alpha / divisor
    if not MIN_SCALE * (1 - ROUNDING) <= scale <= MAX_SCALE * (1 + ROUNDING):
        allowed = f"from {MIN_SCALE * divisor:g} to {MAX_SCALE * divisor:g}"
        raise LoraError(f"the alpha of {shown(module)} must be {allowed}, got {shown(alpha)}")
    return scale


def checked_rank(rank: int, module: str) -> int:
    """Return `rank` if it is within the limits; raises LoraError."""
    limit = LIMITS["lora_rank"]
    if not limit.low <= rank <= limit.high:
        raise LoraError(f"the rank of {shown(module)} must be {limit.low}-{limit.high}, got {rank}")
    return rank


def _number(raw: Mapping[str, object], key: str, *, integer: bool = False) -> float:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int if integer else (int, float)):
        kind = "a whole number" if integer else "a number"
        raise LoraError(f"adapter_config.json: {shown(key)} must be {kind}, got {shown(value)}")
    if not math.isfinite(value):
        raise LoraError(f"adapter_config.json: {shown(key)} must be finite, got {shown(value)}")
    return value


def _patterns(raw: Mapping[str, object], key: str, *, integer: bool = False) -> Patterns:
    table = raw.get(key) or {}
    if not isinstance(table, dict) or len(table) > MAX_PATTERNS:
        raise LoraError(f"adapter_config.json: {key} must be an object of at most {MAX_PATTERNS} patterns")
    return tuple((_compiled(pattern, key), _number(table, pattern, integer=integer)) for pattern in table)


def _compiled(pattern: str, key: str) -> re.Pattern[str]:
    """Compile `pattern` to match as in PEFT: the end of a module's name, after a dot or from its start."""
    if not 0 < len(pattern) <= MAX_PATTERN_CHARS or not _SAFE_PATTERN.fullmatch(pattern):
        raise LoraError(
            f"adapter_config.json: {key} has a pattern that is not supported, {shown(pattern)}: name modules instead"
        )
    return re.compile(rf"(?:.*\.)?(?:{pattern})$")


def _pick(patterns: Patterns, module: str, default: float) -> float:
    return next((value for pattern, value in patterns if pattern.match(module)), default)
