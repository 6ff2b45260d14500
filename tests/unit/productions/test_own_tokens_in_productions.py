"""Tokens and tags of a model's own in scripts, subtitles and timings: they stay, are no words and take no time."""

from __future__ import annotations

import pytest

from omnivoice.errors import TextError
from omnivoice.productions.subtitle_parser import parse_subtitles
from omnivoice.productions.timings import TimedLine, TimedWord, estimated_words, srt_of, words_of
from omnivoice.text.own_tokens import OwnToken, OwnTokens
from omnivoice.text.rules import TextRules
from omnivoice.text.script import parse_script

NAMES = ("<|dur_3|>", "<b>", "@happy@", "[pause soft]", "{sigh}", "***", "[calm]")
RULES = TextRules(
    OwnTokens(tuple(OwnToken(text, 430 + i) for i, text in enumerate(NAMES))), tags=("whisper", "pause-s")
)


@pytest.mark.parametrize("token", NAMES)
def test_tokens_are_no_words_of_a_line(token: str) -> None:
    assert words_of(f"{token} Hello {token} there{token}.", RULES)[:2] == ["Hello", "there"]
    plain = [(one.word, one.start, one.end) for one in estimated_words("Hello there", 0, 2)]
    assert [(one.word, one.start, one.end) for one in estimated_words(f"Hello {token} there", 0, 2, RULES)] == plain


@pytest.mark.parametrize("token", [*NAMES, "[whisper]", "[pause-s]", "[Whisper]"])
@pytest.mark.parametrize("label", ["Anna: ", "[Anna] ", ""])
def test_a_script_line_keeps_them(token: str, label: str) -> None:
    (line,) = parse_script(f"{label}{token} Hello.", ["Anna"], RULES).lines
    assert (line.speaker, line.text, line.pause_seconds) == ("Anna", f"{token} Hello.", None)


@pytest.mark.parametrize("token", NAMES)
def test_a_token_alone_is_no_pause_and_needs_a_length(token: str) -> None:
    for text in (f"Anna: {token}", f"Anna: {token} [pause 1s]"):
        with pytest.raises(TextError, match="line 1, column 7: there is no word to speak here"):
            parse_script(text, ["Anna"], RULES)
    (line,) = parse_script(f"Anna: {{voice duration=2}} {token}", ["Anna"], RULES).lines
    assert line.text == token


@pytest.mark.parametrize("tag", ["[whisper]", "[calm]", "[WHISPER]"])
def test_a_tag_before_a_colon_is_no_speaker(tag: str) -> None:
    (line,) = parse_script(f"Anna: Hi.\n{tag}: hello.", None, RULES).lines[1:]
    assert line.speaker == "Anna" and line.text == f"{tag}: hello."


def test_places_of_errors_count_in_the_text_as_written() -> None:
    with pytest.raises(TextError, match=r"line 1, column 17: the pause '\[pause x\]' cannot be read"):
        parse_script("Anna: <|dur_3|> [pause x] Hello.", ["Anna"], RULES)


@pytest.mark.parametrize("token", [*NAMES, "[whisper]", "[pause-s]"])
def test_a_cue_keeps_them(token: str) -> None:
    srt = f"1\n00:00:01,000 --> 00:00:03,000\nANNA: Hello {token} there.\nBOB: {token} Hello there.\n"
    made = parse_subtitles(srt, ["Anna", "Bob"], RULES)
    assert [cue.text for cue in made.cues] == [f"Hello {token} there.", f"{token} Hello there."]
    assert made.unspoken == () and not any("formatting" in note for note in made.notes)


@pytest.mark.parametrize("token", NAMES)
def test_two_turns_share_the_time_without_the_tokens(token: str) -> None:
    def times(text: str) -> list[int]:
        srt = f"1\n00:00:01,000 --> 00:00:03,000\n{text}\n"
        return [cue.start_ms for cue in parse_subtitles(srt, ["Anna", "Bob"], RULES).cues]

    assert times(f"ANNA: Hello{token}\nBOB: Hello") == times("ANNA: Hello\nBOB: Hello") == [1000, 2000]


@pytest.mark.parametrize("token", NAMES)
def test_a_cue_of_a_token_alone_is_named(token: str) -> None:
    made = parse_subtitles(f"1\n00:00:01,000 --> 00:00:03,000\n{token}\n", [], RULES)
    assert made.cues == () and [one.text for one in made.unspoken] == [token]


@pytest.mark.parametrize("token", [*NAMES, "[whisper]", "[pause-s]"])
def test_subtitles_of_what_was_spoken_keep_them(token: str) -> None:
    line = TimedLine(f"{token} Hello <i>there</i>. [pause 1s]", 0.0, 1.0, words=(TimedWord(f"Hello{token}", 0.0, 0.5),))
    assert srt_of([line], RULES).splitlines()[2] == f"{token} Hello there."
    assert srt_of([line], RULES, words=True).splitlines()[2] == f"Hello{token}"
