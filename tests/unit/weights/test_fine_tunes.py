"""Fine-tunes in the forms in which transformers saves them: a grown vocabulary, and the codec among the weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from omnivoice import CheckpointError, Engine, GenerationRequest, Sampling
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint
from omnivoice.weights.export_folder import export_folder
from tests.fine_tune import TOKENS, edit_json, make_fine_tune, token_ids

TEXT = "llm.embed_tokens.weight"
REQUEST = GenerationRequest("Red bottles.", seed=3, duration=1.0, sampling=Sampling(steps=4))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fine_tune(tmp_path_factory.mktemp("fine-tune") / "tuned", spare_rows=50)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A private copy, to be changed."""
    return shutil.copytree(made, tmp_path / "tuned")


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "new", metadata={"format": "pt"})
    (folder / "new").replace(folder / "model.safetensors")


def codes(place: Path) -> torch.Tensor:
    return Engine.load(place).generate([REQUEST])[0].codes[0]


def grow(folder: Path, rows: int) -> None:
    """Cut or grow the text embedding to that many rows."""

    def change(tensors: dict[str, torch.Tensor]) -> None:
        more = torch.ones(rows, tensors[TEXT].shape[1], dtype=tensors[TEXT].dtype)
        tensors[TEXT] = torch.cat([tensors[TEXT], more])[:rows].clone()

    rewrite(folder, change)


def size_in_llm_config(folder: Path) -> None:
    """`model.llm.resize_token_embeddings(1878)`, as upstream's trainer calls it."""
    grow(folder, 1878)
    edit_json(folder / "config.json", lambda c: c["llm_config"].update(vocab_size=1878))


def size_padded(folder: Path) -> None:
    """`model.llm.resize_token_embeddings(1878, pad_to_multiple_of=64)`; nothing was ever written into the padding."""
    grow(folder, 1920)
    rewrite(folder, lambda tensors: tensors[TEXT][1878:].zero_())
    edit_json(folder / "config.json", lambda c: c["llm_config"].update(vocab_size=1920))


def size_at_the_top(folder: Path) -> None:
    """`model.resize_token_embeddings(1878)`: transformers 5.3 writes the new size beside `llm_config`, not into it."""
    grow(folder, 1878)
    edit_json(folder / "config.json", lambda c: (c.update(vocab_size=1878), c["llm_config"].update(vocab_size=1875)))


def codec_inside(folder: Path) -> None:
    """`model.save_pretrained()` of a model that was loaded for speaking: the codec is a part of it."""
    codec = load_file(folder / "audio_tokenizer" / "model.safetensors")
    rewrite(folder, lambda t: t.update({f"audio_tokenizer.{name}": tensor for name, tensor in codec.items()}))


def heads_of_a_text_model(folder: Path) -> None:
    rewrite(folder, lambda tensors: tensors.update({"llm.lm_head.weight": tensors[TEXT].clone()}))


FORMS = [size_in_llm_config, size_padded, size_at_the_top, codec_inside, heads_of_a_text_model]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_fine_tune_loads_and_is_exported(folder: Path, form: Callable[[Path], None], tmp_path: Path) -> None:
    """It speaks as before, and so do the single file and the folder made of it; upstream reads the folder's sizes."""
    form(folder)
    expected = codes(folder)
    files = locate_checkpoint(folder)
    rows = len(load_file(folder / "model.safetensors")[TEXT])
    assert files.lm_config.vocab_size == rows
    single = export_checkpoint(files, tmp_path / "single.safetensors")
    copy = export_folder(files, tmp_path / "copy")
    assert torch.equal(codes(single), expected) and torch.equal(codes(copy), expected)
    assert json.loads((copy / "config.json").read_text())["llm_config"]["vocab_size"] == rows
    assert not any(name.startswith("audio_tokenizer.") for name in load_file(copy / "model.safetensors"))
    assert len(load_file(single)[TEXT]) == rows and token_ids(copy) == token_ids(folder)


def test_the_forms_speak_as_the_fine_tune_does(made: Path, folder: Path) -> None:
    size_at_the_top(folder)
    codec_inside(folder)
    assert torch.equal(codes(folder), codes(made))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c.update(vocab_size=1900),
            r"embed_tokens\.weight has shape \(1928, 160\), the config needs \(1900, 160\)",
        ),
        (lambda c: c.update(vocab_size="many"), "vocab_size must be a whole number from 1 to 1000000, got 'many'"),
        (
            lambda c: c["llm_config"].update(vocab_size=1875),
            r"tokenizer\.json has ids up to 1877, but the model embeds only 1875",
        ),
    ],
    ids=["top", "text", "inner"],
)
def test_a_size_that_is_not_the_weights_is_refused(folder: Path, change: Callable, message: str) -> None:
    edit_json(folder / "config.json", change)
    with pytest.raises(CheckpointError, match=message):
        Engine.load(folder)


