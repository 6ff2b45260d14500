"""The study of editing: which edits are drawn, how joints are measured, and what the table counts. The judge is told
what to hear, and the recordings are those of the demo voice's tests, so it needs neither espeak-ng nor pocketsphinx."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import save_file

from benchmarks import editing
from benchmarks.editing import main, named, parse, report, study
from benchmarks.editing_cases import COUNTS, SPARE, Case, Language, draw_cases, in_stereo, spoken_in_training
from benchmarks.editing_recordings import Recording, largest_step
from demo_voice.making import grammar
from omnivoice import Engine
from omnivoice.weights.demo import demo_model
from tests.demo.demo_fixtures import clips

VOICES = ("f2", "m3")


def accepted(kind: str, language: Language) -> list[list[set[str]]]:
    """Return the words that are possible at each place of each pattern of the kind's grammar."""
    text = language.jsgf(kind)
    rules = dict(re.findall(r"^<(\w+)> = (.*);$", text, re.MULTILINE))
    sentences = text.split("public <sentence> =\n")[1].rstrip(";\n")
    patterns = [
        re.sub(without, "", one).split() for one in sentences.split(" |\n") for without in (r"[\[\]]", r"\[.*\]")
    ]
    return [[{*rules[piece[1:-1]].split(" | ")} if piece[0] == "<" else {piece} for piece in one] for one in patterns]


FEW_WORDS = (
    "anna peter maria david susan robert and in the little old young big happy dog cat horse monkey walked jumped "
    "slept waited near under across behind garden river mountain kitchen forest station"
)


@pytest.mark.parametrize("words", [None, FEW_WORDS])
@pytest.mark.parametrize("kind", ["change", "two", "insert", "delete", "first", "last"])
def test_both_sentences_of_an_edit_are_of_the_grammar_and_new(kind: str, words: str | None) -> None:
    language = Language.of(None if words is None else words.split())
    grammatical = accepted(kind, language)
    for split in ("tune", "report"):
        cases = list(draw_cases(kind, split, language, VOICES))
        assert cases
        for case in cases:
            for sentence in (case.old, case.new):
                said = sentence.split()
                fitting = [one for one in grammatical if len(one) == len(said)]
                assert any(all(word in place for word, place in zip(said, one)) for one in fitting), sentence
                assert sentence not in spoken_in_training()
                assert words is None or {*sentence.split()} <= {*words.split()}


@pytest.mark.parametrize("kind", sorted(COUNTS))
def test_no_sentence_is_in_both_sets(kind: str) -> None:
    tune, reported = (
        {words for case in draw_cases(kind, split, Language.of(), VOICES) for words in (case.old, case.new)}
        for split in ("tune", "report")
    )
    assert kind == "one word" or tune.isdisjoint(reported)


@pytest.mark.parametrize("kind", sorted(COUNTS))
def test_the_changed_words_are_those_in_which_the_sentences_differ(kind: str) -> None:
    cases = list(draw_cases(kind, "report", Language.of(), VOICES))
    assert len(cases) == SPARE * COUNTS[kind]
    for case in cases:
        old, new = case.old.split(), case.new.split()
        if kind == "redo":
            assert old == new and len(case.changed) == 1
        elif len(old) == len(new):
            assert [place for place, pair in enumerate(zip(old, new)) if len({*pair}) == 2] == [*case.changed]
            assert len(case.changed) == (2 if kind == "two" else 1)
        else:
            longer, shorter = (new, old) if kind.startswith("insert") else (old, new)
            assert [word for place, word in enumerate(longer) if place not in case.changed] == shorter


@pytest.mark.parametrize(
    ("old", "changed", "name"),
    [
        ("i want ten apples not ten", (2,), "ten#1"),
        ("i want ten apples not ten", (5,), "ten#2"),
        ("anna", (0,), "anna#1"),
    ],
)
def test_a_word_that_is_spoken_again_is_named_with_its_number(old: str, changed: tuple[int], name: str) -> None:
    assert named(Recording(Case("redo", old, old, changed, "f2", 1.0, 0), torch.zeros(1), True)) == name


