"""Serve tools for AI assistants, over the Model Context Protocol on stdin and stdout.

    edgecron mcp
    edgecron mcp --allow-changes
    claude mcp add edgecron -- edgecron --db /srv/edgecron.db mcp

An assistant starts this, and asks it: list, show, next, history, logs, why, status, stats, doctor
and check are the commands of that name. It can change nothing. With --allow-changes there are run,
pause, resume, reschedule, cancel, add, edit and rm, too: whoever may use them can run any command
as the user of the engine. Values of environment, payload and stdin are shown as *** unless you give
--reveal. What jobs print is bounded, cleaned and marked as the data of strangers.

Needs the SDK: pip install 'edgecron[mcp]'.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from edgecron.base.bundle import hint_for_extra
from edgecron.base.errors import NotSupported, UsageError
from edgecron.cli.session import Session

LIVES_LONG = True


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--allow-changes", action="store_true", help="offer what changes something, too"
    )
    parser.add_argument(
        "--reveal", action="store_true", help="show values of environment, payload and stdin"
    )


def run(cli: Session, args: Namespace) -> int:
    if cli.is_json:
        raise UsageError("mcp speaks its own protocol, and gives no --json")
    try:
        from edgecron.cli.mcp_server import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("edgecron"):
            raise

        raise NotSupported(
            "tools for assistants need the mcp package, which is not installed",
            hint=hint_for_extra("mcp"),
        ) from error
    if sys.stdin.isatty():
        cli.say("edgecron: an assistant starts this, and asks on stdin; Ctrl-D ends it")
    serve(cli, may_change=args.allow_changes, reveals=args.reveal)
    return 0
