"""Reads SRT and WebVTT as they are found in the wild: text in, cues out, and nothing lost silently.

Every word in the file is in a cue, in the list of what is not spoken, or in a note. What cannot be placed in time is an
error that names the line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from ..errors import TextError
from ..intake.cancel import cancellable, hear_cancel
from ..intake.limits import MAX_SUBTITLE_CHARS, MAX_TOTAL_SECONDS, check_run_length, shown
from ..intake.text_in import clean_text
from ..text.characters import is_spoken
from ..text.clean import speakable_lines
from ..text.duration import text_weight
from ..text.rules import PUBLISHED, TextRules
from ..text.script import folded
from ..text.vocabulary import named
from .cue_blocks import Block, Blocks, find_blocks
from .cue_text import CueText, plain_cue
from .cue_times import time_text
from .cue_turns import Turn, labels_in, split_turns
from .cues import DRAWING, NO_TEXT, NO_WORDS, OUTSIDE, REPEATED, TOO_EARLY, Cue, Subtitles, Unspoken
from .rolling import Shown, repeated_words, without_words

_PAUSE = re.compile(r"\[[ \t]*pause\b[^\[\]\n]{0,60}\]", re.IGNORECASE)
_LEAST_CUES = 2  # that start with a name which the cast does not have, before it counts as one


def parse_subtitles(text: object, names: Collection[str] = (), rules: TextRules = PUBLISHED) -> Subtitles:
    """Return the cues of SRT or WebVTT text, in the order of their times. names: those of the cast. rules:
    what the model says about text; its own tokens and tags stay, and take no time.

    Raises TextError, with the number of the line, for times that cannot be read or are beyond 4 hours; and for a text
    without cues, of more than 10,000 cues or 2,000,000 characters, or with more to say than one run may.
    """
    blocks = find_blocks(rules.shielded(clean_text(text, name="subtitles", limit=MAX_SUBTITLE_CHARS)))
    reader = _Reader([*names], rules)
    for line, row in blocks.before:
        reader.unspoken.append(Unspoken(None, line, row, OUTSIDE, whole=True))
    reader.read(blocks.cues)
    check_run_length(cue.text for cue in reader.cues)
    hear_cancel()
    cues = sorted(reader.cues, key=lambda cue: cue.start_ms)
    end_ms = max(max(block.start_ms, block.end_ms or 0, 0) for block in blocks.cues)
    unspoken = (replace(one, text=rules.restored(one.text)) for one in reader.unspoken)
    notes = map(rules.restored, _notes(blocks, reader, cues))
    spoken = (replace(cue, text=rules.restored(cue.text)) for cue in cues)
    return Subtitles(tuple(spoken), tuple(unspoken), tuple(notes), end_ms)


@dataclass
class _Reader:
    """Reads the cues of a file. cast: the names that it has. Notes collect the names of the cues they are about."""

    cast: list[str]
    rules: TextRules
    cues: list[Cue] = field(default_factory=list)
    unspoken: list[Unspoken] = field(default_factory=list)
    formatting: Counter[str] = field(default_factory=Counter)
    about: dict[str, list[str]] = field(default_factory=dict)

    def read(self, blocks: Sequence[Block]) -> None:
        """Add the cues of all blocks."""
        texts = [plain_cue(block.rows, self.formatting) for block in cancellable(blocks, 64)]
        ends = [block.start_ms if block.end_ms is None else block.end_ms for block in blocks]
        shown = [Shown(block.start_ms, end, text.text) for block, end, text in zip(blocks, ends, texts)]
        repeats = repeated_words(shown)
        counts = Counter(name for text in texts for name in labels_in(text.text))
        names = {folded(name): name for name in self.cast}
        known = {*names, *(name for name, count in counts.items() if count >= _LEAST_CUES)}
        for i, (block, text, repeated) in enumerate(cancellable(zip(blocks, texts, repeats), 64)):
            cue, problems = _timed(block)
            if repeated:
                text = self._without_repeats(block, text, repeated)
                later = [other.start_ms for other in blocks[i + 1 :][:2] if other.start_ms > cue.start_ms]
                cue = replace(cue, end_ms=min([cue.end_ms, *later]))
            turns = _turns(text, known, {*names}, self.rules.tags)
            for problem in problems:
                self.about.setdefault(problem, []).append(cue.name)
            if repeated and not text.passages:
                continue
            self._add(cue, block, text, [_spelled(turn, names) for turn in turns])

    def _without_repeats(self, block: Block, text: CueText, count: int) -> CueText:
        words = text.text.split()
        gone = " ".join(words[:count])
        self.unspoken.append(Unspoken(block.number, block.line, gone, REPEATED, whole=count == len(words)))
        kept = list(text.passages)
        for i, passage in enumerate(kept):
            size = len(passage.text.split())
            kept[i] = replace(passage, text=without_words(passage.text, count))
            count = max(0, count - size)
        return replace(text, passages=tuple(passage for passage in kept if passage.text))

    def _add(self, cue: Cue, block: Block, text: CueText, turns: Sequence[Turn]) -> None:
        """Add a cue with its turns, or say why nothing of it is spoken."""
        pieces = [(strokes, DRAWING) for strokes in text.drawings]
        pieces += [piece for turn in turns for piece in turn.unspoken]
        spoken = [turn for turn in turns if _has_words(turn.text)]
        labels = [f"{turn.speaker}: " if turn.speaker else "" for turn in turns]
        silent = [(label + turn.text).strip() for label, turn in zip(labels, turns) if not _has_words(turn.text)]
        pieces += [(words, NO_WORDS) for words in silent if words]
        if cue.end_ms < 0 or (cue.end_ms == 0 and block.start_ms < 0):
            words = " ".join(turn.text for turn in spoken)
            pieces, spoken = [*pieces, (words, TOO_EARLY)] if words else pieces, []
        if not pieces and not spoken:
            pieces = [("", NO_TEXT)]
        for piece, reason in pieces:
            self.unspoken.append(Unspoken(cue.number, cue.line, piece, reason, whole=not spoken))
        if block.gapped and spoken:
            self.about.setdefault("blank lines inside the text were closed", []).append(cue.name)
        cue = replace(cue, start_ms=max(0, cue.start_ms))
        parts = _parts(cue, spoken)
        if len(parts) > 1:
            self.about.setdefault("several speakers share the time by the length of their texts", []).append(cue.name)
        self.cues += parts


def _timed(block: Block) -> tuple[Cue, list[str]]:
    """Return the cue without its text, and what is odd about its times. Raises TextError beyond 4 hours."""
    start, end, problems = block.start_ms, block.end_ms, []
    if max(start, end or 0) > MAX_TOTAL_SECONDS * 1000:
        raise TextError(
            f"line {block.line}: cue {block.number} ends at {time_text(max(start, end or 0))}, at most "
            f"{MAX_TOTAL_SECONDS // 3600} hours are allowed: split the file, or shift its times to begin near 0"
        )
    if end is None or end < start:
        problems.append("the end is missing" if end is None else "the end is before the start, so it does not count")
        end = start
    elif end == start:
        problems.append("the end is the start")
    if start < 0 < end:
        problems.append("the start is before 0, so they start at 0")
    return Cue(block.number, start, end, "", line=block.line), problems


def _turns(text: CueText, names: Collection[str], cast: Collection[str], tags: Collection[str]) -> list[Turn]:
    turns: list[Turn] = []
    for passage in text.passages:
        split = split_turns(passage.text, names, cast, tags)
        turns += [replace(turn, speaker=turn.speaker or passage.voice) for turn in split]
    return turns


def _spelled(turn: Turn, names: dict[str, str]) -> Turn:
    """Return the turn with the speaker's name as the cast spells it."""
    return turn if turn.speaker is None else replace(turn, speaker=names.get(folded(turn.speaker), turn.speaker))


