"""How long from a moment to what follows it?

One of 100,000 schedules is due at a time: how long until its command executes its first
instruction, beside a bare process that sleeps until the same kind of moment and spawns. And
somebody else's `add` or `run`: how long from its commit until a sleeping engine looks, and until
its step is over; beside a bare process that a byte in a FIFO wakes.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.engine.host import EngineHost
from edgecron.engine.state_folder import ring_engines
from tests.bench.machine import Setting
from tests.bench.processes import BOUND_S, daemon, wait_until
from tests.bench.schedules import command_spec, make, multiply, set_due
from tests.bench.stamps import read_stamps, stamp_command
from tests.bench.table import Row, at_most
from tests.bench.timing import percentile

MANY = 100_000
APART_MS = 250
LEAD_MS = 3_000


def rows(setting: Setting) -> Iterator[Row]:
    count = setting.pick(240, 40)
    with setting.place() as folder:
        ours, bare, how = _measure_starts(folder, count)
    ours_p50, ours_p99 = percentile(ours, 0.5), percentile(ours, 0.99)
    bare_p50, bare_p99 = percentile(bare, 0.5), percentile(bare, 0.99)
    what = "one due schedule among 100,000: due to first instruction"
    for name, our_ms, bare_ms, reach in (
        ("median", ours_p50, bare_p50, 10),
        ("p99", ours_p99, bare_p99, 50),
    ):
        yield Row(
            bench="latency",
            what=f"{what}, {name}",
            measured=f"{our_ms:.1f} ms",
            reference=f"bare sleep and spawn {bare_ms:.1f} ms",
            ratio=our_ms / bare_ms,
            reach=at_most(reach, "ms"),
            value=our_ms,
            figures={"ours_ms": ours, "bare_ms": bare},
            note=f"{count} fires, {how}" if name == "median" else "",
        )


def seen_rows(setting: Setting) -> Iterator[Row]:
    for act in ("add", "run"):
        with setting.place() as folder:
            looks, done, bare = _measure_seen(folder / "seen.db", act, setting.pick(200, 40))
        our_ms, bare_ms = percentile(looks, 0.99), percentile(bare, 0.99)
        what = ", the run claimed and written through" if act == "run" else ""
        yield Row(
            bench="seen",
            what=f"another process's `{act}`: commit to a sleeping engine's look, p99",
            measured=f"{our_ms:.1f} ms",
            reference=f"bare process, woken by a byte {bare_ms:.1f} ms",
            ratio=our_ms / bare_ms,
            reach=at_most(5, "ms"),
            value=our_ms,
            figures={"looks_ms": looks, "done_ms": done, "bare_ms": bare},
            note=f"medians {percentile(looks, 0.5):.1f} and {percentile(bare, 0.5):.1f} ms;"
            f" until its step is over{what}: median {percentile(done, 0.5):.1f},"
            f" p99 {percentile(done, 0.99):.1f} ms",
        )


def _measure_starts(folder: Path, count: int) -> tuple[list[float], list[float], str]:
    """Milliseconds of fires, and of bare spawns in between; and what was started."""
    database = folder / "many.db"
    command, stamps, how = stamp_command(folder)
    make(database, [command_spec("s", "every 1h", *command)])
    multiply(database, "s", MANY - 1)
    with daemon(database):
        first_ms = SystemClock().now_ms() + LEAD_MS
        set_due(database, first_ms, every_ms=APART_MS, last=count)
        ring_engines(state_dir(database))
        wanted = []
        for number in range(count):
            at_ms = first_ms + number * APART_MS + APART_MS // 2
            time.sleep(max(0.0, at_ms / 1000 - time.time()))
            subprocess.Popen(command, close_fds=False).wait()
            wanted.append(at_ms)
        wait_until(lambda: len(read_stamps(stamps)) == 2 * count, "all commands have begun")
    due = _due_times(database)
    found = read_stamps(stamps)
    bare = sorted(at_ms for run, at_ms in found if run == "bare")
    return (
        [at_ms - due[int(run)] for run, at_ms in found if run != "bare"],
        [at_ms - wanted_ms for at_ms, wanted_ms in zip(bare, wanted, strict=True)],
        how,
    )


def _due_times(database: Path) -> dict[int, int]:
    connection = apsw.Connection(str(database))
    found: dict[Any, Any] = dict(connection.execute("SELECT id, due_at FROM executions"))
    connection.close()
    return found


class _Stamping(Client):
    """Notes when it has committed, before it wakes engines."""

    def __init__(self, database: Path) -> None:
        super().__init__(database)
        self.committed_ns: list[int] = []

    def ring(self) -> None:
        self.committed_ns.append(time.time_ns())
        super().ring()


def _measure_seen(
    database: Path, act: str, count: int
) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds from commits until the engine's step began, and until it was over; and from a
    byte in a FIFO until a bare process was awake."""
    make(database, [command_spec("s", "every 1h")])
    fifo = database.with_name("bare.fifo")
    os.mkfifo(fifo)
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Barrier(3), context.Event()
    out, bare_out = context.Queue(), context.Queue()
    processes = [
        context.Process(target=_serve, args=(str(database), ready, stop, out), daemon=True),
        context.Process(target=_serve_bare, args=(str(fifo), ready, count, bare_out), daemon=True),
    ]
    for process in processes:
        process.start()
    ready.wait(BOUND_S)
    bell = os.open(fifo, os.O_WRONLY)
    rung_ns = []
    with _Stamping(database) as client:
        for number in range(count):
            time.sleep(0.05)  # a run ends within, and the engine sleeps again
            rung_ns.append(time.time_ns())
            os.write(bell, b"\0")
            time.sleep(0.05)
            if act == "add":
                client.add(command_spec(f"a{number}", "every 1h"))
            else:
                client.run_now("s")
        time.sleep(0.5)
        stop.set()
        ring_engines(state_dir(database))
        steps, woken_ns = out.get(timeout=BOUND_S), bare_out.get(timeout=BOUND_S)
        committed_ns = client.committed_ns
    os.close(bell)
    for process in processes:
        process.join()
    assert len(committed_ns) == count
    found = [next((b, e) for b, e in steps if b >= at_ns) for at_ns in committed_ns]
    return (
        [(began - at) / 1e6 for at, (began, _) in zip(committed_ns, found, strict=True)],
        [(ended - at) / 1e6 for at, (_, ended) in zip(committed_ns, found, strict=True)],
        [(woken - at) / 1e6 for at, woken in zip(rung_ns, woken_ns, strict=True)],
    )


def _serve_bare(fifo: str, ready: Any, count: int, out: Any) -> None:
    """A process that does nothing but wake; when it did."""
    fd = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    ready.wait(BOUND_S)
    woken = []
    for _ in range(count):
        select.select([fd], [], [])
        woken.append(time.time_ns())
        os.read(fd, 64)
    os.close(fd)
    out.put(woken)


def _serve(database: str, ready: Any, stop: Any, out: Any) -> None:
    """An engine; from when to when each of its steps went."""
    host = EngineHost(Path(database), clock=SystemClock(), report=lambda event: None)
    step = host.engine.step
    steps: list[tuple[int, int]] = []

    def stamped() -> object:
        if stop.is_set():
            host.loop.stop()
        began = time.time_ns()
        found = step()
        steps.append((began, time.time_ns()))
        if len(steps) == 1:
            ready.wait(BOUND_S)
        return found

    host.engine.step = stamped  # type: ignore[assignment, method-assign]
    host.loop.run()
    host.close()
    out.put(steps)
