"""The packed row must compute what separate, unpadded documents would; and what a masked, padded batch would."""

import pytest
import torch
import torch.nn.functional as F

from omnivoice.config import LMConfig
from omnivoice.lm import OmniVoiceLM, PackedLayout
from omnivoice.lm.body import rotate
from omnivoice.ops import TorchOps

CPU = torch.device("cpu")
CONFIG = LMConfig(
    vocab_size=50, hidden_size=24, intermediate_size=32, layers=3, heads=4, kv_heads=2, head_dim=8, rms_norm_eps=1e-6,
    rope_theta=10000.0, codebooks=3, audio_vocab_size=11, audio_mask_id=10, pad_token_id=None,
)  # fmt: skip


@pytest.fixture(scope="module")
def lm():
    module = OmniVoiceLM(CONFIG, ops=TorchOps, device=CPU, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return module.eval().requires_grad_(False)


def layout(lengths, targets):
    return PackedLayout.build(lengths, targets, head_dim=8, theta=10000.0, device=CPU)


def rows(count, seed=1):
    return torch.randn(count, 24, generator=torch.Generator().manual_seed(seed))


def test_layout_of_two_documents():
    packed = layout([5, 3], [2, 3])
    assert packed.spans == ((0, 5), (5, 8))
    assert packed.target_spans == ((0, 2), (2, 5))
    assert packed.target_rows.tolist() == [3, 4, 5, 6, 7]
    assert torch.equal(packed.rope[0][5], packed.rope[0][0])  # positions restart in each document
    assert torch.equal(packed.target_rope[1], packed.rope[1][packed.target_rows])


@pytest.mark.parametrize("documents", [[(1, 1)], [(9, 4)], [(9, 4), (4, 4)], [(7, 2), (30, 11), (1, 1), (2, 1)]])
def test_packed_equals_each_document_alone(lm, documents):
    lengths, targets = zip(*documents)
    x = rows(sum(lengths))
    together = lm(x, layout(lengths, targets))
    alone = [lm(part, layout([n], [t])) for part, n, t in zip(x.split(list(lengths)), lengths, targets)]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)
    assert torch.isfinite(together).all()


def test_targets_only_equals_the_tail_of_all_rows(lm):
    x = rows(12)
    torch.testing.assert_close(lm(x, layout([12], [5])), lm(x, layout([12], [12]))[-5:], atol=1e-5, rtol=1e-5)


def masked_forward(lm, x, spans):
    """The same network on one row with a block mask: another formulation, to compare with."""
    S = x.shape[0]
    mask = torch.full((S, S), -torch.inf)
    for start, end in spans:
        mask[start:end, start:end] = 0
    packed = layout([b - a for a, b in spans], [b - a for a, b in spans])
    for layer in lm.llm.layers:
        normed, attention = layer.input_layernorm(x), layer.self_attn
        qw, kw, vw = attention.qkv_proj.weight.split((32, 16, 16))
        q = rotate(attention.q_norm(F.linear(normed, qw).view(S, 4, 8)), *packed.rope)
        k = rotate(attention.k_norm(F.linear(normed, kw).view(S, 2, 8)), *packed.rope)
        v = F.linear(normed, vw).view(S, 2, 8)
        out = torch.zeros(S, 4, 8)
        for head in range(4):
            scores = q[:, head] @ k[:, head // 2].T / 8**0.5 + mask
            out[:, head] = F.softmax(scores, dim=-1) @ v[:, head // 2]
        x = x + attention.o_proj(out.flatten(1))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
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
    torch.testing.assert_close(lm.embed_audio(codes), expected)


def test_has_no_buffers_and_parameters_on_leaf_modules_only(lm):
    assert not list(lm.buffers())
    for module in lm.modules():
        assert not (list(module.children()) and list(module.parameters(recurse=False)))
        assert "device" not in vars(type(module))
