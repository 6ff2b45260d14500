"""Encodes every sentence with the packed codec, for the language model to learn from.

codes.safetensors holds "codes" uint8 [8, all frames], with the sentences end to end. index.jsonl holds the rows of the
speech index (id, split, words, text, voice) with "frame", where the sentence's codes begin, and "frames", their number.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from demo_voice.making.speech import as_float, integer, load_speech, workers, write_lines
from omnivoice.codec import CodecDecoder, CodecEncoder
from omnivoice.config import CodecConfig, parse_codec_config
from omnivoice.intake.tables import load_table
from omnivoice.ops import TORCH_OPS
from omnivoice.weights.load_codec import load_codec_decoder, load_codec_encoder

CPU = torch.device("cpu")


def load_codec(folder: Path) -> tuple[CodecEncoder, CodecDecoder]:
    """Return the encoder and the decoder of an audio_tokenizer/ folder, loaded by the engine."""
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config: CodecConfig = parse_codec_config(raw, cast("dict[str, list[str]]", load_table("config_keys.json")))
    files = [folder / "model.safetensors"]
    encoder = load_codec_encoder(config, files, ops=TORCH_OPS, device=CPU)
    return encoder, load_codec_decoder(config, files, ops=TORCH_OPS, device=CPU)


def settings(tokenizer: Path) -> dict[str, object]:
    """Return a digest of the codec without its decoder, which can still be trained: the codes depend on it."""
    tensors = load_file(tokenizer / "model.safetensors")
    kept = [name for name in sorted(tensors) if not name.startswith("acoustic_decoder.")]
    digest = hashlib.sha256()
    for name in kept:
        digest.update(tensors[name].numpy().tobytes())
    return {"codec_sha256": digest.hexdigest()}


def make_codes(speech: Path, tokenizer: Path, folder: Path) -> None:
    """Write index.jsonl and then codes.safetensors, so that the second file means that both are complete."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder, _ = load_codec(tokenizer)
    index, recordings = load_speech(speech)
    rows, found, frame = [], list[Tensor](), 0

    def encode(samples: np.ndarray) -> Tensor:
        with torch.inference_mode():
            return encoder.encode(as_float(samples)[None]).to(torch.uint8)  # [8, T]

    with workers() as pool:
        for i, (row, codes) in enumerate(zip(index, pool.map(encode, recordings)), start=1):
            kept = {key: row[key] for key in ("id", "split", "words", "text", "voice")}
            rows.append({**kept, "frame": frame, "frames": codes.shape[1]})
            frame += codes.shape[1]
            found.append(codes)
            if i % 1000 == 0:
                print(f"codes: {i} of {len(index)}", flush=True)
    write_lines(folder / "index.jsonl", rows)
    save_file({"codes": torch.cat(found, dim=1).contiguous()}, folder / "new-codes.safetensors")
    os.replace(folder / "new-codes.safetensors", folder / "codes.safetensors")


def codes_of(codes: Tensor, row: dict[str, object]) -> Tensor:
    """Return the codes of a row of the index: [8, T] int64."""
    first = integer(row, "frame")
    return codes[:, first : first + integer(row, "frames")].long()
