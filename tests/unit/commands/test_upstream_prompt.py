"""Upstream's prompts: the real one is read, everything else in a .pt is refused without being run or allocated."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import re
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import torch

from omnivoice.commands.upstream_prompt import read_upstream_prompt
from omnivoice.errors import FileError
from omnivoice.intake.voice_files import read_voice, write_voice

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "intake"
CODES = (torch.arange(8 * 30).reshape(8, 30) * 37) % 1024
PROMPT = {"format_version": 1, "ref_audio_tokens": CODES, "ref_text": "Hello.", "ref_rms": 0.5}


def saved(path: Path, value: object, **options: object) -> Path:
    torch.save(value, path, **options)
    return path


def entries_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(path: Path, entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def changed(tmp_path: Path, old: bytes, new: bytes) -> Path:
    """A good prompt whose program has `old` replaced by `new`."""
    entries = entries_of(saved(tmp_path / "p.pt", PROMPT))
    assert entries["p/data.pkl"].count(old) >= 1
    return zipped(tmp_path / "p.pt", {**entries, "p/data.pkl": entries["p/data.pkl"].replace(old, new)})


def refused(path: Path, message: str) -> None:
    with pytest.raises(FileError, match=message) as caught:
        read_upstream_prompt(path)
    assert str(caught.value).startswith(path.name) and len(str(caught.value)) < 300


def test_a_prompt_that_upstream_saved(tmp_path: Path) -> None:
    prompt = read_upstream_prompt(ASSETS / "upstream_prompt.pt")
    assert torch.equal(prompt.codes, CODES) and prompt.codes.dtype == torch.int64
    assert (prompt.text, prompt.rms) == ("Hello there, \u4f60\u597d.", 0.0812345678901234)
    write_voice(tmp_path / "v.safetensors", prompt)
    again = read_voice(tmp_path / "v.safetensors")
    assert torch.equal(again.codes, prompt.codes) and (again.text, again.rms) == (prompt.text, prompt.rms)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16])
def test_integer_types_and_views(tmp_path: Path, dtype: torch.dtype) -> None:
    wide = torch.arange(1000).reshape(10, 100).to(dtype)
    for codes in (wide, wide[1:9, 10:60], wide.T[:60, :8].T, wide[:, ::3], wide[:1].expand(8, 100)):
        prompt = read_upstream_prompt(saved(tmp_path / "p.pt", {**PROMPT, "ref_audio_tokens": codes}))
        assert torch.equal(prompt.codes, codes.long())


def test_long_texts_and_whole_number_rms(tmp_path: Path) -> None:
    prompt = read_upstream_prompt(saved(tmp_path / "p.pt", {**PROMPT, "ref_text": "\u4e2d" * 2000, "ref_rms": 0}))
    assert prompt.text == "\u4e2d" * 2000 and prompt.rms == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format_version must be 1, got 2"),
        ({"format_version": True}, "format_version must be 1, got True"),
        ({"format_version": "1"}, "format_version must be 1, got '1'"),
        ({"more": 1}, "it must hold format_version, ref_audio_tokens, ref_rms, ref_text"),
        ({"ref_audio_tokens": "x"}, "ref_audio_tokens must be a tensor, got 'x'"),
        ({"ref_audio_tokens": CODES.float()}, "not of a known kind"),
        ({"ref_audio_tokens": CODES[0]}, "calls something no prompt needs"),
        ({"ref_audio_tokens": CODES[None]}, "calls something no prompt needs"),
        ({"ref_audio_tokens": CODES + 1024}, "voice codes must be 0-1023"),
        ({"ref_audio_tokens": CODES - 1}, "voice codes must be 0-1023, got -1"),
        ({"ref_audio_tokens": torch.zeros(8, 1501, dtype=torch.long)}, r"\[1-64, 1-1500\], got \[8, 1501\]"),
        ({"ref_audio_tokens": torch.zeros(1, 1, dtype=torch.long).expand(2**30, 1500)}, r"got \[1073741824, 1500\]"),
        ({"ref_audio_tokens": torch.nn.Parameter(torch.zeros(8, 3))}, "is not a prompt saved by OmniVoice"),
        ({"ref_text": None}, "holds the instruction NONE"),
        ({"ref_text": 3}, "voice text must be a string, got 3"),
        ({"ref_text": "x" * 2001}, "voice text must be at most 2000 characters"),
        ({"ref_rms": "x"}, "ref_rms must be a number, got 'x'"),
        ({"ref_rms": True}, "ref_rms must be a number, got True"),
        ({"ref_rms": float("nan")}, "voice rms must be a finite number"),
        ({"ref_rms": -1.0}, "voice rms must be a finite number"),
    ],
)
def test_wrong_contents(tmp_path: Path, change: dict[str, object], message: str) -> None:
    refused(saved(tmp_path / "p.pt", {**PROMPT, **change}), message)


@pytest.mark.parametrize("value", [None, 1, [PROMPT], {}, {"model": CODES}, CODES, {1: 2}])
def test_other_saved_things(tmp_path: Path, value: object) -> None:
    refused(saved(tmp_path / "p.pt", value), "is not a prompt saved by OmniVoice")


class Evil:
    """Would create a file when unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.path,)


