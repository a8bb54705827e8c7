"""One command, one table: see the package."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import (
    callables,
    catch_up,
    claims,
    commands,
    contention,
    history,
    idle,
    latency,
    machine,
    next_times,
    startup,
    table,
    written,
)
from tests.bench.machine import Setting
from tests.bench.table import Row

Measure = Callable[[Setting], Iterator[Row]]
# By name, in the order of the table; what each measures is its rows'.
BENCHES: dict[str, tuple[Measure, str]] = {
    "next": (next_times.rows, "the next time of a cron trigger"),
    "claims": (claims.rows, "claims in batches"),
    "crowd": (contention.rows, "many processes that claim"),
    "step": (claims.step_rows, "a step over 100 due schedules"),
    "callables": (callables.rows, "1,000 callables due at once"),
    "commands": (commands.rows, "1,000 commands due at once, and what is written for them"),
    "latency": (latency.rows, "one due schedule among 100,000"),
    "seen": (latency.seen_rows, "another process's change, until an engine has seen it"),
    "idle": (idle.rows, "an engine with nothing to do, and its memory"),
    "live": (idle.live_rows, "the memory of each run that lives"),
    "startup": (startup.rows, "`edgecron --version` and `edgecron list`"),
    "history": (history.rows, "`history` and `next` over ten million runs"),
    "written": (written.rows, "what is written for a lone run"),
    "catch-up": (catch_up.rows, "deciding a misfire of fifty years"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROWS", help="names of --list; default: all")
    parser.add_argument("--list", action="store_true", help="the names, and what they measure")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rougher figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there, too")
    parser.add_argument("--markdown", action="store_true", help="print it as Markdown")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a reach is not met")
    parser.add_argument("--folder", type=Path, help="where databases lie; default: a cache folder")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:<10} {what}" for name, (_, what) in BENCHES.items()))
        return 0
    unknown = [name for name in options.rows if name not in BENCHES]
    if unknown:
        parser.error(f"no rows are called {', '.join(unknown)} (see: --list)")
    folder = (options.folder or machine.default_folder()).resolve()
    setting = Setting(folder=folder, is_quick=options.quick, say=_say)
    found = machine.describe(folder)
    rows = list(_measure(options.rows or list(BENCHES), setting))
    print(machine.words(found), end="\n\n")
    print(table.markdown(rows) if options.markdown else table.aligned(rows))
    if options.json:
        content = {"machine": found, "quick": options.quick, "rows": [r.to_json() for r in rows]}
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and any(row.is_met is False for row in rows))


def _measure(names: list[str], setting: Setting) -> Iterator[Row]:
    for name in names:
        began = time.monotonic()
        _say(f"{name} ...")
        for row in BENCHES[name][0](setting):
            _say(f"  {' | '.join(cell for cell in row.cells() if cell)}")
            yield row
        _say(f"  took {time.monotonic() - began:.0f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
