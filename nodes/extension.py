"""The list of nodes that ComfyUI registers. At start, the pack's folders in models/ are registered as well."""

from __future__ import annotations

from comfy_api.latest import ComfyExtension, io

from . import host
from .audio import AudioImage, JoinAudio
from .dataset import Dataset
from .design import VoiceDesignAttributes
from .dialogue import Dialogue
from .dictionary import PronunciationDictionary
from .disclose import Disclose
from .download import Download
from .edit import EditSpeech
from .load import LoadOmniVoice
from .long_text import LongText
from .lora import ApplyLoRA
from .preview import PreviewText
from .redo import Redo
from .reference import ReferenceAudio
from .settings import OmniVoiceSettings
from .subtitles import Subtitles
from .synthesize import Synthesize
from .takes import Takes
from .timing import FramesToSeconds, SecondsToFrames
from .timings import Timings
from .train import TrainLoRA
from .training_settings import TrainingSettings
from .transcribe import Transcribe
from .voices import LoadVoice, SaveVoice


class OmniVoiceExtension(ComfyExtension):
    """The pack as ComfyUI knows it."""

    async def on_load(self) -> None:
        host.models.register_model_folder()
        host.voices.register_voice_folder()

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        return [
            LoadOmniVoice,
            ReferenceAudio,
            VoiceDesignAttributes,
            Synthesize,
            OmniVoiceSettings,
            SaveVoice,
            LoadVoice,
            Download,
            Transcribe,
            ApplyLoRA,
            Dataset,
            TrainLoRA,
            TrainingSettings,
            JoinAudio,
            SecondsToFrames,
            FramesToSeconds,
            AudioImage,
            Dialogue,
            Timings,
            Subtitles,
            LongText,
            PronunciationDictionary,
            PreviewText,
            Takes,
            EditSpeech,
            Redo,
            Disclose,
        ]
