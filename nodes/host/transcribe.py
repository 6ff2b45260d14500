"""Whisper for the Transcribe node, by the transformers that ComfyUI brings along.

What is unusual: transformers is imported when the node runs and never before, reads local files alone, safetensors
alone, and no code from them. The model is wrapped in a module of its own, because ComfyUI's patcher writes an
attribute `device`, which transformers' models refuse; its layers are plain torch's, so it is always loaded whole. It
is held by nothing after the run: ComfyUI keeps the text, not the model.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import isfile  # unlike Path.is_file, it never raises
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

import comfy.model_management as mm
import comfy.model_patcher
import comfy.utils
import torch
from torch import Tensor, nn

from ...omnivoice.audio.resample import resample
from ...omnivoice.audio.windows import quiet_windows
from ...omnivoice.errors import AudioError, CheckpointError, FileError, InputError
from ...omnivoice.intake.limits import MAX_CONFIG_BYTES, shown
from ...omnivoice.intake.strict_json import read_json
from ...omnivoice.intake.tables import load_table
from ...omnivoice.intake.tensors import check_header
from ...omnivoice.intake.text_in import clean_text
from . import folders, values

FOLDERS = ("whisper", "transcribe", "audio_encoders")
AUTO = "auto"
NO_MODEL = "no Whisper model found in models/whisper"
OR_ANOTHER = "or connect the text of any other speech recognition node instead"
HOW_TO_GET = (
    "put a Whisper snapshot folder of Hugging Face's form, e.g. openai/whisper-large-v3-turbo (config.json, "
    "generation_config.json, preprocessor_config.json, tokenizer.json, model.safetensors), into ComfyUI's "
    f"models/whisper and press R, {OR_ANOTHER}"
)
RATE_HZ = 16_000
WINDOW_SECONDS, LOOK_BACK_SECONDS = 30.0, 5.0
SILENCE = 1e-4  # peak below which nothing is asked: Whisper makes words up for silence
MAX_SECONDS = 4 * 3600
_CLASSES = ("WhisperForConditionalGeneration", "WhisperFeatureExtractor", "AutoTokenizer")
_NEEDED = ("config.json", "preprocessor_config.json")
_TOKENIZERS = ("tokenizer.json", "vocab.json")
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


class FeatureExtractor(Protocol):
    """What is used of transformers' WhisperFeatureExtractor."""

    def __call__(self, samples: object, *, sampling_rate: int, return_tensors: str) -> Mapping[str, Tensor]: ...


class Tokenizer(Protocol):
    """What is used of transformers' tokenizers."""

    def decode(self, ids: Tensor, *, skip_special_tokens: bool) -> str: ...


class WhisperModule(nn.Module):
    """A model of transformers as ComfyUI's patcher needs it."""

    def __init__(self, whisper: nn.Module, dtype: torch.dtype):
        super().__init__()
        self.whisper, self._dtype = whisper, dtype

    def get_dtype(self) -> torch.dtype:
        """What ComfyUI asks for."""
        return self._dtype


@dataclass(frozen=True, eq=False)
class Whisper:
    """A loaded model: ComfyUI's patcher around it, and what turns sound into its input and its output into text."""

    patcher: comfy.model_patcher.ModelPatcher
    extractor: FeatureExtractor
    tokenizer: Tokenizer

    @property
    def holder(self) -> WhisperModule:
        """The module in the patcher."""
        return cast(WhisperModule, self.patcher.model)


# Models.


def model_folders() -> dict[str, Path]:
    """Name -> folder of every Whisper model found just now; the first place of a name wins."""
    found: dict[str, Path] = {}
    for key in FOLDERS:
        for folder in folders.entries(key, is_whisper):
            found.setdefault(folder.name, folder)
    return found


