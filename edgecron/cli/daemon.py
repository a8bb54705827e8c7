"""Run the engine in the foreground.

    edgecron daemon
    edgecron daemon --log-format json >> edgecron.log
    edgecron daemon --on-shutdown wait --shutdown-timeout 10m
    edgecron daemon --schedules /etc/edgecron/schedules.toml
    edgecron daemon --http 0.0.0.0:8745 --token-file ~/.edgecron-token

Several engines can share a database; each due time runs once. --label gives this machine a label
for schedules with --on label:SITE: see `edgecron help machines`. If you do not give an option, the
[limits] of the configuration apply: see `edgecron config show limits`.

Signals: TERM, INT (Ctrl-C) and, without --schedules, HUP end the daemon after the current step.
--on-shutdown decides about running jobs: they continue and the next engine adopts them (leave), the
daemon waits for them (wait), or it ends them (stop). A second signal ends the daemon immediately.
On a terminal, a second Ctrl-C ends the running jobs, and a third one the daemon.

--schedules applies schedule files at the start, as `apply` does, and again on HUP. The log shows
the plan. If a file has errors, the daemon shows all of them and does not start; on HUP it logs them
and changes nothing. Without the option, the daemon uses [daemon] schedules of the configuration. A
file must be a regular file without relative times (at = "in 20m"). For root's daemon it must belong
to root.

--clock-wait: while the clock can't be trusted (a board without a battery starts in 1970), nothing
runs by the calendar. After this time, `every`, `on boot` and intervals after an end continue by
elapsed time. Missed times are caught up when the clock is right.

--http serves the HTTP API to your user and root on this machine: see `edgecron help http`. If other
machines can reach the address, --token-file names the file with the token that each request needs.

--until-eof ends the daemon when its stdin closes, so that it ends with the program that started it.

As process 1 of a container, it forwards signals and reaps processes: it needs no other init.

Under systemd (Type=notify) the daemon reports its state and feeds the watchdog. To set that up, use
`edgecron service install`. `edgecron help scripts` lists the keys of the JSON log.
"""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import SystemClock
from edgecron.base.errors import UsageError
from edgecron.base.files import read_token
from edgecron.base.paths import Location, is_root
from edgecron.base.service_manager import SOCKET, Watchdog, take_service_watchdog
from edgecron.base.units import format_instant
from edgecron.cli.engine_hosting import (
    LINGER_MS,
    open_host,
    run_as_init,
    stop_on_signals,
    watching_stdin,
)
from edgecron.cli.event_lines import Line, as_json, logfmt, logfmt_pairs, readable, start_as_json
from edgecron.cli.output import drop
from edgecron.cli.parser import ADVANCED, Parser, add_http_argument
from edgecron.cli.session import Session
from edgecron.engine.events import Event, EventKind
from edgecron.engine.presence import EngineSettings
from edgecron.formats.config import retention_values
from edgecron.model.choices import OnLost, OnShutdown
from edgecron.model.engine import check_label
from edgecron.planning.retention import Retention
from edgecron.views.phrases import count_words, is_overdue
from edgecron.views.times import distance, near_time

if TYPE_CHECKING:
    from edgecron.cli.schedule_files import ScheduleFiles
    from edgecron.engine.loop import Loop
    from edgecron.http.serving import HttpService
    from edgecron.planning.forecast import UpcomingFire


LIVES_LONG = True
_STOPPING = {
    "leave": (
        f"edgecron: {{runs}} still running without the engine;"
        f" Ctrl-C within {LINGER_MS // 1000} s ends running jobs, too"
    ),
    "wait": "edgecron: waiting for {runs} to end; Ctrl-C ends running jobs",
    "stop": "edgecron: ending {runs}; Ctrl-C leaves that to the supervisor",
}


def add_arguments(parser: Parser) -> None:
    parser.add("--max-running N", "run at most N jobs at once (default: 4 per core, at least 8)")
    parser.add(
        "--on-shutdown leave|wait|stop", "choose what happens to running jobs (default: leave)"
    )
    parser.add("--shutdown-timeout DURATION", "with wait: end running jobs after this time")
    parser.add("--log-format text|json", "write the log as text or JSON (default: text)")
    parser.add(
        "--schedules FILE",
        "apply schedules as TOML at the start and on HUP; may be repeated",
        action="append",
    )
    add_http_argument(parser)
    parser.add_argument(
        "--label",
        action="append",
        metavar="SITE",
        help="take schedules with --on label:SITE; may be repeated",
    )
    advanced = parser.add_argument_group(ADVANCED)
    advanced.add_argument(
        "--burst", metavar="N", help="start at most N runs per second (default: no limit)"
    )
    advanced.add_argument(
        "--clock-wait",
        metavar="DURATION|none|forever",
        help="let intervals wait this long for a clock that can be trusted (default: 10m)",
    )
    advanced.add_argument(
        "--on-lost",
        metavar="end|leave",
        help="choose what happens to jobs that another machine took over (default: end)",
    )
    advanced.add_argument("--until-eof", action="store_true", help="also stop when stdin ends")