def _has_words(text: str) -> bool:
    try:
        return any(map(is_spoken, speakable_lines(_PAUSE.sub(" ", text)))) if text else False
    except TextError:
        return False


def _parts(cue: Cue, turns: Sequence[Turn]) -> list[Cue]:
    """Return a cue for each turn; several share the time in proportion to the weight of their texts."""
    if len(turns) < 2:
        return [replace(cue, text=turn.text, speaker=turn.speaker) for turn in turns]
    sums = [0.0, *accumulate(text_weight(turn.text) for turn in turns)]
    edges = [cue.start_ms + round((cue.end_ms - cue.start_ms) * each / sums[-1]) for each in sums]
    return [
        replace(cue, text=turn.text, speaker=turn.speaker, start_ms=start, end_ms=end, part=part)
        for part, (turn, (start, end)) in enumerate(zip(turns, pairwise(edges)), 1)
    ]


def _notes(blocks: Blocks, reader: _Reader, cues: Sequence[Cue]) -> list[str]:
    """Return what was corrected or may be unexpected, one line for each kind."""
    notes = [f"{about}: {named(names)}" for about, names in reader.about.items()]
    counted = [f"cue {block.number} (line {block.line})" for block in blocks.cues if not block.had_number]
    if counted and not blocks.is_vtt:  # WebVTT needs no numbers
        notes.append(f"cues without a number, which are counted: {named(counted)}")
    if cues != reader.cues:
        notes.append("the cues were not in the order of their times and are spoken in that order")
    overlaps = [f"{b.name} by {(a.end_ms - b.start_ms) / 1000:g} s" for a, b in pairwise(cues) if b.start_ms < a.end_ms]
    if overlaps:
        notes.append(f"cues that start before the one before them ends: {named(overlaps)}")
    if blocks.comments:
        kinds = Counter(blocks.comments)
        notes.append(f"not spoken: {', '.join(f'{count} {kind}' for kind, count in kinds.items())} of WebVTT")
    if reader.formatting:
        removed = [f"{shown(kind)[1:-1]} ({count})" for kind, count in reader.formatting.most_common()]
        notes.append(f"formatting was removed: {named(removed)}")
    known = {folded(name) for name in reader.cast}
    strangers = Counter(cue.speaker for cue in cues if cue.speaker and folded(cue.speaker) not in known)
    if strangers:
        taken = named([f"{shown(name)} ({count})" for name, count in strangers.items()])
        notes.append(f"names before a text that are taken for speakers, and are not spoken: {taken}")
    return notes
