"""Train LoRA against a stand-in for ComfyUI: widgets, presets, folders, cancel, results; tests/comfyui hears them."""

from __future__ import annotations

import functools
import importlib
import json
import math
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.nodes.test_transcribe_node import Model, snapshot

SHORT = {"preset": "voice", "run_name": "run", "seed": 0, "steps": 3, "learning_rate": 0.01, "rank": 2}
SETTINGS = {"batch_size": 4, "warmup": 0.0, "validation": 0.25, "validate_every": 2, "gradient_checkpointing": False}
KEEP = "keep what was trained"
WIDGETS = ["preset", "run_name", "seed", "steps", "learning_rate", "rank", "existing_lora", "resume", "consent"]
EXPERT = [
    "batch_size",
    "batch_tokens",
    "grad_accumulation_steps",
    "optimizer",
    "schedule",
    "warmup",
    "weight_decay",
    "max_grad_norm",
    "alpha",
    "dropout",
    "rslora",
    "audio_modules",
    "lora_dtype",
    "training_dtype",
    "gradient_checkpointing",
    "offloading",
    "validation",
    "validate_every",
    "patience",
    "save_every",
    "sample_every",
    "sample_text",
    "on_cancel",
    "stop_words_points",
    "recogniser",
]
# Widgets that core's Train LoRA has as well, under the same names.
CORE = {
    "batch_size",
    "grad_accumulation_steps",
    "steps",
    "learning_rate",
    "rank",
    "optimizer",
    "seed",
    "training_dtype",
    "lora_dtype",
    "gradient_checkpointing",
    "offloading",
    "existing_lora",
}


@pytest.fixture(scope="module")
def loaded(loaded_pack: SimpleNamespace, stand_in, checkpoint: Path, tmp_path_factory) -> object:
    stand_in.reset(tmp_path_factory.mktemp("models"))
    loaded_pack.host.models.register_model_folder()
    shutil.copytree(checkpoint, stand_in.folder / "OmniVoice")
    with torch.inference_mode():  # as ComfyUI runs nodes
        return loaded_pack.host.models.load_model("OmniVoice", "fp32", "off")


@pytest.fixture(scope="module")
def part(loaded_pack: SimpleNamespace) -> Callable[[str], object]:
    """Modules of the pack's engine, by name."""
    return lambda name: importlib.import_module(f"{loaded_pack.package.__name__}.omnivoice.{name}")


@pytest.fixture(scope="module")
def data(part: Callable[[str], object]) -> object:
    clips, generator = part("train.clips"), torch.Generator().manual_seed(1)
    made = [
        clips.Clip(
            f"clip {i}",
            torch.randint(0, 1024, (8, 12 + 4 * i), generator=generator).to(torch.int16),
            f"This is sentence number {i}.",
            "en",
        )
        for i in range(6)
    ]
    return clips.Dataset(tuple(made), (clips.Rejected("bad.wav", "silent"),))


@pytest.fixture
def output(host) -> Path:
    return Path(host.folder_paths.get_output_directory()) / "omnivoice_training"


@pytest.fixture
def train(nodes: dict[str, type], loaded: object, data: object, host):
    """Runs Training Settings with those of the values that are its widgets, and Train LoRA with the others."""

    def run(*, model: object = loaded, dataset: object = data, **values: object):
        expert = {**SETTINGS, **{name: values.pop(name) for name in [*values] if name in EXPERT}}
        with torch.inference_mode():
            (settings,) = nodes["OmniVoiceTrainingSettings"].execute(**expert).values
            inputs = {"model": model, "dataset": dataset, "settings": settings, **SHORT, **values}
            return nodes["OmniVoiceTrainLoRA"].execute(**inputs).values

    host.table["loras"] = ([str(host.folder.parent / "loras")], {".safetensors"})
    return run


@pytest.fixture
def make_settings(nodes: dict[str, type]) -> Callable[..., object]:
    return lambda **values: nodes["OmniVoiceTrainingSettings"].execute(**values).values[0]


def test_schema(nodes: dict[str, type]) -> None:
    schema = nodes["OmniVoiceTrainLoRA"].define_schema()
    assert [i.id for i in schema.inputs] == ["model", "dataset", *WIDGETS[:-1], "settings", "consent"]
    assert len(WIDGETS) + 1 <= 10  # seed brings a second widget
    assert [o.kind for o in schema.outputs] == ["LORA_MODEL", "LOSS_MAP", "INT", "STRING"]
    assert schema.is_experimental and schema.is_output_node
    items = {i.id: i for i in schema.inputs}
    assert [i.id for i in schema.inputs if i.optional] == ["existing_lora", "resume", "settings", "consent"]
    assert items["seed"].control_after_generate == "fixed"  # a run with another seed is not resumed
    ranges = {"steps": (0, 1_000_000), "rank": (0, 256), "learning_rate": (0, 1)}
    assert {name: (items[name].min, items[name].max) for name in ranges} == ranges
    assert items["preset"].options == ["voice", "language"] and items["preset"].default == "voice"
    assert {name: items[name].default for name in ranges} == dict.fromkeys(ranges, 0)


