"""Measures how well the codec keeps words and voices of the held-out sentences; writes judge-codec.json."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from demo_voice.making.codes import codes_of, load_codec
from demo_voice.making.judge import Listener, VoiceJudge, accuracy, pitch_hz
from demo_voice.making.speech import VOICES, as_float, load_speech, read_lines
from omnivoice.codec import CodecDecoder

EXAMPLES = 30  # training sentences per voice for the centroids


def judge_codec(speech: Path, tokenizer: Path, codes: Path) -> dict[str, object]:
    """Return and write the codec's figures.

    They are the word accuracy of the originals, of the round trip, of only the first codebooks, and of speech that must
    not be understood; how often the voice is recognized; and the pitch before and after.
    """
    _, decoder = load_codec(tokenizer)
    all_codes, rows = load_file(codes / "codes.safetensors")["codes"], read_lines(codes / "index.jsonl")
    _, recordings = load_speech(speech)
    tests = [i for i, row in enumerate(rows) if row["split"] == "test"]
    said, voices = [str(rows[i]["words"]) for i in tests], [str(rows[i]["voice"]) for i in tests]
    before = [as_float(recordings[i]) for i in tests]
    after = [decoder.decode(codes_of(all_codes, rows[i]))[0] for i in tests]
    listener = Listener()
    figures: dict[str, object] = {}
    for name, clips in (("original", before), ("round trip", after)):
        heard = [listener.hear(clip) for clip in clips]
        figures[name] = {"all": accuracy(said, heard), **_by_voice(said, heard, voices)}
        figures[f"{name}, pitch in Hz"] = {v: _pitch(clips, voices, v) for v in sorted(set(voices))}
        print(f"judge: {name} {figures[name]} {figures[f'{name}, pitch in Hz']}", flush=True)
    some = range(0, len(tests), 5)
    for books in (1, 2, 4):
        clips = [first_codebooks(decoder, codes_of(all_codes, rows[tests[i]]), books) for i in some]
        figures[f"first {books} codebooks"] = accuracy([said[i] for i in some], [listener.hear(c) for c in clips])
    shuffled = [said[(i + len(said) // 2 + 1) % len(said)] for i in some]
    figures["other texts"] = accuracy(shuffled, [listener.hear(after[i]) for i in some])
    noise = torch.Generator().manual_seed(0)
    clips = [0.1 * torch.randn(before[i].shape, generator=noise) for i in some]
    figures["noise"] = accuracy([said[i] for i in some], [listener.hear(c) for c in clips])
    judge = VoiceJudge(voice_examples(decoder, all_codes, rows))
    figures["voice recognized"] = sum(judge.voice(c) == v for c, v in zip(after, voices)) / len(voices)
    (codes / "judge-codec.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=2))
    return figures


def first_codebooks(decoder: CodecDecoder, codes: Tensor, books: int) -> Tensor:
    """Return [N]: the audio of codes [8, T] decoded from only the first codebooks."""
    with torch.no_grad():
        features = decoder.fc2(decoder.quantizer(codes[:books]))
        audio: Tensor = decoder.acoustic_decoder(features.T[None])[0, 0]
    return audio


def voice_examples(decoder: CodecDecoder, codes: Tensor, rows: list[dict[str, object]]) -> dict[str, list[Tensor]]:
    """Return training sentences of each voice, decoded by the codec, for `VoiceJudge`."""
    return {
        voice.name: [
            decoder.decode(codes_of(codes, row))[0]
            for row in [r for r in rows if r["split"] == "train" and r["voice"] == voice.name][:EXAMPLES]
        ]
        for voice in VOICES
    }


def _by_voice(said: list[str], heard: list[str], voices: list[str]) -> dict[str, tuple[float, float]]:
    return {
        voice: accuracy(*zip(*[(s, h) for s, h, v in zip(said, heard, voices) if v == voice]))
        for voice in sorted(set(voices))
    }


def _pitch(clips: list[Tensor], voices: list[str], voice: str) -> float:
    found = sorted(pitch_hz(clip) for clip, v in list(zip(clips, voices))[:60] if v == voice)
    return round(found[len(found) // 2], 1)
