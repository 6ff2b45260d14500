"""The pack in ComfyUI's own memory code on a simulated GPU.

Whatever is moved, paged, evicted or patched, the tokens stay those of the plain engine, and CUDA graphs are used where
they can be."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.comfyui.headless import comfyui_python
from tests.conftest import ROOT, comfyui_path

MODES = ("dynamic", "legacy", "novram")
DRIVER = Path(__file__).with_name("simulated_comfy.py")
RUNS = (
    "once",
    "again",
    "after eviction",
    "second model",
    "first model again",
    "LoRA",
    "LoRA again",
    "LoRA after eviction",
    "without LoRA",
)
USED, NOT_USED = "CUDA graphs: used", "CUDA graphs: not used; "
PROBLEMS = {"novram": "some weights are not on the GPU", "dynamic": "some weights may be moved while the model runs"}
NO_ROOM = "there is not enough free memory on the GPU to keep all weights there"


@pytest.fixture(scope="module", params=[(mode, dtype) for dtype in ("fp32", "fp8") for mode in MODES], ids="-".join)
def told(request: pytest.FixtureRequest, checkpoint: Path) -> dict:
    """What the driver tells of a mode, with the mode in it."""
    tree = comfyui_path()
    if tree is None:
        if os.environ.get("COMFYUI_PATH"):
            pytest.fail(f"COMFYUI_PATH is {os.environ['COMFYUI_PATH']}, where there is no main.py")
        pytest.skip("no ComfyUI at ~/ComfyUI: set COMFYUI_PATH (and COMFYUI_PYTHON) to test on a real one")
    command = [comfyui_python(tree), str(DRIVER), str(ROOT), str(checkpoint), *request.param]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    return {"mode": request.param[0], "dtype": request.param[1], **json.loads(done.stdout.splitlines()[-1])}


def compared(told: dict) -> list[str]:
    """The runs whose tokens are known. When DynamicVRAM of old versions pages in a weight with a LoRA, it rounds it to
    8 bits, but the call that does so computes with what is not rounded yet (comfy/ops.py, `post_cast`)."""
    old = told["mode"] == "dynamic" and not told["graphs"]
    return [name for name in RUNS if not (old and told["dtype"] == "fp8" and name.startswith("LoRA"))]


def test_every_run_says_what_the_plain_engine_says(told: dict) -> None:
    assert told["patcher"] == ("ModelPatcherDynamic" if told["mode"] == "dynamic" else "ModelPatcher")
    assert told["voice"] and told["LoRA differs"]
    assert {name for name in compared(told) if not told[name]["equal"]} == set()
    assert (told["weights on the CPU"] > 0) == (told["mode"] != "legacy")


def test_graphs_are_used_wherever_all_weights_are_on_the_gpu(told: dict) -> None:
    """DynamicVRAM of old ComfyUI versions has no place on the GPU for small weights, and no graphs of its own."""
    reports = {name: told[name]["report"] for name in RUNS}
    if told["graphs"]:
        assert reports == {name: [USED] for name in RUNS} and all(told[name]["replayed"] >= 12 for name in RUNS)
        return
    for name, report in reports.items():
        patched = told["mode"] == "novram" and name.startswith("LoRA")
        problem = "some weights are computed each time they are used" if patched else PROBLEMS[told["mode"]]
        assert report == [NOT_USED + problem]


def test_graphs_change_no_token_in_half_precision(told: dict) -> None:
    equal, with_graphs, without = told["half precision"]
    assert equal and without == f"{NOT_USED}they are switched off"
    assert (with_graphs == USED) == told["graphs"]


def test_a_graph_serves_until_its_weights_are_elsewhere(told: dict) -> None:
    """With DynamicVRAM a LoRA is written over the weights where they are. Other patchers swap them."""
    captured = {name for name in RUNS if told[name]["captured"]}
    evicted = {"once", "after eviction", "second model", "LoRA after eviction"}
    swapped = set() if told["mode"] == "dynamic" else {"LoRA", "without LoRA"}
    assert captured == (evicted | swapped if told["graphs"] else set())


def test_pages_are_pinned_for_a_run_only_and_only_if_there_is_room(told: dict) -> None:
    runs = {name: run for name, run in told.items() if isinstance(run, dict)}
    assert "cancelled" in runs and {run["pinned"] for run in runs.values()} == {0}
    unknown = set(RUNS) - set(compared(told))
    assert {name for name, run in runs.items() if not run.get("equal", True)} <= unknown
    assert runs["few steps"]["report"] == [f"{NOT_USED}they do not pay below 12 steps"]
    if told["mode"] == "dynamic" and told["graphs"]:
        for name in ("room for some weights", "no room beside the weights"):
            assert runs[name]["report"] == [NOT_USED + NO_ROOM] and not runs[name]["replayed"]
        assert runs["room again"]["report"] == [USED] and told["unpinned twice"] == 0