def test_settings_schema(nodes: dict[str, type]) -> None:
    schema = nodes["OmniVoiceTrainingSettings"].define_schema()
    assert [i.id for i in schema.inputs] == EXPERT and all(i.optional for i in schema.inputs)
    assert [o.kind for o in schema.outputs] == ["OMNIVOICE_TRAINING_SETTINGS"]
    assert {*WIDGETS, *EXPERT} > CORE and not {*WIDGETS} & {*EXPERT}
    items = {i.id: i for i in schema.inputs}
    ranges = {"batch_size": (0, 10_000), "warmup": (-1, 1), "alpha": (0, 10_000), "validation": (0, 0.5)}
    assert {name: (items[name].min, items[name].max) for name in ranges} == ranges
    assert items["audio_modules"].options == ["full", "lora", "frozen"]


def test_untouched_settings_change_nothing(pack: SimpleNamespace, nodes: dict[str, type], make_settings) -> None:
    """The defaults of both nodes are those of the preset: with and without the settings node."""
    training = pack.training
    shown = {i.id: i.default for i in nodes["OmniVoiceTrainingSettings"].define_schema().inputs}
    main = {i.id: i.default for i in nodes["OmniVoiceTrainLoRA"].define_schema().inputs if i.id in WIDGETS}
    for preset in ("voice", "language"):
        plain = training.request_from({**main, "preset": preset}, training.TrainingOptions(), 200.0).settings
        for options in (make_settings(), make_settings(**shown)):
            request = training.request_from({**main, "preset": preset}, options, 200.0)
            assert replace(request.settings, sample_text="") == plain


def test_result(train, loaded: object, output: Path, host, data: object) -> None:
    lora, losses, steps, report = train()
    assert steps == 3 and len(losses["loss"]) == 3 and len(set(losses["loss"])) == 3
    assert {t.dtype for t in lora.values()} == {torch.float32} and all(t.device.type == "cpu" for t in lora.values())
    assert not any(t.requires_grad or t.is_inference() for t in lora.values())
    assert float(lora["llm.layers.0.self_attn.q_proj.lora_up.weight"].abs().max()) > 0
    assert "audio_heads.diff" in lora and host.progress == [(1, 3), (2, 3), (3, 3)]
    assert host.freed == [(1e30, torch.device("cpu"))]
    lines = report.splitlines()
    assert lines[0] == data.summary() and "finished at step 3 of 3" in report
    assert "from preset voice: alpha 4, batch_tokens 4096" in lines
    assert "other settings: rank 2, dropout 0.05" in report and "optimizer AdamW" in report and ", in fp32, " in report
    assert "folder: output/omnivoice_training/run" in lines and lines[-1] == "not used: bad.wav: silent"
    with safe_open(output / "run" / "run.safetensors", "pt") as file:
        about = file.metadata()
        assert torch.equal(file.get_tensor("audio_heads.diff"), lora["audio_heads.diff"])
    assert about["name"] == "run" and about["steps"] == "3" and json.loads(about["settings"])["rank"] == 2
    assert "sample_text" not in about["settings"]
    with safe_open(output / "run" / "run-best.safetensors", "pt") as file:
        assert file.keys() == sorted(lora)


def test_progress_in_words(train, host) -> None:
    train()
    text, node = host.texts[-1]
    assert node == "7" and text.startswith("step 3/3, loss ") and text.endswith("tokens/s, 0:00 left")


def test_bf16_lora_without_a_folder(train, output: Path) -> None:
    lora, _, _, report = train(run_name="", lora_dtype="bf16", training_dtype="bf16")
    kinds = {key.rpartition(".")[2]: tensor.dtype for key, tensor in lora.items()}
    assert kinds["weight"] == kinds["diff"] == torch.bfloat16 and ", in bf16, " in report
    assert not output.exists() and "no files were written, since run_name is empty" in report


def test_the_graph_model_stays_as_it_is(train, loaded: object) -> None:
    def state() -> dict[str, torch.Tensor]:
        return {key: tensor.clone() for key, tensor in loaded.engine.lm.state_dict().items()}

    before, random = state(), torch.random.get_rng_state()
    train(training_dtype="bf16")
    after = state()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not any(p.requires_grad or p.grad is not None for p in loaded.engine.lm.parameters())
    assert torch.equal(random, torch.random.get_rng_state())


def test_copy_is_split_patched_and_rounded_once(pack: SimpleNamespace, loaded: object, part) -> None:
    generator = torch.Generator().manual_seed(1)
    down, up = torch.randn(2, 40, generator=generator), torch.randn(48, 2, generator=generator)
    name = "llm.layers.1.self_attn.k_proj"
    tensors = {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up, f"{name}.alpha": torch.tensor(4.0)}
    patched = pack.host.lora.apply_lora(loaded, "none (use the lora input)", tensors, 0.5).model
    base = loaded.engine.lm.state_dict()["llm.layers.1.self_attn.qkv_proj.weight"]
    with torch.inference_mode(False):
        copy = pack.host.training_model.private_copy(patched, torch.bfloat16, torch.device("cpu"))
    queries, keys, values = base[:96], base[96:144] + 0.5 * 4 / 2 * up @ down, base[144:]
    for kind, wanted in (("q", queries), ("k", keys), ("v", values)):
        found = copy.state_dict()[f"llm.layers.1.self_attn.{kind}_proj.weight"]
        assert torch.equal(found, wanted.to(torch.bfloat16)) and found.is_contiguous() and not found.is_inference()
    assert copy.get_dtype() == torch.bfloat16


