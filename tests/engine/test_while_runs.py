"""Conditions that must hold during a run: what happens to the run when one is lost."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.client import Client
from edgecron.engine.events import EventKind
from edgecron.model.choices import JobKind, WhileLost
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from edgecron.views.phrases import note_words
from edgecron.views.run_words import run_sentence
from edgecron.views.schedule_words import active_lines
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine, FakeReports
from tests.support.processes import Daemon, ends
from tests.support.servers import wait_until
from tests.support.story import START_MS, Story

HOUR_S = 3600


class Laptop:
    """An engine on a machine whose mains supply a test connects and disconnects."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock(START_MS)
        self.machine = FakeMachine(folder / "root", self.clock)
        self.reports = FakeReports()
        self.story = Story(
            folder / "story.db", clock=self.clock, hosting=self.machine.hosting(self.reports)
        )

    def start(self, *texts: str, lost: WhileLost = WhileLost.END, lasts_s: int = 600) -> Execution:
        policies = Policies(while_needs=texts, while_lost=lost)
        self.story.add("backup", "@daily", lasts_s=lasts_s, policies=policies)
        self.story.after_s(4 * HOUR_S)
        return self.run()

    def set_on_mains(self, is_on: bool) -> None:
        self.machine.set_on_mains(is_on)
        self.story.engine.conditions.hear()
        self.story.after_s(0)

    def run(self) -> Execution:
        return self.story.runs("backup")[-1]

    def shown(self) -> str:
        run = self.run()
        flags = "+".join(["", *run.flags])
        return f"{run.status}{flags}" if run.reason is None else f"{run.status}:{run.reason}{flags}"


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def test_a_run_that_loses_its_condition_is_ended(laptop: Laptop) -> None:
    laptop.start("ac-power")

    laptop.set_on_mains(False)
    laptop.story.after_s(4)
    before = laptop.shown()
    laptop.story.after_s(1)
    laptop.story.after_s(0)

    assert before == "running"
    assert laptop.shown() == "cancelled:condition"


def test_a_short_loss_changes_nothing(laptop: Laptop) -> None:
    laptop.start("ac-power")

    laptop.set_on_mains(False)
    laptop.story.after_s(3)
    laptop.set_on_mains(True)
    laptop.story.after_s(3)
    laptop.set_on_mains(False)
    laptop.story.after_s(3)
    laptop.set_on_mains(True)
    laptop.story.after_s(600)

    assert laptop.shown() == "success"


def test_a_run_is_suspended_and_continues_when_its_condition_is_true_again(
    laptop: Laptop,
) -> None:
    laptop.start("ac-power", lost=WhileLost.SUSPEND)
    laptop.story.after_s(100)
    laptop.set_on_mains(False)
    laptop.story.after_s(5)
    suspended, note = laptop.shown(), laptop.run().error_msg
    outlook = laptop.story.client.outlook("backup")
    [(_, active)] = active_lines(outlook, zone=UTC, now=laptop.story.client.now(), mask=None)

    laptop.story.after_s(HOUR_S)
    still = laptop.shown()
    laptop.set_on_mains(True)
    continued, left = laptop.shown(), laptop.run().error_msg
    laptop.story.after_s(494)
    before = laptop.shown()
    laptop.story.after_s(1)

    assert (suspended, still, continued) == ("running+suspended", "running+suspended", "running")
    assert note == "suspended since 2026-03-09T00:01:45Z: it waits for AC power"
    assert active == (
        "run 1, running since 00:00:00, suspended since 00:01:45: it waits for AC power"
    )
    assert left is None
    assert (before, laptop.shown()) == ("running", "success")
    kinds = [event.kind for event in laptop.story.world.events]
    assert kinds.count(EventKind.SUSPENDED) == kinds.count(EventKind.CONTINUED) == 1


