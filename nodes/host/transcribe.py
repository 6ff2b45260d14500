"""Runs Whisper for the Transcribe node, with the transformers package that ComfyUI brings along.

transformers is imported when the node runs and never before. It reads local files only, safetensors only, and runs
no code from them. Its models refuse the attribute `device` that ComfyUI's patcher writes, so `WhisperModule` wraps
them. Their layers are plain torch layers, so the model is always loaded in full. Nothing holds it after the run:
ComfyUI caches the text, not the model.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import isfile  # unlike Path.is_file, it never raises
from pathlib import Path
from types import ModuleType

import comfy.model_management as mm
import comfy.model_patcher
import comfy.utils
import torch
from torch import Tensor, nn

from ...omnivoice.audio.loudness import to_mono
from ...omnivoice.audio.resample import resample
from ...omnivoice.audio.windows import quiet_windows
from ...omnivoice.errors import AudioError, CheckpointError, FileError, InputError
from ...omnivoice.intake.limits import MAX_CONFIG_BYTES
from ...omnivoice.intake.strict_json import read_json
from ...omnivoice.intake.text_in import clean_text
from ...omnivoice.productions.timings import RECOGNISED, TimedLine, timed_line
from ...omnivoice.text.languages import whisper_language_id
from ...omnivoice.types import Waveform
from ...omnivoice.weights.whisper_size import check_whisper_size
from . import folders, models, values, whisper_words

FOLDERS = ("whisper", "transcribe", "audio_encoders")
AUTO = "auto"
NO_MODEL = "no Whisper model found in models/whisper"
OR_ANOTHER = "or connect the text of any other speech recognition node instead"
HOW_TO_GET = (
    "put a folder with a Whisper model from Hugging Face, e.g. openai/whisper-large-v3-turbo (config.json, "
    "generation_config.json, preprocessor_config.json, tokenizer.json, model.safetensors), into "
    "ComfyUI/models/whisper, press R and choose it"
)
RATE_HZ = 16_000
WINDOW_SECONDS, LOOK_BACK_SECONDS = 30.0, 5.0
SILENCE = 1e-4  # peak below which Whisper is not asked, because it invents words for silence
MAX_SECONDS = 4 * 3600
_CLASSES = ("WhisperForConditionalGeneration", "WhisperFeatureExtractor", "AutoTokenizer")
_NEEDED = ("config.json", "preprocessor_config.json")
_TOKENIZERS = ("tokenizer.json", "vocab.json")
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


class WhisperModule(nn.Module):
    """Wraps a transformers model for ComfyUI's patcher."""

    def __init__(self, whisper: nn.Module, dtype: torch.dtype):
        super().__init__()
        self.whisper, self._dtype = whisper, dtype

    def get_dtype(self) -> torch.dtype:
        """Return the dtype of the weights; ComfyUI calls this."""
        return self._dtype


@dataclass(frozen=True, eq=False)
class Whisper:
    """A loaded model, ComfyUI's patcher around it, and the calls of its feature extractor and of its tokenizer."""

    name: str
    module: WhisperModule
    patcher: comfy.model_patcher.ModelPatcher
    extract: Callable[..., Mapping[str, Tensor]]
    decode: Callable[..., str]


