"""The processes of a run: a single one, or those that torchrun started.

Every process draws all examples of a step and trains on its share, so the processes exchange gradients (torch's
DistributedDataParallel) and a few sums, but no data.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import InputError, ProcessError
from ..intake.limits import shown

_BROKEN = re.compile(r"gloo|nccl|c10d|connection (was )?(closed|reset|refused)", re.IGNORECASE)
TIMEOUT = timedelta(hours=6)  # the others wait while the main process encodes a dataset or speaks samples


@dataclass(frozen=True)
class World:
    """rank: number of this process. size: number of processes. local_rank: index of its device on the machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Sum over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether any process has set its flag; every process gets the same answer. device: of the exchange."""
        return bool(float(self.sum(torch.tensor(float(flag), device=device))))

    def agree(self, values: Tensor) -> bool:
        """Whether all processes have the same values, int64; every process gets the same answer."""
        if self.size == 1:
            return True
        ends = torch.stack([values, -values])
        dist.all_reduce(ends, op=dist.ReduceOp.MIN)
        return torch.equal(ends[0], -ends[1])

    def wait(self) -> None:
        """Wait until every process has called this."""
        if self.size > 1:
            dist.barrier()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Within the block, a connection that broke because another process ended raises ProcessError."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not (isinstance(error, dist.DistError) or _BROKEN.search(str(error))):
                raise
            raise ProcessError(
                f"another process of this run has ended, so process {self.rank + 1} of {self.size} stops too. Its own "
                "message says why; without one it was killed, as the system does when memory runs out"
            ) from None

    def close(self) -> None:
        """Leave the process group."""
        if self.size > 1:
            with contextlib.suppress(RuntimeError):  # the other processes may be gone
                dist.destroy_process_group()


SINGLE = World()


def place_in_world(environment: Mapping[str, str] | None = None) -> World:
    """Return this process's place among those that torchrun describes in the environment, without joining them.

    `SINGLE` without torchrun; raises InputError for a description that cannot be read.
    """
    table = os.environ if environment is None else environment
    if "WORLD_SIZE" not in table or "RANK" not in table:
        return SINGLE
    try:
        rank, size, local = (int(table.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    except ValueError:
        given = ", ".join(shown(table[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if name in table)
        raise InputError(f"RANK and WORLD_SIZE must be whole numbers, got {given}: use torchrun") from None
    return SINGLE if size == 1 else World(rank, size, local)


def join_world(environment: Mapping[str, str] | None = None, *, device_type: str = "cpu") -> World:
    """Join the processes that torchrun describes in the environment, or return `SINGLE`; raises InputError."""
    world = place_in_world(environment)
    if world.size > 1:
        if device_type == "cuda":
            torch.cuda.set_device(world.local_rank)
        dist.init_process_group("nccl" if device_type == "cuda" else "gloo", timeout=TIMEOUT)
    return world
