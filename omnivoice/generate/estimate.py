"""Estimates of the working memory of a run in bytes, in addition to the weights, and how many rows fit into it.

They count the tensors that exist at the same time at the largest points of the code: in a layer of the language model
(`lm/body.py`), in guidance over the logits (`step.py`), in a CUDA graph of both, and in the codec. A test compares them
with the bytes that are really allocated, so a change there needs a change here. Not counted: graphs that remain from
earlier runs, and what libraries allocate inside a call; `CPU_LIBRARIES` is an allowance for that on CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from ..codec.acoustic import EXACT_BLOCKS, RESIDUAL_REACH
from ..codec.hubert import tile_frames
from ..codec.model import WINDOW_FRAMES
from ..codec.tiling import tile_length
from ..config import CodecConfig, LMConfig
from ..types import GenerationPlan, Sampling
from .approximate import is_approximate
from .buckets import missing
from .graphs import pays

# 3.6 TFLOP a step at the published sizes. By calculation, not measurement, this takes longer than launching the kernels
# on any current GPU: a larger batch gains nothing, needs more memory and checks for Cancel less often.
MOST_ROWS = 4096
# One clone (435 rows for 5 s) keeps a CPU busy: four together were no faster per item. Four lines of 1 s (85 rows each)
# were about a fifth faster together, because the weights are read once for all (1 thread, medians on a busy machine).
MOST_ROWS_ON_CPU = 512
SHARE = 0.5  # of the free memory; the rest covers workspaces of libraries, fragmentation and 25 % error of the estimate

FLOAT32 = 4
CHOOSING = 1.6  # tensors [K, T, V] of `step._choose`: noise, and some values and indices for a tenth of them
# Bytes for each sample of audio while silences are removed (`audio.silence`): the sample, its 16-bit form and their
# copies, and the cumulative sum in int64.
SILENCES = 34

# What oneDNN and MKL allocate on a CPU, mostly weights in another layout: 4-19 MB at the published sizes.
CPU_LIBRARIES = 10 << 20
CONTEXT = 20  # frames of a window that are context only, 10 on each side (`AcousticDecoder`)


@dataclass(frozen=True)
class BatchSize:
    """The size of one batch. prefix: rows before the targets, of all items together. frames: target rows of each item.
    guided: with unconditional documents."""

    prefix: int
    frames: tuple[int, ...]
    sampling: Sampling
    guided: bool

    @property
    def targets(self) -> int:
        """Number of target rows of all documents."""
        return sum(self.frames) * (2 if self.guided else 1)

    @property
    def rows(self) -> int:
        """Number of rows of all documents."""
        return self.prefix + self.targets


@dataclass(frozen=True)
class SamplingMemory:
    """The working memory of sampling with one language model. itemsize: bytes of one of its weights. graphs: whether
    steps may be captured as CUDA graphs."""

    lm: LMConfig
    itemsize: int
    on_cpu: bool
    graphs: bool = False

    def batch_bytes(self, size: BatchSize) -> int:
        """Return the bytes for sampling one batch."""
        lm, sampling = self.lm, size.sampling
        cells = sum(size.frames) * lm.codebooks
        scores = cells * lm.audio_vocab_size * FLOAT32  # a step's log-probabilities exist until the next step's do
        # Embedded rows and rotary tables; GPUs have another form of these (`PackedLayout.rotation`).
        tables = size.rows * (lm.hidden_size * self._wide + (2 if self.on_cpu else 4) * lm.head_dim * FLOAT32)
        noise = cells * sampling.passes * FLOAT32 * (2 if self.on_cpu else 1) if sampling.position_temperature else 0
        # Approximate steps keep unconditional logits, and the keys and values of complete documents.
        logits = scores if size.guided and sampling.unconditional_every > 1 else 0
        prefix = 2 * lm.layers * lm.kv_heads * lm.head_dim * size.rows * self.itemsize
        kept = logits + (prefix if sampling.prefix_every > 1 else 0)
        choosing = CHOOSING * scores * max(size.frames) / sum(size.frames) if sampling.class_temperature else 0
        step = max(self._layer(size), self._scoring(size))
        graph = self._graph(size, scores) if self.graphs else 0
        return math.ceil(scores + tables + noise + kept + graph + max(step, choosing))

    def row_bytes(self) -> float:
        """Return the most bytes that one packed row can need, without a graph: as a target, with or without
        guidance."""
        eager = replace(self, graphs=False)
        sizes = [BatchSize(0, (1,), Sampling(), guided=guided) for guided in (True, False)]
        return max(eager.batch_bytes(size) / size.rows for size in sizes)

    def rows_within(self, free_bytes: int | None) -> int:
        """Return the most packed rows of a batch, at least 1: an item larger than that gets its own batch.

        free_bytes: in addition to the weights; None if unknown. A share of it is used, so that the memory of other
        programs is left alone. `run.py` splits batches by this; the split changes no token.
        """
        most = MOST_ROWS_ON_CPU if self.on_cpu else MOST_ROWS
        return most if free_bytes is None else max(1, min(most, int(free_bytes * SHARE / self.row_bytes())))

    @property
    def _wide(self) -> int:
        """Bytes of a number of the residual stream."""
        return max(FLOAT32, self.itemsize)

    def _graph(self, size: BatchSize, scores: int) -> float:
        """Return the bytes of a graph: the working memory of a step once more, which it keeps, and the tensors that it
        reads and writes; the eager result that its first replay is compared with; and the rows of a filler."""
        filled = replace(
            size, prefix=size.prefix + missing(size.prefix), frames=(*size.frames, missing(sum(size.frames)))
        )
        if is_approximate(size.sampling) or not pays(filled.rows, size.sampling.passes):
            return 0
        step = max(self._layer(filled), self._scoring(filled)) + filled.rows * self.lm.hidden_size * self._wide
        return step + 2 * scores + (filled.rows - size.rows) * self.row_bytes()

    def _layer(self, size: BatchSize) -> int:
        """Return the bytes at the largest point of a layer: rotation in float32, attention or feed-forward."""
        lm, itemsize = self.lm, self.itemsize
        S, R, E = size.rows, size.targets, lm.hidden_size
        queries, keys = lm.heads * lm.head_dim, lm.kv_heads * lm.head_dim
        stream = S * E * (2 * self._wide + itemsize)  # the step's embedded rows, the layer's input, and that normed
        joint = S * (queries + 2 * keys) * itemsize
        # Normed, rotated, and the swapped halves; a CPU does that for a few rows at a time.
        rotation = 0 if self.on_cpu else joint + 3 * S * (queries + keys) * FLOAT32
        asked = max(2 * S, 3 * R) * queries + max(S, R) * E  # results, joined, projected; the last layer's queries
        repeated = 0 if self.on_cpu else 2 * queries * S  # by kernels that do not share key heads
        attention = joint + (S * (queries + keys) + asked + repeated) * itemsize
        feeding = S * (2 * E + 3 * lm.intermediate_size) * itemsize  # one more stream and the result; gate, up, product
        return stream + max(rotation, attention, feeding)

    def _scoring(self, size: BatchSize) -> int:
        """Return the bytes of the logits: first as the heads give them, then with guidance and normalised."""
        E, itemsize = self.lm.hidden_size, self.itemsize
        logits = size.targets * self.lm.codebooks * self.lm.audio_vocab_size
        converted = logits * (FLOAT32 + (itemsize if itemsize != FLOAT32 else 0)) + size.targets * E * itemsize
        guided = 2 * logits * FLOAT32  # with guidance 2 + 1 + 1 halves, without 1 + 1
        return size.rows * E * itemsize + max(converted, guided)


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a CUDA device, including those that torch has reserved; None for other devices."""
    if device.type != "cuda":
        return None
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserve


