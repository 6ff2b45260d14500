"""WAV files as recorders, streams and attackers write them, and as we write them: every coding, oddity and limit."""

from __future__ import annotations

import io
import logging
import os
import random
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import AudioError, FileError
from omnivoice.intake.audio_files import check_wav_target, fits_pcm16, read_audio, write_wav
from omnivoice.intake.libsndfile import UnreadableAudio, read_with_libsndfile
from omnivoice.intake.marks import EDITED, SYNTHETIC
from omnivoice.types import Waveform

TAIL = bytes.fromhex("000000001000800000aa00389b71")


def chunk(kind: bytes, body: bytes, length: int | None = None) -> bytes:
    return kind + struct.pack("<I", len(body) if length is None else length) + body + b"\0" * (len(body) % 2)


def fmt(tag: int = 1, channels: int = 1, rate: int = 24_000, bits: int = 16, align: int | None = None) -> bytes:
    align = channels * ((bits + 7) // 8) if align is None else align
    return struct.pack("<HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align & 0xFFFF, bits)


def extensible(tag: int, channels: int, bits: int, valid: int, tail: bytes = TAIL) -> bytes:
    return fmt(0xFFFE, channels, 24_000, bits) + struct.pack("<HHIH", 22, valid, 3, tag) + tail


def riff(*chunks: bytes, magic: bytes = b"RIFF") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return magic + struct.pack("<I", len(body)) + body


def read(tmp_path: Path, data: bytes) -> Waveform:
    (tmp_path / "x.wav").write_bytes(data)
    return read_audio(tmp_path / "x.wav")


def refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(AudioError, match=message) as caught:
        read(tmp_path, data)
    assert str(caught.value).startswith("x.wav ") and len(str(caught.value)) < 300


def sound(channels: int, frames: int) -> np.ndarray:
    """[frames, channels] from -1 to what eight bits can hold, ends included."""
    generator = np.random.default_rng(channels * 1000 + frames)
    values = generator.uniform(-1, 1 - 2**-7, (frames, channels))
    values[0], values[-1] = -1, 1 - 2**-7
    return values


def encoded(values: np.ndarray, kind: str) -> bytes:
    if kind == "u8":
        return (np.round(values * 128) + 128).clip(0, 255).astype(np.uint8).tobytes()
    if kind == "s24":
        integers = np.round(values * 2**23).astype("<i4").reshape(-1)
        return integers.view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    if kind[0] == "s":
        bits = int(kind[1:])
        return (
            np.round(values * 2.0 ** (bits - 1))
            .clip(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            .astype(f"<i{bits // 8}")
            .tobytes()
        )
    return values.astype(f"<{kind}").tobytes()


@pytest.mark.parametrize("channels", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("kind", "tag", "bits", "tolerance"),
    [
        ("u8", 1, 8, 2**-8),
        ("s16", 1, 16, 2**-16),
        ("s24", 1, 24, 2**-24),
        ("s32", 1, 32, 2**-24),
        ("f4", 3, 32, 2**-24),
        ("f8", 3, 64, 2**-24),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_every_coding(tmp_path: Path, channels, kind, tag, bits, tolerance, wrapped) -> None:
    values = sound(channels, 70_001)
    layout = extensible(tag, channels, bits, bits) if wrapped else fmt(tag, channels, 24_000, bits)
    got = read(tmp_path, riff(chunk(b"fmt ", layout), chunk(b"data", encoded(values, kind))))
    assert got.sample_rate == 24_000 and got.samples.dtype == torch.float32
    assert got.samples.shape == (channels, 70_001)
    assert np.abs(got.samples.numpy().T - values).max() <= tolerance


def test_integer_scaling_is_exact(tmp_path: Path) -> None:
    values = np.array([-32768, -1, 0, 1, 32767], dtype="<i2")
    got = read(tmp_path, riff(chunk(b"fmt ", fmt()), chunk(b"data", values.tobytes())))
    assert torch.equal(got.samples, torch.tensor([[-32768, -1, 0, 1, 32767]]) / 32768)
    data = bytes([0, 0, 0x80, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0xFF, 0xFF, 0x7F])
    got = read(tmp_path, riff(chunk(b"fmt ", fmt(bits=24)), chunk(b"data", data)))
    assert torch.equal(got.samples, torch.tensor([[-8388608, -1, 0, 1, 8388607]]) / 8388608)
    got = read(tmp_path, riff(chunk(b"fmt ", fmt(bits=8)), chunk(b"data", bytes([0, 127, 128, 129, 255]))))
    assert torch.equal(got.samples, torch.tensor([[-128, -1, 0, 1, 127]]) / 128)


def test_twenty_bits_in_three_bytes(tmp_path: Path) -> None:
    data = bytes([0, 0, 0x40, 0, 0, 0xC0])
    got = read(tmp_path, riff(chunk(b"fmt ", extensible(1, 1, 24, 20)), chunk(b"data", data)))
    assert got.samples.tolist() == [[0.5, -0.5]]
    got = read(tmp_path, riff(chunk(b"fmt ", fmt(bits=20, align=3)), chunk(b"data", data)))
    assert got.samples.tolist() == [[0.5, -0.5]]


def test_the_standard_library_and_we_agree(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44_100)
        file.writeframes(encoded(sound(2, 500), "s16"))
    got = read_audio(tmp_path / "x.wav")
    assert got.samples.shape == (2, 500) and got.sample_rate == 44_100
    write_wav(tmp_path / "y.wav", got)
    with wave.open(str(tmp_path / "y.wav"), "rb") as file:
        assert file.getparams()[:4] == (2, 2, 44_100, 500)
        assert file.readframes(500) == encoded(sound(2, 500), "s16")


SAMPLES = bytes(range(200))
RF64_CHUNKS = (
    chunk(b"ds64", struct.pack("<QQQI", 300, 200, 100, 0)),
    chunk(b"fmt ", fmt()),
    chunk(b"data", SAMPLES, 0xFFFFFFFF),
    chunk(b"LIST", b"noise" * 9),
)


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES, 0)), 100),
        (riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES, 0xFFFFFFFF)), 100),
        (riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES, 0xFFFFFFFF))[:-1], 99),
        (riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES, 5000)), 100),
        (riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES, 101)), 50),
        (riff(chunk(b"LIST", b"INFOx"), chunk(b"fmt ", fmt()), chunk(b"odd ", b"x"), chunk(b"data", SAMPLES)), 100),
        (riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES), chunk(b"LIST", b"INFO" + b"y" * 99)), 100),
        (riff(chunk(b"fmt ", fmt() + b"\0\0"), chunk(b"data", SAMPLES)), 100),
        (riff(chunk(b"fmt ", fmt() + b"\0" * 100), chunk(b"data", SAMPLES)), 100),
        (riff(chunk(b"fmt ", fmt(align=0)), chunk(b"data", SAMPLES)), 100),
        (b"RIFF\xff\xff\xff\xffWAVE" + chunk(b"fmt ", fmt()) + chunk(b"data", SAMPLES, 0xFFFFFFFF), 100),
        (b"RIFF\0\0\0\0WAVE" + chunk(b"fmt ", fmt()) + chunk(b"data", SAMPLES), 100),
        (riff(*[chunk(b"junk", b"")] * 2_000, chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES)), 100),
        *((riff(*RF64_CHUNKS, magic=magic), 100) for magic in (b"RF64", b"BW64")),
    ],
)
def test_odd_but_readable(tmp_path: Path, data: bytes, frames: int) -> None:
    got = read(tmp_path, data)
    expected = np.frombuffer(SAMPLES[: frames * 2], dtype="<i2").astype(np.float32) / 32768
    assert torch.equal(got.samples, torch.from_numpy(expected)[None])


