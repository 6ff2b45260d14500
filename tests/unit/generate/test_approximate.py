"""The approximations: equal to exact at 1, and between the recomputed steps exactly what they are documented to be.

The expected values come from a second formulation: complete documents, layer by layer, with the prefix rows of an
earlier pass in place of the current ones; and the exact loop with the unconditional logits passed on by hand.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from omnivoice import Engine, GenerationRequest, InputError, Sampling
from omnivoice.generate.approximate import Pass, conditional_only, is_approximate, passes, without_prefix
from omnivoice.generate.graphs import StepGraphs
from omnivoice.generate.noise import item_noise
from omnivoice.generate.pack import Item, pack_items
from omnivoice.generate.presets import PRESETS
from omnivoice.generate.sample import Sampler
from omnivoice.generate.schedule import reveal_counts
from omnivoice.generate.step import Revealer, guided_log_probs
from omnivoice.lm.prefix import PrefixCache
from omnivoice.types import ALL_SPEEDUPS, VoicePrompt

CPU = torch.device("cpu")
SETTINGS = [
    Sampling(steps=9),
    Sampling(steps=9, guidance=0.0),
    Sampling(steps=5, class_temperature=1.0),
    Sampling(steps=9, position_temperature=0.0),
]
BOTH = {"unconditional_every": 3, "prefix_every": 4}


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
    noises = item_noise(
        config, [item.frames for item in batch], [torch.Generator().manual_seed(i) for i in which], sampling
    )
    sampler = Sampler(engine.lm, engine.sampler.text, CPU, speedups, graphs or StepGraphs(enabled=False))
    return sampler.sample(batch, noises, sampling, lambda _: None)


def same(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


# Which steps compute what.


def test_exact_by_default():
    assert not is_approximate(Sampling())
    assert is_approximate(Sampling(unconditional_every=2))
    assert is_approximate(Sampling(prefix_every=2))
    assert [name for name, preset in PRESETS.items() if is_approximate(preset.apply(Sampling()))] == ["fast"]


def steps_with(made, part):
    return [step for step, one in enumerate(made) if getattr(one, part)]


def test_the_unconditional_half_is_computed_every_n_steps_and_at_the_last():
    made = passes(Sampling(steps=9, unconditional_every=3))
    assert steps_with(made, "unconditional") == [0, 3, 6, 8] and all(one.prefix for one in made)
    assert steps_with(passes(Sampling(steps=5, unconditional_every=64)), "unconditional") == [0, 4]
    assert passes(Sampling(steps=1, unconditional_every=64, prefix_every=64)) == (Pass(True, True),)


def test_the_prefix_is_computed_every_n_steps_and_the_unconditional_half_with_it():
    made = passes(Sampling(steps=9, prefix_every=4))
    assert steps_with(made, "prefix") == [0, 4, 8] and all(one.unconditional for one in made)
    made = passes(Sampling(steps=9, prefix_every=4, unconditional_every=64))
    assert steps_with(made, "unconditional") == [0, 4, 8]


def test_fast_has_the_schedule_of_the_mlx_port():
    """SamplerConfig(16, cache_refresh=8, uncond_every=3): a refresh where step % 8 == 0; the unconditional branch
    in those steps and where step % 3 == 0."""
    made = passes(PRESETS["fast"].apply(Sampling()))
    assert len(made) == 16
    assert steps_with(made, "prefix") == [0, 8]
    assert steps_with(made, "unconditional") == [0, 3, 6, 8, 9, 12, 15]


# Equal to exact in the limits.


@pytest.mark.parametrize("sampling", SETTINGS)
def test_a_refresh_at_every_step_gives_equal_tokens(engine, sampling, monkeypatch):
    """With the approximate steps themselves, not the exact ones that a setting of 1 selects."""
    monkeypatch.setattr("omnivoice.generate.approximate.passes", lambda sampling: [Pass(True, True)] * sampling.steps)
    assert same(spoken(engine, replace(sampling, prefix_every=2, unconditional_every=2)), spoken(engine, sampling))


def test_only_settings_above_1_use_the_approximate_steps(engine, monkeypatch):
    made = []
    monkeypatch.setattr("omnivoice.generate.sample.ApproximateSteps", lambda *args: made.append(args))
    spoken(engine, Sampling(steps=2, unconditional_every=1, prefix_every=1))
    assert made == []
    with pytest.raises(TypeError, match="not callable"):
        spoken(engine, Sampling(steps=2, prefix_every=2))
    assert len(made) == 1


@pytest.mark.parametrize("guided", [True, False])
@pytest.mark.parametrize("targets_only", [True, False])
@pytest.mark.parametrize("unconditional", [True, False])
def test_a_pass_without_prefix_equals_the_whole_one_on_the_same_codes(lm, engine, guided, targets_only, unconditional):
    packed = pack_items(lm, engine.sampler.text, items(lm.config), guided=guided, device=CPU)
    codes = codes_of(lm.config, sum(packed.frames))
    cache = PrefixCache(lm.config.layers, packed.layout.target_rows)
    whole = lm(packed.rows(lm, codes, packed.base), packed.layout, targets_only=targets_only, kv=cache.refresh)
    exact = lm(packed.rows(lm, codes, packed.base), packed.layout, targets_only=targets_only)
    assert torch.equal(whole, exact)
    part = without_prefix(packed if unconditional else conditional_only(packed))
    assert len(part.layout.target_rows) == sum(part.layout.lengths) == len(part.base)
    got = lm(part.rows(lm, codes, part.base), part.layout, targets_only=targets_only, kv=cache.reuse)
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
    cache, part = PrefixCache(lm.config.layers, packed.layout.target_rows), without_prefix(packed)
    x_old = packed.rows(lm, old, packed.base)
    lm(x_old, packed.layout, kv=cache.refresh)
    got = lm(part.rows(lm, new, part.base), part.layout, kv=cache.reuse)

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
    noises = item_noise(
        lm.config, [item.frames for item in batch], [torch.Generator().manual_seed(i) for i in range(3)], sampling
    )
    packed = pack_items(lm, engine.sampler.text, batch, guided=True, device=CPU)
    steps, K = sampling.steps, lm.config.codebooks
    counts = list(zip(*(reveal_counts(item.frames * K, steps, sampling.t_shift) for item in batch)))
    codes, kept = torch.full((K, 71), masked), None
    revealer = Revealer.of(noises, sampling, masked, CPU)
    for step in range(steps):
        conditional, unconditional = lm(packed.rows(lm, codes, packed.base), packed.layout).chunk(2)
        kept = unconditional if step in (0, steps - 1) or step % every == 0 else kept
        scores = guided_log_probs(conditional, kept, sampling.guidance, ALL_SPEEDUPS, masked)
        codes, _ = revealer.reveal(codes, scores, step, counts[step])
    got = spoken(engine, replace(sampling, unconditional_every=every))
    assert same(got, codes.split(packed.frames, dim=1))
    assert not same(got, spoken(engine, sampling))


def test_rows_that_run_at_each_step(engine, monkeypatch):
    """Prefixes 39, 3 and 6 rows, targets 40, 30 and 1; with guidance the targets count twice."""
    seen, original = [], engine.lm.llm.forward
    monkeypatch.setattr(engine.lm.llm, "forward", lambda x, *a, **k: seen.append(len(x)) or original(x, *a, **k))
    spoken(engine, Sampling(steps=4, unconditional_every=64, prefix_every=64))
    assert seen == [48 + 2 * 71, 71, 71, 2 * 71]
    seen.clear()
    spoken(engine, Sampling(steps=3, guidance=0.0, unconditional_every=2, prefix_every=64))
    assert seen == [48 + 71, 71, 71]
    seen.clear()
    spoken(engine, Sampling(steps=6, unconditional_every=2, prefix_every=3))
    assert seen == [48 + 2 * 71, 71, 2 * 71, 48 + 2 * 71, 2 * 71, 2 * 71]


# In company with everything else.


@pytest.mark.parametrize("sampling", SETTINGS)
def test_an_item_alone_equals_the_item_in_a_batch(engine, sampling):
    sampling = replace(sampling, **BOTH)
    together = spoken(engine, sampling)
    for i, item in enumerate(together):
        assert same(spoken(engine, sampling, [i]), [item])
        assert int(item.max()) < 1024


@pytest.mark.parametrize("name", ["packed", "targets_only", "skip_unguided", "early_stop", "one_pass_guidance"])
def test_speedups_do_not_change_approximate_tokens(engine, name):
    for sampling in (replace(SETTINGS[0], **BOTH), replace(SETTINGS[1], **BOTH)):
        plain = spoken(engine, sampling, speedups=replace(ALL_SPEEDUPS, **{name: False}))
        assert same(spoken(engine, sampling), plain)


def test_no_graph_is_asked_for(engine):
    class Graphs(StepGraphs):
        def runner(self, *args, **kwargs):
            raise AssertionError("asked for a graph")

    spoken(engine, Sampling(steps=2, unconditional_every=2), graphs=Graphs(enabled=False))


def request(**sampling):
    codes = torch.arange(20).repeat(8, 1)
    return GenerationRequest(
        text="Hello.", voice=VoicePrompt(codes, "Hi.", 0.1), seed=1, sampling=Sampling(steps=4, **sampling)
    )


def test_speech_says_what_was_used(engine):
    plain, guided, both = (
        " ".join(engine.generate([request(**options)])[0].warnings)
        for options in ({}, {"unconditional_every": 2}, {"unconditional_every": 3, "prefix_every": 8})
    )
    assert "approximate" not in plain
    assert "approximate: unconditional half of guidance every 2 steps;" in guided
    assert "approximate: prefix recomputed every 8 steps, unconditional half of guidance every 3 steps;" in both


@pytest.mark.parametrize("name", ["unconditional_every", "prefix_every"])
@pytest.mark.parametrize(
    ("value", "message"),
    [(0, "must be 1-64, got 0"), (65, "must be 1-64, got 65"), (2.0, "whole number 1-64"), (True, "got True")],
)
def test_values_out_of_range_are_refused(engine, name, value, message):
    with pytest.raises(InputError, match=f"{name} must be.*{message.removeprefix('must be ')}"):
        engine.plan([request(**{name: value})])
