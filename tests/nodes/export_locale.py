"""The nodes' schemas as a snapshot, and their texts as ComfyUI reads them; run by hand, it writes the snapshot.

For maintainers, after a change of a node: `python tests/nodes/export_locale.py`, then look at `git diff`. A line that
leaves object_info.json or moves in it breaks saved workflows. The texts are in locales/en/nodeDefs.json, where the
nodes read them; test_locales.py names what a translation lacks. It needs pytest and no ComfyUI.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGLISH = ROOT / "locales" / "en" / "nodeDefs.json"
SNAPSHOT = ROOT / "tests" / "nodes" / "object_info.json"
# Menus that list files of the user's: what they offer is not part of the schema.
FILE_MENUS = {
    ("LoadOmniVoice", "model_name"),
    ("OmniVoiceTranscribe", "model_name"),
    ("OmniVoiceLoadVoice", "voice_name"),
    ("OmniVoiceApplyLoRA", "lora_name"),
    ("OmniVoiceDataset", "folder"),
    ("OmniVoiceTrainLoRA", "existing_lora"),
    ("OmniVoiceTrainingSettings", "recogniser"),
    ("OmniVoiceTakes", "whisper"),
}
RANGES = ("min", "max", "step", "multiline", "dynamic_prompts", "control_after_generate", "advanced")


def schemas_of(nodes: Mapping[str, type]) -> dict[str, SimpleNamespace]:
    return {key: node.define_schema() for key, node in nodes.items()}


def english(schemas: Mapping[str, SimpleNamespace]) -> dict[str, dict]:
    """nodeDefs.json as the frontend reads it: inputs by id (dots made underscores), outputs by number.

    An input is shown under its id where nothing else is given, and so it is in English.
    """
    return {
        key: {
            "display_name": schema.display_name,
            "description": schema.description,
            "inputs": {i.id.replace(".", "_"): {"name": i.id, "tooltip": i.tooltip} for i in schema.inputs},
            "outputs": {
                str(n): {"name": out.display_name, "tooltip": out.tooltip} for n, out in enumerate(schema.outputs)
            },
        }
        for key, schema in schemas.items()
    }


def snapshot(schemas: Mapping[str, SimpleNamespace]) -> dict[str, dict]:
    """What saved workflows and programs that use the HTTP interface rely on; texts for people are left out."""
    return {key: _node(key, schema) for key, schema in schemas.items()}


def _node(key: str, schema: SimpleNamespace) -> dict[str, object]:
    return {
        "category": schema.category,
        "output_node": bool(getattr(schema, "is_output_node", False)),
        "input_is_list": bool(getattr(schema, "is_input_list", False)),
        "inputs": [_input(key, item) for item in schema.inputs],
        "outputs": [
            {"name": out.display_name, "type": out.kind, "is_list": bool(getattr(out, "is_output_list", False))}
            for out in schema.outputs
        ],
    }


def _input(key: str, item: SimpleNamespace) -> dict[str, object]:
    found = {"id": item.id, "type": item.kind, "optional": item.optional, "default": item.default}
    found |= {name: getattr(item, name) for name in RANGES if getattr(item, name, None) is not None}
    if item.kind.startswith("COMBO"):
        found["options"] = "files" if (key, item.id) in FILE_MENUS else item.options
    return found


def test_write_files(nodes: dict[str, type]) -> None:
    """Not a test: pytest collects it only when this file is named, as `main` does."""
    content = json.dumps(snapshot(schemas_of(nodes)), ensure_ascii=False, indent=1)
    SNAPSHOT.write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", str(Path(__file__).resolve())]))
