"""The voice library, models/omnivoice_voices: names, files, saving, loading, listening.

What is unusual: a voice is known by its file's name without the ending, since ComfyUI takes a combo value that ends
in .safetensors for a model to be downloaded. Saving the very voice that is there already is no error, so that a
workflow can be run again. Formats are the engine's (`intake.voice_files`).
"""

from __future__ import annotations

from dataclasses import replace
from os.path import isfile  # unlike Path.is_file, it never raises
from pathlib import Path

import comfy.model_management as mm
import torch
from comfy_execution.graph_utils import ExecutionBlocker

from ...omnivoice.constants import FRAME_RATE
from ...omnivoice.errors import FileError, InputError
from ...omnivoice.intake.folders import make_folder
from ...omnivoice.intake.limits import MAX_CONSENT_CHARS, MAX_LABEL_CHARS, check_text_length, shown
from ...omnivoice.intake.paths import check_file_name, find_like
from ...omnivoice.intake.voice_files import read_voice, write_voice
from ...omnivoice.text.languages import language_options
from ...omnivoice.types import VoicePrompt
from . import folders, models, values

FOLDER = "omnivoice_voices"
SUFFIX = ".safetensors"
AUTO = "auto"
NO_VOICE = "no voice found in models/omnivoice_voices"
HOW_TO_GET = "save one with OmniVoice Save Voice, or put a voice file there, and press R"
CONNECT_MODEL = "to listen to a saved voice, connect Load OmniVoice to the model input of OmniVoice Load Voice"


def register_voice_folder() -> None:
    """Make models/omnivoice_voices known to ComfyUI."""
    folders.register_folder(FOLDER, {SUFFIX})


def voice_files() -> dict[str, Path]:
    """Name -> file of every voice found just now; the first place of a name wins."""
    files = folders.entries(FOLDER, lambda path: path.suffix == SUFFIX and isfile(path))
    return {path.stem: path for path in reversed(files)}


def voice_names() -> list[str]:
    """The menu: names of the voices found, or one entry that says that there are none."""
    return sorted(voice_files()) or [NO_VOICE]


def voice_file(name: object) -> Path:
    """The file of a voice in a fresh list; a name is never joined to a path. Raises InputError."""
    files = voice_files()
    if isinstance(name, str) and name in files:
        return files[name]
    if not files:
        raise InputError(f"{NO_VOICE}: {HOW_TO_GET}")
    some = ", ".join(sorted(files)[:10]) + (" ..." if len(files) > 10 else "")
    raise InputError(f"voice_name must be one of {some}, got {shown(name)}: it may have been deleted; press R")


def voice_fingerprint(name: object) -> str:
    """Changes when the voice's file does; empty for a name that is linked or gone."""
    file = voice_files().get(name) if isinstance(name, str) else None
    if file is None:
        return ""
    status = file.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def check_voice_name(name: object) -> str:
    """A name for a new voice, without .safetensors, safe as a file name on every system; raises InputError."""
    text = check_text_length(name, name="name", limit=MAX_LABEL_CHARS).strip()
    stem = text[: -len(SUFFIX)] if text.lower().endswith(SUFFIX) else text
    if not stem:
        raise InputError("name must not be empty: say what the voice is to be called")
    return check_file_name(stem + SUFFIX)[: -len(SUFFIX)]


def save_voice(voice: VoicePrompt, name: object, language: object, consent: object, overwrite: object) -> str:
    """Write a voice into the library, and say so. Raises InputError, or FileError when writing fails."""
    labelled = _labelled(voice, name, language, consent)
    if not isinstance(overwrite, bool):
        raise InputError(f"overwrite must be true or false, got {shown(overwrite)}")
    folder = make_folder(folders.roots(FOLDER)[0])
    there = find_like(folder, labelled.name + SUFFIX)
    if there is not None and not overwrite:
        if _holds(there, labelled):
            return f"already saved: {describe(there.stem, labelled)}"
        raise InputError(
            f"a voice named {shown(there.stem)} is in the library already: choose another name, or switch overwrite on"
        )
    written = write_voice(there or folder / (labelled.name + SUFFIX), labelled, overwrite=overwrite)
    return f"saved: {describe(written.stem, labelled)}"


def load_voice(name: object) -> tuple[VoicePrompt, str]:
    """The voice, and a line about it. Raises InputError for a name that is not listed, FileError for a bad file."""
    file = voice_file(name)
    voice = read_voice(file)
    return voice, describe(file.stem, voice)


def listen(model: object, voice: VoicePrompt) -> object:
    """The voice's recording as AUDIO; without a model, what stops the nodes behind that output and says why."""
    if model is None:
        return ExecutionBlocker(CONNECT_MODEL)
    loaded = models.loaded(model)
    mm.load_models_gpu([loaded.decoder], memory_required=loaded.engine.estimate_decode_bytes(voice))
    return values.audio_from(loaded.engine.decode_voice(voice))


def describe(name: str, voice: VoicePrompt) -> str:
    """One line about a voice."""
    K, T = voice.codes.shape
    parts = [f"{T / FRAME_RATE:.1f} s", f"{K} codebooks", f"language {voice.language or 'not given'}"]
    return f"{name}: {', '.join(parts)}; consent: {voice.consent or 'not noted'}"


def _labelled(voice: VoicePrompt, name: object, language: object, consent: object) -> VoicePrompt:
    """The voice under its new name; language auto and an empty consent keep what it has."""
    note = check_text_length(consent, name="consent", limit=MAX_CONSENT_CHARS)
    known = {AUTO: voice.language, **{display: display for _, display in language_options()}}
    if not isinstance(language, str) or language not in known:
        raise InputError(f"language must be auto or a name from the list, got {shown(language)}")
    return replace(voice, name=check_voice_name(name), language=known[language], consent=note.strip() or voice.consent)


def _holds(file: Path, voice: VoicePrompt) -> bool:
    """Whether a file is this voice already."""
    try:
        there = read_voice(file)
    except FileError:
        return False
    labels = ("text", "rms", "name", "language", "consent")
    return torch.equal(there.codes, voice.codes) and all(getattr(there, a) == getattr(voice, a) for a in labels)