@dataclass(frozen=True)
class Heard:
    """What a recording says: the text, and a line with its words and times for each piece of at most 30 s."""

    text: str
    lines: tuple[TimedLine, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Window:
    """A piece of a recording. start: in samples at 16 kHz. samples: [N]."""

    start: int
    samples: Tensor


def model_folders() -> dict[str, Path]:
    """Return {name: folder} of every Whisper model found just now; the first place of a name wins."""
    return folders.entries(is_whisper, *FOLDERS)


def is_whisper(folder: Path) -> bool:
    """Whether `folder` looks like a Whisper model that can be read here; cheap enough for menus."""
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
    """Return the menu: the names of the models found, or one entry that says that none was found."""
    return [*model_folders()] or [NO_MODEL]


def model_folder(name: object, *, input_name: str = "model_name", otherwise: str = OR_ANOTHER) -> Path:
    """Return the folder of a model in a list made just now; raises InputError that says what to put where.

    otherwise: what else the message advises.
    """
    found = model_folders()
    missing = f"{NO_MODEL}: {HOW_TO_GET}, {otherwise}"
    return found[folders.chosen(input_name, name, found, missing=missing)]


def load_whisper(name: object, *, input_name: str = "model_name", otherwise: str = OR_ANOTHER) -> Whisper:
    """Read the named model so that ComfyUI can move it; raises InputError, CheckpointError or FileError."""
    folder = model_folder(name, input_name=input_name, otherwise=otherwise)
    transformers = _transformers(otherwise)
    check_whisper_size(folder)
    if isfile(folder / "adapter_config.json"):  # transformers would follow it to another model
        raise CheckpointError(
            f"{folder.name} holds a PEFT adapter, not a complete model: merge it into its model first"
        )
    load_device, offload_device = mm.get_torch_device(), mm.unet_offload_device()
    dtype = models.comfy_dtype(load_device, torch.float16, torch.float32)  # fp16, as Whisper is published
    place = str(folder)
    try:
        model = transformers.WhisperForConditionalGeneration.from_pretrained(
            place, local_files_only=True, use_safetensors=True, trust_remote_code=False, torch_dtype=dtype
        )
        extractor = transformers.WhisperFeatureExtractor.from_pretrained(place, local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = str(error).replace(place, folder.name).splitlines()[:1]
        raise CheckpointError(
            f"the Whisper model {folder.name} could not be read ({type(error).__name__}: {' '.join(reason)[:200]}): "
            f"download its folder again, {otherwise}"
        ) from error
    module = WhisperModule(model.eval().requires_grad_(False), dtype)
    patcher = models.patcher_of(module, load_device, offload_device)
    return Whisper(folder.name, module, patcher, extractor, tokenizer.decode)


def _transformers(otherwise: str) -> ModuleType:
    """Return the package; raises CheckpointError that says what is missing."""
    try:
        transformers = importlib.import_module("transformers")
        for name in _CLASSES:
            getattr(transformers, name)  # transformers imports each class, and what it needs, only now
    except (ImportError, AttributeError, RuntimeError) as error:
        raise CheckpointError(
            f"Whisper needs the Python package transformers, 4.50 or newer, which ComfyUI brings along "
            f"({type(error).__name__}: {str(error).splitlines()[0][:120]}): run pip install -r requirements.txt in "
            f"ComfyUI's folder with ComfyUI's Python, {otherwise}"
        ) from error
    return transformers


def transcribe(
    audio: object, name: object, language: object, *, word_times: bool = False
) -> tuple[list[Heard], tuple[str, ...]]:
    """Return what each recording in an AUDIO batch says, in order, and warnings.

    The text of a silent recording is empty; if all are silent, no model is read. word_times: let Whisper say when each
    word begins; otherwise, and for models that cannot, the times are estimates. Raises InputError or AudioError before
    a model is read, and CheckpointError for a model that cannot be read.
    """
    return _heard(values.recordings_from([audio]), name, whisper_language_id(_or_auto(language)), word_times=word_times)


def texts_of(recordings: Sequence[Waveform], name: object, language: object) -> list[str]:
    """Return the text of each recording; Whisper finds out the language if it does not know the given one."""
    try:
        language_id = whisper_language_id(_or_auto(language))
    except InputError:
        language_id = None
    return [heard.text for heard in _heard(recordings, name, language_id)[0]]


def _or_auto(language: object) -> object:
    return AUTO if language is None else language


def _heard(
    waveforms: Sequence[Waveform], name: object, language_id: str | None, *, word_times: bool = False
) -> tuple[list[Heard], tuple[str, ...]]:
    recordings, warnings = list[list[Window]](), list[str]()
    for label, waveform in zip(values.labels("recording", len(waveforms)), waveforms):
        with values.naming(label):
            recordings.append(_windows(waveform))
        if not recordings[-1]:
            warnings.append(f"{label or 'the recording'} is silent, so its transcript is empty")
    if not any(recordings):
        return [Heard("", (), waveform.seconds) for waveform in waveforms], tuple(warnings)
    model = load_whisper(name)
    options = _options(model, language_id)
    if word_times and not whisper_words.can_time(model.module.whisper):
        warnings.append(f"the Whisper model {model.name} cannot time words, so their times are estimates")
        word_times = False
    memory = _working_bytes(model) + (whisper_words.working_bytes(model.module.whisper) if word_times else 0)
    mm.load_models_gpu([model.patcher], memory_required=memory, force_full_load=True)
    bar = comfy.utils.ProgressBar(sum(map(len, recordings)))

    def line_of(window: Window) -> TimedLine:
        line = _window_line(model, window, options, word_times=word_times)
        bar.update(1)
        return line

    heard = []
    for windows, waveform in zip(recordings, waveforms):
        lines = [line for line in map(line_of, windows) if line.text]
        heard.append(Heard(" ".join(line.text for line in lines), tuple(lines), waveform.seconds))
    return heard, tuple(warnings)


def hear(model: Whisper, waveforms: Sequence[Waveform], languages: Sequence[str | None]) -> list[str]:
    """Return what is said in each recording, empty for a silent one. languages: Whisper's ids, None to detect it."""
    mm.load_models_gpu([model.patcher], memory_required=_working_bytes(model), force_full_load=True)
    texts = []
    for waveform, language in zip(waveforms, languages, strict=True):
        lines = [_window_line(model, part, _options(model, language)) for part in _windows(waveform)]
        texts.append(" ".join(line.text for line in lines if line.text))
    return texts


def check_languages(model: Whisper, languages: Iterable[str | None]) -> None:
    """Raise InputError for a language that the model does not know."""
    for language in dict.fromkeys(languages):
        _options(model, language)


def _windows(waveform: Waveform) -> list[Window]:
    """Return pieces of at most 30 s at 16 kHz, cut at quiet places, without the silent ones; raises AudioError."""
    N, rate = waveform.samples.shape[1], waveform.sample_rate
    if N == 0:
        raise AudioError("audio is empty: load or record it again")
    if N / rate > MAX_SECONDS:
        raise AudioError(f"audio must be at most {MAX_SECONDS // 3600} hours long: split it into parts")
    samples = resample(to_mono(waveform.samples)[0], rate, RATE_HZ)[0]
    pieces = quiet_windows(samples, RATE_HZ, longest_seconds=WINDOW_SECONDS, look_back_seconds=LOOK_BACK_SECONDS)
    starts = itertools.accumulate([0, *(piece.shape[0] for piece in pieces)])
    return [Window(start, piece) for start, piece in zip(starts, pieces) if float(piece.abs().max()) > SILENCE]


def _options(model: Whisper, language: str | None) -> dict[str, object]:
    """Return the options of generate(), with no language for English-only models, which refuse one.

    Raises InputError for a language that the model does not know.
    """
    config = model.module.whisper.generation_config
    known = getattr(config, "lang_to_id", None)
    if known and getattr(config, "is_multilingual", True):
        if language is None or f"<|{language}|>" in known:
            return {"task": "transcribe", "language": language}
        problem = f"does not know the language {language}"
    elif language in (None, "en"):
        return {}
    else:
        problem = f"knows only English, got language {language}"
    raise InputError(f"the Whisper model {model.name} {problem}: choose auto or another model")


def _window_line(
    model: Whisper, window: Window, options: Mapping[str, object], *, word_times: bool = False
) -> TimedLine:
    """Return the text of a window with the times of its words in the recording."""
    samples = window.samples
    features = model.extract(samples.cpu().numpy(), sampling_rate=RATE_HZ, return_tensors="pt")["input_features"]
    features = features.to(device=model.patcher.load_device, dtype=model.module.get_dtype())
    mask = torch.ones(features.shape[0], features.shape[-1], device=features.device)
    if word_times:
        mask = mask.long()  # transformers counts its ones
        mask[:, -(-samples.shape[0] * 100 // RATE_HZ) :] = 0  # words lie in the sound, not in the silence after it
        options = dict(options, return_token_timestamps=True)
    mm.throw_exception_if_processing_interrupted()
    made = model.module.whisper.generate(
        features, attention_mask=mask, stopping_criteria=[_stop_if_interrupted], num_beams=1, do_sample=False, **options
    )
    ids = made["sequences"][0] if word_times else made[0]
    text = " ".join(clean_text(model.decode(ids, skip_special_tokens=True), name="transcript").split())
    line = timed_line(text, window.start, samples[None].cpu(), sample_rate=RATE_HZ)
    if not word_times:
        return line
    tokens = whisper_words.tokens_of(ids, made["token_timestamps"][0], model.decode)
    words = whisper_words.timed_words(tokens, window.start / RATE_HZ)
    return replace(line, words=tuple(words), words_are=RECOGNISED)


def _stop_if_interrupted(ids: Tensor, scores: object, **_: object) -> Tensor:
    """Never stop generate(), which calls this after every token; raise when the user presses Cancel."""
    mm.throw_exception_if_processing_interrupted()
    return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)


def _working_bytes(model: Whisper) -> int:
    """Return an upper bound of the working memory: one encoder layer, and the key-value cache of all decoder layers."""
    config = model.module.whisper.config
    frames = int(WINDOW_SECONDS * 100)
    layer = frames * (8 * config.d_model + 2 * config.encoder_ffn_dim)
    layer += config.encoder_attention_heads * (frames // 2) ** 2
    cache = 2 * config.decoder_layers * config.d_model * (frames // 2 + config.max_target_positions)
    return 4 * (layer + cache)
