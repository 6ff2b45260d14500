"""`python -m demo_voice.making.make --work FOLDER [--stage NAME]`: makes the demo voice from scratch.

The stages are speech (espeak-ng speaks the sentences), codec (trains the codec), codes (encodes all speech), lm (trains
the language model), fit (trains the codec's decoder on what the language model says), pack (writes both as one file)
and judge (measures how well codec and model keep words and voices). A stage whose result exists is skipped. A stage
that was interrupted resumes, unless its settings have changed: then it is refused. Needs torch, the engine's packages,
the program espeak-ng and, for judge, pocketsphinx.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

SEED, TRAIN, HELD_OUT = 1, 12_000, 60
STAGES = ("speech", "codec", "codes", "lm", "fit", "pack", "judge")


def main() -> None:
    """Run all stages, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for all intermediate results")
    parser.add_argument("--stage", choices=STAGES, help="run only this stage")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    for stage in [given.stage] if given.stage else STAGES:
        torch.set_num_threads(given.threads)
        run(stage, given.work)


def run(stage: str, work: Path) -> None:
    """Run one stage, unless its result exists."""
    speech, tokenizer = work / "speech", work / "audio_tokenizer"
    if stage == "speech":
        from demo_voice.making import speech as making

        same_settings(speech, making.settings(seed=SEED, train=TRAIN, held_out=HELD_OUT))
        if not (speech / "index.jsonl").is_file():
            making.make_speech(speech, seed=SEED, train=TRAIN, held_out=HELD_OUT)
    elif stage == "codec":
        from demo_voice.making import codec_train
        from demo_voice.making.codec_pack import pack_codec

        same_settings(work / "codec", codec_train.settings(seed=SEED))
        if not (work / "codec" / "done").is_file():
            pack_codec(codec_train.train_codec(speech, work / "codec", seed=SEED), tokenizer)
            (work / "codec" / "done").touch()
    elif stage == "codes":
        from demo_voice.making import codes

        same_settings(work / "codes", codes.settings(tokenizer))
        if not (work / "codes" / "codes.safetensors").is_file():
            codes.make_codes(speech, tokenizer, work / "codes")
    elif stage == "lm":
        from demo_voice.making import base_model, language_model

        if not (work / "base" / "model.safetensors").is_file():
            base_model.make_base(tokenizer, work / "base", seed=SEED)
        if not (work / "model" / "model.safetensors").is_file():
            language_model.train_language_model(work)
    elif stage == "fit":
        from demo_voice.making import decoder_fit
        from demo_voice.making.codec_pack import pack_codec

        same_settings(work / "fit", decoder_fit.settings(seed=SEED))
        if not (work / "fitted" / "model.safetensors").is_file():
            pack_codec(decoder_fit.fit_decoder(work, seed=SEED), work / "fitted")
    elif stage == "pack":
        from demo_voice.making.pack import pack

        pack(work)
    elif stage == "judge":
        from demo_voice.making.judge_codec import judge_codec
        from demo_voice.making.judge_model import judge_model

        judge_codec(speech, work / "fitted", work / "codes")
        judge_model(work / "codes")


def same_settings(folder: Path, settings: dict[str, object]) -> None:
    """Record a stage's settings, or stop with a message if the recorded ones are different."""
    folder.mkdir(parents=True, exist_ok=True)
    text, path = json.dumps(settings, indent=1) + "\n", folder / "settings.json"
    if not path.is_file():
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{folder} was made with other settings: remove it, or give another folder with --work")


if __name__ == "__main__":
    main()
