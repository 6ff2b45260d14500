"""Loading the language model from safetensors files, straight into the target dtype.

The module is built on the meta device, so that nothing is allocated twice (`read`). The exact keys and shapes are those
of the module built with plain torch layers, since a host's layers may have no weights before loading. Embedding rows of
zeros are refused, because a model with such rows silently drops words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import torch

from ..config import LMConfig
from ..devices import check_torch
from ..errors import CheckpointError
from ..intake.cancel import hear_cancel
from ..lm import OmniVoiceLM, TextEmbedding
from ..lm.fused import fused_rows
from ..ops import TORCH_OPS, Ops
from .read import META, Found, check_tensors, dtypes_of, fill, find_tensors, read_tensors, shapes_of
from .single_file import LM

TEXT_EMBEDDING, AUDIO_EMBEDDING, HEADS = "llm.embed_tokens.weight", "audio_embeddings.weight", "audio_heads.weight"
LM_UNUSED = ("codebook_layer_offsets", "lm_head.weight", "llm.lm_head.weight")


def load_lm(
    config: LMConfig,
    files: Sequence[Path],
    *,
    ops: Ops,
    device: torch.device,
    dtype: torch.dtype,
    used_ids: Collection[int],
    optional_ids: Collection[int] = (),
    heads_dtype: torch.dtype | None = None,
    body_dtype: torch.dtype | None = None,
    fused: bool = True,
) -> tuple[OmniVoiceLM, TextEmbedding]:
    """Return the language model with its weights, and the text embedding on the CPU in the dtype of the file.

    used_ids: token ids that texts can produce; their rows must not be zero, except for optional_ids: nobody has to
    write those. heads_dtype, fused: see `OmniVoiceLM`.
    body_dtype: that of the layers' matrices, if another; their layers must then cast them when they run.
    Raises CheckpointError for keys, shapes, dtypes, values or a vocabulary that do not fit, FileError for a
    corrupt file, OmniVoiceError for a torch that is too old.
    """
    check_torch()
    if max(used_ids) >= config.vocab_size:
        raise CheckpointError(
            f"tokenizer.json has ids up to {max(used_ids)}, but the model embeds only {config.vocab_size}: "
            "the two files belong to different models; take both from the same one"
        )
    hear_cancel()
    module = OmniVoiceLM(config, ops=ops, device=META, dtype=dtype, heads_dtype=heads_dtype, fused=fused)
    hear_cancel()
    found = lm_tensors(config, files)
    hear_cancel()
    rows = fused_rows(config) if fused else {}
    needed = sorted(set(used_ids).difference(optional_ids))
    used = {TEXT_EMBEDDING: needed, AUDIO_EMBEDDING: range(config.codebooks * config.audio_vocab_size)}
    dtypes = dtypes_of(module) | ({HEADS: heads_dtype} if heads_dtype else {})  # a host's layers have no weights yet
    if body_dtype:
        dtypes |= {rows.get(name, (name,))[0]: body_dtype for name in found if name.endswith("_proj.weight")}
    tensors = read_tensors(
        found, device=device, dtype=dtype, as_stored=(TEXT_EMBEDDING,), dtypes=dtypes, rows=rows, nonzero=used
    )
    text = TextEmbedding(tensors.pop(TEXT_EMBEDDING))
    return fill(module, tensors), text


def lm_tensors(config: LMConfig, files: Sequence[Path]) -> Found:
    """Return where every tensor of the language model and the text embedding is, without reading any.

    Raises CheckpointError for names or shapes that do not fit.
    """
    table = shapes_of(OmniVoiceLM(config, ops=TORCH_OPS, device=META, dtype=torch.float32, fused=False))
    table[TEXT_EMBEDDING] = (config.vocab_size, config.hidden_size)
    found = {name: at for name, at in find_tensors(files, LM).items() if name not in LM_UNUSED}
    check_tensors(found, table, files)
    return found
