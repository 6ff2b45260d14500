"""CUDA graphs: a decoding step is captured once and then replayed with one call instead of hundreds of launches.

On a fast GPU the step waits for the host, which launches one small kernel after another; a replay launches all of them
at once. A graph has fixed shapes and addresses, so each batch shape needs its own. Few are kept. What differs between
batches of one shape (codes, embedded rows) is copied into tensors that the graph owns. The output is copied out, some
MB per step, so that the caller owns what a runner returns.

The first replay of every graph is compared with the eager step bit for bit. If it differs, or if anything raises,
graphs are switched off for this engine with one warning, and the eager step continues. The eager step is also used on
other devices, with gradients on, when some weights are elsewhere, and when capturing would not pay. `Capturer` is the
interface to CUDA, so that the logic is tested without a GPU. It supports one thread and one stream.
"""

from __future__ import annotations

import logging
import math
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

Step = Callable[[Tensor, Tensor], Tensor]  # (codes [K, sum of T], base [S, E]) -> guided log-probs, float32
Runner = Callable[[Tensor], Tensor]  # codes -> guided log-probs, for one base

MAX_GRAPHS = 6  # each keeps its output, some MB; the working memory is shared
# A capture costs three to four steps (eager result, warm-up, capture, check). A replay saves a third to two thirds of a
# step (published figures for this model: 1.5-2.75 times as fast), so a capture pays after 6 to 11 steps.
MIN_STEPS = 12
MAX_ROWS = 2048  # packed rows; beyond this most GPUs are slower than the host, and the memory is considerable
# Attributes of ComfyUI's layers whose weights are patched at run time or paged in on demand.
RUN_TIME_WEIGHTS = ("weight_function", "bias_function", "_v")

_LOG = logging.getLogger("omnivoice_nodes")


class Replay(Protocol):
    """A captured graph."""

    def replay(self) -> None:
        """Run it again on the current stream, with the tensors that it was captured with."""

    def free(self) -> None:
        """Release its memory; it is not replayed again."""


class Capturer(Protocol):
    """Captures work. A failure raises RuntimeError and leaves the current stream unchanged."""

    def suits(self, device: torch.device) -> bool:
        """Whether work on this device can be captured."""

    def warm_up(self, work: Callable[[], None], device: torch.device) -> None:
        """Run `work` once on the stream it will be captured on; raises if it cannot be captured."""

    def capture(self, work: Callable[[], None], device: torch.device, shared: Replay | None) -> Replay:
        """Capture `work`. shared: an existing capture whose working memory may be shared."""


class StepGraphs:
    """The graphs of one engine's steps, at most `limit`; the least recently used is dropped first."""

    def __init__(self, capturer: Capturer | None = None, *, enabled: bool = True, limit: int = MAX_GRAPHS):
        if capturer is None and torch.cuda.is_available():
            capturer = CudaCapturer()
        self._capturer = capturer if enabled else None
        self._limit = limit
        self._graphs: OrderedDict[Hashable, _CapturedStep] = OrderedDict()
        self._weights: Hashable | None = None

    def runner(
        self, key: Hashable, step: Step, codes: Tensor, base: Tensor, *, weights: Hashable | None, steps: int
    ) -> Runner:
        """Return a runner of `step` for this `base`: a graph if one exists or pays, otherwise `step` itself.

        key: everything that `step` depends on in addition to codes, base and weights, above all guidance and the
        lengths of documents and targets; it must determine the constants that `step` closes over. step: pure, with
        static shapes and no host sync. codes: an example of the input, used for the check. base: not changed while
        the runner exists. weights: see `weights_identity`; a change drops every graph. steps: how often the runner
        will be called.
        """
        if weights != self._weights:
            self.clear("the weights have moved")
            self._weights = weights
        capturer = self._capturer
        if capturer is None or weights is None or torch.is_grad_enabled() or not capturer.suits(codes.device):
            return lambda codes: step(codes, base)
        key = (key, *((tensor.shape, tensor.dtype, tensor.device) for tensor in (codes, base)))
        captured = self._graphs.get(key)
        if captured is None and steps >= MIN_STEPS and len(base) <= MAX_ROWS:
            captured = self._capture(capturer, key, step, codes, base)
        if captured is None:
            return lambda codes: step(codes, base)
        self._graphs.move_to_end(key)
        return partial(self._replay, captured, step, base)

    def clear(self, reason: str) -> None:
        """Free every graph, at any time. Existing runners continue with the eager step; new graphs may be captured."""
        if self._graphs:
            _LOG.debug("%d CUDA graphs dropped: %s", len(self._graphs), reason)
        while self._graphs:
            self._graphs.popitem()[1].free()

    def _capture(
        self, capturer: Capturer, key: Hashable, step: Step, codes: Tensor, base: Tensor
    ) -> _CapturedStep | None:
        """Capture a graph and compare its replay with the eager step; on failure switch graphs off, return None."""
        expected = step(codes, base)
        while len(self._graphs) >= self._limit:
            self._graphs.popitem(last=False)[1].free()
        shared = next((other.recording for other in self._graphs.values()), None)
        captured = None
        try:
            captured = _CapturedStep(capturer, step, codes, base, expected, shared)
            if _same_bits(captured.run(codes, base), expected):
                self._graphs[key] = captured
                return captured
            problem = "a replay differs from the step itself"
        except RuntimeError as error:
            problem = _first_line(error)
        if captured is not None:  # after the handler: until then the error's frames keep the memory alive
            captured.free()
        self._give_up(problem)
        return None

    def _replay(self, captured: _CapturedStep, step: Step, base: Tensor, codes: Tensor) -> Tensor:
        if captured.freed:
            return step(codes, base)
        try:
            return captured.run(codes, base)
        except RuntimeError as error:
            problem = _first_line(error)
        self._give_up(problem)
        return step(codes, base)

    def _give_up(self, problem: str) -> None:
        self.clear("graphs are off")
        self._capturer = None
        _LOG.warning("CUDA graphs are off for this model: %s. Speech stays the same, but may take longer.", problem)


