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

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from tests.simulated_operators import OPERATORS

CUDA = torch.device("cuda:0")
CPU = torch.device("cpu")
WATCHED = ("omnivoice", "nodes", "comfy")  # the packages whose lines are blamed for a kernel, the innermost first


aten = torch.ops.aten
Operator = Callable[..., Any]
Counts = Counter[tuple[str, str]]  # of (what, "folder/file.py:line")

ONE_KERNEL = {"aten::linear", "aten::rms_norm", "aten::scaled_dot_product_attention"}
ONE_KERNEL_FUNCTIONS = {"scaled_dot_product_attention", "rms_norm"}  # torch's C++ would choose a CUDA kernel for them
ALLOCATIONS = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
NO_KERNEL = {*ALLOCATIONS, "aten::detach", "aten::alias", "aten::lift_fresh", "aten::_reshape_alias"}
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"}
# The host waits for the values or for the number of results. Indexing with a mask does so too.
WAITS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::is_nonzero"}


class DeviceMixError(RuntimeError):
    """Tensors on the CPU and on the GPU met in one operation."""


class SimulatedTensor(Tensor):
    """A tensor that reports cuda:0. held: its values, on the CPU; views share the storage of `held`."""

    held: Tensor
    cuda: SimulatedCuda
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor, cuda: SimulatedCuda) -> SimulatedTensor:
        place = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        self = Tensor._make_wrapper_subclass(cls, held.shape, **place, device=CUDA, requires_grad=False)
        self.held, self.cuda = held, cuda
        return self

    @classmethod
    def __torch_dispatch__(cls, func: Operator, types: object, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_flatten((args, kwargs or {}))[0]
        cuda = next(x.cuda for x in given if isinstance(x, SimulatedTensor))
        return cuda.run(func, args, kwargs or {})

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"SimulatedTensor({tuple(self.shape)}, {self.dtype})"

    def data_ptr(self) -> int:
        """Return the address of the values."""
        return self.held.data_ptr()


def held(tree: Any) -> Any:
    """Return the same tree with the values of simulated tensors in their places."""
    return tree_map(lambda x: x.held if isinstance(x, SimulatedTensor) else x, tree)


class SimulatedCuda:
    """The device and its counts: `kernels`, `copies` between host and device, and `syncs`, waits of the host."""

    def __init__(self) -> None:
        self.kernels = Counts()
        self.copies = Counts()
        self.syncs = Counts()
        self._modes = (_Dispatch(self), _Functions(self))

    def __enter__(self) -> SimulatedCuda:
        self._lazy_init, torch.cuda._lazy_init = torch.cuda._lazy_init, lambda: None
        torch._C._ensureCUDADeviceGuardSet()  # a guard that does nothing, where torch is built without CUDA
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)
        torch.cuda._lazy_init = self._lazy_init

    def reset(self) -> None:
        """Set all counts to zero."""
        for counts in (self.kernels, self.copies, self.syncs):
            counts.clear()

    def tensor(self, values: Tensor) -> SimulatedTensor:
        """Return `values`, which are on the CPU, as a tensor of this device without copying or counting them."""
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
        result = OPERATORS.get(name, func)(*values, **options)
        return self._wrapped(result, simulated, here)

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
        """Count one wait of the host for the device."""
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


def _is_copy(name: str, device: object) -> bool:
    return name in ("aten::_to_copy", "aten::copy_") or (name in ALLOCATIONS and device is not None)


def pinned(x: Any, whether: bool) -> Any:
    """Return a tensor on the CPU, marked as pinned if so: only from there does a copy to CUDA not wait."""
    if whether:
        x.simulated_pinned = True
    return x


def is_pinned(x: Tensor) -> bool:
    """Whether a tensor on the CPU is marked as pinned."""
    return getattr(x, "simulated_pinned", False)


