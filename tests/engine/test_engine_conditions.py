"""Conditions of the machine, told as stories: what waits for them, and what wakes it."""

from __future__ import annotations

import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgecron.base.bus_facts import Connectivity
from edgecron.base.units import to_ms
from edgecron.model.choices import Overlap
from edgecron.model.options import Policies
from tests.support.laptop import Laptop
from tests.support.story import START_MS
from tests.support.tools import private_mounts

HOUR_S = 3600


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def needs(*texts: str, **more: object) -> Policies:
    return Policies(needs=texts, needs_deadline_s=2 * HOUR_S, **more)  # type: ignore[arg-type]


def test_a_run_whose_condition_holds_starts_at_its_time(laptop: Laptop) -> None:
    laptop.story.add("backup", "@hourly", policies=needs("ac-power", "online", "battery:20%"))

    laptop.story.after_s(HOUR_S)

    [run] = laptop.story.runs("backup")
    assert run.started_at == run.plan_at
    assert not laptop.reports.openings


def test_a_run_waits_for_mains_and_starts_when_it_is_back(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("ac-power"))
    laptop.machine.set_on_mains(False)
    laptop.story.after_s(4 * HOUR_S)
    waiting = laptop.shown("backup")

    laptop.story.after_s(600)
    laptop.machine.set_on_mains(True)
    laptop.report()
    laptop.story.after_s(0)

    assert waiting == ["waits for ac-power"]
    [run] = laptop.story.runs("backup")
    assert run.status == "success"
    assert run.started_at is not None
    assert to_ms(run.started_at) == START_MS + (4 * HOUR_S + 600) * 1000


def test_all_conditions_must_hold_at_the_start(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("ac-power", "online"))
    laptop.machine.set_on_mains(False)
    laptop.machine.set_routes()
    laptop.story.after_s(4 * HOUR_S)

    laptop.machine.set_on_mains(True)
    laptop.report()
    laptop.story.after_s(0)
    between = laptop.shown("backup")
    laptop.machine.set_on_mains(False)
    laptop.machine.set_routes("eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0")
    laptop.report()
    laptop.story.after_s(0)

    assert between == ["waits for online"]
    assert laptop.shown("backup") == ["waits for ac-power"]


def test_the_opposite_of_a_condition_can_be_needed(laptop: Laptop) -> None:
    laptop.machine.write("run/presenting", "")
    laptop.story.add("indexer", "@hourly", policies=needs("not:exists:/run/presenting"))
    laptop.story.after_s(HOUR_S)
    waiting = laptop.shown("indexer")

    (laptop.machine.root / "run" / "presenting").unlink()
    laptop.wake_after_s(60)

    assert waiting == ["waits for not:exists:/run/presenting"]
    assert laptop.shown("indexer") == ["success"]


def test_what_the_kernel_does_not_report_is_checked_with_growing_pauses(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("load:0.1"))
    laptop.story.after_s(4 * HOUR_S)

    pauses = [laptop.wake_after_s(HOUR_S) for _ in range(9)]

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert not laptop.reports.openings  # the kernel reports no load


def test_the_machine_is_listened_to_only_while_a_run_waits(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("ac-power"))
    laptop.machine.set_on_mains(False)
    before = laptop.story.engine.step().wake_ms, laptop.story.engine.conditions.filenos()

    laptop.story.after_s(4 * HOUR_S)
    during = laptop.story.engine.conditions.filenos()
    laptop.machine.set_on_mains(True)
    laptop.report()
    laptop.story.after_s(1)

    assert before == (START_MS + 4 * HOUR_S * 1000, [])
    assert len(during) == 2  # of the kernel, and of the system bus
    assert laptop.shown("backup") == ["success"]
    assert laptop.story.engine.conditions.filenos() == []
    assert not laptop.reports.is_open
    assert laptop.story.engine.step().wake_ms == START_MS + 28 * HOUR_S * 1000


