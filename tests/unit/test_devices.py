"""What a failing device means in words, for speech, codec and training; a process short of memory stays alive."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch.cuda import OutOfMemoryError

from omnivoice.codec.model import CodecDecoder, CodecEncoder
from omnivoice.devices import device_errors_in_words
from omnivoice.engine import Engine
from omnivoice.errors import DeviceError, DeviceMemoryError, OmniVoiceError
from omnivoice.lm.body import Layer
from omnivoice.types import GenerationRequest, Sampling, VoicePrompt, Waveform
from tests import warm_children
from tests.unit.train.training_fixtures import tiny_trainer

CPU = torch.device("cpu")
ASSERT = "CUDA error: device-side assert triggered\nCUDA kernel errors might be reported later"
BROKEN = (
    ASSERT,
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: unspecified launch failure",
    "CUDA error: misaligned address",
    "HIP error: an illegal memory access was encountered",
    "CUDA error: uncorrectable ECC error encountered",
)
ALLOCATOR = "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "


@pytest.mark.parametrize("message", BROKEN)
def test_a_device_that_has_failed_asks_for_a_restart(message: str) -> None:
    told = r"^cpu has failed \((CUDA|HIP) error: .*\), and nothing can run on it in this process: restart ComfyUI, or"
    with pytest.raises(DeviceError, match=told), device_errors_in_words(CPU):
        raise RuntimeError(message)


@pytest.mark.parametrize(
    "error", [OutOfMemoryError("CUDA out of memory."), RuntimeError(f"{ALLOCATOR}allocate 9 bytes")]
)
def test_a_full_device_gets_advice(error: Exception) -> None:
    with (
        pytest.raises(DeviceMemoryError, match=r"^cpu is out of memory: buy more$"),
        device_errors_in_words(CPU, "buy more"),
    ):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: operation not permitted when stream is capturing"),
        RuntimeError("shape mismatch"),
        MemoryError(),
        KeyboardInterrupt(),
        DeviceMemoryError("named already"),
    ],
)
def test_everything_else_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as told, device_errors_in_words(CPU):
        raise error
    assert told.value is error


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


def speak(engine: Engine) -> None:
    engine.generate([GenerationRequest("Hello.", seed=1, sampling=Sampling(steps=2))])


USES = {
    "speak": (Layer, "forward", speak),
    "decode": (CodecDecoder, "decode", speak),
    "a voice": (CodecEncoder, "encode", lambda engine: engine.encode_voice(Waveform(torch.rand(30_000) - 0.5, 24_000))),
    "listen": (
        CodecDecoder,
        "decode",
        lambda engine: engine.decode_voice(VoicePrompt(torch.zeros(8, 9, dtype=torch.int64), "a", 0.1)),
    ),
    "train": (Layer, "forward", lambda engine: tiny_trainer().step()),
    "validate": (Layer, "forward", lambda engine: tiny_trainer().validate()),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("raised", "kind"), [(RuntimeError(ASSERT), DeviceError), (OutOfMemoryError("x"), DeviceMemoryError)]
)
def test_every_use_of_a_device_says_what_to_do(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, use: str, raised: Exception, kind: type[OmniVoiceError]
) -> None:
    owner, name, run = USES[use]
    calls: list[int] = []

    def fail(*_: object, **__: object) -> None:
        calls.append(1)
        raise raised

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(kind, match=r"^(item.*: )?cpu (has failed|is out of memory)") as told:
        run(engine)
    advice = ("restart ComfyUI",) if kind is DeviceError else ("close other programs", "batch_tokens", "chunk_seconds")
    assert any(words in str(told.value) for words in advice)
    assert ("batch_tokens" in str(told.value)) == (kind is DeviceMemoryError and use in ("train", "validate"))
    assert len(calls) == (2 if kind is DeviceMemoryError and use == "speak" else 1), "a failed device is used no more"


SHORT_OF_MEMORY = """
import resource, sys
import torch
from omnivoice import Engine, GenerationRequest, OmniVoiceError, Sampling
torch.set_num_threads(1)
engine = Engine.load(sys.argv[1])
request = GenerationRequest("Hello.", seed=1, duration=1.0, sampling=Sampling(steps=2))
before = engine.generate([request])[0].waveform.samples
long = GenerationRequest("Hello there. " * 100, seed=1, duration=119.0, chunk_threshold_seconds=120)
plan = engine.plan([long])
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
limit = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), limit[1]))
try:
    engine.generate_plans(plan, free_bytes=10**12)
except (OmniVoiceError, MemoryError) as error:
    print(type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_AS, limit)
print("same", torch.equal(engine.generate([request])[0].waveform.samples, before))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits the memory of a process")
def test_a_process_without_memory_says_so_and_goes_on(checkpoint: Path) -> None:
    code, output, errors = warm_children.run(SHORT_OF_MEMORY, checkpoint, environment={"OMP_NUM_THREADS": "1"})
    assert code == 0, errors
    first, last = output.splitlines()
    assert first.startswith(("DeviceMemoryError cpu is out of memory", "MemoryError")) and last == "same True"
