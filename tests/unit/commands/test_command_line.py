"""The command line: its output, its exit codes, its files; where its terminal matters, as a separate process."""

import subprocess
import sys
import wave
from collections import namedtuple
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper

import pytest
import torch

from omnivoice import TextError, VoicePrompt
from omnivoice.__main__ import main
from tests.offline.network_guard import guarded_path

WORDS = "Good morning everyone, thank you for coming today."


Result = namedtuple("Result", "returncode stdout stderr")


class Run:
    """Runs commands in a separate folder: within this process, or in a new one, as a user does."""

    def __init__(self, root, checkpoint, folder):
        self.root, self.checkpoint, self.folder = root, checkpoint, folder

    def __call__(self, *arguments, model=True, stdin=""):
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(StringIO()) as out,
            redirect_stderr(StringIO()) as err,
        ):
            patch.chdir(self.folder)
            patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin.encode())))
            patch.delenv("OMNIVOICE_MODEL", raising=False)
            if model:
                patch.setenv("OMNIVOICE_MODEL", str(self.checkpoint))
            try:
                code = main([str(argument) for argument in arguments])
            except SystemExit as stop:  # argparse's
                code = stop.code
        return Result(code, out.getvalue(), err.getvalue())

    def process(self, *arguments, stdin=None):
        """In a process without PATH, under a terminal encoding that lacks most letters."""
        environment = {
            "PATH": "",
            **guarded_path(self.root),
            "OMP_NUM_THREADS": "1",
            "PYTHONIOENCODING": "cp1252",
            "OMNIVOICE_MODEL": str(self.checkpoint),
        }
        command = [sys.executable, "-m", "omnivoice", *map(str, arguments)]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            encoding="cp1252",
        )


@pytest.fixture(scope="module")
def run(root, checkpoint, tmp_path_factory):
    return Run(root, checkpoint, tmp_path_factory.mktemp("cli"))


@pytest.fixture(scope="module")
def recording(root):
    return root / "tests" / "assets" / "wav" / "reference.wav"


def seconds_of(path):
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels()) == (24000, 1)
        samples = torch.frombuffer(bytearray(file.readframes(file.getnframes())), dtype=torch.int16)
    assert int(samples.abs().max()) > 1000
    return samples.numel() / 24000


def test_a_process_refuses_in_one_line_on_any_terminal(run):
    result = run.process("speak", "Hi", "--design", "warm \u8001")
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_the_printed_seed_reproduces_the_file(run):
    first = run("speak", "Hello.", "--steps", 2, "-o", "a.wav")
    seed = first.stdout.split("seed ")[1].strip()
    run("speak", "Hello.", "--steps", 2, "-o", "b.wav", "--seed", seed)
    assert (run.folder / "a.wav").read_bytes() == (run.folder / "b.wav").read_bytes()


def test_text_from_standard_input_in_any_script(run):
    result = run("speak", "-", "--steps", 2, "-o", "piped.wav", stdin="Gr\u00fc\u00dfe, \u4f60\u597d!\n")
    assert result.returncode == 0, result.stderr
    assert seconds_of(run.folder / "piped.wav") > 0.5


def test_clone_from_recording_and_from_saved_voice_agree(run, recording):
    options = ("--steps", 2, "--seed", 3)
    assert (
        run("speak", "Cloned.", "--voice", recording, "--transcript", WORDS, "-o", "c1.wav", *options).returncode == 0
    )
    saved = run("voice", "save", recording, "--transcript", WORDS, "-o", "v.safetensors")
    assert saved.returncode == 0, saved.stderr
    assert run("speak", "Cloned.", "--voice", "v.safetensors", "-o", "c2.wav", *options).returncode == 0
    assert (run.folder / "c1.wav").read_bytes() == (run.folder / "c2.wav").read_bytes()
    assert WORDS in run("voice", "show", "v.safetensors").stdout


def test_a_note_of_consent_is_kept_in_voices_and_shown(run, recording):
    noted = ("--consent", " permission:  Anna,\n2 May ", "-o", "noted.safetensors", "--overwrite")
    assert run("voice", "save", recording, "--transcript", WORDS, *noted).returncode == 0
    assert VoicePrompt.load(run.folder / "noted.safetensors").consent == "permission: Anna, 2 May"
    assert "consent: permission: Anna, 2 May" in run("voice", "show", "noted.safetensors").stdout
    assert "consent: permission, noted as" in run("check", "noted.safetensors").stdout
    again = run("voice", "save", "noted.safetensors", "-o", "again.safetensors")
    assert again.returncode == 0 and VoicePrompt.load(run.folder / "again.safetensors").consent.startswith("permission")
    assert run("voice", "save", "noted.safetensors", "-o", "own.safetensors", "--consent", "self").returncode == 0
    assert VoicePrompt.load(run.folder / "own.safetensors").consent == "self"
    prompt = {"ref_audio_tokens": torch.zeros(8, 9, dtype=torch.long), "ref_text": "Hi.", "ref_rms": 0.05}
    torch.save({"format_version": 1, **prompt}, run.folder / "old.pt")
    for options, shown in (((), "(not noted)"), (("--consent", "licensed", "--overwrite"), "licensed")):
        assert run("voice", "import", "old.pt", *options).returncode == 0
        assert f"consent: {shown}\n" in run("voice", "show", "old.safetensors").stdout
    long = run("voice", "save", recording, "--consent", "x" * 501, "-o", "long.safetensors", "--model", "gone")
    assert long.returncode == 1 and long.stderr.startswith("error: --consent must be at most 500 characters, got 501")


