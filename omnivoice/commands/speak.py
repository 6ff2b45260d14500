"""`speak`: text to a WAV file, with a cloned, a described or the model's own voice."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from ..engine import Engine
from ..errors import InputError
from ..generate.presets import PRESETS
from ..intake.audio_files import check_wav_target, read_audio, write_wav
from ..intake.limits import shown
from ..text.free_design import design_from_free_text
from ..types import GenerationRequest, Sampling, VoicePrompt
from .models import add_lora_options, add_model_options, load_engine
from .text_input import read_text_stream, text_argument

BAR = 30
VOICE_SUFFIX = ".safetensors"


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `speak`."""
    parser = commands.add_parser("speak", help="speak a text to a WAV file")
    parser.add_argument("text", help='what to say; "-" reads it from standard input')
    parser.add_argument("-o", "--output", default="speech.wav", metavar="WAV", help="default: speech.wav")
    parser.add_argument("--voice", metavar="FILE", help="recording to clone, or a saved voice (.safetensors)")
    parser.add_argument("--transcript", default="", metavar="TEXT", help="its transcript, word for word")
    parser.add_argument("--design", metavar="WORDS", help='attributes of the voice, e.g. "female, british accent"')
    parser.add_argument("--describe", metavar="TEXT", help='the voice in your own words, e.g. "a deep voice"')
    parser.add_argument("--language", help="id, tag or name, e.g. en, pt-BR, Japanese; see: languages")
    parser.add_argument("--seed", type=int, help="same seed, same speech; default: a new seed, which is printed")
    parser.add_argument("--speed", type=float, help="0.25-4, default 1")
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="length of the speech")
    parser.add_argument("--exact-length", action="store_true", help="make the file exactly as long as --duration")
    parser.add_argument("--no-post-process", action="store_true", help="do not shorten silences")
    _add_sampling_options(parser)
    add_model_options(parser)
    add_lora_options(parser)
    parser.set_defaults(run=run)


def _add_sampling_options(parser: argparse.ArgumentParser) -> None:
    guidance = Sampling().guidance
    presets = ", ".join(f"{name} {preset.steps}" for name, preset in PRESETS.items())
    parser.add_argument(
        "--preset",
        choices=[*PRESETS],
        default="quality",
        help=f"steps and shortcuts by name (steps: {presets}); default quality; fast also approximates",
    )
    parser.add_argument("--steps", type=int, help="decoding steps; default: those of the preset")
    parser.add_argument("--guidance", type=float, default=guidance, help=f"guidance scale, default {guidance:g}")
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


def run(options: argparse.Namespace) -> None:
    """Load the model, speak, write the file and print a summary."""
    output = Path(options.output)
    if output.suffix.lower() != ".wav":
        raise InputError(f"the output is a WAV file and must end in .wav, got {shown(options.output)}")
    check_wav_target(output)  # before minutes of work, not after
    if options.transcript and not options.voice:
        raise InputError("--transcript needs --voice: it is the transcript of that recording")
    if options.design and options.describe:
        raise InputError("--design and --describe both describe the voice: leave out one")
    described, ignored = design_from_free_text(options.describe or "")
    text = read_text_stream(sys.stdin) if options.text == "-" else text_argument(options.text, "the text")
    engine = load_engine(options)
    voice = load_voice(engine, options.voice, options.transcript) if options.voice else None
    request = GenerationRequest(
        text=text,
        voice=voice,
        design=options.design or described,
        language=options.language,
        seed=options.seed,
        speed=options.speed,
        duration=options.duration,
        exact_length=options.exact_length,
        post_process=not options.no_post_process,
        sampling=sampling_from(options),
    )
    start = time.perf_counter()
    speech = engine.generate([request], on_step=show_progress)[0]
    write_wav(output, speech.waveform)
    took = time.perf_counter() - start
    for warning in (*ignored, *(voice.warnings if voice else ()), *speech.warnings):
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{output}: {speech.seconds:.2f} s of speech in {took:.1f} s, seed {speech.seed}")


def sampling_from(options: argparse.Namespace) -> Sampling:
    """Return the settings of the preset, each replaced by its own option if given; the engine checks the ranges."""
    names = ("steps", "unconditional_every", "prefix_every")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return replace(PRESETS[options.preset].apply(Sampling(guidance=options.guidance)), **given)


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
