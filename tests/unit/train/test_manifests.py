"""Folders and lists of recordings: every row is used or named, and on a server nothing outside is reached."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnivoice.errors import FileError, InputError
from omnivoice.train import manifest_lines, manifests, recordings
from omnivoice.train.manifests import read_manifest
from omnivoice.train.recordings import OUTSIDE, dataset_stamp, is_within
from omnivoice.train.rows import Manifest

SAME_FOLDER = [HealthCheck.function_scoped_fixture]  # each example writes the files anew
# What breaks readers of tables: quotes, delimiters, every kind of line end, marks, and ordinary letters.
ODD = st.text(
    st.sampled_from("\"\"''|,\t \ufeff\r\n\u2028\u2029\x85\x0b\x0c\x1c\0{}[]:\\ab\u4f60\u00e9\U0001f600"), max_size=12
)


def touch(folder: Path, *names: str, text: str = "Hello.") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def table(folder: Path, content: str | bytes, name: str = "metadata.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def texts(manifest: Manifest) -> dict[str, str]:
    return {row.name: row.text for row in manifest.rows}


# Transcripts next to recordings.


def test_recordings_with_transcripts_and_what_lacks_one(tmp_path: Path) -> None:
    touch(tmp_path, "b.WAV", "b.TXT", "a.flac", "a.lab", "deep/er/c.mp3", "deep/er/c.txt", text="Hi.")
    touch(tmp_path, "no text.ogg", "no sound.txt", ".hidden.wav", ".omnivoice_codes/x.txt", "picture.png")
    found = read_manifest(tmp_path)
    assert texts(found) == {"a.flac": "Hi.", "b.WAV": "Hi.", "deep/er/c.mp3": "Hi."}
    assert dict(found.rejected) == {
        "no text.ogg": "it has no transcript: write its words into no text.txt",
        "no sound.txt": "it has no recording of the same name",
    }
    assert all(row.language is None and row.instruct is None for row in found.rows)
    assert found.notes == ("not read, because it is neither a recording nor a transcript: picture.png",)


def test_two_transcripts_of_one_recording_are_reported(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "a.lab")
    touch(tmp_path, "a.txt", text="first")
    found = read_manifest(tmp_path)
    assert texts(found) == {"a.wav": "first"}
    assert found.notes == ("a.lab not read: the recording has another transcript",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"ok\n\xe9t\xe9", "a.txt is not UTF-8 in line 2: save it as UTF-8"),
        (b"x" * (64 << 10) + b"x", "a.txt must be at most 65536 bytes, got 65537"),
    ],
)
def test_a_transcript_that_cannot_be_read_rejects_its_row_alone(tmp_path: Path, content: bytes, reason: str) -> None:
    touch(tmp_path, "a.wav", "b.wav", "b.txt")
    (tmp_path / "a.txt").write_bytes(content)
    found = read_manifest(tmp_path)
    assert list(texts(found)) == ["b.wav"] and found.rejected == (("a.wav", reason),)


def test_transcripts_with_byte_order_marks(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "b.wav", "c.wav")
    for name, coding in (("a", "utf-8-sig"), ("b", "utf-16"), ("c", "utf-16-be")):
        mark = b"\xfe\xff" if coding == "utf-16-be" else b""
        (tmp_path / f"{name}.txt").write_bytes(mark + "\u00e9t\u00e9".encode(coding))
    assert set(texts(read_manifest(tmp_path)).values()) == {"\u00e9t\u00e9"}


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "secret.txt", "secret.wav", "other/d.wav", "other/d.txt")
    folder = tmp_path / "set"
    touch(folder, "a.wav", "b.txt", "c.wav", "c.txt", "real.wav")
    (folder / "a.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "b.wav").symlink_to(tmp_path / "secret.wav")
    (folder / "real.txt").symlink_to(folder / "c.txt")
    (folder / "linked").symlink_to(tmp_path / "other")
    found = read_manifest(folder, root=folder)
    assert list(texts(found)) == ["c.wav", "real.wav"]
    assert found.rejected == (("a.wav", OUTSIDE), ("b.wav", OUTSIDE))


def test_sources_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty contains no dataset: .* metadata\.csv .*\.lab"):
        read_manifest(tmp_path / "empty")
    with pytest.raises(FileError, match=r"gone does not exist: a dataset is"):
        read_manifest(tmp_path / "gone")
    touch(tmp_path, "a.png")
    with pytest.raises(InputError, match=r"a\.png is not a list of recordings"):
        read_manifest(tmp_path / "a.png")
    for content in (b"", b"\xef\xbb\xbf", b"\n \r\n\t\r"):
        with pytest.raises(InputError, match=r"metadata\.csv has no rows"):
            read_manifest(table(tmp_path, content))


def test_which_list_a_folder_is_read_by(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "a.txt")
    line = json.dumps({"id": "j", "audio_path": "a.wav", "text": "from json"})
    table(tmp_path, line, "one.jsonl")
    assert texts(read_manifest(tmp_path)) == {"j": "from json"}
    table(tmp_path, line, "two.jsonl")
    with pytest.raises(InputError, match=r"has 2 lists, one\.jsonl, two\.jsonl: leave only one of them"):
        read_manifest(tmp_path)
    table(tmp_path, "a|from table\n")
    found = read_manifest(tmp_path)
    assert texts(found) == {"a": "from table"} and found.notes == (
        "one.jsonl, two.jsonl not read: metadata.csv is used instead",
        "read from metadata.csv",
    )


# LJSpeech and tables.


def test_ljspeech(tmp_path: Path) -> None:
    touch(tmp_path, "wavs/a.wav", "wavs/b.FLAC", "c.wav", "wavs/e.f.wav")
    found = read_manifest(
        table(
            tmp_path,
            'a|No. 1, "he said|number one, he said\r\nb|2nd|\nc.wav|plain\ne.f|dots\n\nx|none|\nwavs/a.wav|again\n',
        )
    )
    assert texts(found) == {
        "a": "number one, he said",
        "b": "2nd",
        "c.wav": "plain",
        "e.f": "dots",
        "wavs/a.wav": "again",
    }
    assert found.rejected == (("x (line 6)", "x does not exist"),)
    assert [row.audio.name for row in found.rows] == ["a.wav", "b.FLAC", "c.wav", "e.f.wav", "a.wav"]


@pytest.mark.parametrize("mark", [",", "\t", "|"])
def test_table_with_a_header(tmp_path: Path, mark: str) -> None:
    touch(tmp_path, "a.wav", "clips/b.mp3")
    rows = [
        ["speaker", "File_Name", "transcription", "language", "instruct"],
        ["s", "a.wav", "Hi.", "en", "female"],
        ["s", "b.mp3", 'say "x"', "", ""],
        ["s", "a.wav"],
    ]
    found = read_manifest(table(tmp_path, "\ufeff" + "\r".join(mark.join(row) for row in rows)))
    first, second, third = found.rows
    assert (first.name, first.text, first.language, first.instruct) == ("a.wav", "Hi.", "en", "female")
    assert (second.text, second.language, second.instruct, third.text) == ('say "x"', None, None, "")
    assert found.notes == ("not used in metadata.csv: 'speaker'",)


def test_quotes_of_spreadsheets_stay_in_their_row(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav")
    lines = ["audio,text", 'a.wav,"one, ""two"""', '"a.wav",three', 'a.wav,"opened', 'a.wav,"x" y', "a.wav,too,many"]
    found = read_manifest(table(tmp_path, "\n".join([*lines, "a.wav,last"])))
    assert [row.text for row in found.rows] == ['one, "two"', "three", "last"]
    assert [name for name, _ in found.rejected] == ["line 4", "line 5", "line 6"]
    assert "a quote is not closed" in found.rejected[0][1]
    assert found.rejected[2][1] == "it has 3 fields, the header 2: put texts with commas in quotes"


