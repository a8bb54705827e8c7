"""Open the dashboard.

    edgecron tui
    edgecron --db /var/lib/app/app.db tui
    edgecron tui --engine     also run an engine while it is open
    edgecron tui --plain      as lines and a prompt, for screen readers
    edgecron tui --web        in a browser on this machine
    edgecron --token-file token tui --web 0.0.0.0:8000

The bottom line shows the keys, and ? explains all of them. The dashboard reads the database itself,
so it also works if no engine is running. When you leave it, engines and jobs continue. An engine
that you started from it ends with it, and its jobs continue. Set the theme and keys in the
configuration: see `edgecron config show dashboard`.

--web needs the extra `web`: see `edgecron help install`. Everyone who can open the page can do what
you can do. On this machine that is you and root (every user on systems without /proc). If other
machines can reach the address, --web needs --token-file FILE and asks browsers for the token.
"""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgecron.base.clock import Clock, ServerTime, SystemClock
from edgecron.base.errors import EdgecronError, UsageError
from edgecron.base.files import read_token
from edgecron.base.paths import ServerUrl, is_root
from edgecron.base.zones import use_zone_of_engines
from edgecron.cli.output import find_unfit, show_crash
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session, connector_to, refuse_here
from edgecron.formats.config import option_defaults
from edgecron.model.choices import Alert

if TYPE_CHECKING:
    from types import ModuleType

    from edgecron.client.protocol import Client
    from edgecron.tui.app import Dashboard


LIVES_LONG = True
USAGE = "[--engine] [--plain] [--web [HOST:]PORT] [--token-file FILE]"
# How long to wait for the database's lock. After it, a banner appears: reads are tried again,
# writes are given up.
_READ_WAIT_S = 1.5
_WRITE_WAIT_S = 15.0
_CACHE_KIB = 100  # pages of the database in memory: SQLite's 2 MB save a dashboard no time
_WEB = "127.0.0.1:8000"
_SWITCH_S = 0.0005  # after this time a thread lets another one run
# What Textual reads from the environment, once.
_HASTE = {
    # It draws at most this many frames a second (its default: 60), and only if something changed.
    # Just after a frame, a key waits for up to two more: p95 of `j` is 35 to 50 ms with 60, 8 ms
    # with 250.
    "TEXTUAL_FPS": "250",
    # After an Escape, it waits so many ms (its default: 100) for the rest of a longer code, such as
    # that of an arrow. Terminals send both at once.
    "ESCDELAY": "20",
}
_DRIVER = (
    "TEXTUAL_DRIVER"  # set by programs that draw elsewhere than on a terminal, as in a browser
)


def add_arguments(parser: Parser) -> None:
    parser.add("--engine", "run an engine until you quit")
    parser.add("--plain", "use lines and a prompt instead of a full screen")
    parser.add(
        "--web [HOST:]PORT",
        f"serve the dashboard to a browser (default: {_WEB})",
        nargs="?",
        const=_WEB,
    )


def run(cli: Session, args: Namespace) -> int:
    _refuse_nonsense(cli, args)
    if args.web is not None:
        return serve_in_browser(cli, args.web, starts_engine=args.engine)
    if args.plain:
        from edgecron.cli.plain import run_plain

        return run_plain(cli, starts_engine=args.engine)

    # Garbage collection would take a tenth of the time until the first screen. The dashboard
    # turns it on again after that.
    gc.disable()
    # A database thread must not delay drawing, by default for 5 ms each time.
    sys.setswitchinterval(_SWITCH_S)
    is_elsewhere = bool(os.environ.get(_DRIVER))
    unfit = None if is_elsewhere else find_unfit()
    if unfit is not None:
        raise unfit
    is_colored = _is_colored(cli, is_elsewhere=is_elsewhere)
    if not is_colored and not os.environ.get("NO_COLOR"):
        os.environ["NO_COLOR"] = "1"  # Programs that it starts, such as $PAGER, inherit it.
    dashboard = _dashboard(
        cli, starts_engine=args.engine, is_colored=is_colored, is_elsewhere=is_elsewhere
    )
    with _while_somebody_looks(dashboard) if is_elsewhere else nullcontext():
        dashboard.run()
    if dashboard.crash is not None:
        return _tell_crash(cli, dashboard.crash)
    return dashboard.return_code or 0


