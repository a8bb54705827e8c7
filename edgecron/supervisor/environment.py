"""The environment of a command: only what is listed here.

A later source overrides an earlier one:

1. the base: PATH, TZ, LANG, LANGUAGE and LC_* of the engine; HOME, USER and LOGNAME of the user;
   SHELL, always /bin/sh as under cron. The engine's own user also gets TMPDIR, XDG_RUNTIME_DIR and
   DBUS_SESSION_BUS_ADDRESS, so that jobs reach the desktop. Another user gets PATH without folders
   in the engine's home
2. `env_file`, read when the run starts; for another user with that user's rights, unless only root
   can have written it
3. the schedule's own variables
4. EDGECRON_*: about the run. The supervisor adds EDGECRON_RESULT, the name of the result file

So LD_LIBRARY_PATH of a bundled program, NOTIFY_SOCKET and INVOCATION_ID stay outside.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256

from edgecron.base.units import format_ms, to_ms
from edgecron.base.values import NamedTuple
from edgecron.model.choices import Cause
from edgecron.model.claim import Claim, Upstream
from edgecron.model.job import Job
from edgecron.model.run import Execution
from edgecron.supervisor.accounts import Account, NotRunnable
from edgecron.supervisor.env_file import EnvFileRefused, read_env_file

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = "/bin/sh"
INHERITED = ("TZ", "LANG", "LANGUAGE")
INHERITED_PREFIX = "LC_"
_MOST_ERROR_LETTERS = 4096
INHERITED_BY_OWN_USER = ("TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
OF_ACCOUNT = ("HOME", "USER", "LOGNAME", "SHELL")
# Variables about a run that differ from run to run.
OF_EACH_RUN = (
    "EDGECRON_RUN_ID", "EDGECRON_PLAN_AT", "EDGECRON_ATTEMPT", "EDGECRON_CAUSE",
    "EDGECRON_IDEMPOTENCY_KEY", "EDGECRON_FENCE", "EDGECRON_RESULT",
)  # fmt: skip
OF_FOLLOW_UP = (
    "EDGECRON_UPSTREAM_NAME", "EDGECRON_UPSTREAM_RUN_ID", "EDGECRON_UPSTREAM_STATUS",
    "EDGECRON_UPSTREAM_REASON", "EDGECRON_UPSTREAM_EXIT_CODE", "EDGECRON_UPSTREAM_ERROR",
)  # fmt: skip


class PastRun(NamedTuple):
    """A run of history, with the fields of a claim that its environment needs."""

    execution_id: int
    schedule_id: int
    schedule: str
    plan_ms: int
    fire_key: str
    cause: Cause
    attempt: int
    scope_kind: str
    scope_id: str
    fence: int
    upstream: Upstream | None


Attempt = Claim | PastRun


def base_environment(environ: Mapping[str, str], account: Account) -> dict[str, str]:
    """Return the base: the listed variables of the engine, and those of the account."""
    base = {
        "PATH": _path(environ, account),
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": SHELL,
    }
    for name, value in environ.items():
        if (
            name in INHERITED
            or name.startswith(INHERITED_PREFIX)
            or (account.is_own and name in INHERITED_BY_OWN_USER)
        ):
            base[name] = value
    return base


def _path(environ: Mapping[str, str], account: Account) -> str:
    """Return the engine's PATH; for another user without folders in the engine's home."""
    folders = environ.get("PATH", "").split(":")
    home = environ.get("HOME", "").rstrip("/")
    if not account.is_own and home:
        folders = [folder for folder in folders if not f"{folder}/".startswith(f"{home}/")]
    return ":".join(folders) or DEFAULT_PATH


def run_environment(claim: Claim, base: Mapping[str, str], *, home: str) -> dict[str, str]:
    """Return the environment of a claim's command. Raises NotRunnable if `env_file` fails."""
    environment = dict(base)
    if claim.job.env_file is not None:
        try:
            environment.update(read_env_file(resolve_path(claim.job.env_file, home=home)))
        except EnvFileRefused as refused:
            raise NotRunnable(refused.code, refused.message) from None
    environment.update(claim.job.env)
    environment.update(own_variables(claim, payload=claim.job.payload))
    return environment


def given_variables(run: Execution, job: Job) -> dict[str, str]:
    """Return the variables that a past run of `job` had in addition to the base and `env_file`."""
    past = PastRun(
        execution_id=run.id,
        schedule_id=run.schedule_id,
        schedule=run.schedule,
        plan_ms=to_ms(run.plan_at),
        fire_key=run.fire_key,
        cause=run.cause,
        attempt=run.attempt,
        scope_kind=run.scope_kind,
        scope_id=run.scope_id,
        fence=run.fence or 0,
        upstream=None,
    )
    payload = job.payload if run.payload is None else run.payload
    return {**job.env, **own_variables(past, payload=payload)}


