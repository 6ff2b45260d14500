"""A fine-tune to start from: the demo voice with three tokens more, as transformers adds them to a public fine-tune."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from omnivoice.weights import locate_checkpoint
from omnivoice.weights.demo import demo_model
from omnivoice.weights.export_folder import export_folder
from omnivoice.weights.load import TEXT_EMBEDDING

TOKENS = ("<|dur_2|>", "<|pit_3|>", "[happy]")  # of a word's length and pitch, and of a way of speaking
LANGUAGE = "xx"
SPREAD = 0.02


def make_fine_tune(folder: Path, *, tokens: Sequence[str] = TOKENS, spare_rows: int = 0) -> Path:
    """Write the demo voice with `tokens` as a model folder and return it.

    Every new token gets a row of the text embedding: the mean of the others, with a little noise, as
    resize_token_embeddings makes it. spare_rows: further rows that no token has, as pad_to_multiple_of makes them.
    """
    demo = demo_model()
    assert demo is not None, "the demo voice is part of the repository"
    export_folder(locate_checkpoint(demo), folder)
    first = _add_tokens(folder / "tokenizer.json", tokens)
    tensors = load_file(folder / "model.safetensors")
    rows = tensors[TEXT_EMBEDDING].float()
    assert first == len(rows), "the demo voice has a row for each token and no other"
    noise = torch.randn(len(tokens) + spare_rows, rows.shape[1], generator=torch.Generator().manual_seed(0))
    grown = torch.cat([rows, rows.mean(dim=0) + SPREAD * noise]).to(tensors[TEXT_EMBEDDING].dtype)
    save_file({**tensors, TEXT_EMBEDDING: grown}, folder / "new", metadata={"format": "pt"})
    (folder / "new").replace(folder / "model.safetensors")
    edit_json(folder / "config.json", lambda config: config["llm_config"].update(vocab_size=len(grown)))
    return folder


def token_ids(folder: Path) -> dict[str, int]:
    """Return {token: id} of the added tokens of a model folder."""
    table = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return {entry["content"]: entry["id"] for entry in table["added_tokens"]}


def edit_json(path: Path, change) -> None:
    """Change the object in a JSON file in place."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def _add_tokens(path: Path, tokens: Sequence[str]) -> int:
    """Add tokens to a tokenizer.json as tokenizer.add_tokens does, and return the id of the first."""
    first = max(token_ids(path.parent).values()) + 1
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    entries = [{"id": first + i, "content": token, **flags} for i, token in enumerate(tokens)]
    edit_json(path, lambda table: table["added_tokens"].extend(entries))
    return first
