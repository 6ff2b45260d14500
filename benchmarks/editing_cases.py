"""Edits of sentences of the demo voice's grammar, none of which it was trained on, and recordings of the old sentences.

Words are changed for others of their class. Words that are inserted or deleted are those that a sentence can do
without. "tune" and "report" are two sets of edits that share no sentence, so that settings are not chosen on the
sentences whose figures are reported. espeak-ng speaks the recordings, as it spoke the demo voice's training clips.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import torch
from torch import Tensor

from demo_voice.making import grammar, make
from demo_voice.making.speech import FASTER, SLOWER, STEADY, SWAY, VOICES, say_in_time
from omnivoice.audio.resample import resample

# Sentences with words in brackets that they can do without: inside the sentence, at its start and at its end.
OPTIONAL = (
    "<name> has <count> [<color>] <things>",
    "the [<kind>] <who> <did> <where> the <place>",
    "i <feel> the [<kind>] <who>",
    "please <act> the [<color>] <thing>",
    "my <kin> is a [very] <kind> <job>",
    "my <kin> is a [very <kind>] <job>",
    "the <thing> is <where> the [<color>] <thing>",
    "<name> lost a [<color>] <thing> on <day>",
    "<name> [and <name>] <did> in the <place>",
)
OPTIONAL_FIRST = ("[please] <act> the <color> <thing>",)
OPTIONAL_LAST = (
    "i <feel> <count> <things> [not <count>]",
    "would you give me some <food> [with <food>]",
    "<name> lost a <color> <thing> [on <day>]",
    "the weather is <weather> [<when>]",
)
ONE_WORD = ("<name>", "<day>", "<month>", "<food>", "<place>", "<things>", "<job>", "<weather>")
COUNTS = MappingProxyType(
    {"change": 60, "insert": 30, "delete": 30, "redo": 30, "two": 20, "first": 10, "last": 10, "one word": 10}
    | {"insert first": 5, "insert last": 5, "delete first": 5, "delete last": 5}
)
SPARE = 3  # times as many cases are drawn, because the judge does not understand every recording
STEREO_RATE = 44_100
_OPTIONAL = re.compile(r"\[(.*?)\]")


@dataclass(frozen=True)
class Case:
    """An edit. old, new: the sentences, in lower case. changed: the numbers of the words in `new` that were not kept;
    for a deletion, of those in `old`. voice: of demo_voice/making, and factor, how fast it speaks the recording."""

    kind: str
    old: str
    new: str
    changed: tuple[int, ...]
    voice: str
    factor: float
    seed: int


@dataclass(frozen=True)
class Language:
    """The words that a model knows, by their slots, and the patterns that can be filled with them."""

    slots: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, words: Collection[str] | None = None) -> Language:
        """Return the demo voice's language, or what remains of it with these words only."""
        slots = {slot: listed.split() for slot, listed in grammar.SLOTS.items()}
        if words is not None:
            slots = {slot: [one for one in listed if one in words] for slot, listed in slots.items()}
            fixed = {word for pattern in grammar.PATTERNS for word in pattern.split() if word[0] != "<"}
            slots |= {word: [] for word in fixed - {*words}}
        return cls(slots)

    def patterns(self, listed: Sequence[str]) -> list[str]:
        """Return those of the patterns whose fixed words are known and whose slots have two words at least."""
        pieces = [(pattern, re.sub(r"[\[\]]", "", pattern).split()) for pattern in listed]
        return [pattern for pattern, own in pieces if all(self._usable(piece) for piece in own)]

    def _usable(self, piece: str) -> bool:
        return len(self.slots[piece[1:-1]]) > 1 if piece[0] == "<" else piece not in self.slots

    def jsgf(self, kind: str) -> str:
        """Return the grammar with which a recognizer listens to sentences of this kind."""
        listed = ONE_WORD if kind == "one word" else grammar.PATTERNS
        if kind.startswith(("insert", "delete")):
            listed = (*listed, *OPTIONAL, *OPTIONAL_FIRST, *OPTIONAL_LAST)
        rules = [f"<{slot}> = {' | '.join(words)};" for slot, words in self.slots.items() if words]
        patterns = " |\n  ".join(self.patterns(listed))
        return "\n".join(["#JSGF V1.0;", "grammar edited;", *rules, f"public <sentence> =\n  {patterns};", ""])

    def fill(self, pieces: Sequence[str], rng: random.Random) -> list[str]:
        """Return a word for each piece of a pattern."""
        return [rng.choice(self.slots[piece[1:-1]]) if piece[0] == "<" else piece for piece in pieces]


Draw = Callable[[Language, int, random.Random], "tuple[list[str], list[str], list[int]]"]


