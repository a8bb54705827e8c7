"""One command, one table: see the package."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from . import report
from .hunting import hunt_all
from .table import ALL


def main() -> int:
    options = _parse()
    wanted = [one for one in ALL if not options.names or one.name in options.names]
    if options.list:
        print("\n".join(f"{one.name:<28} {one.guard}" for one in wanted))
        return 0
    found = hunt_all(wanted, jobs=options.jobs)
    print(report.table(found))
    if options.json:
        options.json.write_text(json.dumps(report.to_json(found), indent=2) + "\n", "utf-8")
    return int(any(one.by is None for one in found))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of --list; default: all")
    parser.add_argument("--list", action="store_true", help="the names, and what they take away")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there, too")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N",
                        help="so many at once (default: %(default)s)")  # fmt: skip
    options = parser.parse_args()
    unknown = set(options.names) - {one.name for one in ALL}
    if unknown:
        parser.error(f"no mutation is called {', '.join(sorted(unknown))} (see: --list)")
    return options


if __name__ == "__main__":
    sys.exit(main())
