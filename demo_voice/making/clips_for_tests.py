"""Writes the clips for the demo voice's tests, as codes: some of each voice, and twenty of a voice that is new to it.

The files are tests/assets/demo/clips.safetensors ("codes" uint8 [8, all frames]) and clips.jsonl (voice, words, text,
frame, frames, use). A clip's use is "example" (a training clip, for the judge of voices), "reference" (held out, to
clone from) or "train" (of the new voice, to train a LoRA on).
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from demo_voice.making import grammar
from demo_voice.making.codes import codes_of, load_codec
from demo_voice.making.pack import ROOT
from demo_voice.making.speech import VOICES, Voice, read_lines, say_in_time

ASSETS = ROOT / "tests" / "assets" / "demo"
NEW_VOICE = Voice("f4", "en-us+f4", 40)
EXAMPLES, REFERENCES, NEW = 10, 2, 20


def write_test_clips(work: Path) -> None:
    """Write both files."""
    all_codes, rows = (
        load_file(work / "codes" / "codes.safetensors")["codes"],
        read_lines(work / "codes" / "index.jsonl"),
    )
    chosen: list[tuple[dict[str, object], torch.Tensor]] = []
    for voice in VOICES:
        for split, count, use in (("train", EXAMPLES, "example"), ("test", REFERENCES, "reference")):
            for row in [r for r in rows if r["split"] == split and r["voice"] == voice.name][:count]:
                chosen.append(
                    (
                        {"voice": voice.name, "words": row["words"], "text": row["text"], "use": use},
                        codes_of(all_codes, row),
                    )
                )
    encoder, _ = load_codec(work / "audio_tokenizer")
    rng = random.Random(7)
    for number in range(NEW):
        words = grammar.draw(grammar.PATTERNS[number % len(grammar.PATTERNS)], rng)
        samples = say_in_time(words, NEW_VOICE, rng.uniform(0.95, 1.08))
        label = {"voice": NEW_VOICE.name, "words": words, "text": grammar.written(words), "use": "train"}
        chosen.append((label, encoder.encode(samples[None])))
    ASSETS.mkdir(parents=True, exist_ok=True)
    lines, frame = [], 0
    for label, codes in chosen:
        lines.append(json.dumps({**label, "frame": frame, "frames": codes.shape[1]}))
        frame += codes.shape[1]
    (ASSETS / "clips.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    joined = torch.cat([codes.to(torch.uint8) for _, codes in chosen], dim=1).contiguous()
    save_file({"codes": joined}, ASSETS / "clips.safetensors")