@settings(max_examples=80, deadline=None, suppress_health_check=SAME_FOLDER)
@given(rows=st.lists(st.lists(ODD, min_size=1, max_size=4), max_size=8), end=st.sampled_from(["\n", "\r\n", "\r"]))
@pytest.mark.parametrize(
    ("start", "mark"),
    [("", "|"), ("", ";"), ("", ","), ("", "\t"), ("audio,text,language", ","), ("path\tsentence", "\t")],
)
def test_every_line_of_a_table_is_accounted_for(
    tmp_path: Path, start: str, mark: str, rows: list[list[str]], end: str
) -> None:
    touch(tmp_path, "r.wav")
    content = end.join([start, f"r.wav{mark}sound", *(mark.join(row) for row in rows), f"r.wav{mark}end"])
    content = content.removeprefix(end) if not start else content
    lines = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")[1 if start else 0 :]
    found = read_manifest(table(tmp_path, content))
    assert len(found.rows) + len(found.rejected) == sum(bool(line.strip()) for line in lines)
    assert found.rows[0].text == "sound" and found.rows[-1].text == "end"
    assert all(reason and name == name.strip("\n") for name, reason in found.rejected)


@settings(max_examples=150, deadline=None, suppress_health_check=SAME_FOLDER)
@given(rows=st.lists(ODD | st.just('{"audio_path": "a.wav", "text": "x"}'), max_size=8))
def test_every_line_of_jsonl_is_accounted_for(tmp_path: Path, rows: list[str]) -> None:
    touch(tmp_path, "a.wav")
    good = '{"audio_path": "a.wav", "text": "%s\u2028"}'
    content = "\n".join([good % 1, *rows, good % 2])
    lines = content.replace("\r", "\n").split("\n")
    found = read_manifest(table(tmp_path, content, "x.jsonl"))
    assert len(found.rows) + len(found.rejected) == sum(bool(line.strip()) for line in lines)
    assert [found.rows[0].text, found.rows[-1].text] == ["1", "2"]


