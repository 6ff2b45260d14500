"""How many tokens are revealed when, and which random numbers choose them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.generate.noise import draw_noise, gumbel, seeded_generator
from omnivoice.generate.schedule import reveal_counts
from omnivoice.generate.step import Revealer
from omnivoice.types import Sampling


def test_schedule_of_one_second():
    """upstream.md §5 case 9: 25 frames, 32 steps, shift 0.1."""
    expected = [1] * 7 + [2] * 9 + [3] * 3 + [4, 4, 5, 5, 6, 7, 8, 10, 13, 16, 22, 32, 34]
    assert list(reveal_counts(200, 32, 0.1)) == expected


def test_schedule_of_one_frame_is_done_early():
    assert list(reveal_counts(8, 32, 0.1)) == [1] * 8 + [0] * 24


@given(st.integers(1, 4000), st.integers(1, 256), st.floats(0.01, 10))
@settings(max_examples=200, deadline=None)
def test_everything_is_revealed_once(tokens, steps, shift):
    counts = reveal_counts(tokens, steps, shift)
    assert len(counts) == steps
    assert sum(counts) == tokens
    assert min(counts) >= 0


def upstream_draws(seed, shapes, counts, sampling):
    """rand_like from the global generator, step by step, item by item (models/omnivoice.py:1371)."""
    torch.manual_seed(seed)
    draws = []
    for step in range(sampling.steps):
        for i, (K, T, V) in enumerate(shapes):
            if counts[i][step] <= 0:
                continue
            if sampling.class_temperature > 0:
                draws.append((i, step, "class", torch.rand_like(torch.empty(1, K, T, V))[0]))
            if sampling.position_temperature > 0:
                draws.append((i, step, "position", torch.rand_like(torch.empty(1, K, T))[0]))
    return draws


@pytest.mark.parametrize("temperatures", [(5.0, 0.0), (5.0, 1.0), (0.0, 1.0), (0.0, 0.0)])
def test_shared_generator_draws_in_upstreams_order(temperatures):
    position, classes = temperatures
    sampling = Sampling(steps=6, position_temperature=position, class_temperature=classes)
    shapes = [(8, 3, 17), (8, 1, 17), (8, 5, 17)]
    counts = [reveal_counts(K * T, 6, 0.1) for K, T, _ in shapes]
    generator = torch.Generator().manual_seed(9)
    noises = draw_noise([generator] * 3, shapes, counts, sampling)
    drawn = set()
    cpu = torch.device("cpu")
    for i, step, kind, uniform in upstream_draws(9, shapes, counts, sampling):
        draw = gumbel(noises[i].class_uniform(step, cpu)) if kind == "class" else noises[i].positions[step]
        assert torch.equal(draw, gumbel(uniform))
        drawn.add((i, step, kind))
    for i in range(3):
        for step in range(6):
            positions = noises[i].positions
            assert ((i, step, "position") in drawn) == (positions is not None and bool(positions[step].any()))
            assert ((i, step, "class") in drawn) == (noises[i].class_uniform(step, cpu) is not None)
    if drawn:  # the stream ends where upstream's does
        assert torch.equal(torch.rand(1), torch.rand(1, generator=generator))


def test_own_generators_do_not_see_each_other():
    shapes, sampling = [(8, 4, 9), (8, 2, 9)], Sampling(steps=3, class_temperature=1.0)
    counts = [reveal_counts(K * T, 3, 0.1) for K, T, _ in shapes]
    both = draw_noise([torch.Generator().manual_seed(s) for s in (1, 2)], shapes, counts, sampling)
    alone = draw_noise([torch.Generator().manual_seed(2)], shapes[1:], counts[1:], sampling)
    cpu = torch.device("cpu")
    for step in range(3):
        assert torch.equal(both[1].positions[step], alone[0].positions[step])
        assert torch.equal(both[1].class_uniform(step, cpu), alone[0].class_uniform(step, cpu))


def test_global_generator_is_untouched():
    state = torch.random.get_rng_state()
    noise = draw_noise(
        [torch.Generator().manual_seed(1)], [(8, 4, 9)], [(1, 1)], Sampling(steps=2, class_temperature=1)
    )
    noise[0].class_uniform(0, torch.device("cpu"))
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("position", [5.0, 0.0])
@pytest.mark.parametrize("classes", [1.0, 0.0])
def test_a_batch_holds_its_items_noise_side_by_side(position, classes):
    sampling = Sampling(steps=4, position_temperature=position, class_temperature=classes)
    shapes = [(8, 3, 9), (8, 1, 9), (8, 2, 9)]
    counts = [reveal_counts(K * T, 4, 0.1) for K, T, _ in shapes]
    noises = draw_noise([torch.Generator().manual_seed(s) for s in range(3)], shapes, counts, sampling)
    batch = Revealer.of(noises, sampling, 8, torch.device("cpu"))
    assert batch.noises == (tuple(noises) if classes else ())
    if not position:
        assert batch.positions is None
        return
    assert batch.positions.shape == (4, 8, 6)
    for noise, part in zip(noises, batch.positions.split([3, 1, 2], dim=2)):
        assert torch.equal(part, noise.positions)


RECORDED = {  # the first numbers of torch.manual_seed, as recorded from torch 2.13
    0: (0.49625659, 0.768221796, 0.088477433),
    7: (0.53492254, 0.198803186, 0.659211695),
    2**32 - 1: (0.993799388, 0.571306348, 0.570008039),
}
LARGE = {
    2**32: (0.926541746, 0.935725927, 0.96418798),
    2**32 + 7: (0.730275393, 0.969574034, 0.801848888),
    2**64 - 1: (0.587379336, 0.68730402, 0.552402496),
}


@pytest.mark.parametrize("seed", RECORDED)
def test_seeds_of_32_bits_give_torchs_own_numbers(seed):
    numbers = torch.rand(1000, generator=seeded_generator(seed))
    assert torch.equal(numbers, torch.rand(1000, generator=torch.Generator().manual_seed(seed)))
    assert numbers[:3].tolist() == pytest.approx(RECORDED[seed], abs=1e-8)


@pytest.mark.parametrize("seed", LARGE)
def test_larger_seeds_give_recorded_numbers(seed):
    assert torch.rand(3, generator=seeded_generator(seed)).tolist() == pytest.approx(LARGE[seed], abs=1e-8)


def test_every_bit_of_a_seed_counts():
    """Seeds that share their low 32 bits, and seeds that differ in one high bit."""
    seeds = [7, 7 << 32, (7 << 32) + 7, 2**64 - 1, 2**32 - 1, *(7 + (1 << bit) for bit in range(32, 64))]
    streams = {tuple(torch.rand(4, generator=seeded_generator(seed)).tolist()) for seed in seeds}
    assert len(streams) == len(seeds)


def test_a_large_seed_gives_numbers_like_any_other():
    """Beyond the 624 words of the state, after which it is regenerated; and a saved state repeats them."""
    generator = seeded_generator(2**40 + 1)
    state = generator.get_state()
    numbers = torch.rand(10_000, generator=generator)
    assert abs(float(numbers.mean()) - 0.5) < 0.02 and abs(float(numbers.var()) - 1 / 12) < 0.005
    assert len(numbers.unique()) > 9_900
    generator.set_state(state)
    assert torch.equal(numbers, torch.rand(10_000, generator=generator))
    assert generator.initial_seed() == 2**40 + 1