@pytest.mark.parametrize("wrapped", ["llm.base_model.model.", "base_model.model.llm."])
def test_a_lora_inside_the_weights_is_named(folder: Path, wrapped: str) -> None:
    """`save_pretrained` of a model whose llm, or which itself, is still PEFT's."""

    def wrap(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if name.startswith("llm.")]:
            inner = f"{wrapped}{name.removeprefix('llm.')}"
            if name.endswith("q_proj.weight"):
                stem = inner.removesuffix(".weight")
                tensors |= {f"{stem}.lora_{side}.default.weight": torch.ones(2, 2) for side in "AB"}
                inner = f"{stem}.base_layer.weight"
            tensors[inner] = tensors.pop(name)

    rewrite(folder, wrap)
    with pytest.raises(CheckpointError, match=r"with a LoRA still inside: call merge_and_unload \(PEFT\) before save"):
        Engine.load(folder)


def test_a_codec_inside_the_weights_does_not_replace_the_folder(folder: Path) -> None:
    codec_inside(folder)
    shutil.rmtree(folder / "audio_tokenizer")
    with pytest.raises(
        CheckpointError, match=r"copy the folder audio_tokenizer of the original model into it, or name"
    ):
        Engine.load(folder)


def test_the_maker_adds_three_tokens(made: Path) -> None:
    assert [token_ids(made)[token] for token in TOKENS] == [1875, 1876, 1877]


TOLD = {"name": "Mine", "tags": ["whisper"], "languages": ["la"], "recommended": {"steps": 20, "denoise": False}}
SINGER = {"name": "OmniSinger", "tags": ["singing"], "text_as_written": True}
LEARNT = [
    ("tuned", None, ["en", None, "xx", "xx"], {"languages": ["xx"]}),
    ("tuned", None, ["en", None], None),
    ("tuned", TOLD, ["xx", "la", "zz"], {**TOLD, "languages": ["la", "xx", "zz"]}),
    ("tuned", TOLD, ["la", "de"], TOLD),
    ("OmniSinger", None, ["la"], {**SINGER, "languages": ["la"]}),
]


@pytest.mark.parametrize(("name", "told", "languages", "expected"), LEARNT)
def test_a_model_names_the_languages_that_it_was_trained_on(folder, name, told, languages, expected, tmp_path) -> None:
    """Those that OmniVoice lacks, in addition to what its own settings, or our table, say about it."""
    place = folder.rename(folder.with_name(name)) if name != folder.name else folder
    if told:
        (place / "omnivoice_nodes.json").write_text(json.dumps(told))
    copy = export_folder(locate_checkpoint(place).knowing(languages), tmp_path / "copy")
    written = copy / "omnivoice_nodes.json"
    assert (json.loads(written.read_text()) if written.exists() else None) == expected
    assert Engine.load(copy).rules.languages == tuple(expected["languages"] if expected else ())


def test_a_model_names_a_hundred_languages_at_most(folder: Path, tmp_path: Path) -> None:
    many = [f"x{chr(97 + n // 26)}{chr(97 + n % 26)}q" for n in range(150)]
    single = export_checkpoint(locate_checkpoint(folder).knowing(many), tmp_path / "one.safetensors")
    assert Engine.load(single).rules.languages == tuple(many[:100])


NEVER = "this model never learnt {}: the rows of its text embedding are zero, so they have no effect"


@pytest.mark.parametrize(
    ("zero", "text", "expected"),
    [
        (["<|dur_2|>"], "Red <|dur_2|>bottles.", [NEVER.format("<|dur_2|>")]),
        (["<|dur_2|>"], "Red <|pit_3|>bottles.", []),
        (["<|dur_2|>", "[happy]"], "[happy] Red<|dur_2|> bottles [happy].", [NEVER.format("[happy], <|dur_2|>")]),
        (list(TOKENS), "Red bottles.", []),
        ([], "[happy] Red <|dur_2|>bottles.", []),
    ],
)
def test_tokens_that_were_never_trained(folder: Path, zero: list[str], text: str, expected: list[str]) -> None:
    """New rows may start at zero. The model loads and speaks, and a text with such a token is warned about."""
    ids = token_ids(folder)
    rewrite(folder, lambda tensors: tensors[TEXT].index_fill_(0, torch.tensor([ids[t] for t in zero]).long(), 0))
    (plan,) = Engine.load(folder).plan([replace(REQUEST, text=text)])
    assert [warning for warning in plan.warnings if "never learnt" in warning] == expected


def test_a_new_word_without_a_row_is_refused(tmp_path: Path) -> None:
    """It would be missing from the speech, and nobody writes it on purpose."""
    place = make_fine_tune(tmp_path / "words", tokens=["[happy]", "gouden"])
    rewrite(place, lambda tensors: tensors[TEXT][1875:1877].zero_())
    with pytest.raises(CheckpointError, match=r"1 rows of llm\.embed_tokens\.weight .* \(first: \[1876\]\), so words"):
        Engine.load(place)
