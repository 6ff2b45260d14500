"""Every workflow in the real frontend: it opens without a complaint, queues what workflows/api holds, and plays.

Needs playwright and a Chromium (CHROMIUM names it, else /usr/bin/chromium) beside a ComfyUI; skipped otherwise.
SCREENSHOTS names a folder for pictures of every workflow in both interfaces, to look at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser tests")

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
NAMES = sorted(path.stem for path in WORKFLOWS.glob("*.json"))
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
SCREENSHOTS = os.environ.get("SCREENSHOTS")
READY = "window.app && window.app.graph && Object.keys(window.LiteGraph.registered_node_types).length > 100"
OPEN = """async (workflow) => {
  const width = (nodes) => Math.max(...nodes.map((n) => n.pos[0])) - Math.min(...nodes.map((n) => n.pos[0]))
  const stored = width(workflow.nodes)
  await app.loadGraphData(workflow)
  await new Promise((resolve) => setTimeout(resolve, 1000))
  const prompt = await app.graphToPrompt()
  const text = document.body.innerText
  await app.extensionManager.command.execute('Comfy.Canvas.FitView')
  await new Promise((resolve) => setTimeout(resolve, 800))
  const scale = app.canvas.ds.scale * width(app.graph._nodes) / stored
  return { prompt: prompt.output, missing: /missing (node|model)/i.test(text), scale,
           red: app.graph._nodes.filter((n) => n.has_errors).map((n) => n.type) }
}"""
# Links that pass behind a node which is not one of their ends: the frontend's own places of slots, and its curve.
HIDDEN_LINKS = """() => {
  const found = [], bezier = (t, a, b, c, d) => {
    const u = 1 - t
    return u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * d
  }
  const links = app.graph.links instanceof Map ? [...app.graph.links.values()] : Object.values(app.graph.links)
  for (const link of links) {
    const from = app.graph.getNodeById(link.origin_id), to = app.graph.getNodeById(link.target_id)
    const start = from.getConnectionPos(false, link.origin_slot), end = to.getConnectionPos(true, link.target_slot)
    const bend = Math.hypot(end[0] - start[0], end[1] - start[1]) / 4
    for (const node of app.graph._nodes.filter((n) => n !== from && n !== to)) {
      const [left, top, width, height] = node.boundingRect ?? node.getBounding()
      for (let t = 0; t <= 1; t += 0.01) {
        const x = bezier(t, start[0], start[0] + bend, end[0] - bend, end[0])
        const y = bezier(t, start[1], start[1], end[1], end[1])
        if (x > left && x < left + width && y > top && y < top + height) {
          found.push(`${from.title} -> ${to.title} behind ${node.title}`)
          break
        }
      }
    }
  }
  return found
}"""
# Below it the frontend draws no text. The Nodes 2.0 of ComfyUI 0.14.0 enlarges every node and gap when it opens a
# workflow, so the scale is that of the graph as it is stored.
LEAST_SCALE = 0.6
QUEUE = """async () => {
  const ended = new Promise((resolve) => {
    for (const kind of ['execution_success', 'execution_error', 'execution_interrupted'])
      app.api.addEventListener(kind, (event) => resolve([kind, event.detail]), { once: true })
  })
  await app.queuePrompt(0, 1)
  const [kind, detail] = app.lastNodeErrors && Object.keys(app.lastNodeErrors).length
    ? ['refused', app.lastNodeErrors] : await ended
  await new Promise((resolve) => setTimeout(resolve, 1500))
  const playing = (tag) =>
    [...document.querySelectorAll(tag)].filter((p) => /filename=/.test(p.currentSrc || p.src)).length
  return { kind, detail: JSON.stringify(detail ?? null), audio: playing('audio'), video: playing('video') }
}"""


@pytest.fixture(scope="module", params=[False, True], ids=["classic", "nodes2"])
def page(comfy, request: pytest.FixtureRequest) -> Iterator[object]:
    if not Path(CHROMIUM).is_file():
        pytest.skip(f"no browser at {CHROMIUM}: set CHROMIUM")
    comfy.request("/settings/Comfy.TutorialCompleted", True)  # else a first start shows the templates
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1920, "height": 1080})
        page.goto(f"http://{comfy.address}")
        page.wait_for_function(READY, timeout=120_000)
        page.wait_for_timeout(5_000)  # it opens a workflow of its own, and asks the network for that one's models
        setting = "(on) => app.extensionManager.setting.set('Comfy.VueNodes.Enabled', on)"
        page.evaluate(setting, request.param)
        page.interface = "nodes2" if request.param else "classic"
        yield page
        page.evaluate(setting, False)
        browser.close()


def is_error(message) -> bool:
    """Whether it is one: the frontend asks for files of the user's that a new one does not have, and is told 404."""
    return message.type == "error" and not re.search(r"/user(data|\.css)", message.location["url"])


