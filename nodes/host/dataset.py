"""Recordings to train on: the folders that can be chosen, and clips encoded with progress and cancel.

The menu lists subfolders of input/ and of the `datasets` folders of newer ComfyUI versions, fresh each time. Links that
leave input/ are not listed, and no file outside the chosen folder is read, whatever its lists name. Codes are cached in
ComfyUI's user folder. The engine reads and checks the recordings (`train.dataset`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import isdir  # unlike Path.is_dir, it never raises
from pathlib import Path

import comfy.model_management as mm
import comfy.utils
import folder_paths
import torch

from ...omnivoice.constants import SAMPLE_RATE
from ...omnivoice.errors import AudioError, InputError
from ...omnivoice.intake.limits import MAX_CLIP_SECONDS, MAX_TEXT_CHARS, check_text_length
from ...omnivoice.text.languages import language_id, language_label
from ...omnivoice.train.clips import Dataset
from ...omnivoice.train.dataset import build_dataset, graph_rows
from ...omnivoice.train.manifests import read_manifest
from ...omnivoice.train.recordings import dataset_stamp, is_within
from ...omnivoice.train.rows import Manifest
from ...omnivoice.types import Waveform
from . import folders, models, values

KEY = "datasets"
CACHE = "omnivoice_codes"
NO_FOLDER = "none (use the audio input)"


def dataset_folders() -> dict[str, Path]:
    """Return {name: folder}: subfolders of input/ at any depth, and folders directly in a `datasets` folder."""
    top = Path(folder_paths.get_input_directory())
    inputs = {name: top / name for name in folder_paths.get_input_subfolders()}
    found = {name: folder for name, folder in inputs.items() if _is_listed(name) and is_within(folder, top)}
    known = KEY in folder_paths.folder_names_and_paths
    for name, folder in folders.entries(isdir, KEY).items() if known else ():
        if _is_listed(name):
            found.setdefault(f"{KEY}/{name}", folder)
    return found


def _is_listed(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/"))


def folder_names() -> list[str]:
    """Return the menu."""
    return [NO_FOLDER, *sorted(dataset_folders())]


def dataset_folder(name: object) -> Path | None:
    """Return the folder that `name` means in a fresh list, None for the entry that means no folder.

    Raises InputError.
    """
    found = dataset_folders()
    return None if name == NO_FOLDER else found[folders.chosen("folder", name, found, none=NO_FOLDER)]


def fingerprint(names: object) -> str:
    """Return a text that changes when a file in the folder does; empty if the name is linked, unknown or no folder."""
    given = names if isinstance(names, list) else [names]
    return " ".join(folders.fingerprint(dataset_folder, name, dataset_stamp) for name in given)


def rows_from(name: object, audio: Sequence[object] | None, text: Sequence[object] | None) -> Manifest:
    """Return the rows of the chosen folder, or of the connected recordings; raises InputError unless it is one of
    the two."""
    folder, given = dataset_folder(name), _connected(audio)
    if folder is None and not given:
        raise InputError("no recordings given: choose a folder, or connect the audio input")
    if folder is not None and given:
        raise InputError(f"two sources given: disconnect the audio input, or set folder to {NO_FOLDER!r}")
    if folder is not None:
        if any(texts := _texts(text, 0)):
            raise InputError(
                f"text belongs to the audio input, got {len(texts)} lines: empty it, the folder has its own transcripts"
            )
        return read_manifest(folder, root=folder)
    recordings: list[Waveform | InputError] = []
    for item in given:
        try:
            recordings += values.waveforms_from(item)
        except AudioError as error:
            if not isinstance(item, Mapping):  # something else is connected
                raise AudioError(f"clip {len(recordings) + 1}: {error}") from error
            recordings.append(error)
    return graph_rows(recordings, _texts(text, len(recordings)))


def _connected(given: Sequence[object] | None) -> list[object]:
    """Return the values of an optional list input. If all are None, nothing is connected, and the list is empty."""
    return [] if all(one is None for one in given or ()) else [*(given or ())]


def _texts(given: Sequence[object] | None, count: int) -> list[str]:
    """Return a text for each of `count` recordings: the list itself, or the lines of its only string."""
    texts = [check_text_length(text, name="text", limit=MAX_TEXT_CHARS) for text in _connected(given)]
    if len(texts) != 1 or count == 1:
        return texts
    return [line for line in texts[0].splitlines() if line.strip()]


def encode(model: models.LoadedModel, rows: Manifest, language: object, instruct: object) -> Dataset:
    """Return the dataset, encoded with progress; cancel is heard after each clip and while one is read.

    language and instruct are for rows without their own. Raises InputError.
    """
    spoken = language_id(language, model.engine.rules.languages)
    words = check_text_length("" if instruct is None else instruct, name="instruct", limit=MAX_TEXT_CHARS)
    longest = Waveform(torch.zeros(1, 1).expand(1, MAX_CLIP_SECONDS * SAMPLE_RATE), SAMPLE_RATE)
    mm.load_models_gpu([model.encoder], memory_required=model.engine.estimate_encode_bytes(longest, "text"))
    bar = comfy.utils.ProgressBar(len(rows.rows))

    def on_clip(done: int, total: int) -> None:
        bar.update_absolute(done, total)
        mm.throw_exception_if_processing_interrupted()

    return build_dataset(
        rows,
        model.engine.codec.encoder,
        model.encoder.load_device,
        language=language_label(spoken) if spoken else None,
        instruct=words,
        cache=Path(folder_paths.get_user_directory()) / CACHE,
        on_clip=on_clip,
        on_read=mm.throw_exception_if_processing_interrupted,
        rules=model.engine.rules,
    )


def warnings(dataset: Dataset) -> tuple[str, ...]:
    """Return what the user should know, one line each."""
    if not dataset.rejected:
        return dataset.notes
    first = dataset.rejected[0]
    count = f"{len(dataset.rejected)} of {dataset.rows} clips are not used; the report names them. "
    return (f"{count}The first is {first.name}: {first.reason}", *dataset.notes)
