"""Which files make up a checkpoint folder: a Hugging Face snapshot of OmniVoice, or a fine-tune of it.

A folder without `audio_tokenizer/` (training checkpoints have none) is accepted when another folder that
holds the codec is named. Everything missing is named at once, before any weight is read. Nothing is
downloaded, and pickled weights are refused by name. Reading tensors is `load.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from os.path import isdir, isfile  # unlike Path.is_file, they never raise
from pathlib import Path
from typing import cast

from ..config import CodecConfig, LMConfig, parse_codec_config, parse_model_config
from ..errors import CheckpointError
from ..intake.files import read_bytes, read_json
from ..intake.limits import MAX_CONFIG_BYTES, MAX_INDEX_BYTES, MAX_TOKENIZER_BYTES
from ..intake.paths import model_folder
from ..intake.tables import load_table

CODEC_FOLDER = "audio_tokenizer"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
HOW_TO_GET = "get the model again with: python -m omnivoice download"


@dataclass(frozen=True)
class CheckpointFiles:
    """Paths and parsed configurations of one checkpoint; the weight files have not been opened."""

    folder: Path
    lm_config: LMConfig
    lm_weights: tuple[Path, ...]
    tokenizer: Path
    codec_config: CodecConfig
    codec_weights: tuple[Path, ...]

    def tokenizer_json(self) -> bytes:
        """The bytes of tokenizer.json."""
        return read_bytes(self.tokenizer, limit=MAX_TOKENIZER_BYTES)


def locate_checkpoint(folder: str | PathLike[str], codec_folder: str | PathLike[str] | None = None) -> CheckpointFiles:
    """The files of `folder`, with the codec from `codec_folder` if given (it, or its audio_tokenizer/).

    Raises CheckpointError that names what is missing or wrong, FileError for an unreadable file.
    """
    root = model_folder(folder)
    codec = _codec_root(root, codec_folder)
    missing = [name for name in ("config.json", "tokenizer.json") if not isfile(root / name)]
    missing += [] if _has_weights(root) else [WEIGHTS]
    missing += [] if isfile(codec / "config.json") else [f"{CODEC_FOLDER}/config.json"]
    missing += [] if _has_weights(codec) else [f"{CODEC_FOLDER}/{WEIGHTS}"]
    if missing:
        raise CheckpointError(_explain_missing(root, codec, missing, named=codec_folder is not None))
    ignored = cast(dict[str, list[str]], load_table("config_keys.json"))
    lm_config = parse_model_config(_read_object(root / "config.json"), ignored)
    codec_config = parse_codec_config(_read_object(codec / "config.json"), ignored)
    _check_match(lm_config, codec_config)
    return CheckpointFiles(
        folder=root,
        lm_config=lm_config,
        lm_weights=_weight_files(root),
        tokenizer=root / "tokenizer.json",
        codec_config=codec_config,
        codec_weights=_weight_files(codec),
    )


def is_checkpoint(folder: Path) -> bool:
    """Whether `folder` looks like an OmniVoice model; cheap, for menus. Says nothing about its soundness."""
    return isfile(folder / "config.json") and isfile(folder / "tokenizer.json") and _has_weights(folder)


def _check_match(lm: LMConfig, codec: CodecConfig) -> None:
    """Refuse a codec that cannot decode every code the model may say, or says codes the model does not embed."""
    last = lm.audio_vocab_size - 1
    largest = last - 1 if lm.audio_mask_id == last else last
    if codec.codebooks != lm.codebooks or not largest < codec.codebook_size <= lm.audio_vocab_size:
        raise CheckpointError(
            f"the codec has {codec.codebooks} codebooks of {codec.codebook_size} codes, the model {lm.codebooks} of "
            f"{largest + 1}: they belong to different models"
        )


def _codec_root(root: Path, codec_folder: str | PathLike[str] | None) -> Path:
    if codec_folder is None:
        return root / CODEC_FOLDER
    named = model_folder(codec_folder)
    return named / CODEC_FOLDER if isdir(named / CODEC_FOLDER) else named


def _has_weights(folder: Path) -> bool:
    return isfile(folder / WEIGHTS) or isfile(folder / INDEX)


def _read_object(path: Path) -> dict[str, object]:
    value = read_json(path, limit=MAX_CONFIG_BYTES)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path.name}: expected a JSON object, got {type(value).__name__}")
    return value


def _weight_files(folder: Path) -> tuple[Path, ...]:
    """The single file, or every shard that the index names; a missing shard is an error."""
    if isfile(folder / WEIGHTS):
        return (folder / WEIGHTS,)
    index = read_json(folder / INDEX, limit=MAX_INDEX_BYTES)
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
        return f"{text}; a fine-tune without {CODEC_FOLDER}/ needs a codec folder: name the original model's"
    return f"{text}; {HOW_TO_GET}"
