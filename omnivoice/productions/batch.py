"""Batches: thousands of rows to one WAV file each, with a manifest; resumable, and shared out over processes.

A row's manifest entry carries a hash of everything that its sound depends on. A row is skipped if its entry has that
hash and its file is there. So a stopped run resumes, and a changed row is spoken again. A row that fails
is named in the manifest with its reason, and the others go on.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Protocol

from ..errors import DiskFullError, FileError, OmniVoiceError
from ..intake.audio_files import write_wav
from ..intake.files import append_line, file_size, file_stamp, read_bytes
from ..intake.folders import make_folder
from ..intake.limits import MAX_AUDIO_BYTES
from ..intake.locks import only_run
from ..intake.marks import SYNTHETIC, Mark
from ..types import DictionaryEntry, GenerationRequest, Speech, VoicePrompt
from .batch_rows import FAILED, SPOKEN, WRITING, Row, manifest_entries, mend_manifest
from .keys import request_key
from .lines import PlanRequests, SpeakRequests

MAX_BATCH = 32  # rows spoken in one run; the engine splits it where memory is short
_SEEDS = 2**64
MANIFESTS = "manifest*.jsonl"


class LoadVoice(Protocol):
    """Returns the voice of a saved file, or of a recording and its transcript."""

    def __call__(self, path: str, transcript: str, /) -> VoicePrompt: ...


@dataclass
class BatchResult:
    """What a run did. spoken, skipped, warned: numbers of rows. failed: {name: reason}. unknown: keys that were not
    used. used_entries: of the dictionary, in the rows that were spoken."""

    spoken: int = 0
    skipped: int = 0
    warned: int = 0
    seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    used_entries: set[DictionaryEntry] = field(default_factory=set)


OnRows = Callable[[int, int], None]  # rows done, rows in all; may raise to cancel


@dataclass(frozen=True)
class Batch:
    """What a run needs besides its rows.

    folder: of the files and the manifest. root: what recordings are relative to. base: what rows do not set; a row
    without a seed gets one from this seed and its id. model: identifies the weights and how they compute. rank, size:
    this process and how many share the rows; each has a manifest of its own, and reads all of them. mark: of the files,
    None for no mark; files that have another one are made again.
    """

    folder: Path
    root: Path
    base: GenerationRequest
    model: str
    plan: PlanRequests
    speak: SpeakRequests
    load_voice: LoadVoice
    rank: int = 0
    size: int = 1
    mark: Mark | None = SYNTHETIC

    @property
    def manifest(self) -> Path:
        """The manifest that this process writes."""
        suffix = f"-{self.rank}-of-{self.size}" if self.size > 1 else ""
        return self.folder / f"manifest{suffix}.jsonl"

    def run(self, rows: Sequence[Row], on_rows: OnRows | None = None) -> BatchResult:
        """Speak this process's share of the rows that have no file yet.

        Raises FileError if nothing can be written, LockedError while another run writes the same manifest.
        """
        make_folder(self.folder)
        with only_run(self.folder, f".{self.manifest.name}.lock"):
            return self._run([row for index, row in enumerate(rows) if index % self.size == self.rank], on_rows)

    def _run(self, own: Sequence[Row], on_rows: OnRows | None) -> BatchResult:
        work, result = _Work(self), BatchResult()
        for first in range(0, len(own), MAX_BATCH):
            work.speak(own[first : first + MAX_BATCH], result)
            if on_rows is not None:
                on_rows(min(first + MAX_BATCH, len(own)), len(own))
        return result


class _Work:
    """finished: {name: entry} of what any process has spoken. begun: names of files that batch has begun to write
    without a mark. noted: {name: the last entry of this process}."""

    def __init__(self, batch: Batch) -> None:
        self.batch, self._voices = batch, dict[tuple[str, str, str], VoicePrompt]()
        names = sorted(name for name in os.listdir(batch.folder) if fnmatch(name, MANIFESTS))
        entries = [entry for name in names for entry in manifest_entries(batch.folder / name)]
        self.finished = {entry["id"]: entry for entry in entries if entry.get("status") == SPOKEN}
        self.begun = {entry["id"] for entry in entries if entry.get("status") == WRITING}
        self.model = f"{batch.model}{'' if batch.mark else ' without a mark'}"
        mend_manifest(batch.manifest)
        self.noted = {entry["id"]: entry for entry in manifest_entries(batch.manifest)}

    def speak(self, rows: Sequence[Row], result: BatchResult) -> None:
        """Speak the rows that need it together, and alone if that fails, so that only the faulty one fails."""
        waiting: list[tuple[Row, GenerationRequest, str]] = []
        for row in rows:
            result.unknown.update(dict.fromkeys(row.unknown))
            try:
                if row.fault:
                    self._fail(row, row.fault, result)
                    continue
                request = self._request(row)
                key = request_key(request, model=self.model)
                if self._is_finished(row, key):
                    result.skipped += 1
                    continue
                self._check_target(row)
                for plan in self.batch.plan([request]):
                    result.used_entries.update(plan.used_entries)
                waiting.append((row, request, key))
            except OmniVoiceError as error:
                self._fail(row, str(error), result)
        try:
            speeches = self.batch.speak([request for _, request, _ in waiting]) if waiting else []
            pairs = list(zip(waiting, speeches))
        except OmniVoiceError:
            pairs = self._one_by_one(waiting, result)
        for (row, request, key), speech in pairs:
            self._write(row, request, key, speech, result)

    def _one_by_one(
        self, waiting: Sequence[tuple[Row, GenerationRequest, str]], result: BatchResult
    ) -> list[tuple[tuple[Row, GenerationRequest, str], Speech]]:
        pairs = []
        for one in waiting:
            try:
                pairs += [(one, speech) for speech in self.batch.speak([one[1]])]
            except OmniVoiceError as error:
                self._fail(one[0], str(error), result)
        return pairs

    def _request(self, row: Row) -> GenerationRequest:
        given, base = row.values, self.batch.base
        own = int.from_bytes(hashlib.sha256(row.name.encode()).digest()[:4], "big")
        seed = None if base.seed is None else (base.seed + own) % _SEEDS
        voice = self._voice(given) if "voice" in given or "ref_audio" in given else None
        return replace(
            base,
            text=given["text"],
            voice=voice or (None if "instruct" in given else base.voice),
            design=given.get("instruct") or (None if voice else base.design),
            language=given.get("language_id", base.language),
            seed=given.get("seed", seed),
            speed=given.get("speed", base.speed),
            duration=given.get("duration", base.duration),
        )

    def _voice(self, given: Mapping[str, Any]) -> VoicePrompt:
        path = str(self.batch.root / (given.get("voice") or given["ref_audio"]))
        place = (path, given.get("ref_text", ""), file_stamp(path))
        if place not in self._voices:
            if len(self._voices) >= 64:
                self._voices.pop(next(iter(self._voices)))
            self._voices[place] = self.batch.load_voice(place[0], place[1])
        return self._voices[place]

    def _is_finished(self, row: Row, key: str) -> bool:
        entry = self.finished.get(row.name, {})
        size = file_size(self._path(row))
        return entry.get("key") == key and 0 < size == entry.get("bytes")

    def _check_target(self, row: Row) -> None:
        """Raise FileError if the row's file is there and no batch has made it, such as a recording."""
        path = self._path(row)
        if row.name in self.finished or row.name in self.begun or not os.path.lexists(path):
            return
        if SYNTHETIC.comment.encode() not in read_bytes(path, limit=MAX_AUDIO_BYTES):
            raise FileError(f"{path.name} is there already and was not made by batch: use another id or output folder")

    def _path(self, row: Row) -> Path:
        return self.batch.folder / f"{row.name}.wav"

    def _write(self, row: Row, request: GenerationRequest, key: str, speech: Speech, result: BatchResult) -> None:
        if self.batch.mark is None:  # a kill right after the file is written would leave nothing that tells it is ours
            entry = {"id": row.name, "line": row.line, "status": WRITING}
            append_line(self.batch.manifest, _line(entry), flush=True)
        try:
            path = write_wav(self._path(row), speech.waveform, mark=self.batch.mark)
        except DiskFullError:
            raise
        except FileError as error:
            self._fail(row, str(error), result)
            return
        warnings = [*(request.voice.warnings if request.voice else ()), *speech.warnings]
        entry = {
            "id": row.name,
            "line": row.line,
            "status": SPOKEN,
            "file": path.name,
            "seconds": round(speech.seconds, 4),
            "seed": speech.seed,
            "text": request.text,
            "warnings": warnings,
            "respelled": [[change.original, change.spoken] for change in speech.respelled],
            "normalised": [[change.original, change.spoken] for change in speech.normalised],
            "bytes": file_size(path),
            "key": key,
        }
        append_line(self.batch.manifest, _line(entry), flush=True)
        result.spoken += 1
        result.warned += bool(warnings)
        result.seconds += speech.seconds

    def _fail(self, row: Row, reason: str, result: BatchResult) -> None:
        result.failed[f"line {row.line}, {row.name}"] = reason
        before = self.noted.get(row.name, {})
        if (before.get("line"), before.get("reason")) != (row.line, reason):
            entry = {"id": row.name, "line": row.line, "status": FAILED, "reason": reason}
            append_line(self.batch.manifest, _line(entry))


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False)