def is_whisper(folder: Path) -> bool:
    """Whether a folder looks like a Whisper snapshot that can be read here; cheap, for menus."""
    if not all(isfile(folder / name) for name in _NEEDED):
        return False
    if not any(isfile(folder / name) for name in _WEIGHTS) or not any(isfile(folder / name) for name in _TOKENIZERS):
        return False
    try:
        config = read_json(folder / "config.json", limit=MAX_CONFIG_BYTES)
    except FileError:
        return False
    return isinstance(config, dict) and config.get("model_type") == "whisper"


def model_names() -> list[str]:
    """The menu: names of the models found, or one entry that says that there are none."""
    return [*model_folders()] or [NO_MODEL]


def model_folder(name: object) -> Path:
    """The folder of a model in a fresh list. Raises InputError that says what to put where."""
    return folders.chosen(model_folders(), name, missing=f"{NO_MODEL}: {HOW_TO_GET}")


def languages() -> dict[str, str]:
    """Display name -> id of the languages that Whisper knows."""
    return cast("dict[str, str]", load_table("text/whisper_languages.json"))


def load_whisper(name: object) -> Whisper:
    """Read the named model, ready for ComfyUI to move. Raises InputError, CheckpointError or FileError."""
    folder, transformers = model_folder(name), _transformers()
    for weights in folder.glob("*.safetensors"):
        check_header(weights)
    if isfile(folder / "adapter_config.json"):  # transformers would follow it to another model
        raise CheckpointError(f"{folder.name} holds an adapter, not a model: merge it first")
    load_device, offload_device = mm.get_torch_device(), mm.unet_offload_device()
    dtype = _dtype(load_device)
    local = {"local_files_only": True}
    try:
        model = transformers.WhisperForConditionalGeneration.from_pretrained(
            str(folder), **local, use_safetensors=True, trust_remote_code=False, torch_dtype=dtype
        )
        extractor = transformers.WhisperFeatureExtractor.from_pretrained(str(folder), **local)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **local, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = str(error).replace(str(folder), folder.name).splitlines()[:1]
        raise CheckpointError(
            f"the Whisper model {folder.name} could not be read ({type(error).__name__}: {' '.join(reason)[:200]}): "
            f"fetch it again, {OR_ANOTHER}"
        ) from error
    holder = WhisperModule(model.eval().requires_grad_(False), dtype)
    patcher = comfy.model_patcher.CoreModelPatcher(holder, load_device=load_device, offload_device=offload_device)
    mm.archive_model_dtypes(holder)
    return Whisper(patcher, extractor, tokenizer)


def _transformers() -> ModuleType:
    """The library; raises CheckpointError that says what is missing."""
    try:
        transformers = importlib.import_module("transformers")
        for name in _CLASSES:
            getattr(transformers, name)  # imported only now, with what they need in turn
    except (ImportError, AttributeError, RuntimeError) as error:
        raise CheckpointError(
            f"Transcribe needs the Python package transformers, 4.50 or newer, which ComfyUI brings along "
            f"({type(error).__name__}: {str(error).splitlines()[0][:120]}): run pip install -r requirements.txt of "
            f"ComfyUI with its Python, {OR_ANOTHER}"
        ) from error
    return transformers


def _dtype(device: torch.device) -> torch.dtype:
    """float32 on CPUs and MPS; else fp16, as Whisper is published, where ComfyUI would take it."""
    if mm.is_device_cpu(device) or mm.is_device_mps(device):
        return torch.float32
    dtype = mm.unet_dtype(device, supported_dtypes=[torch.float16, torch.float32])
    return dtype if dtype in (torch.float16, torch.float32) else torch.float32


# Speech to text.


