"""Pronunciation Dictionary and Preview Text on a real ComfyUI: the socket, a chain of two, and refusals when queued."""

from __future__ import annotations

import json

LOADER = {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice", "dtype": "fp32"}}
TEXT = "Ask nginx. [pause 0.5s] It is in York."


def prompt(entries: str = "York = Yorrk", **preview: object) -> dict:
    """A preview and a speech of the same text, both with a chain of two dictionaries."""
    given = {"text": TEXT, "language": "en", "dictionary": ["second", 0]}
    return {
        "load": LOADER,
        "first": {"class_type": "OmniVoiceDictionary", "inputs": {"entries": "nginx = engine x\nYork = x"}},
        "second": {"class_type": "OmniVoiceDictionary", "inputs": {"entries": entries, "dictionary": ["first", 0]}},
        "preview": {"class_type": "OmniVoicePreviewText", "inputs": {**given, **preview}},
        "say": {"class_type": "OmniVoiceSynthesize", "inputs": {**given, "model": ["load", 0], "preset": "draft"}},
        "save": {"class_type": "SaveAudio", "inputs": {"audio": ["say", 0], "filename_prefix": "audio/words"}},
        "added": {"class_type": "PreviewAny", "inputs": {"source": ["second", 1]}},
        "text": {"class_type": "PreviewAny", "inputs": {"source": ["preview", 0]}},
        "shown": {"class_type": "PreviewAny", "inputs": {"source": ["preview", 2]}},
        "report": {"class_type": "PreviewAny", "inputs": {"source": ["say", 3]}},
    }


def run(comfy, graph: dict) -> dict[str, str]:
    """{node: its text} of a prompt that must succeed."""
    outputs = comfy.outputs(graph)
    return {node: output["text"][0] for node, output in outputs.items() if "text" in output}


def test_a_chain_of_dictionaries_is_previewed_and_spoken(comfy) -> None:
    texts = run(comfy, prompt())
    assert texts["added"] == "2 entries, replaced here: York"
    assert texts["text"] == "Ask engine x. [pause 0.5s] It is in Yorrk."
    for report in (texts["shown"], texts["report"]):
        assert "Ask engine x" in report and "It is in Yorrk." in report
    assert "line 1, column 5: “nginx” → “engine x” (dictionary)" in texts["shown"]
    assert "dictionary: “nginx” → “engine x”, “York” → “Yorrk”" in texts["report"]


def test_a_preview_runs_alone_and_with_a_model(comfy) -> None:
    graph = prompt()
    alone = {name: graph[name] for name in ("first", "second", "preview", "shown")}
    first = run(comfy, alone)["shown"]
    graph["preview"]["inputs"]["model"] = ["load", 0]
    assert run(comfy, {**alone, "load": LOADER, "preview": graph["preview"]})["shown"].startswith(first[:40])


def test_wrong_entries_and_texts_are_refused_when_the_prompt_is_queued(comfy) -> None:
    for graph, node, message in (
        (prompt("nonsense"), "second", "entries, line 1: 'nonsense' is no entry"),
        (prompt(text="..."), "preview", "nothing to speak"),
    ):
        status, body = comfy.request("/prompt", {"prompt": graph, "client_id": comfy.client})
        assert status in (200, 400)  # 200: the other outputs run
        details = [error["details"] for error in json.loads(body)["node_errors"][node]["errors"]]
        assert any(message in detail for detail in details), details
