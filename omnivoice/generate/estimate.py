"""How much working memory a run needs beside the weights, in bytes, from sizes alone.

Counts the largest tensors that live at once: in a layer, in guidance over the logits, in the widest stage of
the codec. Meant for a host that must make room beforehand; it does not measure, and knows no device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..config import CodecConfig, LMConfig
from ..types import GenerationPlan
from .run import ROWS_PER_BATCH

FLOAT32 = 4
LOGIT_COPIES = 4  # conditional, unconditional, their difference, the result
CODEC_COPIES = 5  # input, output, activation and workspace of one convolution, the residual


def estimate_generation(plans: Sequence[GenerationPlan], lm: LMConfig, codec: CodecConfig, itemsize: int) -> int:
    """Bytes for running `plans`; itemsize: bytes of one weight. Batches are bounded, so it grows with chunks only
    until a batch is full."""
    sizes = [_rows(plan) for plan in plans]
    frames = max(chunk.frames for plan in plans for chunk in plan.chunks)
    longest = max(rows for rows, _ in sizes)
    rows = min(sum(rows for rows, _ in sizes), max(ROWS_PER_BATCH, longest))
    targets = min(sum(targets for _, targets in sizes), max(ROWS_PER_BATCH, 2 * frames))
    attention = lm.heads * lm.head_dim
    layer = rows * (
        itemsize * (4 * lm.hidden_size + 4 * attention + 3 * lm.intermediate_size) + FLOAT32 * 3 * attention
    )
    logits = targets * lm.codebooks * lm.audio_vocab_size * FLOAT32 * LOGIT_COPIES // 2
    return max(layer, logits, estimate_decoding(frames, codec))


def _rows(plan: GenerationPlan) -> tuple[int, int]:
    """Packed rows and target rows of the plan's largest chunk, guidance included."""
    frames = max(chunk.frames for chunk in plan.chunks)
    voice = plan.request.voice
    reference = voice.frames if voice is not None else (plan.chunks[0].frames if len(plan.chunks) > 1 else 0)
    text = max(len(chunk.text) for chunk in plan.chunks) + (len(voice.text) if voice is not None else 0)
    return text + reference + 2 * frames, 2 * frames


def estimate_decoding(frames: int, codec: CodecConfig) -> int:
    """Bytes for decoding `frames` frames in one go."""
    width, samples, widest = codec.acoustic.decoder_hidden_size, frames, 0
    for stride in codec.acoustic.upsampling_ratios:
        width, samples = width // 2, samples * stride
        widest = max(widest, width * samples)
    return widest * FLOAT32 * CODEC_COPIES


def estimate_encoding(seconds: float, codec: CodecConfig) -> int:
    """Bytes for encoding a recording of `seconds`; acoustic and semantic halves run one after the other."""
    acoustic = codec.acoustic.encoder_hidden_size * codec.sample_rate
    semantic = codec.semantic.conv_dim[0] * codec.semantic_sample_rate // codec.semantic.conv_stride[0]
    return math.ceil(seconds * max(acoustic, semantic)) * FLOAT32 * CODEC_COPIES