def test_a_file_cut_short_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = riff(chunk(b"fmt ", fmt(channels=2)), chunk(b"data", SAMPLES))
    with caplog.at_level(logging.WARNING, "omnivoice_nodes"):
        assert read(tmp_path, whole[:-90]).samples.shape == (2, 27)
    assert "x.wav is cut short: 27 of 49 samples are there" in caplog.text


DATA = chunk(b"data", SAMPLES)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty: record or export it again"),
        (riff(), "is a damaged audio file .*No 'data' chunk"),
        (riff(chunk(b"fmt ", fmt())), "is a damaged audio file .*No 'data' chunk"),
        (riff(DATA), "is a damaged audio file .*No 'data' chunk"),
        (riff(DATA, chunk(b"fmt ", fmt())), "is a damaged audio file .*No 'data' chunk"),
        (riff(chunk(b"fmt ", fmt()[:15]), DATA), "is a damaged audio file .*Short 'fmt ' chunk"),
        (riff(chunk(b"fmt ", fmt()), chunk(b"data", b"")), "contains no audio"),
        (riff(chunk(b"fmt ", fmt()), chunk(b"data", b"x")), "contains no audio"),
        (riff(chunk(b"fmt ", fmt(channels=0, align=2)), DATA), "is a damaged audio file .*Channel count is zero"),
        (riff(chunk(b"fmt ", fmt(channels=9)), DATA), "must have 1-8 channels, got 9"),
        (riff(chunk(b"fmt ", fmt(channels=65_535, align=0)), DATA), "is a damaged audio file .*Too many channels"),
        (riff(chunk(b"fmt ", fmt(rate=0)), DATA), "is a damaged audio file"),
        (riff(chunk(b"fmt ", fmt(rate=3_999)), DATA), "must have a sample rate of 4000-384000 Hz, got 3999"),
        (riff(chunk(b"fmt ", fmt(rate=2**32 - 1)), DATA), "is a damaged audio file"),
        (
            riff(chunk(b"junk", b"", 0xFFFFFFFF), chunk(b"fmt ", fmt()), DATA),
            "is a damaged audio file .*No 'data' chunk",
        ),
    ],
)
def test_refused(tmp_path: Path, data: bytes, message: str) -> None:
    refused(tmp_path, data, message)


