"""The files of a checkpoint: a Hugging Face snapshot folder of OmniVoice or of a fine-tune, or a single file.

A folder without `audio_tokenizer/`, such as training writes, is accepted together with another folder that holds the
codec. An error names everything that is missing, before any weight is read. Nothing is downloaded, and pickled weights
are refused by name. `load` reads the tensors, and `single_file` knows the format of the single file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from os.path import isdir, isfile  # unlike Path.is_file, they never raise
from pathlib import Path
from typing import cast

from ..config import CodecConfig, LMConfig, parse_codec_config, parse_model_config
from ..errors import CheckpointError
from ..intake.files import read_bytes
from ..intake.limits import MAX_CONFIG_BYTES, MAX_INDEX_BYTES, MAX_TOKENIZER_BYTES
from ..intake.paths import as_path, model_folder
from ..intake.strict_json import parse_json
from ..intake.tables import load_table
from ..text.languages import language_label
from ..text.own_tokens import OwnTokens
from ..text.tokenizer import own_tokens
from .model_settings import FILE as SETTINGS
from .model_settings import MAX_BYTES, MAX_LANGUAGES, ModelSettings, settings_for, settings_text
from .single_file import (
    CODEC_CONFIG,
    CONFIG,
    TOKENIZER,
    check_single_file,
    looks_like_single_file,
    read_embedded,
    read_settings,
    read_words,
)

CODEC_FOLDER = "audio_tokenizer"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
HOW_TO_GET = "get the model again with: python -m omnivoice download"


@dataclass(frozen=True)
class CheckpointFiles:
    """Paths and parsed configurations of one checkpoint; no weight has been read.

    folder: the model's folder, or its single file. texts: the files that hold config.json, tokenizer.json and
    audio_tokenizer/config.json, or the single file. words: all words that a model with a small vocabulary can say,
    otherwise empty. settings_json: what the model says about itself, see `model_settings`; empty if it says nothing.
    """

    folder: Path
    lm_config: LMConfig
    lm_weights: tuple[Path, ...]
    codec_config: CodecConfig
    codec_weights: tuple[Path, ...]
    texts: Mapping[str, Path]
    words: tuple[str, ...] = ()
    settings_json: bytes = b""

    def settings(self, own: OwnTokens) -> ModelSettings:
        """Return what the model with these own tokens says about itself. Raises CheckpointError for a wrong file."""
        return settings_for(own, self.folder, self.settings_json)

    def knowing(self, languages: Iterable[str | None]) -> CheckpointFiles:
        """Return the files with settings that name the ids in `languages` that OmniVoice lacks, such as those of the
        clips that the model was trained on; at most 100 in all."""
        new = [one for one in languages if one and language_label(one) != one]
        settings = self.settings(own_tokens(self.tokenizer_json())) if new else ModelSettings()
        if set(new) <= set(settings.languages):
            return self
        known = tuple(dict.fromkeys((*settings.languages, *new)))[:MAX_LANGUAGES]
        return replace(self, settings_json=replace(settings, languages=known).as_json())

    def tokenizer_json(self) -> bytes:
        """Return the bytes of tokenizer.json."""
        return self.text(TOKENIZER)

    def text(self, name: str) -> bytes:
        """Return the bytes of one of `texts`."""
        return _read_text(self.texts[name], name)


def locate_checkpoint(folder: str | PathLike[str], codec_folder: str | PathLike[str] | None = None) -> CheckpointFiles:
    """Find the files of a model in a folder or a single file.

    codec_folder: where the codec is if not with the model: its folder, a model folder, or a single-file model.
    Raises CheckpointError that names what is missing or wrong, FileError for an unreadable file.
    """
    root = _place(folder)
    codec = _codec_root(root, codec_folder)
    _check_complete(root, codec, named=codec_folder is not None)
    places = {CONFIG: root, TOKENIZER: root, CODEC_CONFIG: codec}
    texts = {name: place if isfile(place) else place / Path(name).name for name, place in places.items()}
    ignored = cast(dict[str, list[str]], load_table("config_keys.json"))
    lm_config = parse_model_config(_read_object(texts[CONFIG], CONFIG), ignored)
    codec_config = parse_codec_config(_read_object(texts[CODEC_CONFIG], CODEC_CONFIG), ignored)
    _check_match(lm_config, codec_config)
    return CheckpointFiles(
        folder=root,
        lm_config=lm_config,
        lm_weights=_weight_files(root),
        codec_config=codec_config,
        codec_weights=_weight_files(codec),
        texts=texts,
        words=read_words(root) if isfile(root) else (),
        settings_json=_settings_json(root),
    )


def _settings_json(root: Path) -> bytes:
    """Return the content of the model's omnivoice_nodes.json, or of the entry for a fine-tune that its name shows."""
    if isfile(root):
        return read_settings(root) or settings_text(root)
    return read_bytes(root / SETTINGS, limit=MAX_BYTES) if isfile(root / SETTINGS) else settings_text(root)


