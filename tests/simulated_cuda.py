"""A simulated CUDA device: tensors that report cuda:0, hold real values on the CPU and are watched while they are used.

Inside `with SimulatedCuda() as cuda:` anything that torch would do on a GPU runs on the CPU instead, and
- mixing devices raises `DeviceMixError`, as CUDA does;
- every kernel, every copy between host and device, and every wait of the host for the device is counted, together with
  the line of the pack that caused it (`cuda.kernels`, `cuda.copies`, `cuda.syncs`);
- what only CUDA has, such as attention over cumulative lengths, is computed by `simulated_operators.py`.

A view and an allocation launch nothing. Attention, RMS norm and a linear layer are one kernel each, with or without a
bias; any other composite operation counts as its parts. There is one stream and no time: only counts, values and
devices mean something. Autograd is not supported, and neither are in-place changes of a tensor's shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from omnivoice import ops
from tests.simulated_functions import FUNCTIONS
from tests.simulated_operators import OPERATORS
from tests.simulated_tensor import (
    CPU,
    CUDA,
    DeviceMixError,
    SimulatedTensor,
    caller,
    held,
    is_pinned,
    pinned,
    refuse_mixed,
)

__all__ = ["CPU", "CUDA", "DeviceMixError", "SimulatedCuda", "SimulatedTensor", "StepCounts"]

aten = torch.ops.aten
Counts = Counter[tuple[str, str]]  # of (what, "folder/file.py:line")

ONE_KERNEL = {"aten::linear", "aten::rms_norm", "aten::scaled_dot_product_attention"}
ALLOCATIONS = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
NO_KERNEL = {*ALLOCATIONS, "aten::detach", "aten::alias", "aten::lift_fresh", "aten::_reshape_alias"}
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"}
# The host waits for the values or for the number of results. Indexing with a mask does so too.
WAITS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::is_nonzero"}


class SimulatedCuda:
    """The device and its counts: `kernels`, `copies` between host and device, and `syncs`, waits of the host."""

    def __init__(self) -> None:
        self.kernels = Counts()
        self.copies = Counts()
        self.syncs = Counts()
        self.events = list[tuple[str, int]]()  # ("recorded" or "waited for", number of the event)
        self.recording: list[Callable[[], None]] | None = None  # the calls of a graph that is being captured
        self._modes = (_Dispatch(self), _Functions(self))

    def __enter__(self) -> SimulatedCuda:
        self._patches = ExitStack()
        replacements = {
            "_lazy_init": lambda: None,
            "Event": lambda **_: _Event(self),
            "current_stream": lambda device=None: None,
            "current_device": lambda: 0,
        }
        for name, value in replacements.items():
            self._patches.enter_context(patch.object(torch.cuda, name, value))
        plain = (*ops.PLAIN_TENSORS, SimulatedTensor)
        self._patches.enter_context(patch.object(ops, "PLAIN_TENSORS", plain))
        if hasattr(torch._C, "_ensureCUDADeviceGuardSet"):  # older builds for CUDA have their guard anyway
            torch._C._ensureCUDADeviceGuardSet()  # a guard that does nothing, where torch is built without CUDA
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)
        self._patches.close()

    def reset(self) -> None:
        """Set all counts to zero."""
        for counts in (self.kernels, self.copies, self.syncs):
            counts.clear()

    def tensor(self, values: Tensor) -> SimulatedTensor:
        """Return `values`, which are on the CPU, as a tensor of this device without copying or counting them."""
        with torch.inference_mode(False):  # views of such a tensor could not be made inside inference mode
            return SimulatedTensor(values, self)

    def place(self, module: nn.Module) -> nn.Module:
        """Move the parameters and buffers of a module to this device, in place; return it."""
        for part in module.modules():
            for own in (part._parameters, part._buffers):
                for name, value in own.items():
                    if value is not None and not isinstance(value, SimulatedTensor):
                        own[name] = self.tensor(value.detach())
        return module

    # What an operation does.

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute one operator of torch on what the tensors hold, and count it."""
        name, given = func._schema.name, tree_flatten((args, kwargs))[0]
        simulated = [x for x in given if isinstance(x, SimulatedTensor)]
        asked = kwargs.get("device")
        here = bool(simulated) if asked is None else torch.device(asked).type == "cuda"
        if name == "aten::copy_":
            here = isinstance(args[0], SimulatedTensor)
        if not simulated and not here:
            return pinned(func(*args, **without_pinning(kwargs)), kwargs.get("pin_memory", False))
        if name in ("aten::pin_memory", "aten::_pin_memory"):
            return args[0]
        if name not in ONE_KERNEL and is_composite(func):
            with self._modes[0]:
                return func.decompose(*args, **kwargs)
        if not _is_copy(name, asked) and name not in INDEXING:
            refuse_mixed(name, given)
        self._count(name, func, args, kwargs, here)
        values, options = held((args, without_pinning(kwargs)))
        if asked is not None:
            options["device"] = CPU if here else asked
        return self._wrapped(self.compute(OPERATORS.get(name, func), values, options), simulated, here)

    def compute(self, function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Call a function on the values of tensors; a graph that is being captured keeps the call."""
        result = function(*args, **options)
        if self.recording is not None:
            self.recording.append(partial(_call_again, function, args, options, result))
        return result

    def _wrapped(self, result: Any, simulated: Sequence[SimulatedTensor], here: bool) -> Any:
        """Return a result in tensors of this device: those that were written to, and new ones."""
        known = {id(x.held): x for x in simulated}

        def wrap(x: Any) -> Any:
            if not isinstance(x, Tensor) or isinstance(x, SimulatedTensor):
                return x
            if id(x) in known:
                if known[id(x)].shape != x.shape:
                    raise NotImplementedError("the simulated device cannot change a tensor's shape in place")
                return known[id(x)]
            return self.tensor(x) if here else x

        return tree_map(wrap, result)

    # What is counted.

    def kernel(self, name: str) -> None:
        """Count one kernel."""
        self.kernels[name, caller()] += 1

    def sync(self, why: str) -> None:
        """Count one wait of the host for the device; none is possible while a graph is captured."""
        if self.recording is not None:
            raise RuntimeError(f"operation not permitted when stream is capturing: {why}, at {caller()}")
        self.syncs[why, caller()] += 1

    def copy(self, direction: str, *, waits: bool) -> None:
        """Count one copy between host and device, and whether the host waits for it."""
        self.copies[direction, caller()] += 1
        if waits:
            self.sync(direction)

    def _count(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], here: bool) -> None:
        if name in INDEXING:
            self.count_indexing(name, args[0], [index for index in args[1] if index is not None])
            if len(args) > 2:
                refuse_mixed(name, (args[0], args[2]))
        if name in WAITS:
            self.sync(name)
        crossing = None
        if name in ("aten::_to_copy", "aten::copy_"):
            source = args[1 if name == "aten::copy_" else 0]
            if isinstance(source, SimulatedTensor) != here and source.numel():
                crossing = "host to device" if here else "device to host"
        if crossing is not None:
            last = args[2] if name == "aten::copy_" and len(args) > 2 else False
            prompt = kwargs.get("non_blocking", False) or last
            self.copy(crossing, waits=not prompt or (here and not is_pinned(source)))
        elif name not in NO_KERNEL and not is_view(func):
            self.kernel(name)

    def count_indexing(self, name: str, x: Tensor, indices: Sequence[Tensor]) -> bool:
        """Count what indexing with tensors copies and waits for; return whether there is one among the indices."""
        if indices and not isinstance(x, SimulatedTensor):
            raise DeviceMixError(f"{name}: a tensor on the CPU with an index on the GPU, at {caller()}")
        for index in indices:
            if not isinstance(index, SimulatedTensor):
                self.copy("host to device", waits=True)
            if index.dtype in (torch.bool, torch.uint8):
                self.sync("an index that is a mask")
        return bool(indices)


def _call_again(function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], result: Any) -> None:
    """Call a function on the same tensors as before, whatever they hold now, with its results in the same places."""
    again = function(*args, **options)
    for old, new in zip(tree_flatten(result)[0], tree_flatten(again)[0]):
        if isinstance(old, Tensor) and old.numel() and old.data_ptr() != new.data_ptr():
            old.copy_(new)


def _is_copy(name: str, device: object) -> bool:
    return name in ("aten::_to_copy", "aten::copy_") or (name in ALLOCATIONS and device is not None)


def without_pinning(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without `pin_memory`, which a CPU build refuses."""
    return {name: value for name, value in kwargs.items() if name != "pin_memory"}


@cache
def is_composite(func: Any) -> bool:
    """Whether an operator only calls others."""
    name = func.name()
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")


@cache
def is_view(func: Any) -> bool:
    """Whether an operator returns a view of an argument."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


class _Event:
    """`torch.cuda.Event`: keeps when it was recorded and waited for."""

    def __init__(self, cuda: SimulatedCuda):
        self._cuda, self._number = cuda, sum(what == "recorded" for what, _ in cuda.events)

    def record(self, stream: object = None) -> None:
        self._cuda.events.append(("recorded", self._number))

    def synchronize(self) -> None:
        self._cuda.events.append(("waited for", self._number))


class _Dispatch(TorchDispatchMode):
    """Sees what makes new tensors, for which there is no simulated tensor among the arguments."""

    def __init__(self, cuda: SimulatedCuda):
        super().__init__()
        self.cuda = cuda

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        return self.cuda.run(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Sees the functions whose C++ would look for a CUDA device before any operator is called."""

    def __init__(self, cuda: SimulatedCuda):
        super().__init__()
        self.cuda = cuda

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in FUNCTIONS and (name == "tensor" or isinstance(args and args[0], Tensor)):
            return FUNCTIONS[name](self.cuda, func, args, kwargs)
        return func(*args, **kwargs)


class StepCounts:
    """An `on_step` callback for `Sampler.sample` that keeps what each step after the first has launched and waited for.

    kernels, syncs: one Counter for each of these steps.
    """

    def __init__(self, cuda: SimulatedCuda):
        self.kernels, self.syncs = list[Counts](), list[Counts]()
        self._cuda = cuda
        self._before: tuple[Counts, Counts] | None = None

    def __call__(self, items: int) -> None:
        now = (self._cuda.kernels.copy(), self._cuda.syncs.copy())
        if self._before is not None:
            self.kernels.append(now[0] - self._before[0])
            self.syncs.append(now[1] - self._before[1])
        self._before = now