def test_sounds_too_long_or_too_large(tmp_path: Path) -> None:
    long_header = b"RIFF\0\0\0\0WAVE" + chunk(b"fmt ", fmt(bits=8, rate=4_000)) + b"data\xff\xff\xff\xff"
    with (tmp_path / "x.wav").open("wb") as file:
        file.write(long_header)
        file.truncate(len(long_header) + 601 * 4_000)
    with pytest.raises(AudioError, match=r"^x\.wav must be at most 600 seconds long, got 601$"):
        read_audio(tmp_path / "x.wav")
    wide_header = b"RIFF\0\0\0\0WAVE" + chunk(b"fmt ", fmt(bits=8, rate=384_000, channels=8)) + b"data\xff\xff\xff\xff"
    with (tmp_path / "x.wav").open("wb") as file:
        file.write(wide_header)
        file.truncate(1 << 40)
    with pytest.raises(AudioError, match=r"^x\.wav must be at most 600 seconds long"):
        read_audio(tmp_path / "x.wav")
    os.truncate(tmp_path / "x.wav", 70 << 20)
    with pytest.raises(AudioError, match=r"^x\.wav must be at most 268 MB decoded, got 294 MB: shorten it$"):
        read_audio(tmp_path / "x.wav")


def test_a_file_that_shrinks_while_it_is_read() -> None:
    whole = riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES))
    with pytest.raises(AudioError, match=r"^x is cut short: 75 of 100 samples"):
        read_with_libsndfile(io.BytesIO(whole[:-50]), len(whole) - 50, "x", require_complete=True)


def test_a_recording_that_must_be_complete(tmp_path: Path) -> None:
    cut = riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES, 5_000))
    (tmp_path / "x.wav").write_bytes(cut)
    with pytest.raises(AudioError, match=r"^x\.wav is cut short: 100 of 2500 samples"):
        read_audio(tmp_path / "x.wav", require_complete=True)
    for length in (0, 0x7FFF_0000, 0xFFFF_F000, 0xFFFF_FFFF):  # a stream's length proves nothing
        (tmp_path / "x.wav").write_bytes(riff(chunk(b"fmt ", fmt()), chunk(b"data", SAMPLES, length)))
        assert read_audio(tmp_path / "x.wav", require_complete=True).samples.shape == (1, 100)


def test_not_finite_samples_pass_the_reader(tmp_path: Path) -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1e300, 0.5])
    got = read(tmp_path, riff(chunk(b"fmt ", fmt(3, bits=64)), chunk(b"data", values.tobytes()))).samples[0]
    assert got[0].isnan() and got[1:4].tolist() == [np.inf, -np.inf, np.inf] and got[4] == 0.5


# ---------------------------------------------------------------- writing


# What the pack's own writer, which was replaced by libsndfile, made of these samples.
RECORDED = bytes.fromhex(
    "524946467400000057415645666d74201000000001000100c05d000080bb000002001000646174611c0000000000004000c0ff7f0080ff7f0080"
    "ff7f0000000001000200feffcd0c4c4953542c000000494e464f49434d542000000041492d67656e657261746564207370656563682028"
    "4f6d6e69566f6963652900"
)


