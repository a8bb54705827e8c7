"""Schedules that run on each machine."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from edgecron.base.errors import InvalidInput, LeaseLost
from edgecron.base.values import replace
from edgecron.model.choices import CatchUp, Cause
from edgecron.model.options import Policies
from edgecron.model.schedule import Schedule
from edgecron.planning.next_fire import Fire
from tests.engine.machines import Machine, expire
from tests.simulation.world import World
from tests.support.fakemachine import FakeMachine
from tests.support.specs import enqueue
from tests.support.story import START_MS, a_spec
from tests.support.tools import need_packages

need_packages("psycopg")

HOUR_S = 3600
EACH = Policies(on="each")


def after_s(machine: Machine, seconds: int) -> None:
    """Let time pass on a machine, then start due runs and record ended ones."""
    machine.after_s(seconds)
    machine.after_s(0)


def run_by_hand(machine: Machine, schedule: Schedule) -> None:
    """Queue a manual run in each scope that the schedule has."""
    now_ms = machine.world.clock.now_ms()
    fire = Fire(plan_ms=now_ms, due_ms=now_ms, cause=Cause.MANUAL, fire_key="manual:1")
    enqueue(machine.store, schedule, fire, now_ms=now_ms)


def scopes(machine: Machine, name: str = "scan") -> list[str]:
    """The machine and the status of each run, oldest first."""
    words = (f"{run.scope_id} {run.status}" for run in machine.runs(name))
    return sorted(words)


def test_each_machine_runs_a_due_schedule_once(first: Machine, second: Machine) -> None:
    first.add("scan", "every 1h", on="each")
    after_s(first, 0)
    after_s(second, 0)
    for _ in range(2):
        after_s(first, HOUR_S)
        after_s(second, HOUR_S)
        after_s(first, 1)
        after_s(second, 1)

    assert scopes(first) == ["first success"] * 2 + ["second success"] * 2
    assert len(first.world.bodies) == len(second.world.bodies) == 2


def test_max_runs_counts_each_time_once_for_all_machines(first: Machine, second: Machine) -> None:
    first.add("scan", "every 1h", on="each", max_runs=2)
    after_s(first, 0)
    after_s(second, 0)
    for _ in range(4):
        after_s(first, HOUR_S)
        after_s(second, HOUR_S)

    assert scopes(first) == ["first success"] * 2 + ["second success"] * 2


def test_a_machine_that_comes_later_joins(first: Machine, url: str, tmp_path: Path) -> None:
    first.add("scan", "every 1h", on="each")
    after_s(first, HOUR_S)
    third = Machine("third", url, tmp_path)
    after_s(third, HOUR_S)
    after_s(first, HOUR_S)
    after_s(third, HOUR_S)
    after_s(first, 1)
    found = scopes(first)
    third.store.close()

    assert found == ["first success", "first success", "third success"]


def test_one_run_waits_for_a_machine_that_is_away(first: Machine, second: Machine) -> None:
    first.add("scan", "every 1h", on="each")
    after_s(first, 0)
    after_s(second, 0)
    expire(first.store, "second")
    for _ in range(3):
        after_s(first, HOUR_S)
    away = scopes(first)
    second.world.clock.advance_ms(1000 * 3 * HOUR_S)
    with pytest.raises(LeaseLost):
        second.engine.step()
    after_s(second, 1)
    after_s(second, 1)

    assert away == ["first success"] * 3 + ["second queued", "second skipped"]
    [skipped] = [run for run in first.runs("scan") if run.status == "skipped"]
    assert (skipped.reason, skipped.error_code, skipped.missed_count) == ("misfire", "off", 2)
    assert "second success" in scopes(first)


def test_with_catch_up_skip_no_run_waits_for_a_machine_that_is_away(
    first: Machine, second: Machine
) -> None:
    first.add("scan", "every 1h", on="each", catch_up=CatchUp.SKIP)
    after_s(first, 0)
    after_s(second, 0)
    expire(first.store, "second")
    after_s(first, HOUR_S)

    assert scopes(first) == ["first success", "second skipped"]


def test_a_run_queued_before_any_machine_joined_goes_to_the_first(first: Machine) -> None:
    first.add("scan", "on demand", on="each")
    run_by_hand(first, first.store.get_schedule("scan"))
    after_s(first, 0)

    assert scopes(first) == ["first success"]


def test_a_forgotten_machine_leaves_and_its_queued_runs_are_cancelled(
    first: Machine, second: Machine
) -> None:
    first.add("scan", "every 1h", on="each")
    after_s(first, 0)
    after_s(second, 0)
    expire(first.store, "second")
    after_s(first, HOUR_S)
    count = first.store.forget_machine("second", now_ms=first.world.clock.now_ms())
    after_s(first, HOUR_S)

    assert count == 1
    assert scopes(first) == ["first success", "first success", "second cancelled"]
    assert first.store.get_schedule("scan").spec.scopes == (("machine", "first"),)


def test_the_last_machine_that_is_forgotten_can_join_again(first: Machine, second: Machine) -> None:
    first.add("scan", "every 1h", on="each")
    after_s(first, 0)
    first.store.forget_machine("first", now_ms=first.world.clock.now_ms())
    before = first.store.get_schedule("scan").spec.scopes
    second.add("other", "every 1h")
    after_s(first, 1)

    assert before == (("global", ""),)
    assert first.store.get_schedule("scan").spec.scopes == (("machine", "first"),)


@pytest.mark.parametrize(
    ("on", "expected"),
    [("each", ["first success", "second success"]), ("first", [" success"])],
)
def test_an_edit_keeps_the_machines_unless_it_changes_on(
    first: Machine, second: Machine, on: str, expected: list[str]
) -> None:
    first.add("scan", "every 1h", on="each")
    after_s(first, 0)
    after_s(second, 0)
    first.place(first.store.get_schedule("scan"), on=on)
    after_s(first, HOUR_S)
    after_s(second, HOUR_S)
    after_s(first, 1)

    assert scopes(first) == expected


def test_a_retry_stays_on_its_machine(first: Machine, second: Machine) -> None:
    first.add("scan", "every 1h", on="each", lasts_s=600, retries=True)
    after_s(first, 0)
    after_s(second, 0)
    after_s(first, HOUR_S)
    after_s(second, HOUR_S)
    expire(first.store, "second")
    after_s(first, 60)
    after_s(first, 60)

    retries = [run for run in first.runs("scan") if run.attempt == 2]
    assert [(run.scope_id, run.status) for run in retries] == [("second", "queued")]


def test_other_scopes_and_boots_are_refused() -> None:
    with pytest.raises(InvalidInput, match="the machines are the scopes"):
        a_spec("scan", "every 1h", policies=EACH, scopes=(("device", "pump"),))
    with pytest.raises(InvalidInput, match="the boot of one machine"):
        a_spec("scan", "on boot", policies=EACH)


def test_what_comes_after_runs_on_the_machine_of_the_run_before(
    first: Machine, second: Machine
) -> None:
    first.add("scan", "every 1h", on="each")
    first.add("send", "after scan", on="each")
    after_s(first, 0)
    after_s(second, 0)
    for _ in range(2):
        after_s(first, HOUR_S // 2)
        after_s(second, HOUR_S // 2)
    for _ in range(3):
        after_s(first, 1)
        after_s(second, 1)

    assert scopes(first) == ["first success", "second success"]
    assert scopes(first, "send") == ["first success", "second success"]


def test_a_manual_run_in_one_scope_runs_on_that_machine_only(
    first: Machine, second: Machine
) -> None:
    first.add("scan", "on demand", on="each")
    after_s(first, 0)
    after_s(second, 0)
    schedule = first.store.get_schedule("scan")
    spec = replace(schedule.spec, scopes=(("machine", "second"),))
    run_by_hand(first, replace(schedule, spec=spec))
    after_s(first, 1)
    after_s(second, 1)

    assert scopes(first) == ["second success"]


def test_an_edit_knows_the_machines_that_joined_or_left_meanwhile(
    first: Machine, second: Machine
) -> None:
    first.add("scan", "every 1h", on="each")
    after_s(first, 0)
    read = first.store.get_schedule("scan")
    after_s(second, 0)
    first.place(read, on="each", trigger="every 2h")
    joined = first.store.get_schedule("scan")
    first.store.forget_machine("second", now_ms=first.world.clock.now_ms())
    first.place(joined, on="each", trigger="every 1h")
    left = first.store.get_schedule("scan")

    assert joined.spec.scopes == (("machine", "first"), ("machine", "second"))
    assert left.spec.scopes == (("machine", "first"),)


def laptop(name: str, url: str, folder: Path, *, is_on_mains: bool) -> Machine:
    """Make a machine whose conditions can be known."""
    world = World(folder / name, random=Random(0), start_ms=START_MS)
    facts = FakeMachine(folder / name / "root", world.clock)
    facts.set_on_mains(is_on_mains)
    return Machine(name, url, folder, world=world, hosting=facts.hosting())


def test_the_conditions_of_each_machine_are_its_own(url: str, tmp_path: Path) -> None:
    first = laptop("first", url, tmp_path, is_on_mains=False)
    second = laptop("second", url, tmp_path, is_on_mains=True)
    first.add("scan", "every 1h", on="each", needs=("ac-power",))
    after_s(first, 0)
    after_s(second, 0)
    after_s(first, HOUR_S)
    after_s(second, HOUR_S)
    for _ in range(3):
        after_s(second, 1)
        after_s(first, 1)
    found = scopes(first)
    for one in (first, second):
        one.store.close()

    assert found == ["first skipped", "second success"]


@pytest.mark.parametrize(
    ("is_first_on_mains", "needs", "unmet"),
    [
        (True, ("ac-power",), "AC power"),
        (False, ("ac-power", "success:fetch"), "a success of fetch"),
    ],
)
def test_a_machine_gives_up_a_run_of_another_one_for_the_reason_of_that_machine(
    url: str, tmp_path: Path, is_first_on_mains: bool, needs: tuple[str, ...], unmet: str
) -> None:
    first = laptop("first", url, tmp_path, is_on_mains=is_first_on_mains)
    second = laptop("second", url, tmp_path, is_on_mains=not is_first_on_mains)
    first.add("fetch", "on demand")
    first.add("scan", "every 1h", on="each", needs=needs, needs_deadline_s=600)
    after_s(first, 0)
    after_s(second, 0)
    after_s(first, HOUR_S)
    after_s(second, HOUR_S)
    after_s(first, HOUR_S)
    found = [run for run in first.runs("scan") if run.scope_id == "second"]
    for one in (first, second):
        one.store.close()

    skipped, queued = found
    assert (skipped.status, skipped.reason, queued.status) == ("skipped", "condition", "queued")
    assert skipped.error_msg == f"needed {unmet}, which was not true within 10m"


def test_a_machine_that_is_away_does_not_stop_times_after_the_end(
    first: Machine, second: Machine
) -> None:
    first.add("scan", "every 1h after end", on="each")
    after_s(first, 0)
    after_s(second, 0)
    expire(first.store, "second")
    for _ in range(3):
        after_s(first, HOUR_S)
        after_s(first, 1)

    assert scopes(first) == ["first success"] * 3 + ["second queued", "second skipped"]


def test_runs_of_a_machine_do_not_keep_it_from_joining_again(
    first: Machine, second: Machine
) -> None:
    first.add("scan", "on demand", on="each")
    after_s(first, 0)
    now_ms = first.world.clock.now_ms()
    fire = Fire(plan_ms=now_ms, due_ms=now_ms, cause=Cause.MANUAL, fire_key="manual:1")
    enqueue(first.store, first.store.get_schedule("scan"), fire, now_ms=now_ms)
    after_s(first, 1)
    first.place(first.store.get_schedule("scan"), on="away")
    enqueue(first.store, first.store.get_schedule("scan"), fire, now_ms=now_ms)
    first.place(first.store.get_schedule("scan"), on="each")
    second.add("other", "on demand")
    after_s(first, 1)
    after_s(first, 1)

    assert first.store.get_schedule("scan").spec.scopes == (("machine", "first"),)
    assert scopes(first) == [" success", "first success"]


def test_what_comes_after_the_runs_of_a_forgotten_machine_is_cancelled(
    first: Machine, second: Machine
) -> None:
    first.add("scan", "every 1h", on="each")
    first.add("send", "after scan:any", on="each")
    after_s(first, 0)
    after_s(second, 0)
    expire(first.store, "second")
    after_s(first, HOUR_S)
    after_s(first, 1)
    first.store.forget_machine("second", now_ms=first.world.clock.now_ms())

    assert scopes(first, "send") == ["first success", "second cancelled"]
