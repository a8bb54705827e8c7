"""A thousand callables due at once: due to the last one started.

No engine runs callables yet, so what is measured is the reference alone: a loop that claims by
the bare statements in chunks, and calls a function for each claim.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from edgecron.clock import SystemClock
from edgecron.engine.firing import CHUNK, FIRST_CHUNK
from tests.bench.bare import BareLoop
from tests.bench.machine import Setting
from tests.bench.schedules import command_spec, make, multiply, set_due
from tests.bench.table import Row, at_most

HOUR_MS = 3_600_000


def rows(setting: Setting) -> Iterator[Row]:
    took = [bare_s(setting) for _ in range(setting.pick(9, 3))]
    yield Row(
        bench="callables",
        what="1,000 callables due at once: due to last started",
        measured="-",
        reference=f"bare claim and call {statistics.median(took) * 1000:.0f} ms",
        reach=at_most(1.5),
        figures={"bare_s": took},
        note="no engine runs callables yet: the runners know commands alone",
    )


def bare_s(setting: Setting, count: int = 1000) -> float:
    """Seconds from due to the last call, of the bare loop; its ends are written after that."""
    with setting.place() as folder:
        database = folder / "calls.db"
        make(database, [command_spec("s", "every 1h")])
        multiply(database, "s", count - 1)
        due_ms = SystemClock().now_ms() + 500
        set_due(database, due_ms)
        loop = BareLoop(database, lambda _, plan_ms: plan_ms + HOUR_MS)
        loop.look(due_ms, count)
        called = []
        limit = FIRST_CHUNK
        time.sleep(max(0.0, due_ms / 1000 - time.time()))
        while claimed := loop.claim(SystemClock().now_ms(), limit):
            for one in claimed:
                _call(called.append, one)
            limit = CHUNK
        took_s = time.time() - due_ms / 1000
        for first in range(0, count, CHUNK):
            loop.end(called[first : first + CHUNK], SystemClock().now_ms())
        loop.close()
        assert len(called) == count, f"{len(called)} of {count} were due"
    return took_s


def _call(function: object, value: object) -> None:
    assert callable(function)
    function(value)
