"""Rows to clips: codes of the prepared recording, text as generation reads it, every row used or named."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from omnivoice.audio.training_clip import prepare_clip
from omnivoice.codec import CodecEncoder
from omnivoice.errors import AudioError, InputError
from omnivoice.generate.plan import make_plan
from omnivoice.intake import files
from omnivoice.intake.audio_files import read_audio, write_wav
from omnivoice.ops import PLAIN_OPS
from omnivoice.train.clips import Dataset, Rejected
from omnivoice.train.dataset import build_dataset, codec_identity, graph_rows
from omnivoice.train.manifests import read_manifest
from omnivoice.train.rows import Manifest, Row
from omnivoice.types import GenerationRequest, Waveform
from omnivoice.weights import load_codec_encoder, locate_checkpoint

TEXT = "Good morning everyone."
Build = Callable[..., Dataset]


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> CodecEncoder:
    found = locate_checkpoint(checkpoint)
    return load_codec_encoder(found.codec_config, found.codec_weights, ops=PLAIN_OPS, device=torch.device("cpu"))


@pytest.fixture
def build(encoder: CodecEncoder) -> Build:
    return lambda manifest, **options: build_dataset(manifest, encoder, "cpu", **options)


@pytest.fixture
def encoded(encoder: CodecEncoder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The frames of every recording that is really encoded."""
    seen: list[int] = []
    encode = CodecEncoder.encode

    def counted(self: CodecEncoder, samples: torch.Tensor) -> torch.Tensor:
        seen.append(samples.shape[1] // 960)
        return encode(self, samples)

    monkeypatch.setattr(CodecEncoder, "encode", counted)
    return seen


def sound(seed: int, seconds: float = 1.5, rate: int = 24_000) -> Waveform:
    return Waveform(0.1 * torch.randn(1, round(seconds * rate), generator=torch.Generator().manual_seed(seed)), rate)


def row(text: str = TEXT, seed: int = 1, **more: object) -> Row:
    return Row(**{"name": "r", "audio": sound(seed), "text": text, **more})


def manifest(*rows: Row, **more: object) -> Manifest:
    return Manifest(**{"source": "here", "rows": rows, **more})


def folder_of(path: Path, count: int = 10) -> Path:
    path.mkdir()
    for i in range(count):
        write_wav(path / f"{i}.wav", sound(i))
        (path / f"{i}.txt").write_text(TEXT)
    return path


# Codes.


def test_codes_are_the_encoders_of_the_prepared_recording(build: Build, encoder: CodecEncoder) -> None:
    stereo = Waveform(torch.cat([sound(1, 1.3, 44_100).samples, sound(2, 1.3, 44_100).samples]), 44_100)
    (clip,) = build(manifest(row(audio=stereo))).clips
    expected = encoder.encode(prepare_clip(stereo))
    assert clip.codes.dtype == torch.int16 and torch.equal(clip.codes.long(), expected)
    assert clip.codes.shape == (8, 32) and clip.seconds == 32 / 25


def test_codes_can_be_trained_on_when_made_in_inference_mode(build: Build, tmp_path: Path) -> None:
    with torch.inference_mode():
        made = [*build(manifest(row()), cache=tmp_path).clips, *build(manifest(row()), cache=tmp_path).clips]
    assert not any(clip.codes.is_inference() for clip in made) and torch.equal(made[0].codes, made[1].codes)


def test_kept_codes_are_not_made_again(build: Build, tmp_path: Path, encoded: list[int]) -> None:
    source = folder_of(tmp_path / "set", 3)
    first = build(read_manifest(source), cache=tmp_path / "cache")
    assert len(encoded) == 3
    (source / "1.wav").rename(source / "moved.wav")
    (source / "1.txt").rename(source / "moved.txt")
    (source / "2.txt").write_text("Another text altogether.")
    second = build(read_manifest(source), cache=tmp_path / "cache")
    assert len(encoded) == 3 and [clip.name for clip in second.clips] == ["0.wav", "2.wav", "moved.wav"]
    assert torch.equal(second.clips[2].codes, first.clips[1].codes)
    build(read_manifest(source))
    assert len(encoded) == 6


def test_another_codec_does_not_use_them(build: Build, encoder: CodecEncoder, checkpoint: Path) -> None:
    found = locate_checkpoint(checkpoint)
    other = load_codec_encoder(found.codec_config, found.codec_weights, ops=PLAIN_OPS, device=torch.device("cpu"))
    assert codec_identity(other) == codec_identity(encoder)
    with torch.no_grad():
        other.quantizer.quantizers[0].codebook.embed[0, 0] += 1
    assert codec_identity(other) != codec_identity(encoder)
    other.quantizer = encoder.quantizer
    other.config = replace(encoder.config, sample_rate=encoder.config.sample_rate + 1)
    assert codec_identity(other) != codec_identity(encoder)


# Faults.


def test_one_bad_file_in_ten_is_named_and_nine_are_used(build: Build, tmp_path: Path) -> None:
    source = folder_of(tmp_path / "set")
    (source / "3.wav").write_bytes(b"RIFF\x04\0\0\0WAVEjunk")
    made = build(read_manifest(source))
    assert [clip.name for clip in made.clips] == [f"{i}.wav" for i in range(10) if i != 3]
    assert made.rows == 10 and "rejected 3.wav: 3.wav is a damaged audio file" in made.report()


def test_every_kind_of_bad_row_is_named_and_the_good_ones_are_used(build: Build, tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    bad = {
        "empty file": row(audio=tmp_path / "empty.wav"),
        "gone": row(audio=tmp_path / "gone.wav"),
        "no text": row(" \n\u200b"),
        "marks": row("... !"),
        "endless": row("word " * 401),
        "short": row(audio=sound(1, 0.4)),
        "long": row(audio=sound(1, 31)),
        "silent": row(audio=Waveform(torch.zeros(1, 24_000), 24_000)),
        "fast": row("far too many words for this " * 4),
        "slow": row("Hm", audio=sound(1, 6)),
        "language": row(language="xx-nope"),
        "start": row(clean_start=37),
        "pinyin": row(pinyin="..."),
        "label": row(instruct="x" * 501),
    }
    rows = [replace(value, name=name) for name, value in bad.items()]
    made = build(
        manifest(row(name="first"), *rows, row(name="last", seed=2), rejected=(Rejected("line 9", "it is bad"),))
    )
    assert [clip.name for clip in made.clips] == ["first", "last"] and made.rows == len(rows) + 3
    reasons = {one.name: one.reason for one in made.rejected}
    expected = {
        "line 9": "it is bad",
        "empty file": "empty.wav is empty: record or export it again",
        "gone": "gone.wav does not exist",
        "no text": "the text is empty: write the words of the recording",
        "marks": "nothing to speak: the text has no letter and no number in it; give it at least one word",
        "endless": "the text must be at most 2000 characters, got 2005: split it into parts",
        "short": "it must be at least 0.5 s long, got 0.40 s",
        "long": "it must be at most 30 s long, got 31.0 s: cut it between sentences",
        "silent": "it is silent",
        "fast": "its text is too long for 1.5 s of speech: check that it is the transcript",
        "slow": "its text is too short for 6.0 s of speech: check that it is the transcript",
        "language": "language 'xx-nope' is not known: did you mean Liberia Kpelle (xpe), Nimadi (noe)? auto, an id "
        "(en), a tag (en-US) and an English name are accepted; python -m omnivoice languages lists them all",
        "start": "clean_start_token_idx must be below its 37 frames, got 37",
        "pinyin": "nothing to speak: the text has no letter and no number in it; give it at least one word",
        "label": "instruct must be at most 500 characters, got 501: split it into parts",
    }
    assert reasons == expected


def test_a_text_that_fits_no_longer_rejects_a_kept_clip(build: Build, tmp_path: Path) -> None:
    build(manifest(row()), cache=tmp_path)
    made = build(manifest(row(), row("far too many words for this " * 4, name="fast")), cache=tmp_path)
    assert [one.name for one in made.rejected] == ["fast"]


def test_no_usable_clip_says_why(build: Build) -> None:
    rows = [row("", name=f"r{i}") for i in range(7)]
    with pytest.raises(InputError) as shown:
        build(manifest(*rows))
    reason = "the text is empty: write the words of the recording"
    assert str(shown.value) == "no usable clip in here, 7 rejected: " + "; ".join(f"r{i}: {reason}" for i in range(5))


@pytest.mark.parametrize("content", [b"", b"damaged"])
def test_a_damaged_entry_is_encoded_again_and_replaced(
    build: Build, tmp_path: Path, encoded: list[int], content: bytes
) -> None:
    first = build(manifest(row()), cache=tmp_path)
    (entry,) = tmp_path.rglob("*.safetensors")
    whole = entry.read_bytes()
    entry.write_bytes(content)
    second = build(manifest(row()), cache=tmp_path)
    assert len(encoded) == 2 and entry.read_bytes() == whole and first.fingerprint() == second.fingerprint()
    assert second.notes == ("damaged entries in the code cache, encoded again: 1",)


def test_a_full_disk_loses_no_clip(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    made = build(manifest(row(), row(seed=2)), cache=tmp_path / "c")
    assert len(made.clips) == 2 and len(made.notes) == 1 and "the disk is full" in made.notes[0]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_cancel_midway_keeps_what_was_encoded(build: Build, tmp_path: Path, encoded: list[int]) -> None:
    source, seen = folder_of(tmp_path / "set", 5), []

    def cancel(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(read_manifest(source), cache=tmp_path / "c", on_clip=cancel)
    assert seen == [(1, 5), (2, 5), (3, 5)] and len(encoded) == 3
    again = build(read_manifest(source), cache=tmp_path / "c", on_clip=lambda done, total: seen.append((done, total)))
    assert len(encoded) == 5 and seen[3:] == [(i, 5) for i in range(1, 6)]
    assert again.fingerprint() == build(read_manifest(source)).fingerprint()


# Labels.


@pytest.mark.parametrize(
    "text",
    [
        "Hi\u200b there,\r\nyou  [laugh] <b>two</b>!",
        "\ufeff\u4f60\u597d\uff0c\n\u4e16\u754c\u3002",
        "one\u2028two three four",
    ],
)
def test_text_is_what_generation_reads(build: Build, text: str) -> None:
    (clip,) = build(manifest(row(text))).clips
    assert [clip.text] == [chunk.text for chunk in make_plan(GenerationRequest(text.strip("\ufeff"), seed=0)).chunks]
    assert "\n" not in clip.text and "<" not in clip.text


@pytest.mark.parametrize(
    ("instruct", "stored"),
    [
        ("Female,  HIGH pitch", "female, high pitch"),
        ("Ann  of\nGreen", "Ann of Green"),
        ("None", None),
        ("", None),
        (None, "male"),
        (" , ", ","),
    ],
)
def test_instruct(build: Build, instruct: str | None, stored: str | None) -> None:
    (clip,) = build(manifest(row(instruct=instruct)), instruct="Male" if instruct is None else None).clips
    assert clip.instruct == stored


def test_a_design_is_spelled_as_for_generation(build: Build) -> None:
    text = "\u4f60\u597d\uff0c\u65e9\u4e0a\u597d\u3002"
    (clip,) = build(manifest(row(text, instruct="female, low pitch"))).clips
    assert clip.instruct == make_plan(GenerationRequest(text, design="female, low pitch", seed=0)).instruct
    assert not clip.instruct.isascii()


def test_languages(build: Build) -> None:
    rows = [row(language=name) for name in ("English", "zh-CN", None, "auto")]
    assert [clip.language for clip in build(manifest(*rows)).clips] == ["en", "zh", None, None]
    assert [clip.language for clip in build(manifest(*rows), language="German").clips] == ["en", "zh", "de", "de"]
    with pytest.raises(InputError, match=r"^language 'Englsh' is not known.*English \(en\)"):
        build(manifest(row()), language="Englsh")


def test_a_language_of_ones_own_is_noted_once(build: Build) -> None:
    made = build(manifest(row(language="id:la"), row(language="id:xx", seed=2), row(seed=3)), language="id:la")
    assert [clip.language for clip in made.clips] == ["la", "xx", "la"]
    assert [note.partition(":")[0] for note in made.notes] == ["la, xx"]


def test_markup_and_symbols_of_texts_are_noted_once(build: Build) -> None:
    texts = ("<b>Good</b> morning &amp; hello.", "A <|x|> good <b>day</b>, infor-\nmation.")
    made = build(manifest(*(row(text, seed=i) for i, text in enumerate(texts))))
    assert [clip.text for clip in made.clips] == ["Good morning & hello.", "A   good day, information."]
    assert made.notes == ("markup was removed from the texts: <b>", "special tokens were removed from the texts: <|x|>")


def test_other_labels_are_kept(build: Build) -> None:
    (clip,) = build(manifest(row(pinyin=" ni3  hao3 ", clean_start=5))).clips
    assert (clip.pinyin, clip.clean_start) == ("ni3  hao3", 5)


def test_notes(build: Build) -> None:
    rows = [row(), row(name="copy"), row(name="other text", text="Good evening, all."), row(name="new", seed=2)]
    made = build(manifest(*rows, notes=("first",)))
    assert made.notes == ("first", "clips with the recording and text of an earlier one, all used: copy")
    assert len(made.clips) == 4


# Sources.


def test_a_folder_from_end_to_end(build: Build, tmp_path: Path) -> None:
    source = folder_of(tmp_path / "set", 2)
    (source / "alone.txt").write_text("x")
    write_wav(source / "mute.wav", sound(5))
    made = build(read_manifest(source), language="en")
    assert made.summary() == "2 of 4 clips, 3.0 s, languages: en (2)"
    assert torch.equal(made.clips[0].codes, build(manifest(row(audio=read_audio(source / "0.wav")))).clips[0].codes)


def test_recordings_and_texts_of_a_graph(build: Build) -> None:
    made = build(graph_rows([sound(1), sound(2, 0.1)], [TEXT, TEXT]))
    assert [clip.name for clip in made.clips] == ["clip 1"] and [one.name for one in made.rejected] == ["clip 2"]
    with pytest.raises(InputError, match="there must be one text for each recording, got 1 for 2"):
        graph_rows([sound(1), sound(2)], [TEXT])


def test_a_recording_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    """Its transcript has more words than its audio; `speak --voice` still takes it, with a warning."""
    clips = Path(__file__).resolve().parents[2] / "assets" / "training" / "clips"
    data = (clips / "clip8.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(data[:-2000])
    streamed = data.replace((len(data) - 44).to_bytes(4, "little"), (0x7FFF_F000).to_bytes(4, "little"))
    (tmp_path / "streamed.wav").write_bytes(streamed)
    with pytest.raises(AudioError, match=r"cut\.wav is cut short: \d+ of \d+ samples"):
        read_audio(tmp_path / "cut.wav", require_complete=True)
    whole = read_audio(clips / "clip8.wav", require_complete=True).samples
    assert torch.equal(read_audio(tmp_path / "streamed.wav", require_complete=True).samples, whole)
    assert read_audio(tmp_path / "cut.wav").samples.shape[1] == whole.shape[1] - 1000
