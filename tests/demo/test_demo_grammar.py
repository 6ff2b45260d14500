"""The demo voice's sentences, their split, and the grammar for the speech recognizer."""

from __future__ import annotations

import re

import pytest

from demo_voice.making import grammar


def test_words_are_plain_and_in_every_list_once() -> None:
    words = grammar.words()
    assert 250 <= len(words) <= 320
    assert all(re.fullmatch("[a-z]+", word) for word in words)
    for slot, values in grammar.SLOTS.items():
        assert len(set(values.split())) == len(values.split()), slot


def test_patterns_use_every_slot_and_have_four_to_nine_words() -> None:
    used = {piece for pattern in grammar.PATTERNS for piece in re.findall("<(.*?)>", pattern)}
    assert used == set(grammar.SLOTS)
    assert all(4 <= len(pattern.split()) <= 9 for pattern in grammar.PATTERNS)


def test_sets_are_disjoint_and_depend_only_on_the_seed() -> None:
    sets = grammar.draw_sets(3, 2000, 60)
    assert {name: len(sentences) for name, sentences in sets.items()} == {"test": 60, "valid": 60, "train": 2000}
    train, valid, test = (set(sets[name]) for name in ("train", "valid", "test"))
    assert len(valid) == len(test) == 60
    assert not train & valid and not train & test and not valid & test
    assert sets == grammar.draw_sets(3, 2000, 60) != grammar.draw_sets(4, 2000, 60)


def test_every_sentence_is_one_of_the_grammar() -> None:
    text = grammar.jsgf()
    rules = dict(re.findall(r"^<(\w+)> = (.*);$", text, re.M))
    public = re.search(r"public <sentence> =\n(.*);", text, re.S)
    assert public is not None
    expression = re.sub(r"<(\w+)>", lambda m: f"({rules[m[1]].replace(' | ', '|')})", public[1])
    whole = re.compile("|".join(f"({line.strip()})" for line in expression.split(" |\n")))
    sets = grammar.draw_sets(1, 500, 60)
    assert all(whole.fullmatch(sentence) for sentences in sets.values() for sentence in sentences)
    assert not whole.fullmatch("anna has two red")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("good morning anna how are you", "Good morning Anna how are you."),
        ("peter and i like the old dog", "Peter and I like the old dog."),
        ("we will meet on friday at two", "We will meet on Friday at two."),
    ],
)
def test_sentences_are_written_with_capitals_and_a_full_stop(words: str, text: str) -> None:
    assert grammar.written(words) == text
