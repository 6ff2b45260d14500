"""The learning rate of each step, as a share of the highest: a linear rise, then a half cosine or nothing.

As transformers' get_cosine_schedule_with_warmup and get_constant_schedule_with_warmup (optimization.py:83-160 of
5.3.0), which upstream uses. A pure function of the step: nothing of it has to be kept.
"""

from __future__ import annotations

import math

from .settings import TrainSettings


def learning_rate(settings: TrainSettings, step: int) -> float:
    """Of the update number `step`, the first being 0."""
    warmup = math.ceil(settings.steps * settings.warmup)
    if step < warmup:
        return settings.learning_rate * (step / max(1, warmup))
    if settings.schedule == "constant":
        return settings.learning_rate
    done = (step - warmup) / max(1, settings.steps - warmup)
    return settings.learning_rate * max(0.0, 0.5 * (1.0 + math.cos(math.pi * 2.0 * 0.5 * done)))
