"""When what is said: lines exactly, words by a recogniser or by an estimate that says so; as JSON, SRT and frames.

A line begins and ends where its samples do. The words of a line share the time between its first and last sound by
their weight in the estimate of durations (`text.duration`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from torch import Tensor

from ..constants import SAMPLE_RATE
from ..errors import InputError, OmniVoiceError
from ..intake.cancel import cancellable
from ..intake.limits import MAX_TIMED_WORDS, MAX_TIMINGS_CHARS, check_number, shown
from ..intake.strict_json import parse_json
from ..text.characters import STAND_INS, is_spoken
from ..text.differences import split_run
from ..text.duration import text_weight
from ..text.markup import without_markup
from ..text.pauses import PAUSE, pause_seconds
from ..text.removed import Removed
from ..text.rules import PUBLISHED, TextRules
from .cues import Cue
from .lines import SpokenLine
from .subtitle_writer import srt_text

ESTIMATED, RECOGNISED = "estimated", "recognised"
QUIET = 0.03  # of the peak; a window whose own peak is below it is silence
_UNSPOKEN = re.compile(r"\[[^\[\]\n]{1,200}\]|<[^<>\n]{1,100}>|\{[^{}\n]{1,100}\}")
_WORD = re.compile(r"\S+")
_DIGITS = 6  # of seconds; at 24,000 Hz this tells every sample
_NTSC = [Fraction(rate * 1000, 1001) for rate in (24, 30, 48, 60, 96, 120, 240)]


@dataclass(frozen=True)
class TimedWord:
    """One word and its time in seconds."""

    word: str
    start: float
    end: float


@dataclass(frozen=True)
class TimedLine:
    """One line and its time in seconds. words_are: ESTIMATED or RECOGNISED."""

    text: str
    start: float
    end: float
    speaker: str | None = None
    words: tuple[TimedWord, ...] = ()
    words_are: str = ESTIMATED


def timed_lines(lines: Sequence[SpokenLine], rules: TextRules = PUBLISHED) -> list[TimedLine]:
    """Return placed lines with their words. rules: what the model says about text."""
    return [timed_line(line.text, line.start, line.samples, line.speaker, rules) for line in lines]


def timed_line(
    text: str,
    start: int,
    samples: Tensor,
    speaker: str | None = None,
    rules: TextRules = PUBLISHED,
    *,
    sample_rate: int = SAMPLE_RATE,
) -> TimedLine:
    """Return the line of a text. start: of its `samples` [1, N] in the recording, in samples."""
    first, last = sounding(samples, sample_rate)
    words = estimated_words(text, (start + first) / sample_rate, (start + last) / sample_rate, rules)
    return TimedLine(text, start / sample_rate, (start + samples.shape[1]) / sample_rate, speaker, tuple(words))


def sounding(samples: Tensor, sample_rate: int = SAMPLE_RATE, quiet: float = QUIET) -> tuple[int, int]:
    """Return the first sample of the first window of 10 ms that is not silent, and the end of the last one.

    quiet: the share of the peak below which a window is silent."""
    window = sample_rate // 100
    peaks = [float(part.abs().max()) for part in cancellable(samples[0].split(window), 1_024)]
    loud = [i for i, peak in enumerate(peaks) if peak > quiet * max(peaks)]
    return (loud[0] * window, min((loud[-1] + 1) * window, samples.shape[1])) if loud else (0, samples.shape[1])


def estimated_words(text: str, start: float, end: float, rules: TextRules = PUBLISHED) -> Iterator[TimedWord]:
    """Yield the words of `text` with the share of the time from `start` to `end` that their weight has.

    The pauses of the text lie between them. Tags, pauses, phonemes in brackets and the model's own tokens are no words.
    In scripts without spaces each character is one.
    """
    words = list(_after_pauses(text, rules))
    silent = math.fsum(pause for _, pause in words[1:])
    if silent >= end - start:  # the text was spoken as written
        words, silent = [(word, 0.0) for word, _ in words], 0.0
    weights = [text_weight(word) for word, _ in words]
    each, at = (end - start - silent) / (math.fsum(weights) or 1.0), start
    for index, ((word, pause), weight) in enumerate(zip(words, weights)):
        at += pause if index else 0.0
        yield TimedWord(word, at, at + each * weight)
        at += each * weight


def _after_pauses(text: str, rules: TextRules) -> Iterator[tuple[str, float]]:
    """Yield each spoken word and the seconds of silence that the text asks for before it."""
    end, pause = 0, 0.0
    for mark in [*(() if rules.as_written else PAUSE.finditer(text)), None]:
        for word in words_of(text[end : mark.start() if mark else None], rules):
            if any(map(is_spoken, word)):
                yield word, pause
                pause = 0.0
        if mark:
            end, pause = mark.end(), pause + pause_seconds(mark)


def words_of(text: str, rules: TextRules = PUBLISHED) -> list[str]:
    """Return the words of a text with their punctuation; each Han and kana character is one."""
    bare = _UNSPOKEN.sub(" ", STAND_INS.sub(" ", rules.shielded(text)))
    return [word for match in _WORD.finditer(bare) for word in split_run(match[0])]


def timings_json(lines: Sequence[TimedLine], seconds: float, **more: object) -> str:
    """Return the times as JSON, which `parse_timings` reads; in seconds, rounded to 1 µs. more: other entries."""
    rows = [
        {
            **_rounded(line),
            "speaker": line.speaker,
            "text": line.text,
            "words_are": line.words_are,
            "words": [{"word": one.word, **_rounded(one)} for one in line.words],
        }
        for line in lines
    ]
    return json.dumps({"seconds": round(seconds, _DIGITS), **more, "lines": rows}, ensure_ascii=False, indent=1)


def _rounded(timed: TimedLine | TimedWord) -> dict[str, float]:
    return {"start": round(timed.start, _DIGITS), "end": round(timed.end, _DIGITS)}


def parse_timings(text: object) -> list[TimedLine]:
    """Return the lines of `timings_json`; raises InputError for anything else.

    More than `MAX_TIMED_WORDS` lines or words are refused before one of them is read.
    """
    if isinstance(text, str) and len(text) > MAX_TIMINGS_CHARS:
        raise InputError(f"timings must be at most {MAX_TIMINGS_CHARS} characters, got {len(text)}: use a shorter part")
    if isinstance(text, str) and text.count("{") > 3 * MAX_TIMED_WORDS:  # some of them in texts
        raise InputError(
            f"timings must have at most {MAX_TIMED_WORDS} lines and {MAX_TIMED_WORDS} words, got more: use those of a "
            "shorter part"
        )
    try:
        rows = _rows(text)
        lists = [row["words"] for row in rows if isinstance(row, dict) and isinstance(row.get("words"), list)]
        if max(count := len(rows), words := sum(map(len, lists))) <= MAX_TIMED_WORDS:
            return [_line(row) for row in cancellable(rows, 256)]
    except (OmniVoiceError, KeyError, TypeError) as error:
        raise InputError(
            f"timings must be the timings output of a node or the JSON file of narrate, got {shown(text)}"
        ) from error
    raise InputError(
        f"timings must have at most {MAX_TIMED_WORDS} lines and {MAX_TIMED_WORDS} words, got {count} and {words}: use "
        "those of a shorter part"
    )


def _rows(text: object) -> list[object]:
    table = parse_json(text.encode(errors="replace") if isinstance(text, str) else b"", "timings")
    rows = table.get("lines") if isinstance(table, dict) else None
    if not isinstance(rows, list):
        raise InputError("there are no lines in it")
    return rows


def _line(row: Any) -> TimedLine:
    if not isinstance(row, dict):
        raise InputError("a line is not an object")
    words = tuple(TimedWord(str(word["word"]), *_times(word)) for word in cancellable(row.get("words") or (), 256))
    speaker = row.get("speaker")
    return TimedLine(
        str(row["text"]), *_times(row), None if speaker is None else str(speaker), words, str(row.get("words_are", ""))
    )


def _times(row: Any) -> tuple[float, float]:
    start, end = (check_number("seconds", row[key]) for key in ("start", "end"))
    if end < start:
        raise InputError("it ends before it starts")
    return start, end


def srt_of(lines: Sequence[TimedLine], rules: TextRules = PUBLISHED, *, words: bool = False) -> str:
    """Return the lines, or each word, as SRT. Pauses and markup are left out.

    rules: of the model that speaks, whose own tokens stay although they look like markup.
    """
    if not words:
        rows = [(line.start, line.end, line.text, line.speaker) for line in lines]
    else:
        rows = [(word.start, word.end, word.word, None) for line in lines for word in line.words]
    return srt_text([_cue(i, *row, rules) for i, row in enumerate(cancellable(rows, 256), 1)])


def _cue(number: int, start: float, end: float, text: str, speaker: str | None, rules: TextRules) -> Cue:
    bare = rules.restored(without_markup(PAUSE.sub(" ", rules.shielded(text)), Removed()))
    shown_text = " ".join(bare.split())
    return Cue(number, round(start * 1000), round(end * 1000), shown_text, speaker)


def frames_json(lines: Sequence[TimedLine], fps: float, *, words: bool = False) -> str:
    """Return [{"frame", "last_frame", "text"}] at `fps` as JSON: the video frames, from 0, in which a line or word is
    heard first and last. 23.976, 23.98, 29.97, 59.94 and the like mean 24000/1001, 30000/1001 and so on."""
    rate = _rate(check_number("fps", fps))
    timed = (
        [(w.word, w.start, w.end) for line in lines for w in line.words]
        if words
        else [(line.text, line.start, line.end) for line in lines]
    )
    rows = []
    for text, start, end in cancellable(timed, 256):
        first, last = math.floor(_exact(start) * rate), math.ceil(_exact(end) * rate) - 1
        rows.append({"frame": first, "last_frame": max(first, last), "text": text})
    return json.dumps(rows, ensure_ascii=False, indent=1)


def _rate(fps: float) -> Fraction:
    return next((rate for rate in _NTSC if abs(fps - rate) < 0.005), Fraction(fps))


def _exact(seconds: float) -> Fraction:
    """Return the time of the nearest sample; as a float, 0.6 s at 10 fps would be frame 5."""
    return Fraction(round(seconds * SAMPLE_RATE), SAMPLE_RATE)
