"""`python -m tests.powerloss`: see `longform`."""

from __future__ import annotations

import sys
from pathlib import Path


def _main() -> int:
    # As pytest has it: the packages of the tests stand by themselves.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from powerloss.longform import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(_main())
