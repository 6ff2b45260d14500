"""The recordings that are edited, and what the judges hear: words by pocketsphinx, joints by the spectrum.

A recording is used if the recognizer understands it as it is: otherwise the recognizer's errors would count as the
model's. How many are left out for this reason is reported.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.editing_cases import COUNTS, Case, Language, draw_cases, recording
from demo_voice.making.judge import Listener, log_mel
from omnivoice.audio.resample import resample
from omnivoice.constants import SAMPLE_RATE

HOP_SECONDS = 256 / SAMPLE_RATE  # of `log_mel`
NEAR_HOPS = 2  # on each side of a joint: windows of four hops that contain it
USUAL = 0.95  # quantile of a clip's own steps


@dataclass(frozen=True, eq=False)
class Recording:
    """A case, what espeak-ng says for its old sentence, [N] at 24,000 Hz, and whether the judge understands what it
    says for the new one."""

    case: Case
    samples: Tensor
    new_is_heard: bool


@dataclass(frozen=True)
class Chosen:
    """How many recordings were tried until there were enough that the judge understands."""

    kind: str
    used: int
    tried: int
    new_heard: int


class Judge(Listener):
    """A recognizer that hears the same words in a recording, whatever it heard before."""

    def __init__(self, jsgf: str) -> None:
        super().__init__(jsgf)
        self._level = self._decoder.get_cmn(False)

    def hear(self, samples: Tensor) -> str:
        """Return the lower-case words in [N] float32 at 24 kHz, or "" for none."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._decoder.start_stream()  # forget the noise and the level of earlier recordings
        self._decoder.set_cmn(self._level)
        return super().hear(samples)

    def hear_at(self, samples: Tensor, sample_rate: int) -> str:
        """Return the lower-case words in [C, N] float32, or "" for none."""
        return self.hear(resample(samples.mean(dim=0, keepdim=True), sample_rate, SAMPLE_RATE)[0])


def recordings(
    folder: Path, kind: str, split: str, language: Language, voices: Sequence[str]
) -> tuple[list[Recording], Chosen]:
    """Return the recordings of a kind that the judge understands, from the folder if they are there already."""
    path = folder / f"{split}-{kind.replace(' ', '-')}-{'-'.join(voices)}.safetensors"
    if not path.is_file():
        _record(path, list(draw_cases(kind, split, language, voices)), Judge(language.jsgf(kind)), COUNTS[kind])
    stored = load_file(path)
    rows = json.loads(bytes(stored.pop("rows").numpy()))
    found = [
        Recording(
            Case(**{**row["case"], "changed": tuple(row["case"]["changed"])}), stored[str(i)], row["new is heard"]
        )
        for i, row in enumerate(rows["used"])
    ]
    return found, Chosen(kind, len(found), rows["tried"], sum(one.new_is_heard for one in found))


def _record(path: Path, cases: Sequence[Case], judge: Judge, wanted: int) -> None:
    used, tried, kept = list[dict[str, object]](), 0, dict[str, Tensor]()
    for case in cases:
        tried += 1
        samples = recording(case.old, case)
        if judge.hear(samples) == case.old:
            kept[str(len(used))] = samples
            new = judge.hear(recording(case.new, case)) == case.new
            used.append({"case": asdict(case), "new is heard": new})
        if len(used) == wanted:
            break
    rows = json.dumps({"tried": tried, "used": used}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({**kept, "rows": torch.tensor(list(rows), dtype=torch.uint8)}, path)


def largest_step(samples: Tensor, sample_rate: int, joints: Collection[tuple[float, float]]) -> list[float]:
    """Return for each joint, a cross-fade between two times in seconds, how much the sound changes there: the largest
    step between the log-mel spectra of neighbouring windows that the cross-fade touches, over the 95th percentile of
    all steps in samples [C, N]. This is simpler than the engine's own measure, and knows nothing of it."""
    mono = resample(samples.mean(dim=0, keepdim=True), sample_rate, SAMPLE_RATE)[0]
    steps = log_mel(mono).diff(dim=1).abs().mean(dim=0)
    usual = float(steps.quantile(USUAL))
    found = []
    for start, end in joints:
        near = steps[max(0, int(start / HOP_SECONDS) - NEAR_HOPS) : int(end / HOP_SECONDS) + NEAR_HOPS]
        found.append(float(near.max()) / usual if len(near) and usual > 0 else 0.0)
    return found
