"""The state machine: what people do and what time does, to edgecron and to the plain model."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from edgecron.base.errors import AlreadyExists, InvalidInput, NotFound
from edgecron.base.units import from_ms
from edgecron.client import Client
from edgecron.model.choices import Status
from edgecron.planning.retention import UNLIMITED
from tests.machine.agreeing import check_agreement, find_missed_by
from tests.machine.plainbook import Book
from tests.machine.plainengine import Engines
from tests.machine.plainpeople import People
from tests.machine.plainrows import Row, Schedule
from tests.machine.plaintimes import Follows, Wish
from tests.machine.wishes import START_MS, policies, spec_of, triggers, wishes
from tests.simulation.world import World
from tests.support.stores import ServerClock, ServerStores, check_soundness

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

NAMES = ("a", "b", "c", "x", "y")
HOUR_MS = 3_600_000
_MOST_ROWS = 1_500  # of a story: more make it slow, and no other

NAME = st.sampled_from(NAMES)
LITTLE_MS = st.sampled_from((1, 1_000, 5_000, 10_000, 30_000, 60_000, 60_001, 90_000))
MUCH_MS = st.sampled_from((300_000, HOUR_MS, 5 * HOUR_MS, 49 * HOUR_MS))


class Story(RuleBasedStateMachine):
    """A database, engines and people, and the model of them; compared after each rule."""

    tally: ClassVar[Counter[str]] = Counter()  # of all stories of this process
    server: ClassVar[PostgresServer | None] = None  # where the databases are; None: in files

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        # A run by hand is named by chance, and its retries are spread by its name: a story that is
        # told again must be the same.
        self.chance = patch("os.urandom", Random(7).randbytes)
        self.chance.start()
        clock, stores = None, None
        if self.server is not None:
            clock = ServerClock(START_MS)
            stores = ServerStores(self.server.create_database(), clock=clock)
        self.world = World(
            self.folder / "m.db", random=Random(7), start_ms=START_MS, clock=clock, stores=stores
        )
        self.closed: list[ServerClock | ServerStores] = [one for one in (stores, clock) if one]
        self.world.fix_seed()
        [(seed,)] = self.world.look("SELECT seed FROM meta")
        self.book = Book(bytes(seed))
        self.book.find_missed_by = partial(find_missed_by, self.world)
        self.engines = Engines(self.book)
        self.people = People(self.book, self.engines)
        self.highest_ms = START_MS

    def teardown(self) -> None:
        try:
            check_soundness(self.world.reader)
            type(self).tally["stories"] += 1
            type(self).tally["rows"] += len(self.book.rows)
            for row in self.book.rows.values():
                type(self).tally[row.status] += 1
            self.world.close()
        finally:
            for one in self.closed:
                one.close()
            self.chance.stop()
            shutil.rmtree(self.folder)

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    @invariant()
    def both_say_the_same(self) -> None:
        check_agreement(self.world, self.book)

    def client(self) -> Client:
        return Client(self.world.location, clock=self.world.clock)

    # People.

    @initialize(data=st.data(), max_running=st.sampled_from((1, 2, 9)))
    def begin(self, data: st.DataObject, max_running: int) -> None:
        """Nobody looks long at an empty database."""
        for name in ("a", "b", "x"):
            self.add(data, name)
        self.start_engine(max_running)

    @rule(data=st.data(), name=NAME)
    def add(self, data: st.DataObject, name: str) -> None:
        wish = data.draw(wishes(name, self.now_ms))
        with self.client() as client:
            if self.lacks_upstream(wish):
                with pytest.raises(InvalidInput):
                    client.add(spec_of(name, wish))
            elif self.book.find(name) is not None:
                with pytest.raises(AlreadyExists):
                    client.add(spec_of(name, wish))
            else:
                schedule = client.add(spec_of(name, wish))
                self.people.add(schedule.id, name, wish, self.now_ms)

    @rule(data=st.data(), name=NAME)
    def edit_times(self, data: st.DataObject, name: str) -> None:
        schedule = self.find_or_fail(name)
        if schedule is None:
            return
        changed = data.draw(st.sampled_from(("triggers", "until_ms", "max_runs")))
        before = schedule.wish
        if changed == "triggers":
            wish = replace(before, triggers=data.draw(triggers(name, self.now_ms)))
        elif changed == "until_ms":
            until_ms = self.now_ms + 400_000
            is_late = before.from_ms is None or until_ms > before.from_ms
            wish = replace(before, until_ms=until_ms if is_late else None)
        else:
            wish = replace(before, max_runs=data.draw(st.sampled_from((None, 1, 6))))
        is_same = wish.triggers == before.triggers
        if not is_same and self.lacks_upstream(wish):
            return
        self.edit(schedule, wish)

    @rule(data=st.data(), name=NAME)
    def edit_policies(self, data: st.DataObject, name: str) -> None:
        schedule = self.find_or_fail(name)
        if schedule is not None:
            self.edit(schedule, replace(schedule.wish, **data.draw(policies())))

    def lacks_upstream(self, wish: Wish) -> bool:
        """Whether it would follow a schedule that is not there."""
        followed = [one.upstream for one in wish.triggers if isinstance(one, Follows)]
        return any(self.book.find(upstream) is None for upstream in followed)

    def edit(self, schedule: Schedule, wish: Wish) -> None:
        with self.client() as client:
            client.edit(schedule.name, lambda _: spec_of(schedule.name, wish))
        self.people.edit(schedule, wish, self.now_ms)

    def find_or_fail(self, name: str) -> Schedule | None:
        """The schedule; where there is none, edgecron must say so."""
        schedule = self.book.find(name)
        if schedule is None:
            with self.client() as client, pytest.raises(NotFound):
                client.edit(name, lambda spec: spec)
        return schedule

    @rule(name=NAME)
    def remove(self, name: str) -> None:
        schedule = self.find_or_fail(name)
        if schedule is not None:
            with self.client() as client:
                client.remove(name)
            self.people.remove(schedule, self.now_ms)

    @rule(name=NAME, for_ms=st.sampled_from((None, 0, 20_000, 100_000, 2 * HOUR_MS)))
    def pause(self, name: str, for_ms: int | None) -> None:
        schedule = self.find_or_fail(name)
        if schedule is None:
            return
        until_ms = None if for_ms is None else self.now_ms + for_ms
        with self.client() as client:
            until = None if until_ms is None else from_ms(until_ms)
            if for_ms == 0:
                with pytest.raises(InvalidInput):
                    client.pause(name, until=until)
                return
            client.pause(name, until=until)
        self.people.pause(schedule, until_ms, self.now_ms)

    @rule(name=NAME, is_now=st.booleans())
    def resume(self, name: str, is_now: bool) -> None:
        schedule = self.find_or_fail(name)
        if schedule is None:
            return
        with self.client() as client:
            client.resume(name)
        self.people.resume(schedule, self.now_ms)
        if is_now:
            self.run(name)

    @rule(name=NAME)
    def run(self, name: str) -> None:
        schedule = self.find_or_fail(name)
        if schedule is None:
            return
        with self.client() as client:
            fired = client.run_now(name)
        [key] = {one.fire_key for one in fired}
        assert [(one.scope_kind, one.scope_id) for one in fired] == list(schedule.wish.scopes)
        assert key.startswith("manual:")
        self.people.run(schedule, key, self.now_ms)

    @rule(name=NAME, key=st.sampled_from((None, "a", "b")), count=st.sampled_from((1, 3)))
    def enqueue(self, name: str, key: str | None, count: int) -> None:
        """A group of runs, or one run for a key, which those who give it again get as well."""
        schedule = self.find_or_fail(name)
        if schedule is None:
            return
        with self.client() as client:
            ids = client.enqueue(name, [None] * (1 if key else count), key=key)
            keys = list(dict.fromkeys(client.execution(one).fire_key for one in ids))
        known = [
            row.id
            for row in self.book.rows.values()
            if (row.schedule_id, row.key, row.cause) == (schedule.id, keys[0], "manual")
        ]
        if known:
            assert ids == sorted(known)
            return
        assert len(keys) == (1 if key else count)
        for one in keys:
            self.people.run(schedule, one, self.now_ms)

    @precondition(lambda self: any(row.is_active for row in self.book.rows.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        active = [row for row in self.book.rows.values() if row.is_active]
        row: Row = data.draw(st.sampled_from(active))
        with self.client() as client:
            if row.status == "queued":
                assert client.cancel(row.id).status is Status.CANCELLED
            else:
                # The supervisor is asked, as by its socket.
                found = client.store.request_cancel(row.id, now_ms=self.now_ms)
                assert found is not None
                self.world.end_body(found)
        self.people.cancel(row, self.now_ms)

    @rule(name=NAME, after_ms=st.sampled_from((1_000, 40_000, 200_000, HOUR_MS)))
    def reschedule(self, name: str, after_ms: int) -> None:
        schedule = self.book.find(name)
        if schedule is None or schedule.next_ms is None:
            return
        run_ms, paused_ms = self.now_ms + after_ms, schedule.paused_ms
        is_held = paused_ms is not None and (run_ms < paused_ms or schedule.next_ms[0] < paused_ms)
        # A time far ahead that is decided now is looked at anew when the clock goes back by far.
        if is_held or schedule.next_ms[0] > self.now_ms + HOUR_MS:
            return
        with self.client() as client:
            client.reschedule(name, from_ms(run_ms))
        self.people.reschedule(schedule, run_ms, self.now_ms)

    @rule(name=NAME, back_ms=st.sampled_from((30_000, 120_000, 600_000)))
    def backfill(self, name: str, back_ms: int) -> None:
        schedule = self.book.find(name)
        if schedule is None:
            return
        span = self.now_ms - back_ms, self.now_ms + back_ms
        with self.client() as client:
            if all(isinstance(one, Follows) for one in schedule.wish.triggers):
                with pytest.raises(InvalidInput):
                    client.backfill(name, from_ms(span[0]), from_ms(span[1]))
                return
            client.backfill(name, from_ms(span[0]), from_ms(span[1]))
        self.people.backfill(schedule, *span, self.now_ms)

    @rule(group=st.sampled_from(("g", "h")), most=st.sampled_from((None, 1, 2)))
    def limit_group(self, group: str, most: int | None) -> None:
        with self.client() as client:
            client.limit_group(group, most)
        self.people.limit_group(group, most)

    @rule(count=st.sampled_from((1, 3, 20)))
    def prune(self, count: int) -> None:
        with self.client() as client:
            client.prune(retention=replace(UNLIMITED, history_count=count))
        self.people.prune(
            {row[0] for row in self.world.look("SELECT id FROM executions")},
            dict(self.world.look("SELECT id, pruned_until FROM schedules")),
            count=count,
        )

    # Time and processes.

    @rule(by_ms=LITTLE_MS)
    def wait_a_little(self, by_ms: int) -> None:
        self.world.clock.advance_ms(by_ms)

    @precondition(lambda self: len(self.book.rows) < _MOST_ROWS)
    @rule(by_ms=MUCH_MS)
    def wait_long(self, by_ms: int) -> None:
        self.world.clock.advance_ms(by_ms)

    @rule(by_ms=st.sampled_from((-HOUR_MS, -90_000, -2_000, -500, 2_000, 90_000, 6 * HOUR_MS)))
    def set_clock(self, by_ms: int) -> None:
        """Never behind by more than an hour: from three on stored times are computed anew."""
        self.highest_ms = max(self.highest_ms, self.now_ms)
        if self.now_ms + by_ms < self.highest_ms - HOUR_MS:
            return
        self.engines.set_clock(self.now_ms, by_ms=by_ms)
        self.world.step_clock(by_ms)

    @precondition(lambda self: len(self.world.engines) < 3)
    @rule(max_running=st.sampled_from((1, 2, 9)))
    def start_engine(self, max_running: int) -> None:
        key = self.world.start_engine(max_running=max_running)
        self.engines.start(key, max_running=max_running)

    @precondition(lambda self: self.world.engines)
    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.step_one(data.draw(st.sampled_from(sorted(self.world.engines))))

    @precondition(lambda self: self.world.engines)
    @rule(by_ms=LITTLE_MS, times=st.integers(1, 6))
    def go_on(self, by_ms: int, times: int) -> None:
        """Time goes by, and every engine steps; compared each time."""
        self._go_on(by_ms, times)

    @precondition(lambda self: self.world.engines)
    @rule(data=st.data(), times=st.integers(1, 8))
    def follow_the_times(self, data: st.DataObject, times: int) -> None:
        """As an engine that sleeps: on to the next time of any schedule, or a bit beyond it."""
        for _ in range(times):
            coming = [one.next_ms[1] for one in self.book.schedules.values() if one.next_ms]
            coming += [row.due_ms for row in self.book.rows.values() if row.status == "queued"]
            coming += [body.ends_ms for body in self.engines.bodies.values()]
            later = [at_ms - self.now_ms for at_ms in coming if at_ms > self.now_ms]
            beyond_ms = data.draw(st.sampled_from((0, 0, 0, 1, 15_000)))
            self._go_on(min(*later, 86_400_000, 86_400_000) + beyond_ms, 1)

    def _go_on(self, by_ms: int, times: int) -> None:
        for _ in range(times):
            self.world.clock.advance_ms(by_ms)
            for key in sorted(self.world.engines):
                self.step_one(key)
                self.both_say_the_same()

    def step_one(self, key: str) -> None:
        self.world.step(key)
        self.engines.step(key, self.now_ms)
        type(self).tally["steps"] += 1

    @precondition(lambda self: self.world.engines)
    @rule(data=st.data(), with_supervisors=st.booleans())
    def kill_engine(self, data: st.DataObject, with_supervisors: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.world.engines)))
        theirs = [one for one in self.world.supervisors.values() if one.engine_key == key]
        if with_supervisors:
            self.engines.kill_with_supervisors(key, self.now_ms)
        else:
            self.engines.kill(key)
        self.world.kill_engine(key)
        for supervisor in theirs if with_supervisors else ():
            self.world.kill_supervisor(supervisor.key)
        for engine, _ in self.world.engines.values():
            engine.recovery.suspect()  # they would look within half a minute
        type(self).tally["kills"] += 1

    @rule()
    def reboot(self) -> None:
        self.engines.reboot(self.now_ms)
        self.world.reboot()