def test_codings(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "b.wav")
    for data in ("a|\u4f60\nb|\u597d\n".encode("utf-16"), "\ufeffa|\u4f60\nb|\u597d".encode()):
        assert texts(read_manifest(table(tmp_path, data))) == {"a": "\u4f60", "b": "\u597d"}
    with pytest.raises(FileError, match=r"^metadata\.csv is not UTF-8 in line 3: save it as UTF-8$"):
        read_manifest(table(tmp_path, b"a|x\nb|y\nc|\xe9t\xe9\nd|\xe9"))
    with pytest.raises(FileError, match=r"^metadata\.csv is not UTF-16 in line 2"):
        read_manifest(table(tmp_path, "a|x\nb|y".encode("utf-16") + b"\x00\xd8\x61\x00"))


# JSONL.


def test_jsonl_with_all_keys(tmp_path: Path) -> None:
    touch(tmp_path, "w/a.wav")
    row = {"id": 7, "audio_path": "w/a.wav", "text": " Hi. ", "language_id": "en", "instruct": "Ann", "duration": 1.5}
    row |= {"text_pinyin": "hai", "clean_start_token_idx": 0}
    absolute = {"audio_path": str(tmp_path / "w" / "a.wav"), "text": "x", "instruct": None, "speaker": 1}
    path = table(tmp_path, f"{json.dumps(row)}\n\n{json.dumps(absolute)}\r\n", "x.jsonl")
    found = read_manifest(path)
    first, second = found.rows
    assert (first.name, first.audio, first.text) == ("7", tmp_path / "w" / "a.wav", "Hi.")
    assert (first.language, first.instruct, first.pinyin, first.clean_start) == ("en", "Ann", "hai", 0)
    assert (second.name, second.instruct, second.clean_start) == ("line 3", None, None)
    assert found.rejected == () and found.notes == (
        "not used in x.jsonl: 'duration', 'speaker'",
        "rows with the recording of an earlier row and another text: line 3",
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "it is not valid JSON"),
        ("[1]", "it is not a JSON object"),
        ('{"text": "x"}', "it names no audio file"),
        ('{"audio_path": "b.wav", "text": "x"}', "b.wav does not exist"),
        ('{"audio_path": "http://x/b.wav", "text": "x"}', "b.wav is an address, and nothing is downloaded"),
        ('{"audio_path": 3, "text": "x"}', "audio_path must be a string, got 3"),
        ('{"audio_path": "a.wav", "text": ["x"]}', "text must be a string, got list"),
        ('{"audio_path": "a.wav", "text": "x", "instruct": NaN}', "NaN is not a JSON number"),
        ('{"audio_path": "a.wav", "text": "x", "clean_start_token_idx": 1.5}', "must be a whole number, got 1.5"),
        ('{"audio_path": "a.wav", "text": "x", "clean_start_token_idx": -1}', "whole number of frames, 0 or more"),
        ('{"audio_path": "a\\u0000.wav", "text": "x"}', "its audio path is not valid"),
        ('{"audio_path": "\\ud800.wav", "text": "x"}', "half of a surrogate pair"),
        ('{"audio_path": "notes.txt", "text": "x"}', "notes.txt is not an audio file"),
        ('{"text": "' + "x" * (64 << 10) + '"}', "it must have at most 65536 characters"),
        ("[" * 60_000, "it is nested too deeply"),
    ],
)
def test_bad_rows_are_named_and_the_others_kept(tmp_path: Path, line: str, reason: str) -> None:
    touch(tmp_path, "a.wav", "notes.txt")
    good = '{"id": "good", "audio_path": "a.wav", "text": "x"}'
    found = read_manifest(table(tmp_path, f"{good}\n{line}\n{good}\n", "x.jsonl"))
    assert [row.name for row in found.rows] == ["good", "good"]
    ((name, said),) = found.rejected
    assert name == "line 2" and reason in said and "\n" not in said


