"""`adopt`: a schedule moves as a whole or not at all, and comes back as it was."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pytest

from edgecron.base.paths import user_name
from edgecron.cli import run
from tests.support.accounts import as_root, identity
from tests.support.cli import Edgecron
from tests.support.machines import Machine
from tests.support.program import PROGRAM
from tests.support.tools import need_tools, private_mounts

CRONTAB = "PATH=/usr/bin:/bin\n# copies\n30 2 * * * /opt/copy all\n*/5 * * * * /opt/probe\n"
MOVED = CRONTAB.replace("30 2", "# moved to edgecron: 30 2")
DAILY = "[Timer]\nOnCalendar=daily\nPersistent=true\n[Install]\nWantedBy=timers.target\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def crontab(machine: Machine) -> Path:
    return machine.write(f"var/spool/cron/crontabs/{user_name()}", CRONTAB, mode=0o600)


Adopt = Callable[..., Any]


@pytest.fixture
def adopt(edgecron: Edgecron, machine: Machine) -> Adopt:
    return lambda *words: edgecron("adopt", "--root", str(machine.root), *words)


def schedules(edgecron: Edgecron) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in edgecron("list", "--json").json}


def is_on(edgecron: Edgecron, name: str) -> bool:
    found = schedules(edgecron).get(name)
    return found is not None and found["enabled"] and found["paused_until"] is None


def test_a_line_of_a_crontab_moves_and_comes_back(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    said = adopt("copy")

    assert said.code == 0, said.err
    assert "adopted copy; next " in said.out
    assert "disabled line 3 of crontab of " in said.err
    assert crontab.read_text() == MOVED
    assert crontab.stat().st_mode & 0o777 == 0o600
    assert is_on(edgecron, "copy")
    found = schedules(edgecron)["copy"]
    assert (found["triggers"], found["job"]) == (["30 2 * * *"], "/opt/copy all")
    assert found["description"] == "copies"

    said = adopt("--undo", "copy")

    assert said.code == 0, said.err
    assert "gave copy back to cron" in said.out
    assert crontab.read_text() == CRONTAB
    assert schedules(edgecron) == {}
    assert "nothing was adopted" in adopt().err


def test_a_script_of_a_folder_moves_and_comes_back(
    edgecron: Edgecron, adopt: Adopt, machine: Machine
) -> None:
    machine.write(
        f"var/spool/cron/crontabs/{user_name()}", "25 6 * * * run-parts /etc/cron.daily\n"
    )
    script = machine.write("etc/cron.daily/rotate", "#!/bin/sh\n", mode=0o755)

    assert adopt("rotate").code == 0
    moved = script.with_name("rotate.moved-to-edgecron")
    assert moved.exists()
    assert not script.exists()
    assert schedules(edgecron)["rotate"]["job"] == ["/etc/cron.daily/rotate.moved-to-edgecron"]

    assert adopt("--undo", "rotate").code == 0
    assert script.exists()
    assert not moved.exists()


@as_root
def test_a_timer_moves_and_comes_back(edgecron: Edgecron, adopt: Adopt, machine: Machine) -> None:
    waking = DAILY.replace("[Timer]", "[Timer]\nWakeSystem=true")
    machine.add_timer("copy", f"{waking}Also=other.timer\n")
    machine.add_timer("other")
    folder = machine.root / "etc/systemd/system"
    links = [folder / "timers.target.wants/copy.timer", folder / "all.target.requires/copy.timer"]
    links[1].parent.mkdir()
    links[1].symlink_to("../../../../usr/lib/systemd/system/copy.timer")
    os.utime(links[0], ns=(5, 5), follow_symlinks=False)
    targets = [os.readlink(link) for link in links]
    stamp = machine.write("var/lib/systemd/timers/stamp-copy.timer", "")
    os.utime(stamp, (1, 1))

    said = adopt("copy")
    assert said.code == 0, said.err
    assert not any(os.path.lexists(link) for link in links)
    # `systemctl disable` would have disabled it, too.
    assert os.path.lexists(links[0].with_name("other.timer"))
    found = schedules(edgecron)["copy"]
    assert (found["catch_up"], found["wake"]) == ("once", True)

    assert adopt("--undo", "copy").code == 0
    assert [os.readlink(link) for link in links] == targets
    assert links[0].lstat().st_mtime_ns == 5
    # systemd must not catch up what edgecron has run.
    assert stamp.stat().st_mtime > 1
    assert schedules(edgecron) == {}


@as_root
def test_a_timer_that_was_removed_meanwhile_stays_adopted(
    edgecron: Edgecron, adopt: Adopt, machine: Machine
) -> None:
    machine.add_timer("copy", DAILY)
    adopt("copy")
    (machine.root / "usr/lib/systemd/system/copy.timer").unlink()

    said = adopt("--undo", "copy")

    assert said.code == 3
    assert "copy.timer does not exist any more" in said.err
    assert is_on(edgecron, "copy")


def test_the_rule_for_mail_of_a_crontab_is_shown(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    crontab.write_text(f"MAILTO=anna@example.org\n{CRONTAB}")

    said = adopt("copy")

    [rule] = schedules(edgecron)["copy"]["notify"]
    assert rule in said.err
    assert "anna@example.org" in said.err
    assert "notify." not in adopt("--undo", "copy").err


def test_what_was_adopted_is_listed(adopt: Adopt, crontab: Path) -> None:
    adopt("copy", "probe")

    rows = json.loads(adopt("--json").out)

    assert [(row["name"], row["status"], row["line"]) for row in rows] == [
        ("copy", "adopted", 3),
        ("probe", "adopted", 4),
    ]
    assert f"crontab of {user_name()}:3" in adopt().out


def test_a_name_that_is_taken_becomes_another_one(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    edgecron("add", "copy", "--every", "1h", "--", "true")

    assert "adopted copy-2" in adopt("copy").out
    assert adopt("--undo", "copy-2").code == 0
    assert set(schedules(edgecron)) == {"copy"}


def test_a_renamed_schedule_is_given_back_too(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    adopt("copy")
    assert edgecron("edit", "copy", "--name", "nightly").code == 0

    assert adopt("--undo", "copy").code == 0
    assert schedules(edgecron) == {}
    assert crontab.read_text() == CRONTAB


def test_rm_of_an_adopted_schedule_says_that_the_original_stays_off(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    adopt("copy")

    said = edgecron("rm", "copy")

    assert said.code == 0
    assert (
        f"warning: nothing runs copy now: its original in crontab of {user_name()}:3 stays off;"
        " to give it back: edgecron adopt --undo copy\n"
    ) in said.err
    assert crontab.read_text() == MOVED
    assert edgecron("undo", "copy").code == 0
    assert is_on(edgecron, "copy")


def test_rm_of_other_schedules_says_nothing_of_originals(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    adopt("copy")
    edgecron("add", "other", "--every", "1h", "--", "true")

    assert "original" not in edgecron("rm", "other").err


@pytest.mark.parametrize("is_removed_first", [True, False], ids=["rm first", "given back"])
def test_a_schedule_that_was_given_back_is_not_restored(
    edgecron: Edgecron, adopt: Adopt, crontab: Path, is_removed_first: bool
) -> None:
    adopt("copy")
    if is_removed_first:
        edgecron("rm", "copy")
    assert adopt("--undo", "copy").code == 0

    for words in (("undo", "copy"), ("undo", "copy", "--dry-run"), ("undo", "copy", "1")):
        said = edgecron(*words)

        assert said.code == 1, words
        assert (
            "error: schedule 'copy' can't be restored: it was given back to cron, which runs it now"
        ) in said.err
        assert "hint: to move it again, find its name: edgecron scan" in said.err
    shown = edgecron("show", "copy", "--changes")
    assert "which runs it now\nhint: to move it again, find its name: edgecron scan\n" in shown.err
    assert "undo the last change" not in shown.err
    assert schedules(edgecron) == {}
    assert crontab.read_text() == CRONTAB

    assert adopt("copy").code == 0
    assert is_on(edgecron, "copy")
    edgecron("rm", "copy")
    assert edgecron("undo", "copy").code == 0
    assert is_on(edgecron, "copy")


def test_lines_above_the_moved_one_can_change(adopt: Adopt, crontab: Path) -> None:
    adopt("copy")
    crontab.write_text(f"# new\n{MOVED}")

    assert adopt("--undo", "copy").code == 0
    assert crontab.read_text() == f"# new\n{CRONTAB}"


def test_if_the_line_is_gone_the_schedule_stays(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    adopt("copy")
    crontab.write_text("")

    said = adopt("--undo", "copy")

    assert said.code == 1
    assert "no longer has the line '30 2 * * * /opt/copy all'" in said.err
    assert is_on(edgecron, "copy")


def test_adopting_twice_and_unknown_names_are_refused(adopt: Adopt, crontab: Path) -> None:
    assert adopt("copi").code == 3
    assert "did you mean copy?" in adopt("copi").err
    assert adopt("--undo", "copy").code == 3
    assert adopt("--undo").code == 2
    assert adopt("copy").code == 0
    assert adopt("copy").code == 4


def test_what_cannot_be_carried_over_is_refused_with_the_reason(
    adopt: Adopt, crontab: Path, database: Path
) -> None:
    crontab.write_text("0~9 3 * * * /opt/random\n")

    said = adopt("random")

    assert said.code == 1
    assert "random can't be adopted: minute is '0~9'" in said.err
    assert not database.exists()


def test_a_timer_of_another_user_names_the_command_that_adopts_it(
    adopt: Adopt, machine: Machine
) -> None:
    machine.write("etc/passwd", "anna:x:5001:5001::/home/anna:/bin/sh\n")
    machine.write("home/anna/.config/systemd/user/copy.timer", DAILY)
    machine.write("home/anna/.config/systemd/user/copy.service", "[Service]\nExecStart=/opt/copy\n")
    machine.link_timer("copy", "home/anna/.config/systemd/user")

    said = adopt("copy")

    assert said.code == 1
    assert said.err == (
        "error: copy can't be adopted: it is a timer of anna: adopt it as anna\n"
        "hint: sudo -u anna XDG_RUNTIME_DIR=/run/user/5001 edgecron adopt copy\n"
    )


def acl_for(uid: int) -> bytes:
    """An access control list that also lets another user read: see acl(5)."""
    nobody = 0xFFFFFFFF
    entries = ((1, 6, nobody), (2, 4, uid), (4, 4, nobody), (0x10, 4, nobody), (0x20, 0, nobody))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_a_crontab_keeps_its_acl_and_its_other_attributes(adopt: Adopt, machine: Machine) -> None:
    crontab = machine.write("etc/crontab", f"17 * * * * {user_name()} /opt/hour\n", mode=0o640)
    wanted = {"system.posix_acl_access": acl_for(5001), "user.note": b"mine"}
    for name, value in wanted.items():
        os.setxattr(crontab, name, value)
    kept = []

    for words in (("hour",), ("--undo", "hour")):
        assert adopt(*words).code == 0
        kept.append({name: os.getxattr(crontab, name) for name in wanted})

    assert kept == [wanted, wanted]


@as_root
def test_a_crontab_whose_label_would_be_lost_stays_as_it_was(tmp_path: Path) -> None:
    user = identity()

    def become() -> None:
        sys.stderr = (tmp_path / "said").open("w", buffering=1)
        os.setgroups([])
        os.setgid(user.gid)
        os.setuid(user.uid)

    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        machine = Machine(Path(folder, "root"))
        crontab = machine.write("var/spool/cron/crontabs/nobody", "17 * * * * /opt/hour\n")
        for path in (crontab.parent, crontab):
            os.chown(path, user.uid, user.gid)
        os.setxattr(crontab, "security.edgecron-test", b"label")
        words = ("--db", f"{folder}/a.db", "adopt", "--root", str(machine.root), "hour")
        ended = in_child(*words, prepare=become)
        left = crontab.read_text()

    assert ended == 1
    assert left == "17 * * * * /opt/hour\n"
    assert ("it would lose its attribute security.edgecron-test (operation not permitted)") in (
        tmp_path / "said"
    ).read_text()


@as_root
def test_the_program_crontab_gets_back_the_lines_that_it_had(tmp_path: Path) -> None:
    need_tools("crontab")
    (tmp_path / "lines").write_text("# mine\n30 2 * * * /opt/edgecron-tested all\n")
    # An empty spool that nobody else sees.
    script = f"""set -e
        cp -a /var/spool/cron {tmp_path}/spool
        find {tmp_path}/spool -type f -delete
        mount --bind {tmp_path}/spool /var/spool/cron
        crontab {tmp_path}/lines
        cd {tmp_path}
        {shlex.join(PROGRAM)} --quiet adopt edgecron-tested
        crontab -l > moved
        {shlex.join(PROGRAM)} --quiet adopt --undo edgecron-tested
        crontab -l > returned
        find spool -type f -exec cat {{}} + > spooled
    """
    environment = {**os.environ, "EDGECRON_DB": str(tmp_path / "a.db"), "EDGECRON_CONFIG": "none"}

    subprocess.run([*private_mounts(), "sh", "-c", script], env=environment, check=True)

    moved, returned = (tmp_path / "moved").read_text(), (tmp_path / "returned").read_text()
    assert moved.endswith("# mine\n# moved to edgecron: 30 2 * * * /opt/edgecron-tested all\n")
    assert returned.endswith("# mine\n30 2 * * * /opt/edgecron-tested all\n")
    # crontab of Debian adds its own header each time.
    assert (tmp_path / "spooled").read_text().count("DO NOT EDIT") <= 1


@as_root
def test_an_ordinary_user_is_sent_to_root(adopt: Adopt, tmp_path: Path) -> None:
    adopt("unknown")  # Another user can't load what is missing.
    user = identity()

    def become() -> None:
        sys.stderr = (tmp_path / "said").open("w", buffering=1)
        os.setgroups([])
        os.setgid(user.gid)
        os.setuid(user.uid)

    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        machine = Machine(Path(folder, "root"))
        machine.write("etc/crontab", "17 * * * * root /opt/hour\n")
        words = ("--db", f"{folder}/a.db", "adopt", "--root", str(machine.root), "hour")
        ended = in_child(*words, prepare=become)

    assert ended == 1
    said = (tmp_path / "said").read_text()
    assert "hour can't be adopted: it runs as root: adopt it as root" in said
    assert "sudo edgecron scan" in said


def is_line_on(crontab: Path) -> bool:
    return "30 2 * * * /opt/copy all" in crontab.read_text().splitlines()


def in_child(*words: str, prepare: Callable[[], object]) -> int:
    """Run a command in a fork of this process; return how it ended."""
    child = os.fork()
    if child == 0:
        try:
            prepare()
            os._exit(run(words))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# What changes files and the database, or makes a change lasting.
STRIDE = 3  # of those, to take less time; every one was tried
CHANGES = frozenset({"rename", "replace", "unlink", "fsync", "execute", "open", "write"})


def kill_before(number: int) -> Callable[[], None]:
    """End this process by SIGKILL before its n-th change after the book's first record."""

    def prepare() -> None:
        count = 0

        def watch(frame: FrameType, event: str, function: Any) -> None:
            nonlocal count
            if event != "c_call" or function.__name__ not in CHANGES:
                return
            if count or function.__name__ == "rename":
                count += 1
            if count > number:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(watch)

    return prepare


