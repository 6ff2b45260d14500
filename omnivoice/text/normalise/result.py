"""What the rules of a language return, and what `normalise` makes of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...text.vocabulary import named
from ...types import Change as Change


@dataclass(frozen=True)
class Replacement:
    """Text between `start` and `end` that is to be spoken as `spoken`; what the rules of a language return."""

    start: int
    end: int
    spoken: str


@dataclass(frozen=True)
class Normalised:
    """A normalised text, the changes in their order, and warnings, such as a package that is missing."""

    text: str
    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()

    def origin(self, index: int) -> int:
        """Return where the character at `index` of the normalised text came from: its place in the original text.

        Every character of spoken words has the start of what they replace. The length of the text gives the length of
        the original.
        """
        starts = [start for start, _ in places(self.changes)]
        number = bisect_right(starts, index) - 1
        if number < 0:
            return index
        change, start = self.changes[number], starts[number]
        after = index - start - len(change.spoken)
        return change.start if after < 0 else change.end + after

    def moved(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return where parts of the original text that no change touches are in the normalised text."""
        onward = _Map([(change.start, change.end) for change in self.changes], places(self.changes))
        return [onward.span(*span) for span in spans]


def applied(text: str, found: Iterable[Replacement]) -> Normalised:
    """Return `text` with the replacements, which are in order and do not overlap."""
    parts: list[str] = []
    changes: list[Change] = []
    end = 0
    for one in found:
        parts += [text[end : one.start], one.spoken]
        changes.append(Change(one.start, one.end, text[one.start : one.end], one.spoken))
        end = one.end
    return Normalised("".join([*parts, text[end:]]), tuple(changes))


def places(changes: Sequence[Change]) -> list[tuple[int, int]]:
    """Return (start, end) of the spoken words of each change, in the text that they are in."""
    found, shift = [], 0
    for change in changes:
        start = change.start + shift
        found.append((start, start + len(change.spoken)))
        shift += len(change.spoken) - len(change.original)
    return found


def joined(text: str, first: Normalised, second: Normalised) -> Normalised:
    """Return what `first`, made of `text`, and `second`, made of the text of `first`, do together."""
    between = places(first.changes)
    spans = sorted([*between, *((change.start, change.end) for change in second.changes)])
    groups: list[tuple[int, int]] = []
    for start, end in spans:
        if groups and start < groups[-1][1]:
            groups[-1] = (groups[-1][0], max(end, groups[-1][1]))
        else:
            groups.append((start, end))
    final = places(second.changes)
    back = _Map(between, [(change.start, change.end) for change in first.changes])
    onward = _Map([(change.start, change.end) for change in second.changes], final)
    changes = []
    for start, end in groups:
        begin, stop = back.span(start, end)
        spoken = slice(*onward.span(start, end))
        changes.append(Change(begin, stop, text[begin:stop], second.text[spoken]))
    changes = [change for change in changes if change.original != change.spoken]
    return Normalised(second.text, tuple(changes), tuple(dict.fromkeys([*first.warnings, *second.warnings])))


class _Map:
    """Where the spans of one text are in another. A changed span is inside a span that is asked for, or outside it."""

    def __init__(self, here: Sequence[tuple[int, int]], there: Sequence[tuple[int, int]]) -> None:
        self._starts, self._ends = [start for start, _ in here], [end for _, end in here]
        self._shifts = [0, *(there_end - here_end for (_, here_end), (_, there_end) in zip(here, there))]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return (start, end) in the other text."""
        before = self._shifts[bisect_left(self._starts, start)]  # a change at the start is inside
        return start + before, end + self._shifts[bisect_right(self._ends, end)]


def changes_note(changes: Sequence[Change], name: str = "normalised") -> str:
    """Return one line that names up to ten different changes, and how many more there are; it starts with `name`."""
    made = dict.fromkeys(f"“{_line(change.original)}” → “{_line(change.spoken)}”" for change in changes)
    return f"{name}: {named(list(made))}"


def _line(text: str) -> str:
    return " ".join(text.split())
