"""Every file in workflows/ against its table and the nodes' schemas: widgets, links, layout, clips, pictures."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.nodes.export_locale import FILE_MENUS

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / "workflows"
NAMES = sorted(path.stem for path in WORKFLOWS.glob("*.json"))
# Core nodes that both ComfyUI 0.14.0 and the newest have, with the types of their outputs. None is deprecated, and none
# is another pack's.
CORE = {
    "LoadAudio": ["AUDIO"],
    "PreviewAudio": ["AUDIO"],
    "PreviewImage": [],
    "AudioConcat": ["AUDIO"],
    "PreviewAny": ["STRING"],
    "PrimitiveFloat": ["FLOAT"],
    "EmptyImage": ["IMAGE"],
    "CreateVideo": ["VIDEO"],
    "SaveVideo": ["VIDEO"],
    "LoadVideo": ["VIDEO"],
    "GetVideoComponents": ["IMAGE", "AUDIO", "FLOAT"],
    "GetImageSize": ["INT", "INT", "INT"],
    "MarkdownNote": [],
    "SaveLoRA": [],
    "LossGraphNode": [],
    "Reroute": ["*"],  # of the frontend: it is not in API prompts
}
WIDGETS = ("INT", "FLOAT", "STRING", "COMBO", "BOOLEAN", "COMBO,STRING")
MAX_PICTURE_BYTES = 300_000
FITTED = 0.73  # of the window, which the frontend's Fit View fills
TITLE = 30  # pixels of a node's title, above its place


@pytest.fixture
def schemas(nodes: dict[str, type]) -> dict[str, SimpleNamespace]:
    return {key: node.define_schema() for key, node in nodes.items()}


@pytest.fixture(scope="module")
def graphs() -> dict[str, tuple]:
    """The tables that the files were exported from."""
    spec = importlib.util.spec_from_file_location("example_graphs", ROOT / "tests" / "comfyui" / "example_graphs.py")
    assert spec and spec.loader
    tables = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "example_graphs", tables)  # where dataclasses look their module up
        spec.loader.exec_module(tables)
    return tables.GRAPHS


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def notes(name: str) -> str:
    nodes = read(WORKFLOWS / f"{name}.json")["nodes"]
    return "".join(node["widgets_values"][0] for node in nodes if node["type"] == "MarkdownNote")


def test_each_workflow_has_an_api_file_and_a_picture(graphs: dict[str, tuple]) -> None:
    assert sorted(graphs) == NAMES and len(NAMES) >= 6
    for folder, suffix in ((WORKFLOWS / "api", ".json"), (WORKFLOWS, ".jpg")):
        assert sorted(path.stem for path in folder.glob(f"*{suffix}")) == NAMES
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", path.name) for path in WORKFLOWS.rglob("*"))
    for name in NAMES:
        picture = (WORKFLOWS / f"{name}.jpg").read_bytes()
        assert picture.startswith(b"\xff\xd8\xff") and len(picture) <= MAX_PICTURE_BYTES
    assert len({(WORKFLOWS / f"{name}.jpg").read_bytes() for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_file_is_what_the_table_says(name: str, graphs: dict[str, tuple]) -> None:
    """Nothing was edited by hand, or forgotten to be exported."""
    graph = graphs[name]
    workflow, prompt = read(WORKFLOWS / f"{name}.json"), read(WORKFLOWS / "api" / f"{name}.json")
    assert workflow["nodes"] and len(workflow["nodes"]) == len(graph.nodes)
    for number, wanted in enumerate(graph.nodes.values(), 1):
        (node,) = [node for node in workflow["nodes"] if node["id"] == number]
        assert node["type"] == wanted.kind and (not wanted.title or node["title"] == wanted.title)
        assert tuple(node["pos"]) == wanted.place
        if wanted.kind == "MarkdownNote":
            assert node["widgets_values"][0] == wanted.widgets[0]
        elif wanted.kind != "Reroute":
            assert wanted.widgets.items() <= prompt[str(number)]["inputs"].items()
    assert len(workflow["links"]) == len(graph.links)
    assert [group["title"] for group in workflow["groups"]] == [group[0] for group in graph.groups]


@pytest.mark.parametrize("name", NAMES)
def test_api_file_fits_the_schema(name: str, schemas: dict[str, SimpleNamespace]) -> None:
    prompt = read(WORKFLOWS / "api" / f"{name}.json")
    for node in prompt.values():
        if node["class_type"] not in schemas:
            assert node["class_type"] in CORE
            continue
        inputs = {item.id: item for item in schemas[node["class_type"]].inputs}
        for item in [item for item in inputs.values() if hasattr(item, "template")]:
            inputs |= {f"{item.id}.{name}": item.template.socket for name in item.template.names}
        assert set(node["inputs"]) <= set(inputs)
        linked_only = {
            k for k, item in inputs.items() if item.kind not in WIDGETS or getattr(item, "force_input", False)
        }
        assert {i for i, item in inputs.items() if not item.optional} <= set(node["inputs"])
        assert set(inputs) - linked_only <= set(node["inputs"])  # exported from these very schemas
        for key, value in node["inputs"].items():
            check_value(node["class_type"], inputs[key], value, prompt, schemas)


def check_value(
    node: str, item: SimpleNamespace, value: object, prompt: dict, schemas: dict[str, SimpleNamespace]
) -> None:
    if isinstance(value, list):
        source, slot = value
        kind = prompt[source]["class_type"]
        assert (schemas[kind].outputs[slot].kind if kind in schemas else CORE[kind][slot]) in item.kind.split(",")
    elif item.kind in ("INT", "FLOAT"):
        assert item.min <= value <= item.max
    elif item.kind == "BOOLEAN":
        assert isinstance(value, bool)
    elif item.kind.startswith("COMBO") and (node, item.id) not in FILE_MENUS:
        assert value in item.options
    else:
        assert isinstance(value, str)


@pytest.mark.parametrize("name", NAMES)
def test_saved_widgets_are_those_of_the_schema(name: str, schemas: dict[str, SimpleNamespace]) -> None:
    """Positional values break when a widget is moved or renamed: the file's own record of names must match."""
    workflow = read(WORKFLOWS / f"{name}.json")
    prompt = read(WORKFLOWS / "api" / f"{name}.json")
    for node in (n for n in workflow["nodes"] if n["type"] in schemas):
        order = []
        for item in schemas[node["type"]].inputs:
            if item.kind in WIDGETS and not getattr(item, "force_input", False):
                order += [item.id, None] if getattr(item, "control_after_generate", False) else [item.id]
        assert len(node["widgets_values"]) == len(order)
        saved = {key: value for key, value in zip(order, node["widgets_values"]) if key}
        sent = {k: v for k, v in prompt[str(node["id"])]["inputs"].items() if not isinstance(v, list)}
        assert {k: v for k, v in saved.items() if k in sent} == sent
    assert {n["type"] for n in workflow["nodes"]} - set(schemas) <= set(CORE)


