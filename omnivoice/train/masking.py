"""A clip made into something to learn: what is shown, what is hidden, what is asked for.

The draws, and their order, are those of upstream (data/processor.py:70-180): the same seeds for both generators give
the same document. The prompt's layout is `text.prompt`'s, as in generation. Unusual: a document is a prompt and codes,
not one grid of ids; no global generator is drawn from.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

import torch
from torch import Tensor

from ..text.prompt import build_prompt
from ..text.tokenizer import TextTokenizer
from ..types import Sampling
from .clips import Clip
from .settings import Masking

IGNORED = -100  # a label that counts for nothing
PENALTY = Sampling.layer_penalty / Sampling.position_temperature  # of a codebook, in units of the noise


@dataclass(frozen=True, eq=False)
class Example:
    """prompt_ids: of the text before the sound, may be empty. codes: [K, T] int64, the mask id where hidden. labels:
    [K, T] int64, the hidden codes, IGNORED elsewhere. shown: frames at the beginning in which nothing is asked."""

    prompt_ids: tuple[int, ...]
    codes: Tensor
    labels: Tensor
    shown: int

    @property
    def length(self) -> int:
        """Rows of its document."""
        return len(self.prompt_ids) + self.codes.shape[1]

    @property
    def targets(self) -> int:
        """Rows at its end that may be asked for."""
        return self.codes.shape[1] - self.shown


def make_example(
    clip: Clip, tokenizer: TextTokenizer, masking: Masking, mask_id: int, uniform: random.Random, mask: torch.Generator
) -> Example:
    """One drawing of a clip."""
    noisy = clip.clean_start is not None
    unconditional = not noisy and uniform.uniform(0, 1) < masking.drop_condition
    ratio, language, instruct = 0.0, False, False
    if not unconditional:
        ratio = uniform.uniform(*masking.prompt)
        language = uniform.uniform(0, 1) < masking.language
        instruct = uniform.uniform(0, 1) < masking.instruct
        if instruct and uniform.uniform(0, 1) < masking.only_instruct:
            ratio = 0.0
    hidden = uniform.uniform(*masking.mask)
    text = clip.pinyin if clip.pinyin is not None and uniform.uniform(0, 1) < masking.pinyin else clip.text
    codes = clip.codes.to(torch.int64)
    K, T = codes.shape
    shown = clip.clean_start if clip.clean_start is not None else int(T * ratio)
    drawn = torch.zeros(K, T, dtype=torch.bool)
    drawn[:, shown:] = torch.rand((K, T - shown), generator=mask) < hidden
    if masking.by_codebook and uniform.uniform(0, 1) < masking.by_codebook:
        drawn[:, shown:] = mask_like_decoding(K, T - shown, uniform.uniform(0, 1) ** 3, mask)
    prompt: tuple[int, ...] = ()
    if not unconditional:
        prompt = build_prompt(
            tokenizer,
            text=text,
            language=clip.language if language else None,
            instruct=clip.instruct if instruct else None,
            denoise=noisy,
        ).ids
    return Example(prompt, codes.masked_fill(drawn, mask_id), codes.masked_fill(~drawn, IGNORED), shown)


def mask_like_decoding(codebooks: int, frames: int, known: float, generator: torch.Generator) -> Tensor:
    """[K, T] bool: what is still hidden when decoding has found that share of the codes, one at least. The order is
    that of `generate.step.reveal` at its defaults without the model's own say: noise, and a penalty per codebook."""
    noise = -torch.empty(codebooks, frames).exponential_(generator=generator).log()
    order = (noise - PENALTY * torch.arange(codebooks)[:, None]).flatten().argsort(descending=True)
    hidden = torch.ones(codebooks * frames, dtype=torch.bool)
    hidden[order[: min(int(known * len(order)), len(order) - 1)]] = False
    return hidden.view(codebooks, frames)


def generators(seed: int, *place: object) -> tuple[random.Random, torch.Generator]:
    """Two generators that depend on the seed and the place (an epoch, a clip ...) alone, so that nothing of them has
    to be kept for a run to be taken up again."""
    digest = hashlib.sha256(repr((seed, *place)).encode()).digest()
    first, second = (int.from_bytes(digest[i : i + 8], "big") for i in (0, 8))
    return random.Random(first), torch.Generator().manual_seed(second)  # noqa: S311 - not for secrets
