"""The command line: `python -m omnivoice speak | narrate | dialogue | subtitles | batch | edit | redo | edit-order |
preview | voice | check | languages | info | download | export | merge | dataset | train`.

Exit codes: 0 done, 1 refused or failed (the reason is on stderr), 2 wrong usage, 130 interrupted. Only `download`
uses the network. The subcommands are in `commands/`.
"""

from __future__ import annotations

import argparse
import functools
import logging
import sys
from collections.abc import Sequence

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

REFUSED, INTERRUPTED = 1, 130
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
        options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()  # while a closed pipe is still distinguishable from a failure
    except BrokenPipeError:
        discard_output()
    except OmniVoiceError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