@pytest.mark.parametrize("words", [("copy",), ("--undo", "copy")], ids=["adopt", "undo"])
def test_after_kill_at_any_step_the_command_completes_the_move(
    edgecron: Edgecron, adopt: Adopt, machine: Machine, crontab: Path, words: tuple[str, ...]
) -> None:
    is_undo = words[0] == "--undo"
    number, ended = 0, -signal.SIGKILL
    while ended != 0:
        if is_undo and number == 0:
            assert adopt("copy").code == 0
        ended = in_child("adopt", "--root", str(machine.root), *words, prepare=kill_before(number))

        assert ended in (0, -signal.SIGKILL)
        states = (is_line_on(crontab), is_on(edgecron, "copy"))
        assert not all(states), number
        if not any(states):
            assert "the move of copy was interrupted" in adopt().err, number
        if ended:
            said = adopt(*words)
            assert said.code in ((0, 3) if is_undo else (0, 4)), (number, said.err)
        assert is_line_on(crontab) == is_undo, number
        assert is_on(edgecron, "copy") == (not is_undo), number
        assert len(schedules(edgecron)) == (0 if is_undo else 1), number
        # Back to the beginning, by the other command.
        assert adopt(*(["copy"] if is_undo else ["--undo", "copy"])).code == 0
        number += STRIDE
    assert number > 20