def test_a_login_page_is_no_connection_until_somebody_logs_in(laptop: Laptop) -> None:
    bus = laptop.machine.bus
    bus.report(connectivity=Connectivity.PORTAL)
    laptop.story.add("backup", "@daily", policies=needs("online"))
    laptop.story.after_s(4 * HOUR_S)
    laptop.wake_after_s(60)
    laptop.wake_after_s(60)
    waiting = laptop.shown("backup"), laptop.story.runs("backup")[0].error_msg

    fds = laptop.story.engine.conditions.filenos()
    quiet = select.select(fds, [], [], 0)[0]
    bus.report(connectivity=Connectivity.FULL)
    told = select.select(fds, [], [], 0)[0]
    laptop.report()
    laptop.story.after_s(0)

    assert waiting == (["waits for online"], "NetworkManager reports a login page")
    assert (len(quiet), len(told)) == (0, 1)
    assert laptop.shown("backup") == ["success"]
    assert laptop.story.engine.conditions.filenos() == []
    assert not bus.is_followed


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("unmetered", {"is_metered": True}, {"is_metered": False}),
        ("network:Hotel 7", {}, {"networks": frozenset({"Hotel 7"})}),
        ("ac-power", {"is_on_battery": True}, {"is_on_battery": False}),
        ("battery:50%", {"battery_percent": 20.0}, {"battery_percent": 50.0}),
        ("idle:10m", {"is_idle": False}, {"is_idle": True}),
    ],
)
def test_the_services_of_the_system_bus_wake_a_run(
    laptop: Laptop, text: str, before: dict[str, object], after: dict[str, object]
) -> None:
    laptop.machine.bus.report(**before)
    laptop.story.add("backup", "@daily", policies=needs(text))
    laptop.story.after_s(4 * HOUR_S)
    waiting = laptop.shown("backup")

    laptop.machine.bus.report(**after)
    laptop.report()
    laptop.story.after_s(0)

    assert waiting == [f"waits for {text}"]
    assert laptop.shown("backup") == ["success"]


def test_a_run_whose_condition_holds_leaves_the_system_bus_alone(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("unmetered"))
    laptop.machine.bus.report(is_metered=False)
    before = laptop.machine.bus.looks

    laptop.story.after_s(4 * HOUR_S)

    assert (before, laptop.machine.bus.looks) == (0, 1)
    assert laptop.shown("backup") == ["success"]
    assert not laptop.machine.bus.is_followed


def test_a_system_bus_that_does_not_answer_holds_nothing_up_but_its_run(laptop: Laptop) -> None:
    laptop.machine.bus.facts = None
    laptop.story.add("backup", "@daily", policies=needs("ac-power"))
    laptop.story.add("other", "@daily")
    laptop.story.after_s(4 * HOUR_S)
    waiting = laptop.shown("backup"), laptop.shown("other")

    laptop.machine.bus.report()
    laptop.report()
    laptop.story.after_s(0)

    assert waiting == (["waits for ac-power"], ["success"])
    assert laptop.shown("backup") == ["success"]


def test_a_run_that_needs_what_no_service_reports_says_so(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("unmetered"))
    laptop.story.after_s(4 * HOUR_S)
    laptop.wake_after_s(60)
    laptop.wake_after_s(60)

    [run] = laptop.story.runs("backup")
    assert (run.waiting_for, run.error_msg) == (
        "unmetered",
        "NetworkManager does not report it",
    )


_LOADED = """
import sys
import edgecron.engine.host
words = ("jeepney", "system_bus", "bus_services", "bus_facts")
print(sorted(name for name in sys.modules if any(word in name for word in words)))
"""


def test_an_engine_does_not_load_the_library_of_the_system_bus() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_at_the_deadline_it_is_skipped_with_its_reason(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("ac-power"))
    laptop.machine.set_on_mains(False)
    laptop.story.after_s(4 * HOUR_S)

    laptop.story.after_s(2 * HOUR_S)

    [run] = laptop.story.runs("backup")
    assert (str(run.status), str(run.reason)) == ("skipped", "condition")
    assert run.error_msg == "needed AC power, which was not true within 2h"


def test_a_run_that_is_given_up_does_not_hold_back_the_next_one(laptop: Laptop) -> None:
    """With the default deadline, a daily run is given up just when the next one is due."""
    laptop.machine.set_on_mains(False)
    laptop.story.add("backup", "@daily", policies=Policies(needs=("ac-power",)))

    laptop.story.after_s(4 * HOUR_S)
    laptop.story.after_s(24 * HOUR_S)
    laptop.clock.suspend_ms(25 * HOUR_S * 1000)
    laptop.story.after_s(0)

    given_up = "skipped:condition"
    assert laptop.shown("backup") == [given_up, given_up, "waits for ac-power"]


def test_a_run_that_an_edit_wakes_too_late_does_not_hold_back_the_next_one(
    laptop: Laptop,
) -> None:
    laptop.story.add("fetch", "@yearly")
    laptop.story.add("backup", "@daily", policies=needs("success:fetch"))
    laptop.story.after_s(4 * HOUR_S)
    waiting = laptop.shown("backup")

    laptop.story.client.edit("backup", lambda spec: replace(spec, description="of all"))
    laptop.clock.suspend_ms(24 * HOUR_S * 1000)
    laptop.story.after_s(0)

    assert waiting == ["waits for success:fetch"]
    assert laptop.shown("backup") == ["skipped:condition", "waits for success:fetch"]


def test_a_manual_run_waits_for_nothing(laptop: Laptop) -> None:
    laptop.story.add("backup", "@yearly", policies=needs("ac-power"))
    laptop.machine.set_on_mains(False)

    laptop.story.client.run_now("backup")
    laptop.story.after_s(0)

    assert laptop.shown("backup") == ["success"]


