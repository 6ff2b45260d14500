"""The simulated device itself: it must compute what the CPU computes, refuse what CUDA refuses, and miss no launch."""

import pytest
import torch
import torch.nn.functional as F

from tests.simulated_cuda import CPU, CUDA, DeviceMixError, SimulatedCuda, SimulatedTensor
from tests.simulated_operators import flash


@pytest.fixture(params=["no_grad", "inference_mode"], autouse=True)
def cuda(request):
    with getattr(torch, request.param)(), SimulatedCuda() as cuda:
        yield cuda


def totals(cuda):
    return cuda.kernels.total(), cuda.copies.total(), cuda.syncs.total()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(3, 4, device="cuda"),
        lambda: torch.zeros(3, 4).to("cuda", non_blocking=True),
        lambda: torch.zeros(3, 4).pin_memory().cuda(),
        lambda: torch.tensor([[1.0] * 4] * 3, device=CUDA),
        lambda: torch.zeros(1, device=CUDA).new_tensor([[1.0] * 4] * 3),
        lambda: torch.arange(12, device="cuda:0").view(3, 4),
        lambda: torch.zeros(3, 4).to(torch.empty(1, device=CUDA)),
        lambda: torch.zeros(3, 4, device=CUDA)[:, torch.tensor([0, 1, 2, 3], device=CUDA)],
        lambda: torch.zeros(4, 3, device=CUDA).t().contiguous(),
        lambda: torch.empty_like(torch.zeros(3, 4), device=CUDA),
        lambda: torch.nn.Parameter(torch.zeros(3, 4, device=CUDA), requires_grad=False),
        lambda: torch.zeros(3, 8, device=CUDA).chunk(2, dim=1)[1],
    ],
)
def test_tensors_are_on_the_device(make):
    made = make()
    assert isinstance(made, SimulatedTensor) and made.shape == (3, 4)
    assert made.device == CUDA and made.is_cuda and made.cpu().device == CPU and not isinstance(made.cpu(), type(made))


@pytest.mark.parametrize(
    "meet",
    [
        lambda here, there: here + there,
        lambda here, there: torch.cat((here, there)),
        lambda here, there: F.linear(here, there),
        lambda here, there: F.rms_norm(here, (4,), there[0]),
        lambda here, there: torch.where(here > 0, here, there),
        lambda here, there: here.index_copy_(0, torch.tensor([0, 1]), here[:2].clone()),
        lambda here, there: F.embedding(torch.tensor([0]), here),
        lambda here, there: there[torch.tensor([0, 2], device=CUDA)],
        lambda here, there: torch.mul(here, here, out=there),
        lambda here, there: there.add_(here),
    ],
)
def test_mixed_devices_are_refused(meet):
    with pytest.raises(DeviceMixError):
        meet(torch.ones(3, 4, device=CUDA), torch.ones(3, 4))


@pytest.mark.parametrize(
    "work, kernels, copies, syncs",
    [
        (lambda x, i: x + 1, 1, 0, 0),
        (lambda x, i: x + torch.tensor(1.0), 1, 0, 0),  # a number on the CPU is an argument of the kernel
        (lambda x, i: x[1:, None].expand(2, 3, 4).transpose(0, 1), 0, 0, 0),
        (lambda x, i: x.unflatten(1, (2, 2)).flatten(1).view(torch.int32), 0, 0, 0),
        (lambda x, i: x.half().float(), 2, 0, 0),
        (lambda x, i: x + x.half(), 2, 0, 0),  # the simulation promotes first; CUDA does it inside the kernel
        (lambda x, i: x.to(CUDA), 0, 0, 0),
        (lambda x, i: x.cpu(), 0, 1, 1),
        (lambda x, i: x.to("cpu", non_blocking=True), 0, 1, 0),
        (lambda x, i: x.copy_(torch.zeros(3, 4)), 0, 1, 1),
        (lambda x, i: x.copy_(torch.zeros(3, 4), non_blocking=True), 0, 1, 1),  # not from pinned memory
        (lambda x, i: x.copy_(torch.zeros(3, 4).pin_memory(), non_blocking=True), 0, 1, 0),
        (lambda x, i: torch.rand(3, 4, pin_memory=True).to(CUDA, non_blocking=True), 0, 1, 0),
        (lambda x, i: torch.rand(3, 4, pin_memory=True).to(CUDA), 0, 1, 1),
        (lambda x, i: x.copy_(x.clone()), 2, 0, 0),
        (lambda x, i: x[i], 1, 0, 0),
        (lambda x, i: x[torch.tensor([0, 1])], 1, 1, 1),
        (lambda x, i: x[[0, 1]], 1, 1, 1),
        (lambda x, i: x[x > 0], 2, 0, 1),
        (lambda x, i: x.index_copy_(0, i, x[:2].clone()), 2, 0, 0),
        (lambda x, i: x.__setitem__((..., 2), 0.0), 1, 0, 0),
        (lambda x, i: x[0, 0].item(), 0, 1, 1),
        (lambda x, i: i.tolist(), 0, 1, 1),
        (lambda x, i: bool((x > 0).any()), 2, 1, 1),
        (lambda x, i: F.linear(x, x), 1, 0, 0),
        (lambda x, i: F.linear(x, x, x[:, 0]), 1, 0, 0),
        (lambda x, i: torch.addmm(x[:, :3], x, x.t()), 1, 0, 0),
        (lambda x, i: torch.mul(x, x, out=torch.empty(3, 4, device=CUDA)), 1, 0, 0),
        (lambda x, i: F.rms_norm(x, (4,), x[0]), 1, 0, 0),
        (lambda x, i: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]), 1, 0, 0),
    ],
)
def test_launches_copies_and_waits_are_counted(cuda, work, kernels, copies, syncs):
    x, index = torch.arange(12.0, device=CUDA).view(3, 4), torch.tensor([0, 2], device=CUDA)
    cuda.reset()
    work(x, index)
    assert totals(cuda) == (kernels, copies, syncs), cuda.kernels


