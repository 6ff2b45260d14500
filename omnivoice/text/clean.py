"""Cleans text: first for the plan (`speakable`), then for the prompt that the model reads (`prompt_text`).

There are two steps because upstream measures and cuts the text as typed, and tidies it only for the prompt.
`speakable` is not in upstream: it removes what the model would turn into noise, and leaves well-formed text unchanged,
double spaces included. Its result is estimated and chunked. `prompt_text` is upstream's tidying
(models/omnivoice.py:1698) and is applied by `build_prompt`. Neither normalises to NFC or changes combining marks:
`plain_text` comes first, for whatever people type or paste; `intake.text_in` has already removed invisible characters.
Numbers and abbreviations stay as they are here; `normalise` spells them before, on request.
"""

from __future__ import annotations

import re
import unicodedata

from ..errors import TextError
from ..intake.cancel import hear_cancel
from .characters import HAN, TATWEEL, is_content, is_stand_in, is_unspaced, marks
from .line_ends import join_cut_words
from .markup import without_markup
from .own_tokens import CONTROL
from .removed import Removed
from .rules import PUBLISHED, TextRules
from .tags import canonical_tags

_SPACES = re.compile(
    r"[\N{NO-BREAK SPACE}\N{OGHAM SPACE MARK}\N{EN QUAD}-\N{HAIR SPACE}\N{NARROW NO-BREAK SPACE}"
    r"\N{MEDIUM MATHEMATICAL SPACE}\N{IDEOGRAPHIC SPACE}]"
)
_LINES = re.compile("\r\n|[\r\v\f\N{NEXT LINE}\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}]")
# The model makes noise of these: markup and its full-width forms, box drawing, blocks, geometric shapes (U+2500-25FF)
# and replacement characters.
_UNSPOKEN = re.compile(
    r"[<>{}|`~^\\¦¬＜＞＼＾｀｛-｝\u2500-\u25ff\N{OBJECT REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}]+"
)
_SPECIAL = re.compile(r"<\|\w{0,64}\|>")
_RULE = re.compile(r"([=*#+\-‐-―−•·])\1{3,}")  # a line drawn with characters
_LOOSE_UNDERSCORES = re.compile(r"(?<![^\W_])_+|__+|_(?![^\W_])")
_WIDE_GAP = re.compile(r"[ \t]{9,}")  # layout, not a pause: upstream's estimate counts every space
_BRACKETS = str.maketrans({"（": "(", "）": ")"})
_BLANKS = re.compile(r"[ \t]+")
_AROUND_HAN = re.compile(rf"(?<=[{HAN}])\s+|\s+(?=[{HAN}])")

MAX_REPEATS = 3  # of one symbol, or of emoji, in a row
MAX_STOPS = 6  # of one full stop, ellipsis, question or exclamation mark, because people write "......" and "!!!!"
MAX_MARKS = 20  # combining marks on one letter
MAX_SYMBOLS = 12  # symbols of any kind in a row, not counting spaces
# Where a run may be too long. A tatweel counts as a mark.
_NO_LETTERS = re.compile(rf"[\W_{TATWEEL}]{{{MAX_REPEATS + 1},}}")


def plain_text(text: str, removed: Removed | None = None, rules: TextRules = PUBLISHED) -> str:
    """Return `text` in NFC, without markup, with one kind of space and line break, and with words at line ends whole.
    A text that stays as written is only put into NFC.

    The tokenizer normalises to NFC, as upstream's does; done first, it makes a decomposed text as long, and cut in the
    same places, as the composed one.
    """
    if rules.as_written:
        return unicodedata.normalize("NFC", text)
    plain = unicodedata.normalize("NFC", without_markup(unicodedata.normalize("NFC", text), removed or Removed()))
    hear_cancel()
    return join_cut_words(_SPACES.sub(" ", _LINES.sub("\n", plain)))


def speakable(text: str, removed: Removed | None = None, rules: TextRules = PUBLISHED) -> str:
    """Return `text` on one line, without what cannot be spoken; raises TextError if nothing is left."""
    return join_lines(speakable_lines(text, removed, rules))


