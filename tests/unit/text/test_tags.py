"""Non-verbal tags: cut out whole, other spellings recognised, unknown ones told, phonemes left in peace."""

from __future__ import annotations

import pytest

from omnivoice.errors import InputError
from omnivoice.text.tags import NONVERBAL_TAGS, canonical_tags, split_tags, tag_warnings


def test_there_are_thirteen() -> None:
    assert len(set(NONVERBAL_TAGS)) == len(NONVERBAL_TAGS) == 13


def test_split_keeps_everything() -> None:
    text = "[sigh]x[laughter][sigh] y [other] [question-ei]"
    pieces = split_tags(text)
    assert pieces == ["[sigh]", "x", "[laughter]", "[sigh]", " y [other] ", "[question-ei]"]
    assert split_tags("") == []


def test_spellings() -> None:
    for written in ("[Laugh]", "[LAUGHTER]", "[ laughs ]", "[laughing]"):
        assert canonical_tags(written) == "[laughter]"
    assert canonical_tags("[sighs] [Question] [surprise_WA] [Surprise Yo]") == (
        "[sigh] [question-en] [surprise-wa] [surprise-yo]"
    )
    assert canonical_tags("[B EY1 S] [chuckle] [sigh") == "[B EY1 S] [chuckle] [sigh"


def test_own_tags_replace_the_known_ones() -> None:
    tags = ("laugh", "clears throat")
    assert canonical_tags("[Laugh] [Clears_Throat] [sighs]", tags) == "[laugh] [clears throat] [sighs]"
    assert split_tags("a[clears throat]b[sigh]", tags) == ["a", "[clears throat]", "b[sigh]"]
    assert split_tags("a[sigh]", ()) == ["a[sigh]"]


@pytest.mark.parametrize("tag", ["", "a]b", "x" * 41])
def test_bad_tag_names_are_refused(tag: str) -> None:
    with pytest.raises(InputError, match="a tag must be 1-40 characters without brackets"):
        split_tags("text", (tag,))


def test_unknown_tags_are_told(samples: dict) -> None:
    for text, named in samples["warned_tags"]:
        (warning,) = tag_warnings(text)
        assert named in warning and "will be read aloud" in warning


def test_known_tags_phonemes_and_notes_are_not(samples: dict) -> None:
    assert [text for text in samples["quiet_tags"] if tag_warnings(text)] == []


def test_warnings_are_few() -> None:
    assert len(tag_warnings(" ".join(f"[tag {letter}]" for letter in "ABCDEFGHIJ") + "[tag A]" * 9)) == 5
    assert tag_warnings("[chuckle]", (*NONVERBAL_TAGS, "chuckle")) == ()
