"""Measures how well the finished demo voice speaks the held-out sentences, with automatic and cloned voices.

The figures are written to judge-model-SPLIT.json in the codes' folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from demo_voice.making.codes import codes_of
from demo_voice.making.judge import Listener, VoiceJudge, accuracy
from demo_voice.making.judge_codec import voice_examples
from demo_voice.making.pack import ROOT
from demo_voice.making.speech import read_lines
from omnivoice.engine import Engine
from omnivoice.types import GenerationRequest, Sampling, VoicePrompt
from omnivoice.weights.demo import FILE

AT_ONCE = 20  # sentences in one call


def judge_model(codes: Path, split: str = "test", *, steps: int = 32, guidance: float = 2.0) -> dict[str, object]:
    """Return and write the word accuracy and the share of correct sentences, and how often the right voice speaks."""
    engine, listener = Engine.load(ROOT / FILE), Listener()
    all_codes = load_file(codes / "codes.safetensors")["codes"]
    rows = read_lines(codes / "index.jsonl")
    held = [row for row in rows if row["split"] == split]
    texts = list({str(row["words"]): row for row in held}.values())
    sampling = Sampling(steps=steps, guidance=guidance)
    said = [str(row["words"]) for row in texts]
    spoken = speak(engine, [asked(row, i, sampling) for i, row in enumerate(texts)])
    heard = [listener.hear(clip) for clip in spoken]
    figures: dict[str, object] = {"automatic voice": accuracy(said, heard)}
    figures["other texts"] = accuracy(said[1:] + said[:1], heard)
    references = {str(row["voice"]): row for row in held}
    judge = VoiceJudge(voice_examples(engine.codec.decoder, all_codes, rows))
    right, all_heard, all_said = 0, list[str](), list[str]()
    for voice, row in references.items():
        prompt = VoicePrompt(codes_of(all_codes, row), str(row["text"]), 0.1)
        others = [other for other in texts if other["words"] != row["words"]]
        clips = speak(engine, [asked(other, i, sampling, prompt) for i, other in enumerate(others)])
        own = [listener.hear(clip) for clip in clips]
        figures[f"cloned from {voice}"] = accuracy([str(other["words"]) for other in others], own)
        right += sum(judge.voice(clip) == voice for clip in clips)
        all_heard, all_said = all_heard + own, all_said + [str(other["words"]) for other in others]
    figures["cloned"] = accuracy(all_said, all_heard)
    figures["right voice"] = right / len(all_said)
    (codes / f"judge-model-{split}.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=2))
    return figures


def asked(row: dict[str, object], seed: int, sampling: Sampling, voice: VoicePrompt | None = None) -> GenerationRequest:
    """Return a request without post-processing: silence at the ends would count as a different voice."""
    return GenerationRequest(
        str(row["text"]),
        voice=voice,
        language="en",
        seed=seed,
        sampling=sampling,
        post_process=False,
        pad_seconds=0,
        fade_seconds=0,
    )


@torch.no_grad()
def speak(engine: Engine, requests: Sequence[GenerationRequest]) -> list[Tensor]:
    """Return the speech [N] of each request, at 24 kHz."""
    spoken: list[Tensor] = []
    for first in range(0, len(requests), AT_ONCE):
        spoken += [speech.waveform.samples[0] for speech in engine.generate(requests[first : first + AT_ONCE])]
    return spoken
