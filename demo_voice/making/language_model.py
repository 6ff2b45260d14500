"""Trains the demo voice's language model: a full fine-tune of random weights with the engine's training.

    python -m demo_voice.making.language_model --work FOLDER          (or under torchrun, for two processes)

An interrupted run resumes. Two thirds of the clips are single sentences. The others are two sentences of one voice
in one clip, of which the first is given, as a reference is in cloning.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file

from demo_voice.making.codes import codes_of
from omnivoice.ops import PLAIN_OPS
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.train.adapter import full_weights
from omnivoice.train.build import base_fingerprint, build_trainer
from omnivoice.train.clips import Clip, Dataset
from omnivoice.train.loop import train
from omnivoice.train.run import open_run
from omnivoice.train.settings import Masking, TrainSettings
from omnivoice.train.trainer import StepReport
from omnivoice.train.world import join_world
from omnivoice.weights import load_lm, locate_checkpoint
from omnivoice.weights.export_folder import export_folder

# The descriptions of the voices, as generation spells them.
INSTRUCTS = {"f2": "female, high pitch", "m3": "male, high pitch"}
COMMA, PLAIN = 0.15, 0.1  # shares of sentences
PAIRS = 0.5  # clips of two sentences, as a share of the single ones
STEPS, STEP_ROWS = 7000, 3600  # rows of text and audio, about 50 sentences
# After this share of the steps, the loss weights move from the first codebook, which is then as good as it can be, to
# the next ones. Until then they are the base model's.
LATER, LATER_WEIGHTS = 0.6, (6.0, 10.0, 8.0, 5.0, 2.0, 2.0, 1.0, 1.0)
MASKING = Masking(by_codebook=1.0, language=0.5, instruct=0.3, only_instruct=1.0, prompt=(0.0, 0.0))
CPU = torch.device("cpu")


def read_clips(folder: Path, split: str) -> list[tuple[str, Clip]]:
    """Return (voice, clip) for every sentence of a split."""
    codes = load_file(folder / "codes.safetensors")["codes"]
    rows = [json.loads(line) for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        (
            row["voice"],
            Clip(str(row["id"]), codes_of(codes, row).to(torch.int16), row["text"], "en", INSTRUCTS[row["voice"]]),
        )
        for row in rows
        if row["split"] == split
    ]


def typed(text: str, drawn: random.Random) -> str:
    """Return the sentence as people type it: at times in lower case, with a comma, or with another end mark or none."""
    words, stop = text[:-1].split(), "."
    if drawn.random() < COMMA:
        words[drawn.randrange(len(words) - 1)] += ","
    kind = drawn.random()
    if kind < PLAIN:
        words, stop = [word.lower() for word in words], drawn.choice(("", "."))
    elif kind < 2 * PLAIN:
        stop = drawn.choice(("", "!", "?"))
    return " ".join(words) + stop


def with_pairs(written: list[tuple[str, Clip]], seed: int) -> tuple[Clip, ...]:
    """Return the clips, and pairs of clips of one voice whose first sentence is given as a reference."""
    drawn = random.Random(seed)
    single = [(voice, replace(clip, text=typed(clip.text, drawn))) for voice, clip in written]
    by_voice: dict[str, list[Clip]] = {}
    for voice, clip in single:
        by_voice.setdefault(voice, []).append(clip)
    pairs = []
    for _ in range(round(PAIRS * len(single))):
        first, second = drawn.sample(by_voice[drawn.choice(sorted(by_voice))], 2)
        codes = torch.cat((first.codes, second.codes), dim=1)
        text = f"{first.text} {second.text}"
        pairs.append(Clip(f"{first.name}+{second.name}", codes, text, "en", clean_start=first.codes.shape[1]))
    return (*(clip for _, clip in single), *pairs)


def settings(world_size: int = 1, steps: int = STEPS) -> TrainSettings:
    """Return the settings of the run. A step is the same for any number of processes."""
    return TrainSettings(
        method="full",
        optimizer="Muon",
        learning_rate=3e-3,
        weight_decay=0.01,
        steps=steps,
        warmup=0.02,
        batch_tokens=STEP_ROWS // world_size,
        batch_size=64,
        training_dtype="fp32",
        gradient_checkpointing=False,
        validation=0.0,
        save_every=100,
        masking=MASKING,
    )


def train_language_model(work: Path) -> None:
    """Train WORK/base on WORK/codes with the run folder WORK/lm, and write WORK/model. An interrupted run resumes."""
    world = join_world()
    chosen = settings(world.size)
    files = locate_checkpoint(work / "base")
    tokenizer = TextTokenizer.from_json(files.tokenizer_json())
    lm, text = load_lm(
        files.lm_config,
        files.lm_weights,
        ops=PLAIN_OPS,
        device=CPU,
        dtype=torch.float32,
        used_ids=tokenizer.used_ids,
        fused=False,
    )
    dataset = Dataset(with_pairs(read_clips(work / "codes", "train"), seed=chosen.seed))
    base = base_fingerprint(lm)
    trainer = build_trainer(lm, text, tokenizer, dataset, chosen, device=CPU, world=world)
    folder = open_run(work / "lm", chosen, data=dataset.fingerprint(), base=base)
    folder.resume(trainer)

    def weigh() -> None:
        if trainer.step_count >= LATER * chosen.steps:
            trainer.model.codebook_weights = tuple(weight / sum(LATER_WEIGHTS) for weight in LATER_WEIGHTS)

    def show(report: StepReport) -> bool:
        weigh()
        if world.is_main and report.step % 20 == 0:
            mean = sum(trainer.losses[-20:]) / 20
            print(f"lm: step {report.step} loss {mean:.4f}, {report.seconds:.2f} s per step", flush=True)
        return False

    weigh()
    train(trainer, folder, on_step=show)
    if world.is_main:
        export_folder(files, work / "model", dtype=torch.float32, tensors=full_weights(trainer.model))
    world.wait()
    world.close()


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    train_language_model(given.work)


if __name__ == "__main__":
    main()