def box(node: dict) -> tuple[float, float, float, float]:
    """(left, top, right, bottom) of a node with its title."""
    (x, y), (width, height) = node["pos"], node["size"]
    return x, y - TITLE, x + width, y + height


@pytest.mark.parametrize("name", NAMES)
def test_nodes_keep_apart(name: str) -> None:
    """No node covers another, and each is inside one group or outside of all."""
    workflow = read(WORKFLOWS / f"{name}.json")
    boxes = [box(node) for node in workflow["nodes"]]
    for (al, at, ar, ab), (bl, bt, br, bb) in itertools.combinations(boxes, 2):
        assert ar < bl or br < al or ab < bt or bb < at
    for gx, gy, gw, gh in (group["bounding"] for group in workflow["groups"]):
        for left, top, right, bottom in boxes:
            inside = gx <= left and right <= gx + gw and gy <= top and bottom <= gy + gh
            assert inside or right < gx or gx + gw < left or bottom < gy or gy + gh < top


@pytest.mark.parametrize("name", NAMES)
def test_no_link_passes_behind_a_node(name: str) -> None:
    """By the frontend's curve, with places of slots as the classic interface draws them, to within a row."""
    nodes = {node["id"]: node for node in read(WORKFLOWS / f"{name}.json")["nodes"]}
    for _, origin, out, target, into, _ in read(WORKFLOWS / f"{name}.json")["links"]:
        start, end = slot(nodes[origin], "outputs", out), slot(nodes[target], "inputs", into)
        bend = math.dist(start, end) / 4
        for key in nodes.keys() - {origin, target}:
            left, top, right, bottom = box(nodes[key])
            for t in (i / 100 for i in range(101)):
                x = bezier(t, start[0], start[0] + bend, end[0] - bend, end[0])
                y = bezier(t, start[1], start[1], end[1], end[1])
                assert not (left < x < right and top < y < bottom), (origin, target, key)