def test_import_of_upstreams_prompt(run):
    codes = torch.randint(0, 1024, (8, 30))
    torch.save(
        {"format_version": 1, "ref_audio_tokens": codes, "ref_text": "Hi.", "ref_rms": 0.05}, run.folder / "prompt.pt"
    )
    result = run("voice", "import", "prompt.pt")
    assert result.returncode == 0, result.stderr
    voice = VoicePrompt.load(run.folder / "prompt.safetensors")
    assert torch.equal(voice.codes, codes)
    assert (voice.text, voice.rms) == ("Hi.", 0.05)
    again = run("voice", "import", "prompt.pt")
    assert again.returncode == 1
    assert "exists" in again.stderr
    assert run("voice", "import", "prompt.pt", "--overwrite").returncode == 0


def test_presets_are_steps_by_name(run):
    short = ("speak", "Named steps.", "--seed", 3, "--duration", 1)
    assert run(*short, "--preset", "draft", "-o", "p1.wav").returncode == 0
    assert run(*short, "--steps", 8, "-o", "p2.wav").returncode == 0
    assert (run.folder / "p1.wav").read_bytes() == (run.folder / "p2.wav").read_bytes()
    refused = run(*short, "--preset", "best")
    assert refused.returncode == 2
    assert all(name in refused.stderr for name in ("quality", "balanced", "fast", "draft"))


def test_a_preset_is_overridden_by_single_options(run):
    options = ("speak", "Stale.", "--seed", 3, "--duration", 1)
    fast = run(*options, "--preset", "fast", "-o", "fast.wav")
    assert fast.returncode == 0, fast.stderr
    for words in ("approximate", "prefix recomputed every 8", "unconditional half of guidance every 3"):
        assert words in fast.stderr
    spelled_out = ("--steps", 16, "--unconditional-every", 3, "--prefix-every", 8)
    assert run(*options, *spelled_out, "-o", "same.wav").returncode == 0
    assert (run.folder / "fast.wav").read_bytes() == (run.folder / "same.wav").read_bytes()
    exact = run(*options, "--preset", "fast", "--unconditional-every", 1, "--prefix-every", 1, "-o", "exact.wav")
    assert "approximate" not in exact.stderr
    assert run(*options, "--preset", "balanced", "-o", "balanced.wav").returncode == 0
    assert (run.folder / "exact.wav").read_bytes() == (run.folder / "balanced.wav").read_bytes()


def test_exact_length(run):
    result = run("speak", "Two seconds.", "--duration", 2, "--exact-length", "--steps", 2, "-o", "two.wav")
    assert result.returncode == 0, result.stderr
    assert seconds_of(run.folder / "two.wav") == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speak", "____"], "nothing to speak"),
        (["speak", "Hi", "--guidance", "25"], "guidance must be 0-10, got 25"),
        (["speak", "Hi", "--unconditional-every", "0"], "unconditional_every must be 1-64, got 0"),
        (["speak", "Hi", "--preset", "fast", "--prefix-every", "65"], "prefix_every must be 1-64, got 65"),
        (["speak", "Hi", "--design", "male, female"], "male"),
        (["speak", "Hi", "--transcript", "x"], "--transcript needs --voice"),
        (["speak", "Hi", "--voice", "missing.wav", "--transcript", "x"], "missing.wav"),
        (["speak", "Hi", "-o", "nowhere/x.wav"], "folder nowhere does not exist"),
        (["speak", "Hi", "-o", "song.mp3"], "must end in .wav, got 'song.mp3'"),
        (["speak", "Hi", "--device", "cuda:9"], "--device cpu"),
        (["speak", "caf\udce9"], "the text is not UTF-8"),
        (["speak", "Hi", "--exact-length"], "exact_length needs a duration"),
        (["voice", "import", "missing.pt"], "missing.pt"),
        (["languages", "klingonese"], "klingonese"),
    ],
)
def test_refusals_name_the_reason_and_exit_1(run, arguments, message):
    result = run(*arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [[], ["sing"], ["speak"], ["speak", "Hi", "--steps", "many"]])
