"""How much does a start cost, against a bare loop that claims and spawns?

    python -m tests.bench.starts [--starts 1000] [--rounds 7] [--live 200] [--profile FILE]

A thousand schedules that run `true` are due at one instant. edgecron: its engine wakes, claims
chunk by chunk, each commit written through to the disk, and its supervisor process starts them.
The bare loop, in this process, with a database made in the same way: the same look, the same
UPDATE and INSERT in the same chunks and commits, then `subprocess.Popen` with two pipes and a
session for each, nothing waited for, reaped at the end. Measured is the time from the due instant
until the last of them has started; rounds alternate, and neighbours give a ratio. Then: how much
a supervisor grows by each run that lives. A measurement, not a test.

`--profile FILE` writes what cProfile sees in the last round's supervisor, which slows that one.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import resource
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import apsw

from edgecron.api import Scheduler
from edgecron.clock import SystemClock
from edgecron.engine.events import Event, EventKind
from edgecron.engine.firing import CHUNK, FIRST_CHUNK
from edgecron.engine.host import EngineHost
from edgecron.model import Job, JobKind, ScheduleSpec
from edgecron.supervisor import Started, StartRequest, start
from edgecron.supervisor.link import SupervisorLink
from edgecron.supervisor.loop import Supervisor
from edgecron.timetext import format_instant, from_ms

COMMAND = "/bin/true"
LEAD_MS = 3_000  # so long before the due instant a round begins: schedules are made meanwhile
PERIOD_MS = 3_600_000
USUAL_DESCRIPTORS = 1024  # the limit that most systems give a program
_DUE = """SELECT id, revision, next_plan_at, next_run_at FROM schedules
    WHERE queue = 'command' AND next_run_at <= :now ORDER BY next_run_at, id LIMIT :limit"""
_ADVANCE = """UPDATE schedules SET next_plan_at = :next, next_run_at = :next,
        decided_until = max(decided_until, :plan), planned_count = planned_count + 1,
        last_enqueued_at = :now
    WHERE id = :id AND next_plan_at = :plan AND next_run_at = :run AND revision = :revision
        AND enabled AND deleted_at IS NULL"""
_CLAIM = """INSERT INTO executions (schedule_id, revision, scope_kind, scope_id, plan_at, fire_key,
        cause, trigger_text, due_at, max_attempts, queue, priority, status, queued_at,
        claimed_at, heartbeat_at, started_at, engine_id, supervisor_id, lease_token)
    VALUES (:id, :revision, 'global', '', :plan, '', 'schedule', 'every 1h', :run, 1, 'command',
        0, 'running', :now, :now, :now, :now, 1, 'bare', :token)
    ON CONFLICT (schedule_id, scope_kind, scope_id, plan_at, fire_key, attempt) DO NOTHING
    RETURNING id"""


def make_schedules(database: Path, count: int) -> int:
    """Make schedules that are all due at one instant; that instant, in milliseconds."""
    due_ms = SystemClock().now_ms() + LEAD_MS
    text = f"every 1h from {format_instant(from_ms(due_ms))}"
    job = Job(kind=JobKind.COMMAND, argv=(COMMAND,))
    with Scheduler(database) as scheduler:
        scheduler.add_all(
            [ScheduleSpec(name=f"s{number}", triggers=(text,), job=job) for number in range(count)]
        )
        found = {schedule.next_run_at for schedule in scheduler.schedules()}
    assert found == {from_ms(due_ms)}, "the schedules were made too late, or are not due at once"
    return due_ms


def measure_edgecron(database: Path, count: int) -> float:
    """Seconds from the due instant until the last run has started."""
    ended = 0

    def report(event: Event) -> None:
        nonlocal ended
        ended += event.kind is EventKind.ENDED
        if ended == count:
            host.loop.stop()

    host = EngineHost(database, clock=SystemClock(), report=report, max_running=count)
    due_ms = make_schedules(database, count)
    host.loop.run()
    host.close()
    connection = apsw.Connection(str(database))
    [(runs, last_ms)] = connection.execute(
        "SELECT count(*), max(started_at) FROM executions WHERE status = 'success'"
    )
    connection.close()
    assert runs == count, f"{runs} of {count} runs were a success"
    return (int(last_ms) - due_ms) / 1000


def measure_bare(database: Path, count: int) -> float:
    """The same for a loop that claims and spawns, and does nothing else."""
    due_ms = make_schedules(database, count)
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(
        "INSERT INTO engines (id, key, pid, boot_id, queues, version, started_at)"
        " VALUES (1, 'bare', 1, 'bare', '[]', 'bare', 0)"
    )
    processes: list[subprocess.Popen[bytes]] = []
    limit = FIRST_CHUNK
    time.sleep(max(0.0, due_ms / 1000 - time.time()))
    while len(processes) < count:
        for _ in range(claim_bare(connection, limit)):
            processes.append(
                subprocess.Popen(
                    [COMMAND],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    close_fds=False,
                    start_new_session=True,
                )
            )
        limit = CHUNK
    took_s = time.time() - due_ms / 1000
    connection.close()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    return took_s


def claim_bare(connection: apsw.Connection, limit: int) -> int:
    """Look, and claim what is due in one transaction; how many that were."""
    now_ms = time.time_ns() // 1_000_000
    due = connection.execute(_DUE, {"now": now_ms, "limit": limit}).fetchall()
    claimed = 0
    connection.execute("BEGIN IMMEDIATE")
    for schedule_id, revision, plan_ms, run_ms in due:
        assert isinstance(plan_ms, int)
        values = {"id": schedule_id, "revision": revision, "plan": plan_ms, "run": run_ms}
        values |= {"now": now_ms, "next": plan_ms + PERIOD_MS}
        connection.execute(_ADVANCE, values)
        assert connection.changes() == 1
        row = {**values, "token": os.urandom(8).hex()}
        claimed += len(connection.execute(_CLAIM, row).fetchall())
    connection.execute("COMMIT")
    return claimed


def measure_memory(folder: Path, live: int) -> dict[str, float]:
    """By how many kB a supervisor grows with each run that lives: resident, and its own share."""
    link = start(folder / "state", clock=SystemClock())
    # What it needs once, whatever the number: modules, and the room that freed runs leave.
    start_sleeps(link, 10, first=0)
    before = memory_of(link.pid)
    start_sleeps(link, live, first=10)
    after = memory_of(link.pid)
    link.stop_all()
    link.close()
    return {name: (after[name] - before[name]) / live for name in after}


def start_sleeps(link: SupervisorLink, count: int, *, first: int) -> None:
    """Start commands that live on, and wait until all have started."""
    link.start(
        [
            StartRequest(
                token=f"t{number}",
                argv=("/bin/sleep", "600"),
                env={"PATH": os.environ["PATH"], "EDGECRON_RUN_ID": str(number)},
                cwd="/",
                output_cap_bytes=256 * 1024,
            )
            for number in range(first, first + count)
        ]
    )
    started = 0
    while started < count:
        assert select.select([link], [], [], 30)[0], f"{started} of {count} have started"
        started += sum(isinstance(event, Started) for event in link.receive())


def memory_of(pid: int) -> dict[str, int]:
    """Rss and Pss of a process, in kB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    words = (line.split() for line in text.splitlines()[1:])
    return {name[:-1]: int(size) for name, size, *_ in words if name in ("Rss:", "Pss:")}


