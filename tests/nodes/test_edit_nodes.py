"""Edit Speech and Redo as nodes: what is kept, takes, timings, memory and Cancel, and what is refused."""

from __future__ import annotations

import json
import math

import pytest
import torch

OLD, NEW = "Good morning to you all.", "Good evening to you all."
TIMES = (0.1, 0.5, 1.0, 1.3, 1.6, 2.2)  # at which the words of OLD begin, and the end


def speech(seconds: float = 2.4, rate: int = 24_000, channels: int = 1, batch: int = 1) -> dict[str, object]:
    """AUDIO with syllable-like bursts of a harmonic tone and some noise."""
    t = torch.arange(round(seconds * rate)) / rate
    noise = torch.rand(batch, channels, len(t), generator=torch.Generator().manual_seed(0)) - 0.5
    tone = sum(torch.sin(2 * math.pi * 140 * k * t) / k for k in range(1, 12))
    envelope = (torch.sin(2 * math.pi * 2.5 * t).clamp(min=0.02)) * (t > 0.1) * (t < seconds - 0.1)
    return {"waveform": 0.1 * envelope * tone + 0.004 * noise, "sample_rate": rate}


def timings(words_are: str = "recognised", text: str = OLD) -> str:
    words = [{"word": word, "start": start, "end": end} for word, start, end in zip(text.split(), TIMES, TIMES[1:])]
    line = {"start": 0.0, "end": 2.4, "speaker": None, "text": text, "words_are": words_are, "words": words}
    return json.dumps({"seconds": 2.4, "lines": [line]})


def edit(nodes, model, **inputs):
    given = {"audio": speech(), "transcript": OLD, "new_transcript": NEW, "seed": 3, "quality": "quick"}
    return nodes["OmniVoiceEditSpeech"].execute(model=model, **{**given, **inputs}).values


def redo(nodes, model, **inputs):
    given = {"audio": speech(), "transcript": OLD, "words": "morning", "seed": 3, "quality": "quick", "takes": 2}
    return nodes["OmniVoiceRedo"].execute(model=model, **{**given, **inputs}).values


def settings(nodes, **values):
    return nodes["OmniVoiceSettings"].execute(**values).values[0]


