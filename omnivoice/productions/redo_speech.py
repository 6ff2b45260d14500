"""Lines of a finished recording spoken again: of a dialogue, a long text or subtitles, from the audio and its timings.

No script and no parts of the earlier run are needed. The sound of a line, from its first to its last sound, gives way
to the new speech; the silence around it and everything else stays as it is, sample for sample, and what follows moves
as the new speech is longer or shorter. The voice is a given one, else that of the speaker's other lines
(`redo_voices`). New speech is mono with a bandwidth of 12 kHz, in every channel at the level that the old line had
there; the noise of a room is not imitated.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from ..engine import Engine
from ..errors import AudioError, InputError
from ..intake.cancel import cancellable
from ..intake.limits import MAX_ORDER_CHARS, check_integer, check_number, check_switch, check_text_length, shown
from ..text.rules import TextRules
from ..types import GenerationPlan, Speech, VoicePrompt, Waveform
from .checks import Finding, check_speech
from .lines import PlanRequests, naming_line
from .long import SpeakPlans
from .redo_places import LinePlace, RedoRequest, Replaced, new_sound, place_of, replaced
from .redo_voices import line_voice
from .takes import with_seed
from .timings import ESTIMATED, TimedLine, TimedWord, estimated_words

EncodeVoice = Callable[[Waveform, str], VoicePrompt]
_SEEDS = 2**64
LATE = 0.05  # seconds that a line may end after the recording: times and lengths are rounded


@dataclass(frozen=True)
class RedoTools:
    """What runs the models. encode, plan: as `Engine.encode_voice` and `Engine.plan`. speak: as
    `Engine.generate_plans`. rules: what the model says about texts. single: its references are single sentences."""

    encode: EncodeVoice
    plan: PlanRequests
    speak: SpeakPlans
    rules: TextRules
    single: bool


def redo_tools(engine: Engine) -> RedoTools:
    """Return the tools of an engine."""
    return RedoTools(engine.encode_voice, engine.plan, engine.generate_plans, engine.rules, bool(engine.words))


@dataclass(frozen=True, eq=False)
class PreparedRedo:
    """A request whose lines have been found and planned. places, plans, voices: one for each line, in order of time.
    voices: where each voice comes from, in words."""

    request: RedoRequest
    places: tuple[LinePlace, ...]
    plans: tuple[GenerationPlan, ...]
    voices: tuple[str, ...]
    seed: int
    warnings: tuple[str, ...]
    rules: TextRules

    def with_seed(self, seed: int) -> PreparedRedo:
        """Return the same lines for another take."""
        plans = [with_seed(plan, (seed + index) % _SEEDS) for index, plan in enumerate(self.plans)]
        return replace(self, plans=tuple(plans), seed=seed)


@dataclass(frozen=True, eq=False)
class RedoneLines:
    """A recording with lines that were spoken again, at its own rate and in its own channels.

    lines: its timings. replaced: where each new line is, and how rough its joints are. findings: what is wrong with
    each new line; () if nothing was found.
    """

    waveform: Waveform
    lines: tuple[TimedLine, ...]
    seed: int
    replaced: tuple[Replaced, ...]
    findings: tuple[tuple[Finding, ...], ...]
    prepared: PreparedRedo
    warnings: tuple[str, ...]


def redo_lines(tools: RedoTools, request: RedoRequest, takes: int = 1) -> list[RedoneLines]:
    """Return takes of the recording, with seeds in a row. All lines of all takes are spoken in one run.

    Raises InputError, TextError or AudioError for a request that cannot be carried out, before anything is spoken.
    """
    check_integer("takes", takes)
    prepared = prepare_redo(tools, request)
    return finish_redos([prepared.with_seed((prepared.seed + take) % _SEEDS) for take in range(takes)], tools.speak)


def prepare_redo(tools: RedoTools, request: RedoRequest) -> PreparedRedo:
    """Check a request, find its lines and their voices, and plan the run."""
    _check_recording(request.recording)
    check_switch("keep_length", request.keep_length)
    numbers = check_lines(request.numbers, len(request.timings))
    check_timings(request.recording, request.timings)
    places = sorted((place_of(request.recording, request.timings, n) for n in numbers), key=lambda one: one.start)
    seed = secrets.randbelow(2**32) if request.base.seed is None else check_integer("seed", request.base.seed)
    plans, voices, warnings = list[GenerationPlan](), list[str](), list[str]()
    for index, place in enumerate(places):
        with naming_line(place.number):
            base, source, told = line_voice(request, place.number, tools.encode, tools.rules, single=tools.single)
            line = replace(
                base, text=request.timings[place.number - 1].text, seed=(seed + index) % _SEEDS, pad_seconds=0.0
            )
            if request.keep_length:
                line = replace(line, duration=place.seconds, exact_length=True)
            (plan,) = tools.plan([line])
        plans.append(plan)
        voices.append(source)
        warnings += [f"line {place.number}: {warning}" for warning in (*told, *plan.warnings)]
    told = tuple(dict.fromkeys(warnings))
    return PreparedRedo(request, tuple(places), tuple(plans), tuple(voices), seed, told, tools.rules)


def finish_redos(prepared: Sequence[PreparedRedo], speak: SpeakPlans) -> list[RedoneLines]:
    """Speak the lines of all prepared requests in one run, and put them into their recordings."""
    plans = [plan for one in prepared for plan in one.plans]
    speeches = iter(speak(plans))
    return [_finished(one, [next(speeches) for _ in one.plans]) for one in prepared]


def _finished(prepared: PreparedRedo, speeches: Sequence[Speech]) -> RedoneLines:
    request = prepared.request
    sounds = []
    for place, speech in zip(prepared.places, speeches):
        with naming_line(place.number):
            sounds.append(new_sound(request.recording, place, speech.waveform.samples, exact=request.keep_length))
    waveform, pieces = replaced(request.recording, prepared.places, sounds)
    findings = tuple(check_speech(plan, speech) for plan, speech in zip(prepared.plans, speeches))
    lines = moved_lines(request.timings, pieces, waveform.sample_rate, prepared.rules)
    return RedoneLines(waveform, lines, prepared.seed, pieces, findings, prepared, prepared.warnings)


def check_lines(numbers: Sequence[int], count: int) -> list[int]:
    """Return the numbers of lines; raises InputError for none, for one that is not 1 to `count`, and for two alike."""
    if not count:
        raise InputError("the timings have no lines: give those of the recording")
    if not numbers:
        raise InputError(f"say which line to speak again, from 1 to {count}")
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= count:
            raise InputError(f"line must be 1-{count}, the lines of the timings, got {shown(number)}")
    if twice := [number for number, count in Counter(numbers).items() if count > 1]:
        raise InputError(f"line {twice[0]} is named twice: leave out one of them")
    return list(numbers)


def parse_lines(text: object) -> tuple[int, ...]:
    """Return the numbers of lines in a text such as "3" or "3, 7"; raises InputError for anything else."""
    if isinstance(text, str):
        check_text_length(text, name="line", limit=MAX_ORDER_CHARS)
    parts = str(text).replace(",", " ").split() if isinstance(text, str) else []
    if not parts or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(f'line must be the number of a line, or several such as "3, 7", got {shown(text)}')
    return tuple(int(part) for part in parts)


def _check_recording(recording: Waveform) -> None:
    if not isinstance(recording, Waveform):
        raise InputError(f"the recording must be a Waveform, got {shown(recording)}")
    if recording.samples.shape[1] == 0:
        raise AudioError("the recording is empty, got 0 samples: give the speech that the timings belong to")
    if not bool(torch.isfinite(recording.samples).all()):
        raise AudioError("the recording must be finite, got NaN or infinite samples: export it again")


def check_timings(recording: Waveform, timings: Sequence[TimedLine]) -> None:
    """Raise InputError for lines that are not within the recording."""
    for number, line in enumerate(timings, 1):
        for time in (line.start, line.end):
            check_number("seconds", time, shown_as=f"the time of line {number}")
        if line.end > recording.seconds + LATE:
            raise InputError(
                f"line {number} ends at {line.end:.2f} s, but the recording lasts {recording.seconds:.2f} s: "
                "give the timings of this recording"
            )


def moved_lines(
    timings: Sequence[TimedLine], pieces: Sequence[Replaced], rate: int, rules: TextRules
) -> tuple[TimedLine, ...]:
    """Return the timings of the recording with new lines: later lines move, and new ones have new words.

    The words of new lines are estimated.
    """
    new, found = {piece.place.number: piece for piece in pieces}, []
    for number, line in enumerate(cancellable(timings), 1):
        moved = sum(piece.added for piece in pieces if piece.place.number != number and piece.place.before(line, rate))
        seconds = moved / rate
        words = tuple(TimedWord(one.word, one.start + seconds, one.end + seconds) for one in line.words)
        start, end, how = line.start + seconds, line.end + seconds, line.words_are
        if number in new:
            piece = new[number]
            end += piece.added / rate
            words = tuple(estimated_words(line.text, piece.start / rate, piece.end / rate, rules))
            how = ESTIMATED
        found.append(TimedLine(line.text, start, max(start, end), line.speaker, words, how))
    return tuple(found)
