"""CUDA graphs: a decoding step is captured once and then replayed with one call instead of hundreds of launches.

On a fast GPU the step waits for the host, which launches one small kernel after another; a replay launches all of them
at once. A graph has fixed shapes and addresses, so each batch shape needs its own. `buckets.py` makes the shapes few,
and few graphs are kept. What differs between batches of one shape (codes, embedded rows, lengths) is copied into
tensors that the graph owns. The output is copied out, some MB per step, so that the caller owns what a runner returns.

The first replay of every graph is compared with the eager step bit for bit. If it differs, or if anything raises, all
graphs are dropped and the eager step continues; that shape is tried again many batches later. The eager step is also
used on other devices, with gradients on, when some weights are elsewhere, and when capturing would not pay. `report`
says which it was. `capture.py` is the interface to CUDA.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial

import torch
from torch import Tensor

from .addresses import Addresses
from .capture import Capturer, CudaCapturer, Replay

Step = Callable[..., Tensor]  # (codes [K, sum of T], *constants) -> guided log-probs, float32
Runner = Callable[[Tensor], Tensor]  # codes -> guided log-probs, with the constants of one batch

MAX_GRAPHS = 12  # each keeps its output, some MB; the working memory is shared
# A capture costs three to four steps (eager result, warm-up, capture, check). A replay saves a third to two thirds of a
# step (published figures for this model: 1.5-2.75 times as fast), so a capture pays after 6 to 11 steps.
MIN_STEPS = 12
MAX_ROWS = 2048  # packed rows; beyond this most GPUs are slower than the host, and the memory is considerable
# After a failed capture a shape goes without a graph for that many batches, then for twice as many.
FIRST_PAUSE, LONGEST_PAUSE = 8, 256
FAILURES_IN_A_ROW = 3  # of any shapes; then no shape is tried for a while
MAX_PAUSES = 64  # shapes that are remembered

SWITCHED_OFF, GRADIENTS = "they are switched off", "gradients are recorded"
FEW_STEPS, MANY_ROWS = f"they do not pay below {MIN_STEPS} steps", f"the batch has more than {MAX_ROWS} rows"
APPROXIMATE = "approximate steps do not use them"
PAUSED = "capturing failed and is tried again later"

_LOG = logging.getLogger("omnivoice_nodes")


def pays(rows: int, steps: int) -> bool:
    """Whether capturing a graph of that many packed rows pays if it is used for that many steps."""
    return steps >= MIN_STEPS and rows <= MAX_ROWS


class StepGraphs:
    """The graphs of one engine's steps, at most `limit`; the least recently used is dropped first."""

    def __init__(self, capturer: Capturer | None = None, *, enabled: bool = True, limit: int = MAX_GRAPHS):
        if capturer is None and torch.cuda.is_available():
            capturer = CudaCapturer()
        self._capturer, self._enabled, self._limit = capturer, enabled, limit
        self._graphs: OrderedDict[Hashable, _CapturedStep] = OrderedDict()
        self._weights: Hashable | None = None
        self._pauses, self._failures, self._warned = _Pauses(), 0, False
        self._batches = Counter[str]()  # since the last report, by the reason for having no graph, "" if there was one

    def runner(
        self, key: Hashable, step: Step, codes: Tensor, constants: Sequence[Tensor], *, weights: Addresses, steps: int
    ) -> Runner:
        """Return a runner of `step` with these constants: a graph if one exists or pays, otherwise `step` itself.

        key: everything that `step` depends on in addition to codes, constants and weights, above all guidance; it must
        determine what `step` closes over. step: pure, with static shapes and no host sync. codes: an example of the
        input, used for the check. constants: not changed while the runner exists; the first has a row for each packed
        row. weights: a change of their identity drops every graph. steps: how often the runner will be called.
        """
        if weights.identity != self._weights:
            self.clear("the weights have moved")
            self._weights = weights.identity
        key = (key, *((tensor.shape, tensor.dtype, tensor.device) for tensor in (codes, *constants)))
        problem = self._problem(key, codes, len(constants[0]), weights, steps)
        if not problem and key not in self._graphs:
            assert self._capturer is not None
            problem = self._capture(self._capturer, key, step, codes, constants, weights.copies)
        self.note(problem, codes.device)
        if problem:
            return lambda codes: step(codes, *constants)
        captured = self._graphs[key]
        self._graphs.move_to_end(key)
        captured.refresh(weights.copies)
        return partial(self._replay, key, captured, step, constants)

    def suit(self, device: torch.device) -> bool:
        """Whether graphs could be used on this device."""
        return self._capturer is not None and self._capturer.suits(device)

    def wanted(self, device: torch.device) -> bool:
        """Whether graphs may be used on this device."""
        return self._enabled and self.suit(device)

    def note(self, problem: str, device: torch.device) -> None:
        """Count a batch for the report: without a graph because of `problem`, or with one if that is empty."""
        if self.suit(device):
            self._batches[problem] += 1

    def report(self) -> str:
        """Return one line about the batches since the last call, and forget them; empty if graphs could not be used on
        the device."""
        counts, self._batches = self._batches, Counter()
        reasons, every = [problem for problem, _ in counts.most_common() if problem], counts.total()
        if not every:
            return ""
        used = f"used for {counts['']} of {every} batches" if counts[""] and reasons else "used"
        return f"CUDA graphs: {'; '.join([used if counts[''] else 'not used', *reasons])}"

    def clear(self, reason: str) -> None:
        """Free every graph, at any time. Existing runners continue with the eager step; new graphs may be captured."""
        if self._graphs:
            _LOG.debug("%d CUDA graphs dropped: %s", len(self._graphs), reason)
        while self._graphs:
            self._graphs.popitem()[1].free()

    def _problem(self, key: Hashable, codes: Tensor, rows: int, weights: Addresses, steps: int) -> str:
        """Return why this batch has no graph; empty if one exists or shall be captured."""
        if not self.wanted(codes.device):
            return SWITCHED_OFF
        if torch.is_grad_enabled():
            return GRADIENTS
        exists = key in self._graphs
        if steps < MIN_STEPS and not exists:
            return FEW_STEPS
        if rows > MAX_ROWS and not exists:
            return MANY_ROWS
        if weights.identity is None or exists:
            return weights.problem
        return PAUSED if self._pauses.include(key) or self._pauses.include(None) else ""

    def _capture(
        self,
        capturer: Capturer,
        key: Hashable,
        step: Step,
        codes: Tensor,
        constants: Sequence[Tensor],
        copies: tuple[Tensor, ...],
    ) -> str:
        """Capture a graph and compare its replay with the eager step; return why that failed, empty if it did not."""
        expected = step(codes, *constants)
        while len(self._graphs) >= self._limit:
            self._graphs.popitem(last=False)[1].free()
        shared = next((other.recording for other in self._graphs.values()), None)
        captured = None
        try:
            captured = _CapturedStep(capturer, step, codes, constants, expected, copies, shared)
            if _same_bits(captured.run(codes, constants), expected):
                self._graphs[key] = captured
                self._failures = 0
                self._pauses.end(key)
                return ""
            problem = "a replay differs from the step itself"
        except RuntimeError as error:
            problem = _first_line(error)
        if captured is not None:  # after the handler: until then the error's frames keep the memory alive
            captured.free()
        self._failed(key, problem)
        return PAUSED

    def _replay(
        self, key: Hashable, captured: _CapturedStep, step: Step, constants: Sequence[Tensor], codes: Tensor
    ) -> Tensor:
        if captured.freed:
            return step(codes, *constants)
        try:
            return captured.run(codes, constants)
        except RuntimeError as error:
            problem = _first_line(error)
        self._failed(key, problem)
        return step(codes, *constants)

    def _failed(self, key: Hashable, problem: str) -> None:
        """Drop every graph, and pause; the log warns about it once."""
        self.clear("a capture or a replay failed")
        self._failures += 1
        self._pauses.begin(key)
        if self._failures >= FAILURES_IN_A_ROW:
            self._pauses.begin(None)
        level = logging.DEBUG if self._warned else logging.WARNING
        self._warned = True
        _LOG.log(level, "CUDA graph failed: %s. The speech stays the same; this batch may take longer.", problem)


