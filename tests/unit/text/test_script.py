"""Scripts: every construct with its exact lines, every malformed variant with its exact error, and a grammar fuzz."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import InputError, OmniVoiceError, TextError
from omnivoice.text.script import ScriptLine, parse_script, speaker_names

CAST = ("Alice", "Bob", "小明", "Dr. Öz")


def spoken(script: str, cast: tuple[str, ...] | None = CAST) -> list[tuple[str | None, str]]:
    """Return (speaker, text) of each line."""
    return [(line.speaker, line.text) for line in parse_script(script, cast).lines]


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("Alice: Good morning.", [("Alice", "Good morning.")]),
        ("[Alice]: Good morning.", [("Alice", "Good morning.")]),
        ("[Alice] Good morning.", [("Alice", "Good morning.")]),
        ("  alice :  Good morning.  ", [("Alice", "Good morning.")]),
        ("ALICE: a\nbob: b", [("Alice", "a"), ("Bob", "b")]),
        ("dr. oz: Say ah.", [("Dr. Öz", "Say ah.")]),
        ("小明：你好。", [("小明", "你好。")]),
        ("[小明]：你好。", [("小明", "你好。")]),
        ("Alice: a\nb\n\nc", [("Alice", "a"), ("Alice", "b"), ("Alice", "c")]),
        ("Alice:\nGood morning.", [("Alice", "Good morning.")]),
        ("Alice: a\r\nBob: b\rAlice: c", [("Alice", "a"), ("Bob", "b"), ("Alice", "c")]),
        ("Alice: It is 10:30, see https://a.org.", [("Alice", "It is 10:30, see https://a.org.")]),
        ("Alice: Remember: bring milk.", [("Alice", "Remember: bring milk.")]),
        ("Alice: a\n10: 30 is a ratio", [("Alice", "a"), ("Alice", "10: 30 is a ratio")]),
        (
            "Alice: a\nThere is one thing that I know: nothing.",
            [("Alice", "a"), ("Alice", "There is one thing that I know: nothing.")],
        ),
        ("Alice: a\n[laughter] Ha!", [("Alice", "a"), ("Alice", "[laughter] Ha!")]),
        ("Alice: a\n[LAUGHTER]: Ha!", [("Alice", "a"), ("Alice", "[LAUGHTER]: Ha!")]),
        ("Alice: [B EY1 S] is low.", [("Alice", "[B EY1 S] is low.")]),
        ("Alice: a [pause 1s] b", [("Alice", "a [pause 1s] b")]),
        ("<speak>\nAlice: a <emphasis>b</emphasis>\n</speak>", [("Alice", "a <emphasis>b</emphasis>")]),
        ("\ufeffAlice: a", [("Alice", "a")]),
    ],
)
def test_lines(script: str, lines: list[tuple[str, str]]) -> None:
    assert spoken(script) == lines


@pytest.mark.parametrize(
    ("braces", "values"),
    [
        ("{voice speed=1.1}", {"speed": 1.1}),
        ("{voice speed=1}", {"speed": 1.0}),
        ("{voice seed=18446744073709551615}", {"seed": 2**64 - 1}),
        ("{voice duration=2.5}", {"duration": 2.5}),
        ("{voice language=de}", {"language": "de"}),
        ("{voice language=id:xx}", {"language": "id:xx"}),
        ('{voice language="Brazilian Portuguese"}', {"language": "Brazilian Portuguese"}),
        ("{ Voice  SPEED = 1.1   Seed=3 language=de }", {"speed": 1.1, "seed": 3, "language": "de"}),
    ],
)
def test_settings_of_one_line(braces: str, values: dict[str, object]) -> None:
    script = parse_script(f"Alice: {braces} Hello.\nHow are you?", CAST)
    assert script.lines == (
        ScriptLine(1, 9 + len(braces), "Alice", "Hello.", overrides=values),
        ScriptLine(2, 1, "Alice", "How are you?"),
    )


def test_settings_without_a_label_count_for_the_line() -> None:
    (_, second) = parse_script("Bob: a\n{voice speed=2}b", CAST).lines
    assert second == ScriptLine(2, 16, "Bob", "b", overrides={"speed": 2.0})


@pytest.mark.parametrize(
    ("between", "seconds"),
    [
        ("[pause 2s]", 2.0),
        ("[pause]", 0.5),
        ('<break time="250ms"/>', 0.25),
        ("[pause 1s] [pause 500ms]", 1.5),
        ("[pause 1s]\n\n[pause 2s]", 3.0),
        ("* * *", 0.5),
        ("———", 0.5),
        ("Bob: [pause 2s]", 2.0),
        ("<p>", None),
        ("[pause 0s]", 0.0),
        ("Bob: [pause 0s]", 0.0),
    ],
)
def test_a_line_without_words_is_silence_before_the_next(between: str, seconds: float | None) -> None:
    first, second = parse_script(f"Alice: a\n{between}\nBob: b", CAST).lines
    assert (first.pause_seconds, second.pause_seconds, second.speaker) == (None, seconds, "Bob")


def test_silence_at_the_end_and_what_is_not_spoken_are_kept() -> None:
    script = parse_script("<speak>\nAlice: a\n[pause 3s]\n</speak>", ("Alice", "Bob", "Eve"))
    assert script.tail_seconds == 3.0
    assert script.warnings == (
        "markup was removed from the script: <speak>",
        "no line in the script is spoken by Bob, Eve",
    )


def test_one_speaker_needs_no_label() -> None:
    assert spoken("a\nAlice: b\nc", ("Alice",)) == [("Alice", "a"), ("Alice", "b"), ("Alice", "c")]


def test_without_a_cast_every_label_is_a_name() -> None:
    assert spoken("a\nEve: b\n[Mr  X]: c\n[sigh] d", None) == [
        (None, "a"),
        ("Eve", "b"),
        ("Mr X", "c"),
        ("Mr X", "[sigh] d"),
    ]


NOT_IN_CAST = (
    "the speaker {} is not in the cast (Alice, Bob, 小明, Dr. Öz): add a voice with this name, or, if it is not a "
    "name, write the speaker's name and a colon before it"
)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("Eve: hi", "line 1, column 1: " + NOT_IN_CAST.format("'Eve'")),
        ("Alice: a\n  [Eve]: hi", "line 2, column 3: " + NOT_IN_CAST.format("'Eve'")),
        ("Alice: a\n李雷：你好", "line 2, column 1: " + NOT_IN_CAST.format("'李雷'")),
        ("Alice: a\nRemember: milk", "line 2, column 1: " + NOT_IN_CAST.format("'Remember'")),
        ("Alice: a\nBob:", "line 2, column 1: Bob has nothing to say: write a text after the colon"),
        ("Alice:\n\nBob: b", "line 1, column 1: Alice has nothing to say: write a text after the colon"),
        (
            "a\nAlice: b",
            "line 1, column 1: this line has no speaker: start it with a name and a colon, one of Alice, Bob, 小明, "
            "Dr. Öz",
        ),
        ("Alice: ?!", "line 1, column 8: there is no word to speak here: write a text, or remove the line"),
        ("Alice: a\n...a\n?", "line 3, column 1: there is no word to speak here: write a text, or remove the line"),
        (
            "Alice: {voice speed=2} [pause 1s]",
            "line 1, column 24: there is no word to speak here: write a text, or remove the line",
        ),
        ("Alice: {voice speed=9} a", "line 1, column 15: speed must be 0.25-4, got 9.0"),
        ("Alice: {voice speed=nan} a", "line 1, column 15: speed must be a number, got 'nan'"),
        ("Alice: {voice seed=1.5} a", "line 1, column 15: seed must be a whole number 0-18446744073709551615, got 1.5"),
        ("Alice: {voice seed=-1} a", "line 1, column 15: seed must be 0-18446744073709551615, got -1"),
        ("Alice: {voice seed=1 seed=2} a", "line 1, column 22: seed is set twice"),
        (
            "Alice: {voice pitch=2} a",
            "line 1, column 15: {voice …} has no setting 'pitch': it can set speed, seed, language, duration",
        ),
        (
            "Alice: {voice speed} a",
            "line 1, column 15: 'speed' cannot be read: write name=value, as in {voice speed=1.1 seed=3}",
        ),
        ("Alice: {voice speed=1.1, seed=3} a", "line 1, column 15: speed must be a number, got '1.1,'"),
        ("Alice: {voice} a", "line 1, column 8: {voice} sets nothing: write for example {voice speed=1.1}"),
        ("Alice: {voice speed=1 a", "line 1, column 8: {voice is not closed: end it with }, as in {voice speed=1.1}"),
        (
            "Alice: a {voice speed=1} b",
            "line 1, column 10: {voice …} must stand before the text of a line, after the speaker",
        ),
        (
            "Alice: {voice speed=1}{voice seed=1} a",
            "line 1, column 23: a line can have one {voice …}: put all settings into the first one",
        ),
        (
            "Alice: a\nb [pause soon] c",
            "line 2, column 3: the pause '[pause soon]' cannot be read: write [pause 0.5s] or [pause 300ms]",
        ),
        (
            "Alice: a [pause 99s] b",
            "line 1, column 10: a pause must be 0-30 s, got [pause 99s]: use several, or insert silence afterwards",
        ),
        (
            "Alice: a\n" + "[pause 30s]\n" * 21 + "b",
            "line 22, column 1: pauses between two lines can last at most 600 s in all",
        ),
        ("Alice: a\n" * 1001, "line 1001, column 8: a script can have at most 1000 spoken lines: split it"),
        ("", 'nothing to speak: the script has no line; write one, such as "Alice: Good morning."'),
        ("[pause 1s]\n", 'nothing to speak: the script has no line; write one, such as "Alice: Good morning."'),
    ],
)
def test_errors_name_the_place(script: str, error: str) -> None:
    with pytest.raises(TextError) as raised:
        parse_script(script, CAST)
    assert str(raised.value) == error


def test_an_unknown_language_is_refused_at_its_place() -> None:
    with pytest.raises(TextError, match=r"^line 1, column 15: language 'klingon' is not known"):
        parse_script("Alice: {voice language=klingon} a", CAST)


@pytest.mark.parametrize(
    ("cast", "error"),
    [
        ((), "a cast must have 1-64 speakers, got 0"),
        (tuple(map(str, range(65))), "a cast must have 1-64 speakers, got 65"),
        (("Alice", " alice "), "two speakers are called 'alice': give each its own name"),
        (("Öz", "OZ"), "two speakers are called 'OZ': give each its own name"),
        (("laughter",), "'laughter' cannot be a speaker: [laughter] is a tag that the model knows"),
        *(
            (
                (bad,),
                "a speaker's name must be 1-64 characters with a letter or number and without brackets, colons and "
                f"quotes, got {bad[:60]!r}",
            )
            for bad in ("", "  ", "a:b", "a：b", "[a]", "{a}", "?", "x" * 65)
        ),
    ],
)
def test_casts_are_checked(cast: tuple[str, ...], error: str) -> None:
    with pytest.raises(InputError) as raised:
        speaker_names(cast)
    assert str(raised.value) == error


NAMES = ("Alice", "Bob", "Eve", "hello", "你好", "[laughter]", "[pause 1s]", "[pause", "<break", "/>", "<b>", "* * *")
MARKS = (
    "[",
    "]",
    ":",
    "：",
    "{voice",
    "{",
    "}",
    "speed=1",
    "seed=3",
    "language=de",
    '"',
    "=",
    " ",
    "\n",
    "\t",
    "\ud800",
)
PIECES = st.one_of(st.sampled_from(NAMES), st.sampled_from(MARKS), st.text(max_size=3))


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join), st.sampled_from([CAST, ("A",), None]))
def test_any_script_is_read_or_refused_in_our_words(script: str, cast: tuple[str, ...] | None) -> None:
    try:
        read = parse_script(script, cast)
    except OmniVoiceError as error:
        assert "\n" not in str(error)
        return
    for line in read.lines:
        assert line.text and line.text == line.text.strip()
        assert cast is None or line.speaker in cast


@pytest.mark.parametrize("cast", [("Alice", "Bob"), None])
@pytest.mark.parametrize(
    "row",
    [
        "Bob: Hi there.",
        "Bob:Hi there.",
        "Bob：Hi there.",
        "bob : Hi there.",
        "BÓB:Hi there.",
        "**Bob:** Hi there.",
        "**Bob**: Hi there.",
        "*Bob:*Hi there.",
        "- Bob: Hi there.",
        "• **Bob:** Hi there.",
        "[Bob]: Hi there.",
        "[Bob]:Hi there.",
    ],
)
def test_a_label_is_read_as_people_write_it(row: str, cast: tuple[str, ...] | None) -> None:
    """Otherwise the speaker before would say the line, and the name with it."""
    lines = parse_script(f"Bob: It rains.\nAlice: Hello.\n{row}", cast).lines
    assert [(line.speaker, line.text) for line in lines][2] == ("Bob", "Hi there.")


@pytest.mark.parametrize("cast", [("Alice", "Bob"), None])
@pytest.mark.parametrize("row", ["https://a.org is a page.", "C:\\Temp is a folder.", "John 3:16 is a verse.", "* Hi."])
def test_a_colon_in_a_text_makes_no_label(row: str, cast: tuple[str, ...] | None) -> None:
    (_, line) = parse_script(f"Alice: Hello.\n{row}", cast).lines
    assert (line.speaker, line.text) == ("Alice", row)


def test_without_a_cast_a_speaker_is_called_as_at_first() -> None:
    script = parse_script("José: a\nAnna: b\nJOSE: c\n[anna]: d\njosé: e")
    assert [line.speaker for line in script.lines] == ["José", "Anna", "José", "Anna", "José"]


def test_a_script_has_at_most_64_speakers_and_1000_lines() -> None:
    rows = [f"Speaker {number}: a" for number in range(64)]
    assert len(parse_script("\n".join([*rows, *rows])).lines) == 128
    with pytest.raises(TextError, match=r"^line 65, column 1: a script can have at most 64 speakers, and 'Eve' is one"):
        parse_script("\n".join([*rows, "Eve: a"]))
    assert len(parse_script("A: a\n" * 1000).lines) == 1000
    with pytest.raises(TextError, match=r"^line 1001, column 4: a script can have at most 1000 spoken lines: split it"):
        parse_script("A: a\n" * 1001)


@pytest.mark.parametrize(
    ("script", "cast", "message"),
    [
        ("".join(f"{number}: a\n" for number in range(100_000)), None, "script must be at most 200000 characters"),
        ("".join(f"S{number}: a\n" for number in range(20_000)), None, "line 65, column 1: a script can have at"),
        ("A: a\n" * 40_000, None, "line 1001, column 4: a script can have at most 1000"),
        ("a\n" * 100_000, ("A",), "line 1001, column 1: a script can have at most 1000"),
        ("x" * 200_000 + ":", None, "script must be at most 200000 characters"),
        ("A: a", [f"S{number}" for number in range(100_000)], "a cast must have 1-64 speakers, got 100000"),
        ("A: a", ["x" * 1_000_000], "a speaker's name must be at most 200000 characters"),
        ("A: a", ["x" * 200_000], "a speaker's name must be 1-64 characters"),
    ],
    ids=range(8),
)
def test_a_dialogue_beyond_the_limits_is_refused(script: str, cast: list[str] | None, message: str) -> None:
    with pytest.raises(InputError, match="^" + re.escape(message)):
        parse_script(script, cast)


@pytest.mark.parametrize(("name", "given"), [("?", "'?'"), ("x" * 65, "'xxx")])
def test_without_a_cast_a_name_that_no_cast_could_have_is_refused(name: str, given: str) -> None:
    with pytest.raises(TextError, match=r"^line 2, column 1: a speaker's name must be 1-64 characters") as error:
        parse_script(f"Anna: a\n[{name}]: b")
    assert given in str(error.value)


@pytest.mark.parametrize("names", ["A\nA", "A\na", "B\nA\nA", "Anna\nAnna", "中\n中"])
def test_a_name_that_is_there_twice_is_refused(names: str) -> None:
    with pytest.raises(InputError, match="two speakers are called"):
        speaker_names(names.split("\n"))
