"""Who says what in a cue, and what nobody says.

A turn starts at a `Name:` or `[Name]:`, at a dash where each of two people has a line, and at `>>`. A name counts if
the cast has it, if it is in brackets or in capitals, or if two cues start with it; other words before a colon are text.
Descriptions of sounds in brackets, lyrics between notes (♪), and lines in round brackets that are no sentence are not
spoken. The tags that the model knows, pauses and phonemes stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from ..text.characters import is_spoken, is_unspaced
from ..text.pronunciation import is_phonemes
from ..text.script import folded
from ..text.tags import canonical_tags, is_tag
from .cues import DESCRIPTION, LYRICS

_DASH = re.compile(r"[-\u2010-\u2015\u2212](?![-\u2010-\u2015\u2212\d])[ \t]*(?=\S)|[-\u2010-\u2015\u2212][ \t]+(?=\d)")
_CHANGE = re.compile(r">{2,3}[ \t]*")
_NAME = r"[^\W\d_][^:\uff1a\[\](){}\uff08\uff09\u3010\u3011<>\n\"!?,;\u3002\uff0c\uff01\uff1f\u266a]{0,39}?"
_ASIDE = r"(?:[ \t]*[\[(][^\[\]()\n]{1,40}[\])])?"
_LABEL = re.compile(
    rf"(?:\[[ \t]*(?P<bracket>{_NAME})[ \t]*\]|\([ \t]*(?P<round>{_NAME})[ \t]*\)|(?P<plain>{_NAME}))"
    rf"(?P<aside>{_ASIDE})[ \t]*(?::(?=\s|$)|\uff1a)[ \t]*"
)
_BARE = re.compile(rf"[\[(\uff08\u3010][ \t]*(?P<name>{_NAME})[ \t]*[\])\uff09\u3011][ \t]*")
_SMALL_WORD = re.compile(r"(?<=\s)[a-z]{4,}(?!\w)")
_MOST_WORDS, _MOST_UNSPACED = 4, 8  # in a name
_SIGN = "\u2669-\u266c\U0001f3b5\U0001f3b6"
_MUSIC_SIGN = re.compile(f"[{_SIGN}]")
_MUSIC = re.compile(f"[{_SIGN}][^{_SIGN}]*[{_SIGN}]*")
_HASHES = re.compile(r"^#[ \t][^#\n]*(?:#[ \t]*$|$)", re.MULTILINE)
_SQUARE = re.compile(r"\[[^\[\]]*\]|\u3010[^\u3010\u3011]*\u3011|\uff3b[^\uff3b\uff3d]*\uff3d")
_STARS = re.compile(r"^\*[^*\n]+\*$", re.MULTILINE)
_ROUND = re.compile(r"[(\uff08]([^()\uff08\uff09\n]*)[)\uff09]")
_PAUSE = re.compile(r"\[[ \t]*pause\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?\u2026\u3002\uff01\uff1f]$")
_MOST_ASIDE_WORDS = 5


@dataclass(frozen=True)
class Turn:
    """What one person says in a cue, perhaps nothing, and the pieces of it that nobody says, as (text, reason)."""

    speaker: str | None
    text: str
    unspoken: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Label:
    """A name at the start of a row. certain: it can be nothing else. aside: in brackets behind it, not spoken."""

    name: str
    certain: bool
    aside: str
    rest: str


def labels_in(text: str) -> set[str]:
    """Return every name, folded, that may be a speaker's label in the text of a cue. Its words start with capitals,
    except short ones, as in "Voice of God"; so neither "He said:" nor words of a script without capitals count."""
    rows = (_without_dash(row)[0] for row in text.split("\n"))
    names = [label.name for row in rows for label in _labels(row)]
    return {folded(name) for name in names if name[0].isupper() and not _SMALL_WORD.search(name)}


def split_turns(text: str, names: Collection[str], cast: Collection[str], tags: Collection[str] = ()) -> list[Turn]:
    """Return who says what in the text of a cue; a turn may be empty.

    names: the folded names that count before a colon; cast: those that also count in brackets alone.
    tags: those that the model knows in addition to OmniVoice's.
    """
    turns: list[tuple[str | None, list[str], list[tuple[str, str]]]] = [(None, [], [])]
    for row in text.split("\n"):
        row, starts = _without_dash(row)
        lead = _SQUARE.match(row) or _ROUND.match(row)
        label = _accepted(row, names, cast)
        behind = lead and _accepted(row[lead.end() :].strip(), names, cast)
        if label is not None:
            turns.append((label.name, [label.rest], [(label.aside, DESCRIPTION)] if label.aside else []))
        elif lead and behind:
            asides = [(lead[0], DESCRIPTION), (behind.aside, DESCRIPTION)]
            turns.append((behind.name, [behind.rest], [aside for aside in asides if aside[0]]))
        elif starts:
            turns.append((None, [row], []))
        else:
            turns[-1][1].append(row)
    return [_turn(speaker, "\n".join(rows), asides, tags) for speaker, rows, asides in turns if rows]


def _without_dash(row: str) -> tuple[str, bool]:
    """Return a row without the mark that starts a turn, and whether it had one."""
    change = _CHANGE.match(row)
    row = row[change.end() :] if change else row
    dash = _DASH.match(row)
    return row[dash.end() :] if dash else row, bool(change or dash)


def _accepted(row: str, names: Collection[str], cast: Collection[str]) -> _Label | None:
    for label in _labels(row):
        return label if label.certain or folded(label.name) in names else None
    bare = _BARE.match(row)
    return _Label(bare["name"], True, "", row[bare.end() :]) if bare and folded(bare["name"]) in cast else None


def _labels(row: str) -> Iterator[_Label]:
    """Yield the label that a row starts with, if any."""
    match = _LABEL.match(row)
    if match is None:
        return
    name = " ".join((match["bracket"] or match["round"] or match["plain"]).split())
    if len(name.split()) > _MOST_WORDS or sum(map(is_unspaced, name)) > _MOST_UNSPACED:
        return
    if match["bracket"] and is_tag(canonical_tags(f"[{name}]")):
        return
    capitals = sum(map(str.isalpha, name)) > 1 and name.isupper()
    yield _Label(name, not match["plain"] or capitals, match["aside"].strip(), row[match.end() :])


def _turn(speaker: str | None, text: str, asides: list[tuple[str, str]], tags: Collection[str]) -> Turn:
    unspoken = list(asides)

    def take(reason: str, is_kept: Callable[[re.Match[str]], bool], match: re.Match[str]) -> str:
        if is_kept(match):
            return match[0]
        unspoken.append((" ".join(match[0].split()), reason))
        return " "

    if _MUSIC.match(text) and _MUSIC_SIGN.match(text[-1:]):
        return Turn(speaker, "", (*asides, (" ".join(text.split()), LYRICS)))
    for pattern in (_MUSIC, _HASHES):
        text = pattern.sub(partial(take, LYRICS, lambda _: False), text)
    for pattern, is_kept in ((_SQUARE, partial(_is_notation, tags)), (_STARS, _is_silent), (_ROUND, _is_spoken_aside)):
        text = pattern.sub(partial(take, DESCRIPTION, is_kept), text)
    rows = (" ".join(row.split()) for row in text.split("\n"))
    return Turn(speaker, "\n".join(row for row in rows if row), tuple(unspoken))


def _is_notation(tags: Collection[str], match: re.Match[str]) -> bool:
    """Whether a bracket is one that the engine reads: a tag, a pause or phonemes."""
    bracket = match[0]
    return (
        bracket[1:-1] in tags
        or bool(_PAUSE.match(bracket))
        or is_tag(canonical_tags(bracket))
        or is_phonemes(bracket[1:-1])
    )


def _is_silent(match: re.Match[str]) -> bool:
    return not any(map(is_spoken, match[0]))


def _is_spoken_aside(match: re.Match[str]) -> bool:
    """Whether round brackets hold words to speak, not a description such as "(laughs)" alone, at the start of a line or
    behind a sentence."""
    inner, row = match[1].strip(), match.string
    start, end = row.rfind("\n", 0, match.start()) + 1, row.find("\n", match.end())
    before, after = row[start : match.start()].strip(), row[match.end() : end if end >= 0 else len(row)].strip()
    many = len(inner.split()) > _MOST_ASIDE_WORDS or sum(map(is_unspaced, inner)) > _MOST_UNSPACED
    if many or _SENTENCE.search(inner) or not any(map(is_spoken, inner)):
        return True
    if not any(map(is_spoken, before + after)):
        return False
    lower = not inner[:1].isupper() or (inner.isupper() and len(inner) > 1)
    at_edge = not any(map(is_spoken, before)) or (not any(map(is_spoken, after)) and _SENTENCE.search(before))
    return not (lower and at_edge)
