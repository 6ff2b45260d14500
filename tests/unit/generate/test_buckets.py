"""Batches that are filled up: one graph serves many texts, and no token changes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice import Engine, Sampling
from omnivoice.generate import sample as sample_module
from omnivoice.generate.buckets import BUCKET, filler, missing, rounded
from omnivoice.generate.graphs import StepGraphs
from omnivoice.generate.noise import item_noise
from omnivoice.generate.pack import Item, pack_items
from omnivoice.generate.sample import Sampler
from omnivoice.types import ALL_SPEEDUPS
from tests.simulated_cuda import CPU, CUDA, SimulatedCuda
from tests.simulated_graphs import STEPS, SimulatedCapturer

pytestmark = pytest.mark.usefixtures("graphs_of_few_steps")

SIZES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=3)


class Anywhere:
    """A capturer for every device, which is never asked to capture."""

    def suits(self, device):
        return True


@pytest.fixture(scope="module")
def lm(checkpoint):
    return Engine.load(checkpoint).lm


@pytest.fixture(scope="module")
def text(checkpoint):
    return Engine.load(checkpoint).sampler.text


def items_of(config, sizes):
    generator = torch.Generator().manual_seed(1)
    codes = [torch.randint(0, config.audio_mask_id, (config.codebooks, a), generator=generator) for _, a, _ in sizes]
    return [Item(tuple(range(1, p + 1)), own if a else None, t) for (p, a, t), own in zip(sizes, codes)]


def spoken(lm, text, sizes, device, graphs, guidance=2.0):
    """Codes of all items, one after the other."""
    items, sampling = items_of(lm.config, sizes), Sampling(steps=STEPS, guidance=guidance)
    generators = [torch.Generator().manual_seed(i) for i in range(len(items))]
    noises = item_noise(lm.config, [item.frames for item in items], generators, sampling)
    sampler = Sampler(lm, text, device, ALL_SPEEDUPS, graphs)
    with torch.no_grad():
        return torch.cat(sampler.sample(items, noises, sampling, lambda _: None), dim=1)


@given(st.integers(0, 5000))
def test_every_size_is_filled_by_at_least_one(count):
    assert 1 <= missing(count) <= BUCKET and (count + missing(count)) % BUCKET == 0
    assert count <= rounded(count) < count + 256 and rounded(count) % 256 == 0


@given(SIZES, st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_filler_is_the_last_document_of_each_half(lm, text, sizes, guided):
    items = items_of(lm.config, sizes)
    packed = pack_items(lm, text, [*items, filler(items)], guided=guided, device=CPU)
    targets = sum(packed.frames)
    assert targets % BUCKET == 0 and (len(packed.base) - targets * (1 + guided)) % BUCKET == 0
    assert packed.frames[:-1] == tuple(item.frames for item in items)


@given(SIZES, st.sampled_from([0.0, 2.0]))
@settings(max_examples=12, deadline=None)
def test_a_filler_changes_no_token(lm, text, sizes, guidance):
    alone = spoken(lm, text, sizes, CPU, StepGraphs(enabled=False), guidance)
    with pytest.MonkeyPatch.context() as patch:
        fills = []
        patch.setattr(sample_module, "reads_lengths_on_device", lambda *place: True)
        patch.setattr(sample_module, "filler", lambda items: fills.append(filler(items)) or fills[-1])
        filled = spoken(lm, text, sizes, CPU, StepGraphs(Anywhere(), enabled=False), guidance)
    assert len(fills) == 1 and torch.equal(alone, filled)


@pytest.mark.parametrize("guidance, mode", [(0.0, torch.no_grad), (2.0, torch.inference_mode)])
def test_one_graph_serves_texts_of_several_lengths_with_the_tokens_of_each(checkpoint, text, guidance, mode):
    each = [[(5, 7, 20)], [(1, 0, 9)], [(30, 0, 25)]]
    more = [[(5, 7, 20), (3, 0, 8)]]
    lm = Engine.load(checkpoint).lm
    expected = [spoken(lm, text, sizes, CPU, StepGraphs(enabled=False), guidance) for sizes in (*each, *more)]
    with mode(), SimulatedCuda() as cuda:
        placed, capturer = cuda.place(lm), SimulatedCapturer(cuda)
        graphs, captured = StepGraphs(capturer), []
        for sizes, wanted in zip((*each, *more, each[0]), (*expected, expected[0])):
            assert torch.equal(spoken(placed, text, sizes, CUDA, graphs, guidance), wanted), sizes
            captured.append(capturer.captured)
    assert captured == [1] * 3 + [2] + [2]  # one for one item, one for two
    assert graphs.report() == "CUDA graphs: used"


def test_no_filler_where_no_graph_could_be(lm, text, monkeypatch):
    monkeypatch.setattr(sample_module, "filler", lambda items: pytest.fail("a filler on the CPU"))
    spoken(lm, text, [(3, 2, 4)], CPU, StepGraphs(enabled=False))
