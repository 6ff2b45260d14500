"""`train`: from a config file to a LoRA or a model, resumed after Ctrl-C, and refusals."""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from omnivoice.__main__ import main
from omnivoice.commands import train as command
from omnivoice.commands.dataset import load_dataset
from omnivoice.commands.train import training_dtype
from omnivoice.commands.train_config import EXAMPLE, read_order
from omnivoice.engine import Engine
from omnivoice.errors import DiskFullError, InputError, OmniVoiceError
from omnivoice.intake import files
from omnivoice.productions import right_words
from omnivoice.train import run as run_module
from omnivoice.train.code_cache import FOLDER
from omnivoice.train.run import RunFolder, lock_run
from omnivoice.train.settings import PRESETS, TrainSettings
from omnivoice.train.trainer import Pace, StepReport, Trainer
from omnivoice.types import GenerationRequest, Sampling
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora_read import read_lora
from tests import warm_children

ASSETS = Path(__file__).resolve().parents[2] / "assets"
CHECKPOINT = ASSETS / "checkpoint"
SETTINGS = {"steps": 4, "rank": 2, "alpha": 4, "batch_tokens": 200, "save_every": 2, "learning_rate": 1e-3}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings with their codes in the cache, since most tests are not about the encoding."""
    clips = Path(shutil.copytree(ASSETS / "training" / "clips", tmp_path_factory.mktemp("encoded") / "clips"))
    load_dataset(clips, model=CHECKPOINT, device=torch.device("cpu"), language="en")
    assert len([*(clips / FOLDER).rglob("*.safetensors")]) == 8
    return clips


@pytest.fixture
def config(encoded: Path, tmp_path: Path) -> Path:
    """A config next to its data, which it names by relative paths."""
    shutil.copytree(encoded, tmp_path / "clips")
    return write(tmp_path)


def write(folder: Path, changes: dict | None = None, **entries: object) -> Path:
    table = {
        "data": "clips",
        "output": "runs/anna",
        "model": str(CHECKPOINT),
        "language": "en",
        "settings": {**SETTINGS, **(changes or {})},
        **entries,
    }
    path = folder / "config.json"
    path.write_text(json.dumps(table))
    return path


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [entry["loss"] for entry in lines if "loss" in entry]


def test_a_lora_from_recordings(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(config.parent / "clips" / FOLDER)
    write(config.parent, {"validation": 0.25, "validate_every": 2, "sample_every": 4, "sample_text": "Red book."})
    assert main(["train", str(config)]) == 0
    said = capsys.readouterr()
    assert "8 of 8 clips" in said.out and "training LoRA of rank 2, alpha 4: 4 steps" in said.out
    assert "finished after 4 of 4 steps" in said.out
    assert "step 1/4, loss" in said.err and "step 4: validation loss" in said.err
    run = config.parent / "runs" / "anna"
    assert {path.name for path in run.iterdir()} == {
        "adapter",
        "anna.safetensors",
        "anna-best.safetensors",
        "best.safetensors",
        "state-00000002.safetensors",
        "state-00000004.safetensors",
        "metrics.jsonl",
        "run.lock",
        "samples",
        "settings.json",
    }
    assert [path.name for path in (run / "samples").iterdir()] == ["step-00000004.wav"]
    lm = locate_checkpoint(CHECKPOINT).lm_config
    single, peft = read_lora(run / "anna.safetensors", lm), read_lora(run / "adapter", lm)
    assert single.changes.keys() == peft.changes.keys()
    base = Engine.load(CHECKPOINT).lm.audio_heads.weight
    for module in ("audio_heads", "llm.layers.1.mlp.down_proj"):
        torch.testing.assert_close(
            single.changes[module].change(base), peft.changes[module].change(base), rtol=0, atol=1e-7
        )
    text = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert str(config.parent).encode() not in text, "no path of this machine is written"


def test_a_full_fine_tune_is_a_model(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(config.parent, {"method": "full", "steps": 2})
    assert main(["train", str(config)]) == 0
    assert "training every weight" in capsys.readouterr().out
    folder = config.parent / "runs" / "anna" / "model-00000002"
    request = GenerationRequest("Red book.", seed=1, duration=0.5, sampling=Sampling(steps=4))
    tuned, base = (Engine.load(model).generate([request])[0] for model in (folder, CHECKPOINT))
    assert tuned.codes[0].shape == base.codes[0].shape and not torch.equal(tuned.codes[0], base.codes[0])
    assert main(["train", str(config)]) == 0, "a finished run is found finished"


def test_a_full_fine_tune_in_bfloat16_starts_with_the_exact_weights(config: Path) -> None:
    """A first step, whose rate is 0: what is written is what was read, though it was computed with rounded weights."""
    write(config.parent, {"method": "full", "steps": 1, "training_dtype": "bf16", "warmup": 1.0})
    assert main(["train", str(config)]) == 0
    tuned = load_file(config.parent / "runs" / "anna" / "model-00000001" / "model.safetensors")
    base = load_file(CHECKPOINT / "model.safetensors")
    assert all(torch.equal(tuned[name], base[name].to(tuned[name].dtype)) for name in tuned)


def test_ctrl_c_keeps_the_lora_and_the_command_resumes(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(config)]) == 0
    whole = losses(config.parent / "runs" / "anna")
    shutil.rmtree(config.parent / "runs")
    before, show = signal.getsignal(signal.SIGINT), command.Progress.show

    def press(self: command.Progress, report: StepReport) -> None:
        show(self, report)
        if report.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(command.Progress, "show", press)
    assert main(["train", str(config)]) == 130
    said = capsys.readouterr()
    assert "stopped on request after 3 of 4 steps" in said.out and "stopping after this step" in said.err
    assert said.err.endswith("The same command goes on from step 3.\ninterrupted\n")
    run = config.parent / "runs" / "anna"
    assert (run / "anna.safetensors").exists()
    monkeypatch.undo()
    assert main(["train", str(config)]) == 0
    assert "resumed from step 3" in capsys.readouterr().out
    assert losses(run) == whole
    assert signal.getsignal(signal.SIGINT) == before


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as a terminal gives it; a shell that starts the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("moment", ["encoding", "a step", "a later step", "the results"])
def test_ctrl_c_at_once_says_that_the_command_goes_on(
    moment: str, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside the steps Ctrl-C ends the command at once, and so does a second one in a step."""

    def press(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    def press_in_step(trainer: Trainer, examples: object, real=Trainer.learn) -> object:
        if trainer.step_count == (0 if moment == "a step" else 3):
            press()
        return real(trainer, examples)

    with monkeypatch.context() as patch:
        if moment == "encoding":
            patch.setattr(command, "load_dataset", press)
        elif moment == "the results":
            patch.setattr(command, "_write_loras", press)
        else:
            patch.setattr(Trainer, "learn", press_in_step)
        assert main(["train", str(config)]) == 130
    said = capsys.readouterr()
    goes_on = {"a later step": "goes on from step 2", "the results": "goes on from step 4"}
    assert said.err.endswith(f"The same command {goes_on.get(moment, 'begins again at step 1')}.\ninterrupted\n")
    assert main(["train", str(config)]) == 0 and len(losses(config.parent / "runs" / "anna")) == 4


# argv: the configuration, and the step after which the process kills itself, if that is not 0.
TRAINING_PROCESS = """
import os, signal, sys
from omnivoice.__main__ import main
from omnivoice.train.trainer import Trainer

learn, step = Trainer.learn, int(sys.argv[2])

def killing(trainer, examples):
    if step and trainer.step_count == step:
        os.kill(os.getpid(), signal.SIGKILL)
    return learn(trainer, examples)

Trainer.learn = killing
sys.exit(main(["train", sys.argv[1]]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_ends_the_others_in_plain_words(killed: int, config: Path) -> None:
    """As under torchrun: two processes, one of which the system kills in a step."""
    port, processes = free_port(), []
    for rank in range(2):
        there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": "2"}
        step = 2 if rank == killed else 0
        processes.append(warm_children.start(TRAINING_PROCESS, config, step, environment={**there, "LOCAL_RANK": "0"}))
    messages = [process.communicate(timeout=600)[1].decode() for process in processes]
    ends, said = [process.returncode for process in processes], messages[1 - killed]
    assert ends[killed] == -signal.SIGKILL and ends[1 - killed] == 1, said
    assert f"error: another process of this run has ended, so process {2 - killed} of 2 stops too" in said
    assert "Traceback" not in said and "RuntimeError" not in said
    if killed:
        assert "The same command goes on from step 2." in said
    lock_run(config.parent / "runs" / "anna").release()  # the folder is free


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_full_disk_ends_the_run_with_its_lora(
    step: int, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The states of `step` and after do not fit, though older ones are deleted. The LoRA does."""
    write(config.parent, {"save_every": 1})
    real = run_module.write_state

    def write_state(path: Path, *rest: object) -> None:
        if path.name > f"state-{step:08d}":
            raise DiskFullError(f"cannot write {path.name}: the disk is full, 1 MB are needed: make room")
        real(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "write_state", write_state)
        assert main(["train", str(config)]) == 1
    said = capsys.readouterr()
    assert f"stopped, since its files could not be written, after {step} of 4 steps" in said.out
    assert "wrote " in said.out and (config.parent / "runs" / "anna" / "anna.safetensors").exists()
    goes_on = f"goes on from step {step - 1}" if step > 1 else "begins again at step 1"
    assert f"error: cannot write state-{step:08d}.safetensors: the disk is full" in said.err
    assert said.err.endswith(f": make room. The same command {goes_on}.\n")
    assert main(["train", str(config)]) == 0
    assert "finished after 4 of 4 steps" in capsys.readouterr().out
    assert not (config.parent / "runs" / "anna" / "reserve.bin").exists()


@pytest.mark.parametrize("failing", ["anna.safetensors", "anna-best.safetensors", "adapter_model.safetensors"])
def test_a_result_that_does_not_fit_is_named(
    failing: str, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(config.parent, {"validation": 0.25, "validate_every": 2})
    real = files._write_synced

    def full(temp: Path, parts: object) -> None:
        if temp.name.startswith(f".{failing}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(temp, parts)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_synced", full)
        assert main(["train", str(config)]) == 1
    said, folder = capsys.readouterr(), config.parent / "runs" / "anna"
    assert re.search(rf"error: cannot write {failing}: the disk is full, .* are needed: make room\. The same", said.err)
    names = ["anna.safetensors", "anna-best.safetensors", "adapter_model.safetensors"]
    there = [(folder / "adapter" / name if "adapter" in name else folder / name).exists() for name in names]
    assert there == [names.index(name) < names.index(failing) for name in names]
    assert main(["train", str(config)]) == 0 and (folder / "adapter" / "adapter_model.safetensors").exists()


class Heard:
    """Stands in for the classes of transformers: hears all words in the first `until` counts, and then none."""

    def __init__(self, until: int) -> None:
        self.until, self.asked, self.device, self.dtype = until, list[dict](), torch.device("cpu"), torch.float32
        self.generation_config = SimpleNamespace(lang_to_id={"<|en|>": 1}, is_multilingual=True)

    def from_pretrained(self, folder: str, **options: object) -> Heard:
        assert options["local_files_only"] is True and not options.get("trust_remote_code")
        return self

    def eval(self) -> Heard:
        return self

    def requires_grad_(self, on: bool) -> Heard:
        return self

    def to(self, device: object) -> Heard:
        return self

    def __call__(self, samples: object, *, sampling_rate: int, return_tensors: str) -> dict[str, torch.Tensor]:
        return {"input_features": torch.zeros(1, 80, 3000)}

    def generate(self, features: torch.Tensor, **options: object) -> torch.Tensor:
        self.asked.append(options)
        return torch.tensor([[len(self.asked)]])

    def decode(self, ids: torch.Tensor, *, skip_special_tokens: bool) -> str:
        return self.text if int(ids[0]) <= 8 * self.until else ""

    text = "red book"


@pytest.fixture
def whisper(config: Path, monkeypatch: pytest.MonkeyPatch) -> Heard:
    """A stand-in for transformers, and its folder beside the config."""
    heard = Heard(2)
    for transcript in (config.parent / "clips").glob("*.txt"):
        transcript.write_text("Red book.")
    quick = functools.partial(right_words.GenerationRequest, sampling=Sampling(steps=2), duration=0.6)
    monkeypatch.setattr(right_words, "GenerationRequest", quick)  # what is heard is the stand-in's in any case
    names = ("WhisperForConditionalGeneration", "WhisperFeatureExtractor", "AutoTokenizer")
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(**dict.fromkeys(names, heard)))
    (config.parent / "whisper").mkdir()
    (config.parent / "whisper" / "config.json").write_text('{"model_type": "whisper"}')
    return heard


WORDS = {"steps": 6, "validation": 0.125, "validate_every": 2, "stop_words_points": 3}


def test_lost_words_stop_the_training(config: Path, whisper: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    write(config.parent, WORDS, recogniser="whisper")
    assert main(["train", str(config)]) == 0
    said = capsys.readouterr()
    assert "stopped: right words were lost after 4 of 6 steps" in said.out
    assert "; the best weights, from before the fall, had " in said.out and "step 4: right words 0.0%" in said.err
    assert len(whisper.asked) == 3 * 8 and whisper.asked[0]["language"] == "en"
    run = config.parent / "runs" / "anna"
    assert RunFolder(run).best()[1] == 2  # type: ignore[index]
    before = (run / "metrics.jsonl").read_bytes()
    assert main(["train", str(config)]) == 0 and (run / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "entries", "words"),
    [
        (
            WORDS,
            {},
            "stop_words_points in [settings] and recogniser, the folder of a Whisper model, work together only",
        ),
        ({}, {"recogniser": "whisper"}, "work together only: give both or neither"),
        (
            WORDS,
            {"recogniser": "clips"},
            "recogniser must be the folder of a Whisper model (config.json ...), got clips",
        ),
        (
            WORDS,
            {"recogniser": "other"},
            "recogniser must be the folder of a Whisper model, and other holds another one",
        ),
        (WORDS, {"recogniser": "whisper", "language": "de"}, "the recogniser does not know the language de"),
    ],
)
def test_a_recogniser_that_cannot_count(
    changes: dict, entries: dict, words: str, config: Path, whisper: Heard, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "other").mkdir()
    (config.parent / "other" / "config.json").write_text('{"model_type": "wav2vec2"}')
    write(config.parent, changes, **entries)
    assert main(["train", str(config)]) == 1
    assert words in capsys.readouterr().err and not whisper.asked


def test_a_full_fine_tune_has_no_place_for_consent(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(config.parent, {"method": "full"}, consent="self")
    assert main(["train", str(config)]) == 1
    assert "consent is kept in the files of a LoRA, and method full writes" in capsys.readouterr().err


def test_without_transformers_the_words_are_refused(
    config: Path, whisper: Heard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    write(config.parent, WORDS, recogniser="whisper")
    assert main(["train", str(config)]) == 1
    assert "a recogniser needs the package transformers" in capsys.readouterr().err


def test_training_starts_from_a_lora(config: Path) -> None:
    assert main(["train", str(config)]) == 0
    write(config.parent, lora="runs/anna/anna.safetensors", output="runs/more")
    assert main(["train", str(config)]) == 0
    first, more = (RunFolder(config.parent / "runs" / name) for name in ("anna", "more"))
    assert losses(more.folder)[0] != losses(first.folder)[0]


def test_other_settings_in_the_same_folder_are_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(config)]) == 0
    write(config.parent, {"rank": 3})
    assert main(["train", str(config)]) == 1
    assert "anna holds another run (rank was 2, now 3): name another folder" in capsys.readouterr().err


def test_a_second_run_in_the_folder_is_refused_while_the_first_trains(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show, answers = command.Progress.show, []

    def begin_another(self: command.Progress, report: StepReport) -> None:
        show(self, report)
        if report.step in (1, 3):
            monkeypatch.setattr(command.Progress, "show", show)
            write(config.parent, {"seed": report.step})  # refused before its settings are compared
            answers.append(main(["train", str(config)]))
            monkeypatch.setattr(command.Progress, "show", begin_another)

    monkeypatch.setattr(command.Progress, "show", begin_another)
    assert main(["train", str(config)]) == 0
    said = capsys.readouterr()
    assert answers == [1, 1]
    assert re.search(
        rf"error: anna is in use by process {os.getpid()} on \S+ since .*: wait until that run ends", said.err
    )
    assert "finished after 4 of 4 steps" in said.out and len(losses(config.parent / "runs" / "anna")) == 4


def test_a_folder_in_use_is_refused_before_any_encoding(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(config.parent / "clips" / FOLDER)
    with lock_run(config.parent / "runs" / "anna"):
        assert main(["train", str(config)]) == 1
    assert "anna is in use by process" in capsys.readouterr().err
    assert not (config.parent / "clips" / FOLDER).exists()
    assert main(["train", str(config)]) == 0


def test_options_replace_what_the_config_says(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a path among them starts at the current folder, as on every command line."""
    write(config.parent, {"steps": 1}, model="missing", device="tpu", codec="nothing")
    monkeypatch.chdir(CHECKPOINT.parent)
    assert main(["train", str(config)]) == 1
    assert "device 'tpu' cannot be used here" in capsys.readouterr().err
    assert main(["train", str(config), "--device", "cpu"]) == 1
    assert "model folder missing does not exist" in capsys.readouterr().err
    options = ["--device", "cpu", "--model", CHECKPOINT.name, "--codec", str(CHECKPOINT / "audio_tokenizer")]
    assert main(["train", *options, str(config)]) == 0


def test_without_a_model_the_demo_voice_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's commands and config, as they stand, on a CPU; only with fewer steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMNIVOICE_MODEL", raising=False)
    shutil.copytree(ASSETS / "training" / "clips", tmp_path / "clips")
    page = (ASSETS.parents[1] / "docs" / "training.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (commands,) = re.findall(r"```bash\n(python -m omnivoice dataset .*?)```", page, re.DOTALL)
    (tmp_path / "config.toml").write_text(re.sub(r"\[settings\].*\n", "[settings]\nsteps = 1\n", example))
    for line in commands.splitlines():
        assert main(line.split()[3:]) == 0, line
    said = capsys.readouterr()
    assert said.err.count("no model is installed, so the demo voice is used") == 2  # once for each command
    assert (tmp_path / "runs" / "anna" / "anna.safetensors").exists()


@pytest.mark.parametrize(
    "line",
    [
        'data = "C:\\Users\\anna\\clips"',
        'data = "C:\\clips"',
        'data = "D:\\temp\\new"',
        'data = "\\\\server\\share\\x"',
        'data = "clips\\x1"',
        'lora = "E:\\runs\\best"',
    ],
)
@pytest.mark.parametrize("kind", ["toml", "json"])
def test_a_windows_path_gets_a_hint(line: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some of them are valid, with a tab or a line feed inside, and not the path that was meant."""
    name, _, value = line.partition(" = ")
    other = "lora" if name == "data" else "data"
    text = f'{line}\n{other} = "x"\noutput = "y"\n'
    if kind == "json":
        text = f'{{"{name}": {value}, "{other}": "x", "output": "y"}}'
    (tmp_path / f"config.{kind}").write_text(text)
    assert main(["train", str(tmp_path / f"config.{kind}")]) == 1
    said = capsys.readouterr().err
    assert ": write a Windows path with forward slashes (C:/clips), or " in said
    assert ("put it in single quotes" if kind == "toml" else "double the backslashes") in said


@pytest.mark.parametrize("value", ["'C:\\Users\\anna\\clips'", '"C:/voices/anna"', '"C:\\\\Users\\\\anna"'])
def test_a_windows_path_as_the_hint_says(value: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'data = {value}\noutput = "y"\n')
    assert read_order(str(tmp_path / "config.toml")).data.name.endswith(("clips", "anna"))


@pytest.mark.parametrize(
    "entries, words",
    [
        ({"data": 3}, "data must be a text in quotes, got 3"),
        ({"lr": 1}, "'lr' is not known; known are cache, codec"),
        ({"preset": "fast"}, "preset must be one of voice, language"),
        ({"resume": "yes"}, "resume must be true or false"),
        ({"settings": {"ranks": 4}}, "unknown setting ranks"),
        ({"settings": []}, "settings must be a table"),
        ({"name": "../x"}, "a file name may hold"),
        ({"data": "nothing"}, "nothing"),
        ({"device": "tpu"}, "device 'tpu'"),
        ({"lora": "none.safetensors"}, "none.safetensors does not exist"),
    ],
)
def test_what_a_config_may_not_say(config: Path, entries: dict, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(config.parent, **entries)
    assert main(["train", str(config)]) == 1
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error


def test_the_example_is_read_and_names_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(EXAMPLE)
    order = read_order(str(path))
    assert order.data == tmp_path / "clips" and order.preset == "voice"
    assert order.settings_for(200).steps == 400 and order.settings_for(200).sample_every == 100
    path.write_text('data = "clips"')
    with pytest.raises(InputError, match=r"config\.toml lacks output; an example"):
        read_order(str(path))
    with pytest.raises(InputError, match=r"must end in \.toml or \.json"):
        path.rename(tmp_path / "config.yaml")
        read_order(str(tmp_path / "config.yaml"))


def test_python_3_10_reads_toml_with_tomli_or_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text(EXAMPLE)
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", SimpleNamespace(loads=lambda text: {"data": "clips", "output": text[:4]}))
    assert read_order(str(path)).output == tmp_path / "data"
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(InputError, match=r"^reading config\.toml needs Python 3\.11 .*pip install tomli.*as \.json$"):
        read_order(str(path))


def test_progress_says_speed_and_time_left() -> None:
    report = StepReport(12, 300, 5.3125, 9.1e-5, 1.0, 2000, 0.5, False)
    assert Pace(11, 22_000, 5.5).line(report) == "step 12/300, loss 5.312, lr 9.1e-05, 4,000 tokens/s, 2:24 left"
    slow = StepReport(1, 10_000, 5.0, 1e-4, 1.0, 500, 2.0, True)
    line = "step 1/10000, loss 5.000, skipped, validation 4.500, lr 1.0e-04, 250 tokens/s, 5:33:18 left"
    assert Pace().line(slow, 4.5) == line


def test_the_base_computes_in_what_the_device_does_well() -> None:
    assert training_dtype("auto", torch.device("cpu")) == torch.float32 == training_dtype("fp32", torch.device("cpu"))
    assert training_dtype("bf16", torch.device("cpu")) == torch.bfloat16


def test_tensorboard_is_asked_for_by_name(config: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    write(config.parent, tensorboard=True)
    assert main(["train", str(config)]) == 1
    assert "pip install tensorboard" in capsys.readouterr().err


def test_the_documented_config_is_read_and_its_table_true(tmp_path: Path) -> None:
    page = (ASSETS.parents[1] / "docs" / "training.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "config.toml").write_text(example)
    settings = read_order(str(tmp_path / "config.toml")).settings_for(200)
    assert settings.sample_text == "This is my voice so far."
    presets = [preset(1e6) for preset in (*PRESETS.values(), lambda _: TrainSettings())]
    rates = ("2e-4", "1e-4", "1e-4")
    assert [one.learning_rate for one in presets] == [float(rate) for rate in rates]
    for label, cells in (
        ("rank, alpha", [f"{one.rank}, {one.alpha:g}" for one in presets]),
        ("tokens in a batch, text and audio", [f"{one.batch_tokens:,}" for one in presets]),
        ("learning rate, warm-up", [f"{rate}, {100 * one.warmup:g} %" for rate, one in zip(rates, presets)]),
        ("steps", ["2 per second of audio, 100-1,000", *(f"{one.steps:,}" for one in presets[1:])]),
    ):
        assert f"| {label} | {' | '.join(cells)} |" in page


def test_the_note_of_consent_is_in_every_lora_and_shown(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(config.parent, {"validation": 0.25, "validate_every": 2}, consent="permission: Anna, 2 May")
    assert main(["train", str(config)]) == 0
    run = config.parent / "runs" / "anna"
    lm = locate_checkpoint(CHECKPOINT).lm_config
    for path in (run / "anna.safetensors", run / "anna-best.safetensors", run / "adapter"):
        assert read_lora(path, lm).consent == "permission: Anna, 2 May"
    capsys.readouterr()
    assert main(["check", str(run / "anna.safetensors")]) == 0
    assert "consent: permission, noted as 'permission: Anna, 2 May'" in capsys.readouterr().out


def test_a_training_on_top_keeps_the_note_unless_it_has_its_own(config: Path) -> None:
    lm = locate_checkpoint(CHECKPOINT).lm_config
    write(config.parent, consent="permission: Anna, 2 May")
    assert main(["train", str(config)]) == 0
    for name, own in (("more", {}), ("own", {"consent": "self"})):
        write(config.parent, lora="runs/anna/anna.safetensors", output=f"runs/{name}", **own)
        assert main(["train", str(config)]) == 0
        note = read_lora(config.parent / "runs" / name / f"{name}.safetensors", lm).consent
        assert note == own.get("consent", "permission: Anna, 2 May")


@pytest.mark.parametrize("note, reason", [("x" * 501, "at most 500 characters"), ("see /home" + "/anna", "a path")])
def test_a_note_of_consent_that_cannot_be_kept_is_refused(config: Path, note: str, reason: str) -> None:
    write(config.parent, consent=note)
    with pytest.raises(OmniVoiceError, match=reason):
        read_order(str(config))
