"""`python -m benchmarks.editing FOLDER`: how often edited recordings say the new sentence, and how rough joints are.

espeak-ng speaks sentences of the demo voice's grammar that it was not trained on. Words of them are changed, inserted,
deleted and spoken again, each in its own recording, in both orders of the codebooks. A speech recognizer that knows the
grammar counts the sentences that are right as a whole. The same new sentences are also spoken afresh: without a voice,
and cloned from the recording. FOLDER keeps the recordings and every result (results.jsonl), and a run that was stopped
goes on from there. Needs the program espeak-ng and the package pocketsphinx.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from types import MappingProxyType

import torch
from torch import Tensor

from benchmarks.editing_cases import COUNTS, Language, in_stereo
from benchmarks.editing_recordings import Judge, Recording, largest_step, recordings
from benchmarks.report import table
from benchmarks.voice_lora import missing_tools
from benchmarks.word_times import Aligner
from demo_voice.making import grammar
from omnivoice import Engine, GenerationRequest, VoicePrompt
from omnivoice.constants import SAMPLE_RATE
from omnivoice.generate.filling import CODEBOOKS, TOGETHER
from omnivoice.intake.files import append_line
from omnivoice.productions.edit import Edited, EditRequest, edit_speech
from omnivoice.productions.timings import TimedWord, timed_line
from omnivoice.types import Waveform
from omnivoice.weights.demo import demo_model

AT_ONCE = 10  # sentences in one call
RMS = 0.1  # of the recordings
Row = dict[str, object]


@dataclass(frozen=True, eq=False)
class Result:
    """What a method makes of a recording: samples [C, N], their rate, and the report on how they were edited."""

    samples: Tensor
    rate: int
    edited: Edited | None = None


Method = Callable[[Engine, Sequence[Recording]], list[Result]]


def original(engine: Engine, found: Sequence[Recording]) -> list[Result]:
    """Return the recordings as they are."""
    return [Result(one.samples[None], SAMPLE_RATE) for one in found]


def round_trip(engine: Engine, found: Sequence[Recording]) -> list[Result]:
    """Return the recordings, encoded and decoded by the codec."""
    with torch.no_grad():
        return [Result(engine.codec.decode(engine.codec.encode(one.samples[None])), SAMPLE_RATE) for one in found]


def afresh(engine: Engine, found: Sequence[Recording], *, cloned: bool) -> list[Result]:
    """Return the new sentences, spoken in the model's own choice of voice or cloned from the recordings."""
    requests = []
    for one in found:
        plain = GenerationRequest(grammar.written(one.case.new), language="en", seed=one.case.seed)
        plain = replace(plain, post_process=False, pad_seconds=0, fade_seconds=0)
        if cloned:
            with torch.no_grad():
                codes = engine.codec.encode(one.samples[None])
            plain = replace(plain, voice=VoicePrompt(codes, grammar.written(one.case.old), RMS))
        requests.append(plain)
    return [Result(speech.waveform.samples, SAMPLE_RATE) for speech in engine.generate(requests)]


def edited(
    engine: Engine,
    found: Sequence[Recording],
    *,
    order: str = CODEBOOKS,
    quick: bool = False,
    stereo: bool = False,
    timed: bool = False,
) -> list[Result]:
    """Return the edited recordings. timed: with the word times of a recognizer that knows the old sentence."""
    sounds = [
        Waveform(in_stereo(one.samples), 44_100) if stereo else Waveform(one.samples, SAMPLE_RATE) for one in found
    ]
    requests = [
        EditRequest(
            sound,
            grammar.written(one.case.old),
            grammar.written(one.case.new),
            again=named(one) if one.case.kind == "redo" else "",
            word_times=recognised_words(one) if timed else (),
            language="en",
            seed=one.case.seed,
            order=order,
            quick=quick,
        )
        for sound, one in zip(sounds, found)
    ]
    return [Result(one.waveform.samples, one.waveform.sample_rate, one) for one in edit_speech(engine, requests)]


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "recording": original,
        "codec": round_trip,
        "afresh": partial(afresh, cloned=False),
        "afresh, cloned": partial(afresh, cloned=True),
        "codebooks": edited,
        "codebooks, quick": partial(edited, quick=True),
        "codebooks, word times": partial(edited, timed=True),
        "codebooks, 44.1 kHz stereo": partial(edited, stereo=True),
        "together": partial(edited, order=TOGETHER),
    }
)


def named(one: Recording) -> str:
    """Return the word to speak again as it is named, with its number where the sentence has it twice."""
    words, place = one.case.old.split(), one.case.changed[0]
    return f"{words[place]}#{1 + words[:place].count(words[place])}"


def recognised_words(one: Recording) -> tuple[TimedWord, ...]:
    """Return the words with the times at which a recognizer finds them; () if it does not."""
    said = timed_line(grammar.written(one.case.old), 0, one.samples[None]).words
    starts = Aligner().starts(one.case.old.split(), one.samples[None])
    if not starts:
        return ()
    ends = [*starts[1:], max(said[-1].end, starts[-1] + 0.1)]
    return tuple(TimedWord(word.word, start, end) for word, start, end in zip(said, starts, ends))


