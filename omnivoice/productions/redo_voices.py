"""The voice in which a line of a recording is spoken again.

A given voice or design comes first; else the speaker's other lines in the recording serve as the reference, with their
texts as its transcript, as a longer line does for short lines of a dialogue. The longest come first, up to ten seconds.
A model that knows single sentences gets one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ..errors import InputError
from ..intake.limits import MAX_VOICE_SECONDS, MIN_VOICE_SECONDS, shown
from ..text.pauses import PAUSE
from ..text.rules import TextRules
from ..types import GenerationRequest, VoicePrompt, Waveform
from .redo_places import RedoRequest
from .timings import TimedLine

REFERENCE_SECONDS = 10.0
GAP_SECONDS = 0.3  # of silence between two lines of a reference


def line_voice(
    request: RedoRequest, number: int, encode: Callable[[Waveform, str], VoicePrompt], rules: TextRules, *, single: bool
) -> tuple[GenerationRequest, str, tuple[str, ...]]:
    """Return the base request with the voice of a line, where the voice comes from, and warnings about it.

    single: use one line only. Raises InputError if there is no line to take the voice from.
    """
    if request.base.voice is not None or request.base.design is not None:
        return request.base, "the given voice", ()
    chosen = reference_lines(request, number, single=single)
    recording = _reference(request.recording, [request.timings[n - 1] for n in chosen])
    text = " ".join(_transcript(request.timings[n - 1].text, rules) for n in chosen)
    voice = encode(recording, text)
    source = f"the voice of line{'s' if len(chosen) > 1 else ''} {', '.join(map(str, chosen))}"
    return replace(request.base, voice=voice), source, voice.warnings


def reference_lines(request: RedoRequest, number: int, *, single: bool) -> list[int]:
    """Return the numbers of the lines that give the voice of a line: of its speaker, not spoken again themselves, the
    longest first, up to `REFERENCE_SECONDS` in all. In order of their numbers. Raises InputError for none."""
    speaker = request.timings[number - 1].speaker
    seconds = {
        n: line.end - line.start
        for n, line in enumerate(request.timings, 1)
        if line.speaker == speaker and n not in request.numbers and line.end - line.start <= MAX_VOICE_SECONDS
    }
    chosen, total = list[int](), 0.0
    for n in sorted(seconds, key=lambda n: (-seconds[n], n)):
        if not chosen or (total + seconds[n] <= REFERENCE_SECONDS and not single):
            chosen.append(n)
            total += seconds[n]
    if total < MIN_VOICE_SECONDS:
        whose = f"of {shown(speaker)} " if speaker is not None else ""
        raise InputError(
            f"no other line {whose}of {MIN_VOICE_SECONDS}-{MAX_VOICE_SECONDS} s is in the recording to take the voice "
            "from: give a voice or a design, or speak only some of its words again"
        )
    return sorted(chosen)


def _reference(recording: Waveform, lines: list[TimedLine]) -> Waveform:
    """Return the sound of lines, with silence between them."""
    rate, pieces = recording.sample_rate, list[torch.Tensor]()
    silence = torch.zeros(recording.samples.shape[0], round(GAP_SECONDS * rate))
    for line in lines:
        pieces += [recording.samples[:, round(line.start * rate) : round(line.end * rate)], silence]
    return Waveform(torch.cat(pieces[:-1], dim=1), rate)


def _transcript(text: str, rules: TextRules) -> str:
    """Return what a line says, without its pauses."""
    if rules.as_written:
        return text
    return " ".join(rules.restored(PAUSE.sub(" ", rules.shielded(text))).split())
