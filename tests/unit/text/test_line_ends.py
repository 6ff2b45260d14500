"""Words cut by a hyphen at a line end are whole again; hyphens that belong to a word stay."""

from __future__ import annotations

import pytest

from omnivoice.intake.text_in import clean_text
from omnivoice.text.clean import plain_text, speakable


def heard(text: str) -> str:
    return speakable(plain_text(clean_text(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("This infor-\nmation is new.", "This information is new."),
        ("Infor-\r\nmation", "Information"),
        ("com- \n  puter", "computer"),
        ("INFOR-\nMATION", "INFORMATION"),
        ("Donaudampf-\nschiff", "Donaudampfschiff"),
        ("l'infor‐\nmation", "l'information"),
        ("in-\nfor-\nmation", "information"),
        ("инфор-\nмация", "информация"),
        ("infor\u00ad\nmation and com\u00adputer", "information and computer"),
        ("infor¬\nmation", "information"),
        ("hard-\nly, dark-\nness, long-\ner, great-\nest", "hardly, darkness, longer, greatest"),
        ("a re-\nsent here, resent there", "a resent here, resent there"),
    ],
)
def test_a_cut_word_is_one_word(text: str, expected: str) -> None:
    assert heard(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a well-\nknown man", "a well-known man"),
        ("self-\nesteem", "self-esteem"),
        ("twenty-\none", "twenty-one"),
        ("sugar-\nfree", "sugar-free"),
        ("state-of-\nthe-art", "state-of-the-art"),
        ("mother-\nin-law", "mother-in-law"),
        ("e-\nmail", "e-mail"),
        ("1990-\n1995", "1990-1995"),
        ("Jean-\nPaul", "Jean-Paul"),
        ("celle-\nci, quatre-\nvingts", "celle-ci, quatre-vingts"),
        ("re-\nsent it; he re-sent that", "re-sent it; he re-sent that"),
    ],
)
def test_a_hyphen_that_belongs_stays(text: str, expected: str) -> None:
    assert heard(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pre-\nand post-war", "pre- and post-war"),
        ("Ein-\nund Ausgang", "Ein- und Ausgang"),
        ("I was going to-\nWhat?", "I was going to- What?"),
        ("He left -\nand came", "He left - and came"),
        ("He left--\nand came", "He left-- and came"),
        ("end-\n\nof it", "end- of it"),
        ("Buy:\n- milk\n- tea", "Buy: - milk - tea"),
    ],
)
def test_other_hyphens_join_nothing(text: str, expected: str) -> None:
    assert heard(text) == expected