def own_variables(attempt: Attempt, *, payload: str | None) -> dict[str, str]:
    """Return the EDGECRON_* variables of a run, without EDGECRON_RESULT.

    A command of a condition is no run, and only learns the name of its schedule.
    """
    if attempt.execution_id < 0:
        return {"EDGECRON_SCHEDULE": attempt.schedule}
    variables = {
        "EDGECRON_SCHEDULE": attempt.schedule,
        "EDGECRON_RUN_ID": str(attempt.execution_id),
        "EDGECRON_PLAN_AT": format_ms(attempt.plan_ms) or "",
        "EDGECRON_ATTEMPT": str(attempt.attempt),
        "EDGECRON_CAUSE": attempt.cause.value,
        "EDGECRON_SCOPE_KIND": attempt.scope_kind,
        "EDGECRON_SCOPE_ID": attempt.scope_id,
        "EDGECRON_IDEMPOTENCY_KEY": idempotency_key(attempt),
    }
    if attempt.fence:  # a run that was never claimed has none
        variables["EDGECRON_FENCE"] = str(attempt.fence)
    if attempt.upstream is not None:
        variables.update(_upstream_variables(attempt.upstream))
    if payload is not None:
        variables["EDGECRON_PAYLOAD"] = payload
    return variables


def _upstream_variables(upstream: Upstream) -> dict[str, str]:
    """Return what a follow-up learns of the run before it; unknown values are empty."""
    error = (upstream.error or "").replace("\0", "")[:_MOST_ERROR_LETTERS]
    return {
        "EDGECRON_UPSTREAM_NAME": upstream.name,
        "EDGECRON_UPSTREAM_RUN_ID": str(upstream.run),
        "EDGECRON_UPSTREAM_STATUS": upstream.status,
        "EDGECRON_UPSTREAM_REASON": upstream.reason or "",
        "EDGECRON_UPSTREAM_EXIT_CODE": (
            "" if upstream.exit_code is None else str(upstream.exit_code)
        ),
        "EDGECRON_UPSTREAM_ERROR": error,
    }


def upstream_of(variables: Mapping[str, str]) -> Upstream | None:
    """Return the run before a follow-up, from its variables; None if it has none."""
    if "EDGECRON_UPSTREAM_NAME" not in variables:
        return None
    exit_code = variables["EDGECRON_UPSTREAM_EXIT_CODE"]
    return Upstream(
        name=variables["EDGECRON_UPSTREAM_NAME"],
        run=int(variables["EDGECRON_UPSTREAM_RUN_ID"]),
        status=variables["EDGECRON_UPSTREAM_STATUS"],
        reason=variables["EDGECRON_UPSTREAM_REASON"] or None,
        exit_code=int(exit_code) if exit_code else None,
        error=variables["EDGECRON_UPSTREAM_ERROR"] or None,
    )


def without_run(variables: Mapping[str, str]) -> dict[str, str]:
    """Remove variables that only some runs have.

    A program that is itself a job of edgecron has them, and its own runs must not.
    """
    own = ("EDGECRON_FENCE", "EDGECRON_PAYLOAD")
    return {
        name: value
        for name, value in variables.items()
        if name not in own and not name.startswith("EDGECRON_UPSTREAM_")
    }


def idempotency_key(attempt: Attempt) -> str:
    """Return 32 hexadecimal digits: the same for every attempt of one fire, and only for this fire.

    Never change how it is computed: another version of edgecron can make the next attempt.
    """
    identity = (
        attempt.schedule_id,
        attempt.schedule,
        attempt.scope_kind,
        attempt.scope_id,
        attempt.plan_ms,
        attempt.fire_key,
    )
    return sha256(repr(identity).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def working_folder(cwd: str | None, *, home: str) -> str:
    """Return the folder that a command starts in: the given one, else HOME.

    If none is given and HOME does not exist, as for the user `nobody`, it is `/`, as for a service
    of systemd. A given folder that is missing fails at the start.
    """
    if cwd is not None:
        return resolve_path(cwd, home=home)
    return home if os.path.isdir(home) else "/"


def resolve_path(path: str, *, home: str) -> str:
    """Return an absolute path: `~/` and relative paths start from HOME."""
    if path == "~":
        return home
    return os.path.join(home, path.removeprefix("~/"))
