"""Serve tools for AI assistants.

    edgecron mcp
    edgecron mcp --allow-changes
    claude mcp add edgecron -- edgecron --db /srv/edgecron.db mcp

An assistant starts this command and speaks the Model Context Protocol on stdin and stdout. Its
tools are the commands list, show, next, history, logs, why, status, stats, doctor and check. They
change nothing. --allow-changes adds run, pause, resume, reschedule, cancel, add, edit, rm and undo.
With these, the assistant can run any command as the user of the engine.

Values of environment, payload and stdin are shown as *** unless you give --reveal. edgecron limits
and cleans the output of jobs and marks it as untrusted data.

This command needs the extra `mcp`: see `edgecron help install`.
"""

from __future__ import annotations

import sys
from argparse import Namespace

from edgecron.base.bundle import hint_for_extra
from edgecron.base.errors import NotSupported
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session

LIVES_LONG = True


def add_arguments(parser: Parser) -> None:
    parser.add("--allow-changes", "also offer tools that change schedules and runs")
    parser.add("--reveal", "show values of environment, payload and stdin")


def run(cli: Session, args: Namespace) -> int:
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