def test_the_time_of_a_suspension_is_shown_as_local_time(laptop: Laptop) -> None:
    laptop.start("ac-power", lost=WhileLost.SUSPEND)
    laptop.story.after_s(100.25)
    laptop.set_on_mains(False)
    laptop.story.after_s(5)
    run, now = laptop.run(), laptop.story.client.now()
    here = ZoneInfo("Europe/Berlin")

    words = "suspended since 01:01:45: it waits for AC power"
    assert run.error_msg == "suspended since 2026-03-09T00:01:45.250Z: it waits for AC power"
    assert note_words(run, zone=here, now=now) == words
    assert words in run_sentence(run, zone=here, now=now)


def test_what_the_machine_can_not_tell_ends_no_run(laptop: Laptop) -> None:
    laptop.start("pressure:cpu:5%")

    laptop.story.after_s(600)

    assert laptop.shown() == "success"


def test_a_manual_run_goes_on_without_its_condition(laptop: Laptop) -> None:
    policies = Policies(while_needs=("ac-power",))
    laptop.story.add("backup", "@yearly", lasts_s=60, policies=policies)
    laptop.set_on_mains(False)

    laptop.story.client.run_now("backup")
    laptop.story.after_s(0)
    laptop.story.after_s(60)

    assert laptop.shown() == "success"


def test_what_the_kernel_does_not_report_is_noticed_within_seconds(laptop: Laptop) -> None:
    laptop.machine.write("run/vpn.up", "")
    laptop.start("exists:/run/vpn.up")
    laptop.story.after_s(60)

    (laptop.machine.root / "run" / "vpn.up").unlink()
    for _ in range(20):
        laptop.story.after_s(1)

    assert laptop.shown() == "cancelled:condition"


def test_a_command_can_be_the_condition(laptop: Laptop) -> None:
    laptop.start("command:job 1 7", lasts_s=60)

    for _ in range(30):
        laptop.story.after_s(1)

    assert laptop.shown() == "cancelled:condition"


def test_slow_commands_do_not_start_each_other_and_let_a_run_continue(laptop: Laptop) -> None:
    texts = ("ac-power", "command:job 1 0", "command:job 3 0")
    laptop.start(*texts, lost=WhileLost.SUSPEND, lasts_s=600)
    for _ in range(200):
        laptop.story.after_s(0.5)
    started = sum(body.execution_id < 0 for body in laptop.story.world.bodies)
    laptop.set_on_mains(False)
    laptop.story.after_s(5)
    suspended = laptop.shown()
    laptop.set_on_mains(True)
    for _ in range(40):
        laptop.story.after_s(0.5)

    assert suspended == "running+suspended"
    assert laptop.shown() == "running"
    assert started <= 2 * 11  # each every 10 s


def test_news_do_not_put_off_the_check_of_what_nothing_reports(laptop: Laptop) -> None:
    laptop.start("ac-power", "command:job 1 7", lasts_s=60)

    for _ in range(30):
        laptop.set_on_mains(True)
        laptop.story.after_s(1)

    assert laptop.shown() == "cancelled:condition"


def test_the_machine_is_listened_to_only_while_such_a_run_runs(laptop: Laptop) -> None:
    policies = Policies(while_needs=("ac-power",))
    laptop.story.add("backup", "@daily", lasts_s=60, policies=policies)
    before = laptop.story.engine.step().wake_ms, laptop.story.engine.conditions.filenos()

    laptop.story.after_s(4 * HOUR_S)
    during = laptop.story.engine.conditions.filenos()
    laptop.story.after_s(60)
    laptop.story.after_s(0)

    assert before == (START_MS + 4 * HOUR_S * 1000, [])
    assert len(during) == 2  # of the kernel, and of the system bus
    assert laptop.shown() == "success"
    assert laptop.story.engine.conditions.filenos() == []
    assert laptop.story.engine.step().wake_ms == START_MS + 28 * HOUR_S * 1000


def test_the_next_engine_continues_a_suspended_run(laptop: Laptop) -> None:
    laptop.start("ac-power", lost=WhileLost.SUSPEND)
    laptop.set_on_mains(False)
    laptop.story.after_s(5)
    laptop.story.world.kill_engine(laptop.story.key)
    laptop.story.key = laptop.story.world.start_engine()
    laptop.story.after_s(60)
    suspended = laptop.shown()

    laptop.set_on_mains(True)
    continued = laptop.shown()
    laptop.story.after_s(600)

    assert (suspended, continued) == ("running+suspended", "running")
    assert laptop.shown() == "success"


