"""Non-verbal tags: each is one piece, other spellings are recognised, unknown ones are warned about."""

from __future__ import annotations

from omnivoice.text.tags import canonical_tags, nonverbal_tags, split_tags, tag_warnings


def test_there_are_thirteen() -> None:
    assert len(set(nonverbal_tags())) == len(nonverbal_tags()) == 13


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


def test_unknown_tags_are_named(samples: dict) -> None:
    for text, named in samples["warned_tags"]:
        (warning,) = tag_warnings(text)
        assert named in warning and "will be read aloud" in warning


def test_known_tags_phonemes_and_notes_are_not(samples: dict) -> None:
    assert [text for text in samples["quiet_tags"] if tag_warnings(text)] == []


def test_warnings_are_few() -> None:
    assert len(tag_warnings(" ".join(f"[tag {letter}]" for letter in "ABCDEFGHIJ") + "[tag A]" * 9)) == 5
