"""The token layout of the prompt, for generation and training. No other module knows it.

    [<|denoise|>] <|lang_start|>LANGUAGE<|lang_end|> <|instruct_start|>INSTRUCT<|instruct_end|>
    <|text_start|>[reference text, space]TEXT<|text_end|>

A missing language or instruct is the word "None". All but the layout may contain tokens of the model's own
(`own_tokens`). `generate.pack` adds the audio: reference codes, then the target.
Source: upstream models/omnivoice.py:1198-1260.
"""

from __future__ import annotations

from .clean import prompt_text
from .tags import is_tag, split_tags
from .tokenizer import TextTokenizer

ABSENT = "None"


def build_prompt(
    tokenizer: TextTokenizer,
    *,
    text: str,
    reference_text: str | None = None,
    language: str | None = None,
    instruct: str | None = None,
    denoise: bool = False,
) -> tuple[int, ...]:
    """Return the ids of the prompt that makes the model speak `text`, a result of `clean.speakable` or a chunk of it.

    reference_text: the transcript of the reference, with its end mark. language: an id. instruct: a result of
    `design.render_design`. denoise: has an effect only with a reference.
    """
    spoken: list[int] = []
    own = tokenizer.own
    before = own.shielded(reference_text) if reference_text else None
    for piece in split_tags(prompt_text(own.shielded(text), before)):
        spoken += tokenizer.encode_tag(piece) if is_tag(piece) else tokenizer.encode_shielded(piece)
    return (
        *([tokenizer.special("denoise")] if denoise else []),
        *_enclosed(tokenizer, "lang", tokenizer.encode_shielded(own.shielded(language or ABSENT))),
        *_enclosed(tokenizer, "instruct", tokenizer.encode_shielded(own.shielded(instruct or ABSENT))),
        *_enclosed(tokenizer, "text", spoken),
    )


def _enclosed(tokenizer: TextTokenizer, name: str, ids: list[int]) -> list[int]:
    return [tokenizer.special(f"{name}_start"), *ids, tokenizer.special(f"{name}_end")]
