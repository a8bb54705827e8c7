"""The script that lets a shell complete verbs, options, choices, schedules and runs.

    edgecron completion bash | sudo tee /etc/bash_completion.d/edgecron
    edgecron completion zsh > "${fpath[1]}/_edgecron"
    edgecron completion fish > ~/.config/fish/completions/edgecron.fish
    eval "$(edgecron completion bash)"                 in this shell alone

A shell that is started afterwards has it. For zsh take a folder of your own that fpath names before
compinit is called. For bash a user's own place is ~/.local/share/bash-completion/completions, with
the file named edgecron. Repeat it after an upgrade.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgecron.base.errors import EdgecronError, UsageError
from edgecron.cli.grammar import Kind
from edgecron.cli.session import Session
from edgecron.store.sqlite.completion import glance_at_active_runs, glance_at_names, glance_at_runs
from edgecron.triggers.zones import zone_names

if TYPE_CHECKING:
    from pathlib import Path

USAGE = "bash|zsh|fish [--json]"
_MOST_RUNS = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", metavar="bash|zsh|fish")
    # The scripts ask by it while a word is completed.
    parser.add_argument("--words", help=argparse.SUPPRESS)


def run(cli: Session, args: argparse.Namespace) -> int:
    if args.words is not None:
        for line in _words(cli, args.words):
            cli.put(line)
        return 0
    if args.shell is None:
        raise UsageError("the shell is missing, expected bash, zsh or fish")
    from edgecron.cli.shells import SHELLS, script_for

    if args.shell not in SHELLS:
        raise UsageError(f"shell is {args.shell!r}, expected bash, zsh or fish")
    script = script_for(args.shell)
    if cli.is_json:
        cli.put_json([{"shell": args.shell, "script": script}])
    else:
        cli.put(script)
    return 0


def _words(cli: Session, kind: str) -> Iterable[str]:
    """What a word of a kind can be, some with what to say of it behind a space.

    Nothing where that can't be known at once.
    """
    if kind == Kind.ZONE:
        return sorted(zone_names())

    try:
        path = cli.database_path()
    except EdgecronError:
        return []
    return _words_of(path, kind)


def _words_of(path: Path, kind: str) -> Iterable[str]:
    if kind == Kind.NAME:
        return filter(_is_plain, glance_at_names(path))
    runs = (
        glance_at_active_runs(path)
        if kind == Kind.ACTIVE
        else glance_at_runs(path, most=_MOST_RUNS)
    )
    return [f"{number} {name} {status}" for number, name, status in runs if _is_plain(name)]


def _is_plain(name: str) -> bool:
    # A shell gets these words: a name that somebody wrote by hand must not be more than a name.
    return name.isascii() and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
