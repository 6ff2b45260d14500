"""Recordings to train on: which folders may be chosen, and their clips encoded with progress and cancel.

What is unusual: a folder is chosen from a list made just now, of subfolders of input/ and of the `datasets` folders
that newer ComfyUI has; links that leave input/ are not listed, and no file outside the chosen folder is read, whatever
a list in it names. Codes are kept in ComfyUI's user folder. Reading and checking are the engine's (`train.dataset`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from os.path import isdir  # unlike Path.is_dir, it never raises
from pathlib import Path

import comfy.model_management as mm
import comfy.utils
import folder_paths
import torch

from ...omnivoice.constants import SAMPLE_RATE
from ...omnivoice.errors import FileError, InputError
from ...omnivoice.intake.limits import MAX_CLIP_SECONDS, MAX_TEXT_CHARS, check_text_length, shown
from ...omnivoice.text.languages import language_options
from ...omnivoice.train.clips import Dataset
from ...omnivoice.train.dataset import build_dataset, graph_rows
from ...omnivoice.train.manifests import Manifest, dataset_stamp, is_within, read_manifest
from ...omnivoice.types import Waveform
from . import folders, models, values

KEY = "datasets"
CACHE = "omnivoice_codes"
NO_FOLDER = "none (use the audio input)"
AUTO = "auto"


def dataset_folders() -> dict[str, Path]:
    """Name -> subfolder of input/, at any depth, or folder in a place of `datasets`, found just now."""
    top = Path(folder_paths.get_input_directory())
    inputs = {name: top / name for name in folder_paths.get_input_subfolders()}
    found = {name: folder for name, folder in inputs.items() if _is_shown(name) and is_within(folder, top)}
    known = KEY in folder_paths.folder_names_and_paths
    for folder in folders.entries(KEY, isdir) if known else []:
        if _is_shown(folder.name):
            found.setdefault(f"{KEY}/{folder.name}", folder)
    return found


def _is_shown(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/"))


def folder_names() -> list[str]:
    """The menu."""
    return [NO_FOLDER, *sorted(dataset_folders())]


def dataset_folder(name: object) -> Path | None:
    """The folder in a fresh list, None for the entry that stands for none; raises InputError."""
    if name == NO_FOLDER:
        return None
    folders = dataset_folders()
    if isinstance(name, str) and name in folders:
        return folders[name]
    raise InputError(
        f"folder must be a folder in ComfyUI's input or datasets folder, got {shown(name)}: press R to refresh the list"
    )


def refusal(name: object) -> bool | str:
    """For validation: True, or the words of the refusal. A linked value, which is None, passes."""
    for one in name if isinstance(name, list) else [name]:
        try:
            if one is not None:
                dataset_folder(one)
        except InputError as error:
            return str(error)
    return True


def fingerprint(name: object) -> str:
    """Changes when a file in the folder does; empty for a name that is linked or gone, and for none."""
    stamps = []
    for one in name if isinstance(name, list) else [name]:
        folder = dataset_folders().get(one) if isinstance(one, str) else None
        if folder is not None:
            with contextlib.suppress(FileError):
                stamps.append(dataset_stamp(folder))
    return " ".join(stamps)


def rows_from(name: object, audio: Sequence[object] | None, text: Sequence[object] | None) -> Manifest:
    """The rows of the chosen folder, or of the recordings that are connected; exactly one of the two."""
    folder, given = dataset_folder(name), [one for one in audio or () if one is not None]
    if folder is None and not given:
        raise InputError("no recordings given: choose a folder, or connect the audio input")
    if folder is not None and given:
        raise InputError(f"two sources given: disconnect the audio input, or set folder to {NO_FOLDER!r}")
    if folder is not None:
        if any(texts := _texts(text or (), 0)):
            raise InputError(
                f"text goes with the audio input, got {len(texts)} lines: empty it, the folder has its own"
            )
        return read_manifest(folder, root=folder)
    waveforms = [waveform for one in given for waveform in values.waveforms_from(one)]
    return graph_rows(waveforms, _texts(text or (), len(waveforms)))


def _texts(given: Sequence[object], count: int) -> list[str]:
    """A text for each of `count` recordings: the list itself, or the lines of its one string."""
    texts = [check_text_length(text, name="text", limit=MAX_TEXT_CHARS) for text in given]
    if len(texts) != 1 or count == 1:
        return texts
    return [line for line in texts[0].splitlines() if line.strip()]


def encode(model: models.LoadedModel, rows: Manifest, language: object, instruct: object) -> Dataset:
    """Clips of codes, with progress and cancel after each; language and instruct are for rows without their own."""
    known = {AUTO: None, **{name: code for code, name in language_options()}}
    if not isinstance(language, str) or language not in known:
        raise InputError(f"language must be auto or a name from the list, got {shown(language)}")
    words = check_text_length(instruct, name="instruct", limit=MAX_TEXT_CHARS)
    longest = Waveform(torch.zeros(1, 1).expand(1, MAX_CLIP_SECONDS * SAMPLE_RATE), SAMPLE_RATE)
    mm.load_models_gpu([model.encoder], memory_required=model.engine.estimate_encode_bytes(longest, "text"))
    bar = comfy.utils.ProgressBar(len(rows.rows))

    def on_clip(done: int, total: int) -> None:
        bar.update_absolute(done, total)
        mm.throw_exception_if_processing_interrupted()

    return build_dataset(
        rows,
        model.engine.encoder,
        model.encoder.load_device,
        language=known[language],
        instruct=words,
        cache=Path(folder_paths.get_user_directory()) / CACHE,
        on_clip=on_clip,
    )


def warnings(dataset: Dataset) -> tuple[str, ...]:
    """What the user should look at, in a line each."""
    if not dataset.rejected:
        return dataset.notes
    first = dataset.rejected[0]
    lost = f"{len(dataset.rejected)} of {dataset.rows} clips are not used; the report names them; {first.name}: "
    return (lost + first.reason, *dataset.notes)