def estimate_run(
    plans: Sequence[GenerationPlan], batches: Iterable[BatchSize], sampling: SamplingMemory, codec: CodecConfig
) -> int:
    """Return the bytes for running `plans` in these batches, for decoding and, on a CPU, for post-processing."""
    on_cpu = sampling.on_cpu
    sampled = max(map(sampling.batch_bytes, batches), default=0)
    frames = [[chunk.frames for chunk in plan.chunks] for plan in plans]
    decoded = max((estimate_decoding(n, codec, on_cpu=on_cpu) for each in frames for n in each), default=0)
    if not on_cpu:
        return max(sampled, decoded)
    samples = [sum(each) * codec.hop_length for each in frames]
    return max(sampled, sum(samples) * FLOAT32 + max(decoded, SILENCES * max(samples, default=0)))


def estimate_decoding(frames: int, codec: CodecConfig, *, on_cpu: bool) -> int:
    """Return the bytes for decoding: the decoder's largest stage for one window, and the audio so far."""
    length, width, widest = min(frames, WINDOW_FRAMES + CONTEXT), codec.acoustic.decoder_hidden_size, 0.0
    strides = codec.acoustic.upsampling_ratios
    for i, stride in enumerate(strides, start=1):
        inside = 3 * length * stride * width // 2
        tile = max(1, tile_length(on_cpu=on_cpu) // stride) + 2 * (-(-(RESIDUAL_REACH + 3) // stride) + 2)
        share = min(1.0, tile / length) if i > EXACT_BLOCKS else 1.0
        outputs = length * stride * (width // 2 if i < len(strides) else 1)  # the last one yields the audio
        widest = max(widest, _stage(length * width, outputs, inside, share))
        length, width = length * stride, width // 2
    audio = frames * codec.hop_length if frames > WINDOW_FRAMES + CONTEXT else 0
    return math.ceil(audio + max(widest, audio)) * FLOAT32


def estimate_encoding(seconds: float, codec: CodecConfig, *, on_cpu: bool) -> int:
    """Return the bytes for preparing a recording of `seconds` on the CPU and for encoding it: the largest stage of the
    two halves, which run one after the other."""
    length, width = max(1, int(seconds * codec.sample_rate)), codec.acoustic.encoder_hidden_size
    widest, inputs, extra = _features(seconds, codec, on_cpu=on_cpu), 1, 1  # the first stage widens its input itself
    for stride in codec.acoustic.downsampling_ratios:
        share = min(1.0, (tile_length(on_cpu=on_cpu) + 2 * RESIDUAL_REACH) / length)
        inside = (3 + extra) * length * width
        widest = max(widest, _stage(length * inputs, 2 * length * width // stride, inside, share))
        length, width = -(-length // stride), 2 * width
        inputs, extra = width, 0
    return math.ceil(max(widest * FLOAT32, seconds * codec.sample_rate * SILENCES if on_cpu else 0))


def _features(seconds: float, codec: CodecConfig, *, on_cpu: bool) -> float:
    """Return how many numbers exist after HuBERT's first convolution: a tile of its output, and that activated."""
    config = codec.semantic
    tile = tile_frames(on_cpu=on_cpu) * math.prod(config.conv_stride)
    return 2 * min(seconds * codec.semantic_sample_rate, tile) / config.conv_stride[0] * config.conv_dim[0]


def _stage(inputs: float, outputs: float, inside: float, share: float) -> float:
    """Return how many numbers exist in one stage: `inside` at once, or in the last of many tiles of this share of the
    stage, or when the tiles are joined."""
    return inputs + (inside if share >= 1 else max(2 * outputs, (1 - share) * outputs + share * inside))
