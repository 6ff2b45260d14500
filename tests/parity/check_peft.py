"""Our adapters on upstream with PEFT, PEFT's in ours, and our merged folders in upstream's package: logits compared.

Needs, for upstream, the environment of record_lora.py; this one stays free of it. The two sides run in processes of
their own, since both packages are called omnivoice, and meet in files.
usage: python tests/parity/check_peft.py --upstream-python PATH [--record]
Prints the largest difference of each comparison, as it is and divided by 1 + |logit|, and fails when the latter is
above 1e-5. --record keeps what upstream said of
our adapters in tests/assets/lora/ours.safetensors, which the tests replay without PEFT.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

ASSETS = Path(__file__).resolve().parents[1] / "assets"
RECORDED = ASSETS / "lora" / "ours.safetensors"
TOLERANCE = 1e-5
PEFTS = ("plain", "saved", "patterns", "llm_only", "rslora")
STRENGTH = 0.5
# PEFT has no strength for whole weights; and half of "patterns" rounds badly: relative noise of 6e-8 on the weights
# moves its logits by 1.6e-5.
HALVED = ("embeddings", "plain", "llm_only")


# ---------------------------------------------------------------- upstream


def upstream(work):
    """Logits with each adapter of work/adapters, and of each folder in work/models, into work/upstream.safetensors."""
    from omnivoice.models.omnivoice import OmniVoice
    from peft import PeftModel

    job = json.loads((work / "job.json").read_text())
    ids = load_file(work / "ids.safetensors")["ids"]
    found = {}
    for name in job["adapters"]:
        model = PeftModel.from_pretrained(load(OmniVoice, job["checkpoint"]), str(work / "adapters" / name)).eval()
        check_taken(model, work / "adapters" / name)
        found[f"adapter/{name}"] = logits(model.base_model.model, ids, job)
        if name in job["halved"]:
            for module in model.modules():
                if isinstance(getattr(module, "scaling", None), dict):  # HuBERT has a number of that name
                    module.scaling = {key: value * STRENGTH for key, value in module.scaling.items()}
            found[f"half/{name}"] = logits(model.base_model.model, ids, job)
    for folder in sorted((work / "models").iterdir()):
        model = load(OmniVoice, folder)
        found[f"model/{folder.name}"] = logits(model, ids, job)
        found[f"ids/{folder.name}"] = torch.tensor(model.text_tokenizer(job["text"]).input_ids)
        codes = torch.arange(8 * 5).reshape(1, 8, 5) * 23 % 1024
        with torch.no_grad():
            found[f"sound/{folder.name}"] = model.audio_tokenizer.decode(codes).audio_values.reshape(-1).clone()
    save_file(found, work / "upstream.safetensors")


def load(cls, folder):
    return cls.from_pretrained(str(folder), device_map="cpu", dtype=torch.float32).eval()


def check_taken(model, folder):
    """Every tensor of the file is in the model, and the model has no pair that the file lacks."""
    from peft import get_peft_model_state_dict

    saved, there = load_file(folder / "adapter_model.safetensors"), get_peft_model_state_dict(model)
    assert saved.keys() == there.keys(), sorted(saved.keys() ^ there.keys())[:5]
    assert all(torch.equal(tensor, there[name]) for name, tensor in saved.items())


def logits(model, ids, job):
    """[TARGETS, K, V / EVERY], as record_lora.py has it."""
    prompt, total = job["prompt"], ids.shape[1]
    audio = torch.arange(total)[None] >= prompt
    mask = torch.ones(1, 1, total, total, dtype=torch.bool)
    with torch.no_grad():
        out = model(input_ids=ids[None], audio_mask=audio, attention_mask=mask).logits  # [1, K, S, V]
    return out[0, :, prompt:, :: job["every"]].transpose(0, 1).float().contiguous()


# ---------------------------------------------------------------- ours


def ours(options, work):
    """Writes everything, has upstream look at it, and compares."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from omnivoice.weights import locate_checkpoint
    from omnivoice.weights.export_folder import export_folder
    from omnivoice.weights.lora_read import read_lora
    from omnivoice.weights.lora_write import write_peft
    from tests.parity import own_adapters as own

    files = locate_checkpoint(ASSETS / "checkpoint")
    adapters = own.adapters(files.lm_config, load_file(ASSETS / "checkpoint" / "model.safetensors"))
    adapters |= {name: read_lora(ASSETS / "lora" / name, files.lm_config) for name in PEFTS}
    (work / "models").mkdir()
    for name, lora in adapters.items():
        write_peft(work / "adapters" / name, lora, **own.CASES.get(name, {}))
    merge(files, adapters, work / "models", export_folder)
    save_file({"ids": own.input_ids().contiguous()}, work / "ids.safetensors")
    job = {
        "checkpoint": str(ASSETS / "checkpoint"),
        "adapters": sorted(adapters),
        "prompt": own.PROMPT,
        "every": own.EVERY,
        "text": "<|text_start|>Good morning everyone.<|text_end|> Zwei.",
        "halved": HALVED,
    }
    (work / "job.json").write_text(json.dumps(job))
    subprocess.run([options.upstream_python, __file__, "--upstream", str(work)], check=True, cwd=work)
    theirs = load_file(work / "upstream.safetensors")
    compare(files, adapters, work, theirs)
    if options.record:
        record(work, theirs, own)


