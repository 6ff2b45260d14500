"""Two processes with torch's DistributedDataParallel over gloo learn what one process learns."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from omnivoice.errors import InputError
from omnivoice.train.loop import train
from omnivoice.train.run import open_run
from omnivoice.train.world import SINGLE, World, join_world
from tests.unit.train.training_fixtures import tiny_trainer

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the second process")


def in_two_processes(meeting: Path, work: Callable[[World], None]) -> None:
    """Run `work` in two children that meet over gloo; fails if one of them does."""
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            code = 1
            signal.alarm(600)  # so that a child that hangs fails the test
            try:
                dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
                work(World(rank, 2, rank))
                code = 0
            except BaseException:  # noqa: BLE001 - a child of fork must end here
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


@needs_fork
@pytest.mark.parametrize(
    "changes",
    [{"dropout": 0.0}, {"dropout": 0.0, "method": "full"}, {"dropout": 0.0, "gradient_checkpointing": True}],
    ids=["lora", "full", "checkpointing"],
)
def test_two_processes_equal_one(changes: dict, tmp_path: Path) -> None:
    """2 processes x batch b = 1 process x batch 2b: losses, gradients' norms and weights after six steps; the second
    process has nothing to do in steps of one clip, and the same data is learnt in four batches of an accumulation."""
    tokens = 60  # steps of one clip and of several
    one = tiny_trainer(batch_tokens=2 * tokens, **changes)
    norms = [one.step().grad_norm for _ in range(6)]
    validation = one.validate()
    accumulated = tiny_trainer(batch_tokens=tokens // 2, grad_accumulation_steps=4, **changes)
    for _ in range(6):
        accumulated.step()

    def work(world: World) -> None:
        two = tiny_trainer(batch_tokens=tokens, world=world, **changes)
        reports = [two.step() for _ in range(6)]
        torch.testing.assert_close(torch.tensor(two.losses), torch.tensor(one.losses), rtol=1e-6, atol=0)
        torch.testing.assert_close(
            torch.tensor([report.grad_norm for report in reports]), torch.tensor(norms), rtol=1e-5, atol=0
        )
        for name, parameter in two.trained.items():
            torch.testing.assert_close(parameter, one.trained[name], rtol=0, atol=1e-5)
        assert abs(two.validate() - validation) < 1e-5
        assert two.tokens == one.tokens

    in_two_processes(tmp_path / "meeting", work)
    for name, parameter in accumulated.trained.items():
        torch.testing.assert_close(parameter, one.trained[name], rtol=0, atol=1e-5)


@needs_fork
def test_one_process_asked_to_stop_stops_all_and_the_main_one_writes(tmp_path: Path) -> None:
    def work(world: World) -> None:
        trainer = tiny_trainer(world=world, sample_every=1, sample_text="Hi.")
        folder = open_run(tmp_path / "run", trainer.settings, data="d", base="b") if world.is_main else None
        spoken: list[int] = []
        outcome = train(
            trainer,
            folder,
            on_step=lambda report: world.rank == 1 and report.step == 3,
            on_sample=spoken.append if world.is_main else None,  # as the command line: the others wait all the same
        )
        assert (outcome.reason, outcome.step) == ("stopped", 3)
        assert spoken == ([1, 2, 3] if world.is_main else [])

    in_two_processes(tmp_path / "meeting", work)
    assert [path.name for path in sorted((tmp_path / "run").glob("state-*"))] == [
        "state-00000002.safetensors",
        "state-00000003.safetensors",
    ]


def test_without_torchrun_there_is_one_process() -> None:
    assert join_world({}) == SINGLE == join_world({"RANK": "0", "WORLD_SIZE": "1"})
    assert float(SINGLE.sum(torch.tensor(2.0))) == 2
    SINGLE.wait(), SINGLE.close()


def test_a_strange_environment_is_told() -> None:
    with pytest.raises(InputError, match="RANK and WORLD_SIZE must be whole numbers"):
        join_world({"RANK": "first", "WORLD_SIZE": "2"})