def rows_of(method: str, engine: Engine, found: Sequence[Recording], judge: Judge) -> Iterator[Row]:
    """Yield a row for each recording: what is heard, how rough the joints are, and the seconds it took."""
    start = time.process_time()
    results = METHODS[method](engine, found)
    seconds = (time.process_time() - start) / len(found)
    for one, result in zip(found, results):
        wanted = one.case.old if method in ("recording", "codec") else one.case.new
        heard = judge.hear_at(result.samples, result.rate)
        row: Row = {"heard": heard, "wanted": wanted, "right": heard == wanted, "seconds": round(seconds, 4)}
        if result.edited is not None:
            joints = [(joint.start / result.rate, joint.end / result.rate) for joint in result.edited.joints]
            row |= {
                "roughness": [round(joint.roughness, 3) for joint in result.edited.joints],
                "largest steps": [round(step, 3) for step in largest_step(result.samples, result.rate, joints)],
                "spans": [[span.start, span.end, span.frames] for span in result.edited.spans],
            }
        yield row | {"old": one.case.old, "voice": one.case.voice, "changed": list(one.case.changed)}


def study(options: argparse.Namespace) -> list[Row]:
    """Return all rows, the stored ones and those that are measured now."""
    words = None
    if options.words is not None:
        words = {*re.findall("[a-z]+", options.words.read_text(encoding="utf-8").lower())}
    language, stored = Language.of(words), options.folder / "results.jsonl"
    options.folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = [json.loads(line) for line in stored.read_text().splitlines()] if stored.is_file() else []
    engine: Engine | None = None
    for kind in options.kinds:
        found, chosen = recordings(options.folder / "recordings", kind, options.split, language, options.voices)
        print(f"{kind}: {chosen.used} recordings, {chosen.tried} tried", file=sys.stderr, flush=True)
        judge = Judge(language.jsgf(kind))
        for method in options.methods:
            place = {"model": options.name, "split": options.split, "kind": kind, "method": method}
            done = {row["number"] for row in rows if {key: row[key] for key in place} == place}
            left = [(number, one) for number, one in enumerate(found[: options.most]) if number not in done]
            for first in range(0, len(left), AT_ONCE):
                engine = engine or Engine.load(options.model)
                part = left[first : first + AT_ONCE]
                for (number, _), row in zip(part, rows_of(method, engine, [one for _, one in part], judge)):
                    rows.append(place | {"number": number} | row)
                    append_line(stored, json.dumps(rows[-1]))
    return [row for row in rows if row["model"] == options.name and row["split"] == options.split]


def report(rows: Sequence[Row]) -> str:
    """Return a table with a line for each kind of edit and method."""
    lines = []
    for kind in COUNTS:
        for method in METHODS:
            own = [row for row in rows if (row["kind"], row["method"]) == (kind, method)]
            if own:
                lines.append((kind, method, f"{sum(bool(row['right']) for row in own)}/{len(own)}", *_joints(own)))
    return table(("edit", "made by", "right", "joints <= 1", "median", "95 %", "mine", "s"), lines)


def _joints(rows: Sequence[Row]) -> tuple[str, str, str, str, str]:
    rough = sorted(value for row in rows for value in row.get("roughness", []))  # type: ignore[attr-defined]
    steps = sorted(value for row in rows for value in row.get("largest steps", []))  # type: ignore[attr-defined]
    seconds = f"{sum(float(str(row['seconds'])) for row in rows) / len(rows):.2f}"
    if not rough:
        return "", "", "", "", seconds
    calm = f"{sum(value <= 1 for value in rough)}/{len(rough)}"
    own = f"{sum(value <= 1 for value in steps)}/{len(steps)}"
    return calm, f"{median(rough):.2f}", f"{rough[int(0.95 * (len(rough) - 1))]:.2f}", own, seconds


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.editing", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="keeps the recordings and results.jsonl")
    parser.add_argument("--model", type=Path, default=demo_model(), help="default: the demo voice")
    parser.add_argument("--name", default="demo voice", help="of the model, in results.jsonl")
    parser.add_argument(
        "--words",
        type=Path,
        help="a text file, such as a grammar, with all words that the model knows; default: the demo voice's",
    )
    parser.add_argument("--voices", nargs="+", default=["f2", "m3"], choices=["f2", "m3"], help="of the recordings")
    parser.add_argument("--split", choices=("tune", "report"), default="report", help="two sets that share no sentence")
    parser.add_argument("--kinds", nargs="+", choices=sorted(COUNTS), default=list(COUNTS), metavar="KIND")
    parser.add_argument("--methods", nargs="+", choices=sorted(METHODS), default=list(METHODS), metavar="METHOD")
    parser.add_argument("--most", type=int, help="edits of each kind; default: all")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and print its table; return 1 if a tool is missing."""
    options = parse(arguments)
    if missing := missing_tools():
        print(missing, file=sys.stderr)
        return 1
    torch.set_num_threads(options.threads)
    print(report(study(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
