"""A line of a dialogue in the demo voice, spoken again: its words are heard, its voice stays, the rest is untouched."""

from __future__ import annotations

import pytest
import torch

from demo_voice.making import grammar
from demo_voice.making.language_model import INSTRUCTS
from omnivoice.audio.resample import resample
from omnivoice.productions.cast import Cast, Speaker
from omnivoice.productions.dialogue import Dialogue, speak_dialogue
from omnivoice.productions.redo_places import RedoRequest
from omnivoice.productions.redo_speech import redo_lines, redo_tools
from omnivoice.productions.timings import timed_lines
from omnivoice.text.script import parse_script
from omnivoice.types import GenerationRequest, Sampling, Waveform
from tests.demo.demo_fixtures import STEPS, engine, held_out, understood, voice_judge

VOICES = tuple(sorted(INSTRUCTS)[:2])
BASE = GenerationRequest("", language="en", seed=1, sampling=Sampling(steps=STEPS))
WELL = 0.7  # as for a cloned voice


@pytest.fixture(scope="module")
def dialogue() -> Dialogue:
    script = parse_script("\n".join(f"{'AB'[i % 2]}: {grammar.written(one)}" for i, one in enumerate(held_out(4))))
    cast = Cast(tuple(Speaker(name, design=INSTRUCTS[voice]) for name, voice in zip("AB", VOICES)))
    return speak_dialogue(script, cast, BASE, engine().plan, engine().generate)


def test_redone_lines_are_heard_in_the_same_voice_and_others_untouched(dialogue: Dialogue) -> None:
    rate, channels = 44_100, 2
    samples = resample(dialogue.waveform.samples, 24_000, rate).expand(channels, -1).contiguous()
    whole, lines, words = Waveform(samples, rate), timed_lines(dialogue.lines, engine().rules), held_out(4)
    numbers = (1, 4)
    (take,) = redo_lines(redo_tools(engine()), RedoRequest(whole, lines, numbers, BASE))
    sounds = [whole_line(take.waveform, line.start, line.end) for n, line in enumerate(take.lines, 1) if n in numbers]
    assert understood([words[n - 1] for n in numbers], sounds) >= WELL
    voices = [voice_judge().voice(sound) for sound in sounds]
    assert sum(voice == VOICES[(n - 1) % 2] for n, voice in zip(numbers, voices)) == 2
    for old, new in zip(lines[1:3], take.lines[1:3]):
        first, start = round(old.start * rate), round(new.start * rate)
        count = round((old.end - old.start) * rate)
        assert torch.equal(whole.samples[:, first : first + count], take.waveform.samples[:, start : start + count])


def whole_line(waveform: Waveform, start: float, end: float) -> torch.Tensor:
    """Return the sound of a line, [N] at 24 kHz."""
    rate = waveform.sample_rate
    return resample(waveform.samples[:1, round(start * rate) : round(end * rate)], rate, 24_000)[0]
