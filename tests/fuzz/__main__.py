"""`python -m tests.fuzz --minutes 90` is a release run."""

from __future__ import annotations

import sys

from tests.fuzz.program import main

if __name__ == "__main__":
    sys.exit(main())
