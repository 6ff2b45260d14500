"""Checkpoints: their files, their keys, loading them into modules, LoRAs, and export."""

from .files import CheckpointFiles, is_checkpoint, locate_checkpoint
from .load import load_lm
from .load_codec import load_codec_decoder, load_codec_encoder

__all__ = [
    "CheckpointFiles",
    "is_checkpoint",
    "load_codec_decoder",
    "load_codec_encoder",
    "load_lm",
    "locate_checkpoint",
]