@pytest.mark.parametrize(
    ("choice", "device", "good", "wanted"),
    [
        ("auto", "cpu", True, torch.float32),
        ("auto", "mps", True, torch.float32),
        ("auto", "cuda", True, torch.bfloat16),
        ("auto", "cuda", False, torch.float32),
        ("bf16", "cpu", False, torch.bfloat16),
        ("fp32", "cuda", True, torch.float32),
    ],
)
def test_training_dtype(
    pack: SimpleNamespace, monkeypatch, choice: str, device: str, good: bool, wanted: torch.dtype
) -> None:
    monkeypatch.setattr(pack.host.training_model.mm, "should_use_bf16", lambda device: good)
    assert pack.host.training_model.training_dtype(choice, torch.device(device)) == wanted


# Presets.


def test_what_is_left_open_comes_from_the_preset(pack: SimpleNamespace, make_settings) -> None:
    of, none = pack.training.request_from, pack.training.TrainingOptions()
    request = of({"preset": "voice", "steps": 0, "learning_rate": 0.0, "rank": 0, "seed": 5}, none, 200.0)
    settings = request.settings
    assert (settings.steps, settings.learning_rate, settings.rank, settings.alpha) == (400, 2e-4, 16, 32)
    assert settings.seed == 5 and request.given == {"seed"}
    assert request.report()[0] == (
        "from preset voice: steps 400, learning_rate 0.0002, rank 16, alpha 32, batch_size 16, batch_tokens 4096, "
        "warmup 0.05"
    )
    assert "seed 5" in request.report()[1] and "steps" not in request.report()[1].replace("accumulation_steps", "")
    request = of({"preset": "language"}, none, 200.0)
    assert (request.settings.steps, request.settings.rank, request.settings.warmup) == (5000, 32, 0.01)
    assert request.settings.learning_rate == 1e-4


@pytest.mark.parametrize("preset", ["voice", "language"])
def test_a_given_value_always_counts(pack: SimpleNamespace, make_settings, preset: str) -> None:
    options = make_settings(batch_size=3, batch_tokens=77, warmup=0.0, alpha=5.0, optimizer="SGD", audio_modules="lora")
    inputs = {"preset": preset, "steps": 77, "learning_rate": 0.5, "rank": 3}
    settings = pack.training.request_from(inputs, options, 200.0).settings
    assert (settings.steps, settings.learning_rate, settings.rank, settings.alpha) == (77, 0.5, 3, 5)
    assert (settings.batch_size, settings.batch_tokens, settings.warmup) == (3, 77, 0)
    assert (settings.optimizer, settings.audio_modules) == ("SGD", "lora")
    request = pack.training.request_from(inputs, make_settings(), 200.0)
    assert request.settings.alpha == 6 and "alpha 6" in request.report()[0]  # follows the rank


def test_a_preset_trains(nodes: dict[str, type], loaded: object, data: object, part, monkeypatch) -> None:
    monkeypatch.setattr(part("train.trainer").Trainer, "finished", property(lambda trainer: trainer.step_count >= 2))
    open_widgets = {"preset": "voice", "run_name": "", "seed": 0, "steps": 0, "learning_rate": 0.0, "rank": 0}
    with torch.inference_mode():
        report = nodes["OmniVoiceTrainLoRA"].execute(model=loaded, dataset=data, **open_widgets).values[3]
    assert "from preset voice: steps 100, learning_rate 0.0002, rank 16, alpha 32" in report


# A loss graph divides by the range of the losses.


def test_one_step_has_two_losses(train, part) -> None:
    losses = train(steps=1)[1]["loss"]
    assert len(losses) == 2 and len(set(losses)) == 2 and all(math.isfinite(loss) for loss in losses)


def test_equal_losses_and_losses_that_are_not_finite(train, part, monkeypatch) -> None:
    trainer = part("train.trainer").Trainer
    monkeypatch.setattr(trainer, "learn", lambda one, examples: (2.5, 1.0))
    monkeypatch.setattr(trainer, "next_loss", lambda one: 2.5)
    losses = train(run_name="")[1]["loss"]
    assert losses[:4] == [2.5] * 4 and losses[4] == pytest.approx(2.5, abs=1e-12) and losses[4] != 2.5
    monkeypatch.setattr(trainer, "learn", lambda one, examples: (math.nan, 1.0))
    monkeypatch.setattr(trainer, "next_loss", lambda one: math.nan)
    with pytest.raises(part("errors").NumericError, match="the loss is not finite: lower the learning rate"):
        train(run_name="")


# Cancel and resume.


