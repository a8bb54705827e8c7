"""Limits of a run: by a control group where one is ours, else by limits of its processes."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.model.choices import JobKind
from edgecron.model.job import Job, read_cpu_max, read_ionice, read_memory_max
from edgecron.supervisor.limits import GROUP_PREFIX, Limiter, Subtree, find_subtree
from edgecron.supervisor.protocol import EndCause, Flag
from edgecron.supervisor.start import Spawner
from tests.supervisor.supervisor_bench import Bench

MIB = 1 << 20
PYTHON_EATS = "import sys; b = bytearray(900 << 20); print(len(b))"


@dataclass
class FakeGroups:
    """The control groups of a machine, as plain files: this process is in the group `own`."""

    root: Path
    own: str = ""

    def __post_init__(self) -> None:
        self.write("proc/self/cgroup", f"0::/{self.own}\n")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids\n")
        self.write("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @property
    def top(self) -> Path:
        return self.root / "sys/fs/cgroup"


def test_a_root_group_that_may_be_changed_is_ours(tmp_path: Path) -> None:
    groups = FakeGroups(tmp_path)

    assert find_subtree(root=tmp_path) == Subtree(
        folder=groups.top, controllers=frozenset({"cpu", "memory"})
    )


@pytest.mark.parametrize("missing", ["proc/self/cgroup", "sys/fs/cgroup/cgroup.controllers"])
def test_a_machine_without_groups_of_version_2_has_none_for_us(
    tmp_path: Path, missing: str
) -> None:
    FakeGroups(tmp_path)
    (tmp_path / missing).unlink()

    assert find_subtree(root=tmp_path) is None


def test_a_group_that_nobody_has_delegated_is_not_ours(tmp_path: Path) -> None:
    groups = FakeGroups(tmp_path, own="user.slice/shell.scope")
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        groups.write(f"sys/fs/cgroup/user.slice/{name}", "cpu memory\n")

    assert find_subtree(root=tmp_path) is None


def test_a_limited_run_is_in_a_group_of_its_own_from_its_first_instruction(
    tmp_path: Path, bench: Bench
) -> None:
    groups = FakeGroups(tmp_path / "machine")
    request = bench.request(
        "/bin/sh", "-c", "echo $$", memory_max_bytes=64 * MIB, cpu_max_percent=150
    )
    limiter = Limiter(find_subtree(root=groups.root))

    limits = limiter.prepare(request)
    spawner = Spawner()
    spawned = spawner.spawn(request, env=request.env, limits=limits)
    select.select([spawned.stdout_fd], [], [], 20)
    printed = os.read(spawned.stdout_fd, 100)
    os.waitpid(spawned.pid, 0)
    for fd in (spawned.stdout_fd, spawned.stderr_fd):
        os.close(fd)
    assert spawned.report is not None
    assert spawned.report.fd is not None
    os.close(spawned.report.fd)
    spawner.close()

    [group] = groups.top.glob(f"{GROUP_PREFIX}*")
    assert (group / "cgroup.procs").read_text() == printed.decode().strip()
    assert (group / "memory.max").read_text() == str(64 * MIB)
    assert (group / "memory.oom.group").read_text() == "1"
    assert (group / "cpu.max").read_text() == "150000 100000"
    assert limits.flags == ()


def test_a_kill_at_the_memory_limit_is_known_and_the_group_is_removed(
    tmp_path: Path, bench: Bench
) -> None:
    groups = FakeGroups(tmp_path)
    limiter = Limiter(find_subtree(root=groups.root))
    killed, plain = (limiter.prepare(bench.request("true", memory_max_bytes=MIB)) for _ in range(2))
    first, second = sorted(groups.top.glob(f"{GROUP_PREFIX}*"))
    (first / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n")
    (second / "memory.events").write_text("low 0\noom 0\noom_kill 0\n")
    # The kernel removes a group with its files.
    for group in (first, second):
        for name in ("memory.max", "memory.oom.group"):
            (group / name).unlink()

    assert (killed.end(), plain.end()) == (True, False)


def test_a_group_that_can_t_be_made_leaves_limits_of_each_process(
    tmp_path: Path, bench: Bench
) -> None:
    groups = FakeGroups(tmp_path)
    limiter = Limiter(find_subtree(root=groups.root))
    request = bench.request("true", memory_max_bytes=MIB, cpu_max_percent=50)
    groups.write(f"sys/fs/cgroup/{GROUP_PREFIX}{request.token}", "in the way")

    limits = limiter.prepare(request)

    assert limits.flags == (Flag.MEMORY_PER_PROCESS, Flag.CPU_UNLIMITED)


def test_only_controllers_that_work_are_used(tmp_path: Path, bench: Bench) -> None:
    groups = FakeGroups(tmp_path)
    groups.write("sys/fs/cgroup/cgroup.controllers", "memory pids\n")
    limiter = Limiter(find_subtree(root=groups.root))

    limits = limiter.prepare(bench.request("true", memory_max_bytes=MIB, cpu_max_percent=50))

    assert limits.flags == (Flag.CPU_UNLIMITED,)


@pytest.mark.skipif(find_subtree() is not None, reason="control groups are ours here")
def test_without_groups_each_process_has_the_memory_limit_and_a_flag_says_so(
    bench: Bench,
) -> None:
    limited = bench.run_shell("ulimit -v", memory_max_bytes=512 * MIB, cpu_max_percent=50)
    eats = bench.run("/usr/bin/env", "python3", "-c", PYTHON_EATS, memory_max_bytes=400 * MIB)
    plain = bench.run_shell("ulimit -v")

    assert bench.printed(limited) == b"524288\n"
    assert set(limited.flags) == {Flag.MEMORY_PER_PROCESS, Flag.CPU_UNLIMITED}
    assert (eats.cause, eats.exit_code) == (EndCause.EXIT, 1)
    assert plain.flags == ()
    assert bench.printed(plain) != b"524288\n"


def test_a_limited_command_that_is_missing_is_told_as_any_other(bench: Bench) -> None:
    limited = bench.run("no-such-command", memory_max_bytes=64 * MIB)
    plain = bench.run("no-such-command")

    assert (limited.cause, limited.error_msg) == (EndCause.SPAWN, plain.error_msg)


def test_a_disk_priority_is_set_or_the_start_fails_with_the_reason(bench: Bench) -> None:
    record = bench.run_shell("echo started", ionice=(3, 0))

    if record.cause is EndCause.SPAWN:  # as in a sandbox that lacks the call
        assert "can't be started within its limits" in (record.error_msg or "")
    else:
        assert bench.printed(record) == b"started\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [("idle", (3, 0)), ("best-effort", (2, 4)), ("best-effort:0", (2, 0))],
)
def test_a_disk_priority_is_read(text: str, found: tuple[int, int]) -> None:
    assert read_ionice(text) == found


@pytest.mark.parametrize(("text", "percent"), [("50%", 50), ("2", 200), ("1.5", 150), ("1%", 1)])
def test_a_share_of_processors_is_read(text: str, percent: int) -> None:
    assert read_cpu_max(text) == percent


@pytest.mark.parametrize(
    "field",
    [
        {"ionice": "realtime"}, {"ionice": "best-effort:8"}, {"memory_max": "10KiB"},
        {"memory_max": "much"}, {"cpu_max": "0%"}, {"cpu_max": "half"}, {"cpu_max": "2000"},
    ],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(field: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(field))} is"):
        Job(kind=JobKind.COMMAND, argv=("true",), **field)  # type: ignore[arg-type]


def test_memory_is_read_as_other_sizes_are() -> None:
    assert read_memory_max("512MiB") == 512 * MIB


def test_a_function_has_no_limits_of_its_own() -> None:
    with pytest.raises(InvalidInput, match="functions run within the limits of their program"):
        Job(kind=JobKind.CALLABLE, argv=("report",), memory_max="1GB")
