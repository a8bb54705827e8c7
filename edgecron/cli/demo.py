"""Show edgecron with a temporary database.

    edgecron demo
    edgecron demo --seconds 30

A few schedules run for some seconds. Your own database is not touched, and nothing stays. Ctrl-C
ends the demo early.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from shutil import which
from tempfile import TemporaryDirectory
from types import FrameType

from edgecron.base.errors import UsageError
from edgecron.base.files import package_text
from edgecron.base.paths import state_dir
from edgecron.base.value_texts import read_count
from edgecron.cli.engine_hosting import open_host, stop_on_signals
from edgecron.cli.event_lines import Line, readable
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.client import Client
from edgecron.engine.events import Event, EventKind
from edgecron.engine.presence import EngineSettings
from edgecron.model.choices import JobKind, OnShutdown, Status
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.state_files import lock_is_held, lock_path
from edgecron.views.phrases import count_words

LIVES_LONG = True
USAGE = "[--seconds N]"
_MOST_SECONDS = 3600
_NAME_COLUMNS = 9
_END_LOOKS, _LOOK_S = 200, 0.05

# (name, when, a shell line, timeout in seconds, what it shows)
_STORY = (
    ("hello", "every 2s", 'echo "hello from run $EDGECRON_RUN_ID"', None, "prints a line"),
    ("disk", "*/3 * * * * *", "df -h / | tail -n 1", None, "cron, with seconds"),
    ("flaky", "every 5s", "echo 'no answer from the server' >&2; exit 3", None, "fails"),
    ("slow", "every 3s", "sleep 4; echo 'done at last'", None, "still runs when it is due again"),
    ("stuck", "every 6s", "sleep 60", 2.0, "is ended by its timeout of 2 s"),
)
_OF_THE_ENGINE = (EventKind.ENGINE_STARTED, EventKind.ENGINE_STOPPING, EventKind.ENGINE_STOPPED)


def add_arguments(parser: Parser) -> None:
    parser.add("--seconds N", "run for N seconds (default: 12)", default="12")


def run(cli: Session, args: Namespace) -> int:
    if cli.is_json:
        raise UsageError("demo does not support --json")
    seconds = read_count(args.seconds, what="--seconds", most=_MOST_SECONDS)
    with _ended_by_signals(), TemporaryDirectory(prefix="edgecron-demo-") as folder:
        _play(cli, Path(folder) / "edgecron.db", seconds)
    return 0


def _play(cli: Session, database: Path, seconds: int) -> None:
    line = readable(
        zone=cli.zone(), is_colored=cli.use_color(sys.stdout), name_columns=_NAME_COLUMNS
    )
    # By any clock: the intervals show that it works.
    settings = EngineSettings(on_shutdown=OnShutdown.STOP, clock_wait_ms=0)
    host = open_host(database, settings, report=lambda event: _report(event, line))
    supervisor_id = host.engine.runners.own.id
    timer = threading.Timer(seconds, host.loop.stop)
    try:
        with Client(database) as client:
            client.add_all([_spec(*part[:4]) for part in _STORY], origin="demo")
            _introduce(cli, seconds)
            stop_on_signals(host.loop, is_terminal=False, on_shutdown=OnShutdown.STOP)
            timer.start()
            with host.loop.woken_by_signals():
                host.loop.run()
            _sum_up(cli, client)
    finally:
        timer.cancel()
        host.engine.runners.stop()
        host.close()
        _wait_for_supervisor(database, supervisor_id)


def _spec(name: str, trigger: str, line: str, timeout_s: float | None) -> ScheduleSpec:
    return ScheduleSpec(
        name=name,
        triggers=(trigger,),
        job=Job(kind=JobKind.SHELL, argv=(line,), cwd="/"),
        timezone="local",
        policies=Policies(timeout_s=timeout_s),
    )


def _introduce(cli: Session, seconds: int) -> None:
    cli.put(
        f"{count_words(len(_STORY), 'schedule')} in a temporary database,"
        f" run for {count_words(seconds, 'second')}:\n"
    )
    rows = [(name, trigger, line, shown) for name, trigger, line, _, shown in _STORY]
    styles = [("bold", "dim", "dim", None)] * len(rows)
    cli.put_table(("schedule", "triggers", "job", "note"), rows, styles=styles, flexible=(2,))
    cli.put()
    cli.flush()


def _report(event: Event, line: Line) -> None:
    if event.kind not in _OF_THE_ENGINE:
        print(line(event), flush=True)


def _sum_up(cli: Session, client: Client) -> None:
    rows, styles = [], []
    total = 0
    for schedule in client.schedules():
        counts = schedule.counts
        # Runs that the engine's end interrupted count as failed.
        failed = counts.get(Status.FAILED, 0) + counts.get(Status.INTERRUPTED, 0)
        good, skipped = counts.get(Status.SUCCESS, 0), counts.get(Status.SKIPPED, 0)
        cancelled = counts.get(Status.CANCELLED, 0)
        runs = good + failed + cancelled
        total += runs
        rows.append(
            (schedule.name, *map(str, (runs, good, failed, cancelled, skipped)),
             _sample(client, schedule.name))
        )  # fmt: skip
        styles.append(
            ("bold", None, "green" if good else "dim", "red" if failed else "dim",
             "magenta" if cancelled else "dim", "yellow" if skipped else "dim", "dim")
        )  # fmt: skip
    cli.put()
    keys = ("schedule", "runs", "success", "failed", "cancelled", "skipped", "last_output")
    cli.put_table(keys, rows, styles=styles, flexible=(6,))
    cli.put(
        f"\n{count_words(total, 'run')}, each recorded with its output;"
        " skipped runs are recorded, too."
    )
    text = package_text("cli/texts/demo.txt").removesuffix("\n")
    folder, name = os.path.split(os.path.abspath(sys.argv[0]))
    # In a virtual environment, a newcomer called the program by its path.
    if name == "edgecron" and which(name) is None:
        text = text.replace("yourself:", f"yourself:\n  export PATH={quote(folder)}:$PATH", 1)
    cli.put(text)


def _sample(client: Client, name: str) -> str:
    """Return the last line of the newest output of a schedule."""
    for execution in client.history(name, limit=10):
        output = client.output(execution.id)
        if output is not None:
            printed = b"".join(chunk.content for chunk in output.chunks)
            lines = printed.decode("utf-8", "replace").strip().splitlines()
            return " ".join(lines[-1].split()) if lines else ""
    return ""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Within the context, signals raise KeyboardInterrupt, so that the folder is removed."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_for_supervisor(database: Path, supervisor_id: str) -> None:
    """Wait for the end of the supervisor, which writes into the folder."""
    for _ in range(_END_LOOKS):
        if not lock_is_held(lock_path(state_dir(database), supervisor_id)):
            return
        time.sleep(_LOOK_S)
