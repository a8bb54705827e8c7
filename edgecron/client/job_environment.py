"""The environment that scheduled runs get, and programs that only the user's shell finds."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING

from edgecron.base.errors import EdgecronError, NotSupported
from edgecron.base.paths import ServerUrl
from edgecron.base.units import to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.client.sentences import find_living
from edgecron.model.choices import COMMAND_QUEUE, GLOBAL_SCOPE, JobKind, Reason, Status
from edgecron.model.engine import EACH
from edgecron.model.job import Job
from edgecron.supervisor.environment import (
    OF_ACCOUNT,
    OF_EACH_RUN,
    OF_FOLLOW_UP,
    NotRunnable,
    base_environment,
    find_account,
    own_account,
    read_env_file,
    resolve_path,
)

if TYPE_CHECKING:
    from edgecron.client.local import Client
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule

NOT_FOUND_CODE = 127  # of a shell that does not find a program
_MOST_TEXT = 64 * 1024  # of the end of an output, in which a shell says what it did not find
# What dash, bash, busybox, zsh and env print.
_NOT_FOUND = re.compile(
    r"(?:^|[:\s])([\w.+-]+): (?:command )?not found$"
    r"|command not found: ([\w.+-]+)$"
    r"|^env: \W?([\w.+-]+?)\W?: No such file",
    re.MULTILINE,
)
_FIRST_WORD = re.compile(r"\s*([A-Za-z0-9_][\w.+-]*)(?:\s|$)", re.ASCII)


class Source(StrEnum):
    """Where a variable of a job comes from."""

    ENGINE = "engine"
    ACCOUNT = "account"
    ENV_FILE = "env_file"
    SCHEDULE = "env"
    RUN = "run"


class Variable(NamedTuple):
    """A variable of a job. `value` is None if each run has another one."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnvironment:
    """The environment of the next scheduled run, in the order of names.

    `engine_pid` is the engine whose variables these are; None: no engine is running, and those of
    this process stand for them. `problem` says why the file of variables can't be read.
    """

    variables: tuple[Variable, ...]
    engine_pid: int | None
    problem: str | None = None


class PathGap(NamedTuple):
    """A program that the user's PATH has, and the job's PATH does not.

    `path` is the job's PATH with the folder of the program added.
    """

    program: str
    found: str
    path: str

    @property
    def words(self) -> str:
        return f"{self.program!r} is {self.found} on your PATH, but it is not on the job's PATH"

    def fix(self, name: str) -> str:
        """Return the command that adds the folder to the job's PATH."""
        return f"edit {name} --env PATH={quote(self.path)}"


def find_job_environment(client: Client, schedule: Schedule) -> JobEnvironment:
    """Return the environment that the next scheduled run of a schedule gets.

    Raises NotSupported if it can't be known: for a function, for a user that can't run jobs, or if
    the engine's variables can't be read.
    """
    spec = schedule.spec
    if spec.job.kind is JobKind.CALLABLE:
        raise NotSupported(
            f"{schedule.name} is a function, which has the environment of its program",
            hint="look at os.environ in that program",
        )
    pid, environ = _engine_environ(client, schedule)
    variables, problem = _job_variables(client, spec.job, environ)
    payload = {} if spec.job.payload is None else {"EDGECRON_PAYLOAD": spec.job.payload}
    # With several scopes, each run has another one. With `on = each`, no run has the global scope.
    is_known = len(spec.scopes) == 1 and not (
        spec.policies.on == EACH and spec.scopes == (GLOBAL_SCOPE,)
    )
    kind, scope_id = spec.scopes[0] if is_known else (None, None)
    known = {
        "EDGECRON_SCHEDULE": schedule.name,
        "EDGECRON_SCOPE_KIND": kind,
        "EDGECRON_SCOPE_ID": scope_id,
        **payload,
    }
    is_follow_up = any(text.startswith("after ") for text in spec.triggers)
    for name in (*known, *OF_EACH_RUN, *(OF_FOLLOW_UP if is_follow_up else ())):
        variables[name] = Variable(name, known.get(name), Source.RUN)
    ordered = tuple(variables[name] for name in sorted(variables))
    return JobEnvironment(variables=ordered, engine_pid=pid, problem=problem)


