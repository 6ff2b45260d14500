"""Training at the real size: seconds per step and peak memory, here and in upstream, alternating processes.

usage: python -m benchmarks.compare.training FOLDER [--upstream-python PATH] [--steps 2] [--rounds 3] [--threads 1]
                                             [--clips 8] [--frames 125] [--json FILE]
FOLDER is a checkpoint of the real size; random weights are enough. Upstream needs the environment of
tests/parity/record.py, with peft. Both sides train a LoRA of rank 16 with the audio modules in modules_to_save, on the
same documents, in float32 on the CPU. A first step warms up and is not timed. "plain" keeps all activations for the
backward pass; "checkpointing" is the default of this engine. The peak is the process's resident memory (VmHWM), which
includes the mapped weight files on both sides.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SIDES = ("upstream", "plain", "checkpointing")
PROMPT = 35  # text tokens of a document


def documents(clips, frames, vocabulary):
    """Return [(prompt ids, codes with masks [8, T], labels [8, T])]."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(clips):
        prompt = torch.randint(0, vocabulary, (PROMPT,), generator=generator)
        codes = torch.randint(0, 1024, (8, frames), generator=generator)
        hidden = torch.rand((8, frames), generator=generator) < 0.5
        found.append((prompt, codes.masked_fill(hidden, 1024), codes.masked_fill(~hidden, -100)))
    return found


def ours(folder, examples, steps, checkpointing):
    sys.path.insert(0, str(ROOT))  # this file runs as a script in both environments
    from omnivoice.ops import PLAIN_OPS
    from omnivoice.text.tokenizer import TextTokenizer
    from omnivoice.train.batches import Source
    from omnivoice.train.masking import Example
    from omnivoice.train.model import TrainingModel
    from omnivoice.train.settings import Masking, TrainSettings
    from omnivoice.train.trainer import Trainer
    from omnivoice.weights import load_lm, locate_checkpoint

    files, cpu = locate_checkpoint(folder), torch.device("cpu")
    tokenizer = TextTokenizer.from_json(files.tokenizer_json())
    lm, text = load_lm(
        files.lm_config,
        files.lm_weights,
        ops=PLAIN_OPS,
        device=cpu,
        dtype=torch.float32,
        used_ids=tokenizer.used_ids,
        fused=False,
    )
    settings = TrainSettings(steps=steps + 1, dropout=0.0, gradient_checkpointing=checkpointing)
    model = TrainingModel(lm, text, settings, device=cpu, generator=torch.Generator().manual_seed(0))
    trainer = Trainer(model, Source((), tokenizer, Masking(), 1024, 0), settings)
    made = [Example(tuple(prompt.tolist()), codes, labels, 0) for prompt, codes, labels in examples]

    def step():
        loss = trainer.learn(made)[0]
        trainer.step_count += 1
        return loss

    return step


def upstream(folder, examples, steps):
    from omnivoice.models.omnivoice import OmniVoice
    from peft import LoraConfig, get_peft_model

    model = OmniVoice.from_pretrained(folder, train=True, dtype=torch.float32, attn_implementation="sdpa")
    model = get_peft_model(
        model,
        LoraConfig(
            r=16,
            lora_alpha=32,
            lora_dropout=0.0,
            target_modules=LINEARS,
            modules_to_save=["audio_embeddings", "audio_heads"],
        ),
    )
    model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01)
    ids = torch.stack([torch.cat((prompt.expand(8, -1), codes), dim=1) for prompt, codes, _ in examples])
    labels = torch.stack([torch.cat((torch.full((8, PROMPT), -100), label), dim=1) for _, _, label in examples])
    B, _, S = ids.shape
    batch = {
        "input_ids": ids,
        "labels": labels,
        "audio_mask": (torch.arange(S) >= PROMPT).expand(B, -1),
        "position_ids": torch.arange(S).expand(B, -1),
        "attention_mask": torch.ones(B, 1, S, S, dtype=torch.bool),
    }

    def step():
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def work(options):
    torch.set_num_threads(options.threads)
    vocabulary = json.loads((Path(options.folder) / "config.json").read_text())["llm_config"]["vocab_size"]
    examples = documents(options.clips, options.frames, min(vocabulary, 150_000))
    if options.side == "upstream":
        step = upstream(options.folder, examples, options.steps)
    else:
        step = ours(options.folder, examples, options.steps, options.side == "checkpointing")
    losses, seconds = [step()], []
    for _ in range(options.steps):
        start = time.perf_counter()
        losses.append(step())
        seconds.append(time.perf_counter() - start)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1e6 for line in status if line.startswith("VmHWM"))
    print(json.dumps({"seconds": seconds, "peak_gb": peak, "losses": losses}))


def run_side(options, side):
    python = options.upstream_python if side == "upstream" else sys.executable
    command = [python, __file__, options.folder, "--side", side]
    for name in ("steps", "threads", "clips", "frames"):
        command += [f"--{name}", str(getattr(options, name))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--upstream-python")
    for name, default in (("steps", 2), ("rounds", 3), ("threads", 1), ("clips", 8), ("frames", 125)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        work(options)
        return
    sides = [side for side in SIDES if side != "upstream" or options.upstream_python]
    results = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side in sides:
            results[side].append(run_side(options, side))
            last = results[side][-1]
            print(side, [round(s, 2) for s in last["seconds"]], f"{last['peak_gb']:.2f} GB", last["losses"], flush=True)
    rows = options.clips * (PROMPT + options.frames)
    for side, rounds in results.items():
        seconds = [s for one in rounds for s in one["seconds"]]
        peak = max(one["peak_gb"] for one in rounds)
        middle = statistics.median(seconds)
        print(
            f"{side}: {middle:.2f} s a step ({min(seconds):.2f}-{max(seconds):.2f}), {rows / middle:.0f} rows/s, "
            f"peak {peak:.2f} GB"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
