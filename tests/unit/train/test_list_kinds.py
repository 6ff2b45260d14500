"""Lists and folders as people have them: each is read row by row, or refused with a sentence that says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnivoice.errors import FileError, InputError
from omnivoice.train.list_columns import MARKS
from omnivoice.train.list_layout import find_layout
from omnivoice.train.manifests import read_manifest
from omnivoice.train.recordings import last_parts, spellings
from omnivoice.train.rows import Manifest

HELLO, BYE, THIRD = "Good morning, everyone.", "See you tomorrow.", "It is raining again."


def touch(folder: Path, *names: str, text: str = "Hello.") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def read(folder: Path, content: str | bytes, name: str, *recordings: str, root: bool = False) -> Manifest:
    """Write a list beside empty recordings, and read it."""
    touch(folder, *recordings, text="")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return read_manifest(path, root=folder if root else None)


def rows(found: Manifest, folder: Path) -> list[tuple[str, str]]:
    return [(Path(str(row.audio)).relative_to(folder).as_posix(), row.text) for row in found.rows]


# Separators, headers and the meaning of columns.

TWO = [("a.wav", HELLO), ("b.wav", BYE)]
TABLES = {
    "bars": ("m.csv", f"a.wav|{HELLO}\nb.wav|{BYE}\n"),
    "tabs": ("m.tsv", f"a.wav\t{HELLO}\nb.wav\t{BYE}\n"),
    "tabs, quoted by a spreadsheet": ("m.txt", f'a.wav\t"{HELLO}"\nb.wav\t{BYE}\n'),
    "semicolons": ("m.csv", f"a.wav;{HELLO}\nb.wav;{BYE}\n"),
    "semicolons, quoted": ("m.csv", f'"a.wav";"{HELLO}"\r\n"b.wav";"{BYE}"\r\n'),
    "commas, quoted": ("m.csv", f'a.wav,"{HELLO}"\nb.wav,{BYE}\n'),
    "a space": ("m.lst", f"a.wav {HELLO}\nb.wav  {BYE}\n"),
    "ids and a space": ("m.txt", f"a {HELLO}\nb {BYE}\n"),
    "the text first": ("m.csv", f"{HELLO}|a.wav\n{BYE}|b.wav\n"),
    "a speaker last": ("m.txt", f"a.wav|{HELLO}|anna\nb.wav|{BYE}|anna\n"),
    "two speakers last": ("m.txt", f"a.wav|{HELLO}|anna\nb.wav|{BYE}|tom\n"),
    "a speaker with a surname last": ("m.txt", f"a.wav|{HELLO}|Anna Berg\nb.wav|{BYE}|Anna Berg\n"),
    "speakers with a surname each last": ("m.txt", f"a.wav|{HELLO}|Anna Berg\nb.wav|{BYE}|Tom van Hill\n"),
    "a language and a speaker last": ("m.txt", f"a.wav|{HELLO}|en|x1\nb.wav|{BYE}|en|x2\n"),
    "a language last": ("m.txt", f"a.wav|{HELLO}|en\nb.wav|{BYE}|en\n"),
    "a number of the speaker": ("m.txt", f"a.wav|0|{HELLO}\nb.wav|1|{BYE}\n"),
    "a speaker in the middle": ("m.txt", f"a.wav|p225|{HELLO}\nb.wav|p226|{BYE}\n"),
    "a speaker after tabs": ("m.tsv", f"a.wav\t{HELLO}\tanna\nb.wav\t{BYE}\tanna\n"),
    "a speaker after semicolons": ("m.csv", f"a.wav;{HELLO};anna\nb.wav;{BYE};anna\n"),
    "a duration last": ("m.txt", f"a.wav|{HELLO}|3.25\nb.wav|{BYE}|4.5\n"),
    "LJSpeech": ("m.csv", f"a|{HELLO.upper()}|{HELLO}\nb|{BYE.upper()}|{BYE}\n"),
    "LJSpeech, normalized where needed": ("m.csv", f"a|{HELLO.upper()}|{HELLO}\nb|{BYE}|\n"),
    "a header with commas": ("m.csv", f'file_name,transcription\na.wav,"{HELLO}"\nb.wav,{BYE}\n'),
    "a header with semicolons": ("m.csv", f"Path;Sentence\na.wav;{HELLO}\nb.wav;{BYE}\n"),
    "a header with tabs": ("m.tsv", f"AUDIO_FILEPATH\tText\na.wav\t{HELLO}\nb.wav\t{BYE}\n"),
    "a header with bars and a speaker": ("m.csv", f"audio_file|text|speaker_name\na.wav|{HELLO}|x\nb.wav|{BYE}|x\n"),
    "a header in words": ("m.csv", f'"File Name","Transcript"\n"a.wav","{HELLO}"\n"b.wav","{BYE}"\n'),
    "a header with hyphens": ("m.csv", f"audio-path;raw-text\na.wav;{HELLO}\nb.wav;{BYE}\n"),
    "DeepSpeech": ("m.csv", f'wav_filename,wav_filesize,transcript\na.wav,9,"{HELLO}"\nb.wav,9,{BYE}\n'),
    "Excel's first line": ("m.csv", f"sep=;\r\nfile;text\r\na.wav;{HELLO}\r\nb.wav;{BYE}\r\n"),
    "Excel's first line, no header": ("m.csv", f'"sep=;"\na.wav;{HELLO}\nb.wav;{BYE}\n'),
}


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(("name", "content"), TABLES.values(), ids=TABLES)
def test_tables(tmp_path: Path, name: str, content: str, coding: str) -> None:
    found = read(tmp_path, content.encode(coding), name, "a.wav", "b.wav")
    assert rows(found, tmp_path) == TWO and found.rejected == ()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("language", ["en", "EN", "zh", "JP", "yue", "fr"])
@pytest.mark.parametrize("speaker", ["anna", "Anna Berg", "0", "\u6d3e\u8499"])
def test_gpt_sovits(tmp_path: Path, speaker: str, language: str, end: str) -> None:
    content = end.join(f"E:\\sliced\\{name}|{speaker}|{language}|{text}" for name, text in TWO)
    found = read(tmp_path, content, "anna.list", "a.wav", "b.wav")
    assert rows(found, tmp_path) == TWO and found.rejected == ()
    assert [row.language for row in found.rows] == [language] * 2
    assert found.notes[0] == (
        "anna.list has no header, and is read like this: column 1 is the recording, column 3 is the language, column 4 "
        "is the text; not used: column 2"
    )


def test_a_list_of_bert_vits2_with_phonemes(tmp_path: Path) -> None:
    content = "".join(f"{name}|s|EN|{text}|_ g uh d _|0 1 2 1 0|1 3 1\n" for name, text in TWO)
    found = read(tmp_path, content, "train.list", "a.wav", "b.wav")
    assert rows(found, tmp_path) == TWO and [row.language for row in found.rows] == ["EN", "EN"]


SPOKEN = {
    "sentences": [HELLO, BYE, THIRD],
    "sentences without ends": ["good morning everyone", "see you tomorrow", "it is raining again"],
    "single words": ["Yes", "No", "Perhaps"],
    "numbers": ["12", "40", "7"],
    "the same command": ["Stop now"] * 3,
    "Chinese": [
        "\u4f60\u597d\u4e16\u754c\u670b\u53cb",
        "\u4eca\u5929\u5929\u6c14\u5f88\u597d",
        "\u6211\u4eec\u660e\u5929\u89c1\u9762",
    ],
    "codes of languages": ["no", "so", "hi"],
}
SPEAKERS = {
    "one": ["anna"] * 3,
    "three": ["p225", "p226", "p300"],
    "full names": ["Anna Berg", "Tom van Hill", "Mr. Lee"],
    "numbers": ["0", "1", "2"],
    "Chinese": ["\u6d3e\u8499", "\u80e1\u6843", "\u6d3e\u8499"],
    "codes of languages": ["jo", "en", "jo"],
}
LAYOUTS = {
    "path|speaker|language|text": "pslt",
    "with phonemes": "psltx",
    "path|speaker|text": "pst",
    "path|text|speaker": "pts",
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("mark", ["|", "\t", ";", ","])
@pytest.mark.parametrize("words", SPOKEN.values(), ids=SPOKEN)
@pytest.mark.parametrize("speakers", SPEAKERS.values(), ids=SPEAKERS)
def test_a_speaker_is_never_read_as_the_text(speakers: list[str], words: list[str], mark: str, layout: str) -> None:
    lines = []
    for number, (speaker, text) in enumerate(zip(speakers, words)):
        quoted = f'"{text}"' if mark in text else text
        cells = {"p": f"{number}.wav", "s": speaker, "l": ["ZH", "EN", "EN"][number], "t": quoted, "x": "_ h e l _"}
        lines.append(mark.join(cells[column] for column in layout))
    try:
        found = find_layout(lines, MARKS, lambda name: name.endswith(".wav"), "m.list")
    except InputError as error:
        assert "l" not in layout and "which one is the text is not clear" in str(error)
    else:
        assert (found.mark, found.audio, found.text, found.spare) == (mark, 0, layout.index("t"), None)
        assert found.language == (layout.index("l") if "l" in layout else None)


UNCLEAR = {
    "commas in texts": ("m.csv", "a.wav,Hello, Anna\nb.wav,Good night, Tom\n", "2 and 3"),
    "two texts": ("m.txt", f"a.wav|{HELLO}|A happy woman speaks.\nb.wav|{BYE}|A sad man, quietly.\n", "2 and 3"),
    "phrases without capitals": ("m.txt", "a.wav|in the house|anna berg\nb.wav|at sea|tom hill\n", "2 and 3"),
    "speakers and numbers": ("m.txt", "a.wav|anna|12\nb.wav|tom|40\n", "2 and 3"),
    "commas in sentences": ("m.csv", "a.wav,Come in now, Anna\nb.wav,It is late, Tom\n", "2 and 3"),
    "single words": ("m.txt", "a.wav|anna|one\nb.wav|tom|two\n", "2 and 3"),
    "numbers alone": ("m.txt", "a.wav|1|2\nb.wav|3|4\n", "2 and 3"),
    "four columns": ("m.tsv", f"a.wav\t{HELLO}\tx y z, w.\t{BYE}\nb.wav\t{BYE}\tu v, w.\t{HELLO}\n", "2 and 3 and 4"),
}


@pytest.mark.parametrize(("name", "content", "columns"), UNCLEAR.values(), ids=UNCLEAR)
def test_columns_that_cannot_be_told_apart_are_refused(tmp_path: Path, name: str, content: str, columns: str) -> None:
    with pytest.raises(InputError, match="which one is the text is not clear") as caught:
        read(tmp_path, content, name, "a.wav", "b.wav")
    assert f"(it could be {columns}): add a first line with names of the columns, audio and text" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("path,label\na.wav,happy\n", "has the columns 'path', 'label', and none of them is known as the text"),
        ("Datei;Text\na.wav;Hello.\n", "has the columns 'datei', 'text', and none of them is known as the recording"),
        ("start\tend\ttext\n0\t900\tHello.\n", "none of them is known as the recording: call that column audio"),
        ("0.00\t2.50\tHello.\n2.50\t4.00\tBye.\n", "has times and no recordings, like labels of Audacity"),
    ],
)
def test_lists_without_a_column_that_is_needed(tmp_path: Path, content: str, reason: str) -> None:
    with pytest.raises(InputError, match="m") as caught:
        read(tmp_path, content, "m.csv", "a.wav")
    assert reason in str(caught.value)


def test_every_row_is_used_or_named_with_its_line(tmp_path: Path) -> None:
    content = f"a.wav|{HELLO}\n\nnone.wav|x y\nb.wma|x y\nb.wav|a|b\nb.wav\nb.wav|\n|words\nb.wav|{BYE}\na.wav|{BYE}\n"
    found = read(tmp_path, content, "m.list", "a.wav", "b.wav", "b.wma")
    assert [(row.label, row.text) for row in found.rows] == [
        ("a.wav (line 1)", HELLO),
        ("b.wav (line 7)", ""),
        ("b.wav (line 9)", BYE),
        ("a.wav (line 10)", BYE),
    ]
    (missing, wma, wide, narrow, nameless) = found.rejected
    assert missing == ("none.wav (line 3)", "none.wav does not exist")
    assert wma[0] == "b.wma (line 4)" and wma[1].endswith("): convert it to WAV")
    assert wide == ("line 5", "it has 3 fields where 2 are expected: check the line")
    assert narrow == ("line 6", "it has no text: write audio|text")
    assert nameless == ("line 8", "it names no audio file")
    assert found.notes == ("rows with the recording of an earlier row and another text: a.wav (line 10)",)


@pytest.mark.parametrize("coding", ["cp1252", "latin-1", "gbk", "shift-jis"])
@pytest.mark.parametrize("mark", [";", "|", "\t"])
def test_other_encodings_are_refused_with_the_line(tmp_path: Path, coding: str, mark: str) -> None:
    words = {"gbk": "\u4f60\u597d", "shift-jis": "\u3053\u3093"}.get(coding, "caf\u00e9 ol\u00e9")
    with pytest.raises(FileError, match=r"^m\.csv is not UTF-8 in line 2: save it as UTF-8$"):
        read(tmp_path, f"a.wav{mark}Hello.\nb.wav{mark}{words}\n".encode(coding), "m.csv", "a.wav", "b.wav")


# Paths.


@pytest.mark.parametrize("kind", ["bars", "header", "json"])
@pytest.mark.parametrize(
    ("written", "on_disk"),
    [
        ("clips\\a.wav", "clips/a.wav"),
        (".\\clips\\a.wav", "clips/a.wav"),
        ("deep\\er\\a.wav", "deep/er/a.wav"),
        ("C:\\Users\\Ann\\set\\clips\\a.wav", "clips/a.wav"),
        ("E:\\output\\slicer_opt\\a.wav", "a.wav"),
        ("\\\\server\\share\\clips\\a.wav", "clips/a.wav"),
        ("/data/ann/set/clips/a.wav", "clips/a.wav"),
        ("/data/ann/a.wav", "wavs/a.wav"),
        ("A.WAV", "a.wav"),
        ("a.wav", "A.WAV"),
        ("a", "wavs/a.Flac"),
        ("caf\u00e9.wav", "cafe\u0301.wav"),
        ("cafe\u0301.wav", "clips/caf\u00e9.wav"),
    ],
)
@pytest.mark.parametrize("root", [False, True])
def test_paths_as_other_systems_write_them(tmp_path: Path, kind: str, written: str, on_disk: str, root: bool) -> None:
    content = {
        "bars": f"{written}|{HELLO}",
        "header": f'path,text\n{written},"{HELLO}"',
        "json": json.dumps({"path": written, "text": HELLO}),
    }[kind]
    found = read(tmp_path, content, "m.jsonl" if kind == "json" else "m.csv", on_disk, root=root)
    assert rows(found, tmp_path) == [(on_disk, HELLO)] and found.rejected == ()
    whole = written.startswith(("/", "\\\\")) or ":" in written
    note = f"not at the path of the list, but found next to it by the last part: {written}"
    assert found.notes == ((note,) if whole else ())


def test_a_list_in_a_folder_of_its_own(tmp_path: Path) -> None:
    content = f"data/wavs/a.wav|{HELLO}\noutput/sliced/b.wav|{BYE}\n"
    found = read(tmp_path, content, "output/lists/m.list", "data/wavs/a.wav", "output/sliced/b.wav")
    assert rows(found, tmp_path) == [("data/wavs/a.wav", HELLO), ("output/sliced/b.wav", BYE)]
    confined = read_manifest(tmp_path / "output" / "lists" / "m.list", root=tmp_path / "output" / "lists")
    assert [reason for _, reason in confined.rejected] == ["a.wav does not exist", "b.wav does not exist"]


def test_how_a_path_may_be_meant() -> None:
    assert spellings("clips\\a.wav") == ["clips\\a.wav", "clips/a.wav"] and spellings("a/b.wav") == ["a/b.wav"]
    assert last_parts("C:\\x\\y\\a.wav") == ["y/a.wav", "a.wav"] == last_parts("/data/x/y/a.wav")
    assert last_parts("\\\\host\\share\\a.wav") == ["a.wav"] and last_parts("/a.wav") == ["a.wav"]
    assert last_parts("x\\y/a.wav") == ["y/a.wav", "a.wav"] == last_parts("y/a.wav")
    for name in ("a.wav", "../a.wav", "/x/../../a.wav", "C:\\x\\..\\a.wav", "https://x/y/a.wav", "/", ""):
        assert last_parts(name) == []


@pytest.mark.parametrize("root", [False, True])
def test_the_last_part_of_a_path_does_not_mix_speakers_up(tmp_path: Path, root: bool) -> None:
    content = (
        f"/data/ann/0.wav|{HELLO}\n/data/bob/0.wav|{BYE}\n/data/ann/1.wav|{THIRD}\nC:\\cat\\2.wav|x y\n2.wav|{BYE}\n"
    )
    found = read(tmp_path, content, "m.list", "0.wav", "1.wav", "2.wav", root=root)
    assert rows(found, tmp_path) == [("1.wav", THIRD), ("2.wav", BYE)]
    assert [name for name, _ in found.rejected] == [
        "/data/ann/0.wav (line 1)",
        "/data/bob/0.wav (line 2)",
        "C:\\cat\\2.wav (line 4)",
    ]
    assert found.notes == ("not at the path of the list, but found next to it by the last part: /data/ann/1.wav",)


@pytest.mark.parametrize("kind", ["recording", "folder", "both"])
def test_links_are_the_users_own_on_the_command_line(tmp_path: Path, kind: str) -> None:
    touch(tmp_path, "store/a.wav", "store/a.txt", text=HELLO)
    folder = tmp_path / "set"
    folder.mkdir()
    if kind != "folder":
        (folder / "a.wav").symlink_to(tmp_path / "store" / "a.wav")
        (folder / "a.txt").symlink_to(tmp_path / "store" / "a.txt")
    if kind != "recording":
        (folder / "linked").symlink_to(tmp_path / "store")
    found = read_manifest(folder)
    expected = {"recording": ["a.wav"], "folder": ["linked/a.wav"], "both": ["a.wav", "linked/a.wav"]}[kind]
    assert [(row.name, row.text) for row in found.rows] == [(name, HELLO) for name in expected]
    confined = read_manifest(folder, root=folder) if kind != "folder" else None
    assert confined is None or [name for name, _ in confined.rejected] == ["a.wav"]


@pytest.mark.parametrize("target", [".", "..", "deep", "deep/back"])
def test_links_in_a_circle_end(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "set"
    touch(folder, "deep/a.wav", "deep/a.txt")
    (folder / "deep" / "back").symlink_to(folder, target_is_directory=True)
    (folder / "again").symlink_to(folder / target, target_is_directory=True)
    found = read_manifest(folder)
    assert [row.name for row in found.rows] == ["deep/a.wav"] and found.rejected == ()
    assert all(note.endswith("its files are read already") for note in found.notes) and found.notes


# JSON.

KEYS = [
    *("audio", "audio_path", "audio_file", "audio_filepath", "audio_filename", "file_name", "filename", "file", "path"),
    *("wav", "wav_path", "filepath", "File_Name", "AUDIO"),
]
TEXT_KEYS = ["text", "transcription", "transcript", "sentence", "normalized_text", "Text", "Transcription"]


@pytest.mark.parametrize("form", ["lines", "array", "csv", "tsv"])
@pytest.mark.parametrize(
    ("audio", "text"), [*((key, "text") for key in KEYS), *(("file_name", key) for key in TEXT_KEYS)]
)
def test_the_same_names_in_tables_and_json(tmp_path: Path, form: str, audio: str, text: str) -> None:
    items = [{"speaker": "x", audio: name, text: words, "lang": "en"} for name, words in TWO]
    mark = {"csv": ";", "tsv": "\t"}.get(form, "")
    content = {"lines": "\n".join(map(json.dumps, items)), "array": json.dumps(items, indent=2)}.get(form) or "\n".join(
        mark.join(line) for line in [items[0].keys(), *(item.values() for item in items)]
    )
    name = {"lines": "m.jsonl", "array": "m.json"}.get(form, f"m.{form}")
    found = read(tmp_path, content, name, "a.wav", "b.wav")
    assert rows(found, tmp_path) == TWO and [row.language for row in found.rows] == ["en", "en"]
    assert found.rejected == () and found.notes == (f"not used in {name}: 'speaker'",)


def test_a_manifest_of_nemo(tmp_path: Path) -> None:
    lines = [
        {"audio_filepath": "a.wav", "duration": 2.1, "text": HELLO, "offset": 0},
        {"audio_filepath": "a.wav", "duration": 1.9, "text": BYE, "offset": 2.1},
    ]
    found = read(tmp_path, "\n".join(map(json.dumps, lines)), "train_manifest.json", "a.wav")
    assert rows(found, tmp_path) == [("a.wav", HELLO)]
    assert found.rejected == (("line 2", "it is a part of a recording (offset 2.1): cut the part into its own file"),)


def test_audio_as_hugging_face_exports_it(tmp_path: Path) -> None:
    items = [
        {"audio": {"path": "a.wav", "bytes": None, "sampling_rate": 24_000}, "sentence": HELLO},
        {"audio": {"bytes": "UklGRg==", "path": None}, "sentence": BYE},
    ]
    found = read(tmp_path, "\n".join(map(json.dumps, items)), "m.jsonl", "a.wav")
    assert rows(found, tmp_path) == [("a.wav", HELLO)]
    assert found.rejected == (("line 2", "audio must be a string, got dict"),)


@pytest.mark.parametrize(
    ("content", "error", "reason"),
    [
        (
            {"segments": [{"start": 0, "end": 2, "text": HELLO}], "language": "en"},
            InputError,
            "the parts of one recording",
        ),
        ('{"segments": [{"start": 0, "text": "x"}], "text": "x"}', InputError, "the parts of one recording"),
        ({"a": {"wav": "a.wav"}, "b": {}}, InputError, "must be a JSON array of objects, or have one JSON object per"),
        ('[{"audio": "a.wav"},\n{"audio": ]', FileError, "m.json is not valid JSON: "),
    ],
)
def test_json_of_another_kind_is_refused(tmp_path: Path, content: object, error: type, reason: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    with pytest.raises(error, match=r"m\.json") as caught:
        read(tmp_path, text, "m.json", "a.wav")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("m.xlsx", "save the sheet as CSV in UTF-8"),
        ("m.parquet", "export it as CSV or JSON lines"),
        ("m.srt", "cut the recording into files"),
        ("m.TextGrid", "cut the recording into files"),
        ("m.docx", "a dataset is a folder with metadata.csv or another list"),
    ],
)
def test_files_of_other_programs(tmp_path: Path, name: str, advice: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, "x", name)
    assert str(caught.value).startswith(f"{name} is not a list") and advice in str(caught.value)


# Folders.


def test_common_voice(tmp_path: Path) -> None:
    head = "client_id\tpath\tsentence_id\tsentence\tup_votes\tage\tgender\taccents\tlocale\tsegment"
    lines = [f'f0\ta.mp3\t77\t"{HELLO}" she said.\t2\t\t\t\ten\t', f"f0\tb.mp3\t78\t{BYE}\t2\t\t\t\ten\t"]
    touch(tmp_path, "clips/a.mp3", "clips/b.mp3")
    (tmp_path / "validated.tsv").write_text("\n".join([head, *lines]))
    found = read_manifest(tmp_path, root=tmp_path)
    assert rows(found, tmp_path) == [("clips/a.mp3", f'"{HELLO}" she said.'), ("clips/b.mp3", BYE)]
    assert [row.language for row in found.rows] == ["en", "en"] and found.notes[0] == "read from validated.tsv"
    (tmp_path / "train.tsv").write_text(head)
    with pytest.raises(
        InputError, match=r"has 2 lists, train\.tsv, validated\.tsv: leave only one of them in the folder"
    ):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "name", ["anna.list", "esd.lst", "transcripts.csv", "data.tsv", "filelist.txt", "manifest.json"]
)
def test_a_folder_is_read_by_its_only_list(tmp_path: Path, name: str) -> None:
    content = "".join(f"{one}|{text}\n" for one, text in TWO)
    if name.endswith("json"):
        content = json.dumps([{"file": one, "text": text} for one, text in TWO])
    read(tmp_path, content, name, "a.wav", "b.wav")
    found = read_manifest(tmp_path, root=tmp_path)
    assert rows(found, tmp_path) == TWO and found.notes == (f"read from {name}",)


def test_transcripts_next_to_recordings_come_before_such_a_list(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "a.txt", "notes.txt", text=HELLO)
    read(tmp_path, f"a.wav|{BYE}", "sizes.csv")
    found = read_manifest(tmp_path)
    assert rows(found, tmp_path) == [("a.wav", HELLO)]
    assert found.notes == ("not read, because it is neither a recording nor a transcript: sizes.csv",)
    assert found.rejected == (("notes.txt", "it has no recording of the same name"),)


def test_kaldi(tmp_path: Path) -> None:
    touch(tmp_path, "wav/a.wav", "wav/b.wav")
    (tmp_path / "wav.scp").write_text("u1 wav/a.wav\nu2 sox wav/b.wav -t wav - |\nu3 wav/b.wav\nu5 wav/none.wav\n")
    (tmp_path / "text").write_text(f"u1 {HELLO}\nu2 {BYE}\nu4 {BYE}\nu5 {BYE}\n")
    for found in (read_manifest(tmp_path, root=tmp_path), read_manifest(tmp_path / "wav.scp")):
        assert [(row.name, row.text) for row in found.rows] == [("u1", HELLO)]
        assert found.rejected == (
            ("u2 (line 2 of text)", "its path is a command, which is not run: write the recordings to files"),
            ("u4 (line 3 of text)", "it has no line in wav.scp"),
            ("u5 (line 4 of text)", "none.wav does not exist"),
            ("u3 (line 3 of wav.scp)", "it has no line in the file text"),
        )
    touch(tmp_path, "segments")
    with pytest.raises(InputError, match="has the file segments, so its texts belong to parts of the recordings"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("audio", "text"),
    [
        ("wav48/p225/p225_001.wav", "txt/p225/p225_001.txt"),
        ("wavs/a.wav", "txt/a.txt"),
        ("anna/wavs/a.flac", "anna/transcripts/a.lab"),
        ("a.wav", "a.wav.txt"),
        ("a.wav", "a.normalized.txt"),
        ("a.wav", "a.original.txt"),
    ],
)
def test_where_transcripts_may_be(tmp_path: Path, audio: str, text: str) -> None:
    touch(tmp_path, audio, text, "other/x.wav", text=HELLO)
    found = read_manifest(tmp_path)
    assert rows(found, tmp_path) == [(audio, HELLO)]
    assert found.rejected == (("other/x.wav", "it has no transcript: write its words into x.txt"),)
    apart = Path(audio).parent != Path(text).parent
    assert found.notes == ((f"transcripts from another folder than the recording's: {text}",) if apart else ())


def test_transcripts_elsewhere_are_not_guessed(tmp_path: Path) -> None:
    touch(tmp_path, "wav/a.wav", "txt/a.txt", "text/a.txt", "one/b.wav", "two/b.txt")
    found = read_manifest(tmp_path)
    assert found.rows == () and [name for name, _ in found.rejected] == [
        "one/b.wav",
        "wav/a.wav",
        "text/a.txt",
        "two/b.txt",
        "txt/a.txt",
    ]


@pytest.mark.parametrize("suffix", [".wma", ".WMA", ".amr", ".mov", ".caf", ".ape", ".mkv"])
@pytest.mark.parametrize("transcript", [True, False])
def test_recordings_of_kinds_that_are_not_read_are_rows(tmp_path: Path, suffix: str, transcript: bool) -> None:
    touch(tmp_path, "a.wav", "a.txt", f"b{suffix}", *(["b.txt"] if transcript else []))
    found = read_manifest(tmp_path)
    assert [row.name for row in found.rows] == ["a.wav"]
    ((name, reason),) = found.rejected
    assert name == f"b{suffix}" and reason.startswith(f"b{suffix} is not an audio file that is read here (.wav, ")
    assert reason.endswith("): convert it to WAV")


def test_files_that_are_passed_over_are_named(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "a.txt", "b.wav", "b.srt", "cover.jpg", "deep/README.md")
    found = read_manifest(tmp_path)
    assert found.rejected == (("b.wav", "it has no transcript: write its words into b.txt; b.srt is not read"),)
    assert found.notes == (
        "not read, because it is neither a recording nor a transcript: b.srt, cover.jpg, deep/README.md",
    )


def test_a_folder_of_recordings_alone(tmp_path: Path) -> None:
    """As for RVC and so-vits-svc, which need no transcripts."""
    touch(tmp_path, "anna/1.wav", "anna/2.wav")
    found = read_manifest(tmp_path)
    assert found.rows == () and dict(found.rejected) == {
        "anna/1.wav": "it has no transcript: write its words into 1.txt",
        "anna/2.wav": "it has no transcript: write its words into 2.txt",
    }


@pytest.mark.parametrize(
    ("first", "second", "name", "content"),
    [
        ("84/121/84-121-0000", "84/121/84-121-0001", "84/121/84-121.trans.txt", "{0} {1}\n{2} {3}\n"),
        ("wav/S2/B0001", "wav/S2/B0002", "transcript/all_v0.8.txt", "{0} {1}\n{2} {3}\n"),
        ("basic/wav/B_0001", "basic/wav/B_0002", "basic/transcript_utf8.txt", "{0}:{1}\n{2}:{3}\n"),
        ("wavs/1", "wavs/2", "lists/all.txt", "{0}.flac|anna|en|{1}\n{2}.flac|anna|en|{3}\n"),
    ],
)
@pytest.mark.parametrize("root", [False, True])
def test_lists_in_subfolders_as_of_public_corpora(
    tmp_path: Path, first: str, second: str, name: str, content: str, root: bool
) -> None:
    folder = tmp_path / "set"
    touch(folder, f"{first}.flac", f"{second}.flac", "more/x.flac", "notes.txt", text="")
    lines = content.format(Path(first).name, HELLO, Path(second).name, BYE) + "none|x y\n"
    touch(folder, name, text=lines.replace("none|", "none ") if "|" not in content else lines)
    found = read_manifest(folder, root=folder if root else None)
    assert rows(found, folder) == [(f"{first}.flac", HELLO), (f"{second}.flac", BYE)]
    assert [row.place for row in found.rows] == [f"line {n} of {Path(name).name}" for n in (1, 2)]
    assert [one for one, _ in found.rejected][1:] == ["more/x.flac", "notes.txt"]
    assert "line 3" in found.rejected[0].name and found.rejected[0].name.endswith(f" of {Path(name).name}")


@pytest.mark.parametrize("name", ["metadata.csv", "one.jsonl", "anna.list"])
def test_recordings_that_a_list_leaves_out_are_named(tmp_path: Path, name: str) -> None:
    content = json.dumps({"file": "a.wav", "text": HELLO}) if name.endswith("l") else f"a.wav|{HELLO}"
    content += "\n" + (json.dumps({"file": "no.wav", "text": BYE}) if name.endswith("l") else f"no.wav|{BYE}")
    read(tmp_path, content, name, "a.wav", "deep/b.wav", "c.wma")
    found = read_manifest(tmp_path, root=tmp_path)
    assert rows(found, tmp_path) == [("a.wav", HELLO)] and len(found.rejected) == 1
    assert found.notes == (
        f"read from {name}",
        "recordings in the folder that no usable row of the list names: c.wma, deep/b.wav",
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f'"a.wav"|"{HELLO}"\n"b.wav"|"{BYE}"\n', [None, None]),
        (f"a.wav: {HELLO}\nb.wav: {BYE}\n", [None, None]),
        (f"a.wav|jo|en|{HELLO}\nb.wav|jo|en|{BYE}\n", ["en", "en"]),
        (f"a.wav|en|zh|{HELLO}\nb.wav|en|en|{BYE}\n", ["zh", "en"]),
        (f"a.wav|en|{HELLO}\nb.wav|zh|{BYE}\n", ["en", "zh"]),
        (f"file;text;;\r\na.wav;{HELLO};;\r\nb.wav;{BYE};;\r\n", [None, None]),
        (f'a.wav;"{HELLO}";3,25\r\nb.wav;{BYE};4,5\r\n', [None, None]),
        (f"sliced/a.wav|{HELLO}\nsliced/b.wav|{BYE}\n", [None, None]),
    ],
)
def test_odd_lists(tmp_path: Path, content: str, expected: list[str | None]) -> None:
    found = read(tmp_path, content, "m.csv", "a.wav", "b.wav")
    assert rows(found, tmp_path) == TWO and [row.language for row in found.rows] == expected
    assert found.rejected == () and not any("not used in" in note for note in found.notes)


def test_both_microphones_of_vctk(tmp_path: Path) -> None:
    touch(
        tmp_path, "wav48/p225/p225_001_mic1.flac", "wav48/p225/p225_001_mic2.flac", "txt/p225/p225_001.txt", text=HELLO
    )
    found = read_manifest(tmp_path)
    assert rows(found, tmp_path) == [(f"wav48/p225/p225_001_mic{number}.flac", HELLO) for number in (1, 2)]
    assert found.rejected == ()


@pytest.mark.parametrize("name", ["train/metadata.csv", "train/metadata.jsonl"])
def test_a_list_in_a_subfolder_is_pointed_at(tmp_path: Path, name: str) -> None:
    touch(tmp_path, "train/a.wav", name)
    found = read_manifest(tmp_path)
    assert found.notes == (f"not read, because a list counts in its own folder only: {name}; choose that folder",)


@pytest.mark.parametrize("address", ["https://x.org/a.wav", "s3://bucket/a.wav", "file:///tmp/a.wav"])
@pytest.mark.parametrize("root", [False, True])
def test_addresses_are_refused(tmp_path: Path, address: str, root: bool) -> None:
    found = read(tmp_path, f"{address}|{HELLO}\na.wav|{BYE}", "m.csv", "a.wav", root=root)
    assert rows(found, tmp_path) == [("a.wav", BYE)]
    (rejected,) = found.rejected
    assert rejected.reason == "a.wav is an address, and nothing is downloaded: save the file and name it in the list"
