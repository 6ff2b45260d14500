"""Edits end to end on the tiny checkpoint: what is kept bit for bit, lengths, batches, takes, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from omnivoice.engine import Engine
from omnivoice.errors import AudioError, InputError, OmniVoiceError, TextError
from omnivoice.productions.edit import (
    Edited,
    EditRequest,
    EditTools,
    edit_speech,
    edit_tools,
    finish_edits,
    prepare_edit,
)
from omnivoice.productions.edit_places import ESTIMATED_CUT
from omnivoice.productions.edit_report import edit_report
from omnivoice.productions.edit_sound import sound_of
from omnivoice.productions.timings import TimedWord
from omnivoice.types import Sampling, Waveform

OLD, NEW = "Good morning to you all.", "Good evening to you all."


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


def _speech(seconds: float = 2.4, rate: int = 24_000, channels: int = 1, seed: int = 0) -> Waveform:
    """Syllable-like bursts of a harmonic tone with some noise, on the 16-bit grid."""
    t = torch.arange(round(seconds * rate)) / rate
    noise = torch.rand(channels, len(t), generator=torch.Generator().manual_seed(seed)) - 0.5
    tone = sum(torch.sin(2 * math.pi * 140 * k * t) / k for k in range(1, 12))
    envelope = (torch.sin(2 * math.pi * 2.5 * t).clamp(min=0.02)) * (t > 0.1) * (t < seconds - 0.1)
    samples = 0.1 * envelope * tone + 0.004 * noise
    return Waveform((samples * 32768).round() / 32768, rate)


def _request(recording: Waveform | None = None, old: str = OLD, new: str = NEW, **more: object) -> EditRequest:
    return EditRequest(recording or _speech(), old, new, **{"seed": 1, "quick": True, **more})  # type: ignore[arg-type]


def _edit(engine: Engine, request: EditRequest) -> Edited:
    return edit_speech(engine, [request])[0]


@pytest.mark.parametrize(
    ("rate", "channels"), [(24_000, 1), (24_000, 2), (44_100, 2), (48_000, 1), (22_050, 2), (16_000, 1), (8_000, 2)]
)
def test_what_is_kept_is_bit_for_bit_the_recording(engine: Engine, rate: int, channels: int) -> None:
    recording = _speech(rate=rate, channels=channels)
    before = recording.samples.clone()
    edited = _edit(engine, _request(recording))
    samples = edited.waveform.samples
    assert edited.waveform.sample_rate == rate and samples.shape[0] == channels
    (span,) = edited.spans
    added = span.frames - (span.end - span.start)
    assert samples.shape[1] == before.shape[1] + round(added * rate / 25)
    assert len(edited.kept) == 2
    for kept in edited.kept:
        length = kept.end - kept.start
        assert length > rate / 10
        assert torch.equal(samples[:, kept.result_start : kept.result_start + length], before[:, kept.start : kept.end])
    assert torch.equal(recording.samples, before)


@pytest.mark.parametrize(
    ("old", "new", "spans"),
    [
        (OLD, NEW, 1),
        (OLD, "Good morning to you.", 1),
        (OLD, "Good morning to you all, my friends.", 1),
        (OLD, "Very good morning to you all.", 1),
        (OLD, "Good evening to you both.", 2),
        ("Good morning to you all. How are you today? I am here.", "Good evening to you all. How are they today?", 3),
    ],
)
def test_all_kinds_of_changes(engine: Engine, old: str, new: str, spans: int) -> None:
    recording = _speech(2.4 if len(old) < 30 else 5.0)
    edited = _edit(engine, _request(recording, old, new))
    assert edited.text == new
    assert 1 <= len(edited.spans) <= spans
    added = sum(span.frames - (span.end - span.start) for span in edited.spans)
    assert edited.waveform.samples.shape[1] == recording.samples.shape[1] + 960 * added
    assert bool(torch.isfinite(edited.waveform.samples).all())
    report = edit_report(edited)
    assert report.count("kept sample for sample") == len(edited.kept) and "seed 1" in report


def test_a_deletion_needs_no_language_model(engine: Engine) -> None:
    def fill(plans: object, codes: object) -> list[Tensor]:
        raise AssertionError("nothing is to be filled")

    tools = edit_tools(engine)
    prepared = prepare_edit(engine, _request(new="Good morning to all."), tools.encode)
    (edited,) = finish_edits([prepared], EditTools(tools.encode, fill, tools.decode))
    assert edited.waveform.samples.shape[1] < _speech().samples.shape[1]
    assert "“you” deleted" in edit_report(edited) and "nothing had to be spoken" in edit_report(edited)
    assert edited.warnings == (ESTIMATED_CUT,)
    given = _edit(engine, _request(new="Good morning to all.", spans=((1.5, 1.8),)))
    assert given.warnings == () and (given.spans[0].start, given.spans[0].end) == (38, 45)


def test_the_report_names_the_words_that_were_kept(engine: Engine) -> None:
    times = tuple(TimedWord(word, 0.2 + 0.4 * i, 0.5 + 0.4 * i) for i, word in enumerate(OLD.split()))
    lines = edit_report(_edit(engine, _request(new="Good morning for you all.", word_times=times))).splitlines()
    kept = [line for line in lines if line.startswith("kept")]
    assert len(kept) == 2 and kept[0].endswith("s of the recording: “Good … morning”")
    assert kept[1].endswith("s of the recording: “all.”")
    assert lines[0].startswith("“to” became “for” at ") and "(found by the recogniser)" in lines[0]


def test_an_edit_alone_equals_the_edit_in_a_batch(engine: Engine) -> None:
    requests = [_request(), _request(_speech(3.0, seed=2), new="Good morning to them all.", seed=7)]
    together = edit_speech(engine, requests)
    for one, request in zip(together, requests):
        assert torch.equal(one.waveform.samples, _edit(engine, request).waveform.samples)


def test_takes_share_one_preparation(engine: Engine) -> None:
    tools = edit_tools(engine)
    prepared = prepare_edit(engine, _request(), tools.encode)
    first, other = finish_edits([prepared.with_seed(5), prepared.with_seed(6)], tools)
    assert (first.seed, other.seed) == (5, 6)
    assert torch.equal(first.waveform.samples, _edit(engine, _request(seed=5)).waveform.samples)
    assert torch.equal(other.waveform.samples, _edit(engine, _request(seed=6)).waveform.samples)


def test_words_are_spoken_again_where_the_span_says(engine: Engine) -> None:
    request = _request(new=OLD, spans=((0.8, 1.2),))
    edited = _edit(engine, request)
    (span,) = edited.spans
    assert (span.start, span.end, span.frames) == (20, 30, 10)
    assert span.old == span.new and span.found == "given"
    assert edited.waveform.samples.shape == request.recording.samples.shape
    assert "spoken again" in edit_report(edited)


@pytest.mark.parametrize("order", ["codebooks", "together"])
def test_the_order_and_the_steps_are_used(engine: Engine, order: str) -> None:
    steps = {"codebooks": 13, "together": 16}[order]
    assert f"{order}, {steps} steps" in edit_report(_edit(engine, _request(order=order)))


def test_known_codes_are_not_encoded_again(engine: Engine) -> None:
    recording = _speech()
    codes = engine.codec.encode(sound_of(recording).samples)

    def encode(samples: Tensor) -> Tensor:
        raise AssertionError("the codes are known")

    tools = edit_tools(engine)
    prepared = prepare_edit(engine, _request(recording, codes=codes), encode)
    (edited,) = finish_edits([prepared], tools)
    assert torch.equal(edited.waveform.samples, _edit(engine, _request(recording)).waveform.samples)


def test_a_word_in_a_long_recording_opens_only_its_sentence(engine: Engine) -> None:
    """The model is shown the sentence and its neighbours, not the minute around them."""
    names = ("Anna", "Boris", "Clara", "David", "Emil", "Frida", "Gustav", "Helen", "Igor", "Julia", "Karl", "Laura")
    sentences = [f"This is the house of {name}." for name in (*names, "Maria", "Nora", "Oscar", "Paula")]
    changed = [*sentences[:10], "This was the house of Karl.", *sentences[11:]]
    prepared = prepare_edit(
        engine, _request(_speech(40.0), " ".join(sentences), " ".join(changed)), edit_tools(engine).encode
    )
    (part,) = prepared.parts
    assert part.plan is not None and "This was the house of Karl." in part.plan.chunks[0].text
    assert part.codes.shape[1] < 8 * 25


QUIET = Waveform(torch.zeros(1, 48_000), 24_000)
BAD: list[tuple[str, EditRequest, type[OmniVoiceError], str]] = [
    ("no waveform", replace(_request(), recording=torch.zeros(9)), InputError, "the recording must be a Waveform"),  # type: ignore[arg-type]
    ("empty", _request(Waveform(torch.zeros(1, 0), 24_000)), AudioError, "the recording is empty, got 0 samples"),
    ("silent", _request(QUIET), AudioError, "the recording is silent: check that the right track was recorded"),
    ("nan", _request(Waveform(torch.full((1, 48_000), math.nan), 24_000)), AudioError, "the recording must be finite"),
    ("rate", _request(Waveform(_speech().samples, 1_000)), AudioError, "sample rate must be a whole number of Hz"),
    ("same", _request(new=OLD), InputError, "nothing to change"),
    ("nothing left", _request(new=""), TextError, "the new text has no word"),
    ("no words", _request(old="..."), TextError, "the transcript has no word"),
    ("order", _request(order="random"), InputError, "order must be one of codebooks, together, got 'random'"),
    ("pause", _request(new="Good [pause 1s] evening to you all."), TextError, "can hold no pause marks"),
    ("seed", _request(seed=-1), InputError, "seed must be"),
    ("guidance", _request(sampling=Sampling(guidance=99)), InputError, "guidance must be 0-10, got 99"),
    ("language", _request(language="klingonese"), InputError, "klingonese"),
    ("context", _request(context_seconds=math.nan), InputError, "context_seconds must be"),
    ("quick", _request(quick="yes"), InputError, "quick must be true or false, got 'yes'"),
    ("seconds", _request(seconds=-1.0), InputError, "seconds must be"),
    ("seconds of two", _request(new="Good evening to you both.", seconds=1.0), InputError, "seconds"),
    ("text", _request(new=3), TextError, "must be a string, got 3"),
    ("codes", _request(codes=torch.zeros(8, 3, dtype=torch.int64)), InputError, r"codes must be \[8, 60\] integers"),
    ("codes of floats", _request(codes=torch.zeros(8, 60)), InputError, r"codes must be \[8, 60\] integers"),
    ("codes too high", _request(codes=torch.full((8, 60), 1024)), InputError, "codes must be 0-1023"),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_requests_that_cannot_be_carried_out(
    engine: Engine, request_: EditRequest, error: type[OmniVoiceError], message: str
) -> None:
    with pytest.raises(error, match=message):
        _edit(engine, request_)


@pytest.mark.parametrize("gap", [0.0, 0.16, 0.6, 2.0])
@pytest.mark.parametrize(("sentence", "old", "new"), [(0, "morning", "evening"), (1, "all", "both"), (2, "Bye", "Hi")])
def test_the_model_is_shown_little_silence_around_a_sentence(
    engine: Engine, gap: float, sentence: int, old: str, new: str
) -> None:
    texts = ["Good morning to you.", "How are you all today?", "Bye my dear friends."]
    silence = torch.zeros(1, round(gap * 24_000))
    pieces = [silence, *(piece for n in range(3) for piece in (_speech(1.6, seed=n).samples, silence))]
    changed = [text.replace(old, new) if n == sentence else text for n, text in enumerate(texts)]
    request = _request(Waveform(torch.cat(pieces, 1), 24_000), " ".join(texts), " ".join(changed), context_seconds=0.0)
    prepared = prepare_edit(engine, request, engine.codec.encode)
    (part,), (span,) = prepared.parts, prepared.found.spans
    masked = (part.codes == engine.lm.config.audio_mask_id).all(0)
    assert int(masked.sum()) == span.frames
    shown = part.codes.shape[1] - span.frames + span.end - span.start  # frames of the recording
    # 1.4 s of sound, 0.1 s of silence on either side, and what is left of the frames at both ends.
    assert shown <= 42
