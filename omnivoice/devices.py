"""Which torch, dtype and device to compute with; how dtypes are spelled in nodes, on the command line and in TOML."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from .errors import OmniVoiceError
from .ops import cpu_has_fast_bf16

TORCH_VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])  # such as (2, 4)
OLDEST_TORCH = (2, 4)  # tests/versions.py runs the tests on it

AUTO, FASTEST = "auto", "fastest"  # choices next to DTYPES: the device's best, and the same but quicker on some CPUs
DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
)
COMPUTE_DTYPES = (*DTYPES.values(), torch.float64)  # what the engine can run in; float64 is for tests


def check_torch() -> None:
    """Raise OmniVoiceError if the installed torch is too old for the engine."""
    if TORCH_VERSION < OLDEST_TORCH:
        raise OmniVoiceError(
            f"OmniVoice needs torch 2.4 or newer, this is torch {torch.__version__}: update ComfyUI with its torch, or "
            "run pip install -U torch in this Python"
        )


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype for messages: that of DTYPES, or torch's own without its prefix."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype).removeprefix("torch."))


def codec_device(device: torch.device) -> torch.device:
    """Return where the codec computes when the language model is on `device`.

    On MPS that is the CPU, as in upstream: MPS has no convolution with more than 65,536 output channels.
    """
    return torch.device("cpu") if device.type == "mps" else device


def heads_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype of the audio heads when the rest of the language model has `dtype`.

    On a CPU it is at least float32: the heads are 2 % of a step there, and their rounding changes the most tokens.
    """
    return torch.promote_types(dtype, torch.float32) if device.type == "cpu" else dtype


def best_dtype(device: torch.device) -> torch.dtype:
    """Return float16 for GPUs and float32 for CPUs and MPS.

    With the same speed as bfloat16, float16 changes far fewer tokens (docs/speed.md). Where its range does not suffice,
    `Sampler` continues in bfloat16.
    """
    return torch.float16 if device.type in ("cuda", "xpu") else torch.float32


def best_training_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 for GPUs with native support and float32 for other devices: gradients overflow in float16."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    return torch.bfloat16 if device.type == "xpu" else torch.float32


def fastest_dtype(device: torch.device) -> torch.dtype:
    """Return `best_dtype`, except bfloat16 for a CPU that multiplies it faster than float32."""
    if device.type == "cpu" and cpu_has_fast_bf16(torch.get_num_threads()):
        return torch.bfloat16
    return best_dtype(device)
