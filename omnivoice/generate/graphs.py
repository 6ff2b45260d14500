"""CUDA graphs: a decoding step recorded once, then started with one call instead of hundreds of launches.

On a fast GPU the step waits for the host, which launches one small kernel after another; a replay launches them all
at once. A graph has fixed shapes and addresses, so there is one for each exact shape of batch, few are kept, and what
differs between batches of one shape (codes, embedded rows) is copied into tensors that the graph owns. The output is
copied out too: what a runner returns is the caller's for good, though it costs a copy of some MB per step.

Unusual: nothing is taken on trust. The first replay of every graph is compared with the eager step bit for bit; if it
differs, or anything about it raises, graphs switch themselves off for this engine with one warning, and the eager
step goes on. The eager step also runs where the device is no GPU, where gradients are on, where weights are not all
in place, and where recording would not pay. `Capturer` is the seam to CUDA, so that all this is tested without one.
One thread, one stream. What a step computes is `sample`'s business.
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

from ..errors import InputError

Step = Callable[[Tensor, Tensor], Tensor]  # (codes [K, sum of T], base [S, E]) -> guided log-probs, float32
Runner = Callable[[Tensor], Tensor]  # codes -> guided log-probs, for one base

GRAPH_MODES = ("auto", "off")
MAX_GRAPHS = 6  # each keeps its output, some MB; the working memory is shared
# A capture costs three to four steps (eager result, warm-up, recording, check). A replay saves a third to two thirds
# of one (published figures for this model: 1.5-2.75 times faster), which is earned back in 6 to 11 steps.
MIN_STEPS = 12
MAX_ROWS = 2048  # packed rows; beyond it the GPU is the slower one on most cards, and the memory is not small
# What ComfyUI's layers carry when a weight is not used as it lies there: patched at run time, or paged in on demand.
RUN_TIME_WEIGHTS = ("weight_function", "bias_function", "_v")

_LOG = logging.getLogger("omnivoice_nodes")


class Replay(Protocol):
    """A recorded piece of work."""

    def replay(self) -> None:
        """Run it again on the current stream, on the tensors that it was recorded with."""

    def free(self) -> None:
        """Give its memory back; it is not replayed again."""


class Capturer(Protocol):
    """Records work. Whatever fails raises RuntimeError, and leaves the current stream as it was."""

    def suits(self, device: torch.device) -> bool:
        """Whether work on this device can be recorded."""

    def warm_up(self, work: Callable[[], None], device: torch.device) -> None:
        """Run it once where it will be recorded; raises if it would not survive that."""

    def capture(self, work: Callable[[], None], device: torch.device, beside: Replay | None) -> Replay:
        """Record it; `beside` is a living recording to share working memory with."""


class StepGraphs:
    """The graphs of one engine's steps, at most `limit`; the least recently used goes first."""

    def __init__(self, capturer: Capturer | None = None, *, mode: str = "auto", limit: int = MAX_GRAPHS):
        if mode not in GRAPH_MODES:
            raise InputError(f"graphs must be one of {', '.join(GRAPH_MODES)}, got {mode!r}")
        self._capturer = None if mode == "off" else capturer or _default_capturer()
        self._limit = limit
        self._graphs: OrderedDict[Hashable, _CapturedStep] = OrderedDict()
        self._weights: Hashable | None = None

    def runner(
        self, key: Hashable, step: Step, codes: Tensor, base: Tensor, *, weights: Hashable | None, steps: int
    ) -> Runner:
        """`step` for this `base`: a graph where one fits or pays, else `step` itself.

        key: everything that `step` depends on beside codes, base and weights, above all the lengths of the documents
        and targets and the guidance; constants that `step` closes over must follow from it. step: pure, static
        shapes, no host sync. codes: an example of the input, used for the check. base: not changed while the runner
        lives. weights: `weights_identity`; another one than before drops every graph. steps: how often the runner
        will be called.
        """
        if weights != self._weights:
            self.clear("the weights are elsewhere")
            self._weights = weights
        capturer = self._capturer
        if capturer is None or weights is None or torch.is_grad_enabled() or not capturer.suits(codes.device):
            return partial(_eager, step, base)
        key = (key, *((tensor.shape, tensor.dtype, tensor.device) for tensor in (codes, base)))
        captured = self._graphs.get(key)
        if captured is None and steps >= MIN_STEPS and len(base) <= MAX_ROWS:
            captured = self._capture(capturer, key, step, codes, base)
        if captured is None:
            return partial(_eager, step, base)
        self._graphs.move_to_end(key)
        return partial(self._replay, captured, step, base)

    def clear(self, reason: str) -> None:
        """Free every graph, at any time; runners in use go on eagerly. Graphs are captured anew when asked for."""
        if self._graphs:
            _LOG.debug("%d CUDA graphs dropped: %s", len(self._graphs), reason)
        while self._graphs:
            self._graphs.popitem()[1].free()

    def _capture(
        self, capturer: Capturer, key: Hashable, step: Step, codes: Tensor, base: Tensor
    ) -> _CapturedStep | None:
        """A new graph whose replay has equalled the eager step; None, and graphs off, if it did not come to that."""
        expected = step(codes, base)
        while len(self._graphs) >= self._limit:
            self._graphs.popitem(last=False)[1].free()
        beside = next((other.recording for other in self._graphs.values()), None)
        captured = None
        try:
            captured = _CapturedStep(capturer, step, codes, base, expected, beside)
            if _same_bits(captured.run(codes, base), expected):
                self._graphs[key] = captured
                return captured
            problem = "a replay differs from the step itself"
        except RuntimeError as error:
            problem = _first_line(error)
        if captured is not None:  # after the handler: the error holds the frames, and they the memory
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
    """Where the weights of `model` lie; None if a graph cannot use them: one is on another device, of a special
    tensor class, or only made when it is used.

    Addresses suffice. A replay reads what is there at that time, so weights changed in place need no new graph.
    device: with its index, as a tensor reports it.
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
    """A recorded step with the tensors that it reads and writes.

    They are made before the recording and the output is copied into one of them, so nothing that is allocated while
    recording outlives it: ComfyUI's allocator, cudaMallocAsync, warns about each such tensor, and can abort the
    process where the recording fails (Comfy-Org/ComfyUI issues 15597, 16002).
    """

    def __init__(
        self, capturer: Capturer, step: Step, codes: Tensor, base: Tensor, expected: Tensor, beside: Replay | None
    ):
        self.freed = False
        self._step = step  # keeps alive what it closes over: the graph reads those addresses
        self._loaded: Tensor | None = None  # the base that is in place
        with torch.inference_mode(False):  # else they could not be written to outside of it later
            self._codes, self._base, self._output = (torch.empty_like(t) for t in (codes, base, expected))
        self._load(codes, base)
        device, work = codes.device, partial(_fill, self._output, step, self._codes, self._base)
        capturer.warm_up(work, device)
        self.recording = capturer.capture(work, device, beside)
        self._output.fill_(math.nan)  # so that the check sees what the replay wrote

    def run(self, codes: Tensor, base: Tensor) -> Tensor:
        """The step's result, in a tensor of its own. base is copied only when it is another than the last one."""
        self._load(codes, base)
        self.recording.replay()
        return self._output.clone()

    def free(self) -> None:
        """Give all memory back."""
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


