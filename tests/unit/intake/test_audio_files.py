"""Audio files of every kind, as libsndfile reads them, and what is said where soundfile is missing.

The files are made with soundfile and with PyAV, a test requirement (tests/requirements.txt).
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import random
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import torch

from omnivoice.errors import AudioError, FileError
from omnivoice.intake import audio_files, libsndfile, limits
from omnivoice.intake.audio_files import read_audio, write_wav
from omnivoice.intake.container_audio import read_container
from omnivoice.types import Waveform
from tests.audio_encoding import encode, noise, tone


@pytest.fixture
def no_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
@pytest.mark.parametrize("channels", [1, 2, 6, 8])
def test_channels_are_in_the_order_of_wav(tmp_path: Path, subtype: str, channels: int) -> None:
    """Vorbis and Opus have the centre second and low frequencies last. PyAV puts them in WAV's order by itself."""
    time = np.arange(48_000) / 48_000
    sounds = [0.3 * np.sin(2 * np.pi * hz * time) for hz in (300, 400, 500, 600, 700, 50, 800, 900)[:channels]]
    with soundfile.SoundFile(tmp_path / "x.ogg", "w", 48_000, channels, format="OGG", subtype=subtype) as file:
        for block in np.split(np.stack(sounds, axis=1), 100):  # libvorbis overflows the stack on long blocks
            file.write(block)
    ours = read_audio(tmp_path / "x.ogg").samples
    with open(tmp_path / "x.ogg", "rb") as file:
        theirs = read_container(file, "x.ogg", "", require_complete=False).samples
    N = min(ours.shape[1], theirs.shape[1])
    peaks = [[int(one.argmax()) for one in torch.fft.rfft(samples[:, :N]).abs()] for samples in (ours, theirs)]
    assert ours.shape[0] == channels and peaks[0] == peaks[1]


@pytest.mark.usefixtures("no_pyav")
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    ("kind", "subtype", "rate", "tolerance"),
    [
        ("WAV", "PCM_U8", 8_000, 2**-7),
        ("WAV", "PCM_16", 24_000, 2**-15),
        ("WAV", "PCM_24", 44_100, 2**-22),
        ("WAV", "PCM_32", 48_000, 2**-22),
        ("WAV", "FLOAT", 96_000, 0),
        ("WAV", "DOUBLE", 24_000, 0),
        ("WAVEX", "PCM_24", 48_000, 2**-22),
        ("RF64", "PCM_16", 24_000, 2**-15),
        ("WAV", "ULAW", 8_000, 0.02),
        ("WAV", "MS_ADPCM", 22_050, None),
        ("W64", "PCM_16", 24_000, 2**-15),
        ("AIFF", "PCM_16", 22_050, 2**-15),
        ("AIFF", "PCM_24", 44_100, 2**-22),
        ("AIFF", "FLOAT", 44_100, 0),
        ("FLAC", "PCM_16", 44_100, 2**-15),
        ("FLAC", "PCM_24", 96_000, 2**-22),
        ("OGG", "VORBIS", 44_100, None),
        ("OGG", "OPUS", 48_000, None),
        ("MP3", "MPEG_LAYER_III", 44_100, None),
    ],
)
def test_every_kind_without_pyav(
    tmp_path: Path, kind: str, subtype: str, rate: int, tolerance: float | None, channels: int
) -> None:
    if subtype not in soundfile.available_subtypes(kind):
        pytest.skip(f"this libsndfile has no {kind} {subtype}")
    samples = tone(rate)[:, None].repeat(channels, axis=1)
    soundfile.write(tmp_path / "x", samples, rate, subtype=subtype, format=kind)
    got = read_audio(tmp_path / "x", require_complete=True)
    assert got.sample_rate == rate and got.samples.dtype == torch.float32
    if tolerance is None:
        assert got.samples.shape[0] == channels and 0 <= got.samples.shape[1] - len(samples) < 2_048
        assert 0.25 < float(got.samples[:, 2_000:3_000].abs().max()) < 0.35
    else:
        assert got.samples.shape == (channels, len(samples))
        assert float((got.samples - torch.from_numpy(samples.T)).abs().max()) <= tolerance


