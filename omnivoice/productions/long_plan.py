"""What a long text is cut into: chapters at its headings, and parts at the chunks of the engine's own plan."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..constants import FRAME_RATE, SAMPLE_RATE
from ..errors import InputError, TextError
from ..generate.chunks import GAP_SAMPLES
from ..generate.plan import ONE_WORD, check_work
from ..generate.written import text_notes
from ..intake.limits import MAX_TOTAL_SECONDS, check_text_length
from ..types import GenerationPlan, GenerationRequest
from .lines import PlanRequests, naming_line

VOICE_FRAMES = 2 * FRAME_RATE  # the least that makes a voice, if a longer part is there
FIRST_SECONDS = 3.0  # of the first part that is heard while the rest is made; shorter ones sound cut off
CHAPTER_SECONDS = 1.0  # of silence before a chapter's heading, and half of it after
NO_PAD = "pad_seconds is not used: a long text begins and ends with speech; write [pause 1s] there for silence"
_HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+(.{1,200}?)[ \t#]*$", re.MULTILINE)


@dataclass(frozen=True)
class PlannedPart:
    """plan: of one chunk. silence: zeros before it. chapter: the number of its chapter, from 0."""

    plan: GenerationPlan
    silence: int
    chapter: int

    @property
    def text(self) -> str:
        """What the part says."""
        return self.plan.chunks[0].text

    @property
    def frames(self) -> int:
        """Its estimated length."""
        return self.plan.chunks[0].frames

    @property
    def seconds(self) -> float:
        """Its estimated length."""
        return self.frames / FRAME_RATE


@dataclass(frozen=True)
class LongPlan:
    """A text that is ready to be spoken. chapters: the titles; "" for text before the first heading. tail: zeros at the
    end. notes: what the dictionary and the normalisation changed."""

    parts: tuple[PlannedPart, ...]
    chapters: tuple[str, ...]
    tail: int
    seed: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()


def plan_long(request: GenerationRequest, plan: PlanRequests, *, retries: int = 0) -> LongPlan:
    """Return the parts of `request.text`.

    A line that starts with # is the heading of a chapter and is spoken. retries: how often a part may be spoken again,
    for the limit of the work. Raises InputError or TextError, which names the line of a chapter that holds nothing to
    speak. A duration is refused: a long text is spoken at its own pace.
    """
    if request.duration is not None:
        raise InputError("a long text is spoken at its own pace: leave out the duration, or set the speed")
    parts, titles, tail, warnings, seed = list[PlannedPart](), list[str](), 0, dict[str, None](), request.seed
    said, plans = Counter[str](), list[GenerationPlan]()
    if request.pad_seconds not in (0, GenerationRequest.pad_seconds):
        warnings[NO_PAD] = None
    for title, text, line in _chapters(check_text_length(request.text)):
        titles.append(title)
        for piece, before in ((title, CHAPTER_SECONDS), (text, CHAPTER_SECONDS / 2 if title else 0.0)):
            if not piece.strip():
                continue
            early = request.first_seconds if sum(part.seconds for part in parts) < request.first_seconds else 0.0
            own = replace(request, text=piece, seed=seed, first_seconds=early)
            one = _plan_piece(own, plan, line if title else 0)
            seed = one.seed if seed is None else seed
            first = tail + round(before * SAMPLE_RATE) * bool(parts)
            parts += _parts_of(one, len(titles) - 1, first, said=said, seed=seed)
            tail = one.tail_samples
            warnings.update(dict.fromkeys(one.warnings))
            plans.append(one)
    if not parts:
        plan([request])  # says what is wrong with the text
    hours = sum(part.frames for part in parts) / FRAME_RATE / 3600
    if hours > MAX_TOTAL_SECONDS / 3600:
        raise InputError(f"the text would take {hours:.1f} hours, at most {MAX_TOTAL_SECONDS // 3600}: split it")
    check_work((part.plan for part in parts), retries=retries)
    if parts[first_to_make(parts)].frames >= VOICE_FRAMES:
        warnings.pop(ONE_WORD, None)  # a heading, which another part gives its voice
    return LongPlan(tuple(parts), tuple(titles), tail, seed or 0, tuple(warnings), text_notes(plans))


def _plan_piece(request: GenerationRequest, plan: PlanRequests, line: int) -> GenerationPlan:
    """Plan a heading or what follows it. line: of the heading, for a TextError; 0 before the first one."""
    try:
        return plan([request])[0]
    except TextError as error:
        if not line:
            raise
        with naming_line(line):
            raise TextError(f"the heading, or the text below it, cannot be spoken: {error}") from error


def _chapters(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (title, text, line of the heading from 1) of each chapter.

    The first title is "" if the text starts without a heading.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    title, end, line = "", 0, 1
    for heading in _HEADING.finditer(text):
        if title or text[end : heading.start()].strip():
            yield title, text[end : heading.start()], line
        title, end = heading[1].strip(), heading.end()
        line = text.count("\n", 0, heading.start()) + 1
    yield title, text[end:], line


def _parts_of(
    plan: GenerationPlan, chapter: int, first: int, *, said: Counter[str], seed: int
) -> Iterator[PlannedPart]:
    """Yield a part for each chunk. first: zeros before the first one, besides its own pause. said: the texts so far."""
    for index, chunk in enumerate(plan.chunks):
        own = replace(
            plan,
            chunks=(replace(chunk, follows_first=False, pause_samples=0),),
            request=replace(plan.request, pad_seconds=0.0),
            seed=_part_seed(seed, chunk.text, said[chunk.text]) if said else seed,
            chunked=False,
            tail_samples=0,
            warnings=(),
        )
        said[chunk.text] += 1
        gap = (GAP_SAMPLES if index else 0) if not chunk.pause_samples else 0
        yield PlannedPart(own, chunk.pause_samples + gap + (first if not index else 0), chapter)


def _part_seed(seed: int, text: str, repeats: int) -> int:
    """Return the seed of a part. It does not depend on the part's number, so that what is put in before leaves it as it
    is, but on its text, so that no two parts have the same noise. repeats: how often the text came before."""
    digest = hashlib.sha256(f"{seed} {repeats} {text}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big")


def first_to_make(parts: Sequence[PlannedPart]) -> int:
    """Return the part that sets the level and, without a given voice, the voice: the first of two seconds or more."""
    frames = [part.frames for part in parts]
    if parts[0].plan.request.voice is not None:
        return 0
    return next((i for i, count in enumerate(frames) if count >= VOICE_FRAMES), frames.index(max(frames)))
