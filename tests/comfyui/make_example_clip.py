"""Makes workflows/omnivoice_clip.mp4, the video of the dubbing example: the demo voice speaks, and a dot moves.

Not a test. Run it by hand from the repository's root: `python -m tests.comfyui.make_example_clip`. Needs PyAV.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from omnivoice.engine import Engine
from omnivoice.types import GenerationRequest
from omnivoice.weights.demo import demo_model

CLIP = Path(__file__).resolve().parents[2] / "workflows" / "omnivoice_clip.mp4"
TEXT = "The weather is beautiful today. [pause 500ms] We will meet on Monday at nine."
WIDTH, HEIGHT, FPS, RATE = 256, 144, 12, 24_000


def main() -> None:
    """Write the clip."""
    model = demo_model()
    assert model is not None, "the demo voice is part of the repository"
    (speech,) = Engine.load(model).generate([GenerationRequest(TEXT, design="male, high pitch", language="en", seed=5)])
    samples = speech.waveform.samples.numpy()
    with av.open(str(CLIP), "w") as file:
        video = file.add_stream("h264", rate=FPS, options={"crf": "30", "preset": "veryslow"})
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        sound = file.add_stream("aac", rate=RATE, layout="mono")
        for number in range(round(speech.seconds * FPS)):
            picture = av.VideoFrame.from_ndarray(_picture(number), format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, FPS)
            file.mux(video.encode(picture))
        file.mux(video.encode(None))
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout="mono")
        frame.sample_rate = RATE
        file.mux(sound.encode(frame))
        file.mux(sound.encode(None))
    print(f"{CLIP.name}: {speech.seconds:.2f} s, {CLIP.stat().st_size} bytes")


def _picture(number: int) -> np.ndarray:
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    picture = np.full((HEIGHT, WIDTH, 3), (32, 48, 64), dtype=np.uint8)
    centre = 28 + 4 * number % (WIDTH - 56)
    picture[(x - centre) ** 2 + (y - HEIGHT // 2) ** 2 < 400] = (240, 180, 60)
    return picture


if __name__ == "__main__":
    main()
