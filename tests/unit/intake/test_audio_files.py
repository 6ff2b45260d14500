"""Formats beyond WAV: through PyAV where it is installed, with clear words where it is not; never a network call.

PyAV is a test requirement (tests/requirements.txt): without it this file fails, on purpose.
"""

from __future__ import annotations

import http.server
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from omnivoice.errors import AudioError, FileError
from omnivoice.intake import audio_files
from omnivoice.intake.audio_files import read_audio, write_wav
from omnivoice.types import Waveform


def tone(rate: int, seconds: float = 0.5) -> np.ndarray:
    return (0.3 * np.sin(np.arange(int(rate * seconds)) * 2 * np.pi * 440 / rate)).astype(np.float32)


def encode(path: Path, kind: str, codec: str, samples: np.ndarray, rate: int, channels: int = 1) -> Path:
    layout = {1: "mono", 2: "stereo"}[channels]
    with av.open(str(path), "w", format=kind) as container:
        stream = container.add_stream(codec, rate=rate, layout=layout)
        data = np.repeat(np.round(samples * 32767).astype(np.int16), channels)[None]
        frame = av.AudioFrame.from_ndarray(data, format="s16", layout=layout)
        frame.sample_rate = rate
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return path


@pytest.mark.parametrize(
    ("kind", "codec", "rate", "channels", "exact"),
    [
        ("flac", "flac", 44_100, 2, True),
        ("aiff", "pcm_s16be", 22_050, 2, True),
        ("w64", "pcm_s16le", 24_000, 1, True),
        ("ogg", "libopus", 48_000, 2, False),
        ("webm", "libopus", 48_000, 1, False),
        ("mp3", "libmp3lame", 44_100, 2, False),
        ("mp4", "aac", 44_100, 1, False),
        ("adts", "aac", 44_100, 2, False),
        ("wav", "pcm_mulaw", 8_000, 1, False),
        ("wav", "adpcm_ms", 22_050, 1, False),
    ],
)
def test_other_formats(tmp_path: Path, kind: str, codec: str, rate: int, channels: int, exact: bool) -> None:
    samples = tone(rate)
    got = read_audio(encode(tmp_path / f"x.{kind}", kind, codec, samples, rate, channels))
    assert got.sample_rate == rate and got.samples.shape[0] == channels and got.samples.dtype == torch.float32
    assert abs(got.samples.shape[1] - len(samples)) <= (0 if exact else 4_096)
    if exact:
        assert float((got.samples - torch.from_numpy(np.round(samples * 32767) / 32768)).abs().max()) < 1e-6
    else:
        assert 0.2 < float(got.samples[:, 2_000:3_000].abs().max()) < 0.4


def test_our_wav_is_a_wav_to_others(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", Waveform(torch.from_numpy(tone(24_000)), 24_000))
    with av.open(str(tmp_path / "a.wav")) as container:
        assert container.metadata["comment"] == "AI-generated speech (OmniVoice)"
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
    ours = (read_audio(tmp_path / "a.wav").samples * 32768).to(torch.int16)
    assert np.array_equal(np.concatenate(frames, axis=1), ours.numpy())


def test_without_pyav_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "x.mp3").write_bytes(b"ID3\x04" + bytes(100))
    with pytest.raises(AudioError) as caught:
        read_audio(tmp_path / "x.mp3")
    assert str(caught.value) == (
        "x.mp3 is not a WAV file: install PyAV (pip install av), or convert it with ffmpeg -i x.mp3 out.wav"
    )
    mulaw = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x07\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\x04\0\0\0abcd"
    (tmp_path / "x.wav").write_bytes(mulaw)
    with pytest.raises(
        AudioError, match=r"^x\.wav is a WAV file of format 7 with 8 bits, which is not read directly: inst"
    ):
        read_audio(tmp_path / "x.wav")


def test_an_old_pyav_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.mp3").write_bytes(b"ID3\x04" + bytes(100))
    for version in ("17.0.1", "14.2.0", "9.0"):
        monkeypatch.setattr(av, "__version__", version)
        with pytest.raises(AudioError, match=rf"PyAV {version} is too old to be safe: pip install -U av"):
            read_audio(tmp_path / "x.mp3")


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A loopback web server and the list of what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    served = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}", asked
    served.shutdown()
    served.server_close()


def playlists(url: str, secret: Path) -> list[str]:
    hls = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{}\n#EXT-X-ENDLIST\n"
    dash = (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet '
        'mimeType="audio/mp4"><Representation id="1" bandwidth="1"><BaseURL>{}</BaseURL><SegmentBase/></Representation>'
        "</AdaptationSet></Period></MPD>"
    )
    texts = [
        hls,
        dash,
        "ffconcat version 1.0\nfile '{}'\n",
        "[playlist]\nFile1={}\n",
        "RTSPtext\n{}\n",
        "<asx>{}</asx>",
    ]
    targets = [
        f"{url}/x.mp3",
        f"file://{secret}",
        str(secret),
        f"concat:{secret}|{secret}",
        f"tcp{url[4:]}/",
        "crypto:" + url,
    ]
    return [text.format(target) for text in texts for target in targets]


