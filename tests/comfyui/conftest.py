"""A real ComfyUI for the tests: see `headless`.

Found by COMFYUI_PATH, else ~/ComfyUI; run with COMFYUI_PYTHON, else the tree's own venv, else this python; with
COMFYUI_ARGS as further options, such as another --front-end-root. Without one every test here is skipped and the
summary says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.comfyui.headless import Comfy, make_base, start, stop, wait_until_ready
from tests.conftest import comfyui_path


@pytest.fixture(scope="session")
def comfy_factory(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Iterator[Callable[..., Comfy]]:
    """Starts servers; each has the pack in a folder with a dash in its name, and the tiny model unless told not to."""
    tree = comfyui_path()
    if tree is None:
        pytest.skip("no ComfyUI: set COMFYUI_PATH (and COMFYUI_PYTHON) to test on a real one")
    running: list[Comfy] = []

    def begin(
        *,
        with_model: bool = True,
        prepare: Callable[[Path], None] = lambda base: None,
        environment: dict[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> Comfy:
        base = tmp_path_factory.mktemp("comfyui")
        make_base(base, checkpoint if with_model else None)
        prepare(base)
        server = start(tree, base, environment or {}, options=options)
        running.append(server)
        wait_until_ready(server)
        server.connect()
        return server

    yield begin
    for server in running:
        stop(server)


@pytest.fixture(scope="session")
def comfy(comfy_factory: Callable[..., Comfy]) -> Comfy:
    return comfy_factory()