def is_checkpoint(place: Path) -> bool:
    """Whether a folder or file looks like an OmniVoice model; cheap, for menus. It may still be damaged."""
    if isfile(place):
        return looks_like_single_file(place)
    return isfile(place / CONFIG) and isfile(place / TOKENIZER) and _has_weights(place)


def _place(path: str | PathLike[str]) -> Path:
    """Return a model folder, or a single file after checking its header."""
    where = as_path(path)
    if not isfile(where):
        return model_folder(where)
    check_single_file(where)
    return where


def _check_complete(root: Path, codec: Path, *, named: bool) -> None:
    """Raise CheckpointError that names every file missing in the two folders; single files are checked already."""
    missing = []
    if not isfile(root):
        missing += [name for name in (CONFIG, TOKENIZER) if not isfile(root / name)]
        missing += [] if _has_weights(root) else [WEIGHTS]
    if not isfile(codec):
        missing += [] if isfile(codec / CONFIG) else [CODEC_CONFIG]
        missing += [] if _has_weights(codec) else [f"{CODEC_FOLDER}/{WEIGHTS}"]
    if missing:
        raise CheckpointError(_explain_missing(root, codec, missing, named=named))


def _check_match(lm: LMConfig, codec: CodecConfig) -> None:
    """Refuse a codec that cannot decode every code of the model, or makes codes that the model does not embed."""
    last = lm.audio_vocab_size - 1
    largest = last - 1 if lm.audio_mask_id == last else last
    if codec.codebooks != lm.codebooks or not largest < codec.codebook_size <= lm.audio_vocab_size:
        raise CheckpointError(
            f"the codec has {codec.codebooks} codebooks of {codec.codebook_size} codes, the model {lm.codebooks} of "
            f"{largest + 1}: they belong to different models"
        )


def _codec_root(root: Path, codec_folder: str | PathLike[str] | None) -> Path:
    if codec_folder is None:
        return root if isfile(root) else root / CODEC_FOLDER
    named = _place(codec_folder)
    return named / CODEC_FOLDER if isdir(named / CODEC_FOLDER) else named


def _has_weights(folder: Path) -> bool:
    return isfile(folder / WEIGHTS) or isfile(folder / INDEX)


def _read_text(path: Path, name: str) -> bytes:
    """Return the bytes of the file, or of the text of that name in a single-file model."""
    limit = MAX_TOKENIZER_BYTES if name == TOKENIZER else MAX_CONFIG_BYTES
    return read_bytes(path, limit=limit) if path.suffix == ".json" else read_embedded(path, name, limit=limit)


def _read_object(path: Path, name: str) -> dict[str, object]:
    value = parse_json(_read_text(path, name), name)
    if not isinstance(value, dict):
        raise CheckpointError(f"{name}: expected a JSON object, got {type(value).__name__}")
    return value


def _weight_files(folder: Path) -> tuple[Path, ...]:
    """Return the single-file model, the weight file, or all shards that the index names; none may be missing."""
    for single in (folder, folder / WEIGHTS):
        if isfile(single):
            return (single,)
    index = parse_json(read_bytes(folder / INDEX, limit=MAX_INDEX_BYTES), INDEX)
    table = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(table, dict) or not table or not all(isinstance(v, str) for v in table.values()):
        raise CheckpointError(f"{INDEX}: no weight_map that names the shards; {HOW_TO_GET}")
    names = sorted(set(table.values()))
    if any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
        raise CheckpointError(f"{INDEX}: shards must be .safetensors files in the same folder, got {names[:3]}")
    missing = [name for name in names if not isfile(folder / name)]
    if missing:
        raise CheckpointError(f"{folder.name}: {len(missing)} of {len(names)} shards are missing: {missing[:5]}")
    return tuple(folder / name for name in names)


def _explain_missing(root: Path, codec: Path, missing: list[str], *, named: bool) -> str:
    text = f"{root.name} is not a complete OmniVoice model: missing {', '.join(missing)}"
    if any(isfile(root / name) for name in ("pytorch_model.bin", "adapter_model.safetensors")):
        found = "a LoRA adapter" if isfile(root / "adapter_model.safetensors") else "pickled weights"
        return f"{text}; it holds {found}: name the model folder itself, as safetensors"
    if not isdir(codec) and not named and all(name.startswith(CODEC_FOLDER) for name in missing):
        return (
            f"{text}; it is a fine-tune without its codec: copy the folder {CODEC_FOLDER} of the original model into "
            "it, or name that model as the codec folder (--codec)"
        )
    return f"{text}; {HOW_TO_GET}"
