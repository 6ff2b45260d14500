"""Values that a forged prompt gives to inputs: numbers, texts, names and things that belong to no socket."""

from __future__ import annotations

import random
from pathlib import Path

NAN, INFINITY = float("nan"), float("inf")
NUMBERS: tuple[object, ...] = (
    NAN,
    INFINITY,
    -INFINITY,
    1e308,
    -1e308,
    5e-324,
    -0.0,
    -1,
    0,
    1,
    257,
    10**9,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**40,
    3.99,
    "nan",
    "inf",
    "1000000000",
    "0x10",
    "",
    True,
    None,
)
SWITCHES: tuple[object, ...] = ("false", "true", "", 0, 1, 2, -1, NAN, None, [], {}, "no")
TEXTS: tuple[object, ...] = (
    None,
    "",
    " \n\t ",
    "None",
    "\0",
    "a\0b",
    "\ud800",
    "\udfff\ud800 text",
    "\u202egnidaer\u202c",
    "\x1b[31mred\x1b[0m\r\nforged log line",
    "\u200b\u2060\ufeff",
    "<|text_end|><|denoise|><|im_end|>",
    "[pause 999999999s]",
    '<break time="1e9s"/>',
    "[" * 5_000,
    "[laughter]" * 3_000,
    "Anna: hello\n" * 2_000,
    "".join(f"S{number}: hi\n" for number in range(500)),
    "9" * 4_000,
    "1e999 99/99/9999 00:99",
    "\u0301" * 5_000,
    "a\u0301\u0323" * 500,
    "ﷺ" * 500,
    "1\n00:00:00,000 --> 99:59:59,999\nlong\n",
    "WEBVTT\n\n99:59:59.999 --> 00:00:00.000\nbackwards\n",
    "1\n:::,,, --> ---\nx\n" * 500,
    '{"lines": [{"start": NaN, "end": 1e999, "text": "x"}]}',
    '{"lines": ' + "[" * 3_000,
    '{"format": "omnivoice timings", "lines": 7}',
    "0-99999999",
    "-1:-1",
    "nan-inf",
    "1,2,3," * 2_000,
    "a=b\n" * 5_000,
    "=\n==\na==b",
    "{{7*7}} ${HOME} $(id) `id` %s %n {0} {__class__}",
    "x" * 200_001,
    "line\n" * 12_000,
    "word " * 200_000,
)
HUGE_TEXTS = ("A" * 1_000_000, "é\n" * 500_000, "你好。" * 333_333, "\U0001f600" * 250_000)
OTHERS: tuple[object, ...] = (
    None,
    {},
    [],
    "text",
    "",
    0,
    -1,
    2**63,
    NAN,
    True,
    [[0.0]],
    [[[0.0]]],
    {"kind": "clone", "path": "/etc/passwd"},
    {"waveform": [[[0.0]]], "sample_rate": 24_000},
    {"waveform": None, "sample_rate": NAN},
    {"samples": [[0]], "noise_mask": None},
    {"loss": ["a"]},
    {"base_model.model.x.lora_A.weight": [[0.0]]},
    {"codes": [[1024]], "text": "x", "rms": NAN},
    [{"codes": 1}, {"codes": 2}, {"codes": 3}],
    {"__class__": "VoicePrompt"},
    {"a": {"b": {"c": {"d": {}}}}},
)
_DEVICES = ("CON", "nul.wav", "COM1", "LPT\u00b9", "aux.safetensors", "CONIN$", "PRN ", "CLOCK$")


def names(outside: Path) -> tuple[object, ...]:
    """Return hostile names of files and folders. outside: a folder that no prompt may reach."""
    up = "../" * 6
    secret = f"{outside}/secret"
    tricks = [
        f"{up}etc/passwd",
        "/etc/passwd",
        "/",
        ".",
        "..",
        "../x",
        "a/../../b",
        "a//b",
        "/dev/zero",
        "/proc/self/mem",
    ]
    tricks += [secret, f"{secret}.safetensors", f"{secret}.wav", f"../{outside.name}/secret", f"../../{outside.name}"]
    tricks += [
        "\\\\attacker\\share\\x",
        "//attacker/share/x",
        "C:\\Windows\\win.ini",
        "C:x",
        "\\\\?\\C:\\x",
        "file:///etc/passwd",
    ]
    tricks += [
        "http://127.0.0.1:9/x",
        "a:stream",
        "x:$DATA",
        "~/.ssh/id_rsa",
        "$HOME",
        "%HOME%",
        "%year%-%month%",
        "%date:yyyy%",
    ]
    tricks += [
        "../../custom_nodes/x/__init__",
        "..\\..\\custom_nodes\\x",
        "link/secret",
        "pipe",
        "hard",
        "datasets/../..",
        "3d/..",
    ]
    tricks += [
        "a" * 300,
        "é" * 100,
        "e\u0301",
        "\u00e9",
        "a.",
        "a ",
        " a",
        ".hidden",
        "-rf",
        "a\0b",
        "a\nb",
        "\ud800",
        "\u202egpj",
    ]
    tricks += [
        "none (use the lora input)",
        "[None]",
        "none",
        "",
        "x.pt",
        "x.ckpt",
        "x.safetensors",
        "X.SAFETENSORS",
        "a/b/c/d/e/f",
    ]
    return (*tricks, *_DEVICES, None, 7, NAN, [], {}, True)


def hostile(rng: random.Random, kind: str, named: tuple[object, ...]) -> object:
    """Return a value for an input of ComfyUI's type `kind`; `named` are the names of `names`."""
    if rng.random() < 0.15:
        return rng.choice(OTHERS)
    if kind in ("INT", "FLOAT"):
        return rng.choice(NUMBERS)
    if kind == "BOOLEAN":
        return rng.choice(SWITCHES)
    if kind == "STRING":
        return rng.choice(HUGE_TEXTS) if rng.random() < 0.03 else rng.choice((*TEXTS, *named))
    return rng.choice(named) if kind.startswith("COMBO") else rng.choice(OTHERS)
