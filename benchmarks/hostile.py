"""The largest hostile inputs of at most 100 MB: those of texts, and all in one table. See `hostile_inputs`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from benchmarks.hostile_files import lists, models, prompts, recordings, tensor_files
from benchmarks.hostile_inputs import CHECKPOINT, MB, MOST, Door, Prepare, of_file, of_text, repeated
from omnivoice.commands.text_input import read_text_file
from omnivoice.generate.plan import make_plan
from omnivoice.intake.mark_reader import read_marks
from omnivoice.productions.batch_rows import read_rows
from omnivoice.productions.edit_places import parse_spans
from omnivoice.productions.redo import parse_redo
from omnivoice.productions.redo_speech import parse_lines
from omnivoice.productions.subtitle_parser import parse_subtitles
from omnivoice.productions.timings import frames_json, parse_timings, srt_of
from omnivoice.text.dictionary_reader import parse_dictionary, read_dictionary
from omnivoice.text.differences import word_changes, words_and_brackets
from omnivoice.text.script import parse_script
from omnivoice.text.word_errors import compare
from omnivoice.types import GenerationRequest


def planned(text: str, **given: object) -> object:
    return make_plan(replace(GenerationRequest(text, seed=1), **given))  # type: ignore[arg-type]


def texts() -> dict[str, Prepare]:
    chars = 200_000
    units = {
        "words": "many words of one text, and then more. ",
        "one sentence": "many words of one text and more ",
        "Chinese": "今天天气很好我们一起去公园散步吧",
        "one letter": "a",
        "Thai": "สวัสดีครับวันนี้อากาศดี",
        "digits": "1234567890, ",
        "brackets": "[",
        "closed brackets": "[a] ",
        "tags": "[laughter] a ",
        "marks": "a" + "\u0301" * 50,
        "stops": "a. ",
        "lines": "a\n",
        "braces": "<a> {b} ",
        "entities": "&amp; ",
        "markdown": "**a** _b_ `c` [d](e) ",
        "hyphens at line ends": "ab-\ncd ",
        "joiners": "a\u200d",
        "emoji": "😀👍",
        "pauses": "a [pause 0.1s] ",
    }
    found: dict[str, Prepare] = {f"text: {MOST // MB} MB": of_text("many words ", MOST, planned)}
    for name, unit in units.items():
        found[f"text: 200,000 characters, {name}"] = of_text(unit, chars, planned)
    english = ("words", "digits", "stops", "closed brackets")
    for name in english:
        read = lambda text: planned(text, normalise=True, language="en")  # noqa: E731
        found[f"text: 200,000 characters, normalised, {name}"] = of_text(units[name], chars, read)
    found["text: 200,000 characters, normalised, Chinese"] = of_text(
        "今天2026年12月1日3.5%", chars, lambda text: planned(text, normalise=True, language="zh")
    )
    found["text: 200,000 characters, normalised, amounts"] = of_text(
        "$1,234.56 on 12/01/2026 at 10:30 km/h No. 5 www.example.com/a?b ",
        chars,
        lambda text: planned(text, normalise=True, language="en"),
    )
    found["text: 200,000 characters, chunked as upstream"] = of_text(
        units["words"], chars, lambda text: planned(text, chunking="upstream")
    )
    found["text: 200,000 characters, a dictionary of 20,000 words"] = of_dictionary
    found["text: a file of 100 MB"] = of_file("a.txt", repeated(b"many words ", MOST), lambda p: read_text_file(str(p)))
    return found


def of_dictionary(folder: Path) -> Door:
    """Return a text of words that a full dictionary has, with their beginnings in common."""
    entries = "\n".join(f"aaaaaaaaaa{i}=bbb{i}" for i in range(20_000))
    dictionary = parse_dictionary(entries)
    text = " ".join(f"aaaaaaaaaa{i % 20_000}" for i in range(13_000))[:200_000]
    return lambda listen: planned(text, dictionary=dictionary)


def engine_texts(folder: Path) -> Door:
    """Return a list of as many texts as are allowed, planned by an engine."""
    from omnivoice.engine import Engine

    engine = Engine.load(CHECKPOINT)
    requests = [GenerationRequest("many words of one text, and then one more.", seed=1)] * 10_000
    return lambda listen: engine.plan(requests)


def tokenized(unit: str) -> Prepare:
    """Return a text of 200,000 characters for the tokenizer."""

    def prepare(folder: Path) -> Door:
        from omnivoice.engine import Engine

        engine, text = Engine.load(CHECKPOINT), (unit * 200_000)[:200_000]
        return lambda listen: engine.tokenizer.encode(text)

    return prepare


def scripts() -> dict[str, Prepare]:
    units = {
        "lines": "A: x\n",
        "one line": "[a] ",
        "names": "Anna Bella: a ",
        "settings": "A: {voice speed=1} a\n",
        "open settings": "{voice ",
        "blank lines": "\n",
        "pauses": "[pause 0.01s]\n",
        "colons": "a:",
    }
    found = {
        f"script: 200,000 characters, {name}": of_text(unit, 200_000, parse_script) for name, unit in units.items()
    }
    return {"script: 100 MB": of_text("A: x\n", MOST, parse_script), **found}


def subtitles() -> dict[str, Prepare]:
    cue = "00:00:01,000 --> 00:00:02,000\nHello there.\n\n"
    units = {
        "cues": cue,
        "times alone": "00:00:01,000 --> 00:00:02,000\n",
        "arrows": "--> ",
        "lines": "a\n",
        "one line": "a ",
        "numbers": "1\n",
        "tags": cue.replace("Hello", "<i><b><c.d>"),
        "names": "00:00:01,000 --> 00:00:02,000\nAnna: a\n\n",
        "blank lines": "\n",
        "long cue": "00:00:01,000 --> 00:00:02,000\n" + "many words. " * 800 + "\n\n",
    }
    found = {
        f"subtitles: 2,000,000 characters, {name}": of_text(unit, 2_000_000, parse_subtitles)
        for name, unit in units.items()
    }
    return {"subtitles: 100 MB": of_text(cue, MOST, parse_subtitles), **found}


def timings() -> dict[str, Prepare]:
    def json_of(unit: str, size: int, start: str, end: str) -> Prepare:
        def prepare(folder: Path) -> Door:
            text = start + ",".join([unit] * ((size - len(start) - len(end)) // (len(unit) + 1))) + end
            return lambda listen: parse_timings(text)

        return prepare

    word, size = '{"word":"a","start":1,"end":2}', 16_000_000
    lines = '{"lines":[', "]}"
    words = '{"lines":[{"text":"a","start":1,"end":2,"words":[', "]}]}"
    return {
        "timings: 100 MB of words": json_of(word, MOST, *words),
        "timings: 16 MB of words": json_of(word, size, *words),
        "timings: 16 MB of lists": json_of("[]", size, *lines),
        "timings: 16 MB of objects": json_of("{}", size, *lines),
        "timings: 16 MB of texts": json_of('"ab"', size, *lines),
        "timings: 16 MB of numbers": json_of("0.5", size, *lines),
        "timings: 16 MB of one list in another": lambda folder: lambda listen: parse_timings("[" * size),
        "timings: 100,000 words": json_of(word, 3_100_000 - 100, *words),
        "timings: 100,000 words as SRT": of_words(lambda lines: srt_of(lines, words=True)),
        "timings: 100,000 words as frames": of_words(lambda lines: frames_json(lines, 25, words=True)),
    }


def of_words(use: Callable[[list], object]) -> Prepare:  # type: ignore[type-arg]
    def prepare(folder: Path) -> Door:
        words = [{"word": "a", "start": i, "end": i + 1} for i in range(80_000)]
        lines = parse_timings(json.dumps({"lines": [{"text": "a", "start": 1, "end": 2, "words": words}]}))
        return lambda listen: use(lines)

    return prepare


def dictionaries() -> dict[str, Prepare]:
    units = {
        "entries": "ab=cd\n",
        "blank lines": "\n",
        "commas": "a,",
        "quotes": '"',
        "comments": "# a\n",
        "one line": "a",
    }
    found = {
        f"dictionary: 4,000,000 characters, {name}": of_text(unit, 4_000_000, parse_dictionary)
        for name, unit in units.items()
    }
    unlike = "\n".join(f"w{i}=v{i}" for i in range(400_000))[:4_000_000]
    return {
        "dictionary: 100 MB": of_text("ab=cd\n", MOST, parse_dictionary),
        "dictionary: a file of 100 MB": of_file("a.csv", repeated(b"ab,cd\n", MOST), read_dictionary),
        "dictionary: a file of 16 MB": of_file("a.csv", repeated(b"ab,cd\n", 16_700_000), read_dictionary),
        "dictionary: 400,000 entries": of_text(unlike, len(unlike), parse_dictionary),
        **found,
    }


def batches() -> dict[str, Prepare]:
    return {
        f"batch: 100 MB of {name}": of_file("a.jsonl", repeated(unit, MOST), read_rows)
        for name, unit in {
            "empty objects": b"{}\n",
            "letters": b"a\n",
            "blank lines": b"\n",
            "lists": b"[" * 64_000 + b"\n",
            "rows": b'{"id":"a","text":"Hello there, my friend.","language_id":"en"}\n',
            "one row": b"a",
            "rows of 500 bytes": b'{"text":"' + b"a" * 490 + b'"}\n',
        }.items()
    }


def comparisons() -> dict[str, Prepare]:
    chinese, other = "今天天气很好我们一起去公园散步吧", "明天天气不好我们不去公园散步了"

    def pair(old: str, new: str, use: Callable[[str, str], object], chars: int) -> Prepare:
        def prepare(folder: Path) -> Door:
            first, second = ((unit * (chars // len(unit) + 1))[:chars] for unit in (old, new))
            return lambda listen: use(first, second)

        return prepare

    def changes(old: str, new: str) -> object:
        return word_changes(words_and_brackets(old), words_and_brackets(new))

    numbers = "".join(f"w{i} " for i in range(30_000)), "".join(f"w{i} " for i in range(30_000, 0, -1))
    return {
        "edit: two texts of 200,000 Chinese characters": pair(chinese, other, changes, 200_000),
        "edit: one Chinese character twice 200,000 times": pair("一", "一一二", changes, 200_000),
        "edit: 200,000 characters of words in another order": pair(*numbers, changes, 200_000),
        "takes: 2,000 words heard as others": pair(chinese, other, compare, 2_000),
        "takes: 20,000 words heard as others": pair(chinese, other, compare, 20_000),
    }


def numbers() -> dict[str, Prepare]:
    return {
        "edit: spans of 100 MB": of_text("1-2, ", MOST, parse_spans),
        "edit: spans of 20,000 characters": of_text("1-2, ", 20_000, parse_spans),
        "redo: 100 MB": of_text("1=2, ", MOST, parse_redo),
        "redo: lines of 100 MB": of_text("1, ", MOST, parse_lines),
        "check: 100 MB of marks": of_file(
            "a.wav", repeated(b"iptc.org/newscodes/digitalsourcetype/", MOST), read_marks
        ),
        "check: 100 MB of quotes": of_file("a.flac", repeated(b'"class_type": "', MOST), read_marks),
    }


INPUTS: Mapping[str, Prepare] = MappingProxyType(
    {
        **texts(),
        "text: a list of 10,000 texts": engine_texts,
        "tokenizer: 200,000 letters": tokenized("a"),
        "tokenizer: 200,000 marks": tokenized("?"),
        "tokenizer: 200,000 spaces": tokenized(" "),
        "tokenizer: 200,000 Chinese characters": tokenized("今天天气很好"),
        **scripts(),
        **subtitles(),
        **timings(),
        **dictionaries(),
        **batches(),
        **lists(),
        **tensor_files(),
        **prompts(),
        **models(),
        **recordings(),
        **comparisons(),
        **numbers(),
    }
)
