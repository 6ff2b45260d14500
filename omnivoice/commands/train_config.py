"""The configuration file of `train`: TOML or JSON. On Python 3.10, TOML needs the package tomli.

It names the data, the model, the output folder and the settings. Relative paths start at the file's own folder. An
unknown name is refused at every level.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from ..errors import FileError, InputError
from ..intake.files import read_bytes
from ..intake.limits import MAX_CONFIG_BYTES, MAX_CONSENT_CHARS, check_text_length, shown
from ..intake.paths import as_path, shown_name
from ..intake.strict_json import parse_json
from ..train.results import check_result_name
from ..train.settings import TrainSettings, settings_for, settings_from
from ..weights.lora_write import checked_metadata

_BACKSLASH = re.compile(rb'"[^"\n]*\\')  # in double quotes, where it must be doubled
EXAMPLE = """\
data = "clips"            # a folder of recordings with .txt transcripts, a metadata.csv, or a .jsonl
output = "runs/anna"      # the run's folder; an unfinished run in it is resumed
preset = "voice"          # or "language"; [settings] overrides single values
language = "en"           # for clips that name no language
consent = "self"          # kept in the LoRA: self, permission, licensed, designed or unknown, and a note
# device = "cuda"         # default: cpu
# model = "models/omnivoice/OmniVoice"   # default: the first one in models/omnivoice

[settings]
sample_every = 100
sample_text = "This is how I sound by now."
"""


@dataclass(frozen=True)
class TrainOrder:
    """The content of a config file.

    settings: values that override the preset. model: None for the one that `find_model` finds. lora: a LoRA to start
    from. recogniser: the folder of a Whisper model that counts the words for stop_words_points. preset: "" for the
    plain defaults. name: of the result files; by default, that of the output folder. consent: a note in them on who
    allowed the use of the voice.
    """

    data: Path
    output: Path
    settings: Mapping[str, object]
    model: Path | None = None
    codec: Path | None = None
    cache: Path | None = None
    lora: Path | None = None
    recogniser: Path | None = None
    device: str = "cpu"
    preset: str = ""
    language: str | None = None
    instruct: str | None = None
    name: str = ""
    consent: str = ""
    resume: bool = True
    tensorboard: bool = False

    @property
    def result_name(self) -> str:
        """The name of the result files, without a suffix."""
        return self.name or os.path.basename(os.path.abspath(self.output))

    def settings_for(self, seconds: float) -> TrainSettings:
        """Return the settings for clips of `seconds` in total; raises InputError."""
        return settings_for(self.preset, seconds, self.settings) if self.preset else settings_from(self.settings)


def read_order(path: str) -> TrainOrder:
    """Read and check a config file. Raises FileError if it cannot be read, InputError for its content."""
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
            if any(char < " " for char in str(value)):  # a tab, from the start of \temp in double quotes
                raise InputError(f"{shown_name(where)}: {name} holds a control character: {_hint(where)}")
            values[name] = where.parent / as_path(value)
    missing = [name for name in ("data", "output") if name not in table]
    if missing:
        raise InputError(f"{shown_name(where)} lacks {missing[0]}; an example:\n{EXAMPLE}")
    order = TrainOrder(**values)  # type: ignore[arg-type]
    check_result_name(order.result_name)
    checked_metadata({"consent": check_text_length(order.consent, name="consent", limit=MAX_CONSENT_CHARS)})
    if os.path.realpath(order.output) == os.path.realpath(order.data):
        raise InputError("output and data must be different folders: the run's files would be taken for recordings")
    settings = order.settings_for(0)  # refuses a bad value now, not after hours of encoding
    if order.consent.strip() and settings.method == "full":
        raise InputError(
            "consent is kept in the files of a LoRA, and method full writes a model without such a note: leave consent "
            "out, and keep the note with the model yourself"
        )
    if bool(settings.stop_words_points) != (order.recogniser is not None):
        raise InputError(
            "stop_words_points in [settings] and recogniser, the folder of a Whisper model, work together only: give "
            "both or neither"
        )
    return order


def _hint(path: Path) -> str:
    """Return how to write a Windows path in this kind of file."""
    other = "double the backslashes" if path.suffix == ".json" else "put it in single quotes ('C:\\clips')"
    return f"write a Windows path with forward slashes (C:/clips), or {other}"


def _parsed(path: Path) -> object:
    name = shown_name(path)
    data = read_bytes(path, limit=MAX_CONFIG_BYTES)
    hint = f": {_hint(path)}" if _BACKSLASH.search(data) else ""
    if path.suffix == ".json":
        try:
            return parse_json(data, name)
        except FileError as error:
            raise FileError(f"{error}{hint}") from None
    if path.suffix != ".toml":
        raise InputError(f"{name} must end in .toml or .json; an example:\n{EXAMPLE}")
    read_toml = _toml_reader(name)
    try:
        return read_toml(data.decode("utf-8-sig"))
    except RecursionError:
        raise FileError(f"{name} is not usable TOML: it is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError, a number of thousands of digits
        raise FileError(f"{name} is not valid TOML: {str(error)[:200]}{hint}") from None


def _toml_reader(name: str) -> Callable[[str], dict[str, object]]:
    """Return Python's reader of TOML, or before 3.11 that of the package tomli. Raises InputError if there is none."""
    with suppress(ModuleNotFoundError):
        import tomllib

        return tomllib.loads
    try:
        import tomli
    except ModuleNotFoundError:
        raise InputError(
            f"reading {name} needs Python 3.11 or newer, or the package tomli (pip install tomli): "
            "install it, or write the file as .json"
        ) from None
    return tomli.loads
