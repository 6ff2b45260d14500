"""The packed row must compute what separate, unpadded documents would; and what a masked, padded batch would."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from omnivoice.config import LMConfig
from omnivoice.lm import OmniVoiceLM, PackedLayout, attention, body
from omnivoice.lm.fused import fused_rows, unfused_part
from omnivoice.lm.norm import RMSNorm
from omnivoice.ops import PLAIN_OPS, TORCH_OPS

CPU = torch.device("cpu")
CONFIG = LMConfig(
    vocab_size=50,
    hidden_size=24,
    intermediate_size=32,
    layers=3,
    heads=4,
    kv_heads=2,
    head_dim=8,
    rms_norm_eps=1e-6,
    rope_theta=10000.0,
    codebooks=3,
    audio_vocab_size=11,
    audio_mask_id=10,
)


@pytest.fixture(scope="module")
def lm():
    module = OmniVoiceLM(CONFIG, ops=TORCH_OPS, device=CPU, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        for layer in module.llm.layers:  # one scale for all heads of the queries, and one for those of the keys
            scale = layer.self_attn.qk_norm.weight
            scale[:4], scale[4:] = scale[0].clone(), scale[4].clone()
    return module.eval().requires_grad_(False)


def layout(lengths, targets):
    return PackedLayout.build(lengths, targets, head_dim=8, theta=10000.0, device=CPU)


def rows(count, seed=1):
    return torch.randn(count, 24, generator=torch.Generator().manual_seed(seed))


def test_layout_of_two_documents():
    packed = layout([5, 3], [2, 3])
    assert (packed.lengths, packed.target_lengths) == ((5, 3), (2, 3))
    assert packed.target_rows.tolist() == [3, 4, 5, 6, 7]
    assert torch.equal(packed.rope[0][5], packed.rope[0][0])  # positions restart in each document
    (first, one), (second, two) = packed.documents()
    assert (first, second) == (slice(0, 5), slice(5, 8))
    assert one.target_rows.tolist() == [3, 4] and two.target_rows.tolist() == [0, 1, 2]
    assert torch.equal(torch.cat((one.rope[0], two.rope[0])), packed.rope[0])


@pytest.mark.parametrize("documents", [[(1, 1)], [(9, 4)], [(9, 4), (4, 4)], [(7, 2), (30, 11), (1, 1), (2, 1)]])
def test_packed_equals_each_document_alone(lm, documents):
    lengths, targets = zip(*documents)
    x = rows(sum(lengths))
    together = lm(x, layout(lengths, targets))
    alone = [lm(part, layout([n], [t])) for part, n, t in zip(x.split(list(lengths)), lengths, targets)]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)
    assert torch.isfinite(together).all()


def test_torch_2_4_computes_the_same_without_grouped_heads(lm, monkeypatch):
    x, packed = rows(48), layout([7, 40, 1], [2, 11, 1])
    expected, attend = lm(x, packed), F.scaled_dot_product_attention
    monkeypatch.setattr(attention, "TORCH_VERSION", (2, 4))
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda q, k, v: attend(q, k, v))  # takes nothing newer
    assert torch.equal(lm(x, packed), expected)


def test_no_version_of_torch_attends_with_the_slow_math_kernel(lm):
    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            called.add(func.name())
            return func(*args, **(kwargs or {}))

    called = set()
    with Recorder():
        lm(rows(48), layout([7, 40, 1], [2, 11, 1]))
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in called and "aten::bmm" not in called


def test_targets_only_equals_the_tail_of_all_rows(lm):
    x = rows(12)
    expected = lm(x, layout([12], [12]))[-5:]
    for targets_only in (True, False):
        got = lm(x, layout([12], [5]), targets_only=targets_only)
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows_in_cache", [1, 2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_queries_and_keys_in_blocks_equal_those_in_one(lm, monkeypatch, rows_in_cache, dtype):
    packed, joint = layout([5, 3], [2, 3]), rows(8).view(8, 3, 8).repeat(1, 2, 1).to(dtype)
    attention_layer = lm.llm.layers[1].self_attn
    whole = attention_layer._turned(joint, *packed.rope).to(dtype)
    monkeypatch.setattr(body, "ROWS_IN_CACHE", rows_in_cache)
    assert torch.equal(attention_layer._turned_in_blocks(joint, *packed.rope), whole)


def test_fused_linears_equal_their_parts(lm):
    apart = OmniVoiceLM(CONFIG, ops=PLAIN_OPS, device=CPU, dtype=torch.float32, fused=False)
    weights = lm.state_dict()
    for name, (fused, start, count) in fused_rows(CONFIG).items():
        weights[name] = unfused_part(name, weights[fused], start, count)
    for fused in {fused for fused, _, _ in fused_rows(CONFIG).values()}:
        del weights[fused]
    apart.load_state_dict(weights)
    x = rows(12)
    with torch.no_grad():
        torch.testing.assert_close(
            apart(x, layout([9, 3], [4, 3])), lm(x, layout([9, 3], [4, 3])), atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_norm_is_the_root_mean_square_of_float32_rounded_once(dtype, size):
    norm = RMSNorm(24, 1e-6, device=CPU, dtype=dtype)
    assert norm.weight.dtype == torch.float32
    norm.weight.data = torch.linspace(0.5, 2, 24)
    x = rows(7) * size
    before, wide = x.clone(), x.double()
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight.double()
    torch.testing.assert_close(norm(x), expected.to(dtype))
    assert torch.equal(x, before)


def masked_forward(lm, x, spans):
    """The same network on one row with a block mask: another formulation, to compare with."""
    S = x.shape[0]
    mask = torch.full((S, S), -torch.inf)
    for start, end in spans:
        mask[start:end, start:end] = 0
    positions = torch.cat([torch.arange(b - a) for a, b in spans])

    def turned(part, scale):  # by the angle of its position, pair by pair (d, d + D/2)
        part = F.rms_norm(part, (8,), scale, 1e-6)
        pairs = torch.complex(part[..., :4], part[..., 4:])
        angles = positions[:, None] / 10000.0 ** (torch.arange(4) / 4)
        spun = pairs * torch.polar(torch.ones(S, 4), angles)[:, None]
        return torch.cat((spun.real, spun.imag), dim=-1)

    for layer in lm.llm.layers:
        normed, attention = layer.input_layernorm(x), layer.self_attn
        qw, kw, vw = attention.qkv_proj.weight.split((32, 16, 16))
        q = turned(F.linear(normed, qw).view(S, 4, 8), attention.qk_norm.weight[0])
        k = turned(F.linear(normed, kw).view(S, 2, 8), attention.qk_norm.weight[4])
        v = F.linear(normed, vw).view(S, 2, 8)
        out = torch.zeros(S, 4, 8)
        for head in range(4):
            scores = q[:, head] @ k[:, head // 2].T / 8**0.5 + mask
            out[:, head] = F.softmax(scores, dim=-1) @ v[:, head // 2]
        x = x + attention.o_proj(out.flatten(1))
        x = layer.mlp(layer.post_attention_layernorm(x), x)
    return lm.audio_heads(lm.llm.norm(x)).unflatten(-1, (3, 11))


def test_packed_equals_masked_attention(lm):
    x = rows(15, seed=3)
    got = lm(x, layout([9, 6], [9, 6]))
    torch.testing.assert_close(got, masked_forward(lm, x, [(0, 9), (9, 15)]), atol=1e-4, rtol=1e-4)


def test_attention_is_bidirectional(lm):
    x = rows(6)
    changed = x.clone()
    changed[-1] += 1
    assert not torch.allclose(lm(x, layout([6], [6]))[0], lm(changed, layout([6], [6]))[0])


def test_audio_embedding_sums_the_rows_of_each_codebook(lm):
    codes = torch.tensor([[0, 10], [3, 10], [9, 10]])
    table = lm.audio_embeddings.weight
    expected = torch.stack([table[0] + table[11 + 3] + table[22 + 9], table[10] + table[21] + table[32]])
    torch.testing.assert_close(lm.embed_audio(codes, lm.audio_offsets(CPU)), expected)


def test_has_no_buffers_and_parameters_on_leaf_modules_only(lm):
    assert not list(lm.buffers())
    for module in lm.modules():
        assert not (list(module.children()) and list(module.parameters(recurse=False)))
        assert "device" not in vars(type(module))
