"""How upstream trains: documents of its processor, losses and weights of twenty steps, with PEFT's LoRA and in full.

Needs the environment of record.py, and peft==0.21.2 in it.
usage: python tests/parity/record_training.py [FOLDER]      (writes tests/assets/training; FOLDER: unthinned, too)

Upstream's model, processor and padding collator, torch's AdamW and transformers' cosine schedule, as its trainer puts
them together (training/trainer.py:136-160, 270-285); LoRA as in its example, but rank 4 and no dropout, whose draws
cannot be the same. Nothing in the tests imports this file.
"""

import json
import random
import sys
from pathlib import Path

import torch
from omnivoice.data.collator import PaddingDataCollator
from omnivoice.data.processor import OmniVoiceSampleProcessor
from omnivoice.models.omnivoice import OmniVoice
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoTokenizer, get_cosine_schedule_with_warmup

ASSETS = Path(__file__).parent.parent / "assets"
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK, ALPHA, STEPS, WARMUP, DECAY, CLIP = 4, 8, 20, 2, 0.01, 1.0
RATES = {"lora": 3e-4, "full": 1e-4}
PER_STEP, EVERY = 3, 16  # clips of a step; of a weight's entries, one in so many is kept
LABELS = [
    {"text": "The quick brown fox.", "language_id": "en", "instruct": "female, high pitch"},
    {"text": "Eine kurze Probe, mehr nicht.", "language_id": "de"},
    {"text": "Good morning everyone, nice to meet you.", "language_id": "en"},
    {"text": "\u4f60\u597d\u3002", "language_id": "zh", "text_pinyin": "ni3 hao3."},
    {"text": "No language here.", "instruct": "Anna"},
    {"text": "A noisy start, then clean.", "language_id": "en", "clean_start_token_idx": 9},
    {"text": "Un, deux, trois, quatre, cinq.", "language_id": "fr"},
    {"text": "Seven and eight and nine.", "language_id": "en", "instruct": "male, british accent"},
]


def clips():
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, 1024, (8, 14 + 5 * i), generator=generator).to(torch.int16) for i in range(len(LABELS))]


def documents(processor, codes):
    """Every step's processed samples; each sample after both global generators were seeded with its number."""
    steps = []
    for step in range(STEPS):
        batch = []
        for place in range(PER_STEP):
            number = step * PER_STEP + place
            random.seed(number)
            torch.manual_seed(number)
            sample = {"audio_tokens": codes[number % len(LABELS)], "label": dict(LABELS[number % len(LABELS)])}
            batch.append(processor(sample))
        steps.append(batch)
    return steps


def train(model, steps, collate, rate):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=DECAY)
    schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=WARMUP, num_training_steps=STEPS)
    losses, norms = [], []
    for batch in steps:
        loss = model(**collate(batch)).loss
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, CLIP)))
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses, norms


def named(model):
    """Trained weights by the checkpoint's names: MODULE.weight, MODULE.down, MODULE.up."""
    found = {}
    for name, p in model.named_parameters():
        if p.requires_grad:
            name = name.removeprefix("base_model.model.").replace(".modules_to_save.default", "")
            name = name.replace(".lora_A.default.weight", ".down").replace(".lora_B.default.weight", ".up")
            found[name] = p.detach().clone()
    return found


def main():
    torch.set_num_threads(2)
    folder = str(ASSETS / "checkpoint")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = OmniVoiceSampleProcessor(tokenizer, 8, 1024, (0.0, 0.3), (0.0, 1.0), 0.1, 0.8, 0.3, 1.0, 0.5)
    collate, codes = PaddingDataCollator(processor, 8192), clips()
    steps = documents(processor, codes)
    full, kept, about = (
        {},
        {},
        {
            "labels": LABELS,
            "rank": RANK,
            "alpha": ALPHA,
            "steps": STEPS,
            "rates": RATES,
            "warmup": WARMUP / STEPS,
            "decay": DECAY,
            "clip": CLIP,
            "per_step": PER_STEP,
            "every": EVERY,
        },
    )
    for kind in ("lora", "full"):
        model = OmniVoice.from_pretrained(folder, train=True, dtype=torch.float32, attn_implementation="sdpa")
        if kind == "lora":
            torch.manual_seed(5)
            model = get_peft_model(
                model,
                LoraConfig(
                    r=RANK,
                    lora_alpha=ALPHA,
                    lora_dropout=0.0,
                    bias="none",
                    target_modules=LINEARS,
                    modules_to_save=["audio_embeddings", "audio_heads"],
                ),
            )
            kept.update({f"lora/initial/{n}": w for n, w in named(model).items() if not n.endswith(".weight")})
        model.train()
        losses, norms = train(model, steps, collate, RATES[kind])
        kept[f"{kind}/losses"] = torch.tensor(losses, dtype=torch.float64)
        kept[f"{kind}/norms"] = torch.tensor(norms, dtype=torch.float64)
        final = named(model)
        full.update({f"{kind}/final/{n}": w for n, w in final.items()})
        kept.update({f"{kind}/final/{n}": w.flatten()[::EVERY].contiguous() for n, w in final.items()})
    for number, code in enumerate(codes):
        kept[f"codes/{number}"] = code
    for step, batch in enumerate(steps):
        for place, one in enumerate(batch):
            name = f"documents/{step * PER_STEP + place}"
            kept[f"{name}/ids"] = one["input_ids"].to(torch.int32)
            kept[f"{name}/labels"] = one["labels"].to(torch.int16)
            kept[f"{name}/prompt"] = torch.tensor(int((~one["audio_mask"]).sum()))
    (ASSETS / "training").mkdir(exist_ok=True)
    metadata = {"about": json.dumps(about)}
    save_file(kept, ASSETS / "training" / "recorded.safetensors", metadata=metadata)
    if len(sys.argv) > 1:
        save_file({**kept, **full}, Path(sys.argv[1]) / "training.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
