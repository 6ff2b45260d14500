"""Timings: lines and words in seconds, as JSON, SRT and video frames; exact where they can be."""

from __future__ import annotations

import json

import pytest
import torch

from omnivoice.constants import SAMPLE_RATE
from omnivoice.errors import InputError
from omnivoice.productions.timings import (
    TimedLine,
    TimedWord,
    estimated_words,
    frames_json,
    parse_timings,
    sounding,
    srt_of,
    timed_line,
    timings_json,
    words_of,
)

LINES = [
    TimedLine("Hello, Anna.", 0.0, 1.2, "Bob", (TimedWord("Hello,", 0.1, 0.6), TimedWord("Anna.", 0.6, 1.1))),
    TimedLine("你好。", 1.7, 2.5, None, (TimedWord("你", 1.7, 2.1), TimedWord("好。", 2.1, 2.5))),
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, Anna.", ["Hello,", "Anna."]),
        ("  a\nb  c ", ["a", "b", "c"]),
        ("你好，Anna！", ["你", "好，", "Anna！"]),
        ("สวัสดี ครับ", ["สวัสดี", "ครับ"]),
        ("カタカナ「です」。", ["カ", "タ", "カ", "ナ「", "で", "す」。"]),
        ("[laughter] Ha [pause 1s] ha [B EY1 S]", ["Ha", "ha"]),
        ("don't—stop", ["don't—stop"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_words_share_the_time_by_weight() -> None:
    one, two = estimated_words("ab abcd ?!", 1.0, 2.2)
    assert (one.word, two.word) == ("ab", "abcd")
    assert (one.start, one.end, two.start, two.end) == pytest.approx((1.0, 1.4, 1.4, 2.2))


@pytest.mark.parametrize(
    ("lead", "sound", "tail"), [(0, 2400, 0), (2400, 4800, 1200), (240, 240, 0), (0, 100, 0), (9600, 2400, 9600)]
)
def test_words_begin_and_end_with_the_sound(lead: int, sound: int, tail: int) -> None:
    samples = torch.cat([torch.zeros(lead), torch.full((sound,), 0.5), torch.full((tail,), 0.001)])[None]
    assert sounding(samples) == (lead, lead + sound)
    line = timed_line("Yes.", 4800, samples)
    assert (line.start, line.end) == (0.2, (4800 + lead + sound + tail) / SAMPLE_RATE)
    assert (line.words[0].start, line.words[-1].end) == pytest.approx(
        ((4800 + lead) / SAMPLE_RATE, (4800 + lead + sound) / SAMPLE_RATE)
    )


def test_silence_has_no_sound_to_find() -> None:
    assert sounding(torch.zeros(1, 1000)) == (0, 1000)


def test_json_comes_back() -> None:
    text = timings_json(LINES, 2.5)
    assert parse_timings(text) == LINES
    assert json.loads(text)["seconds"] == 2.5


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]x",
        "3",
        "{}",
        '{"lines": 3}',
        '{"lines": [3]}',
        '{"lines": [{"text": "a"}]}',
        '{"lines": [{"start": "b"}]}',
        '{"lines": [{"text": "a", "start": 2, "end": 1}]}',
        '{"lines": [{"text": "a", "start": 1, "end": 2, "words": [{"word": "a", "start": 2, "end": 1}]}]}',
        "\ud800",
    ],
)
def test_other_texts_are_refused(text: object) -> None:
    with pytest.raises(InputError, match="timings must be the timings output of a node"):
        parse_timings(text)


def test_subtitles_of_lines_and_words() -> None:
    assert srt_of(LINES) == (
        "1\n00:00:00,000 --> 00:00:01,200\nBob: Hello, Anna.\n\n2\n00:00:01,700 --> 00:00:02,500\n你好。\n"
    )
    assert srt_of(LINES, words=True).startswith("1\n00:00:00,100 --> 00:00:00,600\nHello,\n\n2\n00:00:00,600")


@pytest.mark.parametrize(
    ("fps", "frames"), [(25, [(0, 29), (42, 62)]), (24, [(0, 28), (40, 59)]), (29.97, [(0, 35), (50, 74)])]
)
def test_frames_in_which_a_line_is_heard(fps: float, frames: list[tuple[int, int]]) -> None:
    rows = json.loads(frames_json(LINES, fps))
    assert [(row["frame"], row["last_frame"]) for row in rows] == frames
    assert [row["text"] for row in json.loads(frames_json(LINES, fps, words=True))] == ["Hello,", "Anna.", "你", "好。"]


def test_times_that_floats_cannot_hold_have_the_right_frame() -> None:
    lines = [TimedLine("a", tenth / 10, (tenth + 1) / 10) for tenth in range(100)]
    rows = json.loads(frames_json(lines, 10))
    assert [(row["frame"], row["last_frame"]) for row in rows] == [(frame, frame) for frame in range(100)]


@pytest.mark.parametrize("fps", [0, -1, float("nan"), "25"])
def test_fps_is_checked(fps: object) -> None:
    with pytest.raises(InputError, match="fps must be"):
        frames_json(LINES, fps)  # type: ignore[arg-type]