# Confinement.

HOSTILE = [
    "/etc/passwd",
    "../secret.wav",
    "a/../../secret.wav",
    "..\\secret.wav",
    "C:\\x.wav",
    "\\\\host\\x.wav",
    "//host/x.wav",
    "file:///etc/passwd",
    "http://host/x.wav",
    "concat:a.wav",
    "~/x.wav",
    "link.wav",
    "out/x.wav",
    "/dev/zero",
    "/proc/self/environ",
    ".",
    "",
    "x" * 5000 + ".wav",
]


@pytest.mark.parametrize("kind", ["x.jsonl", "metadata.csv"])
def test_nothing_outside_is_reached_on_a_server(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "set"
    touch(folder, "a.wav")
    touch(tmp_path, "secret.wav", "secret.txt")
    (folder / "link.wav").symlink_to(tmp_path / "secret.wav")
    (folder / "out").symlink_to("/")
    every = ["a.wav", *HOSTILE, str(folder / "a.wav"), "a.wav"]
    rows = [json.dumps({"audio_path": name, "text": "x"}) if kind == "x.jsonl" else f"{name}|x" for name in every]
    found = read_manifest(table(folder, "\n".join(rows), kind).parent, root=folder)
    assert [Path(row.audio).name for row in found.rows] == ["a.wav"] * 3
    assert len(found.rejected) == len(HOSTILE)
    reasons = dict(zip(HOSTILE, (reason for _, reason in found.rejected)))
    outside = ("/etc/passwd", "../secret.wav", "//host/x.wav", "link.wav", "/dev/zero", "/proc/self/environ")
    assert {reasons[name] for name in outside} == {OUTSIDE}


def test_on_the_command_line_paths_are_the_users_own(tmp_path: Path) -> None:
    touch(tmp_path, "elsewhere.wav", "set/keep")
    path = table(tmp_path / "set", '{"audio_path": "../elsewhere.wav", "text": "x"}', "x.jsonl")
    assert len(read_manifest(path).rows) == 1
    assert read_manifest(path, root=tmp_path / "set").rejected == (("line 1", OUTSIDE),)


def test_a_list_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "secret.csv", "set/keep", text="root|x")
    (tmp_path / "set" / "metadata.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(InputError, match="it is outside the dataset folder"):
        read_manifest(tmp_path / "set", root=tmp_path / "set")


def test_what_is_outside_by_its_letters_is_not_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path, **_: asked.append(str(path)) or real(path))
    assert not is_within(Path("//host/share/x.wav"), tmp_path)
    assert not is_within(tmp_path / ".." / "x.wav", tmp_path)
    assert set(asked) == {str(tmp_path)}
    assert is_within(tmp_path / "sub" / ".." / "x.wav", tmp_path)


# Caps.


def test_caps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.wav", "b.wav", "c.wav", "d.txt")
    monkeypatch.setattr(recordings, "MAX_DATASET_FILES", 3)
    with pytest.raises(FileError, match="must have at most 3 files"):
        read_manifest(tmp_path)
    path = table(tmp_path, "a|x\nb|y\nc|z\n")
    monkeypatch.setattr(manifests, "MAX_DATASET_ROWS", 2)
    with pytest.raises(InputError, match="must have at most 2 rows"):
        read_manifest(path)
    monkeypatch.setattr(manifest_lines, "MAX_DATASET_ROWS", 1)
    with pytest.raises(FileError, match="must have at most 1 lines"):
        read_manifest(path)
    monkeypatch.setattr(manifest_lines, "MAX_MANIFEST_BYTES", 5)
    with pytest.raises(FileError, match="must be at most 5 bytes, got 12"):
        read_manifest(path)


