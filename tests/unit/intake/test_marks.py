"""The mark of synthetic speech: its bytes, what reads it, and that it touches no sample."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import soundfile
import torch

from omnivoice.intake.audio_files import read_audio, write_long_wav, write_wav
from omnivoice.intake.marks import EDITED, SYNTHETIC, Mark
from omnivoice.intake.riff import mark_chunks, pcm16_head
from omnivoice.types import Waveform

TERMS = {SYNTHETIC: "trainedAlgorithmicMedia", EDITED: "compositeWithTrainedAlgorithmicMedia"}
SOURCE = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType"
SAMPLES = torch.randint(-32768, 32768, (1001,), generator=torch.Generator().manual_seed(1)).to(torch.int16)


def short(path: Path, mark: Mark | None) -> bytes:
    return write_wav(path, Waveform(SAMPLES[None] / 32768, 24_000), mark=mark).read_bytes()


def floats(path: Path, mark: Mark | None) -> bytes:
    return write_wav(path, Waveform(SAMPLES[None] / 32768, 24_000), subtype="float32", mark=mark).read_bytes()


def long(path: Path, mark: Mark | None) -> bytes:
    chapters = [(0, "One"), (500, "Two")]
    return write_long_wav(
        path, [SAMPLES[:7], SAMPLES[7:]], samples=1001, sample_rate=24_000, mark=mark, chapters=chapters
    ).read_bytes()


def stream(path: Path, mark: Mark | None) -> bytes:
    path.write_bytes(pcm16_head(None, 24_000, before=mark_chunks(mark)) + SAMPLES.numpy().tobytes())
    return path.read_bytes()


WRITERS = pytest.mark.parametrize("write", [short, floats, long, stream])
Write = type(short)


def chunk_of(data: bytes, kind: bytes) -> bytes:
    """Return the content of the one chunk of that kind, found by walking the file as any reader does."""
    position, found = 12, []
    while position + 8 <= len(data):
        length = int.from_bytes(data[position + 4 : position + 8], "little")
        if data[position : position + 4] == kind:
            found.append(data[position + 8 : position + 8 + length])
        position += 8 + length + length % 2
    (content,) = found
    return content


@WRITERS
@pytest.mark.parametrize("mark", [SYNTHETIC, EDITED])
def test_every_writer_marks_its_file_as_readers_expect(tmp_path: Path, write: Write, mark: Mark) -> None:
    data = write(tmp_path / "a.wav", mark)
    packet = chunk_of(data, b"_PMX").decode()
    assert packet.startswith("<?xpacket begin=") and packet.endswith('<?xpacket end="r"?>')
    (found,) = ElementTree.fromstring(packet).iter(SOURCE)
    assert found.text == f"http://cv.iptc.org/newscodes/digitalsourcetype/{TERMS[mark]}"
    with soundfile.SoundFile(io.BytesIO(data)) as sound:
        assert sound.comment == mark.comment


@WRITERS
def test_a_mark_touches_no_sample_and_its_bytes_are_the_same_each_time(tmp_path: Path, write: Write) -> None:
    plain = write(tmp_path / "plain.wav", None)
    assert b"_PMX" not in plain and b"ICMT" not in plain and b"OmniVoice" not in plain
    for mark in (SYNTHETIC, EDITED):
        first, second = write(tmp_path / "a.wav", mark), write(tmp_path / "b.wav", mark)
        assert first == second and first != plain
        assert torch.equal(read_audio(tmp_path / "a.wav").samples, read_audio(tmp_path / "plain.wav").samples)
        with soundfile.SoundFile(tmp_path / "a.wav") as sound:
            assert sound.frames == 1001
        if write is not stream:
            assert int.from_bytes(first[4:8], "little") == len(first) - 8 and len(first) % 2 == 0
