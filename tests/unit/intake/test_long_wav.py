"""WAV files written piece by piece: libsndfile reads them as it reads ours, with their mark and chapters."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
import soundfile
import torch

from omnivoice.errors import FileError
from omnivoice.intake.audio_files import read_audio, write_long_wav
from omnivoice.intake.marks import EDITED, SYNTHETIC, Mark
from omnivoice.intake.riff import find_samples, mark_chunks, pcm16_head

CHAPTERS = [(0, "One"), (5, "第二章"), (9, "")]


def pieces(*sizes: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(-32768, 32768, (size,), generator=generator).to(torch.int16) for size in sizes]


@pytest.mark.parametrize("sizes", [(1,), (0, 10, 0, 3), (7, 7), (48_001,)])
@pytest.mark.parametrize("mark", [None, SYNTHETIC, EDITED])
def test_samples_and_mark_come_back(tmp_path: Path, sizes: tuple[int, ...], mark: Mark | None) -> None:
    given = pieces(*sizes)
    path = write_long_wav(
        tmp_path / "a.wav", given, samples=sum(sizes), sample_rate=24_000, mark=mark, chapters=CHAPTERS
    )
    read = read_audio(path, require_complete=True)
    assert torch.equal((read.samples[0] * 32768).to(torch.int16), torch.cat(given))
    assert read.sample_rate == 24_000
    with soundfile.SoundFile(path) as sound:
        assert sound.comment == (mark.comment if mark else "")
    data = path.read_bytes()
    assert struct.unpack("<I", data[4:8])[0] == len(data) - 8


def test_chapters_are_cue_points_with_labels(tmp_path: Path) -> None:
    path = write_long_wav(tmp_path / "a.wav", pieces(10), samples=10, sample_rate=24_000, chapters=CHAPTERS)
    data = path.read_bytes()
    at = data.index(b"cue ")
    count = struct.unpack("<I", data[at + 8 : at + 12])[0]
    points = [struct.unpack("<II4sIII", data[at + 12 + 24 * i : at + 36 + 24 * i]) for i in range(count)]
    assert [point[5] for point in points] == [0, 5, 9]
    for label in ("One", "第二章"):
        assert label.encode() + b"\0" in data[at:]


@pytest.mark.parametrize("samples", [9, 11])
def test_another_number_of_samples_writes_nothing(tmp_path: Path, samples: int) -> None:
    with pytest.raises(FileError, match=f"would have 10 samples instead of {samples}"):
        write_long_wav(tmp_path / "a.wav", pieces(10), samples=samples, sample_rate=24_000)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_stays(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("my notes")
    with pytest.raises(FileError, match="is not a WAV file"):
        write_long_wav(tmp_path / "a.wav", pieces(10), samples=10, sample_rate=24_000)


@pytest.mark.parametrize("mark", [None, SYNTHETIC])
def test_a_stream_of_unknown_length_is_readable_when_it_ends(mark: Mark | None) -> None:
    (samples,) = pieces(1000)
    before = mark_chunks(mark)
    data = pcm16_head(None, 24_000, before=before) + samples.numpy().tobytes()
    chunk = find_samples(io.BytesIO(data), len(data))
    assert chunk is not None
    assert (chunk.start, chunk.present, chunk.is_cut) == (44 + len(before), 2000, False)
    read, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == 24_000
    assert read.tolist() == samples.tolist()