def _eager(step: Step, base: Tensor, codes: Tensor) -> Tensor:
    return step(codes, base)


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """torch.equal for float32, but NaN equals itself: a model that yields NaN is reported as such, not as a graph."""
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


def _first_line(error: RuntimeError) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _default_capturer() -> Capturer | None:
    return CudaCapturer() if torch.cuda.is_available() else None


class CudaCapturer:
    """`Capturer` on torch.cuda.CUDAGraph (NVIDIA, and AMD through HIP).

    Warm-up and recording share one side stream, so that cuBLAS has its workspace there before the recording starts.
    """

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def suits(self, device: torch.device) -> bool:
        return device.type == "cuda"

    def warm_up(self, work: Callable[[], None], device: torch.device) -> None:
        """Work that waits for the device raises here, where it does no harm, and not while recording."""
        side, current = self._stream(device), torch.cuda.current_stream(device)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side), _syncs_raise():
                work()
        finally:
            current.wait_stream(side)

    def capture(self, work: Callable[[], None], device: torch.device, beside: Replay | None) -> Replay:
        """Shares the memory pool of `beside`: safe, since replays follow each other and leave nothing in it."""
        graph, side = torch.cuda.CUDAGraph(), self._stream(device)
        pool = beside.graph.pool() if isinstance(beside, _CudaReplay) else None
        # The stream is set twice: torch.cuda.graph leaves its own current where ending a failed capture raises.
        # thread_local: what another thread of the host allocates meanwhile is none of our business.
        recording = torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local")
        with torch.cuda.device(device), torch.cuda.stream(side), recording:
            try:
                work()
            except BaseException as error:  # also an interrupt; tensors in its frames must die inside the capture
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
    """Operations that wait for the device raise RuntimeError; as before afterwards."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once that the mode does not find every such operation
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
