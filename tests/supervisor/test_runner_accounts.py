"""Who a command runs as: accounts, those that may run nothing, and what the machine limits."""

from __future__ import annotations

import os
import pwd
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from edgecron.supervisor.accounts import (
    DAY_MS,
    Account,
    NotRunnable,
    find_account,
    identity_of,
    judge_expiry,
    own_account,
)
from edgecron.supervisor.limitsconf import NO_LIMITS, Limits, find_limits

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
    with pytest.raises(NotRunnable, match="is not known on this machine"):
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


def limits_of(tmp_path: Path, text: str, *, name: str = "bob", uid: int = 1001) -> Limits:
    (tmp_path / "limits.conf").write_text(text)
    return find_limits(name, uid=uid, gid=1001, groups=(1001, 0), place=tmp_path)


FILES = resource.RLIMIT_NOFILE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("# bob hard nofile 9\n\nbob hard\nbob never nofile 9\nbob hard nofile many\n", ()),
        ("bob soft nofile 9", ((FILES, 9, None),)),
        ("bob - nofile 9 # both", ((FILES, 9, 9),)),
        ("bob hard nofile 9\nbob hard nofile 8", ((FILES, None, 8),)),
        ("bob hard nofile 9\n* hard nofile 8\n@root hard nofile 7", ((FILES, None, 9),)),
        ("* hard nofile 8\n@root hard nofile 7", ((FILES, None, 7),)),
        ("@root hard nofile 7\n* hard nofile 8", ((FILES, None, 7),)),
        ("@no-such-group hard nofile 7", ()),
        ("1000:2000 hard nofile 7\n:1002 hard nofile 6\n2000: hard nofile 5", ((FILES, None, 7),)),
        ("@:0 hard nofile 7\n@1:2 hard nofile 6", ((FILES, None, 7),)),
        ("al hard nofile 9\n%bob hard nofile 9", ()),
        ("bob soft core unlimited", ((resource.RLIMIT_CORE, resource.RLIM_INFINITY, None),)),
        ("bob hard as 1024", ((resource.RLIMIT_AS, None, 1024 * 1024),)),
        ("bob hard cpu 2", ((resource.RLIMIT_CPU, None, 120),)),
        ("bob hard nproc 100", ((resource.RLIMIT_NPROC, None, 100),)),
        ("bob hard maxlogins 1", ()),
        ("* hard nofile 9\nbob -", ()),
        ("bob hard nofile 9\n* -\n1:2000 -", ((FILES, None, 9),)),
    ],
)
def test_limits_are_those_of_the_machine(
    tmp_path: Path, text: str, expected: tuple[tuple[int, int | None, int | None], ...]
) -> None:
    assert limits_of(tmp_path, text).resources == expected


def test_limits_are_read_from_all_of_their_files_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "limits.d"
    folder.mkdir()
    (folder / "20.conf").write_text("bob hard nofile 20")
    (folder / "10.conf").write_text("bob hard nofile 10\nbob hard nproc 10")
    (folder / "30.txt").write_text("bob hard nofile 30")

    found = limits_of(tmp_path, "bob hard nofile 1")

    assert found.resources == ((FILES, None, 20), (resource.RLIMIT_NPROC, None, 10))


def test_what_else_limits_say_is_kept_to(tmp_path: Path) -> None:
    text = "bob - priority 10\nbob - nonewprivs 1\nbob soft nice -5\n"

    found = limits_of(tmp_path, text)

    assert (found.nice, found.no_new_privs) == (10, True)
    assert found.resources == ((resource.RLIMIT_NICE, 25, None),)


def test_groups_and_wildcards_are_not_meant_for_root(tmp_path: Path) -> None:
    text = "* hard nofile 9\n@root hard nofile 9\n0:9 hard nofile 9\nroot hard nproc 9\n"

    found = limits_of(tmp_path, text, name="root", uid=0)

    assert found.resources == ((resource.RLIMIT_NPROC, None, 9),)


def test_a_machine_without_such_files_limits_nobody(tmp_path: Path) -> None:
    found = find_limits("bob", uid=1001, gid=1001, groups=(1001,), place=tmp_path / "none")

    assert found == NO_LIMITS


def test_a_user_who_is_to_be_locked_into_a_folder_is_not_run_outside_of_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="asks for chroot"):
        limits_of(tmp_path, "bob - chroot /srv/jail")
