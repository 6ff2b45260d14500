"""The HiggsAudio v2 codec for inference: 24 kHz audio to codes and back, 8 codebooks, 25 frames per second."""

from .model import CodecDecoder, CodecEncoder

__all__ = ["CodecDecoder", "CodecEncoder"]
