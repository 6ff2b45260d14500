"""Record what upstream does to audio: the golden data of tests/unit/audio.

usage: record_audio.py CHECKPOINT OUT.safetensors        (writes tests/assets/audio/upstream.safetensors)
Runs in an environment of its own with omnivoice 0.2.1 and torchaudio; CHECKPOINT is any OmniVoice folder, whose codec
is replaced by one that keeps or returns audio. Inputs are synthetic and stored with the results, 16-bit where exact.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import torch
import torchaudio
from omnivoice.models.omnivoice import OmniVoiceGenerationConfig
from omnivoice.utils.audio import cross_fade_chunks, fade_and_pad_audio, remove_silence
from safetensors.torch import save_file

from omnivoice import OmniVoice

RATE_PAIRS = [
    (8000, 24000),
    (11025, 24000),
    (16000, 24000),
    (22050, 24000),
    (32000, 24000),
    (44100, 24000),
    (48000, 24000),
    (96000, 24000),
    (192000, 24000),
    (24000, 16000),
    (24000, 44100),
    (11025, 16000),
    (47952, 24000),
    (23976, 24000),
]
rng = np.random.default_rng(20)
store: dict[str, torch.Tensor] = {}
index: dict[str, dict[str, object]] = {}


def bursts(rate: int, *parts: tuple[float, float]) -> np.ndarray:
    """[1, N] float32 on the 16-bit grid: noise parts of (seconds, RMS)."""
    pieces = [rng.standard_normal(round(seconds * rate)) * level for seconds, level in parts]
    return (np.clip(np.round(np.concatenate(pieces) * 32768), -32768, 32767) / 32768).astype(np.float32)[None]


def keep(name: str, array: np.ndarray) -> None:
    """As int16 if that is exact, else as float32."""
    grid = np.round(array * 32768)
    exact = np.array_equal(grid / 32768, array) and np.array_equal(grid, grid.clip(-32768, 32767))
    store[name] = torch.from_numpy(np.ascontiguousarray(grid.astype(np.int16) if exact else array))


def record_resample() -> None:
    noise = rng.uniform(-1, 1, (1, 201)).astype(np.float32)
    keep("resample/in", noise)
    for old, new in RATE_PAIRS:
        keep(f"resample/{old}/{new}", torchaudio.functional.resample(torch.from_numpy(noise), old, new).numpy())


def record_silence() -> None:
    low, edge = 0.001, 10 ** (-50 / 20)
    parts = [(0.2, low), (0.1, 0.1), (0.3, edge * 0.99), (0.05, edge * 1.02), (0.3, low), (0.1, 0.2), (0.1371, low)]
    clip = bursts(11025, *parts)
    short = bursts(24000, (0.12, 0), (0.03, 0.02), (0.0103, 0))
    keep("silence/clip", clip)
    keep("silence/short", short)
    for name, rate, samples, args in [
        ("reference", 11025, clip, (200, 100, 200)),
        ("output", 11025, clip, (500, 50, 70)),
        ("edges", 24000, short, (0, 10, 0)),
        ("short", 24000, short, (200, 100, 100)),
    ]:
        keep(f"silence/out/{name}", remove_silence(samples, rate, *args))
        index[f"silence/out/{name}"] = {"in": "clip" if samples is clip else "short", "rate": rate, "ms": args}


def record_joins() -> None:
    chunks = [bursts(1000, (0.25, 0.2)), bursts(1000, (0.201, 0.2)), bursts(1000, (0.4, 0.2))]
    for i, chunk in enumerate(chunks):
        keep(f"join/in/{i}", chunk)
    keep("join/out", cross_fade_chunks(chunks, 1000))
    for pad, fade in [(0.1, 0.1), (0.0, 0.3), (0.05, 0.0)]:
        keep(f"fade/{pad}/{fade}", fade_and_pad_audio(chunks[0], pad, fade, 1000))


def record_prompts(model: OmniVoice) -> None:
    taken: list[torch.Tensor] = []

    def encode(samples: torch.Tensor) -> SimpleNamespace:
        taken.append(samples[0])
        return SimpleNamespace(audio_codes=torch.zeros(1, 8, 4, dtype=torch.long))

    model.audio_tokenizer.encode = encode
    mono = bursts(16000, (0.13, 0.0005), (0.2, 0.04), (0.26, 0), (0.1, 0.08))
    stereo = np.concatenate([bursts(11025, (0.35, 0.2), (0.25, 0.001)), bursts(11025, (0.35, 0.15), (0.25, 0.001))])
    for name, rate, samples in [("mono", 16000, mono), ("stereo", 11025, stereo)]:
        prompt = model.create_voice_clone_prompt((torch.from_numpy(samples), rate), ref_text="As it was said.")
        keep(f"prompt/in/{name}", samples)
        keep(f"prompt/out/{name}", taken[-1].numpy())
        index[f"prompt/out/{name}"] = {"rate": rate, "rms": prompt.ref_rms}


def record_finish(model: OmniVoice) -> None:
    chunks = [bursts(24000, (0.05, 0.001), (0.15, 0.07)), bursts(24000, (0.1, 0.1), (0.12, 0.001))]
    for i, chunk in enumerate(chunks):
        keep(f"finish/in/{i}", chunk)
    for name, count, rms, pad, fade in [("voice", 2, 0.03, 0.01, 0.02), ("auto", 1, None, 0.0, 0.1)]:
        left = iter(chunks)
        model.audio_tokenizer.decode = lambda codes, left=left: SimpleNamespace(
            audio_values=torch.from_numpy(next(left).copy())[None]
        )
        config = OmniVoiceGenerationConfig()
        config.pad_duration, config.fade_duration = pad, fade
        result = model._decode_and_post_process([torch.zeros(8, 1)] * count, rms, config)
        keep(f"finish/out/{name}", result[None])
        index[f"finish/out/{name}"] = {"chunks": count, "rms": rms, "pad": pad, "fade": fade}


def main() -> None:
    checkpoint, out = sys.argv[1:3]
    torch.set_num_threads(1)
    model = OmniVoice.from_pretrained(checkpoint, device_map="cpu", dtype=torch.float32)
    record_resample()
    record_silence()
    record_joins()
    record_prompts(model)
    record_finish(model)
    save_file(store, out, metadata={"index": json.dumps(index)})
    for name, tensor in store.items():
        print(name, tuple(tensor.shape), tensor.dtype)


if __name__ == "__main__":
    main()
