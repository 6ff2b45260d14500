"""Which weights of the checkpoint are one here: query, key and value; the norms of query and key; gate and up.

Linear layers that take the same input are one larger product. The loader stacks the checkpoint's weights in the
order of this table. Anything else that uses the checkpoint's names, such as a LoRA, finds its rows with `fused_rows`.
"""

from __future__ import annotations

from torch import Tensor

from ..config import LMConfig

FUSED = {
    "self_attn.qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "self_attn.qk_norm": ("q_norm", "k_norm"),
    "mlp.gate_up_proj": ("gate_proj", "up_proj"),
}


def part_rows(config: LMConfig) -> dict[str, int]:
    """Return {part of a fused linear layer: its number of output rows}."""
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    inner = config.intermediate_size
    return {"q_proj": queries, "k_proj": keys, "v_proj": keys, "gate_proj": inner, "up_proj": inner}


def fused_rows(config: LMConfig) -> dict[str, tuple[str, int, int]]:
    """Return {weight in the checkpoint: (weight here, first row, rows)} for every fused layer, in stacking order.

    The scale of the queries' norm is one row in the checkpoint, and one row for each head here; so is that of the keys.
    """
    rows, found = (
        part_rows(config) | {"q_norm": config.heads, "k_norm": config.kv_heads},
        dict[str, tuple[str, int, int]](),
    )
    for layer in range(config.layers):
        for fused, parts in FUSED.items():
            start, place = 0, f"llm.layers.{layer}.{fused.partition('.')[0]}"
            for part in parts:
                found[f"{place}.{part}.weight"] = (f"llm.layers.{layer}.{fused}.weight", start, rows[part])
                start += rows[part]
    return found


def unfused_part(name: str, weight: Tensor, first: int, count: int) -> Tensor:
    """Return the checkpoint's weight `name`, a view, from the weight here and its entry in `fused_rows`."""
    return weight[first] if name.endswith("_norm.weight") else weight.narrow(0, first, count)
