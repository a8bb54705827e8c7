"""doctor: what is wrong is said with what to do about it, and what is well in few words."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron.base.paths import state_dir
from edgecron.client import Client, doctor_machine, doctor_schedules
from edgecron.client.doctor_machine import Room, judge_space
from edgecron.engine.state_folder import Doorbell
from edgecron.store.sqlite.whole_file import find_damage_within
from edgecron.supervisor.state_files import prepare_state_dir
from tests.support.cli import Edgecron, Said
from tests.support.places import small_disk
from tests.support.processes import Daemon, Gate, ends, parent_of
from tests.support.story import Story
from tests.support.stuck import KEY, SLEEPS, SPINS, StuckEngine, stop_at_rest

CHECKS = [
    *(
        "health",
        "database",
        "integrity",
        "files",
        "clock",
        "engines",
        "runs",
        "schedules",
        "others",
        "space",
    ),
    "supervisors",
]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def daemon(database: Path, stack: ExitStack) -> Daemon:
    """A real engine, at work."""
    daemon = Daemon(database)
    stack.callback(lambda: daemon.process.poll() is None and daemon.kill())
    daemon.wait_for("engine_started")
    return daemon


def findings(said: Said, check: str) -> list[dict[str, Any]]:
    """What one check found, of the JSON."""
    return [finding for finding in said.json if finding["check"] == check]


def only(said: Said, check: str) -> tuple[str, str, str | None]:
    [finding] = findings(said, check)
    return finding["status"], finding["message"], finding["hint"]


def test_a_database_that_can_not_be_reached_is_all_that_is_told(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to("loop")

    said = edgecron("--db", str(tmp_path / "loop" / "x.db"), "doctor", "--json")

    assert said.code == 5
    [finding] = said.json
    assert (finding["check"], finding["status"]) == ("database", "problem")
    assert "can't be reached" in finding["message"]


def test_engines_that_mean_another_zone_by_local_are_both_named(
    edgecron: Edgecron, backup: str, database: Path, daemon: Daemon, stack: ExitStack
) -> None:
    edgecron("run", backup)
    daemon.wait_for("started", schedule=backup)
    alone = edgecron("doctor", "--json")
    other = Daemon(database, through=("env", "TZ=Asia/Tokyo"))
    stack.callback(other.close)
    other.wait_for("local_zone_changed")

    said = [
        one for one in findings(edgecron("doctor", "--json"), "engines") if one["status"] != "ok"
    ]

    assert not [one for one in findings(alone, "engines") if one["status"] != "ok"]
    [found] = said
    assert found["status"] == "warning"
    assert f"Asia/Tokyo for pid {other.process.pid}" in found["message"]
    assert f"UTC for pid {daemon.process.pid}" in found["message"]
    assert "edit NAME --tz ZONE" in found["hint"]


def test_a_device_gets_no_advice_to_change_its_mode(edgecron: Edgecron) -> None:
    said = edgecron("--db", "/dev/null", "doctor")

    assert said.code == 5
    assert "/dev/null is not a regular file, but a device" in said.out
    assert "chmod" not in said.out


def test_where_nothing_is_wrong_that_is_said(
    edgecron: Edgecron, backup: str, daemon: Daemon
) -> None:
    edgecron("run", backup)
    daemon.wait_for("ended", schedule=backup)

    said, as_json = edgecron("doctor"), edgecron("doctor", "--json")

    assert (said.code, said.err, as_json.code) == (0, "", 0)
    assert said.out.splitlines()[-1] == "nothing is wrong"
    assert [line.split()[1] for line in said.out.splitlines()[:-1]] == CHECKS
    assert [finding["check"] for finding in as_json.json] == CHECKS
    assert {finding["status"] for finding in as_json.json} == {"ok"}
    assert list(as_json.json[0]) == ["check", "status", "message", "hint"]
    assert only(as_json, "engines") == ("ok", f"pid {daemon.process.pid} is running", None)


def test_a_schedule_that_fails_every_time_is_named(
    edgecron: Edgecron, backup: str, daemon: Daemon
) -> None:
    edgecron("add", "broken", "--every", "1h", "--shell", "exit 3")
    for name in (backup, "broken", "broken"):
        edgecron("run", name)
        daemon.wait_for("ended", schedule=name)

    said = edgecron("doctor")

    [first, hint, *_] = said.out.splitlines()
    assert first.startswith("! health       broken failed 2 times in a row: exit code 3 (first ")
    assert first.endswith(", never succeeded)")
    assert hint.strip() == "see its output: edgecron logs broken"
    assert backup not in said.out
    assert "nothing is wrong" not in said.out


def test_a_schedule_that_fails_ever_since_a_success_is_named(
    edgecron: Edgecron, daemon: Daemon, tmp_path: Path
) -> None:
    job = ("--shell", 'test "$EDGECRON_SCHEDULE" = well -o ! -e "$FILE"')
    retries = ("--retries", "2", "--retry-delay", "0s")
    for name, more in (("broken", ()), ("retried", retries), ("mended", ()), ("well", ())):
        edgecron("add", name, "--every", "1h", "--env", f"FILE={tmp_path}/{name}", *more, *job)
        edgecron("run", name, "--wait")
        (tmp_path / name).touch()
    for name, count in (("broken", 3), ("retried", 2), ("mended", 3), ("well", 4)):
        for _ in range(count):
            edgecron("run", name, "--wait")
    (tmp_path / "mended").unlink()
    edgecron("run", "mended", "--wait")

    found = findings(edgecron("doctor", "--json"), "health")
    [broken, again] = [one["message"] for one in found]

    assert broken.startswith("broken failed 3 times in a row: exit code 1 (first ")
    assert ", last success " in broken
    assert again.startswith("retried failed 2 times in a row: exit code 1 (first ")


def test_a_schedule_that_is_overdue_or_has_never_run_is_named(
    edgecron: Edgecron, database: Path
) -> None:
    edgecron("add", "new", "--every", "1h", "--", "true")
    edgecron("add", "late", "--every", "1h", "--", "true")
    edgecron("add", "skipped", "--every", "1h", "--", "true")
    connection = apsw.Connection(str(database))
    connection.execute(
        "UPDATE schedules SET next_plan_at = 1000, next_run_at = 1000 WHERE name = 'late'"
    )
    connection.execute("UPDATE schedules SET skipped_count = 4 WHERE name = 'skipped'")
    connection.close()

    said = edgecron("doctor")

    assert "late is overdue, due 20" in said.out
    assert ": no engine is running" in said.out
    assert "skipped has never succeeded: 4 times were skipped" in said.out
    assert "new" not in said.out


def test_a_line_of_shell_wakes_the_engines_after_an_edit_by_sql(
    edgecron: Edgecron, database: Path
) -> None:
    edgecron("add", "job", "--every", "1h", "--", "true")
    connection = apsw.Connection(str(database))
    connection.execute("UPDATE schedules SET next_plan_at = NULL, next_run_at = NULL")
    connection.close()
    bell = Doorbell(prepare_state_dir(state_dir(database)), "a1")

    line = edgecron("doctor").out.partition("by SQL: ")[2].splitlines()[0]
    subprocess.run(["sh", "-c", line], check=True)
    rung = bell.clear()
    bell.close()

    assert rung == b"."


def test_schedules_without_an_engine_are_a_warning_and_no_failure(
    edgecron: Edgecron, backup: str
) -> None:
    said, as_json = edgecron("doctor"), edgecron("doctor", "--json")

    assert said.code == 0
    assert only(as_json, "engines") == (
        "warning", "no engine is running, and 1 schedule waits", "start one: edgecron daemon",
    )  # fmt: skip
    assert said.out.splitlines()[-1] == "1 warning"
    edgecron("pause", backup)
    assert only(edgecron("doctor", "--json"), "engines")[0] == "ok"


@pytest.mark.failure(23)
def test_a_stopped_engine_is_a_problem_with_both_ways_out(
    edgecron: Edgecron, backup: str, daemon: Daemon
) -> None:
    edgecron("run", backup)
    daemon.wait_for("ended", schedule=backup)
    pid = daemon.process.pid
    # Stopped while it writes, it would hold the lock, which doctor reports too.
    stop_at_rest(daemon.process)

    said, as_json = edgecron("doctor"), edgecron("doctor", "--json")

    assert (said.code, as_json.code) == (1, 1)
    assert only(as_json, "engines") == (
        "problem",
        f"pid {pid} is stalled: it is stopped (SIGSTOP or Ctrl-Z); its runs continue",
        f"let it continue: kill -CONT {pid}; or end it: edgecron doctor --take-over {pid}",
    )
    assert said.out.splitlines()[-1] == "1 problem"
    assert f"edgecron doctor --take-over {pid}" in said.out


def test_an_engine_that_sleeps_on_can_only_be_ended(
    edgecron: Edgecron, database: Path, stack: ExitStack
) -> None:
    with Client(database) as client:
        stuck = StuckEngine(client, SLEEPS)
    stack.callback(stuck.end)
    edgecron("add", "rings", "--every", "1h", "--", "true")

    said = edgecron("doctor", "--json", "--db", str(database))

    pid = stuck.process.pid
    assert only(said, "engines") == (
        "problem",
        f"pid {pid} is stalled: it sleeps, and does not answer; its runs continue",
        f"end it: edgecron --db {database} doctor --take-over {pid}",
    )


def test_an_engine_that_is_at_work_for_long_is_a_warning(
    edgecron: Edgecron, database: Path, stack: ExitStack
) -> None:
    with Client(database) as client:
        stuck = StuckEngine(client, SPINS)
    stack.callback(stuck.end)
    edgecron("add", "rings", "--every", "1h", "--", "true")

    status, message, hint = only(edgecron("doctor", "--json"), "engines")

    assert status == "warning"
    assert message.startswith(f"pid {stuck.process.pid} is running but silent: it is busy")
    assert hint is not None
    assert f"kill -TERM {stuck.process.pid}" in hint


@pytest.mark.failure(19)
def test_a_dead_engine_without_a_run_leaves_nothing_to_recover(
    edgecron: Edgecron, daemon: Daemon
) -> None:
    edgecron("add", "tidy", "--on-demand", "--", "true")
    daemon.kill()

    looked = edgecron("doctor", "--json")
    status = edgecron("status")

    said = f"pid {daemon.process.pid} has died and left no active run"
    assert only(looked, "engines") == ("ok", said, None)
    assert f"pid {daemon.process.pid} has died; it left no active run" in status.out


@pytest.mark.failure(19)
def test_what_a_dead_engine_left_running_is_told(
    edgecron: Edgecron, daemon: Daemon, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    edgecron("add", "long", "--every", "1h", "--shell", gate.line)
    edgecron("run", "long")
    job = gate.wait_arrival()
    daemon.kill()

    alone = edgecron("doctor", "--json")
    supervisor = parent_of(job)
    watch = os.pidfd_open(supervisor)
    os.kill(supervisor, signal.SIGKILL)
    assert ends(watch), "the supervisor was not ended"
    lost = edgecron("doctor", "--json")
    gate.close()

    assert alone.code == lost.code == 0
    assert [finding["status"] for finding in findings(alone, "engines")] == ["warning"] * 2
    assert "has died" in findings(alone, "engines")[0]["message"]
    status, message, _ = only(alone, "supervisors")
    assert (status, message.partition(" ")[2]) == ("ok", "continues without an engine, with 1 run")
    assert only(alone, "runs")[0] == "ok"
    assert only(lost, "runs") == (
        "warning",
        "engine and supervisor are gone: run 1 of long",
        "the next engine recovers them; start one: edgecron daemon",
    )
    assert only(lost, "supervisors")[1] == "every supervisor has its engine"


def test_a_supervisor_that_does_not_answer_is_a_problem(
    edgecron: Edgecron, daemon: Daemon, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    edgecron("add", "long", "--every", "1h", "--shell", gate.line)
    edgecron("run", "long")
    supervisor = parent_of(gate.wait_arrival())
    daemon.wait_for("started", schedule="long")

    os.kill(supervisor, signal.SIGSTOP)
    said = edgecron("doctor", "--json")
    os.kill(supervisor, signal.SIGCONT)
    again = edgecron("doctor", "--json")
    gate.open()
    daemon.wait_for("ended", schedule="long")
    gate.close()

    status, message, hint = only(said, "supervisors")
    assert (said.code, status) == (1, "problem")
    assert "it did not answer in time; its runs have no timeout" in message
    assert hint == f"if it is stopped, let it continue: kill -CONT {supervisor}"
    assert only(again, "supervisors")[0] == "ok"


def test_a_schedule_that_can_not_be_read_is_a_problem(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    with Client(database) as client:
        schedule = client.schedule(backup)
        client.store.mark_broken(schedule.id, revision=1, error="its zone is gone", now_ms=1)

    said = edgecron("doctor", "--json")

    assert said.code == 1
    assert only(said, "schedules") == (
        "problem",
        "backup is broken, and does not fire: its zone is gone",
        "give it another time or zone: edgecron edit backup --cron ... --tz ...",
    )


def test_schedules_with_the_same_trouble_share_a_finding(
    edgecron: Edgecron, database: Path
) -> None:
    for number in range(7):
        edgecron("add", f"s{number}", "--every", "1h", "--", "true")
    with Client(database) as client:
        for number in range(7):
            schedule_id = client.schedule(f"s{number}").id
            error = "its zone is gone" if number else "its text is gone"
            client.store.mark_broken(schedule_id, revision=1, error=error, now_ms=1)

    said = edgecron("doctor", "--json")

    assert [(one["message"], one["hint"]) for one in findings(said, "schedules")] == [
        (
            "s0 is broken, and does not fire: its text is gone",
            "give it another time or zone: edgecron edit s0 --cron ... --tz ...",
        ),
        (
            "s1, s2, s3, s4, s5 and 1 more are broken, and do not fire: its zone is gone",
            "give it another time or zone: edgecron edit NAME --cron ... --tz ...",
        ),
    ]


@pytest.mark.failure(62)
def test_files_that_others_can_read_are_named_with_the_way_to_close_them(
    edgecron: Edgecron, backup: str, database: Path, daemon: Daemon
) -> None:
    folder = state_dir(database)
    wal = database.with_name(f"{database.name}-wal")
    for path, mode in ((database, 0o644), (wal, 0o660), (folder, 0o755)):
        path.chmod(mode)

    said = edgecron("doctor", "--json")
    hints = [finding["hint"] for finding in findings(said, "files")]

    assert said.code == 1
    assert hints == [f"chmod 600 {database}", f"chmod 600 {wal}", f"chmod 700 {folder}"]
    assert "0644, expected 0600" in findings(said, "files")[0]["message"]


@pytest.mark.failure(51)
def test_a_folder_that_is_closed_to_its_owner_is_named_with_the_way_to_open_it(
    edgecron: Edgecron, backup: str, database: Path, daemon: Daemon
) -> None:
    folder = state_dir(database)
    folder.chmod(0)

    said = edgecron("doctor", "--json")
    status, message, hint = only(said, "files")

    assert said.code == 1
    assert (status, hint) == ("problem", f"chmod 700 {folder}")
    assert message == f"{folder} has mode 0000, expected 0700: its owner can't use it"


def test_a_file_in_place_of_the_state_folder_is_to_be_moved_away(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    folder = state_dir(database)
    folder.touch(mode=0o644)

    status, message, hint = only(edgecron("doctor", "--json"), "files")

    assert (status, message) == ("problem", f"{folder} is no folder, and no engine can start")
    assert hint == f"move it away: mv {folder} {folder}.old"


@pytest.mark.failure(63)
@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_link_in_place_of_the_state_folder_leads_nobody_elsewhere(
    edgecron: Edgecron, backup: str, database: Path, is_dangling: bool
) -> None:
    folder, elsewhere = state_dir(database), database.with_name("elsewhere")
    if not is_dangling:
        elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)

    said = [edgecron("daemon"), edgecron("run", backup, "--wait")]
    queued = edgecron("run", backup)
    status, message, hint = only(edgecron("doctor", "--json"), "files")

    assert [one.code for one in said] == [5, 125]
    assert all(f"state folder '{folder}' is a symbolic link" in one.err for one in said)
    assert queued.code == 0
    assert (status, message) == (
        "problem",
        f"{folder} is a symbolic link, and no engine can start",
    )
    assert hint == f"move it away: mv {folder} {folder}.old"
    assert is_dangling or list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo])
def test_what_is_no_state_folder_keeps_no_run_from_being_queued(
    edgecron: Edgecron, backup: str, database: Path, make: Callable[[Path], object]
) -> None:
    make(state_dir(database))

    said = edgecron("run", backup), edgecron("status"), edgecron("daemon")

    assert [one.code for one in said] == [0, 0, 5]
    assert "is no folder" in said[2].err


def test_a_full_disk_is_named_beside_a_time_that_is_overdue(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", kib=4096) as disk:
        monkeypatch.setenv("EDGECRON_DB", str(disk / "edge.db"))
        edgecron("add", "x", "--every", "1h", "--", "true")
        before = edgecron("status").out + edgecron("why", "x").out
        connection = sqlite3.connect(disk / "edge.db")
        connection.execute("UPDATE schedules SET next_run_at = next_run_at - 7200000")
        connection.commit()
        connection.close()

        told = edgecron("status").out
        why = " ".join(edgecron("why", "x").out.split())
        [body] = edgecron("status", "--json").json

    words = f"on the file system of {disk}: edgecron starts a run only if it can record the start"
    assert "file system" not in before
    assert words in told
    assert words in why
    assert body["disk_problem"].endswith(f"on the file system of {disk}")


@pytest.mark.failure(51)
def test_a_file_system_without_room_is_a_problem(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", kib=4096) as disk:
        monkeypatch.setenv("EDGECRON_DB", str(disk / "edge.db"))
        edgecron("add", "x", "--every", "1h", "--", "true")

        said = edgecron("doctor", "--json")

    assert said.code == 1
    status, message, _ = only(said, "space")
    assert status == "problem"
    assert message.endswith(f"on the file system of {disk}")


@pytest.mark.parametrize(
    ("free_bytes", "total_bytes", "status", "message"),
    [
        (16 * 2**20, 2**30, "ok", "16 MiB free"),
        (16 * 2**20 - 1, 2**30, "problem", "16 MiB free (1.6%) on the file system of /x"),
        (2**30, 101 * 2**30, "problem", "1,024 MiB free (1.0%) on the file system of /x"),
        (20 * 2**30, 100 * 2**30, "ok", "20 GiB free"),
        (0, 2**30, "problem", "0 MiB free (0.0%) on the file system of /x"),
        (0, 0, "ok", "0 MiB free"),
    ],
)
def test_room_is_judged_by_bytes_and_by_share(
    free_bytes: int, total_bytes: int, status: str, message: str
) -> None:
    room = Room(free_bytes=free_bytes, total_bytes=total_bytes, free_files=9000, total_files=9999)

    finding = judge_space(Path("/x"), room)

    assert (finding.status, finding.message) == (status, message)


@pytest.mark.failure(51)
@pytest.mark.parametrize(
    ("free_files", "total_files", "status", "message"),
    [
        (64, 1000, "ok", "1,024 MiB free"),
        (63, 1000, "problem", "room for 63 more files on the file system of /x"),
        (0, 20, "problem", "room for 0 more files on the file system of /x"),
        (0, 0, "ok", "1,024 MiB free"),  # btrfs has no limit
    ],
)
def test_room_is_judged_by_how_many_files_may_still_be_made(
    free_files: int, total_files: int, status: str, message: str
) -> None:
    room = Room(free_bytes=2**30, total_bytes=2**31, free_files=free_files, total_files=total_files)

    finding = judge_space(Path("/x"), room)

    assert (finding.status, finding.message) == (status, message)


@pytest.mark.failure(51)
def test_a_file_system_without_inodes_is_a_problem(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", kib=64 * 1024, inodes=20) as disk:
        monkeypatch.setenv("EDGECRON_DB", str(disk / "edge.db"))
        edgecron("add", "x", "--every", "1h", "--", "true")

        said = edgecron("doctor", "--json")

    assert said.code == 1
    status, message, hint = only(said, "space")
    assert (status, hint) == ("problem", "remove some files: an engine and its runs create files")
    assert message.endswith(f"more files on the file system of {disk}")


def test_a_supervisor_that_failed_is_named_by_what_it_left(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    folder = state_dir(database)
    folder.mkdir(mode=0o700)
    crash = folder / f"supervisor-{KEY}.crash"
    crash.write_text("Traceback")

    said = edgecron("doctor", "--json")

    [_, crashed] = findings(said, "supervisors")
    assert said.code == 0
    assert crashed["status"] == "warning"
    assert str(crash) in crashed["message"]
    assert crashed["hint"] == f"report the content of this file, then: rm {crash}"


def test_a_database_that_is_not_there_is_not_made(edgecron: Edgecron, database: Path) -> None:
    said, as_json = edgecron("doctor"), edgecron("doctor", "--json")

    assert (said.code, as_json.code) == (3, 3)
    assert [finding["check"] for finding in as_json.json] == ["database"]
    assert only(as_json, "database")[0] == "problem"
    assert said.out.splitlines()[-1] == "1 problem"
    assert list(database.parent.iterdir()) == []


@pytest.mark.failure(52)
@pytest.mark.failure(69)
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("PRAGMA user_version = 99", "is version 99"),
        ("PRAGMA application_id = 7", "belongs to another program"),
        ("CREATE TRIGGER planted AFTER INSERT ON meta BEGIN SELECT 1; END", "'planted'"),
        ("DROP TABLE engines", "does not have the tables"),
    ],
)
def test_a_database_that_can_not_be_used_is_told_and_the_rest_is_checked(
    edgecron: Edgecron, backup: str, database: Path, statement: str, words: str
) -> None:
    change(database, statement)

    said, as_json = edgecron("doctor"), edgecron("doctor", "--json")

    assert (said.code, as_json.code) == (5, 5)
    status, message, hint = only(as_json, "database")
    assert (status, words in message) == ("problem", True)
    assert hint
    assert {"files", "space"} < {finding["check"] for finding in as_json.json}
    assert said.out.splitlines()[-1].startswith("1 problem")


@pytest.mark.failure(52)
def test_a_file_that_is_no_database_is_told(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    content = b"not a database at all\n" * 100
    database.write_bytes(content)

    said = edgecron("doctor", "--json")

    assert said.code == 5
    status, message, hint = only(said, "database")
    assert (status, "damaged or not a database" in message) == ("problem", True)
    assert hint is not None
    assert "restore a backup" in hint
    assert database.read_bytes() == content


@pytest.mark.failure(52)
def test_a_damaged_page_is_found_though_nothing_reads_it(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    [(page, size)] = change(
        database,
        """SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size
           WHERE name = 'schedule_revisions'""",
    )
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)

    said = edgecron("doctor", "--json")

    assert said.code == 1
    assert {finding["status"] for finding in findings(said, "integrity")} == {"problem"}
    assert "restore a backup" in findings(said, "integrity")[0]["hint"]


def test_equal_references_to_nothing_are_one_finding_with_a_repair(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    for number in range(9):
        change(database, f"INSERT INTO schedule_scopes VALUES ({90 + number}, 'tenant', 'a')")
    change(database, "INSERT INTO schedule_revisions VALUES (99, 1, 0, 'x', '{}', NULL)")

    told = findings(edgecron("doctor", "--json"), "integrity")

    assert [(one["status"], one["message"]) for one in told] == [
        ("problem", "schedule_revisions: 1 row refers to missing schedules"),
        ("problem", "schedule_scopes: 9 rows refer to missing schedules"),
    ]
    assert all("doctor --repair" in str(one["hint"]) for one in told)
    assert "schedule_scopes: repaired 9 rows" in edgecron("doctor", "--repair").out
    assert only(edgecron("doctor", "--json"), "integrity")[0] == "ok"
    assert [one["name"] for one in edgecron("list", "--json").json] == [backup]
    assert edgecron("doctor", "--repair").out == "nothing to repair\n"


def test_runs_of_a_missing_schedule_are_not_repaired_away(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    edgecron("run", backup, "--wait")
    change(database, "UPDATE executions SET schedule_id = 99 WHERE status = 'queued'")
    change(database, "DELETE FROM schedules")

    told = findings(edgecron("doctor", "--json"), "integrity")
    edgecron("doctor", "--repair")

    hints = {one["message"].partition(":")[0]: one["hint"] for one in told}
    assert "restore a backup" in hints["executions"]
    assert "doctor --repair" in hints["schedule_scopes"]
    assert change(database, "SELECT count(*) FROM executions") == [(1,)]


def test_a_group_that_a_schedule_names_is_made_again(edgecron: Edgecron, database: Path) -> None:
    edgecron("add", "job", "--every", "1h", "--group", "disk", "--", "true")
    change(database, "DELETE FROM groups")

    assert only(edgecron("doctor", "--json"), "integrity")[0] == "problem"
    edgecron("doctor", "--repair")

    assert only(edgecron("doctor", "--json"), "integrity")[0] == "ok"
    assert edgecron("list", "--json").json[0]["group"] == "disk"


def test_of_a_large_database_doctor_reads_the_vital_tables_and_names_the_rest(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.add("job", "every 1h")
    monkeypatch.setattr(doctor_machine, "SMALL_BYTES", 0)
    every = doctor_machine.check_integrity(story.client, is_deep=False, command=str)
    monkeypatch.setattr(doctor_machine, "MOMENT_MS", -1)
    nothing = doctor_machine.check_integrity(story.client, is_deep=False, command=str)
    damage, unread = find_damage_within(
        story.client.file_store("doctor", instead=""), lambda: False
    )

    assert [one.message for one in every] == ["no damage found"]
    assert damage == []
    assert unread == ()
    [told] = nothing
    assert told.status == "ok"
    assert "to check these tables, use doctor --deep: " in told.message
    assert told.message.endswith("executions, outputs")


def test_of_many_schedules_doctor_reads_those_that_need_a_look(
    edgecron: Edgecron, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_schedules, "MOST_READ", 2)
    for number in range(3):
        edgecron("add", f"job-{number}", "--every", "1h", "--", "true")
    assert only(edgecron("doctor", "--json"), "schedules")[1].startswith("3; the 0 that need")
    assert only(edgecron("doctor", "--deep", "--json"), "schedules")[1] == "3, all readable"
    edgecron("pause", "job-1")
    change(database, "UPDATE schedules SET trigger_error = 'gone' WHERE name = 'job-1'")

    told = edgecron("doctor", "--json")

    assert "job-1 is broken" in only(told, "schedules")[1]
    assert "3 schedules wait" not in only(told, "engines")[1]
    assert "2 schedules wait" in only(told, "engines")[1]


def test_of_many_followers_doctor_reads_those_whose_upstream_is_gone(
    edgecron: Edgecron, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_schedules, "MOST_READ", 2)
    edgecron("add", "load", "--every", "1h", "--", "true")
    edgecron("add", "sum", "--after", "load", "--", "true")
    edgecron("add", "report", "--after", "sum", "--", "true")
    # As an engine does that has looked at them: they have no times.
    change(database, "UPDATE schedules SET done_revision = revision WHERE next_run_at IS NULL")
    assert only(edgecron("doctor", "--json"), "schedules")[1].startswith("3; the 0 that need")
    edgecron("add", "other", "--every", "1h", "--", "true")
    edgecron("rm", "load")

    told = edgecron("doctor", "--json")

    assert only(told, "schedules")[1] == "sum comes after load, which is gone: nothing starts it"


def test_what_is_well_is_dim_and_the_rest_stands_out(edgecron: Edgecron, backup: str) -> None:
    coloured = edgecron("doctor", "--color", "always").out

    assert "\x1b[33m!\x1b[0m" in coloured
    assert "\x1b[2mno damage found\x1b[0m" in coloured
    assert "\x1b" not in edgecron("doctor").out


def change(database: Path, statement: str) -> list[Any]:
    """Change a database behind edgecron's back, which does not have it open."""
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        rows = connection.execute(statement).fetchall()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    return rows


@pytest.mark.failure(25)
def test_a_program_that_reads_without_end_is_told_of(
    edgecron: Edgecron, backup: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.client.doctor_machine.LONG_LOG_BYTES", 10_000)
    reader = apsw.Connection(str(database))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM executions").fetchall()
    for _ in range(10):
        edgecron("pause", backup)
        edgecron("resume", backup)

    during = only(edgecron("doctor", "--json"), "database")
    reader.execute("COMMIT")
    reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    after = only(edgecron("doctor", "--json"), "database")
    reader.close()

    assert during[0] == "warning"
    assert "has an open read transaction" in during[1]
    assert "fuser" in (during[2] or "")
    assert after == ("ok", str(database), None)