def test_views_share_their_values_and_writing_gives_back_the_tensor_that_was_written_to():
    x = torch.zeros(3, 4, device=CUDA)
    row = x[1]
    assert row.add_(2) is row and x.add_(1) is x
    assert torch.equal(x.cpu(), torch.tensor([[1.0] * 4, [3.0] * 4, [1.0] * 4]))
    out = torch.empty(3, 4, device=CUDA)
    assert torch.add(x, x, out=out) is out and float(out[1, 0]) == 6
    with pytest.raises(NotImplementedError, match="shape in place"):
        x.unsqueeze_(0)


def test_attention_over_cumulative_lengths_is_attention_inside_each_document(cuda):
    q, k, v = (torch.randn(7, 2, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    ends = torch.tensor([0, 3, 7], dtype=torch.int32)
    each = [[x[a:b].transpose(0, 1) for x in (q, k, v)] for a, b in ((0, 3), (3, 7))]
    expected = torch.cat([F.scaled_dot_product_attention(*one).transpose(0, 1) for one in each])
    here = [x.to(CUDA) for x in (q, k, v, ends)]
    cuda.reset()
    parts = [x[None] for x in here[:3]]
    found = torch.ops.aten._efficient_attention_forward(*parts, None, here[3], here[3], 4, 4, 0.0, 0)[0]
    assert totals(cuda) == (1, 0, 0) and torch.allclose(found[0].cpu(), expected, atol=1e-6)
    halves = [x.to(torch.bfloat16) for x in here[:3]]
    cuda.reset()
    found = torch.ops.aten._flash_attention_forward(*halves, here[3], here[3], 4, 4, 0.0, False, False)[0]
    assert totals(cuda) == (1, 0, 0) and torch.allclose(found.float().cpu(), expected, atol=0.05)
    with pytest.raises(RuntimeError, match="only support fp16 and bf16"):
        flash(q, k, v, ends, ends, 4, 4, 0.0, False, False)


def test_the_operator_of_varlen_attn_is_one_kernel(cuda):
    varlen = pytest.importorskip("torch.nn.attention.varlen", reason="torch has it since 2.10")
    x, ends = torch.ones(4, 2, 8, device=CUDA, dtype=torch.float16), torch.tensor([0, 4], dtype=torch.int32).to(CUDA)
    cuda.reset()
    assert float(varlen.varlen_attn(x, x, x, ends, ends, 4, 4).sum()) == 64
    assert cuda.kernels["torch_attn::_varlen_attn", "elsewhere"] == 1


def test_products_with_a_wider_result_are_one_kernel(cuda):
    if not hasattr(torch.ops.aten.addmm, "dtype_out"):
        pytest.skip("torch has out_dtype since 2.8")
    a, total = torch.full((3, 4), 0.5, device=CUDA, dtype=torch.float16), torch.ones(3, 3, device=CUDA)
    cuda.reset()
    assert torch.addmm(total, a, a.t(), out_dtype=torch.float32, out=total) is total
    assert totals(cuda) == (1, 0, 0) and torch.equal(total.cpu(), torch.full((3, 3), 2.0))
    assert torch.mm(a, a.t(), out_dtype=torch.float32).dtype == torch.float32


def test_a_module_is_placed_and_the_blame_names_a_line_of_the_pack(cuda):
    from omnivoice.lm.norm import RMSNorm

    norm = RMSNorm(4, 1e-6, device=CPU, dtype=torch.float32)
    norm.weight.fill_(1.0)
    result = cuda.place(norm)(torch.ones(2, 4, device=CUDA))
    assert norm.weight.device == CUDA and torch.allclose(result.cpu(), torch.ones(2, 4))
    assert any(where.startswith("lm/norm.py:") for _, where in cuda.kernels)


def test_nothing_of_it_stays(cuda):
    with pytest.raises(DeviceMixError):
        torch.ones(3, device=CUDA) + torch.ones(3)
    cuda.__exit__(None, None, None)
    try:
        with pytest.raises((AssertionError, RuntimeError)):
            torch.ones(3).to("cuda")
    finally:
        cuda.__enter__()
