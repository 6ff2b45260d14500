"""The recogniser of `train`: a Whisper folder, read by the package transformers, which is imported here and only here.

It counts the words for stop_words_points. Only local files are read, weights from safetensors only, and no code that
comes with them is run.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.cuda import OutOfMemoryError

from ..audio.loudness import to_mono
from ..audio.resample import resample
from ..audio.windows import quiet_windows
from ..engine import Engine
from ..errors import CheckpointError, InputError, OmniVoiceError
from ..intake.limits import MAX_CONFIG_BYTES
from ..intake.paths import shown_name
from ..intake.strict_json import read_json
from ..productions.right_words import word_test
from ..text.languages import whisper_language_id
from ..train.trainer import Trainer
from ..train.words import OnWords
from ..types import Waveform
from ..weights.whisper_size import check_whisper_size

RATE_HZ = 16_000
WINDOW_SECONDS, LOOK_BACK_SECONDS = 30.0, 5.0
SILENCE = 1e-4  # peak below which Whisper is not asked, because it invents words for silence
_LOG = logging.getLogger("omnivoice_nodes")


class Recogniser:
    """A Whisper model that writes down what is said. model, extract, tokenizer: as transformers loads them."""

    def __init__(self, model: Any, extract: Any, tokenizer: Any) -> None:
        self._model, self._extract, self._tokenizer = model, extract, tokenizer

    def check_languages(self, languages: Iterable[str | None]) -> None:
        """Raise InputError for an id of a language that the model does not know."""
        for language in dict.fromkeys(languages):
            self._options(language)

    @torch.no_grad()
    def hear(self, waveforms: Sequence[Waveform], languages: Sequence[str | None]) -> list[str]:
        """Return what is said in each recording, empty for a silent one. languages: ids, None to detect it."""
        return [
            " ".join(self._text(part, self._options(language)) for part in _parts(waveform))
            for waveform, language in zip(waveforms, languages)
        ]

    def _options(self, language: str | None) -> dict[str, object]:
        config, name = self._model.generation_config, None if language is None else whisper_language_id(language)
        known = getattr(config, "lang_to_id", None)
        if known and getattr(config, "is_multilingual", True):
            if name is None or f"<|{name}|>" in known:
                return {"task": "transcribe", "language": name}
        elif name in (None, "en"):
            return {}
        raise InputError(
            f"the recogniser does not know the language {name}: take another, or leave stop_words_points out"
        )

    def _text(self, samples: Tensor, options: dict[str, object]) -> str:
        features = self._extract(samples.cpu().numpy(), sampling_rate=RATE_HZ, return_tensors="pt")["input_features"]
        features = features.to(device=self._model.device, dtype=self._model.dtype)
        mask = torch.ones(features.shape[0], features.shape[-1], device=features.device)
        ids = self._model.generate(features, attention_mask=mask, num_beams=1, do_sample=False, **options)
        return str(self._tokenizer.decode(ids[0], skip_special_tokens=True))


def _parts(waveform: Waveform) -> list[Tensor]:
    """Return pieces [N] of at most 30 s at 16 kHz without the silent ones."""
    samples = resample(to_mono(waveform.samples)[0], waveform.sample_rate, RATE_HZ)[0]
    pieces = quiet_windows(samples, RATE_HZ, longest_seconds=WINDOW_SECONDS, look_back_seconds=LOOK_BACK_SECONDS)
    return [piece for piece in pieces if float(piece.abs().max()) > SILENCE]


def load_recogniser(folder: Path, device: torch.device) -> Recogniser:
    """Read a Whisper folder, in fp16 on a GPU. Raises InputError, FileError or CheckpointError."""
    if not os.path.isfile(folder / "config.json"):
        raise InputError(
            f"recogniser must be the folder of a Whisper model (config.json ...), got {shown_name(folder)}"
        )
    config = read_json(folder / "config.json", limit=MAX_CONFIG_BYTES)
    if not isinstance(config, dict) or config.get("model_type") != "whisper":
        raise InputError(
            f"recogniser must be the folder of a Whisper model, and {shown_name(folder)} holds another one"
        )
    if os.path.isfile(folder / "adapter_config.json"):  # transformers would follow it to another model
        raise CheckpointError(f"{shown_name(folder)} holds a PEFT adapter: merge it into its model first")
    check_whisper_size(folder)
    dtype, place = torch.float16 if device.type == "cuda" else torch.float32, str(folder)
    try:
        from transformers import AutoTokenizer, WhisperFeatureExtractor, WhisperForConditionalGeneration
    except (ImportError, RuntimeError) as error:
        raise InputError(
            f"a recogniser needs the package transformers ({str(error).splitlines()[0][:120]}): pip install "
            "transformers, or leave recogniser and stop_words_points out"
        ) from error
    try:
        # All three read a folder on this machine: there is no revision that could be pinned.
        model = WhisperForConditionalGeneration.from_pretrained(  # nosec B615 # a folder
            place, local_files_only=True, use_safetensors=True, trust_remote_code=False, torch_dtype=dtype
        )
        extract = WhisperFeatureExtractor.from_pretrained(place, local_files_only=True)  # nosec B615 # a folder
        tokenizer = AutoTokenizer.from_pretrained(  # nosec B615 # a folder
            place, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).replace(place, folder.name).splitlines()[:1])[:200]
        raise CheckpointError(f"the recogniser {shown_name(folder)} could not be read: {reason}") from error
    return Recogniser(model.eval().requires_grad_(False).to(device), extract, tokenizer)


def word_counter(trainer: Trainer, engine: Engine, recogniser: Recogniser) -> OnWords:
    """Return a function that speaks texts of validation clips and returns the share of words that are heard right."""
    test = word_test(trainer.validation.clips if trainer.validation else (), trainer.settings.seed)
    engine.plan(test.requests)  # refuses an unspeakable text now, not in the middle of the run
    recogniser.check_languages(test.languages)

    def count(step: int) -> float:
        try:
            waveforms = [speech.waveform for speech in engine.generate(test.requests)]
            return test.share(recogniser.hear(waveforms, test.languages))
        except (OmniVoiceError, OutOfMemoryError) as error:
            _LOG.warning("the words were not counted at step %d: %s", step, error)
            return math.nan

    return count
