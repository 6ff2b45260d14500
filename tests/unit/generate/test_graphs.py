"""CUDA graphs without CUDA: a fake capturer that keeps the work and runs it again; and with it, where there is one."""

import logging

import pytest
import torch

from omnivoice import Engine, Sampling
from omnivoice.generate.addresses import CHANGING, ELSEWHERE, MOVING, SPECIAL, Addresses, weight_addresses
from omnivoice.generate.graphs import (
    APPROXIMATE,
    FEW_STEPS,
    FIRST_PAUSE,
    MANY_ROWS,
    MAX_ROWS,
    MIN_STEPS,
    PAUSED,
    SWITCHED_OFF,
    StepGraphs,
)
from omnivoice.generate.noise import item_noise
from omnivoice.generate.pack import Item
from omnivoice.generate.sample import Sampler
from omnivoice.types import ALL_SPEEDUPS

CPU = torch.device("cpu")
ENOUGH = {"weights": Addresses("here"), "steps": MIN_STEPS}


class FakeRecording:
    def __init__(self, capturer, work):
        self.capturer, self.work, self.freed = capturer, work, False

    def replay(self):
        assert not self.freed
        self.capturer.replays += 1
        self.capturer.on_replay(self)

    def free(self):
        assert not self.freed
        self.freed = True


class FakeCapturer:
    """Behaves like CUDA: what it records reads and writes the tensors it was recorded with, and no others."""

    def __init__(self, on_replay=lambda recording: recording.work(), fails=None):
        self.on_replay, self.fails = on_replay, fails
        self.recordings, self.shared, self.warm_ups, self.replays = [], [], 0, 0

    def suits(self, device):
        return device.type == "cpu"

    def warm_up(self, work, device):
        self.warm_ups += 1
        work()

    def capture(self, work, device, shared):
        assert self.warm_ups > len(self.recordings), "warm up before recording"
        assert shared is None or not shared.freed
        if self.fails is not None:
            raise self.fails
        self.shared.append(shared)
        self.recordings.append(FakeRecording(self, work))
        return self.recordings[-1]

    @property
    def living(self):
        return [i for i, recording in enumerate(self.recordings) if not recording.freed]


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.fixture
def warned(caplog):
    caplog.set_level(logging.WARNING, logger="omnivoice_nodes")
    return lambda: [record.getMessage() for record in caplog.records]


def toy(codes, base):
    """codes [K, T], base [S, E] -> [T, K, 3] float32, another result for every input."""
    return torch.stack((codes.T * 0.5, codes.T + base.sum(), base.mean() - codes.T.float()), dim=-1)


def inputs(seed=0, frames=4, rows=6):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 9, (2, frames), generator=generator), torch.randn(rows, 3, generator=generator)


def ask(graphs, key="a", codes=None, base=None, step=toy, **options):
    example, rows = inputs()
    return graphs.runner(
        key, step, example if codes is None else codes, [rows if base is None else base], **{**ENOUGH, **options}
    )


def test_replay_gives_what_the_step_gives():
    capturer = FakeCapturer()
    codes, base = inputs(1)
    run = ask(StepGraphs(capturer), codes=codes, base=base)
    before = capturer.replays
    for seed in range(3):
        other, _ = inputs(seed)
        assert torch.equal(run(other), toy(other, base))
    assert capturer.replays == before + 3 and len(capturer.recordings) == 1


def test_results_are_the_callers_for_good():
    run = ask(StepGraphs(FakeCapturer()))
    (first, _), (second, _) = inputs(1), inputs(2)
    result = run(first)
    kept = result.clone()
    run(second).zero_()
    assert torch.equal(result, kept)
    assert torch.equal(run(first), kept)


def test_inputs_are_not_kept_as_they_were_captured():
    codes, base = inputs(1)
    run = ask(StepGraphs(FakeCapturer()), codes=codes, base=base)
    expected = toy(codes, base)
    assert torch.equal(run(codes.clone()), expected)
    codes.zero_()
    assert torch.equal(run(codes), toy(codes, base))


def test_another_base_of_the_same_shape_uses_the_same_graph_even_by_turns():
    capturer, codes = FakeCapturer(), inputs()[0]
    graphs, bases = StepGraphs(capturer), [inputs(seed)[1] for seed in (1, 2)]
    runs = [ask(graphs, codes=codes, base=base) for base in bases]
    for i in (0, 1, 0, 0, 1):
        assert torch.equal(runs[i](codes), toy(codes, bases[i]))
    assert len(capturer.recordings) == 1