def without_pinning(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without `pin_memory`, which a CPU build refuses."""
    return {name: value for name, value in kwargs.items() if name != "pin_memory"}


def refuse_mixed(name: str, given: Sequence[Any]) -> None:
    """Raise DeviceMixError if tensors of both devices are among the arguments. A number on the CPU goes with both."""
    tensors = [x for x in given if isinstance(x, Tensor)]
    others = [x for x in tensors if not isinstance(x, SimulatedTensor) and x.dim()]
    if others and len(others) < len(tensors):
        listed = ", ".join(f"{tuple(x.shape)} on {x.device.type}" for x in tensors)
        raise DeviceMixError(f"{name}: {listed}, at {caller()}")


def caller() -> str:
    """Return "folder/file.py:line" of the innermost frame in a watched package; "elsewhere" if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if watched := _watched_name(frame.f_code.co_filename):
            return f"{watched}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"


@cache
def _watched_name(file: str) -> str:
    """Return "folder/file.py" of a file in a watched package, otherwise nothing."""
    path = Path(file)
    return f"{path.parent.name}/{path.name}" if any(part in WATCHED for part in path.parts[:-1]) else ""


@cache
def is_composite(func: Any) -> bool:
    """Whether an operator only calls others."""
    name = func.name()
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")


@cache
def is_view(func: Any) -> bool:
    """Whether an operator returns a view of an argument."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


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


def _one_kernel(cuda: SimulatedCuda, func: Any, args: Any, kwargs: Any) -> Any:
    given = tree_flatten((args, kwargs))[0]
    if not any(isinstance(x, SimulatedTensor) for x in given):
        return func(*args, **kwargs)
    refuse_mixed(func.__name__, given)
    cuda.kernel(func.__name__)
    return cuda.tensor(func(*held(args), **held(kwargs)))


def _to(cuda: SimulatedCuda, func: Any, args: Any, kwargs: Any) -> Any:
    """`Tensor.to`, `cuda` and `cpu`: only what crosses between the devices cannot be left to torch."""
    x, named = args[0], dict(kwargs)
    copy = named.pop("copy", False)
    if func.__name__ == "to":
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args[1:], **named)
    else:
        device, dtype, non_blocking = torch.device(func.__name__), None, named.get("non_blocking", False)
    there = x.device.type if device is None else device.type
    if there == x.device.type and there == "cuda":
        dtype = dtype or x.dtype
        return x if dtype == x.dtype and not copy else cuda.run(aten._to_copy.default, (x,), {"dtype": dtype})
    if {there, x.device.type} == {"cuda", "cpu"}:
        where = {"dtype": dtype or x.dtype, "device": torch.device(there), "non_blocking": non_blocking}
        return cuda.run(aten._to_copy.default, (pinned(x.detach(), is_pinned(x)),), where)
    return func(*args, **kwargs)


def _made(cuda: SimulatedCuda, func: Any, args: Any, kwargs: Any) -> Any:
    """`torch.tensor` and `torch.as_tensor`: made on the CPU, then moved, as torch does."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "cuda":
        return func(*args, **kwargs)
    named = {name: value for name, value in kwargs.items() if name != "device"}
    if isinstance(args[0], SimulatedTensor):
        return _to(cuda, Tensor.to, (args[0], CUDA, named.get("dtype") or args[0].dtype), {})
    return _to(cuda, Tensor.to, (func(*args, **named), CUDA), {})


def _copy_into(cuda: SimulatedCuda, func: Any, args: Any, kwargs: Any) -> Any:
    target, source, *rest = args
    non_blocking = rest[0] if rest else kwargs.get("non_blocking", False)
    return cuda.run(aten.copy_.default, (target, source, non_blocking), {})


def _contiguous(cuda: SimulatedCuda, func: Any, args: Any, kwargs: Any) -> Any:
    if not isinstance(args[0], SimulatedTensor):
        return func(*args, **kwargs)
    if args[0].held.is_contiguous():
        return args[0]
    return cuda.run(aten.clone.default, args[:1], {"memory_format": torch.contiguous_format})


def _get(cuda: SimulatedCuda, func: Any, args: Any, kwargs: Any) -> Any:
    """`x[index]`: a kernel if there is a tensor or list in the index, otherwise a view."""
    if not any(isinstance(x, SimulatedTensor) for x in tree_flatten(args)[0]):
        return func(*args, **kwargs)
    if cuda.count_indexing("__getitem__", args[0], _tensors_in(args[1])):
        cuda.kernel("aten::index")
    return cuda.tensor(args[0].held[held(args[1])])


def _set(cuda: SimulatedCuda, func: Any, args: Any, kwargs: Any) -> Any:
    """`x[index] = value`. A value on the CPU is copied over, as torch does."""
    x, index, value = args
    if not any(isinstance(part, SimulatedTensor) for part in tree_flatten(args)[0]):
        return func(*args, **kwargs)
    cuda.count_indexing("__setitem__", x, _tensors_in(index))
    if isinstance(value, Tensor) and not isinstance(value, SimulatedTensor) and value.dim():
        cuda.copy("host to device", waits=True)
    cuda.kernel("aten::index_put_")
    x.held[held(index)] = held(value)
    return None


def _tensors_in(index: Any) -> list[Tensor]:
    """Return the tensors of an index; a list counts as one, which torch makes on the CPU."""
    parts = index if isinstance(index, tuple) else (index,)
    found = [torch.as_tensor(part) if isinstance(part, list) else part for part in parts]
    return [part for part in found if isinstance(part, Tensor) and (part.dim() or part.dtype == torch.bool)]


def _read(cuda: SimulatedCuda, func: Any, args: Any, kwargs: Any) -> Any:
    """`float(x)`, `x.item()` and their kind: the host waits for the value."""
    if isinstance(args[0], SimulatedTensor):
        cuda.copy("device to host", waits=True)
    return func(*held(args), **kwargs)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(ONE_KERNEL_FUNCTIONS, _one_kernel),
    **dict.fromkeys(("to", "cuda", "cpu"), _to),
    **dict.fromkeys(("tensor", "as_tensor"), _made),
    "copy_": _copy_into,
    "contiguous": _contiguous,
    "__getitem__": _get,
    "__setitem__": _set,
    **dict.fromkeys(("item", "tolist", "__float__", "__int__", "__bool__", "__index__"), _read),
    "pin_memory": lambda cuda, func, args, kwargs: pinned(args[0].detach(), True),
    "is_pinned": lambda cuda, func, args, kwargs: is_pinned(args[0]),
}


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
