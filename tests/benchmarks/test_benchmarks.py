"""`python -m benchmarks` on a tiny model: tables, JSON, refused options, and the numbers that are not times."""

import ast
import json
import runpy
import subprocess
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import __main__ as bench
from benchmarks import loading, report
from benchmarks.cases import CLONE, PRESET_CASES, SHOWN_IN, STEP_CASES, Bench, Case, watch_memory
from benchmarks.flops import product_rates, step_flops
from benchmarks.machine import anonymous_bytes, processor_name
from benchmarks.measure import EVERYTHING, Point, Spread, StepTime, Worth, measure_presets, measure_speedups
from benchmarks.model import MADE, byte_tokenizer, random_engine, variant, weight_bytes
from omnivoice.engine import Engine
from omnivoice.generate.presets import PRESETS
from omnivoice.lm import PackedLayout
from omnivoice.types import Sampling, Speedups
from tests import warm_children

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
TINY = partial(random_engine, "tiny", CPU)
LINUX = sys.platform == "linux"


@pytest.fixture(scope="module")
def engine():
    return random_engine("tiny", CPU, torch.float32)


@pytest.fixture(scope="module")
def tiny(engine):
    return Bench(engine, CPU, steps=2, rounds=1, baseline=None, engine_in=TINY)


def run(capsys, *arguments):
    code = bench.main(["--size", "tiny", "--rounds", "1", "--steps", "1", *map(str, arguments)])
    return code, capsys.readouterr()


def test_tables_are_ascii_of_100_columns_and_the_json_has_the_same(capsys, tmp_path):
    target = tmp_path / "numbers.json"
    code, printed = run(capsys, "--json", target)
    assert code == 0, printed.err
    assert printed.out.isascii() and max(map(len, printed.out.splitlines())) <= report.WIDTH
    found = json.loads(target.read_text())
    assert [row["case"] for row in found["steps"]] == [case.name for case in STEP_CASES]
    elsewhere = {"graphs", "windows"}  # graphs need a GPU, and windows only concern the codec
    every = {field.name for field in fields(Speedups)} - elsewhere
    assert {row["name"] for row in found["speedups"]} == every | {EVERYTHING}
    assert all(row["equal"] for row in found["speedups"])
    assert found["machine"]["dtype"] == "float32" and found["machine"]["torch"] == torch.__version__
    assert found["roofline"]["share"] == found["roofline"]["step"] / max(found["roofline"]["products"].values())
    first = found["steps"][0]
    assert f"{first['milliseconds']['median']:.1f} (" in printed.out and f"{first['rows']}" in printed.out
    assert first["peak_bytes"] is None or 0 <= first["peak_bytes"] < 2e9


