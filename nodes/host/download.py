"""Download a published model into models/omnivoice, with ComfyUI's progress bar and Cancel.

The engine decides what to download, and checks and resumes it (`weights.published`). This file only says where it goes.
"""

from __future__ import annotations

from os.path import isdir  # unlike Path.is_dir, it never raises
from pathlib import Path

import comfy.model_management as mm
import comfy.utils

from ...omnivoice.errors import InputError
from ...omnivoice.intake.limits import shown_size
from ...omnivoice.weights.published import PublishedModel, download_model, published_model, published_models
from . import folders, models

STEPS_OF_BAR = 500


def model_names() -> list[str]:
    """Return the names of the pinned list: the menu."""
    return [*published_models()]


def check_accepted(accepted: object, model: PublishedModel | None = None) -> bool:
    """Return True if `accepted` is True; raise InputError, which names the licences, otherwise."""
    if accepted is True:
        return True
    model = model or next(iter(published_models().values()))
    raise InputError(
        f"accept_licence must be on before anything is downloaded: read the licences on the page of "
        f"{model.repository}, and turn it on if you accept them ({model.licence_text()})"
    )


def download(name: object, accepted: object) -> tuple[str, str]:
    """Download the missing files of a model; return its name for Load OmniVoice and a report.

    Raises InputError or FileError.
    """
    model = published_model(name)
    check_accepted(accepted, model)
    bar, shown = comfy.utils.ProgressBar(model.size), 0

    def on_progress(done: int, total: int) -> None:
        nonlocal shown
        mm.throw_exception_if_processing_interrupted()
        if done == total or abs(done - shown) >= total // STEPS_OF_BAR:
            shown = done
            bar.update_absolute(done, total)

    place = f"ComfyUI's models/{models.FOLDER}/{model.name}"
    lines = download_model(model, _folder(model.name), place=place, on_progress=on_progress)
    head = f"{model.repository} at {model.revision[:12]}, {shown_size(model.size)}, in {place}"
    return model.name, "\n".join([head, model.licence_text(), *lines])


def _folder(name: str) -> Path:
    """Return the first folder of that name among the registered places, which Load OmniVoice would use too; or where to
    make it."""
    places = [root / name for root in folders.roots(models.FOLDER)]
    return next((place for place in places if isdir(place)), places[0])
