"""The user and the environment of a command.

The environment has only what is listed here. A later source overrides an earlier one:

1. the base: PATH, TZ, LANG, LANGUAGE and LC_* of the engine; HOME, USER and LOGNAME of the user;
   SHELL, always /bin/sh as under cron. The engine's own user also gets TMPDIR, XDG_RUNTIME_DIR and
   DBUS_SESSION_BUS_ADDRESS, so that jobs reach the desktop. Another user gets PATH without folders
   in the engine's home
2. `env_file`, read when the run starts; for another user with that user's rights, unless only root
   can have written it
3. the schedule's own variables
4. EDGECRON_*: about the run. The supervisor adds EDGECRON_RESULT, the name of the result file

So LD_LIBRARY_PATH of a bundled program, NOTIFY_SOCKET and INVOCATION_ID stay outside.

An account that has expired runs nothing. The rules are those of cron (cron(8), crontab(5)), which
asks PAM: an expired account and an account with an expired password run nothing (pam_unix). A
locked account and one whose shell is nologin run their jobs: both are about logging in. edgecron
reads shadow(5) itself and does not ask PAM.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

from edgecron.base.units import DAY_MS, format_ms, to_ms
from edgecron.base.values import NamedTuple, dataclass, sha256
from edgecron.model.choices import Cause
from edgecron.model.job import Job
from edgecron.model.run import Claim, Execution, Upstream
from edgecron.supervisor.protocol import Identity

MOST_BYTES = 1024 * 1024

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)


class NotRunnable(Exception):
    """A job can't be started: this becomes the outcome of its run."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_env_file(path: str) -> dict[str, str]:
    """Read the variables of a file, with the rights of this process. `#` starts a comment line.

    Single or double quotes around a value are removed. Raises NotRunnable with the number of a
    line that is not KEY=VALUE.
    """
    variables = {}
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _ASSIGNMENT.fullmatch(text)
        if found is None or "\0" in text:
            # Do not show the line: it can hold a secret.
            message = f"environment file '{path}' line {number} is not KEY=VALUE"
            raise NotRunnable("EINVAL", message)
        name, value = found.groups()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        variables[name] = value
    return variables


def _read_text(path: str) -> str:
    try:
        # Use an opener: `open` of a descriptor leaves it open if it is a folder.
        with open(path, "rb", opener=_open_at_once) as env_file:
            seen = os.fstat(env_file.fileno())
            if not stat.S_ISREG(seen.st_mode) or seen.st_size > MOST_BYTES:
                message = f"environment file '{path}' is not a file of at most 1 MiB"
                raise NotRunnable("EINVAL", message)
            return env_file.read(MOST_BYTES).decode("utf-8", "surrogateescape")
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        why = "is missing" if error.errno == errno.ENOENT else f"can't be read: {error.strerror}"
        raise NotRunnable(code, f"environment file '{path}' {why}") from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a file, without waiting for the writer of a FIFO."""
    try:
        return os.open(path, flags | os.O_NONBLOCK)
    except BlockingIOError:
        # Another program, such as a file server, has a lease on it, which only a regular file can
        # have. The kernel asks that program to give it back, and waits for this.
        return os.open(path, flags)


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
SHADOW = Path("/etc/shadow")
_LEAST_FIELDS = 8  # of a line of shadow(5): up to the day on which the account expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user of this machine. `groups` are the supplementary ones; None: the engine's own user."""

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple[int, ...] | None = None

    @property
    def is_own(self) -> bool:
        """Whether this is the engine's own user."""
        return self.groups is None


def own_account(environ: Mapping[str, str], *, uid: int | None = None) -> Account:
    """Return the engine's own user, who can be missing in the user database.

    `environ` is the engine's environment, `uid` its user; None: this process is the engine.
    """
    uid = os.geteuid() if uid is None else uid
    try:
        entry = pwd.getpwuid(uid)
        name, home = entry.pw_name, entry.pw_dir
    except KeyError:
        name, home = environ.get("USER", str(uid)), "/"
    return Account(name=name, uid=uid, gid=os.getegid(), home=environ.get("HOME") or home)


def find_account(user: str, *, own: Account, now_ms: int, shadow: Path = SHADOW) -> Account:
    """Find the account of a user's name.

    Never by number: a number still works after the account is gone. Raises NotRunnable if the user
    is unknown, the engine is not root, or the account has expired.
    """
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise NotRunnable("EINVAL", f"user '{user}' is unknown on this machine") from None
    if entry.pw_uid == own.uid:
        return own
    if own.uid != 0:
        message = f"user '{user}' needs an engine that runs as root, this one runs as '{own.name}'"
        raise NotRunnable("EPERM", message)
    refusal = _find_expiry(entry.pw_name, shadow, today=now_ms // DAY_MS)
    if refusal is not None:
        raise NotRunnable("EACCES", f"user '{user}' may run nothing: {refusal}")
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        home=entry.pw_dir,
        groups=groups,
    )


def identity_of(account: Account) -> Identity | None:
    """Return the identity that the command gets; None for the engine's own user."""
    if account.groups is None:
        return None
    return Identity(
        name=account.name,
        uid=account.uid,
        gid=account.gid,
        groups=account.groups,
    )


def judge_expiry(fields: list[str], *, today: int) -> str | None:
    """Return why an account can't run commands, by its line of shadow(5); None if it can.

    `today` is in days since 1970; 0 means that the clock was never set, and refuses no account. The
    rules are those of pam_unix, which cron follows too.
    """
    changed, most, spare, expires = (_number(fields[at]) for at in (2, 4, 6, 7))
    if today <= 0:
        return None
    if expires is not None and today >= expires:
        return f"the account expired on {_day(expires)}"
    if changed == 0:
        return "its password must be changed first"
    if changed is None or most is None or today < changed:
        return None
    if spare is not None and today - changed >= most + spare:
        return f"its password expired on {_day(changed + most)}, and was not changed in time"
    if today - changed >= most:
        return f"its password expired on {_day(changed + most)}"
    return None


def _find_expiry(name: str, shadow: Path, *, today: int) -> str | None:
    try:
        content = shadow.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None  # macOS has no such file
    for line in content.splitlines():
        fields = line.split(":")
        if fields[0] == name and len(fields) >= _LEAST_FIELDS:
            return judge_expiry(fields, today=today)
    return None  # for example an account of a directory server


def _number(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if number >= 0 else None


def _day(number: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
    except OverflowError:
        return f"day {number}"


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
        environment.update(read_env_file(resolve_path(claim.job.env_file, home=home)))
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
