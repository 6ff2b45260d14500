"""The single-file model: a safetensors file with the tensors of language model and codec, and three text files.

Metadata: format "omnivoice_checkpoint", format_version "1", the `words` of a model with a small vocabulary, and the
content of its omnivoice_nodes.json (`model_settings`). The
language model's tensors have their names in the checkpoint, those of the codec start with `audio_tokenizer.`, and
config.json, audio_tokenizer/config.json and tokenizer.json are uint8 tensors with those names. A menu recognises such a
file by its first bytes (HEAD_BYTES); everything is checked when it is loaded. `load` and `load_codec` know which
tensors a model has, and `export` collects them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

import torch

from ..errors import CheckpointError, FileError
from ..intake.files import open_regular
from ..intake.limits import shown
from ..intake.paths import shown_name
from ..intake.tensor_header import Header
from ..intake.tensors import TensorSource, check_header, open_tensors, stream_tensors
from .model_settings import METADATA

FORMAT, FORMAT_VERSION = "omnivoice_checkpoint", "1"
LM, CODEC = "lm", "codec"
CODEC_PREFIX = "audio_tokenizer."
CONFIG, CODEC_CONFIG, TOKENIZER = "config.json", "audio_tokenizer/config.json", "tokenizer.json"
EMBEDDED = (CONFIG, CODEC_CONFIG, TOKENIZER)
MAX_WORDS_CHARS = 20_000
HEAD_BYTES = 1024  # the writer puts the metadata first


def write_single_file(
    path: str | PathLike[str],
    tensors: Mapping[str, Mapping[str, TensorSource]],
    embedded: Mapping[str, bytes],
    *,
    words: Sequence[str] = (),
    settings: bytes = b"",
    overwrite: bool = True,
) -> Path:
    """Write a model atomically: its tensors by part (LM and CODEC), and the bytes of the three files in EMBEDDED.

    words: all words that it can say, in lower case; empty for a model that can say any text. settings: the content of
    its omnivoice_nodes.json, or nothing. One tensor at a time is in memory. Only a file of this format is replaced.
    Raises FileError.
    """
    assert set(embedded) == set(EMBEDDED) and set(tensors) == {LM, CODEC}, "a complete model"
    texts = {name: torch.frombuffer(bytearray(data), dtype=torch.uint8) for name, data in embedded.items()}
    sources = {
        **{name: TensorSource(text.dtype, tuple(text.shape), text.clone) for name, text in texts.items()},
        **tensors[LM],
        **{CODEC_PREFIX + name: source for name, source in tensors[CODEC].items()},
    }
    metadata = {"format": FORMAT, "format_version": FORMAT_VERSION}
    metadata |= {"words": " ".join(words)} if words else {}
    metadata |= {METADATA: settings.decode("utf-8")} if settings else {}
    return stream_tensors(path, sources, metadata, overwrite=overwrite)


def looks_like_single_file(path: Path) -> bool:
    """Whether a file starts like a single-file model; cheap, for menus. It may still be damaged."""
    if path.suffix != ".safetensors":
        return False
    try:
        with open_regular(path) as (file, _):
            head = file.read(HEAD_BYTES)
    except FileError:
        return False
    return f'"format":"{FORMAT}"'.encode() in head.replace(b" ", b"")


def check_single_file(path: Path) -> Header:
    """Return the header of a single-file model.

    Raises CheckpointError that says what the file is instead, FileError for a damaged one.
    """
    header, name = check_header(path), shown_name(path)
    if header.metadata.get("format") != FORMAT:
        raise CheckpointError(f"{name} is not a single-file OmniVoice model: {_guess(header)}")
    version = header.metadata.get("format_version")
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{name} has format_version {shown(version)}, this version reads {FORMAT_VERSION}: update the node pack"
        )
    missing = [text for text in EMBEDDED if text not in header.info or header.info[text].dtype != "U8"]
    if missing:
        raise CheckpointError(f"{name} lacks {', '.join(missing)}: export the model again")
    return header


def read_words(path: Path) -> tuple[str, ...]:
    """Return all words that the model can say; empty for a model that can say any text and for other files."""
    metadata = check_header(path).metadata
    words = metadata.get("words", "") if metadata.get("format") == FORMAT else ""
    return tuple(words.split()) if len(words) <= MAX_WORDS_CHARS else ()


def read_settings(path: Path) -> bytes:
    """Return the content of the omnivoice_nodes.json that the file has in its metadata; empty without one."""
    return check_header(path).metadata.get(METADATA, "").encode("utf-8")


def read_embedded(path: Path, text: str, *, limit: int) -> bytes:
    """Return the bytes of one of the files in EMBEDDED, at most `limit`; raises FileError."""
    with open_tensors(path) as source:
        info = source.info.get(text)
        if info is None or info.dtype != "U8" or len(info.shape) != 1 or info.end - info.start > limit:
            raise FileError(f"{shown_name(path)}: {text} must be one row of at most {limit} bytes: export it again")
        return source.get(text).numpy().tobytes()


def names_of_part(info: Mapping[str, object], metadata: Mapping[str, str], part: str) -> Iterator[tuple[str, str]]:
    """Yield (name in the checkpoint, name in the file) of that part's tensors.

    A file of another format belongs to one part. But transformers' save_pretrained puts a copy of the codec into the
    language model's file if the model was loaded for speaking, and the copy is left out, as upstream leaves it out.
    """
    if metadata.get("format") != FORMAT:
        yield from ((name, name) for name in info if part == CODEC or not name.startswith(CODEC_PREFIX))
        return
    for name in info:
        if name not in EMBEDDED and name.startswith(CODEC_PREFIX) == (part == CODEC):
            yield name.removeprefix(CODEC_PREFIX) if part == CODEC else name, name


def _guess(header: Header) -> str:
    """Say what another file seems to be, and what to do with it."""
    names = header.info.keys()
    if any("lora_" in name for name in names):
        return "it is a LoRA; put it into models/loras and use OmniVoice Apply LoRA"
    if "llm.embed_tokens.weight" in names or any(name.startswith("acoustic_decoder.") for name in names):
        return "it is the weight file of a model folder; give the folder that holds it and config.json"
    if str(header.metadata.get("format", "")).startswith("omnivoice_voice"):
        return "it is a voice; use OmniVoice Load Voice"
    return (
        f"it is another kind of file (tensors such as {shown(next(iter(names), 'none'))}); export one with "
        "python -m omnivoice export"
    )
