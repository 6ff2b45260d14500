"""Trains the demo codec on the espeak-ng speech, which takes 45 minutes on one core.

The loss compares spectra only; it has no waveform term and no adversary. No window is under 512 samples, because short
windows make the codes carry the phase of the glottal pulses, which is noise to the language model. Some examples are
decoded from only the first few codebooks, so that these carry the most important information. The state is saved every
minute. Data and random numbers depend only on the seed and the step, so a resumed run gives the same result.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from demo_voice.making.codec_model import SIZES, DemoCodec, codec_config
from demo_voice.making.judge import mel_bank
from demo_voice.making.speech import HOP, as_float, load_speech

STEPS, WARM_STEPS = 2_400, 150  # steps of encoder and decoder; how many of these are without codebooks
POLISH_STEPS, POLISH_RATE = 1_000, 6e-4  # further steps that train only the decoder; the codes do not change
EXAMPLES, FRAMES = 6, 32
RATE_TOP, RATE_END, HOLD = 1e-3, 2e-5, 0.3
BETAS = (0.8, 0.99)
WINDOWS = {2048: 80, 1024: 80, 512: 64}  # samples: mel bands
FLOOR = 2e-3
LOW_HZ, ABOVE = 4_500, 0.3  # the weight of linear bins above this frequency
NOISE = 0.05  # added to the features while there are no codebooks
COMMITMENT = 0.25
FEWER = 0.5  # share of examples decoded from only the first few codebooks
CLIP = 1.0
SHARDS = 8  # of the speech; two hours are enough
SAVE_SECONDS, LOG_STEPS = 60, 25


StepLosses = Callable[[int, torch.Generator], tuple[Tensor, list[float]]]


class Spectra:
    """The distance of two recordings in log spectra (mel and linear) and in magnitude."""

    def __init__(self) -> None:
        self.windows = {w: torch.hann_window(w) / math.sqrt(3 / 8 * w) for w in WINDOWS}
        self.banks = {w: mel_bank(bands, w) for w, bands in WINDOWS.items()}
        self.weights = {w: torch.where(torch.fft.rfftfreq(w, 1 / 24_000) < LOW_HZ, 1.0, ABOVE) for w in WINDOWS}

    def __call__(self, audio: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the (mel, linear, relative) losses of [B, N] against a target [B, N]."""
        mel = linear = relative = audio.new_zeros(())
        for w, window in self.windows.items():
            a, b = (_magnitude(x, window) for x in (audio, target))
            bank, weight = self.banks[w], self.weights[w][:, None]
            mel = mel + ((bank @ a + FLOOR).log() - (bank @ b + FLOOR).log()).abs().mean()
            linear = linear + (((a + FLOOR).log() - (b + FLOOR).log()).abs() * weight).mean() / weight.mean()
            relative = relative + (a - b).abs().sum() / b.sum()
        return mel / len(WINDOWS), linear / len(WINDOWS), relative / len(WINDOWS)