def test_wrong_usage_exits_2(run, arguments):
    assert run(*arguments).returncode == 2


def test_without_a_model_it_says_where_it_looked(run):
    result = run("info", model=False)
    assert result.returncode == 1
    for part in ("--model", "OMNIVOICE_MODEL", "omnivoice", "python -m omnivoice download", "CC-BY-NC"):
        assert part in result.stderr


def test_a_model_in_the_current_folder_is_found(run, checkpoint):
    target = run.folder / "models" / "omnivoice" / "Tiny"
    target.parent.mkdir(parents=True)
    target.symlink_to(checkpoint, target_is_directory=True)
    try:
        result = run("info", model=False)
        assert result.returncode == 0, result.stderr
        assert "Tiny" in result.stdout
        assert "3 layers" in result.stdout
    finally:
        target.unlink()


def test_languages(run):
    lines = run("languages").stdout.splitlines()
    assert len(lines) == 646
    found = run("languages", "japan").stdout.split("\t")
    assert found[0] == "ja"


def test_free_description_is_used_and_what_it_ignores_is_named(run):
    options = ("--steps", 2, "--seed", 3)
    described = run("speak", "Hello.", "--describe", "a warm deep lady", "-o", "d1.wav", *options)
    assert described.returncode == 0, described.stderr
    assert "'warm'" in described.stderr
    run("speak", "Hello.", "--design", "low pitch, female", "-o", "d2.wav", *options)
    assert (run.folder / "d1.wav").read_bytes() == (run.folder / "d2.wav").read_bytes()
    assert run("speak", "Hello.", "--describe", "lady", "--design", "female").returncode == 1


def test_an_unknown_language_is_refused_with_the_nearest_names(run):
    result = run("speak", "Hello.", "--language", "Englsh", "--steps", 1, "-o", "w.wav")
    assert result.returncode == 1
    assert "language 'Englsh' is not known" in result.stderr
    assert "English (en)" in result.stderr
    assert not (run.folder / "w.wav").exists()


def test_a_file_that_cannot_be_written_is_found_before_the_work(run, monkeypatch):
    """It used to be found afterwards, and minutes of speech were lost."""
    monkeypatch.setattr("omnivoice.commands.speak.load_engine", lambda options: pytest.fail("the model was loaded"))
    (run.folder / "folder.wav").mkdir()
    (run.folder / "notes.wav").write_text("not audio")
    for name, message in (
        ("folder.wav", "is a folder"),
        ("notes.wav", "is not a WAV file"),
        ("no/x.wav", "no does not"),
    ):
        result = run("speak", "Hello.", "-o", name)
        assert result.returncode == 1
        assert message in result.stderr
    monkeypatch.setattr("omnivoice.intake.audio_files.os.access", lambda path, mode: False)
    assert "write-protected" in run("speak", "Hello.", "-o", "new.wav").stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe behaves differently there")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_failure(run, unbuffered):
    """As `languages | head -1`: no traceback, whether the pipe breaks at a print or at the end."""
    environment = {**guarded_path(run.root), "PYTHONUNBUFFERED": unbuffered}
    process = subprocess.Popen(
        [sys.executable, "-m", "omnivoice", "languages"],
        cwd=run.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_without_standard_streams(run, monkeypatch):
    """As under pythonw, or with `<&- 2>&-`."""
    from omnivoice.commands import speak, speech_options

    monkeypatch.setattr(sys, "stderr", None)
    speech_options.show_progress(1, 2)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TextError, match="no text was piped in: standard input is closed"):
        speak.read_text_stream(sys.stdin)


def test_without_a_model_it_speaks_with_the_demo_voice_and_says_so(checkpoint, tmp_path, monkeypatch, capsys) -> None:
    from omnivoice.weights import locate_checkpoint
    from omnivoice.weights.export import export_checkpoint

    demo = export_checkpoint(locate_checkpoint(checkpoint), tmp_path / "demo.safetensors", words=["hello", "anna"])
    monkeypatch.setattr("omnivoice.commands.models.demo_model", lambda: demo)
    monkeypatch.delenv("OMNIVOICE_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    speak = ["--steps", "2", "--duration", "0.4", "-o", "hello.wav"]
    assert main(["speak", "Hello Anna!", *speak]) == 0
    shown = capsys.readouterr().err
    assert "no model is installed, so the demo voice is used" in shown and "python -m omnivoice download" in shown
    assert "cannot say" not in shown
    assert main(["speak", "Hello penguin!", *speak]) == 0
    assert "knows only 2 words and cannot say penguin;" in capsys.readouterr().err
    assert main(["info"]) == 1 and "no OmniVoice model found" in capsys.readouterr().err
