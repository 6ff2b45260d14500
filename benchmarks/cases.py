"""The cases that are measured, each of a known size, and how one is run, timed and watched.

The variants of a case alternate within every round, and only ratios within a round are compared, because a machine's
speed drifts. Memory is watched during the warm-up, so that watching it does not disturb the timing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.machine import anonymous_bytes
from benchmarks.model import WORD, variant
from omnivoice.constants import FRAME_RATE, HOP
from omnivoice.engine import Engine
from omnivoice.generate.presets import PRESETS
from omnivoice.generate.run import Runner
from omnivoice.text.prompt import build_prompt
from omnivoice.types import Chunk, GenerationPlan, GenerationRequest, Sampling, Speedups, VoicePrompt

FULL_STEPS = 32  # the number of steps that the real-time factor refers to
WATCH_SECONDS = 0.002
LANGUAGE, SEED, PROMPT_TOKENS = "en", 7, 60


@dataclass(frozen=True)
class Case:
    """One thing to speak. Sizes are in audio frames, 25 per second. `steps` None takes the number from the options.

    A `preset` decides the steps and shortcuts in place of both.
    """

    name: str
    frames: int = 125
    reference: int = 125
    guidance: float = 2.0
    batch: int = 1
    steps: int | None = None
    preset: str = ""


CLONE = Case("clone")
STEP_CASES = (
    CLONE,
    Case("clone_10s", reference=250),
    Case("no_reference", reference=0),
    Case("guidance_0", guidance=0.0),
)
# The cases in which a speed-up shows that does not show in the clone. Early stop needs very short audio and all steps.
SHOWN_IN = {"skip_unguided": STEP_CASES[3], "early_stop": Case("0.08 s", frames=2, steps=FULL_STEPS)}
PRESET_CASES = tuple(Case(name, preset=name) for name in PRESETS)
GROWTH: Mapping[str, tuple[Case, ...]] = {
    "audio": tuple(Case(f"{s}", frames=s * FRAME_RATE) for s in (1, 2, 5, 10, 20, 40)),
    "batch": tuple(Case(f"{n}", batch=n) for n in (1, 2, 4, 8, 16)),
    "reference": tuple(Case(f"{s}", reference=s * FRAME_RATE) for s in (0, 3, 5, 10, 20)),
}


@dataclass(frozen=True)
class Bench:
    """An engine to measure, the steps of a run and the rounds of a measurement.

    baseline: the memory held once the engine was ready, in bytes, or None if unknown. engine_in: returns the same
    model in another dtype. clock: seconds, by the clock or of the processor. folder: of an installed model.
    """

    engine: Engine
    device: torch.device
    steps: int
    rounds: int
    baseline: int | None
    engine_in: Callable[[torch.dtype], Engine]
    clock: Callable[[], float] = time.perf_counter
    folder: str | None = None

    def wait(self) -> None:
        """Wait until the device has finished its work."""
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()

    def runner(self, speedups: Speedups) -> Runner:
        """Return a runner that uses `speedups` and shares the engine's weights."""
        return Runner(variant(self.engine.sampler, speedups), self.engine.tokenizer)

    def speak(self, runner: Runner, case: Case) -> Callable[[], list[Tensor]]:
        """Return a function that generates the codes [K, T] of every item of the case."""
        plans = [self.plan(case, self.steps)] * case.batch
        return lambda: [chunks[0] for chunks in runner.run(plans, None, None)]

    def plan(self, case: Case, steps: int) -> GenerationPlan:
        """Return the plan of the case, with a prompt of `PROMPT_TOKENS` tokens."""
        K = self.engine.lm.config.codebooks
        codes = torch.randint(0, 1024, (K, case.reference), generator=torch.Generator().manual_seed(SEED))
        voice = VoicePrompt(codes, WORD, 0.1) if case.reference else None
        fixed = len(self.prompt_ids(WORD, voice)) - 1
        text = " ".join([WORD] * max(1, PROMPT_TOKENS - fixed))
        sampling = Sampling(steps=case.steps or steps, guidance=case.guidance)
        if case.preset:
            sampling = PRESETS[case.preset].apply(sampling)
        request = GenerationRequest(text=text, voice=voice, sampling=sampling)
        return GenerationPlan(request, (Chunk(text, case.frames),), LANGUAGE, None, SEED)

    def prompt_ids(self, text: str, voice: VoicePrompt | None) -> tuple[int, ...]:
        """Return the token ids of a prompt."""
        return build_prompt(
            self.engine.tokenizer,
            text=text,
            reference_text=None if voice is None else voice.text,
            language=LANGUAGE,
            denoise=voice is not None,
        )

    def layout(self, case: Case) -> tuple[list[int], list[int]]:
        """Return the rows and the target rows of every document of the case, as two lists."""
        request = self.plan(case, 1).request
        length = len(self.prompt_ids(request.text, request.voice)) + case.reference + case.frames
        lengths = [length] * case.batch + ([case.frames] * case.batch if case.guidance else [])
        return lengths, [case.frames] * len(lengths)

    def sample_codes(self, frames: int) -> Tensor:
        """Return random codes [K, T] to decode."""
        K, size = self.engine.lm.config.codebooks, self.engine.codec.config.codebook_size
        return torch.randint(0, size, (K, frames), generator=torch.Generator().manual_seed(SEED))

    def decode(self, frames: int, speedups: Speedups | None = None) -> Callable[[], Tensor]:
        """Return a function that decodes `frames` frames as the engine does."""
        engine, codes = copy(self.engine), self.sample_codes(frames)
        engine.sampler = variant(engine.sampler, speedups or Speedups())
        return lambda: engine._decode(codes)

    def encode(self, seconds: int) -> Callable[[], Tensor]:
        """Return a function that encodes `seconds` of noise."""
        encoder, samples = self.engine.codec.encoder, seconds * FRAME_RATE * HOP
        audio = 0.1 * torch.randn(1, samples, generator=torch.Generator().manual_seed(SEED))
        audio = audio.to(next(encoder.parameters()).device)
        return lambda: encoder.encode(audio)

    def alternate(self, calls: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
        """Return the seconds that each call takes in each round. Every other round runs in reverse order.

        The calls must be warmed up before.
        """
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(self.rounds):
            order = list(calls.items())
            for name, call in order if number % 2 == 0 else reversed(order):
                start = self.clock()
                call()
                self.wait()
                seconds[name].append(self.clock() - start)
        return seconds

    def watched(self, call: Callable[[], object]) -> tuple[object, int | None]:
        """Return the result of a call and the peak memory it took above the baseline, in bytes.

        The peak is 0 when the process gave back as much memory meanwhile, and None where it is not known.
        """
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            held = torch.cuda.memory_allocated(self.device)
            result = call()
            self.wait()
            return result, torch.cuda.max_memory_allocated(self.device) - held
        if self.device.type != "cpu" or self.baseline is None:
            return call(), None
        result, peak = watch_memory(call)
        return result, max(0, peak - self.baseline)


def watch_memory(call: Callable[[], object]) -> tuple[object, int]:
    """Return the result of a call and the peak of this process's anonymous memory meanwhile, in bytes (Linux)."""
    peak, done = anonymous_bytes() or 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(WATCH_SECONDS):
            peak = max(peak, anonymous_bytes() or 0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return call(), max(peak, anonymous_bytes() or 0)
    finally:
        done.set()
        watcher.join()
