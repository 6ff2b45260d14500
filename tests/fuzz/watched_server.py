"""A real ComfyUI for the fuzz programme: what its process does is recorded, and planted files tell what leaks.

Needs COMFYUI_PATH (and COMFYUI_PYTHON), as the tests do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.comfyui import headless
from tests.comfyui.headless import Comfy
from tests.conftest import ROOT, comfyui_path

WATCH = "server_watch.py"
CANARY = "canary-5f1d9c-nobody-reads-this"
TOKEN = "hf_canary5f1d9cNobodyMaySeeThisToken"
CHECKPOINT = ROOT / "tests" / "assets" / "checkpoint"
SAVING = ("output", "temp", "models/omnivoice", "models/omnivoice_voices", "models/loras", "user")
DEVICES = ("/dev/null", "/dev/urandom", "/dev/shm", "/proc", "/sys", "/usr/share", "/usr/lib", "/etc/localtime")


class WatchedServer:
    """One server with its planted files. Everything is below `folder`, which is empty at first."""

    def __init__(self, folder: Path):
        tree = comfyui_path()
        if tree is None:
            raise RuntimeError("no ComfyUI to attack: set COMFYUI_PATH to its folder, and COMFYUI_PYTHON to its python")
        self.base, self.outside, self.home = folder / "base", folder / "outside", folder / "home"
        self.events, self._read = folder / "events", 0
        headless.make_base(self.base, CHECKPOINT)
        shutil.copy(Path(__file__).parent / "on_server" / WATCH, self.base / "custom_nodes")
        self._plant()
        environment = {"HOME": str(self.home), "HF_TOKEN": TOKEN, "OMNIVOICE_WATCH": json.dumps(self._rules(tree))}
        environment["TMPDIR"] = str(self.base / "temp")
        self.comfy: Comfy = headless.start(tree, self.base, environment, (headless.PACK, headless.ODD, WATCH))
        try:
            headless.wait_until_ready(self.comfy)
        except RuntimeError:
            self.stop()
            raise
        self.comfy.connect()

    def _plant(self) -> None:
        """Put files where no prompt may reach, and links to them where prompts may."""
        (self.home / ".cache" / "huggingface").mkdir(parents=True)
        (self.home / ".cache" / "huggingface" / "token").write_text(TOKEN)
        self.outside.mkdir()
        (self.base / "temp").mkdir()
        for name in ("secret", "secret.txt", "secret.json", "secret.safetensors", "metadata.csv"):
            (self.outside / name).write_text(f"{CANARY}\n")
        clip = self.base / "input" / "omnivoice_reference.wav"
        shutil.copy(clip, self.outside / "secret.wav")
        folder = self.base / "input" / "hostile"
        shutil.copytree(headless.CLIPS, folder)
        rows = [f"{self.outside}/secret.wav|x", "../../../outside/secret.wav|x", "link/secret.wav|x", "pipe.wav|x"]
        (folder / "metadata.csv").write_text(
            "\n".join([*rows, "clip1.wav|hello there", "soft.wav|x", "//host/a.wav|x"])
        )
        if sys.platform != "win32":
            (folder / "link").symlink_to(self.outside)
            (folder / "soft.wav").symlink_to(self.outside / "secret.wav")
            (self.base / "input" / "away").symlink_to(self.outside)
            os.mkfifo(folder / "pipe.wav")

    def _rules(self, tree: Path) -> Mapping[str, object]:
        python = Path(headless.comfyui_python(tree))
        places = "sys.prefix, sys.base_prefix, sysconfig.get_path('stdlib')"
        code = f"import json, sys, sysconfig; print(json.dumps([{places}]))"
        told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
        source = [*json.loads(told), str(tree), str(self.base / "custom_nodes")]
        saving = [str(self.base / place) for place in SAVING]
        return {
            "log": str(self.events),
            "source": [os.path.realpath(place) for place in source],
            "read": [os.path.realpath(place) for place in (*source, self.base, *DEVICES)],
            "worker": [os.path.realpath(place) for place in (*saving, "/dev/null")],
            "main": [
                os.path.realpath(place)
                for place in (*saving, self.base / "input", self.base / "comfyui.db", "/dev/null")
            ],
        }

    def new_events(self) -> list[str]:
        """Return what the process did since the last call that no prompt may cause."""
        if not self.events.exists() or self.events.stat().st_size == self._read:
            return []
        with self.events.open("rb") as file:
            file.seek(self._read)
            told = file.read()
        self._read += len(told)
        return told.decode("utf-8", "replace").splitlines()

    def cpu_seconds(self) -> float:
        """Return the processor time that the server has used; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.comfy.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def new_peak_mib(self) -> float:
        """Return the server's highest memory since the last call, in MiB, above what it uses now; 0 where unknown."""
        place = Path(f"/proc/{self.comfy.process.pid}")
        try:
            lines = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
            (place / "clear_refs").write_text("5")
        except OSError:
            return 0.0
        return (int(lines["VmHWM"].split()[0]) - int(lines["VmRSS"].split()[0])) / 1024

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Return {path: (size, time of change)} of every file that no prompt may change, below the server's folders."""
        kept = [self.base / place for place in (*SAVING, "input")] + [
            self.base / "server.log",
            self.base / "comfyui.db",
        ]
        found = {}
        for root in (self.base, self.outside, self.home, self.comfy.tree):
            for folder, inner, files in os.walk(root):
                inner[:] = [
                    one for one in inner if Path(folder, one) not in kept and one not in ("__pycache__", ".git")
                ]
                for path in (Path(folder, name) for name in files):
                    if path not in kept and not path.name.startswith("comfyui.db"):
                        status = path.lstat()
                        found[str(path)] = (status.st_size, status.st_mtime_ns)
        return found

    def upload(self, name: str, data: bytes, *, subfolder: str = "", kind: str = "input") -> int:
        """Send a file as the browser does, over one of that name; return the HTTP status, 0 if the server hung up."""
        fields = {"overwrite": "true", "type": kind, "subfolder": subfolder}
        parts = [
            f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode("utf-8", "replace")
            for k, v in fields.items()
        ]
        shown = name.replace('"', "%22").replace("\r", "").replace("\n", "").encode("utf-8", "replace")
        head = b'--x\r\nContent-Disposition: form-data; name="image"; filename="' + shown + b'"\r\n'
        body = b"".join([*parts, head, b"Content-Type: application/octet-stream\r\n\r\n", data, b"\r\n--x--\r\n"])
        address = f"http://{self.comfy.address}/upload/image"
        request = urllib.request.Request(address, body, {"Content-Type": "multipart/form-data; boundary=x"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def stop(self) -> None:
        headless.stop(self.comfy)
