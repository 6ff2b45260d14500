"""Remakes the demo voice from nothing: python demo_voice/make.py --work FOLDER [--stage NAME].

Stages, each skipped where its result is there: speech (espeak-ng says the sentences), codec (its training), codes
(everything through the codec), lm (the language model's training), fit (the codec's decoder learns how the language
model speaks), pack (both as one file beside this script), judge (how well codec and model say words and keep voices). A
stage that was stopped goes on from where it was, and refuses to if it was made with other settings. Needs torch, the
packages of the engine, the program espeak-ng and, to judge, pocketsphinx.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

SEED, TRAIN, HELD_OUT = 1, 12_000, 60
STAGES = ("speech", "codec", "codes", "lm", "fit", "pack", "judge")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for everything that is made")
    parser.add_argument("--stage", choices=STAGES, help="only this one, instead of all")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    for stage in [given.stage] if given.stage else STAGES:
        torch.set_num_threads(given.threads)
        run(stage, given.work)


def run(stage: str, work: Path) -> None:
    """One stage, unless its result is there."""
    speech, tokenizer = work / "speech", work / "audio_tokenizer"
    if stage == "speech":
        from demo_voice import speech as making

        same_settings(speech, making.settings(seed=SEED, train=TRAIN, held_out=HELD_OUT))
        if not (speech / "index.jsonl").is_file():
            making.make_speech(speech, seed=SEED, train=TRAIN, held_out=HELD_OUT)
    elif stage == "codec":
        from demo_voice import codec_train
        from demo_voice.codec_pack import pack_codec

        same_settings(work / "codec", codec_train.settings(seed=SEED))
        if not (work / "codec" / "done").is_file():
            pack_codec(codec_train.train_codec(speech, work / "codec", seed=SEED), tokenizer)
            (work / "codec" / "done").touch()
    elif stage == "codes":
        from demo_voice import codes

        same_settings(work / "codes", codes.settings(tokenizer))
        if not (work / "codes" / "codes.safetensors").is_file():
            codes.make_codes(speech, tokenizer, work / "codes")
    elif stage == "lm":
        from demo_voice import base_model, language_model

        if not (work / "base" / "model.safetensors").is_file():
            base_model.make_base(tokenizer, work / "base", seed=SEED)
        if not (work / "model" / "model.safetensors").is_file():
            language_model.train_language_model(work)
    elif stage == "fit":
        from demo_voice import decoder_fit
        from demo_voice.codec_pack import pack_codec

        same_settings(work / "fit", decoder_fit.settings(seed=SEED))
        if not (work / "fitted" / "model.safetensors").is_file():
            pack_codec(decoder_fit.fit_decoder(work, seed=SEED), work / "fitted")
    elif stage == "pack":
        from demo_voice.pack import pack

        pack(work)
    elif stage == "judge":
        from demo_voice.judge_codec import judge_codec
        from demo_voice.judge_model import judge_model

        judge_codec(speech, work / "fitted", work / "codes")
        judge_model(work / "codes")


def same_settings(folder: Path, settings: dict[str, object]) -> None:
    """Writes down what a stage is made with, or compares it with what was written when it began."""
    folder.mkdir(parents=True, exist_ok=True)
    text, path = json.dumps(settings, indent=1) + "\n", folder / "settings.json"
    if not path.is_file():
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{folder} was made with other settings: remove it, or give another folder with --work")


if __name__ == "__main__":
    main()