def speakable_lines(text: str, removed: Removed | None = None, rules: TextRules = PUBLISHED) -> str:
    """Return the result of `speakable` with its line breaks, as LF, for `chunk_sentences`.

    There is at most one blank line in a row. Markup symbols and special tokens become spaces, runs of symbols are
    shortened, lines without a letter or number are removed, and tags get the spelling that the model was trained on.
    `removed` notes all this. A text that stays as written loses only what controls the prompt, and blank lines.
    text: shielded by the same `rules`. Raises TextError if nothing is left to speak.
    """
    removed = removed or Removed()
    plain = _LINES.sub("\n", text)
    if rules.as_written:
        plain = removed.blank("tokens", CONTROL, plain)
    else:
        plain = _without_symbols(_SPACES.sub(" ", plain), removed, rules)
    hear_cancel()
    lines = plain.split("\n")
    if len(lines) > 1:  # a single line keeps its outer spaces, because they count in upstream's estimate
        lines = [line.strip(" \t") for line in lines]
    kept = [line for line in lines if not line or rules.as_written or any(map(is_content, line))]
    if not rules.as_written:
        removed.add("symbols", *(char for line in lines if not any(map(is_content, line)) for char in line))
    result = re.sub(r"\n{3,}", "\n\n", "\n".join(kept))
    result = result.strip("\n")
    if not any(map(is_content, result)):
        raise TextError("nothing to speak: the text has no letter and no number in it; give it at least one word")
    return result


def _without_symbols(text: str, removed: Removed, rules: TextRules) -> str:
    """Return `text` with spaces for special tokens and symbols, shorter runs, and tags in their trained spelling."""
    plain = removed.blank("tokens", _SPECIAL, text)
    for pattern in (_UNSPOKEN, _RULE, _LOOSE_UNDERSCORES):
        plain = removed.blank("symbols", pattern, plain)
    hear_cancel()
    return _WIDE_GAP.sub(" ", _shorten_runs(canonical_tags(plain, rules.tags), removed))


def join_lines(text: str) -> str:
    """Return `text` on one line: a line break becomes a space, or nothing between scripts without spaces."""
    return joined_lines(text)[0]


def joined_lines(text: str) -> tuple[str, dict[int, bool]]:
    """Return the result of `join_lines`, and {start of a later line: whether a blank line comes before it}."""
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
    """Return the text that the model reads: the reference's transcript, a space and the text, tidied as in upstream.

    Full-width round brackets become ASCII ones, runs of spaces become one, and spaces next to Han are removed. Line
    breaks are joined as in `join_lines` (upstream removes them and runs the words together).
    """
    joined = text.strip()
    if reference_text and reference_text.strip():
        joined = f"{reference_text.strip()} {joined}"
    lines = _SPACES.sub(" ", _LINES.sub("\n", joined)).split("\n")
    joined = join_lines("\n".join(line.strip(" \t") for line in lines))
    return _AROUND_HAN.sub("", _BLANKS.sub(" ", joined.translate(_BRACKETS)))


def _run_together(before: str, after: str) -> bool:
    """Whether lines that end and start with these characters join without a space: Chinese, Japanese, their quotes."""
    if _is_cjk(before):
        return _is_cjk(after) or "\u2010" <= after <= "\u205e"
    return _is_cjk(after) and "\u2010" <= before <= "\u205e"


def _is_cjk(char: str) -> bool:
    return is_unspaced(char) and ("\u2e80" <= char <= "\ua4cf" or char >= "\uf900")


def _shorten_runs(text: str, removed: Removed) -> str:
    """Return `text` with shorter runs of symbols: at most 3 of the same (6 of a stop), 3 emoji, and 12 in all.

    Spaces in between do not count. Square brackets always stay, because tags consist of them. A letter keeps up to 20
    combining marks: no script has more, and each costs a token in the prompt but no time in the estimate.
    """
    return _NO_LETTERS.sub(lambda found: _shortened(found[0], removed), text)


def _shortened(text: str, removed: Removed) -> str:
    """Return `text`, which follows a letter or number or begins a text, with shorter runs of symbols."""
    kept: list[str] = []
    stops = marks("sentence_ends") | {"…"}
    last, same, emoji, symbols, combining, dropping = "", 0, 0, 0, 0, False
    for char in text:
        kind = unicodedata.category(char)
        if kind[0] == "M" or char == TATWEEL:
            combining += 1
            if combining > MAX_MARKS or dropping:
                removed.add("runs", f"◌{char}")
                continue
        elif kind[0] in "LN" or is_stand_in(char):
            last, same, emoji, symbols, combining, dropping = "", 0, 0, 0, 0, False
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
                removed.add("runs", char)
                continue
        kept.append(char)
    return "".join(kept)
