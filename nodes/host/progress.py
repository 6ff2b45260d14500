"""Messages to the user while a node runs: warnings in the log and on the node."""

from __future__ import annotations

import logging

from server import PromptServer

_LOG = logging.getLogger("omnivoice_nodes")


def tell(warnings: tuple[str, ...], node_id: object) -> None:
    """Warnings into the log, and onto the node where there is a window to show it."""
    for warning in warnings:
        _LOG.warning("%s", warning)
    server = getattr(PromptServer, "instance", None)
    if warnings and node_id is not None and server is not None:
        server.send_progress_text("\n".join(warnings), str(node_id))
