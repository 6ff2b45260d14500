"""A model's own tokens: those that a fine-tune added to the tokenizer, such as `<|dur_3|>`, `[happy]` or `<silence>`.

A text may contain them anywhere, and each is one unit that is never cut, removed or weighed. While a text is cleaned,
measured and cut, one private-use character, a stand-in, takes the place of each (`shielded`); `restored` puts the
spelling back. A token that is a word, as fine-tunes for a new language add them, is spoken and needs no protection: it
is text in every respect, except that the prompt has it as one id. The tokens of the layout, and those that Qwen's
tokenizer has for chats and images, are not among them, so no text can produce one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..errors import CheckpointError
from .characters import FIRST_STAND_IN, STAND_INS
from .removed import Removed
from .vocabulary import named

LAYOUT_TOKENS = ("denoise", "lang_start", "lang_end", "instruct_start", "instruct_end", "text_start", "text_end")
# Qwen3's tokenizer.json, as published with OmniVoice
_QWEN_MARKS = (
    "endoftext im_start im_end object_ref_start object_ref_end box_start box_end quad_start quad_end vision_start "
    "vision_end vision_pad image_pad video_pad fim_prefix fim_middle fim_suffix fim_pad repo_name file_sep"
)
_QWEN_NAMES = ("tool_call", "tool_response", "think")
CONTROL_TOKENS = frozenset(
    [f"<|{name}|>" for name in (*LAYOUT_TOKENS, *_QWEN_MARKS.split())]
    + [f"<{slash}{name}>" for name in _QWEN_NAMES for slash in ("", "/")]
)
CONTROL = re.compile("|".join(map(re.escape, sorted(CONTROL_TOKENS))))
_AROUND_STAND_INS = re.compile(f"({STAND_INS.pattern})")
MAX_OWN_TOKENS = 0x10FFFD - FIRST_STAND_IN + 1


@dataclass(frozen=True)
class OwnToken:
    """One added token: its text, its id, and three switches of tokenizer.json.

    lstrip, rstrip: the white space before or after it belongs to it. single_word: it counts only as a whole word.
    """

    text: str
    id: int
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False

    @property
    def is_word(self) -> bool:
        """Whether it is made of letters, digits and marks, and so is spoken like any other text."""
        return all(unicodedata.category(char)[0] in "LMN" for char in self.text)


@dataclass(frozen=True)
class OwnTokens:
    """All own tokens of a model; none by default."""

    tokens: tuple[OwnToken, ...] = ()

    def __post_init__(self) -> None:
        if len(self.tokens) > MAX_OWN_TOKENS:
            raise CheckpointError(f"tokenizer.json adds {len(self.tokens)} tokens, allowed are {MAX_OWN_TOKENS}")

    @cached_property
    def _places(self) -> dict[str, int]:
        composed = {unicodedata.normalize("NFC", token.text): i for i, token in enumerate(self.tokens)}
        return composed | {token.text: i for i, token in enumerate(self.tokens)}

    @cached_property
    def _units(self) -> re.Pattern[str]:
        return _pattern([token for token in self.tokens if not token.is_word])

    @cached_property
    def _words(self) -> re.Pattern[str]:
        return _pattern([token for token in self.tokens if token.is_word])

    def shielded(self, text: str, removed: Removed | None = None) -> str:
        """Return `text` in NFC with a stand-in for each own token, the longest first; unchanged if there are none.

        Stand-ins that are in `text` already are private-use characters without a meaning; they are removed, and
        `removed` notes them.
        """
        if removed is not None:
            removed.add("symbols", *(f"U+{ord(char):X}" for char in STAND_INS.findall(text)))
        text = STAND_INS.sub("", text)
        if not self.tokens:
            return text
        once = self._units.sub(self._stand_in, text)  # before NFC, which joins a combining mark to a token's end
        return self._units.sub(self._stand_in, unicodedata.normalize("NFC", once))

    def with_words(self, shielded: str) -> str:
        """Return a shielded text with stand-ins for tokens that are words, too."""
        return self._words.sub(self._stand_in, unicodedata.normalize("NFC", shielded)) if self.tokens else shielded

    def _stand_in(self, match: re.Match[str]) -> str:
        place, text = self._places[match[0]], match.string
        if self.tokens[place].single_word:
            before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
            if any(map(_is_part_of_word, self.restored(before)[-1:] + self.restored(after)[:1])):
                return match[0]
        return chr(FIRST_STAND_IN + place)

    def token(self, stand_in: str) -> OwnToken:
        """Return the token that a character stands for."""
        return self.tokens[ord(stand_in) - FIRST_STAND_IN]

    def restored(self, text: str) -> str:
        """Return `text` with the spelling of each own token in place of its stand-in."""
        return STAND_INS.sub(lambda match: self.token(match[0]).text, text) if self.tokens else text


def _pattern(tokens: Sequence[OwnToken]) -> re.Pattern[str]:
    """Return a pattern that finds any of the tokens, as they are or in NFC; nothing if there are none.

    Grouped by their first character, thousands of tokens take little time.
    """
    texts = {text for token in tokens for text in (token.text, unicodedata.normalize("NFC", token.text))}
    groups: dict[str, list[str]] = {}
    for text in sorted(texts, key=len, reverse=True):
        groups.setdefault(text[0], []).append(re.escape(text[1:]))
    return re.compile("|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items()) or "(?!)")


def _is_part_of_word(char: str) -> bool:
    """Whether `char` matches the library's regular expression for a character of a word."""
    kind = unicodedata.category(char)
    return kind[0] in "LM" or kind in ("Nd", "Nl", "Pc") or char in "\u200c\u200d"


def split_stand_ins(text: str) -> list[str]:
    """Return `text` cut before and after each stand-in, without empty pieces."""
    return [piece for piece in _AROUND_STAND_INS.split(text) if piece]


def unlearnt_warnings(shielded: str, own: OwnTokens, zero_ids: Collection[int]) -> tuple[str, ...]:
    """Return one warning that names the tokens in a shielded text whose ids are in `zero_ids`: they were never trained
    and have no effect."""
    tokens = dict.fromkeys(own.token(char) for char in STAND_INS.findall(shielded)) if zero_ids else ()
    names = [token.text for token in tokens if token.id in zero_ids]
    if not names:
        return ()
    return (f"this model never learnt {named(names)}: the rows of its text embedding are zero, so they have no effect",)
