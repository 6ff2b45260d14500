"""The command line: `python -m omnivoice speak | narrate | dialogue | subtitles | batch | edit | redo | edit-order |
preview | voice | check | languages | info | download | export | merge | dataset | train`.

Exit codes: 0 done, 1 refused or failed (the reason is on stderr), 2 wrong usage, 130 interrupted, 143 told to end by
SIGTERM, which cleans up as Ctrl-C does. Only `download`
uses the network. The subcommands are in `commands/`.
"""

from __future__ import annotations

import argparse
import functools
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .commands import (
    batch,
    check,
    dataset,
    dialogue,
    download,
    edit,
    edit_order,
    export,
    info,
    narrate,
    preview,
    speak,
    subtitles,
    train,
    voices,
)
from .errors import OmniVoiceError
from .intake.files import discard_output

REFUSED, INTERRUPTED, TERMINATED = 1, 130, 143
COMMANDS = (
    speak, narrate, dialogue, subtitles, batch, edit, edit_order, preview, voices, check, info, download, export,
    dataset, train,
)  # fmt: skip


@functools.cache
def _parser() -> argparse.ArgumentParser:
    """Return the parser of every command. It is made once, for programs that call `main` many times."""
    parser = argparse.ArgumentParser(prog="python -m omnivoice", description="Zero-shot speech in 600+ languages.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_parsers(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    # For the engine's log; the warnings of a result are printed with the result.
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a character the terminal cannot show must not stop the work
    try:
        with _ends_on_sigterm():
            options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()  # while a closed pipe is still distinguishable from a failure
    except BrokenPipeError:
        discard_output()
    except OmniVoiceError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except _Terminated:
        print("told to end", file=sys.stderr)
        return TERMINATED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


class _Terminated(KeyboardInterrupt):
    """SIGTERM has arrived."""


@contextmanager
def _ends_on_sigterm() -> Iterator[None]:
    """Raise `_Terminated` when SIGTERM arrives, so that temporary files go as after Ctrl-C."""

    def end(number: int, frame: object) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():  # only that one hears signals
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
