"""One command, one table: see the package."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import apsw

from edgecron.base.errors import EdgecronError
from tests.bench import (
    callables,
    catch_up,
    claims,
    commands,
    contention,
    dashboard,
    front_door,
    history,
    idle,
    large,
    latency,
    machine,
    next_times,
    overload,
    scale,
    server,
    startup,
    steady,
    table,
    written,
)
from tests.bench.machine import Setting
from tests.bench.peers import at_once, daemons, embedded, enqueuing, idling
from tests.bench.peers.programs import Programs, find_programs
from tests.bench.table import Row

Measure = Callable[[Setting], Iterator[Row]]
# What a measurement may end with; the others go on.
_FAILURES = (AssertionError, EdgecronError, OSError, RuntimeError, ValueError, apsw.Error,
             subprocess.SubprocessError)  # fmt: skip


def _front_door_of_all(setting: Setting, programs: Programs) -> Iterator[Row]:
    commands = {**daemons.contestants(programs), **at_once.contestants(programs, "spawn")}
    functions = at_once.contestants(programs, "call")
    yield from front_door.compare(setting, commands, functions, rounds=setting.pick(3, 1))


# By name, in the order of the table; what each measures is its rows'.
BENCHES: dict[str, tuple[Measure, str]] = {
    "next": (next_times.rows, "the next time of a cron trigger"),
    "claims": (claims.rows, "claims in batches"),
    "crowd": (contention.rows, "many processes that claim"),
    "server": (
        server.rows,
        "engines over a PostgreSQL server: batches, a crowd, idle, a take-over",
    ),
    "step": (claims.step_rows, "a step over 100 due schedules"),
    "callables": (callables.rows, "1,000 callables due at once"),
    "overload": (overload.rows, "callables started as more is due than can be"),
    "commands": (commands.rows, "1,000 commands due at once, and what is written for them"),
    "latency": (latency.rows, "one due schedule among 100,000"),
    "seen": (latency.seen_rows, "another process's change, until an engine has seen it"),
    "idle": (idle.rows, "an engine with nothing to do, and its memory"),
    "live": (idle.live_rows, "the memory of each run that lives"),
    "front-door": (front_door.rows, "`edgecron daemon` and `Scheduler`: 1,000 jobs due at once"),
    "startup": (startup.rows, "`edgecron --version` and `edgecron list`"),
    "import": (startup.import_rows, "`import edgecron`"),
    "history": (history.rows, "`history` and `next` over ten million runs"),
    "large": (large.rows, "commands over 10,000 schedules and 200,000 runs"),
    "scale": (scale.rows, "a thousand schedules to a million"),
    "steady": (steady.rows, "200 starts a second for ten minutes"),
    "dashboard": (dashboard.rows, "the dashboard: first paint, keys, idle, memory"),
    "written": (written.rows, "what is written for a single run"),
    "catch-up": (catch_up.rows, "deciding a misfire of fifty years"),
}
PEERS: dict[str, tuple[Callable[[Setting, Programs], Iterator[Row]], str]] = {
    "embedded": (embedded.rows, "APScheduler 3 and huey beside edgecron, within a program"),
    "enqueue": (enqueuing.rows, "huey beside edgecron: tasks that a program enqueues"),
    "front-door": (_front_door_of_all, "all of them: 1,000 due at once, at the first instruction"),
    "idling": (idling.rows, "what each costs with nothing due, and to import"),
}


def main() -> int:
    options = _parse()
    benches = PEERS if options.peers else BENCHES
    if options.list:
        print("\n".join(f"{name:<10} {what}" for name, (_, what) in benches.items()))
        return 0
    folder = (options.folder or machine.default_folder()).resolve()
    setting = Setting(folder=folder, is_quick=options.quick, say=_say)
    machine.compile_package()
    found = machine.describe(folder)
    wanted: Mapping[str, Measure] = {name: measure for name, (measure, _) in BENCHES.items()}
    missing: dict[str, str] = {}
    if options.peers:
        programs = find_programs(setting, may_install=options.install)
        wanted, missing = _beside(programs), programs.missing
    rows = list(_measure({name: wanted[name] for name in options.rows or benches}, setting))
    print(machine.words(found), end="\n\n")
    print(table.markdown(rows) if options.markdown else table.aligned(rows))
    for name, why in missing.items():
        print(f"- {name} was not measured: {why}")
    if options.json:
        content = {"machine": found, "quick": options.quick, "missing": missing}
        content["rows"] = [row.to_json() for row in rows]
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and any(row.is_met is False or row.is_failure for row in rows))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROWS", help="names of --list; default: all")
    parser.add_argument("--list", action="store_true", help="the names, and what they measure")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rougher figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there, too")
    parser.add_argument("--markdown", action="store_true", help="print it as Markdown")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a reach is not met")
    parser.add_argument("--folder", type=Path, help="where databases lie; default: a cache folder")
    parser.add_argument("--peers", action="store_true", help="measure other schedulers instead")
    parser.add_argument(
        "--install", action="store_true", help="with --peers: get those that are not here"
    )
    options = parser.parse_args()
    benches = PEERS if options.peers else BENCHES
    unknown = [name for name in options.rows if name not in benches]
    if unknown:
        parser.error(f"no rows are called {', '.join(unknown)} (see: --list)")
    if options.install and not options.peers:
        parser.error("--install has no meaning without --peers")
    return options


def _beside(programs: Programs) -> dict[str, Measure]:
    """The measurements of peers, given where those are."""

    def bound(name: str) -> Measure:
        return lambda setting: PEERS[name][0](setting, programs)

    return {name: bound(name) for name in PEERS}


def _measure(wanted: Mapping[str, Measure], setting: Setting) -> Iterator[Row]:
    for name, measure in wanted.items():
        began = time.monotonic()
        _say(f"{name} ...")
        try:
            for row in measure(setting):
                _say(f"  {' | '.join(cell for cell in row.cells() if cell)}")
                yield row
        except _FAILURES as error:
            traceback.print_exc()
            yield Row(bench=name, what=name, measured="failed", note=str(error), is_failure=True)
        _say(f"  took {time.monotonic() - began:.0f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