def _magnitude(x: Tensor, window: Tensor) -> Tensor:
    size = len(window)
    spectrum = torch.stft(x, size, size // 4, window=window, return_complex=True)
    return (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()


def settings(*, seed: int) -> dict[str, object]:
    """Return all values that the codec depends on, except the speech."""
    return {
        "seed": seed,
        "steps": [STEPS, WARM_STEPS, POLISH_STEPS],
        "batch": [EXAMPLES, FRAMES],
        "rate": [RATE_TOP, RATE_END, HOLD, POLISH_RATE],
        "betas": list(BETAS),
        "windows": {str(w): bands for w, bands in WINDOWS.items()},
        "fewer": FEWER,
        "spectra": [FLOOR, LOW_HZ, ABOVE],
        "noise": NOISE,
        "commitment": COMMITMENT,
        "clip": CLIP,
        "shards": SHARDS,
        "sizes": list(SIZES),
        "codec": asdict(codec_config()),
    }


def learning_rate(step: int) -> float:
    """Return the learning rate of a step: it rises, stays, and falls as a cosine."""
    if step < HOLD * STEPS:
        return RATE_TOP * min(1.0, (step + 1) / 60)
    if step < STEPS:
        return cosine(RATE_TOP, (step / STEPS - HOLD) / (1 - HOLD))
    return cosine(POLISH_RATE, (step - STEPS) / POLISH_STEPS)


def cosine(top: float, done: float) -> float:
    """Return the rate after the share `done` of a cosine from `top` to RATE_END."""
    return RATE_END + (top - RATE_END) * 0.5 * (1 + math.cos(math.pi * done))


def batch(clips: list[np.ndarray], generator: torch.Generator, examples: int = EXAMPLES) -> Tensor:
    """Return random crops [B, 1, N]; a short clip is followed by silence."""
    crops = torch.zeros(examples, 1, FRAMES * HOP)
    for crop in crops:
        clip = clips[int(torch.randint(len(clips), (), generator=generator))]
        start = int(torch.randint(max(1, len(clip) - FRAMES * HOP + 1), (), generator=generator))
        part = as_float(clip[start : start + FRAMES * HOP])
        crop[0, : len(part)] = part
    return crops


def train_codec(speech: Path, folder: Path, *, seed: int) -> DemoCodec:
    """Train the codec, or resume from the state in `folder`, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    index, recordings = load_speech(speech, SHARDS)
    clips = [clip for row, clip in zip(index, recordings) if row["split"] == "train"]
    codec, spectra = DemoCodec(), Spectra()
    codec.start(seed)

    def step_losses(step: int, generator: torch.Generator) -> tuple[Tensor, list[float]]:
        if step == WARM_STEPS:
            _initialize_codebooks(codec, clips, generator)
        return losses(codec, spectra, batch(clips, generator), step, generator)

    learning = [p for p in codec.parameters() if p.requires_grad]
    run_steps(codec, learning, folder / "state.pt", STEPS + POLISH_STEPS, step_losses, learning_rate, seed=seed)
    return codec


def run_steps(
    codec: DemoCodec,
    learning: list[torch.nn.Parameter],
    state: Path,
    steps: int,
    losses: StepLosses,
    rate: Callable[[int], float],
    *,
    seed: int,
) -> None:
    """Train the parameters in `learning`, resuming from the file `state` if it exists.

    `losses` returns the loss of a step and the numbers to print.
    """
    optimizer = torch.optim.AdamW(learning, lr=rate(0), betas=BETAS, weight_decay=1e-3, foreach=True)
    first = 0
    if state.is_file():
        saved = torch.load(state, weights_only=True)
        codec.load_state_dict(saved["codec"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    last_saved, began, seen = time.monotonic(), time.monotonic(), []
    for step in range(first, steps):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        optimizer.param_groups[0]["lr"] = rate(step)
        loss, shown = losses(step, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(learning, CLIP)
        optimizer.step()
        seen.append([*shown, float(norm)])
        if (step + 1) % LOG_STEPS == 0:
            values = " ".join(f"{value:.3f}" for value in np.mean(seen, axis=0))
            pace = (time.monotonic() - began) / (step + 1 - first)
            print(f"codec: step {step + 1}: {values}, {pace:.2f} s per step", flush=True)
            seen = []
        if time.monotonic() - last_saved > SAVE_SECONDS or step + 1 in (STEPS, steps):
            _save(state, {"codec": codec.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1})
            last_saved = time.monotonic()


def losses(
    codec: DemoCodec, spectra: Spectra, audio: Tensor, step: int, generator: torch.Generator
) -> tuple[Tensor, list[float]]:
    """Return the loss and its parts: mel, linear and relative spectra, commitment, used share of the first codebook."""
    polish = step >= STEPS
    with torch.autocast("cpu", torch.bfloat16, enabled=not polish), torch.set_grad_enabled(not polish):
        features = codec.encode(audio)
    features = features.float().transpose(1, 2)  # [B, T, WIDTH]
    commitment, alive = features.new_zeros(()), 0.0
    if step < WARM_STEPS:
        quantized = features + NOISE * torch.randn(features.shape, generator=generator)
    else:
        fewer = torch.rand(len(audio), generator=generator) < (0 if polish else FEWER)
        some = torch.randint(1, len(SIZES), (len(audio),), generator=generator)
        used = torch.where(fewer, some, len(SIZES))
        quantized, commitment, alive = codec.books(features, used, generator, move=not polish)
    with torch.autocast("cpu", torch.bfloat16):
        decoded = codec.decode(quantized.transpose(1, 2))
    mel, linear, relative = spectra(decoded.float()[:, 0], audio[:, 0])
    loss = mel + linear + 0.5 * relative + COMMITMENT * commitment
    return loss, [float(torch.as_tensor(part).detach()) for part in (mel, linear, relative, commitment, alive)]


def _initialize_codebooks(codec: DemoCodec, clips: list[np.ndarray], generator: torch.Generator) -> None:
    with torch.no_grad():
        found = [codec.encode(batch(clips, generator)).transpose(1, 2).flatten(0, 1) for _ in range(40)]
    codec.books.start(torch.cat(found), generator)


def _save(path: Path, state: dict[str, object]) -> None:
    temporary = path.with_name(f"new-{path.name}")
    torch.save(state, temporary)
    os.replace(temporary, path)
