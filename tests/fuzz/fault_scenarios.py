"""What the injected faults interrupt: short uses of the pack on the tiny checkpoint, each with files of its own.

Most go through the command line, the door that people use, with a model that is loaded once. A scenario prepares its
folder, runs there, and says what its result is; the same folder and the same run always give the same result.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch

from omnivoice.__main__ import main
from omnivoice.commands import download, models
from omnivoice.engine import Engine
from omnivoice.errors import OmniVoiceError
from omnivoice.intake import downloads
from omnivoice.intake.audio_files import read_audio, write_wav
from omnivoice.train.loop import train
from omnivoice.train.results import write_loras
from omnivoice.train.run import lock_run, open_run
from omnivoice.types import GenerationRequest, Sampling, VoicePrompt, Waveform
from omnivoice.weights.lora import LoRA, LowRank, lora_targets
from omnivoice.weights.lora_write import write_lora, write_peft
from tests.conftest import ROOT, Hub
from tests.fuzz.fault_points import Points
from tests.unit.train.training_fixtures import tiny_trainer

ASSETS = ROOT / "tests" / "assets"
CHECKPOINT = ASSETS / "checkpoint"
TWO = Sampling(steps=2)


class Refused(OmniVoiceError):
    """The command line refused: the line that it printed after "error: "."""


@dataclass(frozen=True)
class Tools:
    """What scenarios share. engine: of the tiny checkpoint. voice: encoded once. published: the manifest of `hub`."""

    points: Points
    engine: Engine
    voice: VoicePrompt
    hub: Hub
    published: dict[str, dict]


@dataclass(frozen=True)
class Scenario:
    """prepare: puts the files there that are needed. run: uses them and returns what it got. loose: ends of the names
    of files whose bytes differ from run to run, such as those with durations. interim: of files that a run which ended
    early writes too, with other bytes. repeats: whether it may run again after
    it succeeded; a model is never replaced."""

    prepare: Callable[[Tools, Path], None]
    run: Callable[[Tools, Path], object]
    loose: tuple[str, ...] = ()
    interim: tuple[str, ...] = ()
    repeats: bool = True


def command(tools: Tools, place: Path, *arguments: object) -> object:
    """Run a command of the command line in `place`; raises what it reports: Refused, or KeyboardInterrupt."""
    shared = SimpleNamespace(load=lambda *_, **__: tools.engine)
    errors = io.StringIO()
    with (
        _chdir(place),
        mock.patch.object(models, "Engine", shared),
        mock.patch.dict(os.environ, {"OMNIVOICE_MODEL": str(CHECKPOINT)}),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(errors),
    ):
        code = main([str(argument) for argument in arguments])
    if code == 130:
        raise KeyboardInterrupt
    if code:
        last = errors.getvalue().strip().splitlines()[-1]
        assert last.startswith("error: "), errors.getvalue()
        raise Refused(last.removeprefix("error: "))
    return code


@contextlib.contextmanager
def _chdir(place: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def _tone(seconds: float) -> Waveform:
    t = torch.arange(round(seconds * 24_000)) / 24_000
    loud = (torch.sin(6.283 * 2.5 * t).clip(0.02) * (t > 0.1) * (t < seconds - 0.1))[None]
    tone = sum(torch.sin(6.283 * 140 * k * t) / k for k in range(1, 12))
    return Waveform(0.1 * loud * tone, 24_000)


def _nothing(tools: Tools, place: Path) -> None:
    """Prepare nothing."""


def _texts(tools: Tools, place: Path) -> None:
    tools.voice.save(place / "anna.safetensors")
    (place / "book.txt").write_text("# One\nThe weather is beautiful.\n[pause 1s]\nIt was late.", encoding="utf-8")
    (place / "talk.txt").write_text("Anna: Good day.\nBob: It was late.\n", encoding="utf-8")
    (place / "film.srt").write_text("1\n00:00:00,500 --> 00:00:01,500\nGood morning.\n", encoding="utf-8")
    rows = [{"id": "a", "text": "One."}, {"id": "b", "text": "Two."}]
    (place / "list.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    write_wav(place / "out.wav", _tone(0.5))  # a result of before


def _with_recording(tools: Tools, place: Path) -> None:
    _texts(tools, place)
    write_wav(place / "in.wav", _tone(1.2))


def _speak(tools: Tools, place: Path) -> object:
    """Three texts in one batch, one of them in a given voice, as an engine's caller does it."""
    requests = [
        GenerationRequest("Good day.", seed=1, sampling=TWO, voice=tools.voice),
        GenerationRequest("It was late.", seed=2, sampling=TWO),
        GenerationRequest("Hello.", seed=3, sampling=TWO),
    ]
    speeches = tools.engine.generate(requests, on_step=lambda *_: tools.points.hit("progress"))
    return [speech.waveform.samples for speech in speeches]


