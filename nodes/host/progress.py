"""Text on a node: how far it has come while it runs, and its warnings at the end."""

from __future__ import annotations

import logging
import math
import time

from server import PromptServer

PAUSE = 0.5  # seconds between two lines of progress

_LOG = logging.getLogger("omnivoice_nodes")


class ProgressText:
    """One line on a node, replaced at most every PAUSE seconds."""

    def __init__(self, node_id: object) -> None:
        self._node_id, self._last = node_id, -math.inf

    def update(self, line: str, *, now: bool = False) -> None:
        """Show `line`, unless another one was shown less than `PAUSE` ago. now: show it in any case."""
        if now or time.monotonic() - self._last >= PAUSE:
            self._last = time.monotonic()
            _show(line, self._node_id)


def warn(warnings: tuple[str, ...], node_id: object, *, summary: str = "") -> None:
    """Write warnings into the log, and `summary` and the warnings onto the node."""
    for warning in warnings:
        _LOG.warning("%s", warning)
    _show("\n".join([summary] * bool(summary) + [*warnings]), node_id)


def _show(text: str, node_id: object) -> None:
    """Show `text` on the node, where there is a window to show it in. A server that cannot show it stops no speech."""
    server = getattr(PromptServer, "instance", None)
    if text and node_id is not None and server is not None:
        try:
            server.send_progress_text(text, str(node_id))
        except (OSError, RuntimeError) as error:  # the second one from a loop that was closed
            _LOG.debug("a line of progress could not be shown: %s", error)
