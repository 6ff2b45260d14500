"""Run by ComfyUI's python in its tree: what a training leaves behind in its process, told as JSON on the last line.

usage: python train_leaves_nothing.py PACK MODEL CLIPS      (test_train_server.py runs it)
"""

import importlib
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

PACK, MODEL, CLIPS = map(Path, sys.argv[1:4])
sys.argv = ["main.py", "--cpu"]
sys.path.insert(0, os.getcwd())
import comfy.options  # noqa: E402
import utils.install_util  # noqa: E402, F401  (ComfyUI's own, before another `utils` is found)

comfy.options.enable_args_parsing()
import comfy.model_management as mm  # noqa: E402
import folder_paths  # noqa: E402
import torch  # noqa: E402

SHORT = {"preset": "voice", "run_name": "a", "seed": 0, "steps": 3, "learning_rate": 0.01, "rank": 2}
PARTS = (
    "nodes.host",
    "nodes.inputs.training",
    "omnivoice.types",
    "omnivoice.errors",
    "omnivoice.train.clips",
    "omnivoice.train.trainer",
    "omnivoice.intake.audio_files",
)


def load_pack():
    spec = importlib.util.spec_from_file_location(
        "pack-dev", PACK / "__init__.py", submodule_search_locations=[str(PACK)]
    )
    sys.modules["pack-dev"] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return {name.rpartition(".")[2]: importlib.import_module(f"pack-dev.{name}") for name in PARTS}


def state(model):
    """Everything that a training might leave behind."""
    return {
        "weights": {
            f"{part}.{key}": weight.clone()
            for part, module in (("lm", model.engine.lm), ("decoder", model.engine.codec.decoder))
            for key, weight in module.state_dict().items()
        },
        "text": model.engine.sampler.text.weight.clone(),
        "grads": sum(p.requires_grad or p.grad is not None for p in model.engine.lm.parameters()),
        "hooks": sum(len(m._forward_hooks) + len(m._backward_hooks) for m in model.engine.lm.modules()),
        "random": torch.random.get_rng_state(),
        "flags": (mm.in_training, mm.processing_interrupted()),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "training": model.engine.lm.training,
    }


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def clips(p, engine):
    found = []
    for path in sorted(CLIPS.glob("*.wav"))[:4]:
        codes = engine.encode_voice(p["audio_files"].read_audio(path), "").codes
        with torch.inference_mode(False):
            text = path.with_suffix(".txt").read_text(encoding="utf-8")
            found.append(p["clips"].Clip(path.stem, codes.to(torch.int16).clone(), text))
    return p["clips"].Dataset(tuple(found))


def train(p, model, data, *, on_cancel="stop the workflow", **values):
    options = p["training"].options_from({"batch_size": 4, "on_cancel": on_cancel})
    return p["host"].training.train_lora(model, data, {**SHORT, **values}, options, "1")


def outcome(p, model, data, **values):
    """How it ended: finished, or the name of what was raised."""
    try:
        train(p, model, data, **values)
    except (p["errors"].OmniVoiceError, ZeroDivisionError, mm.InterruptProcessingException) as error:
        return type(error).__name__
    return "finished"


def speech(p, model):
    sampling = p["types"].Sampling(steps=4)
    request = p["types"].GenerationRequest("Hello.", seed=1, duration=1.0, sampling=sampling)
    return torch.cat(p["host"].speech.speak(model, {"": request})[""].codes, dim=1)


def interrupted_at(p, count):
    """A step that counts, and presses Cancel in one of them."""
    step = p["host"].training_run.TrainingRun._step

    def press(run, report):
        if report.step == count:
            mm.interrupt_current_processing()
        return step(run, report)

    return step, press


def check_copy(p, patched):
    """The copy is what ComfyUI's own patching makes of the same weights, on whichever side they are at the moment."""
    mm.load_models_gpu([patched.lm])
    applied = {key: weight.clone() for key, weight in patched.engine.lm.state_dict().items()}
    fused = "llm.layers.0.self_attn.qkv_proj.weight" in applied
    found = []
    for _ in range(2):
        with torch.inference_mode(False):
            copy = p["host"].training_model.private_copy(patched, torch.float32, torch.device("cpu")).state_dict()
        layer = "llm.layers.0.self_attn"
        stacked = torch.cat([copy[f"{layer}.{part}_proj.weight"] for part in "qkv"])
        found += [torch.equal(stacked, applied[f"{layer}.qkv_proj.weight"]) if fused else True]
        found += [torch.equal(copy[key], weight) for key, weight in applied.items() if key in copy]
        found += [not any(weight.is_inference() for weight in copy.values())]
        mm.unload_all_models()
    return all(found)


def main():
    p, found = load_pack(), {}
    folder_paths.set_output_directory(tempfile.mkdtemp())
    folder_paths.models_dir = tempfile.mkdtemp()
    folder = Path(folder_paths.models_dir) / "omnivoice"
    folder.mkdir()
    (folder / "M").symlink_to(MODEL)
    p["host"].models.register_model_folder()
    with torch.inference_mode():
        base = p["host"].models.load_model("M", "fp32", "off")
        data = clips(p, base.engine)
        said = speech(p, base)
        before = state(base)
        found["inference_weights"] = base.engine.lm.state_dict()["audio_heads.weight"].is_inference()
        found["finished"] = outcome(p, base, data) == "finished" and same(state(base), before)
        trained = train(p, base, data, run_name="")
        found["result"] = not any(t.requires_grad or t.is_inference() for t in trained.lora.values())
        patched = p["host"].lora.apply_lora(base, "none (use the lora input)", trained.lora, 1.0).model
        found["copy"] = check_copy(p, patched)
        found["on_top"] = outcome(p, patched, data, run_name="b") == "finished" and same(state(base), before)
        step, press = interrupted_at(p, 2)
        p["host"].training_run.TrainingRun._step = press
        found["cancelled"] = outcome(p, base, data, run_name="c") == "InterruptProcessingException"
        found["cancelled_state"] = same(state(base), before)
        kept = outcome(p, base, data, run_name="d", on_cancel="keep what was trained")
        found["kept"] = kept == "finished" and same(state(base), before)
        p["host"].training_run.TrainingRun._step = step
        learn, p["trainer"].Trainer.learn = p["trainer"].Trainer.learn, lambda trainer, examples: (float("nan"), 1.0)
        found["failed"] = outcome(p, base, data, run_name="e", steps=9) == "NumericError"
        p["trainer"].Trainer.learn = lambda trainer, examples: 1 / 0
        found["broken"] = outcome(p, base, data, run_name="f") == "ZeroDivisionError"
        found["failed_state"] = same(state(base), before)
        p["trainer"].Trainer.learn = learn
        found["speech"] = torch.equal(speech(p, base), said)
    print(json.dumps(found))


main()
