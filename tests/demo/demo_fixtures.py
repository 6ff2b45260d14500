"""Shared by the tests of the demo voice: the model, the speech recognizer, and recorded clips."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from demo_voice.making import grammar, make
from demo_voice.making.judge import Listener, VoiceJudge, accuracy
from omnivoice.engine import Engine
from omnivoice.types import GenerationRequest, Sampling, VoicePrompt
from omnivoice.weights.demo import demo_model

ASSETS = Path(__file__).resolve().parents[1] / "assets" / "demo"
SENTENCES = 8  # of the 60 held-out sentences, evenly over the patterns
STEPS = 12


@dataclass(frozen=True, eq=False)
class TestClip:
    """A clip of tests/assets/demo."""

    __test__ = False
    voice: str
    words: str
    text: str
    use: str
    codes: Tensor

    def prompt(self) -> VoicePrompt:
        return VoicePrompt(self.codes, self.text, 0.1)


def asset() -> Path:
    path = demo_model()
    assert path is not None, "the demo voice is part of the repository"
    return path


@lru_cache(maxsize=1)
def listener() -> Listener:
    return Listener()


@lru_cache(maxsize=1)
def engine() -> Engine:
    return Engine.load(asset())


@lru_cache(maxsize=1)
def clips() -> tuple[TestClip, ...]:
    whole = load_file(ASSETS / "clips.safetensors")["codes"].long()
    rows = [json.loads(line) for line in (ASSETS / "clips.jsonl").read_text(encoding="utf-8").splitlines()]
    return tuple(
        TestClip(r["voice"], r["words"], r["text"], r["use"], whole[:, r["frame"] : r["frame"] + r["frames"]])
        for r in rows
    )


def held_out(count: int = SENTENCES) -> list[str]:
    """Return the words of held-out sentences."""
    sentences = grammar.draw_sets(make.SEED, make.TRAIN, make.HELD_OUT)["test"]
    return sentences[:: max(1, len(sentences) // count)][:count]


def requests(words: Sequence[str], *, steps: int = STEPS, **changes: object) -> list[GenerationRequest]:
    """Return requests without post-processing: silence at the ends would count as a different voice."""
    plain = {
        "language": "en",
        "sampling": Sampling(steps=steps),
        "pad_seconds": 0,
        "fade_seconds": 0,
        "post_process": False,
    }
    return [GenerationRequest(grammar.written(one), seed=s, **{**plain, **changes}) for s, one in enumerate(words)]


def spoken(speaker: Engine, asked: Sequence[GenerationRequest]) -> list[Tensor]:
    """Return the speech [N] of each request, at 24 kHz."""
    return [speech.waveform.samples[0] for speech in speaker.generate(asked)]


def understood(words: Sequence[str], recordings: Sequence[Tensor]) -> float:
    """Return the word accuracy."""
    return accuracy(words, [heard(recording.numpy().tobytes()) for recording in recordings])[0]


@lru_cache(maxsize=64)
def heard(samples: bytes) -> str:
    """Return the words of a recording, float32 at 24 kHz; one that is judged twice is heard once."""
    return listener().hear(torch.frombuffer(bytearray(samples), dtype=torch.float32))


@lru_cache(maxsize=1)
def voice_judge() -> VoiceJudge:
    """Return a judge that learned every voice from decoded clips that are not judged."""
    examples: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for clip in clips():
            if clip.use == "example" or (clip.use == "train" and len(examples.get(clip.voice, [])) < 10):
                examples.setdefault(clip.voice, []).append(engine().codec.decoder.decode(clip.codes)[0])
    return VoiceJudge(examples)
