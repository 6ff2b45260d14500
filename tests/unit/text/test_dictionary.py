"""Pronunciation dictionaries: what is read from lists, what is an error, and which words of a text are replaced."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnivoice.errors import InputError, TextError
from omnivoice.intake.limits import MAX_DICTIONARY_ENTRIES
from omnivoice.text import dictionary_reader
from omnivoice.text.dictionary import merged, respelled
from omnivoice.text.dictionary_reader import parse_dictionary, read_dictionary
from omnivoice.text.normalise import protected_spans
from omnivoice.types import Dictionary, DictionaryEntry


def spoken(entries: str, text: str, language: str | None = None) -> str:
    return respelled(text, parse_dictionary(entries), language).result.text


@pytest.mark.parametrize(
    ("entries", "text", "expected"),
    [
        ("nginx = engine x", "nginx, Nginx-NGINX", "engine x, engine x-engine x"),
        ("nginx = engine x", "nginxes unnginx nginx2 2nginx nginx\u0301", "nginxes unnginx nginx2 2nginx nginx\u0301"),
        ("cat = kat", "cat's cat’s 'cat'", "kat's kat’s 'kat'"),
        ("don't = dont", "Don’t, don't", "dont, dont"),
        ("NASA = nasser", "NASA nasa Nasa", "nasser nasa Nasa"),
        ("any: NASA = nasser", "NASA nasa", "nasser nasser"),
        ("exact: us = U S", "us US Us", "U S US Us"),
        ("us = them\nexact: US = U S", "us US Us", "them U S them"),
        ("new york = NY\nyork = Y\nnew = N", "New  York, new\nyork, new yorks, york", "NY, NY, N yorks, Y"),
        ("new york = NY", "new\n\nyork", "new\n\nyork"),
        ("a = b\nb = c", "a b", "b c"),
        ("c++ = C plus plus", "C++ c++11 (c++)", "C plus plus c++11 (C plus plus)"),
        ("bass = [B EY1 S]", "bass [bass] [laughter]", "[B EY1 S] [bass] [laughter]"),
        ("laughter = laffter", "laughter [laughter]", "laffter [laughter]"),
        ("pause = paws", "pause [pause 1s] <break time='1s'/>", "paws [pause 1s] <break time='1s'/>"),
        ("alice = Alys", "[Alice]: hello, Alice", "[Alice]: hello, Alys"),
        ("voice = choice", "{voice speed=1.1} voice", "{voice speed=1.1} choice"),
        ("ey1 = x", "[B EY1 S] ey1", "[B EY1 S] x"),
        ("重 = CHONG2", "他重复", "他CHONG2复"),
        ("gpt = G P T", "用GPT写gpt4", "用G P T写gpt4"),
        ("東京 = とうきょう\n京 = きょう", "東京と京", "とうきょうときょう"),
        ("กา = crow", "นกกา", "นกcrow"),
        ("straße = strasse", "STRASSE Straße", "STRASSE strasse"),
        ("οδός = road", "ΟΔΌΣ οδός", "road road"),
        ("café = kaffay", "CAFÉ cafe\u0301 cafe", "kaffay kaffay cafe"),
    ],
)
def test_words(entries: str, text: str, expected: str) -> None:
    assert spoken(entries, text) == expected


def test_decomposed_korean_counts_as_composed() -> None:
    assert spoken("한글 = hangul", unicodedata.normalize("NFD", "한글")) == "hangul"


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("die Region", "de", "die Regiohn"),
        ("die Region", "en", "die reejun"),
        ("die Region", "fr", "die region"),
        ("the region", None, "the reejun"),
        ("他说 region", "zh", "他说 region"),
    ],
)
def test_an_entry_of_a_language_is_for_its_texts(text: str, language: str | None, expected: str) -> None:
    entries = "de: Region = Regiohn\nEnglish any: Region = reejun\nregion = region"
    assert spoken(entries, text, language) == expected


def test_a_language_wins_over_none_and_capitals_over_a_language() -> None:
    assert spoken("a = 1\nde: a = 2", "a A", "de") == "2 2"
    assert spoken("exact: A = 3\nde: a = 2", "a A", "de") == "2 3"


def test_changes_have_their_places_and_unused_entries_are_known() -> None:
    dictionary = parse_dictionary("nginx = engine x\nyork = Y\nsame = same")
    made = respelled("Ask nginx, same.", dictionary, None)
    (change,) = made.result.changes
    assert (change.start, change.end, change.original, change.spoken) == (4, 9, "nginx", "engine x")
    assert {entry.word for entry in made.used} == {"nginx", "same"}


def test_own_tokens_of_a_model_stay() -> None:
    dictionary = parse_dictionary("happy = glad")
    assert respelled("happy <happy>", dictionary, "en", tokens=["<happy>"]).result.text == "glad <happy>"


CSV = '# list\nword,replacement,language,case\nBass,[B EY1 S],en,any\n\n#x,y\n"a, b",A and B,,\n'


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_csv(separator: str, mark: str) -> None:
    text = CSV if separator == "," else CSV.replace(",", separator).replace(f"a{separator} b", "a, b")
    assert parse_dictionary(mark + text).entries == (
        DictionaryEntry("Bass", "[B EY1 S]", "en", False, 3),
        DictionaryEntry("a, b", "A and B", None, False, 6),
    )


@pytest.mark.parametrize("columns", ["replacement,word", "word,replacement,case", "Word,Replacement"])
def test_columns_in_any_order(columns: str) -> None:
    cells = {"word": "Ab", "replacement": "xy", "case": "any"}
    row = ",".join(cells[column.lower()] for column in columns.split(","))
    assert parse_dictionary(f"{columns}\n{row}").entries == (
        DictionaryEntry("Ab", "xy", None, "case" not in columns, 2),
    )


@pytest.mark.parametrize(
    ("line", "word", "replacement"),
    [
        ("a=b", "a", "b"),
        ("  a   b =  c = d ", "a b", "c = d"),
        ('"a = b" = c', "a = b", "c"),
        ('"de: x" = y', "de: x", "y"),
        ('"say ""hi""" = y', 'say "hi"', "y"),
        ("10:30 = half past ten", "10:30", "half past ten"),
        ("C# = C sharp", "C#", "C sharp"),
    ],
)
def test_lines(line: str, word: str, replacement: str) -> None:
    (entry,) = parse_dictionary(line).entries
    assert (entry.word, entry.replacement) == (word, replacement)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = b\nnonsense", r"dictionary, line 2: 'nonsense' is no entry: write word = replacement"),
        ("# c\n\na =", r"line 3: the replacement is empty"),
        ("a = ...", r"line 1: the replacement '...' has no letter and no number in it"),
        (f"a = {'b' * 201}", r"line 1: a replacement must be at most 200 characters, got 201"),
        (f"{'a' * 201} = b", r"line 1: a word must be at most 200 characters, got 201"),
        ("[laughter] = ha", r"line 1: '\[laughter\]' is or has a tag"),
        ("x = [B EY9 S]", r"line 1: \[B EY9 S\] is not a pronunciation in CMU notation, because of EY9"),
        ("Note: x = y", r"line 1: language 'Note' is not known.*put the word between double quotes"),
        ("a = b\nA2 = c\n A = b\na = c", r"line 4: 'a' has another replacement in line 1: leave out one of the two"),
        ("word,replacement,case\na,b,some", r"line 2: the case must be one of any, exact or empty, got 'some'"),
        ("word,replacement,colour\na,b,c", r"line 1: the columns can be word, replacement, language, case, got word,"),
        ("word,replacement\na,b,c", r"line 2: 3 cells, but 2 columns"),
        ('word,replacement\na,"b', r"line 2: this is not CSV"),
        (5, "dictionary must be a string, got 5"),
        ("a = b\n" * 700_000, "dictionary must be at most 4000000 characters"),
    ],
)
def test_errors_name_the_line(text: object, message: str) -> None:
    with pytest.raises(TextError, match=message):
        parse_dictionary(text)


