"""Writes workflows/*.json and workflows/api/*.json from the real frontend, in a real browser.

Not a test: run by hand after a node's inputs change, with a ComfyUI that has this pack and a model folder named
OmniVoice: `python tests/comfyui/export_workflows.py http://127.0.0.1:8188 [folder for screenshots]`. Needs
playwright and a Chromium (CHROMIUM names it). A workflow is positional, so it is never edited by hand;
`test_browser.py` checks the result.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path

from playwright.sync_api import sync_playwright

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
READY = "window.app && window.app.graph && Object.keys(window.LiteGraph.registered_node_types).length > 100"
DESIGN_NOTE = """## OmniVoice: a described voice

1. Put the model folder into `ComfyUI/models/omnivoice/OmniVoice`, or run `python -m omnivoice download` in this pack's
   folder. Press R, and choose it in **Load OmniVoice**.
2. Pick what the voice is like. Everything may stay on auto.
3. Type the text and run.

The weights are licensed CC-BY-NC: no commercial use."""
CLONE_NOTE = """## OmniVoice: a cloned voice

1. Put the model folder into `ComfyUI/models/omnivoice/OmniVoice`, or run `python -m omnivoice download` in this pack's
   folder. Press R, and choose it in **Load OmniVoice**.
2. Copy `omnivoice_reference.wav` from this pack's `workflows` folder into `ComfyUI/input`, or choose a recording of
   your own: one speaker, 3-10 seconds. Clone only voices you may use.
3. Type exactly what the recording says as its transcript, then the text to speak, and run.

The weights are licensed CC-BY-NC: no commercial use."""
# name -> (type, position, size, widgets), in order; then links (from, slot, to, input name).
LOAD = ("LoadOmniVoice", [40, 40], [320, 110], {"model_name": "OmniVoice"})
GRAPHS = {
    "omnivoice_design": (
        {
            "load": LOAD,
            "design": ("OmniVoiceVoiceDesignAttributes", [40, 200], [320, 200], {
                "gender": "female", "age": "young adult", "pitch": "moderate pitch", "accent": "british accent"}),
            "speak": ("OmniVoiceSynthesize", [420, 40], [400, 360], {
                "text": "Good evening. This voice was described in words, and needed no recording."}),
            "save": ("SaveAudio", [880, 40], [330, 120], {"filename_prefix": "audio/omnivoice_design"}),
            "note": ("MarkdownNote", [40, 460], [460, 200], {0: DESIGN_NOTE}),
        },
        [("load", 0, "speak", "model"), ("design", 0, "speak", "design"), ("speak", 0, "save", "audio")],
    ),
    "omnivoice_clone": (
        {
            "load": LOAD,
            "audio": ("LoadAudio", [40, 200], [320, 140], {"audio": "omnivoice_reference.wav"}),
            "voice": ("OmniVoiceReferenceAudio", [420, 40], [400, 160], {
                "transcript": "Good morning everyone, thank you for coming today."}),
            "speak": ("OmniVoiceSynthesize", [880, 40], [400, 360], {
                "text": "This sentence was never recorded, but it is spoken in the voice of the recording."}),
            "save": ("SaveAudio", [1340, 40], [330, 120], {"filename_prefix": "audio/omnivoice_clone"}),
            "note": ("MarkdownNote", [40, 420], [520, 230], {0: CLONE_NOTE}),
        },
        [("load", 0, "voice", "model"), ("audio", 0, "voice", "audio"), ("load", 0, "speak", "model"),
         ("voice", 0, "speak", "voice"), ("speak", 0, "save", "audio")],
    ),
}  # fmt: skip
BUILD = """async ([id, nodes, links]) => {
  app.graph.clear()
  app.graph.id = id
  const made = {}
  for (const [name, [type, pos, size, widgets]] of Object.entries(nodes)) {
    const node = LiteGraph.createNode(type)
    node.pos = pos
    const ours = type.includes('OmniVoice')
    Object.assign(node.properties, ours ? { cnr_id: 'omnivoice-nodes', ver: '0.1.0' } : { cnr_id: 'comfy-core' })
    if (type === 'SaveAudio') node.title = 'Save Audio'  // its own title calls it deprecated; 0.14 has no other
    app.graph.add(node)
    for (const [key, value] of Object.entries(widgets)) {
      const widget = node.widgets.find((w) => w.name === key) ?? node.widgets[Number(key)]
      widget.value = value
    }
    const seed = node.widgets?.find((w) => w.name === 'control_after_generate')
    if (seed) seed.value = 'fixed'
    node.setSize([Math.max(size[0], node.size[0]), Math.max(size[1], node.computeSize()[1])])
    made[name] = node
  }
  for (const [from, slot, to, input] of links)
    made[from].connect(slot, made[to], made[to].inputs.findIndex((i) => i.name === input))
  await new Promise((resolve) => setTimeout(resolve, 500))
  const prompt = await app.graphToPrompt()
  return JSON.stringify([{ ...app.graph.serialize(), extra: {} }, prompt.output])
}"""


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main(address: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        page.goto(address)
        page.wait_for_function(READY, timeout=120_000)
        for name, graph in GRAPHS.items():
            identity = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
            workflow, prompt = json.loads(page.evaluate(BUILD, [identity, *graph]))
            if len(sys.argv) > 2:
                page.screenshot(path=f"{sys.argv[2]}/{name}.png")
            write(WORKFLOWS / f"{name}.json", workflow)
            write(WORKFLOWS / "api" / f"{name}.json", prompt)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
