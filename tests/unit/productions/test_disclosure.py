"""The spoken notice that a recording was made with AI: its words, its place, its level, and the recording untouched."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from omnivoice.audio.loudness import RMS_FLOOR, level_of_speech
from omnivoice.errors import AudioError, InputError, TextError
from omnivoice.generate.plan import make_plan
from omnivoice.productions.disclosure import PLACES, check_placement, notice_languages, notice_of, with_notice
from omnivoice.productions.lines import MAX_PEAK
from omnivoice.text.languages import language_options
from omnivoice.types import GenerationRequest, Waveform

LOCALES = Path(__file__).resolve().parents[3] / "locales"
RATES = (8_000, 22_050, 24_000, 44_100, 48_000)


def noise(channels: int, seconds: float, rate: int, level: float = 0.1) -> Waveform:
    """Noise of that RMS: a voice for these tests."""
    samples = torch.randn(channels, round(seconds * rate), generator=torch.Generator().manual_seed(channels))
    return Waveform(level * samples.clamp(-3, 3), rate)


NOTICE = noise(1, 2, 24_000)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("place", PLACES)
def test_the_recording_keeps_every_sample_its_rate_and_its_channels(rate: int, channels: int, place: str) -> None:
    recording = noise(channels, 1.3, rate, level=0.03)
    before = recording.samples.clone()
    done, start = with_notice(recording, NOTICE, place, 0.25)
    count, N, gap = 2 * rate, recording.samples.shape[1], round(0.25 * rate)
    first = 0 if place == "after" else count + gap
    assert done.sample_rate == rate and start == first / rate
    assert done.samples.shape == (channels, N + (count + gap) * (2 if place == "both" else 1))
    assert torch.equal(done.samples[:, first : first + N], before) and torch.equal(recording.samples, before)
    silence = slice(count, first) if place != "after" else slice(N, N + gap)
    assert not done.samples[:, silence].any()
    spoken = done.samples[:, :count] if place != "after" else done.samples[:, -count:]
    assert spoken.abs().max() > 0.01 and all(torch.equal(channel, spoken[0]) for channel in spoken)
    if place == "both":
        assert torch.equal(done.samples[:, :count], done.samples[:, -count:])


@pytest.mark.parametrize("level", [0.006, 0.02, 0.1, 0.2])
@pytest.mark.parametrize("quiet", [0.0, 5.0])
def test_the_notice_is_as_loud_as_the_speech_however_long_its_silences_are(level: float, quiet: float) -> None:
    speech = noise(2, 1, 48_000, level)
    silence = torch.zeros(2, round(quiet * 48_000))
    done, _ = with_notice(Waveform(torch.cat([speech.samples, silence], 1), 48_000), NOTICE, "before", 0.5)
    heard = level_of_speech(done.samples[:, : 2 * 48_000], 48_000)
    assert heard == pytest.approx(level_of_speech(speech.samples, 48_000), rel=0.02)


def test_the_notice_neither_clips_nor_follows_into_silence() -> None:
    loud, _ = with_notice(noise(1, 1, 24_000, 0.9), NOTICE, "before", 0)
    assert float(loud.samples[:, :48_000].abs().max()) == pytest.approx(MAX_PEAK)
    faint, _ = with_notice(noise(1, 1, 24_000, 1e-5), NOTICE, "before", 0)
    assert level_of_speech(faint.samples[:, :48_000], 24_000) == pytest.approx(RMS_FLOOR, rel=0.01)
    for count in (0, 1, 24_000):
        silent, start = with_notice(Waveform(torch.zeros(1, count), 24_000), NOTICE, "before", 0)
        assert torch.equal(silent.samples[:, :48_000], NOTICE.samples) and start == 2.0
        assert silent.samples.shape[1] == 48_000 + count


@pytest.mark.parametrize("gap, count", [(0, 0), (1 / 24_000, 1), (0.5, 12_000), (60, 1_440_000)])
def test_the_silence_is_exact_to_the_sample(gap: float, count: int) -> None:
    done, start = with_notice(Waveform(torch.ones(1, 3), 24_000), NOTICE, "before", gap)
    assert (start * 24_000, done.samples.shape[1]) == (48_000 + count, 48_003 + count)
    assert done.samples[0, -3:].tolist() == [1, 1, 1]


def test_more_than_four_hours_are_refused_before_they_are_made() -> None:
    hours = Waveform(torch.zeros(1, 1).expand(1, 4 * 3600 * 4_000), 4_000)
    with pytest.raises(AudioError, match=r"with the notice, the audio would last 4\.0 hours, at most 4 are allowed"):
        with_notice(hours, NOTICE, "after", 0.5)


@pytest.mark.parametrize("locale", sorted(path.name for path in LOCALES.iterdir()))
def test_there_is_a_sentence_in_every_language_of_the_nodes(locale: str) -> None:
    text, language = notice_of("", locale)
    assert language == locale.partition("-")[0] and text


@pytest.mark.parametrize("name", notice_languages())
def test_every_sentence_is_spoken_without_a_warning(name: str) -> None:
    text, language = notice_of(" ", name)
    plan = make_plan(GenerationRequest(text, language=language, seed=0))
    assert plan.warnings == () and [chunk.text for chunk in plan.chunks] == [text]
    assert plan.language == language == {label: code for code, label in language_options()}[name]


def test_the_page_counts_the_languages() -> None:
    page = (LOCALES.parent / "docs" / "responsible-use.md").read_text(encoding="utf-8")
    assert f"Sentences in {len(notice_languages())} languages" in page


@pytest.mark.parametrize("language", [None, "auto", "", "en", "English", "en-US"])
def test_without_a_language_it_is_english(language: object) -> None:
    assert notice_of("", language) == ("This recording was made with AI.", "en")


@pytest.mark.parametrize("language", [None, "auto", "sw", "id:la"])
def test_a_text_of_ones_own_is_spoken_in_any_language(language: object) -> None:
    assert notice_of("Hii imetengenezwa na AI.", language) == ("Hii imetengenezwa na AI.", language)


@pytest.mark.parametrize("language", ["sw", "Swahili (individual language)", "id:la"])
def test_a_language_without_a_sentence_says_which_there_are(language: str) -> None:
    with pytest.raises(
        InputError, match=r"^there is no sentence in language .*: write the text .* Cantonese, .*English"
    ):
        notice_of("", language)


@pytest.mark.parametrize("text", [None, 3, ["a"], b"a"])
def test_a_text_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(TextError, match="the text of the notice must be a string"):
        notice_of(text, "en")


@pytest.mark.parametrize(
    "place, gap, told",
    [
        ("middle", 0.5, "place must be one of"),
        (None, 0.5, "place must be one of"),
        (["before"], 0.5, "place must be one of"),
        ("before", -0.1, "gap_seconds must be 0-60"),
        ("before", 61, "gap_seconds must be 0-60"),
        ("before", float("nan"), "gap_seconds must be"),
        ("before", True, "gap_seconds must be"),
    ],
)
def test_a_wrong_place_or_gap_is_refused(place: object, gap: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        check_placement(place, gap)


@pytest.mark.parametrize("rate", [4_000, 24_000, 44_100])
@pytest.mark.parametrize("channels", [1, 2])
def test_the_level_of_speech_leaves_out_silence(rate: int, channels: int) -> None:
    tone = torch.full((channels, rate), 0.2)
    quiet = torch.cat([tone, torch.zeros(channels, 3 * rate), tone], dim=1)
    assert level_of_speech(quiet, rate) == pytest.approx(0.2, rel=0.02)
    assert level_of_speech(torch.zeros(channels, rate), rate) == level_of_speech(torch.zeros(channels, 0), rate) == 0
    assert level_of_speech(torch.full((channels, 1), 0.5), rate) == pytest.approx(0.5)


def test_the_level_of_speech_is_that_of_all_channels_together() -> None:
    one = torch.cat([torch.full((1, 24_000), 0.2), torch.zeros(1, 24_000)])
    assert level_of_speech(one, 24_000) == pytest.approx(0.2 / 2**0.5)
