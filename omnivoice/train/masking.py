"""From a clip to a training example: its prompt, the codes of its reference part, and masked codes to predict.

The random draws and their order are upstream's (data/processor.py:70-180): the same seeds give the same example. The
prompt has the layout that generation uses (`text.prompt`). Unlike upstream, prompt and codes are not one grid of ids,
and no global generator is used.
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

IGNORED = -100  # a label without a loss
PENALTY = Sampling.layer_penalty / Sampling.position_temperature  # of a codebook, in units of the noise


@dataclass(frozen=True, eq=False)
class Example:
    """One document to train on.

    prompt_ids: text tokens before the audio, possibly none. codes: [K, T] int64, partly the mask id. labels: [K, T]
    int64, the masked codes, and IGNORED elsewhere. prompt_frames: frames of the reference part at the start.
    """

    prompt_ids: tuple[int, ...]
    codes: Tensor
    labels: Tensor
    prompt_frames: int

    @property
    def length(self) -> int:
        """Length of its document, in tokens and frames."""
        return len(self.prompt_ids) + self.codes.shape[1]

    @property
    def targets(self) -> int:
        """Frames at its end that may be masked."""
        return self.codes.shape[1] - self.prompt_frames


def make_example(
    clip: Clip, tokenizer: TextTokenizer, masking: Masking, mask_id: int, uniform: random.Random, mask: torch.Generator
) -> Example:
    """Return one random example of a clip."""
    noisy = clip.clean_start is not None
    unconditional = not noisy and uniform.uniform(0, 1) < masking.drop_condition
    ratio, language, instruct = 0.0, False, False
    if not unconditional:
        ratio = uniform.uniform(*masking.prompt)
        language = uniform.uniform(0, 1) < masking.language
        instruct = uniform.uniform(0, 1) < masking.instruct
        if instruct and uniform.uniform(0, 1) < masking.only_instruct:
            ratio = 0.0
    masked_share = uniform.uniform(*masking.mask)
    text = clip.pinyin if clip.pinyin is not None and uniform.uniform(0, 1) < masking.pinyin else clip.text
    codes = clip.codes.to(torch.int64)
    K, T = codes.shape
    prompt_frames = clip.clean_start if clip.clean_start is not None else int(T * ratio)
    masked = torch.zeros(K, T, dtype=torch.bool)
    masked[:, prompt_frames:] = torch.rand((K, T - prompt_frames), generator=mask) < masked_share
    if masking.by_codebook and uniform.uniform(0, 1) < masking.by_codebook:
        masked[:, prompt_frames:] = mask_like_decoding(K, T - prompt_frames, uniform.uniform(0, 1) ** 3, mask)
    prompt: tuple[int, ...] = ()
    if not unconditional:
        prompt = build_prompt(
            tokenizer,
            text=text,
            language=clip.language if language else None,
            instruct=clip.instruct if instruct else None,
            denoise=noisy,
        )
    return Example(prompt, codes.masked_fill(masked, mask_id), codes.masked_fill(~masked, IGNORED), prompt_frames)


def mask_like_decoding(codebooks: int, frames: int, known: float, generator: torch.Generator) -> Tensor:
    """Return [K, T] bool, True where codes are still masked once decoding has decided the share `known`.

    At least one code stays masked. The order is that of `generate.step.reveal` at its defaults, but without the
    model's scores: noise, and a penalty per codebook.
    """
    noise = -torch.empty(codebooks, frames).exponential_(generator=generator).log()
    order = (noise - PENALTY * torch.arange(codebooks)[:, None]).flatten().argsort(descending=True)
    masked = torch.ones(codebooks * frames, dtype=torch.bool)
    masked[order[: min(int(known * len(order)), len(order) - 1)]] = False
    return masked.view(codebooks, frames)


def generators(seed: int, *place: object) -> tuple[random.Random, torch.Generator]:
    """Return two generators that depend only on the seed and the place, such as an epoch and a clip.

    The training state therefore needs no generator.
    """
    digest = hashlib.sha256(repr((seed, *place)).encode()).digest()
    first, second = (int.from_bytes(digest[i : i + 8], "big") for i in (0, 8))
    return random.Random(first), torch.Generator().manual_seed(second)  # noqa: S311 # nosec B311 # no secret