def merge(files, adapters, models, export_folder):
    """Folders: as it is, each adapter merged, one of a single file, weights replaced."""
    from omnivoice.weights import locate_checkpoint
    from omnivoice.weights.export import export_checkpoint

    wide = torch.float32
    export_folder(files, models / "plain_copy")
    for name, lora in adapters.items():
        export_folder(files, models / name, dtype=wide, loras=[(lora, 1.0)])
    single = export_checkpoint(files, models.parent / "single.safetensors", dtype=wide)
    export_folder(locate_checkpoint(single), models / "of_single_file")
    new = {key: tensor.float() * 1.25 for key, tensor in base_weights().items() if key != "codebook_layer_offsets"}
    export_folder(files, models / "replaced", dtype=wide, tensors=new)


def base_weights():
    return load_file(ASSETS / "checkpoint" / "model.safetensors")


def engine_logits(engine, ids, prompt, every):
    """[TARGETS, K, V / EVERY] of our packed document."""
    from omnivoice.generate.pack import Item, pack_items

    total = ids.shape[1]
    item = Item(tuple(ids[0, :prompt].tolist()), None, total - prompt)
    packed = pack_items(engine.lm, engine.sampler.text, [item], guided=False, device=torch.device("cpu"))
    out = engine.lm(packed.rows(engine.lm, ids[:, prompt:], packed.base), packed.layout)
    return out[..., ::every].float()


def with_lora(loras):
    """Our engine with every (adapter, strength) applied as a host's patches do."""
    from omnivoice import Engine
    from omnivoice.weights.lora import placed

    engine = Engine.load(ASSETS / "checkpoint")
    state = engine.lm.state_dict()
    base = {name: weight.clone() for name, weight in state.items()}
    for lora, strength in loras:
        for _, name, rows, change in placed(lora, engine.lm.config, fused=True):
            part, was = (w if rows is None else w.narrow(0, *rows) for w in (state[name], base[name]))
            part.add_(strength * change.change(was))
    return engine


def compare(files, adapters, work, theirs):
    from omnivoice import Engine
    from tests.parity import own_adapters as own

    def said(engine):
        with torch.no_grad():
            return engine_logits(engine, own.input_ids(), own.PROMPT, own.EVERY)

    base, worst = said(Engine.load(ASSETS / "checkpoint")), 0.0

    def show(what, got, wanted):
        nonlocal worst
        difference = (got - wanted).abs()
        relative = float((difference / (1 + wanted.abs())).max())
        worst = max(worst, relative)
        print(
            f"{what:48} {float(difference.max()):.2e}, by 1 + |logit| {relative:.2e}   (logits up to "
            f"{float(wanted.abs().max()):.1f}, moved by {float((wanted - base).abs().max()):.1f})"
        )

    for name, lora in adapters.items():
        applied = said(with_lora([(lora, 1.0)]))
        show(f"{name}: PEFT on upstream, ours applied", theirs[f"adapter/{name}"], applied)
        show(f"{name}: our merged folder in ours, applied", said(Engine.load(work / "models" / name)), applied)
        show(f"{name}: our merged folder in upstream, applied", theirs[f"model/{name}"], applied)
        if f"half/{name}" in theirs:
            show(
                f"{name}: strength {STRENGTH}, PEFT's scaling halved",
                theirs[f"half/{name}"],
                said(with_lora([(lora, STRENGTH)])),
            )
    for name in ("plain_copy", "of_single_file"):
        show(f"{name}: in upstream, base", theirs[f"model/{name}"], base)
    show("replaced: in upstream, in ours", theirs["model/replaced"], said(Engine.load(work / "models" / "replaced")))
    names = {key.partition("/")[2] for key in theirs if key.startswith("ids/")}
    for kind in ("ids", "sound"):
        equal = [torch.equal(theirs[f"{kind}/{name}"], theirs[f"{kind}/plain_copy"]) for name in names]
        print(f"{kind} of upstream's tokenizers: {'equal' if all(equal) else 'DIFFERENT'} in {len(equal)} folders")
        worst = worst if all(equal) else float("inf")
    print(f"worst: {worst:.2e}")
    if worst > TOLERANCE:
        sys.exit(f"above {TOLERANCE}")


def record(work, theirs, own):
    store = {name: theirs[f"adapter/{name}"] for name in own.CASES}
    about = {name: own.digest(work / "adapters" / name) for name in own.CASES}
    save_file(store, RECORDED, metadata={"about": json.dumps(about)})
    print(f"recorded {RECORDED.name}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream-python")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--upstream", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    if options.upstream:
        upstream(options.upstream)
        return
    if not options.upstream_python:
        parser.error("--upstream-python is needed")
    with tempfile.TemporaryDirectory() as folder:
        ours(options, Path(folder))


if __name__ == "__main__":
    main()