@pytest.mark.parametrize("first", [0, 1, 799, 800, 24_001, 345_599_999])
def test_the_json_tells_every_sample(first: int) -> None:
    lines = [TimedLine("a", at / SAMPLE_RATE, (at + 1) / SAMPLE_RATE) for at in range(first, first + 50)]
    found = parse_timings(timings_json(lines, 1.0))
    assert [(round(line.start * SAMPLE_RATE), round(line.end * SAMPLE_RATE)) for line in found] == [
        (at, at + 1) for at in range(first, first + 50)
    ]


@pytest.mark.parametrize(
    ("fps", "numerator", "denominator"),
    [
        (23.976, 24_000, 1001),
        (23.98, 24_000, 1001),
        (24_000 / 1001, 24_000, 1001),
        (29.97, 30_000, 1001),
        (30_000 / 1001, 30_000, 1001),
        (59.94, 60_000, 1001),
        (119.88, 120_000, 1001),
        (24, 24, 1),
        (25, 25, 1),
        (30, 30, 1),
        (60, 60, 1),
        (12.5, 25, 2),
        (29.5, 59, 2),
    ],
)
def test_frames_are_exact_for_hours(fps: float, numerator: int, denominator: int) -> None:
    """Samples on and next to the edges of frames up to four hours, through the JSON, against whole numbers."""
    for frame in (0, 1, 5, 1000, 30_000, 107_892, 300_000):
        edge = -(-frame * SAMPLE_RATE * denominator // numerator)  # the first sample in the frame
        for at in {max(0, edge - 1), edge, edge + 1}:
            (line,) = parse_timings(timings_json([TimedLine("a", at / SAMPLE_RATE, (at + 1) / SAMPLE_RATE)], 0.0))
            (row,) = json.loads(frames_json([line], fps))
            assert row["frame"] == at * numerator // (SAMPLE_RATE * denominator)
            assert row["last_frame"] == -(-(at + 1) * numerator // (SAMPLE_RATE * denominator)) - 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("One. [pause 1s] Two.", "One. Two."),
        ('One. <break time="500ms"/> Two.', "One. Two."),
        ("<p>One &amp; <b>two</b>.</p>", "One & two."),
        ("[laughter] One.", "[laughter] One."),
        ("1 < 2", "1 < 2"),
    ],
)
def test_subtitles_show_what_is_said(text: str, shown: str) -> None:
    assert srt_of([TimedLine(text, 0.0, 1.0)]).splitlines()[2] == shown


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("aaaa [pause 2s] aaaa", [(0, 1), (3, 4)]),
        ("aaaa [pause 1s] aaaa [pause 1s]", [(0, 1.5), (2.5, 4)]),
        ("[pause 2s] aaaa aaaa", [(0, 2), (2, 4)]),
        ('aaaa <break time="1s"/> [pause 1s] aaaa', [(0, 1), (3, 4)]),
        ("aaaa [pause 30s] aaaa", [(0, 2), (2, 4)]),
        ("[pause 1s]", []),
    ],
)
def test_words_lie_around_the_pauses_of_a_line(text: str, places: list[tuple[float, float]]) -> None:
    """The last but one cannot be in four seconds: it was spoken as written."""
    found = [(word.start, word.end) for word in estimated_words(text, 0.0, 4.0)]
    assert found == [pytest.approx(place) for place in places]


WORD = {"word": "a", "start": 1, "end": 2}


@pytest.mark.parametrize(
    ("table", "counts"),
    [
        ({"lines": [{}] * 100_001}, "got 100001 and 0"),
        ({"lines": [{"words": [WORD] * 100_001}]}, "got 1 and 100001"),
        ({"lines": [{"words": [WORD] * 60_000}, {"words": [0] * 60_000}]}, "got 2 and 120000"),
    ],
    ids=["lines", "words of one line", "words of all lines"],
)
def test_too_many_words_are_refused_before_one_is_read(
    monkeypatch: pytest.MonkeyPatch, table: dict[str, object], counts: str
) -> None:
    monkeypatch.setattr("omnivoice.productions.timings._line", None)
    with pytest.raises(InputError, match=f"at most 100000 lines and 100000 words, {counts}: use"):
        parse_timings(json.dumps(table))


def test_objects_are_counted_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnivoice.productions.timings.parse_json", None)
    with pytest.raises(InputError, match="at most 100000 lines and 100000 words, got more: use"):
        parse_timings('{"lines":[' + "{}," * 300_000 + "{}]}")


def test_timings_that_are_too_long_are_refused_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnivoice.productions.timings.parse_json", None)
    with pytest.raises(InputError, match="timings must be at most 16000000 characters, got 16000001"):
        parse_timings(" " * 16_000_001)


def test_as_many_words_as_are_allowed_are_read_without_building_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnivoice.intake.limits.shown", None)
    line = {"text": "a", "start": 1, "end": 2, "words": [WORD] * 100_000}
    assert len(parse_timings(json.dumps({"lines": [line]}))[0].words) == 100_000
