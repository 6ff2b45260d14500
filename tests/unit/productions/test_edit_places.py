"""Where the words of an edit are: estimates around pauses, recognised times, edges, given spans, plain refusals."""

from __future__ import annotations

import math

import pytest
import torch

from omnivoice.errors import OmniVoiceError
from omnivoice.productions.edit_places import FoundWords, Span, found_words
from omnivoice.productions.edit_sound import Sound, sound_of
from omnivoice.productions.timings import TimedWord
from omnivoice.productions.word_times import Loudness
from omnivoice.text.duration import estimate_frames, text_weight
from omnivoice.text.rules import PUBLISHED
from omnivoice.types import Waveform

OLD = "Bananas, melons, papayas, tomato."
NEW = "Bananas, melons, cherries, tomato."
WORDS = ("Bananas,", "melons,", "papayas,", "tomato.")
TIMES = ((0.3, 0.9), (1.3, 1.8), (2.6, 3.2), (3.4, 3.9))  # when each word sounds


def _sound(times: tuple[tuple[float, float], ...] = TIMES, rate: int = 24_000, channels: int = 1) -> Sound:
    """Return a tone wherever a word sounds, with a dip in the middle of each that is no pause."""
    t = torch.arange(round((times[-1][1] + 0.4) * rate)) / rate
    loud = torch.zeros_like(t)
    for start, end in times:
        middle = (start + end) / 2
        loud[(t >= start) & (t < end) & ((t - middle).abs() > 0.02)] = 0.3
    samples = (loud * torch.sin(2 * math.pi * 200 * t))[None].repeat(channels, 1)
    return sound_of(Waveform(samples, rate))


def _found(old: str = OLD, new: str = NEW, sound: Sound | None = None, **more: object) -> FoundWords:
    return found_words(sound or _sound(), old, new, PUBLISHED, **more)  # type: ignore[arg-type]


def _span(*texts: str, **more: object) -> Span:
    (span,) = _found(*texts, **more).spans
    return span


