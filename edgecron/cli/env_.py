"""Show and compare the environment of a job.

    edgecron env show nightly
    edgecron env show nightly --reveal   also show secret values
    edgecron env diff nightly            compare it with this shell

show lists each variable that the next scheduled run gets, and its source: the engine, the account
of the user, env_file (--env-file), env (--env) or the run. A variable without a value differs from
run to run. If no engine is running, the variables of this shell take
the place of the engine's, and a warning says so.

diff ignores the variables about the run, and compares PATH entry by entry. Values of --env and
--env-file, of the payload, and of variables that can be secret are shown as *** unless you give
--reveal: their name suggests a secret, or they are a URL with a password. PATH is always shown.

With --url this does not work: only the machine of the engine knows the engine's environment.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import suggest
from edgecron.base.errors import UsageError
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.option_texts import is_secret
from edgecron.views.json_objects import MASK

if TYPE_CHECKING:
    from edgecron.client.job_environment import JobEnvironment, Variable

USAGE = "show|diff NAME [--reveal]"
_PATH = "PATH"


def add_arguments(parser: Parser) -> None:
    parser.add("show|diff", "list the variables, or compare them", dest="action")
    parser.add("[NAME]", "a schedule")
    parser.add("--reveal", "show values that can be secret")


def run(cli: Session, args: Namespace) -> int:
    actions = {"show": _show, "diff": _diff}
    if args.action not in actions:
        meant = suggest(args.action, actions) or "show"
        raise UsageError(
            f"{args.action!r} is unknown, expected show or diff",
            hint=f"for example: edgecron env {meant} {args.name or args.action}",
        )
    if args.name is None:
        raise UsageError("missing NAME", hint=f"for example: edgecron env {args.action} nightly")
    from edgecron.client.job_environment import find_job_environment

    client = cli.local_client(must_exist=True)
    found = find_job_environment(client, client.schedule(args.name))
    actions[args.action](cli, found, reveals=args.reveal)
    if found.problem is not None:
        cli.warn(f"{found.problem}; each run fails until it can be read")
    if found.engine_pid is None:
        daemon = cli.command("daemon")
        cli.warn(
            "no engine is running, so this shell's variables replace those of an engine;"
            f" start one: {daemon}"
        )
    return 0


def _show(cli: Session, found: JobEnvironment, *, reveals: bool) -> None:
    shown = [(one.name, one.source.value, _shown(one, reveals=reveals)) for one in found.variables]
    if cli.is_json:
        cli.put_json(
            {"name": name, "source": source, "value": value} for name, source, value in shown
        )
        return
    cli.put_table(
        ("name", "source", "value"),
        [(name, source, value or "") for name, source, value in shown],
        styles=[("bold", "dim", None) for _ in shown],
        flexible=((2, 20),),
        is_data=True,
    )


def _shown(one: Variable, *, reveals: bool) -> str | None:
    """Return the value of a job's variable, masked if it can be secret."""
    from edgecron.client.job_environment import Source

    is_given = one.source in (Source.ENV_FILE, Source.SCHEDULE) or one.name == "EDGECRON_PAYLOAD"
    is_hidden = one.name != _PATH and (is_given or is_secret(one.name, one.value))
    return MASK if is_hidden and one.value is not None and not reveals else one.value


def _diff(cli: Session, found: JobEnvironment, *, reveals: bool) -> None:
    rows = sorted(_differences(found, reveals=reveals), key=lambda row: row["name"])
    if cli.is_json:
        cli.put_json(rows)
        return
    if not rows:
        cli.say("the job and this shell have the same variables")
        return
    cli.put_table(
        ("name", "difference", "job", "shell"),
        [
            (row["name"], row["difference"].replace("_", " "), row["job"] or "", row["shell"] or "")
            for row in rows
        ],
        styles=[("bold", None, "green", "yellow") for _ in rows],
        flexible=((3, 16), (2, 16)),
        is_data=True,
    )


def _differences(found: JobEnvironment, *, reveals: bool) -> Iterator[dict[str, Any]]:
    """Compare a job's variables, without those about the run, with those of this process."""
    from edgecron.client.job_environment import Source

    ours = dict(os.environ)
    for one in found.variables:
        if one.source is Source.RUN:
            ours.pop(one.name, None)
            continue
        here = ours.pop(one.name, None)
        job = _shown(one, reveals=reveals)
        if here is None:
            yield _row(one.name, job=job, shell=None)
        elif here != one.value and one.name == _PATH:
            yield from _path_differences(one.value or "", here)
        elif here != one.value:
            yield _row(one.name, job=job, shell=MASK if job == MASK else here)
    for name, here in ours.items():
        is_masked = is_secret(name, here) and not reveals
        yield _row(name, job=None, shell=MASK if is_masked else here)


def _path_differences(job: str, shell: str) -> Iterator[dict[str, Any]]:
    """Compare two values of PATH: a row for each folder that only one of them has."""
    theirs, ours = job.split(":"), shell.split(":")
    differing = [
        *(_row(_PATH, job=one, shell=None) for one in theirs if one not in ours),
        *(_row(_PATH, job=None, shell=one) for one in ours if one not in theirs),
    ]
    # The same folders in another order.
    yield from differing or [_row(_PATH, job=job, shell=shell)]


def _row(name: str, *, job: str | None, shell: str | None) -> dict[str, Any]:
    difference = "only_shell" if job is None else "only_job" if shell is None else "different"
    return {"name": name, "difference": difference, "job": job, "shell": shell}
