"""The exception family of the engine.

Every error a caller can provoke derives from `OmniVoiceError`, and its text says what is wrong, what was
given, what is allowed and what to do. `assert` is kept for the engine's own invariants. Nothing here knows
about files, tensors or ComfyUI.
"""

from __future__ import annotations


class OmniVoiceError(Exception):
    """Base of all errors the engine raises on purpose."""


class InputError(OmniVoiceError, ValueError):
    """A value the caller gave is out of range, of the wrong type or contradicts another one."""


class TextError(InputError):
    """A text cannot be spoken: empty, too long, or nothing speakable is left of it."""


class AudioError(InputError):
    """A recording cannot be used: empty, silent, too short, not finite, or not a readable audio file."""


class FileError(OmniVoiceError):
    """A file is missing, partial, corrupt, too large, or not of the format it claims."""


class CheckpointError(FileError):
    """A model folder or weight file does not hold an OmniVoice model that this engine can run."""


class LoraError(FileError):
    """A LoRA cannot be applied to this model: damaged, of another model, or of a kind that is not supported."""


class NumericError(OmniVoiceError):
    """The model produced NaN or Inf: the weights or the precision are at fault, not the request."""