def told(message) -> str:
    return f"{message.text} ({message.location['url']})"


def api(name: str) -> dict:
    return json.loads((WORKFLOWS / "api" / f"{name}.json").read_text(encoding="utf-8"))


def check_prompt(opened: dict, stored: dict) -> None:
    """Equal. Core nodes have other names and widgets in other versions: of theirs, links and what both have count."""
    assert opened.keys() == stored.keys()
    for key, wanted in stored.items():
        found = opened[key]
        if "OmniVoice" in wanted["class_type"]:  # newer frontends add the pack's name and version to _meta
            assert found["_meta"]["title"] == wanted["_meta"]["title"]
        else:
            kept = {k for k, v in wanted["inputs"].items() if k in found["inputs"] or isinstance(v, list)}
            found, wanted = ({**node, "inputs": {k: node["inputs"].get(k) for k in kept}} for node in (found, wanted))
        assert (found["class_type"], found["inputs"]) == (wanted["class_type"], wanted["inputs"])


@pytest.mark.parametrize("name", NAMES)
def test_workflow_opens_queues_the_api_file_and_plays(page, comfy, name: str) -> None:
    errors: list[str] = []
    listeners = {
        "console": lambda message: errors.append(told(message)) if is_error(message) else None,
        "pageerror": lambda error: errors.append(str(error)),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    opened = page.evaluate(OPEN, json.loads((WORKFLOWS / f"{name}.json").read_text(encoding="utf-8")))
    stored = api(name)
    check_prompt(opened["prompt"], stored)
    assert not opened["missing"] and opened["red"] == []
    assert opened["scale"] >= LEAST_SCALE
    if page.interface == "classic":
        assert page.evaluate(HIDDEN_LINKS) == []
    ran = page.evaluate(QUEUE)
    if SCREENSHOTS:
        show(page, name, ".".join(map(str, comfy.version)))
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    assert ran["kind"] == "execution_success", ran["detail"]
    kinds = [node["class_type"] for node in stored.values()]
    assert (ran["audio"] > 0) == bool({"SaveAudio", "PreviewAudio"} & set(kinds))
    assert (ran["video"] > 0) == ("SaveVideo" in kinds)
    assert errors == []


def show(page, name: str, version: str) -> None:
    """A picture of the whole graph, as a user sees it after a run."""
    page.evaluate("() => app.extensionManager.command.execute('Comfy.Canvas.FitView')")
    page.wait_for_timeout(800)
    page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.{version}.{page.interface}.png"))


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
        ("OmniVoiceLoadVoice", "transcript", "OmniVoiceSynthesize", "language"),  # any STRING will do
        ("OmniVoiceTranscribe", "transcript", "OmniVoiceReferenceAudio", "transcript"),
    ],
)
def test_outputs_that_fit_a_menu_or_a_text_can_be_linked(page, link: tuple[str, str, str, str]) -> None:
    linked = page.evaluate(LINK, list(link))
    assert isinstance(linked["value"], list) and linked["value"][0] == linked["source"]


