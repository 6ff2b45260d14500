"""`--no-mark`, of every command that writes audio."""

from __future__ import annotations

import argparse
import sys

from ..intake.marks import SYNTHETIC, Mark


def add_mark_option(parser: argparse.ArgumentParser) -> None:
    """Add --no-mark."""
    parser.add_argument(
        "--no-mark",
        action="store_true",
        help="do not mark the audio as AI-generated; labelling it is then up to you, see docs/responsible-use.md",
    )


def chosen_mark(options: argparse.Namespace, mark: Mark = SYNTHETIC) -> Mark | None:
    """Return `mark`, or with --no-mark None after a line that says what this leaves to the user."""
    if not options.no_mark:
        return mark
    print("the audio is not marked as AI-generated: labelling it is up to you", file=sys.stderr)
    return None