def hasten_keys() -> tuple[int, float]:
    """Let Textual act and draw soon after each key.

    Return how many frames a second it may draw, and how many seconds it waits after an Escape. The
    user's own settings win, and programs that the dashboard starts do not get ours.
    """
    ours = [name for name in _HASTE if name not in os.environ]
    os.environ.update((name, _HASTE[name]) for name in ours)
    from textual.constants import ESCAPE_DELAY, MAX_FPS

    for name in ours:
        del os.environ[name]
    return MAX_FPS, ESCAPE_DELAY


def _refuse_nonsense(cli: Session, args: Namespace) -> None:
    url = cli.remote_url()
    if args.engine and url is not None:
        raise refuse_here("tui --engine", url)
    is_elsewhere = bool(os.environ.get(_DRIVER))  # a page of `tui --web`, which has its options
    if cli.token_file is not None and url is None and args.web is None and not is_elsewhere:
        raise UsageError(
            "--token-file is given without --url or --web",
            hint="name the server, for example: --url http://pi:8745; or serve with --web",
        )
    if args.plain and args.web is not None:
        raise UsageError("--plain and --web are different dashboards; give one of them")


def _is_colored(cli: Session, *, is_elsewhere: bool) -> bool:
    """Return whether to draw in colours; without a terminal, the setting decides."""
    if is_elsewhere and cli.config().find("color") is None:
        return not os.environ.get("NO_COLOR")
    return cli.setting("color") != "never" if is_elsewhere else cli.use_color(sys.stderr)


@contextmanager
def _while_somebody_looks(dashboard: Dashboard) -> Iterator[None]:
    """End the dashboard if its web server disappears without notice."""
    from edgecron.tui.terminal_driver import HangUpWatch

    watch = HangUpWatch(
        sys.stdout.fileno(), gone=lambda: dashboard.deliver(lambda: dashboard.exit())
    )
    try:
        yield
    finally:
        watch.close()


def _dashboard(
    cli: Session, *, starts_engine: bool, is_colored: bool, is_elsewhere: bool
) -> Dashboard:
    _load_asyncio()  # before Textual, which would load OpenSSL with it
    hasten_keys()
    from edgecron.tui.app import Appearance, Dashboard, OwnMachine
    from edgecron.tui.keys import keys_of, labels_of
    from edgecron.tui.terminal_driver import TerminalDriver
    from edgecron.tui.themes import theme_of

    config = cli.config()
    # `config.get` is slow, and most people have not set this.
    is_quiet = config.find("dashboard.notify") is None
    alert = Alert.OFF if is_quiet else config.get("dashboard.notify")
    cli.origin = "dashboard"
    reading, writing, clock = _openers(cli)
    is_file = cli.remote_url() is None and isinstance(cli.location(), Path)
    return Dashboard(
        reading,
        clock=clock,
        zone=cli.zone(),
        appearance=Appearance(
            theme=theme_of(config, os.environ, is_colored=is_colored),
            keys=keys_of(config),
            labels=labels_of(config),
            is_colored=is_colored,
            alert=alert,
        ),
        defaults=partial(option_defaults, config),
        driver_class=None if is_elsewhere else TerminalDriver,
        writing=writing,
        machine=OwnMachine(
            cli.location(),
            cli.config_path,
            starts_engine,
            first_opened=(lambda: _open_schedules(cli)) if is_file else None,
        )
        if cli.remote_url() is None
        else None,
    )


