"""What a user measures: a thousand jobs due at one instant, at each job's own first instruction.

The real `edgecron daemon` and a real `Scheduler`, with their defaults and with their limits lifted,
take turns with a bare loop: the same claims in the same chunks and commits, then `posix_spawn`
without pipes, or one call. With `--peers`, other schedulers take their turn in the same rounds.

Each round is measured on a quiet machine, and again while every core's idle time is taken by a
spinner of the class SCHED_IDLE: a load that resembles a desktop.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.engine.fire import CHUNK, FIRST_CHUNK
from edgecron.engine.state_folder import ring_engines
from tests.bench.bare import BareLoop, Claimed
from tests.bench.machine import Setting, child_environment
from tests.bench.processes import daemon, wait_until
from tests.bench.schedules import command_spec, make, multiply, set_due
from tests.bench.stamps import read_stamps, stamp_command
from tests.bench.table import Reach, Row, at_most
from tests.bench.timing import middle_of

HOUR_MS = 3_600_000
LEAD_MS = 2_000  # from setting the due time, until which the engine sleeps again
LIFTED = 4_000
BOUND_S = 900.0
FUNCTIONS = Path(__file__).with_name("functions_app.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Milliseconds after the due instant of the first and of the last job."""

    first_ms: float
    last_ms: float


