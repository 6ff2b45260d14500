"""Which dtype and device to compute with: the choices that depend on the hardware and not on the model."""

from __future__ import annotations

import torch

from .ops import cpu_has_fast_bf16

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def codec_device(device: torch.device) -> torch.device:
    """Return where the codec computes when the language model is on `device`.

    On MPS that is the CPU, as in upstream: MPS has no convolution with more than 65,536 output channels.
    """
    return torch.device("cpu") if device.type == "mps" else device


def best_dtype(device: torch.device) -> torch.dtype:
    """Return float32 for CPUs and MPS, bfloat16 for GPUs with native support, otherwise float16."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if device.type == "xpu" else torch.float32


def fastest_dtype(device: torch.device) -> torch.dtype:
    """Return `best_dtype`, except bfloat16 for a CPU that multiplies it faster than float32."""
    if device.type == "cpu" and cpu_has_fast_bf16(torch.get_num_threads()):
        return torch.bfloat16
    return best_dtype(device)
