"""SRT and WebVTT as they are found in the wild: the exact cues, and the exact reason for all that is not spoken."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import TextError
from omnivoice.intake.limits import MAX_CUES
from omnivoice.productions.cues import (
    DESCRIPTION,
    DRAWING,
    LYRICS,
    NO_TEXT,
    NO_WORDS,
    OUTSIDE,
    REPEATED,
    TOO_EARLY,
    Cue,
)
from omnivoice.productions.subtitle_parser import parse_subtitles
from omnivoice.productions.subtitle_writer import srt_text, vtt_text

TWO = "1\n00:00:01,000 --> 00:00:02,500\nHello there.\n\n2\n00:00:03,000 --> 00:00:04,000\nGood\nbye.\n"
TWO_CUES = (Cue(1, 1000, 2500, "Hello there.", line=2), Cue(2, 3000, 4000, "Good\nbye.", line=6))


def plain(text: str, **options: object) -> list[tuple[int, int, int, str]]:
    return [(c.number, c.start_ms, c.end_ms, c.text) for c in parse_subtitles(text, **options).cues]


def one(text: str, **options: object) -> list[tuple[str | None, str]]:
    """Who says what in a cue with this text."""
    return [(c.speaker, c.text) for c in parse_subtitles(f"1\n00:00:01,000 --> 00:00:05,000\n{text}\n", **options).cues]


def unspoken(text: str, **options: object) -> list[tuple[str, str, bool]]:
    found = parse_subtitles(f"1\n00:00:01,000 --> 00:00:05,000\n{text}\n", **options).unspoken
    return [(u.text, u.reason, u.whole) for u in found]


def test_a_clean_file_gives_its_cues_and_no_notes() -> None:
    found = parse_subtitles(TWO)
    assert (found.cues, found.unspoken, found.notes) == (TWO_CUES, (), ())


@pytest.mark.parametrize(
    "text",
    [
        TWO.replace("\n", "\r\n"),
        TWO.replace("\n", "\r"),
        "\ufeff" + TWO,
        "\n\n" + TWO + "\n\n\n",
        TWO.replace(" --> ", "-->"),
        TWO.replace(",", "."),
        TWO.replace("2\n00", "\n2\n00"),  # two blank lines
        TWO.replace("there.\n\n", "there.\n"),  # a missing blank line
        TWO.replace("\n", "\n\n"),  # every line is followed by a blank one
        TWO.replace("1\n00", "00", 1).replace("2\n00", "00"),  # no numbers
        TWO.replace("1\n00", " 1 \n 00"),
        TWO.replace("Hello there.", "Hello\u200b there.\u202a"),
        TWO.replace("00:00:0", "00:0"),  # no hours
        TWO.replace("00:00:0", "0:0:"),
        TWO.replace("000", "0"),
        TWO.replace(",500", " , 500"),
        TWO.replace("-->", "->"),
        TWO.replace("-->", "—>"),
        TWO.replace("-->", "→"),
        TWO.replace("-->", "--&gt;"),
        TWO.replace(":", "：").replace(",", "，"),
        TWO.replace(",", ":"),
        TWO.replace("2,500", "2,500 X1:100 X2:200 Y1:10 Y2:20"),
        TWO.replace("2,500", "2,500  align:start position:0%"),
        TWO.replace("2,500", "2,500 A:start L:90%"),  # of an early draft of WebVTT
        TWO.replace("1\n00", "1 00", 1),  # the number on the line of the times
        TWO.replace("2,500\nHello", "2,500 Hello"),  # the text on the line of the times
        "WEBVTT\n\n" + TWO.replace(",", "."),
        "WEBVTT - Some title\n\n" + TWO,
        "WEBVTT FILE\n\n" + TWO.replace("1\n00", "intro\n00", 1),
        "WEBVTT\n\n" + TWO.replace("2\n00", "NOTE not shown\n\n2\n00"),
        "WEBVTT\n\nSTYLE\n::cue {\n  color: red\n}\n\nREGION\nid:bill\n\n" + TWO,
    ],
)
def test_one_file_in_many_shapes(text: str) -> None:
    numbers = [(cue.start_ms, cue.end_ms, cue.text.replace("\n", " ")) for cue in TWO_CUES]
    assert [(s, e, t.replace("\n", " ")) for _, s, e, t in plain(text)] == numbers
    assert [n for n, *_ in plain(text)] == [1, 2]


@pytest.mark.parametrize(
    "times, start, end",
    [
        ("01:02:03,004 --> 01:02:03,005", 3723004, 3723005),
        ("75:10.5 --> 75:11", 4510500, 4511000),
        ("00:00:60,000 --> 00:01:01,000", 60000, 61000),
        ("0:00:01.50 --> 0:00:02.25", 1500, 2250),
        ("00:00:01,123456 --> 00:00:01,9999", 1123, 2000),
        ("1.5 --> 2,75", 1500, 2750),
        ("00:00:01 --> 00:00:02", 1000, 2000),
        ("03:59:59,999 --> 04:00:00,000", 14399999, 14400000),
    ],
)
def test_times_are_exact(times: str, start: int, end: int) -> None:
    assert plain(f"1\n{times}\nHi\n") == [(1, start, end, "Hi")]


@pytest.mark.parametrize(
    "times",
    [
        "00:00:01,000 --> abc",
        "00:00:01,000 --> 00:00:02:12",  # frames
        "00:0a:01,000 --> 00:00:02,000",
        "1:2:3:4:5 --> 00:00:02,000",
        "00:00:01,000 --> 00:00:99999,000",
        "00:00:01.2.3 --> 00:00:02,000",
    ],
)
def test_times_that_cannot_be_read_name_the_line(times: str) -> None:
    text = f"{TWO}\n3\n{times}\nHi\n"
    with pytest.raises(TextError, match=rf"^line 11: the times {re.escape(repr(times))} cannot be read: write 00:00:0"):
        parse_subtitles(text)


@pytest.mark.parametrize("text", ["Go --> there.", "A -> B", "See 3 --> maybe", "x => 00:00:01", "a:b --> 00:00:01"])
def test_an_arrow_in_a_text_is_text(text: str) -> None:
    assert one(text) == [(None, text)]


@pytest.mark.parametrize(
    "times, cue, note",
    [
        ("00:00:02,000 --> 00:00:01,000", (2000, 2000), "the end is before the start, so it does not count: "),
        ("00:00:02,000 -->", (2000, 2000), "the end is missing: "),
        ("00:00:02,000 --> 00:00:02,000", (2000, 2000), "the end is the start: "),
        ("-00:00:01,000 --> 00:00:02,000", (0, 2000), "the start is before 0, so they start at 0: "),
        ("00:00:-1,-500 --> 00:00:02,000", (0, 2000), "the start is before 0, so they start at 0: "),
    ],
)
def test_odd_times_are_mended_and_noted(times: str, cue: tuple[int, int], note: str) -> None:
    found = parse_subtitles(f"7\n{times}\nHi\n")
    assert found.cues == (Cue(7, *cue, "Hi", line=2),)
    assert found.notes == (f"{note}cue 7 (line 2)",)


@pytest.mark.parametrize("times", ["-00:00:05,000 --> -00:00:01,000", "-00:00:05,000 --> 00:00:00,000"])
def test_a_cue_before_the_beginning_is_named(times: str) -> None:
    found = parse_subtitles(f"1\n{times}\nHi\n\n2\n00:00:01,000 --> 00:00:02,000\nYes\n")
    assert next(u for u in found.unspoken if u.number == 1).reason == TOO_EARLY
    assert [(c.number, c.text) for c in found.cues] == [(2, "Yes")]


def test_cues_are_sorted_by_time_and_overlaps_are_noted() -> None:
    found = parse_subtitles(
        "1\n00:00:05,000 --> 00:00:06,000\nB\n\n2\n00:00:01,000 --> 00:00:05,250\nA\n\n"
        "3\n00:00:05,500 --> 00:00:07,000\nC"
    )
    assert [cue.text for cue in found.cues] == ["A", "B", "C"]
    assert found.notes == (
        "the cues were not in the order of their times and are spoken in that order",
        "cues that start before the one before them ends: cue 1 (line 2) by 0.25 s, cue 3 (line 10) by 0.5 s",
    )


@pytest.mark.parametrize(
    "text, numbers, texts",
    [
        ("1\n{}\nThe year was\n1984\n\n2\n{}\nYes\n", [1, 2], ["The year was\n1984", "Yes"]),
        ("1\n{}\n2\n\n2\n{}\n1\n", [1, 2], ["2", "1"]),  # a countdown
        ("1\n{}\nA\n1984\n{}\nB\n", [1, 2], ["A\n1984", "B"]),  # no number and no blank line
        ("1\n{}\nA\n2\n{}\nB\n", [1, 2], ["A", "B"]),
        ("9\n{}\nA\n\n1984\n\n{}\nB\n", [9, 10], ["A\n1984", "B"]),
        ("5\n{}\nA\n\n\n5\n{}\nB\n", [5, 5], ["A", "B"]),  # the same number twice
        ("1\n{}\n\n2\n{}\nB\n", [2], ["B"]),
        ("1\n{}\n2\n{}\nB\n", [2], ["B"]),
    ],
)
def test_numbers_and_texts_of_digits(text: str, numbers: list[int], texts: list[str]) -> None:
    found = plain(text.format("00:00:01,000 --> 00:00:02,000", "00:00:03,000 --> 00:00:04,000"))
    assert [n for n, *_ in found] == numbers
    assert [t for *_, t in found] == texts


def test_blank_lines_inside_a_text_are_closed_and_noted() -> None:
    found = parse_subtitles(TWO.replace("Good\n", "Good\n\n"))
    assert [cue.text for cue in found.cues] == ["Hello there.", "Good\nbye."]
    assert found.notes == ("blank lines inside the text were closed: cue 2 (line 6)",)


def test_counted_numbers_are_noted_in_srt_only() -> None:
    srt = TWO.replace("2\n00", "00")
    assert parse_subtitles(srt).notes == ("cues without a number, which are counted: cue 2 (line 5)",)
    assert parse_subtitles("WEBVTT\n\n" + srt).notes == ()


def test_what_stands_before_the_first_cue_is_named() -> None:
    found = parse_subtitles("WEBVTT\nKind: captions\nLanguage: en\n\nNOTE a\nb\n\nNOTE\nc\n\n" + TWO)
    assert [(u.number, u.line, u.text, u.reason) for u in found.unspoken] == [
        (None, 2, "Kind: captions", OUTSIDE),
        (None, 3, "Language: en", OUTSIDE),
    ]
    assert found.notes == ("not spoken: 2 NOTE of WebVTT",)


@pytest.mark.parametrize(
    "text, spoken",
    [
        ("<i>Hello</i> <B>there</B>", "Hello there"),
        ('<font color="#ffffff">Hi</font>', "Hi"),
        ("{\\an8}Up {\\i1}here{\\i0}", "Up here"),
        ("{y:i}Old {c:$0000ff}style", "Old style"),
        ("One\\NTwo\\hThree", "One\nTwo Three"),
        ("One<br>Two<br/>Three", "One\nTwo\nThree"),
        ("<c.yellow.bg_blue>Hi</c> <00:00:01.500><c>you</c>", "Hi you"),
        ("<lang en-GB>colour</lang>", "colour"),
        ("<ruby>\u6f22<rt>\u304b\u3093</rt></ruby>", "\u6f22"),
        ("Tom &amp; Jerry&nbsp;said &lt;hi&gt;", "Tom & Jerry said <hi>"),
        ("a&shy;b &#x202e;c&#8203;d &rlm;e&#x1b;", "ab cd e"),
        ("I <3 you and 1 < 2", "I <3 you and 1 < 2"),
        ("{laughs} no markup", "{laughs} no markup"),
        ("<i>unclosed", "unclosed"),
        ("  spaces \t inside  ", "spaces inside"),
    ],
)
def test_formatting_goes_and_the_text_stays(text: str, spoken: str) -> None:
    assert one(text) == [(None, spoken)]


def test_formatting_is_counted_in_a_note() -> None:
    found = parse_subtitles("1\n00:01.0 --> 00:02.0\n{\\an8}<i>a</i> <b>b</b> <i>c</i>\n")
    assert found.notes == ("formatting was removed: <i> (4), <b> (2), {\\\\an8} (1)",)


def test_a_drawing_is_not_read_aloud() -> None:
    assert one("{\\p1}m 0 0 l 100 0{\\p0}Hello") == [(None, "Hello")]
    assert unspoken("{\\p1}m 0 0 l 100 0{\\p0}Hello") == [("m 0 0 l 100 0", DRAWING, False)]
    assert unspoken("{\\an7\\p1}m 0 0 l 100 0") == [("m 0 0 l 100 0", DRAWING, True)]


@pytest.mark.parametrize(
    "text, spoken, gone",
    [
        ("[door slams]", [], [("[door slams]", DESCRIPTION, True)]),
        ("[door slams] Who is it?", ["Who is it?"], [("[door slams]", DESCRIPTION, False)]),
        ("Who is\n[door\nslams]\nit?", ["Who is\nit?"], [("[door slams]", DESCRIPTION, False)]),
        ("(laughs)", [], [("(laughs)", DESCRIPTION, True)]),
        ("(LAUGHS) I know.", ["I know."], [("(LAUGHS)", DESCRIPTION, False)]),
        ("I know. (laughs)", ["I know."], [("(laughs)", DESCRIPTION, False)]),
        ("(Sighs)\nWell.", ["Well."], [("(Sighs)", DESCRIPTION, False)]),
        ("He came (late) to it.", ["He came (late) to it."], []),
        ("(If you want to.)", ["(If you want to.)"], []),
        ("(I was there for more than six years)", ["(I was there for more than six years)"], []),
        ("\uff08\u7b11\uff09", [], [("\uff08\u7b11\uff09", DESCRIPTION, True)]),
        ("\u3010\u97f3\u4e50\u3011\u4f60\u597d", ["\u4f60\u597d"], [("\u3010\u97f3\u4e50\u3011", DESCRIPTION, False)]),
        ("*sighs*", [], [("*sighs*", DESCRIPTION, True)]),
        ("I *really* mean it", ["I *really* mean it"], []),
        ("\u266a La la la \u266a", [], [("\u266a La la la \u266a", LYRICS, True)]),
        ("\u266a La la\nla la \u266a", [], [("\u266a La la la la \u266a", LYRICS, True)]),
        ("\u266a La \u266a la \u266a", [], [("\u266a La \u266a la \u266a", LYRICS, True)]),
        ("\u266a\u266a", [], [("\u266a\u266a", LYRICS, True)]),
        ("Listen. \u266a La \u266a Nice!", ["Listen. Nice!"], [("\u266a La \u266a", LYRICS, False)]),
        ("# La la #", [], [("# La la #", LYRICS, True)]),
        ("We are #1", ["We are #1"], []),
        ("<i>\u266a La \u266a</i>", [], [("\u266a La \u266a", LYRICS, True)]),
        ("[laughter] Good.", ["[laughter] Good."], []),
        ("[LAUGHS] Good.", ["[LAUGHS] Good."], []),  # a spelling of the tag that the engine knows
        ("Wait [pause 0.5s] here.", ["Wait [pause 0.5s] here."], []),
        ("A [B EY1 S] guitar", ["A [B EY1 S] guitar"], []),
        ("...", [], [("...", NO_WORDS, True)]),
        ("[pause 1s]", [], [("[pause 1s]", NO_WORDS, True)]),
        ("- - -", [], [("- -", NO_WORDS, True)]),
        ("BOB:", [], [("BOB:", NO_WORDS, True)]),
        ("", [], [("", NO_TEXT, True)]),
        ("<i></i>", [], [("", NO_TEXT, True)]),
    ],
)
def test_what_nobody_says_is_named(text: str, spoken: list[str], gone: list[tuple[str, str, bool]]) -> None:
    assert [said for _, said in one(text)] == spoken
    assert unspoken(text) == gone


@pytest.mark.parametrize(
    "text, turns",
    [
        ("<v Alice>Hi", [("Alice", "Hi")]),
        ("<v.loud Esme O'Brien>Hi</v>", [("Esme O'Brien", "Hi")]),
        ("<v Alice>Hi</v>\n<v Bob>Ho</v>", [("Alice", "Hi"), ("Bob", "Ho")]),
        ("<v Alice>Hi</v> all", [("Alice", "Hi"), (None, "all")]),
        ("<v Tom &amp; Jerry>Hi", [("Tom & Jerry", "Hi")]),
        ("<v &#x202e;Bob&#8203;>Hi", [("Bob", "Hi")]),
        ("ALICE: Hi", [("ALICE", "Hi")]),
        ("MAN 1: Hi\nthere", [("MAN 1", "Hi\nthere")]),
        ("[Alice]: Hi", [("Alice", "Hi")]),
        ("(Alice): Hi", [("Alice", "Hi")]),
        ("DR. SMITH: Hi", [("DR. SMITH", "Hi")]),
        ("- Hi.\n- Ho.", [(None, "Hi."), (None, "Ho.")]),
        ("\u2013 Hi.\n\u2013 Ho\nho.", [(None, "Hi."), (None, "Ho\nho.")]),
        ("-Hi.\n-Ho.", [(None, "Hi."), (None, "Ho.")]),
        ("Hi.\n- Ho.", [(None, "Hi."), (None, "Ho.")]),
        ("- Hi.", [(None, "Hi.")]),
        ("- ALICE: Hi.\n- BOB: Ho.", [("ALICE", "Hi."), ("BOB", "Ho.")]),
        (">> Hi.\n>> BOB: Ho.", [(None, "Hi."), ("BOB", "Ho.")]),
        ("-5 degrees", [(None, "-5 degrees")]),
        ("- 5 degrees", [(None, "5 degrees")]),
        ("-- and then", [(None, "-- and then")]),
        ("Remember: no.", [(None, "Remember: no.")]),  # not a name: one cue has it, and no cast
        ("It is 10:30", [(None, "It is 10:30")]),
        ("10: ten", [(None, "10: ten")]),
        ("http://x", [(None, "http://x")]),
        ("He said and this is long: yes", [(None, "He said and this is long: yes")]),
        ("[laughter]: yes", [(None, "[laughter]: yes")]),
    ],
)
def test_speakers(text: str, turns: list[tuple[str | None, str]]) -> None:
    assert one(text) == turns


@pytest.mark.parametrize(
    "text, turns",
    [
        ("Alice: Hi", [("Alice", "Hi")]),
        ("alice : Hi", [("Alice", "Hi")]),
        ("ÁLICE: Hi", [("Alice", "Hi")]),
        ("<v alice>Hi", [("Alice", "Hi")]),
        ("[Alice] Hi", [("Alice", "Hi")]),
        ("(Alice) Hi", [("Alice", "Hi")]),
        ("\uff08\u5c0f\u738b\uff09\u4f60\u597d", [("\u5c0f\u738b", "\u4f60\u597d")]),
        ("\u3010\u5c0f\u738b\u3011\u4f60\u597d", [("\u5c0f\u738b", "\u4f60\u597d")]),
        ("- (Alice) Hi\n- (Bob) Ho", [("Alice", "Hi"), (None, "(Bob) Ho")]),
        ("Alice:\nHi", [("Alice", "Hi")]),
        ("\u5c0f\u738b\uff1a\u4f60\u597d", [("\u5c0f\u738b", "\u4f60\u597d")]),
        ("Alice (whispering): Hi", [("Alice", "Hi")]),
        ("[door slams] Alice: Hi", [("Alice", "Hi")]),
        ("Old Alice: Hi", [(None, "Old Alice: Hi")]),
        ("Bob: Hi", [(None, "Bob: Hi")]),
    ],
)
def test_names_of_the_cast_count_in_any_spelling(text: str, turns: list[tuple[str | None, str]]) -> None:
    assert one(text, names=["Alice", "\u5c0f\u738b"]) == turns


def test_a_name_that_two_cues_start_with_counts_and_is_noted() -> None:
    found = parse_subtitles(TWO.replace("Hello", "Bob: Hello").replace("Good", "Bob: Good"), names=["Alice"])
    assert [(cue.speaker, cue.text) for cue in found.cues] == [("Bob", "Hello there."), ("Bob", "Good\nbye.")]
    assert found.notes == ("names before a text that are taken for speakers, and are not spoken: 'Bob' (2)",)


@pytest.mark.parametrize("label", ["He said", "she", "And then he said", "\u4ed6\u8bf4", "I think that", "12"])
def test_words_before_a_colon_are_spoken_however_often_they_come(label: str) -> None:
    found = parse_subtitles(TWO.replace("Hello", f"{label}: Hello").replace("Good", f"{label}: Good"))
    assert [cue.text for cue in found.cues] == [f"{label}: Hello there.", f"{label}: Good\nbye."]
    assert [cue.speaker for cue in found.cues] == [None, None] and found.notes == ()


def test_two_speakers_share_the_time_of_a_cue_by_their_texts() -> None:
    found = parse_subtitles("4\n00:00:01,000 --> 00:00:03,000\n- aaaa\n- bbbbbbbbbbbb\n")
    assert found.cues == (
        Cue(4, 1000, 1500, "aaaa", line=2, part=1),
        Cue(4, 1500, 3000, "bbbbbbbbbbbb", line=2, part=2),
    )
    assert found.notes == ("several speakers share the time by the length of their texts: cue 4 (line 2)",)
    assert [cue.name for cue in found.cues] == ["cue 4, part 1 (line 2)", "cue 4, part 2 (line 2)"]


def vtt(*cues: tuple[float, float, str]) -> str:
    return "WEBVTT\n\n" + "\n\n".join(f"00:{a:06.3f} --> 00:{b:06.3f}\n{text}" for a, b, text in cues)


YOUTUBE = vtt(
    (0.16, 2.389, "\u00a0\nhello<00:00:00.480><c> everyone</c>"),
    (2.389, 2.399, "hello everyone\n\u00a0"),
    (2.399, 4, "hello everyone\nwelcome<00:00:03.000><c> to</c><00:00:03.500><c> the show</c>"),
    (4, 4.01, "welcome to the show\n\u00a0"),
    (4.01, 6, "welcome to the show\nbye"),
)
CONVERTED = vtt((0.2, 4, "hello everyone"), (2.4, 6, "hello everyone\nwelcome to"), (4, 7, "welcome to\nthe show"))
GROWING = vtt((0, 1, "I"), (1, 2, "I think"), (2, 3, "I think that"), (3, 4, "I think that\nyes"))


@pytest.mark.parametrize(
    "text, cues",
    [
        (YOUTUBE, [(160, 2389, "hello everyone"), (2399, 4000, "welcome to the show"), (4010, 6000, "bye")]),
        (CONVERTED, [(200, 4000, "hello everyone"), (2400, 4000, "welcome to"), (4000, 7000, "the show")]),
        (GROWING, [(0, 1000, "I"), (1000, 2000, "think"), (2000, 3000, "that"), (3000, 4000, "yes")]),
    ],
)
def test_rolling_captions_are_said_once_and_the_repetitions_named(text: str, cues: list) -> None:
    found = parse_subtitles(text)
    assert [(c.start_ms, c.end_ms, c.text) for c in found.cues] == cues
    shown = sum(len(re.sub(r"<[^>]*>|\u00a0|WEBVTT|\d\d:.*", " ", row).split()) for row in text.split("\n"))
    said = sum(len(cue.text.split()) for cue in found.cues)
    assert {u.reason for u in found.unspoken} == {REPEATED}
    assert shown == said + sum(len(u.text.split()) for u in found.unspoken)


@pytest.mark.parametrize(
    "text",
    [
        vtt((0, 1, "No."), (1, 2, "No."), (2, 3, "No.")),
        vtt((0, 1, "Stop!"), (1, 2, "Stop!\nI said stop!"), (2, 3, "Fine.")),
        vtt((0, 1, "Stop"), (5, 6, "Stop\nit"), (10, 11, "it\nnow")),  # far apart
    ],
)
def test_people_who_repeat_themselves_are_heard(text: str) -> None:
    assert parse_subtitles(text).unspoken == ()
    assert len(parse_subtitles(text).cues) == 3


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "subtitles must have times such as 00:00:01,500 --> 00:00:02,000, got an empty text"),
        ("Hello", "subtitles must have times such as 00:00:01,500 --> 00:00:02,000, got 'Hello'"),
        ("WEBVTT\n\n", "subtitles must have times such as 00:00:01,500 --> 00:00:02,000, got only a WEBVTT header"),
        (
            "films/a.srt",
            "subtitles are given as their text, got the name of a file, 'films/a.srt': open it and copy its content",
        ),
        (
            "[Script Info]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,Hi",
            "these are ASS subtitles: convert them to SRT or WebVTT first, for example with Subtitle Edit or ffmpeg",
        ),
        (
            "{10}{20}Hi",
            "these are MicroDVD subtitles: convert them to SRT or WebVTT first, for example with Subtitle Edit or "
            "ffmpeg",
        ),
        (
            "0:00:01.000,0:00:02.000\nHi",
            "these are SBV subtitles: convert them to SRT or WebVTT first, for example with Subtitle Edit or ffmpeg",
        ),
        (
            "[00:01.00]Hi",
            "these are LRC lyrics: convert them to SRT or WebVTT first, for example with Subtitle Edit or ffmpeg",
        ),
        (None, "subtitles must be a string, got None"),
        (
            f"1\n00:00:01,000 --> 00:00:02,000\n{'a' * 10_001}",
            "line 2: the text of a cue can have at most 10000 characters: split the cue",
        ),
        (
            "1\n04:00:00,001 --> 04:00:01,000\nHi",
            "line 2: cue 1 ends at 04:00:01,000, at most 4 hours are allowed: split the file, or shift its times to "
            "begin near 0",
        ),
    ],
)
def test_what_is_no_subtitle_file_is_refused(text: object, message: str) -> None:
    with pytest.raises(TextError, match=f"^{re.escape(message)}$"):
        parse_subtitles(text)


def many(count: int) -> str:
    return "\n".join(
        f"{i}\n{i // 3600}:{i // 60 % 60}:{i % 60},0 --> {i // 3600}:{i // 60 % 60}:{i % 60},9\nWord {i}\n"
        for i in range(1, count + 1)
    )


def test_thousands_of_cues() -> None:
    found = parse_subtitles(many(2000))
    assert [cue.number for cue in found.cues] == [*range(1, 2001)]
    assert (found.cues[-1].start_ms, found.cues[-1].end_ms) == (2_000_000, 2_000_900)
    message = rf"^line {4 * MAX_CUES + 2}: subtitles can have at most {MAX_CUES} cues: split the "
    with pytest.raises(TextError, match=message):
        parse_subtitles(many(MAX_CUES + 1))


@pytest.mark.parametrize("words", ["Hello. " * 1000, "<i>Hello there</i> " * 500, "Hello there.\n" * 700])
def test_more_text_than_a_run_can_speak(words: str) -> None:
    text = "\n\n".join(f"0:{i // 60}:{i % 60},0 --> 0:{i // 60}:{i % 60},9\n{words}" for i in range(90))
    with pytest.raises(TextError, match="all texts of one run together must be at most 500000 characters, got"):
        parse_subtitles(text)


PIECES = st.one_of(
    st.sampled_from(
        ["00:00:01,000", "-1:2.5", " --> ", "\n", "\n\n", "\r\n", "1", "2", "WEBVTT", "NOTE", "99:99:99,999"]
    ),
    st.sampled_from(
        ["<v A>", "<i>", "{\\p1}", "{\\an8}", "[x]", "(y)", "[laughter]", "- ", "[pause 1s]", "\u266a", "Bob: "]
    ),
    st.sampled_from(
        ["hello", " ", "\u3010", "&amp;", "<00:01.0>", "\ufeff", "\u4f60\u597d", "\uff1a", "#", "*", ">>", "{"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join)))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse_subtitles(text, names=["Bob"])
    except TextError:
        return
    assert all(0 <= cue.start_ms <= cue.end_ms and cue.text.strip() for cue in found.cues)
    assert [cue.start_ms for cue in found.cues] == sorted(cue.start_ms for cue in found.cues)


WORDS = st.lists(st.sampled_from(["sun", "[gone]", "(moan)", "\u266a", "- ", "Bob: ", "12", "--> ", "...", "<i>"]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-2000, 9000), st.integers(-2000, 9000), WORDS), min_size=1, max_size=6))
def test_every_cue_is_spoken_or_named(cues: list[tuple[int, int, list[str]]]) -> None:
    def time(ms: int) -> str:
        return f"{'-' * (ms < 0)}00:00:{abs(ms) / 1000:06.3f}"

    text = "\n\n".join(f"{n}\n{time(a)} --> {time(b)}\n{' '.join(words)}" for n, (a, b, words) in enumerate(cues, 1))
    found = parse_subtitles(text)
    named = {cue.number for cue in found.cues} | {u.number for u in found.unspoken if u.whole}
    assert named == {*range(1, len(cues) + 1)}
    kept = " ".join([*(f"{cue.speaker} {cue.text}" for cue in found.cues), *(u.text for u in found.unspoken)])
    assert kept.count("sun") == sum(words.count("sun") for _, _, words in cues)


@pytest.mark.parametrize(
    "line",
    [
        "{" + "\\p1" * 50_000,
        "1:" + ":" * 99_000 + "x --> 1",
        "1:1 --> 1:1 " + "line:" * 50_000 + " x",
        "#" + " " * 99_000 + "a#b",
        "a" + " " * 99_000 + "b",
        *(mark * 99_000 for mark in ("(", "[a", "<v", "\u266a", "- ", "-", "a:", "{a", "&a")),
    ],
)
def test_long_lines_take_linear_time(line: str) -> None:
    """Quadratic time would be minutes here."""
    with pytest.raises(TextError, match=r"at most 10000 characters|cannot be read"):
        parse_subtitles(f"1\n00:00:01,000 --> 00:00:02,000\n{line}\n")
    parse_subtitles(f"1\n00:00:01,000 --> 00:00:02,000\n{line[:9_000]}\n")


SPEAKERS = st.sampled_from([None, "Alice", "Bob Smith", "\u5c0f\u738b"])
TEXTS = st.sampled_from(["Hello.", "One\ntwo", "Tom & Jerry", "1 < 2 > 0", "5", "[laughter] ha", "\u4f60\u597d"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99_999), st.integers(101, 99_999), TEXTS, SPEAKERS), min_size=1, max_size=9))
def test_what_is_written_is_read_back(rows: list[tuple[int, int, str, str | None]]) -> None:
    starts = sorted(start for start, *_ in rows)
    cues = [Cue(n, a, a + size, text, who) for n, (a, (_, size, text, who)) in enumerate(zip(starts, rows), 1)]
    for text in (srt_text(cues), vtt_text(cues)):
        found = parse_subtitles(text, names=["Alice", "Bob Smith", "\u5c0f\u738b"])
        assert [replace(cue, line=0) for cue in found.cues] == cues
        assert found.unspoken == ()


@pytest.mark.parametrize("row", ["00:01.0 --> 00:02.0", "1:2.5 --> soon:1", "00:01.0 -> 00:02.0", "1:02 \u2192 2:03"])
def test_a_text_like_times_is_not_written_as_times(row: str) -> None:
    cues = [Cue(1, 0, 1000, f"One\n{row}\ntwo")]
    for text in (srt_text(cues), vtt_text(cues)):
        assert [cue.text for cue in parse_subtitles(text).cues] == [re.sub("[>\u2192]", "\u203a", cues[0].text)]


def test_the_written_files_exactly() -> None:
    cues = [Cue(7, 1000, 2500, "Hi & bye", "Alice"), Cue(9, 3_600_000, 3_661_001, "One\ntwo")]
    assert srt_text(cues) == (
        "1\n00:00:01,000 --> 00:00:02,500\nAlice: Hi & bye\n\n2\n01:00:00,000 --> 01:01:01,001\nOne\ntwo\n"
    )
    assert vtt_text(cues) == (
        "WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.500\n<v Alice>Hi &amp; bye\n\n"
        "2\n01:00:00.000 --> 01:01:01.001\nOne\ntwo\n"
    )
