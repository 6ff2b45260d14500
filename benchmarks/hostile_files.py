"""Hostile files: lists of recordings, weights, prompts, models and audio. See `hostile_inputs`."""

from __future__ import annotations

import json
import struct
import wave
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from benchmarks.hostile_inputs import CHECKPOINT, MB, MOST, Door, Prepare, of_file, repeated
from omnivoice.audio.reference import prepare_reference
from omnivoice.audio.training_clip import prepare_clip
from omnivoice.commands.upstream_prompt import read_upstream_prompt
from omnivoice.intake.audio_files import read_audio
from omnivoice.intake.tensors import check_header
from omnivoice.intake.voice_files import read_voice
from omnivoice.train.manifests import read_manifest
from omnivoice.types import Waveform
from omnivoice.weights.files import locate_checkpoint
from omnivoice.weights.lora_read import read_lora


def lists() -> dict[str, Prepare]:
    kinds = {
        "csv of rows": ("metadata.csv", b"a.wav,b\n", b"audio,text\n", b"", 10 * MB),
        "csv of paths": ("metadata.csv", b"/a/b/c.wav,b\n", b"audio,text\n", b"", 10 * MB),
        "csv without a header": ("a.csv", b"a.wav|b\n", b"", b"", 10 * MB),
        "csv of one row": ("metadata.csv", b"a,", b"audio,text\n", b"", MOST),
        "csv of blank lines": ("metadata.csv", b"\n", b"audio,text\n", b"", MOST),
        "csv of many fields": ("metadata.csv", b"," * 64_000 + b"\n", b"audio,text\n", b"", MOST),
        "csv header": ("metadata.csv", b"a,", b"", b"\nb,c", MOST),
        "csv, 100 MB of rows": ("metadata.csv", b"a.wav,b\n", b"audio,text\n", b"", MOST),
        "csv of quotes": ("metadata.csv", b'"', b"audio,text\n", b"", MOST),
        "jsonl of rows": ("a.jsonl", b'{"audio":"a.wav","text":"b"}\n', b"", b"", 28 * MB),
        "jsonl of empty objects": ("a.jsonl", b"{}\n", b"", b"", MOST),
        "jsonl, 100 MB of rows": ("a.jsonl", b'{"audio":"a.wav","text":"b"}\n', b"", b"", MOST),
        "json array of objects": ("a.json", b"{},", b"[", b"{}]", MOST),
        "json array of texts": ("a.json", b'"ab",', b"[", b"0]", MOST),
        "json array of numbers": ("a.json", b"0,", b"[", b"0]", MOST),
        "json array of rows": ("a.json", b'{"audio":"a.wav","text":"b"},', b"[", b"{}]", 28 * MB),
        "text of rows": ("a.txt", b"a.wav|b\n", b"", b"", 10 * MB),
        "kaldi": ("wav.scp", b"a a.wav\n", b"", b"", MOST),
    }

    def prepared(name: str, unit: bytes, start: bytes, end: bytes, size: int) -> Prepare:
        def prepare(folder: Path) -> Door:
            (folder / name).write_bytes(repeated(unit, size, start, end)())
            (folder / "text").write_bytes(b"a b\n")
            return lambda listen: read_manifest(folder / name, root=folder)

        return prepare

    found = {
        f"list: {size // MB} MB, {kind}": prepared(name, unit, start, end, size)
        for kind, (name, unit, start, end, size) in kinds.items()
    }
    return {
        **found,
        "list: 990,000 rows of different names": many_names,
        "dataset: a folder of 20,000 recordings": of_folder,
    }


def many_names(folder: Path) -> Door:
    path = folder / "metadata.csv"
    path.write_text("audio,text\n" + "".join(f"d{i % 1000}/{i}.wav,b\n" for i in range(990_000)))
    return lambda listen: read_manifest(path, root=folder)


def of_folder(folder: Path) -> Door:
    for i in range(20_000):
        (folder / f"{i}.wav").write_bytes(b"")
        (folder / f"{i}.txt").write_bytes(b"a")
    return lambda listen: read_manifest(folder, root=folder)


