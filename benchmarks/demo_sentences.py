"""Sentences that the demo voice was not trained on, spoken by it, and recordings of the same kind from tests/assets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from demo_voice.making import grammar, make
from omnivoice.constants import FRAME_RATE
from omnivoice.engine import Engine
from omnivoice.errors import CheckpointError
from omnivoice.types import GenerationRequest, Sampling, VoicePrompt
from omnivoice.weights.demo import demo_model

CLIPS = Path(__file__).resolve().parents[1] / "tests" / "assets" / "demo"
AT_ONCE, STEPS = 12, 16


@dataclass(frozen=True, eq=False)
class Sound:
    """samples: [1, N] at 24,000 Hz, not padded or faded. seconds: planned or recorded. source: for reports."""

    source: str
    words: str
    text: str
    samples: Tensor
    seconds: float


def demo_engine() -> Engine:
    """Return the demo voice; raises CheckpointError where the pack was installed without it."""
    path = demo_model()
    if path is None:
        raise CheckpointError("the demo voice is not installed: use a copy of the whole repository")
    return Engine.load(path)


def recorded() -> Iterator[Sound]:
    """Yield each second recording, as the codec decodes it."""
    engine, rows = demo_engine(), (CLIPS / "clips.jsonl").read_text(encoding="utf-8").splitlines()
    codes = load_file(CLIPS / "clips.safetensors")["codes"].long()
    for row in map(json.loads, rows[::2]):
        own = codes[:, row["frame"] : row["frame"] + row["frames"]]
        with torch.no_grad():
            samples = engine.codec.decode(own)
        yield Sound("recordings", row["words"], row["text"], samples, row["frames"] / FRAME_RATE)


def spoken(count: int) -> Iterator[Sound]:
    """Yield `count` held-out sentences, the model's own choice of voice and each cloned one by turns."""
    engine, sets = demo_engine(), grammar.draw_sets(make.SEED, make.TRAIN, make.HELD_OUT)
    words = [*sets["test"], *sets["valid"]][:count]
    voices: list[VoicePrompt | None] = [None, *_voices().values()]
    plain = GenerationRequest("", language="en", sampling=Sampling(steps=STEPS), pad_seconds=0, fade_seconds=0)
    for first in range(0, len(words), AT_ONCE):
        requests = [
            _request(plain, grammar.written(said), seed, voices[seed % len(voices)])
            for seed, said in enumerate(words[first : first + AT_ONCE], first)
        ]
        plans = engine.plan(requests)
        for said, plan, speech in zip(words[first:], plans, engine.generate_plans(plans)):
            seconds = sum(chunk.frames for chunk in plan.chunks) / FRAME_RATE
            yield Sound("demo voice", said, plan.request.text, speech.waveform.samples, seconds)


def _request(plain: GenerationRequest, text: str, seed: int, voice: VoicePrompt | None) -> GenerationRequest:
    return GenerationRequest(**{**vars(plain), "text": text, "seed": seed, "voice": voice})


def _voices() -> dict[str, VoicePrompt]:
    """Return a voice of each speaker in the recordings."""
    codes = load_file(CLIPS / "clips.safetensors")["codes"].long()
    rows = [json.loads(line) for line in (CLIPS / "clips.jsonl").read_text(encoding="utf-8").splitlines()]
    firsts = {row["voice"]: row for row in reversed(rows)}
    return {
        name: VoicePrompt(codes[:, row["frame"] : row["frame"] + row["frames"]], row["text"], 0.1)
        for name, row in firsts.items()
    }
