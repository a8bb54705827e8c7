"""Whose lines they are: the user column, root and others, and where a crontab lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.formats.crontab_lines import Crontab, find_spool_owner, is_system_path

Read = Callable[..., Crontab]


def test_root_keeps_the_user_of_a_system_line(read: Read) -> None:
    crontab = read("@daily www-data a\n5 0 * * *\troot\tb c\n", system=True, importer="root")

    assert crontab.problems == ()
    assert [entry.spec.job.user for entry in crontab.entries] == ["www-data", None]
    assert [entry.spec.job.argv for entry in crontab.entries] == [("a",), ("b c",)]


def test_ones_own_system_line_needs_no_user(read: Read) -> None:
    (entry,) = read("@daily alice a\n", system=True).entries

    assert entry.spec.job.user is None


def test_another_users_line_is_named_unless_root_imports_it(read: Read) -> None:
    (problem,) = read("@daily alice a\n@daily www-data b\n", system=True).problems

    assert str(problem) == "line 2: runs as 'www-data'; import it as root"


@pytest.mark.parametrize("importer", ["alice", "root"])
def test_a_user_that_does_not_exist_is_a_problem(read: Read, importer: str) -> None:
    (problem,) = read("@daily nobody-here a\n", system=True, importer=importer).problems

    assert "'nobody-here' does not exist" in problem.message


def test_a_user_crontab_read_as_a_system_one_is_told_so(read: Read) -> None:
    (problem,) = read("@daily /usr/bin/thing -x\n", system=True).problems

    assert "--system" in (problem.hint or "")


def test_a_system_crontab_that_nobody_called_one_is_refused(read: Read) -> None:
    crontab = read("A=b\n17 * * * * root cd / && x\n", system=None)

    (problem,) = crontab.problems
    assert (crontab.entries, problem.line) == ((), 2)
    assert problem.hint == "add --system, or --user-format if these are commands"


@pytest.mark.parametrize("lines", ["@daily root\n", "@daily root x\n@daily make x\n"])
def test_a_command_that_is_named_like_a_user_makes_no_system_crontab(
    read: Read, lines: str
) -> None:
    assert read(lines, system=None).problems == ()


def test_commands_are_what_they_are_called(read: Read) -> None:
    (entry,) = read("17 * * * * root x\n", system=False).entries

    assert entry.spec.job.argv == ("root x",)


@pytest.mark.parametrize(
    "line", ["@daily root", "0 5 * * * root  ", "@daily", "0 5 * * * * root a"]
)
def test_a_system_line_without_user_or_command_is_a_problem(read: Read, line: str) -> None:
    crontab = read(f"{line}\n", system=True, importer="root")

    assert [problem.line for problem in crontab.problems] == [1]


def test_root_keeps_the_owner_of_a_spooled_crontab(read: Read) -> None:
    (entry,) = read("@daily a\n", importer="root", owner="alice").entries

    assert entry.spec.job.user == "alice"


def test_another_users_spooled_crontab_is_not_imported_as_ones_own(read: Read) -> None:
    crontab = read("@daily a\n@daily b\n", owner="bob")

    assert [problem.line for problem in crontab.problems] == [1, 2]


def test_a_system_minus_is_taken_off(read: Read) -> None:
    (entry,) = read("-*/15 * * * * alice run\n", system=True).entries

    assert entry.spec.triggers == ("*/15 * * * *",)


@pytest.mark.parametrize("path", ["/etc/crontab", "/etc/cron.d/php", "/etc/../etc/cron.d/x"])
def test_files_under_etc_are_system_crontabs(path: str) -> None:
    assert is_system_path(path)


@pytest.mark.parametrize(
    "path", ["-", "crontab", "/home/a/etc/crontab", "/etcetera/x", "/etc/../x"]
)
def test_other_files_are_not(path: str) -> None:
    assert not is_system_path(path)


def test_a_link_into_etc_is_a_system_crontab(tmp_path: Path) -> None:
    link = tmp_path / "mine"
    link.symlink_to("/etc/crontab")

    assert is_system_path(link)


@pytest.mark.failure(57)
def test_a_path_that_no_file_can_have_is_no_system_path() -> None:
    assert not is_system_path("a\0b")
    assert find_spool_owner("a\0b") is None


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/var/spool/cron/crontabs/alice", "alice"),
        ("/var/spool/cron/bob", "bob"),
        ("/var/spool/cron/tabs/carol", "carol"),
        ("/var/spool/cron/crontabs", None),
        ("/home/alice/crontab", None),
    ],
)
def test_a_spooled_crontab_tells_its_owner(path: str, owner: str | None) -> None:
    assert find_spool_owner(path) == owner
