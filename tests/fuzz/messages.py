"""What an input of a text campaign may come to: a result, or a refusal in one readable line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from omnivoice.errors import OmniVoiceError
from tests.fuzz.campaign import MAX_CPU_SECONDS, Run

# Controls besides the tab, direction marks, characters without width, halves of surrogate pairs, invisible tags.
UNSEEN = re.compile(
    "[\0-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


@contextlib.contextmanager
def tried(run: Run, data: object, *, cpu_seconds: float = MAX_CPU_SECONDS) -> Iterator[None]:
    """As `run.input`; a refusal whose message has a line break or a character that cannot be seen is a finding."""
    with run.input(data, cpu_seconds=cpu_seconds):
        try:
            yield
        except OmniVoiceError as error:
            if UNSEEN.search(str(error)):
                run.finding(data, "a message has a character that cannot be seen", repr(str(error)))
            raise
