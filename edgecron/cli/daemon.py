"""Run what is due, in the foreground, until it is told to stop.

    edgecron daemon
    edgecron daemon --log-format json >> edgecron.log

INT (Ctrl-C), TERM or HUP ends it after the step that is going on; a second one ends it at once.
Commands that run go on, and the next engine takes their ends over. Several engines may share
a database: each due time is run once.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.cli.session import Session
from edgecron.timetext import format_instant

if TYPE_CHECKING:
    from types import FrameType

    from edgecron.cli.transitions import Line
    from edgecron.engine.events import Report
    from edgecron.engine.host import EngineHost
    from edgecron.engine.loop import Loop
    from edgecron.upcoming import UpcomingFire

USAGE = "[--max-running N] [--log-format text|json]"
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_FORMATS = ("text", "json")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--max-running", metavar="N", help="runs at once (4 per core, at least 8)")
    parser.add_argument("--log-format", default="text", metavar="text|json")


def run(cli: Session, args: Namespace) -> int:
    from edgecron.cli.options import UsageError, read_count
    from edgecron.cli.transitions import as_json
    from edgecron.paths import database_path

    max_running = (
        None if args.max_running is None else read_count(args.max_running, what="--max-running")
    )
    if args.log_format not in _FORMATS:
        raise UsageError(f"--log-format is {args.log_format!r}, expected text or json")
    is_json = args.log_format == "json" or cli.is_json
    line = as_json if is_json else text_line(cli)
    database = database_path(cli.database)
    is_new = not os.path.lexists(database)
    # Before the database is opened here: the host's supervisor must be forked first.
    host = open_host(database, report=lambda event: tell(line(event)), max_running=max_running)
    tell = _teller(host.loop)
    try:
        if not is_json:
            _say_start(cli, database, is_new=is_new)
        stop_on_signals(host.loop)
        host.loop.run()
    finally:
        host.close()
    return 0


def open_host(
    database: Path, *, report: Report, max_running: int | None = None, only: int | None = None
) -> EngineHost:
    """An engine that is ready to run. Raises DatabaseUnusable where its place is not usable."""
    from edgecron.cli.phrases import os_words
    from edgecron.clock import SystemClock
    from edgecron.engine.host import EngineHost
    from edgecron.errors import DatabaseUnusable, SupervisorUnavailable

    try:
        return EngineHost(
            database, clock=SystemClock(), report=report, max_running=max_running, only=only
        )
    except (OSError, SupervisorUnavailable) as error:
        raise DatabaseUnusable(
            f"no engine can run beside database {database}: {os_words(error)}",
            hint="check the folder's owner, mode and space",
        ) from error


def text_line(cli: Session) -> Line:
    """Lines for people on a terminal, logfmt elsewhere."""
    from edgecron.cli.transitions import logfmt, readable

    if not sys.stdout.isatty():
        return logfmt
    return readable(zone=cli.zone(), is_colored=cli.use_color(sys.stdout))


def stop_on_signals(loop: Loop) -> None:
    """Let a signal stop a loop, and a second one end the process at once."""

    is_stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            # Runs are their supervisor's, so there is nothing that an end at once could lose.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        # The handlers stay: Python drops a signal whose handler changed while it was pending.
        is_stopping = True
        loop.stop()

    for each in _STOPS:
        signal.signal(each, stop)


def _say_start(cli: Session, database: Path, *, is_new: bool) -> None:
    """One line on stderr: what is fired from here, and what comes first."""
    from edgecron.cli.transitions import logfmt_pairs

    scheduler = cli.scheduler()
    count = len(scheduler.schedules())
    first = next(iter(scheduler.next_fires()), None)
    if sys.stderr.isatty():
        _say_start_in_words(cli, database, is_new=is_new, count=count, first=first)
    else:
        fields: dict[str, object] = {"event": "starting", "database": database}
        fields |= {"new_database": "true"} if is_new else {}
        fields |= {"pid": os.getpid(), "schedules": count}
        if first is not None:
            fields |= {"next": first.schedule, "next_at": format_instant(first.due_at)}
        cli.say(logfmt_pairs(fields))
    # The loop may run for months: no second connection stays open beside the engine's own.
    cli.close()


def _say_start_in_words(
    cli: Session, database: Path, *, is_new: bool, count: int, first: UpcomingFire | None
) -> None:
    from edgecron.cli.phrases import count_words, is_overdue, near_time
    from edgecron.cli.screen import distance

    coming = "nothing to come"
    if first is not None:
        now = cli.scheduler().now()
        time = near_time(first.due_at, zone=cli.zone(), now=now)
        word = "since" if is_overdue(first.due_at, now) else "at"
        what = "overdue" if word == "since" else "next"
        coming = f"{what}: {first.schedule} {word} {time} ({distance(first.due_at, now)})"
    new = "new database " if is_new else ""
    cli.say(
        f"edgecron runs {new}{database}, pid {os.getpid()}:"
        f" {count_words(count, 'schedule')}; {coming}"
    )


def _teller(loop: Loop) -> Callable[[str], None]:
    """Prints lines as long as somebody takes them."""

    def tell(text: str) -> None:
        try:
            print(text, flush=True)
        except BrokenPipeError:
            # Whoever read us has gone, and so do we, in good order.
            loop.stop()
        except OSError:
            # A log that can't be written is no reason to leave undone what is due.
            return

    return tell
