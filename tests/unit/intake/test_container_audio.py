"""What libsndfile cannot read, through PyAV where it is installed; never a network call.

PyAV is a test requirement (tests/requirements.txt): without it this file fails, on purpose.
"""

from __future__ import annotations

import http.server
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from omnivoice.errors import AudioError
from omnivoice.intake import container_audio
from omnivoice.intake.audio_files import read_audio
from tests.audio_encoding import encode, noise, tone

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "audio"


@pytest.mark.parametrize(
    ("kind", "codec", "rate", "channels"),
    [
        ("mp4", "aac", 44_100, 1),
        ("adts", "aac", 44_100, 2),
        ("webm", "libopus", 48_000, 1),
        ("mov", "alac", 24_000, 2),
        ("mp4", "aac", 48_000, 6),
        ("mp4", "aac", 48_000, 8),  # more planes than PyAV can read
        ("webm", "libopus", 48_000, 8),
    ],
)
def test_other_formats(tmp_path: Path, kind: str, codec: str, rate: int, channels: int) -> None:
    samples = tone(rate)
    got = read_audio(encode(tmp_path / f"x.{kind}", kind, codec, samples, rate, channels), require_complete=True)
    assert got.sample_rate == rate and got.samples.shape[0] == channels and got.samples.dtype == torch.float32
    assert abs(got.samples.shape[1] - len(samples)) <= 4_096
    assert 0.2 < float(got.samples[:, 2_000:3_000].abs().max()) < 0.4


def test_a_stored_m4a() -> None:
    """Half a second of 440 Hz at 24 kHz, so that an old PyAV, whose encoder differs, reads the same file."""
    got = read_audio(ASSETS / "tone.m4a", require_complete=True)
    assert got.sample_rate == 24_000 and got.samples.shape[0] == 1 and 0.45 < got.seconds < 0.6
    spectrum = torch.fft.rfft(got.samples[0, 2_000:10_000]).abs()
    assert int(spectrum.argmax()) * 3 == pytest.approx(440, abs=4)


def test_without_pyav_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode(tmp_path / "x.m4a", "mp4", "aac", tone(24_000), 24_000)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(AudioError, match=r"^x\.m4a .*pip install av.*ffmpeg -i x\.m4a out\.wav$"):
        read_audio(tmp_path / "x.m4a")


def test_versions_of_pyav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode(tmp_path / "x.m4a", "mp4", "aac", tone(24_000), 24_000)
    for version in ("9.0", "14.1.0"):
        monkeypatch.setattr(av, "__version__", version)
        with pytest.raises(AudioError, match=rf"x\.m4a needs PyAV 14\.2 or newer, got {version}.*pip install -U av"):
            read_audio(tmp_path / "x.m4a")
    opened: list[dict] = []

    def recording_open(file: object, **arguments: object) -> object:
        opened.append(arguments)
        return real(file, mode="r")

    real = av.open
    monkeypatch.setattr(av, "open", recording_open)
    for version in ("14.2.0", "16.0.1", "17.1.0", "18.1.0", "19.0.2", "20.0"):
        monkeypatch.setattr(av, "__version__", version)
        assert read_audio(tmp_path / "x.m4a").sample_rate == 24_000
    assert ["metadata_errors" in arguments for arguments in opened] == [True] * 4 + [False] * 2


