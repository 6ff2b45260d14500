"""Judges which words speech says (pocketsphinx with the demo grammar) and in which voice (nearest centroid).

The recognizer knows that it hears a sentence of the grammar, which is a strong prior. So a figure only means something
in comparison with espeak-ng's originals and with noise. Needs `pocketsphinx`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from demo_voice.making import grammar
from omnivoice.audio.resample import resample

RATE, HEARS_AT = 24_000, 16_000
SILENCE = 3_200  # samples around a sentence
BANDS, WINDOW = 40, 1024
# Wider than pocketsphinx's default of 7e-29, with which it misses entire originals of espeak-ng that begin with a short
# word ("good", "hello"): on 120 held-out sentences it understands 0.949 of the words by default and 0.979 with this.
WORD_BEAM = 1e-40


class Listener:
    """A speech recognizer for the sentences of a grammar in JSGF, such as the demo voice's."""

    def __init__(self, jsgf: str | None = None) -> None:
        import pocketsphinx  # type: ignore[import-untyped]

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "demo.gram")
            with open(path, "w", encoding="ascii") as file:
                file.write(grammar.jsgf() if jsgf is None else jsgf)
            self._decoder = pocketsphinx.Decoder(
                samprate=HEARS_AT, lm=None, jsgf=path, wbeam=WORD_BEAM, loglevel="FATAL"
            )

    def hear(self, samples: Tensor) -> str:
        """Return the lower-case words in [N] float32 at 24 kHz, or "" for none."""
        low = resample(samples[None].float(), RATE, HEARS_AT)[0]
        low = low * (0.1 / low.square().mean().sqrt().clamp(min=1e-4))
        low = torch.nn.functional.pad(low, (SILENCE, SILENCE))
        low = low + 1e-4 * torch.randn(len(low), generator=torch.Generator().manual_seed(0))
        raw = (low.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes()
        self._decoder.start_utt()
        self._decoder.process_raw(raw, full_utt=True)
        self._decoder.end_utt()
        heard = self._decoder.hyp()
        return heard.hypstr if heard else ""


def errors(said: str, heard: str) -> int:
    """Return the number of words that were substituted, deleted or inserted."""
    a, b = said.split(), heard.split()
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, start=1):
        last, row[0] = row[0], i
        for j, other in enumerate(b, start=1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (word != other))
    return row[-1]


def accuracy(said: Sequence[str], heard: Sequence[str]) -> tuple[float, float]:
    """Return (1 - word error rate, share of sentences without an error)."""
    wrong = [errors(a, b) for a, b in zip(said, heard)]
    return 1 - sum(wrong) / sum(len(a.split()) for a in said), sum(w == 0 for w in wrong) / len(wrong)


def log_mel(samples: Tensor, bands: int = BANDS) -> Tensor:
    """Return the log-mel spectrum [bands, L] of [N] at 24 kHz."""
    window = torch.hann_window(WINDOW)
    spectrum = torch.stft(samples, WINDOW, WINDOW // 4, window=window, return_complex=True).abs()
    return (mel_bank(bands, WINDOW) @ spectrum + 1e-3).log()


def mel_bank(bands: int, window: int) -> Tensor:
    """Return [bands, window // 2 + 1]: triangles of sum 1 that overlap by half, from 0 Hz to half the rate."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    at = np.linspace(0, RATE / 2, window // 2 + 1)
    rise = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    bank = np.maximum(0, np.minimum(rise, fall))
    narrow = bank.sum(1) == 0  # narrower than a bin: use the nearest one
    bank[narrow, np.abs(at[None] - edges[1:-1, None]).argmin(1)[narrow]] = 1
    return torch.from_numpy(bank / bank.sum(1, keepdims=True)).float()


class VoiceJudge:
    """Distinguishes voices by the mean and deviation of their log-mel spectrum."""

    def __init__(self, examples: dict[str, list[Tensor]]):
        """Learn from some recordings of each voice at 24 kHz, decoded by the codec."""
        features = {name: torch.stack([self._features(clip) for clip in clips]) for name, clips in examples.items()}
        self.names = sorted(features)
        self.scale = torch.cat(list(features.values())).std(dim=0).clamp(min=1e-3)
        self.centroids = torch.stack([features[name].mean(dim=0) for name in self.names])

    def voice(self, samples: Tensor) -> str:
        """Return the name of the nearest voice."""
        distance = ((self._features(samples) - self.centroids) / self.scale).square().sum(dim=1)
        return self.names[int(distance.argmin())]

    def _features(self, samples: Tensor) -> Tensor:
        mel = log_mel(samples * (0.1 / samples.square().mean().sqrt().clamp(min=1e-4)))
        return torch.cat((mel.mean(dim=1), mel.std(dim=1)))


def pitch_hz(samples: Tensor) -> float:
    """Return the median pitch of the voiced parts, by autocorrelation, or 0 if nothing is voiced."""
    window = torch.hann_window(1200)
    frames = samples.unfold(0, 1200, 480)
    frames = frames - frames.mean(dim=1, keepdim=True)
    loud = frames.square().mean(dim=1) > 0.1 * frames.square().mean()
    own, lags = (_autocorrelation(x) for x in (window[None], frames[loud] * window))
    low, high = RATE // 400, RATE // 75
    best, place = (lags / own)[:, low:high].max(dim=1)
    voiced = best > 0.6
    return float((RATE / (place[voiced] + low).float()).median()) if bool(voiced.any()) else 0.0


def _autocorrelation(x: Tensor) -> Tensor:
    """Return the autocorrelation [B, lags] of [B, N], scaled to 1 at lag 0."""
    lags = torch.fft.irfft(torch.fft.rfft(x, 4096).abs().square())
    return lags / lags[:, :1]
