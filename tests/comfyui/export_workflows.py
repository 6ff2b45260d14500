"""Writes workflows/*.json, workflows/api/*.json and workflows/*.jpg from the real frontend, in a real browser.

Not a test. Run it by hand after a node's inputs or `example_graphs.py` change, on the newest ComfyUI, with this pack,
a model folder named OmniVoice, workflows/omnivoice_reference.wav and a folder of clips in input/, and a LoRA, all named
as in `example_graphs.py`: `python tests/comfyui/export_workflows.py http://127.0.0.1:8188 [names of workflows]`. It
needs playwright and a Chromium (CHROMIUM names it). Saved values are positional, so a workflow is never edited by hand;
`test_browser.py` checks the result. With PICTURE naming a .jpg file, a picture of the whole first workflow goes there.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import uuid
from pathlib import Path

from example_graphs import GRAPHS
from playwright.sync_api import Page, sync_playwright

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
READY = "window.app && window.app.graph && Object.keys(window.LiteGraph.registered_node_types).length > 100"
# Nothing in a picture but the graph.
PLAIN = """async () => {
  const none = { 'Comfy.Minimap.Visible': false }
  for (const kind of ['NodeSource', 'NodeId', 'NodeLifeCycle']) none[`Comfy.NodeBadge.${kind}BadgeMode`] = 'None'
  for (const [key, value] of Object.entries(none)) await app.extensionManager.setting.set(key, value)
}"""
MAX_BYTES = 300_000
MARGIN = 160  # pixels around a graph that the menus of the frontend cover
EDGE = 12  # pixels around a picture's nodes
BUILD = """async ([id, nodes, groups, links]) => {
  app.graph.clear()
  app.graph.id = id
  const made = {}
  for (const [name, { kind, place, size, widgets, title }] of Object.entries(nodes)) {
    const node = LiteGraph.createNode(kind)
    const ours = kind.includes('OmniVoice')
    if (kind !== 'Reroute')
      Object.assign(node.properties, ours ? { cnr_id: 'omnivoice-nodes', ver: '0.1.0' } : { cnr_id: 'comfy-core' })
    if (title) node.title = title
    app.graph.add(node)
    for (const [key, value] of Object.entries(widgets)) {
      const widget = node.widgets.find((w) => w.name === key) ?? node.widgets[Number(key)]
      widget.value = value
    }
    const seed = node.widgets?.find((w) => w.name === 'control_after_generate')
    if (seed) seed.value = 'fixed'
    const needs = node.computeSize()
    if (kind !== 'Reroute') node.setSize([Math.max(size[0], needs[0]), Math.max(size[1], needs[1])])
    node.pos = [...place]
    made[name] = node
  }
  for (const [from, slot, to, input] of links)
    made[from].connect(slot, made[to], input ? made[to].inputs.findIndex((i) => i.name === input) : 0)
  for (const [title, left, top, width, height] of groups) {
    const group = new LiteGraph.LGraphGroup(title)
    group.pos = [left, top]
    group.size = [width, height]
    app.graph.add(group)
  }
  await new Promise((resolve) => setTimeout(resolve, 800))
  // The frontend leaves a new player room for another one's file.
  for (const [name, { kind, size }] of Object.entries(nodes)) if (kind === 'PreviewAudio') made[name].setSize([...size])
  const prompt = await app.graphToPrompt()
  return JSON.stringify([{ ...app.graph.serialize(), extra: {} }, prompt.output])
}"""
RUN = """async () => {
  const ended = new Promise((resolve) => {
    for (const kind of ['execution_success', 'execution_error', 'execution_interrupted'])
      app.api.addEventListener(kind, (event) => resolve([kind, event.detail]), { once: true })
  })
  await app.queuePrompt(0, 1)
  const [kind, detail] = await ended
  await new Promise((resolve) => setTimeout(resolve, 1500))
  return kind === 'execution_success' ? '' : JSON.stringify([kind, detail])
}"""
# Moves what is to be seen to (margin, margin) at its own size; its width and height.
PLACE = """async ([margin, ids]) => {
  const nodes = app.graph._nodes.filter((node) => !ids.length || ids.includes(Number(node.id)))
  const boxes = [...(ids.length ? [] : app.graph._groups), ...nodes].map((i) => i.boundingRect ?? i._bounding)
  const left = Math.min(...boxes.map((b) => b[0])), top = Math.min(...boxes.map((b) => b[1]))
  app.canvas.deselectAll()
  app.canvas.ds.scale = 1
  app.canvas.ds.offset[0] = margin - left
  app.canvas.ds.offset[1] = margin - top
  app.canvas.setDirty(true, true)
  await new Promise((resolve) => setTimeout(resolve, 900))
  return [Math.max(...boxes.map((b) => b[0] + b[2])) - left, Math.max(...boxes.map((b) => b[1] + b[3])) - top]
}"""


def photograph(page: Page, path: Path, ids: list[int]) -> None:
    """Write a picture of the nodes with these ids, or of the whole graph without ids, as they are on the screen."""
    width, height = page.evaluate(PLACE, [MARGIN, ids])
    page.set_viewport_size({"width": int(width) + 2 * MARGIN, "height": int(height) + 2 * MARGIN})
    page.evaluate(PLACE, [MARGIN, ids])
    area = {"x": MARGIN - EDGE, "y": MARGIN - EDGE, "width": width + 2 * EDGE, "height": height + 2 * EDGE}
    for quality in range(85, 20, -10):
        picture = page.screenshot(type="jpeg", quality=quality, clip=area)
        if len(picture) <= MAX_BYTES:
            break
    path.write_bytes(picture)


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def export(page: Page, name: str) -> None:
    """Build one workflow, write its files, run it, and take its picture."""
    graph, identity = GRAPHS[name], str(uuid.uuid5(uuid.NAMESPACE_URL, name))
    table = {key: dataclasses.asdict(node) for key, node in graph.nodes.items()}
    page.set_viewport_size({"width": 1600, "height": 900})
    workflow, prompt = json.loads(page.evaluate(BUILD, [identity, table, graph.groups, graph.links]))
    write(WORKFLOWS / f"{name}.json", workflow)
    write(WORKFLOWS / "api" / f"{name}.json", prompt)
    if failed := page.evaluate(RUN):
        raise SystemExit(f"{name}: {failed}")
    ids = [number for number, key in enumerate(graph.nodes, 1) if key in graph.crop]
    photograph(page, WORKFLOWS / f"{name}.jpg", ids)
    if name == next(iter(GRAPHS)) and "PICTURE" in os.environ:
        photograph(page, Path(os.environ["PICTURE"]), [])


def main(address: str, names: list[str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        page.goto(address)
        page.wait_for_function(READY, timeout=120_000)
        page.wait_for_timeout(2000)  # the templates, which a first start shows
        page.keyboard.press("Escape")
        page.evaluate(PLAIN)
        for name in names:
            export(page, name)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(GRAPHS))
