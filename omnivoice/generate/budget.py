"""How many packed rows run together, given the free memory.

Batching helps where one item leaves the device partly idle, because more rows then cost little more time. The budget is
a share of the free memory, so that no other program's memory is needed. `run.py` splits batches by it; the split
changes no token. This is arithmetic, except for one query to CUDA.
"""

from __future__ import annotations

import torch

from .estimate import SamplingMemory

# 3.6 TFLOP a step at the published sizes. By calculation, not measurement, this takes longer than launching the kernels
# on any current GPU: a larger batch gains nothing, needs more memory and checks for Cancel less often.
MOST_ROWS = 4096
# One clone (435 rows for 5 s) keeps a CPU busy: four together were no faster per item. Four lines of 1 s (85 rows each)
# were about a fifth faster together, because the weights are read once for all (1 thread, medians on a busy machine).
MOST_ROWS_ON_CPU = 512
SHARE = 0.5  # of the free memory; the rest covers workspaces of libraries, fragmentation and 25 % error of the estimate


def rows_per_batch(free_bytes: int | None, memory: SamplingMemory) -> int:
    """Return the most packed rows of a batch, at least 1: an item larger than the budget gets its own batch.

    free_bytes: in addition to the weights; None if unknown.
    """
    most = MOST_ROWS_ON_CPU if memory.on_cpu else MOST_ROWS
    return most if free_bytes is None else max(1, min(most, int(free_bytes * SHARE / memory.row_bytes())))


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a CUDA device, including those that torch has reserved; None for other devices."""
    if device.type != "cuda":
        return None
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserve
