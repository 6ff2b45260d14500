"""Kills of working processes (SIGKILL) at random moments: what was said to be written is there and whole, and a run
that goes on gives the files of one that was not killed.

Each input is a life: a forked child of this warm process, which reports what it has finished through a pipe, and is
killed a random moment after a random number of reports. So how far it comes does not depend on the machine's speed. A
child that has nothing left to do waits to be killed. Windows has neither fork nor SIGKILL, so `CAMPAIGN` is None there.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from typing import BinaryIO

from omnivoice.errors import OmniVoiceError
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.killed_works import FINISHED, Command, Files, Training, Work

ERROR = "error "
MOST_REPORTS, MOST_SECONDS = 6, 0.02
COMMANDS = (
    (
        "narrate",
        "# One\nThe weather is beautiful today.\n# Two\nIt was late. [pause 1s] Good night.\n# Three\nYes.",
        ("narrate", "book.txt", "-o", "out.wav"),
    ),
    (
        "dialogue",
        "Anna: The weather is beautiful today.\nBob: It was very late last night.\nAnna: Yes.\nBob: No.\n",
        ("dialogue", "talk.txt", "-o", "out.wav"),
    ),
    (
        "subtitles",
        "1\n00:00:00,500 --> 00:00:02,500\nGood morning.\n\n2\n00:00:03,000 --> 00:00:05,000\nIt was late.\n",
        ("subtitles", "film.srt", "-o", "out.wav", "--subtitles", "out.srt", "--report", "out.txt"),
    ),
    (
        "batch",
        "\n".join(json.dumps({"text": f"Sentence number {i}."}) for i in range(6)),
        ("batch", "list.jsonl", "-o", "out"),
    ),
    (
        "batch without marks",
        "\n".join(json.dumps({"text": f"Sentence number {i}."}) for i in range(6)),
        ("batch", "list.jsonl", "-o", "out", "--no-mark"),
    ),
)


def attack(run: Run) -> None:
    """Let works live in turn, kill each life, and look at what is left."""
    works = [one(run.folder, unharmed) for one in (Files, Training)]
    works += [Command(run.folder, unharmed, *one) for one in COMMANDS]
    while run.more():
        work = works[run.inputs % len(works)]
        with run.input(f"{type(work).__name__} {run.inputs}", cpu_seconds=30):
            told = killed(work, run.rng.randint(0, MOST_REPORTS), run.rng.uniform(0, MOST_SECONDS))
            run.tally("reported before a kill", len(told))
            run.tally("runs that ended", FINISHED in told)
            try:
                work.check(told)
            except OmniVoiceError as error:
                raise AssertionError(f"what a kill left cannot be read: {error}") from error


def killed(work: Work, reports: int, seconds: float) -> list[str]:
    """Start a life, kill it `seconds` after that many reports or after its end, and return what it reported."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _live(work, writing)
    os.close(writing)
    told = list[str]()
    with os.fdopen(reading, "rb") as pipe:
        while len(told) < reports and FINISHED not in told and (line := _line(pipe)):
            told.append(line)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        told += iter(lambda: _line(pipe), "")
    status = os.waitpid(child, 0)[1]
    assert not (errors := [line for line in told if line.startswith(ERROR)]), errors[0]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"the life ended with status {status}"
    return told


def unharmed(work: Work) -> None:
    """Let a work live to its end."""
    told = killed(work, sys.maxsize, 0)
    assert told[-1:] == [FINISHED], told


def _line(pipe: BinaryIO) -> str:
    """Return the next report; an empty text if there is none any more."""
    line = pipe.readline()
    return line[:-1].decode() if line.endswith(b"\n") else ""


def _live(work: Work, writing: int) -> None:
    """Work in the child, which never returns."""
    signal.alarm(600)  # if the parent dies
    logging.disable()  # warnings of hundreds of lives would hide the table
    try:
        work.live(lambda what: os.write(writing, f"{what}\n".encode()))
        os.write(writing, f"{FINISHED}\n".encode())
        while True:
            signal.pause()
    except BaseException as error:  # noqa: BLE001 - the parent shows it
        os.write(writing, f"{ERROR}{type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n")
    finally:
        os._exit(1)


CAMPAIGN = (
    Campaign(name="kills", unit="kills with SIGKILL", goal=1_000, share=4, attack=attack, suite=0)
    if hasattr(os, "fork")
    else None
)
