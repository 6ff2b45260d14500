"""When the chapters, parts and words of a long text are said. One part is in memory at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..constants import SAMPLE_RATE
from ..text.rules import PUBLISHED, TextRules
from .long import MadePart
from .long_plan import LongPlan
from .parts import Parts
from .timings import TimedLine, timed_line, timings_json


def chapter_marks(long: LongPlan, made: Sequence[MadePart]) -> list[tuple[int, str]]:
    """Return (first sample, title) of each chapter; nothing for a text without headings."""
    if long.chapters == ("",):
        return []
    firsts = {part.chapter: part.start for part in reversed(made)}
    return [(firsts[number], title) for number, title in enumerate(long.chapters) if number in firsts]


def timed_parts(made: Sequence[MadePart], store: Parts, rules: TextRules = PUBLISHED) -> list[TimedLine]:
    """Return each part with its words; those of a part that has disappeared share its whole time.
    rules: what the model says about text."""
    lines = []
    for one in made:
        part = store.read(one.key)
        samples = torch.zeros(1, one.end - one.start) if part is None else part.samples[None].float()
        lines.append(timed_line(one.text, one.start, samples, rules=rules))
    return lines


def long_timings(long: LongPlan, made: Sequence[MadePart], lines: Sequence[TimedLine]) -> str:
    """Return chapters, parts and words with their times, as JSON."""
    chapters = [{"title": title, "start": round(at / SAMPLE_RATE, 6)} for at, title in chapter_marks(long, made)]
    return timings_json(lines, (made[-1].end + long.tail) / SAMPLE_RATE, seed=long.seed, chapters=chapters)
