"""Safetensors files on disk: mapped, read whole, written."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors
import safetensors.torch
import torch

from omnivoice.errors import FileError, InputError
from omnivoice.intake import tensors as module
from omnivoice.intake.tensors import check_header, open_tensors, read_own_tensors, read_small_tensors, write_tensors
from tests import warm_children

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


def sample() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    made = {str(dtype): torch.randint(0, 2, (3, 5), generator=generator).to(dtype) for dtype in DTYPES}
    return {**made, "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4), "odd": torch.arange(7, dtype=torch.uint8)}


def test_round_trip_of_every_dtype(tmp_path: Path) -> None:
    path, written = tmp_path / "a.safetensors", sample()
    assert write_tensors(path, written, {"format": "test", "note": "\u4e2d\n\"'"}) == path
    read, metadata = read_small_tensors(path)
    assert metadata == {"format": "test", "note": "\u4e2d\n\"'"}
    assert read.keys() == written.keys()
    with open_tensors(path) as file:
        assert dict(file.metadata) == metadata and file.info.keys() == written.keys()
        for name, tensor in written.items():
            for got in (read[name], file.get(name)):
                assert got.dtype == tensor.dtype and got.shape == tensor.shape and torch.equal(got, tensor)
            assert file.info[name].shape == tuple(tensor.shape)
    library = safetensors.torch.load_file(path)
    assert all(torch.equal(library[name], tensor) for name, tensor in written.items())


def test_the_same_tensors_make_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys, torch; from omnivoice.intake.tensors import write_tensors; "
        "write_tensors(sys.argv[1], {k: torch.arange(5) for k in 'cab'}, {k: 'v' for k in 'hgfedcba'})"
    )
    assert warm_children.run(code, tmp_path / "there") == (0, "", "")
    for order in ("abc", "bca"):
        write_tensors(tmp_path / order, {k: torch.arange(5) for k in order}, dict.fromkeys("abcdefgh", "v"))
        assert (tmp_path / order).read_bytes() == (tmp_path / "there").read_bytes()


def test_views_are_written_as_they_look_and_aligned(tmp_path: Path) -> None:
    base = torch.arange(24).reshape(4, 6)
    views = {"t": base.T, "slice": base[1:3, ::2], "expand": torch.ones(1, 1).expand(3, 2), "grad": torch.ones(1)}
    views["grad"].requires_grad_()
    write_tensors(tmp_path / "a", views, {})
    read, _ = read_small_tensors(tmp_path / "a")
    assert all(torch.equal(read[name], view) for name, view in views.items())
    header = check_header(tmp_path / "a")
    assert all(info.start % {"I64": 8, "F32": 4}[info.dtype] == 0 for info in header.info.values())
    assert (os.path.getsize(tmp_path / "a") - max(info.end for info in header.info.values())) % 8 == 0


def test_what_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^a: tensor 'c' has dtype torch.complex64, which cannot be written$"):
        write_tensors(tmp_path / "a", {"c": torch.zeros(1, dtype=torch.complex64)}, {})
    with pytest.raises(FileError, match=r"at most 256 characters, got 300"):
        write_tensors(tmp_path / "a", {"n" * 300: torch.zeros(1)}, {})
    assert os.listdir(tmp_path) == []


def test_only_files_of_the_same_format_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.zeros(1)}, {"format": "one"})
    write_tensors(path, {"a": torch.ones(1)}, {"format": "one"})
    with pytest.raises(
        FileError, match=r"^a\.safetensors exists and is of another kind \('one'\): choose another name$"
    ):
        write_tensors(path, {"a": torch.zeros(1)}, {"format": "two"})
    with pytest.raises(FileError, match=r"a file of that name exists already"):
        write_tensors(path, {"a": torch.zeros(1)}, {"format": "one"}, overwrite=False)
    assert torch.equal(read_small_tensors(path)[0]["a"], torch.ones(1))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match=r"^notes\.txt exists and was not made by this program "):
        write_tensors(tmp_path / "notes.txt", {"a": torch.zeros(1)}, {"format": "one"})
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("keep", ["0", "1", "7", "8", "9", "header-1", "header", "header+1", "all-1"])
def test_a_partial_download_is_named_as_such(tmp_path: Path, keep: str) -> None:
    whole = safetensors.torch.save({"a": torch.arange(10)}, {"k": "v"})
    header = 8 + int.from_bytes(whole[:8], "little")
    size = eval(keep, {"header": header, "all": len(whole)})
    (tmp_path / "m.safetensors").write_bytes(whole[:size])
    for read in (check_header, read_small_tensors, lambda path: open_tensors(path).__enter__()):
        with pytest.raises(FileError, match=r"^m\.safetensors .*download it again$"):
            read(tmp_path / "m.safetensors")


def test_the_message_says_both_lengths(tmp_path: Path) -> None:
    whole = safetensors.torch.save({"a": torch.arange(10)})
    (tmp_path / "m").write_bytes(whole[:-30])
    with pytest.raises(
        FileError, match=rf"^m ends at byte {len(whole) - 30} but its header describes {len(whole)} bytes"
    ):
        check_header(tmp_path / "m")


def test_lfs_pointer(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(
        FileError, match=r"^model\.safetensors is a Git LFS pointer, not the file itself: run git lfs pull"
    ):
        check_header(tmp_path / "model.safetensors")


def test_limits_and_missing(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"a": torch.zeros(100)}, {})
    with pytest.raises(FileError, match=r"^a must be at most 100 bytes, got "):
        read_small_tensors(tmp_path / "a", limit=100)
    with pytest.raises(FileError, match=r"^b does not exist$"), open_tensors(tmp_path / "b"):
        pass
    with pytest.raises(FileError, match=r"^a holds no tensor 'zz'$"), open_tensors(tmp_path / "a") as file:
        file.get("zz")


def test_a_mapped_tensor_outlives_the_file_object(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"a": torch.arange(1000)}, {})
    with open_tensors(tmp_path / "a") as file:
        tensor = file.get("a")
    assert torch.equal(tensor, torch.arange(1000))


@pytest.mark.parametrize("size", [1, 24, 40, 1 << 20])
def test_a_tensor_read_in_pieces_is_the_one_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    written = sample()
    write_tensors(tmp_path / "a", written, {})
    monkeypatch.setattr(module, "PIECE_BYTES", size)
    with open_tensors(tmp_path / "a") as file:
        for name, tensor in written.items():
            pieces = [(first, piece.clone()) for first, piece in file.pieces(name)]
            assert [first for first, _ in pieces] == [sum(len(p) for _, p in pieces[:i]) for i in range(len(pieces))]
            got = torch.cat([piece for _, piece in pieces]) if pieces else torch.zeros(0, 4)
            assert got.dtype == tensor.dtype and torch.equal(got.view(tensor.shape), tensor)
        with pytest.raises(FileError, match=r"^a holds no tensor 'zz'$"):
            next(file.pieces("zz"))


def test_a_file_that_becomes_shorter_while_it_is_read_is_named(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"a": torch.zeros(1 << 16)}, {})
    with open_tensors(tmp_path / "a") as file:
        os.truncate(tmp_path / "a", 1 << 16)
        with pytest.raises(FileError, match=r"^a changed while it was read: try again$"):
            list(file.pieces("a"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_mapping_makes_no_copy_in_anonymous_memory(tmp_path: Path) -> None:
    def anonymous() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

    write_tensors(tmp_path / "a", {"a": torch.ones(16 << 20)}, {})  # 64 MiB
    with open_tensors(tmp_path / "a") as file:
        before = anonymous()
        tensor = file.get("a")
        assert float(tensor.sum()) == 16 << 20
        assert anonymous() - before < 16 << 10


def test_a_file_exchanged_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_tensors(path, {"a": torch.zeros(4)}, {})
    real = safetensors.safe_open

    def exchange(*args: object, **kwargs: object) -> object:
        write_tensors(tmp_path / "b", {"a": torch.ones(4)}, {})
        os.replace(tmp_path / "b", path)
        return real(*args, **kwargs)

    monkeypatch.setattr(module.safetensors, "safe_open", exchange)
    with pytest.raises(FileError, match=r"^a changed while it was opened: try again$"), open_tensors(path):
        pass


def test_what_only_the_library_refuses_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise safetensors.SafetensorError("no reason")

    write_tensors(tmp_path / "a", {"a": torch.zeros(1)}, {})
    with (
        open_tensors(tmp_path / "a") as file,
        pytest.raises(FileError, match=r"^cannot read tensor 'a' of a: no reason$"),
    ):
        file._handle = SimpleNamespace(get_tensor=fail)
        file.get("a")
    monkeypatch.setattr(module.safetensors, "safe_open", fail)
    with pytest.raises(FileError, match=r"^cannot map a: no reason$"), open_tensors(tmp_path / "a"):
        pass
    monkeypatch.setattr(module.safetensors.torch, "load", fail)
    with pytest.raises(FileError, match=r"^cannot read a: no reason$"):
        read_small_tensors(tmp_path / "a")


def test_a_file_larger_than_any_model(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate((64 << 30) + 1)
    with pytest.raises(FileError, match=r"^a must be at most 68719476736 bytes, got 68719476737$"):
        check_header(tmp_path / "a")


def test_small_files_survive_being_truncated_after_reading(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_tensors(path, {"a": torch.ones(1 << 20)}, {})
    read, _ = read_small_tensors(path)
    with path.open("wb"):
        pass
    assert float(read["a"].sum()) == 1 << 20


def test_flipped_bits_never_escape(tmp_path: Path) -> None:
    whole = safetensors.torch.save({"a": torch.arange(10), "b": torch.ones(3)}, {"k": "v"})
    chance, good = random.Random(5), 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (tmp_path / "m").write_bytes(data)
        try:
            read, _ = read_small_tensors(tmp_path / "m")
        except FileError:
            continue
        good += 1
        assert sum(tensor.numel() for tensor in read.values()) <= len(whole)
    assert 0 < good < 400


@pytest.mark.parametrize("name", ["flat", "rows", "scalar", "none", "half"])
def test_a_tensor_read_into_memory_of_its_own(tmp_path: Path, name: str) -> None:
    tensors = {
        "flat": torch.arange(7),
        "rows": torch.arange(12.0).view(3, 4),
        "scalar": torch.tensor(-2.5),
        "none": torch.zeros(0, 3),
        "half": torch.tensor([1.5, -0.25], dtype=torch.bfloat16),
    }
    write_tensors(tmp_path / "a", tensors, {"k": "v"})
    with open_tensors(tmp_path / "a") as file:
        got = file.read(name)
        with pytest.raises(FileError, match=r"^a holds no tensor 'zz'$"):
            file.read("zz")
    read, metadata = read_own_tensors(tmp_path / "a")
    assert metadata["k"] == "v" and read.keys() == tensors.keys()
    os.truncate(tmp_path / "a", 0)  # what was read is no map of the file
    for found in (got, read[name]):
        assert found.dtype == tensors[name].dtype and torch.equal(found, tensors[name])


def test_a_file_that_is_cut_while_it_is_read_whole_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module._checked_header

    def cut(file: object, size: int, name: str) -> object:
        found = real(file, size, name)
        os.truncate(tmp_path / "a", 1 << 10)
        return found

    write_tensors(tmp_path / "a", {"a": torch.zeros(1 << 16)}, {})
    monkeypatch.setattr(module, "_checked_header", cut)
    with pytest.raises(FileError, match=r"^a changed while it was read: try again$"):
        read_own_tensors(tmp_path / "a")
