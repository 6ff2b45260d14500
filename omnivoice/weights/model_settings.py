"""What a model says about itself: `omnivoice_nodes.json` beside its weights, or our table of known fine-tunes.

Every key of the file is optional: `name`, `tags` (names without brackets), `text_as_written`, `languages` (ids of its
own) and `recommended` (settings by the names in GenerationRequest and Sampling, and a language). A single-file model
has the same text in its metadata. `known_models.json` has an entry for each public fine-tune that needs one. They were
read from public descriptions, and none was tried on the files themselves:

- omnivoice-word-control is recognised by its 116 added tokens, which its card lists in full.
- omnivoice-singing, OmniSinger and OmniVoice-Emilia have the published model's layout, and no public fact about their
  config.json or tokenizer.json sets them apart. They are recognised by the name of their repository alone, as the name
  of the folder, of the file or of the Hugging Face cache.

A file always counts instead of an entry. An unknown key is refused, because it would be lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from ..errors import CheckpointError, InputError
from ..intake.limits import check_number, check_switch, shown
from ..intake.strict_json import parse_json
from ..intake.tables import load_table
from ..text.languages import language_id, language_label
from ..text.own_tokens import OwnTokens
from ..text.rules import TextRules
from ..text.tags import is_tag

FILE = "omnivoice_nodes.json"
METADATA = "omnivoice_nodes"  # of a single-file model
MAX_BYTES = 64 * 1024
MAX_TAGS, MAX_LANGUAGES = 500, 100
_TAG = re.compile(r"[^\[\]\s](?:[^\[\]\n]{0,38}[^\[\]\s])?")
NUMBERS = (
    "steps", "guidance", "t_shift", "layer_penalty", "position_temperature", "class_temperature", "speed",
    "pad_seconds", "fade_seconds", "chunk_seconds", "chunk_threshold_seconds",
)  # fmt: skip
SWITCHES = ("denoise", "post_process")


@dataclass(frozen=True)
class ModelSettings:
    """What a model says about itself; nothing by default.

    name: what the model calls itself. tags: names of the tags that it knows in addition, without brackets.
    text_as_written: its texts are not cleaned. languages: its own ids. recommended: {setting: value}, checked.
    """

    name: str = ""
    tags: tuple[str, ...] = ()
    text_as_written: bool = False
    languages: tuple[str, ...] = ()
    recommended: Mapping[str, float | bool | str] = field(default_factory=lambda: MappingProxyType({}))

    def told(self) -> str:
        """Return everything that is set, in one line; empty if nothing is."""
        parts = [f"name {self.name}"] if self.name else []
        parts += [f"tags {', '.join(f'[{tag}]' for tag in self.tags)}"] if self.tags else []
        parts += ["text as written"] if self.text_as_written else []
        parts += [f"languages {', '.join(self.languages)}"] if self.languages else []
        advice = ", ".join(shown_setting(*item) for item in self.recommended.items())
        return "; ".join([*parts, f"recommended {advice}"] if advice else parts)

    def as_json(self) -> bytes:
        """Return the content of an omnivoice_nodes.json that says the same."""
        table = {"name": self.name, "tags": self.tags, "text_as_written": self.text_as_written}
        table |= {"languages": self.languages, "recommended": dict(self.recommended)}
        told = {key: value for key, value in table.items() if value}
        return (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode()

    def rules(self, own: OwnTokens) -> TextRules:
        """Return the rules for texts of this model, whose own tokens in brackets are tags that it knows, too."""
        added = (token.text[1:-1] for token in own.tokens if _is_bracketed(token.text))
        return TextRules(own, tuple(dict.fromkeys((*self.tags, *added))), self.text_as_written, self.languages)


NO_SETTINGS = ModelSettings()


def _is_bracketed(text: str) -> bool:
    return text[:1] == "[" and text[-1:] == "]" and not is_tag(text)


def shown_setting(name: str, value: float | bool | str) -> str:
    """Return a setting in words, such as "denoise off"."""
    if isinstance(value, bool):
        return f"{name} {'on' if value else 'off'}"
    return f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}"


def parse_model_settings(data: bytes, name: str = FILE) -> ModelSettings:
    """Return the settings in the content of an omnivoice_nodes.json, which messages call `name`.

    Raises CheckpointError for an unknown key or a wrong value, FileError for what is not JSON.
    """
    if len(data) > MAX_BYTES:
        raise CheckpointError(f"{name} is {len(data)} bytes long, at most {MAX_BYTES} are allowed")
    table = _object(parse_json(data, name), name, "it", _READERS)
    try:
        return ModelSettings(**{key: _READERS[key](value) for key, value in table.items()})
    except InputError as error:
        raise CheckpointError(f"{name}: {error}") from None


def settings_for(own: OwnTokens, place: Path, data: bytes) -> ModelSettings:
    """Return the settings in `data`, or those of a known fine-tune if it is empty."""
    if data:
        return parse_model_settings(data)
    texts = frozenset(token.text for token in own.tokens)
    return next((known.settings for known in _known() if known.tokens and known.tokens == texts), _by_name(place))


def settings_text(place: Path) -> bytes:
    """Return the omnivoice_nodes.json of a fine-tune that only its name identifies, to be kept when it is exported."""
    known = _known_by_name(place)
    return b"" if known is None else (json.dumps(known.raw, indent=1, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True)
class _Known:
    """An entry of known_models.json. tokens: all own tokens of the model; empty if its name identifies it."""

    name: str
    tokens: frozenset[str]
    settings: ModelSettings
    raw: Mapping[str, object]


@cache
def _known() -> tuple[_Known, ...]:
    found = []
    for entry in cast("dict[str, list[dict[str, Any]]]", load_table("weights/known_models.json"))["models"]:
        tokens = [text % i if "%d" in text else text for text, count in entry.get("tokens", []) for i in range(count)]
        settings = parse_model_settings(json.dumps(entry["settings"]).encode(), entry["repository"])
        name = entry["repository"].rpartition("/")[2].lower()
        found.append(_Known(name, frozenset(tokens), settings, entry["settings"]))
    return tuple(found)


def _known_by_name(place: Path) -> _Known | None:
    """Return the entry that a folder, a single file, or a folder of the Hugging Face cache is named after."""
    cached = place.parent.parent.name if place.parent.name == "snapshots" else ""
    names = {name.rpartition("--")[2].lower() for name in (place.name, place.stem, cached)}
    return next((known for known in _known() if not known.tokens and known.name in names), None)


def _by_name(place: Path) -> ModelSettings:
    known = _known_by_name(place)
    return ModelSettings() if known is None else known.settings


def _object(value: object, name: str, part: str, allowed: Mapping[str, object]) -> dict[str, object]:
    if not isinstance(value, dict):
        raise CheckpointError(f"{name}: {part} must be a JSON object, got {shown(value)}")
    unknown = [key for key in value if key not in allowed]
    if unknown:
        raise CheckpointError(
            f"{name}: {part} has the unknown key {shown(unknown[0])}; allowed are {', '.join(allowed)}"
        )
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 80 or not value.isprintable():
        raise InputError(f"name must be a string of 1-80 printable characters, got {shown(value)}")
    return value


def _tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise InputError(f"tags must be a list of at most {MAX_TAGS} names, got {shown(value)}")
    for tag in value:
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise InputError(f'a tag must be a name of 1-40 characters without brackets, as "happy", got {shown(tag)}')
    return tuple(value)


def _languages(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_LANGUAGES:
        raise InputError(f"languages must be a list of at most {MAX_LANGUAGES} ids, got {shown(value)}")
    return tuple(_own_id(one) for one in value)


def _own_id(value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"language must be a string, got {shown(value)}")
    found = language_id(value if value[:3] == "id:" else f"id:{value}")
    assert found is not None, "id: always gives an id"
    return found


def _recommended(value: object) -> Mapping[str, float | bool | str]:
    readers: dict[str, Callable[[str, object], float | bool | str]] = dict.fromkeys(NUMBERS, check_number)
    readers |= dict.fromkeys(SWITCHES, check_switch)
    readers["language"] = _language
    table = _object(value, FILE, "recommended", readers)
    return MappingProxyType({key: readers[key](key, given) for key, given in table.items()})


def _language(_: str, value: object) -> str:
    found = language_id(value)
    return "auto" if found is None else language_label(found)


_READERS: Mapping[str, Callable[[object], Any]] = MappingProxyType(
    {
        "name": _name,
        "tags": _tags,
        "text_as_written": lambda value: check_switch("text_as_written", value),
        "languages": _languages,
        "recommended": _recommended,
    }
)
