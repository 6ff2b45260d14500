"""Subtitles, and every JSON and list that users bring: timings, batch lists, lists of recordings, spans of edits.

What must hold for each that is not refused:
- cues are in order, within four hours and have a word to say; of a file that is well-formed, no word is lost;
- strict JSON is what Python reads too, with each key once, finite numbers and no half of a surrogate pair;
- timings that are written again are read again, and every text in them can be stored as UTF-8;
- every row of a batch list is usable or has a reason, and its file name is a harmless one that no other row has;
- every recording of a list is in the folder that it must be in;
- spans of edits are pairs of seconds, and the frames made of them are in order and within the recording.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from omnivoice.intake.encodings import decode_text
from omnivoice.intake.limits import MAX_TOTAL_SECONDS
from omnivoice.intake.paths import check_file_name
from omnivoice.intake.strict_json import parse_json
from omnivoice.productions.batch_rows import NUMBERS, TEXTS, read_rows
from omnivoice.productions.edit_places import parse_spans
from omnivoice.productions.edit_spans import check_spans, given_ranges
from omnivoice.productions.subtitle_parser import parse_subtitles
from omnivoice.productions.timings import frames_json, parse_timings, srt_of, timings_json
from omnivoice.text.characters import is_spoken
from omnivoice.text.differences import WordChange
from omnivoice.text.own_tokens import OwnToken, OwnTokens
from omnivoice.text.rules import PUBLISHED, TextRules
from omnivoice.train.manifests import read_manifest
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.messages import UNSEEN, tried
from tests.fuzz.mutations import JsonText, mutate
from tests.fuzz.strings import OWN_TOKENS, any_text

FILES = tuple(
    text.encode()
    for text in (
        "1\n00:00:01,500 --> 00:00:02,000\n<i>Hello</i>.\n\n2\n00:00:02,5 --> 00:00:04,000\n- Yes.\n- ALICE: No!\n",
        "WEBVTT\n\nNOTE x\n\nintro\n00:01.000 --> 00:02.000 align:start\n<v Bob>Hi &amp; bye <00:01.500><c.a>you</c>\n",
        "1\r\n00:00:01:500 --> 99:59:59,999\r\n{\\an8}♪ la ♪ [door slams]\r\n\r\n2\r\n-0:1.5 -> 0:2\r\n你好\r\n",
        "0:01.0 --> 0:02.0\none two\n\n0:02.0 --> 0:03.0\ntwo three\n\n0:03.0 --> 0:03.0\n{\\p1}m 0 0{\\p0}\n",
    )
)
ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "cp1252", "shift_jis", "utf-32")
RULES = (PUBLISHED, TextRules(OwnTokens(tuple(OwnToken(text, 400 + i) for i, text in enumerate(OWN_TOKENS)))))
TIMES = (
    "0:0:1 --> 0:0:2",
    "00:00:01,000 --> 00:00:03,000",
    "-->",
    "1 2 --> 3",
    "WEBVTT",
    "NOTE",
    "7",
    "1:2:3,4",
    "\n",
    "\n\n",
)
WORDS = ("alpha", "bravo", "carlo", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett")
TIMED = JsonText(
    b'{"seconds": 2.5, "chapters": [], "lines": [{"start": 0, "end": 1.25, "speaker": null, "text": "Hello you",'
    b' "words_are": "estimated", "words": [{"word": "Hello", "start": 0, "end": 0.5},'
    b' {"word": "you", "start": 0.5, "end": 1.25}]}]}'
)
ROW = JsonText(
    b'{"id": "a1", "text": "Hello.", "ref_audio": "a.wav", "ref_text": "Good morning.", "language_id": "en",'
    b' "duration": 2.5, "speed": 1, "seed": 3, "instruct": "female", "voice": "anna"}'
)
CLIP = JsonText(b'{"id": "x", "audio_path": "a.wav", "text": "Hello.", "language": "en", "offset": 0, "duration": 2}')
NUMBERS_ETC = JsonText(
    b'{"a": [1, -0, 2.5e3, "b\\u00e9\\ud83d\\ude00", null, true, {"c": {}, "d": []}], "e": 12345678901}'
)
PATHS = (
    b"a.wav",
    b"b.wav",
    b"sub/c.wav",
    b"../outside.wav",
    b"link.wav",
    b"/etc/passwd",
    b"C:\\a.wav",
    b"http://x/a.wav",
    b"\x00",
)
LISTS = {
    ".csv": (
        b'audio,text,language\na.wav,Hello,en\n"b.wav","x, y",\n',
        b"a.wav,Hello\nb.wav;x\n",
        b"sep=;\na.wav;Hello\n",
    ),
    ".tsv": (b'path\tsentence\na.wav\tHello\nsub/c.wav\t"x"\n',),
    ".txt": (b"a.wav|Hello|en\nb.wav|x\n", b"a Hello\nb x\n"),
    ".jsonl": (b"",),
    ".json": (b"",),
}
ROWS = 16  # of a batch list
KINDS = {**dict.fromkeys(TEXTS, str), **dict.fromkeys(NUMBERS, (int, float))}
SPANS = (b"1.2-1.85, 3-4", b"1-2,3-4,5-6", "1.2–1.85".encode(), b"0-0.04,0.08-0.12", b"1e1-2e1", b" , ")


def attack(run: Run) -> None:
    """Read inputs of all kinds, the quick ones more often."""
    _make_folder(run.folder)
    kinds = (_subtitles, _spans, _timings, _strict, _rows, _timings, _strict, _spans, _timings, _subtitles)
    turn = 0
    while run.more():
        turn += 1
        if turn % 250 == 7:
            _written(run)
        elif turn % 60 == 13:
            _list(run)
        else:
            kinds[turn % len(kinds)](run)


def _make_folder(folder: Path) -> None:
    """Make a folder of recordings with a link that leads out of it."""
    (folder / "in" / "sub").mkdir(parents=True)
    for name in ("outside.wav", "in/a.wav", "in/b.wav", "in/sub/c.wav"):
        (folder / name).write_bytes(b"")
    os.symlink(folder / "outside.wav", folder / "in" / "link.wav")


def _subtitles(run: Run) -> None:
    """A file of a few cues, damaged, in any encoding; or rows of times and texts in any order."""
    kind, data = run.rng.random(), run.rng.choice(FILES)
    if kind < 0.6:
        data = mutate(run.rng, data, FILES)
    elif kind < 0.7:
        data = mutate(run.rng, data.decode().encode(run.rng.choice(ENCODINGS), "replace"))
    else:
        parts = [*run.rng.choices(TIMES, k=1 + run.rng.randrange(4)), any_text(run.rng, 3), "\n"]
        data = "\n".join(run.rng.sample(parts, len(parts))).encode("utf-8", "surrogatepass")
    with tried(run, data):
        text, _ = decode_text(data, "file.srt")
        found = parse_subtitles(text, ("Bob", "Alice") if kind < 0.5 else (), RULES[kind < 0.8])
        latest = 0
        for cue in found.cues:
            if not latest <= cue.start_ms <= cue.end_ms <= MAX_TOTAL_SECONDS * 1000:
                run.finding(data, "the times of cues are not in order or beyond the limit", repr(cue))
            if not any(map(is_spoken, cue.text)) or UNSEEN.search(cue.text.replace("\n", " ")):
                run.finding(data, "a cue has no word, or a character that cannot be seen", repr(cue))
            latest = cue.start_ms
        if UNSEEN.search("".join(found.notes)):
            run.finding(data, "a note has a character that cannot be seen", repr(found.notes))


def _written(run: Run) -> None:
    """A well-formed file of many cues, each with words of its own; all must be in a cue or named."""
    rows, at, words = [], 0, list[str]()
    for number in range(1, 1 + run.rng.randrange(1, 40)):
        own = [f"{word}{number}" for word in run.rng.sample(WORDS, 3)]
        words += own
        end = at + run.rng.randrange(100, 3000)
        rows.append(f"{number}\n{_time(at)} --> {_time(end)}\n" + run.rng.choice((" ", "\n", ", ", " <i>")).join(own))
        at = end + run.rng.randrange(-50, 500)
    text, refused = run.rng.choice(("\n\n", "\n", "\n\n\n")).join(rows), run.refused
    with tried(run, text):
        found = parse_subtitles(text)
        kept = " ".join([cue.text for cue in found.cues] + [one.text for one in found.unspoken] + [*found.notes])
        lost = [word for word in words if word not in kept]
        if lost:
            run.finding(text, "a word of a well-formed file is lost", repr(lost))
    if run.refused > refused:
        run.finding(text, "a well-formed file is refused")


def _time(ms: int) -> str:
    ms = max(0, ms)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"


def _strict(run: Run) -> None:
    """JSON, against what Python's parser makes of it."""
    data = NUMBERS_ETC.mutate(run.rng)
    with run.input(data):
        found = parse_json(data, "x")
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
        if json.loads(data) != found:
            run.finding(data, "strict JSON differs from Python's")


