"""The process of one function: `python child.py MODULE:FUNCTION`, as `processes` starts it."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Call the function, leave its result, and exit: 0, or 1 where it raised."""
    import json

    told = json.loads(os.environ.pop("EDGECRON_PROGRAM"))
    sys.path[:] = told["path"]
    from edgecron.embedding.calling import call_here

    return call_here(sys.argv[1], told)


if __name__ == "__main__":
    sys.exit(main())