@pytest.mark.parametrize(
    "on_replay",
    [
        lambda recording: None,  # writes nothing: what the warm-up left must not pass for a result
        lambda recording: (recording.work(), recording.work.args[0].view(-1)[3].add_(1e-6)),
    ],
)
def test_a_wrong_replay_is_not_used_and_warned_about_once(on_replay, warned):
    capturer = FakeCapturer(on_replay)
    graphs, (codes, base) = StepGraphs(capturer), inputs(1)
    for key in "aabb":
        assert torch.equal(ask(graphs, key, codes, base)(codes), toy(codes, base))
    assert len(warned()) == 1 and "a replay differs from the step itself" in warned()[0]
    assert len(capturer.recordings) == 2 and capturer.living == []  # each shape was tried once


@pytest.mark.parametrize("fails", [RuntimeError("operation not permitted\nmore"), torch.OutOfMemoryError("no memory")])
def test_a_capture_that_raises_frees_the_others_and_is_warned_about_once(fails, warned):
    capturer = FakeCapturer()
    graphs, (codes, base) = StepGraphs(capturer), inputs(1)
    earlier = ask(graphs, "earlier", codes, base)
    capturer.fails = fails
    for key in "abab":
        assert torch.equal(ask(graphs, key, codes, base)(codes), toy(codes, base))
    assert torch.equal(earlier(codes), toy(codes, base))  # its graph is gone, it still answers
    assert len(warned()) == 1 and str(fails).partition("\n")[0] in warned()[0] and "\n" not in warned()[0]
    assert capturer.living == [] and capturer.warm_ups == 3


def test_a_shape_that_failed_is_tried_again_after_a_pause_that_doubles():
    capturer = FakeCapturer(fails=RuntimeError("no memory"))
    graphs = StepGraphs(capturer)
    for attempts, batches in enumerate((FIRST_PAUSE, 2 * FIRST_PAUSE), start=1):
        ask(graphs)
        for _ in range(batches):
            ask(graphs)
            assert capturer.warm_ups == attempts
    capturer.fails = None
    ask(graphs)
    assert capturer.living == [0]
    graphs.clear("the model was unloaded")
    ask(graphs)  # the pauses are forgotten
    assert capturer.living == [1]


def test_after_several_failures_no_shape_is_tried_for_a_while():
    capturer = FakeCapturer(fails=RuntimeError("not supported"))
    graphs = StepGraphs(capturer)
    for key in range(3 + FIRST_PAUSE):
        ask(graphs, key)
    assert capturer.warm_ups == 3
    ask(graphs, "next")
    assert capturer.warm_ups == 4
    for key in range(100, 100 + 2 * FIRST_PAUSE):
        ask(graphs, key)
    assert capturer.warm_ups == 4
    capturer.fails = None
    ask(graphs, "works")
    ask(graphs, "works too")
    assert capturer.living == [0, 1]


def test_the_report_says_whether_graphs_were_used_and_why_not():
    capturer = FakeCapturer()
    graphs = StepGraphs(capturer)
    ask(graphs)
    assert graphs.report() == "CUDA graphs: used" and graphs.report() == ""
    ask(graphs, "b", steps=1)
    assert graphs.report() == f"CUDA graphs: not used; they do not pay below {MIN_STEPS} steps"
    for _ in range(2):
        ask(graphs)
    ask(graphs, "b", steps=1)
    assert graphs.report() == f"CUDA graphs: used for 2 of 3 batches; they do not pay below {MIN_STEPS} steps"
    ask(graphs, weights=Addresses(None, ELSEWHERE))
    assert graphs.report() == "CUDA graphs: not used; some weights are not on the GPU"
    capturer.fails = RuntimeError("no memory")
    ask(graphs)
    assert graphs.report() == "CUDA graphs: not used; capturing failed and is tried again later"
    off = StepGraphs(capturer, enabled=False)
    ask(off)
    assert off.report() == "CUDA graphs: not used; they are switched off"


def test_the_documentation_explains_every_reason(root):
    text = (root / "docs" / "speed.md").read_text(encoding="utf-8")
    reasons = (CHANGING, ELSEWHERE, MOVING, SPECIAL, APPROXIMATE, FEW_STEPS, MANY_ROWS, PAUSED, SWITCHED_OFF)
    assert [reason for reason in reasons if f"| {reason} |" not in text] == []


