"""The HiggsAudio v2 codec for inference: 24 kHz audio to codes and back, 8 codebooks, 25 frames per second."""

from .keys import (
    TRAINING_ONLY_PREFIXES,
    TRAINING_ONLY_SUFFIXES,
    WEIGHT_NORM_PAIRS,
    WEIGHT_NORM_TARGET,
    fold_weight_norm,
    is_training_only,
)
from .model import CodecDecoder, CodecEncoder

__all__ = [
    "TRAINING_ONLY_PREFIXES",
    "TRAINING_ONLY_SUFFIXES",
    "WEIGHT_NORM_PAIRS",
    "WEIGHT_NORM_TARGET",
    "CodecDecoder",
    "CodecEncoder",
    "fold_weight_norm",
    "is_training_only",
]
