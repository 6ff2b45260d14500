"""The text of a cue without formatting: HTML and WebVTT tags, the braces of ASS and MicroDVD, entities.

WebVTT's `<v Alice>` says who speaks. What is read aloud from here on is `cue_turns`' work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..text.markup import decoded_entities

_DRAWING = re.compile(r"\{[^{}]{0,200}\\p[1-9][^{}]{0,200}\}(?P<strokes>[^{}]*)(?:\{[^{}]{0,200}\\p0[^{}]{0,200}\})?")
_BRACES = re.compile(r"\{[ \t]*\\[^{}]*\}|\{[a-z]:[^{}]*\}", re.IGNORECASE)
_ESCAPES = {"\\N": "\n", "\\n": "\n", "\\h": " "}
_ESCAPE = re.compile(r"\\[Nnh](?![a-z])")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?(?:\s+(?P<name>[^<>]*))?>|</v>", re.IGNORECASE)
_READING = re.compile(r"<(rt|rp)>[^<]*(?:</\1>)?", re.IGNORECASE)
_BREAK = re.compile(r"<br\s*/?>|</?p(?:\s[^<>]*)?>", re.IGNORECASE)
_TAG = re.compile(
    r"</?(?:i|b|u|s|c|em|strong|strike|font|span|lang|ruby|rb)(?:[.\s][^<>]*)?/?>|<-?[\d:]+[.,]\d+>", re.IGNORECASE
)


@dataclass(frozen=True)
class Passage:
    """Plain text, with line breaks, and who speaks it according to a `<v>` tag."""

    text: str
    voice: str | None = None


@dataclass(frozen=True)
class CueText:
    """The passages of one cue, and the strokes of drawings, which nobody speaks."""

    passages: tuple[Passage, ...]
    drawings: tuple[str, ...]

    @property
    def text(self) -> str:
        """All passages together, as they are shown."""
        return "\n".join(passage.text for passage in self.passages)


def plain_cue(rows: Sequence[str], formatting: Counter[str]) -> CueText:
    """Return the text of a cue without its formatting, of which `formatting` counts each kind."""
    text = "\n".join(rows)
    drawings = tuple(match["strokes"].strip() for match in _DRAWING.finditer(text))
    text = _DRAWING.sub(" ", text)
    text = _BREAK.sub("\n", _READING.sub("", text))
    for pattern in (_BRACES, _TAG):
        formatting.update(_kind(match[0]) for match in pattern.finditer(text))
        text = pattern.sub("", text)
    text = _ESCAPE.sub(lambda match: _ESCAPES[match[0]], text)
    passages: list[Passage] = []
    end, voice = 0, None
    for tag in _VOICE.finditer(text):
        passages.append(Passage(text[end : tag.start()], voice))
        end, voice = tag.end(), " ".join(decoded_entities(tag["name"] or "").split()) or None
    passages.append(Passage(text[end:], voice))
    tidy = (Passage(_tidy(passage.text), passage.voice) for passage in passages)
    return CueText(tuple(passage for passage in tidy if passage.text), drawings)


def _kind(markup: str) -> str:
    """Return how a note calls a piece of formatting: `<i>`, `{\\an8}`; time tags are all one kind."""
    if markup.startswith("<"):
        name = re.match(r"</?([a-z]+)", markup, re.IGNORECASE)
        return f"<{name[1].lower()}>" if name else "<time>"
    return markup if len(markup) <= 8 else "{…}"


def _tidy(text: str) -> str:
    rows = (" ".join(row.split()) for row in decoded_entities(text).replace("\r", "\n").split("\n"))
    return "\n".join(row for row in rows if row)