def _timings(run: Run) -> None:
    """The times of a recording, changed."""
    data = TIMED.mutate(run.rng)
    text = data.decode("utf-8", "surrogateescape")
    with tried(run, text):
        lines = parse_timings(text)
        if run.inputs % 4:
            return
        again = timings_json(lines, 2.5)
        again.encode()
        if timings_json(parse_timings(again), 2.5) != again:
            run.finding(text, "timings that are written again are not read again")
        if not all(0 <= one.start <= one.end < math.inf for line in lines for one in (line, *line.words)):
            run.finding(text, "a time is not finite or not in order")
        srt_of(lines).encode()
        srt_of(lines, words=True).encode()
        frames_json(lines, 25)


def _rows(run: Run) -> None:
    """A batch list whose rows are all changed, or good; they are counted one by one."""
    rows = [ROW.mutate(run.rng) if run.rng.random() < 0.9 else b'{"text": "x"}' for _ in range(ROWS)]
    data = run.rng.choice((b"\n", b"\n", b"\r\n", b"\n\n")).join(rows)
    path = run.folder / "rows.jsonl"
    _write(path, data)
    with tried(run, data):
        found = read_rows(path)
        faults = sum(bool(row.fault) for row in found)
        run.inputs, run.refused, run.accepted = (
            run.inputs + len(found) - 1,
            run.refused + faults,
            run.accepted + len(found) - faults - 1,
        )
        if len(found) != sum(bool(line.strip()) for line in data.splitlines()):
            run.finding(data, "a row of a batch list is lost")
        for row in found:
            if check_file_name(row.name) != row.name or UNSEEN.search(row.fault):
                run.finding(data, "a row has a name or a reason that cannot be used", repr(row))
            if not all(isinstance(value, KINDS[name]) for name, value in row.values.items()):
                run.finding(data, "a value of a row has another type", repr(row))
        names = [row.name.casefold() for row in found if not row.fault]
        if len(set(names)) < len(names):
            run.finding(data, "two rows have one file name")