def slot(node: dict, side: str, number: int) -> tuple[float, float]:
    """Where a link meets a node: sockets in rows from its top; inputs that belong to a widget in the middle of it."""
    (x, y), (width, height) = node["pos"], node["size"]
    if side == "inputs" and "widget" in node["inputs"][number]:
        return x, y + height / 2
    row = [i for i, item in enumerate(node[side]) if "widget" not in item].index(number)
    return (x if side == "inputs" else x + width), y + 20 * row + 14


def bezier(t: float, a: float, b: float, c: float, d: float) -> float:
    return (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d


@pytest.mark.parametrize("name", NAMES)
def test_graph_is_readable_on_a_full_hd_screen(name: str) -> None:
    """It opens at 60 % or more of its size: below that the frontend draws no text."""
    boxes = [box(node) for node in read(WORKFLOWS / f"{name}.json")["nodes"]]
    width = max(b[2] for b in boxes) - min(b[0] for b in boxes)
    height = max(b[3] for b in boxes) - min(b[1] for b in boxes)
    assert width <= FITTED * 1920 / 0.6 and height <= FITTED * 1080 / 0.6


def test_the_first_template_is_the_one_for_newcomers() -> None:
    """It needs no model and no recording, and is the first in the list, which is sorted by name."""
    prompt = read(WORKFLOWS / "api" / f"{NAMES[0]}.json")
    (load,) = [node for node in prompt.values() if node["class_type"] == "LoadOmniVoice"]
    assert load["inputs"]["model_name"].startswith("demo voice")
    assert not {"LoadAudio", "OmniVoiceDataset", "OmniVoiceLoadVoice"} & {n["class_type"] for n in prompt.values()}


@pytest.mark.parametrize("name", NAMES)
def test_note_says_where_files_go_and_what_the_licence_is(name: str) -> None:
    text = notes(name)
    assert "models/omnivoice/OmniVoice" in text and "**OmniVoice Download**" in text and "CC-BY-NC" in text
    prompt = read(WORKFLOWS / "api" / f"{name}.json")
    for node in prompt.values():
        if node["class_type"] == "LoadAudio":
            clip = node["inputs"]["audio"]
            assert (WORKFLOWS / clip).is_file() and f"**{clip}**" in text and "**ComfyUI/input**" in text
        if node["class_type"] == "OmniVoiceApplyLoRA":
            assert f"**{node['inputs']['lora_name']}**" in text and "**ComfyUI/models/loras**" in text
        if node["class_type"] == "OmniVoiceDataset":
            assert f"**{node['inputs']['folder']}**" in text and "**ComfyUI/input**" in text
    files = {"LoadAudio", "OmniVoiceDataset", "OmniVoiceApplyLoRA", "OmniVoiceLoadVoice"}
    assert name != "02_design_a_voice" or not files & {node["class_type"] for node in prompt.values()}
