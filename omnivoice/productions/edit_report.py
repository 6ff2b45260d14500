"""What an edit did, in plain lines: what changed where, what was kept, how rough the joints are, when each word is."""

from __future__ import annotations

from collections.abc import Iterator

from ..constants import FRAME_RATE
from .edit import Edited
from .edit_places import GIVEN, Span
from .timings import ESTIMATED, RECOGNISED

FOUND = {RECOGNISED: "found by the recogniser", ESTIMATED: "estimated from the text", GIVEN: "as given"}
WORDS_PER_LINE = 8
NEARLY = 0.05  # seconds by which a word may go beyond what is kept; its time is not more exact


def edit_report(edited: Edited) -> str:
    """Return the report of an edit, without its warnings."""
    return "\n".join([*changed_lines(edited), *_kept_lines(edited), *_joint_lines(edited), *_word_lines(edited)])


def changed_lines(edited: Edited) -> Iterator[str]:
    """Yield one line for each change, and one about the run."""
    added = 0
    for span in edited.spans:
        start, end, frames = span.start, span.end, span.frames
        place = f"{start / FRAME_RATE:.2f}-{end / FRAME_RATE:.2f} s ({FOUND[span.found]})"
        now = f"now {(start + added) / FRAME_RATE:.2f}-{(start + added + frames) / FRAME_RATE:.2f} s"
        yield f"{_change(edited, span)} at {place}, {now if frames else 'cut out'}"
        added += frames - (end - start)
    request = edited.prepared.request
    counts = {part.plan.request.sampling.passes for part in edited.prepared.parts if part.plan}
    steps = " and ".join(map(str, sorted(counts)))
    how = f", {request.order}, {steps} steps" if steps else ", nothing had to be spoken"
    yield f"{edited.waveform.seconds:.2f} s, was {request.recording.seconds:.2f} s; seed {edited.seed}{how}"


def _change(edited: Edited, span: Span) -> str:
    found = edited.prepared.found
    old, new = (" ".join(text.words[slice(*part)]) for text, part in ((found.old, span.old), (found.new, span.new)))
    if old == new:
        return f"“{old}” spoken again"
    if not old:
        return f"“{new}” inserted"
    return f"“{old}” became “{new}”" if new else f"“{old}” deleted"


def _kept_lines(edited: Edited) -> Iterator[str]:
    """Yield which samples are those of the recording, and the words that are entirely in them."""
    rate, found = edited.waveform.sample_rate, edited.prepared.found
    changed = {word for span in edited.spans for word in range(*span.old)}
    for kept in edited.kept:
        start, end = kept.start / rate, kept.end / rate
        words = [
            time.word
            for place, time in enumerate(found.times)
            if place not in changed and start <= time.start + NEARLY and time.end <= end + NEARLY
        ]
        said = f": “{words[0]}”" if len(words) == 1 else f": “{words[0]} … {words[-1]}”" if words else ""
        yield f"kept sample for sample: {start:.2f}-{end:.2f} s of the recording{said}"


def _joint_lines(edited: Edited) -> Iterator[str]:
    if edited.joints:
        each = ", ".join(f"{joint.roughness:.2f}" for joint in edited.joints)
        yield f"joints: {each} (1 or less: no rougher than the recording itself)"


def _word_lines(edited: Edited) -> Iterator[str]:
    """Yield the transcript with the time at which each word begins."""
    times = edited.prepared.found.times
    for first in range(0, len(times), WORDS_PER_LINE):
        yield "  ".join(f"{one.start:.2f} {one.word}" for one in times[first : first + WORDS_PER_LINE])