@pytest.mark.parametrize("rate", [24_000, 44_100])
@pytest.mark.parametrize("at", [0.4, 0.7])
def test_a_sudden_change_is_a_larger_step_than_a_steady_tone(rate: int, at: float) -> None:
    time = torch.arange(rate) / rate
    noise = 0.01 * torch.randn(rate, generator=torch.Generator().manual_seed(1))
    tone = torch.where(time < at, torch.sin(1400 * time), torch.sin(9000 * time)) + noise
    rough, calm = largest_step(tone[None], rate, [(at, at), (at / 2, at / 2)])
    assert rough > 3 * calm and calm < 2


@pytest.mark.parametrize("length", [2400, 24_000])
def test_a_recording_in_stereo_is_at_another_rate_and_its_channels_differ(length: int) -> None:
    stereo = in_stereo(torch.randn(length, generator=torch.Generator().manual_seed(2)))
    assert stereo.shape == (2, length * 44_100 // 24_000)
    assert not torch.equal(stereo[0], stereo[1])


class Told:
    """Hears what it is told, one after the other."""

    words: ClassVar[list[str]] = []

    def __init__(self, jsgf: str) -> None:
        assert jsgf.startswith("#JSGF")

    def hear_at(self, samples: torch.Tensor, sample_rate: int) -> str:
        assert samples.ndim == 2 and samples.shape[1] > 0
        return self.words.pop(0)


def one_recording(folder: Path) -> str:
    """Store a clip as the only recording of the set "report", kind "redo"; return its sentence."""
    engine, clip = Engine.load(str(demo_model())), clips()[0]
    with torch.no_grad():
        samples = engine.codec.decode(clip.codes.long())[0]
    words = clip.words
    case = {"kind": "redo", "old": words, "new": words, "changed": [1], "voice": "f2", "factor": 1.0, "seed": 3}
    rows = json.dumps({"tried": 4, "used": [{"case": case, "new is heard": True}]}).encode()
    (folder / "recordings").mkdir()
    file = folder / "recordings" / "report-redo-f2.safetensors"
    save_file({"0": samples, "rows": torch.tensor(list(rows), dtype=torch.uint8)}, file)
    return words


def test_results_are_stored_once_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = one_recording(tmp_path)
    monkeypatch.setattr(editing, "Judge", Told)
    Told.words = [words, "another sentence"]
    options = parse(
        [str(tmp_path), "--kinds", "redo", "--voices", "f2", "--methods", "recording", "codebooks, 44.1 kHz stereo"]
    )
    rows = study(options)
    assert [(row["method"], row["right"]) for row in rows] == [
        ("recording", True),
        ("codebooks, 44.1 kHz stereo", False),
    ]
    assert "1/1" in report(rows) and "0/1" in report(rows)
    assert len(str(rows[1]["roughness"]).split(",")) == 2
    assert study(options) == rows and not Told.words  # nothing is measured twice


@pytest.mark.parametrize("missing", ["espeak-ng", "pocketsphinx"])
def test_a_missing_tool_is_named(missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(editing, "missing_tools", lambda: f"this study needs {missing}: install it first")
    assert main([str(tmp_path)]) == 1
    assert missing in capsys.readouterr().err


def test_the_patterns_with_optional_words_are_those_of_the_grammar() -> None:
    """With all their words they are sentences that the model was trained on."""
    from benchmarks.editing_cases import OPTIONAL, OPTIONAL_FIRST, OPTIONAL_LAST

    for pattern in (*OPTIONAL, *OPTIONAL_FIRST, *OPTIONAL_LAST):
        assert re.sub(r"[\[\]]", "", pattern) in grammar.PATTERNS