@pytest.mark.skipif(not LINUX, reason="memory is read from /proc")
def test_memory_given_back_meanwhile_is_not_negative(engine) -> None:
    held = anonymous_bytes()
    assert Bench(engine, CPU, steps=2, rounds=1, baseline=2 * held, engine_in=TINY).watched(lambda: 1) == (1, 0)
    assert Bench(engine, CPU, steps=2, rounds=1, baseline=held // 2, engine_in=TINY).watched(lambda: 1)[1] > 0


def test_precisions_by_turns_with_their_loading(capsys, checkpoint, tmp_path, monkeypatch):
    """A new process loads the model in the first precision, and a forked one in the second."""
    started, real = [], subprocess.run

    def run_process(command, **options):
        started.append(command)
        if len(started) == 1:
            return real(command, **options)
        assert command[:3] == [sys.executable, "-m", "benchmarks.loading"]
        code = "import runpy; runpy.run_module('benchmarks.loading', run_name='__main__', alter_sys=True)"
        return subprocess.CompletedProcess(command, *warm_children.run(code, *command[3:]))

    monkeypatch.setattr(loading, "subprocess", SimpleNamespace(run=run_process))
    target = tmp_path / "n.json"
    code, printed = run(capsys, "--cases", "dtypes", "--model", checkpoint, "--json", target, "--processor-time")
    assert code == 0 and len(started) == 2, printed.err
    assert printed.out.isascii() and max(map(len, printed.out.splitlines())) <= report.WIDTH
    found = json.loads(target.read_text())["dtypes"]
    assert [row["dtype"] for row in found] == ["fp32", "bf16"]
    assert found[0]["speedup"] == {"median": 1.0, "least": 1.0, "largest": 1.0}
    for row in found:
        assert row["seconds"]["median"] > 0 and row["share"] > 0
        assert 0 < row["loading"]["load"] < row["loading"]["first_step"]
        assert row["loading"]["resident"] is None or row["loading"]["resident"] > 1e8


def test_without_an_installed_model_nothing_is_loaded(capsys):
    code, printed = run(capsys, "--cases", "dtypes")
    assert code == 0 and printed.out.count("n/a") == 6


def test_a_random_model_is_made_as_one_is_loaded(checkpoint):
    made, loaded = random_engine("tiny", CPU, torch.bfloat16), Engine.load(checkpoint, dtype=torch.bfloat16)
    weights, stored = made.lm.state_dict(), loaded.lm.state_dict()
    assert {name: weights[name].dtype for name in weights.keys() & stored.keys()} == {
        name: stored[name].dtype for name in weights.keys() & stored.keys()
    }
    assert all(bool((w == 1).all()) for name, w in weights.items() if name.endswith("norm.weight"))
    assert variant(made.sampler, Speedups(fused_linears=False)).lm.llm.norm.dtype == torch.float32


def test_nothing_of_the_user_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("USER", "somebody")
    code, printed = run(capsys, "--cases", "codec", "--json", "n.json")
    assert code == 0
    told = printed.out + (tmp_path / "n.json").read_text()
    assert "somebody" not in told and str(tmp_path) not in told and str(tmp_path) not in processor_name()
    assert processor_name() in told


def test_an_installed_model(capsys, checkpoint, tmp_path):
    code, printed = run(capsys, "--model", checkpoint, "--cases", "codec", "--json", tmp_path / "n.json")
    assert code == 0 and "installed model, ready in" in printed.out
    assert str(checkpoint) not in printed.out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--cases", "steps,speed"], "--cases takes steps, codec, roofline, speedups, dtypes, presets, growth"),
        (["--rounds", "0"], "rounds must be a whole number 1-1024, got 0"),
        (["--threads", "0"], "threads must be a whole number 1-1024, got 0"),
        (["--steps", "0"], "steps must be"),
        (["--plot", "growth.jpg"], "must end in .png"),
        (["--json", "nowhere/n.json"], "does not exist"),
        (["--device", "nonsense"], "cannot be used here"),
    ],
)
def test_refusals(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, printed = run(capsys, *arguments)
    assert code == 1 and message in printed.err
    assert list(tmp_path.iterdir()) == []


def test_plot_without_matplotlib_says_how_to_get_it(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, printed = run(capsys, "--plot", tmp_path / "growth.png")
    assert code == 1 and "pip install matplotlib" in printed.err


def test_plot_is_a_png():
    pytest.importorskip("matplotlib")
    points = [Point(1.0, 0.1, 0.5), Point(2.0, 0.3, 0.6)]
    picture = report.draw({"audio": points, "batch": points, "reference": points}, "a machine")
    assert picture.startswith(b"\x89PNG") and len(picture) > 10_000


def test_plot_asks_for_growth(tmp_path):
    pytest.importorskip("matplotlib")
    options = bench.argparse.Namespace(
        cases="codec", steps=1, rounds=1, threads=None, plot=str(tmp_path / "g.png"), json=None
    )
    assert bench.checked_cases(options) == ["codec", "growth"]


def test_a_wide_number_keeps_the_table_within_its_columns():
    slow = Spread(123456.7, 123456.7, 123456.7)
    step = StepTime("no_reference", 99999, 99999, slow, 1234.567, 99999.0, 99999.9, 99999.0, 10**12)
    worth = Worth("one_pass_guidance", "guidance_0", slow, slow, Spread(10.55, 10.55, 10.55), False)
    for text in (report.steps_table([step]), report.speedups_table([worth])):
        assert max(map(len, text.splitlines())) <= report.WIDTH
    assert "DIFFER" in report.speedups_table([worth])


@pytest.mark.parametrize(
    "lengths, targets", [((435, 125), (125, 125)), ((9,), (9,)), ((70, 33, 40, 8), (40, 8, 40, 8))]
)
def test_operations_are_those_that_torch_counts(engine, lengths, targets):
    lm, config = variant(engine.sampler, Speedups(fast_linear=False)).lm, engine.lm.config
    layout = PackedLayout.build(lengths, targets, head_dim=config.head_dim, theta=config.rope_theta, device=CPU)
    rows = torch.randn(sum(lengths), config.hidden_size)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        lm(rows, layout)
    assert step_flops(config, lengths, targets) == counter.get_total_flops()


def test_products_are_all_linear_weights(engine):
    rates = product_rates(engine.lm, 40, 20, rounds=1, wait=lambda: None)
    assert "F.linear" in rates and all(rate > 0 for rate in rates.values())


@pytest.mark.parametrize("case", [*STEP_CASES, Case("batch", batch=3)], ids=lambda case: case.name)
def test_layout_is_what_runs(tiny, case):
    seen = []
    hook = tiny.engine.lm.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[1]))
    with torch.no_grad():
        codes = tiny.speak(tiny.runner(Speedups()), case)()
    hook.remove()
    lengths, targets = tiny.layout(case)
    assert [list(seen[0].lengths), list(seen[0].target_lengths)] == [lengths, targets]
    assert [list(c.shape) for c in codes] == [[8, case.frames]] * case.batch
    assert lengths[0] == 60 + case.reference + case.frames