class _Pauses:
    """How many more batches a shape goes without an attempt to capture it; None stands for every shape."""

    def __init__(self) -> None:
        self._left: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()  # batches left, batches of the next pause

    def include(self, key: Hashable) -> bool:
        """Whether the shape is paused; counts one batch of the pause."""
        left, following = self._left.get(key, (0, 0))
        if left:
            self._left[key] = (left - 1, following)
        return left > 0

    def begin(self, key: Hashable) -> None:
        """Begin a pause, twice as long as the last one of this shape."""
        _, batches = self._left.pop(key, (0, FIRST_PAUSE))
        self._left[key] = (batches, min(2 * batches, LONGEST_PAUSE))
        while len(self._left) > MAX_PAUSES:
            self._left.popitem(last=False)

    def end(self, key: Hashable) -> None:
        """Forget the pauses of a shape, and those of every shape, because it was captured."""
        self._left.pop(key, None)
        self._left.pop(None, None)


class _CapturedStep:
    """A captured step with the tensors that it reads and writes.

    They are allocated before the capture, and the output is copied into one of them, so that nothing allocated during
    the capture outlives it. ComfyUI's allocator, cudaMallocAsync, warns about each such tensor and can abort the
    process if the capture fails (Comfy-Org/ComfyUI issues 15597, 16002).
    """

    def __init__(
        self,
        capturer: Capturer,
        step: Step,
        codes: Tensor,
        constants: Sequence[Tensor],
        expected: Tensor,
        copies: tuple[Tensor, ...],
        shared: Replay | None,
    ):
        self.freed = False
        self._step = step  # keeps the tensors it closes over alive: the graph reads their addresses
        self._copies = copies
        self._loaded: Sequence[Tensor] = ()  # the constants that have been copied in
        with torch.inference_mode(False):  # otherwise they could not be written to later, outside inference mode
            self._codes, self._output, *self._constants = map(torch.empty_like, (codes, expected, *constants))
        self._load(codes, constants)
        device, work = codes.device, partial(_fill, self._output, step, self._codes, *self._constants)
        capturer.warm_up(work, device)
        self.recording = capturer.capture(work, device, shared)
        self._output.fill_(math.nan)  # so that the check sees what the replay writes

    def run(self, codes: Tensor, constants: Sequence[Tensor]) -> Tensor:
        """Return the result of the step as a new tensor. Constants that were copied for the last run are not copied
        again."""
        self._load(codes, constants)
        self.recording.replay()
        return self._output.clone()

    def refresh(self, copies: tuple[Tensor, ...]) -> None:
        """Write the values of `Addresses.copies` into those that the graph reads."""
        with torch.inference_mode():  # which may change tensors of both kinds
            for own, current in zip(self._copies, copies):
                if own is not current:
                    own.copy_(current)

    def free(self) -> None:
        """Release all memory."""
        self.freed = True
        self.recording.free()
        del self.recording, self._step, self._copies, self._loaded, self._codes, self._constants, self._output

    def _load(self, codes: Tensor, constants: Sequence[Tensor]) -> None:
        self._codes.copy_(codes)
        if self._loaded is not constants:
            for own, given in zip(self._constants, constants):
                own.copy_(given)
            self._loaded = constants


def _fill(output: Tensor, step: Step, codes: Tensor, *constants: Tensor) -> None:
    output.copy_(step(codes, *constants))


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two float32 tensors have the same bits. NaN equals NaN here: it is the model's fault, not the graph's."""
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


def _first_line(error: RuntimeError) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
