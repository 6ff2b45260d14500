"""The layer seam: which library multiplies, and when a host's own layer must do it."""

import argparse
import random
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from omnivoice import devices, ops
from omnivoice.codec import tiling
from omnivoice.commands.models import add_model_options
from omnivoice.train.settings import TRAINING_DTYPES

BACKENDS = [F.linear, ops.onednn_linear]


@pytest.fixture(autouse=True)
def fresh_probe():
    ops.cpu_backend.cache_clear()
    ops.cpu_has_fast_bf16.cache_clear()
    yield
    ops.cpu_backend.cache_clear()
    ops.cpu_has_fast_bf16.cache_clear()


def layer(inputs=40, outputs=24, library=ops.TORCH_OPS, dtype=torch.float32, bias=True):
    made = library.Linear(inputs, outputs, bias=bias, device="cpu", dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return made.requires_grad_(False)


def slowed(call, seconds):
    def run(*args):
        time.sleep(seconds)
        return call(*args)

    return run


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
@pytest.mark.parametrize("shape", [(40,), (1, 40), (7, 40), (2, 7, 40), (0, 40)])
@pytest.mark.parametrize("bias", [True, False])
def test_both_libraries_give_the_same(shape, bias):
    x, made = torch.randn(shape, generator=torch.Generator().manual_seed(1)), layer(bias=bias)
    expected = F.linear(x, made.weight, made.bias)
    torch.testing.assert_close(ops.onednn_linear(x, made.weight, made.bias), expected)


@pytest.mark.parametrize("slow", [0, 1])
def test_the_faster_one_is_taken_and_asked_for_once(monkeypatch, slow):
    quick, late = (BACKENDS[1 - slow], slowed(BACKENDS[slow], 0.02))
    monkeypatch.setattr(ops.F, "linear", late if slow == 0 else quick)
    monkeypatch.setattr(ops, "onednn_linear", late if slow == 1 else quick)
    assert ops.cpu_backend(1) is quick
    monkeypatch.setattr(ops, "fastest_seconds", None)  # not called again
    assert ops.cpu_backend(1) is quick


@pytest.mark.parametrize("fault", [AttributeError, RuntimeError, NotImplementedError])
def test_a_torch_without_the_operator_uses_its_own_linear(monkeypatch, fault):
    def missing(*_):
        raise fault("no such operator")

    monkeypatch.setattr(ops, "onednn_linear", missing)
    assert ops.cpu_backend(1) is F.linear


@pytest.mark.parametrize("wrong", [0.01, torch.nan])
def test_a_library_that_computes_wrongly_is_not_used(monkeypatch, wrong):
    monkeypatch.setattr(ops, "onednn_linear", lambda *args: BACKENDS[0](*args) + wrong)
    monkeypatch.setattr(ops.F, "linear", slowed(BACKENDS[0], 0.01))
    assert ops.cpu_backend(1) is ops.F.linear


def test_the_probe_leaves_the_global_generator_alone():
    state = torch.random.get_rng_state()
    ops.cpu_backend(1), ops.cpu_has_fast_bf16(1)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.fixture
def spied(monkeypatch):
    """Calls of the fast path."""
    calls = []
    monkeypatch.setattr(ops, "cpu_backend", lambda threads: lambda x, w, b: calls.append(threads) or F.linear(x, w, b))
    return calls


def test_plain_float32_takes_the_fast_path(spied):
    with torch.no_grad():
        layer()(torch.ones(3, 40))
    assert spied == [torch.get_num_threads()]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: setattr(made, "weight_function", [lambda w: w * 2]),  # ComfyUI: a LoRA patched at run time
        lambda made: setattr(made, "bias_function", [lambda b: b]),
        lambda made: made.to(torch.bfloat16),
    ],
)
def test_a_layer_with_something_to_do_does_it_itself(spied, spoil):
    class Host(nn.Linear):
        def forward(self, x):
            weight = self.weight.to(x.dtype)
            for function in getattr(self, "weight_function", []):
                weight = function(weight)
            return F.linear(x, weight, self.bias.to(x.dtype))

    library = ops.with_fast_linear(ops.LayerLibrary(**{**vars(ops.PLAIN_OPS), "Linear": Host}))
    made, x = layer(library=library), torch.ones(3, 40)
    spoil(made)
    expected = Host.forward(made, x)
    with torch.no_grad():
        assert torch.equal(made(x), expected)
    assert spied == []


