"""The program: `edgecron` and `python -m edgecron`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from edgecron.cli import run

    _fill_streams()
    sys.exit(run(sys.argv[1:]))


def _fill_streams() -> None:
    """Open what the caller closed: a database file must never become descriptor 1 or 2."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Never closed again: it stands for the stream as long as the program runs.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


if __name__ == "__main__":
    main()
