"""Edits of words: what two texts share, what differs, what was heard, and where a change is in a recording.

What must hold:
- the changes between two texts make the new words of the old ones, and equal pairs are equal and in order;
- as many errors are counted from one list of words to another as the other way round, and none between equal ones;
- the spans of a change are within the recording, in order, and do not overlap;
- long lists take bounded work: the campaign's limit of processor time holds for each pair of texts.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise

import torch

from omnivoice.productions.edit_places import found_words
from omnivoice.productions.edit_sound import Sound, sound_of
from omnivoice.productions.timings import TimedWord
from omnivoice.text.alignment import equal_pairs
from omnivoice.text.differences import word_changes, words_and_brackets
from omnivoice.text.rules import PUBLISHED
from omnivoice.text.word_errors import compare, spoken_words
from omnivoice.types import Waveform
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.messages import tried
from tests.fuzz.strings import PIECES, WORDS, any_text

OLD = "We met in late May, and it was a fine day for all of us there in the old town of Rome."
SECONDS = 8


def attack(run: Run) -> None:
    """Compare texts, and place their differences in one of two recordings."""
    sounds = [_sound(phase) for phase in (0.0, 1.0)]
    while run.more():
        kind = run.inputs % 20
        if run.inputs % 250 == 9:
            _long_lists(run)
        elif kind < 7:
            _texts(run)
        elif kind < 10:
            _heard(run)
        else:
            _places(run, sounds[kind & 1])


def _sound(phase: float) -> Sound:
    """Return a recording with sounds and pauses."""
    t = torch.arange(24_000 * SECONDS) / 24_000
    return sound_of(Waveform((0.3 * torch.sin(1256 * t) * (torch.sin(7 * t + phase) > -0.3))[None], 24_000))


def _changed(rng: random.Random, words: list[str]) -> list[str]:
    """Return words with a few of them left out, replaced, moved or said twice, and others put in."""
    words = words.copy()
    for _ in range(1 + rng.randrange(3)):
        at = rng.randrange(len(words) + 1)
        new = rng.choices(WORDS, k=rng.randrange(3)) if rng.random() < 0.7 else [any_text(rng, 3)]
        words[at : at + rng.randrange(3)] = new
    return words


def _texts(run: Run) -> None:
    old = run.rng.choices(PIECES, k=run.rng.randrange(1, 14))
    first, second = " ".join(old), " ".join(_changed(run.rng, old))
    with tried(run, (first, second)):
        before, after = words_and_brackets(first), words_and_brackets(second)
        made, end, least = list[str](), 0, 0
        for change in word_changes(before, after):
            if not (end <= change.old[0] <= change.old[1] and least <= change.new[0] <= change.new[1]):
                run.finding((first, second), "changes are not in order", repr(change))
            made += after[least : least + change.old[0] - end] + after[slice(*change.new)]
            end, least = change.old[1], change.new[1]
        if made + after[least:] != after or len(before) - end != len(after) - least:
            run.finding((first, second), "the changes do not make the new words")


def _long_lists(run: Run) -> None:
    """Lists of up to thousands of words, of few kinds, which are the hardest to align."""
    size, kinds = run.rng.choice((10, 100, 400, 3000)), run.rng.choice((1, 2, 5, 200))
    old = [run.rng.randrange(kinds) for _ in range(size)]
    new = [word for word in old if run.rng.random() < 0.8] + [run.rng.randrange(kinds) for _ in range(size // 10)]
    with run.input((old, new), cpu_seconds=5):
        pairs = equal_pairs(old, new)
        ordered = all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
        if not ordered or any(old[i] != new[j] for i, j in pairs):
            run.finding((old, new), "pairs are not equal, or not in order")


def _heard(run: Run) -> None:
    said = run.rng.choices(PIECES, k=run.rng.randrange(1, 10))
    text, heard = " ".join(said), " ".join(_changed(run.rng, said))
    with tried(run, (text, heard)):
        there, back = compare(text, heard), compare(heard, text)
        if there.errors != back.errors or compare(text, text).errors:
            run.finding((text, heard), "errors depend on the direction, or a text differs from itself")
        least = abs(len(there.said) - len(there.heard))
        if not least <= there.errors <= max(len(there.said), len(there.heard)):
            run.finding((text, heard), "there are fewer or more errors than there can be", repr(there))
        if list(there.said) != spoken_words(text) or any(there.said[i] != there.heard[j] for i, j in there.pairs):
            run.finding((text, heard), "words that differ count as heard rightly", repr(there))


def _places(run: Run, sound: Sound) -> None:
    """A transcript and a new text, sometimes with times of words, spans or words to speak again."""
    rng, words = run.rng, OLD.split()
    old = OLD if rng.random() < 0.8 else OLD + " " + any_text(rng, 3)
    new = OLD if rng.random() < 0.1 else " ".join(_changed(rng, words))
    more: dict[str, object] = {}
    if rng.random() < 0.3:
        more["word_times"] = [
            TimedWord(word, i * 0.36 + rng.random() * 0.3, i * 0.36 + 0.3) for i, word in enumerate(words)
        ]
    if rng.random() < 0.2:
        start = rng.choice((0.0, 1.2, 7.9, 8.0, -1.0, math.nan, 1e9, rng.random() * SECONDS))
        more["spans"] = [(start, start + rng.choice((0.0, 0.01, 0.5, -1.0)))]
    if rng.random() < 0.1:
        more["again"] = rng.choice(("fine day", "in#2", "in", "#", any_text(rng, 2)))
    if rng.random() < 0.1:
        more["seconds"] = rng.choice((0.5, 0.0, math.inf, 1e-9, 700))
    with tried(run, (old, new, more)):
        last = 0
        for span in found_words(sound, old, new, PUBLISHED, **more).spans:  # type: ignore[arg-type]
            if not last <= span.start <= span.end <= sound.frames or span.frames < 0:
                run.finding((old, new, more), "spans overlap, or are outside the recording", repr(span))
            last = span.end


CAMPAIGN = Campaign(name="edits", unit="pairs of texts and edits", goal=120_000, share=2.5, attack=attack, suite=600)
