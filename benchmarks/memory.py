"""`python -m benchmarks.memory FOLDER`: working memory in addition to the weights, estimated and measured, by case.

FOLDER is a checkpoint of the real size. "tensors" is exact: it counts what tensors hold (tests/tensor_peak.py), or
what torch allocates on CUDA. "process" (Linux, glibc) is the anonymous memory above that of a warmed-up process,
measured with an allocator that keeps no freed blocks, so it also holds what libraries take inside a call. All runs
take two steps, because more steps take no more memory.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from benchmarks.cases import watch_memory
from benchmarks.machine import anonymous_bytes
from omnivoice import Engine, GenerationRequest, Sampling, VoicePrompt, Waveform
from tests.tensor_peak import tensor_peak

TEXT = "Hello there my friend, how are you today in this fine weather that we have?"
LONG = "This is one of many sentences of a text that takes a whole minute. " * 14
TRANSCRIPT = "Good morning everyone, thank you all for coming here today."
ENCODED_SECONDS = (5, 10)
M_MMAP_THRESHOLD = -3  # glibc malloc.h
MAPPED_BYTES = 1 << 16


def requests() -> dict[str, list[GenerationRequest]]:
    """Return the cases by name."""

    def one(
        text: str = TEXT, *, reference: int = 125, seconds: float = 5.0, guidance: float = 2.0
    ) -> GenerationRequest:
        codes = torch.arange(8 * reference).view(8, reference) % 1024
        voice = VoicePrompt(codes=codes, text=TRANSCRIPT, rms=0.1) if reference else None
        return GenerationRequest(
            text, voice=voice, duration=seconds, sampling=Sampling(steps=2, guidance=guidance), seed=1
        )

    return {
        "short": [one(reference=75, seconds=2.0)],
        "clone": [one()],
        "long_clone": [one(reference=250, seconds=15.0)],
        "no_reference": [one(reference=0)],
        "guidance_0": [one(guidance=0.0)],
        "lines": [one(reference=0, seconds=1 + i / 4) for i in range(8)],
        "minute": [one(LONG, seconds=60.0)],
    }


def measure(call: Callable[[], object], device: torch.device) -> tuple[int, int | None]:
    """Return the peak bytes that tensors hold during a call, and the process's, or None where it is not known."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - held, None
    _, count = tensor_peak(call)
    if (before := settled_bytes()) is None:
        return count.peak, None
    _, peak = watch_memory(call)
    return count.peak, peak - before


def settled_bytes() -> int | None:
    """Return the anonymous memory after freed blocks went back to the system, or None where it is not known."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return anonymous_bytes()


def map_all_large_blocks() -> None:
    """Let glibc return freed blocks of 64 kB and more to the system; by default it keeps up to 64 MB of them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)


def print_row(name: str, estimate: int, tensors: int, process: int | None) -> None:
    """Print one line of the table, in MB."""
    taken = "" if process is None else f"{process / 1e6:10.1f} {estimate / process:6.2f}"
    print(f"{name:24}{estimate / 1e6:10.1f} {tensors / 1e6:10.1f} {estimate / tensors:6.2f} {taken}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cases", nargs="*", default=[*requests(), "encode"])
    options = parser.parse_args()
    map_all_large_blocks()
    torch.set_num_threads(1)
    engine = Engine.load(options.folder, options.device, getattr(torch, options.dtype))
    device = engine.sampler.device
    engine.generate([replace(requests()["short"][0], duration=0.2)])  # maps the weights and probes the machine
    print(f"{f'{options.device} {options.dtype}, MB':24}{'estimate':>10} {'tensors':>10}  ratio {'process':>10}  ratio")
    for name in [name for name in requests() if name in options.cases]:
        plans = engine.plan(requests()[name])
        print_row(name, engine.estimate_bytes(plans), *measure(partial(engine.generate_plans, plans), device))
    for seconds in ENCODED_SECONDS if "encode" in options.cases else ():
        waveform = Waveform(0.1 * torch.randn(1, 24_000 * seconds), 24_000)
        engine.encode_voice(waveform, TRANSCRIPT)
        estimate = engine.estimate_encode_bytes(waveform, TRANSCRIPT)
        peaks = measure(partial(engine.encode_voice, waveform, TRANSCRIPT), device)
        print_row(f"encode {seconds} s", estimate, *peaks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