@contextmanager
def descriptors(soft: int) -> Iterator[None]:
    """Another limit of descriptors, for as long as it lasts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def profiled(out: Path) -> Iterator[None]:
    """Supervisors that are forked here write what they spent their time on."""
    serve = Supervisor.serve

    def serve_profiled(supervisor: Supervisor) -> None:
        profile = cProfile.Profile()
        try:
            profile.runcall(serve, supervisor)
        finally:
            profile.dump_stats(out)

    Supervisor.serve = serve_profiled  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        Supervisor.serve = serve  # type: ignore[method-assign]


def compare(count: int, rounds: int) -> list[tuple[float, float]]:
    """Seconds of edgecron and of the bare loop, for each round; each is printed."""
    found = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            with descriptors(USUAL_DESCRIPTORS):
                ours_s = measure_edgecron(Path(folder) / "ours.db", count)
            with descriptors(2 * count + 100):
                bare_s = measure_bare(Path(folder) / "bare.db", count)
        found.append((ours_s, bare_s))
        print(
            f"round {number + 1}: edgecron {ours_s * 1000:5.0f} ms   bare {bare_s * 1000:5.0f} ms"
            f"   ratio {ours_s / bare_s:.2f}   load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--starts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--live", type=int, default=200)
    parser.add_argument("--profile", type=Path)
    options = parser.parse_args()
    print(f"{datetime.now().astimezone():%F %T}  {options.starts} starts, {os.cpu_count()} cores")
    found = compare(options.starts, options.rounds)
    ratios = [ours_s / bare_s for ours_s, bare_s in found]
    # What else the machine does makes a round slower, never faster.
    best = min(ours_s for ours_s, _ in found) / min(bare_s for _, bare_s in found)
    print(f"ratio of the best of each: {best:.2f}")
    print(
        f"ratio: median {statistics.median(ratios):.2f}, best {min(ratios):.2f},"
        f" worst {max(ratios):.2f} of {len(ratios)} rounds"
    )
    with tempfile.TemporaryDirectory() as folder:
        grown = measure_memory(Path(folder), options.live)
    told = ", ".join(f"{name} {size:.1f}" for name, size in grown.items())
    print(f"memory of a supervisor, kB per live run of {options.live}: {told}")
    if options.profile:
        with tempfile.TemporaryDirectory() as folder, profiled(options.profile.absolute()):
            measure_edgecron(Path(folder) / "ours.db", options.starts)
        print(f"profile of a supervisor: {options.profile}")


if __name__ == "__main__":
    main()
