"""The exception family of the engine.

Every error that a caller can provoke derives from `OmniVoiceError`. Its text says what is wrong, what was given, what
is allowed and what to do. `assert` is only for the engine's own invariants.
"""

from __future__ import annotations

from torch.cuda import OutOfMemoryError  # torch.OutOfMemoryError is the same class, under a name new in torch 2.5


class OmniVoiceError(Exception):
    """Base of all errors the engine raises on purpose."""


class InputError(OmniVoiceError, ValueError):
    """A value from the caller is out of range, of the wrong type or contradicts another value."""


class TextError(InputError):
    """A text cannot be spoken: it is empty, too long, or contains nothing speakable."""


class AudioError(InputError):
    """A recording cannot be used: empty, silent, too short, not finite, or not a readable audio file."""


class FileError(OmniVoiceError):
    """A file is missing, incomplete, corrupt, too large, or not in the format it claims to be."""


class DiskFullError(FileError):
    """A file cannot be written because the disk, or the user's share of it, is full."""


class LockedError(FileError):
    """Another process, or another run of this one, is using the folder."""


class CheckpointError(FileError):
    """A model folder or weight file does not contain an OmniVoice model that this engine can run."""


class LoraError(FileError):
    """A LoRA cannot be applied to this model: it is damaged, belongs to another model, or is of an unsupported kind."""


class NumericError(OmniVoiceError):
    """The model produced NaN or Inf because of its weights or the precision, not because of the request."""


class ProcessError(OmniVoiceError):
    """Another process of the same run has ended, so this one cannot go on."""


class DeviceError(OmniVoiceError):
    """The device has failed, and this process can compute nothing more on it."""


class DeviceMemoryError(OmniVoiceError, OutOfMemoryError):
    """The device has too little memory for a run. Hosts that free memory when torch runs out of it do so here too."""
