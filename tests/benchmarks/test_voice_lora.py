"""The study of LoRAs for a new voice, on the recorded clips of the demo voice's tests and with judges that are told
what to hear. So it needs neither espeak-ng nor pocketsphinx."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from benchmarks import voice_lora
from benchmarks.voice_lora import Heard, Study, held_out, main, missing_tools, run, training_words
from demo_voice.making import grammar
from omnivoice.train.clips import Clip
from omnivoice.weights.demo import demo_model
from tests.demo.demo_fixtures import clips


@dataclass
class Judge:
    """Hears the listed words and voices, one after the other."""

    words: Sequence[str]
    voices: Sequence[str]
    heard: list[Tensor] = field(default_factory=list)

    def hear(self, samples: Tensor) -> str:
        self.heard.append(samples)
        return self.words[(len(self.heard) - 1) % len(self.words)]

    def voice(self, samples: Tensor) -> str:
        return self.voices[[id(one) for one in self.heard].index(id(samples)) % len(self.voices)]


def study(judge: Judge, texts: Sequence[str]) -> Study:
    new = [clip for clip in clips() if clip.use == "train"]
    own = tuple(Clip(c.words, c.codes.to(torch.int16), c.text, "en") for c in new)
    model = demo_model()
    assert model is not None
    return Study(model, "f4", own[:3], own[3:5], texts, judge, judge, 2)  # type: ignore[arg-type]  # a fake


TEXTS = ["the weather is cold today", "good morning anna how are you"]


@pytest.mark.parametrize(
    ("words", "voices", "heard"),
    [
        (TEXTS, ["f4", "f4"], Heard(1.0, 1.0, 1.0)),
        (["the weather is warm today", TEXTS[1]], ["f4", "m3"], Heard(1 - 1 / 11, 0.5, 0.5)),
        (["", ""], ["m3", "f2"], Heard(0.0, 0.0, 0.0)),
    ],
)
def test_a_row_counts_words_sentences_and_the_new_voice(words: list[str], voices: list[str], heard: Heard) -> None:
    found = study(Judge(words, voices), TEXTS).judged([torch.zeros(1), torch.ones(1)])
    assert found == heard


@pytest.mark.parametrize(
    ("changed", "at", "steps"),
    [
        ({"steps": 3, "rank": 2}, [], [3]),
        ({"steps": 3, "audio_modules": "frozen"}, [1, 2], [1, 2, 3]),
        ({"steps": 2, "masking": {"prompt": [0, 0]}, "base_clips": 1}, [2, 9], [2]),
    ],
)
def test_a_run_speaks_after_the_steps_that_are_asked_for_and_at_its_end(
    changed: dict[str, object], at: list[int], steps: list[int]
) -> None:
    judge = Judge(TEXTS, ["f4", "m3"])
    rows = list(run(study(judge, TEXTS), "voice", {"batch_size": 2, **changed}, at))
    assert [row.step for row in rows] == steps
    assert all(row.heard == Heard(1.0, 1.0, 0.5) for row in rows)
    assert all(0 < row.loss < 10 and 0 < row.validation < 10 for row in rows)
    assert len(judge.heard) == len(TEXTS) * len(steps) and all(len(one) > 24_000 for one in judge.heard)


def test_training_changes_what_is_heard() -> None:
    judge = Judge(TEXTS, ["f4"])
    list(run(study(judge, TEXTS[:1]), "voice", {"steps": 2, "learning_rate": 1e-2, "warmup": 0}, [1]))
    assert not torch.equal(*judge.heard)


def test_training_sentences_are_one_of_each_pattern_and_not_held_out() -> None:
    words = training_words()
    assert len(set(words)) == len(words) == len(grammar.PATTERNS)
    assert set(words).isdisjoint(held_out("test")) and set(words).isdisjoint(held_out("valid"))
    assert set(held_out("test")).isdisjoint(held_out("valid")) and len(held_out("test")) == 60


@pytest.mark.parametrize(
    ("program", "package", "said"),
    [
        (None, "there", "the program espeak-ng (apt install espeak-ng): install it first"),
        ("there", None, "pocketsphinx (pip install pocketsphinx): install it first"),
        (None, None, "espeak-ng (apt install espeak-ng) and pocketsphinx (pip install pocketsphinx)"),
        ("there", "there", ""),
    ],
)
def test_a_missing_tool_is_named_with_how_to_install_it(
    program: str | None,
    package: str | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = SimpleNamespace(which=lambda name: program, util=SimpleNamespace(find_spec=lambda name: package))
    monkeypatch.setattr(voice_lora, "shutil", found)
    monkeypatch.setattr(voice_lora, "importlib", found)
    assert said in missing_tools() and bool(said) == bool(missing_tools())
    if said:
        assert main([str(tmp_path)]) == 1
        assert said in capsys.readouterr().err


def test_the_command_prints_and_keeps_every_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = study(Judge(TEXTS, ["f4", "m3"]), TEXTS)
    monkeypatch.setattr(voice_lora, "missing_tools", lambda: "")
    monkeypatch.setattr(voice_lora, "prepare", lambda *given: (own, Heard(0.96, 0.8, 0.98)))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    few = '{"steps": 2, "batch_size": 2}'
    assert main([str(tmp_path / "new"), "--voice", "f4", "--at", "1", "--run", few]) == 0
    kept = [json.loads(line) for line in (tmp_path / "new" / "results.jsonl").read_text().splitlines()]
    names = ["recordings, encoded and decoded", "the model without a LoRA", few, few]
    assert [row["run"] for row in kept] == names and [row.get("step") for row in kept] == [None, None, 1, 2]
    assert kept[0]["heard"] == {"words": 0.96, "sentences": 0.8, "voice": 0.98}
    printed = capsys.readouterr().out
    assert "new voice" in printed and printed.count("0.960") == 2 and printed.count(few) == 4
