"""Headers of safetensors files: every one that our check accepts must be good for the library too.

Most inputs are headers alone. Of every thousand, ten are complete files, some with a forged length, and one of these is
read from the disk by the three loaders. The seeds are valid headers of random tensors with odd names, so that many
mutants are accepted.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random

import safetensors

from omnivoice.errors import FileError
from omnivoice.intake.tensor_header import DTYPES, LENGTH_BYTES, header_length, parse_header
from omnivoice.intake.tensors import open_tensors, read_own_tensors, read_small_tensors
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.mutations import HOSTILE_INTEGERS, JsonText, below, mutate, pick

Seed = tuple[bytes, JsonText, int]  # header, its tokens, bytes of data

_NAMES = (
    "a",
    "b",
    "weight",
    "llm.layers.0.q",
    "\u00e9\u4e2d",
    "\U0001f600",
    'q"\\\n',
    "",
    "x" * 256,
    "__metadata",
    "\0",
)
_VALUES = tuple(
    str(value).encode() if isinstance(value, int) else json.dumps(value).encode()
    for value in (
        *range(10),
        12,
        16,
        24,
        32,
        48,
        64,
        1 << 20,
        *DTYPES,
        *("a", "F4", "C64", "__metadata__", [], [0], [8]),
    )
)
_SEEDS, _BLOCK, _LOADED = 300, 99, 1000


def attack(run: Run) -> None:
    """Check headers; each accepted one is given to the library, with data of the size that it describes."""
    rng = run.rng
    seeds = [_seed(rng) for _ in range(_SEEDS)]
    while run.more():
        _check_file(run, *_mutant(rng, seeds))
        _check_block(run, [_mutant(rng, seeds) for _ in range(_BLOCK)])


def _mutant(rng: Random, seeds: list[Seed]) -> tuple[bytes, int]:
    """Return a header, and the bytes of data that follow it."""
    header, text, size = pick(rng, seeds)
    kind = rng.random()
    if kind < 0.4:
        return text.mutate(rng), size
    if kind < 0.7:
        return text.with_value(below(rng, len(text.values)), pick(rng, _VALUES)), size
    if kind < 0.9:
        return mutate(rng, header), size
    wrong = below(rng, 3) - 1 if rng.random() < 0.3 else 0
    return header + pick(rng, (b" ", b"\n", b"\t  ", b"\r\n", b"\0")) * below(rng, 9), max(0, size + wrong)


def _check_block(run: Run, block: list[tuple[bytes, int]]) -> None:
    """Check many headers as one `run.input`, which takes longer than most of them; they are counted one by one."""
    refused = 0
    with run.input(b"\n".join(header for header, _ in block)):
        for header, size in block:
            try:
                parse_header(header, size, "x.safetensors")
            except FileError:
                refused += 1
            else:
                _compare(run, len(header).to_bytes(LENGTH_BYTES, "little") + header + bytes(size))
        run.inputs += len(block) - 1
        run.accepted += len(block) - refused - 1
        run.refused += refused


def _check_file(run: Run, header: bytes, size: int) -> None:
    """Check a complete file, which may be damaged again; one in ten lies on the disk and is read by the loaders."""
    rng = run.rng
    length = len(header) if rng.random() < 0.7 else (len(header) + pick(rng, HOSTILE_INTEGERS)) % (1 << 64)
    data = length.to_bytes(LENGTH_BYTES, "little") + header + bytes(size)
    if rng.random() < 0.3:
        data = mutate(rng, data)
    accepted = run.accepted
    loaded = run.inputs % _LOADED == 0
    with run.input(data):
        if loaded:
            _load(run.folder / "x.safetensors", data)
        else:
            end = LENGTH_BYTES + header_length(data, len(data), "x.safetensors")
            parse_header(data[LENGTH_BYTES:end], len(data) - end, "x.safetensors")
    run.tally("loaded as files", int(loaded))
    if run.accepted > accepted:
        _compare(run, data)


def _load(path: Path, data: bytes) -> None:
    """Read a file through all three doors, which must agree; raises FileError if one refuses it."""
    path.unlink(missing_ok=True)  # a file that is mapped must not be overwritten
    path.write_bytes(data)
    tensors, metadata = read_small_tensors(path)
    again, about = read_own_tensors(path)
    with open_tensors(path) as file:
        shapes = {name: (tuple(file.get(name).shape), file.get(name).dtype) for name in file.info}
        pieces = sum(len(piece.flatten()) for name in file.info for _, piece in file.pieces(name))
    read, own = (
        {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in some.items()} for some in (tensors, again)
    )
    assert read == own == shapes and metadata == about, "the same tensors"
    assert pieces == sum(tensor.numel() for tensor in tensors.values()), "all their values"


def _compare(run: Run, data: bytes) -> None:
    """Record a finding if the library refuses `data`."""
    try:
        safetensors.deserialize(data)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception
        run.finding(data, f"accepted, but the library refuses it: {type(error).__name__} {str(error)[:60]}")


def _seed(rng: Random) -> Seed:
    """Return a valid header of up to four small tensors, in any order, with or without metadata."""
    header: dict[str, object] = {}
    end = 0
    for name in rng.sample(_NAMES, pick(rng, (0, 1, 1, 1, 2, 2, 4))):
        dtype, shape = pick(rng, list(DTYPES)), [below(rng, 4) for _ in range(below(rng, 4))]
        start, end = end, end + math.prod(shape) * DTYPES[dtype].itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    if rng.random() < 0.5:
        header["__metadata__"] = {pick(rng, _NAMES): pick(rng, _NAMES) for _ in range(below(rng, 3))}
    names = rng.sample(list(header), len(header))
    text = json.dumps({name: header[name] for name in names}, ensure_ascii=rng.random() < 0.5).encode()
    return text, JsonText(text), end


CAMPAIGN = Campaign(name="headers", unit="safetensors headers", goal=40_000_000, share=10, attack=attack, suite=50_000)
