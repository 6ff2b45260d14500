"""The token layout of the prompt, for generation and training. No other module knows it.

    [<|denoise|>] <|lang_start|>LANGUAGE<|lang_end|> <|instruct_start|>INSTRUCT<|instruct_end|>
    <|text_start|>[reference text, space]TEXT<|text_end|>

A missing language or instruct is the word "None". `generate.pack` adds the audio: reference codes, then the target.
Source: upstream models/omnivoice.py:1198-1260.
"""

from __future__ import annotations

from dataclasses import dataclass

from .clean import prompt_text
from .tags import NONVERBAL_TAGS, split_tags
from .tokenizer import TextTokenizer

ABSENT = "None"


@dataclass(frozen=True)
class Prompt:
    """The token ids of a prompt: style (denoise, language, instruct) and text."""

    style: tuple[int, ...]
    text: tuple[int, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """All ids, in the order in which the model reads them."""
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
    """Return the prompt that makes the model speak `text`, a result of `clean.speakable` or a chunk of it.

    reference_text: the transcript of the reference, with its end mark. language: an id. instruct: a result of
    `design.render_design`. denoise: has an effect only with a reference. tags: names that are tokenized separately.
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