def test_an_interrupted_move_is_reported_until_it_is_complete(
    edgecron: Edgecron, adopt: Adopt, machine: Machine, crontab: Path
) -> None:
    edgecron("add", "first", "--every", "1h", "--", "true")
    in_child("adopt", "--root", str(machine.root), "copy", prepare=kill_before(5))

    assert "the move of copy was interrupted" in adopt().err
    assert "the move of copy was interrupted" in edgecron("doctor").out
    assert adopt("copy").code == 0
    assert "the move of copy" not in adopt().err + edgecron("doctor").out


def test_after_an_interrupted_move_nothing_lets_both_run(
    edgecron: Edgecron, adopt: Adopt, machine: Machine, crontab: Path, tmp_path: Path
) -> None:
    """The schedule is there, and the line of the crontab is still on."""
    edgecron("add", "first", "--every", "1h", "--", "true")
    words, number = ("adopt", "--root", str(machine.root), "copy"), 0
    while in_child(*words, prepare=kill_before(number)) and "copy" not in schedules(edgecron):
        if adopt("copy").code == 0:
            adopt("--undo", "copy")
        number += STRIDE
    assert is_line_on(crontab)

    refused = edgecron("resume", "copy")
    undone = edgecron("undo", "copy")
    document = tmp_path / "copy.toml"
    document.write_text(
        '[schedules.copy]\ncron = "30 2 * * *"\nshell = "/opt/copy all"\nenabled = true\n'
    )
    applied = edgecron("apply", str(document))

    assert (refused.code, undone.code, applied.code) == (1, 1, 1)
    assert "cron still runs it" in applied.err
    assert "its move was interrupted, and cron still runs it" in refused.err
    assert "hint: complete the move: edgecron" in refused.err
    assert not is_on(edgecron, "copy")
    assert adopt("copy").code == 0
    assert is_on(edgecron, "copy")
    assert edgecron("pause", "copy").code == edgecron("resume", "copy").code == 0


