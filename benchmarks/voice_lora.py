"""`python -m benchmarks.voice_lora FOLDER`: how far a LoRA of twenty clips brings a new voice, and its cost in words.

A voice of espeak-ng that the language model has never heard speaks twenty sentences of the demo voice's grammar, one of
each pattern. A LoRA is trained on them with a preset, and with single settings changed. On the way it speaks sentences
that neither it nor the model was trained on, without a reference. A speech recognizer counts the words, and a
classifier says whose voice it is; both are those of demo_voice/making. FOLDER keeps the encoded recordings and every
figure (results.jsonl). Needs the program espeak-ng and the package pocketsphinx.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.report import table
from demo_voice.making import grammar, make
from demo_voice.making.judge import Listener, VoiceJudge, accuracy
from demo_voice.making.language_model import INSTRUCTS
from demo_voice.making.speech import VOICES, Voice, say_in_time
from omnivoice import Engine, GenerationRequest, Sampling
from omnivoice.intake.files import append_line
from omnivoice.train.batches import Source
from omnivoice.train.build import build_trainer
from omnivoice.train.clips import Clip, Dataset
from omnivoice.train.settings import PRESETS, settings_for
from omnivoice.types import ALL_SPEEDUPS
from omnivoice.weights.demo import demo_model

# Voices that the demo voice's language model has not heard. Its codec was trained on f5 too, but not on f4.
NEW_VOICES = {voice.name: voice for voice in (Voice("f5", "en-us+f5", 33), Voice("f4", "en-us+f4", 40))}
CLIPS, EXAMPLES, VALID = 20, 20, 20  # to train on; of each voice, for the classifier; for the validation loss
SHORTER, LONGER = 0.97, 1.03  # length of a recording, relative to the estimate that generation uses
BASE_CLIPS = "base_clips"  # beside the settings of a run: how many clips of the model's own speech join the new ones
AT_ONCE = 20  # sentences in one call
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Heard:
    """What the judges hear: shares of the words, of sentences without an error, and of speech in the new voice."""

    words: float
    sentences: float
    voice: float


@dataclass(frozen=True)
class Row:
    """What a run has reached after some of its steps. loss: mean of the last 20 steps. validation: the loss of clips of
    the new voice that are not trained on. seconds: spent on training."""

    step: int
    loss: float
    validation: float
    seconds: float
    heard: Heard


@dataclass(frozen=True, eq=False)
class Study:
    """What all runs share. model: its file or folder. voice: name of the new voice. clips: to train on. valid: for the
    validation loss. texts: held-out sentences to speak, in lower case. steps: of generation."""

    model: Path
    voice: str
    clips: tuple[Clip, ...]
    valid: tuple[Clip, ...]
    texts: Sequence[str]
    listener: Listener
    judge: VoiceJudge
    steps: int

    def listen(self, engine: Engine) -> Heard:
        """Let the model speak every text, and return what the judges hear."""
        requests = [asked(words, seed, self.steps) for seed, words in enumerate(self.texts)]
        parts = [requests[first : first + AT_ONCE] for first in range(0, len(requests), AT_ONCE)]
        return self.judged([one.waveform.samples[0] for part in parts for one in engine.generate(part)])

    def judged(self, recordings: Sequence[Tensor]) -> Heard:
        """Return what the judges hear in recordings [N] of the texts."""
        words, sentences = accuracy(self.texts, [self.listener.hear(one) for one in recordings])
        new = sum(self.judge.voice(one) == self.voice for one in recordings)
        return Heard(words, sentences, new / len(recordings))


def asked(words: str, seed: int, steps: int, design: str | None = None) -> GenerationRequest:
    """Return a request without post-processing: silence at the ends would count as a different voice."""
    return GenerationRequest(
        grammar.written(words),
        design=design,
        language="en",
        seed=seed,
        sampling=Sampling(steps=steps),
        post_process=False,
        pad_seconds=0,
        fade_seconds=0,
    )


def held_out(split: str) -> list[str]:
    """Return the sentences of "valid" or "test", on which the demo voice was not trained."""
    return grammar.draw_sets(make.SEED, make.TRAIN, make.HELD_OUT)[split]


def training_words() -> list[str]:
    """Return a sentence of each pattern, none of them held out."""
    drawn, kept, found = random.Random(7), {*held_out("test"), *held_out("valid")}, list[str]()
    while len(found) < CLIPS:
        words = grammar.draw(grammar.PATTERNS[len(found) % len(grammar.PATTERNS)], drawn)
        found += [words] if words not in kept else []
    return found


def recordings(folder: Path, engine: Engine, voice: Voice) -> dict[str, list[Tensor]]:
    """Return the codes [K, T] int16 of all recordings, from the folder if they are there already."""
    path, valid = folder / f"{voice.name}.safetensors", held_out("valid")
    wanted = {f"example {one.name}": (valid[:EXAMPLES], one) for one in (*VOICES, voice)}
    wanted |= {"train": (training_words(), voice), "valid": (valid[-VALID:], voice), "test": (held_out("test"), voice)}
    if not path.is_file():
        drawn, found = random.Random(1), dict[str, Tensor]()
        for name, (words, speaker) in wanted.items():
            for number, one in enumerate(words):
                samples = say_in_time(one, speaker, drawn.uniform(SHORTER, LONGER))
                with torch.inference_mode():
                    found[f"{name} {number}"] = engine.codec.encoder.encode(samples[None]).to(torch.int16).clone()
        save_file(found, path)
    kept = load_file(path)
    return {name: [kept[f"{name} {number}"] for number in range(len(words))] for name, (words, _) in wanted.items()}


def prepare(folder: Path, model: Path, voice: Voice, sentences: int, steps: int) -> tuple[Study, Heard]:
    """Return a study of the first, third, … of the held-out sentences, and what its judges hear in the new voice's own
    recordings of them, encoded and decoded."""
    engine = Engine.load(model)
    spoken, every = recordings(folder, engine, voice), max(1, make.HELD_OUT // sentences)

    def decoded(name: str) -> list[Tensor]:
        with torch.inference_mode():
            return [engine.codec.decoder.decode(codes.long())[0] for codes in spoken[name]]

    def clips(name: str, words: Sequence[str]) -> tuple[Clip, ...]:
        return tuple(Clip(one, codes, grammar.written(one), "en") for one, codes in zip(words, spoken[name]))

    study = Study(
        model,
        voice.name,
        clips("train", training_words()),
        clips("valid", held_out("valid")[-VALID:]),
        held_out("test")[::every][:sentences],
        Listener(),
        VoiceJudge({one.name: decoded(f"example {one.name}") for one in (*VOICES, voice)}),
        steps,
    )
    return study, study.judged(decoded("test")[::every][:sentences])


def run(study: Study, preset: str, changed: Mapping[str, object], at: Sequence[int]) -> Iterator[Row]:
    """Train a LoRA and yield what it has reached after each of the steps `at`, and at the end.

    changed: settings that replace the preset's, and "base_clips". All clips are trained on; those for validation are
    the study's own.
    """
    given = {"gradient_checkpointing": False, **changed, "validation": 0.0}
    own = int(str(given.pop(BASE_CLIPS, 0)))
    engine = Engine.load(study.model, speedups=replace(ALL_SPEEDUPS, fused_linears=False))
    settings = settings_for(preset, sum(clip.seconds for clip in study.clips), given)
    dataset = Dataset((*study.clips, *spoken_by_model(study, engine, own)))
    lm, text, tokenizer = engine.lm, engine.sampler.text, engine.tokenizer
    trainer = build_trainer(lm, text, tokenizer, dataset, settings, device=CPU)
    trainer.validation = Source(study.valid, tokenizer, settings.masking, lm.config.audio_mask_id, settings.seed)
    speaker, seconds = Engine.around(lm, text, CPU, engine.codec, tokenizer), 0.0
    while not trainer.finished:
        seconds += trainer.step().seconds
        if trainer.step_count in at or trainer.finished:
            recent = trainer.losses[-20:]
            validation = trainer.validate()  # leaves the model in evaluation, without dropout
            heard = study.listen(speaker)
            yield Row(trainer.step_count, sum(recent) / len(recent), validation, seconds, heard)


def spoken_by_model(study: Study, engine: Engine, count: int) -> list[Clip]:
    """Return clips that the model speaks itself before it is trained, in voices that are described to it."""
    drawn, found, names = random.Random(11), list[Clip](), sorted(INSTRUCTS)
    for number in range(count):
        instruct = INSTRUCTS[names[number % len(names)]]
        words = grammar.draw(grammar.PATTERNS[number // len(names) % len(grammar.PATTERNS)], drawn)
        (speech,) = engine.generate([asked(words, number, study.steps, instruct)])
        found.append(Clip(words, speech.codes[0].to(torch.int16), grammar.written(words), "en", instruct))
    return found


def missing_tools() -> str:
    """Return what is missing and how to get it, or an empty string."""
    found = [] if shutil.which("espeak-ng") else ["the program espeak-ng (apt install espeak-ng)"]
    found += [] if importlib.util.find_spec("pocketsphinx") else ["pocketsphinx (pip install pocketsphinx)"]
    return f"this study needs {' and '.join(found)}: install it first" if found else ""


def study_runs(options: argparse.Namespace) -> Iterator[tuple[str, str, Heard]]:
    """Yield (what speaks, steps and losses, what the judges hear) and write each to the folder's results.jsonl."""
    options.folder.mkdir(parents=True, exist_ok=True)
    study, own = prepare(
        options.folder, options.model, NEW_VOICES[options.voice], options.sentences, options.generation_steps
    )

    def noted(name: str, heard: Heard, row: Row | None = None) -> tuple[str, str, Heard]:
        about = {"model": options.model.name, "voice": options.voice, "sentences spoken": len(study.texts)}
        values = asdict(row) if row else {"heard": asdict(heard)}
        append_line(options.folder / "results.jsonl", json.dumps({**about, "run": name, **values}))
        steps = f"step {row.step}, loss {row.loss:.2f}, validation {row.validation:.2f}" if row else ""
        return name, steps, heard

    yield noted("recordings, encoded and decoded", own)
    yield noted("the model without a LoRA", study.listen(Engine.load(options.model)))
    for changed in options.run or [{}]:
        for row in run(study, options.preset, changed, options.at):
            yield noted(json.dumps(changed), row.heard, row)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.voice_lora", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="keeps the recordings and results.jsonl")
    parser.add_argument(
        "--model", type=Path, default=demo_model(), help="a model with the demo voice's codec and words"
    )
    parser.add_argument("--voice", choices=sorted(NEW_VOICES), default="f5")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="voice")
    parser.add_argument(
        "--run",
        action="append",
        type=json.loads,
        help="settings that replace the preset's, as JSON, such as '{\"rank\": 8}'; repeat it for several runs. "
        f'"{BASE_CLIPS}": clips of the model\'s own speech that join the new ones',
    )
    parser.add_argument("--at", type=int, nargs="*", default=[], help="steps after which it also speaks")
    parser.add_argument("--sentences", type=int, default=60, help="how many it speaks, at most 60")
    parser.add_argument("--generation-steps", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and print its table; return 1 if a tool is missing."""
    options = parse(arguments)
    if missing := missing_tools():
        print(missing, file=sys.stderr)
        return 1
    torch.set_num_threads(options.threads)
    rows = []
    for name, steps, heard in study_runs(options):
        rows.append((name, steps, *(f"{share:.3f}" for share in (heard.words, heard.sentences, heard.voice))))
        print(*rows[-1], sep="  ", flush=True)
    print("\n" + table(("what speaks", "trained", "words", "sentences", "new voice"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