def test_cancel_reaches_comfyui_once_the_state_is_saved(
    train, pack: SimpleNamespace, host, output: Path, interrupt: type[BaseException], loaded: object
) -> None:
    host.interrupt_after = 2
    with pytest.raises(interrupt):
        train(steps=9)
    assert [path.name for path in (output / "run").glob("state-*")] == ["state-00000003.safetensors"]
    assert pack.host.models.mm.in_training is False and torch.is_grad_enabled()
    host.interrupt_after, host.progress = None, []
    lora, losses, steps, report = train(steps=9)
    assert host.progress[0] == (4, 9) and steps == 9 and len(losses["loss"]) == 9
    assert "resumed: run was at step 3" in report
    straight = train(steps=9, run_name="straight")[0]
    assert all(torch.equal(straight[key], lora[key]) for key in straight)


def test_cancel_keeps_what_was_trained_when_asked_to(train, host, output: Path, interrupt: type[BaseException]) -> None:
    host.interrupt_after = 2
    _, losses, steps, report = train(steps=9, on_cancel=KEEP)
    assert steps == len(losses["loss"]) == 3 and "cancelled at step 3 of 9" in report
    assert host.interrupt_after is None  # the rest of the workflow runs
    assert (output / "run" / "run.safetensors").is_file()
    assert train(steps=9)[2] == 9


def test_a_kept_part_is_not_taken_from_the_cache(train, host, nodes: dict[str, type]) -> None:
    """ComfyUI asks for the fingerprint before each run: with another one it runs the node again."""
    stamp = nodes["OmniVoiceTrainLoRA"].fingerprint_inputs
    begun = stamp(run_name="run")
    host.interrupt_after = 2
    train(steps=9, on_cancel=KEEP)
    cancelled = stamp(run_name="run")
    others = ("ru", "run-", "run-1-2", "", "a/b", None, ["run"])
    assert cancelled != begun and {stamp(run_name=name) for name in others} == {begun}
    train(steps=9, on_cancel=KEEP)
    assert stamp(run_name="run") == cancelled  # finished: from the cache from now on
    host.progress, host.interrupt_after = [], 2
    train(steps=9, on_cancel=KEEP)
    assert stamp(run_name="run") not in (begun, cancelled)  # in run-2


def test_a_bar_that_raises_leaves_a_state_too(
    train, pack: SimpleNamespace, monkeypatch, output: Path, interrupt: type[BaseException], host
) -> None:
    """ComfyUI's real bar raises on cancel, between the question and the state."""

    class Bar:
        def __init__(self, total: int):
            pass

        def update_absolute(self, value: int, total: int) -> None:
            if value == 2:
                raise interrupt

    monkeypatch.setattr(pack.host.training_run.comfy.utils, "ProgressBar", Bar)
    with pytest.raises(interrupt):
        train(steps=9)
    assert (output / "run" / "state-00000002.safetensors").is_file()


def test_a_failure_resets_the_flag(train, pack: SimpleNamespace, part, monkeypatch) -> None:
    seen = []

    def learn(trainer: object, examples: object) -> None:
        seen.append(pack.host.models.mm.in_training)
        raise ZeroDivisionError

    monkeypatch.setattr(part("train.trainer").Trainer, "learn", learn)
    with pytest.raises(ZeroDivisionError):
        train()
    assert seen == [True] and pack.host.models.mm.in_training is False


def test_folders(train, output: Path) -> None:
    train()
    kept = {path: path.read_bytes() for path in (output / "run").iterdir()}
    assert "run holds a finished run; this run is in run-2" in train()[3]
    assert "learning_rate was 0.01, now 0.02); this run is in run-3" in train(learning_rate=0.02, steps=4)[3]
    assert {path: path.read_bytes() for path in (output / "run").iterdir()} == kept
    assert sorted(path.name for path in output.iterdir()) == ["run", "run-2", "run-3"]


