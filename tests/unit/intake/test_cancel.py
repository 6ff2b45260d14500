"""Cancel: every door asks for it again and again while it works, and stops at once when the answer is yes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from omnivoice.audio.finish import finish_speech
from omnivoice.audio.mix import mix_of
from omnivoice.audio.resample import resample
from omnivoice.audio.training_clip import prepare_clip
from omnivoice.engine import Engine
from omnivoice.generate.plan import make_plan
from omnivoice.intake.cancel import cancellable, cancelled_by, hear_cancel
from omnivoice.productions.batch_rows import read_rows
from omnivoice.productions.checks import Expected, findings
from omnivoice.productions.redo_speech import moved_lines
from omnivoice.productions.subtitle_parser import parse_subtitles
from omnivoice.productions.timings import TimedLine, TimedWord, frames_json, parse_timings, sounding, srt_of
from omnivoice.text.dictionary_reader import parse_dictionary
from omnivoice.text.differences import word_changes, words_and_brackets
from omnivoice.text.normalise import normalise
from omnivoice.text.rules import PUBLISHED
from omnivoice.text.script import parse_script
from omnivoice.text.word_errors import compare
from omnivoice.train.manifests import read_manifest
from omnivoice.types import GenerationRequest, VoicePrompt, Waveform


class Stopped(BaseException):
    """A cancel; like ComfyUI's, no Exception."""


