"""Stale guidance and kept prefixes: equal to exact in their limits, and in between what they claim to be.

The references are a second formulation: whole documents, layer by layer, with the prefix rows of an older pass put
in place of those of now; and the exact loop with logits handed over by hand.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from omnivoice import Engine, GenerationRequest, InputError, Sampling
from omnivoice.generate.experimental import Pass, conditional_only, is_experimental, passes, targets_alone
from omnivoice.generate.graphs import StepGraphs
from omnivoice.generate.noise import BatchNoise
from omnivoice.generate.pack import Item, pack_items
from omnivoice.generate.sample import Sampler, item_noise
from omnivoice.generate.schedule import reveal_counts, time_grid
from omnivoice.generate.step import Cells, guided_log_probs, reveal
from omnivoice.lm.prefix import PrefixCache
from omnivoice.types import ALL_SPEEDUPS, VoicePrompt

CPU = torch.device("cpu")
SETTINGS = [
    Sampling(steps=9),
    Sampling(steps=9, guidance=0.0),
    Sampling(steps=5, class_temperature=1.0),
    Sampling(steps=9, position_temperature=0.0),
]
BOTH = {"unconditional_every": 2, "prefix_refresh": 0.1}


@pytest.fixture(scope="module", autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def engine(checkpoint):
    return Engine.load(checkpoint)


@pytest.fixture(scope="module")
def lm(engine):
    return engine.lm


def items(config):
    """With a reference, without one, and with so few frames that it is done before the last step."""
    reference = torch.arange(35).view(1, 35).repeat(config.codebooks, 1)
    return [Item((1, 2, 3, 4), reference, 40), Item((9, 8, 7), None, 30), Item((5, 6), reference[:, :4], 1)]


def codes_of(config, frames, seed=0, masked=0.7):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 1024, (config.codebooks, frames), generator=generator)
    return codes.masked_fill(torch.rand(codes.shape, generator=generator) < masked, config.audio_mask_id)


def spoken(engine, sampling, which=None, speedups=ALL_SPEEDUPS, graphs=None):
    """Tokens of the items, or of those named, of one batch; every item has a seed of its own."""
    config, which = engine.lm.config, range(3) if which is None else which
    batch = [items(config)[i] for i in which]
    noises = item_noise(config, batch, [torch.Generator().manual_seed(i) for i in which], sampling)
    sampler = Sampler(engine.lm, engine.sampler.text, CPU, speedups, graphs or StepGraphs(mode="off"))
    return sampler.sample(batch, noises, sampling, lambda _: None)


def same(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


# Which steps compute what.


def test_nothing_is_experimental_by_default():
    assert not is_experimental(Sampling())
    assert is_experimental(Sampling(unconditional_every=2))
    assert is_experimental(Sampling(prefix_refresh=1e-9))


def test_unconditional_at_every_nth_step_and_the_first_and_the_last():
    made = passes(Sampling(steps=9, unconditional_every=3))
    assert [p.unconditional for p in made] == [True, False, False, True, False, False, True, False, True]
    assert all(p.prefix for p in made)
    made = passes(Sampling(steps=5, unconditional_every=64))
    assert [p.unconditional for p in made] == [True, False, False, False, True]
    assert passes(Sampling(steps=1, unconditional_every=64, prefix_refresh=1.0)) == (Pass(True, True),)


def test_prefix_is_refreshed_when_so_much_has_been_revealed_since():
    """The share that a long item has revealed before each step, counted; the schedule rounds up by under a token."""
    sampling, tokens = Sampling(steps=32, prefix_refresh=0.1), 10**6
    counts, refreshed, last = reveal_counts(tokens, 32, sampling.t_shift), [], 0.0
    for step, made in enumerate(passes(sampling)):
        share = sum(counts[:step]) / tokens
        assert made.prefix == (step == 0 or share - last >= 0.1 - 1e-4)
        if made.prefix:
            last = share
            refreshed.append(step)
    assert refreshed == [0, 17, 23, 27, 29, 30, 31]
    assert [p.prefix for p in passes(replace(sampling, prefix_refresh=1.0))] == [True] + [False] * 31


@pytest.mark.parametrize("steps", [1, 2, 32, 256])
@pytest.mark.parametrize("t_shift", [0.01, 0.1, 1.0, 10.0])
def test_the_tiniest_share_refreshes_at_every_step(steps, t_shift):
    assert all(p.prefix for p in passes(Sampling(steps=steps, t_shift=t_shift, prefix_refresh=1e-9)))


# Equal to exact in the limits.


@pytest.mark.parametrize("sampling", SETTINGS)
def test_a_refresh_at_every_step_gives_equal_tokens(engine, sampling):
    assert same(spoken(engine, replace(sampling, prefix_refresh=1e-9)), spoken(engine, sampling))


def test_defaults_take_the_exact_steps_and_the_others_their_own(engine, monkeypatch):
    made = []
    monkeypatch.setattr("omnivoice.generate.sample.ExperimentalSteps", lambda *args: made.append(args))
    spoken(engine, Sampling(steps=2, unconditional_every=1, prefix_refresh=0.0))
    assert made == []
    with pytest.raises(TypeError, match="not callable"):
        spoken(engine, Sampling(steps=2, prefix_refresh=0.5))
    assert len(made) == 1


@pytest.mark.parametrize("guided", [True, False])
@pytest.mark.parametrize("targets_only", [True, False])
@pytest.mark.parametrize("unconditional", [True, False])
def test_a_pass_without_prefix_equals_the_whole_one_on_the_same_codes(lm, engine, guided, targets_only, unconditional):
    packed = pack_items(lm, engine.sampler.text, items(lm.config), guided=guided, device=CPU)
    codes = codes_of(lm.config, sum(packed.frames))
    cache = PrefixCache(lm.config.layers, [39, 3, 6])
    whole = lm(packed.rows(lm, codes, packed.base), packed.layout, targets_only=targets_only, sees=cache.keep)
    exact = lm(packed.rows(lm, codes, packed.base), packed.layout, targets_only=targets_only)
    assert torch.equal(whole, exact)
    part = targets_alone(packed if unconditional else conditional_only(packed))
    assert len(part.layout.target_rows) == sum(part.layout.lengths) == len(part.base)
    got = lm(part.rows(lm, codes, part.base), part.layout, targets_only=targets_only, sees=cache.join)
    torch.testing.assert_close(got, exact[: len(got)], atol=1e-5, rtol=1e-5)
    assert len(got) == sum(packed.frames) * (2 if guided and unconditional else 1)


def test_conditional_documents_alone_equal_those_in_company(lm, engine):
    packed = pack_items(lm, engine.sampler.text, items(lm.config), guided=True, device=CPU)
    codes, alone = codes_of(lm.config, 71), conditional_only(packed)
    exact = lm(packed.rows(lm, codes, packed.base), packed.layout)[:71]
    torch.testing.assert_close(lm(alone.rows(lm, codes, alone.base), alone.layout), exact, atol=1e-5, rtol=1e-5)


# In between: what they claim to be.


def test_a_stale_prefix_is_that_of_the_older_pass(lm, engine):
    """Other codes than those of the refresh: every layer's prefix rows are the older pass's, its targets are new."""
    packed = conditional_only(pack_items(lm, engine.sampler.text, items(lm.config)[:1], guided=True, device=CPU))
    old, new = codes_of(lm.config, 40, seed=1, masked=0.9), codes_of(lm.config, 40, seed=2, masked=0.4)
    cache, part = PrefixCache(lm.config.layers, [39]), targets_alone(packed)
    x_old = packed.rows(lm, old, packed.base)
    lm(x_old, packed.layout, sees=cache.keep)
    got = lm(part.rows(lm, new, part.base), part.layout, sees=cache.join)

    x_new = packed.rows(lm, new, packed.base)
    for layer in lm.llm.layers:
        mixed = torch.cat((x_old[:39], x_new[39:]))
        x_old, x_new = layer(x_old, packed.layout), layer(mixed, packed.layout)
    expected = lm.audio_heads(lm.llm.norm(x_new[39:])).unflatten(-1, got.shape[1:])
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    exact = lm(packed.rows(lm, new, packed.base), packed.layout)
    assert float((got - exact).abs().max()) > 1e-3


@pytest.mark.parametrize("every", [2, 64])
@pytest.mark.parametrize("sampling", [SETTINGS[0], SETTINGS[2]])
def test_stale_guidance_uses_the_last_unconditional_logits(engine, sampling, every):
    """With every > steps: those of the first step throughout, but for the last step."""
    lm, batch, masked = engine.lm, items(engine.lm.config), engine.lm.config.audio_mask_id
    noises = item_noise(lm.config, batch, [torch.Generator().manual_seed(i) for i in range(3)], sampling)
    packed = pack_items(lm, engine.sampler.text, batch, guided=True, device=CPU)
    steps, K = sampling.steps, lm.config.codebooks
    counts = list(zip(*(reveal_counts(item.frames * K, steps, sampling.t_shift) for item in batch)))
    codes, kept = torch.full((K, 71), masked), None
    for step in range(steps):
        conditional, unconditional = lm(packed.rows(lm, codes, packed.base), packed.layout).chunk(2)
        kept = unconditional if step in (0, steps - 1) or step % every == 0 else kept
        scores = guided_log_probs(conditional, kept, sampling.guidance, ALL_SPEEDUPS, masked)
        codes, _ = reveal(
            codes,
            scores,
            Cells.of(K, packed.frames, CPU),
            step=step,
            counts=counts[step],
            noise=BatchNoise.of(noises, CPU),
            sampling=sampling,
            mask_id=masked,
        )
    got = spoken(engine, replace(sampling, unconditional_every=every))
    assert same(got, codes.split(packed.frames, dim=1))
    assert not same(got, spoken(engine, sampling))


def test_rows_that_a_step_saves(engine, monkeypatch):
    """Prefixes 39, 3 and 6 rows, targets 40, 30 and 1; guided, the targets count twice."""
    seen, original = [], engine.lm.llm.forward
    monkeypatch.setattr(engine.lm.llm, "forward", lambda x, *a, **k: seen.append(len(x)) or original(x, *a, **k))
    spoken(engine, Sampling(steps=4, unconditional_every=64, prefix_refresh=1.0))
    assert seen == [48 + 2 * 71, 71, 71, 2 * 71]
    seen.clear()
    spoken(engine, Sampling(steps=3, guidance=0.0, unconditional_every=2, prefix_refresh=1.0))
    assert seen == [48 + 71, 71, 71]


# In company with everything else.


@pytest.mark.parametrize("sampling", SETTINGS)
def test_an_item_alone_equals_the_item_in_a_batch(engine, sampling):
    sampling = replace(sampling, **BOTH)
    together = spoken(engine, sampling)
    for i, item in enumerate(together):
        assert same(spoken(engine, sampling, [i]), [item])
        assert int(item.max()) < 1024


@pytest.mark.parametrize("name", ["packed", "targets_only", "skip_unguided", "early_stop", "one_pass_guidance"])
def test_speedups_leave_experimental_tokens_as_they_are(engine, name):
    for sampling in (replace(SETTINGS[0], **BOTH), replace(SETTINGS[1], **BOTH)):
        plain = spoken(engine, sampling, speedups=replace(ALL_SPEEDUPS, **{name: False}))
        assert same(spoken(engine, sampling), plain)


def test_no_graph_is_asked_for(engine):
    class Graphs(StepGraphs):
        def runner(self, *args, **kwargs):
            raise AssertionError("asked for a graph")

    spoken(engine, Sampling(steps=2, unconditional_every=2), graphs=Graphs(mode="off"))


def request(**sampling):
    codes = torch.arange(20).repeat(8, 1)
    return GenerationRequest(
        text="Hello.", voice=VoicePrompt(codes, "Hi.", 0.1), seed=1, sampling=Sampling(steps=4, **sampling)
    )


def test_speech_says_what_was_used(engine):
    plain, guided, both = (
        " ".join(engine.generate([request(**options)])[0].warnings)
        for options in ({}, {"unconditional_every": 2}, {"unconditional_every": 3, "prefix_refresh": 0.25})
    )
    assert "experimental" not in plain
    assert "experimental: unconditional_every 2;" in guided
    assert "experimental: unconditional_every 3, prefix_refresh 0.25;" in both


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("unconditional_every", 0, "unconditional_every must be 1-64, got 0"),
        ("unconditional_every", 65, "unconditional_every must be 1-64, got 65"),
        ("unconditional_every", 2.0, "unconditional_every must be a whole number 1-64"),
        ("prefix_refresh", -0.1, "prefix_refresh must be 0-1, got -0.1"),
        ("prefix_refresh", float("nan"), "prefix_refresh must be 0-1"),
        ("prefix_refresh", 1.5, "prefix_refresh must be 0-1, got 1.5"),
    ],
)
def test_values_out_of_range_are_refused(engine, name, value, message):
    with pytest.raises(InputError, match=message):
        engine.plan([request(**{name: value})])


def test_the_schedules_share_is_what_a_batch_has_revealed():
    """The share that passes go by is within a token per step of what an item of any length has really revealed."""
    grid = time_grid(32, 0.1)
    for tokens in (8 * 16, 8 * 125):
        counts = reveal_counts(tokens, 32, 0.1)
        assert all(0 <= sum(counts[:step]) / tokens - grid[step] <= step / tokens + 1e-6 for step in range(32))
