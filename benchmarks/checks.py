"""`python -m benchmarks.checks`: how often the checks of speech find planted faults, and how often they find none.

Sentences of the demo voice and the recordings in tests/assets/demo are left as they are, and then cut, clipped,
silenced, sped up, and given a click at their start. Fades and pads are added afterwards, as the engine does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from torch import Tensor

from benchmarks.demo_sentences import Sound, recorded, spoken
from omnivoice.audio.joins import fade
from omnivoice.constants import SAMPLE_RATE
from omnivoice.productions.checks import CLICK, CLIPPED, CUT, RATE, SILENT, Expected, findings
from omnivoice.productions.timings import sounding

EDGE = SAMPLE_RATE // 10
Plant = Callable[[Tensor, torch.Generator], Tensor]


def cut(samples: Tensor, noise: torch.Generator) -> Tensor:
    """Return samples [1, N] without the last 200 ms of their sound."""
    return samples[:, : sounding(samples)[1] - SAMPLE_RATE // 5]


def clicked(samples: Tensor, noise: torch.Generator) -> Tensor:
    """Return them after a burst of 10 to 40 ms and 60 to 200 ms of silence."""
    burst, pause = (int(torch.randint(*span, (1,), generator=noise)) for span in ((240, 961), (1440, 4801)))
    loud = 0.3 * samples.abs().max() * (2 * torch.rand(1, burst, generator=noise) - 1)
    return torch.cat([loud, torch.zeros(1, pause), samples], dim=1)


def clipped(samples: Tensor, noise: torch.Generator) -> Tensor:
    """Return them eight times as loud, clipped."""
    return (8 * samples).clamp(-1, 1)


def silenced(samples: Tensor, noise: torch.Generator) -> Tensor:
    """Return them with half of them silent: the first, the middle or the last."""
    N = samples.shape[1]
    start = (0, N // 4, N // 2)[int(torch.randint(3, (1,), generator=noise))]
    quiet = samples.clone()
    quiet[:, start : start + N // 2] = 0
    return quiet


def faster(samples: Tensor, noise: torch.Generator) -> Tensor:
    """Return them 2.5 times as fast."""
    wanted = int(samples.shape[1] / 2.5)
    return torch.nn.functional.interpolate(samples[None], wanted, mode="linear", antialias=False)[0]


PLANTED: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "the last 200 ms cut": (cut, (CUT,)),
    "a click before the start": (clicked, (CLICK,)),
    "eight times as loud, clipped": (clipped, (CLIPPED,)),
    "half of it silent": (silenced, (SILENT, RATE)),
    "2.5 times as fast": (faster, (RATE,)),
}


def faults_of(sound: Sound, plant: Plant | None, noise: torch.Generator) -> list[str]:
    """Return the kinds of faults that are found after a fault is planted and the ends are faded and padded."""
    samples = sound.samples if plant is None else plant(sound.samples, noise)
    samples = torch.nn.functional.pad(fade(samples, fade_in=EDGE, fade_out=EDGE), (EDGE, EDGE))
    return [one.kind for one in findings(samples, Expected(seconds=sound.seconds, lead=EDGE, tail=EDGE, fades=EDGE))]


def report(sounds: Sequence[Sound]) -> None:
    """Print a table: without a fault, how many pass; with one, how many are found."""
    noise = torch.Generator().manual_seed(0)
    for source, group in groupby(sounds, key=lambda sound: sound.source):
        own = list(group)
        plain = [faults_of(sound, None, noise) for sound in own]
        print(f"{source}: {sum(not one for one in plain)} of {len(own)} pass")
        for sound, kinds in zip(own, plain):
            if kinds:
                print(f"    {', '.join(kinds)}: {sound.text}")
        for name, (plant, wanted) in PLANTED.items():
            found = sum(bool({*wanted} & {*faults_of(sound, plant, noise)}) for sound in own)
            print(f"  {name}: found in {found} of {len(own)}")


def main() -> None:
    """Speak, plant and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checks", description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=120, help="of the demo voice, default 120")
    report([*recorded(), *spoken(parser.parse_args().sentences)])


if __name__ == "__main__":
    main()