class Cancel:
    """Counts how often it is asked, and raises at one of the times."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.asked = at, 0

    def __call__(self) -> None:
        self.asked += 1
        if self.asked == self.at:
            raise Stopped


SENTENCES = "It was a long and quite remarkable sentence about the weather. " * 300
CUES = "".join(
    f"00:{i // 60:02}:{i % 60:02},000 --> 00:{i // 60:02}:{i % 60:02},900\nHello there.\n\n" for i in range(640)
)
WORDS = [{"word": "a", "start": i, "end": i + 1} for i in range(2_560)]
TIMED = [TimedLine("a", 0, 1, words=tuple(TimedWord("a", i, i + 1) for i in range(2_560)))]
NOISE = torch.rand(6, 48_000, generator=torch.Generator().manual_seed(0)) * 0.2 - 0.1
VOICE = VoicePrompt(torch.full((8, 40), 3), "Good morning.", 0.1)
CHINESE = "今天天气很好我们一起去公园散步吧"


def _rows(folder: Path) -> Path:
    path = folder / "list.csv"
    path.write_text("audio,text\n" + "a.wav,Hello there.\n" * 500)
    (folder / "a.wav").write_bytes(b"")
    return path


def _recordings(folder: Path) -> Path:
    for i in range(100):
        (folder / f"{i}.wav").write_bytes(b"")
        (folder / f"{i}.txt").write_bytes(b"Hello there.")
    return folder


def _batch(folder: Path) -> Path:
    path = folder / "list.jsonl"
    path.write_text('{"text": "Hello there."}\n' * 500)
    return path


def _folded(size: int) -> list[TimedLine]:
    return [TimedLine("a", i, i + 1) for i in range(size)]


# By name: how often Cancel must be asked for, and what makes the call of a door from an empty folder.
DOORS: dict[str, tuple[int, Callable[[Path], Callable[[], object]]]] = {
    "plan": (50, lambda _: partial(make_plan, GenerationRequest(SENTENCES, seed=1))),
    "plan of pauses": (200, lambda _: partial(make_plan, GenerationRequest("Hello [pause 0.1s] " * 200, seed=1))),
    "normalised plan": (500, lambda _: partial(normalise, "On 12/01/2026, 3.5% of 1,234 left. " * 200, "en")),
    "normalised Chinese": (400, lambda _: partial(normalise, "今天2026年12月1日3.5%。" * 200, "zh")),
    "dictionary": (10, lambda _: partial(parse_dictionary, "".join(f"a{i}=b{i}\n" for i in range(2_560)))),
    "script": (10, lambda _: partial(parse_script, "Anna: Good morning.\n" * 640)),
    "subtitles": (20, lambda _: partial(parse_subtitles, CUES)),
    "timings": (
        10,
        lambda _: partial(parse_timings, json.dumps({"lines": [{"text": "a", "start": 0, "end": 1, "words": WORDS}]})),
    ),
    "timings as SRT": (10, lambda _: partial(srt_of, TIMED, words=True)),
    "timings as frames": (10, lambda _: partial(frames_json, TIMED, 25, words=True)),
    "moved lines": (300, lambda _: partial(moved_lines, _folded(300), [], 24_000, PUBLISHED)),
    "list": (500, lambda folder: partial(read_manifest, _rows(folder))),
    "folder": (300, lambda folder: partial(read_manifest, _recordings(folder))),
    "batch": (500, lambda folder: partial(read_rows, _batch(folder))),
    "changed words": (20, lambda _: partial(_changes, CHINESE * 100, CHINESE[::-1] * 100)),
    "words heard": (300, lambda _: partial(compare, "a " + "b " * 300, "c " + "d " * 300)),
    "offsets": (6, lambda _: partial(mix_of, Waveform(NOISE + 0.05, 48_000))),
    "resampling": (2, lambda _: partial(resample, NOISE[:1], 23_999, 24_000)),
    "a clip": (6, lambda _: partial(prepare_clip, Waveform(NOISE, 48_000))),
    "finishing": (6, lambda _: _finish),
    "checks of speech": (2, lambda _: partial(findings, NOISE[:1].repeat(1, 12), Expected())),
    "sounding": (2, lambda _: partial(sounding, NOISE[:1].repeat(1, 12))),
}


def _changes(old: str, new: str) -> object:
    return word_changes(words_and_brackets(old), words_and_brackets(new))


def _finish() -> object:
    return finish_speech([NOISE[:1]] * 3, reference_rms=0.1, post_process=True, pad_seconds=0.1, fade_seconds=0.1)


@pytest.mark.parametrize(("least", "make"), DOORS.values(), ids=DOORS)
def test_a_door_asks_for_cancel_and_stops_at_once(
    tmp_path: Path, least: int, make: Callable[[Path], Callable[[], object]]
) -> None:
    call, cancel = make(tmp_path), Cancel()
    with cancelled_by(cancel):
        call()
    assert cancel.asked >= least
    for at in (1, 2, cancel.asked // 2, cancel.asked):
        stopping = Cancel(max(1, at))
        with pytest.raises(Stopped), cancelled_by(stopping):
            call()
        assert stopping.asked == stopping.at


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


def test_loading_a_model_asks_at_every_tensor(checkpoint: Path, engine: Engine) -> None:
    tensors = sum(len([*part.parameters()]) for part in (engine.lm, engine.codec.decoder))
    cancel = Cancel()
    with cancelled_by(cancel):
        Engine.load(checkpoint)
    assert cancel.asked >= tensors
    for at in (1, 4, cancel.asked // 2, cancel.asked):
        with pytest.raises(Stopped), cancelled_by(Cancel(at)):
            Engine.load(checkpoint)
    assert Engine.load(checkpoint).codec_fingerprint == engine.codec_fingerprint


@pytest.mark.parametrize(
    ("least", "use"),
    [
        (10, lambda engine: engine.encode_voice(Waveform(NOISE[:1].repeat(1, 5), 24_000), "Good morning.")),
        (
            2,
            lambda engine: engine.decode_voice(
                VoicePrompt(torch.full((8, 1_400), 3), "", 0.1, codec=engine.codec_fingerprint)
            ),
        ),
        (3, lambda engine: engine.plan([GenerationRequest("Hello.", seed=1)] * 3)),
        (2, lambda engine: engine.tokenizer.encode("Hello.") + engine.tokenizer.encode("Hello.")),
    ],
    ids=["encode", "decode", "plan", "tokenizer"],
)
def test_the_engine_asks_while_it_works(engine: Engine, least: int, use: Callable[[Engine], object]) -> None:
    use(engine)  # the first use loads what it needs
    cancel = Cancel()
    with cancelled_by(cancel):
        use(engine)
    assert cancel.asked >= least
    with pytest.raises(Stopped), cancelled_by(Cancel(cancel.asked)):
        use(engine)


def test_nothing_is_asked_outside_and_the_inner_check_counts() -> None:
    outer, inner = Cancel(), Cancel()
    hear_cancel()
    with cancelled_by(outer):
        hear_cancel()
        with cancelled_by(inner):
            hear_cancel()
        with pytest.raises(Stopped), cancelled_by(Cancel(1)):
            hear_cancel()
        hear_cancel()
    hear_cancel()
    assert (outer.asked, inner.asked) == (2, 1)


def test_another_thread_is_not_cancelled() -> None:
    cancel = Cancel()
    with cancelled_by(cancel):
        thread = threading.Thread(target=hear_cancel)
        thread.start()
        thread.join()
    assert cancel.asked == 0


@pytest.mark.parametrize(
    ("count", "every", "asked"), [(0, 1, 0), (1, 1, 1), (5, 1, 5), (5, 2, 3), (4, 2, 2), (3, 9, 1)]
)
def test_items_come_as_they_are(count: int, every: int, asked: int) -> None:
    cancel = Cancel()
    with cancelled_by(cancel):
        assert [*cancellable(range(count), every)] == [*range(count)]
    assert cancel.asked == asked
