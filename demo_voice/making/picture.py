"""`python -m demo_voice.making.picture`: draws the README's spectrogram, .github/demo-voice.png. Needs matplotlib.

It is the README's first sentence, spoken by the demo voice.
"""

from __future__ import annotations

import torch

from demo_voice.making.pack import ROOT
from omnivoice.engine import Engine
from omnivoice.types import GenerationRequest
from omnivoice.weights.demo import FILE

SENTENCE, SEED = "The weather is beautiful today.", 1
WINDOW, HOP = 1024, 240
RANGE_DB, TOP_HZ = 70, 8_000


def main() -> None:
    """Speak the sentence, compute its spectrogram and save the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    (speech,) = Engine.load(ROOT / FILE).generate([GenerationRequest(SENTENCE, seed=SEED)])
    samples, rate = speech.waveform.samples[0], speech.waveform.sample_rate
    spectrum = torch.stft(samples, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True).abs()
    decibels = 20 * (spectrum / spectrum.max()).clamp(min=1e-6).log10()
    figure, axes = pyplot.subplots(figsize=(7, 2.6), layout="constrained")
    picture = axes.imshow(
        decibels,
        origin="lower",
        aspect="auto",
        vmin=-RANGE_DB,
        vmax=0,
        cmap="magma",
        extent=(0, len(samples) / rate, 0, rate / 2000),
    )
    axes.set(ylim=(0, TOP_HZ / 1000), xlabel="seconds", ylabel="kHz", title=f"\u201c{SENTENCE}\u201d, demo voice")
    figure.colorbar(picture, label="dB")
    figure.savefig(ROOT / ".github" / "demo-voice.png", dpi=110)


if __name__ == "__main__":
    main()
