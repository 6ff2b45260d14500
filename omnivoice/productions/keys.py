"""Names for finished speech: a hash of everything that its sound depends on, so that no kept file can be out of date.

Every field of a request, a plan and a voice counts, except those in the tables below. So a field that is added later
is never forgotten; at worst, speech is made once more than necessary.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from ..types import Dictionary, GenerationPlan, GenerationRequest, VoicePrompt

# What nobody hears: labels, and what is reported.
VOICE_LABELS = frozenset({"name", "language", "warnings", "consent", "codec"})
REQUEST_LABELS = frozenset({"given"})
PLAN_LABELS = frozenset({"warnings", "notes", "respelled", "normalised", "used_entries"})
# What a plan has already turned into its chunks, language, instruct, seed and lengths.
PLANNED = REQUEST_LABELS | {
    *("text", "design", "language", "seed", "speed", "duration", "exact_length", "text_as_written", "normalise"),
    *("dictionary", "chunking", "chunk_seconds", "chunk_threshold_seconds", "first_seconds"),
}


def plan_key(plan: GenerationPlan, *, model: str, level: float = 0.0) -> str:
    """Return a name for the speech of a plan. model: identifies the weights, and how they compute. level: the speech
    level that it is brought to, 0 for its own."""
    request = _values(plan.request, PLANNED)
    return _digest([_values(plan, PLAN_LABELS | {"request"}), request, model, level])


def with_retries(model: str, retries: int) -> str:
    """Return what identifies results: the model, and how often faulty ones are spoken again."""
    return f"{model} retries {retries}" if retries else model


def request_key(request: GenerationRequest, *, model: str) -> str:
    """Return a name for the speech of a request that is not planned yet."""
    return _digest([_values(request, REQUEST_LABELS), model])


def _values(value: Any, without: Collection[str] = ()) -> Any:
    """Return a value as lists, dictionaries, texts and numbers."""
    if isinstance(value, VoicePrompt) and not without:
        return _values(value, VOICE_LABELS)
    if isinstance(value, Dictionary):
        return repr(value)  # a hash of its entries
    if isinstance(value, Tensor):
        return [[*value.shape], str(value.dtype), hashlib.sha256(value.contiguous().numpy().data).hexdigest()]
    if is_dataclass(value):
        return {one.name: _values(getattr(value, one.name)) for one in fields(value) if one.name not in without}
    return [_values(one) for one in value] if isinstance(value, (tuple, list)) else value


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=float).encode()).hexdigest()[:32]
