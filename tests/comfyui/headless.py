"""Starts a real ComfyUI, headless on the CPU, with this pack alone and a base folder of its own, and talks to it.

For the tests here and for the fuzz programme. Nothing is written into the ComfyUI tree.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import websocket

from tests.conftest import copy_pack_to

READY_SECONDS, PROMPT_SECONDS = 300, 900  # only something that hangs takes as long, also on a busy machine
PACK = "omnivoice-nodes-dev"
ODD = "odd_audio.py"
MODEL = "OmniVoice"
EXAMPLE_LORA = "my_omnivoice_lora.safetensors"  # as the LoRA example names the user's own
EXAMPLE_CLIPS = "my_recordings"  # as the training example names the user's own folder in input/
CLIPS = Path(__file__).resolve().parents[1] / "assets" / "training" / "clips"
PEFT = Path(__file__).resolve().parents[1] / "assets" / "lora" / "llm_only" / "adapter_model.safetensors"
# Decodes with the PyAV that ComfyUI itself needs: rate, channels, samples, rms, whether all are finite.
DECODE = """
import av, json, numpy, sys
with av.open(sys.argv[1]) as file:
    frames = [f.to_ndarray() for f in file.decode(audio=0)]
    stream = file.streams.audio[0]
    data = numpy.concatenate(frames, axis=1).astype("float64")
    scale = 1.0 if frames[0].dtype.kind == "f" else float(numpy.iinfo(frames[0].dtype).max)
    print(json.dumps({"rate": stream.rate, "channels": stream.channels, "samples": data.shape[1] // (
        1 if stream.format.is_planar else stream.channels), "rms": float(numpy.sqrt((data / scale).__pow__(2).mean())),
        "finite": bool(numpy.isfinite(data).all())}))
"""


class Comfy:
    """One running server: HTTP and websocket, and the log so far."""

    def __init__(self, tree: Path, python: str, base: Path, port: int, process: subprocess.Popen[bytes], log: Path):
        self.tree, self.python, self.base, self.process, self.log = tree, python, base, process, log
        self.address = f"127.0.0.1:{port}"
        self.client = uuid.uuid4().hex
        self.socket: websocket.WebSocket | None = None

    @property
    def version(self) -> tuple[int, ...]:
        return comfyui_version(self.tree)

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def request(self, path: str, body: object = None) -> tuple[int, bytes]:
        """(status, body) of a GET, or of a POST when there is a body."""
        data = None if body is None else json.dumps(body).encode()
        url = f"http://{self.address}{path}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def get(self, path: str) -> dict:
        status, body = self.request(path)
        assert status == 200, (path, status, body[:300])
        return json.loads(body)

    def connect(self) -> None:
        self.socket = websocket.create_connection(
            f"ws://{self.address}/ws?clientId={self.client}", timeout=PROMPT_SECONDS
        )

    def submit(self, prompt: dict) -> str:
        """Queue a prompt that the server must accept; its id."""
        status, body = self.request("/prompt", {"prompt": prompt, "client_id": self.client})
        assert status == 200, body.decode()
        return json.loads(body)["prompt_id"]

    def events(self, prompt_id: str) -> Iterator[tuple[str, dict]]:
        """(type, data) of what the websocket says about a prompt, up to and including how it ended."""
        assert self.socket
        end = time.monotonic() + PROMPT_SECONDS
        while time.monotonic() < end:
            message = self.socket.recv()
            if isinstance(message, bytes):
                continue
            event = json.loads(message)
            data = event.get("data", {})
            if data.get("prompt_id") == prompt_id:
                yield event["type"], data
                if event["type"] in {"execution_success", "execution_error", "execution_interrupted"}:
                    return
        raise TimeoutError(f"prompt {prompt_id} did not end; log: {self.log_text()[-3000:]}")

    def run(self, prompt: dict) -> tuple[str, dict]:
        """Queue a prompt and wait: how it ended, and the data of that event."""
        return list(self.events(self.submit(prompt)))[-1]

    def interrupt(self) -> None:
        self.request("/interrupt", {})

    def outputs(self, prompt: dict) -> dict[str, dict]:
        """Run a prompt that must succeed: {node: its outputs in the history}."""
        prompt_id = self.submit(prompt)
        ended, data = list(self.events(prompt_id))[-1]
        assert ended == "execution_success", data
        return self.outputs_of(prompt_id)

    def outputs_of(self, prompt_id: str) -> dict[str, dict]:
        """{node: its outputs} of a prompt that ended; the history is written a little after the last event."""
        end = time.monotonic() + 120
        while prompt_id not in (history := self.get(f"/history/{prompt_id}")) and time.monotonic() < end:
            time.sleep(0.05)
        return history[prompt_id]["outputs"]

    def files(self, prompt_id: str) -> list[dict]:
        """The audio files a prompt made, as the history lists them."""
        return audio_of(self.outputs_of(prompt_id))

    def decode(self, file: dict) -> dict:
        """What is in an audio file of the history."""
        query = urllib.parse.urlencode({k: file[k] for k in ("filename", "subfolder", "type")})
        status, body = self.request(f"/view?{query}")
        assert status == 200
        path = self.base / "decoded"
        path.write_bytes(body)
        done = subprocess.run([self.python, "-c", DECODE, str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def speak(self, prompt: dict) -> dict:
        """Run a prompt that must succeed and make one audio file; what is in the file."""
        files = audio_of(self.outputs(prompt))
        assert len(files) == 1
        return self.decode(files[0])


def audio_of(outputs: Mapping[str, dict]) -> list[dict]:
    """The audio files in the outputs of a prompt."""
    return [file for output in outputs.values() for file in output.get("audio", [])]


def write_single_file_lora(path: Path) -> None:
    """PEFT's adapter with the alphas in it, as ComfyUI's own LoRA files have them; no torch is needed."""
    data = PEFT.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header, tensors = json.loads(data[8:end]), data[end:]
    for name in [name for name in header if ".lora_A." in name]:
        place = [len(tensors), len(tensors) + 4]
        header[f"{name.partition('.lora_A.')[0]}.alpha"] = {"dtype": "F32", "shape": [], "data_offsets": place}
        tensors += struct.pack("<f", 6.0)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + tensors)


def comfyui_version(tree: Path) -> tuple[int, ...]:
    found = re.search(r'"(\d+)\.(\d+)\.(\d+)', (tree / "comfyui_version.py").read_text())
    assert found
    return tuple(map(int, found.groups()))


def comfyui_python(tree: Path) -> str:
    """The python to run a tree with: COMFYUI_PYTHON, else the tree's own venv, else this one."""
    own = [tree / venv / place for venv in (".venv", "venv") for place in ("bin/python", "Scripts/python.exe")]
    return os.environ.get("COMFYUI_PYTHON") or next((str(p) for p in own if p.is_file()), sys.executable)


