"""The learning rate of each step: a linear warm-up, then half a cosine or a constant.

These are transformers' get_cosine_schedule_with_warmup and get_constant_schedule_with_warmup (optimization.py:83-160 of
5.3.0), which upstream uses, as a pure function of the step, so the training state does not need a scheduler.
"""

from __future__ import annotations

import math

from .settings import TrainSettings


def learning_rate(settings: TrainSettings, step: int) -> float:
    """Return the learning rate of update number `step`, counted from 0."""
    warmup = math.ceil(settings.steps * settings.warmup)
    if step < warmup:
        return settings.learning_rate * (step / max(1, warmup))
    if settings.schedule == "constant":
        return settings.learning_rate
    done = (step - warmup) / max(1, settings.steps - warmup)
    return settings.learning_rate * max(0.0, 0.5 * (1.0 + math.cos(math.pi * 2.0 * 0.5 * done)))