def changing(listed: Sequence[str], places: Callable[[list[str], random.Random], list[int]]) -> Draw:
    """Return a function that draws (old words, new words, numbers of the changed words), the changed words being at
    `places` of the pattern's pieces."""

    def draw(language: Language, number: int, rng: random.Random) -> tuple[list[str], list[str], list[int]]:
        usable = [one for one in language.patterns(listed) if places(one.split(), random.Random(0))]
        pieces = usable[number % len(usable)].split()
        old, at = language.fill(pieces, rng), places(pieces, rng)
        new = list(old)
        for place in at:
            new[place] = rng.choice([word for word in language.slots[pieces[place][1:-1]] if word != old[place]])
        return old, new, at

    return draw


def without(listed: Sequence[str], *, insert: bool) -> Draw:
    """Return a function that draws sentences with and without the words in brackets."""

    def draw(language: Language, number: int, rng: random.Random) -> tuple[list[str], list[str], list[int]]:
        usable = language.patterns(listed)
        pattern = usable[number % len(usable)]
        before, inside, after = [part.split() for part in re.split(r"[\[\]]", pattern)]
        words = language.fill([*before, *inside, *after], rng)
        stop = len(before) + len(inside)
        short = [*words[: len(before)], *words[stop:]]
        return (short, words, [*range(len(before), stop)]) if insert else (words, short, [*range(len(before), stop)])

    return draw


def _slots(pieces: Sequence[str], start: int, stop: int) -> list[int]:
    return [place for place in range(start, stop) if pieces[place][0] == "<"]


def _inner(pieces: list[str], rng: random.Random) -> list[int]:
    inner = _slots(pieces, 1, len(pieces) - 1)
    return [rng.choice(inner)] if inner else []


def _two(pieces: list[str], rng: random.Random) -> list[int]:
    """Two words with a kept word between them."""
    inner = _slots(pieces, 1, len(pieces) - 1)
    pairs = [[a, b] for a in inner for b in inner if b - a > 1]
    return rng.choice(pairs) if pairs else []


def _first(pieces: list[str], rng: random.Random) -> list[int]:
    return _slots(pieces, 0, 1)


def _last(pieces: list[str], rng: random.Random) -> list[int]:
    return _slots(pieces, len(pieces) - 1, len(pieces))


DRAWS: Mapping[str, Draw] = MappingProxyType(
    {
        "change": changing(grammar.PATTERNS, _inner),
        "redo": changing(grammar.PATTERNS, _inner),
        "two": changing(grammar.PATTERNS, _two),
        "first": changing(grammar.PATTERNS, _first),
        "last": changing(grammar.PATTERNS, _last),
        "one word": changing(ONE_WORD, _first),
        "insert": without(OPTIONAL, insert=True),
        "delete": without(OPTIONAL, insert=False),
        "insert first": without(OPTIONAL_FIRST, insert=True),
        "delete first": without(OPTIONAL_FIRST, insert=False),
        "insert last": without(OPTIONAL_LAST, insert=True),
        "delete last": without(OPTIONAL_LAST, insert=False),
    }
)


@lru_cache(maxsize=1)
def spoken_in_training() -> frozenset[str]:
    """Return all sentences that the demo voice was trained or judged on."""
    sets = grammar.draw_sets(make.SEED, make.TRAIN, make.HELD_OUT)
    return frozenset(sentence for sentences in sets.values() for sentence in sentences)


def draw_cases(kind: str, split: str, language: Language, voices: Sequence[str]) -> Iterator[Case]:
    """Yield `SPARE` times as many edits as are wanted of this kind. split: "tune" or "report"."""
    rng, taken, number = random.Random(f"{split} {kind}"), {*spoken_in_training()}, 0
    if split == "report":
        taken |= {words for case in draw_cases(kind, "tune", language, voices) for words in (case.old, case.new)}
    for attempt in range(10_000):
        if number == SPARE * COUNTS[kind]:
            return
        old, new, changed = DRAWS[kind](language, attempt, rng)
        new = old if kind == "redo" else new
        pair = (" ".join(old), " ".join(new))
        if taken.isdisjoint(pair) or kind == "one word":
            taken |= {*pair}
            steady = rng.random() < STEADY
            factor = rng.uniform(1 - SWAY, 1 + SWAY) if steady else rng.uniform(FASTER, SLOWER)
            voice = rng.choice(voices)
            yield Case(kind, *pair, tuple(changed), voice, round(factor, 4), number)
            number += 1


def recording(words: str, case: Case) -> Tensor:
    """Return the words as espeak-ng says them in the case's voice: [N] at 24,000 Hz."""
    voice = {one.name: one for one in VOICES}[case.voice]
    return say_in_time(words, voice, case.factor)


def in_stereo(samples: Tensor) -> Tensor:
    """Return [N] at 24,000 Hz as [2, M] at 44,100 Hz, the right channel quieter and a little later."""
    left = resample(samples[None], 24_000, STEREO_RATE)[0]
    return torch.stack((left, 0.7 * torch.nn.functional.pad(left, (20, 0))[: len(left)]))
