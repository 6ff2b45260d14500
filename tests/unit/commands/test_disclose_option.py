"""`speak --disclose`: a spoken notice in the file, in the voice of the speech, which stays as it is."""

from __future__ import annotations

import wave

import pytest

from tests.unit.commands.test_command_line import Run
from tests.unit.commands.test_command_line import run as run  # the fixture

pytestmark = pytest.mark.usefixtures("one_engine")

GAP = 12_000  # samples


def samples(run: Run, name: str) -> bytes:
    with wave.open(str(run.folder / name)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        return file.readframes(file.getnframes())


def spoken(run: Run, *options: object) -> bytes:
    done = run("speak", "Hello.", "--steps", 1, "--seed", 3, "-o", "out.wav", *options)
    assert done.returncode == 0, done.stderr
    data = samples(run, "out.wav")
    assert f"{len(data) / 48_000:.2f} s of speech" in done.stdout
    return data


@pytest.mark.parametrize("options", [(), ("--design", "female"), ("--no-mark",)])
def test_the_speech_is_bit_identical_and_the_notice_the_same_at_both_ends(run: Run, options: tuple[str, ...]) -> None:
    plain, gap = spoken(run, *options), bytes(2 * GAP)
    before, after = spoken(run, "--disclose", "before", *options), spoken(run, "--disclose", "after", *options)
    assert before.endswith(gap + plain) and after.startswith(plain + gap)
    notice = before[: -len(gap + plain)]
    assert len(notice) > 24_000 and any(notice) and after == plain + gap + notice
    assert spoken(run, "--disclose", "both", *options) == notice + gap + plain + gap + notice
    said = run("check", "out.wav", model=False)
    assert said.stdout.startswith("out.wav: no mark" if "--no-mark" in options else "out.wav: marked as AI-generated")


def test_the_language_and_own_words_decide_what_is_said(run: Run) -> None:
    every = [
        spoken(run, "--disclose", "before", *options)
        for options in ((), ("--language", "de"), ("--disclose-text", "Made by a machine."))
    ]
    assert len({*every}) == len(every)
    assert spoken(run, "--disclose", "before", "--disclose-text", "This recording was made with AI.") != every[1]


def test_the_warnings_about_the_notice_are_told(run: Run) -> None:
    own = ("--disclose", "before", "--disclose-text", "Made [softly] by a machine.")
    done = run("speak", "Hello.", "--steps", 1, "--seed", 3, *own)
    assert done.returncode == 0 and done.stderr.count("warning: [softly] is not a tag") == 1, done.stderr


@pytest.mark.parametrize(
    "options, told",
    [
        (("--disclose-text", "x"), "error: --disclose-text needs --disclose: say where it goes"),
        (("--disclose", "before", "--language", "sw"), "error: there is no sentence in language 'sw': write the text"),
        (("--disclose", "before", "--stream"), "error: --stream is written before its loudness is known"),
        (("--disclose", "before", "--duration", 2, "--exact-length"), "error: --exact-length has no room for a notice"),
        (("--disclose", "after", "--disclose-text", "x" * 1_001), "error: the text of the notice must be at most 1000"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_model_is_loaded(run: Run, options: tuple, told: str) -> None:
    done = run("speak", "Hello.", "--model", "gone", *options)
    assert done.returncode == 1 and done.stderr.startswith(told), done.stderr


def test_a_wrong_place_is_wrong_usage(run: Run) -> None:
    assert run("speak", "Hello.", "--disclose", "middle").returncode == 2