def run(cli: Session, args: Namespace) -> int:
    if os.getpid() == 1:  # of a container, which has no other init
        return run_as_init(lambda: _serve(cli, args))
    return _serve(cli, args)


def _serve(cli: Session, args: Namespace) -> int:
    is_json = cli.setting("limits.log_format", flag=args.log_format) == "json" or cli.is_json
    on_shutdown = OnShutdown(cli.setting("limits.on_shutdown", flag=args.on_shutdown))
    settings = EngineSettings(
        labels=_labels(cli, args),
        max_running=cli.setting("limits.max_running", flag=args.max_running),
        burst=cli.setting("limits.burst", flag=args.burst),
        on_shutdown=on_shutdown,
        on_lost=OnLost(cli.setting("limits.on_lost", flag=args.on_lost)),
        shutdown_timeout_ms=_shutdown_timeout_ms(cli, args, on_shutdown),
        clock_wait_ms=cli.setting("limits.clock_wait", flag=args.clock_wait),
        retention=Retention(**retention_values(cli.config())),
        output_cap_bytes=cli.setting("limits.output"),
        finds_subjects=is_json,
    )
    line = as_json if is_json else text_line(cli)
    database = cli.location()
    cli.check_folder()
    http = _serving_http(cli, args)
    paths = tuple(args.schedules or cli.setting("daemon.schedules"))
    files = _files_at_start(cli, paths) if paths else None
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    is_new = isinstance(database, Path) and not os.path.lexists(database)

    def report(event: Event) -> None:
        if not (is_terminal and _has_said_stopping(cli, event)):
            tell(line(event))

    feed = _feed_of_service_manager(cli)
    # Before the database is opened here: the host's supervisor must be forked first.
    host = open_host(database, settings, report=report, watchdog=feed)
    tell = _teller(cli, host.loop)
    try:
        _finish_apply(cli)
        _record_rules(cli)
        if files is not None:
            files.apply(report)
        _say_start(cli, database, is_new=is_new, log=tell if is_json else None)
        # The supervisor runs by now: it inherits nothing of what is opened from here on.
        with nullcontext() if files is None else files.applying_on_hup(report) as on_hup:
            stop_on_signals(
                host.loop, is_terminal=is_terminal, on_shutdown=on_shutdown, on_hup=on_hup
            )
            stdin = watching_stdin(host.loop.stop) if args.until_eof else nullcontext()
            with host.loop.woken_by_signals(), stdin, http:
                host.loop.run()
    finally:
        host.close()
        _let_go_of_log()
    return 0


def _labels(cli: Session, args: Namespace) -> tuple[str, ...]:
    for label in args.label or ():
        check_label(label, what="--label")
    return tuple(args.label or cli.setting("daemon.labels"))


def _files_at_start(cli: Session, paths: tuple[str, ...]) -> ScheduleFiles:
    # Reading TOML takes 2 MB that an engine without such files does not need.
    from edgecron.cli.schedule_files import ScheduleFiles

    return ScheduleFiles(cli, paths)


def _feed_of_service_manager(cli: Session) -> Watchdog | None:
    """Return what reports to the service manager that the engine is working, if one listens."""
    if SOCKET not in os.environ:
        return None
    return take_service_watchdog(clock=SystemClock(), warn=cli.warn)


def _serving_http(cli: Session, args: Namespace) -> AbstractContextManager[None]:
    """Serve the HTTP API within the context, if an option asks for it.

    Raises UsageError, InvalidInput and NotSupported before the engine starts.
    """
    if args.http is None and cli.token_file is None:
        return nullcontext()
    if args.http is None:
        raise UsageError(
            "--token-file only works with the HTTP API",
            hint="also give --http",
        )
    # An extra.
    from edgecron.http.serving import HttpService, check_served, read_place

    where = read_place(args.http, database=cli.location())
    token = None if cli.token_file is None else read_token(cli.token_file)
    check_served(where, has_token=token is not None)
    return _serve_http(cli, HttpService(cli.location(), where, token=token))


@contextmanager
def _serve_http(cli: Session, service: HttpService) -> Iterator[None]:
    try:
        service.start()
        cli.say(f"edgecron: the HTTP API is at {service.url}")
        words = _audience_words(service)
        if words is not None:
            cli.say(f"edgecron: {words}")
        yield
    finally:
        service.close()


def _audience_words(service: HttpService) -> str | None:
    """Say which users of this machine can ask the server; None if that is obvious."""
    from edgecron.http.serving import Audience

    return {
        Audience.OWN_USERS: f"without a token, only {'' if is_root() else 'you and '}root can use"
        " it; other users of this machine can read only /healthz and /metrics",
        Audience.ALL_USERS: "every user of this machine can use it and act as you;"
        " for you only: --http unix:",
    }.get(service.audience)


