"""What a decoding step costs the host: kernels launched, and no wait for the device, counted on a simulated GPU."""

import dataclasses

import pytest
import torch

from omnivoice import Engine, Sampling
from omnivoice.config import LMConfig
from omnivoice.generate.graphs import StepGraphs
from omnivoice.generate.noise import item_noise
from omnivoice.generate.pack import Item
from omnivoice.generate.sample import Sampler
from omnivoice.lm import OmniVoiceLM, TextEmbedding
from omnivoice.ops import PLAIN_OPS
from omnivoice.types import ALL_SPEEDUPS
from tests.simulated_cuda import CPU, CUDA, SimulatedCuda, StepCounts
from tests.simulated_graphs import STEPS, SimulatedCapturer

pytestmark = pytest.mark.usefixtures("graphs_of_few_steps")

# Tokens of the prompt, frames of the reference, frames to speak. Longer speech takes no more kernels.
CLONE = (20, 30, 30)
LINE = (6, 0, 6)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def config(checkpoint) -> LMConfig:
    """As many layers and heads as the published model, all of them narrow."""
    small = Engine.load(checkpoint).lm.config
    sizes = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 8}
    return dataclasses.replace(small, layers=28, heads=16, kv_heads=8, **sizes)


def model_of(config, dtype):
    """A random model on the CPU."""
    lm = OmniVoiceLM(config, ops=PLAIN_OPS, device=CPU, dtype=dtype).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for weight in lm.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.05)
    return lm


def items_of(config, sizes):
    generator = torch.Generator().manual_seed(1)
    codes = [torch.randint(0, config.audio_mask_id, (config.codebooks, a), generator=generator) for _, a, _ in sizes]
    return [Item(tuple(range(1, p + 1)), own if a else None, t) for (p, a, t), own in zip(sizes, codes)]


def sample(lm, sizes, device, on_step=lambda _: None, *, steps=4, graphs=None, **knobs):
    """Codes of the items, spoken on `device`."""
    items, sampling = items_of(lm.config, sizes), Sampling(steps=steps, **knobs)
    generators = [torch.Generator().manual_seed(i) for i in range(len(items))]
    noises = item_noise(lm.config, [item.frames for item in items], generators, sampling)
    text = TextEmbedding(torch.randn(lm.config.vocab_size, lm.config.hidden_size, generator=generators[0]))
    sampler = Sampler(lm, text, device, ALL_SPEEDUPS, graphs or StepGraphs(enabled=False))
    return sampler.sample(items, noises, sampling, on_step)


# Upper bars: the kernels of one step, whatever it is that the step computes.
@pytest.mark.parametrize("sizes, bar", [([CLONE], 450), ([LINE] * 48, 500)], ids=["one clone", "48 lines"])
def test_a_step_launches_few_kernels_and_never_waits_for_the_device(config, sizes, bar):
    with SimulatedCuda() as cuda:
        lm, counts = cuda.place(model_of(config, torch.bfloat16)), StepCounts(cuda)
        sample(lm, sizes, CUDA, counts, steps=2)
    assert [dict(waits) for waits in counts.syncs] == [{}]
    launched = counts.kernels[0]
    if not hasattr(torch.ops.aten.addmm, "dtype_out"):  # torch before 2.8: the residual is added by a kernel of its own
        bar += 2 * config.layers
    assert launched.total() <= bar, f"{launched.total()} kernels, most of them {launched.most_common(12)}"


@pytest.mark.parametrize("sizes", [[CLONE], [LINE] * 4], ids=["one clone", "4 lines"])
def test_sampled_tokens_never_wait_for_the_device(config, sizes):
    with SimulatedCuda() as cuda:
        lm, counts = cuda.place(model_of(config, torch.bfloat16)), StepCounts(cuda)
        sample(lm, sizes, CUDA, counts, steps=3, class_temperature=0.5)
    assert [dict(waits) for waits in counts.syncs] == [{}, {}]


@pytest.mark.parametrize("knobs", [{}, {"guidance": 0.0}, {"class_temperature": 0.5}, {"position_temperature": 0.0}])
def test_tokens_on_the_device_are_those_on_the_cpu(checkpoint, knobs):
    lm = Engine.load(checkpoint).lm
    sizes = [(5, 7, 6), (4, 0, 9), (3, 0, 1)]
    expected = sample(lm, sizes, CPU, **knobs)
    with SimulatedCuda() as cuda:
        spoken = sample(cuda.place(lm), sizes, CUDA, **knobs)
    assert cuda.kernels and all(map(torch.equal, spoken, expected))


def test_the_host_stays_two_steps_ahead_of_the_device(checkpoint):
    seen = []
    with SimulatedCuda() as cuda:
        lm = cuda.place(Engine.load(checkpoint).lm)
        sample(lm, [(5, 7, 9)], CUDA, lambda _: seen.append(len(cuda.events)))
    expected = [
        ("recorded", 0),
        ("recorded", 1),
        ("recorded", 2),
        ("waited for", 0),
        ("recorded", 3),
        ("waited for", 1),
    ]
    assert cuda.events == expected and seen == [1, 2, 4, 6]


def test_a_captured_step_is_one_launch_and_gives_the_same_tokens(checkpoint):
    lm, sizes = Engine.load(checkpoint).lm, [(5, 7, 20), (4, 0, 9)]
    expected = sample(lm, sizes, CPU, steps=STEPS)
    with SimulatedCuda() as cuda:
        capturer, counts = SimulatedCapturer(cuda), StepCounts(cuda)
        graphs, placed = StepGraphs(capturer), cuda.place(lm)
        spoken = [sample(placed, sizes, CUDA, counts, steps=STEPS, graphs=graphs) for _ in range(2)]
    assert all(torch.equal(a, b) for codes in spoken for a, b in zip(codes, expected))
    assert capturer.captured == 1 and capturer.replayed == 2 * STEPS + 1
    assert graphs.report() == "CUDA graphs: used" and counts.kernels[0].total() < 40
    assert [dict(waits) for waits in counts.syncs[: STEPS - 1]] == [{}] * (STEPS - 1)


def test_a_captured_step_reads_the_weights_that_are_there_when_it_is_replayed(checkpoint):
    """And new weights at another place drop it."""
    lm, sizes = Engine.load(checkpoint).lm, [(5, 7, 20)]
    with SimulatedCuda() as cuda:
        capturer = SimulatedCapturer(cuda)
        graphs, placed = StepGraphs(capturer), cuda.place(lm)
        before = sample(placed, sizes, CUDA, steps=STEPS, graphs=graphs)
        weight = placed.llm.layers[0].self_attn.o_proj.weight
        weight.mul_(-1.0)
        changed = sample(placed, sizes, CUDA, steps=STEPS, graphs=graphs)
        assert capturer.captured == 1 and not torch.equal(before[0], changed[0])
        placed.llm.layers[0].self_attn.o_proj.weight = torch.nn.Parameter(weight.mul(-1.0), requires_grad=False)
        weight.fill_(torch.nan)
        again = sample(placed, sizes, CUDA, steps=STEPS, graphs=graphs)
    assert capturer.captured == 2 and torch.equal(before[0], again[0])
