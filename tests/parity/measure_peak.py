"""Working memory beside the weights: estimated, held by tensors, and taken by the process, case by case.

usage: python tests/parity/measure_peak.py FOLDER [--dtype bfloat16] [--device cuda] [--cases clone lines ...]
FOLDER is a checkpoint of real size. "tensors" is exact (tests/tensor_peak.py); on CUDA it is what torch allocates.
"process" (Linux, glibc) is anonymous memory above what is there after a warm-up, sampled, with an allocator that keeps
nothing back: it adds what libraries take inside a call. Both runs take two steps; more take no more memory.
"""

import argparse
import ctypes
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from omnivoice import Engine, GenerationRequest, Sampling, VoicePrompt, Waveform
from omnivoice.commands.bench_cases import watch_memory
from omnivoice.intake.machine import anonymous_bytes
from tests.tensor_peak import tensor_peak

TEXT = "Hello there my friend, how are you today in this fine weather that we have?"
LONG = "This is one of many sentences of a text that takes a whole minute. " * 14
TRANSCRIPT = "Good morning everyone, thank you all for coming here today."
ENCODED_SECONDS = (5, 10)
M_MMAP_THRESHOLD = -3  # glibc malloc.h


def requests():
    def one(text=TEXT, *, reference=125, seconds=5.0, guidance=2.0, seed=1):
        codes = torch.arange(8 * reference).view(8, reference) % 1024
        voice = VoicePrompt(codes=codes, text=TRANSCRIPT, rms=0.1) if reference else None
        sampling = Sampling(steps=2, guidance=guidance)
        return GenerationRequest(text, voice=voice, duration=seconds, sampling=sampling, seed=seed)

    return {
        "short": [one(reference=75, seconds=2.0)],
        "clone": [one()],
        "long_clone": [one(reference=250, seconds=15.0)],
        "no_reference": [one(reference=0)],
        "guidance_0": [one(guidance=0.0)],
        "lines": [one(reference=0, seconds=1 + i / 4) for i in range(8)],
        "minute": [one(LONG, seconds=60.0)],
    }


def measured(call, device):
    """Bytes held by tensors, and by the process if it tells."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - held, None
    _, count = tensor_peak(call)
    if (before := settled()) is None:
        return count.peak, None
    _, peak = watch_memory(call)
    return count.peak, peak - before


def settled():
    """Anonymous memory once what was freed has gone back to the system; None where that is not known."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return anonymous_bytes()


def keep_nothing_back():
    """Blocks from 64 kB on are the system's own from now on; by default glibc keeps up to 64 MB of freed ones."""
    if sys.platform == "linux":
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 16)


def show(name, estimate, tensors, process):
    taken = "" if process is None else f"{process / 1e6:10.1f} {estimate / process:6.2f}"
    print(f"{name:24}{estimate / 1e6:10.1f} {tensors / 1e6:10.1f} {estimate / tensors:6.2f} {taken}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cases", nargs="*", default=[*requests(), "encode"])
    options = parser.parse_args()
    keep_nothing_back()
    torch.set_num_threads(1)
    engine = Engine.load(options.folder, options.device, getattr(torch, options.dtype))
    device = engine.sampler.device
    engine.generate([replace(requests()["short"][0], duration=0.2)])  # maps the weights, probes the machine
    print(f"{f'{options.device} {options.dtype}, MB':24}{'estimate':>10} {'tensors':>10}  ratio {'process':>10}  ratio")
    for name in [name for name in requests() if name in options.cases]:
        plans = engine.plan(requests()[name])
        show(name, engine.estimate_bytes(plans), *measured(lambda plans=plans: engine.generate_plans(plans), device))
    for seconds in ENCODED_SECONDS if "encode" in options.cases else ():
        waveform = Waveform(0.1 * torch.randn(1, 24_000 * seconds), 24_000)
        engine.encode_voice(waveform, TRANSCRIPT)
        estimate = engine.estimate_encode_bytes(waveform, TRANSCRIPT)
        call = lambda waveform=waveform: engine.encode_voice(waveform, TRANSCRIPT)  # noqa: E731
        show(f"encode {seconds} s", estimate, *measured(call, device))


if __name__ == "__main__":
    main()
