"""File names: what is refused by looking at it, before any file is touched."""

from __future__ import annotations

import builtins
import os
import unicodedata
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import CheckpointError, FileError, InputError
from omnivoice.intake.paths import as_path, check_file_name, find_like, match_name, model_folder, shown_name

REFUSED = [
    "",
    ".",
    "..",
    "../x",
    "..\\x",
    "a/b",
    "a\\b",
    "/etc/passwd",
    "\\x",
    "C:",
    "C:\\x",
    "C:x",
    "c:/x",
    "a:stream",
    "x.wav:evil",
    "\\\\host\\share\\x",
    "//host/share/x",
    "\\\\?\\C:\\x",
    "\\\\.\\COM1",
    "\\??\\x",
    "x\0.wav",
    "\0",
    "a\nb",
    "a\rb",
    "a\tb",
    "a\x1b[31m",
    "a\x7fb",
    "a\x85b",
    "a\u202eb",
    "a\u200bb",
    "a\ufeffb",
    "a\u3164b",
    "a\u2800b",
    "\ufe0f",
    "\ufe0f\ufe0f",
    "\U000e0100",
    "a\ufe0fb",
    "a\U000e0100",
    "\u05d0\ufe0f",
    "\u0301",
    "\u0301\u0302",
    " \u0301a",
    "a.\u0301",
    "a\u200db",
    "\u0431\u200c\u0432",
    "1\u200d2",
    "a\U0001d159b",
    "\U00016fe4",
    "\u3164",
    "a\u034fb",
    "\u200da",
    "a\u200c",
    "a\uff0fb",
    "a\uff3cb",
    "\ud800",
    "a\udfffb",
    "CON",
    "con",
    "Con.wav",
    "PRN",
    "AUX.txt",
    "NUL",
    "nul.wav",
    "nul .wav",
    "NUL.tar.gz",
    "COM1",
    "com9.x",
    "COM0",
    "LPT1",
    "lpt9.wav",
    "COM\u00b9",
    "COM\u00b2.wav",
    "LPT\u00b3",
    "CONIN$",
    "CONOUT$",
    "CLOCK$",
    "a.",
    "a..",
    "a ",
    "a. ",
    " a",
    ".a",
    ".bashrc",
    "...",
    "   ",
    "a*b",
    "a?b",
    "a<b",
    "a>b",
    "a|b",
    'a"b',
    "a%year%",
    "$HOME",
    "a;b",
    "`id`",
    "~",
    "a" * 121,
    "\u4e2d" * 41,
    "e\u0301" * 61,
    "x" * 10_000_000,
]
ACCEPTED = [
    "voice.safetensors",
    "My voice (2).wav",
    "a",
    "a.b.c",
    "console.wav",
    "COM10",
    "com",
    "nulx",
    "voice-1_x+y=[z]",
    "\u4e2d\u6587.wav",
    "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u0641\u0627\u0631\u0633\u06cc",
    "don't, do & go!@#",
    "\U0001f469\U0001f3fd\u200d\U0001f680 \u2764\ufe0f",
    "\u30b8\u30e7\u30f3\u30fb\u30b9\u30df\u30b9\uff08\u7537\uff09",
    "1\ufe0f\u20e3 \U0001f3f3\ufe0f\u200d\U0001f308 \u203c\ufe0f",
    "\u845b\U000e0100",
    "\u0646\u0645\u06cc\u200c\u062f\u0627\u0646\u0645 \u0915\u094d\u200d\u0937",
    "Anna\u2019s \u2013 \u00ab1\u00bb",
    "a" * 120,
    "\u4e2d" * 40,
]


@pytest.mark.parametrize("name", REFUSED, ids=lambda name: ascii(name[:20]))
def test_refused_without_touching_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a file call")

    for module, attribute in ((os, "stat"), (os, "lstat"), (os, "open"), (os.path, "realpath"), (builtins, "open")):
        monkeypatch.setattr(module, attribute, forbidden)
    try:
        with pytest.raises(InputError, match=r"file name") as caught:
            check_file_name(name)
    finally:
        monkeypatch.undo()
    assert len(str(caught.value)) < 500 and str(caught.value).isprintable()


@pytest.mark.parametrize("value", [None, 1, b"x", ["x"], {"x": 1}, Path("x")])
def test_only_strings_are_names(value: object) -> None:
    with pytest.raises(InputError, match=r"^a file name must be a string, got "):
        check_file_name(value)


