"""`python -m tests.powerloss`: see `longform`."""

from __future__ import annotations

import sys

from tests.powerloss.longform import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
