"""No file that a command writes tells where it was made, by whom, or with which token: files are shared."""

from __future__ import annotations

import json
import platform
import re
import shutil
import socket
from pathlib import Path

import pytest

from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora_read import read_lora
from omnivoice.weights.lora_write import write_lora
from tests.unit.commands.test_command_line import WORDS, Run

pytestmark = pytest.mark.usefixtures("one_engine")

USER, TOKEN = "someone-private", "hf_" + "t" * 30
FILE = re.compile(r"(?<![\w.-])(?:\w+\.(?:wav|txt|srt|jsonl|safetensors)|merged|cache|speech|clips)$")  # made absolute
COMMANDS: dict[str, tuple[object, ...]] = {
    "speak": ("Hello.", "-o", "out.wav", "--steps", 1, "--voice", "clip.wav", "--transcript", WORDS),
    "disclose": ("speak", "Hello.", "-o", "told.wav", "--steps", 1, "--disclose", "both"),
    "narrate": ("book.txt", "-o", "book.wav", "--steps", 1, "--keep-parts", "--voice", "clip.wav"),
    "dialogue": (
        "talk.txt",
        "-o",
        "talk.wav",
        "--steps",
        1,
        "--keep-parts",
        "--voice",
        "Anna=clip.wav",
        "--speaker",
        "Bob",
    ),
    "subtitles": ("in.srt", "-o", "cues.wav", "--steps", 1, "--voice", "clip.wav"),
    "batch": ("list.jsonl", "-o", "speech", "--steps", 1),
    "voice save": ("clip.wav", "--transcript", WORDS, "--consent", "self", "-o", "anna.safetensors"),
    "merge": ("--lora", "lora.safetensors", "-o", "merged"),
    "export": ("-o", "model.safetensors"),
    "dataset": ("clips", "--cache", "cache"),
}


@pytest.fixture(scope="module")
def run(root: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs commands below the home of a user whose name, computer and token are known."""
    home = tmp_path_factory.mktemp("homes") / USER
    folder = home / "work"
    (folder / "clips").mkdir(parents=True)
    shutil.copytree(checkpoint, home / "models" / "Tiny")
    recording = root / "tests" / "assets" / "wav" / "reference.wav"
    for name in ("clip.wav", "clips/one.wav"):
        shutil.copy(recording, folder / name)
    texts = {"clips/one.txt": WORDS, "book.txt": "Hello there.", "talk.txt": "Anna: Hello.\nBob: Hi."}
    texts["in.srt"] = "1\n00:00:00,000 --> 00:00:01,000\nHello there.\n"
    rows = [{"id": "a", "text": "Hello.", "ref_audio": "clip.wav", "ref_text": WORDS}, {"id": "b", "text": ""}]
    texts["list.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    config = locate_checkpoint(checkpoint).lm_config
    write_lora(folder / "lora.safetensors", read_lora(root / "tests" / "assets" / "lora" / "plain", config))
    return Run(root, home / "models" / "Tiny", folder)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_tells_where_by_whom_or_with_which_token(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"HOME": str(run.folder.parent), "USER": USER, "LOGNAME": USER, "HF_TOKEN": TOKEN}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket, "gethostname", lambda: f"{USER}-computer")
    before = {path for path in run.folder.rglob("*") if path.is_file()}
    words = COMMANDS[command] if command == "disclose" else (*command.split(), *COMMANDS[command])
    done = run(*(FILE.sub(f"{run.folder}/\\g<0>", word) if isinstance(word, str) else word for word in words))
    written = {path for path in run.folder.rglob("*") if path.is_file()} - before
    assert written and done.returncode == (1 if command == "batch" else 0), done.stderr
    secrets = (USER, TOKEN, "hf_", f"/{platform.node()}/", str(run.root))
    for path in written:
        found = [secret for secret in secrets if secret.encode() in path.read_bytes()]
        assert found == [], path.name