def test_too_many_entries() -> None:
    lines = [f"word{number} = x" for number in range(MAX_DICTIONARY_ENTRIES + 1)]
    with pytest.raises(TextError, match="line 20001: a dictionary can have at most 20000 entries"):
        parse_dictionary("\n".join(lines))
    assert len(parse_dictionary("\n".join(lines[1:])).entries) == MAX_DICTIONARY_ENTRIES


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file(tmp_path, encoding: str) -> None:
    path = tmp_path / "words.txt"
    path.write_text("é = e\nnonsense", encoding=encoding)
    with pytest.raises(TextError, match=r"words\.txt, line 2: 'nonsense' is no entry"):
        read_dictionary(path)
    path.write_text("é = e", encoding=encoding)
    assert read_dictionary(path).entries == (DictionaryEntry("é", "e", None, False, 1),)


def test_later_entries_win_and_are_named() -> None:
    first = parse_dictionary("a = 1\nb = 2\nC = 3")
    both, changed = merged(first, parse_dictionary("A = 4\nb = 5\nany: c = 6\nd = 7"))
    assert changed == ("b",)
    assert respelled("a A b c C d", both, None).result.text == "1 4 5 6 3 7"


def test_equal_lists_look_alike_so_that_a_batch_resumes() -> None:
    one, same, other = (repr(parse_dictionary(text)) for text in ("a = b", "# comment\na=b", "a = c"))
    assert one == same != other and "1 entries" in one


@given(st.text(max_size=200), st.sampled_from([None, "en", "zh"]))
def test_any_text(text: str, language: str | None) -> None:
    """Changes rebuild the text, and control spans stay."""
    made = respelled(text, Dictionary((DictionaryEntry("a", "bb"), DictionaryEntry("重", "CHONG2"))), language).result
    rebuilt, end = "", 0
    for change in made.changes:
        assert text[change.start : change.end] == change.original
        rebuilt += text[end : change.start] + change.spoken
        end = change.end
    assert rebuilt + text[end:] == made.text
    for start, stop in protected_spans(text):
        assert all(change.end <= start or change.start >= stop for change in made.changes)


@given(st.text(max_size=300))
def test_any_list_is_read_or_refused(text: str) -> None:
    try:
        parse_dictionary(text)
    except InputError as error:
        assert str(error).startswith("dictionary, line ")


def test_rows_are_counted_even_if_they_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary_reader, "MAX_DICTIONARY_ENTRIES", 3)
    assert len(parse_dictionary("a = b\n" * 6).entries) == 1
    read, entry = list[int](), dictionary_reader._entry
    monkeypatch.setattr(
        dictionary_reader, "_entry", lambda values, number: read.append(number) or entry(values, number)
    )
    with pytest.raises(TextError, match="dictionary, line 7: a dictionary can have at most 3 entries"):
        parse_dictionary("a = b\n" * 100)
    assert read == [1, 2, 3, 4, 5, 6]
