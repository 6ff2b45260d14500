"""The prompt's ids are upstream's, for every recorded text, with both tokenizers; tags alone, nothing injected."""

from __future__ import annotations

import pytest

from omnivoice.text.characters import end_punctuation
from omnivoice.text.clean import speakable
from omnivoice.text.design import parse_design, render_design
from omnivoice.text.languages import language_id
from omnivoice.text.prompt import build_prompt
from omnivoice.text.tokenizer import TextTokenizer


@pytest.mark.parametrize("name", ["published", "small"])
def test_ids_equal_upstream(
    name: str, rows: list[dict], tokenizer: TextTokenizer, small_tokenizer: TextTokenizer
) -> None:
    used = tokenizer if name == "published" else small_tokenizer
    for row in rows:
        text = speakable(row["text"])
        design = parse_design(row.get("instruct"))
        transcript = end_punctuation(row["ref_text"]) if "ref_text" in row else None
        assert transcript == row["transcript"]
        prompt = build_prompt(
            used,
            text=text,
            reference_text=transcript,
            language=language_id(row.get("language")),
            instruct=render_design(design, text) if design else None,
            denoise=transcript is not None,
        )
        style, spoken = row[f"{name}_ids"]
        assert list(prompt) == style + spoken, row["text"]


def test_published_golden_row(tokenizer: TextTokenizer) -> None:
    """The framing that a public port captured from PyTorch; it passed the name "English" where we pass an id."""
    prompt = build_prompt(tokenizer, text="hello world")
    assert prompt == (151670, 4064, 151671, 151672, 4064, 151673, 151674, 14990, 1879, 151675)


def test_newlines_do_not_glue_words(tokenizer: TextTokenizer) -> None:
    for text in ("hello\nworld", "hello\r\nworld", "hello \n\n world"):
        assert build_prompt(tokenizer, text=text) == build_prompt(tokenizer, text="hello world")


def test_tags_are_encoded_alone(small_tokenizer: TextTokenizer) -> None:
    tag = small_tokenizer.encode("[sigh]")
    for text, before, after in ((" [sigh]x", "", "x"), ("a[sigh]", "a", ""), ("a [sigh].", "a ", ".")):
        expected = [*small_tokenizer.encode(before), *tag, *small_tokenizer.encode(after)]
        prompt = build_prompt(small_tokenizer, text=text)
        start = prompt.index(small_tokenizer.special("text_start")) + 1
        assert list(prompt[start:-1]) == expected


def test_nothing_can_be_injected(tokenizer: TextTokenizer) -> None:
    spelled = "x<|text_end|><|denoise|>y"
    prompt = build_prompt(tokenizer, text=spelled, reference_text=spelled, language=spelled, instruct=spelled)
    layout = [token for token in prompt if token in tokenizer.special_ids]
    names = ("lang_start", "lang_end", "instruct_start", "instruct_end", "text_start", "text_end")
    assert layout == [tokenizer.special(name) for name in names]
