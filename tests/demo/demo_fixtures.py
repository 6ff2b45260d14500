"""What the tests of the demo voice share: the asset, who listens, and the clips that came with it."""

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
SENTENCES = 14  # of the sixty that were never trained on, all patterns in turn
STEPS = 16


@dataclass(frozen=True, eq=False)
class TestClip:
    """One of tests/assets/demo."""

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
    """Words of sentences that were never trained on."""
    sentences = grammar.draw_sets(make.SEED, make.TRAIN, make.HELD_OUT)["test"]
    return sentences[:: max(1, len(sentences) // count)][:count]


def requests(words: Sequence[str], *, steps: int = STEPS, **changes: object) -> list[GenerationRequest]:
    """The sound is left as the codec makes it: silence at its ends would pass for another voice."""
    plain = {
        "language": "en",
        "sampling": Sampling(steps=steps),
        "pad_seconds": 0,
        "fade_seconds": 0,
        "post_process": False,
    }
    return [GenerationRequest(grammar.written(one), seed=s, **{**plain, **changes}) for s, one in enumerate(words)]


def spoken(speaker: Engine, asked: Sequence[GenerationRequest]) -> list[Tensor]:
    """[N] at 24 kHz for each."""
    return [speech.waveform.samples[0] for speech in speaker.generate(asked)]


def understood(words: Sequence[str], sounds: Sequence[Tensor]) -> float:
    """Word accuracy."""
    return accuracy(words, [listener().hear(sound) for sound in sounds])[0]


@lru_cache(maxsize=1)
def voice_judge() -> VoiceJudge:
    """Knows every voice from codec audio of clips that are not judged."""
    examples: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for clip in clips():
            if clip.use == "example" or (clip.use == "train" and len(examples.get(clip.voice, [])) < 10):
                examples.setdefault(clip.voice, []).append(engine().decoder.decode(clip.codes)[0])
    return VoiceJudge(examples)
