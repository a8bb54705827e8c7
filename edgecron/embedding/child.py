"""The process of one function: `python child.py MODULE:FUNCTION`, as `processes` starts it."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Call the function, leave its result, and exit: 0, or 1 where it raised."""
    import json

    text = os.environ.pop("EDGECRON_PROGRAM", None)
    if text is None:
        # By hand, by another engine, or by a revision of before the program was moved.
        sys.stderr.write(
            f"edgecron: {sys.argv[-1]} is run by an engine of its own program, as it is now\n"
        )
        return 1
    told = json.loads(text)
    sys.path[:] = told["path"]
    from edgecron.embedding.calling import call_here

    target, sys.argv[:] = sys.argv[1], told["argv"]
    return call_here(target, told)


if __name__ == "__main__":
    sys.exit(main())