@pytest.mark.parametrize(
    ("rate", "channels", "order"),
    [
        (24_000, 1, "codebook by codebook"),
        (44_100, 2, "codebook by codebook"),
        (44_100, 2, "together"),
        (16_000, 1, "together"),
    ],
)
def test_an_edit_keeps_the_rest(nodes, model, rate: int, channels: int, order: str) -> None:
    before = speech(rate=rate, channels=channels)
    audio, report, text = edit(nodes, model, audio=before, order=order)
    old, new = before["waveform"], audio["waveform"]
    assert text == NEW and audio["sample_rate"] == rate and new.shape[:2] == (1, channels)
    assert new.dtype == torch.float32 and new.is_contiguous()
    assert torch.equal(old[..., : rate // 10], new[..., : rate // 10])
    assert torch.equal(old[..., -rate // 2 :], new[..., -rate // 2 :])
    assert new.shape != old.shape or not torch.equal(old, new)
    assert torch.equal(before["waveform"], speech(rate=rate, channels=channels)["waveform"])  # the input's own samples
    assert report.startswith("“morning” became “evening” at ")
    steps = "13 steps" if order.startswith("codebook") else "16 steps"
    assert steps in report and "kept sample for sample: 0.00-" in report and "\njoints: " in report


def test_quality_and_steps(nodes, model) -> None:
    assert "26 steps" in edit(nodes, model, quality="normal")[1]
    four = settings(nodes, steps=4)
    assert "4 steps" in edit(nodes, model, quality="normal", order="together", settings=four)[1]
    assert "2 steps" in edit(nodes, model, quality="quick", order="together", settings=four)[1]


def test_settings_reach_the_run(nodes, model) -> None:
    plain = edit(nodes, model)[0]["waveform"]
    assert torch.equal(plain, edit(nodes, model, settings=settings(nodes, guidance=2.0))[0]["waveform"])
    assert not torch.equal(plain, edit(nodes, model, settings=settings(nodes, guidance=0.0))[0]["waveform"])


@pytest.mark.parametrize(
    ("values", "order", "message"),
    [
        (
            {"fade_seconds": 0.3},
            "codebook by codebook",
            "fade_seconds in Settings is not for edits: .* leave it at 0.1",
        ),
        ({"denoise": False}, "together", "denoise in Settings is not for edits: .* leave it at True"),
        ({"normalise": True}, "together", "normalise in Settings is not for edits"),
        ({"chunking": "upstream"}, "together", "chunking in Settings is not for edits: .* leave it at sentences"),
        ({"steps": 8}, "codebook by codebook", "steps in Settings is not for edits: .* order codebook by codebook"),
        ({"prefix_every": 2}, "codebook by codebook", "prefix_every in Settings"),
        ({"layer_penalty": 1.0}, "codebook by codebook", "layer_penalty in Settings"),
    ],
)
@pytest.mark.parametrize("node", [edit, redo])
def test_settings_that_would_have_no_effect_are_refused(nodes, model, node, values, order: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        node(nodes, model, order=order, settings=settings(nodes, **values))


@pytest.mark.parametrize("transcript", ["", " \n", None])
def test_timings_are_the_transcript_where_it_is_empty(nodes, model, transcript: str | None) -> None:
    _, report, text = edit(nodes, model, transcript=transcript, timings=timings())
    assert text == NEW and "became “evening”" in report
    assert redo(nodes, model, transcript=transcript, timings=timings(), takes=1)[3] == timings()


def test_estimated_times_are_not_taken_for_recognised_ones(nodes, model) -> None:
    told = "warning: the times of the words in timings are estimates"
    assert told in edit(nodes, model, timings=timings("estimated"))[1]
    assert told not in edit(nodes, model, timings=timings())[1]


def test_spans_and_seconds(nodes, model) -> None:
    audio, report, _ = edit(nodes, model, span="0.48-1.0", seconds=0.8)
    assert "0.48-1.00 s (as given)" in report
    assert audio["waveform"].shape[-1] == round((2.4 + 0.8 - 0.52) * 24_000)
    assert torch.equal(edit(nodes, model, seconds=0)[0]["waveform"], edit(nodes, model)[0]["waveform"])


def test_takes_are_the_same_edit_with_seeds_in_a_row(nodes, model) -> None:
    varied = settings(nodes, class_temperature=1.0)
    audio, every, report, _ = redo(nodes, model, takes=3, take=2, settings=varied)
    assert len(every) == 3 and torch.equal(audio["waveform"], every[1]["waveform"])
    assert report.startswith("take 2 of 3, seed 4\n")
    assert [line.split()[1:4] for line in report.splitlines()[1:4]] == [[str(i), "seed", str(i + 2)] for i in (1, 2, 3)]
    assert "“morning” spoken again at " in report
    before = speech()["waveform"]
    alone = redo(nodes, model, takes=1, seed=5, settings=varied)[0]
    assert torch.equal(every[2]["waveform"], alone["waveform"])
    for take in every:
        assert take["waveform"].shape == before.shape
        assert torch.equal(take["waveform"][..., :2400], before[..., :2400])
        assert torch.equal(take["waveform"][..., -12_000:], before[..., -12_000:])
    assert not torch.equal(every[0]["waveform"], every[1]["waveform"])


def two_lines() -> dict[str, object]:
    """A recording of 4.8 s with two lines of Ann's, and its timings."""
    one = speech()["waveform"]
    rows = [
        {"text": text, "start": start, "end": start + 2.4, "speaker": "Ann", "words_are": "estimated", "words": []}
        for text, start in ((OLD, 0.0), ("How are you all today?", 2.4))
    ]
    audio = {"waveform": torch.cat([one, one], dim=-1), "sample_rate": 24_000}
    return {"audio": audio, "timings": json.dumps({"seconds": 4.8, "lines": rows}), "words": "", "transcript": ""}


def test_a_line_is_spoken_again_and_later_lines_move(nodes, model, host) -> None:
    given = {**two_lines(), "quality": None, "settings": settings(nodes, steps=4, class_temperature=1.0)}
    audio, every, report, timed = redo(nodes, model, line="1", take=2, **given)
    assert (
        report.startswith("take 2 of 2, seed 4\n  take  1  seed 3  joints ") and "\nline 1 spoken again at " in report
    )
    first, second = json.loads(timed)["lines"]
    assert first["text"] == OLD and [word["word"] for word in first["words"]] == OLD.split()
    moved = round((second["start"] - 2.4) * 24_000)
    before, after = given["audio"]["waveform"], audio["waveform"]
    assert after.shape[-1] == before.shape[-1] + moved
    assert torch.equal(before[..., -57_600:], after[..., -57_600:])
    assert len(every) == 2 and torch.equal(every[1]["waveform"], after)
    loaded = [patchers for patchers, _ in host.loads]
    assert loaded[-1] == [model.lm, model.decoder] and [model.encoder] in loaded


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"line": "3"}, "line must be 1-2, the lines of the timings, got 3"),
        ({"line": "0"}, "line must be 1-2"),
        ({"line": "one"}, "line must be the number of a line"),
        ({"line": "1, 1"}, "line 1 is named twice"),
        ({"line": "1", "timings": ""}, "line needs timings"),
        ({"line": "1", "transcript": OLD}, "transcript is for words and spans"),
        ({"line": "1", "order": "together"}, "order is for words and spans"),
        ({"line": "1", "quality": "quick"}, "quality is for words and spans"),
        ({"line": "1", "voice": 3}, "voice must come from"),
        ({"line": "1", "design": 3}, "design must come from"),
        ({"line": "2", "audio": speech()}, "line 2 ends at 4.80 s, but the recording lasts 2.40 s"),
        ({"line": "1", "settings": {"steps": 3}}, "settings must come from OmniVoice Settings"),
    ],
)
def test_lines_that_cannot_be_spoken_again_are_refused(nodes, model, inputs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        redo(nodes, model, **{**two_lines(), "quality": None, **inputs})


def test_take_0_is_the_first(nodes, model) -> None:
    audio, every, *_ = redo(nodes, model, take=0)
    assert torch.equal(audio["waveform"], every[0]["waveform"])


def test_redo_of_a_span_and_of_words_that_stand_there_twice(nodes, model) -> None:
    *_, report, _ = redo(nodes, model, words="", span="0.5-1.0", takes=1)
    assert "spoken again at 0.48-1.00 s (as given)" in report or "spoken again at 0.52-1.00 s (as given)" in report
    twice = "So good, so good, my old friend."
    with pytest.raises(ValueError, match="are 2 times in the transcript: write so good#1 for the first, so good#2"):
        redo(nodes, model, transcript=twice, words="so good")
    assert "spoken again" in redo(nodes, model, transcript=twice, words="so good#2", takes=1)[2]


def test_timings_of_redo_without_any_are_those_of_the_words(nodes, model) -> None:
    table = json.loads(redo(nodes, model, takes=1)[3])
    (line,) = table["lines"]
    assert table["seconds"] == 2.4 and line["text"] == OLD and line["words_are"] == "estimated"
    assert [word["word"] for word in line["words"]] == OLD.split()


def test_each_module_is_loaded_when_it_is_needed(nodes, model, host) -> None:
    host.loads.clear()
    edit(nodes, model)
    assert [patchers for patchers, _ in host.loads] == [[model.encoder], [model.lm, model.decoder], [model.decoder]]
    assert all(memory > 0 for _, memory in host.loads)
    assert host.progress[-1] == (13, 13)


def test_a_deletion_runs_no_language_model(nodes, model, host) -> None:
    host.loads.clear()
    _, report, _ = edit(nodes, model, new_transcript="Good to you all.")
    assert "“morning” deleted" in report and "nothing had to be spoken" in report
    assert all(model.lm not in patchers for patchers, _ in host.loads)


def test_cancel_works_at_every_step(nodes, model, host, interrupt: type[BaseException]) -> None:
    host.interrupt_after = 2
    with pytest.raises(interrupt):
        redo(nodes, model)
    assert len(host.progress) == 2


def test_the_node_shows_what_was_done(nodes, model, host) -> None:
    edit(nodes, model, timings=timings("estimated"))
    shown = host.texts[-1][0]
    assert shown.startswith("“morning” became “evening”") and "estimates" in shown
    redo(nodes, model)
    assert host.texts[-1][0].startswith("take 1 of 2, seed 3\n“morning” spoken again")


SILENCE = {"waveform": torch.zeros(1, 1, 48_000), "sample_rate": 24_000}
NAN = {"waveform": torch.full((1, 1, 48_000), math.nan), "sample_rate": 24_000}
EMPTY = {"waveform": torch.zeros(1, 1, 0), "sample_rate": 24_000}
BOTH = [
    ({"model": 3}, "model must come from Load OmniVoice"),
    ({"audio": None}, "audio must be ComfyUI's AUDIO, got None"),
    ({"audio": "a.wav"}, "audio must be ComfyUI's AUDIO"),
    ({"audio": EMPTY}, "the recording is empty, got 0 samples"),
    ({"audio": SILENCE}, "the recording is silent"),
    ({"audio": NAN}, "the recording must be finite"),
    ({"audio": speech(batch=3)}, "audio must be one recording, got a batch of 3"),
    ({"audio": speech(rate=100)}, "the audio's sample_rate must be a whole number of Hz"),
    ({"transcript": ""}, "transcript is empty: write word for word what the recording says, or connect timings"),
    ({"transcript": 3}, "transcript must be a string, got 3"),
    ({"timings": "{"}, "timings must be the timings output of a node"),
    ({"timings": 3}, "timings must be the timings output of a node"),
    ({"settings": {"guidance": 1}}, "settings must come from OmniVoice Settings"),
    ({"seed": -1}, "seed must be 0-"),
    ({"seed": 1.5}, "seed must be"),
    ({"quality": "fast"}, "quality must be one of normal, quick, got 'fast'"),
    ({"quality": True}, "quality must be one of"),
    ({"order": "codebooks"}, "order must be one of codebook by codebook, together"),
    ({"language": "Elvish"}, "Elvish"),
    ({"span": 1.5}, "span must be a string, got 1.5"),
    ({"span": "nan-1"}, "seconds must be 0-86400, got nan"),
    ({"span": "1.2"}, "span must be seconds such as 1.2-1.85, got '1.2'"),
    ({"span": "one-two"}, "span must be seconds such as 1.2-1.85"),
    ({"span": "1.85-1.2"}, "span 1.85-1.2 must lie within the 2.4 s of the recording, begin before it ends"),
    ({"span": "2.0-3.5"}, "span 2-3.5 must lie within the 2.4 s of the recording"),
    ({"span": "0.2-0.4, 0.3-0.6"}, "one span for each change|not overlap"),
]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        *BOTH,
        ({"new_transcript": OLD}, "nothing to change: the two texts say the same"),
        ({"new_transcript": " "}, "new_transcript is empty: write what the recording is to say"),
        ({"new_transcript": None}, "new_transcript is empty"),
        ({"new_transcript": 3}, "new_transcript must be a string"),
        ({"new_transcript": "?!"}, "the new text has no word"),
        ({"transcript": "... !"}, "the transcript has no word"),
        ({"seconds": math.nan}, "seconds must be above 0"),
        ({"seconds": -1.0}, "seconds must be above 0"),
        ({"seconds": "1"}, "seconds must be"),
        ({"transcript": f"{OLD} " * 40, "new_transcript": f"{OLD} " * 40 + "Bye."}, "exactly what the recording says"),
        ({"transcript": "All else is quite unlike it.", "timings": timings()}, "heard only 0% of the words"),
    ],
)
def test_edits_that_cannot_be_done_are_refused(nodes, model, inputs: dict, message: str) -> None:
    given = {"model": model, "audio": speech(), "transcript": OLD, "new_transcript": NEW}
    with pytest.raises(ValueError, match=message):
        nodes["OmniVoiceEditSpeech"].execute(**{**given, **inputs})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        *((({"words": ""} if "span" in inputs else {}) | inputs, message) for inputs, message in BOTH),
        ({"takes": 0}, "takes must be 1-16, got 0"),
        ({"takes": 2, "take": 3}, "take must be 0 or one of the 2 takes, got 3"),
        ({"words": ""}, "say what to speak again, in words, span or line, got none of them"),
        ({"words": None}, "say what to speak again, in words, span or line, got none of them"),
        ({"span": "0.2-0.4"}, "say what to speak again, in words, span or line, got words and span"),
        ({"words": 3}, "words must be a string, got 3"),
        ({"line": "1"}, "say what to speak again, in words, span or line, got words and line"),
        ({"line": 3}, "line must be a string, got 3"),
        ({"voice": 3}, "voice is for whole lines"),
        ({"design": object()}, "design is for whole lines"),
        ({"words": "evening"}, "the words 'evening' are not in the transcript"),
        ({"words": "morning#2"}, "the number after # must be 1-1"),
    ],
)
def test_redos_that_cannot_be_done_are_refused(nodes, model, inputs: dict, message: str) -> None:
    given = {"model": model, "audio": speech(), "transcript": OLD, "words": "morning"}
    with pytest.raises(ValueError, match=message):
        nodes["OmniVoiceRedo"].execute(**{**given, **inputs})


@pytest.mark.parametrize("node", ["OmniVoiceEditSpeech", "OmniVoiceRedo"])
def test_schema(nodes, node: str) -> None:
    inputs = nodes[node].define_schema().inputs
    widgets = [i for i in inputs if i.kind in ("INT", "FLOAT", "STRING", "COMBO", "COMBO,STRING")]
    assert sum(not getattr(i, "force_input", False) for i in widgets) <= 10
    required = [i.id for i in inputs if not i.optional]
    assert required == ["model", "audio"]  # the frontend shows optional inputs last, so texts would change places
    validate = nodes[node].validate_inputs
    assert validate(span=None) is True and validate(span="") is True and validate(span="1.2-1.85, 3-4") is True
    assert "span must be seconds" in validate(span="soon") and "got nan" in validate(span="nan-nan")
