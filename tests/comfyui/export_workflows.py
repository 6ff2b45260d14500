"""Writes workflows/*.json, workflows/api/*.json and workflows/*.jpg from the real frontend, in a real browser.

Not a test: run by hand after a node's inputs or `example_graphs.py` change, on the newest ComfyUI, with this pack, a
model folder named OmniVoice, workflows/omnivoice_reference.wav in input/, and a LoRA named as in `example_graphs.py`:
`python tests/comfyui/export_workflows.py http://127.0.0.1:8188 [names of workflows]`. Needs playwright and a Chromium
(CHROMIUM names it). A workflow is positional, so it is never edited by hand; `test_browser.py` checks the result.
"""

from __future__ import annotations

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
MARGIN = 120  # pixels around a graph that the menus of the frontend take
BUILD = """async ([id, nodes, groups, links]) => {
  app.graph.clear()
  app.graph.id = id
  const made = {}
  for (const [name, [type, size, widgets, title]] of Object.entries(nodes)) {
    const node = LiteGraph.createNode(type)
    const ours = type.includes('OmniVoice')
    Object.assign(node.properties, ours ? { cnr_id: 'omnivoice-nodes', ver: '0.1.0' } : { cnr_id: 'comfy-core' })
    if (title) node.title = title
    app.graph.add(node)
    for (const [key, value] of Object.entries(widgets)) {
      const widget = node.widgets.find((w) => w.name === key) ?? node.widgets[Number(key)]
      widget.value = value
    }
    const seed = node.widgets?.find((w) => w.name === 'control_after_generate')
    if (seed) seed.value = 'fixed'
    made[name] = node
  }
  for (const [from, slot, to, input] of links)
    made[from].connect(slot, made[to], made[to].inputs.findIndex((i) => i.name === input))
  await new Promise((resolve) => setTimeout(resolve, 300))
  let x = 40
  for (const [title, columns] of groups) {
    const left = x
    let bottom = 0
    for (const column of columns) {
      let y = 100, width = 0
      for (const name of column) {
        const node = made[name], least = nodes[name][1], needs = node.computeSize()
        node.setSize([Math.max(least[0], needs[0]), Math.max(least[1], needs[1])])
        node.pos = [x, y]
        y += node.size[1] + 80
        width = Math.max(width, node.size[0])
      }
      bottom = Math.max(bottom, y - 80)
      x += width + 60
    }
    if (title) {
      const group = new LiteGraph.LGraphGroup(title)
      group.pos = [left - 20, 20]
      group.size = [x - 60 - left + 40, bottom - 20 + 50]
      app.graph.add(group)
    }
    x += 20
  }
  await new Promise((resolve) => setTimeout(resolve, 500))
  const prompt = await app.graphToPrompt()
  return JSON.stringify([{ ...app.graph.serialize(), extra: {} }, prompt.output])
}"""
# Moves the graph to (margin, margin) at its own size; how wide and tall it is.
PLACE = """async (margin) => {
  const boxes = [...app.graph._groups, ...app.graph._nodes].map((item) => item.boundingRect ?? item._bounding)
  const left = Math.min(...boxes.map((b) => b[0])), top = Math.min(...boxes.map((b) => b[1]))
  app.canvas.deselectAll()
  app.canvas.ds.scale = 1
  app.canvas.ds.offset[0] = margin - left
  app.canvas.ds.offset[1] = margin - top
  app.canvas.setDirty(true, true)
  await new Promise((resolve) => setTimeout(resolve, 700))
  return [Math.max(...boxes.map((b) => b[0] + b[2])) - left, Math.max(...boxes.map((b) => b[1] + b[3])) - top]
}"""


def photograph(page: Page, path: Path) -> None:
    """A picture of the graph alone, as it is on the screen."""
    width, height = page.evaluate(PLACE, MARGIN)
    page.set_viewport_size({"width": int(width) + 2 * MARGIN, "height": int(height) + 2 * MARGIN})
    page.evaluate(PLACE, MARGIN)
    area = {"x": MARGIN - 15, "y": MARGIN - 15, "width": width + 30, "height": height + 30}
    for quality in range(80, 20, -10):
        picture = page.screenshot(type="jpeg", quality=quality, clip=area)
        if len(picture) <= MAX_BYTES:
            break
    path.write_bytes(picture)


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


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
            identity = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
            workflow, prompt = json.loads(page.evaluate(BUILD, [identity, *GRAPHS[name]]))
            write(WORKFLOWS / f"{name}.json", workflow)
            write(WORKFLOWS / "api" / f"{name}.json", prompt)
            photograph(page, WORKFLOWS / f"{name}.jpg")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(GRAPHS))