@pytest.mark.parametrize("linked", ["run", "run-2"])
def test_a_run_whose_folder_is_a_link_out_of_output_is_refused(
    train, output: Path, tmp_path: Path, linked: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    if linked == "run-2":
        train()
    output.mkdir(parents=True, exist_ok=True)
    (output / linked).symlink_to(outside, target_is_directory=True)
    with pytest.raises(
        ValueError, match=f"^run_name '{linked}' leads out of its folder through a link: choose another"
    ):
        train()
    assert list(outside.iterdir()) == []


def test_links_inside_and_a_linked_place_are_the_users_own(train, output: Path, tmp_path: Path) -> None:
    (tmp_path / "disk" / "here").mkdir(parents=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.symlink_to(tmp_path / "disk", target_is_directory=True)
    (output / "run").symlink_to("here", target_is_directory=True)
    train()
    assert (tmp_path / "disk" / "here" / "run.safetensors").is_file()


def test_more_steps_go_on_or_say_how_to_train_further(train, output: Path) -> None:
    train(schedule="constant")
    assert "resumed: run was at step 3" in (report := train(schedule="constant", steps=5)[3])
    assert "finished at step 5 of 5" in report
    train(run_name="cosine")
    report = train(run_name="cosine", steps=5)[3]
    assert "steps was 3, now 5: a run goes on to more steps only with a constant schedule" in report
    assert "existing_lora in ComfyUI)); this run is in cosine-2" in report
    assert sorted(path.name for path in output.iterdir()) == ["cosine", "cosine-2", "run"]


def test_a_run_that_another_process_trains_is_refused(train, part, output: Path) -> None:
    """The command line and ComfyUI lock a folder in the same way."""
    train(save_every=2)
    (output / "run" / "state-00000003.safetensors").unlink()  # unfinished
    with part("train.run").lock_run(output / "run"):
        with pytest.raises(part("errors").LockedError, match=rf"^run is in use by process {os.getpid()} on .*: wait"):
            train()
        assert [path.name for path in output.iterdir()] == ["run"]
        # What would not go on in that folder anyway takes the next one, as ever.
        assert "seed was 0, now 3); this run is in run-2" in train(seed=3)[3]
        assert "resume is off); this run is in run-3" in train(resume=False)[3]
    assert "resumed: run was at step 2" in train()[3]


def test_a_second_prompt_in_one_folder_is_refused(train, part, monkeypatch, output: Path) -> None:
    trainer, refused = part("train.trainer").Trainer, []
    learn = trainer.learn

    def begin_another(one: object, examples: object) -> object:
        if not refused:
            refused.append("")
            with pytest.raises(part("errors").LockedError) as error:
                train()
            refused[0] = str(error.value)
        return learn(one, examples)

    monkeypatch.setattr(trainer, "learn", begin_another)
    assert train()[2] == 3 and refused[0].startswith("run is in use by process")
    assert [path.name for path in output.iterdir()] == ["run"]


def test_without_resume_an_unfinished_run_is_left_alone(train, host, output: Path) -> None:
    host.interrupt_after = 1
    train(steps=9, on_cancel=KEEP)
    assert "resume is off); this run is in run-2" in train(steps=9, resume=False)[3]


def test_another_base_or_lora_before_is_another_run(train, pack: SimpleNamespace, loaded: object, host) -> None:
    host.interrupt_after = 1
    lora = train(steps=9, on_cancel=KEEP)[0]
    patched = pack.host.lora.apply_lora(loaded, "none (use the lora input)", lora, 1.0).model
    assert "it was started from another model" in (report := train(steps=9, model=patched)[3])
    assert "; this run is in run-2" in report


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_disk_that_fills_up_ends_the_run_with_its_lora(
    step: int, train, part, monkeypatch, output: Path, nodes: dict[str, type]
) -> None:
    """The states of `step` and after do not fit, though older ones are deleted. The LoRA does."""
    runs, errors = part("train.run"), part("errors")
    real, begun = runs.write_state, nodes["OmniVoiceTrainLoRA"].fingerprint_inputs(run_name="run")

    def write_state(path: Path, *rest: object) -> None:
        if path.name > f"state-{step:08d}":
            raise errors.DiskFullError(f"cannot write {path.name}: the disk is full, 1 MB are needed: make room")
        real(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_state", write_state)
        lora, _, steps, report = train(steps=9, save_every=1)
    assert lora and steps == step and f"stopped, since its files could not be written, at step {step} of 9" in report
    assert f"cannot write state-{step:08d}.safetensors: the disk is full, 1 MB are needed: make room" in report
    assert (output / "run" / "run.safetensors").is_file()
    assert nodes["OmniVoiceTrainLoRA"].fingerprint_inputs(run_name="run") != begun  # not from the cache
    report = train(steps=9, save_every=1)[3]
    assert "finished at step 9" in report and (step == 1 or f"resumed: run was at step {step - 1}" in report)


def test_a_disk_that_is_full_loses_nothing(train, pack: SimpleNamespace, monkeypatch, host) -> None:
    def full(*_: object, **__: object) -> None:
        raise pack.host.training.FileError("the disk is full")

    monkeypatch.setattr(pack.host.training, "write_loras", full)
    lora, _, _, report = train()
    assert lora and "the LoRA could not be written, but the lora output holds it: the disk is full" in report


# Samples.


def test_samples(train, output: Path, host) -> None:
    train(sample_every=2, sample_text="Hello there.")
    files = sorted(path.name for path in (output / "run" / "samples").iterdir())
    assert files == ["step-00000002.wav", "step-00000003.wav"]
    assert len(host.loads) == 2 and all(memory > 0 for _, memory in host.loads)


def test_a_sample_that_fails_stops_nothing(train, part, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise part("errors").NumericError("NaN")

    monkeypatch.setattr(part("engine").Engine, "generate_plans", fail)
    _, _, steps, report = train(sample_every=2)
    assert steps == 3 and "no sample was written at step 3: NaN" in report


def test_cancel_in_a_sample(train, host, output: Path, interrupt: type[BaseException]) -> None:
    host.interrupt_after = 1
    with pytest.raises(interrupt):
        train(steps=9, sample_every=2)
    assert (output / "run" / "state-00000002.safetensors").is_file()
    assert not list((output / "run" / "samples").glob("*.wav")) if (output / "run" / "samples").exists() else True


# Stopping by right words.

WORDS = {"steps": 9, "stop_words_points": 3.0, "recogniser": "tiny", "learning_rate": 1e-4}
GOOD, BAD_HEARING = "This is sentence, number...", "this is"  # 4 and 2 of the 5 words of each clip


@pytest.fixture
def whisper(host, pack: SimpleNamespace, nodes, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in for transformers that hears what `heard` says, one entry for each time the words are counted."""
    fake = SimpleNamespace(model=Model(), heard=[], languages=[])
    monkeypatch.setitem(
        sys.modules,
        "transformers",
        SimpleNamespace(
            WhisperForConditionalGeneration=SimpleNamespace(from_pretrained=lambda folder, **_: fake.model),
            WhisperFeatureExtractor=SimpleNamespace(from_pretrained=lambda folder, **_: None),
            AutoTokenizer=SimpleNamespace(from_pretrained=lambda folder, **_: SimpleNamespace(decode=None)),
        ),
    )

    def hear(model: object, waveforms: list, languages: list) -> list[str]:
        assert model.module.whisper is fake.model and all(waveform.seconds > 0.5 for waveform in waveforms)
        fake.languages.append(languages)
        answer = fake.heard.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return [answer] * len(waveforms)

    monkeypatch.setattr(pack.host.transcribe, "hear", hear)
    snapshot(host.folder.parent / "whisper" / "tiny")
    return fake


@pytest.fixture
def quick_speech(part: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentences of a count are short and spoken in two steps: what is heard is the stand-in's in any case."""
    module, steps = part("productions.right_words"), part("types").Sampling(steps=2)
    quick = functools.partial(module.GenerationRequest, sampling=steps, duration=0.6)
    monkeypatch.setattr(module, "GenerationRequest", quick)


def words_right(output: Path) -> list[float]:
    lines = [json.loads(line) for line in (output / "run" / "metrics.jsonl").read_text().splitlines()]
    return [line["words_right"] for line in lines if "words_right" in line]


@pytest.mark.usefixtures("quick_speech")
def test_lost_words_stop_the_training(train, output: Path, whisper, host, pack: SimpleNamespace, monkeypatch) -> None:
    monkeypatch.setattr(pack.host.progress, "PAUSE", 0)  # every line is shown, however soon it follows
    whisper.heard = [GOOD, GOOD, BAD_HEARING]
    _, losses, steps, report = train(**WORDS)
    assert steps == 4 and len(losses["loss"]) == 4 and words_right(output) == pytest.approx([0.8, 0.8, 0.4])
    assert "stopped, since right words were lost, at step 4 of 9" in report
    assert (
        "right words: 80.0% at best, 40.0% at the last validation; the best weights, from before the fall, had 80.0%"
    ) in report.splitlines()
    assert "written: run-best.safetensors" in report and ", right words 40.0%, lr " in host.texts[-1][0]
    with safe_open(output / "run" / "run-best.safetensors", "pt") as file:
        assert file.metadata()["steps"] == "2"
    assert whisper.languages == [["en"] * 8] * 3  # eight sentences, though there are two validation clips


def test_words_that_hold_stop_nothing(train, output: Path, whisper: SimpleNamespace, quick_speech) -> None:
    whisper.heard = [GOOD] * 9
    _, _, steps, report = train(**WORDS)
    assert steps == 9 and "right words: 80.0% at best, 80.0% at the last validation" in report.splitlines()
    assert words_right(output) == pytest.approx([0.8] * 6)  # before training, at 2, 4, 6, 8 and at the end


@pytest.mark.usefixtures("quick_speech")
def test_cancel_while_words_are_counted(train, output: Path, whisper, host, interrupt: type[BaseException]) -> None:
    whisper.heard = [GOOD, interrupt(), GOOD, BAD_HEARING]
    with pytest.raises(interrupt):
        train(**WORDS)
    assert (output / "run" / "state-00000002.safetensors").is_file()
    host.interrupt_after = None  # ComfyUI starts the next workflow
    _, _, steps, report = train(**WORDS)
    assert steps == 4 and "resumed: run was at step 2" in report
    assert words_right(output) == pytest.approx([0.8, 0.8, 0.4])


@pytest.mark.usefixtures("quick_speech")
def test_a_count_that_fails_stops_nothing(train, output: Path, part, whisper: SimpleNamespace) -> None:
    whisper.heard = [GOOD, part("errors").AudioError("no sound"), GOOD, GOOD]
    _, _, steps, report = train(**{**WORDS, "steps": 5})
    assert steps == 5 and "the words were not counted at step 2: no sound" in report
    assert [share is None for share in words_right(output)] == [False, True, False, False]


def test_a_recogniser_is_read_only_to_count(train, pack: SimpleNamespace, monkeypatch) -> None:
    monkeypatch.setattr(pack.host.transcribe, "load_whisper", None)
    _, _, steps, report = train(recogniser="tiny")
    assert steps == 3 and "words" not in report


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"recogniser": "[None]"},
            "stop_words_points needs a Whisper model that counts the words: choose a recogniser",
        ),
        ({"recogniser": "large"}, "recogniser must be one of tiny, got 'large'"),
        ({"run_name": ""}, "stop_words_points keeps the best weights in the run's folder: give a run_name"),
        ({"validate_every": 0}, "stop_words_points needs validations"),
        ({"validation": 0.05}, "stop_words_points needs validation clips"),
        ({"stop_words_points": -1}, "stop_words_points must be 0-100"),
    ],
)
def test_words_that_cannot_be_counted(train, output: Path, whisper, values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(**{**WORDS, **values})
    assert not output.exists()


def test_missing_parts_of_the_recogniser(train, output: Path, whisper, host, part, monkeypatch) -> None:
    whisper.model = Model(("de", "fr"))
    with pytest.raises(ValueError, match="the Whisper model tiny does not know the language en"):
        train(**WORDS)
    assert not [*output.rglob("*.jsonl")]
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        part("errors").CheckpointError,
        match=r"Whisper needs the Python package transformers.*, or set stop_words_points to 0",
    ):
        train(**WORDS)
    shutil.rmtree(host.folder.parent / "whisper")
    with pytest.raises(
        ValueError, match=r"no Whisper model found in models/whisper: .*, or set stop_words_points to 0"
    ):
        train(**WORDS)


# LoRAs to start from.


@pytest.fixture
def saved(train, host, output: Path) -> str:
    """A trained LoRA in models/loras, named as core's Save LoRA names it."""
    train(run_name="first")
    folder = host.folder.parent / "loras"
    folder.mkdir(parents=True)
    shutil.copy(output / "first" / "first.safetensors", folder / "x_12_steps_00001_.safetensors")
    shutil.copy(output / "first" / "first.safetensors", folder / "plain.safetensors")
    return "x_12_steps_00001_.safetensors"


def test_existing_lora(train, saved: str, nodes: dict[str, type], output: Path) -> None:
    menu = next(i for i in nodes["OmniVoiceTrainLoRA"].define_schema().inputs if i.id == "existing_lora")
    assert menu.options == ["[None]", "plain.safetensors", saved]
    assert (
        train(existing_lora=saved.upper())[2] == 15 and train(existing_lora="plain.safetensors", run_name="p")[2] == 3
    )
    with safe_open(output / "run" / "run.safetensors", "pt") as file:
        assert file.metadata()["steps"] == "15"
    stamp = nodes["OmniVoiceTrainLoRA"].fingerprint_inputs
    assert stamp(existing_lora=saved, steps=3) and stamp(existing_lora="[None]") == stamp() == ""
    with pytest.raises(ValueError, match="has rank 2, this training 3: set rank to 2"):
        train(existing_lora=saved, rank=3)


def test_the_note_of_consent_is_kept_in_the_files_and_by_a_training_on_top(
    train, saved: str, output: Path, host
) -> None:
    def note_of(name: str) -> str | None:
        with safe_open(output / name / f"{name}.safetensors", "pt") as file:
            return (file.metadata() or {}).get("consent")

    assert note_of("first") is None
    train(run_name="noted", consent=" permission:  Anna, 2 May ")
    assert note_of("noted") == "permission: Anna, 2 May"
    shutil.copy(output / "noted" / "noted.safetensors", host.folder.parent / "loras" / "noted.safetensors")
    for name, given, kept in (("kept", "", "permission: Anna, 2 May"), ("own", "self", "self")):
        train(run_name=name, existing_lora="noted.safetensors", consent=given)
        assert note_of(name) == kept


def test_a_note_of_a_stranger_that_may_not_be_kept_is_refused_before_the_training(train, saved, host, output) -> None:
    loras = host.folder.parent / "loras"
    with safe_open(loras / "plain.safetensors", "pt") as file:
        about = file.metadata()
    save_file(
        load_file(loras / "plain.safetensors"),
        loras / "foreign.safetensors",
        {**about, "consent": "see /home" + "/anna/consent.pdf"},
    )
    with pytest.raises(
        ValueError, match=r"^the note of consent of .*foreign.* cannot be kept: .* a path .* in consent$"
    ):
        train(run_name="foreign", existing_lora="foreign.safetensors")
    assert not (output / "foreign").exists()
    train(run_name="foreign", existing_lora="foreign.safetensors", consent="unknown")


BAD = [
    ({"consent": "x" * 501}, "consent must be at most 500 characters, got 501"),
    ({"consent": "in /home" + "/anna"}, "metadata consent holds a path or a token"),
    ({"consent": "self", "run_name": ""}, "consent is kept in the files of the run: give a run_name"),
    ({"existing_lora": "../x"}, r"existing_lora must be one of \[None\], .*got '\.\./x'"),
    ({"model": {"a": 1}}, "model must come from Load OmniVoice, got dict"),
    ({"dataset": {"clips": []}}, "dataset must come from OmniVoice Dataset, got dict"),
    ({"dataset": None}, "dataset must come from OmniVoice Dataset, got None"),
    ({"preset": "x"}, "preset must be one of voice, language, got 'x'"),
    ({"steps": 10**9}, "steps must be 1-1000000, got 1000000000"),
    ({"rank": True}, "rank must be"),
    ({"learning_rate": math.nan}, "learning_rate must be"),
    ({"alpha": -1.0}, "alpha must be above 0"),
    ({"warmup": -0.5}, "warmup must be 0-1, got -0.5"),
    ({"grad_accumulation_steps": 0}, "grad_accumulation_steps must be 1-1024, got 0"),
    ({"batch_tokens": 1e3}, "batch_tokens must be"),
    ({"seed": -1}, "seed must be"),
    ({"rslora": "yes"}, "rslora must be true or false, got 'yes'"),
    ({"resume": 1}, "resume must be true or false"),
    ({"on_cancel": "x"}, "on_cancel must be one of stop the workflow, keep what was trained, got 'x'"),
    ({"lora_dtype": "fp16"}, "lora_dtype must be one of fp32, bf16, got 'fp16'"),
    ({"training_dtype": "fp16"}, "training_dtype must be one of auto, bf16, fp32"),
    ({"optimizer": ["AdamW"]}, "optimizer must be one of"),
    ({"sample_text": 5}, "sample_text must be a text"),
    ({"run_name": "../../custom_nodes/x"}, "a file name may hold letters"),
    ({"run_name": 5}, "run_name must be"),
    ({"run_name": "a" * 101}, "run_name must be at most 100 characters"),
    ({"run_name": "CON"}, "a device name"),
    ({"run_name": "hf_abcdefghijklmnopqr"}, "holds a path or a token"),
    ({"sample_every": 2, "run_name": ""}, "sample_every writes into the run's folder: give a run_name"),
    ({"offloading": True}, "offloading needs gradient_checkpointing"),
    ({"patience": 1, "validation": 0.0}, "patience needs validations"),
]


@pytest.mark.parametrize(("widgets", "message"), BAD, ids=[str(case[0])[:40] for case in BAD])
def test_refusals(train, output: Path, widgets: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(**widgets)
    assert not output.exists()


def test_a_dataset_of_another_model_and_an_empty_one(train, data: object, part) -> None:
    clips = part("train.clips")
    with pytest.raises(ValueError, match="the dataset has no usable clip"):
        train(dataset=clips.Dataset(()))
    other = clips.Clip("x", torch.zeros(3, 9, dtype=torch.int16), "Hello.")
    with pytest.raises(ValueError, match=r"codes of x do not belong to this model \(3 codebooks, the model has 8\)"):
        train(dataset=clips.Dataset((other,)))


def test_refused_at_validation(nodes: dict[str, type]) -> None:
    check = nodes["OmniVoiceTrainLoRA"].validate_inputs
    assert check() is True and check(run_name="my voice") is True and check(run_name="") is True
    assert check(run_name="a/b").startswith("a file name may hold letters")
    assert "choose another name" in check(run_name="best")  # a file of the run itself


# Every input of both nodes, as links and programs may give it.

NUMBERS = [*WIDGETS[2:6], *EXPERT[:3], *EXPERT[5:10], *EXPERT[16:21], "stop_words_points"]
REQUIRED = WIDGETS[:6]


@pytest.mark.parametrize("name", [*WIDGETS, *EXPERT])
def test_values_of_another_type_are_refused_by_the_name_of_the_input(
    train, output: Path, nodes: dict[str, type], name: str
) -> None:
    for value in ([], [1, 2], {"a": 1}, object(), *((True, math.nan) if name in NUMBERS else ())):
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            train(**{name: value})
    if name not in ("run_name", "sample_text", "existing_lora", "recogniser", "consent"):
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            train(**{name: "x"})
    assert not output.exists()


@pytest.mark.parametrize("name", REQUIRED)
def test_none_on_a_required_input_is_refused_by_its_name(train, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .*, got None"):
        train(**{name: None})


@pytest.mark.parametrize("name", [*WIDGETS[6:], *EXPERT])
def test_none_on_an_optional_input_is_its_default(
    pack: SimpleNamespace, nodes: dict[str, type], make_settings, name: str
) -> None:
    training, preset = pack.training, {"preset": "voice"}
    if name in EXPERT:
        assert make_settings(**{name: None}) == make_settings()
    else:
        none = training.TrainingOptions()
        assert training.request_from({**preset, name: None}, none, 9.0) == training.request_from(preset, none, 9.0)


@pytest.mark.parametrize("value", [[], {"a": 1}, "x", 3, object()])
@pytest.mark.parametrize(
    ("socket", "source"),
    [("model", "Load OmniVoice"), ("dataset", "OmniVoice Dataset"), ("settings", "OmniVoice Training Settings")],
)
def test_literals_on_sockets_are_refused(
    nodes: dict[str, type], loaded: object, data: object, socket: str, source: str, value: object
) -> None:
    inputs = {"model": loaded, "dataset": data, "settings": None, **SHORT, socket: value}
    with pytest.raises(ValueError, match=f"^{socket} must come from {source}, got "):
        nodes["OmniVoiceTrainLoRA"].execute(**inputs)


@pytest.mark.parametrize("socket", ["model", "dataset"])
def test_none_on_a_required_socket(nodes: dict[str, type], loaded: object, data: object, socket: str) -> None:
    with pytest.raises(ValueError, match=f"^{socket} must come from .*, got None"):
        nodes["OmniVoiceTrainLoRA"].execute(**{"model": loaded, "dataset": data, **SHORT, socket: None})
