"""The options that all commands which speak have in common, and the request that they make."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..engine import Engine
from ..errors import InputError
from ..generate.presets import PRESETS
from ..intake.audio_files import check_wav_target, read_audio
from ..intake.limits import shown
from ..intake.paths import shown_name
from ..productions.takes import SpeakWithRetries
from ..text.dictionary import merged
from ..text.dictionary_reader import read_dictionary
from ..text.free_design import design_from_free_text
from ..text.vocabulary import named
from ..types import Dictionary, GenerationRequest, Sampling, VoicePrompt
from .text_input import text_argument

BAR = 30
VOICE_SUFFIX = ".safetensors"


def add_voice_options(parser: argparse.ArgumentParser) -> None:
    """Add --voice, --transcript, --design and --describe."""
    parser.add_argument("--voice", metavar="FILE", help="recording to clone, or a saved voice (.safetensors)")
    parser.add_argument("--transcript", default="", metavar="TEXT", help="its transcript, word for word")
    parser.add_argument("--design", metavar="WORDS", help='attributes of the voice, e.g. "female, british accent"')
    parser.add_argument("--describe", metavar="TEXT", help='the voice in your own words, e.g. "a deep voice"')


def add_speech_options(parser: argparse.ArgumentParser, *, resumes: bool = False) -> None:
    """Add the options of the language, the seed, the text, the recording and the sampling.

    resumes: the command continues a stopped run, so its default seed is always the same.
    """
    parser.add_argument("--language", help="id, tag or name, e.g. en, pt-BR, Japanese; see: languages")
    seed = "0" if resumes else "a new seed, which is printed"
    parser.add_argument("--seed", type=int, help=f"same seed, same speech; default: {seed}")
    parser.add_argument("--speed", type=float, help="0.25-4, default 1")
    parser.add_argument(
        "--as-written",
        action=argparse.BooleanOptionalAction,
        help="speak the text as it is written, with every symbol and without reading pauses from it; "
        "default: as the model says",
    )
    parser.add_argument(
        "--normalise", action="store_true", help="speak numbers, symbols and abbreviations as words; see docs"
    )
    parser.add_argument(
        "--dictionary",
        action="append",
        default=[],
        metavar="FILE",
        help="pronunciations, text or CSV, see docs/script.md; may be repeated, and later entries win",
    )
    parser.add_argument(
        "--denoise",
        action=argparse.BooleanOptionalAction,
        help="ask for clean speech where the recording is noisy; default: on, unless the model recommends otherwise",
    )
    parser.add_argument("--no-post-process", action="store_true", help="do not shorten silences")
    _add_sampling_options(parser)


def _add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Add --preset, --steps, --guidance and the approximations."""
    guidance = Sampling().guidance
    presets = ", ".join(f"{name} {preset.steps}" for name, preset in PRESETS.items())
    parser.add_argument(
        "--preset",
        choices=[*PRESETS],
        default="quality",
        help=f"steps and shortcuts by name (steps: {presets}); default quality; fast also approximates",
    )
    parser.add_argument("--steps", type=int, help="decoding steps; default: those of the preset")
    parser.add_argument("--guidance", type=float, help=f"guidance scale, default {guidance:g}")
    parser.add_argument(
        "--unconditional-every",
        type=int,
        metavar="N",
        help="approximate: recompute the unconditional half of guidance every N steps; 1 = exact; "
        "default: as in the preset",
    )
    parser.add_argument(
        "--prefix-every",
        type=int,
        metavar="N",
        help="approximate: recompute the keys and values of prompt and reference every N steps; 1 = exact; "
        "default: as in the preset",
    )


def add_retries_option(parser: argparse.ArgumentParser) -> None:
    """Add --retries."""
    parser.add_argument(
        "--retries",
        type=int,
        default=0,
        metavar="N",
        help="speak what has a fault (cut ending, click, silence, clipping, wrong length) again with other seeds, up "
        "to N times; default 0, no checks",
    )


def speaker_of(options: argparse.Namespace, engine: Engine, *, progress: bool = False) -> SpeakWithRetries:
    """Return what speaks plans, with the retries of the options; raises InputError for a number out of range."""
    speak = partial(engine.generate_plans, on_step=show_progress) if progress else engine.generate_plans
    return SpeakWithRetries(speak, options.retries)