@pytest.mark.parametrize(
    ("kind", "codec", "rate", "exact"),
    [
        ("flac", "flac", 44_100, True),
        ("aiff", "pcm_s16be", 22_050, True),
        ("w64", "pcm_s16le", 24_000, True),
        ("ogg", "libopus", 48_000, False),
        ("wav", "adpcm_ima_wav", 22_050, False),
        ("wav", "pcm_mulaw", 8_000, False),
    ],
)
def test_files_that_ffmpeg_wrote(tmp_path: Path, kind: str, codec: str, rate: int, exact: bool) -> None:
    samples = tone(rate)
    got = read_audio(encode(tmp_path / "x", kind, codec, samples, rate, 2), require_complete=True)
    assert got.sample_rate == rate and got.samples.shape[0] == 2
    assert abs(got.samples.shape[1] - len(samples)) <= (0 if exact else 2_048)
    if exact:
        assert float((got.samples - torch.from_numpy(np.round(samples * 32767) / 32768)).abs().max()) < 1e-6


def test_our_wav_is_a_wav_to_others(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", Waveform(torch.from_numpy(tone(24_000)), 24_000))
    with av.open(str(tmp_path / "a.wav")) as container:
        assert container.metadata["comment"] == "AI-generated speech (OmniVoice)"
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
    ours = (read_audio(tmp_path / "a.wav").samples * 32768).to(torch.int16)
    assert np.array_equal(np.concatenate(frames, axis=1), ours.numpy())


# ---------------------------------------------------------------- MP3


@pytest.mark.usefixtures("no_pyav")
def test_blocks_do_not_garble_mp3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """soundfile seeks after each block of a seekable file, and MP3 loses its bit reservoir by that."""
    soundfile.write(tmp_path / "x.mp3", noise(24_000, 3), 24_000)
    at_once = soundfile.read(tmp_path / "x.mp3", dtype="float32")[0]
    monkeypatch.setattr(libsndfile, "_BLOCK_FRAMES", 4_096)
    assert np.abs(read_audio(tmp_path / "x.mp3").samples[0].numpy() - at_once).max() < 1e-6


@pytest.mark.parametrize("variable", [False, True])
@pytest.mark.parametrize("tagged", ["0", "4"])
@pytest.mark.parametrize("rate", [16_000, 24_000, 44_100])
def test_mp3_without_a_length_loses_nothing(tmp_path: Path, variable: bool, tagged: str, rate: int) -> None:
    """libsndfile guesses the length from the first frame, and stops there: noise, then silence, is three times that."""
    samples = np.concatenate([noise(rate, 2), np.zeros(4 * rate, dtype=np.float32)])
    quality = {"global_quality": "4", "flags": "+qscale"} if variable else {}
    muxer = {"write_xing": "0", "id3v2_version": tagged}
    encode(tmp_path / "x.mp3", "mp3", "libmp3lame", samples, rate, codec_options=quality, options=muxer)
    N = read_audio(tmp_path / "x.mp3", require_complete=True).samples.shape[1]
    assert 0 <= N - len(samples) < 4_000


def test_a_large_picture_is_not_taken_for_audio(tmp_path: Path, no_pyav: None) -> None:
    """Without a length in the file, libsndfile counts 12 MB of tag as 25 minutes."""
    options = {"write_xing": "0", "id3v2_version": "0"}
    one = encode(tmp_path / "x.mp3", "mp3", "libmp3lame", tone(44_100), 44_100, options=options).read_bytes()
    (tmp_path / "x.mp3").write_bytes(b"ID3\x04\0\0\x06\0\0\0" + bytes(6 << 21) + one)
    assert 0 <= read_audio(tmp_path / "x.mp3", require_complete=True).samples.shape[1] - len(tone(44_100)) < 4_000


def test_two_mp3_in_one_file(tmp_path: Path) -> None:
    one = encode(tmp_path / "x.mp3", "mp3", "libmp3lame", tone(44_100), 44_100).read_bytes()
    (tmp_path / "x.mp3").write_bytes(one + one)
    assert read_audio(tmp_path / "x.mp3").samples.shape[1] > 2 * len(tone(44_100)) - 2_000


def test_tags_after_the_audio_are_not_audio(tmp_path: Path) -> None:
    one = encode(tmp_path / "x.mp3", "mp3", "libmp3lame", tone(44_100), 44_100).read_bytes()
    for tag in (b"TAG" + bytes(125), b"APETAGEX" + bytes(50_000), bytes(50_000)):
        (tmp_path / "x.mp3").write_bytes(one + tag)
        assert read_audio(tmp_path / "x.mp3", require_complete=True).samples.shape == (1, len(tone(44_100)))


# ---------------------------------------------------------------- files that lie or are cut short


def sound_file(kind: str, subtype: str, seconds: float = 4) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, noise(24_000, seconds), 24_000, format=kind, subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "subtype"), [("FLAC", "PCM_16"), ("MP3", "MPEG_LAYER_III"), ("AIFF", "PCM_16"), ("WAV", "PCM_24")]
)
def test_a_file_cut_short(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, subtype: str) -> None:
    data = sound_file(kind, subtype)
    (tmp_path / "x").write_bytes(data[: len(data) // 2])
    with pytest.raises(AudioError, match=r"^x is (cut short|a damaged audio file)"):
        read_audio(tmp_path / "x", require_complete=True)
    with caplog.at_level(logging.WARNING, "omnivoice_nodes"):
        N = read_audio(tmp_path / "x").samples.shape[1]
    assert 40_000 < N < 50_000 and any("x is " in record.message for record in caplog.records)


def flac_announcing(samples: int) -> bytes:
    data = bytearray(sound_file("FLAC", "PCM_16"))
    fields = int.from_bytes(data[18:26], "big") >> 36 << 36  # rate, channels and bits; then 36 bits of length
    data[18:26] = (fields | samples).to_bytes(8, "big")
    return bytes(data)


def test_flac_headers_that_lie(tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    path.write_bytes(flac_announcing(2**36 - 1))
    with pytest.raises(AudioError, match=r"^x\.flac must be at most 600 seconds long, got 2863312$"):
        read_audio(path)
    for announced in (0, 5_000):  # a stream of unknown length; a header that names too few
        path.write_bytes(flac_announcing(announced))
        assert read_audio(path, require_complete=True).samples.shape == (1, 96_000)
    path.write_bytes(flac_announcing(10_000_000))
    assert read_audio(path).samples.shape == (1, 96_000)
    with pytest.raises(AudioError, match=r"^x\.flac is cut short: 96000 of 10000000 samples"):
        read_audio(path, require_complete=True)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_two_streams_in_one_ogg(tmp_path: Path, subtype: str) -> None:
    (tmp_path / "x.ogg").write_bytes(sound_file("OGG", subtype) * 2)
    got = read_audio(tmp_path / "x.ogg")
    assert 7.9 < got.seconds < 8.1


def test_more_audio_than_announced_without_pyav(tmp_path: Path, no_pyav: None) -> None:
    (tmp_path / "x.ogg").write_bytes(sound_file("OGG", "VORBIS") * 2)
    with pytest.raises(AudioError, match=r"^x\.ogg .*more audio than its header announces.*pip install av"):
        read_audio(tmp_path / "x.ogg")


def test_ten_minutes_of_silence_in_a_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "x.flac", np.zeros(620 * 8_000, dtype=np.int16), 8_000)
    assert (tmp_path / "x.flac").stat().st_size < 1 << 20
    monkeypatch.setattr(np, "empty", None)  # refused before anything is allocated or decoded
    with pytest.raises(AudioError, match=r"^x\.flac must be at most 600 seconds long, got 620$"):
        read_audio(tmp_path / "x.flac")


def test_a_stream_of_unknown_length_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.flac").write_bytes(flac_announcing(0))
    monkeypatch.setattr(limits, "MAX_AUDIO_SECONDS", 2)
    with pytest.raises(AudioError, match=r"^x\.flac must be at most 2 seconds long"):
        read_audio(tmp_path / "x.flac")


def test_other_kinds_that_libsndfile_knows_do_not_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers of rare formats are where its faults were found."""
    monkeypatch.setattr(audio_files, "read_with_libsndfile", None)
    for kind in ("AU", "CAF", "VOC", "MAT5", "PAF", "NIST"):
        soundfile.write(tmp_path / "x", tone(8_000), 8_000, format=kind, subtype="PCM_16")
        with pytest.raises(AudioError, match="cannot be decoded"):
            read_audio(tmp_path / "x")


def test_what_is_no_audio(tmp_path: Path) -> None:
    for name, data in (
        ("a.mp3", b"hello"),
        ("b.flac", bytes(1000)),
        ("c.ogg", b"OggS" + bytes(500)),
        ("d", b"\xff" * 999),
        ("e.flac", b"fLaC" + bytes(500)),
        ("f.aiff", b"FORM\0\0\0\0AIFF" + bytes(50)),
        ("g.w64", b"riff\x2e\x91" + bytes(500)),
        ("h.mp3", b"ID3" + bytes(50)),
        ("i", b"\xff"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(AudioError, match=r"cannot be decoded \(.*\): convert|no audio|damaged audio file"):
            read_audio(tmp_path / name)
    with (tmp_path / "big.mp3").open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(AudioError, match=r"^big\.mp3 must be at most 268 MB, got 268\.4\d* MB: shorten it$"):
        read_audio(tmp_path / "big.mp3")
    with pytest.raises(FileError, match=r"^nothing\.mp3 does not exist$"):
        read_audio(tmp_path / "nothing.mp3")


def test_a_disk_that_fails(tmp_path: Path) -> None:
    class Failing(io.BytesIO):
        def read(self, count: int | None = -1) -> bytes:
            if self.tell() > 10_000:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(count)

    data = sound_file("FLAC", "PCM_16")
    with pytest.raises(OSError, match="Input/output error"):
        libsndfile.read_with_libsndfile(Failing(data), len(data), "x", require_complete=False)


@pytest.mark.filterwarnings("error")  # soundfile prints what a file raises and continues
def test_a_header_that_points_before_the_file(tmp_path: Path) -> None:
    data = bytearray(sound_file("AIFF", "PCM_16", 0.2))
    chance = random.Random(3)
    for _ in range(300):
        mutant = data.copy()
        for _ in range(3):
            mutant[12 + chance.randrange(60)] = chance.choice((0, 1, 255, 128))
        (tmp_path / "m").write_bytes(mutant)
        with contextlib.suppress(AudioError):
            read_audio(tmp_path / "m")


@pytest.mark.parametrize("error", [None, "library"])
def test_without_soundfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str | None) -> None:
    write_wav(tmp_path / "x.wav", Waveform(torch.zeros(10), 24_000))
    if error is None:
        monkeypatch.setitem(sys.modules, "soundfile", None)
    else:  # the package without the library that it loads
        (tmp_path / "soundfile.py").write_text("raise OSError('sndfile library not found')")
        monkeypatch.delitem(sys.modules, "soundfile")
        monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AudioError, match=r"^reading x\.wav needs the package soundfile.*pip install soundfile$"):
        read_audio(tmp_path / "x.wav")
    with pytest.raises(AudioError, match=r"^writing y\.wav needs the package soundfile.*pip install soundfile$"):
        write_wav(tmp_path / "y.wav", Waveform(torch.zeros(10), 24_000))
    assert not (tmp_path / "y.wav").exists()


@pytest.mark.parametrize(
    ("kind", "subtype"), [("FLAC", "PCM_16"), ("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("AIFF", "PCM_16")]
)
def test_mutants_give_bounded_audio_or_an_audio_error(tmp_path: Path, kind: str, subtype: str) -> None:
    whole = sound_file(kind, subtype, 0.2)
    chance = random.Random(6)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data) if chance.random() < 0.5 else min(len(data), 100))] = chance.randrange(256)
        (tmp_path / "m").write_bytes(data[: chance.randrange(len(data)) if chance.random() < 0.2 else len(data)])
        try:
            got = read_audio(tmp_path / "m")
        except AudioError:
            continue
        assert got.samples.numel() * 4 <= 256 << 20
