"""The numbers that the codec fixes for every model: sample rate, samples per frame, frames per second."""

SAMPLE_RATE = 24_000
HOP = 960
FRAME_RATE = 25
