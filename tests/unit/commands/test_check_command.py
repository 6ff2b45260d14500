"""`check`: what it says of marked, unmarked, foreign and hostile files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import soundfile
import torch

from omnivoice.__main__ import main
from omnivoice.errors import OmniVoiceError
from omnivoice.intake.audio_files import write_wav
from omnivoice.intake.mark_reader import AudioMarks, mark_of_edit, read_marks
from omnivoice.intake.marks import DIGITAL_SOURCE, EDITED, SYNTHETIC, Mark
from omnivoice.types import VoicePrompt, Waveform
from omnivoice.voice import CONSENT_KINDS, consent_kind
from omnivoice.weights.lora import LoRA, Replacement
from omnivoice.weights.lora_write import write_lora, write_peft

NOISE = Waveform(torch.rand(1, 24_000, generator=torch.Generator().manual_seed(1)) - 0.5, 24_000)
NOTHING = "no mark found. That says nothing about where the sound comes from"


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["check", str(path)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


@pytest.mark.parametrize(
    "mark, verdict, meaning",
    [
        (SYNTHETIC, "marked as AI-generated", "trainedAlgorithmicMedia (made by a generative model)"),
        (EDITED, "marked as a recording that was edited with AI", "(in part made by a generative model)"),
    ],
)
def test_our_files_say_what_they_are(tmp_path: Path, capsys, mark: Mark, verdict: str, meaning: str) -> None:
    said = check(write_wav(tmp_path / "a.wav", NOISE, mark=mark), capsys)
    assert said.startswith(f"a.wav: {verdict}\n") and f"  comment: {mark.comment}\n" in said and meaning in said
    assert said.endswith("Anybody can add, change or remove it.\n")


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg", "mp3", "aiff"])
def test_a_file_without_a_mark_means_nothing(tmp_path: Path, capsys, kind: str) -> None:
    soundfile.write(tmp_path / f"a.{kind}", NOISE.samples[0].numpy(), 24_000)
    assert check(tmp_path / f"a.{kind}", capsys).startswith(f"a.{kind}: {NOTHING}")


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg", "mp3"])
@pytest.mark.parametrize(
    "comment, found",
    [
        (SYNTHETIC.comment, AudioMarks(comments=(SYNTHETIC.comment,))),
        (DIGITAL_SOURCE + "digitalCapture", AudioMarks(sources=("digitalCapture",))),
        ('{"3": {"class_type": "OmniVoiceSynthesize"}}', AudioMarks(nodes=("OmniVoiceSynthesize",))),
        ('{"type":"LoadOmniVoice"}, {"type": "SaveAudio"}', AudioMarks(nodes=("LoadOmniVoice",))),
    ],
)
def test_tags_of_other_formats_are_found(tmp_path: Path, kind: str, comment: str, found: AudioMarks) -> None:
    with soundfile.SoundFile(tmp_path / f"a.{kind}", "w", 24_000, 1) as sound:
        sound.comment = comment
        sound.write(NOISE.samples[0].numpy())
    assert read_marks(tmp_path / f"a.{kind}") == found


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("before", [0, 3 << 20, 30 << 20])
def test_a_mark_is_found_at_the_end_of_a_long_file_in_any_encoding(
    tmp_path: Path, capsys, encoding: str, before: int
) -> None:
    texts = f"{DIGITAL_SOURCE}{EDITED.source}".encode(encoding), EDITED.comment.encode(encoding)
    (tmp_path / "a.mp3").write_bytes(b"ID3\4" + b"\x55" * before + b"\xff".join(texts) + b"\xff" * 100)
    said = check(tmp_path / "a.mp3", capsys)
    assert "marked as a recording that was edited with AI" in said and f"comment: {EDITED.comment}" in said


def test_a_c2pa_manifest_is_named_and_not_judged(tmp_path: Path, capsys) -> None:
    box = b"jumb\0\0\0\x1ejumd" + bytes.fromhex("6332706100110010800000aa00389b71") + b"\3c2pa\0"
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x18ftypM4A \0\0\0\0" + box)
    assert check(tmp_path / "a.m4a", capsys).startswith(
        "a.m4a: has notes about its origin\n  a C2PA manifest, which a C2PA program can verify\n"
    )


@pytest.mark.parametrize(
    "note, kind", [("", "unknown"), ("Permission: Anna, 2 May", "permission"), ("mine", "unknown")]
)
def test_voices_and_loras_tell_their_consent(tmp_path: Path, capsys, note: str, kind: str) -> None:
    VoicePrompt(torch.zeros(8, 5, dtype=torch.int64), "Hi.", 0.1, consent=note).save(tmp_path / "v.safetensors")
    said = check(tmp_path / "v.safetensors", capsys)
    assert said.startswith("v.safetensors: a voice, ") and f"  consent: {kind}{', noted as ' if note else ''}" in said
    lora = LoRA("x", {"audio_heads": Replacement(torch.zeros(2, 2))})
    about = {"consent": note} if note else {}
    write_lora(tmp_path / "l.safetensors", lora, about)
    write_peft(tmp_path / "peft", lora, about)
    for path in (tmp_path / "l.safetensors", tmp_path / "peft" / "adapter_model.safetensors"):
        said = check(path, capsys)
        assert ": a LoRA for OmniVoice" in said and f"  consent: {kind}{', noted as ' if note else ''}" in said


def test_the_five_words_of_consent() -> None:
    assert [*CONSENT_KINDS] == ["self", "permission", "licensed", "designed", "unknown"]
    for kind in CONSENT_KINDS:
        assert {consent_kind(text) for text in (kind, kind.upper(), f" {kind}: a note", f"{kind}, 2 May")} == {kind}
    assert {consent_kind(text) for text in ("", "selfish", "no permission", "Anna, permission", "\u202eself")} == {
        "unknown"
    }


def test_an_edit_of_synthetic_speech_stays_synthetic(tmp_path: Path) -> None:
    for mark, edited in ((SYNTHETIC, SYNTHETIC), (EDITED, EDITED), (None, EDITED)):
        assert mark_of_edit(write_wav(tmp_path / "a.wav", NOISE, mark=mark)) == edited


@pytest.mark.parametrize("data", [b"notes", b"", b"RIFF", b"\xff", b"PK\3\4" + bytes(50)])
def test_in_other_files_nothing_is_found(tmp_path: Path, capsys, data: bytes) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    assert check(tmp_path / "a.bin", capsys).startswith(f"a.bin: {NOTHING}")


@pytest.mark.parametrize("data", [b"notes", b"", (1 << 62).to_bytes(8, "little") + b"{}"])
def test_a_damaged_voice_is_refused_in_one_line(tmp_path: Path, capsys, data: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    assert main(["check", str(tmp_path / "a.safetensors")]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1) and said.err.startswith("error: a.safetensors")


@pytest.mark.parametrize("name", ["gone.wav", "gone.safetensors", "."])
def test_missing_files_and_folders_are_refused(tmp_path: Path, capsys, name: str) -> None:
    assert main(["check", str(tmp_path / name)]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_hostile_files_give_lines_or_our_errors(tmp_path: Path, capsys) -> None:
    chance = random.Random(4)
    VoicePrompt(torch.zeros(8, 5, dtype=torch.int64), "Hi.", 0.1, consent="self").save(tmp_path / "v.safetensors")
    seeds = {"a.wav": write_wav(tmp_path / "a.wav", NOISE).read_bytes()}
    seeds["v.safetensors"] = (tmp_path / "v.safetensors").read_bytes()
    for name, seed in seeds.items():
        for _ in range(300):
            data = bytearray(seed[:2_000])
            for _ in range(chance.randrange(1, 9)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            (tmp_path / name).write_bytes(data[: chance.randrange(len(data) + 1)])
            assert main(["check", str(tmp_path / name)]) in (0, 1)
            said = capsys.readouterr()
            assert "Traceback" not in said.err and (said.out or said.err.startswith("error: "))


def test_a_large_file_of_nothing_but_marks_gives_twenty(tmp_path: Path) -> None:
    terms = b"".join(f"{DIGITAL_SOURCE}{chr(97 + i % 26) * (1 + i % 60)} ".encode() for i in range(1_600))
    (tmp_path / "a.wav").write_bytes(b"RIFF\xff\xff\xff\xffWAVE" + terms * 400)
    assert len(read_marks(tmp_path / "a.wav").sources) == 20


def test_the_errors_are_ours(tmp_path: Path) -> None:
    with pytest.raises(OmniVoiceError):
        read_marks(tmp_path / "gone.wav")
