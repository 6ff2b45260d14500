"""Voice files: exact round trips, and every way a stranger's file can be wrong."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import FileError, InputError
from omnivoice.intake.tensors import check_header, read_small_tensors, write_tensors
from omnivoice.intake.voice_files import read_voice, write_voice, write_voices
from omnivoice.voice import VoicePrompt

METADATA = {
    "format": "omnivoice_voice",
    "format_version": "1",
    "codebooks": "8",
    "frame_rate": "25",
    "text": "Hello.",
    "rms": "0.1",
    "name": "Ann",
    "language": "en",
}


def voice(**changes: object) -> VoicePrompt:
    codes = torch.randint(0, 1024, (8, 75), generator=torch.Generator().manual_seed(1))
    return VoicePrompt(**{"codes": codes, "text": "Hello.", "rms": 0.1, "name": "Ann", "language": "en", **changes})


def forged(path: Path, codes: torch.Tensor | None = None, **metadata: str | None) -> Path:
    changed = {key: value for key, value in {**METADATA, **metadata}.items() if value is not None}
    tensor = torch.zeros(8, 10, dtype=torch.int16) if codes is None else codes
    path.unlink(missing_ok=True)
    return write_tensors(path, {"codes": tensor}, changed)


@settings(max_examples=30, deadline=None)
@given(
    text=st.text(st.characters(codec="utf-8", categories=("L", "M", "N", "P", "Zs")), max_size=50),
    rms=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    frames=st.integers(1, 1500),
    codebooks=st.integers(1, 64),
)
def test_round_trip_is_exact(tmp_path_factory: pytest.TempPathFactory, text, rms, frames, codebooks) -> None:
    path = tmp_path_factory.mktemp("v") / "v.safetensors"
    made = voice(codes=torch.randint(0, 1024, (codebooks, frames)), text=text, rms=rms)
    made.save(path)
    read = VoicePrompt.load(path)
    assert torch.equal(read.codes, made.codes) and read.codes.dtype == torch.int64
    assert (read.text, read.rms, read.name, read.language) == (text, rms, "Ann", "en")


def test_the_file_holds_what_the_format_says_and_nothing_else(tmp_path: Path) -> None:
    made = voice(warnings=("short",))
    assert write_voice(tmp_path / "v.safetensors", made) == tmp_path / "v.safetensors"
    tensors, metadata = read_small_tensors(tmp_path / "v.safetensors")
    assert metadata == METADATA
    assert list(tensors) == ["codes"] and tensors["codes"].dtype == torch.int16


def test_foreign_metadata_goes_when_saved_again(tmp_path: Path) -> None:
    forged(tmp_path / "v", canary="/srv/someone/hf_token")
    write_voice(tmp_path / "v", read_voice(tmp_path / "v"))
    assert b"canary" not in (tmp_path / "v").read_bytes() and b"hf_token" not in (tmp_path / "v").read_bytes()


def test_texts_and_labels_are_cleaned(tmp_path: Path) -> None:
    write_voice(tmp_path / "v", voice(text="a\0b\u202e\ud800c", name=" A\n\x1b[31m n\u200bn "))
    read = read_voice(tmp_path / "v")
    assert (read.text, read.name) == ("abc", "A [31m nn")
    forged(tmp_path / "w", text="x\u202ey\0", name="<b>\x1b\nq")
    assert (read_voice(tmp_path / "w").text, read_voice(tmp_path / "w").name) == ("xy", "<b> q")


def test_optional_labels(tmp_path: Path) -> None:
    read = read_voice(forged(tmp_path / "v", name=None, language=None))
    assert (read.name, read.language) == ("", "")


def test_the_codec_is_kept_and_may_be_unknown(tmp_path: Path) -> None:
    write_voice(tmp_path / "v", voice(codec="0123456789abcdef"))
    assert read_voice(tmp_path / "v").codec == "0123456789abcdef"
    assert read_voice(forged(tmp_path / "old")).codec == ""


def test_larger_codebooks_say_so(tmp_path: Path) -> None:
    codes = torch.tensor([[0, 2047]])
    write_voice(tmp_path / "v", voice(codes=codes))
    assert check_header(tmp_path / "v").metadata["codebook_size"] == "2048"
    assert torch.equal(read_voice(tmp_path / "v").codes, codes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"codes": torch.tensor([[40_000]])}, "voice codes must be 0-32767, got 40000"),
        ({"codes": torch.zeros(65, 3, dtype=torch.int64)}, r"voice codes must be \[1-64, 1-1500\], got \[65, 3\]"),
        ({"codes": torch.zeros(8, 1501, dtype=torch.int64)}, r"got \[8, 1501\]"),
        ({"text": "x" * 2001}, "voice text must be at most 2000 characters, got 2001"),
        ({"name": "x" * 121}, "voice name must be at most 120 characters, got 121"),
        ({"language": None}, "voice language must be a string, got None"),
    ],
)
def test_voices_beyond_the_limits_are_not_written(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}|{message}"):
        write_voice(tmp_path / "v", voice(**changes))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": None}, r"is not a voice file \(its format is None\)"),
        ({"format": "pt"}, r"is not a voice file \(its format is 'pt'\)"),
        ({"format_version": "2"}, r"newer version of this pack \(voice format 2, this one reads 1\): update the pack"),
        ({"format_version": "999999"}, "newer version"),
        ({"format_version": None}, "format_version must be a whole number, got ''"),
        ({"format_version": "1.0"}, "format_version must be a whole number, got '1.0'"),
        ({"format_version": "9" * 5000}, "format_version must be a whole number"),
        ({"format_version": "\u00b2"}, "format_version must be a whole number"),
        ({"format_version": "0"}, "format_version must be at least 1, got 0"),
        ({"frame_rate": "50"}, "frame_rate must be 25, got '50'"),
        ({"frame_rate": None}, "frame_rate must be 25, got None"),
        ({"codec": "not a fingerprint"}, "voice codec must be 16 hex digits, or empty if unknown, got 'not a"),
        ({"codebooks": "9"}, "codebooks must be 8-8, got '9'"),
        ({"codebooks": None}, "codebooks must be 8-8, got ''"),
        ({"codebook_size": "0"}, "codebook_size must be 1-32768, got '0'"),
        ({"codebook_size": "32769"}, "codebook_size must be 1-32768, got '32769'"),
        ({"codebook_size": "-5"}, "codebook_size must be"),
        ({"text": None}, "voice text must be a string, got None"),
        ({"text": "x" * 2001}, "voice text must be at most 2000 characters"),
        ({"name": "x" * 121}, "voice name must be at most 120"),
        ({"language": "x" * 121}, "voice language must be at most 120"),
        ({"rms": None}, "voice rms must be a number, got None"),
        ({"rms": "loud"}, "voice rms must be a number, got 'loud'"),
        ({"rms": "nan"}, "voice rms must be a finite number"),
        ({"rms": "inf"}, "voice rms must be a finite number"),
        ({"rms": "1e999"}, "voice rms must be a finite number"),
        ({"rms": "-0.1"}, "voice rms must be a finite number"),
        ({"codes": torch.zeros(8, 10)}, "must hold one int16 tensor"),
        ({"codes": torch.zeros(8, 10, dtype=torch.int64)}, "must hold one int16 tensor"),
        ({"codes": torch.zeros(80, dtype=torch.int16)}, r"shape \[K, T\], got \[80\]"),
        ({"codes": torch.zeros(8, 0, dtype=torch.int16)}, r"got \[8, 0\]"),
        ({"codes": torch.zeros(0, 8, dtype=torch.int16)}, r"got \[0, 8\]"),
        ({"codes": torch.zeros(8, 1501, dtype=torch.int16)}, r"got \[8, 1501\]"),
        ({"codes": torch.zeros(65, 8, dtype=torch.int16)}, r"got \[65, 8\]"),
    ],
)
def test_forged_files(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    forged(tmp_path / "v", **changes)  # type: ignore[arg-type]
    with pytest.raises(FileError, match=rf"^v[: ].*{message}"):
        read_voice(tmp_path / "v")


@pytest.mark.parametrize("code", [-32768, -1, 1024, 1025, 8200, 32767])
@pytest.mark.parametrize("place", [(0, 0), (3, 5), (7, 9)])
def test_codes_out_of_range_anywhere(tmp_path: Path, code: int, place: tuple[int, int]) -> None:
    codes = torch.zeros(8, 10, dtype=torch.int16)
    codes[place] = code
    with pytest.raises(FileError, match=rf"^v: voice codes must be 0-1023, got {code}$"):
        read_voice(forged(tmp_path / "v", codes=codes))


def test_extra_tensors_and_other_files(tmp_path: Path) -> None:
    write_tensors(tmp_path / "v", {"codes": torch.zeros(8, 1, dtype=torch.int16), "x": torch.zeros(1)}, METADATA)
    with pytest.raises(FileError, match=r"^v must hold one int16 tensor, codes"):
        read_voice(tmp_path / "v")
    torch.save({"format_version": 1}, tmp_path / "old.pt")
    with pytest.raises(FileError, match=r"^old\.pt is a zip or a PyTorch pickle, not safetensors"):
        read_voice(tmp_path / "old.pt")
    with (tmp_path / "big").open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(FileError, match=r"^big must be at most 16777216 bytes"):
        read_voice(tmp_path / "big")


def test_a_foreign_file_is_never_replaced(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", {"a": torch.zeros(1)}, {"format": "pt"})
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(FileError, match=r"exists and is of another kind \('pt'\)"):
        write_voice(tmp_path / "model.safetensors", voice())
    assert (tmp_path / "model.safetensors").read_bytes() == before
    write_voice(tmp_path / "v", voice())
    with pytest.raises(FileError, match="a file of that name exists already"):
        write_voice(tmp_path / "v", voice(), overwrite=False)


def test_mutants_give_a_sound_voice_or_a_file_error(tmp_path: Path) -> None:
    whole = write_voice(tmp_path / "v", voice()).read_bytes()
    chance, good = random.Random(11), 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data) if chance.random() < 0.3 else 400)
            data[at] = chance.randrange(256)
        (tmp_path / "m").write_bytes(data)
        try:
            read = read_voice(tmp_path / "m")
        except FileError:
            continue
        good += 1
        assert int(read.codes.min()) >= 0 and int(read.codes.max()) < 32_768
    assert 0 < good < 300


def test_a_voice_without_a_transcript_says_so_when_it_is_loaded(tmp_path: Path) -> None:
    codes = torch.zeros(8, 9, dtype=torch.int64)
    for text, count in (("", 1), ("  ", 1), ("Hello.", 0)):
        VoicePrompt(codes, text, 0.1).save(tmp_path / "v.safetensors")
        warnings = VoicePrompt.load(tmp_path / "v.safetensors").warnings
        assert len(warnings) == count
        assert all("no transcript" in warning for warning in warnings)


def test_the_consent_note_is_kept_and_may_be_missing(tmp_path: Path) -> None:
    made = voice(consent="Ann herself,\n 3 May, for\u200b the audiobook")
    made.save(tmp_path / "v.safetensors")
    assert read_small_tensors(tmp_path / "v.safetensors")[1] == {
        **METADATA,
        "consent": "Ann herself, 3 May, for the audiobook",
    }
    assert VoicePrompt.load(tmp_path / "v.safetensors").consent == "Ann herself, 3 May, for the audiobook"
    assert read_voice(forged(tmp_path / "old")).consent == ""
    with pytest.raises(InputError, match="voice consent must be at most 500 characters, got 501"):
        write_voice(tmp_path / "w", voice(consent="x" * 501))
    with pytest.raises(FileError, match=r"^forged: voice consent must be at most 500 characters"):
        read_voice(forged(tmp_path / "forged", consent="x" * 501))


def test_several_voices_are_written_all_or_none(tmp_path: Path) -> None:
    first, second, bad = tmp_path / "1.safetensors", tmp_path / "2.safetensors", voice(text="x" * 2001)
    assert write_voices([(first, voice(name="one")), (second, voice(name="two"))]) == [first, second]
    before = first.read_bytes()
    third = tmp_path / "3.safetensors"
    with pytest.raises(InputError, match="voice text must be at most 2000 characters"):
        write_voices([(first, voice(name="new")), (third, voice()), (second, bad)])
    assert first.read_bytes() == before and read_voice(second).name == "two" and not third.exists()
    with pytest.raises(FileError, match="exists already"):
        write_voices([(third, voice()), (first, voice(name="new"))], overwrite=False)
    assert first.read_bytes() == before and not third.exists()
