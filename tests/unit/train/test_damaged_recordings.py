"""One damaged recording among many: every row is named with its reason, and the others are used."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from omnivoice.codec import CodecEncoder
from omnivoice.errors import AudioError, InputError
from omnivoice.intake import files
from omnivoice.ops import PLAIN_OPS
from omnivoice.train import code_cache
from omnivoice.train.clips import Dataset
from omnivoice.train.dataset import build_dataset, graph_rows
from omnivoice.train.manifests import read_manifest
from omnivoice.train.rows import Manifest
from omnivoice.types import Waveform
from omnivoice.weights import load_codec_encoder, locate_checkpoint

TEXT = "Good morning everyone."
RATE = 24_000


@pytest.fixture(scope="module")
def build(checkpoint: Path) -> Callable[[Manifest], Dataset]:
    found = locate_checkpoint(checkpoint)
    encoder: CodecEncoder = load_codec_encoder(
        found.codec_config, found.codec_weights, ops=PLAIN_OPS, device=torch.device("cpu")
    )
    encode, known = encoder.encode, dict[bytes, torch.Tensor]()

    def encode_once(samples: torch.Tensor) -> torch.Tensor:
        """The good recordings are the same in every test."""
        key = samples.numpy().tobytes()
        if key not in known:
            known[key] = encode(samples)
        return known[key]

    encoder.encode = encode_once  # type: ignore[method-assign]
    return lambda manifest: build_dataset(manifest, encoder, "cpu")


def sound(seed: int = 0) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).standard_normal(36_000).astype(np.float32)


def write(path: Path, samples: np.ndarray | None = None, **options: str) -> Path:
    soundfile.write(path, sound() if samples is None else samples, RATE, **options)
    return path


def cut(path: Path, share: float = 0.5, **options: str) -> None:
    data = write(path, **options).read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def png(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I4s", 13, b"IHDR") + bytes(200))


def spoilt(value: float) -> Callable[[Path], object]:
    samples = sound()
    samples[20_000] = value
    return lambda path: write(path, samples, subtype="FLOAT")


def header_only(path: Path) -> None:
    path.write_bytes(write(path).read_bytes()[:44])


def scrambled(path: Path) -> None:
    data = bytearray(write(path).read_bytes())
    data[40:400] = bytes(range(180)) * 2
    path.write_bytes(data)


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "cut wav": ("bad.wav", cut, r"bad\.wav is cut short: \d+ of 36000 samples are there"),
    "cut flac": ("bad.flac", cut, r"bad\.flac"),
    "cut ogg": ("bad.ogg", cut, r"bad\.ogg"),
    "cut mp3": ("bad.mp3", cut, r"bad\.mp3"),
    "cut aiff": ("bad.aiff", cut, r"bad\.aiff is cut short"),
    "cut in the header": ("bad.wav", lambda path: cut(path, 0.0003), r"bad\.wav"),
    "header only": ("bad.wav", header_only, r"bad\.wav"),
    "zero bytes": ("bad.wav", Path.touch, r"bad\.wav is empty"),
    "zeros": ("bad.wav", lambda path: path.write_bytes(bytes(5000)), r"bad\.wav"),
    "text": ("bad.wav", lambda path: path.write_text("These are words. " * 99), r"bad\.wav"),
    "web page": ("bad.mp3", lambda path: path.write_text("<!DOCTYPE html><html></html>"), r"bad\.mp3"),
    "picture": ("bad.flac", png, r"bad\.flac"),
    "NaN": ("bad.wav", spoilt(float("nan")), "it holds samples that are NaN, infinite or beyond"),
    "infinite": ("bad.wav", spoilt(float("inf")), "it holds samples that are NaN, infinite or beyond"),
    "enormous": ("bad.wav", spoilt(1e30), "it holds samples that are NaN, infinite or beyond"),
    "scrambled": ("bad.wav", scrambled, r"bad\.wav|its text"),
    "link to nothing": ("bad.wav", lambda path: path.symlink_to("gone.wav"), r"bad\.wav does not exist"),
    "link to itself": ("bad.wav", lambda path: path.symlink_to(path.name), r"bad\.wav"),
    "pipe": ("bad.wav", lambda path: os.mkfifo(path), r"bad\.wav (is not a regular file|does not exist)"),
    "folder": ("bad.wav", Path.mkdir, r"bad\.wav is a folder, not a file"),
    "kind that is not read": ("bad.wma", lambda path: path.write_bytes(bytes(99)), r"bad\.wma is not an audio file"),
}
SOURCES = ("folder", "metadata.csv", "list.jsonl")


def source(folder: Path, kind: str, name: str) -> Path:
    """Return a dataset of two good recordings around the one called `name`, which is there already."""
    names = ["a.wav", name, "z.wav"]
    write(folder / "a.wav", sound(1))
    write(folder / "z.wav", sound(2))
    if kind == "folder":
        for one in names:
            (folder / one).with_suffix(".txt").write_text(TEXT)
    elif kind == "metadata.csv":
        (folder / kind).write_text("".join(f"{one}|{TEXT}\n" for one in names))
    else:
        lines = [{"id": one, "audio_path": str(folder / one), "text": TEXT} for one in names]
        (folder / kind).write_text("\n".join(map(json.dumps, lines)))
    return folder


def check(made: Dataset, reason: str) -> None:
    assert [clip.name for clip in made.clips] == ["a.wav", "z.wav"]
    ((name, why),) = [(one.name, one.reason) for one in made.rejected]
    assert name.startswith("bad.")
    assert re.search(reason, why), why
    assert made.rows == 3 and f"rejected {name}: {why}" in made.report()


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(("name", "damage", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_the_damaged_one_is_named(build, tmp_path: Path, kind: str, name: str, damage, reason: str) -> None:
    damage(tmp_path / name)
    check(build(read_manifest(source(tmp_path, kind, name))), reason)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(
    ("name", "real"), [("odd.wav", "MP3"), ("odd.mp3", "WAV"), ("odd.flac", "OGG"), ("odd.ogg", "FLAC")]
)
def test_a_wrong_suffix_is_no_damage(build, tmp_path: Path, kind: str, name: str, real: str) -> None:
    write(tmp_path / name, format=real)
    assert [clip.name for clip in build(read_manifest(source(tmp_path, kind, name))).clips] == ["a.wav", name, "z.wav"]


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("moment", ["after the list was read", "after its content was hashed"])
def test_a_file_that_vanishes(build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str) -> None:
    bad = write(tmp_path / "bad.wav")
    found = read_manifest(source(tmp_path, kind, "bad.wav"))
    if moment == "after the list was read":
        bad.unlink()
    else:
        hashed = code_cache.sha256_of

        def vanish(path: Path) -> str:
            content = hashed(path)
            if path.name == "bad.wav":
                path.unlink()
            return content

        monkeypatch.setattr(code_cache, "sha256_of", vanish)
    check(build(found), r"bad\.wav does not exist")


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(
    ("code", "reason"), [(errno.EACCES, "cannot open"), (errno.EIO, "cannot open"), (errno.ESTALE, "cannot open")]
)
def test_a_file_that_may_not_be_opened(
    build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: int, reason: str
) -> None:
    """Rights are simulated, since the administrator may read everything."""
    write(tmp_path / "bad.wav")
    open_file = os.open

    def refuse(path: object, *flags: int) -> int:
        if str(path).endswith("bad.wav"):
            raise OSError(code, os.strerror(code), str(path))
        return open_file(path, *flags)

    monkeypatch.setattr(files.os, "open", refuse)
    check(build(read_manifest(source(tmp_path, kind, "bad.wav"))), rf"{reason} bad\.wav: {os.strerror(code)}")


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"\xff\xfe\xfd"), lambda path: None])
def test_a_transcript_that_cannot_be_read_rejects_its_row(build, tmp_path: Path, monkeypatch, spoil) -> None:
    write(tmp_path / "bad.wav")
    folder = source(tmp_path, "folder", "bad.wav")
    open_file = os.open

    def refuse(path: object, *flags: int) -> int:
        if str(path).endswith("bad.txt"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return open_file(path, *flags)

    monkeypatch.setattr(files.os, "open", refuse)
    spoil(tmp_path / "bad.txt")
    check(build(read_manifest(folder)), "transcript|bad.txt")


def test_a_recording_of_a_graph_that_cannot_be_used_keeps_its_place(build) -> None:
    good = [Waveform(torch.from_numpy(sound(seed)), RATE) for seed in (1, 2)]
    made = build(graph_rows([good[0], AudioError("it has no channel"), good[1]], [TEXT, "Lost.", "Good night, all."]))
    assert [(clip.name, clip.text) for clip in made.clips] == [("clip 1", TEXT), ("clip 3", "Good night, all.")]
    assert [(one.name, one.reason) for one in made.rejected] == [("clip 2", "it has no channel")]
    with pytest.raises(InputError, match="one text for each recording, got 1 for 2"):
        graph_rows([good[0], AudioError("x")], [TEXT])


def test_if_all_are_damaged_the_first_reasons_are_told(build, tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.wav").touch()
        (tmp_path / f"{number}.txt").write_text(TEXT)
    with pytest.raises(InputError, match=r"no usable clip .*, 7 rejected: 0\.wav: 0\.wav is empty.*; 4\.wav: "):
        build(read_manifest(tmp_path))
