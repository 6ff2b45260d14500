"""The prompt's token layout: the only place that knows it, for generation and training alike.

    [<|denoise|>] <|lang_start|>LANGUAGE<|lang_end|> <|instruct_start|>INSTRUCT<|instruct_end|>
    <|text_start|>[reference text, space]TEXT<|text_end|>

An absent language or instruct is the word "None". Audio follows: reference codes, then the target; that is
`generate.pack`'s business. Source: upstream models/omnivoice.py:1198-1260.
"""

from __future__ import annotations

from dataclasses import dataclass

from .clean import prompt_text
from .tags import NONVERBAL_TAGS, split_tags
from .tokenizer import TextTokenizer

ABSENT = "None"


@dataclass(frozen=True)
class Prompt:
    """Token ids of a prompt: style (denoise, language, instruct) and text."""

    style: tuple[int, ...]
    text: tuple[int, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """All of it, in the order the model reads it."""
        return self.style + self.text


def build_prompt(
    tokenizer: TextTokenizer,
    *,
    text: str,
    reference_text: str | None = None,
    language: str | None = None,
    instruct: str | None = None,
    denoise: bool = False,
    tags: tuple[str, ...] = NONVERBAL_TAGS,
) -> Prompt:
    """The prompt that makes the model speak `text`, a result of `clean.speakable` or a chunk of one.

    reference_text: what the reference recording says, its end mark included. language: an id. instruct: a result
    of `design.render_design`. denoise: only meaningful with a reference. tags: names to tokenize alone.
    """
    style = [tokenizer.special("denoise")] if denoise else []
    style += _enclosed(tokenizer, "lang", tokenizer.encode(language or ABSENT))
    style += _enclosed(tokenizer, "instruct", tokenizer.encode(instruct or ABSENT))
    spoken: list[int] = []
    for piece in split_tags(prompt_text(text, reference_text), tags):
        known = piece[0] == "[" and piece[1:-1] in tags
        spoken += tokenizer.encode_tag(piece) if known else tokenizer.encode(piece)
    return Prompt(tuple(style), tuple(_enclosed(tokenizer, "text", spoken)))


def _enclosed(tokenizer: TextTokenizer, name: str, ids: list[int]) -> list[int]:
    return [tokenizer.special(f"{name}_start"), *ids, tokenizer.special(f"{name}_end")]
