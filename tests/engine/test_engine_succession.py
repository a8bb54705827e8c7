"""Of two versions of a program, the one that lives has the say once the other has left for good."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from edgecron import Scheduler
from edgecron.api import Client
from edgecron.embedding.code import DeclaredCode
from edgecron.engine.succession import PATIENCE_MS, Succession
from edgecron.model import Schedule
from edgecron.store import open_store
from support.clock import FakeClock

QUEUE = "py:plant"


class Version:
    """A version of a program, which declares `poll` at such times, and others daily."""

    def __init__(self, plant: Plant, when: str, *more: str) -> None:
        self._plant = plant
        self._program = Scheduler(plant.path, name="plant", clock=plant.clock)
        self.store = plant.stack.enter_context(closing(open_store(plant.path, now_ms=0)))
        plant.stack.callback(self._program.stop)
        for name, times in [("poll", when), *((name, "@daily") for name in more)]:
            self._program.job(times, name=name)(lambda: None)
        code = DeclaredCode(self._program._registry, queue=QUEUE, keep=self._program._declare_all)
        self.code = code
        self.succession = Succession(store=self.store, clock=plant.clock, code=code)
        self.engine_id = 0

    def start(self) -> None:
        self._program._declare_all()
        self.engine_id = self.store.register_engine(
            key=f"{id(self):016x}",
            pid=1,
            boot_id="boot-1",
            queues=(QUEUE,),
            offers=self._program._registry.offers,
            code=self.code.digest,
            now_ms=self._plant.clock.now_ms(),
        )

    def stop(self) -> None:
        self.store.retire_engine(self.engine_id, now_ms=self._plant.clock.now_ms())

    def look(self) -> int | None:
        """Look at the engines that live; how long it then sleeps at most."""
        engines = self.store.find_engines()
        self.succession.look([one for one in engines if one.id != self.engine_id])
        return self.succession.wake_ms


class Plant:
    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self.stack = stack
        self.clock = FakeClock()

    def wait_out(self, *versions: Version) -> None:
        """Let each of them look, and again when it is time."""
        for version in versions:
            version.look()
        self.clock.advance_ms(PATIENCE_MS)
        for version in versions:
            version.look()

    @property
    def poll(self) -> Schedule:
        with Client(self.path) as client:
            return client.schedule("poll")


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with ExitStack() as stack:
        yield Plant(tmp_path / "plant.db", stack)


@pytest.mark.failure(70)
def test_who_lives_has_the_say_a_minute_after_the_other_has_left(plant: Plant) -> None:
    new, old = Version(plant, "@hourly"), Version(plant, "@daily")
    new.start()
    old.start()
    old.stop()

    first_ms = new.look()
    plant.clock.advance_ms(PATIENCE_MS - 1)
    almost_ms = new.look()
    before = plant.poll
    plant.clock.advance_ms(1)
    new.look()
    after = plant.poll
    last_ms = new.look()

    assert (first_ms, almost_ms, last_ms) == (PATIENCE_MS, 1, None)
    assert (before.spec.triggers, before.revision) == (("@daily",), 2)
    assert (after.spec.triggers, after.revision) == (("@hourly",), 3)
    assert after.next_plan_at is not None
    assert after.next_plan_at > plant.clock.now()
    with Client(plant.path) as client:
        assert client.history("poll") == []


def test_who_is_started_again_in_time_keeps_the_say(plant: Plant) -> None:
    new, old = Version(plant, "@hourly"), Version(plant, "@daily")
    new.start()
    old.start()

    for _ in range(5):
        old.stop()
        new.look()
        plant.clock.advance_ms(PATIENCE_MS - 1)
        new.look()
        again = Version(plant, "@daily")
        again.start()
        plant.wait_out(new, again)
        old = again

    assert plant.poll.spec.triggers == ("@daily",)
    assert plant.poll.revision == 2


def test_who_comes_and_goes_for_long_keeps_the_say_longer_and_longer(plant: Plant) -> None:
    new = Version(plant, "@hourly")
    new.start()
    taken_ms = []

    for _ in range(3):
        old = Version(plant, "@daily")
        old.start()
        old.stop()
        left_ms = plant.clock.monotonic_ms()
        while (wake_ms := new.look()) is not None:
            plant.clock.advance_ms(wake_ms)
        taken_ms.append(plant.clock.monotonic_ms() - left_ms)
        assert plant.poll.spec.triggers == ("@hourly",)
    plant.clock.advance_ms(2 * 86_400_000)
    old = Version(plant, "@daily")
    old.start()
    old.stop()

    assert taken_ms == [PATIENCE_MS, 2 * PATIENCE_MS, 4 * PATIENCE_MS]
    assert new.look() == PATIENCE_MS


def test_while_both_live_nobody_changes_what_the_other_said(plant: Plant) -> None:
    new, old = Version(plant, "@hourly"), Version(plant, "@daily")
    new.start()
    old.start()

    for _ in range(5):
        plant.wait_out(new, old)

    assert plant.poll.spec.triggers == ("@daily",)
    assert plant.poll.revision == 2
    assert not new.succession.has_work(old.store.find_engines())


def test_two_of_one_version_do_it_once_and_two_versions_settle(plant: Plant) -> None:
    first, second = Version(plant, "@hourly"), Version(plant, "@hourly")
    third, last = Version(plant, "@weekly"), Version(plant, "@daily")
    for version in (first, second, third, last):
        version.start()
    before = plant.poll.revision
    last.stop()

    for _ in range(3):
        plant.wait_out(first, second, third)

    assert plant.poll.spec.triggers == ("@hourly",)
    assert plant.poll.revision == before + 1


def test_the_end_of_a_process_of_the_same_version_undoes_nothing(plant: Plant) -> None:
    one, other = Version(plant, "@hourly"), Version(plant, "@hourly")
    one.start()
    other.start()
    with Client(plant.path) as client:
        client.pause("poll")
    before = plant.poll
    other.stop()

    plant.wait_out(one)

    assert plant.poll == before


def test_who_takes_on_nothing_more_leaves_the_say_to_others(plant: Plant) -> None:
    new, old = Version(plant, "@hourly"), Version(plant, "@daily")
    new.start()
    old.start()
    old.store.close_queues(old.engine_id, now_ms=plant.clock.now_ms())
    old.succession.leave()

    plant.wait_out(new, old)

    assert plant.poll.spec.triggers == ("@hourly",)
    assert old.look() is None


def test_what_only_the_other_version_declared_is_left_as_it_is(plant: Plant) -> None:
    new, old = Version(plant, "@hourly", "sweep"), Version(plant, "@hourly", "rinse")
    new.start()
    old.start()
    old.stop()

    plant.wait_out(new)

    with Client(plant.path) as client:
        names = {one.name: one.revision for one in client.schedules()}
    assert names == {"poll": 1, "rinse": 1, "sweep": 1}
    assert new.look() is None


def test_what_keeps_it_from_being_said_is_logged_once_and_tried_again(
    plant: Plant, caplog: pytest.LogCaptureFixture
) -> None:
    new, old = Version(plant, "@hourly", "sweep"), Version(plant, "@daily")
    new.start()
    old.start()
    old.stop()
    with Client(plant.path) as client:
        client.remove("sweep")
    with ExitStack() as stack:
        other = Scheduler(plant.path, name="other", clock=plant.clock)
        stack.callback(other.stop)
        other.job("@daily", name="sweep")(lambda: None)
        other._declare_all()

        with caplog.at_level(logging.ERROR, "edgecron"):
            plant.wait_out(new)
            plant.wait_out(new)
        between = plant.poll.spec.triggers
        with Client(plant.path) as client:
            client.remove("sweep")
        plant.wait_out(new)

    assert [record.message[:45] for record in caplog.records] == [
        "another version of this program has left, and"
    ]
    assert "schedule 'sweep' exists already" in caplog.text
    assert between == ("@daily",)
    assert plant.poll.spec.triggers == ("@hourly",)
