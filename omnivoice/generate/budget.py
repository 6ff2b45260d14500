"""How many packed rows run together, from the memory that is free.

Batching is worth having where one item leaves a device idle: there, more rows cost little more time. It is never
worth another program's memory, so the budget is a share of what is free, and batches are cut by it (`run`). The split
changes no token. Pure arithmetic, but for one question to CUDA.
"""

from __future__ import annotations

import torch

from ..config import LMConfig
from ..types import Sampling
from .estimate import BatchSize, estimate_batch

# 3.6 TFLOP a step at the published sizes, which takes longer than launching its kernels on any GPU now sold (reckoned,
# not measured): a larger batch gains nothing, takes more memory, and looks less often at Cancel.
MOST_ROWS = 4096
# A CPU is busy with one clone (435 rows for 5 s) alone: four together were no faster an item. Four lines of 1 s (85
# rows each) were about a fifth faster, since the weights are read once for all (1 thread, medians on a busy machine).
MOST_ROWS_ON_CPU = 512
SHARE = 0.5  # of what is free; the rest is for workspaces of libraries, fragments, and an estimate that is 25 % off


def rows_per_batch(free_bytes: int | None, lm: LMConfig, itemsize: int, *, on_cpu: bool) -> int:
    """Packed rows that a batch may have, at least 1: an item that is larger than the budget runs alone.

    free_bytes: beside the weights; None if unknown. itemsize: bytes of one weight of the language model.
    """
    most = MOST_ROWS_ON_CPU if on_cpu else MOST_ROWS
    if free_bytes is None:
        return most
    return max(1, min(most, int(free_bytes * SHARE / row_bytes(lm, itemsize, on_cpu=on_cpu))))


def row_bytes(lm: LMConfig, itemsize: int, *, on_cpu: bool) -> float:
    """Working memory of one packed row, at most: all rows are targets, with guidance or without."""
    sizes = [BatchSize(0, (1,), Sampling(), guided=guided) for guided in (True, False)]
    return max(estimate_batch(size, lm, itemsize, on_cpu=on_cpu) / size.rows for size in sizes)


def free_memory(device: torch.device) -> int | None:
    """Bytes that are free on a CUDA device, those that torch holds in reserve included; None elsewhere."""
    if device.type != "cuda":
        return None
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserve
