"""The report about spoken subtitles: every cue with its times, everything that is not spoken, and every warning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ..constants import FRAME_RATE, SAMPLE_RATE
from .cues import Unspoken
from .placed_cues import SpokenCue
from .subtitles import SpokenSubtitles

_HEAD = "  cue      line    start      end   natural    rate  overflow   shift  error at start, end   voice"


def subtitle_report(result: SpokenSubtitles) -> str:
    """Return the report as lines of plain text; times and errors are in seconds."""
    spoken, unspoken = result.spoken, result.subtitles.unspoken
    lines = [
        summary(result),
        *_voices(result),
        *_errors(spoken),
        "",
        "rate: 1 = natural, above 1 the text was squeezed. overflow: natural length less the length of the cue.",
        "shift: where the speech begins, less the start of the cue. error: the first and last sample above 1 % of the",
        "cue's peak in the output, less the start and end of the cue.",
        _HEAD,
        *map(_row, spoken),
    ]
    lines += ["", *not_spoken(result)] if unspoken else []
    notes = [*result.notes, *(f"warning: {note}" for note in (*result.subtitles.notes, *result.warnings))]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def summary(result: SpokenSubtitles) -> str:
    """Return one line: how many cues, how long, and how."""
    whole = _whole(result)
    sampling = result.options.request.sampling
    return (
        f"{len(result.spoken)} cues spoken, {whole} not spoken, {result.samples / SAMPLE_RATE:.3f} s, mode "
        f"{result.options.mode}, seed {result.seed}, {sampling.steps} steps, guidance {sampling.guidance:g}"
    )


def not_spoken(result: SpokenSubtitles, most: int | None = None) -> list[str]:
    """Return one line for each text that is not spoken, with the reason, below a heading; empty if there is none.

    most: lines to show, None for all; the last line then says how many there are in the report.
    """
    unspoken = result.subtitles.unspoken
    if not unspoken:
        return []
    lines = [f"not spoken (whole cues: {_whole(result)}):", *map(_unspoken, unspoken[:most])]
    more = len(unspoken) - len(lines) + 1
    return [*lines, f"  and {more} more, which the report names"] if more else lines


def _whole(result: SpokenSubtitles) -> int:
    """Return how many cues are not spoken at all."""
    return len({(one.number, one.line) for one in result.subtitles.unspoken if one.whole and one.number is not None})


def _voices(result: SpokenSubtitles) -> list[str]:
    counts = Counter(one.voice for one in result.spoken)
    rows = []
    for speaker in (*result.cast.speakers, result.cast.default):
        if counts[speaker.name] or speaker.name:
            what = "the model's own choice"
            if speaker.voice is not None:
                what = f"a recording of {speaker.voice.frames / FRAME_RATE:.1f} s"
            elif speaker.design is not None:
                what = "a described voice"
            name = repr(speaker.name) if speaker.name else "default voice"
            rows.append(f"voice: {name}, {what}, {counts[speaker.name]} cues")
    return rows


def _errors(spoken: Sequence[SpokenCue]) -> list[str]:
    def line(name: str, error: Callable[[SpokenCue], float]) -> str:
        errors = [error(one) for one in spoken]
        worst = max(spoken, key=lambda one: abs(error(one)))
        mean = sum(map(abs, errors)) / len(errors)
        return f"timing error at the {name}: {mean:.3f} s on average, {error(worst):+.3f} s at most ({worst.cue.name})"

    squeezed = [one for one in spoken if one.rate > 1.005 and one.slot.room is not None]
    fastest = max(one.rate for one in spoken)
    return [
        line("start", lambda one: one.start_error),
        line("end", lambda one: one.end_error),
        f"squeezed: {len(squeezed)} cues, {fastest:.2f} times as fast as natural at most; "
        f"{sum(one.overflow_seconds > 0 for one in spoken)} cues do not fit at their natural rate, "
        f"{sum(one.overflow_seconds for one in spoken):.2f} s too long in all",
    ]


def _row(one: SpokenCue) -> str:
    cue = one.cue
    number = f"{cue.number}{f'.{cue.part}' if cue.part else ''}"
    return (
        f"  {number:<6} {cue.line:>6} {one.start / SAMPLE_RATE:>8.3f} {one.end / SAMPLE_RATE:>8.3f} "
        f"{one.natural / SAMPLE_RATE:>9.2f} {one.rate:>7.2f} {one.overflow_seconds:>9.2f} {one.shift_seconds:>+7.2f} "
        f"{one.start_error:>+15.3f} {one.end_error:>+7.3f}  {one.voice or 'default'}"
    )


def _unspoken(one: Unspoken) -> str:
    where = f"line {one.line}" if one.number is None else f"cue {one.number} (line {one.line})"
    text = one.text if len(one.text) <= 200 else f"{one.text[:200]}…"
    return f"  {where}: {text or '(empty)'}: {one.reason}{'' if one.whole else '; the rest of the cue is spoken'}"
