"""Checkpoint folders and their tensors: which files, which keys, and into which module they go."""

from .files import CheckpointFiles, is_checkpoint, locate_checkpoint
from .load import load_codec, load_lm

__all__ = ["CheckpointFiles", "is_checkpoint", "load_codec", "load_lm", "locate_checkpoint"]