FRESH = """async () => {
  app.graph.clear()
  const node = LiteGraph.createNode('OmniVoiceSynthesize')
  node.pos = [300, 200]
  app.graph.add(node)
  app.canvas.ds.scale = 1
  app.canvas.ds.offset = [0, 0]
  app.canvas.setDirty(true, true)
  await new Promise((resolve) => setTimeout(resolve, 1500))
  const box = [...document.querySelectorAll('textarea')].find((e) => e.value === 'The weather is beautiful today.')
  const style = getComputedStyle(box)
  const line = parseFloat(style.lineHeight) || 1.25 * parseFloat(style.fontSize)
  const inside = box.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom)
  const saved = app.graph.serialize()
  saved.nodes[0].size = [500, 700]
  await app.loadGraphData(saved)
  return { lines: inside / line, widgets: node.widgets.map((w) => w.name), size: [...app.graph._nodes[0].size] }
}"""


def test_a_new_synthesize_shows_few_widgets_and_a_high_text_box(page) -> None:
    found = page.evaluate(FRESH)
    assert found["widgets"] == [
        "text",
        "seed",
        "control_after_generate",
        "preset",
        "language",
        "speed",
        "duration",
        "exact_length",
        "split_lines",
    ]
    assert found["lines"] >= 6
    if page.interface == "classic":  # Nodes 2.0 scales sizes between the two interfaces
        assert found["size"] == [500, 700]


LONG_TEXT = """async (text) => {
  app.graph.clear()
  const [load, node] = ['LoadOmniVoice', 'OmniVoiceLongText'].map((type) => LiteGraph.createNode(type))
  app.graph.add(load)
  app.graph.add(node)
  load.pos = [200, 200]
  node.pos = [600, 200]
  load.connect(0, node, node.inputs.findIndex((i) => i.name === 'model'))
  const set = (n, values) => Object.entries(values).forEach(([k, v]) => (n.widgets.find((w) => w.name === k).value = v))
  set(load, { model_name: 'OmniVoice' })
  set(node, { text, name: 'browser', preset: 'draft' })
  app.canvas.ds.scale = 1 // it shows no widgets of nodes that are out of sight
  app.canvas.ds.offset = [0, 0]
  app.canvas.setDirty(true, true)
  await new Promise((resolve) => setTimeout(resolve, 1000))
  const player = node.widgets.find((w) => w.name === 'listen').element
  const played = []
  player.muted = true
  player.addEventListener('loadeddata', () => {
    if (!played.length) player.play()
    player.playbackRate = 16
  })
  player.addEventListener('play', () => played.push(player.src.split('filename=')[1]))
  let early = 0
  const kinds = ['execution_success', 'execution_error', 'execution_interrupted']
  const ended = new Promise((resolve) => {
    for (const kind of kinds)
      app.api.addEventListener(kind, () => ((early = played.length), resolve(kind)), { once: true })
  })
  const prompt = await app.graphToPrompt()
  await app.queuePrompt(0, 1)
  const kind = await ended
  const parts = () => app.nodeOutputs[node.id]?.omnivoice_long ?? []
  const end = Date.now() + 60000
  while (Date.now() < end && !(played.length === parts().length && player.ended))
    await new Promise((resolve) => setTimeout(resolve, 100))
  const { width, height } = player.getBoundingClientRect()
  const box = [player.isConnected, width, height]
  return { kind, early, box, played, parts: parts(), inputs: Object.keys(prompt.output[node.id].inputs) }
}"""


def test_parts_of_a_long_text_play_one_after_another_while_it_is_made(page, comfy) -> None:
    text = " ".join(f"It was a long and quite remarkable sentence about number {i}." for i in range(16))
    seen = page.evaluate(LONG_TEXT, f"{text} {page.interface} [pause 1s] {text}")
    assert seen["kind"] == "execution_success"
    connected, width, height = seen["box"]
    assert connected and width > 200 and height > 25, seen["box"]
    assert len(seen["parts"]) >= 4
    assert seen["early"] >= 1  # it plays before the end
    assert [name.partition("&")[0] for name in seen["played"]] == seen["parts"]
    assert {*seen["inputs"]} == {"model", "text", "name", "seed", "preset", "language", "speed", "retries"}