def test_nothing_is_reported_where_there_are_no_graphs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for graphs in (StepGraphs(), StepGraphs(enabled=False)):
        ask(graphs)
        assert graphs.report() == ""


def test_a_replay_that_raises_later_falls_back_to_the_step(warned):
    capturer, (codes, base) = FakeCapturer(), inputs(1)
    run = ask(StepGraphs(capturer), codes=codes, base=base)

    def broken(recording):
        raise torch.OutOfMemoryError("no memory")

    capturer.on_replay = broken
    for _ in range(2):
        assert torch.equal(run(codes), toy(codes, base))
    assert len(warned()) == 1 and capturer.living == []


def test_errors_of_the_step_itself_are_not_swallowed(warned):
    def wrong(codes, base):
        raise RuntimeError("the step is wrong")

    with pytest.raises(RuntimeError, match="the step is wrong"):
        ask(StepGraphs(FakeCapturer()), step=wrong)
    assert warned() == []


def test_nan_from_the_model_is_not_blamed_on_the_graph(warned):
    def broken(codes, base):
        return torch.full((4, 2, 3), torch.nan) + codes.T[..., None] * base.sum()

    assert torch.isnan(ask(StepGraphs(FakeCapturer()), step=broken)(inputs()[0])).all()
    assert warned() == []


def test_the_least_recently_used_graph_goes_first():
    capturer = FakeCapturer()
    graphs = StepGraphs(capturer, limit=2)
    for key in "abac":  # c takes the place of b
        ask(graphs, key)
    assert capturer.living == [0, 2]
    ask(graphs, "a")
    assert len(capturer.recordings) == 3
    ask(graphs, "b")  # takes the place of c
    assert capturer.living == [0, 3]


def test_graphs_share_working_memory_with_a_living_one():
    capturer = FakeCapturer()
    graphs = StepGraphs(capturer, limit=2)
    for key in "abc":
        ask(graphs, key)
    first, second, _ = capturer.recordings
    assert capturer.shared == [None, first, second]


def test_other_shapes_have_their_own_graph():
    capturer = FakeCapturer()
    graphs = StepGraphs(capturer)
    for shape in ({}, {"frames": 5}, {"rows": 7}):
        codes, base = inputs(**shape)
        assert torch.equal(ask(graphs, "same", codes, base)(codes), toy(codes, base))
    ask(graphs, "same", base=inputs()[1].double())
    assert len(capturer.recordings) == 4


def test_moved_weights_drop_every_graph():
    capturer = FakeCapturer()
    graphs, (codes, base) = StepGraphs(capturer), inputs(1)
    old = ask(graphs, "a", codes, base)
    ask(graphs, "b")
    ask(graphs, "a", weights=Addresses("elsewhere"))
    assert capturer.living == [2]
    ask(graphs, "a", weights=Addresses(None, ELSEWHERE))
    assert capturer.living == [] and len(capturer.recordings) == 3
    assert torch.equal(old(codes), toy(codes, base))
    ask(graphs, "a")
    assert capturer.living == [3]


def test_clear_frees_memory_in_the_middle_of_a_run_and_captures_again_later(warned):
    capturer = FakeCapturer()
    graphs, (codes, base) = StepGraphs(capturer), inputs(1)
    run = ask(graphs, codes=codes, base=base)
    graphs.clear("memory is low")
    graphs.clear("memory is low")
    assert capturer.living == [] and torch.equal(run(codes), toy(codes, base))
    ask(graphs)
    assert capturer.living == [1] and warned() == []


def test_no_capture_where_it_does_not_pay_but_a_graph_that_is_there_serves():
    capturer, (codes, base) = FakeCapturer(), inputs()
    graphs = StepGraphs(capturer)
    large = torch.zeros(MAX_ROWS + 1, 3)
    assert torch.equal(ask(graphs, codes=codes, base=large)(codes), toy(codes, large))
    assert torch.equal(ask(graphs, codes=codes, steps=MIN_STEPS - 1)(codes), toy(codes, base))
    assert capturer.recordings == []
    ask(graphs)
    before = capturer.replays
    ask(graphs, steps=1)(codes)
    assert capturer.replays == before + 1


