"""A thousand callables due at once: how long until the last of them is called, against a bare loop
that claims and calls?

edgecron: its engine wakes, claims chunk by chunk, each commit written through to the disk, and
worker threads of the same process call the functions. The bare loop, with a database made in the
same way: the same look, UPDATE and INSERT in the same chunks and commits, then one call for each
claim; its ends are written in chunks at the end, too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

from edgecron.base.clock import SystemClock
from edgecron.engine.events import Event, EventKind
from edgecron.engine.fire import CHUNK, FIRST_CHUNK
from edgecron.engine.host import EngineHost, ProgramFunctions
from edgecron.engine.presence import EngineSettings
from edgecron.model.choices import COMMAND_QUEUE, JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.callable_runner import CallableRunner
from edgecron.supervisor.calls import Call
from tests.bench.bare import BareLoop
from tests.bench.machine import Setting
from tests.bench.schedules import command_spec, count_ended, make, multiply, set_due
from tests.bench.table import Row, at_most
from tests.bench.timing import interleave

HOUR_MS = 3_600_000
HOURLY = "every 1h"
LEAD_MS = 1_000  # so long before the due instant the engine sleeps
QUEUE = "py:bench"


def rows(setting: Setting) -> Iterator[Row]:
    count = setting.pick(1000, 300)
    rounds = setting.pick(9, 2)
    pairs = interleave(
        rounds,
        lambda: measure_edgecron(setting, count),
        lambda: measure_bare(setting, count),
    )
    yield Row(
        bench="callables",
        what=f"{count:,} callables due at once: due to last started",
        measured=f"{pairs.our_median * 1000:.0f} ms",
        reference=f"bare claim and call {pairs.their_median * 1000:.0f} ms",
        ratio=pairs.ratio,
        low=pairs.middle[0],
        high=pairs.middle[1],
        reach=at_most(1.5),
        figures=pairs.figures(),
        note=f"ratio of the best of each {pairs.best_ratio:.2f}",
    )


def measure_edgecron(setting: Setting, count: int) -> float:
    """Seconds from due to the last call."""
    called_at: list[float] = []
    ended = 0

    def function(call: Call) -> None:
        called_at.append(time.time())

    def report(event: Event) -> None:
        nonlocal ended
        ended += event.kind is EventKind.ENDED
        if ended == count:
            host.loop.stop()

    with setting.place() as folder:
        database = folder / "ours.db"
        job = Job(kind=JobKind.CALLABLE, argv=("bench",))
        _prepare(database, ScheduleSpec(name="s", triggers=(HOURLY,), job=job, queue=QUEUE), count)
        clock = SystemClock()
        host = EngineHost(
            database,
            EngineSettings(max_running=count, queues=(COMMAND_QUEUE, QUEUE)),
            clock=clock,
            report=report,
            functions=ProgramFunctions(CallableRunner({"bench": function}, clock=clock)),
        )
        due_ms = _make_due(database)
        host.loop.run()
        host.close()
        ends = count_ended(database)
        assert ends == len(called_at) == count, f"{ends} of {count} runs have ended"
    return max(called_at) - due_ms / 1000


def measure_bare(setting: Setting, count: int) -> float:
    """Seconds from due to the last call, of the bare loop."""
    called_at: list[float] = []
    with setting.place() as folder:
        database = folder / "bare.db"
        _prepare(database, command_spec("s", HOURLY), count)
        due_ms = _make_due(database)
        loop = BareLoop(database, lambda _, plan_ms: plan_ms + HOUR_MS)
        claims = []
        limit = FIRST_CHUNK
        time.sleep(max(0.0, due_ms / 1000 - time.time()))
        while claimed := loop.claim(SystemClock().now_ms(), limit):
            for _ in claimed:
                called_at.append(time.time())
            claims += claimed
            limit = CHUNK
        for first in range(0, count, CHUNK):
            loop.end(claims[first : first + CHUNK], SystemClock().now_ms())
        loop.close()
        assert len(called_at) == count, f"{len(called_at)} of {count} were due"
    return max(called_at) - due_ms / 1000


def _prepare(database: Path, spec: ScheduleSpec, count: int) -> None:
    make(database, [spec])
    multiply(database, spec.name, count - 1)


def _make_due(database: Path) -> int:
    """Have all due at an instant that comes soon; that instant."""
    # A full collection of what earlier rounds and the benchmark left takes up to 80 ms.
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    due_ms = SystemClock().now_ms() + LEAD_MS
    set_due(database, due_ms)
    return due_ms
