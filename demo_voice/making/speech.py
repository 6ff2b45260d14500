"""Makes the speech that the demo voice learns from: espeak-ng speaks the sentences in two voices.

Each sentence is as long as the engine estimates for its text, times a random factor near 1, so that generation needs
no duration. For this, espeak-ng speaks it up to three times at corrected speeds, and the remainder is stretched to a
whole number of codec frames. Text and length then determine where in a frame each phone begins, so the language model
need not guess it. The audio is mono at 24 kHz with an RMS of 0.1, without silence at its ends. It is written in shards,
so that an interrupted run resumes.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import wave
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from demo_voice.making import grammar
from omnivoice.audio.resample import resample
from omnivoice.text.duration import estimate_frames

RATE, HOP = 24_000, 960
RMS = 0.1
QUIETEST = 0.01  # share of the peak below which the ends are silence
MARGIN = 480  # samples of silence that are kept
FASTER, SLOWER = 0.93, 1.1  # range of the length, relative to the estimate
STEADY, SWAY = 0.7, 0.01  # this share of the sentences deviates at most this much
FIRST_SPEED, SLOWEST, FASTEST = 165, 85, 380  # words a minute
SHARD, AT_ONCE = 500, 2
TRIES, NEAR = 3, 0.01  # attempts per sentence, and the deviation of the length that ends them


@dataclass(frozen=True)
class Voice:
    """An espeak-ng voice and its pitch (0-99)."""

    name: str
    variant: str
    pitch: int


VOICES: tuple[Voice, ...] = (Voice("f2", "en-us+f2", 60), Voice("m3", "en-us+m3", 90))


def workers() -> ThreadPoolExecutor:
    """Return a pool of single-threaded workers, which is faster for many short clips."""
    return ThreadPoolExecutor(AT_ONCE, initializer=torch.set_num_threads, initargs=(1,))


def say(words: str, voice: Voice, speed: int) -> Tensor:
    """Return the spoken words, trimmed: [N] float32 at 24 kHz."""
    command = ["espeak-ng", "-v", voice.variant, "-p", str(voice.pitch), "-s", str(speed), "--stdout", words]
    done = subprocess.run(command, check=True, capture_output=True)
    with wave.open(io.BytesIO(done.stdout)) as file:
        rate, raw = file.getframerate(), file.readframes(1 << 30)
    samples = torch.from_numpy(np.frombuffer(raw[: len(raw) // 2 * 2], dtype="<i2").astype(np.float32) / 32768)
    loud = (samples.abs() > QUIETEST * samples.abs().max()).nonzero()
    samples = samples[max(0, int(loud[0]) - MARGIN) : int(loud[-1]) + MARGIN]
    return resample(samples[None], rate, RATE)[0]


def say_in_time(words: str, voice: Voice, factor: float) -> Tensor:
    """Return the spoken words [N], a whole number of frames: the engine's estimate times `factor`."""
    wanted, speed = round(estimate_frames(grammar.written(words)) * factor) * HOP, FIRST_SPEED
    for _ in range(TRIES):
        samples = say(words, voice, speed)
        if abs(len(samples) / wanted - 1) < NEAR:
            break
        speed = round(min(FASTEST, max(SLOWEST, speed * len(samples) / wanted)))
    samples = stretched(samples, wanted)
    return samples * (RMS / samples.square().mean().sqrt())


def stretched(samples: Tensor, length: int) -> Tensor:
    """Return [N] stretched to [length] in the frequency domain; the pitch changes by the same factor."""
    return torch.fft.irfft(torch.fft.rfft(samples), n=length) * (length / len(samples))


