"""The nodes against object_info.json, a snapshot of what saved workflows and programs rely on.

Saved widgets are positional, prompts over HTTP name inputs, and a new input that must be given breaks both. So
nothing may go, move or change its type or default, and what is new is optional and comes last.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator

import pytest

from tests.nodes.export_locale import SNAPSHOT, schemas_of, snapshot

ADVICE = (
    "put it back: saved workflows and programs rely on it. New inputs are optional and come last; what must differ "
    "otherwise becomes a new node with a new id, and the old one stays"
)
Shape = dict[str, dict]


@pytest.fixture(scope="module")
def saved() -> Shape:
    return json.loads(SNAPSHOT.read_text(encoding="utf-8"))


@pytest.fixture
def current(nodes: dict[str, type]) -> Shape:
    return json.loads(json.dumps(snapshot(schemas_of(nodes))))


def breaks(old: Shape, new: Shape) -> Iterator[str]:
    """What of `old` a workflow that was saved with it would miss in `new`."""
    yield from (f"node {node} is gone" for node in old.keys() - new.keys())
    for node in old.keys() & new.keys():
        before, after = old[node], new[node]
        for key in ("output_node", "input_is_list"):
            if before[key] != after[key]:
                yield f"{node}: {key} was {before[key]}"
        if after["outputs"][: len(before["outputs"])] != before["outputs"]:
            yield f"{node}: the outputs were {[out['name'] for out in before['outputs']]}, or their types changed"
        yield from (f"{node}: {fault}" for fault in _inputs(before["inputs"], after["inputs"]))


def _inputs(before: list[dict], after: list[dict]) -> Iterator[str]:
    for optional in (False, True):  # the frontend shows the ones that must be given first
        was = [item["id"] for item in before if item["optional"] is optional]
        now = [item["id"] for item in after if item["optional"] is optional]
        if now[: len(was)] != was or (now != was and not optional):
            yield f"the {'optional' if optional else 'required'} inputs were {was}, in this order"
    after_by_id = {item["id"]: item for item in after}
    for item in before:
        yield from _changes(item, after_by_id.get(item["id"], item))


def _changes(before: dict, after: dict) -> Iterator[str]:
    name = before["id"]
    for key in ("type", "default", "multiline", "dynamic_prompts", "control_after_generate"):
        if before.get(key) != after.get(key):
            yield f"{name}: {key} was {before.get(key)!r}, is {after.get(key)!r}"
    if "min" in before and not (after["min"] <= before["min"] and before["max"] <= after["max"]):
        yield f"{name}: the range was {before['min']} to {before['max']}, and may only grow"
    options = before.get("options")
    if isinstance(options, list) and [word for word in after["options"] if word in options] != options:
        yield f"{name}: options went or moved"
    if options == "files" and after["options"] != "files":
        yield f"{name}: listed files"


def test_nothing_that_workflows_rely_on_went_or_moved(saved: Shape, current: Shape) -> None:
    found = sorted(breaks(saved, current))
    assert not found, "; ".join(found) + f": {ADVICE}"


def test_snapshot_holds_what_is_new(saved: Shape, current: Shape) -> None:
    """So that the next change of it is seen too."""
    differ = [node for node in current if current[node] != saved.get(node)]
    assert not differ, f"{differ} gained something: run python tests/nodes/export_locale.py"
    assert list(saved) == list(current)


def item(shape: Shape, node: str, id: str) -> dict:
    return next(entry for entry in shape[node]["inputs"] if entry["id"] == id)


def _move(shape: Shape, node: str, from_: int, to: int) -> None:
    inputs = shape[node]["inputs"]
    inputs.insert(to, inputs.pop(from_))


BREAKS: dict[str, Callable[[Shape], object]] = {
    "node .* is gone": lambda s: s.pop("OmniVoiceSaveVoice"),
    "required inputs were": lambda s: s["OmniVoiceSynthesize"]["inputs"].pop(1),
    "required inputs were .* in this order": lambda s: _move(s, "OmniVoiceSynthesize", 0, 1),
    "optional inputs were": lambda s: _move(s, "OmniVoiceSynthesize", 11, 9),
    "the required inputs": lambda s: s["LoadOmniVoice"]["inputs"].append({"id": "new", "optional": False}),
    "the optional inputs": lambda s: s["LoadOmniVoice"]["inputs"].insert(0, {"id": "new", "optional": True}),
    "steps: type was": lambda s: item(s, "OmniVoiceSettings", "steps").update(type="FLOAT"),
    "steps: default was 0": lambda s: item(s, "OmniVoiceSettings", "steps").update(default=16),
    "guidance: the range was": lambda s: item(s, "OmniVoiceSettings", "guidance").update(max=9.0),
    "dtype: options went": lambda s: item(s, "LoadOmniVoice", "dtype")["options"].remove("fp16"),
    "options went or moved": lambda s: item(s, "LoadOmniVoice", "dtype")["options"].reverse(),
    "model_name: listed files": lambda s: item(s, "LoadOmniVoice", "model_name").update(options=["a"]),
    "the outputs were": lambda s: s["OmniVoiceLoadVoice"]["outputs"].pop(1),
    "their types changed": lambda s: s["OmniVoiceSynthesize"]["outputs"][0].update(is_list=False),
    "output_node was True": lambda s: s["OmniVoiceDownload"].update(output_node=False),
    "input_is_list was True": lambda s: s["OmniVoiceSynthesize"].update(input_is_list=False),
}


@pytest.mark.parametrize("message", BREAKS)
def test_the_check_sees_each_way_to_break_a_workflow(message: str, saved: Shape) -> None:
    changed = copy.deepcopy(saved)
    BREAKS[message](changed)
    with pytest.raises(AssertionError, match=f"(?s){message}.*put it back"):
        test_nothing_that_workflows_rely_on_went_or_moved(saved, changed)


def test_the_check_allows_additions_at_the_end(saved: Shape) -> None:
    grown = copy.deepcopy(saved)
    grown["NewNode"] = saved["LoadOmniVoice"]
    grown["LoadOmniVoice"]["inputs"].append({"id": "new", "type": "INT", "optional": True, "default": 1})
    grown["LoadOmniVoice"]["outputs"].append({"name": "new", "type": "INT", "is_list": False})
    item(grown, "LoadOmniVoice", "dtype")["options"].insert(1, "int4")
    item(grown, "OmniVoiceSettings", "steps")["max"] = 512
    test_nothing_that_workflows_rely_on_went_or_moved(saved, grown)
    with pytest.raises(AssertionError, match=r"gained something: run python tests/nodes/export_locale\.py"):
        test_snapshot_holds_what_is_new(saved, grown)
