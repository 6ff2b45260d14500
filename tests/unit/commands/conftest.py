"""Shared by the tests of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from omnivoice.commands import models
from omnivoice.engine import Engine


@pytest.fixture(scope="module")
def one_engine(checkpoint: Path) -> Iterator[None]:
    """The commands in a test file load the tiny model once for each device and precision.

    This is for tests whose subject is not the loading.
    """
    kept: dict[object, Engine] = {}

    def load(path: Path, device: object, dtype: object, *, codec_folder: object, loras: object) -> Engine:
        if Path(path) != checkpoint or codec_folder or loras:
            return Engine.load(path, device, dtype, codec_folder=codec_folder, loras=loras)  # type: ignore[arg-type]
        if (device, dtype) not in kept:
            kept[device, dtype] = Engine.load(path, device, dtype)  # type: ignore[arg-type]
        return kept[device, dtype]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "Engine", SimpleNamespace(load=load))
        yield
