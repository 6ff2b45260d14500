"""Errors about files name the file, and never a folder, a token or a line break: ComfyUI keeps them in its history."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from omnivoice.commands.train_config import read_order
from omnivoice.commands.upstream_prompt import read_upstream_prompt
from omnivoice.errors import OmniVoiceError
from omnivoice.intake.audio_files import read_audio
from omnivoice.intake.encodings import read_text_file
from omnivoice.intake.files import read_bytes
from omnivoice.intake.mark_reader import read_marks
from omnivoice.intake.strict_json import read_json
from omnivoice.intake.tensors import check_header, open_tensors, read_own_tensors, read_small_tensors
from omnivoice.intake.voice_files import read_voice
from omnivoice.productions.batch_rows import read_rows
from omnivoice.text.dictionary_reader import read_dictionary
from omnivoice.train.manifests import read_manifest
from omnivoice.train.state_files import read_state
from omnivoice.weights.files import locate_checkpoint
from omnivoice.weights.lora_read import read_lora
from omnivoice.weights.whisper_size import check_whisper_size
from tests.fuzz.messages import UNSEEN

SECRET = "hf_" + "s" * 30
MODEL = Path(__file__).resolve().parents[1] / "assets" / "checkpoint"


def _opened(path: Path) -> None:
    with open_tensors(path):
        pass


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "bytes": ("a.bin", lambda path: read_bytes(path, limit=100)),
    "json": ("a.json", lambda path: read_json(path, limit=100)),
    "text": ("a.srt", lambda path: read_text_file(path, limit=100)),
    "header": ("a.safetensors", check_header),
    "tensors": ("b.safetensors", read_small_tensors),
    "own tensors": ("c.safetensors", read_own_tensors),
    "mapped tensors": ("d.safetensors", _opened),
    "voice": ("anna.safetensors", read_voice),
    "lora": ("adapter_model.safetensors", lambda path: read_lora(path, locate_checkpoint(MODEL).lm_config)),
    "training state": ("state.safetensors", read_state),
    "upstream's prompt": ("prompt.pt", read_upstream_prompt),
    "recording": ("a.wav", read_audio),
    "recording in a container": ("a.m4a", read_audio),
    "marks": ("b.wav", read_marks),
    "dictionary": ("words.csv", read_dictionary),
    "batch list": ("rows.jsonl", read_rows),
    "recordings": ("clips.csv", read_manifest),
    "recordings as JSON": ("clips.jsonl", read_manifest),
    "order of a training": ("order.json", lambda path: read_order(str(path))),
    "model": ("config.json", locate_checkpoint),
    "folder of a model": ("config.json", lambda path: locate_checkpoint(path.parent)),
    "folder of a Whisper model": ("config.json", lambda path: check_whisper_size(path.parent)),
}
UNREADABLE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to(path.parent / "gone"),
    **({"a pipe": lambda path: os.mkfifo(path)} if hasattr(os, "mkfifo") else {}),
}
CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "zeros": b"\0" * 4_000,
    "letters": b"x" * 300,
    "controls": b"\x1b[31m\r\n\x00\xe2\x80\xae,\xff\xfe|\n" * 20,
    "half of JSON": b'{"a": [1,',
    "a list": b'[{"audio": "/etc/passwd", "text": "x"}]',
    "a header that is too long": struct.pack("<Q", 1 << 62) + b"{}",
    "a header that is cut short": struct.pack("<Q", 400) + b'{"a":',
    "RIFF": b"RIFF\xff\xff\xff\xffWAVEfmt \xff\xff\xff\xff",
    "a zip file": b"PK\x03\x04" + b"\0" * 100,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, whose name may be told, but not where it is."""
    monkeypatch.setenv("HF_TOKEN", SECRET)
    folder = tmp_path / "home" / "someone" / SECRET / "model"
    folder.mkdir(parents=True)
    return folder


def check(error: OmniVoiceError, folder: Path) -> None:
    message = str(error)
    assert message and not UNSEEN.search(message)
    assert SECRET not in message and "someone" not in message and str(folder.parent) not in message


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read_is_named_without_its_folder(reader: str, kind: str, folder: Path) -> None:
    name, read = READERS[reader]
    UNREADABLE[kind](folder / name)
    try:
        read(folder / name)
    except OmniVoiceError as error:
        check(error, folder)
    else:
        pytest.fail("it was read")


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_damaged_is_named_without_its_folder(reader: str, content: str, folder: Path) -> None:
    name, read = READERS[reader]
    (folder / name).write_bytes(CONTENTS[content])
    try:
        read(folder / name)
    except OmniVoiceError as error:
        check(error, folder)
