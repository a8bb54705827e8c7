"""A thousand commands due at once: how long until the last of them has started, and what is
written for them, against a bare loop that claims and spawns?

edgecron: its engine wakes, claims chunk by chunk, each commit written through to the disk, and
its supervisor process starts them. The bare loop, with a database made in the same way: the same
look, UPDATE and INSERT in the same chunks and commits, then `subprocess.Popen` with two pipes and
a session for each; reaped at the end, when it writes the ends in chunks, too.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from edgecron.base.clock import SystemClock
from edgecron.engine.events import Event, EventKind
from edgecron.engine.fire import CHUNK, FIRST_CHUNK
from edgecron.engine.host import EngineHost
from edgecron.engine.presence import EngineSettings
from tests.bench.bare import BareLoop, Claimed
from tests.bench.machine import Setting
from tests.bench.processes import watchers_of, written_by
from tests.bench.schedules import TRUE, checkpoint, command_spec, make, multiply, set_due
from tests.bench.table import Row, at_most
from tests.bench.timing import Pairs, interleave

HOUR_MS = 3_600_000
LEAD_MS = 1_500  # so long before the due instant the engine sleeps
USUAL_DESCRIPTORS = 1024  # the limit that most systems give a program


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Seconds from due to the last start, and bytes handed to write() until all ends were on
    record, the log moved into the database."""

    took_s: float
    written_bytes: int
    watchers_bytes: int = 0  # of those: supervisor and guardian


def rows(setting: Setting) -> Iterator[Row]:
    count = setting.pick(1000, 300)
    rounds = setting.pick(9, 2)
    cases = (("limits lifted", count, 1.3), ("default limits", None, 1.5))
    for what, max_running, reach in cases:
        ours: list[Started] = []
        theirs: list[Started] = []

        def mine(found: list[Started] = ours, places: int | None = max_running) -> float:
            found.append(measure_edgecron(setting, count, places))
            return found[-1].took_s

        def others(found: list[Started] = theirs) -> float:
            found.append(measure_bare(setting, count))
            return found[-1].took_s

        pairs = interleave(rounds, mine, others)
        yield Row(
            bench="commands",
            what=f"{count:,} commands due at once: due to last started, {what}",
            measured=f"{pairs.our_median * 1000:.0f} ms",
            reference=f"bare claim and spawn {pairs.their_median * 1000:.0f} ms",
            ratio=pairs.ratio,
            low=pairs.middle[0],
            high=pairs.middle[1],
            reach=at_most(reach),
            figures=pairs.figures(),
            note=f"ratio of the best of each {pairs.best_ratio:.2f}",
        )
        if max_running is not None:
            yield _written_row(count, ours, theirs)


def _written_row(count: int, ours: list[Started], theirs: list[Started]) -> Row:
    pairs = Pairs(
        ours=tuple(one.written_bytes / count for one in ours),
        theirs=tuple(one.written_bytes / count for one in theirs),
    )
    theirs_share = statistics.median(one.watchers_bytes for one in ours) / count
    return Row(
        bench="commands",
        what=f"bytes handed to write() per run, {count:,} at once",
        measured=f"{pairs.our_median:,.0f} B",
        reference=f"bare statements {pairs.their_median:,.0f} B",
        ratio=pairs.ratio,
        low=pairs.middle[0],
        high=pairs.middle[1],
        reach=at_most(1.25),
        figures=pairs.figures(),
        note="database, log, journal, and what engine, supervisor and guardian tell each other;"
        f" {theirs_share:,.0f} B of it by the latter two",
    )


def measure_edgecron(setting: Setting, count: int, max_running: int | None) -> Started:
    ended = 0

    def report(event: Event) -> None:
        nonlocal ended
        ended += event.kind is EventKind.ENDED
        if ended == count:
            host.loop.stop()

    with setting.place() as folder, descriptors(USUAL_DESCRIPTORS):
        database = folder / "ours.db"
        _prepare(database, count)
        settings = EngineSettings(max_running=max_running)
        host = EngineHost(database, settings, clock=SystemClock(), report=report)
        watchers = watchers_of(database)
        family = [os.getpid(), *watchers]
        due_ms = _make_due(database)
        before, theirs_before = written_by(family), written_by(watchers)
        host.loop.run()
        host.engine.prepare()
        checkpoint(database)
        written = written_by(family) - before
        theirs = written_by(watchers) - theirs_before
        host.close()
        runs, last_ms = _read_runs(database)
        assert runs == count, f"{runs} of {count} runs were a success"
    return Started(took_s=(last_ms - due_ms) / 1000, written_bytes=written, watchers_bytes=theirs)


def measure_bare(setting: Setting, count: int) -> Started:
    with setting.place() as folder, descriptors(2 * count + 100):
        database = folder / "bare.db"
        _prepare(database, count)
        due_ms = _make_due(database)
        before = written_by([os.getpid()])
        loop = BareLoop(database, lambda _, plan_ms: plan_ms + HOUR_MS)
        started: list[tuple[Claimed, subprocess.Popen[bytes]]] = []
        limit = FIRST_CHUNK
        time.sleep(max(0.0, due_ms / 1000 - time.time()))
        while claimed := loop.claim(_now_ms(), limit):
            started += [(one, _spawn()) for one in claimed]
            limit = CHUNK
        took_s = time.time() - due_ms / 1000
        assert len(started) == count, f"{len(started)} of {count} were due"
        for _, process in started:
            process.communicate()
            assert process.returncode == 0
        for first in range(0, count, CHUNK):
            loop.end([one for one, _ in started[first : first + CHUNK]], _now_ms())
        loop.close()
        checkpoint(database)
        written = written_by([os.getpid()]) - before
    return Started(took_s=took_s, written_bytes=written)


def _spawn() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [TRUE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=False,
        start_new_session=True,
    )


def _prepare(database: Path, count: int) -> None:
    make(database, [command_spec("s", "every 1h")])
    multiply(database, "s", count - 1)


def _make_due(database: Path) -> int:
    """Have all due at an instant that comes soon; that instant."""
    due_ms = _now_ms() + LEAD_MS
    set_due(database, due_ms)
    return due_ms


def _read_runs(database: Path) -> tuple[int, int]:
    """How many went well, and when the last of them started."""
    connection = apsw.Connection(str(database))
    [(runs, last_ms)] = connection.execute(
        "SELECT count(*), max(started_at) FROM executions WHERE status = 'success'"
    )
    connection.close()
    return int(runs), int(last_ms)


def _now_ms() -> int:
    return SystemClock().now_ms()


@contextmanager
def descriptors(soft: int) -> Iterator[None]:
    """Another limit of descriptors, for as long as it lasts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
