"""A database on a private PostgreSQL server that syncs each commit: a crowd of engines.

Fifty engines, each a process of its own, sleep in their loops until a thousand schedules are due.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from edgecron.base.clock import SystemClock
from edgecron.base.paths import ServerUrl, read_location
from edgecron.client import Client
from edgecron.model.run import Claim
from tests.bench.contention import BOUND_S, CLAIMERS, DUE, ENOUGH_S, LEAD_MS, run_together
from tests.bench.enginerig import EngineRig
from tests.bench.machine import Setting
from tests.bench.schedules import command_spec
from tests.bench.table import Row, at_most
from tests.bench.timing import percentile
from tests.support.postgres import PostgresServer, private_server

_OPTIONS = "-c max_connections=200 -c shared_buffers=64MB"  # the rest is the server's own
_DUE_AT = """UPDATE edgecron.schedules SET next_plan_at = %(due)s, next_run_at = %(due)s,
        decided_until = %(due)s - 1"""


def rows(setting: Setting) -> Iterator[Row]:
    with private_server(options=_OPTIONS) as server:
        yield _crowd_row(setting, server)


def _make(server: PostgresServer, count: int) -> str:
    """Make a database with so many schedules, which are far from due; its URL."""
    url = server.create_database()
    with Client(read_location(url)) as client:
        client.add_all([command_spec(f"s{number}", "every 1h") for number in range(count)])
    return url


def _now_ms() -> float:
    return time.time_ns() / 1e6


# Many engines.


def _crowd_row(setting: Setting, server: PostgresServer) -> Row:
    rounds = [_claim_at_once(server) for _ in range(setting.pick(5, 1))]
    worst = sorted(percentile(one, 0.99) for one in rounds)
    everything = [delay for one in rounds for delay in one]
    median = worst[len(worst) // 2]
    return Row(
        bench="server",
        what="1,000 due schedules, 50 engines over a server: due to claimed, p99",
        measured=f"{median:.0f} ms",
        reach=at_most(100, "ms"),
        value=median,
        figures={"p99_ms": worst, "median_ms": percentile(everything, 0.5)},
        note=f"p99 of {len(rounds)} rounds {', '.join(f'{one:.0f}' for one in worst)} ms; median"
        f" of all {percentile(everything, 0.5):.0f} ms, last {max(everything):.0f} ms",
    )


def _claim_at_once(server: PostgresServer) -> list[float]:
    """Milliseconds from due to committed, of each claim."""
    url = _make(server, DUE)

    def release(start: Any) -> None:
        due_ms = SystemClock().now_ms() + LEAD_MS
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_DUE_AT, {"due": due_ms})
            connection.execute("UPDATE edgecron.versions SET changes = changes + 1")
            connection.execute("NOTIFY edgecron")
        start.value = due_ms

    found = run_together(CLAIMERS, _claim, (url,), release)
    delays = [delay for one in found for delay in one]
    assert len(delays) == DUE, f"{len(delays)} claims of {DUE} schedules"
    return delays


def _claim(url: str, ready: Any, start: Any, out: Any) -> None:
    """One engine in its loop, until all is claimed."""
    delays: list[float] = []

    def note(claims: Sequence[Claim]) -> None:
        now_ms = _now_ms()
        delays.extend(now_ms - claim.due_ms for claim in claims)

    location = read_location(url)
    assert isinstance(location, ServerUrl)
    rig = EngineRig(location, SystemClock(), seen=note)
    rig.holds_ends = True

    def stop_in_the_end() -> None:
        while not start.value:
            time.sleep(0.05)
        time.sleep(max(0.0, start.value / 1000 - time.time()) + ENOUGH_S)
        out.put(delays)
        # None leaves before all is claimed: its runs would be taken over.
        ready.wait(BOUND_S)
        rig.holds_ends = False
        rig.loop.stop()

    rig.engine.step()
    ready.wait(BOUND_S)
    stopper = threading.Thread(target=stop_in_the_end, name="stopper")
    stopper.start()
    rig.loop.run()
    stopper.join()
    rig.close()