def header(table: Mapping[str, object] | bytes, data: int = 0) -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def lora(path: Path) -> object:
    """Read a LoRA for the tests' model."""
    return read_lora(path, locate_checkpoint(CHECKPOINT).lm_config)


def tensor_files() -> dict[str, Prepare]:
    many = {f"a{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(4_096)}
    big = b'{"__metadata__":{' + b",".join(b'"k%d":"v"' % i for i in range(600_000)) + b"}}"
    deep = b"[" * 8_000_000
    found: dict[str, Prepare] = {}
    for name, content in {
        "zeros of 100 MB": lambda: header(
            {"a": {"dtype": "F32", "shape": [25_000_000], "data_offsets": [0, MOST]}}, MOST
        ),
        "4,096 tensors": lambda: header(many),
        "8 MB of metadata": lambda: header(big[:8_388_600] if len(big) > 8_388_600 else big),
        "8 MB of brackets": lambda: header(deep),
        "a header of 100 MB": lambda: header(b" " * MOST),
    }.items():
        found[f"voice: {name}"] = of_file("a.safetensors", content, read_voice)
        found[f"LoRA: {name}"] = of_file("a.safetensors", content, lora)
        found[f"check: {name}"] = of_file("a.safetensors", content, check_header)
    return found


def prompts() -> dict[str, Prepare]:
    def zipped(entries: Mapping[str, bytes], method: int) -> Prepare:
        def prepare(folder: Path) -> Door:
            with zipfile.ZipFile(folder / "a.pt", "w", method) as archive:
                for name, data in entries.items():
                    archive.writestr(name, data)
            return lambda listen: read_upstream_prompt(folder / "a.pt")

        return prepare

    many = {f"p/data/{i}": b"" for i in range(999)}
    return {
        "prompt.pt: 100 MB": of_file("a.pt", repeated(b"PK\x03\x04", MOST), read_upstream_prompt),
        "prompt.pt: a bomb": zipped({"p/data.pkl": bytes(MOST)}, zipfile.ZIP_DEFLATED),
        "prompt.pt: many entries": zipped(many, zipfile.ZIP_STORED),
        "prompt.pt: 16 MB of program": zipped({"p/data.pkl": b"}" * 16_000_000}, zipfile.ZIP_STORED),
        "prompt.pt: 500,000 entries": zipped({f"{i}": b"" for i in range(500_000)}, zipfile.ZIP_STORED),
    }


def models() -> dict[str, Prepare]:
    def changed(name: str, content: Callable[[], bytes]) -> Prepare:
        def prepare(folder: Path) -> Door:
            import shutil

            from omnivoice.engine import Engine

            shutil.copytree(CHECKPOINT, folder / "m")
            (folder / "m" / name).write_bytes(content())
            return lambda listen: Engine.load(folder / "m")

        return prepare

    def tokenizer(change: Callable[[dict], object]) -> Callable[[], bytes]:  # type: ignore[type-arg]
        def content() -> bytes:
            table = json.loads((CHECKPOINT / "tokenizer.json").read_text("utf-8"))
            change(table)
            return json.dumps(table).encode()[: 20 * (1 << 20)]

        return content

    def vocabulary(table: dict) -> None:  # type: ignore[type-arg]
        table["model"]["vocab"] = {f"t{i}": i for i in range(1_100_000)}

    def merges(table: dict) -> None:  # type: ignore[type-arg]
        table["model"]["merges"] = [["a", "b"]] * 1_500_000

    def added(table: dict) -> None:  # type: ignore[type-arg]
        table["added_tokens"] += [{"id": 10**6 + i, "content": f"<|{i}|>"} for i in range(380_000)]

    index = b'{"weight_map":{' + b",".join(b'"a%d":"m.safetensors"' % i for i in range(300_000)) + b"}}"
    return {
        "config.json: 100 MB": changed("config.json", repeated(b"[", MOST)),
        "config.json: 1 MB of lists": changed("config.json", repeated(b"[],", MB, b'{"a":[', b"0]}")),
        "config.json: 1 MB of keys": changed(
            "config.json", lambda: json.dumps({f"k{i}": i for i in range(60_000)}).encode()
        ),
        "tokenizer.json: 100 MB": changed("tokenizer.json", repeated(b"[", MOST)),
        "tokenizer.json: 20 MB of lists": changed("tokenizer.json", repeated(b"[],", 20 * MB, b'{"a":[', b"0]}")),
        "tokenizer.json: 20 MB of objects": changed("tokenizer.json", repeated(b"{},", 20 * MB, b'{"a":[', b"0]}")),
        "tokenizer.json: 1,100,000 tokens": changed("tokenizer.json", tokenizer(vocabulary)),
        "tokenizer.json: 1,500,000 merges": changed("tokenizer.json", tokenizer(merges)),
        "tokenizer.json: 380,000 added tokens": changed("tokenizer.json", tokenizer(added)),
        "index: 8 MB of names": changed("model.safetensors.index.json", lambda: index),
        "adapter_config.json: 1 MB": adapter,
    }


def adapter(folder: Path) -> Door:
    (folder / "adapter_config.json").write_bytes(repeated(b"[],", MB, b'{"target_modules":[', b"0]}")())
    (folder / "adapter_model.safetensors").write_bytes(header({}))
    config = locate_checkpoint(CHECKPOINT).lm_config
    return lambda listen: read_lora(folder, config)


def recordings() -> dict[str, Prepare]:
    def wav(folder: Path, rate: int, channels: int, seconds: int) -> Path:
        with wave.open(str(folder / "a.wav"), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(bytes(2 * channels * rate * seconds))
        return folder / "a.wav"

    def of_wav(rate: int, channels: int, seconds: int) -> Prepare:
        def prepare(folder: Path) -> Door:
            path = wav(folder, rate, channels, seconds)
            return lambda listen: read_audio(path, on_read=listen)

        return prepare

    def of_kind(name: str, content: Callable[[], bytes]) -> Prepare:
        def prepare(folder: Path) -> Door:
            (folder / name).write_bytes(content())
            return lambda listen: read_audio(folder / name, on_read=listen)

        return prepare

    atom = struct.pack(">I4s", 8, b"free")
    start = struct.pack(">I4s4sI4s", 20, b"ftyp", b"M4A ", 0, b"M4A ")
    files = {
        "mp3 of false frames": ("a.mp3", repeated(b"\xff\xfb\x90\x00", MOST)),
        "aac of false frames": ("a.aac", repeated(b"\xff\xf1\x50\x80", MOST)),
        "m4a of empty atoms": ("a.m4a", repeated(atom, MOST, start)),
        "ogg of page starts": ("a.ogg", repeated(b"OggS" + bytes(23), MOST)),
        "flac of frame starts": ("a.flac", repeated(b"\xff\xf8", MOST, b"fLaC\x00\x00\x00\x22" + bytes(34))),
        "zeros as wav": ("a.wav", repeated(b"\0", MOST)),
        "webm of zeros": ("a.webm", repeated(b"\0", MOST, b"\x1a\x45\xdf\xa3")),
        "iamf": ("a.mp4", repeated(struct.pack(">I4s", 8, b"iamf"), MOST, start)),
        "wav of chunks": ("a.wav", repeated(b"LIST\0\0\0\0", MOST, b"RIFF\xff\xff\xff\x05WAVE")),
    }
    found: dict[str, Prepare] = {f"audio: 100 MB, {name}": of_kind(*file) for name, file in files.items()}
    found["audio: wav of 500 s at 48 kHz, stereo"] = of_wav(48_000, 2, 500)
    found["audio: wav at 384 kHz in 8 channels"] = of_wav(384_000, 8, 16)
    found["audio: wav of 620 s"] = of_wav(8_000, 1, 620)
    for name, shape, rate in (
        ("30 minutes", (2, 1800 * 24_000), 24_000),
        ("256 MB in 8 channels", (8, 8_388_608), 384_000),
    ):
        for use, prepare in (("a voice", prepare_reference), ("a clip", prepare_clip)):
            found[f"audio in memory: {name}, as {use}"] = of_waveform(shape, rate, prepare)
    return found


def of_waveform(shape: tuple[int, int], rate: int, use: Callable[[Waveform], object]) -> Prepare:
    def prepare(folder: Path) -> Door:
        noise = torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 0.2 + 0.05
        return lambda listen: use(Waveform(noise, rate))

    return prepare
