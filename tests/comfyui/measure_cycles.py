"""Measures a running ComfyUI: RAM over ten load/run/free cycles, how fast Cancel is, how often a reference is encoded.

Not a test: `python tests/comfyui/measure_cycles.py http://127.0.0.1:8188 PID`, with the server's process id, a model
folder named OmniVoice and workflows/omnivoice_reference.wav in input/. Linux (it reads /proc). Prints figures and
judges nothing.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import websocket

API = Path(__file__).resolve().parents[2] / "workflows" / "api"
CYCLES, CANCELS = 10, 5
ENDS = {"execution_success", "execution_error", "execution_interrupted"}


class Server:
    """The HTTP interface and the websocket of one ComfyUI."""

    def __init__(self, address: str, pid: int):
        self.address, self.pid, self.client = address.rstrip("/"), pid, uuid.uuid4().hex
        self.socket = websocket.create_connection(
            f"{self.address.replace('http', 'ws', 1)}/ws?clientId={self.client}", timeout=600
        )

    def post(self, path: str, body: dict) -> bytes:
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def events(self, prompt: dict) -> Iterator[tuple[str, dict]]:
        prompt_id = json.loads(self.post("/prompt", {"prompt": prompt, "client_id": self.client}))["prompt_id"]
        while True:
            message = self.socket.recv()
            event = json.loads(message) if isinstance(message, str) else {}
            if event.get("data", {}).get("prompt_id") == prompt_id:
                yield event["type"], event["data"]
                if event["type"] in ENDS:
                    return

    def run(self, prompt: dict) -> list[tuple[str, dict]]:
        events = list(self.events(prompt))
        assert events[-1][0] == "execution_success", events[-1]
        return events

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1000


def prompt_of(name: str, *, steps: int, **values: object) -> dict:
    prompt = json.loads((API / f"{name}.json").read_text(encoding="utf-8"))
    for node in prompt.values():
        if node["class_type"] == "OmniVoiceSynthesize":
            node["inputs"].update(values, settings=["settings", 0])
    return {**prompt, "settings": {"class_type": "OmniVoiceSettings", "inputs": {"steps": steps}}}


def cycles(server: Server) -> None:
    print(f"before the first load: {server.resident_mb():.0f} MB")
    for cycle in range(1, CYCLES + 1):
        start = time.monotonic()
        server.run(prompt_of("03_clone_a_voice", seed=cycle, steps=4, text="One short sentence."))
        took, used = time.monotonic() - start, server.resident_mb()
        server.post("/free", {"unload_models": True, "free_memory": True})
        time.sleep(3.0)  # the worker looks at this once a second
        print(f"cycle {cycle}: {took:.1f} s, {used:.0f} MB in use, {server.resident_mb():.0f} MB freed", flush=True)


def cancels(server: Server) -> None:
    server.run(prompt_of("02_design_a_voice", seed=1, steps=2, text="Loaded."))
    found, steps = [], []
    for seed in range(CANCELS):
        asked, last = 0.0, 0.0
        for kind, data in server.events(
            prompt_of("02_design_a_voice", seed=seed, steps=256, text="One sentence, to be cancelled.")
        ):
            if kind == "progress":
                now = time.monotonic()
                steps += [now - last] if last and not asked else []
                last = now
                if data["value"] >= 3 and not asked:
                    asked = time.monotonic()
                    server.post("/interrupt", {})
        assert kind == "execution_interrupted"
        found.append(time.monotonic() - asked)
    middle, step = statistics.median(found), statistics.median(steps)
    print(f"cancel: median {middle:.3f} s, worst {max(found):.3f} s (progress arrives every {step:.3f} s)")
    server.run(prompt_of("02_design_a_voice", seed=2, steps=2, text="Fine again."))


def encodes(server: Server) -> None:
    prompt = prompt_of("03_clone_a_voice", steps=2, text="The first of two.")
    by_kind = {node["class_type"]: key for key, node in prompt.items()}
    say, save = by_kind["OmniVoiceSynthesize"], by_kind["SaveAudio"]
    prompt["90"] = {**prompt[say], "inputs": {**prompt[say]["inputs"], "text": "The second of two."}}
    prompt["91"] = {**prompt[save], "inputs": {**prompt[save]["inputs"], "audio": ["90", 0]}}
    voice = by_kind["OmniVoiceReferenceAudio"]
    prompt[voice]["inputs"]["transcript"] += " Anew."
    ran = [data["node"] for kind, data in server.run(prompt) if kind == "executing"]
    prompt["90"]["inputs"]["text"] = "Something else."
    later = [data["node"] for kind, data in server.run(prompt) if kind == "executing"]
    print(f"one reference, two Synthesize: encoded {ran.count(voice)} time(s); with another text: {later.count(voice)}")


if __name__ == "__main__":
    running = Server(sys.argv[1], int(sys.argv[2]))
    cycles(running)
    cancels(running)
    encodes(running)
