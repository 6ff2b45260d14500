"""One process of a training run, as torchrun starts it: `python -m tests.unit.commands.training_process CONFIG STEP`.

It kills itself in the step after STEP, if that is not 0. It is a new process and not a fork, because a forked child
has none of its parent's threads and may wait for one of them forever.
"""

from __future__ import annotations

import os
import signal
import sys

from omnivoice.__main__ import main
from omnivoice.train.trainer import Trainer


def kill_in_step(step: int) -> None:
    """Make this process kill itself in the step after `step`, if that is not 0."""
    learn = Trainer.learn

    def killing(trainer: Trainer, examples: object) -> object:
        if step and trainer.step_count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return learn(trainer, examples)  # type: ignore[arg-type]

    Trainer.learn = killing  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    kill_in_step(int(sys.argv[2]))
    sys.exit(main(["train", sys.argv[1]]))