def test_a_run_that_waited_for_a_place_is_checked_when_it_gets_one(laptop: Laptop) -> None:
    policies = needs("ac-power", overlap=Overlap.QUEUE)
    laptop.story.add("backup", "every 1h", lasts_s=HOUR_S + 600, policies=policies)
    laptop.story.after_s(HOUR_S)
    laptop.story.after_s(HOUR_S)
    before = laptop.shown("backup")

    laptop.machine.set_on_mains(False)
    laptop.story.after_s(600)

    assert before == ["running", "queued"]
    assert laptop.shown("backup") == ["success", "waits for ac-power"]


def test_after_a_sleep_the_machine_may_settle_first(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("online"))
    laptop.story.engine.step()

    laptop.clock.suspend_ms(5 * HOUR_S * 1000)
    laptop.story.engine.step()
    laptop.story.engine.step()
    before = laptop.shown("backup")
    waited_s = laptop.wake_after_s(60)

    assert before == ["waits for online"]
    assert waited_s == pytest.approx(10)
    assert laptop.shown("backup") == ["success"]


def test_what_this_machine_can_not_tell_holds_nothing_up_but_the_run(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("pressure:cpu:5%"))
    laptop.story.add("other", "@daily")

    laptop.story.after_s(4 * HOUR_S)

    assert laptop.shown("backup") == ["waits for pressure:cpu:5%"]
    assert laptop.shown("other") == ["success"]


def test_a_path_that_does_not_answer_holds_nothing_up_and_starts_its_run_later(
    laptop: Laptop,
) -> None:
    laptop.machine.write("mnt/nas/file", "")
    laptop.machine.hang("/mnt/nas/file")
    laptop.story.add("backup", "@daily", policies=needs("exists:/mnt/nas/file"))
    laptop.story.add("other", "@daily")
    laptop.story.after_s(4 * HOUR_S)
    laptop.wake_after_s(60)
    laptop.wake_after_s(60)
    waiting = laptop.shown("backup"), laptop.story.runs("backup")[0].error_msg
    [fd] = laptop.story.engine.conditions.filenos()

    laptop.machine.answer()
    assert select.select([fd], [], [], 10)[0] == [fd]
    laptop.report()
    laptop.story.after_s(0)

    assert laptop.shown("other") == ["success"]
    assert waiting == (["waits for exists:/mnt/nas/file"], "/mnt/nas/file did not answer")
    assert laptop.shown("backup") == ["success"]
    assert laptop.story.runs("backup")[0].error_msg is None
    assert laptop.story.engine.conditions.filenos() == []


def test_a_run_that_was_given_up_says_that_its_path_did_not_answer(laptop: Laptop) -> None:
    laptop.machine.hang("/mnt/nas/file")
    laptop.story.add("backup", "@daily", policies=needs("exists:/mnt/nas/file"))
    laptop.story.after_s(4 * HOUR_S)
    laptop.wake_after_s(60)
    laptop.wake_after_s(60)

    laptop.story.after_s(2 * HOUR_S)
    laptop.machine.answer()

    [run] = laptop.story.runs("backup")
    assert run.error_msg == (
        "needed /mnt/nas/file to exist, which was not true within 2h: /mnt/nas/file did not answer"
    )


def test_a_run_starts_once_its_command_has_succeeded(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("command:job 3 0"))
    laptop.story.after_s(4 * HOUR_S)
    waiting = laptop.shown("backup")

    laptop.story.after_s(3)

    assert waiting == ["waits for command:job 3 0"]
    [run] = laptop.story.runs("backup")
    assert run.status == "success"
    assert run.started_at is not None
    assert to_ms(run.started_at) == START_MS + (4 * HOUR_S + 3) * 1000


@pytest.mark.parametrize("seconds", [(0, 2), (2, 0), (3, 4), (4, 3), (8, 1), (9, 9)])
def test_several_slow_commands_can_be_true_together(
    laptop: Laptop, seconds: tuple[int, int]
) -> None:
    texts = [f"command:job {one} 0" for one in seconds]
    laptop.story.add("backup", "@daily", policies=needs(*dict.fromkeys(texts)))
    laptop.story.after_s(4 * HOUR_S)

    for _ in range(80):
        laptop.story.after_s(0.25)

    assert laptop.shown("backup") == ["success"]


def test_a_command_that_fails_is_run_again_after_growing_pauses(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("command:job 0 7"))
    laptop.story.after_s(4 * HOUR_S)

    pauses = [laptop.wake_after_s(HOUR_S) for _ in range(9)]
    asked = sum(body.execution_id < 0 for body in laptop.story.world.bodies)

    assert [pause for pause in pauses if pause][:7] == [1, 2, 4, 8, 16, 32, 60]
    assert asked <= 10
    [run] = laptop.story.runs("backup")
    assert (run.waiting_for, run.error_msg) == ("command:job 0 7", "exit code 7")