def weights_identity(model: nn.Module, device: torch.device) -> Hashable | None:
    """Return the addresses of the weights of `model`, or None if a graph cannot use them: because one is on another
    device, has a special tensor class, or is only created when it is used.

    Addresses suffice: a replay reads the current values, so weights changed in place need no new graph. device: with
    its index, as tensors report it.
    """
    places = []
    for module in model.modules():
        if any(getattr(module, name, None) for name in RUN_TIME_WEIGHTS):
            return None
        for weight in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if type(weight) not in (Tensor, nn.Parameter) or weight.device != device:
                return None
            places.append((weight.data_ptr(), weight.dtype))
    return tuple(places)


class _CapturedStep:
    """A captured step with the tensors that it reads and writes.

    They are allocated before the capture, and the output is copied into one of them, so that nothing allocated during
    the capture outlives it. ComfyUI's allocator, cudaMallocAsync, warns about each such tensor and can abort the
    process if the capture fails (Comfy-Org/ComfyUI issues 15597, 16002).
    """

    def __init__(
        self, capturer: Capturer, step: Step, codes: Tensor, base: Tensor, expected: Tensor, shared: Replay | None
    ):
        self.freed = False
        self._step = step  # keeps the tensors it closes over alive: the graph reads their addresses
        self._loaded: Tensor | None = None  # the base that has been copied in
        with torch.inference_mode(False):  # otherwise they could not be written to later, outside inference mode
            self._codes, self._base, self._output = (torch.empty_like(t) for t in (codes, base, expected))
        self._load(codes, base)
        device, work = codes.device, partial(_fill, self._output, step, self._codes, self._base)
        capturer.warm_up(work, device)
        self.recording = capturer.capture(work, device, shared)
        self._output.fill_(math.nan)  # so that the check sees what the replay writes

    def run(self, codes: Tensor, base: Tensor) -> Tensor:
        """Return the result of the step as a new tensor. `base` is copied only if it is not the previous one."""
        self._load(codes, base)
        self.recording.replay()
        return self._output.clone()

    def free(self) -> None:
        """Release all memory."""
        self.freed = True
        self.recording.free()
        del self.recording, self._step, self._loaded, self._codes, self._base, self._output

    def _load(self, codes: Tensor, base: Tensor) -> None:
        self._codes.copy_(codes)
        if self._loaded is not base:
            self._base.copy_(base)
            self._loaded = base


def _fill(output: Tensor, step: Step, codes: Tensor, base: Tensor) -> None:
    output.copy_(step(codes, base))


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two float32 tensors have the same bits. NaN equals NaN here: it is the model's fault, not the graph's."""
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


def _first_line(error: RuntimeError) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


class CudaCapturer:
    """`Capturer` on torch.cuda.CUDAGraph (NVIDIA, and AMD through HIP).

    Warm-up and capture share one side stream, so that cuBLAS has its workspace there before the capture starts.
    """

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def suits(self, device: torch.device) -> bool:
        return device.type == "cuda"

    def warm_up(self, work: Callable[[], None], device: torch.device) -> None:
        """Run `work` on the side stream. Work that waits for the device raises here and not during the capture."""
        side, current = self._stream(device), torch.cuda.current_stream(device)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side), _syncs_raise():
                work()
        finally:
            current.wait_stream(side)

    def capture(self, work: Callable[[], None], device: torch.device, shared: Replay | None) -> Replay:
        """Capture into the memory pool of `shared`: safe, because replays run one at a time and keep nothing in it."""
        graph, side = torch.cuda.CUDAGraph(), self._stream(device)
        pool = shared.graph.pool() if isinstance(shared, _CudaReplay) else None
        # The stream is set twice because torch.cuda.graph leaves its own one current if ending a failed capture raises.
        # thread_local: allocations by other threads of the host do not matter.
        recording = torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local")
        with torch.cuda.device(device), torch.cuda.stream(side), recording:
            try:
                work()
            except BaseException as error:  # also an interrupt; tensors in its frames must be freed inside the capture
                traceback.clear_frames(error.__traceback__)
                raise
        return _CudaReplay(graph, device)

    def _stream(self, device: torch.device) -> torch.cuda.Stream:
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]


class _CudaReplay:
    def __init__(self, graph: torch.cuda.CUDAGraph, device: torch.device):
        self.graph, self.device = graph, device

    def replay(self) -> None:
        self.graph.replay()

    def free(self) -> None:
        torch.cuda.synchronize(self.device)  # it may still be running
        self.graph.reset()


@contextmanager
def _syncs_raise() -> Iterator[None]:
    """Make operations that wait for the device raise RuntimeError, and restore the previous mode afterwards."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once that the mode does not detect every such operation
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
