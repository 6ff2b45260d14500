"""residual + layer(x): in one kernel where a GPU can, and always what the two steps give."""

import pytest
import torch
from torch import nn

from omnivoice import ops
from omnivoice.ops import add_linear, convert_weights
from tests.simulated_cuda import SimulatedCuda

HALVES = [torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def fresh_probe():
    ops._addmm_widens.cache_clear()
    with torch.no_grad():
        yield
    ops._addmm_widens.cache_clear()


def parts(dtype, residual_dtype=torch.float32):
    """A layer without bias, its input [6, 24] and a residual [6, 16]."""
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(24, 16, bias=False, dtype=dtype).requires_grad_(False)
    layer.weight.copy_(torch.randn(16, 24, generator=generator) / 5)
    x, residual = torch.randn(6, 24, generator=generator), torch.randn(6, 16, generator=generator)
    return layer, x.to(dtype), residual.to(residual_dtype)


def exact(layer, x, residual):
    return residual.double() + x.double() @ layer.weight.double().t()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES])
def test_on_a_cpu_it_is_the_layer_and_a_sum(dtype):
    layer, x, residual = parts(dtype, torch.promote_types(dtype, torch.float32))
    expected = residual + layer(x)
    got = add_linear(layer, x, residual)
    assert got.dtype == residual.dtype and torch.equal(got, expected)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_gradients_reach_layer_input_and_residual(dtype):
    layer, x, residual = parts(dtype)
    with torch.enable_grad():
        leaves = [layer.weight.requires_grad_(), x.requires_grad_(), residual.requires_grad_()]
        before = residual.detach().clone()
        add_linear(layer, x, residual).sum().backward()
    assert all(leaf.grad is not None for leaf in leaves) and torch.equal(residual.detach(), before)


def on_cuda(cuda, layer, x, residual):
    return cuda.place(layer), cuda.tensor(x), cuda.tensor(residual)


@pytest.mark.skipif(not hasattr(torch.ops.aten.addmm, "dtype_out"), reason="torch 2.8 added out_dtype")
@pytest.mark.parametrize("dtype", HALVES)
def test_on_a_gpu_the_product_is_added_in_one_kernel_and_not_rounded(dtype):
    layer, x, residual = parts(dtype)
    expected = exact(layer, x, residual)
    with SimulatedCuda() as cuda:
        placed = on_cuda(cuda, layer, x, residual)
        add_linear(*on_cuda(cuda, *parts(dtype)))  # the first call tries whether it works
        cuda.reset()
        got = add_linear(*placed)
        assert got is placed[2] and [name for name, _ in cuda.kernels] == ["aten::addmm"]
    torch.testing.assert_close(got.held.double(), expected, atol=1e-5, rtol=1e-5)


def patched(layer):
    layer.weight_function = [lambda weight: weight]


def paged(layer):
    layer._v = object()


def special(layer):
    class Quantised(nn.Parameter):
        pass

    layer.weight.__class__ = Quantised


@pytest.mark.parametrize("spoil", [patched, paged, special])
def test_a_layer_of_a_host_that_changes_its_weight_runs_itself(spoil, monkeypatch):
    layer, x, residual = parts(torch.float16)
    expected, ran = exact(layer, x, residual), []
    monkeypatch.setattr(ops, "_addmm_widens", lambda *_: True)
    spoil(layer)
    layer.register_forward_hook(lambda *_: ran.append(1))
    with SimulatedCuda() as cuda:
        if spoil is special:
            got = add_linear(layer, x, residual)
        else:
            got = add_linear(*on_cuda(cuda, layer, x, residual)).cpu()
    assert ran == [1]
    torch.testing.assert_close(got.double(), expected, atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize(
    "fault", [NotImplementedError("no"), RuntimeError("dtypes differ"), TypeError("out_dtype"), None]
)
def test_a_torch_that_cannot_or_computes_wrongly_takes_two_kernels(fault, monkeypatch):
    layer, x, residual = parts(torch.float16)
    expected, addmm = exact(layer, x, residual), torch.addmm

    def broken(*args, **options):
        if fault is not None:
            raise fault
        return addmm(*args, **{**options, "alpha": 2})

    monkeypatch.setattr(torch, "addmm", broken)
    with SimulatedCuda() as cuda:
        got = add_linear(*on_cuda(cuda, layer, x, residual)).cpu()
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), expected, atol=5e-3, rtol=5e-3)


def test_a_full_gpu_does_not_count_against_the_operator(monkeypatch):
    def full(*_, **__):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    with SimulatedCuda() as cuda, monkeypatch.context() as patched_torch:
        patched_torch.setattr(torch, "addmm", full)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            add_linear(*on_cuda(cuda, *parts(torch.float16)))
    assert ops._addmm_widens.cache_info().currsize == 0


def test_only_layers_that_do_not_cast_their_weights_are_converted():
    own, hosts = (parts(torch.float16)[0] for _ in range(2))
    hosts.comfy_cast_weights = True
    for layer in (own, hosts):
        convert_weights(layer, torch.bfloat16)
    assert (own.weight.dtype, hosts.weight.dtype) == (torch.bfloat16, torch.float16)
