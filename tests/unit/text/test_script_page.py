"""docs/script.md: its examples are parsed, and its tables are what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnivoice.errors import TextError
from omnivoice.generate.plan import make_plan
from omnivoice.intake import limits
from omnivoice.productions.long_plan import CHAPTER_SECONDS, plan_long
from omnivoice.text.dictionary import respelled
from omnivoice.text.dictionary_reader import parse_dictionary
from omnivoice.text.pronunciation import is_phonemes
from omnivoice.text.script import parse_script
from omnivoice.types import GenerationRequest

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "script.md").read_text(encoding="utf-8")


def fenced(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)


def table(*heading: str) -> list[list[str]]:
    """The rows of the tables with this heading, without the backticks of whole cells."""
    rows, inside = [], False
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if inside and cells and not line.startswith("|---"):
            rows.append([re.sub(r"^`(.*)`$", r"\1", cell) for cell in cells])
        inside = bool(cells) and (inside or cells == [*heading])
    assert rows, heading
    return rows


def planned(text: str):
    return make_plan(GenerationRequest(text, seed=0))


@pytest.mark.parametrize(("text", "seconds"), table("you write", "silence in seconds"))
def test_pauses(text: str, seconds: str) -> None:
    plan = planned(text)
    assert [chunk.text for chunk in plan.chunks] == ["One.", "Two."]
    assert plan.chunks[1].pause_samples == 24_000 * float(seconds)


@pytest.mark.parametrize("mark", ["* * *", "---", "#"])
def test_scene_breaks(mark: str) -> None:
    assert f"`{mark}`" in PAGE
    assert [chunk.pause_samples for chunk in planned(f"One.\n{mark}\nTwo.").chunks] == [0, 12_000]


@pytest.mark.parametrize(("text", "meaning"), table("you write", "what it is"))
def test_sounds_and_pronunciations_are_understood(text: str, meaning: str) -> None:
    plan = planned(text)
    assert plan.warnings == () and plan.chunks[0].text == text
    if "CMU" in meaning:
        assert is_phonemes(re.search(r"\[(.*)\]", text)[1])


def test_the_script_is_read_as_it_is_described() -> None:
    (script,) = fenced("script")
    for names in (["anna", "Peter"], None):
        lines = parse_script(script, names).lines
        assert [line.number for line in lines] == [1, 2, 3, 6]
        assert [line.speaker.casefold() for line in lines] == ["anna", "peter", "peter", "anna"]
        assert lines[1].overrides == {"speed": 1.1, "seed": 3} and lines[3].pause_seconds == 2
        assert lines[3].overrides == {"language": "en", "duration": 2.5}
    for label in ("**Anna:**", "- Anna:", "[anna]", "ÁNNA  :"):
        assert parse_script(f"{label} Hi.", ["Anna"]).lines[0].speaker == "Anna", label


@pytest.mark.parametrize(("text", "message"), table("you write", "error"))
def test_errors(text: str, message: str) -> None:
    with pytest.raises(TextError) as told:
        parse_script(text, ["Anna", "Peter"])
    assert str(told.value).startswith(message)


def test_chapters() -> None:
    (text,) = fenced("chapters")
    request = GenerationRequest(text, seed=0)
    long = plan_long(request, lambda requests: [make_plan(one) for one in requests])
    assert long.chapters == ("", "One", "Two")
    assert [part.silence for part in long.parts[1:3]] == [24_000 * CHAPTER_SECONDS, 12_000]


def test_dictionaries() -> None:
    lines, rows = map(parse_dictionary, fenced("dictionary"))
    assert len(lines.entries) == 8 and len(rows.entries) == 3
    assert lines.entries[0].replacement == rows.entries[0].replacement == "engine x"


@pytest.mark.parametrize(("entry", "text", "spoken"), table("entry", "text", "spoken"))
def test_replacements(entry: str, text: str, spoken: str) -> None:
    assert respelled(text, parse_dictionary(entry), None).result.text == spoken


@pytest.mark.parametrize(("text", "spoken"), table("you write", "spoken"))
def test_what_is_removed(text: str, spoken: str) -> None:
    assert " ".join(" ".join(chunk.text for chunk in planned(text).chunks).split()) == spoken


def test_numbers_are_those_of_the_limits() -> None:
    for text in (
        f"It can last {limits.MAX_PAUSE_SECONDS} seconds",
        f"{limits.MAX_PAUSES:,} pauses and {limits.MAX_PAUSES_SECONDS // 60} minutes",
        f"{limits.MAX_SCRIPT_LINES:,} lines and {limits.MAX_SPEAKERS} speakers",
        f"{limits.MAX_DICTIONARY_ENTRIES:,} entries of {limits.MAX_ENTRY_CHARS} characters",
        "`speed` ({0.low}-{0.high})".format(limits.LIMITS["speed"]),
    ):
        assert text in " ".join(PAGE.split()), text
