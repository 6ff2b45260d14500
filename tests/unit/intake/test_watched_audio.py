"""Damaged recordings cannot keep a decoder busy, cancel is heard while it works, and audio is in memory once.

PyAV is a test requirement (tests/requirements.txt): without it this file fails, on purpose.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from omnivoice.errors import AudioError
from omnivoice.intake import sample_buffer, watched_file
from omnivoice.intake.audio_files import read_audio, write_wav
from omnivoice.intake.limits import MAX_SEARCH_SECONDS, longest_audio
from omnivoice.intake.watched_file import WatchedFile
from omnivoice.types import Waveform
from tests import warm_children
from tests.audio_encoding import encode, noise, tone

MIB = 1 << 20
# What a file can be full of so that a decoder finds nothing but keeps on looking.
JUNK = {
    "mp3": b"\xff\xfb\x90\x64" + bytes(12),
    "aac": b"\xff\xf1\x50\x80\x01\x1f\xfc\x00",
    "m4a": struct.pack(">I", 16) + b"free" + bytes(8),
    "flac": b"\x01\0\0\0",
    "ogg": b"OggS\0\0" + bytes(21),
    "mkv": b"\xec\x80",
    "wav": b"junk\0\0\0\0",
}
HEADS = {
    "m4a": struct.pack(">I", 16) + b"ftypM4A \0\0\0\0",
    "flac": b"fLaC",
    "mkv": bytes.fromhex("1a45dfa38b4282886d6174726f736b61" + "1853806701ffffffffffffff"),
    "wav": b"RIFF\xff\xff\xff\x7fWAVE",
}
CONTAINERS = [
    ("mp3", "mp3", "libmp3lame"),
    ("flac", "flac", "flac"),
    ("ogg", "ogg", "libopus"),
    ("wav", "wav", "pcm_s16le"),
    ("m4a", "mp4", "aac"),
    ("aac", "adts", "aac"),
    ("webm", "webm", "libopus"),
    ("mkv", "matroska", "pcm_s16le"),
]


class Cancelled(BaseException):
    """What ComfyUI raises; no Exception, so nothing may catch it as one."""


class FakeClock:
    """A clock that goes on by `step` seconds each time it is read."""

    def __init__(self, step: float) -> None:
        self.step, self.now, self.calls = step, 0.0, 0

    def __call__(self) -> float:
        self.calls += 1
        self.now += self.step
        return self.now


@pytest.mark.parametrize("kind", JUNK)
def test_a_decoder_that_finds_nothing_is_stopped(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x.{kind}"
    path.write_bytes(HEADS.get(kind, b"") + JUNK[kind] * (MIB // len(JUNK[kind])))
    clock = FakeClock(MAX_SEARCH_SECONDS / 3)
    monkeypatch.setattr(watched_file, "clock", clock)
    with pytest.raises(AudioError, match=rf"^x\.{kind} is damaged, it holds too little audio .*ffmpeg -i x\.{kind} "):
        read_audio(path)
    assert clock.calls < 12


@pytest.mark.parametrize(("suffix", "kind", "codec"), CONTAINERS)
def test_slow_work_for_some_audio(
    tmp_path: Path, suffix: str, kind: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder may need only so much work for the audio that it finds."""
    path = encode(tmp_path / f"x.{suffix}", kind, codec, noise(48_000, 3), 48_000)
    clock = FakeClock(0)
    monkeypatch.setattr(watched_file, "clock", clock)
    assert read_audio(path).samples.shape[1] >= 48_000 * 3 and clock.calls > 3
    clock.step = 1.01 * MAX_SEARCH_SECONDS
    with pytest.raises(AudioError, match=rf"^x\.{suffix} is damaged, it holds too little audio"):
        read_audio(path)


