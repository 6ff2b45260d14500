"""Functions of torch that must be caught before their C++ looks for a CUDA device (see `simulated_cuda.py`)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from tests.simulated_tensor import CUDA, SimulatedTensor, held, is_pinned, pinned, refuse_mixed

aten = torch.ops.aten
ONE_KERNEL_FUNCTIONS = {"scaled_dot_product_attention", "rms_norm"}  # torch's C++ would choose a CUDA kernel for them


def _one_kernel(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
    given = tree_flatten((args, kwargs))[0]
    if not any(isinstance(x, SimulatedTensor) for x in given):
        return func(*args, **kwargs)
    refuse_mixed(func.__name__, given)
    cuda.kernel(func.__name__)
    return cuda.tensor(cuda.compute(func, held(args), held(kwargs)))


def _to(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
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


def _made(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """`torch.tensor` and `torch.as_tensor`: made on the CPU, then moved, as torch does."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "cuda":
        return func(*args, **kwargs)
    named = {name: value for name, value in kwargs.items() if name != "device"}
    if isinstance(args[0], SimulatedTensor):
        return _to(cuda, Tensor.to, (args[0], CUDA, named.get("dtype") or args[0].dtype), {})
    return _to(cuda, Tensor.to, (func(*args, **named), CUDA), {})


def _new_tensor(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if not isinstance(args[0], SimulatedTensor):
        return func(*args, **kwargs)
    return _made(cuda, torch.tensor, args[1:], {"dtype": args[0].dtype, "device": CUDA, **kwargs})


def _copy_into(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
    target, source, *rest = args
    non_blocking = rest[0] if rest else kwargs.get("non_blocking", False)
    return cuda.run(aten.copy_.default, (target, source, non_blocking), {})


def _contiguous(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if not isinstance(args[0], SimulatedTensor):
        return func(*args, **kwargs)
    if args[0].held.is_contiguous():
        return args[0]
    return cuda.run(aten.clone.default, args[:1], {"memory_format": torch.contiguous_format})


def _get(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """`x[index]`: a kernel if there is a tensor or list in the index, otherwise a view."""
    if not any(isinstance(x, SimulatedTensor) for x in tree_flatten(args)[0]):
        return func(*args, **kwargs)
    if cuda.count_indexing("__getitem__", args[0], _tensors_in(args[1])):
        cuda.kernel("aten::index")
    return cuda.tensor(cuda.compute(operator.getitem, held(args), {}))


def _set(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """`x[index] = value`. A value on the CPU is copied over, as torch does."""
    x, index, value = args
    if not any(isinstance(part, SimulatedTensor) for part in tree_flatten(args)[0]):
        return func(*args, **kwargs)
    cuda.count_indexing("__setitem__", x, _tensors_in(index))
    if isinstance(value, Tensor) and not isinstance(value, SimulatedTensor) and value.dim():
        cuda.copy("host to device", waits=True)
    cuda.kernel("aten::index_put_")
    return cuda.compute(operator.setitem, held(args), {})


def _tensors_in(index: Any) -> list[Tensor]:
    """Return the tensors of an index; a list counts as one, which torch makes on the CPU."""
    parts = index if isinstance(index, tuple) else (index,)
    found = [torch.as_tensor(part) if isinstance(part, list) else part for part in parts]
    return [part for part in found if isinstance(part, Tensor) and (part.dim() or part.dtype == torch.bool)]


def _read(cuda: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """`float(x)`, `x.item()` and their kind: the host waits for the value."""
    if isinstance(args[0], SimulatedTensor):
        cuda.copy("device to host", waits=True)
    return func(*held(args), **kwargs)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(ONE_KERNEL_FUNCTIONS, _one_kernel),
    **dict.fromkeys(("to", "cuda", "cpu"), _to),
    **dict.fromkeys(("tensor", "as_tensor"), _made),
    "new_tensor": _new_tensor,
    "copy_": _copy_into,
    "contiguous": _contiguous,
    "__getitem__": _get,
    "__setitem__": _set,
    **dict.fromkeys(("item", "tolist", "__float__", "__int__", "__bool__", "__index__"), _read),
    "pin_memory": lambda cuda, func, args, kwargs: pinned(args[0].detach(), True),
    "is_pinned": lambda cuda, func, args, kwargs: is_pinned(args[0]),
}
