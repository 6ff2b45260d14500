"""What may already be in a batch's output folder: recordings, manifests of others, another run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from omnivoice.constants import SAMPLE_RATE
from omnivoice.errors import AudioError, FileError, InputError, LockedError, OmniVoiceError
from omnivoice.intake.audio_files import write_wav
from omnivoice.intake.files import append_line
from omnivoice.intake.locks import only_run
from omnivoice.intake.marks import SYNTHETIC
from omnivoice.types import GenerationRequest, Speech, VoicePrompt, Waveform
from tests.unit.productions.test_batch import ROWS, FakeSpeech, manifest, speak

QUIET = Waveform(torch.zeros(1, 100), SAMPLE_RATE)


def test_a_recording_with_the_name_of_a_row_stays(tmp_path: Path) -> None:
    path = tmp_path / "out" / "r1.wav"
    path.parent.mkdir()
    write_wav(path, QUIET, mark=None)
    before = path.read_bytes()
    result, _ = speak(tmp_path, *ROWS[:3])
    assert result.failed == {
        "line 2, r1": "r1.wav is there already and was not made by batch: use another id or output folder"
    }
    assert (result.spoken, path.read_bytes()) == (2, before)


def test_a_file_that_was_written_right_before_a_kill_is_made_again(tmp_path: Path) -> None:
    speak(tmp_path, *ROWS[:3])
    path = tmp_path / "out" / "manifest.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    result, _ = speak(tmp_path, *ROWS[:3])
    assert (result.spoken, result.skipped, result.failed) == (1, 2, {})


@pytest.mark.parametrize("kind", ["folder", "text"])
def test_a_name_that_cannot_be_written_fails_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "out" / "r1.wav"
    path.parent.mkdir()
    path.mkdir() if kind == "folder" else path.write_text("notes")
    result, _ = speak(tmp_path, *ROWS[:3])
    assert (list(result.failed), result.spoken) == (["line 2, r1"], 2)


@pytest.mark.parametrize(
    "content",
    [
        '{"id": "r0", "audio": "a.wav", "text": "Hi."}\n{"name": 1}\n',
        '{"id": "r0"}\n',
        "notes\nmore notes",
        "\x00\x01\n",
    ],
)
def test_a_manifest_of_another_program_stays(tmp_path: Path, content: str) -> None:
    path = tmp_path / "out" / "manifest.jsonl"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(FileError, match=r"manifest\.jsonl in the output folder was not written by batch"):
        speak(tmp_path, *ROWS[:2])
    assert path.read_text() == content


@pytest.mark.parametrize("odd", ['{"id": "r9", "line": [1], "status": "failed", "reason": {}}', "[]", "{", '"r0"'])
def test_odd_lines_of_a_manifest_change_nothing(tmp_path: Path, odd: str) -> None:
    speak(tmp_path, *ROWS[:3])
    path = tmp_path / "out" / "manifest.jsonl"
    path.write_text(f"{odd}\n{path.read_text()}")
    whole = path.read_bytes()
    result, _ = speak(tmp_path, *ROWS[:3])
    assert (result.spoken, result.skipped, path.read_bytes()) == (0, 3, whole)


def test_a_manifest_that_cannot_be_read_ends_the_run(tmp_path: Path) -> None:
    """As if it were empty, everything would be spoken again."""
    (tmp_path / "out" / "manifest.jsonl").mkdir(parents=True)
    with pytest.raises(FileError, match=r"manifest\.jsonl is a folder, not a file"):
        speak(tmp_path, *ROWS[:2])


def test_a_second_run_in_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with only_run(tmp_path / "out", ".manifest.jsonl.lock"), pytest.raises(LockedError, match="out is in use by"):
        speak(tmp_path, *ROWS[:2])
    assert speak(tmp_path, *ROWS[:2])[0].spoken == 2


@pytest.mark.parametrize("row", [{"text": ""}, {"text": 3}, {"text": "Hi.", "speed": "x"}, {"text": "Hi.", "mood": []}])
def test_a_row_that_fails_keeps_its_id(tmp_path: Path, row: dict[str, Any]) -> None:
    speak(tmp_path, {"id": "mine", **row})
    assert [entry["id"] for entry in manifest(tmp_path)] == ["mine"]
    speak(tmp_path, {"id": "mine", "text": "Mended."})
    assert manifest(tmp_path)[-1]["status"] == "spoken"


@pytest.mark.parametrize("error", [AudioError("odd"), InputError("odd"), OmniVoiceError("odd")])
def test_any_error_of_one_row_leaves_the_others(tmp_path: Path, error: OmniVoiceError) -> None:
    class Odd(FakeSpeech):
        def _speak(self, request: GenerationRequest) -> Speech:
            if "number 1." in request.text:
                raise error
            return super()._speak(request)

    result, _ = speak(tmp_path, *ROWS[:3], fake=Odd())
    assert (result.failed, result.spoken) == ({"line 2, r1": "odd"}, 2)


def test_the_warnings_of_a_recording_are_in_the_manifest(tmp_path: Path) -> None:
    def loud(path: str, transcript: str, /) -> VoicePrompt:
        return VoicePrompt(torch.zeros(8, 5, dtype=torch.int64), "Mine.", 0.1, warnings=("it is clipped",))

    result, _ = speak(tmp_path, {"text": "Hello there.", "voice": "v"}, load_voice=loud)
    assert manifest(tmp_path)[0]["warnings"][0] == "it is clipped"
    assert result.warned == 1


def test_an_integer_id_names_the_file(tmp_path: Path) -> None:
    speak(tmp_path, {"id": 7, "text": "Hello there."})
    assert json.loads((tmp_path / "out" / "manifest.jsonl").read_text())["file"] == "7.wav"


def test_files_without_a_mark_resume_after_a_kill_and_others_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in such a file tells that batch made it, so the manifest says so before it is written."""

    def killed(path: Path, line: str, **options: bool) -> None:
        if '"spoken"' in line:
            raise KeyboardInterrupt
        append_line(path, line, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("omnivoice.productions.batch.append_line", killed)
        speak(tmp_path, *ROWS[:2], mark=None)
    assert b"OmniVoice" not in (tmp_path / "out" / "r0.wav").read_bytes()
    result, _ = speak(tmp_path, *ROWS[:2], mark=None)
    assert (result.spoken, result.failed) == (2, {})
    result, _ = speak(tmp_path, *ROWS[:2], mark=None)
    assert (result.spoken, result.skipped) == (0, 2)
    result, _ = speak(tmp_path, *ROWS[:2])
    assert (result.spoken, result.failed) == (2, {})
    assert SYNTHETIC.xmp() in (tmp_path / "out" / "r0.wav").read_bytes()