def test_reports_of_the_machine_start_a_command_only_now_and_then(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("command:job 0 7"))
    laptop.story.after_s(4 * HOUR_S)
    for _ in range(15):
        laptop.wake_after_s(HOUR_S)
    laptop.story.after_s(20)

    def asked_within_s(seconds: int) -> int:
        before = len(laptop.story.world.bodies)
        for _ in range(10 * seconds):
            laptop.story.engine.conditions.hear()
            laptop.story.after_s(0.1)
        return len(laptop.story.world.bodies) - before

    assert asked_within_s(1) == 1  # The first report starts it immediately.
    assert 3 <= asked_within_s(60) <= 7
    assert [laptop.wake_after_s(HOUR_S) for _ in range(9)][-1] == 60


def test_later_fires_start_the_command_of_a_waiting_run_only_now_and_then(laptop: Laptop) -> None:
    laptop.story.add("backup", "every 2s", policies=needs("command:job 0 7"))

    for _ in range(90):
        laptop.story.after_s(1)

    assert 5 <= len(laptop.story.world.bodies) <= 13


def test_reports_of_the_machine_do_not_make_answers_of_commands_old(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("command:job 1 0", "command:job 3 0"))
    laptop.story.after_s(4 * HOUR_S)

    for _ in range(80):
        laptop.story.engine.conditions.hear()
        laptop.story.after_s(0.25)

    assert laptop.shown("backup") == ["success"]


def test_the_opposite_of_a_command_holds_if_it_fails(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("not:command:job 0 7"))

    laptop.story.after_s(4 * HOUR_S)
    laptop.story.after_s(0)

    assert laptop.shown("backup") == ["success"]


def test_no_command_is_run_while_no_run_waits_for_it(laptop: Laptop) -> None:
    laptop.story.add("backup", "@daily", policies=needs("command:job 0 0"))
    laptop.story.add("other", "every 10s")
    laptop.story.after_s(4 * HOUR_S)
    laptop.story.after_s(0)

    for _ in range(20):
        laptop.story.after_s(10)

    assert sum(body.execution_id < 0 for body in laptop.story.world.bodies) == 1


def test_a_command_belongs_to_its_schedule(laptop: Laptop) -> None:
    """Two schedules with the same command have two environments, and two answers."""
    for name in ("first", "second"):
        laptop.story.add(name, "@daily", policies=needs("command:job 0 0"))

    laptop.story.after_s(4 * HOUR_S)
    laptop.story.after_s(0)

    assert [laptop.shown(name) for name in ("first", "second")] == [["success"], ["success"]]
    asked = sorted(body.schedule for body in laptop.story.world.bodies if body.execution_id < 0)
    assert asked == ["first", "second"]


_LISTEN = """
import fcntl, os, select, socket, struct, subprocess, sys
from edgecron.engine.sleep import KernelReports

reports = KernelReports()
fd = reports.open()
poll = select.poll()
poll.register(fd, select.POLLIN)

def has_change():
    found = bool(poll.poll(5_000))
    reports.clear()
    return found

quiet = bool(poll.poll(0))
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(link, 0x8914, struct.pack("16sh", b"lo", 0x1))  # SIOCSIFFLAGS: up
network = has_change()
after = bool(poll.poll(0))
subprocess.run(["mount", "-t", "tmpfs", "none", sys.argv[1]], check=True)
mount = has_change()
last = bool(poll.poll(0))
reports.close()
print(quiet, network, after, mount, last)
"""


def test_the_kernel_reports_networks_and_mounts(tmp_path: Path) -> None:
    done = subprocess.run(
        [*private_mounts(), "-n", sys.executable, "-c", _LISTEN, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == ["False", "True", "False", "True", "False"], done.stderr


def test_a_wait_beyond_its_deadline_skips_no_run_after_another(laptop: Laptop) -> None:
    story = laptop.story
    laptop.machine.set_on_mains(False)
    story.add("load", "0 21,22 8 3 *", lasts_s=1800, policies=Policies(overlap=Overlap.ALLOW))
    policies = Policies(needs=("ac-power",), needs_deadline_s=3 * HOUR_S)
    story.add("report", "after load", policies=policies)
    for _ in range(2):
        story.after_s(HOUR_S)
    assert laptop.shown("report") == ["waits for ac-power"]

    laptop.clock.advance_ms(6 * HOUR_S * 1000)  # until 04:00: the machine is asleep
    story.after_s(0)

    assert laptop.shown("report") == ["skipped:condition", "waits for ac-power"]
