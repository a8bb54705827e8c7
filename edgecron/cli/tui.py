"""The dashboard: what will happen and what happened, live.

    edgecron tui
    edgecron --db /var/lib/app/app.db tui

Its keys are named at the bottom, and ? explains all of them. It reads the database itself, so it
works with no engine alive. Leaving it leaves engines and runs alone. Colours are those of
`dashboard.theme` in the configuration, keys those of [dashboard.keys]: see `config show dashboard`.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from edgecron.cli.options import UsageError
from edgecron.cli.session import Session

LIVES_LONG = True
USAGE = ""


def add_arguments(parser: ArgumentParser) -> None:
    """No options but the global ones."""


def run(cli: Session, args: Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the dashboard needs a terminal", hint=f"see instead: {cli.command('status')}"
        )
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        raise UsageError(
            "the dashboard needs a terminal that can move its cursor, and TERM says that this one"
            " can't",
            hint=f"see instead: {cli.command('status')}",
        )
    from edgecron.api import Scheduler
    from edgecron.clock import SystemClock
    from edgecron.tui.app import Dashboard

    path = cli.database_path()
    cli.close()
    dashboard = Dashboard(
        lambda: Scheduler(path, must_exist=True), clock=SystemClock(), zone=cli.zone()
    )
    dashboard.run()
    return dashboard.return_code or 0
