"""Attention over documents of a packed row: every kernel computes what separate documents would."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from omnivoice.lm import attention
from omnivoice.lm.attention import CUDA_KERNELS, attend, attend_by_length, cuda_kernel, flash, memory_efficient, varlen
from omnivoice.lm.layout import Spans
from tests.simulated_cuda import CPU, CUDA, SimulatedCuda

QUERIES, KEYS = (3, 1, 5, 5, 2), (7, 1, 5, 5, 2)  # fewer queries than keys, a single row, and a run of equal lengths


@pytest.fixture(autouse=True)
def fresh_choice():
    cuda_kernel.cache_clear()
    yield
    cuda_kernel.cache_clear()


@pytest.fixture
def qkv():
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator)
    return draw(sum(QUERIES), 4, 16), draw(sum(KEYS), 2, 16), draw(sum(KEYS), 2, 16)


def separate(q, k, v):
    """Each document by itself, written out."""
    k, v = k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)
    parts = []
    for own, keys, values in zip(q.split(QUERIES), k.split(KEYS), v.split(KEYS)):
        scores = torch.einsum("qhd,khd->hqk", own, keys) / q.shape[-1] ** 0.5
        parts.append(torch.einsum("hqk,khd->qhd", F.softmax(scores, dim=-1), values))
    return torch.cat(parts)


def spans(device):
    return Spans.of(QUERIES, device), Spans.of(KEYS, device)


def test_by_length_equals_separate_documents(qkv):
    torch.testing.assert_close(attend_by_length(*qkv, *spans(CPU)), separate(*qkv))
    assert attend(*qkv, *spans(CPU)).equal(attend_by_length(*qkv, *spans(CPU)))


def test_rows_after_the_last_document_are_ignored(qkv):
    q, k, v = qkv
    more = [torch.cat((t, torch.full((3, 2, 16), torch.nan))) for t in (k, v)]
    torch.testing.assert_close(attend(q, *more, *spans(CPU)), separate(q, k, v))


def test_a_run_of_equal_lengths_is_one_call(qkv, monkeypatch):
    sizes, inside = [], F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda q, *a, **k: sizes.append(len(q)) or inside(q, *a, **k)
    )
    attend(*qkv, *spans(CPU))
    assert sizes == [1, 1, 2, 1]


@pytest.mark.parametrize(
    "dtype, kernel", [(torch.float16, flash), (torch.bfloat16, flash), (torch.float32, memory_efficient)]
)
def test_cuda_attends_within_all_documents_in_one_call(qkv, dtype, kernel):
    with SimulatedCuda() as cuda:
        placed = [cuda.tensor(t.to(dtype)) for t in qkv]
        both = spans(CUDA)
        attend(*placed, *both)  # the first call looks for a kernel
        cuda.reset()
        got = attend(*placed, *both).cpu()
        assert sum(n for (name, _), n in cuda.kernels.items() if "attention" in name) == 1
        assert not [key for key in cuda.syncs if "attention.py" in key[1]]
        assert cuda_kernel(CUDA, dtype, 4, 2, 16) is kernel
    torch.testing.assert_close(got.float(), separate(*(t.to(dtype).float() for t in qkv)), atol=0.02, rtol=0.02)


def unavailable(*_):
    raise RuntimeError("not compiled")


def wrong(q, k, v, queries, keys):
    return flash(q, k, v, queries, keys) * 1.5


@pytest.mark.parametrize("first", [unavailable, wrong], ids=["unavailable", "wrong"])
@pytest.mark.parametrize("rest", [CUDA_KERNELS[1:], CUDA_KERNELS[2:], ()], ids=["varlen", "memory efficient", "none"])
def test_a_kernel_that_fails_or_is_wrong_is_passed_over(qkv, monkeypatch, first, rest):
    monkeypatch.setattr(attention, "CUDA_KERNELS", (first, *rest))
    with SimulatedCuda() as cuda:
        chosen = cuda_kernel(CUDA, torch.float16, 4, 2, 16)
        got = attend(*(cuda.tensor(t.half()) for t in qkv), *spans(CUDA)).cpu()
    available = [kernel for kernel in rest if kernel is not varlen or attention.TORCH_VERSION >= (2, 10)]
    assert chosen is (available[0] if available else attend_by_length)
    torch.testing.assert_close(got.float(), separate(*(t.half().float() for t in qkv)), atol=0.01, rtol=0.01)


def full(*_):
    raise torch.cuda.OutOfMemoryError("CUDA out of memory")


def test_a_full_gpu_does_not_count_against_a_kernel(qkv, monkeypatch):
    monkeypatch.setattr(attention, "CUDA_KERNELS", (full, *CUDA_KERNELS))
    with SimulatedCuda():
        with pytest.raises(torch.cuda.OutOfMemoryError):
            cuda_kernel(CUDA, torch.float16, 4, 2, 16)
        monkeypatch.setattr(attention, "CUDA_KERNELS", CUDA_KERNELS)
        assert cuda_kernel(CUDA, torch.float16, 4, 2, 16) is flash