def test_a_variant_shares_its_weights_and_gives_the_same(engine):
    for name in MADE:
        made = variant(engine.sampler, Speedups(**{name: False}))
        assert made.lm is not engine.lm and made.text is engine.sampler.text
        assert made.lm.audio_heads.weight.data_ptr() == engine.lm.audio_heads.weight.data_ptr()
        weights = dict(made.lm.named_parameters())
        assert ("llm.layers.0.self_attn.q_proj.weight" in weights) == (name == "fused_linears")
    same = variant(engine.sampler, Speedups(packed=False))
    assert same.lm is engine.lm and not same.speedups.packed


def test_weights_are_counted_once_and_all(engine):
    modules = (engine.lm, engine.codec.decoder, engine.codec.encoder)
    numbers = sum(p.numel() for module in modules for p in module.parameters()) + engine.sampler.text.weight.numel()
    assert weight_bytes(engine) == 4 * numbers


def forward_rows(tiny, case, speedups):
    """Rows of every forward pass."""
    seen = []
    hook = tiny.engine.lm.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    with torch.no_grad():
        tiny.speak(tiny.runner(speedups), case)()
    hook.remove()
    return seen


@pytest.mark.parametrize("name", SHOWN_IN)
def test_a_speedup_saves_rows_in_the_case_that_shows_it(tiny, name):
    on, off = (sum(forward_rows(tiny, SHOWN_IN[name], s)) for s in (Speedups(), Speedups(**{name: False})))
    assert on < 0.9 * off


def test_speedups_are_measured_where_they_show(tiny):
    with torch.no_grad():
        found = {row.name: row.case for row in measure_speedups(tiny)}
    assert found["skip_unguided"] == "guidance_0" and found["packed"] == CLONE.name


def test_presets_are_measured_with_their_own_steps_and_shortcuts(tiny):
    sampled = {case.name: tiny.plan(case, 1).request.sampling for case in PRESET_CASES}
    assert sampled == {name: preset.apply(Sampling()) for name, preset in PRESETS.items()}
    with torch.no_grad():
        found = measure_presets(tiny)
    assert [row.name for row in found] == list(PRESETS) and found[0].speedup == Spread(1.0, 1.0, 1.0)


def test_random_weights_are_the_same_again_and_finite(engine):
    again = random_engine("tiny", CPU, torch.float32)
    assert torch.equal(again.lm.audio_heads.weight, engine.lm.audio_heads.weight)
    codes = torch.randint(0, 1024, (8, 30))
    samples = engine.codec.decoder.decode(codes)
    assert torch.isfinite(samples).all() and 1e-3 < float(samples.std()) < 1e3
    assert len(engine.codec.encoder.encode(samples)) == 8


def test_the_word_is_one_token():
    assert len(byte_tokenizer().encode("a a a a")) == 4


@pytest.mark.skipif(not LINUX, reason="Linux tells the memory of a process")
def test_watching_sees_memory_that_is_freed_again():
    before = anonymous_bytes()
    result, peak = watch_memory(lambda: float(torch.ones(50_000_000).sum()))
    assert result == 50_000_000 and peak - before > 150_000_000


@pytest.mark.parametrize("name", ["compare.comfyui", "compare.training", "compare.upstream", "loading", "memory"])
def test_every_other_benchmark_starts(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as done:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    assert done.value.code == 0 and "usage:" in capsys.readouterr().out


def test_the_worker_that_runs_in_upstreams_environment_imports_nothing_of_this_repository():
    source = (ROOT / "benchmarks" / "compare" / "upstream_worker.py").read_text(encoding="utf-8")
    at_top = [node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {a.name for node in at_top if isinstance(node, ast.Import) for a in node.names}
    names |= {node.module for node in at_top if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"torch"}