@pytest.mark.parametrize("rate", [8_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_pauses_tell_where_words_are(rate: int, channels: int) -> None:
    found = _found(sound=_sound(rate=rate, channels=channels))
    for time, word, (start, end) in zip(found.times, WORDS, TIMES, strict=True):
        assert time.word == word
        assert time.start == pytest.approx(start, abs=0.03) and time.end == pytest.approx(end, abs=0.03)


@pytest.mark.parametrize("word", range(4))
def test_an_opened_word_reaches_into_the_pauses_around_it_and_no_further(word: int) -> None:
    new = " ".join([*WORDS[:word], ("Cherries", "cherries")[word > 0] + WORDS[word][-1], *WORDS[word + 1 :]])
    span, (start, end) = _span(OLD, new), TIMES[word]
    assert span.old == (word, word + 1) == span.new and span.found == "estimated"
    assert start - 0.12 <= span.start / 25 <= start and end <= span.end / 25 <= end + 0.12


@pytest.mark.parametrize("word", range(4))
def test_a_deleted_word_is_cut_in_the_pauses(word: int) -> None:
    span, (start, end) = _span(OLD, " ".join([*WORDS[:word], *WORDS[word + 1 :]])), TIMES[word]
    assert span.frames == 0
    assert start - 0.1 <= span.start / 25 <= start + 0.02 and end - 0.02 <= span.end / 25 <= end + 0.1


@pytest.mark.parametrize("closure", [0.02, 0.04, 0.06])
def test_a_short_closure_is_no_pause(closure: float) -> None:
    """Five words without a pause: the edge of an estimated one does not stop at the silence of a "p" or "t" near it."""
    sound = _sound(((0.0, 2.0),))
    estimated = _found("Banana melons papaya tomato cherry.", "Banana melons apples tomato cherry.", sound).times[2]
    start = round((estimated.end + 0.04) * 24_000)
    sound.samples[:, start : start + round(closure * 24_000)] = 0
    span = _span("Banana melons papaya tomato cherry.", "Banana melons apples tomato cherry.", sound=sound)
    assert span.end / 25 >= estimated.end + 0.12


def test_an_estimate_is_uncertain_between_pauses_and_sure_at_them() -> None:
    loudness = Loudness.of(_sound().samples)
    assert [round(loudness.spread(at), 2) for at in (0.3, 0.9, 1.3, 3.9)] == [0.0, 0.0, 0.0, 0.0]
    assert loudness.spread(0.6) == pytest.approx(math.sqrt(0.15), abs=0.02)
    assert 0 < loudness.spread(0.4) < loudness.spread(0.6)
    assert loudness.spread(0.1) == loudness.spread(9.0) == 0.0


def test_recognised_times_open_less_and_unheard_words_lie_between_their_neighbours() -> None:
    heard = [TimedWord(word, *time) for word, time in zip(WORDS, TIMES) if word != "melons,"]
    found = _found(word_times=heard)
    assert (found.times[1].start, found.times[1].end) == (0.9, 2.6)
    assert found.spans[0].found == "recognised"
    assert 2.5 <= found.spans[0].start / 25 <= 2.6 and 3.2 <= found.spans[0].end / 25 <= 3.3


def test_chinese_has_a_word_for_each_character() -> None:
    found = _found("我们五月，在这里见面。", "我们六月，在这里见面。", _sound(((0.3, 1.1), (1.6, 2.7))))
    assert len(found.times) == 9 and found.spans[0].old == (2, 3)
    assert 0.3 <= found.spans[0].start / 25 < found.spans[0].end / 25 <= 1.3


@pytest.mark.parametrize("spans", [((2.6, 3.2),), ((0.0, 0.4),)])
def test_a_given_span_is_used(spans: tuple[tuple[float, float], ...]) -> None:
    span = _span(spans=spans)
    assert (span.start, span.end, span.found) == (round(spans[0][0] * 25), round(spans[0][1] * 25), "given")


def test_longer_words_take_longer_and_seconds_are_exact() -> None:
    short, long = _span(), _span(OLD, "Bananas, melons, elderberries and gooseberries, tomato.")
    assert long.frames > short.frames + 20
    assert _span(seconds=1.4).frames == 35


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"new": OLD}, "nothing to change: the two texts say the same"),
        ({"new": " ... "}, "the new text has no word"),
        ({"new": "[laughter]"}, "the new text has no word"),
        ({"old": "Hi."}, "the transcript is too short for 2.2 s of speech"),
        ({"old": OLD * 9}, "the transcript is too long for 2.2 s of speech"),
        ({"word_times": [TimedWord("nothing", 0, 1)]}, "heard only 0% of the words"),
        ({"spans": ((0.1, 0.2), (0.3, 0.4))}, "the texts differ in 1 places, got 2 spans"),
        ({"spans": ((3.0, 2.0),)}, "span 3-2 must lie within"),
        ({"spans": ((4.0, 99.0),)}, "span 4-99 must lie within"),
        ({"spans": ((math.nan, 1.0),)}, "the seconds of a span must be 0-86400, got nan"),
        ({"new": "Apples, melons, cherries, tomato.", "spans": ((1, 2), (1.5, 3))}, "not overlap the span before it"),
        ({"seconds": math.nan}, "seconds must be"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(more: dict[str, object], message: str) -> None:
    with pytest.raises(OmniVoiceError, match=message):
        _found(**more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Go now.", "Go elsewhere now."),  # a short sentence becomes longer and so faster
        (
            "We go to the very old house by the big river now and stay there with all of our friends.",
            "We go to the very old house elsewhere by the big river now and stay there with all of our friends.",
        ),
    ],
)
def test_new_words_have_the_pace_of_the_new_sentence(old: str, new: str) -> None:
    """Upstream gives a text below two seconds more time than its weight; a longer one gets what it weighs."""
    times = tuple((0.2 + 0.3 * word, 0.5 + 0.3 * word) for word in range(len(old.split())))
    span = next(iter(_found(old, new, _sound(times)).spans))
    seconds = 0.3 * len(old.split())
    pace = seconds * 25 / text_weight("".join(old.split()))
    slower = (estimate_frames(new) / text_weight(new)) / (estimate_frames(old) / text_weight(old))
    added = span.frames - (span.end - span.start)
    assert added == pytest.approx(pace * slower * text_weight("elsewhere"), abs=1.5)
    assert (slower < 0.9) == (len(times) < 5)
