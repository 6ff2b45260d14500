"""The voice library, models/omnivoice_voices: names, files, saving, loading, previews.

A voice is known by its file's path in the library without the suffix, such as `anna` or `series/anna`: ComfyUI takes
a combo value that ends in .safetensors for a model to download. Saving a voice that is there already, with the same
content, is not an error, so a workflow can be run again. The file format is the engine's (`intake.voice_files`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os.path import isdir, lexists  # unlike Path's methods, they never raise
from pathlib import Path

import comfy.model_management as mm
import torch
from comfy_execution.graph_utils import ExecutionBlocker

from ...omnivoice.constants import FRAME_RATE
from ...omnivoice.errors import FileError, InputError
from ...omnivoice.intake.folders import make_folder
from ...omnivoice.intake.limits import MAX_CONSENT_CHARS, MAX_LABEL_CHARS, check_switch, check_text_length, shown
from ...omnivoice.intake.paths import check_file_name, find_like, match_name
from ...omnivoice.intake.voice_files import clean_label, clean_voice_text, read_voice, write_voices
from ...omnivoice.text.languages import language_id, language_options
from ...omnivoice.text.vocabulary import MAX_NAMED
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
    """Return {name: file} of every voice in the library, subfolders included."""
    return folders.files_below(FOLDER, SUFFIX)


def voice_names() -> list[str]:
    """Return the menu: the names of all voices, or one entry that says that none was found."""
    return sorted(voice_files()) or [NO_VOICE]


def find_voice(name: object) -> Path:
    """Return the file of a voice in a fresh list; raises InputError if it is not there."""
    files, given = voice_files(), _without_suffix(name) if isinstance(name, str) else name
    return files[folders.chosen("voice_name", given, dict(sorted(files.items())), missing=f"{NO_VOICE}: {HOW_TO_GET}")]


def load_voice(name: object) -> tuple[VoicePrompt, str]:
    """Return the voice and one line about it; raises InputError for an unknown name, FileError for a bad file."""
    file = find_voice(name)
    voice = read_voice(file)
    return voice, describe(_name_of(file), voice)


def preview(model: object, voice: VoicePrompt) -> object:
    """Return the voice's recording as AUDIO; without a model, a blocker that says what to connect.

    Raises InputError for a voice that was made with another codec than this model's.
    """
    if model is None:
        return ExecutionBlocker(CONNECT_MODEL)
    loaded = models.loaded(model)
    mm.load_models_gpu([loaded.decoder], memory_required=loaded.engine.estimate_decode_bytes(voice))
    return values.audio_from(loaded.engine.decode_voice(voice))


def describe(name: str, voice: VoicePrompt) -> str:
    """Return one line about a voice."""
    K, T = voice.codes.shape
    codec, language = voice.codec or "unknown", voice.language or "not given"
    about = f"{T / FRAME_RATE:.1f} s, {K} codebooks, codec {codec}, language {language}"
    return f"{name}: {about}; consent: {voice.consent or 'not noted'}"


# Saving.


def check_voice_name(name: object) -> str:
    """Return the name of a voice to save, such as `anna` or `series/anna`, in NFC; raises InputError.

    Every part is safe as a file name on every system, so the path stays in the library. `\\` counts as `/`, and the
    suffix .safetensors may be given.
    """
    text = check_text_length(name, name="name", limit=MAX_LABEL_CHARS).strip()
    *parents, stem = _without_suffix(text).replace("\\", "/").split("/")
    if not stem and not parents:
        raise InputError("name must not be empty: enter a name for the voice")
    if len(parents) > folders.MAX_DEPTH:
        raise InputError(f"name may have at most {folders.MAX_DEPTH} subfolders, got {len(parents)}: {shown(text)}")
    try:
        return "/".join([*map(check_file_name, parents), check_file_name(stem + SUFFIX)[: -len(SUFFIX)]])
    except InputError as error:
        raise InputError(f"name {shown(text)} cannot be used: {error}") from None


def save_voices(
    voices: Sequence[object],
    names: Sequence[object],
    languages: Sequence[object],
    consents: Sequence[object],
    overwrite: object,
) -> list[str]:
    """Write voices into the library, all or none, and return one line about each.

    Names, languages and consents are one for all voices or one for each. One name for several voices is numbered.
    Raises InputError, or FileError when writing fails.
    """
    check_switch("overwrite", overwrite)
    labelled = _labelled(voices, names, languages, consents)
    targets = {name: _target(name) for name in labelled}
    same = [] if overwrite else [name for name, file in targets.items() if _holds(file, labelled[name])]
    taken = [] if overwrite else [file for name, file in targets.items() if name not in same and lexists(file)]
    if taken:
        some = " or ".join(shown(_name_of(file)) for file in taken[:MAX_NAMED])
        raise InputError(f"a voice named {some} is in the library already: choose another name, or switch overwrite on")
    new = [name for name in labelled if name not in same]
    for name in new:
        make_folder(targets[name].parent)
    written = write_voices([(targets[name], labelled[name]) for name in new], overwrite=overwrite)
    targets |= dict(zip(new, written))
    return [
        f"{'already saved' if name in same else 'saved'}: {describe(_name_of(targets[name]), voice)}"
        for name, voice in labelled.items()
    ]


def _labelled(
    voices: Sequence[object], names: Sequence[object], languages: Sequence[object], consents: Sequence[object]
) -> dict[str, VoicePrompt]:
    """Return {name: voice with its labels}. Language auto and an empty consent keep what the voice has."""
    count = len(voices)
    if not count:
        raise InputError("voice is an empty list: connect at least one voice")
    checked = [check_voice_name(name) for name in _each("name", names, count)]
    if len(names) == 1 and count > 1:
        checked = [check_voice_name(f"{checked[0]} {number}") for number in range(1, count + 1)]
    found: dict[str, VoicePrompt] = {}
    each = (checked, _each("language", languages, count), _each("consent", consents, count))
    for label, value, name, language, consent in zip(values.labels("voice", count), voices, *each):
        voice = values.checked(VoicePrompt, value, label or "voice", "Reference Audio")
        note = clean_label("" if consent is None else consent, "consent", MAX_CONSENT_CHARS)
        if match_name(name, found) is not None:
            raise InputError(f"name {shown(name)} is given twice: give each voice a different name")
        known = language_id(language)
        found[name] = replace(
            voice,
            text=clean_voice_text(voice.text),
            name=clean_label(name.rpartition("/")[2], "name"),
            language=voice.language if known is None else dict(language_options()).get(known, f"id:{known}"),
            consent=note or voice.consent,
        )
    return found


def _each(name: str, given: Sequence[object], count: int) -> Sequence[object]:
    """Return `count` values: the one that was given for all, or one for each; raises InputError."""
    if len(given) not in (1, count):
        raise InputError(f"{name} must be one value, or as many as there are voices ({count}), got {len(given)}")
    return given if len(given) == count else [given[0]] * count


def _target(name: str) -> Path:
    """Return the file to write: one whose name differs in case or Unicode form only, or a new one.

    Raises InputError if a link among the subfolders leads out of the library.
    """
    root = folders.roots(FOLDER)[0]
    path = root
    for part in f"{name}{SUFFIX}".split("/"):
        path = (find_like(path, part) if isdir(path) else None) or path / part
    folders.check_inside(path.parent, root, "name", name)
    return path


def _holds(file: Path, voice: VoicePrompt) -> bool:
    """Whether a file holds this voice, with the same labels."""
    try:
        saved = read_voice(file)
    except FileError:
        return False
    labels = ("text", "rms", "language", "consent", "codec")
    return torch.equal(saved.codes, voice.codes) and all(getattr(saved, a) == getattr(voice, a) for a in labels)


def _name_of(file: Path) -> str:
    """Return the name of a voice: the path of its file below its place in the library, without the suffix."""
    root = next(root for root in folders.roots(FOLDER) if file.is_relative_to(root))
    return _without_suffix(file.relative_to(root).as_posix())


def _without_suffix(name: str) -> str:
    return name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else name
