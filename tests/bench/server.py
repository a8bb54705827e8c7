"""A database on a private PostgreSQL server that syncs each commit.

One engine claims and ends a hundred runs at a time, beside pgbench with the statements alone. Fifty
engines, each a process of its own, sleep in their loops until a thousand schedules are due. Engines
with nothing to do are counted by their statements. An engine is killed, and another takes over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from edgecron.base.clock import SystemClock
from edgecron.base.paths import ServerUrl, read_location
from edgecron.client import Client
from edgecron.engine.fire import CHUNK
from edgecron.model.run import Claim
from edgecron.store.contract import LEASE_MS
from tests.bench.contention import (
    BOUND_S,
    CLAIMERS,
    DUE,
    HOUR_MS,
    LEAD_MS,
    run_together,
    serve_until_claimed,
)
from tests.bench.enginerig import EngineRig
from tests.bench.machine import Setting
from tests.bench.schedules import command_spec
from tests.bench.table import Row, at_least, at_most
from tests.bench.timing import interleave, percentile, seconds_of
from tests.support.postgres import PostgresServer, as_postgres, private_server

# The rest is the server's own.
_OPTIONS = (
    "-c max_connections=200 -c shared_buffers=64MB -c shared_preload_libraries=pg_stat_statements"
)
_DISK = Path(tempfile.gettempdir())  # The server is another user, who does not see our folders.
_BATCH = 100
_DUE_AT = """UPDATE edgecron.schedules SET next_plan_at = %(due)s, next_run_at = %(due)s,
        decided_until = %(due)s - 1"""
# Engines that have started wake each other: so long until they sleep.
_LEAD_MS = 15_000
_TERM_S = LEASE_MS / 1000
_STATEMENTS = """SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
    WHERE toplevel AND query NOT LIKE '%pg_stat_statements%'"""
# What a claim of a batch and its ends write, without a decision: the rows are those of the last
# batch, an hour later.
_BARE = f"""BEGIN;
SELECT pg_try_advisory_xact_lock(1);
UPDATE edgecron.schedules SET next_plan_at = next_plan_at + {HOUR_MS},
    next_run_at = next_run_at + {HOUR_MS}, decided_until = next_plan_at,
    planned_count = planned_count + 1, last_enqueued_at = next_plan_at, fence = fence + 1;
INSERT INTO edgecron.executions (schedule_id, fence, lease_token, revision, plan_at, fire_key,
    cause, trigger_text, due_at, max_attempts, queue, priority, status, queued_at, claimed_at,
    heartbeat_at, started_at, engine_id, supervisor_id)
    SELECT schedule_id, fence + 1, lease_token, revision, plan_at + {HOUR_MS}, fire_key, cause,
    trigger_text, due_at + {HOUR_MS}, max_attempts, queue, priority, 'running', queued_at,
    claimed_at, claimed_at, started_at, engine_id, supervisor_id
    FROM edgecron.executions WHERE plan_at = (SELECT max(plan_at) FROM edgecron.executions);
UPDATE edgecron.versions SET changes = changes + 1;
NOTIFY edgecron;
COMMIT;
BEGIN;
SELECT pg_try_advisory_xact_lock(1);
UPDATE edgecron.executions SET status = 'success', exit_code = 0, finished_at = claimed_at,
    duration_ms = 0 WHERE status = 'running';
UPDATE edgecron.schedules SET last_status = 'success', run_count = run_count + 1,
    success_count = success_count + 1, last_run_at = next_plan_at, last_success_at = next_plan_at,
    duration_counts = edgecron.json_set(duration_counts, '10', run_count + 1),
    late_counts = edgecron.json_set(late_counts, '250', run_count + 1);
UPDATE edgecron.versions SET changes = changes + 1;
NOTIFY edgecron;
COMMIT;
"""


# The same of a claim, by processes that share the due schedules out among themselves.
_BARE_ENGINE = """INSERT INTO edgecron.engines
    (id, key, pid, boot_id, queues, version, started_at, machine) VALUES
    (1, 'bare', 1, 'bare', '[]', 'bare', 0, 'bare')"""
_BARE_CLAIM = f"""WITH due AS (
    SELECT id FROM edgecron.schedules WHERE queue = 'command' AND enabled = 1
        AND next_run_at <= %(now)s ORDER BY next_run_at LIMIT {CHUNK} FOR UPDATE SKIP LOCKED),
moved AS (
    UPDATE edgecron.schedules AS s SET next_plan_at = next_plan_at + {HOUR_MS},
        next_run_at = next_run_at + {HOUR_MS}, decided_until = next_plan_at,
        planned_count = planned_count + 1, last_enqueued_at = %(now)s, fence = fence + 1
    FROM due WHERE s.id = due.id RETURNING s.*)
