"""What a command finds in its environment, and who it runs as."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgecron.model.choices import Cause, JobKind
from edgecron.model.job import Job
from edgecron.model.run import Claim
from edgecron.supervisor.environment import (
    DEFAULT_PATH,
    Account,
    NotRunnable,
    base_environment,
    idempotency_key,
    read_env_file,
    resolve_path,
    run_environment,
    working_folder,
)

OWN = Account(name="ann", uid=1000, gid=1000, home="/home/ann")
OTHER = Account(name="bob", uid=1001, gid=1001, home="/home/bob", groups=(1001, 27))


def claim(**changes: object) -> Claim:
    values: dict[str, object] = {
        "execution_id": 41,
        "lease_token": "token",
        "schedule_id": 7,
        "schedule": "backup",
        "job": Job(kind=JobKind.COMMAND, argv=("/bin/true",)),
        "plan_ms": 1_795_161_600_000,
        "due_ms": 1_795_161_600_000,
        "fire_key": "",
        "cause": Cause.RETRY,
        "attempt": 2,
        "max_attempts": 3,
        "scope_kind": "device",
        "scope_id": "d 1",
    }
    return Claim(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.failure(64)
def test_only_what_is_listed_is_inherited() -> None:
    environ = {
        "PATH": "/opt/bin:/bin",
        "HOME": "/somewhere",
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "TZ": "Europe/Berlin",
        "TMPDIR": "/private",
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "DBUS_SESSION_BUS_ADDRESS": "unix:",
        "LD_LIBRARY_PATH": "/bundle",
        "LD_PRELOAD": "x",
        "NOTIFY_SOCKET": "/run/systemd/notify",
        "INVOCATION_ID": "x",
        "JOURNAL_STREAM": "x",
        "PYTHONPATH": "x",
        "SECRET": "x",
        "SHELL": "/bin/zsh",
    }

    own = base_environment(environ, OWN)
    other = base_environment(environ, OTHER)

    shared = {
        "PATH": "/opt/bin:/bin",
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "TZ": "Europe/Berlin",
        "SHELL": "/bin/sh",
    }
    assert own == shared | {
        "HOME": "/home/ann",
        "USER": "ann",
        "LOGNAME": "ann",
        "TMPDIR": "/private",
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "DBUS_SESSION_BUS_ADDRESS": "unix:",
    }
    assert other == shared | {"HOME": "/home/bob", "USER": "bob", "LOGNAME": "bob"}


@pytest.mark.failure(61)
def test_a_missing_path_is_replaced_by_a_sane_one() -> None:
    assert base_environment({}, OWN)["PATH"] == DEFAULT_PATH
    assert base_environment({"PATH": ""}, OWN)["PATH"] == DEFAULT_PATH


def test_a_run_is_told_what_it_is() -> None:
    found = run_environment(claim(), {}, home="/")

    assert found == {
        "EDGECRON_SCHEDULE": "backup",
        "EDGECRON_RUN_ID": "41",
        "EDGECRON_PLAN_AT": "2026-11-20T08:00:00Z",
        "EDGECRON_ATTEMPT": "2",
        "EDGECRON_CAUSE": "retry",
        "EDGECRON_SCOPE_KIND": "device",
        "EDGECRON_SCOPE_ID": "d 1",
        "EDGECRON_IDEMPOTENCY_KEY": idempotency_key(claim()),
    }


def test_a_payload_is_handed_on_as_it_is() -> None:
    job = Job(kind=JobKind.COMMAND, argv=("x",), payload='{"a": "$(touch x)"}')

    assert run_environment(claim(job=job), {}, home="/")["EDGECRON_PAYLOAD"] == job.payload


def test_the_idempotency_key_is_the_same_in_every_version() -> None:
    # A fire may be tried again after an upgrade: with another key it would look like another one.
    assert idempotency_key(claim()) == "4be667fc33f3cc8bc12b4129657489db"


def test_the_idempotency_key_is_that_of_the_fire() -> None:
    fire = claim()
    same = claim(execution_id=42, lease_token="other", attempt=3, cause=Cause.SCHEDULE)
    others = [
        claim(plan_ms=1),
        claim(fire_key="manual:1"),
        claim(scope_id="d 2"),
        claim(scope_kind="tenant"),
        claim(schedule_id=8),
    ]

    assert idempotency_key(same) == idempotency_key(fire)
    assert len({idempotency_key(one) for one in [fire, *others]}) == 6


def test_the_later_layer_wins(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("A=file\nB=file\nC=file\n", encoding="utf-8")
    env = {"B": "own", "EDGECRON_RUN_ID": "forged"}
    job = Job(kind=JobKind.COMMAND, argv=("x",), env=env, env_file="env")

    found = run_environment(claim(job=job), {"A": "base", "D": "base"}, home=str(tmp_path))

    assert [found[name] for name in "ABCD"] == ["file", "own", "file", "base"]
    assert found["EDGECRON_RUN_ID"] == "41"


def test_an_environment_file_is_read_and_never_interpreted(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_bytes(
        b"# comment\n\n A=plain value \nexport B='single $HOME'\r\nC=\"double `id`\"\n"
        b"D=\nE=it's\nF=a=b # kept\nG=$(touch x)\nH=\xff\n"
    )

    assert read_env_file(str(path)) == {
        "A": "plain value",
        "B": "single $HOME",
        "C": "double `id`",
        "D": "",
        "E": "it's",
        "F": "a=b # kept",
        "G": "$(touch x)",
        "H": "\udcff",
    }


@pytest.mark.parametrize("line", ["no assignment hunter2", "1A=hunter2", "A B=hunter2", "=hunter2"])
def test_a_line_that_can_not_be_read_is_named_by_number_alone(tmp_path: Path, line: str) -> None:
    path = tmp_path / "env"
    path.write_text(f"A=1\n{line}\n", encoding="utf-8")

    with pytest.raises(NotRunnable, match="line 2 is not KEY=VALUE") as caught:
        read_env_file(str(path))

    assert "hunter2" not in caught.value.message


def test_an_environment_file_that_is_none_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    for name, code in (("missing", "ENOENT"), ("fifo", "EINVAL"), (".", "EINVAL")):
        with pytest.raises(NotRunnable, match="environment file") as caught:
            read_env_file(str(tmp_path / name))
        assert caught.value.code in (code, "EISDIR")


def test_paths_start_from_home() -> None:
    paths = ["~", "~/x", "x/y", "/abs", "~bob/x"]

    assert [resolve_path(path, home="/home/ann") for path in paths] == [
        "/home/ann",
        "/home/ann/x",
        "/home/ann/x/y",
        "/abs",
        "/home/ann/~bob/x",
    ]


def test_another_user_finds_no_programs_in_our_home() -> None:
    environ = {"PATH": "/home/ann/bin:/opt/bin:/home/ann:/home/annex:/bin", "HOME": "/home/ann/"}

    assert base_environment(environ, OTHER)["PATH"] == "/opt/bin:/home/annex:/bin"
    assert base_environment(environ, OWN)["PATH"] == environ["PATH"]
    assert base_environment({"PATH": "/home/ann/bin", "HOME": "/home/ann"}, OTHER)["PATH"] == (
        DEFAULT_PATH
    )
    assert base_environment({}, OTHER)["PATH"] == DEFAULT_PATH


def test_a_command_starts_at_home_or_at_the_root_where_there_is_no_home(tmp_path: Path) -> None:
    home = str(tmp_path)

    assert working_folder(None, home=home) == home
    assert working_folder(None, home="/nonexistent") == "/"
    assert working_folder("~/work", home=home) == f"{home}/work"
    assert working_folder("/nowhere", home="/nonexistent") == "/nowhere"


_LEASED = """
import fcntl, os, signal, sys
held = os.open(sys.argv[1], os.O_RDWR)
signal.signal(signal.SIGIO, lambda *_: fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK))
fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""


def test_an_environment_file_that_another_program_leases_is_read(tmp_path: Path) -> None:
    # A file server leases files of its clients, and gives the lease back when somebody opens one.
    path = tmp_path / "job.env"
    path.write_text("A=1\n")
    with subprocess.Popen(
        [sys.executable, "-c", _LEASED, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()

        found = read_env_file(str(path))

        holder.stdin.close()
    assert found == {"A": "1"}
