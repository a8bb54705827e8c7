"""Whether there is a cgroup that may be divided, and which."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.base.errors import SupervisorUnavailable
from edgecron.supervisor import StartBy, start
from edgecron.supervisor.cgroups import list_folders
from edgecron.supervisor.delegation import (
    VARIABLE,
    Mount,
    find_own_folder,
    find_place,
    is_cgroup,
    is_delegated,
    parse_mounts,
)

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

SYSTEMD = """\
24 30 0:22 / /proc rw,nosuid shared:5 - proc proc rw
29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec shared:4 - cgroup2 cgroup2 rw,nsdelegate
"""
HYBRID = """\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw
"""
PART = "50 40 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
ODD = "50 40 0:26 /a\\040b /mnt/c\\040d rw - cgroup2 none rw\n"


def test_mounts_are_found_by_their_kind_and_named_as_they_are() -> None:
    assert list(parse_mounts(HYBRID)) == [
        Mount(device="0:38", root="/", point=Path("/sys/fs/cgroup/unified"))
    ]
    assert list(parse_mounts(ODD)) == [Mount(device="0:26", root="/a b", point=Path("/mnt/c d"))]
    assert list(parse_mounts("")) == []
    assert list(parse_mounts("41 31 0:38\n41 31 0:38 / - cgroup2\n")) == []


@pytest.mark.parametrize(
    ("mountinfo", "own", "folder"),
    [
        (SYSTEMD, "0::/system.slice/x.service\n", "/sys/fs/cgroup/system.slice/x.service"),
        (HYBRID, "3:cpuset:/\n1:name=systemd:/x\n0::/\n", "/sys/fs/cgroup/unified"),
        (PART, "0::/docker/abc\n", "/sys/fs/cgroup"),
        (PART, "0::/docker/abc/inner\n", "/sys/fs/cgroup/inner"),
        (PART, "0::/docker/abcdef\n", None),  # seen by no mount of ours
        (ODD, "0::/a b/c\n", "/mnt/c d/c"),
        (SYSTEMD, "0::/../other\n", None),  # above the root of our namespace
        (SYSTEMD, "5:cpu:/x\n", None),  # version 1 alone
        ("", "0::/x\n", None),
        (SYSTEMD, "", None),
    ],
)
def test_our_own_folder_is_where_the_mount_shows_it(
    mountinfo: str, own: str, folder: str | None
) -> None:
    found = find_own_folder(list(parse_mounts(mountinfo)), own)

    assert found == (None if folder is None else Path(folder))


def test_a_folder_without_the_mark_is_left_to_the_service_manager(
    free_cgroup: Path, tmp_path: Path
) -> None:
    before = is_delegated(free_cgroup)
    os.setxattr(free_cgroup, "user.delegate", b"0")
    denied = is_delegated(free_cgroup)
    os.setxattr(free_cgroup, "user.delegate", b"1")

    assert (before, denied, is_delegated(free_cgroup)) == (False, False, True)
    assert not is_delegated(tmp_path)


def test_a_plain_folder_is_no_cgroup(tmp_path: Path) -> None:
    device = os.stat(tmp_path).st_dev
    of_it = f"{os.major(device)}:{os.minor(device)}"

    assert not is_cgroup(tmp_path, list(parse_mounts(HYBRID)))
    assert not is_cgroup(tmp_path / "missing", list(parse_mounts(HYBRID)))
    assert is_cgroup(tmp_path, [Mount(device=of_it, root="/", point=tmp_path)])


def test_nothing_is_used_that_was_neither_marked_nor_named() -> None:
    assert find_place({}) is None
    assert find_place({VARIABLE: ""}) is None


@pytest.mark.parametrize("by", list(StartBy))
@pytest.mark.parametrize("where", ["relative", "/", "/no/such/folder"])
def test_a_named_folder_that_will_not_do_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, by: StartBy
) -> None:
    monkeypatch.setenv(VARIABLE, where)

    with pytest.raises(SupervisorUnavailable, match=f"{VARIABLE} is '{where}', expected"):
        start(tmp_path / "state", clock=SystemClock(), by=by)


def test_a_named_cgroup_that_can_not_be_divided_is_refused_with_the_reason(
    delegated: Path, tmp_path: Path
) -> None:
    (delegated / "cgroup.max.descendants").write_text("0", encoding="ascii")

    with pytest.raises(
        SupervisorUnavailable, match=f"{VARIABLE} is .* no cgroup can be used there"
    ):
        start(tmp_path / "state", clock=SystemClock())

    assert os.listdir(tmp_path / "state") == []


# As a service with Delegate=yes: the process starts in a cgroup that carries the mark.
SERVICE = """
import sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text("0")
from tests.supervisor.supervisor_bench import Bench
bench = Bench(Path(sys.argv[2]))
print(bench.printed(bench.run_shell("grep 0:: /proc/self/cgroup")).decode().strip())
bench.close()
"""


@pytest.mark.parametrize(("limit", "has_own"), [("max", True), ("0", False)])
def test_a_cgroup_that_was_delegated_is_used_without_being_named(
    free_cgroup: Path, tmp_path: Path, limit: str, has_own: bool
) -> None:
    os.setxattr(free_cgroup, "user.delegate", b"1")
    (free_cgroup / "cgroup.max.descendants").write_text(limit, encoding="ascii")

    shown = subprocess.run(
        [sys.executable, "-c", SERVICE, str(free_cgroup), str(tmp_path / "state")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )

    below = shown.stdout.strip().partition(f"/{free_cgroup.name}")[2]
    assert ("/run-" in below) if has_own else below == ""
    assert list_folders(free_cgroup) == []