@pytest.mark.parametrize("error", [Cancelled, KeyboardInterrupt, ValueError])
@pytest.mark.parametrize(("suffix", "kind", "codec"), CONTAINERS)
@pytest.mark.filterwarnings("error")  # a decoder prints what its input raises and continues
def test_cancel_is_heard_at_every_read(
    tmp_path: Path, suffix: str, kind: str, codec: str, error: type[BaseException]
) -> None:
    path = encode(tmp_path / f"x.{suffix}", kind, codec, noise(48_000, 4), 48_000)
    calls: list[None] = []
    whole = read_audio(path, on_read=lambda: calls.append(None)).samples
    assert len(calls) > 3
    for stop in {1, 2, len(calls) // 2, len(calls) - 1}:
        heard: list[None] = []

        def cancel(stop: int = stop, heard: list[None] = heard) -> None:
            heard.append(None)
            if len(heard) >= stop:
                raise error("stop")

        with pytest.raises(error, match=r"^stop$"):
            read_audio(path, on_read=cancel)
        assert len(heard) == stop, "nothing is read after a cancel"
    assert torch.equal(read_audio(path).samples, whole)


LISTS = {
    "tags": b"INFOISFT\x04\0\0\0Lavf",
    "labels": b"adtllabl\x08\0\0\0\x01\0\0\0one\0",
    "camera": b"exifever\x04\0\0\x000220",
    "unknown": b"abcdefgh\x04\0\0\0text",
}
CANCELLED_AT_EVERY_READ = """
import io, pathlib, resource, sys
from omnivoice.intake.libsndfile import read_with_libsndfile
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
class Cancelled(BaseException): pass
for path in pathlib.Path(sys.argv[1]).glob("*.wav"):
    data = path.read_bytes()
    for stop in range(1000):
        reads = [None] * stop
        def on_read():
            if not reads:
                raise Cancelled
            reads.pop()
        try:
            found = read_with_libsndfile(io.BytesIO(data), len(data), "x.wav", require_complete=True, on_read=on_read)
            break
        except Cancelled:
            pass
    print(path.name, stop > 5, found.samples.shape[1], flush=True)
"""


def test_a_list_of_tags_ends_a_cancel_too(tmp_path: Path) -> None:
    """libsndfile would search a list for ever, so another process reads it, with an end to its processor time."""
    write_wav(tmp_path / "plain.wav", Waveform(torch.full((1, 800), 0.25), 8_000), mark=None)
    whole = (tmp_path / "plain.wav").read_bytes()
    for kind, text in LISTS.items():
        tags = b"LIST" + struct.pack("<I", len(text)) + text
        for place, before, after in (("before", tags, b""), ("after", b"", tags), ("both", tags, tags)):
            (tmp_path / f"{kind}-{place}.wav").write_bytes(whole[:36] + before + whole[36:] + after)
    _, output, errors = warm_children.run(CANCELLED_AT_EVERY_READ, tmp_path)
    expected = {f"{path.name} True 800" for path in tmp_path.glob("*.wav")}
    assert len(expected) == 13 and {*output.splitlines()} == expected, errors[-500:]


@pytest.mark.parametrize("word", [b"LIST", b"JUNK"])
def test_samples_that_spell_a_chunk_are_kept(tmp_path: Path, word: bytes) -> None:
    samples = torch.frombuffer(bytearray(word * 5_000), dtype=torch.int16).float()[None] / 32_768
    write_wav(tmp_path / "x.wav", Waveform(samples, 8_000))
    assert torch.equal(read_audio(tmp_path / "x.wav").samples, samples)
    streamed = bytearray((tmp_path / "x.wav").read_bytes()[: 44 + len(word) * 5_000])
    streamed[40:44] = bytes(4)
    (tmp_path / "x.wav").write_bytes(streamed)
    assert torch.equal(read_audio(tmp_path / "x.wav").samples, samples)


@pytest.mark.parametrize("kind", JUNK)
def test_cancel_is_heard_in_junk(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"x.{kind}"
    path.write_bytes(HEADS.get(kind, b"") + JUNK[kind] * (MIB // len(JUNK[kind])))
    heard: list[None] = []

    def cancel() -> None:
        heard.append(None)
        if len(heard) == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        read_audio(path, on_read=cancel)
    assert len(heard) == 3


def test_packets_with_little_in_them(tmp_path: Path) -> None:
    """Two million packets of one sample would take a minute; honest ones have at least 120."""
    source = WatchedFile(io.BytesIO(), "x.mkv")
    for _ in range(10_000):
        source.packet(120)
    source = WatchedFile(io.BytesIO(), "x.mkv")
    for _ in range(1_000):
        source.packet(0)
    message = r"^x\.mkv is damaged, 1001 packets hold only 0 samples: copy it again"
    with pytest.raises(AudioError, match=message):
        source.packet(0)
    source = WatchedFile(io.BytesIO(), "x.mkv")
    with pytest.raises(AudioError, match=r"^x\.mkv is damaged, 1016 packets hold only 1016 samples"):
        for _ in range(2_000):
            source.packet(1)


def test_damaged_packets_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = encode(tmp_path / "x.aac", "adts", "aac", noise(24_000, 2), 24_000)
    data = bytearray(path.read_bytes())
    monkeypatch.setattr(watched_file, "MAX_PACKETS_WITHOUT_AUDIO", 20)
    assert read_audio(path).samples.shape[1] > 40_000
    at = 0
    while at < len(data):  # each frame keeps its header, and loses what it says
        length = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
        data[at + 7 : at + length] = bytes(length - 7)
        at += length
    path.write_bytes(data)
    with pytest.raises(AudioError, match=r"^x\.aac is damaged, 21 packets hold only 0 samples: "):
        read_audio(path)


def _counting(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the bytes of every array that the buffer makes."""
    made: list[int] = []
    real = np.empty

    def empty(*args: object, **kwargs: object) -> np.ndarray:
        array = real(*args, **kwargs)
        made.append(array.nbytes)
        return array

    monkeypatch.setattr(sample_buffer.np, "empty", empty)
    return lambda: sum(made)


@pytest.mark.parametrize("channels", [1, 2, 6, 8])
@pytest.mark.parametrize("counts", [(), (5,), (1, 70_000, 3), (65_536, 65_536)])
def test_blocks_become_one_piece(channels: int, counts: tuple[int, ...]) -> None:
    chance = np.random.default_rng(0)
    blocks = [chance.uniform(-1, 1, (channels, n)).astype(np.float32) for n in counts]
    wanted = np.concatenate([np.empty((channels, 0), np.float32), *blocks], axis=1)
    order = tuple(reversed(range(channels)))
    for announced in (0, sum(counts)):
        plain, turned = (sample_buffer.SampleBuffer("x", channels, 8_000, announced) for _ in range(2))
        for block in blocks:
            plain.append(block)
            turned.append(block, order)
        assert np.array_equal(plain.take().samples.numpy(), wanted)
        got = turned.take()
        assert np.array_equal(got.samples.numpy(), wanted[::-1]) and got.samples.is_contiguous()
        assert got.samples.untyped_storage().nbytes() == wanted.nbytes


@pytest.mark.parametrize("suffix", ["flac", "m4a", "ogg", "mkv"])
def test_audio_is_in_memory_once(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, codec = {suffix: (kind, codec) for suffix, kind, codec in CONTAINERS}[suffix]
    path = encode(tmp_path / f"x.{suffix}", kind, codec, tone(48_000, 3), 48_000, 2)
    total = _counting(monkeypatch)
    assert read_audio(path).samples.shape[0] == 2
    assert 2 * 4 * 48_000 * 3 <= total() <= 2 * 4 * (longest_audio(2, 48_000) + 1) <= 256 * MIB + 8


@pytest.mark.parametrize("form", ["stream", "BW64"])
def test_a_header_is_repaired_without_a_copy(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, tone(24_000, 4), 24_000, subtype="PCM_16", format="RF64" if form == "BW64" else "WAV")
    whole = read_audio(path).samples
    data = bytearray(path.read_bytes())
    if form == "BW64":
        data[:4] = b"BW64"
    else:
        at = data.index(b"data") + 4
        data[at : at + 4] = bytes(4)
    path.write_bytes(data)
    largest: list[int] = []
    real = WatchedFile.read
    monkeypatch.setattr(WatchedFile, "read", lambda self, n=-1: largest.append(n) or real(self, n))
    assert torch.equal(read_audio(path).samples, whole)
    assert max(largest) < len(data) // 2
