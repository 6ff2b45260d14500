"""A fine-tune to start from: the demo voice with three tokens more, as transformers adds them to a public fine-tune.

And recordings of the demo voice to train it on, whose transcripts use the tokens, a tag and a language of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from omnivoice import Engine, Waveform, write_wav
from omnivoice.constants import SAMPLE_RATE
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.demo import demo_model
from omnivoice.weights.export_folder import export_folder
from omnivoice.weights.load import TEXT_EMBEDDING
from omnivoice.weights.lora import lora_targets

TOKENS = ("<|dur_2|>", "<|pit_3|>", "[happy]")  # of a word's length and pitch, and of a way of speaking
TAG = "[whisper]"  # that the model's settings name; it is no token
LANGUAGE = "xx"
SETTINGS = {"tags": [TAG[1:-1]], "languages": [LANGUAGE]}  # its omnivoice_nodes.json
SPREAD = 0.02
CLIPS = Path(__file__).parent / "assets" / "demo"
# Transcripts of the first four clips in CLIPS, with what the fine-tune adds.
TRANSCRIPTS = (
    "[happy] Rebecca has <|dur_2|>eleven orange flowers.",
    "My number is <|pit_3|>eight three<|dur_2|> four three.",
    "[whisper] Victor lost a blue umbrella on Friday.",
    "Robert has seven silver bottles.",
)
SAID = "[happy] Robert has <|dur_2|>seven <|pit_3|>silver bottles [whisper]."  # to speak with the trained model


def make_fine_tune(
    folder: Path,
    *,
    tokens: Sequence[str] = TOKENS,
    spare_rows: int = 0,
    from_zero: bool = False,
    settings: Mapping[str, object] | None = None,
) -> Path:
    """Write the demo voice with `tokens`, and `settings` as its omnivoice_nodes.json, as a model folder and return it.

    Every new token gets a row of the text embedding: the mean of the others, with a little noise, as
    resize_token_embeddings makes it. spare_rows: further rows that no token has, as pad_to_multiple_of makes them.
    from_zero: all new rows are zero instead.
    """
    demo = demo_model()
    assert demo is not None, "the demo voice is part of the repository"
    export_folder(locate_checkpoint(demo), folder)
    first = _add_tokens(folder / "tokenizer.json", tokens)
    tensors = load_file(folder / "model.safetensors")
    rows = tensors[TEXT_EMBEDDING].float()
    assert first == len(rows), "the demo voice has a row for each token and no other"
    noise = torch.randn(len(tokens) + spare_rows, rows.shape[1], generator=torch.Generator().manual_seed(0))
    new = torch.zeros_like(noise) if from_zero else rows.mean(dim=0) + SPREAD * noise
    grown = torch.cat([rows, new]).to(tensors[TEXT_EMBEDDING].dtype)
    save_file({**tensors, TEXT_EMBEDDING: grown}, folder / "new", metadata={"format": "pt"})
    (folder / "new").replace(folder / "model.safetensors")
    edit_json(folder / "config.json", lambda config: config["llm_config"].update(vocab_size=len(grown)))
    if settings is not None:
        (folder / "omnivoice_nodes.json").write_text(json.dumps(settings))
    return folder


def write_recordings(folder: Path) -> Path:
    """Write a clip of the demo voice for each of TRANSCRIPTS, and a list of them, and return the list.

    All but the last are in `id:xx`.
    """
    demo = demo_model()
    assert demo is not None, "the demo voice is part of the repository"
    codec, codes = Engine.load(demo).codec, load_file(CLIPS / "clips.safetensors")["codes"].long()
    rows = [json.loads(line) for line in (CLIPS / "clips.jsonl").read_text(encoding="utf-8").splitlines()]
    folder.mkdir()
    lines = []
    for number, (text, row) in enumerate(zip(TRANSCRIPTS, rows), start=1):
        samples = codec.decode(codes[:, row["frame"] : row["frame"] + row["frames"]], windows=True)
        write_wav(folder / f"clip{number}.wav", Waveform(samples, SAMPLE_RATE))
        entry = {"audio_path": f"clip{number}.wav", "text": text, "language_id": f"id:{LANGUAGE}"}
        lines.append(json.dumps(entry if number < len(TRANSCRIPTS) else {**entry, "language_id": ""}))
    (folder / "list.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "list.jsonl"


def write_llm_lora(folder: Path, model: Path, *, rank: int = 32, alpha: float = 16.0) -> Path:
    """Write an adapter as PEFT saves one of `model.llm` alone with rsLoRA, on the queries and values, and return it."""
    tensors, generator = {}, torch.Generator().manual_seed(1)
    for module, (out, width) in lora_targets(locate_checkpoint(model).lm_config).items():
        if module.endswith(("q_proj", "v_proj")):
            name = f"base_model.model.{module.removeprefix('llm.')}"
            tensors[f"{name}.lora_A.weight"] = torch.randn(rank, width, generator=generator) * SPREAD
            tensors[f"{name}.lora_B.weight"] = torch.randn(out, rank, generator=generator) * SPREAD
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "use_rslora": True, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps({**settings, "target_modules": ["q_proj", "v_proj"]}))
    return folder


def prompt_by_hand(model: Path, text: str, language: str | None) -> tuple[int, ...]:
    """Return the ids of the prompt: each of TOKENS is its id, and the text between two of them is encoded alone."""
    tokenizer, ids = TextTokenizer.from_json((model / "tokenizer.json").read_bytes()), token_ids(model)
    spoken: list[int] = []
    for piece in re.split(f"({'|'.join(map(re.escape, TOKENS))})", text):
        spoken += [ids[piece]] if piece in TOKENS else tokenizer.encode(piece)
    parts = {"lang": tokenizer.encode(language or "None"), "instruct": tokenizer.encode("None"), "text": spoken}
    return tuple(
        token for name, inner in parts.items() for token in (ids[f"<|{name}_start|>"], *inner, ids[f"<|{name}_end|>"])
    )


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
