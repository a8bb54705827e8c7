"""The main file of a function's process: `python -P child.py MODULE:FUNCTION`.

Nothing of edgecron is imported before the module path is that of the program.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    """Call the function, leave its result, and return the exit code: 1 if it raised, else 0."""
    text = os.environ.pop("EDGECRON_PROGRAM", None)
    if text is None:
        # A person started it, or another engine, or the program has moved since.
        sys.stderr.write(
            f"edgecron: {sys.argv[-1]} can only run under an engine of its own program\n"
        )
        return 1
    told = json.loads(text)
    sys.path[:] = told["path"]
    from edgecron.embedding.processes import call_here

    target, sys.argv[:] = sys.argv[1], told["argv"]
    return call_here(target, told)


if __name__ == "__main__":
    sys.exit(main())