INSERT INTO edgecron.executions (schedule_id, fence, lease_token, revision, plan_at, fire_key,
    cause, trigger_text, due_at, max_attempts, queue, priority, status, queued_at, claimed_at,
    heartbeat_at, started_at, engine_id, supervisor_id)
SELECT id, fence, id::text, revision, decided_until, '', 'schedule', 'every 1h', decided_until, 1,
    queue, 0, 'running', %(now)s, %(now)s, %(now)s, %(now)s, 1, 'bare' FROM moved"""
_BARE_NOTE = "UPDATE edgecron.versions SET changes = changes + 1; NOTIFY edgecron, 'quiet'"


def rows(setting: Setting) -> Iterator[Row]:
    with private_server(options=_OPTIONS, parent=_DISK) as server, _own_state_folder():
        yield from _batch_rows(setting, server)
        yield _crowd_row(setting, server)
        yield _idle_row(setting, server)
        yield _takeover_row(server)


@contextmanager
def _own_state_folder() -> Iterator[None]:
    """Keep the files of these engines apart from those of others on this machine."""
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        try:
            yield
        finally:
            os.environ.pop("XDG_STATE_HOME")
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before


def _make(server: PostgresServer, count: int) -> str:
    """Make a database with so many schedules, which are far from due; its URL."""
    url = server.create_database()
    with Client(read_location(url)) as client:
        client.add_all([command_spec(f"s{number}", "every 1h") for number in range(count)])
    return url


def _locate(url: str) -> ServerUrl:
    location = read_location(url)
    assert isinstance(location, ServerUrl)
    return location


# Batches.


def _batch_rows(setting: Setting, server: PostgresServer) -> Iterator[Row]:
    url = _make(server, _BATCH)
    ours: list[float] = []
    theirs: list[float] = []
    rig = EngineRig(_locate(url), SystemClock())
    with psycopg.connect(url, autocommit=True) as connection:
        rig.engine.step()
        _batch_s(rig, connection)
        for _ in range(setting.pick(5, 1)):
            ours.append(median(_batch_s(rig, connection) for _ in range(40)))
            theirs.append(_bare_s(server, url, seconds=setting.pick(3, 1)))
    rig.close()
    mine, others = _BATCH / median(ours), _BATCH / median(theirs)
    figures: dict[str, object] = {"ours": ours, "theirs": theirs}
    yield Row(
        bench="server",
        what="claims and ends in batches of 100, one engine over a server",
        measured=f"{mine:,.0f}/s",
        reference=f"pgbench, the same writes {others:,.0f}/s",
        ratio=mine / others,
        reach=at_least(0.5),
        figures=figures,
        note="the aim of 10,000/s needs a server on which pgbench reaches more",
    )


def _batch_s(rig: EngineRig, connection: psycopg.Connection[Any]) -> float:
    """Seconds for a hundred claims and their ends."""
    connection.execute(_DUE_AT, {"due": time.time_ns() // 1_000_000 - 1})
    rig.holds_ends = True
    claims_s = seconds_of(lambda: _expect(rig.engine.step().claimed))
    rig.holds_ends = False
    return claims_s + seconds_of(lambda: _expect(rig.engine.step().ended))


def _expect(found: int) -> None:
    assert found == _BATCH, f"{found} of {_BATCH}"


def _bare_s(server: PostgresServer, url: str, *, seconds: int) -> float:
    """Seconds for a batch of the bare statements."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(_BARE)
        script.flush()
        Path(script.name).chmod(0o644)
        command = [str(server.programs / "pgbench"), "-n", "-M", "prepared", "-T", str(seconds)]
        shown = subprocess.run(
            as_postgres([*command, "-f", script.name, url]),
            cwd=server.folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return 1 / float(shown.partition("\ntps = ")[2].split()[0])


# Many engines.


def _crowd_row(setting: Setting, server: PostgresServer) -> Row:
    rounds: list[list[float]] = []

    def worst_of_ours() -> float:
        rounds.append(_claim_at_once(server, _claim, lead_ms=_LEAD_MS))
        return percentile(rounds[-1], 0.99)

    found = interleave(
        setting.pick(5, 1),
        worst_of_ours,
        lambda: percentile(_claim_at_once(server, _claim_barely, lead_ms=LEAD_MS), 0.99),
    )
    everything = [delay for one in rounds for delay in one]
    mine, others = (
        ", ".join(f"{one:.0f}" for one in sorted(of)) for of in (found.ours, found.theirs)
    )
    return Row(
        bench="server",
        what="1,000 due schedules, 50 engines over a server: due to claimed, p99",
        measured=f"{found.our_median:.0f} ms",
        reference=f"50 bare processes, the same writes {found.their_median:.0f} ms",
        ratio=found.ratio,
        reach=at_most(100, "ms"),
        value=found.our_median,
        figures={**found.figures(), "median_ms": percentile(everything, 0.5)},
        note=f"p99 of {len(rounds)} rounds {mine} ms, bare {others} ms;"
        f" median of all {percentile(everything, 0.5):.0f} ms, last {max(everything):.0f} ms",
    )


def _claim_at_once(
    server: PostgresServer, work: Callable[..., None], *, lead_ms: int
) -> list[float]:
    """Milliseconds from due to committed, of each claim."""
    url = _make(server, DUE)

    def release(start: Any) -> None:
        due_ms = SystemClock().now_ms() + lead_ms
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_DUE_AT, {"due": due_ms})
            connection.execute("UPDATE edgecron.versions SET changes = changes + 1")
            connection.execute("NOTIFY edgecron")
        start.value = due_ms

    found = run_together(CLAIMERS, work, (url,), release)
    delays = [delay for one in found for delay in one]
    assert len(delays) == DUE, f"{len(delays)} claims of {DUE} schedules"
    return delays