def make_base(base: Path, model: Path | None) -> None:
    """Make ComfyUI's base folder: the pack in a folder with a dash in its name, clips, a LoRA, and `model` if given."""
    copy_pack_to(base / "custom_nodes" / PACK)
    (base / "models" / "omnivoice").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name(ODD), base / "custom_nodes")
    (base / "input").mkdir()
    if model is not None:
        shutil.copytree(model, base / "models" / "omnivoice" / MODEL)
    for clip in (base / "custom_nodes" / PACK / "workflows").glob("*.[mw][pa][4v]"):  # .mp4 and .wav
        shutil.copy(clip, base / "input")
    shutil.copytree(CLIPS, base / "input" / EXAMPLE_CLIPS)
    (base / "models" / "loras").mkdir()
    write_single_file_lora(base / "models" / "loras" / EXAMPLE_LORA)


def start(
    tree: Path,
    base: Path,
    environment: Mapping[str, str],
    nodes: Sequence[str] = (PACK, ODD),
    options: Sequence[str] = (),
) -> Comfy:
    """Start a server and return at once. `nodes` are the entries of custom_nodes/ that it loads, `options` more of the
    command line."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    python, log = comfyui_python(tree), base / "server.log"
    command = [python, "main.py", "--cpu", "--base-directory", str(base), "--port", str(port), "--disable-auto-launch"]
    command += ["--disable-api-nodes", "--disable-all-custom-nodes", "--whitelist-custom-nodes", *nodes]
    command += [
        "--database-url",
        f"sqlite:///{base / 'comfyui.db'}",
        *os.environ.get("COMFYUI_ARGS", "").split(),
        *options,
    ]
    everything = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", **environment}
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=tree, env=everything, stdout=file, stderr=subprocess.STDOUT)
    return Comfy(tree, python, base, port, process, log)


def wait_until_ready(server: Comfy) -> None:
    """Return once the server answers; raises RuntimeError with the end of its log if it stops or takes too long."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and server.process.poll() is None:
        try:
            server.get("/system_stats")
            return
        except OSError:
            time.sleep(0.3)
    raise RuntimeError(f"ComfyUI did not start: {server.log_text()[-3000:]}")


def stop(server: Comfy) -> None:
    """End the server and wait for it."""
    server.process.terminate()
    server.process.wait(timeout=30)
