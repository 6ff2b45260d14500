"""The file that `train` takes: where the data, the model and the results are, and the settings.

TOML (Python 3.11 or newer) or JSON. Unusual: relative paths count from the file's own folder, and a name that is not
known is refused, wherever it stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from ..errors import FileError, InputError
from ..intake.files import read_bytes
from ..intake.limits import MAX_CONFIG_BYTES, shown
from ..intake.paths import as_path, check_file_name, shown_name
from ..intake.strict_json import parse_json
from ..train.settings import PRESETS, TrainSettings, settings_from

RESERVED = re.compile(r"best|checkpoint-\d{8}", re.IGNORECASE)  # see `train.run`
EXAMPLE = """\
data = "clips"            # a folder of recordings with .txt beside them, a metadata.csv, or a .jsonl
output = "runs/anna"      # the run's folder: begun, or gone on with
model = "models/OmniVoice"
device = "cuda"
preset = "voice"          # or "language"; [settings] then changes single ones
language = "en"           # of clips that do not say theirs

[settings]
sample_every = 100
sample_text = "This is how I sound by now."
"""


@dataclass(frozen=True)
class TrainOrder:
    """What a config file asks for. preset: "" for the plain defaults. settings: changes to them. lora: an adapter to
    begin with. name: of the files that are written; default: the output folder's."""

    data: Path
    output: Path
    settings: Mapping[str, object]
    model: Path | None = None
    codec: Path | None = None
    cache: Path | None = None
    lora: Path | None = None
    device: str = "cpu"
    preset: str = ""
    language: str | None = None
    instruct: str | None = None
    name: str = ""
    resume: bool = True
    tensorboard: bool = False

    def settings_for(self, seconds: float) -> TrainSettings:
        """The settings for clips of that length in all; raises InputError."""
        base = PRESETS[self.preset](seconds) if self.preset else TrainSettings()
        return settings_from(self.settings, base)


def read_order(path: str) -> TrainOrder:
    """The config file. Raises FileError if it cannot be read, InputError for what it says."""
    where = as_path(path)
    table = _parsed(where)
    if not isinstance(table, dict):
        raise InputError(f"{shown_name(where)} must be a table of names and values")
    known = {f.name: f for f in fields(TrainOrder)}
    unknown = sorted(table.keys() - known.keys())
    if unknown:
        raise InputError(f"{shown_name(where)}: {shown(unknown[0])} is not known; known are {', '.join(sorted(known))}")
    values: dict[str, object] = {"settings": {}, **table}
    for name, value in table.items():
        kind = str(known[name].type)
        allowed = bool if kind == "bool" else Mapping if name == "settings" else str
        if not isinstance(value, allowed):
            wanted = "true or false" if allowed is bool else "a table" if name == "settings" else "a text in quotes"
            raise InputError(f"{shown_name(where)}: {name} must be {wanted}, got {shown(value)}")
        if "Path" in kind:
            values[name] = where.parent / as_path(value)
    missing = [name for name in ("data", "output") if name not in table]
    if missing:
        raise InputError(f"{shown_name(where)} lacks {missing[0]}; an example:\n{EXAMPLE}")
    if values.get("preset", "") not in ("", *PRESETS):
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, got {shown(values['preset'])}")
    order = TrainOrder(**values)  # type: ignore[arg-type]
    name = file_name(order)
    if RESERVED.fullmatch(name):
        raise InputError(f"name {shown(name)} is what a file of the run itself is called: give another name")
    for ending in ("", "-best"):
        check_file_name(f"{name}{ending}.safetensors")
    if os.path.realpath(order.output) == os.path.realpath(order.data):
        raise InputError("output must be another folder than data: the run's files would be taken for recordings")
    order.settings_for(0)  # what is wrong is told before hours of encoding
    return order


def file_name(order: TrainOrder) -> str:
    """What the files of the run are called, without an ending."""
    return order.name or os.path.basename(os.path.abspath(order.output))


def _parsed(path: Path) -> object:
    name = shown_name(path)
    data = read_bytes(path, limit=MAX_CONFIG_BYTES)
    if path.suffix == ".json":
        return parse_json(data, name)
    if path.suffix != ".toml":
        raise InputError(f"{name} must end in .toml or .json; an example:\n{EXAMPLE}")
    try:
        import tomllib
    except ModuleNotFoundError:
        raise InputError(f"reading {name} needs Python 3.11 or newer: write the same as .json") from None
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise FileError(f"{name} is not usable TOML: it is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError, a number of thousands of digits
        raise FileError(f"{name} is not valid TOML: {str(error)[:200]}") from None
