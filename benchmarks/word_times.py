"""`python -m benchmarks.word_times`: how far estimated word times are from those that a recogniser finds.

The demo voice speaks sentences. pocketsphinx, which is given the words, says when each begins. Needs pocketsphinx.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from benchmarks.demo_sentences import Sound, recorded, spoken
from omnivoice.audio.resample import resample
from omnivoice.constants import SAMPLE_RATE
from omnivoice.productions.timings import timed_line

HEARS_AT, FRAME_SECONDS = 16_000, 0.01
SILENCE_SECONDS = 0.2  # before and after the sound, so that the recogniser hears where it begins


class Aligner:
    """Finds when given words are said."""

    def __init__(self) -> None:
        import pocketsphinx  # type: ignore[import-untyped]

        self._decoder = pocketsphinx.Decoder(samprate=HEARS_AT, lm=None, beam=1e-100, wbeam=1e-80, loglevel="FATAL")

    def starts(self, words: Sequence[str], samples: Tensor) -> list[float]:
        """Return when each word begins in samples [1, N] at 24,000 Hz, in seconds; [] if that is not found."""
        low = resample(samples, SAMPLE_RATE, HEARS_AT)[0]
        low = low * (0.1 / low.square().mean().sqrt().clamp(min=1e-4))
        edge = round(SILENCE_SECONDS * HEARS_AT)
        low = torch.nn.functional.pad(low, (edge, edge))
        low = low + 1e-4 * torch.randn(len(low), generator=torch.Generator().manual_seed(0))
        raw = (low.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes()
        self._decoder.set_align_text(" ".join(words))
        self._decoder.start_utt()
        self._decoder.process_raw(raw, full_utt=True)
        self._decoder.end_utt()
        found = [(one.word.partition("(")[0], one.start_frame) for one in self._decoder.seg() or ()]
        own = [(word, frame) for word, frame in found if not word.startswith(("<", "["))]
        if [word for word, _ in own] != [*words]:
            return []
        return [frame * FRAME_SECONDS - SILENCE_SECONDS for _, frame in own]


def differences(sounds: Sequence[Sound], aligner: Aligner) -> Iterator[list[float]]:
    """Yield for each sound that can be aligned the difference of each word's start in seconds."""
    for sound in sounds:
        said = sound.words.split()
        starts = aligner.starts(said, sound.samples)
        words = timed_line(sound.text, 0, sound.samples).words
        if len(starts) == len(words):
            yield [abs(word.start - start) for word, start in zip(words, starts)]


def report(name: str, sounds: Sequence[Sound]) -> None:
    """Print the mean and the 90th percentile of the differences."""
    each = list(differences(sounds, Aligner()))
    every = sorted(value for one in each for value in one)
    mean, tenth = statistics.fmean(every), statistics.quantiles(every, n=10)[-1]
    print(f"{name}: {len(each)} of {len(sounds)} sentences, {len(every)} words")
    print(f"  start of a word: {1000 * mean:.0f} ms on average, 9 of 10 within {1000 * tenth:.0f} ms")


def main() -> None:
    """Speak, align and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.word_times", description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=40, help="of the demo voice, default 40")
    options = parser.parse_args()
    report("recordings", list(recorded()))
    report("demo voice", list(spoken(options.sentences)))


if __name__ == "__main__":
    main()
