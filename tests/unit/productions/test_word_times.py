"""Times of words in long recordings: by a recogniser and by estimate, and what a recogniser may get wrong."""

from __future__ import annotations

import random

import pytest
import torch

from omnivoice.productions.timings import TimedWord
from omnivoice.productions.word_times import Loudness, estimated_times, recognised_times
from omnivoice.text import alignment


def test_an_hour_of_recognised_words_is_matched_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, exact = list[int](), alignment._exact

    def counted(old: list[int], new: list[int]) -> list[tuple[int, int]]:
        cells.append(len(old) * len(new))
        return exact(old, new)

    monkeypatch.setattr(alignment, "_exact", counted)
    draw = random.Random(1)
    words = [f"{draw.choice('bdgkpt')}{draw.choice('aeiou')}{draw.randrange(400)}" for _ in range(9_000)]
    heard = [TimedWord(word, 0.4 * i, 0.4 * i + 0.3) for i, word in enumerate(words)]
    wrong = set(draw.sample(range(9_000), 450))
    times, share = recognised_times(words, [TimedWord("x", one.start, one.end) if i in wrong else one
                                            for i, one in enumerate(heard)])  # fmt: skip
    assert share == pytest.approx(0.95)
    right = [(one.start, one.end) for i, one in enumerate(times) if i not in wrong]
    assert right == [(one.start, one.end) for i, one in enumerate(heard) if i not in wrong]
    assert sum(cells) <= alignment.MOST_CELLS


@pytest.mark.parametrize("words", [["[a", "b]", "end"], ["1,", "000", "end"], ["say", "[laughter]", "end"]])
def test_each_recognised_word_keeps_its_own_time(words: list[str]) -> None:
    heard = [TimedWord(word, float(i), i + 0.5) for i, word in enumerate(words)]
    times, _ = recognised_times(words, heard)
    assert times[-1] == TimedWord("end", 2.0, 2.5) and times[0] == TimedWord(words[0], 0.0, 0.5)


def test_recognised_times_never_go_back() -> None:
    heard = [TimedWord("a", 1.0, 2.0), TimedWord("b", 0.5, 0.7), TimedWord("c", 3.0, 3.5)]
    times, _ = recognised_times(["a", "b", "c"], heard)
    assert times == [TimedWord("a", 1.0, 2.0), TimedWord("b", 1.0, 1.0), TimedWord("c", 3.0, 3.5)]


def test_the_pauses_of_a_long_recording_are_where_they_are() -> None:
    words = ["bananas."] * 600
    levels = (torch.arange(600 * 100) % 100 < 70).float()  # 0.7 s of sound and 0.3 s of pause for each word
    times = estimated_times(words, Loudness.of(levels.repeat_interleave(240)[None]))
    assert [one.start for one in times] == pytest.approx([float(i) for i in range(600)], abs=0.02)
    assert [one.end for one in times] == pytest.approx([i + 0.7 for i in range(600)], abs=0.02)
