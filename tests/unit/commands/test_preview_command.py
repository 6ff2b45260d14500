"""`preview`, and `--dictionary` of all commands that speak."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from omnivoice.__main__ import main
from omnivoice.commands.speech_options import add_speech_options, base_request
from omnivoice.errors import TextError
from omnivoice.generate.plan import make_plan
from omnivoice.generate.preview import estimated_seconds, spoken_text
from omnivoice.productions.long_plan import plan_long
from omnivoice.types import GenerationRequest
from omnivoice.voice import VoicePrompt


def request_of(*arguments: str) -> GenerationRequest:
    parser = argparse.ArgumentParser()
    add_speech_options(parser)
    return base_request(parser.parse_args(arguments), "a nginx")


def test_dictionaries_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "second.csv"
    first.write_text("nginx = engine x\na = b")
    second.write_text("word;replacement\nnginx;engine why\n")
    assert request_of().dictionary is None
    assert make_plan(request_of("--dictionary", str(first))).chunks[0].text == "b engine x"
    both = request_of("--dictionary", str(first), "--dictionary", str(second))
    assert make_plan(both).chunks[0].text == "b engine why"
    assert capsys.readouterr().err == f"{second} replaces the entries of nginx\n"


def test_a_wrong_dictionary_names_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a = b\nc")
    with pytest.raises(TextError, match=r"words\.txt, line 2: 'c' is no entry"):
        request_of("--dictionary", str(tmp_path / "words.txt"))


def test_a_long_text_names_unused_entries_once(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("nginx = engine x\nnever = x\ntitle = tytle")
    request = replace(request_of("--dictionary", str(tmp_path / "words.txt")), text="# Title\nOne nginx.\n# B\nTwo.")
    long = plan_long(request, lambda requests: [make_plan(one) for one in requests])
    assert [part.text for part in long.parts] == ["tytle", "One engine x.", "B", "Two."]
    assert long.notes == (
        "dictionary: “Title” → “tytle”, “nginx” → “engine x”",
        "dictionary: not in the text are 1 of 3 entries: never",
    )


def test_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = tmp_path / "words.txt"
    words.write_text("nginx = engine x\nnever = x")
    assert main(["preview", "Ask nginx [pause 0.5s] 5 times.", "--normalise", "--dictionary", str(words)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "about 3.50 s in 2 chunks, language auto",
        "chunks:",
        "  1.40 s  Ask engine x",
        "         pause 0.5 s",
        "  1.40 s  five times.",
        "changed:",
        "  line 1, column 5: “nginx” → “engine x” (dictionary)",
        "  line 1, column 24: “5” → “five” (normalised)",
        "pauses: 1, 0.5 s in all",
        "dictionary: not in the text are 1 of 2 entries: never",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. [pause 1.5s] Two [pause]", "One. [pause 1.5s] Two [pause 0.5s]"),
        ("Two\nlines <i>here</i>", "Two lines here"),
        ("第一行\n第二行", "第一行第二行"),
    ],
)
def test_the_text_alone(text: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", text, "--text-only"]) == 0
    assert capsys.readouterr().out == f"{expected}\n"


def test_a_wrong_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "..."]) == 1
    assert "nothing to speak" in capsys.readouterr().err


def test_a_voice_decides_the_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    voice = VoicePrompt(torch.zeros(8, 100, dtype=torch.int64), "Some words.", 0.1)
    voice.save(tmp_path / "slow.safetensors")
    assert main(["preview", "Some words.", "--voice", str(tmp_path / "slow.safetensors")]) == 0
    plan = make_plan(GenerationRequest("Some words.", voice=voice, seed=0))
    assert capsys.readouterr().out.startswith(f"about {estimated_seconds(plan):.2f} s in 1 chunk,")
    assert main(["preview", "Some words.", "--voice", "slow.wav"]) == 1
    assert "preview takes a saved voice (.safetensors)" in capsys.readouterr().err


@pytest.mark.parametrize("duration", [1.0, 3.3, 10.0])
def test_an_exact_length(duration: float) -> None:
    plan = make_plan(GenerationRequest("Some words [pause 0.3s] more.", seed=0, duration=duration, exact_length=True))
    assert estimated_seconds(plan) == pytest.approx(duration, abs=1 / 24_000)
    assert spoken_text(plan) == "Some words [pause 0.3s] more."
