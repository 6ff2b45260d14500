"""`download` against a hub of our own on the loopback address: fetch, keep, resume, refuse wrong bytes."""

import hashlib
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

FILES = {"config.json": b'{"a": 1}', "audio_tokenizer/model.safetensors": bytes(range(256)) * 300}
REVISION = "c" * 40
SCRIPT = """
import json, sys
import omnivoice.commands.download as download
from omnivoice.__main__ import main
download.load_table = lambda name: json.loads(sys.argv[1])
for target in sys.argv[2:]:
    print("exit", main(["download", "--to", target]))
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as one file needs: /repo/resolve/revision/path with the headers that clients ask for."""

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body):
        self.server.seen.append((self.command, self.path, self.headers.get("Authorization")))
        repository, _, path = self.path.partition(f"/resolve/{REVISION}/")
        data = self.server.files.get(path)
        if repository != "/k2-fsa/OmniVoice" or data is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("ETag", '"' + hashlib.sha1(data).hexdigest() + '"')
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.seen = dict(FILES), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def run(root, hub, tmp_path, *targets):
    manifest = {
        "repository": "k2-fsa/OmniVoice", "revision": REVISION,
        "license": {"code": "Apache-2.0", "weights": "CC-BY-NC", "audio_tokenizer": "Boson"},
        "files": [{"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                  for path, data in FILES.items()],
    }  # fmt: skip
    environment = {"PATH": "", "PYTHONPATH": str(root), "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
                   "HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}  # fmt: skip
    command = [sys.executable, "-c", SCRIPT, json.dumps(manifest), *map(str, targets)]
    return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)


def test_fetches_once_shows_the_licence_and_keeps_what_is_right(root, hub, tmp_path):
    target = tmp_path / "model"
    result = run(root, hub, tmp_path, target, target)
    assert result.stdout.count("exit 0") == 2, result.stdout + result.stderr
    assert "CC-BY-NC" in result.stdout
    assert {path: (target / path).read_bytes() for path in FILES} == FILES
    assert result.stdout.count("already here") == 2
    asked = [(command, path) for command, path, _ in hub.seen if not path.startswith("/api/")]  # the client's own
    gets = [path.rpartition(REVISION)[2][1:] for command, path in asked if command == "GET"]
    assert sorted(gets) == sorted(FILES)
    assert all(token is None for _, _, token in hub.seen)
    assert all(path.startswith(f"/k2-fsa/OmniVoice/resolve/{REVISION}/") for _, path in asked)


def test_wrong_bytes_and_missing_files_are_refused(root, hub, tmp_path):
    hub.files["config.json"] = b'{"a": 2}'  # same size, other content
    target = tmp_path / "model"
    result = run(root, hub, tmp_path, target)
    assert "exit 1" in result.stdout
    assert "config.json arrived with other bytes" in result.stderr
    assert not (target / "config.json").exists()
    del hub.files["config.json"]
    result = run(root, hub, tmp_path, target)
    assert "exit 1" in result.stdout
    assert "config.json could not be fetched" in result.stderr
    assert "HF_ENDPOINT" in result.stderr
    assert "Traceback" not in result.stderr


def test_without_the_client_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    """tokenizers brings huggingface_hub along, but its older releases do not."""
    from omnivoice.__main__ import main

    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["download", "--to", str(tmp_path)]) == 1
    assert "pip install -U huggingface_hub" in capsys.readouterr().err
