"""Python imports this when it starts, since the tests put this folder into PYTHONPATH: no child reaches a server."""

import os

from network_guard import LOG, Guard

Guard(os.environ.get(LOG, ""), loopback=True).install()
