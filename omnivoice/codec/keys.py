"""The tensors of the codec's weight file that are not keys of its modules, and how the loader treats them.

The published file has 527 tensors. 485 of them are loaded into `CodecEncoder` and `CodecDecoder` under their own keys.
Two are the weight-normed kernel of HuBERT's positional convolution, which the loader folds into one plain weight. 40
are used in training only and are not loaded. Nothing here reads a file.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Semantic reconstruction head, SpecAugment vector, and the codebooks' moving averages.
TRAINING_ONLY_PREFIXES = ("decoder_semantic.", "fc1.", "semantic_model.masked_spec_embed")
TRAINING_ONLY_SUFFIXES = (".codebook.embed_avg", ".codebook.cluster_size", ".codebook.inited")

_POSITIONAL = "semantic_model.encoder.pos_conv_embed.conv"
WEIGHT_NORM_TARGET = f"{_POSITIONAL}.weight"
# (gain, direction), as torch.nn.utils.parametrizations.weight_norm and the older torch.nn.utils.weight_norm save them.
WEIGHT_NORM_PAIRS = (
    (f"{_POSITIONAL}.parametrizations.weight.original0", f"{_POSITIONAL}.parametrizations.weight.original1"),
    (f"{_POSITIONAL}.weight_g", f"{_POSITIONAL}.weight_v"),
)


def is_training_only(key: str) -> bool:
    """Whether the tensor with this key is used in training only."""
    return key.startswith(TRAINING_ONLY_PREFIXES) or key.endswith(TRAINING_ONLY_SUFFIXES)


def fold_weight_norm(gain: Tensor, direction: Tensor) -> Tensor:
    """Return the kernel that a weight-normed convolution applies: gain * direction / |direction|, one norm per tap.

    gain [1, 1, k], direction [out, in, k] -> [out, in, k] float32; both are converted to float32 first. The norm
    runs over dims 0 and 1 (weight_norm with dim=2, transformers modeling_hubert.py:72).
    """
    gain, direction = gain.to(torch.float32), direction.to(torch.float32)
    return direction * (gain / torch.linalg.vector_norm(direction, dim=(0, 1), keepdim=True))
