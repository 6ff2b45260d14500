"""Every workflow in the real frontend: it opens without a complaint, and queues what workflows/api holds.

Needs playwright and a Chromium (CHROMIUM names it, else /usr/bin/chromium) beside a ComfyUI; skipped otherwise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser tests")

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
READY = "window.app && window.app.graph && Object.keys(window.LiteGraph.registered_node_types).length > 100"
OPEN = """async (workflow) => {
  await app.loadGraphData(workflow)
  await new Promise((resolve) => setTimeout(resolve, 1000))
  const prompt = await app.graphToPrompt()
  const text = document.body.innerText
  return { prompt: prompt.output, missing: /missing (node|model)/i.test(text),
           red: app.graph._nodes.filter((n) => n.has_errors).map((n) => n.type) }
}"""


@pytest.fixture(scope="module", params=[False, True], ids=["classic", "nodes2"])
def page(comfy, request: pytest.FixtureRequest) -> Iterator[object]:
    if not Path(CHROMIUM).is_file():
        pytest.skip(f"no browser at {CHROMIUM}: set CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"http://{comfy.address}")
        page.wait_for_function(READY, timeout=120_000)
        setting = "(on) => app.extensionManager.setting.set('Comfy.VueNodes.Enabled', on)"
        page.evaluate(setting, request.param)
        yield page
        page.evaluate(setting, False)
        browser.close()


@pytest.mark.parametrize("name", sorted(path.stem for path in WORKFLOWS.glob("*.json")))
def test_workflow_opens_and_queues_the_api_file(page, name: str) -> None:
    errors: list[str] = []
    listen = lambda message: errors.append(message.text) if message.type == "error" else None  # noqa: E731
    page.on("console", listen)
    opened = page.evaluate(OPEN, json.loads((WORKFLOWS / f"{name}.json").read_text(encoding="utf-8")))
    page.remove_listener("console", listen)
    assert opened["prompt"] == json.loads((WORKFLOWS / "api" / f"{name}.json").read_text(encoding="utf-8"))
    assert not opened["missing"] and opened["red"] == []
    assert [e for e in errors if "omnivoice" in e.lower()] == []


LINK = """async ([from, output, to, input]) => {
  app.graph.clear()
  const [source, target] = [from, to].map((type) => LiteGraph.createNode(type))
  app.graph.add(source)
  app.graph.add(target)
  const slot = target.inputs.findIndex((i) => i.name === input)
  source.connect(source.outputs.findIndex((o) => o.name === output), target, slot)
  await new Promise((resolve) => setTimeout(resolve, 300))
  const prompt = await app.graphToPrompt()
  return { value: prompt.output[target.id].inputs[input], source: String(source.id) }
}"""


@pytest.mark.parametrize(
    "link",
    [
        ("OmniVoiceDownload", "model_name", "LoadOmniVoice", "model_name"),
        ("OmniVoiceLoadVoice", "language", "OmniVoiceSynthesize", "language"),
        ("OmniVoiceTranscribe", "transcript", "OmniVoiceReferenceAudio", "transcript"),
    ],
)
def test_outputs_that_fit_a_menu_or_a_text_can_be_linked(page, link: tuple[str, str, str, str]) -> None:
    linked = page.evaluate(LINK, list(link))
    assert isinstance(linked["value"], list) and linked["value"][0] == linked["source"]