def _let_go_of_log() -> None:
    """Drop the last lines of a log that can't be written: the runs are recorded anyway."""
    try:
        sys.stdout.flush()
    except OSError:
        drop(sys.stdout)


def _finish_apply(cli: Session) -> None:
    """Finish an apply whose process was killed."""
    from edgecron.client import Client  # not before the supervisor is forked

    with Client(cli.location()) as client:
        count = client.finish_apply()
    if count:
        cli.say_of_us(f"finished an apply of {count} schedules that was interrupted")


def _record_rules(cli: Session) -> None:
    """Record the rules for notices: from now on, what happens is recorded for them."""
    config = cli.config()
    if not any(file.rules for file in config.files) and not cli.has_database():
        return
    # Sending loads what an engine does not need; a rule is rare.
    from edgecron.client import Client
    from edgecron.client.notice_rules import sync_config

    with Client(cli.location()) as client:
        sync_config(client, config)


def text_line(cli: Session) -> Line:
    """Return the format of log lines: for people on a terminal, else logfmt."""
    if not sys.stdout.isatty():
        return logfmt
    return readable(zone=cli.zone(), is_colored=cli.use_color(sys.stdout))


def _shutdown_timeout_ms(cli: Session, args: Namespace, on_shutdown: OnShutdown) -> int | None:
    """Return the bound of a wait at shutdown.

    The option needs `--on-shutdown wait`; the setting of a file is ignored without it.
    """
    if on_shutdown is not OnShutdown.WAIT and args.shutdown_timeout not in (None, "none"):
        raise UsageError(
            f"--shutdown-timeout does not work with --on-shutdown {on_shutdown}",
            hint="use it with --on-shutdown wait",
        )
    timeout_ms: int | None = cli.setting("limits.shutdown_timeout", flag=args.shutdown_timeout)
    return timeout_ms if on_shutdown is OnShutdown.WAIT else None


def _has_said_stopping(cli: Session, event: Event) -> bool:
    """Say what happens to running jobs and what the next Ctrl-C does.

    Returns False for any other event.
    """
    count = event.details.get("runs")
    if event.kind is not EventKind.ENGINE_STOPPING or not isinstance(count, int):
        return False
    runs = count_words(count, "run")
    cli.say(_STOPPING[str(event.details["on_shutdown"])].format(runs=runs))
    # A log that goes elsewhere gets its own line.
    return sys.stdout.isatty()


def _say_start(
    cli: Session, database: Location, *, is_new: bool, log: Callable[[str], None] | None
) -> None:
    """Print one line, the database and the next fire: on stderr, or as JSON in the log."""
    client = cli.client()
    count, *_ = client.count_schedules()
    first = next(iter(client.next_fires()), None)
    others = [state.info.pid for state in client.engines() if state.is_alive]
    if log is None and sys.stderr.isatty():
        _say_start_in_words(cli, database, is_new=is_new, count=count, first=first)
        if others:
            pids = ", ".join(map(str, others))
            cli.say(f"other engines run on this database, too, and share the work: pid {pids}")
    else:
        fields: dict[str, object] = {"ts": format_instant(client.now()), "event": "starting"}
        fields["database"] = str(database)
        fields |= {"new_database": True} if is_new else {}
        fields |= {"pid": os.getpid(), "schedules": count}
        fields |= {"other_engines": others} if others else {}
        if first is not None:
            fields |= {"next": first.schedule, "next_run_at": format_instant(first.due_at)}
        if log is None:
            cli.say(logfmt_pairs(fields))
        else:
            log(start_as_json(fields))
    # The loop may run for months: no second connection stays open beside the engine's own.
    cli.close()


def _say_start_in_words(
    cli: Session, database: Location, *, is_new: bool, count: int, first: UpcomingFire | None
) -> None:
    coming = "nothing to come"
    if first is not None:
        now = cli.client().now()
        time = near_time(first.due_at, zone=cli.zone(), now=now)
        word = "since" if is_overdue(first.due_at, now) else "at"
        what = "overdue" if word == "since" else "next"
        is_trusted = cli.client().is_clock_trusted()
        far = distance(first.due_at, now, is_clock_trusted=is_trusted)
        coming = f"{what}: {first.schedule} {word} {time} ({far})"
    new = "new database " if is_new else ""
    cli.say(
        f"edgecron runs {new}{database}, pid {os.getpid()}:"
        f" {count_words(count, 'schedule')}; {coming}"
    )


def _teller(cli: Session, loop: Loop) -> Callable[[str], None]:
    """Return a function that prints log lines until the reader goes away."""

    turn = threading.Lock()  # HUP reports plans from another thread.

    def tell(text: str) -> None:
        try:
            with turn:
                print(text, flush=True)
        except BrokenPipeError:
            # The reader of the log has gone: stop in good order.
            cli.say("edgecron: stopping, because the reader of the log has gone")
            loop.stop()
        except OSError:
            # Due runs matter more than the log.
            return

    return tell
