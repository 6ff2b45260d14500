"""Which torch, dtype and device to compute with, how dtypes are spelled, and what a failing device means in words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import torch
from torch.cuda import OutOfMemoryError

from .errors import DeviceError, DeviceMemoryError, OmniVoiceError
from .ops import cpu_has_fast_bf16

TORCH_VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])  # such as (2, 4)
OLDEST_TORCH = (2, 4)  # tests/versions.py runs the tests on it

AUTO, FASTEST = "auto", "fastest"  # choices next to DTYPES: the device's best, and the same but quicker on some CPUs
DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
)
COMPUTE_DTYPES = (*DTYPES.values(), torch.float64)  # what the engine can run in; float64 is for tests
LESS_AT_A_TIME = (
    "close other programs that use it, unload other models, or give it less at a time: a lower chunk_seconds, a "
    "shorter recording of the voice"
)
TRAIN_WITH_LESS = "close other programs that use it, lower batch_tokens, or turn gradient_checkpointing on"
# After these, every call to the device fails until the process ends.
_BROKEN = re.compile(
    r"(CUDA|HIP) error: .*(device-side assert|illegal|misaligned|launch failure|uncorrectable|hardware|lost)"
)
_FULL = "DefaultCPUAllocator: "  # torch has no error of its own for a CPU


@contextlib.contextmanager
def device_errors_in_words(device: torch.device, advice: str = LESS_AT_A_TIME) -> Iterator[None]:
    """Raise torch's errors about memory on `device` as a DeviceMemoryError with the advice, and those after which the
    device is of no more use as a DeviceError. All other errors pass."""
    try:
        yield
    except DeviceMemoryError:
        raise
    except OutOfMemoryError as error:
        raise DeviceMemoryError(f"{device} is out of memory: {advice}") from error
    except RuntimeError as error:
        if _FULL in str(error):
            raise DeviceMemoryError(f"{device} is out of memory: {advice}") from error
        if broken := _BROKEN.search(str(error)):
            raise DeviceError(
                f"{device} has failed ({broken[0]}), and nothing can run on it in this process: restart ComfyUI, or "
                "run the command again"
            ) from error
        raise


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
