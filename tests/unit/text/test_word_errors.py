"""Word errors: what counts as a word, and which words are right, lost and added."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnivoice.text import word_errors
from omnivoice.text.word_errors import compare, share_right, spoken_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" ... ! ", []),
        ("Hello, World!", ["hello", "world"]),
        ("Don't stop", ["dont", "stop"]),
        ("Don’t stop", ["dont", "stop"]),
        ("A well-known fact—really", ["a", "well", "known", "fact", "really"]),
        ("[laughter] So [pause 2s] it <|pit_3|> goes", ["so", "it", "goes"]),
        ("1,000 and 3.5.", ["1000", "and", "35"]),
        ("你好，世界。", ["你", "好", "世", "界"]),
        ("我有3只cats吗", ["我", "有", "3", "只", "cats", "吗"]),
        ("ガッツ", ["ガ", "ッ", "ツ"]),
        ("안녕 하세요", ["안녕", "하세요"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("كِتَابٌ", ["كتاب"]),
        ("می‌روم", ["میروم"]),
        ("Straße", ["strasse"]),
        ("ＡＢＣ", ["abc"]),
    ],
)
def test_words_are_compared_without_case_and_punctuation(text: str, words: list[str]) -> None:
    assert spoken_words(text) == [unicodedata.normalize("NFC", word) for word in words]
    assert spoken_words(unicodedata.normalize("NFD", text)) == spoken_words(text)


@pytest.mark.parametrize(
    ("text", "heard", "right", "lost", "added", "errors"),
    [
        ("a b c", "A, b. C!", 3, (), (), 0),
        ("a b c", "a c", 2, (1,), (), 1),
        ("a b c", "a x c", 2, (1,), (1,), 1),
        ("a b c", "z a b c", 3, (), (0,), 1),
        ("a b c", "", 0, (0, 1, 2), (), 3),
        ("", "a b", 0, (), (0, 1), 2),
        ("", "", 0, (), (), 0),
        ("a b", "b a", 1, (1,), (0,), 2),
        ("the cat sat", "the cat sat the cat sat", 3, (), (3, 4, 5), 3),
        ("one two three four five", "one five", 2, (1, 2, 3), (), 3),
        ("你好世界", "你世界", 3, (1,), (), 1),
    ],
)
def test_right_lost_and_added(
    text: str, heard: str, right: int, lost: tuple[int, ...], added: tuple[int, ...], errors: int
) -> None:
    found = compare(text, heard)
    assert (found.right, found.lost, found.added, found.errors) == (right, lost, added, errors)


@pytest.mark.parametrize(
    ("pairs", "share"),
    [
        ([], 1.0),
        ([("", "")], 1.0),
        ([("a b c d", "a b c d")], 1.0),
        ([("a b c d", "a b x d")], 0.75),
        ([("a b c", "a b c"), ("d", "e")], 0.75),
        ([("a", "a b c d")], 0.0),
    ],
)
def test_the_share_counts_all_words_together(pairs: list[tuple[str, str]], share: float) -> None:
    assert share_right(compare(text, heard) for text, heard in pairs) == share


_WORDS = st.lists(st.sampled_from("abcd"), max_size=7).map(" ".join)


@given(_WORDS, _WORDS)
def test_alignment_holds_together(text: str, heard: str) -> None:
    found, back = compare(text, heard), compare(heard, text)
    assert all(found.said[i] == found.heard[j] for i, j in found.pairs)
    assert list(found.pairs) == sorted(found.pairs)
    assert len({i for i, _ in found.pairs}) == len({j for _, j in found.pairs}) == found.right
    assert max(len(found.lost), len(found.added)) <= found.errors <= len(found.lost) + len(found.added)
    assert (found.errors, found.right) == (back.errors, back.right)


@given(st.text(max_size=40))
def test_any_text_equals_itself(text: str) -> None:
    found = compare(text, text)
    assert found.errors == 0 and found.right == len(found.said)


@pytest.mark.parametrize(
    ("lost", "added", "errors"),
    [((0,), 0, 1), ((0, 9_999), 0, 2), ((), 5, 5), ((3, 4, 5, 6_000), 2, 6), ((7_000,), 1, 2)],
)
def test_long_texts_are_aligned_in_pieces(
    monkeypatch: pytest.MonkeyPatch, lost: tuple[int, ...], added: int, errors: int
) -> None:
    """10,000 words, of which some are lost and others added in the middle; no row of all with all others is made."""
    monkeypatch.setattr(word_errors, "cancellable", None)  # goes through those rows
    said = [f"word{i}" for i in range(10_000)]
    heard = [word for i, word in enumerate(said) if i not in lost]
    heard[5_000:5_000] = [f"other{i}" for i in range(added)]
    found = compare(" ".join(said), " ".join(heard))
    assert (found.errors, found.lost, len(found.added)) == (errors, lost, added)


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
def test_pieces_never_have_fewer_errors_and_every_pair_is_equal(said: list[str], heard: list[str]) -> None:
    exact = compare(" ".join(said), " ".join(heard))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_errors, "EXACT_CELLS", -1)
        pieces = compare(" ".join(said), " ".join(heard))
    assert exact.errors == pieces.errors  # so short that one piece is exact
    assert all(said[i] == heard[j] for i, j in pieces.pairs)
    assert [*pieces.pairs] == sorted(set(pieces.pairs))


def test_words_that_have_nothing_in_common_are_all_wrong() -> None:
    found = compare("a " * 3_000, "b " * 2_000)
    assert (found.errors, found.right) == (3_000, 0)
