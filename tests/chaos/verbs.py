"""Many command lines in one process, which saves most of the time of their starts.

verbs.py < a JSON array of arrays of words
"""

from __future__ import annotations

import json
import sys

from edgecron.cli import run


def main() -> int:
    for words in json.load(sys.stdin):
        if code := run(words):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