def test_nothing_is_ever_run(tmp_path: Path) -> None:
    evil = Evil(str(tmp_path / "owned"))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        refused(saved(tmp_path / "p.pt", {**PROMPT, "ref_text": evil}, pickle_protocol=protocol), "no prompt")
        entries = entries_of(saved(tmp_path / "p.pt", PROMPT))
        zipped(tmp_path / "p.pt", {**entries, "p/data.pkl": pickle.dumps(evil, protocol)})
        refused(tmp_path / "p.pt", "no prompt")
    (tmp_path / "p.pt").write_bytes(pickle.dumps(evil))
    refused(tmp_path / "p.pt", "it is not a zip archive")
    assert not (tmp_path / "owned").exists()
    names = {"os mkdir", "builtins eval", "torch._utils _rebuild_tensor", "torch.storage _load_from_bytes"}
    for name in names:
        line = name.replace(" ", "\n").encode() + b"\n"
        refused(changed(tmp_path, b"torch._utils\n_rebuild_tensor_v2\n", line), "calls something no prompt needs")


def test_a_small_file_that_claims_a_trillion_elements(tmp_path: Path) -> None:
    count = b"K\xf0"  # 8 * 30 elements, as the storage declares them
    huge = b"\x8a\x06" + (10**12).to_bytes(6, "little")
    refused(changed(tmp_path, count + b"t", huge + b"t"), "holds the instruction LONG1")
    refused(
        changed(tmp_path, count + b"t", b"J" + (2**31 - 1).to_bytes(4, "little") + b"t"), "declares 2147483647 elements"
    )
    refused(changed(tmp_path, count + b"t", b"K\xeft"), "declares 239 elements but 1920 bytes are there")
    refused(changed(tmp_path, count + b"t", b"J\xff\xff\xff\xfft"), "declares -1 elements")
    entries = entries_of(saved(tmp_path / "p.pt", PROMPT))
    del entries["p/data/0"]
    refused(zipped(tmp_path / "p.pt", entries), "declares 240 elements but 0 bytes are there")


