"""Engines on several machines that share a database of a server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from edgecron.base.errors import LeaseLost
from edgecron.base.paths import read_location
from edgecron.base.units import DAY_MS, from_ms
from edgecron.client.local import Client
from edgecron.client.notice_rules import load_recorded, sync_config
from edgecron.engine.events import EventKind
from edgecron.engine.state_folder import name_machine
from edgecron.formats.config import load
from edgecron.model.choices import Cause, OnLost, Status
from edgecron.planning.next_fire import Fire
from edgecron.store.contract import LEASE_MS, RENEW_MS
from tests.engine.machines import Machine, expire
from tests.simulation.world import World
from tests.support.clock import FakeClock
from tests.support.mailbox import OPS
from tests.support.specs import enqueue
from tests.support.story import START_MS
from tests.support.tools import need_packages

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

need_packages("psycopg")

TERM_S = LEASE_MS // 1000
MINUTE_S = 60


def take_over(first: Machine, second: Machine) -> None:
    """Let the first machine be out of reach until the second one takes its runs over."""
    second.after_s(0)
    expire(second.store, "first")
    second.after_s(TERM_S)


def test_a_machine_that_renews_its_lease_keeps_its_runs(first: Machine, second: Machine) -> None:
    first.add("sync", "every 1h", lasts_s=300)
    first.after_s(3600)

    for _ in range(4):
        second.after_s(TERM_S)
        first.after_s(TERM_S)
    first.after_s(MINUTE_S)

    assert first.statuses("sync") == ["success"]


def test_runs_of_a_machine_out_of_reach_are_interrupted(first: Machine, second: Machine) -> None:
    first.add("sync", "every 1h", lasts_s=300)
    first.after_s(3600)

    take_over(first, second)

    [run] = second.runs("sync")
    assert (run.status, run.reason) == (Status.INTERRUPTED, "lost")
    assert "lease" in (run.error_msg or "")


def test_such_a_run_is_retried_only_if_its_schedule_says_so(
    first: Machine, second: Machine
) -> None:
    first.add("again", "every 1h", lasts_s=300, retries=True)
    first.after_s(3600)

    take_over(first, second)
    second.after_s(1)

    assert second.statuses("again") == ["interrupted:lost", "running"]
    assert second.live_bodies() == 1


def test_nobody_is_judged_before_a_whole_term(first: Machine, second: Machine) -> None:
    # If the server was away, the leases of all machines end while they reconnect.
    first.add("sync", "every 1h", lasts_s=300)
    first.after_s(3600)
    expire(first.store, "first")

    second.after_s(0)
    second.after_s(TERM_S - 1)
    early = second.statuses("sync")
    second.after_s(TERM_S // 2)

    assert (early, second.statuses("sync")) == (["running"], ["interrupted:lost"])


def test_a_machine_that_comes_back_ends_the_runs_that_it_lost(
    first: Machine, second: Machine
) -> None:
    first.add("sync", "every 1h", lasts_s=300)
    first.after_s(3600)
    take_over(first, second)

    with pytest.raises(LeaseLost, match="could not reach this engine"):
        first.after_s(TERM_S)
    first.after_s(1)
    first.after_s(1)

    assert first.live_bodies() == 0
    assert first.statuses("sync") == ["interrupted:lost"]
    [event] = [one for one in first.events if one.kind is EventKind.TAKEN_OVER]
    assert event.details == {"runs": 1, "on_lost": "end"}


def test_it_can_leave_them_and_writes_nothing(url: str, tmp_path: Path, second: Machine) -> None:
    first = Machine("first", url, tmp_path, on_lost=OnLost.LEAVE)
    first.add("sync", "every 1h", lasts_s=300)
    first.after_s(3600)
    take_over(first, second)

    with pytest.raises(LeaseLost):
        first.after_s(TERM_S)
    first.after_s(1)
    assert first.live_bodies() == 1
    first.after_s(300)

    assert first.statuses("sync") == ["interrupted:lost"]
    first.store.close()


class _Meanwhile(World):
    """A world in which something happens once, as an engine asks about the others."""

    happens: Callable[[], object] | None = None

    def let_others_ask(self, key: str) -> None:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        super().let_others_ask(key)


@pytest.mark.failure(89)
def test_a_run_that_starts_while_an_engine_looks_for_forgotten_ones_goes_on(
    url: str, tmp_path: Path
) -> None:
    world = _Meanwhile(tmp_path / "first", random=Random(0), start_ms=START_MS)
    first = Machine("first", url, tmp_path, world=world)
    first.add("sync", "every 1h", lasts_s=300)
    first.after_s(1)
    again = Machine("again", url, tmp_path, world=world)

    def fire_and_die() -> None:
        first.after_s(3600)
        world.lose_engine("engine-first")

    world.happens = fire_and_die
    again.after_s(1)

    assert world.happens is None
    assert (again.live_bodies(), again.statuses("sync")) == (1, ["running"])
    first.store.close()
    again.store.close()


def test_a_machine_taken_for_dead_claims_nothing_until_it_registers_again(
    first: Machine, second: Machine
) -> None:
    first.after_s(0)
    second.after_s(TERM_S)
    expire(second.store, "first")
    second.after_s(TERM_S)
    first.add("sync", "every 10s", lasts_s=1)

    with pytest.raises(LeaseLost, match="lost its lease"):
        first.after_s(10)  # Its lease is not due yet: the server refuses the claim.
    refused = first.live_bodies(), first.statuses("sync")
    first.after_s(1)

    assert refused == (0, [])
    assert first.statuses("sync") == ["running"]
    assert first.live_bodies() == 1


def test_commands_of_a_stopped_engine_wait_an_hour_for_the_next_one(
    first: Machine, second: Machine
) -> None:
    first.add("sync", "every 1h", lasts_s=300)
    first.after_s(3600)
    second.after_s(0)

    first.engine.drain()
    first.engine.retire()
    for _ in range(20):
        second.after_s(TERM_S)
    waited = second.statuses("sync")
    expire(second.store, "first")
    for _ in range(11):
        second.after_s(TERM_S)

    assert (waited, second.statuses("sync")) == (["running"], ["interrupted:lost"])


def test_an_engine_that_registers_again_keeps_the_runs_that_no_other_has_ended(
    first: Machine, second: Machine
) -> None:
    first.add("sync", "every 1h", lasts_s=300)
    first.after_s(3600)
    [run] = first.runs("sync")
    assert run.engine_id is not None
    second.store.note_death(run.engine_id)  # and the judge dies before it ends the run

    with pytest.raises(LeaseLost):
        first.after_s(TERM_S)
    first.after_s(1)
    first.engine.recovery.suspect()
    first.after_s(1)
    kept = first.runs("sync")[0].engine_id
    first.after_s(300)

    assert kept not in (None, run.engine_id)
    assert first.statuses("sync") == ["success"]


def test_a_lease_renewed_during_the_judgement_keeps_its_engine(
    first: Machine, second: Machine
) -> None:
    first.after_s(0)
    second.after_s(0)
    engine_id = first.engine.engine_id
    assert engine_id is not None

    renewed = second.store.note_death(engine_id, by_lease=True)
    expire(second.store, "first")
    ended = second.store.note_death(engine_id, by_lease=True)

    assert (renewed, ended) == (False, True)


def test_what_an_engine_notes_after_a_lost_lease_is_in_its_new_row(
    first: Machine, second: Machine
) -> None:
    first.after_s(0)
    take_over(first, second)
    with pytest.raises(LeaseLost):
        first.after_s(TERM_S)
    first.after_s(1)

    first.world.clock.synchronised = False
    first.world.clock.step_ms(-1_000_000_000_000)  # to a year before its release
    first.after_s(1)

    rows = first.store.rows("SELECT id FROM engines WHERE untrusted_since_ms IS NOT NULL")
    assert rows == [(first.engine.engine_id,)]


def test_a_heartbeat_wakes_no_other_engine(first: Machine, second: Machine) -> None:
    first.after_s(0)
    second.after_s(0)
    mark = second.store.change_mark

    first.after_s(TERM_S)

    assert second.store.change_mark == mark


def test_an_idle_engine_asks_the_server_twice_a_minute(
    first: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first.after_s(0)
    first.after_s(1)
    asked = []
    run = first.store.rows
    monkeypatch.setattr(first.store, "rows", lambda *args: asked.append(args) or run(*args))

    for _ in range(60):
        assert first.engine.look_in_ms is not None
        first.world.clock.advance_ms(first.engine.look_in_ms)
        first.engine.has_changed()

    minutes = (first.world.clock.now_ms() - START_MS) / 60_000
    assert len(asked) <= 2 * minutes + 10  # every ten minutes, it looks for dead engines


def test_an_idle_engine_looks_as_soon_as_the_lease_of_another_machine_ends(
    first: Machine, second: Machine
) -> None:
    first.after_s(0)
    second.after_s(0)
    with second.store.transaction():  # The first machine has not renewed its lease for long.
        second.store.change(
            "UPDATE engines SET stale_after = server_ms() + 10000 WHERE machine = 'first'"
        )

    second.world.clock.advance_ms(RENEW_MS)
    second.engine.has_changed()

    assert second.engine.look_in_ms is not None
    assert 9_000 <= second.engine.look_in_ms <= 11_000


def test_a_machine_keeps_its_name_and_a_clone_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = name_machine(tmp_path)
    again = name_machine(tmp_path)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="clone"))
    clone = name_machine(tmp_path)

    assert first == again
    assert clone.startswith("clone/")
    assert clone.rpartition("/")[2] != first.rpartition("/")[2]


def test_a_schedule_placed_on_a_machine_runs_only_there(first: Machine, second: Machine) -> None:
    first.add("sync", "every 1h", on="second")
    first.after_s(0)
    first.after_s(3600)
    before = first.statuses("sync")
    second.after_s(3600)
    second.after_s(1)

    assert (before, second.statuses("sync")) == ([], ["success"])
    assert (len(first.world.bodies), len(second.world.bodies)) == (0, 1)


def test_a_schedule_with_a_label_runs_on_machines_that_have_it(
    first: Machine, url: str, tmp_path: Path
) -> None:
    berlin = Machine("third", url, tmp_path, labels=("berlin", "ssd"))
    first.add("sync", "every 1h", on="label:berlin")
    first.after_s(3600)
    berlin.after_s(3600)
    berlin.after_s(1)
    berlin.store.close()

    assert first.statuses("sync") == ["success"]
    assert (len(first.world.bodies), len(berlin.world.bodies)) == (0, 1)


def test_a_run_that_waits_for_a_machine_follows_an_edit_to_another(
    first: Machine, second: Machine
) -> None:
    first.add("sync", "every 1h", on="third")
    schedule = first.store.get_schedule("sync")
    fire = Fire(
        plan_ms=START_MS, due_ms=START_MS, cause=Cause.MANUAL, source=None, fire_key="manual:1"
    )
    enqueue(first.store, schedule, fire, now_ms=START_MS)
    first.after_s(1)
    second.after_s(1)
    waiting = first.statuses("sync")
    first.place(schedule, on="second")
    first.after_s(1)
    second.after_s(1)
    second.after_s(1)

    assert (waiting, second.statuses("sync")) == (["queued"], ["success"])
    assert (len(first.world.bodies), len(second.world.bodies)) == (0, 1)


@pytest.mark.parametrize("on", ["any", "second"])
def test_a_boot_schedule_from_another_machine_waits_for_a_boot(
    first: Machine, second: Machine, on: str
) -> None:
    second.world.clock.reboot()
    second.world.clock.advance_ms(MINUTE_S * 1000)
    first.world.clock.advance_ms(MINUTE_S * 1000)
    first.add("warm-up", "on boot", on=on)
    second.after_s(1)

    assert second.statuses("warm-up") == []


@pytest.mark.parametrize(("trigger", "on"), [("on boot", "first"), ("every 1h", "second")])
def test_an_edit_from_another_machine_makes_no_boot_of_an_earlier_one(
    first: Machine, second: Machine, trigger: str, on: str
) -> None:
    first.add("warm-up", trigger, on=on)
    for machine in (first, second):
        machine.world.clock.advance_ms(MINUTE_S * 1000)
    second.world.clock.reboot()
    for machine in (first, second):
        machine.world.clock.advance_ms(MINUTE_S * 1000)
    first.place(first.store.get_schedule("warm-up"), on="second", trigger="on boot")
    second.after_s(1)

    assert second.statuses("warm-up") == []


def test_the_database_knows_names_and_labels_of_machines(
    first: Machine, url: str, tmp_path: Path
) -> None:
    berlin = Machine("third", url, tmp_path, labels=("berlin",))
    first.after_s(0)
    berlin.after_s(0)
    found = {engine.name: engine.labels for engine in first.store.find_engines()}
    berlin.store.close()

    assert found == {"first": (), "third": ("berlin",)}


def test_a_drained_engine_finishes_its_runs_and_takes_nothing_new(
    first: Machine, second: Machine
) -> None:
    first.add("sync", "every 1h", lasts_s=60)
    first.add("own", "every 1h", on="first")
    first.after_s(3600)
    first.add("more", "every 10s")
    second.after_s(0)
    second.store.drain_engine(first.engine_id, now_ms=START_MS)
    first.after_s(120)
    before = first.statuses("sync"), first.statuses("more")
    second.after_s(3720)
    second.after_s(1)

    assert before == (["success"], [])
    assert second.statuses("more") == ["skipped:misfire", "running"]
    assert len(first.world.bodies) == 2
    wake_ms = first.engine.step().wake_ms
    assert wake_ms is None or wake_ms > first.world.clock.now_ms()


def test_a_resumed_engine_takes_runs_again(first: Machine, second: Machine) -> None:
    first.add("sync", "every 1h")
    first.after_s(0)
    second.store.drain_engine(first.engine_id, now_ms=START_MS)
    first.after_s(3600)
    drained = first.statuses("sync")
    second.store.resume_engine(first.engine_id, now_ms=START_MS)
    first.after_s(1)
    first.after_s(1)

    assert (drained, first.statuses("sync")) == ([], ["success"])


@pytest.mark.parametrize("is_stopping", [True, False])
def test_an_engine_that_takes_nothing_registers_again_without_queues(
    first: Machine, second: Machine, is_stopping: bool
) -> None:
    first.after_s(0)
    second.after_s(0)
    if is_stopping:
        first.engine.drain()
        first.engine.note_draining()
    else:
        second.store.drain_engine(first.engine_id, now_ms=START_MS)
        first.after_s(1)
    expire(second.store, "first")
    second.after_s(TERM_S)
    second.after_s(TERM_S)
    with pytest.raises(LeaseLost):
        first.after_s(TERM_S)
    first.after_s(1)

    found = [engine for engine in first.store.find_engines() if engine.host == "first"]
    assert [engine.queues for engine in found] == [()]


@pytest.mark.failure(92)
@pytest.mark.parametrize("written", [0, 50], ids=["first", "after others"])
@pytest.mark.parametrize("on_lost", OnLost)
def test_a_run_that_a_failover_forgets_is_ended_or_left(
    url: str, tmp_path: Path, postgres: PostgresServer, on_lost: OnLost, written: int
) -> None:
    from edgecron.store.postgres.store import open_store

    first = Machine("first", url, tmp_path, on_lost=on_lost)
    first.add("sync", "every 1h", lasts_s=3600)
    first.after_s(0)
    standby = postgres.copy_database(url)
    first.after_s(3600)
    before = first.statuses("sync")
    postgres.fail_over(url, standby)
    other = open_store(url, now_ms=START_MS)
    for at_ms in range(written):
        other.note_trusted(at_ms + 1, was_ms=at_ms or None)
    other.close()
    first.after_s(1)
    first.after_s(1)

    assert (before, first.statuses("sync")) == (["running"], ["running"])
    assert first.live_bodies() == (1 if on_lost is OnLost.END else 2)
    [event] = [one for one in first.events if one.kind is EventKind.TAKEN_OVER]
    assert event.details == {"runs": 1, "on_lost": on_lost.value}
    first.store.close()


@pytest.mark.failure(92)
def test_after_a_failover_an_engine_runs_what_the_new_server_has(
    first: Machine, url: str, postgres: PostgresServer
) -> None:
    first.add("sync", "every 1h", on="any")
    first.after_s(0)
    standby = postgres.copy_database(url)
    first.place(first.store.get_schedule("sync"), on="any", trigger="@hourly")
    first.after_s(3600)
    postgres.fail_over(url, standby)
    first.place(first.store.get_schedule("sync"), on="any", trigger="@yearly")
    first.after_s(1)

    found = first.store.get_schedule("sync")
    assert (found.revision, found.run_count) == (2, 0)
    assert found.next_run_at is not None
    assert found.next_run_at.year == from_ms(START_MS).year + 1


@pytest.mark.failure(94)
def test_a_machine_forgets_no_rule_that_another_one_has_after_a_quiet_time(
    url: str, tmp_path: Path
) -> None:
    file, both = tmp_path / "config.toml", OPS + OPS.replace("ops", "more")
    found: list[tuple[list[str], list[str]]] = []

    def look(rules: str, *, may_forget: bool) -> None:
        """Read the file of a machine, with these rules."""
        file.write_text(rules)
        file.chmod(0o600)
        known = load_recorded(client, may_forget=may_forget)
        found.append((sorted(known.rules), sorted(known.channels)))

    clock = FakeClock(START_MS)
    with Client(read_location(url), clock=clock) as client:
        file.write_text(both)
        file.chmod(0o600)
        sync_config(client, load(str(file)))
        for is_there in (True, False):
            look(OPS, may_forget=True)
            with client.store.transaction():
                client.store.change(
                    "UPDATE notify_rules SET gone_at = gone_at - :ms", {"ms": 4 * DAY_MS}
                )
            sync_config(client, load(str(file)))
            look(OPS, may_forget=False)
            if is_there:
                look(both, may_forget=False)
            look(OPS, may_forget=True)

    kept, all_here, gone = (["more", "ops"], ["ops"]), (["more", "ops"],) * 2, (["ops"],) * 2
    assert found == [kept, kept, all_here, kept, kept, kept, gone]