@given(st.lists(st.sampled_from(["a", "bcd", " ", "\r\n", "\n", "\r", "\u2028"]), max_size=30), st.integers(1, 9))
def test_lines_end_with_any_mark_wherever_a_block_ends(parts: list[str], size: int) -> None:
    text = "".join(parts)
    expected = [(number, line) for number, line in enumerate(re.split("\r\n|\n|\r", text), 1) if line.strip()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_lines, "_BLOCK_CHARS", size)
        patch.setattr(manifest_lines, "read_plain", lambda path, limit: text)
        assert [*manifest_lines._lines(Path("list.csv"))] == expected


def test_a_long_line_of_a_table_is_named(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav")
    found = read_manifest(table(tmp_path, f"a|x\na|{'y' * (64 << 10)}\na|z\n"))
    assert found.rejected == (("line 2", "it must have at most 65536 characters"),) and len(found.rows) == 2


def test_stamp_follows_the_files(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "sub/b.txt")
    stamps = [dataset_stamp(tmp_path)]
    assert dataset_stamp(tmp_path) == stamps[0]
    touch(tmp_path, "sub/b.txt", text="longer")
    stamps.append(dataset_stamp(tmp_path))
    touch(tmp_path, "c.wav")
    stamps.append(dataset_stamp(tmp_path))
    os.utime(tmp_path / "a.wav", ns=(1, 1))
    stamps.append(dataset_stamp(tmp_path))
    assert len(set(stamps)) == 4
    touch(tmp_path, ".omnivoice_codes/x", ".DS_Store")
    assert dataset_stamp(tmp_path) == stamps[3]


@pytest.mark.parametrize(("first", "usable"), [(0, True), (1, True), (19, True), (20, False), (39, False)])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json"])
def test_a_list_that_starts_with_unusable_rows_is_refused_after_some_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, first: int, usable: bool
) -> None:
    """first: the place of the only row with a recording."""
    monkeypatch.setattr(manifests, "MAX_UNUSABLE_ROWS", 20)
    (tmp_path / "here.wav").write_bytes(b"")
    rows = [{"audio": "here.wav" if i == first else f"gone{i}.wav", "text": "a"} for i in range(40)]
    path, looked = tmp_path / f"list.{suffix}", list[str]()
    if suffix == "csv":
        path.write_text("audio,text\n" + "".join(f"{row['audio']},a\n" for row in rows))
    else:
        path.write_text(json.dumps(rows) if suffix == "json" else "\n".join(map(json.dumps, rows)))
    find = recordings.Finder.find
    monkeypatch.setattr(recordings.Finder, "find", lambda self, name: looked.append(name) or find(self, name))
    if usable:
        assert (len(read_manifest(path).rows), len(looked)) == (1, 40)
    else:
        with pytest.raises(InputError, match=r"none of the first 20 rows of list\.\w+ can be used; .*gone0"):
            read_manifest(path)
        assert len(looked) == 20


@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt", "jsonl"])
def test_rows_are_counted_before_a_file_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(manifest_lines, "MAX_DATASET_ROWS", 5)
    monkeypatch.setattr(recordings.Finder, "find", None)
    path = tmp_path / f"list.{suffix}"
    path.write_text('{"audio": "a.wav", "text": "b"}\n' * 11 if suffix == "jsonl" else "a.wav|b\n" * 11)
    with pytest.raises(FileError, match="must have at most 5"):
        read_manifest(path)


@pytest.mark.parametrize("mark", list(",;|\t"))
@pytest.mark.parametrize(
    ("fields", "reason"), [(256, "it has 256 fields, the header 2"), (257, "it has more than 256 f")]
)
def test_fields_are_counted_before_they_are_all_read(tmp_path: Path, mark: str, fields: int, reason: str) -> None:
    path = table(tmp_path, f"audio{mark}text\na.wav{mark}b\n" + mark.join("x" * fields) + "\n")
    assert [one.reason[: len(reason)] for one in read_manifest(path).rejected if one.name == "line 3"] == [reason]


@pytest.mark.parametrize("mark", list(",;|\t"))
def test_a_first_line_that_is_too_long_is_refused_before_it_is_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    monkeypatch.setattr(manifest_lines, "header_of", None)
    path = table(tmp_path, f"audio{mark}text{mark}" + f"a{mark}" * 40_000 + "\nb")
    with pytest.raises(InputError, match=r"line 1 of metadata\.csv must have at most 65536 characters"):
        read_manifest(path)