def test_no_capture_with_gradients():
    capturer = FakeCapturer()
    base = inputs()[1].requires_grad_()
    with torch.enable_grad():
        assert ask(StepGraphs(capturer), base=base)(inputs()[0]).requires_grad
    assert capturer.warm_ups == 0


def test_no_capture_when_off_or_on_a_device_without_graphs(monkeypatch):
    codes, base = inputs()
    capturer = FakeCapturer()
    assert torch.equal(ask(StepGraphs(capturer, enabled=False))(codes), toy(codes, base))
    meta = ask(StepGraphs(capturer), codes=codes.to("meta"), base=base.to("meta"))(codes.to("meta"))
    assert meta.device.type == "meta" and capturer.warm_ups == 0
    assert torch.equal(ask(StepGraphs())(codes), toy(codes, base))  # the default, on the CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch.equal(ask(StepGraphs())(codes), toy(codes, base))


def test_an_interrupt_while_capturing_passes_and_leaves_nothing_behind(warned):
    capturer, (codes, base) = FakeCapturer(fails=KeyboardInterrupt()), inputs(1)
    graphs = StepGraphs(capturer)
    with pytest.raises(KeyboardInterrupt):
        ask(graphs)
    capturer.fails = None
    assert torch.equal(ask(graphs, codes=codes, base=base)(codes), toy(codes, base))
    assert len(capturer.recordings) == 1 and warned() == []


def test_a_graph_from_inference_mode_serves_outside_of_it(warned):
    """ComfyUI runs nodes in inference mode; the engine alone does not."""
    capturer, (codes, base) = FakeCapturer(), inputs(1)
    graphs = StepGraphs(capturer)
    with torch.inference_mode():
        inside = ask(graphs, codes=codes.clone(), base=base.clone())(codes)
    assert torch.equal(ask(graphs, codes=codes, base=base)(codes), inside)
    assert len(capturer.recordings) == 1 and capturer.replays == 3 and warned() == []


# With the model.


@pytest.fixture(scope="module")
def engine(checkpoint):
    return Engine.load(checkpoint)


@pytest.fixture
def lm(engine):
    return engine.lm


def test_addresses_change_when_weights_move_and_not_when_they_are_written_to(lm):
    before = weight_addresses(lm, CPU).identity
    assert before is not None and before == weight_addresses(lm, CPU).identity
    norm, old = lm.llm.norm, lm.llm.norm.weight
    try:
        norm.weight.mul_(1.0)
        assert weight_addresses(lm, CPU).identity == before
        norm.weight = torch.nn.Parameter(old.clone(), requires_grad=False)
        assert weight_addresses(lm, CPU).identity not in (None, before)
        norm.weight = torch.nn.Parameter(old.to("meta"), requires_grad=False)
        assert weight_addresses(lm, CPU).problem == ELSEWHERE
    finally:
        norm.weight = old
    assert weight_addresses(lm, CPU).identity == before


@pytest.mark.parametrize("name, problem", [("weight_function", CHANGING), ("bias_function", CHANGING), ("_v", MOVING)])
def test_weights_made_at_run_time_have_no_address(lm, name, problem):
    layer = lm.llm.layers[0].mlp.down_proj
    try:
        setattr(layer, name, [])
        assert weight_addresses(lm, CPU).identity is not None
        setattr(layer, name, [abs])
        assert weight_addresses(lm, CPU).problem == problem
    finally:
        delattr(layer, name)


def test_weights_that_a_host_keeps_in_place_are_where_the_host_says(lm):
    layer = lm.llm.layers[0].mlp.down_proj
    old = layer.weight
    layer._v, layer.weight = ("paged",), torch.nn.Parameter(old.to("meta"), requires_grad=False)
    try:
        here, moved = (weight_addresses(lm, CPU, {layer: place}).identity for place in (1, 2))
        assert None not in (here, moved) and here != moved
        layer.weight_function = [abs]
        assert weight_addresses(lm, CPU, {layer: 1}).problem == CHANGING
    finally:
        layer.weight = old
        del layer._v, layer.weight_function


def test_the_address_of_a_copy_does_not_matter(lm):
    norm, old = lm.llm.norm, lm.llm.norm.weight
    try:
        before = weight_addresses(lm, CPU, copies={id(old)})
        norm.weight = torch.nn.Parameter(old.clone(), requires_grad=False)
        after = weight_addresses(lm, CPU, copies={id(norm.weight)})
        assert before.identity == after.identity != weight_addresses(lm, CPU).identity
        assert before.copies[0] is old and after.copies[0] is norm.weight
    finally:
        norm.weight = old


