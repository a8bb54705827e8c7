"""See it work: a few lively schedules in a throw-away database, run for some seconds.

    edgecron demo
    edgecron demo --seconds 30

Nothing is left behind, and nothing of yours is touched. Ctrl-C ends it early.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.errors import UsageError
from edgecron.base.paths import state_dir
from edgecron.cli.engine_hosting import open_host
from edgecron.cli.event_lines import readable
from edgecron.cli.screen import table
from edgecron.cli.session import Session
from edgecron.client import Client
from edgecron.engine.events import EventKind
from edgecron.formats.option_texts import read_count
from edgecron.model.choices import JobKind, OnShutdown, Status
from edgecron.model.options import Job, Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.state_files import lock_is_held, lock_path
from edgecron.views.phrases import count_words

if TYPE_CHECKING:
    from types import FrameType

    from edgecron.cli.event_lines import Line
    from edgecron.engine.events import Event
    from edgecron.engine.host import EngineHost
    from edgecron.model.schedule import Schedule

LIVES_LONG = True
USAGE = "[--seconds N]"
_MOST_SECONDS = 3600
_NAME_COLUMNS = 9
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_END_LOOKS, _LOOK_S = 200, 0.05

# (name, when, a shell line, timeout in seconds, what it shows)
_STORY = (
    ("hello", "every 2s", 'echo "hello from run $EDGECRON_RUN_ID"', None, "prints a line"),
    ("disk", "*/3 * * * * *", "df -h / | tail -n 1", None, "cron, with seconds"),
    ("flaky", "every 5s", "echo 'no answer from the server' >&2; exit 3", None, "fails"),
    ("slow", "every 3s", "sleep 4; echo 'done at last'", None, "still runs when it is due again"),
    ("stuck", "every 6s", "sleep 60", 2.0, "is ended by its timeout of 2 s"),
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--seconds", default="12", metavar="N", help="for how long (12)")


def run(cli: Session, args: Namespace) -> int:
    if cli.is_json:
        raise UsageError("demo is for people, and has no --json")
    seconds = read_count(args.seconds, what="--seconds", most=_MOST_SECONDS)
    with _throw_away_folder() as folder:
        _play(cli, folder / "edgecron.db", seconds)
    return 0


def _play(cli: Session, database: Path, seconds: int) -> None:
    line = readable(
        zone=cli.zone(), is_colored=cli.use_color(sys.stdout), name_columns=_NAME_COLUMNS
    )
    host = open_host(
        database,
        report=lambda event: _report(event, line),
        on_shutdown=OnShutdown.STOP,
        clock_wait_ms=0,  # intervals are all it has, and those it can show by any clock
    )
    supervisor_id = host.engine.runners.supervisor_id
    try:
        with Client(database) as client:
            schedules = client.add_all([_spec(*part[:4]) for part in _STORY], origin="demo")
            _introduce(cli, schedules, seconds)
            with _stopped_after(host, seconds):
                host.loop.run()
            _sum_up(cli, client)
    finally:
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


def _introduce(cli: Session, schedules: list[Schedule], seconds: int) -> None:
    cli.put(
        f"{count_words(len(schedules), 'schedule')} in a throw-away database,"
        f" run for {count_words(seconds, 'second')}:"
    )
    cli.put()
    rows = [(name, trigger, line, shown) for name, trigger, line, _, shown in _STORY]
    for text in table(
        ("SCHEDULE", "WHEN", "JOB", ""),
        rows,
        is_colored=cli.use_color(sys.stdout),
        styles=[("bold", "dim", "dim", None)] * len(rows),
        flexible=(2,),
    ):
        cli.put(text)
    cli.put()
    sys.stdout.flush()


def _report(event: Event, line: Line) -> None:
    of_the_engine = (
        EventKind.ENGINE_STARTED,
        EventKind.ENGINE_STOPPING,
        EventKind.ENGINE_STOPPED,
    )
    if event.kind not in of_the_engine:
        print(line(event), flush=True)


def _sum_up(cli: Session, client: Client) -> None:
    rows, styles = [], []
    total = 0
    for schedule in client.schedules():
        counts = schedule.counts
        # With the engine's end; a summary of some seconds need not tell them apart.
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
    for line in table(
        ("SCHEDULE", "RUNS", "OK", "FAILED", "STOPPED", "SKIPPED", "LAST OUTPUT"),
        rows,
        is_colored=cli.use_color(sys.stdout),
        styles=styles,
        flexible=(6,),
    ):
        cli.put(line)
    cli.put()
    cli.put(
        f"{count_words(total, 'run')}, each on record with what it printed, and so is what was"
        " skipped."
    )
    cli.put("All of it is gone now.")
    cli.put()
    cli.put("Your own turn:")
    for command, meaning in (
        ('edgecron add hello --every 10s --shell "date"', "a schedule that stays"),
        ("edgecron daemon", "run what is due, until Ctrl-C"),
        ("edgecron next", "what comes"),
        ("edgecron history", "what came of it"),
        ("edgecron logs hello", "what it printed"),
        ('edgecron check "30 2 * * MON-FRI"', "a cron text in plain words"),
        ("crontab -l | edgecron import crontab -", "take over your crontab"),
    ):
        cli.put(f"  {command:<48} {meaning}".rstrip())


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
def _stopped_after(host: EngineHost, seconds: int) -> Iterator[None]:
    """Stop the loop when the time is over or a signal comes."""

    def stop(number: int, frame: FrameType | None) -> None:
        host.loop.stop()

    before = {each: signal.signal(each, stop) for each in (*_STOPS, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _throw_away_folder() -> Iterator[Path]:
    def leave(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    folder = Path(tempfile.mkdtemp(prefix="edgecron-demo-"))
    before = {each: signal.signal(each, leave) for each in _STOPS}
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for each, handler in before.items():
            signal.signal(each, handler)


def _wait_for_supervisor(database: Path, supervisor_id: str) -> None:
    """Wait for the end of the supervisor: it would write into the folder that is removed next."""
    for _ in range(_END_LOOKS):
        if not lock_is_held(lock_path(state_dir(database), supervisor_id)):
            return
        time.sleep(_LOOK_S)