def add_redo_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --redo and --keep-parts. what: "line" or "part"."""
    parser.add_argument("--keep-parts", action="store_true", help="keep the folder of finished parts, for later edits")
    parser.add_argument(
        "--redo",
        default="",
        metavar="NUMBER=SEED",
        help=f"speak {what}s again with another seed and leave the others as they are, e.g. 3=99,7=5",
    )


def check_voice_options(options: argparse.Namespace) -> None:
    """Refuse options of the voice that contradict each other, before a model is loaded; raises InputError."""
    if options.transcript and not options.voice:
        raise InputError("--transcript needs --voice: it is the transcript of that recording")
    if options.design and options.describe:
        raise InputError("--design and --describe both describe the voice: leave out one")


def request_from(options: argparse.Namespace, engine: Engine, text: str) -> tuple[GenerationRequest, tuple[str, ...]]:
    """Return the request that the options describe, and warnings about the voice."""
    described, ignored = design_from_free_text(options.describe or "")
    voice = load_voice(engine, options.voice, options.transcript) if options.voice else None
    request = base_request(options, text)
    warnings = (*ignored, *(voice.warnings if voice else ()))
    return replace(request, voice=voice, design=options.design or described), warnings


def base_request(options: argparse.Namespace, text: str = "") -> GenerationRequest:
    """Return the request of `add_speech_options` alone, without a voice; the engine checks the ranges."""
    names = ("steps", "guidance", "unconditional_every", "prefix_every")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    sampling = replace(PRESETS[options.preset].apply(Sampling()), **given)
    return GenerationRequest(
        text=text,
        language=options.language,
        seed=options.seed,
        speed=options.speed,
        post_process=not options.no_post_process,
        sampling=sampling,
        text_as_written=options.as_written,
        normalise=options.normalise,
        dictionary=_dictionary(options.dictionary),
        denoise=options.denoise is not False,
        given=_given(options),
    )


def _dictionary(files: Sequence[str]) -> Dictionary | None:
    """Return the entries of all files as one, None without a file; says which entries a later file replaces."""
    dictionary: Dictionary | None = None
    for file in files:
        own, changed = read_dictionary(file), tuple[str, ...]()
        dictionary, changed = (own, changed) if dictionary is None else merged(dictionary, own)
        if changed:
            print(f"{file} replaces the entries of {named(changed)}", file=sys.stderr)
    return dictionary


def _given(options: argparse.Namespace) -> frozenset[str]:
    """Return the names of the settings that options give, which no recommendation of the model replaces."""
    names = ("steps", "guidance", "speed", "denoise", "language")
    given = [name for name in names if getattr(options, name) is not None]
    return frozenset([*given, *(["post_process"] if options.no_post_process else [])])


def wav_target(given: str, *recordings: str | None) -> Path:
    """Return the path of the WAV file to write; raises InputError or FileError before minutes of work, not after.

    recordings: files that are read, which the output must not replace.
    """
    output = Path(given)
    if any(file and os.path.realpath(file) == os.path.realpath(given) for file in recordings):
        raise InputError(f"the output would replace {shown_name(given)}, which is a voice: choose another name")
    if output.suffix.lower() != ".wav":
        raise InputError(f"the output is a WAV file and must end in .wav, got {shown(given)}")
    check_wav_target(output)
    return output


def load_voice(engine: Engine, file: str, transcript: str) -> VoicePrompt:
    """Return a saved voice, or encode a recording."""
    if not file.lower().endswith(VOICE_SUFFIX):
        return engine.encode_voice(read_audio(file), text_argument(transcript, "the transcript"))
    if transcript:
        raise InputError("a saved voice includes its transcript: leave out --transcript")
    return VoicePrompt.load(file)


def show_progress(done: int, total: int) -> None:
    """Show a bar on the terminal, or nothing if stderr is a file."""
    if sys.stderr is not None and sys.stderr.isatty():
        filled = BAR * done // total
        end = "\n" if done == total else ""
        print(f"\r[{'#' * filled}{'.' * (BAR - filled)}] {done}/{total}", end=end, file=sys.stderr, flush=True)