def test_tags_that_are_no_text(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.m4a", "mp4", "aac", tone(24_000), 24_000, tags={"title": "A title"})
    data = path.read_bytes()
    assert data.count(b"A title") == 1
    path.write_bytes(data.replace(b"A title", b"A \xff\xfe\xe4le"))
    assert read_audio(path, require_complete=True).sample_rate == 24_000


def test_iamf_needs_a_new_pyav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = b"\0\0\1\0iacb"
    data = encode(tmp_path / "x.m4a", "mp4", "aac", tone(24_000), 24_000).read_bytes()
    for position in (8, 1000, (1 << 20) - 4, (1 << 20) - 1, (1 << 20) + 3):  # also across the blocks that are searched
        padded = data + bytes(2 << 20)
        (tmp_path / "x.m4a").write_bytes(padded[:position] + box + padded[position:])
        monkeypatch.setattr(av, "__version__", "17.0.1")
        with pytest.raises(AudioError, match=r"x\.m4a holds IAMF audio, for which PyAV 17\.0\.1 is too old"):
            read_audio(tmp_path / "x.m4a")
    monkeypatch.undo()
    if container_audio._version(av) >= (17, 1):
        assert read_audio(tmp_path / "x.m4a").sample_rate == 24_000


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
            with pytest.raises(AudioError, match=r"cannot be decoded|contains no audio"):
                read_audio(tmp_path / name)
    assert asked == []


def test_the_same_playlist_does_fetch_without_our_options(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    url, asked = server
    (tmp_path / "x.m3u8").write_text(playlists(url, tmp_path)[0])
    with pytest.raises(av.error.FFmpegError), (tmp_path / "x.m3u8").open("rb") as file:
        av.open(file)
    assert asked, "the trap catches nothing, so the test above proves nothing"


def test_ten_minutes_of_silence_in_a_small_file(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.m4a", "mp4", "aac", np.zeros(620 * 8_000, dtype=np.float32), 8_000)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(AudioError, match=r"^x\.m4a must be at most 600 seconds long, got 60[01]$"):
        read_audio(path)


def test_decoded_bytes_are_counted_before_a_frame_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = encode(tmp_path / "x.m4a", "mp4", "alac", np.zeros(8_000 * 10, dtype=np.float32), 8_000, 2)
    monkeypatch.setattr(sys.modules["omnivoice.intake.limits"], "MAX_AUDIO_BYTES", 100_000)
    kept: list[int] = []
    real = container_audio._to_float
    monkeypatch.setattr(
        container_audio, "_to_float", lambda raw, *a, **k: kept.append(raw.size * 4) or real(raw, *a, **k)
    )
    with pytest.raises(AudioError, match=r"^x\.m4a must be at most 100 KB decoded, got 131 KB: "):
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
    assert container_audio._to_float(planar, 2, planar=True, name="x").tolist() == expected
    assert container_audio._to_float(interleaved, 2, planar=False, name="x").tolist() == expected
    for dtype, full in ((np.int16, 2**15), (np.int32, 2**31)):
        got = container_audio._to_float(np.array([[-full, full // 2]], dtype=dtype), 1, planar=True, name="x")
        assert got.tolist() == [[-1, 0.5]] and got.dtype == np.float32
    assert container_audio._to_float(np.array([[0.25]]), 1, planar=True, name="x").dtype == np.float32
    with pytest.raises(AudioError, match=r"^x decodes to samples of type int64: convert it to WAV first$"):
        container_audio._to_float(np.zeros((1, 2), dtype=np.int64), 1, planar=True, name="x")


def test_a_video_without_audio(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "x.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width = stream.height = 16
        stream.pix_fmt = "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), dtype=np.uint8), format="rgb24")
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    with pytest.raises(AudioError, match=r"^x\.mp4 contains no audio$"):
        read_audio(tmp_path / "x.mp4")


@pytest.mark.parametrize("damaged", [0, 1, 3])
def test_damaged_packets_are_counted_or_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: int) -> None:
    """A frame that keeps its header and loses what it says."""
    path = encode(tmp_path / "x.aac", "adts", "aac", noise(24_000, 2), 24_000)
    data, at = bytearray(path.read_bytes()), 0
    for number in range(10, 10 + 40):
        length = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
        if number % 10 == 5 and number < 10 + 10 * damaged:
            data[at + 7 : at + length] = bytes(length - 7)
        at += length
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING, logger="omnivoice_nodes"):
        read = read_audio(path)
    assert read.samples.shape[1] > 40_000
    if not damaged:
        assert caplog.messages == [] and torch.equal(read_audio(path, require_complete=True).samples, read.samples)
        return
    assert caplog.messages == [f"x.aac is damaged: {damaged} packets of audio were skipped"]
    with pytest.raises(AudioError, match=rf"^x\.aac is damaged, {damaged} packets of audio cannot be read: copy or "):
        read_audio(path, require_complete=True)
