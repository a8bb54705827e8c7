"""What does an engine start under overload, as more and more is due?

Callables that are due every second, more of them than the engine can start in a second. `ratio` is
what it starts when four times as many are due, to what it starts when they just overload it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from edgecron.base.clock import SystemClock
from edgecron.engine.host import EngineHost, ProgramFunctions
from edgecron.engine.presence import EngineSettings
from edgecron.model.choices import COMMAND_QUEUE, JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.callable_runner import CallableRunner
from edgecron.supervisor.calls import Call
from tests.bench.machine import Setting
from tests.bench.schedules import make, multiply, set_due
from tests.bench.table import Row, at_least
from tests.bench.timing import interleave

QUEUE = "py:bench"
DUE = 2_000  # each second: what just overloads an engine
LEAD_MS = 500


def rows(setting: Setting) -> Iterator[Row]:
    pairs = interleave(
        setting.pick(5, 1),
        lambda: seconds_of_a_run(setting, 4 * DUE),
        lambda: seconds_of_a_run(setting, DUE),
    )
    yield Row(
        bench="overload",
        what=f"callables started, {4 * DUE:,} due each second",
        measured=f"{1 / pairs.our_median:,.0f}/s",
        reference=f"{DUE:,} due {1 / pairs.their_median:,.0f}/s",
        ratio=1 / pairs.ratio,
        low=1 / pairs.middle[1],
        high=1 / pairs.middle[0],
        reach=at_least(1),
        figures=pairs.figures(),
    )


def seconds_of_a_run(setting: Setting, count: int) -> float:
    """Seconds for each run that is started, of so many schedules that are due every second."""
    called = 0

    def function(call: Call) -> None:
        nonlocal called
        called += 1

    with setting.place() as folder:
        database = folder / "overload.db"
        job = Job(kind=JobKind.CALLABLE, argv=("bench",))
        make(database, [ScheduleSpec(name="s", triggers=("every 1s",), job=job, queue=QUEUE)])
        multiply(database, "s", count - 1)
        clock = SystemClock()
        set_due(database, clock.now_ms() + LEAD_MS)
        host = EngineHost(
            database,
            EngineSettings(max_running=32, queues=(COMMAND_QUEUE, QUEUE)),
            clock=clock,
            report=lambda event: None,
            functions=ProgramFunctions(CallableRunner({"bench": function}, clock=clock)),
        )
        threading.Timer(setting.pick(8.0, 3.0), host.loop.stop).start()
        began = time.monotonic()
        host.loop.run()
        took = time.monotonic() - began - LEAD_MS / 1000
        host.close()
    return took / called