def _load_asyncio() -> None:
    """Load asyncio as on a Python without OpenSSL: no connection of its loop uses TLS.

    OpenSSL takes 4 MB of memory. Code that talks to a server over TLS loads OpenSSL itself.
    """
    if "ssl" not in sys.modules:
        sys.modules["ssl"] = cast("ModuleType", None)
        import asyncio  # noqa: F401

        del sys.modules["ssl"]


def _open_schedules(cli: Session) -> Client:
    """Open the database for the first lines of the first list.

    The whole Client and the triggers load after the first paint: they take a tenth of its time.
    """
    from edgecron.client.schedules import FirstLines

    reader = FirstLines(cli.location(), must_exist=True, busy_wait_s=_READ_WAIT_S)
    with suppress(EdgecronError):  # The question itself reports the error.
        use_zone_of_engines(reader.known_zone())
    return cast("Client", reader)


def _openers(cli: Session) -> tuple[Callable[[], Client], Callable[[bool], Client], Clock]:
    """Return what opens the database for reading and for writing, and its clock."""
    own = SystemClock()
    url = cli.remote_url()
    if url is not None:
        from edgecron.client.remote import RemoteClient

        connector, theirs = connector_to(cli.config(), url, warn=cli.caution), ServerTime(own)

        def far() -> Client:
            return RemoteClient(connector, time=theirs)

        return far, lambda must_exist: far(), theirs
    read = cli.opener(busy_wait_s=_READ_WAIT_S, cache_kib=_CACHE_KIB)
    return lambda: read(True), cli.opener(busy_wait_s=_WRITE_WAIT_S), own


def _tell_crash(cli: Session, crash: BaseException) -> int:
    """Print what went wrong, on a restored terminal."""
    show_crash(type(crash), crash, crash.__traceback__)
    cli.say(
        f"edgecron: the dashboard stopped because of a defect in edgecron,"
        f" {type(crash).__name__}; runs continue; please report the lines above"
    )
    return 1


def serve_in_browser(cli: Session, place: str, *, starts_engine: bool) -> int:
    """Serve the dashboard to browsers, and say where.

    Raises UsageError for a place that can't be read, or that other machines reach without a token,
    and NotSupported if a package is missing.
    """
    from edgecron.tui.own_engine import engine_environment
    from edgecron.tui.web import check_served, read_address, serve, session_command, users_of

    where = read_address(place)
    token = None if cli.token_file is None else read_token(cli.token_file)
    check_served(where, has_token=token is not None)
    path = None
    if cli.remote_url() is None:
        location = cli.location()
        if isinstance(location, ServerUrl):
            # Other users can read the words of a command, and not its environment.
            os.environ["EDGECRON_DB"] = location.full
            os.environ.pop("EDGECRON_URL", None)
        else:
            path = str(location)
    command = session_command(cli.given(path), color=cli.color)
    os.environ.update(engine_environment())  # so that each page finds this same package
    with ExitStack() as closing:

        def ready() -> None:
            cli.say(f"edgecron: the dashboard is at {where.url}; Ctrl-C ends it")
            if token is not None:
                cli.say(
                    "edgecron: it asks for the token; others can read the token on the network,"
                    " unless a proxy adds TLS"
                )
            elif users_of(where) is not None:
                whom = "root" if is_root() else "you and root"
                cli.say(f"edgecron: only {whom} can open it")
            else:
                cli.say("edgecron: every user of this machine can open it and act as you")
            if starts_engine:
                _start_engine(cli, closing)

        serve(where, command, token=token, ready=ready)
    return 0


def _start_engine(cli: Session, closing: ExitStack) -> None:
    from edgecron.tui.own_engine import start_engine

    def ended(last: str | None) -> None:
        if last is not None:
            cli.say(f"edgecron: the engine of this dashboard has stopped: {last}")

    try:
        engine = start_engine(cli.location(), config_path=cli.config_path, ended=ended)
    except EdgecronError as error:
        cli.show_error(error)
        return
    closing.callback(engine.close)
    cli.say("edgecron: an engine is running and stops with the dashboard")