def test_sixteen_bits_are_the_recorded_bytes(tmp_path: Path) -> None:
    steps = torch.tensor([0.49, 0.5, 0.51, 1.5, -1.5]) / 32768
    values = torch.cat([torch.tensor([0.0, 0.5, -0.5, 2.0, -2.0, 1.0, -1.0, 1e30]), steps, torch.tensor([0.1])])
    data = write_wav(tmp_path / "a.wav", Waveform(values, 24_000)).read_bytes()
    assert data[8 : len(RECORDED)] == RECORDED[8:]
    assert data[len(RECORDED) :][:4] == b"_PMX" and data[:8] == b"RIFF" + struct.pack("<I", len(data) - 8)
    assert write_wav(tmp_path / "b.wav", Waveform(values, 24_000), mark=None).read_bytes()[8:] == RECORDED[8:-52]


def test_equal_audio_gives_equal_files(tmp_path: Path) -> None:
    data = write_wav(tmp_path / "a.wav", Waveform(torch.ones(70_000), 24_000), subtype="float32").read_bytes()
    at = data.find(b"PEAK")
    assert at > 0 and data[at + 12 : at + 16] == bytes(4), "libsndfile's peak chunk holds the time"


def test_what_cannot_be_read_again_is_not_written(tmp_path: Path) -> None:
    for channels, rate, message in (
        (9, 24_000, "1-8 channels, got 9"),
        (1, 2**40, "4000-384000 Hz, got 1099511627776"),
    ):
        with pytest.raises(AudioError, match=message):
            write_wav(tmp_path / "a.wav", Waveform(torch.zeros(channels, 10), rate))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(1, 300), st.sampled_from([4_000, 24_000, 44_100, 384_000]))
def test_float32_survives_exactly_and_pcm16_to_the_step(
    tmp_path_factory, channels: int, frames: int, rate: int
) -> None:
    path = tmp_path_factory.mktemp("w") / "a.wav"
    made = Waveform(torch.from_numpy(sound(channels, frames).T.astype(np.float32).copy()), rate)
    write_wav(path, made, subtype="float32")
    read_back = read_audio(path)
    assert torch.equal(read_back.samples, made.samples) and read_back.sample_rate == rate
    write_wav(path, made)
    once = read_audio(path)
    assert float((once.samples - made.samples).abs().max()) <= 0.5 / 32768
    write_wav(path, once)
    assert torch.equal(read_audio(path).samples, once.samples)


def test_loud_samples_are_clipped_not_wrapped(tmp_path: Path) -> None:
    write_wav(
        tmp_path / "a.wav", Waveform(torch.tensor([2.0, -2.0, 1.0, -1.0, 1e30, 0.49 / 32768, 0.51 / 32768]), 24_000)
    )
    steps = (read_audio(tmp_path / "a.wav").samples[0] * 32768).tolist()
    assert steps == [32767, -32768, 32767, -32768, 32767, 0, 1]


def info_comment(data: bytes) -> bytes | None:
    at = data.find(b"ICMT")
    return None if at < 0 else data[at + 8 : at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")].rstrip(b"\0")


@pytest.mark.parametrize("subtype", ["pcm16", "float32"])
def test_the_label(tmp_path: Path, subtype: str) -> None:
    tone = Waveform(torch.linspace(-1, 1, 101)[None], 24_000)
    marked = write_wav(tmp_path / "a.wav", tone, subtype=subtype).read_bytes()
    plain = write_wav(tmp_path / "b.wav", tone, subtype=subtype, mark=None).read_bytes()
    edited = write_wav(tmp_path / "c.wav", tone, subtype=subtype, mark=EDITED).read_bytes()
    assert info_comment(marked) == SYNTHETIC.comment.encode() == b"AI-generated speech (OmniVoice)"
    assert info_comment(plain) is None and b"OmniVoice" not in plain and b"_PMX" not in plain
    assert info_comment(edited) == b"Recording edited with AI-generated speech (OmniVoice)"
    for data in (marked, plain, edited):
        assert int.from_bytes(data[4:8], "little") == len(data) - 8 and len(data) % 2 == 0
    for name in ("b.wav", "c.wav"):
        assert torch.equal(read_audio(tmp_path / name).samples, read_audio(tmp_path / "a.wav").samples)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("subtype", ["pcm16", "float32"])
def test_samples_that_are_not_finite_are_not_written(tmp_path: Path, value: float, subtype: str) -> None:
    with pytest.raises(AudioError, match=r"^a\.wav is not written: the audio holds NaN or Inf$"):
        write_wav(tmp_path / "a.wav", Waveform(torch.tensor([0.0, value]), 24_000), subtype=subtype)
    assert os.listdir(tmp_path) == []


def test_what_may_be_replaced(tmp_path: Path) -> None:
    tone = Waveform(torch.zeros(10), 24_000)
    write_wav(tmp_path / "a.wav", tone)
    assert write_wav(tmp_path / "a.wav", tone) == tmp_path / "a.wav"
    with pytest.raises(FileError, match="a file of that name exists already"):
        write_wav(tmp_path / "a.wav", tone, overwrite=False)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match=r"^notes\.txt exists and is not a WAV file: choose another name$"):
        write_wav(tmp_path / "notes.txt", tone)
    with pytest.raises(FileError, match=r"is a folder"):
        write_wav(tmp_path, tone)
    with pytest.raises(AudioError, match=r"^subtype must be pcm16 or float32, got 'pcm24'$"):
        write_wav(tmp_path / "b.wav", tone, subtype="pcm24")
    assert sorted(os.listdir(tmp_path)) == ["a.wav", "notes.txt"]