@pytest.mark.parametrize(
    ("policies", "kind", "message"),
    [
        ({"while_needs": ("success:other",)}, JobKind.COMMAND, "expected a condition of the mach"),
        ({"while_needs": ("moon",)}, JobKind.COMMAND, "condition 'moon' is unknown"),
        ({"while_lost": WhileLost.SUSPEND}, JobKind.CALLABLE, "a function can't be suspended"),
    ],
)
def test_what_can_not_be_watched_is_refused(
    tmp_path: Path, policies: dict[str, Any], kind: JobKind, message: str
) -> None:
    with Client(tmp_path / "edge.db") as client, pytest.raises(InvalidInput, match=message):
        client.add(
            ScheduleSpec(
                name="backup",
                triggers=("@daily",),
                job=Job(kind=kind, argv=("job",)),
                policies=Policies(**policies),
            )
        )


# With a real daemon, supervisor and command.


def state_of(pid_file: Path) -> str:
    """The state of a process as the kernel shows it: T is stopped."""
    pid = pid_file.read_text().strip()
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def add_real(client: Client, folder: Path, name: str, lost: WhileLost) -> tuple[Path, Path]:
    """Add a job that runs while `folder/up` exists; the files of its process ids."""
    main, child = folder / f"{name}.main", folder / f"{name}.child"
    line = f"sleep 300 & echo $! > {child}; echo $$ > {main}; wait"
    spec = ScheduleSpec(
        name=name,
        triggers=("every 1s",),
        job=Job(kind=JobKind.SHELL, argv=(line,)),
        policies=Policies(while_needs=(f"exists:{folder}/up",), while_lost=lost, timeout_s=200.0),
    )
    client.add(spec)
    return main, child


def has_begun(main: Path) -> bool:
    return main.exists() and bool(main.read_text())


def test_the_processes_of_a_run_end(tmp_path: Path) -> None:
    (tmp_path / "up").touch()
    with Client(tmp_path / "edge.db") as client, closing(Daemon(tmp_path / "edge.db")) as daemon:
        main, child = add_real(client, tmp_path, "backup", WhileLost.END)
        wait_until(lambda: has_begun(main), lambda: "a start")
        pidfds = [os.pidfd_open(int(file.read_text())) for file in (main, child)]
        (tmp_path / "up").unlink()
        ended = daemon.wait_for("ended")
        have_ended = [ends(pidfd) for pidfd in pidfds]

    for pidfd in pidfds:
        os.close(pidfd)
    assert (ended["status"], ended["reason"]) == ("cancelled", "condition")
    assert ended["error_msg"] == f"its condition exists:{tmp_path}/up was no longer true"
    assert have_ended == [True, True]


def test_the_processes_of_a_run_stop_and_continue_or_are_cancelled(tmp_path: Path) -> None:
    (tmp_path / "up").touch()
    with Client(tmp_path / "edge.db") as client, closing(Daemon(tmp_path / "edge.db")) as daemon:
        files = [add_real(client, tmp_path, name, WhileLost.SUSPEND) for name in ("backup", "copy")]
        wait_until(lambda: all(has_begun(main) for main, _ in files), lambda: "two starts")
        (tmp_path / "up").unlink()
        daemon.wait_for("suspended")
        daemon.wait_for("suspended")
        wait_until(
            lambda: all(state_of(file) == "T" for pair in files for file in pair),
            lambda: "that they stop",
        )
        [run] = [one for one in client.history("copy") if one.status == "running"]

        client.cancel(run.id)
        daemon.wait_for("ended", schedule="copy")
        (tmp_path / "up").touch()
        daemon.wait_for("continued", schedule="backup")
        wait_until(
            lambda: all(state_of(file) == "S" for file in files[0]), lambda: "that it continues"
        )
        found = client.execution(run.id)

    assert (found.status, found.reason) == ("cancelled", "request")
    assert "suspended" in found.flags
