"""`download` on the command line, against a hub on the loopback address; what it does is `weights.published`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from omnivoice.__main__ import main
from omnivoice.commands import download


@pytest.fixture(autouse=True)
def small(published: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnivoice.weights.published.load_table", lambda path: published)


def test_fetches_once_shows_the_licence_and_keeps_what_is_right(hub, tmp_path: Path, capsys) -> None:
    target = tmp_path / "model"
    for expected in ("downloaded", "already here"):
        assert main(["download", "--to", str(target)]) == 0
        printed = capsys.readouterr().out
        assert printed.count(expected) == 2 and "WEIGHTS CC-BY-NC (no commercial use)" in printed
        assert f"--model {target}" in printed
    assert {path: (target / path).read_bytes() for path in hub.files} == hub.files
    assert len(hub.seen) == 2


def test_default_folder(hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["download"]) == 0
    assert (tmp_path / "models" / "omnivoice" / "OmniVoice" / "config.json").read_bytes() == hub.files["config.json"]


def test_refusals_are_reported_in_one_line(hub, tmp_path: Path, capsys) -> None:
    hub.files["config.json"] = b'{"a": 2}'  # same size, other content
    assert main(["download", "--to", str(tmp_path)]) == 1
    assert "error: config.json differs from the published file and was removed" in capsys.readouterr().err
    assert not (tmp_path / "config.json").exists()
    del hub.files["config.json"]
    assert main(["download", "--to", str(tmp_path)]) == 1
    shown = capsys.readouterr().err
    assert "config.json could not be downloaded" in shown and "HF_ENDPOINT" in shown and shown.count("\n") == 1


def test_interrupted_and_resumed(hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def stop(done: int, total: int) -> None:
        if done > 1_000_000:
            raise KeyboardInterrupt

    monkeypatch.setattr(download, "show_bytes", stop)
    assert main(["download", "--to", str(tmp_path)]) == 130
    monkeypatch.undo()
    assert (tmp_path / "audio_tokenizer" / "model.safetensors.part").stat().st_size > 900_000


def test_counter_on_a_terminal_and_silence_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, drawn in ((Terminal(), f"\r{'1.5 MB of 3 MB':<24}\r{'3 MB of 3 MB':<24}\n"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        download.show_bytes(1_500_000, 3_000_000)
        download.show_bytes(3_000_000, 3_000_000)
        assert stream.getvalue() == drawn
