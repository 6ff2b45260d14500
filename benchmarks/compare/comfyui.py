"""The node inside a real ComfyUI on the CPU against the engine without ComfyUI, in the same Python, alternating.

usage: python -m benchmarks.compare.comfyui FOLDER [--rounds 5] [--steps 4] [--threads 2] [--dtype fp32] [--json FILE]
It shows whether ComfyUI's layers and patchers cost speed. A server with only this pack, started as in tests/comfyui,
makes the same cloned speech as an engine in a process of ComfyUI's Python. Both report the end of each step: the
server over its websocket, the engine through its callback. Needs COMFYUI_PATH (and COMFYUI_PYTHON) and the test
requirements.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACK_FILES = ("__init__.py", "nodes", "omnivoice", "workflows", "pyproject.toml", "requirements.txt", "LICENSE")
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
TEXT = "The train to the coast leaves from platform nine at a quarter past seven, so please be there early."
SECONDS = 5.0
SIDES = ("engine", "comfyui")


def comfyui_fixtures():
    """Return tests/comfyui/conftest.py as a module: it starts a server and talks to it."""
    spec = importlib.util.spec_from_file_location("comfyui_conftest", ROOT / "tests" / "comfyui" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lasted(ends):
    """Return the seconds per step of [(step, time of its end)]. ComfyUI reports only some of the steps."""
    (first, began), (last, ended) = ends[0], ends[-1]
    return (ended - began) / (last - first)


class Server:
    """A ComfyUI server with the pack and the model."""

    def __init__(self, options, base, fixtures):
        tree = Path(os.environ.get("COMFYUI_PATH") or Path.home() / "ComfyUI")
        pack = base / "custom_nodes" / fixtures.PACK
        pack.mkdir(parents=True)
        for name in PACK_FILES:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, pack / name)
        (base / "models" / "omnivoice").mkdir(parents=True)
        (base / "models" / "omnivoice" / fixtures.MODEL).symlink_to(Path(options.folder).resolve())
        (base / "input").mkdir()
        shutil.copy(ROOT / "workflows" / "omnivoice_reference.wav", base / "input")
        self.python, log = fixtures._python(tree), base / "server.log"
        with log.open("wb") as file:
            port, self.process = fixtures._start(tree, self.python, base, file)
        self.comfy = fixtures.Comfy(tree, self.python, base, port, self.process, log)
        fixtures._wait_until_ready(self.comfy)
        self.comfy.connect()
        self.prompt = json.loads((ROOT / "workflows" / "api" / "03_clone_a_voice.json").read_text(encoding="utf-8"))
        self.node("LoadOmniVoice")["inputs"]["dtype"] = options.dtype
        changed = {"text": TEXT, "duration": SECONDS, "steps": options.steps, "language": "English"}
        self.node("OmniVoiceSynthesize")["inputs"].update(changed)

    def node(self, kind):
        return next(node for node in self.prompt.values() if node["class_type"] == kind)

    @property
    def transcript(self):
        return self.node("OmniVoiceReferenceAudio")["inputs"]["transcript"]

    def run(self, seed):
        """Return the seconds per step. The seed must be new, or the answer comes from a cache."""
        self.node("OmniVoiceSynthesize")["inputs"]["seed"] = seed
        speaker = next(key for key, node in self.prompt.items() if node["class_type"] == "OmniVoiceSynthesize")
        ends, kind, data = [], "", {}
        for kind, data in self.comfy.events(self.comfy.submit(self.prompt)):
            if kind == "progress" and data["node"] == speaker:
                ends.append((data["value"], time.perf_counter()))
        if kind != "execution_success":
            sys.exit(f"ComfyUI: {kind}: {data}")
        return lasted(ends)


ENGINE = """
import json, sys, time
import torch
root, folder, dtype, steps, transcript, text, seconds = sys.argv[1:]
sys.path.insert(0, root)
from omnivoice import Engine, GenerationRequest, Sampling, read_audio
engine = Engine.load(folder, dtype=getattr(torch, dtype))
voice = engine.encode_voice(read_audio(root + "/workflows/omnivoice_reference.wav"), transcript)
print("ready", flush=True)
for line in sys.stdin:
    request = GenerationRequest(text=text, voice=voice, language="English", duration=float(seconds), seed=int(line),
                                sampling=Sampling(steps=int(steps)))
    ends = []
    engine.generate([request], on_step=lambda done, total: ends.append((done, time.perf_counter())))
    print(json.dumps(ends), flush=True)
"""


class Direct:
    """The engine without ComfyUI, in ComfyUI's Python."""

    def __init__(self, options, python, transcript):
        arguments = [ROOT, options.folder, DTYPES[options.dtype], options.steps, transcript, TEXT, SECONDS]
        command = [python, "-c", ENGINE, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def run(self, seed):
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        return lasted(json.loads(self.process.stdout.readline()))


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "largest": max(values)}


def shown(found, scale=1.0, digits=2):
    return "{median:.{d}f} ({least:.{d}f}-{largest:.{d}f})".format(d=digits, **{k: v * scale for k, v in found.items()})


def measure(options, base):
    server = Server(options, base, comfyui_fixtures())
    try:
        sides = {"engine": Direct(options, server.python, server.transcript), "comfyui": server}
        for side in SIDES:
            sides[side].run(0)  # warm up
        rounds = [{side: sides[side].run(seed) for side in SIDES} for seed in range(1, options.rounds + 1)]
        sides["engine"].process.communicate()
    finally:
        server.process.terminate()
        server.process.wait(timeout=30)
    found = {side: spread([r[side] for r in rounds]) for side in SIDES}
    return {**found, "ratio": spread([r["comfyui"] / r["engine"] for r in rounds]), "version": server.comfy.version}


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare.comfyui")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=DTYPES, default="fp32")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps must be 2 or more: the time between the ends of two steps is measured")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # both sides inherit it
    with tempfile.TemporaryDirectory() as base:
        found = measure(options, Path(base))
    version = ".".join(map(str, found["version"]))
    print(
        f"ms/step: engine {shown(found['engine'], 1000, 1)}, node in ComfyUI {version} "
        f"{shown(found['comfyui'], 1000, 1)}, node / engine {shown(found['ratio'])}"
    )
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
