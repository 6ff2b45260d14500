"""What will be spoken, without speaking: the plan of a request as a report and as a text.

It shows the plan itself, so it cannot differ from what is generated. Only a model adds to it: its own rules of text,
its vocabulary and its recommendations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..constants import FRAME_RATE, SAMPLE_RATE
from ..intake.text_in import clean_text
from ..text.characters import HAN
from ..text.clean import join_lines
from ..text.pronunciation import is_phonemes
from ..text.tags import BRACKETED, nonverbal_tags
from ..text.vocabulary import named
from ..types import Change, GenerationPlan
from .chunks import GAP_SAMPLES
from .written import unused_entries

_PINYIN = re.compile(rf"(?<=[{HAN}])[A-ZÜ]{{1,6}}[1-5](?![A-Za-z\d])|(?<![A-Za-z\d])[A-ZÜ]{{1,6}}[1-5](?=[{HAN}])")


def preview_report(plan: GenerationPlan, tags: Sequence[str] = ()) -> str:
    """Return several lines: the length, each chunk with its seconds, what was changed where, marks, and warnings.

    tags: those that the model knows in addition.
    """
    seconds, count = estimated_seconds(plan), len(plan.chunks)
    length = f"{seconds:.2f} s" if plan.target_samples is not None else f"about {seconds:.2f} s"
    lines = [f"{length} in {count} chunk{'s' * (count > 1)}, language {plan.language or 'auto'}", "chunks:"]
    for chunk in plan.chunks:
        if chunk.pause_samples:
            lines.append(f"         pause {chunk.pause_samples / SAMPLE_RATE:g} s")
        lines.append(f"{chunk.frames / FRAME_RATE:>6.2f} s  {chunk.text}")
    if plan.tail_samples:
        lines.append(f"         pause {plan.tail_samples / SAMPLE_RATE:g} s")
    changes = changes_of(plan)
    lines += ["changed:", *changes] if changes else []
    lines += understood(plan, tags)
    lines += unused_entries([plan])
    lines += [note for note in plan.notes if not note.startswith(("dictionary: ", "normalised: "))]
    return "\n".join([*lines, *(f"warning: {warning}" for warning in plan.warnings)])


def estimated_seconds(plan: GenerationPlan) -> float:
    """Return the length of the recording: exact if the request says so, else before silences are shortened."""
    if plan.target_samples is not None:
        return plan.target_samples / SAMPLE_RATE
    first, *others = plan.chunks
    silence = first.pause_samples + sum(chunk.pause_samples or GAP_SAMPLES for chunk in others) + plan.tail_samples
    frames = sum(chunk.frames for chunk in plan.chunks)
    return frames / FRAME_RATE + silence / SAMPLE_RATE + 2 * plan.request.pad_seconds


def spoken_text(plan: GenerationPlan) -> str:
    """Return the text of all chunks on one line, with `[pause 0.5s]` for each pause."""
    text = ""
    for chunk in plan.chunks:
        if chunk.pause_samples:
            text += f" {_pause(chunk.pause_samples)} {chunk.text}"
        else:
            text = join_lines(f"{text}\n{chunk.text}") if text else chunk.text
    return f"{text} {_pause(plan.tail_samples)}".strip() if plan.tail_samples else text.strip()


def _pause(samples: int) -> str:
    return f"[pause {samples / SAMPLE_RATE:.9f}".rstrip("0").rstrip(".") + "s]"


def changes_of(plan: GenerationPlan) -> list[str]:
    """Return one line for each change of the dictionary and of normalisation, with its line and column from 1."""
    text = clean_text(plan.request.text)
    made = [*((one, "dictionary") for one in plan.respelled), *((one, "normalised") for one in plan.normalised)]
    made.sort(key=lambda pair: pair[0].start)
    return [f"  {_place(text, one)}: “{_line(one.original)}” → “{_line(one.spoken)}” ({by})" for one, by in made]


def understood(plan: GenerationPlan, tags: Sequence[str] = ()) -> list[str]:
    """Return one line for each kind of mark that the text has: tags, pronunciations, pauses."""
    text = " ".join(chunk.text for chunk in plan.chunks)
    brackets = [match[1] for match in BRACKETED.finditer(text)]
    sounds = [f"[{name}]" for name in brackets if name in (*nonverbal_tags(), *tags)]
    phonemes = [f"[{name}]" for name in brackets if is_phonemes(name)]
    pauses = [one for one in (*(chunk.pause_samples for chunk in plan.chunks), plan.tail_samples) if one]
    found = {"tags": sounds, "phonemes": phonemes, "pinyin": _PINYIN.findall(text)}
    lines = [f"{kind}: {named(marks)}" for kind, marks in found.items() if marks]
    return [*lines, f"pauses: {len(pauses)}, {sum(pauses) / SAMPLE_RATE:g} s in all"] if pauses else lines


def _place(text: str, change: Change) -> str:
    before = text[: change.start]
    return f"line {before.count(chr(10)) + 1}, column {change.start - before.rfind(chr(10))}"


def _line(text: str) -> str:
    return " ".join(text.split())
