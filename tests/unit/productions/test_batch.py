"""Batches: each row ends as a file or as a named failure, once, whatever stops the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from omnivoice.constants import SAMPLE_RATE
from omnivoice.errors import DiskFullError, FileError, InputError, NumericError
from omnivoice.generate.plan import make_plan
from omnivoice.productions import batch_rows
from omnivoice.productions.batch import Batch, BatchResult
from omnivoice.productions.batch_rows import read_rows
from omnivoice.types import GenerationPlan, GenerationRequest, Speech, VoiceDesign, VoicePrompt, Waveform


class Stopped(Exception):
    """A kill."""


class FakeSpeech:
    """Speaks requests as sounds that depend on all they hold; stops after `rows` of them."""

    def __init__(self, rows: int = 1_000_000) -> None:
        self.requests: list[GenerationRequest] = []
        self.left = rows

    def __call__(self, requests: Sequence[GenerationRequest], /) -> list[Speech]:
        if any("NaN" in request.text for request in requests):
            raise NumericError("the output is not finite")
        speeches = []
        for request in requests:
            self.left -= 1
            if self.left < 0:
                raise Stopped
            self.requests.append(request)
            speeches.append(self._speak(request))
        return speeches

    def _speak(self, request: GenerationRequest) -> Speech:
        assert request.seed is not None
        generator = torch.Generator().manual_seed(request.seed % 2**32)
        samples = 0.1 * torch.rand(1, 10 * len(request.text), generator=generator)
        codes = torch.zeros(8, 5, dtype=torch.int64)
        made = request.voice or VoicePrompt(codes, request.text, 0.1)
        return Speech(Waveform(samples, SAMPLE_RATE), (codes,), (request.text,), 0.1, request.seed, made)


def plan(requests: Sequence[GenerationRequest], /) -> list[GenerationPlan]:
    return [make_plan(request) for request in requests]


def load_voice(path: str, transcript: str, /) -> VoicePrompt:
    if "missing" in path:
        raise FileError("missing.wav does not exist")
    return VoicePrompt(torch.full((8, 5), len(path) % 100), transcript or "A voice.", 0.1)


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "list.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def batch(folder: Path, fake: FakeSpeech, **options: Any) -> Batch:
    base = GenerationRequest("", seed=7, language="en")
    made = Batch(folder / "out", folder, base, "model", plan, fake, load_voice)
    return replace(made, **options)


def speak(folder: Path, *rows: Any, fake: FakeSpeech | None = None, **options: Any) -> tuple[BatchResult, FakeSpeech]:
    fake = fake or FakeSpeech()
    return batch(folder, fake, **options).run(read_rows(write(folder, *rows))), fake


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}


def manifest(folder: Path, name: str = "manifest.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out" / name).read_text(encoding="utf-8").splitlines()]


ROWS = [{"id": f"r{i}", "text": f"This is sentence number {i}."} for i in range(70)]


def test_upstream_keys_are_taken(tmp_path: Path) -> None:
    row = {
        "id": "a1",
        "text": "Hello.",
        "ref_audio": "anna.wav",
        "ref_text": "Good morning.",
        "language_id": "de",
        "language_name": "German",
        "duration": 2.5,
        "speed": None,
    }
    result, fake = speak(
        tmp_path, row, {"text": "Hi.", "instruct": "female"}, {"text": "Bye.", "seed": 3, "speed": 1.5}
    )
    first, second, third = fake.requests
    assert first.voice is not None
    assert (first.voice.text, first.language, first.duration, first.speed) == ("Good morning.", "de", 2.5, None)
    assert (second.design, second.voice, second.language) == ("female", None, "en")
    assert (third.seed, third.speed) == (3, 1.5)
    assert (result.spoken, result.failed, list(result.unknown)) == (3, {}, [])
    assert list(files(tmp_path)) == ["a1.wav", "line-000002.wav", "line-000003.wav", "manifest.jsonl"]
    assert [entry["file"] for entry in manifest(tmp_path)] == ["a1.wav", "line-000002.wav", "line-000003.wav"]


@pytest.mark.parametrize("stop_after", [0, 1, 32, 33, 69])
def test_a_stopped_run_resumes_to_the_same_bytes(tmp_path: Path, stop_after: int) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    speak(tmp_path / "a", *ROWS)
    with pytest.raises(Stopped):
        speak(tmp_path / "b", *ROWS, fake=FakeSpeech(stop_after))
    result, fake = speak(tmp_path / "b", *ROWS)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert result.skipped == stop_after // 32 * 32
    assert result.spoken == len(fake.requests) == 70 - result.skipped


def test_a_manifest_cut_short_is_mended(tmp_path: Path) -> None:
    speak(tmp_path, *ROWS[:5])
    whole = files(tmp_path)
    path = tmp_path / "out" / "manifest.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    result, _ = speak(tmp_path, *ROWS[:5])
    assert (result.spoken, result.skipped) == (1, 4)
    assert files(tmp_path) == whole


@pytest.mark.parametrize("change", ["text", "file", "cut file", "seed", "model"])
def test_only_what_changed_is_spoken_again(tmp_path: Path, change: str) -> None:
    speak(tmp_path, *ROWS[:4])
    rows, options = [dict(row) for row in ROWS[:4]], {}
    path = tmp_path / "out" / "r2.wav"
    if change == "text":
        rows[2]["text"] = "Another one."
    elif change == "file":
        path.unlink()
    elif change == "cut file":
        path.write_bytes(path.read_bytes()[:-2])
    elif change == "seed":
        rows[2]["seed"] = 5
    else:
        options["model"] = "another"
    result, _ = speak(tmp_path, *rows, **options)
    assert (result.spoken, result.skipped) == ((4, 0) if change == "model" else (1, 3))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{", "the row is not valid JSON"),
        ("[]", "it is not an object"),
        ({"id": "x"}, "it has no text"),
        ({"id": "x", "text": ""}, "it has no text"),
        ({"id": "x", "text": "?!"}, "nothing to speak"),
        ({"id": "x", "text": 3}, "text must be a text, got 3"),
        ({"id": "x", "text": "Hi.", "speed": "fast"}, "speed must be a number, got 'fast'"),
        ({"id": "x", "text": "Hi.", "speed": 99}, "speed must be 0.25-4, got 99"),
        ({"id": "x", "text": "Hi.", "language_id": "klingon"}, "language 'klingon' is not known"),
        ({"id": "../x", "text": "Hi."}, "../x"),
        ({"id": "con", "text": "Hi."}, "con"),
        ({"id": "x", "text": "Hi.", "ref_text": "a"}, "ref_text needs ref_audio"),
        ({"id": "x", "text": "Hi.", "ref_audio": "missing.wav"}, "missing.wav does not exist"),
        ({"id": "x", "text": "Hi.", "voice": "a.safetensors", "ref_audio": "b.wav"}, "voice and ref_audio both"),
        ({"id": "R0", "text": "Hi."}, "the id 'R0' is that of line 1"),
        ({"id": "x", "text": "NaN"}, "the output is not finite"),
        ({"id": "x", "text": "a" * 70_000}, "use narrate for it"),
    ],
)
def test_a_row_that_fails_is_named_and_the_others_go_on(tmp_path: Path, row: Any, reason: str) -> None:
    result, _ = speak(tmp_path, ROWS[0], row, ROWS[1])
    ((place, why),) = result.failed.items()
    assert place.startswith("line 2, ")
    assert reason in why
    assert result.spoken == 2
    assert [entry["status"] for entry in manifest(tmp_path)].count("failed") == 1
    again, _ = speak(tmp_path, ROWS[0], row, ROWS[1])
    assert (again.skipped, list(again.failed.values())) == (2, [why])
    assert len(manifest(tmp_path)) == 3


@pytest.mark.parametrize("size", [2, 3])
def test_processes_share_the_rows(tmp_path: Path, size: int) -> None:
    fakes = [FakeSpeech() for _ in range(size)]
    results = [speak(tmp_path, *ROWS[:10], fake=fake, rank=rank, size=size)[0] for rank, fake in enumerate(fakes)]
    assert sum(result.spoken for result in results) == 10
    texts = [request.text for fake in fakes for request in fake.requests]
    assert sorted(texts) == sorted(row["text"] for row in ROWS[:10])
    alone, fake = speak(tmp_path, *ROWS[:10])
    assert (alone.skipped, fake.requests) == (10, [])


def test_keys_that_mean_nothing_are_named(tmp_path: Path) -> None:
    result, _ = speak(tmp_path, {"text": "Hi.", "mood": "sad"}, {"text": "Ho.", "mood": 1, "pitch": 2})
    assert list(result.unknown) == ["mood", "pitch"]


def test_a_row_without_a_voice_uses_that_of_the_command(tmp_path: Path) -> None:
    own = VoicePrompt(torch.zeros(8, 5, dtype=torch.int64), "Mine.", 0.1)
    base = GenerationRequest("", seed=7, voice=own, design=VoiceDesign(("male",)))
    _, fake = speak(
        tmp_path, {"text": "Hi."}, {"text": "Ho.", "instruct": "female"}, {"text": "Ha.", "voice": "v"}, base=base
    )
    assert [request.voice is own for request in fake.requests] == [True, False, False]
    assert [request.design for request in fake.requests] == [VoiceDesign(("male",)), "female", None]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_list_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "list.jsonl").write_text(content)
    with pytest.raises(InputError, match="has no row"):
        read_rows(tmp_path / "list.jsonl")


def test_a_full_disk_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> Path:
        raise DiskFullError("the disk is full")

    monkeypatch.setattr("omnivoice.productions.batch.write_wav", full)
    with pytest.raises(FileError, match="the disk is full"):
        speak(tmp_path, *ROWS[:3])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_before_they_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(batch_rows, "MAX_BATCH_ROWS", 3)
    monkeypatch.setattr(batch_rows, "_row", None)
    path = tmp_path / "list.jsonl"
    path.write_bytes(f"{{}}{end}".encode() * 13)
    with pytest.raises(InputError, match=r"list\.jsonl has \d+ line ends, at most 3 rows are allowed: split it"):
        batch_rows.read_rows(path)