def _list(run: Run) -> None:
    """A list of recordings, as a table or as JSON, changed, with paths that lead out of its folder."""
    suffix = run.rng.choice((*LISTS,))
    if suffix.startswith(".json"):
        data = CLIP.mutate(run.rng).replace(b"a.wav", run.rng.choice(PATHS)) + b'\n{"audio": "b.wav", "text": "x"}\n'
        data = b"[" + data.replace(b"\n", b",", 1) + b"]" if suffix == ".json" else data
    else:
        seeds = LISTS[suffix]
        data = mutate(run.rng, run.rng.choice(seeds), seeds).replace(b"b.wav", run.rng.choice(PATHS))
    path = run.folder / "in" / f"list{suffix}"
    _write(path, data)
    inside = os.path.realpath(path.parent)
    with tried(run, data):
        found = read_manifest(path, root=path.parent)
        for row in found.rows:
            if not os.path.realpath(str(row.audio)).startswith(inside + os.sep):
                run.finding(data, "a recording is not in the folder that it must be in", repr(row))
        told = [*found.notes, *(one.name + one.reason for one in found.rejected)]
        if UNSEEN.search("".join(told)):
            run.finding(data, "a reason has a character that cannot be seen", repr(told))


def _write(path: Path, data: bytes) -> None:
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()


def _spans(run: Run) -> None:
    """The spans of edits in seconds, changed."""
    text = mutate(run.rng, run.rng.choice(SPANS), SPANS).decode("utf-8", "surrogateescape")
    with tried(run, text):
        spans = parse_spans(text)
        check_spans(spans)
        changes = [WordChange((i, i + 1), (i, i + run.rng.randrange(2))) for i in range(len(spans))]
        ranges = given_ranges(changes, spans, 250)
        edges = [edge for both in ranges for edge in both]
        if edges != sorted(edges) or not all(0 <= edge <= 250 for edge in edges):
            run.finding(text, "the frames of spans are not in order, or outside the recording", repr(ranges))


CAMPAIGN = Campaign(
    name="subtitles", unit="subtitles, JSON and lists", goal=10_000_000, share=11, attack=attack, suite=5_000
)
