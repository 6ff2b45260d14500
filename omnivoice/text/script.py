"""Scripts: who says which line, and how. This is the grammar of docs/script.md.

    Alice: Good morning.                         a name and a colon start a line of that speaker
    [Bob]: {voice speed=1.1 seed=3} Morning!     brackets around the name; settings for this line alone
    It rains.                                    no name: the same speaker goes on
    [pause 2s]                                   a line without words is silence before the next line

Only names, settings and lines without words are read here. Pauses inside a line, tags, phonemes and markup stay in the
text of the line, which `generate.plan` reads as any other text. Every error names the line and the column, from 1.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import InputError, OmniVoiceError, TextError
from ..intake.cancel import cancellable
from ..intake.limits import MAX_PAUSES_SECONDS, MAX_SCRIPT_LINES, MAX_SPEAKER_CHARS, MAX_SPEAKERS, check_number, shown
from ..intake.text_in import clean_text
from .characters import is_content, is_spoken, is_unspaced
from .languages import language_id
from .markup import without_markup
from .pauses import DEFAULT_SECONDS, PAUSE, PauseError, is_scene_break, split_pauses
from .removed import Removed
from .rules import PUBLISHED, TextRules
from .tags import nonverbal_tags
from .vocabulary import named

OVERRIDES = ("speed", "seed", "language", "duration")
_MAX_LABEL_WORDS = 4  # before a colon; more words than that are a sentence
_LINE_END = re.compile("\r\n|[\r\n\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}]")
_BRACKETED = re.compile(r"\[([^\[\]]{1,200})\][ \t]*([:：]?)[ \t]*")
# A name and a colon, also as a list or in bold, as in "- **Alice:** Hi". Group 2: a digit or slash that follows.
_PLAIN = re.compile(
    r"(?:[-•*–—][ \t]+)?\*{0,3}([^\[\]{}<>:：*]{1,200}?)[ \t]*\*{0,3}[ \t]*(?:：|:(?=([\d/\\])?))\*{0,3}[ \t]*"
)
_VOICE = re.compile(r"\{[ \t]*voice(?![\w-])", re.IGNORECASE)
_PAIR = re.compile(r"""[ \t]*([^\s={}"]{1,40})[ \t]*=[ \t]*(?:"([^"{}]{0,100})"|([^\s{}"]{1,100}))(?=[\s}])""")
_NUMBER = re.compile(r"[+-]?\d{1,20}(?:\.\d{1,20})?")


@dataclass(frozen=True)
class ScriptLine:
    """One line to speak.

    number: of the line in the script, and column: of its text, both from 1. speaker: a name as the cast spells it; None
    if the script names no speakers. pause_seconds: silence that lines without words ask for before this one; None if
    there is no such line.
    overrides: a subset of OVERRIDES, as fields of a GenerationRequest.
    """

    number: int
    column: int
    speaker: str | None
    text: str
    pause_seconds: float | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Script:
    """The lines in order, the silence after the last one, and what was removed or has no line."""

    lines: tuple[ScriptLine, ...]
    tail_seconds: float = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Place:
    """Where an error is."""

    number: int
    column: int

    def error(self, message: str) -> TextError:
        return TextError(f"line {self.number}, column {self.column}: {message}")

    def moved(self, characters: int) -> _Place:
        return replace(self, column=self.column + characters)


def parse_script(script: str, speakers: Collection[str] | None = None, rules: TextRules = PUBLISHED) -> Script:
    """Return the lines of `script`.

    speakers: the names of the cast; case, accents and repeated spaces do not matter. With one name, lines before the
    first label are that speaker's. None: there is no cast, and every label is a name, as it is first spelt.
    rules: what the model says about text.
    Raises TextError, which names the line and column: a speaker who is not in the cast, a label without a text, a
    setting or pause that cannot be read, a line without any word, too many lines.
    """
    names = None if speakers is None else speaker_names(speakers)
    rows = _LINE_END.split(clean_text(script, name="script"))
    removed, reader = Removed(), _Reader(names, rules)
    for number, row in enumerate(cancellable(rows, 64), 1):
        if row.strip():
            reader.read(row.rstrip(), number, removed)
    reader.check_waiting()
    if not reader.lines:
        raise TextError('nothing to speak: the script has no line; write one, such as "Alice: Good morning."')
    spoken = {line.speaker for line in reader.lines}
    silent = [name for name in (names or {}).values() if name not in spoken]
    return Script(tuple(reader.lines), reader.pause or 0.0, (*removed.warnings("script"), *unused_warnings(silent)))


def unused_warnings(names: Sequence[str]) -> list[str]:
    """Return a warning about speakers without a line, if there are any."""
    return [f"no line in the script is spoken by {named(names)}"] if names else []


def speaker_names(speakers: Collection[str]) -> dict[str, str]:
    """Return {spelling that a script is searched for: name}.

    Raises InputError for no name or more than 64, a name that is empty, too long, used twice, a non-verbal tag or that
    contains a bracket, brace, colon or line break.
    """
    if not 1 <= len(speakers) <= MAX_SPEAKERS:
        raise InputError(f"a cast must have 1-{MAX_SPEAKERS} speakers, got {len(speakers)}")
    names: dict[str, str] = {}
    for given in speakers:
        name = " ".join(clean_text(given, name="a speaker's name").split())
        if not any(map(is_spoken, name)) or len(name) > MAX_SPEAKER_CHARS or re.search(r"[\[\]{}<>:：\"]", name):
            raise InputError(
                f"a speaker's name must be 1-{MAX_SPEAKER_CHARS} characters with a letter or number and without "
                f"brackets, colons and quotes, got {shown(given)}"
            )
        if name.lower() in nonverbal_tags():
            raise InputError(f"{shown(name)} cannot be a speaker: [{name}] is a tag that the model knows")
        if folded(name) in names:
            raise InputError(f"two speakers are called {shown(name)}: give each its own name")
        names[folded(name)] = name
    return names


def folded(name: str) -> str:
    """Return the form in which names are compared: without case, accents and repeated spaces."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return " ".join("".join(char for char in plain if not unicodedata.combining(char)).split())


class _Reader:
    """Reads row after row. names: {folded: name}, None without a cast. pause: silence not yet given to a line, None if
    no row has asked for any."""

    def __init__(self, names: Mapping[str, str] | None, rules: TextRules) -> None:
        self.names, self.rules, self.lines = names, rules, list[ScriptLine]()
        self.pause: float | None = None
        self._found: dict[str, str] = {}  # names of a script without a cast, by their folded form
        self.speaker = next(iter(names.values())) if names and len(names) == 1 else None
        self._waiting: _Place | None = None  # a label whose text has not come yet

    def read(self, row: str, number: int, removed: Removed) -> None:
        """Add what one row that is not blank says."""
        indent = len(row) - len(row.lstrip())
        place = _Place(number, 1 + indent)
        label, size = self._label(row[indent:], place)
        if label is not None:
            self.check_waiting()
            self.speaker, self._waiting = label, place
        overrides, used = _overrides(row[indent + size :], place.moved(size))
        text, place = row[indent + size + used :], place.moved(size + used)
        if not text and not overrides:
            return
        shielded = self.rules.shielded(text)
        silence = _silence(shielded, text, place, removed, self.rules)
        if silence is not None and not overrides:
            if PAUSE.search(shielded) or is_scene_break(shielded):
                self._add_pause(silence, place)
            return
        counts = is_content if "duration" in overrides else is_spoken  # a token alone has no length of its own
        if silence is not None or not any(map(counts, without_markup(PAUSE.sub(" ", shielded), Removed()))):
            raise place.error("there is no word to speak here: write a text, or remove the line")
        if self.names is not None and self.speaker is None:
            raise place.error(f"this line has no speaker: start it with a name and a colon, one of {self._cast()}")
        if len(self.lines) == MAX_SCRIPT_LINES:
            raise place.error(f"a script can have at most {MAX_SCRIPT_LINES} spoken lines: split it")
        self.lines.append(ScriptLine(number, place.column, self.speaker, text, self.pause, overrides))
        self.pause, self._waiting = None, None

    def check_waiting(self) -> None:
        """Raise TextError if the last label has got no text."""
        if self._waiting is not None:
            raise self._waiting.error(f"{self.speaker} has nothing to say: write a text after the colon")

    def _add_pause(self, seconds: float, place: _Place) -> None:
        self.pause = (self.pause or 0.0) + seconds
        self._waiting = None
        if self.pause > MAX_PAUSES_SECONDS:
            raise place.error(f"pauses between two lines can last at most {MAX_PAUSES_SECONDS} s in all")

    def _cast(self) -> str:
        return named(list((self.names or {}).values()))

    def _label(self, row: str, place: _Place) -> tuple[str | None, int]:
        """Return the speaker named at the start of a row and how many characters that takes; (None, 0) for none."""
        if match := _BRACKETED.match(row):
            name, colon = match[1], bool(match[2])
            if (_is_tag(name) or self.rules.is_mark(f"[{name}]")) and folded(name) not in (self.names or {}):
                return None, 0
        elif match := _PLAIN.match(row):
            name, colon = match[1], False
        else:
            return None, 0
        likely = colon or (_is_label(name, row) and not (match.lastindex == 2 and match[2]))
        if self.names is None:
            return (self._own_name(name, place), match.end()) if likely else (None, 0)
        known = self.names.get(folded(name))
        if known is not None:
            return known, match.end()
        if likely:
            raise place.error(
                f"the speaker {shown(name)} is not in the cast ({self._cast()}): add a voice with this name, or, if "
                "it is not a name, write the speaker's name and a colon before it"
            )
        return None, 0

    def _own_name(self, name: str, place: _Place) -> str:
        """Return a name of a script without a cast, as it was first spelt; raises TextError for one too many."""
        try:
            (key, own), *_ = speaker_names([name]).items()
        except InputError as error:
            raise place.error(str(error)) from None
        if key not in self._found and len(self._found) == MAX_SPEAKERS:
            raise place.error(f"a script can have at most {MAX_SPEAKERS} speakers, and {shown(own)} is one more")
        return self._found.setdefault(key, own)


def _is_tag(name: str) -> bool:
    return re.sub(r"[\s_]+", "-", name.strip().lower()) in nonverbal_tags()


def _is_label(name: str, row: str) -> bool:
    """Whether a plain text before a colon may be a name: up to four words that start at a letter."""
    if row.startswith("[") or not name[:1].isalpha() or len(name) > MAX_SPEAKER_CHARS:
        return False
    return len(name.split()) <= _MAX_LABEL_WORDS and sum(map(is_unspaced, name)) <= 2 * _MAX_LABEL_WORDS


def _silence(shielded: str, text: str, place: _Place, removed: Removed, rules: TextRules) -> float | None:
    """Return the seconds of silence that a text without words asks for, 0 for markup alone; None for any other."""
    if is_scene_break(shielded):
        return DEFAULT_SECONDS
    try:
        pieces = split_pauses(shielded, notes := Removed(), rules)
    except PauseError as error:
        raise place.moved(max(0, text.find(error.mark))).error(str(error)) from None
    if any(any(map(is_content, piece.text)) for piece in pieces):
        return None
    seconds = sum(piece.pause_seconds for piece in pieces)
    if seconds or not any(piece.text.strip() for piece in pieces):
        removed.include(notes)
        return seconds
    return None


def _overrides(row: str, place: _Place) -> tuple[dict[str, Any], int]:
    """Return the settings in `{voice …}` at the start of a row's text and their length, ({}, 0) for none."""
    starts = [match.start() for match in _VOICE.finditer(row)]
    if starts[:1] != [0]:
        if starts:
            raise place.moved(starts[0]).error("{voice …} must stand before the text of a line, after the speaker")
        return {}, 0
    end = row.find("}")
    if end < 0:
        raise place.error("{voice is not closed: end it with }, as in {voice speed=1.1}")
    if len(starts) > 1:
        raise place.moved(starts[1]).error("a line can have one {voice …}: put all settings into the first one")
    values: dict[str, Any] = {}
    for name, value, column in _pairs(row[: end + 1], place):
        at = place.moved(column)
        if name not in OVERRIDES:
            raise at.error(f"{{voice …}} has no setting {shown(name)}: it can set {', '.join(OVERRIDES)}")
        if name in values:
            raise at.error(f"{name} is set twice")
        try:
            values[name] = _value(name, value)
        except OmniVoiceError as error:
            raise at.error(str(error)) from None
    return values, end + 1 + len(row[end + 1 :]) - len(row[end + 1 :].lstrip())


def _pairs(braces: str, place: _Place) -> Iterator[tuple[str, str, int]]:
    """Yield (name, value, offset of the name in `braces`)."""
    match = _VOICE.match(braces)
    assert match is not None, "checked by the caller"
    at = match.end()
    if not braces[at:-1].strip():
        raise place.error("{voice} sets nothing: write for example {voice speed=1.1}")
    while braces[at:-1].strip():
        pair = _PAIR.match(braces, at)
        if pair is None:
            blanks = len(braces[at:]) - len(braces[at:].lstrip())
            odd = shown(braces[at:-1].strip()[:40])
            raise place.moved(at + blanks).error(
                f"{odd} cannot be read: write name=value, as in {{voice speed=1.1 seed=3}}"
            )
        yield pair[1].lower(), pair[3] if pair[2] is None else pair[2], pair.start(1)
        at = pair.end()


def _value(name: str, value: str) -> Any:
    if name == "language":
        language_id(value)
        return value
    if not _NUMBER.fullmatch(value):
        raise InputError(f"{name} must be a number, got {shown(value)}")
    return check_number(name, float(value) if "." in value or name != "seed" else int(value))
