"""Every file in workflows/ against the nodes' schemas: ids, names, order and values of widgets, links, clips."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
NAMES = sorted(path.stem for path in WORKFLOWS.glob("*.json"))
# Core nodes that both ComfyUI 0.14.0 and the newest have; no other pack's.
CORE = {"LoadAudio", "SaveAudio", "PreviewAudio", "MarkdownNote"}


@pytest.fixture
def schemas(nodes: dict[str, type]) -> dict[str, SimpleNamespace]:
    return {key: node.define_schema() for key, node in nodes.items()}


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_two_workflows_with_api_files() -> None:
    assert NAMES == ["omnivoice_clone", "omnivoice_design"]
    assert sorted(path.stem for path in (WORKFLOWS / "api").glob("*.json")) == NAMES
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", path.name) for path in WORKFLOWS.rglob("*"))


@pytest.mark.parametrize("name", NAMES)
def test_api_file_fits_the_schema(name: str, schemas: dict[str, SimpleNamespace]) -> None:
    prompt = read(WORKFLOWS / "api" / f"{name}.json")
    for node in prompt.values():
        if node["class_type"] not in schemas:
            assert node["class_type"] in CORE
            continue
        inputs = {item.id: item for item in schemas[node["class_type"]].inputs}
        assert set(node["inputs"]) <= set(inputs)
        assert {i for i, item in inputs.items() if not item.optional} <= set(node["inputs"])
        for key, value in node["inputs"].items():
            check_value(inputs[key], value, prompt, schemas)


def check_value(item: SimpleNamespace, value: object, prompt: dict, schemas: dict[str, SimpleNamespace]) -> None:
    if isinstance(value, list):
        source, slot = value
        kind = prompt[source]["class_type"]
        assert item.kind == (schemas[kind].outputs[slot].kind if kind in schemas else "AUDIO")
    elif item.kind in ("INT", "FLOAT"):
        assert item.min <= value <= item.max
    elif item.kind == "COMBO" and item.id != "model_name":
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
            if item.kind in ("INT", "FLOAT", "STRING", "COMBO"):
                order += [item.id, None] if getattr(item, "control_after_generate", False) else [item.id]
        assert len(node["widgets_values"]) == len(order)
        saved = {key: value for key, value in zip(order, node["widgets_values"]) if key}
        assert {k: v for k, v in prompt[str(node["id"])]["inputs"].items() if k in saved} == saved
    assert {n["type"] for n in workflow["nodes"]} - set(schemas) <= CORE


def test_clips_are_shipped_and_the_note_says_where_they_go() -> None:
    for name in NAMES:
        workflow = read(WORKFLOWS / f"{name}.json")
        notes = "".join(n["widgets_values"][0] for n in workflow["nodes"] if n["type"] == "MarkdownNote")
        assert "models/omnivoice" in notes and "CC-BY-NC" in notes
        for node in (n for n in workflow["nodes"] if n["type"] == "LoadAudio"):
            clip = node["widgets_values"][0]
            assert (WORKFLOWS / clip).is_file() and f"`{clip}`" in notes