def transcribe(audio: object, name: object, language: object) -> list[str]:
    """The text of each recording in an AUDIO batch, in order; a silent one's is empty, and needs no model.

    Raises InputError or AudioError before a model is read, CheckpointError for one that cannot be.
    """
    known = {AUTO: None, **languages()}
    if not isinstance(language, str) or language not in known:
        raise InputError(f"language must be auto or a name from the list, got {shown(language)}")
    recordings = [_windows(recording) for recording in _recordings(audio)]
    if not any(recordings):
        return [""] * len(recordings)
    model = load_whisper(name)
    options = _options(model.holder.whisper, known[language])
    mm.load_models_gpu([model.patcher], memory_required=_working_bytes(model), force_full_load=True)
    bar = comfy.utils.ProgressBar(sum(map(len, recordings)))

    def heard(window: Tensor) -> str:
        text = _heard(model, window, options)
        bar.update(1)
        return text

    return [" ".join(filter(None, map(heard, windows))) for windows in recordings]


def _recordings(audio: object) -> list[Tensor]:
    """Each recording of an AUDIO batch as [N] at 16 kHz; raises AudioError."""
    found = []
    for waveform in values.waveforms_from(audio):
        if waveform.samples.shape[1] == 0:
            raise AudioError("audio is empty: load or record it again")
        if not bool(torch.isfinite(waveform.samples).all()):
            raise AudioError("audio holds NaN or Inf: load or record it again")
        mono = waveform.samples.mean(dim=0, keepdim=True)
        found.append(resample(mono, waveform.sample_rate, RATE_HZ)[0])
    return found


def _windows(samples: Tensor) -> list[Tensor]:
    """Pieces of at most 30 s, cut where it is quiet; none of a silent recording."""
    if samples.shape[0] > MAX_SECONDS * RATE_HZ:
        raise AudioError(f"audio must be at most {MAX_SECONDS // 3600} hours long: split it into parts")
    pieces = quiet_windows(samples, RATE_HZ, longest_seconds=WINDOW_SECONDS, look_back_seconds=LOOK_BACK_SECONDS)
    return [piece for piece in pieces if float(piece.abs().max()) > SILENCE]


def _options(whisper: nn.Module, language: str | None) -> dict[str, object]:
    """What to ask of generate(); English-only models refuse a language. Raises InputError for one it does not know."""
    config = whisper.generation_config
    known = getattr(config, "lang_to_id", None)
    if not getattr(config, "is_multilingual", bool(known)) or not known:
        if language not in (None, "en"):
            raise InputError("this Whisper model knows English alone: choose auto, or another model")
        return {}
    if language is not None and f"<|{language}|>" not in known:
        raise InputError("this Whisper model does not know that language: choose auto, or another model")
    return {"task": "transcribe", "language": language}


def _heard(model: Whisper, samples: Tensor, options: Mapping[str, object]) -> str:
    """The text of one window [N]."""
    features = model.extractor(samples.cpu().numpy(), sampling_rate=RATE_HZ, return_tensors="pt")["input_features"]
    features = features.to(device=model.patcher.load_device, dtype=model.holder.get_dtype())
    mm.throw_exception_if_processing_interrupted()
    ids = model.holder.whisper.generate(
        features,
        attention_mask=torch.ones(features.shape[0], features.shape[-1], device=features.device),
        stopping_criteria=[_stop_if_interrupted],
        num_beams=1,
        do_sample=False,
        **options,
    )
    text = model.tokenizer.decode(ids[0], skip_special_tokens=True)
    return " ".join(clean_text(text, name="transcript").split())


def _stop_if_interrupted(ids: Tensor, scores: object, **_: object) -> Tensor:
    """Asked by generate() after every token: never stops it, but a cancel raises here."""
    mm.throw_exception_if_processing_interrupted()
    return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)


def _working_bytes(model: Whisper) -> int:
    """Beside the weights, at most: of one encoder layer, and of keys and values of all decoder layers."""
    config = model.holder.whisper.config
    frames = int(WINDOW_SECONDS * 100)
    layer = frames * (8 * config.d_model + 2 * config.encoder_ffn_dim)
    layer += config.encoder_attention_heads * (frames // 2) ** 2
    kept = 2 * config.decoder_layers * config.d_model * (frames // 2 + config.max_target_positions)
    return 4 * (layer + kept)