def _encode(tools: Tools, place: Path) -> object:
    voice = tools.engine.encode_voice(read_audio(place / "in.wav"), "Good day.")
    voice.save(place / "anna.safetensors")
    again = VoicePrompt.load(place / "anna.safetensors")
    return again.codes, tools.engine.decode_voice(again).samples


def _lora(tools: Tools, seed: int) -> LoRA:
    """Return a LoRA of two modules with values of its own."""
    generator = torch.Generator().manual_seed(seed)
    targets = [*lora_targets(tools.engine.lm.config).items()][:2]
    pairs = {
        module: LowRank(torch.randn(2, size, generator=generator), torch.randn(out, 2, generator=generator), 1.0)
        for module, (out, size) in targets
    }
    return LoRA("two modules", pairs)


def _old_loras(tools: Tools, place: Path) -> None:
    old = _lora(tools, 1)
    write_lora(place / "lora.safetensors", old)
    write_peft(place / "peft", old)


def _save_lora(tools: Tools, place: Path) -> object:
    lora = _lora(tools, 2)
    write_lora(place / "lora.safetensors", lora, overwrite=True)
    write_lora(place / "new.safetensors", lora, dtype=torch.float16, overwrite=True)
    return write_peft(place / "peft", lora, overwrite=True).name


def _apply_lora(tools: Tools, place: Path) -> object:
    loras = [(place / "lora.safetensors", 0.5)]
    with_lora = Engine.load(CHECKPOINT, loras=loras)
    request = GenerationRequest("Hello.", seed=3, sampling=TWO)
    return [engine.generate([request])[0].waveform.samples for engine in (with_lora, tools.engine)]


def _own_model(tools: Tools, place: Path) -> None:
    shutil.copytree(CHECKPOINT, place / "model")


def _load(tools: Tools, place: Path) -> object:
    engine = Engine.load(place / "model", codec_folder=place / "model" / "audio_tokenizer")
    return [*engine.lm.parameters(), *engine.codec.decoder.parameters()]


def _train(tools: Tools, place: Path) -> object:
    trainer = tiny_trainer(steps=2, save_every=1, validate_every=1)
    with lock_run(place / "run"):
        folder = open_run(place / "run", trainer.settings, data="clips", base="model")
        folder.resume(trainer)
        outcome = train(trainer, folder, on_step=lambda _: bool(tools.points.hit("progress")))
        results = [path.name for path in write_loras(trainer, folder, "anna", {"steps": "2"})]
    if outcome.fault:
        raise Refused(outcome.fault)
    return trainer.losses, [*trainer.trained.values()], results


def _recordings(tools: Tools, place: Path) -> None:
    (place / "set").mkdir()
    for name, seconds in (("a", 0.8), ("b", 1.0)):
        write_wav(place / "set" / f"{name}.wav", _tone(seconds))
        (place / "set" / f"{name}.txt").write_text("Good day.", encoding="utf-8")