@pytest.mark.parametrize("name", ACCEPTED, ids=ascii)
def test_accepted(name: str) -> None:
    assert check_file_name(name) == name


def test_names_come_back_composed() -> None:
    assert check_file_name("e\u0301.wav") == "\u00e9.wav"


@settings(max_examples=500, deadline=None)
@given(st.text(st.characters(codec=None), max_size=60))
def test_what_is_accepted_is_one_harmless_component(name: str) -> None:
    try:
        safe = check_file_name(name)
    except InputError:
        return
    for flavour in (PurePosixPath, PureWindowsPath):
        path = flavour(safe)
        assert path.parts == (safe,) and not path.is_absolute() and not path.drive and path.name == safe
    assert not safe.startswith(".") and unicodedata.is_normalized("NFC", safe)
    assert check_file_name(safe) == safe


def test_model_folder(tmp_path: Path) -> None:
    assert model_folder(str(tmp_path)) == tmp_path
    with pytest.raises(CheckpointError, match=r"^model folder nowhere does not exist: check the path, or download"):
        model_folder(tmp_path / "nowhere")
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(
        CheckpointError, match=r"is a file, not a model folder: give the folder that holds config\.json"
    ):
        model_folder(tmp_path / "model.safetensors")


@pytest.mark.parametrize("path", ["x" * 5000, "\ud800", "a" * 300 + "/b"])
def test_impossible_model_folders(path: str) -> None:
    with pytest.raises(CheckpointError, match=r"does not exist: check the path"):
        model_folder(path)


@pytest.mark.parametrize("value", [None, 3, {}, b"x", [], "", "a\0b"])
def test_paths_of_other_types_are_refused(value: object) -> None:
    with pytest.raises(FileError, match=r"^a path must be a string"):
        as_path(value)


def test_shown_name_hides_folders_and_control_characters() -> None:
    assert shown_name("/srv/someone/a\x1b[31m\n\u202eb.wav") == "a?[31m??b.wav"
    assert shown_name("/srv/someone/voices/") == "voices"
    assert len(shown_name("x" * 5000)) == 80


NFC, NFD = "J\u00fcrgen", "Ju\u0308rgen"


@pytest.mark.parametrize(
    "name, choices, found",
    [
        ("a", ["b", "a"], "a"),
        ("a", ["A", "a"], "a"),  # an exact match wins over every other
        (NFC, [NFD], NFD),
        (NFD, [NFC], NFC),
        (NFD, [NFC, NFD], NFD),
        (NFC, [NFD, NFD.upper()], NFD),  # another form only is closer than another case
        ("j\u00fcRGEN", [NFD], NFD),
        ("stra\u00dfe", ["STRASSE"], "STRASSE"),
        ("speakers\\a", ["speakers/a"], "speakers/a"),
        ("speakers/A", ["speakers\\a"], "speakers\\a"),
        ("a", ["a", "a"], "a"),
        ("", ["a"], None),
        ("a", [], None),
        ("Jurgen", [NFC], None),
        (None, ["None"], None),
        (3, ["3"], None),
        (["a"], ["a"], None),
    ],
)
def test_match_name(name: object, choices: list[str], found: str | None) -> None:
    assert match_name(name, choices) == match_name(name, iter(choices)) == found


@pytest.mark.parametrize("name, choices", [("VOICE", ["Voice", "voice"]), ("a\\b", ["a/B", "A/b"])])
def test_an_ambiguous_name_is_refused_with_its_candidates(name: str, choices: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        match_name(name, choices)
    assert all(repr(choice) in str(caught.value) for choice in choices)


def test_a_name_is_found_in_any_case_and_form(tmp_path: Path) -> None:
    there = tmp_path / unicodedata.normalize("NFD", "J\u00fcrgen.safetensors")
    there.touch()
    for name in ("J\u00fcrgen.safetensors", "j\u00dcrgen.SAFETENSORS", there.name):
        assert find_like(tmp_path, name) == there
    assert find_like(tmp_path, "Jurgen.safetensors") is None
    with pytest.raises(FileError, match=r"^cannot list folder absent: "):
        find_like(tmp_path / "absent", "x")


def test_a_model_folder_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    assert model_folder(tmp_path / "model") == tmp_path / "model"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(CheckpointError, match=r"^model folder model cannot be read: change its permissions$"):
        model_folder(tmp_path / "model")
