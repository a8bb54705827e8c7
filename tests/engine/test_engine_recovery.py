"""Stories of engines and supervisors that die, told by hand on a clock that moves when told."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.errors import DatabaseBusy
from edgecron.base.paths import state_dir
from edgecron.base.units import format_ms, to_ms
from edgecron.engine.events import EventKind
from edgecron.engine.other_engines import LocalEngines
from edgecron.engine.recovery import RecoveryPass
from edgecron.model.choices import Reason, Status
from edgecron.store.contract import RunningRow
from edgecron.store.sqlite.store import SqliteStore, open_store
from edgecron.supervisor.runner import THREADS
from edgecron.supervisor.state_files import prepare_state_dir
from tests.store.store_bench import Bench
from tests.support.clock import FakeClock
from tests.support.specs import make_spec
from tests.support.story import Story


@pytest.mark.failure(18)
def test_a_run_whose_supervisor_died_is_interrupted_and_another_is_started(story: Story) -> None:
    story.add("slow", "* * * * *", lasts_s=30)
    story.after_s(60)
    [run] = story.runs("slow")
    dead = story.engine.runners.own.id

    story.world.kill_supervisor(dead)
    story.after_s(1)

    [ended] = story.runs("slow")
    assert run.status is Status.RUNNING
    assert (ended.status, ended.reason) == (Status.INTERRUPTED, Reason.LOST)
    assert story.bodies("slow") == 1
    assert story.engine.runners.own.id not in (dead, THREADS)


@pytest.mark.failure(18)
def test_a_supervisor_that_dies_again_and_again_is_replaced_later_and_later(story: Story) -> None:
    story.add("often", "every 1s")
    starts = [0]

    for second in range(40):
        before = story.engine.runners.own.id
        story.after_s(1)
        if story.engine.runners.own.id not in (before, THREADS):
            starts.append(second)
        if story.engine.runners.own.id in story.world.supervisors:
            story.world.kill_supervisor(story.engine.runners.own.id)

    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert pauses == sorted(pauses)
    assert 4 < len(starts) < 10
    assert story.engine.step().wake_ms is not None
    # What was lost is said, and no more was claimed than could be started.
    assert set(story.statuses("often")) <= {"success", "interrupted:lost", "skipped:misfire"}


@pytest.mark.of_file
@pytest.mark.failure(29)
def test_a_late_end_of_a_lost_lease_changes_nothing_and_is_told(story: Story) -> None:
    story.add("slow", "* * * * *", lasts_s=30)
    story.after_s(60)
    late = story.engine
    story.world.clock.advance_ms(30_000)
    story.world.fault_chance = 1.0
    with pytest.raises(DatabaseBusy):
        late.step()  # It holds the end, and can't write it.
    story.world.fault_chance = 0.0
    story.world.lose_engine(story.key)

    story.key = story.world.start_engine()
    story.after_s(1)
    [before] = story.runs("slow")
    told = len(story.world.events)
    late.step()

    [after] = story.runs("slow")
    [event] = [one for one in story.world.events[told:] if one.execution_id == after.id]
    assert before.status is Status.SUCCESS
    assert after == before
    assert event.kind is EventKind.LEASE_LOST
    assert story.bodies("slow") == 1


@pytest.mark.failure(19)
@pytest.mark.failure(43)
def test_what_runs_when_its_engine_dies_is_adopted(story: Story) -> None:
    story.add("slow", "@hourly", lasts_s=90)
    story.after_s(3600)
    [run] = story.runs("slow")

    story.world.kill_engine(story.key)
    story.key = story.world.start_engine()
    story.after_s(30)
    [adopted] = story.runs("slow")
    told = [event.kind for event in story.world.events if event.execution_id == run.id]
    live = len(story.engine.runners)
    story.after_s(60)

    assert (adopted.status, adopted.engine_id) == (Status.RUNNING, story.engine.engine_id)
    assert adopted.engine_id != run.engine_id
    assert (live, len(story.engine.runners)) == (1, 0)
    assert told[-1] is EventKind.ADOPTED
    assert story.statuses("slow") == ["success"]
    assert story.bodies("slow") == 1
    # It goes as soon as nothing of it is left.
    alive = [one.key for one in story.world.supervisors.values() if story.world.is_alive(one)]
    assert alive == [story.engine.runners.own.id]


def test_a_look_that_is_waited_for_is_not_put_off_by_steps_in_between(story: Story) -> None:
    story.add("slow", "@hourly", lasts_s=90)
    story.after_s(3600)
    supervisor = story.world.supervisors[story.engine.runners.own.id]
    story.world.kill_engine(story.key)
    supervisor.engine_key = "another"  # whom it does not leave: it can't be adopted
    story.key = story.world.start_engine()

    wakes = [story.engine.step().wake_ms]
    for _ in range(2):
        story.world.clock.advance_ms(400)
        wakes.append(story.engine.step().wake_ms)

    assert wakes == [story.world.clock.now_ms() + 200] * 3


@pytest.mark.failure(17)
def test_what_waits_under_an_adopted_supervisor_is_revoked_and_queued_again(story: Story) -> None:
    story.world.wait_chance = 1.0
    story.add("late", "@hourly", lasts_s=5)
    story.after_s(3600)
    [claimed] = story.runs("late")
    orphan = story.world.supervisors[story.engine.runners.own.id]

    story.world.kill_engine(story.key)
    story.world.wait_chance = 0.0
    story.key = story.world.start_engine()
    story.after_s(1)
    story.world.turn(orphan)
    story.after_s(5)

    assert claimed.status is Status.RUNNING
    assert EventKind.REQUEUED in [event.kind for event in story.world.events]
    assert story.statuses("late") == ["success"]
    assert story.bodies("late") == 1


@pytest.mark.failure(17)
def test_what_a_supervisor_that_does_not_answer_may_still_start_is_left_to_it(story: Story) -> None:
    story.add("slow", "@hourly", lasts_s=90)
    story.after_s(3600)
    orphan = story.world.supervisors[story.engine.runners.own.id]
    # It stands still: what it was sent is not in its journal yet.
    story.world.wait_chance = 1.0
    story.add("late", f"at {format_ms(story.world.clock.now_ms() + 1000)}", lasts_s=5)
    story.after_s(1)
    [(token, claim)] = orphan.waiting.items()
    orphan.waiting.clear()
    del orphan.journal[token]
    orphan.is_stopped = True
    story.world.kill_engine(story.key)
    story.world.wait_chance = 0.0
    story.key = story.world.start_engine()
    story.after_s(1)

    orphan.is_stopped = False
    story.world.take(orphan, claim)
    story.after_s(31)
    story.after_s(31)

    assert EventKind.REQUEUED not in [event.kind for event in story.world.events]
    assert [body.token for body in story.world.bodies if body.schedule == "late"] == [token]
    assert story.statuses("late") == ["success"]


def test_a_row_that_could_not_be_queued_again_after_its_revocation_is_later(story: Story) -> None:
    story.world.wait_chance = 1.0
    story.add("late", "@hourly", lasts_s=5)
    story.add("slow", "@hourly", lasts_s=50)
    story.after_s(3600)
    [orphan] = story.world.supervisors.values()
    # One of the two runs, the other waits: the supervisor is adopted for the first.
    waiting = {token: c for token, c in orphan.waiting.items() if c.schedule == "late"}
    orphan.waiting = {token: c for token, c in orphan.waiting.items() if token not in waiting}
    story.world.turn(orphan)
    orphan.waiting = waiting
    story.world.kill_engine(story.key)
    story.world.wait_chance = 0.0
    story.key = story.world.start_engine()

    store = story.world.engines[story.key][1]
    with pytest.MonkeyPatch.context() as broken:

        def refuse(*_: object, **__: object) -> bool:
            raise DatabaseBusy("locked by somebody else")

        broken.setattr(store, "requeue", refuse)
        with pytest.raises(DatabaseBusy):
            story.engine.step()
    story.after_s(31)
    story.after_s(31)

    assert story.statuses("late") == ["success"]
    assert story.statuses("slow") == ["success"]
    assert len(story.world.bodies) == 2


@pytest.mark.parametrize("lasts_s", [1, 50])
def test_what_is_claimed_just_before_its_engine_dies_is_not_overlooked(
    story: Story, lasts_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.add("slow", "@hourly", lasts_s=90)
    story.add("late", "@yearly", lasts_s=lasts_s)
    story.after_s(3600)
    first = story.key
    story.key = story.world.start_engine()
    story.engine.step()
    store = story.world.engines[story.key][1]
    find, deaths = store.find_running, [first]

    def find_and_let_the_other_claim_and_die() -> list[RunningRow]:
        rows = find()
        while deaths:
            dying = deaths.pop()
            story.client.run_now("late")
            story.world.step(dying)
            story.world.kill_engine(dying)
        return rows

    monkeypatch.setattr(store, "find_running", find_and_let_the_other_claim_and_die)
    story.engine.recovery.suspect()
    story.engine.step()
    for _ in range(4):
        story.after_s(31)

    assert story.statuses("late") == ["success"]
    assert story.statuses("slow") == ["success"]
    assert (story.bodies("late"), story.bodies("slow")) == (1, 1)


@pytest.mark.of_file  # It counts looks, and an engine on a server looks once more.
@pytest.mark.failure(19)
def test_an_engine_that_dies_while_another_one_looks_is_watched_and_then_taken_over(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.add("slow", "@hourly", lasts_s=90)
    story.after_s(3600)
    first = story.key
    story.key = story.world.start_engine()
    store = story.world.engines[story.key][1]
    find, looks = store.find_running, itertools.count(1)

    def find_and_let_the_other_die() -> list[RunningRow]:
        rows = find()
        if next(looks) == 2:  # It was known to be alive.
            story.world.kill_engine(first)
        return rows

    monkeypatch.setattr(store, "find_running", find_and_let_the_other_die)
    story.engine.step()
    watched = [peer.key for peer in story.engine.recovery.live_engines]
    live_before = len(story.engine.runners)
    story.engine.recovery.suspect()
    story.engine.step()

    assert (watched, live_before) == ([first], 0)
    assert len(story.engine.runners) == 1


@pytest.mark.of_file
def test_the_files_of_a_supervisor_stay_while_its_engine_may_claim_for_it(story: Story) -> None:
    story.engine.step()
    dead = story.engine.runners.own.id
    story.world.kill_supervisor(dead)
    other = story.world.start_engine()

    story.world.step(other)
    kept = dead in story.world.supervisors
    story.engine.step()
    story.world.clock.advance_ms(31_000)
    story.world.step(other)

    assert kept
    assert dead not in story.world.supervisors


def test_the_runs_of_an_engine_that_drains_end_and_nothing_more_is_claimed(story: Story) -> None:
    story.add("slow", "@hourly", lasts_s=50)
    story.add("next", "every 3630s")
    story.after_s(3600)

    story.engine.drain()
    story.after_s(40)
    live = len(story.engine.runners)
    story.after_s(10)

    assert (live, len(story.engine.runners)) == (1, 0)
    assert story.statuses("slow") == ["success"]
    assert story.runs("next") == []


def test_what_runs_says_now_and_then_that_it_lives(story: Story) -> None:
    story.add("slow", "@hourly", lasts_s=1500)
    story.after_s(3600)
    started = story.runs("slow")[0].started_at
    assert started is not None
    beats = set()

    for _ in range(24):
        story.after_s(60)
        [beat] = _column(story, "SELECT heartbeat_at FROM executions")
        beats.add((beat - to_ms(started)) // 1000)

    assert beats == {0, 600, 1200}


def test_a_callable_of_a_program_that_ended_is_interrupted(story: Story) -> None:
    story.add("mine", "@hourly", lasts_s=50)
    story.after_s(3600)
    database = story.world.stores.open_reader()
    with database.transaction():
        # What edgecron writes for a function of a program, once it can run them.
        database.change("UPDATE schedules SET kind = 'callable'")
        database.change("UPDATE executions SET supervisor_id = NULL")
    database.close()

    story.world.kill_engine(story.key)
    story.key = story.world.start_engine()
    story.after_s(1)

    assert story.statuses("mine") == ["interrupted:lost"]


def _column(story: Story, query: str) -> list[Any]:
    database = story.world.stores.open_reader()
    values = [row[0] for row in database.rows(query)]
    database.close()
    return values


class DyingEngine(LocalEngines):
    """An engine that claims one run more before it is seen to be dead."""

    def __init__(self, folder: Path, last_act: Callable[[], object]) -> None:
        super().__init__(folder, boot_id="boot-1")
        self._last_act = last_act

    def engine_is_alive(self, key: str) -> bool:
        self._last_act()
        return False


@pytest.mark.failure(17)
def test_what_an_engine_claims_until_it_is_found_dead_is_recovered(tmp_path: Path) -> None:
    with ExitStack() as stack:

        def open_here() -> SqliteStore:
            store = open_store(tmp_path / "edgecron.db", now_ms=0)
            stack.callback(store.close)
            return store

        bench = Bench(open_here, FakeClock())
        bench.claimant = bench.claimant._replace(supervisor_id="5e" * 8)
        for name in ("first", "last"):
            bench.add(make_spec(name=name))
        bench.run("first")
        bench.fill()

        def claim_the_last() -> None:
            bench.run("last")
            bench.fill()

        others = DyingEngine(prepare_state_dir(state_dir(tmp_path / "edgecron.db")), claim_the_last)
        RecoveryPass(open_here(), others, now_ms=bench.clock.now_ms).run()

        assert bench.statuses("first") == ["interrupted"]
        assert bench.statuses("last") == ["interrupted"]