def _download(tools: Tools, place: Path) -> object:
    def show(done: int, total: int) -> None:
        tools.points.hit("progress")

    with (
        mock.patch("omnivoice.weights.published.load_table", lambda _: tools.published),
        mock.patch.dict(os.environ, {"HF_ENDPOINT": tools.hub.address}),
        mock.patch.object(download, "show_bytes", show),
        mock.patch.multiple(downloads, WAIT_SECONDS=0.001, _TICK_SECONDS=0.002),
    ):
        return command(tools, place, "download", "--to", "model")


def _commands(*arguments: object) -> Callable[[Tools, Path], object]:
    return partial(_command, arguments=arguments)


def _command(tools: Tools, place: Path, *, arguments: tuple[object, ...]) -> object:
    return command(tools, place, *arguments)


_QUICK = ("--steps", 1, "--seed", 4)
_EDIT = ("edit", "in.wav", "--old", "Good morning to you.", "--new", "Good evening to you.", "--quick", "--seed", 3)

SCENARIOS = {
    "generate": Scenario(_nothing, _speak),
    "voice": Scenario(_with_recording, _encode),
    "speak": Scenario(
        _with_recording,
        _commands("speak", "Hello.", "--voice", "in.wav", "--transcript", "Good day.", "-o", "out.wav", *_QUICK),
    ),
    "narrate": Scenario(_texts, _commands("narrate", "book.txt", "-o", "out.wav", *_QUICK)),
    "dialogue": Scenario(
        _texts,
        _commands(
            "dialogue", "talk.txt", "--voice", "Anna=anna.safetensors", "--speaker", "Bob", "-o", "out.wav", *_QUICK
        ),
    ),
    "subtitles": Scenario(_texts, _commands("subtitles", "film.srt", "-o", "out.wav", *_QUICK)),
    "batch": Scenario(_texts, _commands("batch", "list.jsonl", "-o", "out", *_QUICK), loose=(".jsonl",)),
    "edit": Scenario(_with_recording, _commands(*_EDIT, "-o", "out.wav")),
    "save a LoRA": Scenario(_old_loras, _save_lora),
    "apply a LoRA": Scenario(_old_loras, _apply_lora),
    "load": Scenario(_own_model, _load),
    "merge": Scenario(_old_loras, _commands("merge", "--lora", "lora.safetensors", "-o", "merged"), repeats=False),
    "export": Scenario(_nothing, _commands("export", "-o", "one.safetensors", "--dtype", "fp16"), repeats=False),
    # Where the best weights cannot be written, those of another step stay; states name the loss of the written ones.
    "train": Scenario(
        _nothing,
        _train,
        loose=(".jsonl", "best.safetensors", "state-00000001.safetensors", "state-00000002.safetensors"),
        interim=("anna.safetensors",),
    ),
    "dataset": Scenario(_recordings, _commands("dataset", "set")),
    "download": Scenario(_nothing, _download),
}


@contextlib.contextmanager
def tools(points: Points) -> Iterator[Tools]:
    """Yield what scenarios share; the hub listens on the loopback address meanwhile."""
    engine = Engine.load(CHECKPOINT)
    codes = torch.randint(0, 1024, (8, 12), generator=torch.Generator().manual_seed(1))
    voice = VoicePrompt(codes, "Good day.", 0.1, codec=engine.codec_fingerprint)
    hub = Hub(f"/k2-fsa/OmniVoice/resolve/{'c' * 40}/")
    hub.files.update({"config.json": b'{"a": 1}', "audio_tokenizer/model.safetensors": bytes(range(256)) * 100})
    entry = {
        "repository": "k2-fsa/OmniVoice",
        "revision": "c" * 40,
        "license": {"code": "Apache-2.0", "weights": "CC-BY-NC", "audio_tokenizer": "Boson"},
        "files": [
            {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in hub.files.items()
        ],
    }
    threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield Tools(points, engine, voice, hub, {"models": {"OmniVoice": entry}})
    finally:
        hub.closing.set()
        hub.shutdown()
        hub.server_close()