# Has `count` jobs due at one instant.
Measure = Callable[[Setting, int], Starts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """What takes its turn. `reach` and `busy_reach` bound the ratio to the bare loop."""

    measure: Measure
    reach: Reach | None = None
    busy_reach: Reach | None = None


def rows(setting: Setting) -> Iterator[Row]:
    yield from compare(setting, {}, {}, rounds=setting.pick(7, 1))


def compare(
    setting: Setting,
    commands: Mapping[str, Contestant],
    functions: Mapping[str, Contestant],
    *,
    rounds: int,
) -> Iterator[Row]:
    """Measure edgecron, others and the bare loops in the same rounds."""
    races = (
        ("commands", "bare claim and posix_spawn", bare_commands, {**_COMMANDS, **commands}),
        ("functions", "bare claim and call", bare_functions, {**_FUNCTIONS, **functions}),
    )
    for is_busy in (False, True):
        for jobs, reference, bare, contestants in races:
            with spinners(os.cpu_count() or 1 if is_busy else 0):
                yield from _race(setting, jobs, reference, bare, contestants, rounds, is_busy)


def _race(
    setting: Setting,
    jobs: str,
    reference: str,
    bare: Measure,
    contestants: Mapping[str, Contestant],
    rounds: int,
    is_busy: bool,
) -> Iterator[Row]:
    count = setting.pick(1000, 200)
    found: dict[str, list[Starts]] = {name: [] for name in contestants}
    unit: list[Starts] = []
    for _ in range(rounds):
        unit.append(bare(setting, count))
        for name, contestant in contestants.items():
            found[name].append(contestant.measure(setting, count))
    bare_ms = statistics.median(one.last_ms for one in unit)
    for name, contestant in contestants.items():
        starts = found[name]
        ratios = [one.last_ms / each.last_ms for one, each in zip(starts, unit, strict=True)]
        first_ms = statistics.median(one.first_ms for one in starts)
        yield Row(
            bench="front-door",
            what=f"{name}: {count:,} {jobs} due at once, last start{', busy' if is_busy else ''}",
            measured=f"{statistics.median(one.last_ms for one in starts):.0f} ms",
            reference=f"{reference} {bare_ms:.0f} ms",
            ratio=statistics.median(ratios),
            low=middle_of(ratios)[0],
            high=middle_of(ratios)[1],
            reach=contestant.busy_reach if is_busy else contestant.reach,
            figures={
                "first_ms": [one.first_ms for one in starts],
                "last_ms": [one.last_ms for one in starts],
                "bare_ms": [one.last_ms for one in unit],
            },
            note=f"first start after {first_ms:.1f} ms",
        )


@contextmanager
def spinners(count: int) -> Iterator[None]:
    """Processes that take the idle time of as many cores."""
    code = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def edgecron_daemon(*options: str) -> Measure:
    """Measure `edgecron daemon` with these options."""

    def measure(setting: Setting, count: int) -> Starts:
        with setting.place() as folder:
            database = folder / "many.db"
            command, stamps, _ = stamp_command(folder)
            _prepare(database, command, count)
            with daemon(database, *options):
                due_ms = SystemClock().now_ms() + LEAD_MS
                set_due(database, due_ms)
                ring_engines(state_dir(database))
                wait_until(lambda: len(read_stamps(stamps)) == count, f"{count} commands begun")
            return starts_of(stamps, due_ms)

    return measure


def edgecron_scheduler(max_running: int | None) -> Measure:
    """Measure a program with a `Scheduler`; None: its default limit."""

    def measure(setting: Setting, count: int) -> Starts:
        with setting.place() as folder:
            words = [sys.executable, str(FUNCTIONS), str(folder / "own.db"), str(count)]
            if max_running is not None:
                words.append(str(max_running))
            return read_program(words, child_environment())

    return measure


def bare_commands(setting: Setting, count: int) -> Starts:
    """Claim what is due and spawn its commands, with no pipes; reap them at the end."""
    with setting.place() as folder:
        database = folder / "bare.db"
        command, stamps, _ = stamp_command(folder)
        _prepare(database, command, count)
        pids: list[int] = []

        def spawn(claimed: list[Claimed]) -> None:
            for _ in claimed:
                pids.append(os.posix_spawn(command[0], command, os.environ))

        due_ms = _run_bare(database, count, spawn)
        for pid in pids:
            assert os.waitpid(pid, 0)[1] == 0
        return starts_of(stamps, due_ms)


def bare_functions(setting: Setting, count: int) -> Starts:
    """Claim what is due and make one call for each claim."""
    with setting.place() as folder:
        database = folder / "bare.db"
        _prepare(database, ["true"], count)
        called_at: list[float] = []

        def call(claimed: list[Claimed]) -> None:
            for _ in claimed:
                called_at.append(time.time() * 1000)

        due_ms = _run_bare(database, count, call)
        return Starts(first_ms=called_at[0] - due_ms, last_ms=called_at[-1] - due_ms)


def _run_bare(database: Path, count: int, start: Callable[[list[Claimed]], None]) -> int:
    """Claim all that is due at one instant, chunk by chunk, and record the ends after it."""
    due_ms = SystemClock().now_ms() + LEAD_MS
    set_due(database, due_ms)
    loop = BareLoop(database, lambda _, plan_ms: plan_ms + HOUR_MS)
    claims: list[Claimed] = []
    limit = FIRST_CHUNK
    time.sleep(max(0.0, due_ms / 1000 - time.time()))
    while claimed := loop.claim(SystemClock().now_ms(), limit):
        start(claimed)
        claims += claimed
        limit = CHUNK
    assert len(claims) == count, f"{len(claims)} of {count} were due"
    for first in range(0, count, CHUNK):
        loop.end(claims[first : first + CHUNK], SystemClock().now_ms())
    loop.close()
    return due_ms


def starts_of(stamps: Path, due_ms: float) -> Starts:
    """The first and the last start that commands wrote down."""
    began_ms = [at_ms for _, at_ms in read_stamps(stamps)]
    return Starts(first_ms=min(began_ms) - due_ms, last_ms=max(began_ms) - due_ms)


def read_program(words: list[str], environment: Mapping[str, str]) -> Starts:
    """Run a program that prints seconds from due to the first start and to the last."""
    ended = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=BOUND_S, env=environment
    )
    assert ended.returncode == 0, f"{words[1]} failed: {ended.stderr.strip()[-600:]}"
    first_s, last_s = map(float, ended.stdout.split()[-2:])
    return Starts(first_ms=first_s * 1000, last_ms=last_s * 1000)


def _prepare(database: Path, command: list[str], count: int) -> None:
    make(database, [command_spec("s", "every 1h", *command)])
    multiply(database, "s", count - 1)


_COMMANDS = {
    "edgecron daemon": Contestant(
        measure=edgecron_daemon(), reach=at_most(1.5), busy_reach=at_most(2.0)
    ),
    f"edgecron daemon --max-running {LIFTED}": Contestant(
        measure=edgecron_daemon("--max-running", str(LIFTED)),
        reach=at_most(1.2),
        busy_reach=at_most(1.6),
    ),
}
_FUNCTIONS = {
    "Scheduler": Contestant(measure=edgecron_scheduler(None), reach=at_most(3.0)),
    "Scheduler(max_running=1000)": Contestant(measure=edgecron_scheduler(1000), reach=at_most(1.5)),
}
