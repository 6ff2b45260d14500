"""Python imports this when it starts, since the tests put this folder into PYTHONPATH: no child reaches a server.

An environment's own file of that name, which this one hides, runs next.
"""

import importlib.machinery
import importlib.util
import os
import sys

from network_guard import LOG, Guard

Guard(os.environ.get(LOG, ""), loopback=True).install()
_here = os.path.dirname(os.path.abspath(__file__))
_others = [folder for folder in sys.path if os.path.abspath(folder) != _here]
_hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _hidden is not None and _hidden.loader is not None:
    _hidden.loader.exec_module(importlib.util.module_from_spec(_hidden))
