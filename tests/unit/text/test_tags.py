"""Non-verbal tags: each is one piece, other spellings are recognised, unknown ones are warned about."""

from __future__ import annotations

import pytest

from omnivoice.text.pronunciation import pinyin_syllables
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


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("B EY1 Z9", "Z9"),
        ("B EY9 S", "EY9"),
        ("B EY12 S", "EY12"),
        ("B1 EY1 S", "B1"),
        ("B QX1 S", "QX1"),
        ("EY5", "EY5"),
        ("K AE1 TT", "TT"),
        ("K  AE1 Q7", "Q7"),
    ],
)
def test_cmu_with_an_unknown_phoneme_is_named_as_that(name: str, wrong: str) -> None:
    (told,) = tag_warnings(f"He plays the [{name}] guitar.")
    assert f"[{name}] is not a pronunciation in CMU notation, because of {wrong}: vowels" in told
    assert "read aloud" not in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("批货物打ZHE9出售", "ZHE9 has no tone"),
        ("批货物打ZHE0出售", "ZHE0 has no tone"),
        ("批货物打ZHEE2出售", "ZHEE2 has no syllable"),
        ("批货物打ZHX2出售", "ZHX2 has no syllable"),
        ("他BEO3了", "BEO3 has no syllable"),
        ("NÜN3人", "NÜN3 has no syllable"),
        ("打[ZHE9]出", "[ZHE9] is not pinyin: ZHE9 has no tone"),
        ("打[zhe7]出", "[zhe7] is not pinyin: zhe7 has no tone"),
        ("[NI3 HXO3]", "[NI3 HXO3] is not pinyin: HXO3 has no syllable"),
        ("[zhx2]", "[zhx2] is not pinyin: zhx2 has no syllable"),
        ("[ni3 hao3]", "[ni3 hao3] is pinyin, which is written in capitals and without brackets: NI3 HAO3"),
        ("打[ZHE2]出", "[ZHE2] is pinyin"),
    ],
)
def test_wrong_pinyin_is_named_as_that(text: str, told: str) -> None:
    (warning,) = tag_warnings(text)
    assert warning.startswith(told) and "read aloud" not in warning


@pytest.mark.parametrize(
    "text",
    [
        "这批货物打ZHE2出售后他严重SHE2本了，再也经不起ZHE1腾了。",
        "女LV3人，NÜ3人，YUAN2，ER2，R5",
        "我买了RTX4显卡和USB3线，开A6去看MP4，GPU2个",
        "The ZHE9 code and BEO3, with A1 and RTX4.",
    ],
)
def test_right_pinyin_and_codes_are_not_warned_about(text: str) -> None:
    assert tag_warnings(text) == ()


def test_spaces_and_small_letters_in_cmu() -> None:
    assert tag_warnings("[B  EY1 S] [ B EY1 S ]") == ()
    (told,) = tag_warnings("the [b ey1 s] guitar")
    assert told == "[b ey1 s] is in CMU notation, which is written in capitals: [B EY1 S]"


@pytest.mark.parametrize("name", ["take2", "Scene 3", "I AM", "TV ON", "x2", "chuckle", "v1.2"])
def test_other_brackets_are_unknown_tags(name: str) -> None:
    (told,) = tag_warnings(f"[{name}] hi")
    assert "is not a tag that this model knows and will be read aloud" in told


def test_there_are_as_many_syllables_as_in_mandarin() -> None:
    assert 400 <= len(pinyin_syllables()) <= 420
    assert {"ZHUANG", "NV", "LVE", "ER", "XIONG", "YUAN"} <= pinyin_syllables()
    assert not {"FI", "GI", "JA", "BENK", "ZHX", "QA"} & pinyin_syllables()


def test_warnings_are_few() -> None:
    assert len(tag_warnings(" ".join(f"[tag {letter}]" for letter in "ABCDEFGHIJ") + "[tag A]" * 9)) == 5
