"""Differences of transcripts: which words change, punctuation that is heard, brackets, scripts without spaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnivoice.text import differences
from omnivoice.text.differences import WordChange, split_run, word_changes, words_and_brackets
from omnivoice.text.word_errors import compare


def _changes(old: str, new: str) -> list[tuple[str, str]]:
    first, second = words_and_brackets(old), words_and_brackets(new)
    return [
        (" ".join(first[slice(*change.old)]), " ".join(second[slice(*change.new)]))
        for change in word_changes(first, second)
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("We met in May.", "We met in June.", [("May.", "June.")]),
        ("We met in May.", "We all met in May.", [("", "all")]),
        ("We met in late May.", "We met in May.", [("late", "")]),
        ("We met in May.", "You met in June.", [("We", "You"), ("May.", "June.")]),
        ("We met in May.", "Yesterday we met in May.", [("", "Yesterday")]),
        ("We met in May", "We met in May, in Rome", [("May", "May, in Rome")]),
        ("We met in May.", "WE “met” in may", []),
        ("You came.", "You came?", [("came.", "came?")]),
        ("Well you came.", "Well, you came.", [("Well", "Well,")]),
        ("Fine. He left.", "Fine, he left.", [("Fine.", "Fine,")]),
        ("Good day.", "[laughter] Good day.", [("", "[laughter]")]),
        ("Good [sigh] day.", "Good [laughter] day.", [("[sigh]", "[laughter]")]),
        ("Good [sigh] day.", "Good day.", [("[sigh]", "")]),
        ("A bass here.", "A [B EY1 S] here.", [("bass", "[B EY1 S]")]),
        ("我们五月见面。", "我们六月见面。", [("五", "六")]),
        ("我们见面。", "我们今天见面。", [("", "今 天")]),
        ("今日は晴れ。", "今日は雨。", [("晴 れ。", "雨。")]),
    ],
)
def test_what_changes(old: str, new: str, expected: list[tuple[str, str]]) -> None:
    assert _changes(old, new) == expected


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "[sigh]", "e,", "e"]), max_size=9)


@given(WORDS, WORDS)
def test_the_changes_make_the_new_words_of_the_old_ones(old: list[str], new: list[str]) -> None:
    made, at = list[str](), 0
    for change in word_changes(old, new):
        assert change.old[0] >= at and (change.old[0] > at or at == 0)  # changes that touch are one
        assert change.old[1] > change.old[0] or change.new[1] > change.new[0]
        made += [*old[at : change.old[0]], *new[slice(*change.new)]]
        at = change.old[1]
    assert [word.rstrip(",") for word in [*made, *old[at:]]] == [word.rstrip(",") for word in new]


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_as_few_words_change_as_can(old: list[str], new: list[str]) -> None:
    changed = sum(max(one.old[1] - one.old[0], one.new[1] - one.new[0]) for one in word_changes(old, new))
    assert changed == compare(" ".join(old), " ".join(new)).errors


def test_long_texts_are_compared_in_runs() -> None:
    old = [f"w{place}" for place in range(3000)]
    new = ["first", *old[1:1500], "middle", *old[1501:2999], "last"]
    assert word_changes(old, new) == [WordChange((at, at + 1), (at, at + 1)) for at in (0, 1500, 2999)]


@pytest.mark.parametrize(
    "run", ["a" * 3_000, "[a" * 1_500, "ที่" * 1_000, "A." * 1_500, "我" * 3_000, "我“" + "a" * 3_000]
)
def test_every_character_of_a_text_without_spaces_is_looked_at_once(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, is_word = list[str](), differences._is_word

    def counted(char: str) -> bool:
        looked.append(char)
        return is_word(char)

    monkeypatch.setattr(differences, "_is_word", counted)
    assert "".join(words_and_brackets(run)) == run
    assert len(looked) <= len(run)


@given(st.text("a我あ1.“[ที", max_size=20))
def test_a_run_is_split_around_characters_that_are_words(run: str) -> None:
    parts = split_run(run)
    assert "".join(parts) == run
    for part in parts:
        spoken = [char for char in part if char in "a我あ1ท"]
        assert len(spoken) <= 1 or not set(spoken) & set("我あ")