def test_a_size_of_zero_means_a_stream_unless_only_chunks_follow(tmp_path: Path) -> None:
    head = (chunk(b"fmt ", fmt()), chunk(b"data", b""))
    for rest in ((), (chunk(b"LIST", b"INFO"),), (chunk(b"id3 ", b"x"), chunk(b"bext", b"y" * 50))):
        refused(tmp_path, riff(*head, *rest), "contains no audio")
    assert read(tmp_path, riff(*head, b"LIST\4\0\0\0INFOmore samples!")).samples.shape == (1, 12)
    assert read(tmp_path, riff(*head, *[chunk(b"like", b"")] * 1_001)).samples.shape == (1, 4_004)


def test_a_sound_too_large_for_the_format(tmp_path: Path) -> None:
    endless = Waveform(torch.zeros(1, 1).expand(8, 2**28), 24_000)
    with pytest.raises(
        AudioError, match=r"^a\.wav would be larger than the 4 GiB that a WAV file can hold: write it in parts$"
    ):
        write_wav(tmp_path / "a.wav", endless)


def test_an_empty_sound_is_written_and_refused_on_reading(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", Waveform(torch.zeros(1, 0), 24_000))
    with pytest.raises(AudioError, match=r"^a\.wav contains no audio"):
        read_audio(tmp_path / "a.wav")


def test_mutants_give_a_bounded_sound_or_an_audio_error() -> None:
    seeds = [
        riff(chunk(b"LIST", b"INFOabcd"), chunk(b"fmt ", layout), chunk(b"data", SAMPLES))
        for layout in (fmt(), fmt(channels=2, bits=24), fmt(3, bits=32), fmt(bits=8), extensible(1, 2, 16, 16))
    ]
    chance, good = random.Random(9), 0
    for _ in range(8_000):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randrange(1, 6)):
            data[12 + chance.randrange(90)] = chance.choice((0, 1, 2, 255, 128, chance.randrange(256)))
        del data[len(data) - chance.randrange(40) * chance.randrange(2) :]
        try:
            got = read_with_libsndfile(io.BytesIO(data), len(data), "x", require_complete=False)
        except (AudioError, UnreadableAudio):
            continue
        good += 1
        assert 1 <= got.samples.numel() <= len(data)
    assert good > 1_000


def test_a_target_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wav(tmp_path / "old.wav", Waveform(torch.zeros(1, 10), 24_000))
    (tmp_path / "notes.txt").write_text("mine")
    check_wav_target(tmp_path / "new.wav")
    check_wav_target(tmp_path / "old.wav")
    with pytest.raises(FileError, match=r"^folder missing does not exist: make it first$"):
        check_wav_target(tmp_path / "missing" / "x.wav")
    with pytest.raises(FileError, match=r"^notes\.txt exists and is not a WAV file: choose another name$"):
        check_wav_target(tmp_path / "notes.txt")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for name in ("new.wav", "old.wav"):
        with pytest.raises(FileError, match=rf"^cannot write {name}: the folder or file is write-protected: choose"):
            check_wav_target(tmp_path / name)


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ([0.0, 1 / 32768, -1.0, 32767 / 32768], True),
        ([], True),
        ([1.0], False),
        ([-1.0 - 1 / 32768], False),
        ([0.5 / 32768], False),
        ([0.25, float("nan")], False),
        ([float("inf")], False),
    ],
)
def test_samples_of_16_bits_are_known(values: list[float], fits: bool) -> None:
    assert fits_pcm16(Waveform(torch.tensor([values]), 24_000)) is fits