def test_a_source_that_cannot_be_changed_keeps_its_schedule(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    # Root writes into no folder that others could change.
    crontab.parent.chmod(0o777 if os.geteuid() == 0 else 0o555)

    said = adopt("copy")
    crontab.parent.chmod(0o755)

    assert said.code != 0
    assert crontab.read_text() == CRONTAB
    assert schedules(edgecron) == {}
    assert "nothing was adopted" in adopt().err


def test_a_source_that_cannot_be_restored_stays_adopted(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    adopt("copy")
    crontab.parent.chmod(0o777 if os.geteuid() == 0 else 0o555)

    said = adopt("--undo", "copy")
    crontab.parent.chmod(0o755)

    assert said.code != 0
    assert crontab.read_text() == MOVED
    assert is_on(edgecron, "copy")
    assert adopt("--undo", "copy").code == 0


def test_a_failed_return_leaves_a_pause_as_it_was(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    adopt("copy")
    for words, enabled, until in (
        (("copy",), False, None),
        (("copy", "--until", "2099-01-01T00:00Z"), True, "2099-01-01T00:00:00Z"),
    ):
        edgecron("pause", *words)
        crontab.parent.chmod(0o777 if os.geteuid() == 0 else 0o555)

        said = adopt("--undo", "copy")
        crontab.parent.chmod(0o755)

        assert said.code != 0
        found = schedules(edgecron)["copy"]
        assert (found["enabled"], found["paused_until"]) == (enabled, until)
        assert "interrupted" not in adopt().err


def test_an_undo_after_which_nothing_runs_a_schedule_says_how_to_give_it_back(
    edgecron: Edgecron, adopt: Adopt, crontab: Path
) -> None:
    adopt("copy")

    paused = edgecron("undo", "copy")
    resumed = edgecron("undo", "copy")

    assert "nothing runs copy now: its original in " in paused.err
    assert "adopt --undo copy" in paused.err
    assert "nothing runs" not in resumed.err


def test_a_full_disk_leaves_the_crontab_as_it_was(
    edgecron: Edgecron, adopt: Adopt, machine: Machine, crontab: Path
) -> None:
    most = 900_000
    edgecron("add", "first", "--every", "1h", "--", "true")
    crontab.write_text(CRONTAB + "#" * most + "\n")
    before = crontab.read_text()

    ended = in_child(
        *("adopt", "--root", str(machine.root), "copy"),
        prepare=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )

    assert ended == 1
    assert crontab.read_text() == before
    assert set(schedules(edgecron)) == {"first"}
    assert sorted(path.name for path in crontab.parent.iterdir()) == [crontab.name]


def test_a_book_that_cannot_be_written_lets_nothing_begin(
    edgecron: Edgecron, adopt: Adopt, crontab: Path, database: Path
) -> None:
    edgecron("add", "first", "--every", "1h", "--", "true")
    database.with_name(f"{database.name}.adopted.json").mkdir()

    said = adopt("copy")

    assert said.code == 1
    assert crontab.read_text() == CRONTAB
    assert set(schedules(edgecron)) == {"first"}
