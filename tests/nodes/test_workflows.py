"""Every file in workflows/ against its table and the nodes' schemas: widgets, links, layout, clips, pictures."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.nodes.export_locale import FILE_MENUS

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / "workflows"
NAMES = sorted(path.stem for path in WORKFLOWS.glob("*.json"))
# Core nodes that both ComfyUI 0.14.0 and the newest have, and the types of their outputs; no other pack's.
CORE = {
    "LoadAudio": ["AUDIO"],
    "SaveAudio": ["AUDIO"],
    "PreviewAudio": ["AUDIO"],
    "AudioConcat": ["AUDIO"],
    "PreviewAny": ["STRING"],
    "PrimitiveFloat": ["FLOAT"],
    "EmptyImage": ["IMAGE"],
    "GetImageSize": ["INT"] * 3,
    "ImageScaleBy": ["IMAGE"],
    "CreateVideo": ["VIDEO"],
    "SaveVideo": ["VIDEO"],
    "MarkdownNote": [],
    "SaveLoRA": [],
    "LossGraphNode": [],
}
WIDGETS = ("INT", "FLOAT", "STRING", "COMBO", "BOOLEAN", "COMBO,STRING")
MAX_PICTURE_BYTES = 300_000


@pytest.fixture
def schemas(nodes: dict[str, type]) -> dict[str, SimpleNamespace]:
    return {key: node.define_schema() for key, node in nodes.items()}


@pytest.fixture(scope="module")
def graphs() -> dict[str, tuple]:
    """The tables that the files were exported from."""
    spec = importlib.util.spec_from_file_location("example_graphs", ROOT / "tests" / "comfyui" / "example_graphs.py")
    assert spec and spec.loader
    tables = importlib.util.module_from_spec(spec)
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


@pytest.mark.parametrize("name", NAMES)
def test_file_is_what_the_table_says(name: str, graphs: dict[str, tuple]) -> None:
    """Nothing was edited by hand, or forgotten to be exported."""
    table, groups, links = graphs[name]
    workflow, prompt = read(WORKFLOWS / f"{name}.json"), read(WORKFLOWS / "api" / f"{name}.json")
    assert [node["type"] for node in workflow["nodes"]] and len(workflow["nodes"]) == len(table)
    for number, (kind, _, widgets, *title) in enumerate(table.values(), 1):
        (node,) = [node for node in workflow["nodes"] if node["id"] == number]
        assert node["type"] == kind and (not title or not title[0] or node["title"] == title[0])
        if kind == "MarkdownNote":
            assert node["widgets_values"][0] == widgets[0]
        else:
            assert widgets.items() <= prompt[str(number)]["inputs"].items()
    assert len(workflow["links"]) == len(links)
    assert [group["title"] for group in workflow["groups"]] == [title for title, _ in groups if title]


@pytest.mark.parametrize("name", NAMES)
def test_api_file_fits_the_schema(name: str, schemas: dict[str, SimpleNamespace]) -> None:
    prompt = read(WORKFLOWS / "api" / f"{name}.json")
    for node in prompt.values():
        if node["class_type"] not in schemas:
            assert node["class_type"] in CORE
            continue
        inputs = {item.id: item for item in schemas[node["class_type"]].inputs}
        assert set(node["inputs"]) <= set(inputs)
        linked_only = {key for key, item in inputs.items() if item.kind not in WIDGETS}
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
            if item.kind in WIDGETS:
                order += [item.id, None] if getattr(item, "control_after_generate", False) else [item.id]
        assert len(node["widgets_values"]) == len(order)
        saved = {key: value for key, value in zip(order, node["widgets_values"]) if key}
        assert {k: v for k, v in prompt[str(node["id"])]["inputs"].items() if k in saved} == saved
    assert {n["type"] for n in workflow["nodes"]} - set(schemas) <= set(CORE)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_lies_on_anything_else(name: str) -> None:
    """Nodes keep apart, with room for a title, and each is inside one group or in none."""
    workflow = read(WORKFLOWS / f"{name}.json")
    boxes = [(*node["pos"], *node["size"]) for node in workflow["nodes"]]
    for (ax, ay, aw, ah), (bx, by, bw, bh) in itertools.combinations(boxes, 2):
        assert ax + aw < bx or bx + bw < ax or ay + ah + 30 < by or by + bh + 30 < ay
    for gx, gy, gw, gh in (group["bounding"] for group in workflow["groups"]):
        for x, y, w, h in boxes:
            inside = gx <= x and x + w <= gx + gw and gy <= y - 30 and y + h <= gy + gh
            assert inside or x + w < gx or gx + gw < x


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
    assert name != "omnivoice_design" or not files & {node["class_type"] for node in prompt.values()}