def _claim(url: str, ready: Any, start: Any, out: Any) -> None:
    """One engine in its loop, until all is claimed."""
    delays: list[float] = []

    def note(claims: Sequence[Claim]) -> None:
        now_ms = time.time_ns() / 1e6
        delays.extend(now_ms - claim.due_ms for claim in claims)

    rig = EngineRig(_locate(url), SystemClock(), seen=note)
    serve_until_claimed(rig, delays, ready, start, out)


def _claim_barely(url: str, ready: Any, start: Any, out: Any) -> None:
    """One bare process: it claims what no other process has locked, until nothing is left."""
    delays: list[float] = []
    with psycopg.connect(url) as connection:
        connection.execute(f"{_BARE_ENGINE} ON CONFLICT DO NOTHING".encode())
        connection.execute(_BARE_CLAIM.encode(), {"now": 0})
        connection.commit()
        ready.wait(BOUND_S)
        while not start.value:
            time.sleep(0.05)
        time.sleep(max(0.0, start.value / 1000 - time.time()))
        claimed = -1
        while claimed:
            now = {"now": time.time_ns() // 1_000_000}
            claimed = connection.execute(_BARE_CLAIM.encode(), now).rowcount
            if claimed:
                connection.execute(_BARE_NOTE.encode())
            connection.commit()
            delays += [time.time_ns() / 1e6 - start.value] * claimed
        out.put(delays)
        ready.wait(BOUND_S)


# Engines with nothing to do, and one that dies.


def _idle_row(setting: Setting, server: PostgresServer) -> Row:
    url, count = _make(server, 10), setting.pick(100, 10)
    calm_s, seconds = setting.pick(90, 15), 60
    found: list[int] = []

    def release(start: Any) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
            time.sleep(calm_s)
            for wait_s in (0, seconds):
                time.sleep(wait_s)
                [(calls,)] = connection.execute(_STATEMENTS).fetchall()
                found.append(int(calls))
        start.value = SystemClock().now_ms()

    run_together(count, _claim, (url,), release)
    each = (found[1] - found[0]) / count
    return Row(
        bench="server",
        what=f"{count} idle engines over a server: statements a minute of each",
        measured=f"{each:.2f}",
        reach=at_most(2),
        value=each,
        figures={"calls": found},
    )


def _takeover_row(server: PostgresServer) -> Row:
    url = _make(server, 1)
    found: list[float] = []

    def release(start: Any) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET search_path = edgecron")
            # An engine judges others once its own lease has lasted for a term.
            time.sleep(_TERM_S + 35)
            connection.execute(_DUE_AT, {"due": time.time_ns() // 1_000_000 - 1})
            connection.execute("UPDATE versions SET changes = changes + 1")
            connection.execute("NOTIFY edgecron")
            [(pid,)] = _wait_for(
                connection,
                """SELECT n.pid FROM executions AS e JOIN engines AS n ON n.id = e.engine_id
                   WHERE e.status = 'running'""",
            )
            os.kill(pid, signal.SIGKILL)
            began_s = time.monotonic()
            _wait_for(connection, "SELECT 1 FROM executions WHERE status = 'interrupted'")
            found.append(time.monotonic() - began_s)
        start.value = SystemClock().now_ms()

    run_together(2, _claim, (url,), release, lost=1)
    return Row(
        bench="server",
        what="a killed engine: until another machine has recorded its runs",
        measured=f"{found[0]:.1f} s",
        reach=at_most(_TERM_S + 5, "s"),
        value=found[0],
    )


def _wait_for(connection: psycopg.Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    until = time.monotonic() + 2 * _TERM_S
    while not (rows := connection.execute(sql.encode()).fetchall()):
        assert time.monotonic() < until, f"never: {sql}"
        time.sleep(0.05)
    return rows
