"""Trains the codec's decoder on the codes that the language model generates.

The language model predicts the first codebook well and the later ones only roughly, because these hold details that
are hard to predict. So training sentences are generated with the true codes of the recording in the first codebook, or
in the first two, and the recording is the target. Some examples keep all true codes. The encoder and the codebooks do
not change, so every code keeps its meaning. The state is saved every minute.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from demo_voice.making.codec_model import SIZES, DemoCodec
from demo_voice.making.codec_train import EXAMPLES, FRAMES, Spectra, cosine, run_steps
from demo_voice.making.codes import codes_of
from demo_voice.making.language_model import CPU, INSTRUCTS
from demo_voice.making.speech import HOP, as_float, integer, load_speech, read_lines
from omnivoice.generate.noise import item_noise
from omnivoice.generate.pack import Item, pack_items
from omnivoice.generate.schedule import reveal_counts
from omnivoice.generate.step import Revealer, predict
from omnivoice.lm import OmniVoiceLM, TextEmbedding
from omnivoice.ops import TORCH_OPS
from omnivoice.text.prompt import build_prompt
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.types import ALL_SPEEDUPS, Sampling
from omnivoice.weights import load_lm, locate_checkpoint

SENTENCES, AT_ONCE, DECODING = 1_500, 20, Sampling(steps=16)
STEPS, RATE = 1_200, 6e-4
TRUE = (1, 1, 2)  # how many codebooks keep the recording's codes, in turn
KEPT = 0.3  # share of examples that keep all true codes


def settings(*, seed: int) -> dict[str, object]:
    """Return all values that the decoder depends on, except the codec, the codes and the language model."""
    return {
        "seed": seed,
        "sentences": SENTENCES,
        "decoding": asdict(DECODING),
        "true": list(TRUE),
        "kept": KEPT,
        "steps": STEPS,
        "rate": RATE,
    }


def guess_codes(work: Path) -> None:
    """Write WORK/fit/codes.safetensors: generated codes of the first training sentences, uint8 [8, frames]."""
    files = locate_checkpoint(work / "model")
    tokenizer = TextTokenizer.from_json(files.tokenizer_json())
    lm, text = load_lm(
        files.lm_config, files.lm_weights, ops=TORCH_OPS, device=CPU, dtype=torch.float32, used_ids=tokenizer.used_ids
    )
    every = load_file(work / "codes" / "codes.safetensors")["codes"]
    rows = _training_rows(work)
    found: list[Tensor] = []
    for first in range(0, len(rows), AT_ONCE):
        part = rows[first : first + AT_ONCE]
        true = [codes_of(every, row) for row in part]
        prompts = [
            build_prompt(tokenizer, text=str(row["text"]), language="en", instruct=INSTRUCTS[str(row["voice"])])
            for row in part
        ]
        items = [Item(prompt, None, codes.shape[1]) for prompt, codes in zip(prompts, true)]
        kept = torch.cat([torch.full((codes.shape[1],), TRUE[i % len(TRUE)]) for i, codes in enumerate(true)])
        found.append(_generated(lm, text, items, torch.cat(true, dim=1), kept, seed=first).to(torch.uint8))
        if (first + AT_ONCE) % 500 == 0:
            print(f"fit: codes of {first + AT_ONCE} of {len(rows)} sentences", flush=True)
    (work / "fit").mkdir(exist_ok=True)
    save_file({"codes": torch.cat(found, dim=1)}, work / "fit" / "codes.safetensors")


@torch.inference_mode()
def _generated(
    lm: OmniVoiceLM, text: TextEmbedding, items: list[Item], true: Tensor, kept: Tensor, *, seed: int
) -> Tensor:
    """Return codes [K, sum of T] as `generate.sample` decides them, but the true ones in the first `kept` codebooks."""
    mask, frames, steps = lm.config.audio_mask_id, [item.frames for item in items], DECODING.steps
    counts = [reveal_counts(len(SIZES) * T, steps, DECODING.t_shift) for T in frames]
    generators = [torch.Generator().manual_seed(seed + i) for i in range(len(items))]
    revealer = Revealer.of(item_noise(lm.config, frames, generators, DECODING), DECODING, mask, CPU)
    packed = pack_items(lm, text, items, guided=True, device=CPU)
    codes, fixed = torch.full_like(true, mask), (torch.arange(len(SIZES))[:, None] < kept).T[..., None]
    for step in range(steps):
        log_probs = predict(lm, packed, DECODING.guidance, ALL_SPEEDUPS, codes, packed.base)  # [sum of T, K, V]
        surest = log_probs.amax(dim=-1, keepdim=True)
        forced = torch.full_like(log_probs, -1e3).scatter_(2, true.T[..., None], surest)
        log_probs = torch.where(fixed, forced, log_probs)
        codes, _ = revealer.reveal(codes, log_probs, step, [own[step] for own in counts])
    return codes


def fit_decoder(work: Path, *, seed: int) -> DemoCodec:
    """Train the decoder of the codec in WORK/codec, or resume that training, and return the codec."""
    if not (work / "fit" / "codes.safetensors").is_file():
        guess_codes(work)
    guessed, true = (load_file(work / folder / "codes.safetensors")["codes"] for folder in ("fit", "codes"))
    rows, (index, recordings) = _training_rows(work), load_speech(work / "speech")
    recordings_by_id = {row["id"]: samples for row, samples in zip(index, recordings)}
    codec, spectra = DemoCodec(), Spectra()
    codec.load_state_dict(torch.load(work / "codec" / "state.pt", weights_only=True)["codec"])

    def losses(step: int, generator: torch.Generator) -> tuple[Tensor, list[float]]:
        codes, target = [], []
        for _ in range(EXAMPLES):
            row = rows[int(torch.randint(len(rows), (), generator=generator))]
            keeps = float(torch.rand((), generator=generator)) < KEPT
            first = integer(row, "frame") - (0 if keeps else integer(rows[0], "frame"))
            start = int(torch.randint(integer(row, "frames") - FRAMES + 1, (), generator=generator))
            codes.append((true if keeps else guessed)[:, first + start : first + start + FRAMES].long())
            target.append(as_float(recordings_by_id[row["id"]][start * HOP : (start + FRAMES) * HOP]))
        features = codec.books.features(torch.stack(codes))
        with torch.autocast("cpu", torch.bfloat16):
            decoded = codec.decode(features.transpose(1, 2))
        mel, linear, relative = spectra(decoded.float()[:, 0], torch.stack(target))
        return mel + linear + 0.5 * relative, [float(part.detach()) for part in (mel, linear, relative)]

    learning = list(codec.acoustic_decoder.requires_grad_(True).parameters())
    run_steps(codec, learning, work / "fit" / "state.pt", STEPS, losses, lambda s: cosine(RATE, s / STEPS), seed=seed)
    return codec


def _training_rows(work: Path) -> list[dict[str, object]]:
    """Return the first training rows of the codes' index, whose codes are end to end."""
    return [row for row in read_lines(work / "codes" / "index.jsonl") if row["split"] == "train"][:SENTENCES]
