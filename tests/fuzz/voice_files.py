"""Voice files and prompts that upstream saved: damaged ones, and well-formed ones with hostile values.

An accepted voice must be within the limits, and writing and reading it again must give the same voice, with the
metadata that we know and no other.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from random import Random

import torch
from safetensors.torch import save

from omnivoice.commands.upstream_prompt import read_upstream_prompt
from omnivoice.intake.limits import MAX_CODEBOOKS, MAX_VOICE_FRAMES, MAX_VOICE_TEXT_CHARS
from omnivoice.intake.tensor_header import LENGTH_BYTES
from omnivoice.intake.tensors import check_header
from omnivoice.intake.voice_files import FORMAT, read_voice, write_voice
from omnivoice.voice import VoicePrompt
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.mutations import HOSTILE_INTEGERS, JsonText, below, mutate, pick, set_integer

_ASSET = Path(__file__).resolve().parents[1] / "assets" / "intake" / "upstream_prompt.pt"
_DTYPES = (torch.int16, torch.int16, torch.int16, torch.int32, torch.int64, torch.uint8, torch.float32, torch.bool)
_SHAPES = ((8, 30), (8, 0), (0, 5), (1, 1), (8, 1500), (8, 1501), (64, 4), (65, 4), (5,), (), (2, 3, 4), (1500, 8))
_CODES = (0, 1, 511, 1023, 1024, 1025, 2047, 32767, -1, -32768)
_ABOUT = {
    "format": (FORMAT, "omnivoice_lora", ""),
    "format_version": ("1", "0", "2", "-1", "1.0", "9" * 400, "\u0661", "\u00b2", ""),
    "codebooks": ("8", "7", "0", "-8", "8.0", "1e1", "\u0668", "9" * 400),
    "codebook_size": ("1024", "1025", "1", "0", "32768", "32769", "2048", "nan"),
    "frame_rate": ("25", "25.0", "0", "50"),
    "text": ("One two three.", "", "\u202e\0<b>\x1b[31m", "a" * 2000, "a" * 2001, "\u0301" * 1000, "\U000e0041 \u200d"),
    "rms": ("0.1", "nan", "inf", "-1", "1e309", "0x1p3", "1_0", "", "\u0661", " 0.5 "),
    "name": ("Anna", "", "../../x", "a" * 121, "a\nb", "\u200b"),
    "language": ("English", "en", "\0", "x" * 200),
    "consent": ("self", "permission: Anna", "a" * 501, "\x1b[0m"),
    "codec": ("0123456789abcdef", "", "0123456789ABCDEF", "0" * 17, "0123456789abcde\n"),
    "prompt": ("canary", "x" * 10_000),
}
_WRITTEN = {*_ABOUT} - {"prompt"}
_ROUND_TRIPS = 20  # one accepted voice in so many is written and read again


def attack(run: Run) -> None:
    """Read damaged and forged voices; two in five are prompts of upstream."""
    rng, voice, prompt = run.rng, run.folder / "x.safetensors", run.folder / "x.pt"
    seeds = [_forged(rng, odd=0) for _ in range(8)]
    headers = [(JsonText(data[LENGTH_BYTES:end]), data[end:]) for data in seeds for end in [_data_start(data)]]
    entries = _entries(_ASSET.read_bytes())
    while run.more():
        kind, found = rng.random(), None
        if kind < 0.4:
            data = _prompt_mutant(rng, entries)
            prompt.write_bytes(data)
            with run.input(data):
                found = read_upstream_prompt(prompt)
        else:
            data = _forged(rng, odd=rng.random()) if kind < 0.7 else _damaged(rng, seeds, headers)
            voice.write_bytes(data)
            with run.input(data):
                found = read_voice(voice)
        if found is not None:
            _check(run, data, found)


def _check(run: Run, data: bytes, voice: VoicePrompt) -> None:
    K, T = voice.codes.shape
    inside = 1 <= K <= MAX_CODEBOOKS and 1 <= T <= MAX_VOICE_FRAMES and len(voice.text) <= MAX_VOICE_TEXT_CHARS
    if not inside or not 0 <= int(voice.codes.min()) <= int(voice.codes.max()) < 1 << 15:
        run.finding(data, "accepted a voice beyond the limits")
    if run.accepted % _ROUND_TRIPS:
        return
    run.tally("written again")
    path = run.folder / "again.safetensors"
    try:
        write_voice(path, voice)
        again, kept = read_voice(path), check_header(path).metadata.keys()
    except Exception as error:  # noqa: BLE001 - whatever it is, an accepted voice must be writable
        run.finding(data, f"an accepted voice cannot be written again: {type(error).__name__} {str(error)[:80]}")
        return
    same = torch.equal(again.codes, voice.codes) and again.rms == voice.rms
    if not same or (again.text, again.name, again.consent) != (voice.text, voice.name, voice.consent):
        run.finding(data, "a voice changes when it is written and read")
    if not kept <= _WRITTEN:
        run.finding(data, f"unknown metadata was kept: {sorted(kept - _WRITTEN)[:3]}")


def _forged(rng: Random, *, odd: float) -> bytes:
    """Return a well-formed file. odd: how likely each of its values is a hostile one."""
    shape = pick(rng, _SHAPES) if rng.random() < odd / 2 else (8, 1 + below(rng, 40))
    count = math.prod(shape)
    codes = torch.frombuffer(bytearray(rng.randbytes(2 * count + 2)), dtype=torch.int16)[:count].view(shape) & 1023
    if rng.random() < odd and codes.numel():
        codes.view(-1)[below(rng, codes.numel())] = pick(rng, _CODES)
    dtype = pick(rng, _DTYPES) if rng.random() < odd / 2 else torch.int16
    tensors = {"codes" if rng.random() >= odd / 8 else pick(rng, ("Codes", "", "codes.0")): codes.to(dtype)}
    if rng.random() < odd / 8:
        tensors["more"] = torch.zeros(below(rng, 3))
    about = {key: pick(rng, values) if rng.random() < odd / 4 else values[0] for key, values in _ABOUT.items()}
    for key in [key for key in about if rng.random() < odd / 16 or (key == "codebook_size" and rng.random() < 0.7)]:
        del about[key]
    about["codebooks"] = str(shape[0]) if shape and rng.random() >= odd / 4 else about.get("codebooks", "8")
    return save(tensors, about)


def _damaged(rng: Random, seeds: list[bytes], headers: list[tuple[JsonText, bytes]]) -> bytes:
    """Return a voice file with damaged bytes, or with an edited header of the right length."""
    if rng.random() < 0.4:
        return mutate(rng, pick(rng, seeds), seeds)
    text, codes = pick(rng, headers)
    header = text.mutate(rng)
    return len(header).to_bytes(LENGTH_BYTES, "little") + header + codes


def _data_start(data: bytes) -> int:
    return LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")


def _entries(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def _prompt_mutant(rng: Random, entries: dict[str, bytes]) -> bytes:
    """Return an archive as torch.save writes it, with damaged entries, and sometimes damaged itself."""
    entries = dict(entries)
    program = next(name for name in entries if name.endswith("data.pkl"))
    while True:
        name = program if rng.random() < 0.75 else pick(rng, list(entries))
        kind = below(rng, 6)
        if kind < 3:
            entries[name] = mutate(rng, entries[name])
        elif kind == 3:
            entries[name] = set_integer(rng, entries[name])
        elif kind == 4:
            at, opcode = below(rng, len(entries[name]) + 1), pick(rng, _OPCODES)
            entries[name] = entries[name][:at] + opcode * (1 + below(rng, 40)) + entries[name][at:]
        elif name != program:
            entries[pick(rng, ("x/data/1", "../data.pkl", "x", "archive/data.pkl", name + "0"))] = entries.pop(name)
        if rng.random() < 0.6:
            break
    file = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if rng.random() < 0.02 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return mutate(rng, file.getvalue()) if rng.random() < 0.2 else file.getvalue()


_OPCODES = (
    *(bytes((code,)) for code in b"}])(t2Q\x85\x86\x87RhqX.N0\x88\x89K\x94\x93"),
    b"cos\nsystem\n",
    b"c__builtin__\neval\n",
    b"\x80\x02",
    b"X\x04\0\0\0evil",
    b"\x8a\xff",
    *(b"J" + (number % (1 << 32)).to_bytes(4, "little") for number in HOSTILE_INTEGERS[::5]),
)
CAMPAIGN = Campaign(name="voice files", unit="voice files", goal=500_000, share=3, attack=attack, suite=1_000)
