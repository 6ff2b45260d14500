"""MP4 tables that lie are refused before FFmpeg builds on them, and honest files of every shape are read.

PyAV is a test requirement (tests/requirements.txt): without it this file fails, on purpose.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from omnivoice.errors import AudioError
from omnivoice.intake import mp4_boxes
from omnivoice.intake.audio_files import read_audio
from omnivoice.intake.cancel import cancelled_by
from tests.audio_encoding import encode, noise, tone

FRAGMENTED = {"movflags": "frag_keyframe+empty_moov", "frag_duration": "100000"}
MIB = 1 << 20


def box(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content


def numbers(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


HEAD = box(b"ftyp", b"M4A \0\0\0\0")
SOUND = box(b"hdlr", numbers(0, 0) + b"soun")


@pytest.fixture
def no_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if FFmpeg sees the file."""
    monkeypatch.setattr(av, "open", None)


@pytest.mark.parametrize(
    ("kind", "codec", "options"),
    [
        ("mp4", "aac", {}),
        ("mp4", "aac", {"movflags": "faststart"}),
        ("mp4", "aac", FRAGMENTED),
        ("mov", "alac", {}),
        ("mov", "pcm_s16le", {}),
        ("mov", "pcm_s24le", FRAGMENTED),
        ("mov", "pcm_f32le", {}),
        ("3gp", "aac", {}),
    ],
)
def test_honest_files(tmp_path: Path, kind: str, codec: str, options: dict[str, str]) -> None:
    path = encode(tmp_path / f"x.{kind}", kind, codec, noise(48_000, 3), 48_000, 2, options=options)
    assert read_audio(path, require_complete=True).samples.shape[1] >= 48_000 * 3


def test_ten_minutes_of_pcm_have_many_samples(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.mov", "mov", "pcm_s16le", np.zeros(8_000 * 590, np.float32), 8_000)
    with path.open("rb") as file:
        mp4_boxes.check_boxes(file, "x.mov")
        assert file.tell() == 0


@pytest.mark.parametrize("count", [1_000_001, 10_000_000, 80_000_000, 0xFFFFFFFF])
@pytest.mark.usefixtures("no_decoder")
def test_a_small_file_that_describes_many_samples(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.m4a"
    path.write_bytes(HEAD + box(b"moov", box(b"trak", SOUND + box(b"stsz", numbers(0, 1, count)))))
    with pytest.raises(AudioError, match=r"^x\.m4a is damaged: its tables describe more than 1000000 samples; convert"):
        read_audio(path)


def _lying(kind: bytes, offset: int, *values: int) -> Callable[[bytes], bytes]:
    """Return a change of a real file: other numbers, `offset` bytes after the name of a table."""

    def change(data: bytes) -> bytes:
        at = data.index(kind) + 4 + offset
        return data[:at] + numbers(*values) + data[at + 4 * len(values) :]

    return change


@pytest.mark.parametrize(
    ("kind", "codec", "options", "changes"),
    [
        ("mp4", "aac", {}, [_lying(b"stsz", 4, 1, 80_000_000)]),
        ("mp4", "aac", {}, [_lying(b"stsc", 12, 80_000_000)]),
        ("mov", "alac", {}, [_lying(b"stsz", 4, 1, 2_000_000)]),
        ("mov", "pcm_s16le", {}, [_lying(b"stsz", 4, 2, 80_000_000)]),
        ("mov", "pcm_s16le", {}, [_lying(b"stsc", 12, 80_000_000)]),
        ("mov", "pcm_s16le", {}, [_lying(b"stsz", 4, 2, 2_000_000), _lying(b"stts", 12, 2)]),
        ("mov", "pcm_s16le", {}, [_lying(b"stsz", 4, 2, 2_000_000), _lying(b"soun", 0, 0x76696465)]),
        ("mp4", "aac", FRAGMENTED, [_lying(b"trun", 0, 0, 80_000_000)]),
    ],
)
def test_real_files_whose_tables_lie(
    tmp_path: Path,
    kind: str,
    codec: str,
    options: dict[str, str],
    changes: list[Callable[[bytes], bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = encode(tmp_path / f"x.{kind}", kind, codec, tone(24_000, 2), 24_000, options=options)
    data = path.read_bytes()
    for change in changes:
        data = change(data)
    path.write_bytes(data)
    monkeypatch.setattr(av, "open", None)
    with pytest.raises(AudioError, match=rf"^x\.{kind} is damaged: its tables describe more than 1000000 samples"):
        read_audio(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (HEAD + box(b"free") * 100_001, "it has more than 100000 parts"),
        (HEAD + box(b"moov", box(b"trak") * 100_001), "it has more than 100000 tables"),
        (HEAD + box(b"moov", bytes(33 * MIB)), "it has more than 33554432 bytes that are not audio"),
        (HEAD + box(b"free", bytes(17 * MIB)) * 2, "it has more than 33554432 bytes that are not audio"),
        (HEAD + box(b"moov", box(b"cmov", box(b"cmvd", bytes(9)))), "its tables are compressed"),
        (HEAD + box(b"moov", box(b"trak", box(b"stsc", bytes(8)) * 2)), "it has two tables of one kind"),
        (HEAD + numbers(3) + b"xxxx" + box(b"trun", numbers(0, 2_000_000)), "its tables describe more than 1000000"),
        (HEAD + numbers(1) + b"free" + numbers(0, 40) + box(b"trun", numbers(0, 1 << 31)) + bytes(4), "its tables des"),
        (HEAD + numbers(0) + b"moov" + box(b"trun", numbers(0, 2_000_000)), "its tables describe more than 1000000"),
    ],
)
@pytest.mark.usefixtures("no_decoder")
def test_boxes_without_bound(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.m4a").write_bytes(data)
    with pytest.raises(AudioError, match=rf"^x\.m4a is damaged: {message}.*convert it to WAV, with ffmpeg -i x\.m4a"):
        read_audio(tmp_path / "x.m4a")


@pytest.mark.usefixtures("no_decoder")
def test_cancel_is_heard_while_boxes_are_counted(tmp_path: Path) -> None:
    (tmp_path / "x.m4a").write_bytes(HEAD + box(b"free") * 100_001)
    heard: list[int] = []
    with pytest.raises(AudioError), cancelled_by(lambda: heard.append(1)):
        read_audio(tmp_path / "x.m4a")
    assert len(heard) > 90


def test_tables_that_are_cut_short() -> None:
    whole = HEAD + box(b"moov", box(b"trak", SOUND + box(b"stsc", numbers(0, 2, 1, 5, 1, 2, 6, 1)) + box(b"stco")))
    for length in range(len(whole) + 1):
        mp4_boxes.check_boxes(io.BytesIO(whole[:length]), "x")


def test_every_start_that_ffmpeg_takes_for_an_mp4_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the first box is called, FFmpeg either sees a file that was checked, or may not read it as an MP4."""
    inner = encode(tmp_path / "x.m4a", "mp4", "aac", tone(24_000), 24_000).read_bytes()
    checked: list[str] = []
    real = mp4_boxes.check_boxes
    monkeypatch.setattr(
        "omnivoice.intake.container_audio.check_boxes", lambda file, name: checked.append(name) or real(file, name)
    )
    names = [b"free", b"skip", b"wide", b"pnot", b"udta", b"junk", b"uuid", b"mdat", b"abcd", b"meta", b"jP2 ", b"moof"]
    for name in names:
        checked.clear()
        (tmp_path / "x").write_bytes(box(name, bytes(16)) + inner)
        try:
            read_audio(tmp_path / "x")
        except AudioError:
            continue
        assert checked == ["x"], name