def _engine_environ(client: Client, schedule: Schedule | None) -> tuple[int | None, dict[str, str]]:
    """Return the variables of the engine that takes a schedule (None: commands), and its pid."""
    living = find_living(client, schedule)
    if not living:
        return None, dict(os.environ)
    pid = living[0].info.pid
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        raise NotSupported(
            f"the environment of the engine (pid {pid}) can't be read: {error.strerror}",
            hint="only its own user and root can read it, and only on Linux",
        ) from error
    pairs = (item.partition("=") for item in os.fsdecode(content).split("\0") if "=" in item)
    return pid, {name: value for name, _, value in pairs}


def _job_variables(
    client: Client, job: Job, environ: Mapping[str, str]
) -> tuple[dict[str, Variable], str | None]:
    """Return all variables of a job but EDGECRON_*, and why its file can't be read."""
    # An engine runs as the owner of its database file; with a server, probably as this user.
    path = client.location
    uid = os.geteuid() if isinstance(path, ServerUrl) else path.stat().st_uid
    account = own_account(environ, uid=uid)
    if job.user is not None:
        try:
            account = find_account(job.user, own=account, now_ms=to_ms(client.now()))
        except NotRunnable as why:
            raise NotSupported(f"the job can't run: {why.message}") from None
    base = base_environment(environ, account)
    found = {
        name: Variable(name, value, Source.ACCOUNT if name in OF_ACCOUNT else Source.ENGINE)
        for name, value in base.items()
    }
    problem = None
    if job.env_file is not None:
        try:
            lines = read_env_file(resolve_path(job.env_file, home=account.home))
            found |= {name: Variable(name, value, Source.ENV_FILE) for name, value in lines.items()}
        except NotRunnable as refused:
            problem = refused.message
    found |= {name: Variable(name, value, Source.SCHEDULE) for name, value in job.env.items()}
    return found, problem


def _job_path(client: Client, job: Job) -> str | None:
    """Return the PATH of a job; None if no engine is running, or it can't be known."""
    if "PATH" in job.env:
        return job.env["PATH"]
    try:
        pid, environ = _engine_environ(client, None)
        variables, _ = _job_variables(client, job, environ)
    except EdgecronError:
        return None
    return None if pid is None else variables["PATH"].value


def find_gap(client: Client, job: Job, program: str) -> PathGap | None:
    """Find a program that this shell's PATH has and the job's does not; None otherwise."""
    path = _job_path(client, job)
    found = which(program)
    if path is None or found is None or which(program, path=path) is not None:
        return None
    found = os.path.abspath(found)
    return PathGap(program, found, f"{path}:{os.path.dirname(found)}")


def find_gap_ahead(client: Client, job: Job) -> PathGap | None:
    """Find the program of a job, or the first word of its shell line, as `find_gap` does."""
    if job.kind is JobKind.SHELL:
        word = _FIRST_WORD.match(job.argv[0])
        return None if word is None else find_gap(client, job, word[1])
    is_name = job.kind is JobKind.COMMAND and "/" not in job.argv[0]
    return find_gap(client, job, job.argv[0]) if is_name else None


def find_gap_of_run(client: Client, run: Execution) -> PathGap | None:
    """Find the program that a failed run did not find, as `find_gap` does.

    The job is that of today, so that a mended schedule has no gap.
    """
    if run.status is not Status.FAILED:
        return None
    is_spawn = run.reason is Reason.SPAWN and run.error_code == "ENOENT"
    is_shell = run.reason is Reason.EXIT and run.exit_code == NOT_FOUND_CODE
    if not is_spawn and not is_shell:
        return None
    try:
        spec = client.schedule(run.schedule).spec
    except EdgecronError:  # It was removed, or can't be read.
        return None
    if spec.queue != COMMAND_QUEUE:
        return None
    if is_spawn:
        return find_gap_ahead(client, spec.job)
    output = client.output(run.id)
    text = b"" if output is None else b"".join(chunk.content for chunk in output.chunks)
    matches = list(_NOT_FOUND.finditer(text[-_MOST_TEXT:].decode("utf-8", "replace")))
    if not matches:
        return None
    return find_gap(client, spec.job, next(one for one in matches[-1].groups() if one))