def rows(seed: int, train: int, held_out: int) -> list[dict[str, object]]:
    """Return what to speak: each training sentence in one voice, each held-out sentence in all voices."""
    rng = random.Random(seed)
    listed: list[dict[str, object]] = []
    for split, sentences in grammar.draw_sets(seed, train, held_out).items():
        for i, words in enumerate(sentences):
            for voice in [VOICES[i % len(VOICES)]] if split == "train" else VOICES:
                steady = rng.random() < STEADY
                factor = rng.uniform(1 - SWAY, 1 + SWAY) if steady else rng.uniform(FASTER, SLOWER)
                listed.append({"split": split, "words": words, "voice": voice.name, "factor": round(factor, 4)})
    return [{"id": i, **row, "text": grammar.written(str(row["words"]))} for i, row in enumerate(listed)]


def settings(*, seed: int, train: int, held_out: int) -> dict[str, object]:
    """Return all values that the speech depends on."""
    return {
        "seed": seed,
        "train": train,
        "held_out": held_out,
        "length": [FASTER, SLOWER, STEADY, SWAY],
        "rms": RMS,
        "voices": [asdict(voice) for voice in VOICES],
        "slots": grammar.SLOTS,
        "patterns": list(grammar.PATTERNS),
    }


def make_speech(folder: Path, *, seed: int, train: int, held_out: int) -> None:
    """Write NNN.npy (int16, sentences end to end) and, once all are complete, index.jsonl.

    The index holds `rows` with "shard", "start" and "samples".
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = rows(seed, train, held_out)
    voices = {voice.name: voice for voice in VOICES}
    for shard, first in enumerate(range(0, len(wanted), SHARD)):
        part = wanted[first : first + SHARD]
        lines, file = folder / f"{shard:03}.jsonl", folder / f"{shard:03}.npy"
        if lines.is_file() and _same(lines, part):
            continue
        with workers() as pool:
            spoken = list(
                pool.map(lambda r: say_in_time(str(r["words"]), voices[str(r["voice"])], float(str(r["factor"]))), part)
            )
        end_to_end = (torch.cat(spoken).clamp(-1, 1) * 32767).round().to(torch.int16).numpy()
        starts = np.cumsum([0, *(len(s) for s in spoken)])
        _write(file, partial(np.save, arr=end_to_end))
        placed = [{**r, "shard": shard, "start": int(a), "samples": len(s)} for r, a, s in zip(part, starts, spoken)]
        write_lines(lines, placed)
        print(f"speech: {first + len(part)} of {len(wanted)}", flush=True)
    shards = range(-(-len(wanted) // SHARD))
    write_lines(folder / "index.jsonl", [row for s in shards for row in read_lines(folder / f"{s:03}.jsonl")])


def load_speech(folder: Path, shards: int | None = None) -> tuple[list[dict[str, object]], list[np.ndarray]]:
    """Return the index, and each sentence as a mapped int16 array; only the first `shards` if given."""
    names = ["index"] if shards is None else [f"{s:03}" for s in range(shards)]
    index = [row for name in names for row in read_lines(folder / f"{name}.jsonl")]
    arrays = [np.load(folder / f"{s:03}.npy", mmap_mode="r") for s in range(integer(index[-1], "shard") + 1)]
    starts = [integer(row, "start") for row in index]
    ends = [start + integer(row, "samples") for start, row in zip(starts, index)]
    return index, [arrays[integer(row, "shard")][a:b] for row, a, b in zip(index, starts, ends)]


def integer(row: dict[str, object], key: str) -> int:
    """Return an integer of an index's row."""
    number = row[key]
    assert isinstance(number, int)
    return number


def as_float(samples: np.ndarray) -> Tensor:
    """Return int16 [N] as float32 [N] from -1 to 1."""
    return torch.from_numpy(samples.astype(np.float32) / 32767)


def read_lines(path: Path) -> list[dict[str, object]]:
    """Read a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, lines: Sequence[dict[str, object]]) -> None:
    """Write a JSONL file, completely or not at all."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    _write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _write(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f"new-{path.name}")
    write(temporary)
    os.replace(temporary, path)


def _same(lines: Path, part: Sequence[dict[str, object]]) -> bool:
    return [{key: row[key] for key in part[0]} for row in read_lines(lines)] == list(part)
