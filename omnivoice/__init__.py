"""OmniVoice in plain torch: zero-shot speech in 600+ languages by masked discrete diffusion.

The public surface: load an `Engine`, encode a voice, generate. See `engine.Engine`.
"""

from .engine import Engine
from .errors import AudioError, CheckpointError, FileError, InputError, NumericError, OmniVoiceError, TextError
from .intake.audio_files import read_audio, write_wav
from .types import GenerationRequest, Sampling, Speech, Waveform
from .voice import VoiceDesign, VoicePrompt

__all__ = [
    "AudioError",
    "CheckpointError",
    "Engine",
    "FileError",
    "GenerationRequest",
    "InputError",
    "NumericError",
    "OmniVoiceError",
    "Sampling",
    "Speech",
    "TextError",
    "VoiceDesign",
    "VoicePrompt",
    "Waveform",
    "read_audio",
    "write_wav",
]
