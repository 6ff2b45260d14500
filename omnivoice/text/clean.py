"""Cleaning: from what the user typed to what is planned with, and on to what the model reads.

Two steps, since upstream measures and cuts the text as typed, and tidies it only for the prompt. `speakable`
(ours) repairs what upstream lets through to noise, and gives well-formed text back unchanged, double spaces
included: estimate and chunk its result. `prompt_text` is upstream's tidying (models/omnivoice.py:1698), applied
by `build_prompt`. Neither normalises (NFC) nor touches combining marks; invisible characters are gone already,
by `intake.text_in`. Numbers and abbreviations stay as they are.
"""

from __future__ import annotations

import re
import unicodedata

from ..errors import TextError
from .characters import HAN, TATWEEL, is_spoken, is_unspaced, sentence_ends
from .tags import NONVERBAL_TAGS, canonical_tags

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_LINES = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# No voice says these, and the model makes noises of them: markup, box drawing, blocks, geometric shapes,
# replacement characters; \uff1c..\uff5d are the full-width forms.
_UNSPOKEN = re.compile(
    "[<>{}|`~^\\\\\u00a6\u00ac\uff1c\uff1e\uff3c\uff3e\uff40\uff5b-\uff5d\u2500-\u25ff\ufffc\ufffd]+"
)
_SPECIAL = re.compile(r"<\|\w{0,64}\|>")
_RULE = re.compile("([=*#+\\-\u2010-\u2015\u2212\u2022\u00b7])\\1{3,}")  # a line drawn with characters
_LOOSE_UNDERSCORES = re.compile(r"(?<![^\W_])_+|__+|_(?![^\W_])")
_WIDE_GAP = re.compile(r"[ \t]{9,}")  # layout, not pauses: upstream's estimate charges every blank
_TO_SPACE = str.maketrans(dict.fromkeys(_SPACES, " "))
_BRACKETS = str.maketrans({"\uff08": "(", "\uff09": ")"})
_BLANKS = re.compile(r"[ \t]+")
_AROUND_HAN = re.compile(rf"(?<=[{HAN}])\s+|\s+(?=[{HAN}])")

MAX_REPEATS = 3  # of one symbol, or of emoji, in a row
MAX_STOPS = 6  # of one full stop, ellipsis, question or exclamation mark: people do write "......" and "!!!!"
MAX_MARKS = 20  # on one letter
MAX_SYMBOLS = 12  # of any symbols, blanks aside


def speakable(text: str, *, tags: tuple[str, ...] = NONVERBAL_TAGS) -> str:
    """`text` on one line, without what cannot be spoken; raises TextError if nothing is left to speak."""
    return join_lines(speakable_lines(text, tags=tags))


def speakable_lines(text: str, *, tags: tuple[str, ...] = NONVERBAL_TAGS) -> str:
    """As `speakable`, but line breaks stay, as LF, for `chunk_sentences`; blank lines as one, at most.

    Markup symbols and spelled special tokens become spaces, symbol runs and rules are cut short, lines without a
    letter or number go, tags get their trained spelling. Raises TextError if nothing is left to speak.
    """
    plain = _LINES.sub("\n", text).translate(_TO_SPACE)
    plain = _UNSPOKEN.sub(" ", _SPECIAL.sub(" ", plain))
    plain = _LOOSE_UNDERSCORES.sub(" ", _RULE.sub(" ", plain))
    plain = _WIDE_GAP.sub(" ", _shorten_runs(canonical_tags(plain, tags)))
    lines = plain.split("\n")
    if len(lines) > 1:  # a single line keeps its outer spaces: they count in upstream's estimate
        lines = [line.strip(" \t") for line in lines]
    kept = [line for line in lines if not line or any(map(is_spoken, line))]
    result = re.sub(r"\n{3,}", "\n\n", "\n".join(kept))
    result = result.strip("\n")
    if not any(map(is_spoken, result)):
        raise TextError("nothing to speak: the text has no letter and no number in it; give it at least one word")
    return result


def join_lines(text: str) -> str:
    """`text` on one line: a line break becomes a space, or nothing between scripts written without spaces."""
    return joined_lines(text)[0]


def joined_lines(text: str) -> tuple[str, dict[int, bool]]:
    """As `join_lines`, and {index of a later line's first character: whether a blank line stands before it}."""
    parts: list[str] = []
    starts: dict[int, bool] = {}
    length, blank = 0, False
    for line in text.split("\n"):
        if not line:
            blank = True
            continue
        if parts and not _run_together(parts[-1][-1], line[0]):
            parts.append(" ")
            length += 1
        if parts:
            starts[length] = blank
        parts.append(line)
        length, blank = length + len(line), False
    return "".join(parts), starts


def prompt_text(text: str, reference_text: str | None = None) -> str:
    """The text the model reads: the reference's transcript, a space, the text, tidied as upstream does.

    Full-width round brackets become ASCII ones, blanks collapse, those beside Han go. Line breaks are joined as
    in `join_lines` (upstream drops them and glues the words).
    """
    joined = text.strip()
    if reference_text and reference_text.strip():
        joined = f"{reference_text.strip()} {joined}"
    lines = _LINES.sub("\n", joined).translate(_TO_SPACE).split("\n")
    joined = join_lines("\n".join(line.strip(" \t") for line in lines))
    return _AROUND_HAN.sub("", _BLANKS.sub(" ", joined.translate(_BRACKETS)))


def _run_together(before: str, after: str) -> bool:
    """Whether two lines that end and begin so are joined without a space: Chinese and Japanese, quotes included."""
    if _is_cjk(before):
        return _is_cjk(after) or "\u2010" <= after <= "\u205e"
    return _is_cjk(after) and "\u2010" <= before <= "\u205e"


def _is_cjk(char: str) -> bool:
    return is_unspaced(char) and ("\u2e80" <= char <= "\ua4cf" or char >= "\uf900")


def _shorten_runs(text: str) -> str:
    """`text` with at most 3 times the same symbol (6 a stop), 3 emoji and 12 symbols between two letters or numbers.

    Blanks between do not count; square brackets always stay, since tags are made of them. Marks on one letter are
    kept up to 20: no script has more, and they cost no time in the estimate but a token each in the prompt.
    """
    kept: list[str] = []
    stops = sentence_ends() | {"\u2026"}
    last, same, emoji, symbols, marks, dropping = "", 0, 0, 0, 0, False
    for char in text:
        kind = unicodedata.category(char)
        if kind[0] == "M" or char == TATWEEL:
            marks += 1
            if marks > MAX_MARKS or dropping:
                continue
        elif kind[0] in "LN":
            last, same, emoji, symbols, marks, dropping = "", 0, 0, 0, 0, False
        elif dropping and kind in ("Cf", "Sk"):
            continue  # what modified the dropped symbol
        elif kind[0] in "PS":
            same = same + 1 if char == last else 1
            emoji += kind == "So"
            symbols += 1
            last = char
            repeats = MAX_STOPS if char in stops else MAX_REPEATS
            dropping = same > repeats or (kind == "So" and emoji > MAX_REPEATS) or symbols > MAX_SYMBOLS
            dropping = dropping and char not in "[]"
            if dropping:
                continue
        kept.append(char)
    return "".join(kept)
