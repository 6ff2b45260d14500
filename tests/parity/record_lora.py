"""Adapters as PEFT saves them for upstream's model, and what upstream says with them: logits and tokens.

Needs the environment of record.py, and peft==0.21.2 in it.
usage: python tests/parity/record_lora.py       (writes tests/assets/lora)

Each case is a folder that PEFT's save_pretrained wrote, with random pairs; whole weights are then stored as float16,
which loses nothing, since their values were rounded to it before. Nothing in the tests imports this file.
"""

import json
import shutil
from pathlib import Path

import torch
from omnivoice.models.omnivoice import OmniVoice
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

ASSETS = Path(__file__).parent.parent / "assets"
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEXT, SEED, SECONDS, STEPS = "Good morning everyone.", 11, 1.0, 6
PROMPT, TARGETS, EVERY = 7, 3, 8  # logits: text ids, audio frames, every so many entries of the audio vocabulary
CASES = {
    "plain": {"r": 4, "lora_alpha": 8, "target_modules": LINEARS},
    "saved": {"r": 2, "lora_alpha": 2, "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["audio_heads"]},
    "patterns": {
        "r": 4,
        "lora_alpha": 6,
        "target_modules": [*LINEARS, "audio_heads", "audio_embeddings"],
        "use_rslora": True,
        "rank_pattern": {"q_proj": 2, r"layers\.1\.mlp\.down_proj": 6, "audio_heads": 1, "^audio_embeddings": 2},
        "alpha_pattern": {r"layers\.\d+\.mlp.*": 3, "llm.layers.0.self_attn.k_proj": 1},
    },
    "llm_only": {"r": 3, "lora_alpha": 6, "target_modules": ["k_proj", "gate_proj", "down_proj"]},
    "rslora": {"r": 32, "lora_alpha": 2, "target_modules": ["q_proj", "v_proj"], "use_rslora": True},
}
LLM_ONLY = ("llm_only", "rslora")  # PEFT wrapped `model.llm`, so the names lack that part


def wrap(model, name):
    """The part of `model` that PEFT wrapped, with random values where PEFT begins with zeros."""
    # PEFT finds q_proj in the codec's HuBERT too; one case keeps those pairs, which no training changes.
    excluded = None if name == "plain" else ".*audio_tokenizer.*"
    config = LoraConfig(**CASES[name], exclude_modules=excluded)
    if name in LLM_ONLY:
        wrapped = model.llm = get_peft_model(model.llm, config)
    else:
        wrapped = get_peft_model(model, config)
    torch.manual_seed(len(name))
    with torch.no_grad():
        for key, p in wrapped.named_parameters():
            if "lora_" in key and "audio_tokenizer" not in key:
                p.normal_(0, 0.3)
            elif "modules_to_save" in key:
                p.copy_((p + torch.randn_like(p) * 0.1).half())
    return wrapped.eval()


def logits(model):
    """[TARGETS, K, V / EVERY] of a document of text ids and audio codes."""
    ids = torch.arange(PROMPT + TARGETS).expand(1, 8, -1) * 37 % 1000
    audio = torch.arange(PROMPT + TARGETS)[None] >= PROMPT
    mask = torch.ones(1, 1, PROMPT + TARGETS, PROMPT + TARGETS, dtype=torch.bool)
    with torch.no_grad():
        out = model(input_ids=ids, audio_mask=audio, attention_mask=mask).logits  # [1, K, S, V]
    return out[0, :, PROMPT:, ::EVERY].transpose(0, 1).float().contiguous()


def tokens(model):
    calls, original = [], model._generate_iterative
    model._generate_iterative = lambda task, config: calls.append(original(task, config)) or calls[-1]
    torch.manual_seed(SEED)
    model.generate(text=TEXT, duration=SECONDS, num_step=STEPS)
    model._generate_iterative = original
    return calls[0][0].to(torch.int16).contiguous()


def main():
    torch.set_num_threads(2)
    shutil.rmtree(ASSETS / "lora", ignore_errors=True)
    (ASSETS / "lora").mkdir()
    store = {}
    for name in ["", *CASES]:
        model = OmniVoice.from_pretrained(str(ASSETS / "checkpoint"), device_map="cpu", dtype=torch.float32)
        if name:
            folder = ASSETS / "lora" / name
            wrap(model, name).save_pretrained(folder)
            (folder / "README.md").unlink(missing_ok=True)
            saved = load_file(folder / "adapter_model.safetensors")
            halves = {key: t if "lora_" in key else t.half() for key, t in saved.items()}
            save_file(halves, folder / "adapter_model.safetensors", metadata={"format": "pt"})
            config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
            config["base_model_name_or_path"] = None  # a path of the machine that recorded it
            (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        store[f"{name or 'base'}/logits"], store[f"{name or 'base'}/tokens"] = logits(model), tokens(model)
    meta = {"text": TEXT, "seed": SEED, "seconds": SECONDS, "steps": STEPS, "prompt": PROMPT, "every": EVERY}
    save_file(store, ASSETS / "lora" / "recorded.safetensors", metadata={"about": json.dumps(meta)})


if __name__ == "__main__":
    main()