def test_gradients_and_other_dtypes_do_not_take_it(spied):
    made = layer().requires_grad_(True)
    made(torch.ones(3, 40)).sum().backward()
    assert made.weight.grad is not None
    half = layer(dtype=torch.bfloat16)
    with torch.no_grad():
        half(torch.ones(3, 40, dtype=torch.bfloat16))
    assert spied == []


def test_fast_bf16_is_what_is_faster_in_bf16(monkeypatch):
    def linear(x, *args):
        time.sleep(0.02 if x.dtype == slow else 0)
        return BACKENDS[0](x, *args)

    monkeypatch.setattr(ops.F, "linear", linear)
    monkeypatch.setattr(ops, "onednn_linear", lambda *args: linear(*args) + 1)  # refused: only F.linear is left
    slow = torch.bfloat16
    assert not ops.cpu_has_fast_bf16(1)
    ops.cpu_backend.cache_clear(), ops.cpu_has_fast_bf16.cache_clear()
    slow = torch.float32
    assert ops.cpu_has_fast_bf16(1)


def test_one_spelling_of_dtypes() -> None:
    """Nodes, command line and training settings offer the names of one table."""
    assert {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32} == devices.DTYPES
    assert all(devices.dtype_name(dtype) == name for name, dtype in devices.DTYPES.items())
    assert devices.dtype_name(torch.float64) == "float64"
    assert TRAINING_DTYPES == ("auto", "bf16", "fp32")
    parser = argparse.ArgumentParser()
    add_model_options(parser)
    choices = next(action.choices for action in parser._actions if action.dest == "dtype")
    assert tuple(choices or ()) == ("auto", *devices.DTYPES, "fastest")


class BusyMachine:
    """A clock on a machine where most runs of a function take several times as long as its own time."""

    def __init__(self, seed: int) -> None:
        self.now, self.random = 0.0, random.Random(seed)

    def perf_counter(self) -> float:
        return self.now

    def running(self, call, seconds: float):
        def run(*args):
            self.now += seconds * self.random.choice((1, 1.2, 2, 3, 10))
            return call(*args)

        return run


@pytest.mark.parametrize("ours, theirs", [(1.0, 0.9), (1.0, 1.0), (1.0, 1.1), (1.0, 2.0), (1.8, 1.0), (9.0, 1.0)])
def test_a_busy_machine_does_not_change_the_choice(monkeypatch, ours: float, theirs: float) -> None:
    """The functions may differ in the last bit, and a run that was stopped goes on in another process."""
    for module, name in ((ops, "PROBE_ROWS"), (ops, "PROBE_IN"), (ops, "PROBE_OUT"), (tiling, "PROBE_SIZE")):
        monkeypatch.setattr(module, name, 4)
    chosen = set()
    for seed in range(40):
        machine = BusyMachine(seed)
        ops.cpu_backend.cache_clear(), tiling.fastest_sine.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(ops, "time", machine)
            own = machine.running(BACKENDS[1], ours)
            patch.setattr(ops, "onednn_linear", own)
            patch.setattr(ops.F, "linear", machine.running(BACKENDS[0], theirs))
            sine = machine.running(tiling.numpy_sine, ours)
            patch.setattr(tiling, "numpy_sine", sine)
            patch.setattr(tiling.torch, "sin_", machine.running(torch.sin_, theirs))
            chosen.add((ops.cpu_backend(1) is own, tiling.fastest_sine() is sine))
    tiling.fastest_sine.cache_clear()
    assert chosen == {(ours < 3, ours < 3)}
