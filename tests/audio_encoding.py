"""Test recordings: a tone, noise, and files that FFmpeg writes through PyAV."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import av
import numpy as np


def tone(rate: int, seconds: float = 0.5) -> np.ndarray:
    """[N] float32: 440 Hz at 0.3 of full scale."""
    return (0.3 * np.sin(np.arange(int(rate * seconds)) * 2 * np.pi * 440 / rate)).astype(np.float32)


def noise(rate: int, seconds: float) -> np.ndarray:
    """[N] float32: the same white noise every time."""
    return np.random.default_rng(0).uniform(-0.5, 0.5, int(rate * seconds)).astype(np.float32)


def encode(
    path: Path,
    kind: str,
    codec: str,
    samples: np.ndarray,
    rate: int,
    channels: int = 1,
    *,
    codec_options: Mapping[str, str] = {},
    options: Mapping[str, str] = {},
    tags: Mapping[str, str] = {},
) -> Path:
    """Write the samples as a file of that container and codec, the same in every channel."""
    layout = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}[channels]
    with av.open(str(path), "w", format=kind, options=dict(options)) as container:
        container.metadata.update(tags)
        stream = container.add_stream(codec, rate=rate, layout=layout, options=dict(codec_options))
        data = np.repeat(np.round(samples * 32767).astype(np.int16), channels)[None]
        frame = av.AudioFrame.from_ndarray(data, format="s16", layout=layout)
        frame.sample_rate = rate
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return path
