"""An output folder on a write-protected disk is refused before the work begins, and what it holds stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nodes import test_long_text_node, test_train_node
from tests.read_only_disk import make_read_only

loaded, part, data, output, train = (
    getattr(test_train_node, name) for name in ("loaded", "part", "data", "output", "train")
)
speak = test_long_text_node.speak


@pytest.mark.parametrize("there", ["nothing", "output", "folder of the runs", "empty run", "unfinished run"])
def test_train_lora(train, part, output: Path, monkeypatch: pytest.MonkeyPatch, there: str) -> None:
    match there:
        case "output":
            output.parent.mkdir(parents=True)
        case "folder of the runs":
            output.mkdir(parents=True)
        case "empty run":
            (output / "run").mkdir(parents=True)
        case "unfinished run":
            with monkeypatch.context() as patch:
                patch.setattr(part("train.trainer").Trainer, "finished", property(lambda trainer: True))
                train()
    before = sorted(output.rglob("*")) if output.exists() else []
    monkeypatch.setattr(part("train.trainer").Trainer, "step", lambda _: pytest.fail("the training began"))
    refused = make_read_only(output.parents[1], monkeypatch)
    words = r"^cannot (make the folder|write) [\w.-]+: .*(; choose another|: choose another folder)$"
    with pytest.raises(part("errors").FileError, match=words):
        train()
    assert refused and (sorted(output.rglob("*")) if output.exists() else []) == before


@pytest.mark.parametrize("there", ["nothing", "folder of the texts", "empty folder", "some parts"])
def test_long_text(speak, loaded, part, host, monkeypatch: pytest.MonkeyPatch, there: str) -> None:
    kept = host.folder.parents[1] / "output" / "omnivoice" / "long" / "book"
    match there:
        case "folder of the texts":
            kept.parent.mkdir(parents=True)
        case "empty folder":
            kept.mkdir(parents=True)
        case "some parts":
            speak()
            max(kept.iterdir()).unlink()
    before = sorted(kept.iterdir()) if kept.exists() else []
    make_read_only(kept.parents[2], monkeypatch)
    monkeypatch.setattr(type(loaded.engine), "generate_plans", lambda *_, **__: pytest.fail("it began to speak"))
    words = r"^cannot (make the folder|write) [\w.-]+: .*(; choose another|: choose another folder)$"
    with pytest.raises(part("errors").FileError, match=words):
        speak()
    assert (sorted(kept.iterdir()) if kept.exists() else []) == before


def test_a_long_text_whose_parts_are_all_there_needs_no_room(speak, host, monkeypatch: pytest.MonkeyPatch) -> None:
    first = speak()
    make_read_only(host.folder.parents[1] / "output", monkeypatch)
    assert speak().samples.equal(first.samples)
