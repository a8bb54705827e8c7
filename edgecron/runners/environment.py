"""What a command finds in its environment, and who it runs as. Nothing else leaks in.

In this order, a later one over an earlier one:

1. the base: PATH, TZ, LANG, LANGUAGE and LC_* of the engine; HOME, USER, LOGNAME of the user it
   runs as; SHELL, always /bin/sh as under cron. For the engine's own user also TMPDIR,
   XDG_RUNTIME_DIR and DBUS_SESSION_BUS_ADDRESS, so that a desktop's jobs reach the desktop
2. `env_file`, read when the run starts
3. the schedule's own variables
4. EDGECRON_*: what runs, and why. The supervisor adds EDGECRON_RESULT, the file where the run may
   leave a small JSON result, unless it runs as another user, to whom that folder is closed

So LD_LIBRARY_PATH of a bundled program, NOTIFY_SOCKET, INVOCATION_ID and the like stay outside.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from edgecron.hashing import sha256
from edgecron.model import Cause, Claim, Execution, Job
from edgecron.timetext import format_ms, to_ms

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = "/bin/sh"
INHERITED = ("TZ", "LANG", "LANGUAGE")
INHERITED_PREFIX = "LC_"
INHERITED_BY_OWN_USER = ("TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
MOST_ENV_FILE_BYTES = 1024 * 1024

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)


class NotRunnable(Exception):
    """A job that can't be started as it is: an outcome, never an error out of the engine."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Attempt(Protocol):
    """What a run is told of: a claim, or a row of history."""

    @property
    def execution_id(self) -> int: ...
    @property
    def schedule_id(self) -> int: ...
    @property
    def schedule(self) -> str: ...
    @property
    def plan_ms(self) -> int: ...
    @property
    def fire_key(self) -> str: ...
    @property
    def cause(self) -> Cause: ...
    @property
    def attempt(self) -> int: ...
    @property
    def scope_kind(self) -> str: ...
    @property
    def scope_id(self) -> str: ...


class _Told(NamedTuple):
    """An Attempt of a row of history."""

    execution_id: int
    schedule_id: int
    schedule: str
    plan_ms: int
    fire_key: str
    cause: Cause
    attempt: int
    scope_kind: str
    scope_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who a command runs as. `groups` are its supplementary ones; None: as the engine is."""

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple[int, ...] | None = None


def own_account(environ: Mapping[str, str]) -> Account:
    """The engine's own user, who need not be in the user database."""
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
        name, home = entry.pw_name, entry.pw_dir
    except KeyError:
        name, home = environ.get("USER", str(uid)), "/"
    return Account(name=name, uid=uid, gid=os.getegid(), home=environ.get("HOME") or home)


def find_account(user: str, *, own: Account) -> Account:
    """The account of a user name or number. Raises NotRunnable: unknown, or not permitted."""
    try:
        entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        raise NotRunnable("EINVAL", f"user '{user}' is not known on this machine") from None
    if entry.pw_uid == own.uid:
        return own
    if own.uid != 0:
        message = f"user '{user}' needs an engine that runs as root, this one runs as '{own.name}'"
        raise NotRunnable("EPERM", message)
    return Account(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        home=entry.pw_dir,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
    )


def base_environment(environ: Mapping[str, str], account: Account) -> dict[str, str]:
    """The allow-listed variables of the engine's environment, and those of the account."""
    base = {
        "PATH": environ.get("PATH") or DEFAULT_PATH,
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": SHELL,
    }
    is_own = account.groups is None
    for name, value in environ.items():
        if (
            name in INHERITED
            or name.startswith(INHERITED_PREFIX)
            or (is_own and name in INHERITED_BY_OWN_USER)
        ):
            base[name] = value
    return base


def run_environment(claim: Claim, base: Mapping[str, str], *, home: str) -> dict[str, str]:
    """All that the command of a claim finds. Raises NotRunnable where `env_file` can't be read."""
    environment = dict(base)
    if claim.job.env_file is not None:
        environment.update(read_env_file(resolve_path(claim.job.env_file, home=home)))
    environment.update(claim.job.env)
    environment.update(own_variables(claim, payload=claim.job.payload))
    return environment


def given_variables(run: Execution, job: Job) -> dict[str, str]:
    """What a run was given beside the base and `env_file`, where `job` is what it ran."""
    told = _Told(
        execution_id=run.id,
        schedule_id=run.schedule_id,
        schedule=run.schedule,
        plan_ms=to_ms(run.plan_at),
        fire_key=run.fire_key,
        cause=run.cause,
        attempt=run.attempt,
        scope_kind=run.scope_kind,
        scope_id=run.scope_id,
    )
    payload = job.payload if run.payload is None else run.payload
    return {**job.env, **own_variables(told, payload=payload)}


def own_variables(attempt: Attempt, *, payload: str | None) -> dict[str, str]:
    """What a run is told of itself: all of EDGECRON_* but what its supervisor adds."""
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
    if payload is not None:
        variables["EDGECRON_PAYLOAD"] = payload
    return variables


def idempotency_key(attempt: Attempt) -> str:
    """32 hexadecimal digits, the same for every attempt of one fire and for no other fire.

    Also where an attempt is made by another version of edgecron: how it is computed never changes.
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
    """The folder a command starts in: the one that was given, else HOME.

    Where none was given and HOME does not exist (`nobody` has none), it is `/`, as for a service
    of systemd. One that was given and is missing stays as it is, and fails at the start.
    """
    if cwd is not None:
        return resolve_path(cwd, home=home)
    return home if os.path.isdir(home) else "/"


def resolve_path(path: str, *, home: str) -> str:
    """An absolute path: `~/` and relative ones start from HOME."""
    if path == "~":
        return home
    return os.path.join(home, path.removeprefix("~/"))


def read_env_file(path: str) -> dict[str, str]:
    """The variables of a file of KEY=VALUE lines; `#` starts a comment line.

    A value may stand in single or double quotes, which are taken off; nothing in it is expanded.
    It is read with the engine's rights, so its permissions are the user's own care.
    Raises NotRunnable with the line that can't be read.
    """
    variables = {}
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _ASSIGNMENT.fullmatch(text)
        if found is None or "\0" in text:
            # The line itself may hold a secret: it is not shown.
            message = f"environment file '{path}' line {number} is not KEY=VALUE"
            raise NotRunnable("EINVAL", message)
        name, value = found.groups()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        variables[name] = value
    return variables


def _read_text(path: str) -> str:
    # Non-blocking: a FIFO without a writer must not hold the engine.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, "rb") as env_file:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode) or seen.st_size > MOST_ENV_FILE_BYTES:
                message = f"environment file '{path}' is no file of at most 1 MiB"
                raise NotRunnable("EINVAL", message)
            return env_file.read(MOST_ENV_FILE_BYTES).decode("utf-8", "surrogateescape")
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        why = "is missing" if error.errno == errno.ENOENT else f"can't be read: {error.strerror}"
        raise NotRunnable(code, f"environment file '{path}' {why}") from error