def test_playlists_fetch_nothing(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    url, asked = server
    secret = encode(tmp_path / "secret.mp3", "mp3", "libmp3lame", tone(44_100), 44_100)
    for text in playlists(url, secret):
        for name in ("x.m3u8", "x.mp3", "x.mpd", "x"):
            (tmp_path / name).write_text(text)
            with pytest.raises(AudioError, match=r"cannot be decoded|contains no sound"):
                read_audio(tmp_path / name)
    assert asked == []


def test_the_same_playlist_does_fetch_without_our_options(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    url, asked = server
    (tmp_path / "x.m3u8").write_text(playlists(url, tmp_path)[0])
    with pytest.raises(av.error.FFmpegError), (tmp_path / "x.m3u8").open("rb") as file:
        av.open(file)
    assert asked, "the trap catches nothing, so the test above proves nothing"


def test_ten_minutes_of_silence_in_a_small_file(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.flac", "flac", "flac", np.zeros(620 * 8_000, dtype=np.float32), 8_000)
    assert path.stat().st_size < 1 << 20
    start = time.perf_counter()
    with pytest.raises(AudioError, match=r"^x\.flac must be at most 600 seconds long, got 600$|got 601$"):
        read_audio(path)
    assert time.perf_counter() - start < 10


def test_decoded_bytes_are_counted_before_a_frame_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = encode(tmp_path / "x.flac", "flac", "flac", np.zeros(8_000 * 10, dtype=np.float32), 8_000, 2)
    monkeypatch.setattr(sys.modules["omnivoice.intake.limits"], "MAX_AUDIO_BYTES", 100_000)
    kept: list[int] = []
    real = audio_files._to_float
    monkeypatch.setattr(audio_files, "_to_float", lambda raw, *a, **k: kept.append(raw.size * 4) or real(raw, *a, **k))
    with pytest.raises(AudioError, match=r"^x\.flac must be at most 0 MB decoded"):
        read_audio(path)
    assert kept and sum(kept) <= 100_000


def test_a_sound_that_changes_its_rate(tmp_path: Path) -> None:
    parts = [encode(tmp_path / str(rate), "adts", "aac", tone(rate), rate).read_bytes() for rate in (44_100, 22_050)]
    (tmp_path / "x.aac").write_bytes(b"".join(parts))
    with pytest.raises(
        AudioError, match=r"^x\.aac changes its sample rate or channels midway: convert it to WAV first$"
    ):
        read_audio(tmp_path / "x.aac")


def test_sample_types_of_decoders() -> None:
    planar, interleaved = (
        np.array([[0, 128], [255, 192]], dtype=np.uint8),
        np.array([[0, 255, 128, 192]], dtype=np.uint8),
    )
    expected = [[-1, 0], [127 / 128, 0.5]]
    assert audio_files._to_float(planar, 2, planar=True, name="x").tolist() == expected
    assert audio_files._to_float(interleaved, 2, planar=False, name="x").tolist() == expected
    for dtype, full in ((np.int16, 2**15), (np.int32, 2**31)):
        got = audio_files._to_float(np.array([[-full, full // 2]], dtype=dtype), 1, planar=True, name="x")
        assert got.tolist() == [[-1, 0.5]] and got.dtype == np.float32
    assert audio_files._to_float(np.array([[0.25]]), 1, planar=True, name="x").dtype == np.float32
    with pytest.raises(AudioError, match=r"^x decodes to samples of type int64: convert it to WAV first$"):
        audio_files._to_float(np.zeros((1, 2), dtype=np.int64), 1, planar=True, name="x")


def test_what_is_no_sound(tmp_path: Path) -> None:
    for name, data in (
        ("a.mp3", b"hello"),
        ("b.flac", bytes(1000)),
        ("c.ogg", b"OggS" + bytes(500)),
        ("d", b"\xff" * 999),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(AudioError, match=r"cannot be decoded \(.*\): convert it to WAV|contains no sound"):
            read_audio(tmp_path / name)
    with (tmp_path / "big.mp3").open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(AudioError, match=r"^big\.mp3 must be at most 256 MB, got 256: shorten it$"):
        read_audio(tmp_path / "big.mp3")
    with pytest.raises(FileError, match=r"^nothing\.mp3 does not exist$"):
        read_audio(tmp_path / "nothing.mp3")


def test_a_video_without_sound(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "x.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width = stream.height = 16
        stream.pix_fmt = "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), dtype=np.uint8), format="rgb24")
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    with pytest.raises(AudioError, match=r"^x\.mp4 contains no sound$"):
        read_audio(tmp_path / "x.mp4")


@pytest.mark.parametrize(
    ("kind", "codec", "rate"), [("flac", "flac", 8_000), ("mp3", "libmp3lame", 44_100), ("ogg", "libopus", 48_000)]
)
def test_mutants_give_a_bounded_sound_or_an_audio_error(tmp_path: Path, kind: str, codec: str, rate: int) -> None:
    whole = encode(tmp_path / "x", kind, codec, tone(rate, 0.2), rate).read_bytes()
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
