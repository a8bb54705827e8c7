"""Who a command runs as: accounts, and those that may run nothing."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest

from edgecron.base.units import DAY_MS
from edgecron.supervisor.environment import (
    Account,
    NotRunnable,
    find_account,
    identity_of,
    judge_expiry,
    own_account,
)

OWN = Account(name="ann", uid=1000, gid=1000, home="/home/ann")
ROOT = replace(OWN, name="root", uid=0, gid=0, home="/root")
TODAY = 20_000
NOW_MS = TODAY * DAY_MS + 12_345


def test_our_own_user_is_no_other_user() -> None:
    own = own_account({"HOME": "/elsewhere"})
    name = pwd.getpwuid(os.geteuid()).pw_name

    assert own.home == "/elsewhere"
    assert find_account(name, own=own, now_ms=NOW_MS) is own
    assert identity_of(own) is None


def test_another_user_needs_root() -> None:
    with pytest.raises(NotRunnable, match="needs an engine that runs as root") as caught:
        find_account("nobody", own=OWN, now_ms=NOW_MS)

    assert caught.value.code == "EPERM"


def test_another_user_has_its_own_groups(tmp_path: Path) -> None:
    found = find_account("nobody", own=ROOT, now_ms=NOW_MS, shadow=tmp_path / "none")
    entry = pwd.getpwnam("nobody")
    who = identity_of(found)

    assert (found.uid, found.gid, found.home) == (entry.pw_uid, entry.pw_gid, entry.pw_dir)
    assert found.groups == tuple(os.getgrouplist("nobody", entry.pw_gid))
    assert who is not None
    assert (who.name, who.uid, who.gid, who.groups) == (
        "nobody",
        found.uid,
        found.gid,
        found.groups,
    )


@pytest.mark.parametrize(
    "user", ["no-such-user", "4000000000", "9" * 30, "0", str(os.geteuid()), "٣", "", "a\0b"]
)
def test_a_user_is_known_by_its_name_alone(user: str) -> None:
    with pytest.raises(NotRunnable, match="is unknown on this machine"):
        find_account(user, own=ROOT, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("line", "today", "words"),
    [
        ("bob:*:19000:0:99999:7:::", TODAY, None),
        ("bob:!:19000:0:99999:7:::", TODAY, None),  # locked: no login, but cron runs it
        ("bob:*:::::::", TODAY, None),
        ("bob:*:19000:0:99999:7::20001:", TODAY, None),
        ("bob:*:19000:0:99999:7::20000:", TODAY, "the account expired on 2024-10-04"),
        ("bob:*:19000:0:99999:7::1:", TODAY, "the account expired on 1970-01-02"),
        ("bob:*:19000:0:99999:7::0:", TODAY, "the account expired on 1970-01-01"),
        ("bob:*:19000:0:99999:7::1:", 0, None),  # the clock was never set
        ("bob:x:0:0:99999:7:::", TODAY, "its password must be changed first"),
        ("bob:x:19910:0:90:7:::", TODAY, "its password expired on 2024-10-04"),
        ("bob:x:19911:0:90:7:::", TODAY, None),
        ("bob:x:19900:0:90:7:30::", TODAY, "its password expired on 2024-09-24"),
        (
            "bob:x:19800:0:90:7:30::",
            TODAY,
            "its password expired on 2024-06-16, and was not changed in time",
        ),
        ("bob:x:20001:0:1:7:::", TODAY, None),  # changed tomorrow: a clock was wrong
        ("bob:*:19000:0:99999:7::99999999999:", TODAY, None),
        ("bob:*:x:y:z:7:-1:-1:", TODAY, None),
    ],
)
def test_an_account_that_has_expired_runs_nothing(line: str, today: int, words: str | None) -> None:
    assert judge_expiry(line.split(":"), today=today) == words


def test_an_expired_account_is_refused_with_the_reason(tmp_path: Path) -> None:
    shadow = tmp_path / "shadow"
    shadow.write_text("root:*:1:0:99999:7:::\nnobody:*:1:0:99999:7::19000:\nodd line\n")

    with pytest.raises(NotRunnable) as caught:
        find_account("nobody", own=ROOT, now_ms=NOW_MS, shadow=shadow)

    assert caught.value.code == "EACCES"
    assert caught.value.message == (
        "user 'nobody' may run nothing: the account expired on 2022-01-08"
    )