def test_a_graph_gets_the_values_of_new_copies():
    capturer, (codes, base) = FakeCapturer(), inputs(1)
    graphs, scales = StepGraphs(capturer), [torch.full((), float(n)) for n in (2, 3)]

    def runner(scale, key="a"):
        def step(codes, base):
            return toy(codes, base) * scale

        return ask(graphs, key, codes, base, step, weights=Addresses("here", copies=(scale,)))

    first = runner(scales[0])(codes)
    assert torch.equal(runner(scales[1])(codes), first * 1.5) and len(capturer.recordings) == 1
    assert torch.equal(runner(scales[1], "b")(codes), first * 1.5)  # another graph, with the second as its own
    assert torch.equal(runner(torch.full((), 2.0))(codes), first)
    assert torch.equal(runner(torch.full((), 2.0), "b")(codes), first) and len(capturer.recordings) == 2


def test_weights_of_a_special_class_have_no_address(lm):
    class Quantised(torch.Tensor):
        pass

    norm, old = lm.llm.norm, lm.llm.norm.weight
    try:
        norm.weight = torch.nn.Parameter(old.detach().as_subclass(Quantised), requires_grad=False)
        assert weight_addresses(lm, CPU).problem == SPECIAL
    finally:
        norm.weight = old


def speak(engine, graphs, prompt_ids, sampling, device=CPU):
    """Codes of two items, with the step handed to `graphs`."""
    config = engine.lm.config
    items = [Item(prompt_ids, torch.arange(5).repeat(config.codebooks, 1), 6), Item(prompt_ids[:3], None, 4)]
    noises = item_noise(config, [6, 4], [torch.Generator().manual_seed(i) for i in range(2)], sampling)
    sampler = Sampler(engine.lm, engine.sampler.text, device, ALL_SPEEDUPS, graphs)
    return torch.cat(sampler.sample(items, noises, sampling, lambda _: None), dim=1)


@pytest.mark.parametrize("guidance", [0.0, 2.0])
def test_tokens_of_the_model_are_equal_with_and_without_graphs(engine, guidance):
    sampling, capturer = Sampling(steps=MIN_STEPS, guidance=guidance), FakeCapturer()
    graphs, off = StepGraphs(capturer), StepGraphs(capturer, enabled=False)
    spoken = [speak(engine, graphs, ids, sampling) for ids in ((1, 2, 3, 4), (9, 8, 7, 6))]
    assert torch.equal(spoken[0], speak(engine, off, (1, 2, 3, 4), sampling))
    assert torch.equal(spoken[1], speak(engine, off, (9, 8, 7, 6), sampling))
    assert not torch.equal(spoken[0], spoken[1])
    assert len(capturer.recordings) == 1 and capturer.replays == 2 * MIN_STEPS + 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("guidance", [0.0, 2.0])
def test_real_graphs_give_the_same_tokens(checkpoint, guidance, warned):
    cuda = torch.device("cuda", torch.cuda.current_device())
    on_gpu, sampling = Engine.load(checkpoint, cuda, torch.bfloat16), Sampling(steps=MIN_STEPS, guidance=guidance)
    graphs, off = StepGraphs(limit=1), StepGraphs(enabled=False)
    for ids in ((1, 2, 3, 4), (9, 8, 7, 6), (1, 2, 3, 4, 5), (1, 2, 3, 4)):
        assert torch.equal(speak(on_gpu, graphs, ids, sampling, cuda), speak(on_gpu, off, ids, sampling, cuda))
    assert warned() == [] and len(graphs._graphs) == 1
    graphs.clear("the end")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_step_that_waits_for_the_device_is_refused_before_it_is_recorded(warned):
    def waits(codes, base):
        return toy(codes, base) + float(base.sum())

    codes, base = (tensor.cuda() for tensor in inputs())
    stream, mode = torch.cuda.current_stream(), torch.cuda.get_sync_debug_mode()
    assert torch.equal(ask(StepGraphs(), codes=codes, base=base, step=waits)(codes), waits(codes, base))
    assert len(warned()) == 1 and "synchronizing" in warned()[0]
    assert torch.cuda.current_stream() == stream and torch.cuda.get_sync_debug_mode() == mode
