"""Which linear layers of the checkpoint are one matrix here: query, key and value; gate and up.

They take the same input, so one larger product replaces several. The loader stacks the checkpoint's weights in the
order of this table. Anything else that uses the checkpoint's names, such as a LoRA, finds its rows with `fused_rows`.
"""

from __future__ import annotations

from ..config import LMConfig

FUSED = {"self_attn.qkv_proj": ("q_proj", "k_proj", "v_proj"), "mlp.gate_up_proj": ("gate_proj", "up_proj")}


def part_rows(config: LMConfig) -> dict[str, int]:
    """Return {part: its number of output rows}."""
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    inner = config.intermediate_size
    return {"q_proj": queries, "k_proj": keys, "v_proj": keys, "gate_proj": inner, "up_proj": inner}


def fused_rows(config: LMConfig) -> dict[str, tuple[str, int, int]]:
    """Return {weight in the checkpoint: (weight here, first row, rows)} for every fused layer, in stacking order."""
    rows, found = part_rows(config), dict[str, tuple[str, int, int]]()
    for layer in range(config.layers):
        for fused, parts in FUSED.items():
            start, place = 0, f"llm.layers.{layer}.{fused.partition('.')[0]}"
            for part in parts:
                found[f"{place}.{part}.weight"] = (f"llm.layers.{layer}.{fused}.weight", start, rows[part])
                start += rows[part]
    return found