@pytest.mark.parametrize("kind", ["Long", "Int", "Short"])
@pytest.mark.parametrize("again", [b"h\x00Q", b"h\x00Qq\x01"])
def test_naming_the_same_storage_again_copies_nothing(tmp_path: Path, kind: str, again: bytes) -> None:
    record = bytes(1 << 20)
    count = (len(record) // {"Long": 8, "Int": 4, "Short": 2}[kind]).to_bytes(4, "little")
    start = b"\x80\x02(X\x07\0\0\0storagectorch\n" + f"{kind}Storage\n".encode()
    program = start + b"X\x01\0\0\x000X\x03\0\0\0cpuJ" + count + b"tq\x00Q" + again * 150 + b"."
    path = zipped(tmp_path / "p.pt", {"p/data.pkl": program, "p/data/0": record})
    tracemalloc.start()
    refused(path, "it must hold format_version")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * len(record)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"K\x08K\x1e\x86", b"J\xff\xff\xff\x7fK\x1e\x86", r"\[1-64, 1-1500\], got \[2147483647, 30\]"),
        (b"K\x08K\x1e\x86", b"K\x08J\xff\xff\xff\x7f\x86", r"\[1-64, 1-1500\], got \[8, 2147483647\]"),
        (b"K\x08K\x1e\x86", b"K\x08K\x1f\x86", "does not fit its 240 elements"),
        (b"K\x08K\x1e\x86", b"K\x00K\x1e\x86", r"got \[0, 30\]"),
        (b"K\x1eK\x01\x86", b"J\xff\xff\xff\x7fK\x01\x86", "does not fit its 240 elements"),
        (b"K\x1eK\x01\x86", b"J\xff\xff\xff\xffK\x01\x86", "does not fit its 240 elements"),
        (b"QK\x00K\x08", b"QK\x01K\x08", "does not fit its 240 elements"),
        (b"QK\x00K\x08", b"QJ\xff\xff\xff\xffK\x08", "does not fit its 240 elements"),
    ],
)
def test_views_outside_the_data(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    refused(changed(tmp_path, old, new), message)


MALFORMED = [
    b"",
    b".",
    b"..",
    b"q\x00.",
    b"h\x00.",
    b"u.",
    b"}u.",
    b"}(K\x01u.",
    b"}(K\x01K\x02u.",
    b"(u.",
    b"t.",
    b"R.",
    b"Q.",
    b"\x87.",
    b"X\xff\xff\xff\xffa.",
    b"X\x01\0\0\0\xff.",
    b"c" + b"a" * 99 + b".",
    b"c\xff\n\n.",
    b"K",
    b"J\0",
    b"G\0",
    b"(.",
    b"}.",
    b"(" * 60_000 + b".",
    b")" * 60_000 + b"\x85" * 4_000 + b".",
    b"\x80\x02]q\x00h\x00a.",
]


def test_malformed_programs(tmp_path: Path) -> None:
    entries = entries_of(saved(tmp_path / "p.pt", PROMPT))
    for program in MALFORMED:
        refused(zipped(tmp_path / "p.pt", {**entries, "p/data.pkl": program}), "is not a prompt saved by OmniVoice")
    refused(zipped(tmp_path / "p.pt", {**entries, "p/data.pkl": b"N" * 70_000}), "must have 2-16384 bytes, got 70000")


@pytest.mark.parametrize(
    "name",
    [
        "../p/data.pkl",
        "/etc/passwd",
        "p/../x",
        "q/data.pkl",
        "data.pkl",
        "p/code/x.py",
        "p/constants.pkl",
        "p/data/x",
        "p/data/0/1",
        "p\\data.pkl",
        "C:/data/1x",
        "p/" + "d" * 5000,
    ],
)
def test_odd_entries(tmp_path: Path, name: str) -> None:
    entries = entries_of(saved(tmp_path / "p.pt", PROMPT))
    refused(zipped(tmp_path / "p.pt", {**entries, name: b"x"}), "its entries have unexpected names")


def test_bombs_and_damaged_archives(tmp_path: Path) -> None:
    entries = entries_of(saved(tmp_path / "p.pt", PROMPT))
    bomb = {**entries, "p/data/1": bytes(15 << 20)}
    refused(zipped(tmp_path / "p.pt", bomb, zipfile.ZIP_DEFLATED), "are compressed or encrypted")
    refused(zipped(tmp_path / "p.pt", {f"p/data/{i}": b"" for i in range(17)}), "has more than 16 entries")
    good = saved(tmp_path / "p.pt", PROMPT).read_bytes()
    declared = good.replace(b"p/data/0", b"p/data/0")  # the central directory's sizes, made ten times larger
    at = declared.rindex(b"p/data/0") - 46 + 20
    for sizes in (b"\x80\x70\0\0" * 2, b"\xff\xff\xff\x7f" * 2, b"\x80\x07\0\0\x80\x70\0\0"):
        (tmp_path / "p.pt").write_bytes(declared[:at] + sizes + declared[at + 8 :])
        refused(tmp_path / "p.pt", "declares more data than it has|damaged zip archive")
    for cut in (0, 3, 4, 100, len(good) // 2, len(good) - 1):
        (tmp_path / "p.pt").write_bytes(good[:cut])
        refused(tmp_path / "p.pt", "is a damaged zip|is not a zip archive|is not a prompt")
    with (tmp_path / "p.pt").open("wb") as file:
        file.truncate(17 << 20)
    refused(tmp_path / "p.pt", "must be at most 16777216 bytes")
    refused(zipped(tmp_path / "p.pt", {**entries, "p/byteorder": b"big"}), "saved on a big-endian machine")


def test_duplicate_entries(tmp_path: Path) -> None:
    entries = entries_of(saved(tmp_path / "p.pt", PROMPT))
    with zipfile.ZipFile(tmp_path / "p.pt", "w") as archive:
        for name, data in [*entries.items(), ("p/data/0", b"x" * 1920)]:
            with pytest.warns(UserWarning) if name in archive.namelist() else contextlib.nullcontext():
                archive.writestr(name, data)
    refused(tmp_path / "p.pt", "its entries have unexpected names")


def test_mutants_give_a_sound_voice_or_a_file_error(tmp_path: Path) -> None:
    entries = entries_of(saved(tmp_path / "p.pt", PROMPT))
    chance, good = random.Random(3), 0
    for _ in range(400):
        program = bytearray(entries["p/data.pkl"])
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(program))
            program[at : at + chance.randrange(2)] = chance.choice(
                [bytes([chance.randrange(256)]), b"", b"h\x04", b"t."]
            )
        try:
            prompt = read_upstream_prompt(zipped(tmp_path / "m.pt", {**entries, "p/data.pkl": bytes(program)}))
        except FileError:
            continue
        good += 1
        assert prompt.codes.numel() <= 64 * 1500
    assert 0 < good < 400


def test_flipped_bits_of_the_archive(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(PROMPT, buffer)
    chance, path = random.Random(4), tmp_path / "m.pt"
    for _ in range(300):
        data = bytearray(buffer.getvalue())
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        with contextlib.suppress(FileError):
            read_upstream_prompt(path)


def test_a_storage_that_is_named_again_and_again_is_not_copied(tmp_path: Path) -> None:
    """A file of 2.1 MB took 762 MB: each instruction that named its storage copied it."""
    wide = torch.zeros(1, 262_144, dtype=torch.long)[:, :9]
    entries = entries_of(saved(tmp_path / "p.pt", {**PROMPT, "ref_audio_tokens": wide}))
    program, again = entries["p/data.pkl"], b"h\x08Q"  # what number 8 remembers is the storage's identity
    end = program.index(b"Q") + 1
    assert len(entries["p/data/0"]) == 2 << 20 and program[end - 3 : end - 1] == b"q\x08"
    for repeats, message in ((200, "calls something no prompt needs"), (4_000, "more than 500 instructions")):
        hostile = {**entries, "p/data.pkl": program[:end] + again * repeats + program[end:]}
        path = zipped(tmp_path / "h.pt", hostile)
        tracemalloc.start()
        refused(path, message)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 16 << 20


def test_a_text_of_the_greatest_length_fits(tmp_path: Path) -> None:
    prompt = read_upstream_prompt(saved(tmp_path / "p.pt", {**PROMPT, "ref_text": "\U0001f600" * 2000}))
    assert len(prompt.text) == 2000


def test_the_reader_imports_no_unpickler() -> None:
    source = Path(sys.modules["omnivoice.commands.upstream_prompt"].__file__ or "").read_text()
    assert not re.search(r"import pickle\b|torch\.load|pickletools\.(?!genops)", source)
