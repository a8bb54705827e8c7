"""Find the account that a command runs as, and refuse an account that has expired.

The rules are those of cron (cron(8), crontab(5)), which asks PAM: an expired account and an account
with an expired password run nothing (pam_unix). A locked account and one whose shell is nologin
run their jobs: both are about logging in. edgecron reads shadow(5) itself and does not ask PAM.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

from edgecron.base.values import dataclass
from edgecron.supervisor.records import Identity

SHADOW = Path("/etc/shadow")
DAY_MS = 86_400_000
_LEAST_FIELDS = 8  # of a line of shadow(5): up to the day on which the account expires


class NotRunnable(Exception):
    """A job can't be started: this becomes the outcome of its run."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


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
