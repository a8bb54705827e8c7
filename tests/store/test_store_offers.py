"""Engines of a program take what they offer, and what none of them offers is told of as such.

The old version of the program has `poll` and `sweep`, the new one `poll` and `report`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgecron.base.units import from_ms
from edgecron.model.choices import JobKind
from edgecron.model.engine import Offers
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.contract import Claimant
from tests.store.store_bench import Bench
from tests.support.offering import come
from tests.support.specs import make_spec

QUEUE = "py:plant"
OLD, NEW = ("poll", "sweep"), ("poll", "report")


def function(name: str, *triggers: str, job: str | None = None) -> ScheduleSpec:
    spec = make_spec(name, *triggers, queue=QUEUE)
    return replace(spec, job=Job(kind=JobKind.CALLABLE, argv=(job or name,)))


def offered(*names: str) -> frozenset[str]:
    return frozenset(f"callable {name}" for name in names)


@pytest.fixture(autouse=True)
def _program(bench: Bench) -> None:
    for name in ("poll", "sweep", "report"):
        bench.add(function(name))


def sit(bench: Bench, offers: Offers | None) -> None:
    """From now on the bench's engine has these offers."""
    bench.claimant = Claimant(
        engine_id=bench.claimant.engine_id,
        supervisor_id="s1",
        queues=("command", QUEUE),
        max_running=10,
        offers=offers,
    )


def due(bench: Bench) -> set[str]:
    found = bench.store.find_due(
        bench.claimant.queues, now_ms=bench.now, limit=9, offers=bench.claimant.offers
    )
    schedules = {one.id: one.name for one in bench.store.find_schedules()}
    return {schedules[one.schedule_id] for one in found}


def vanished(bench: Bench) -> set[str]:
    """What nobody runs, as all say who can be asked."""
    store = bench.store
    found = {one.name for one in store.find_schedules() if one.vanished_at is not None}
    standings = store.find_standings(now_ms=bench.now)
    assert found == {one.name for one in standings if one.vanished_at is not None}
    assert store.count_schedules() == (len(store.find_schedules()), 0, len(found))
    return found


def test_of_what_is_due_an_engine_sees_what_it_offers_and_every_command(bench: Bench) -> None:
    bench.add(make_spec("backup"))
    bench.clock.advance_ms(60_000)

    seen = {}
    for offers in (offered(*OLD), offered(*NEW), offered(), None):
        sit(bench, offers)
        seen[offers] = due(bench)

    assert seen == {
        offered(*OLD): {"poll", "sweep", "backup"},
        offered(*NEW): {"poll", "report", "backup"},
        offered(): {"backup"},
        None: {"poll", "sweep", "report", "backup"},
    }


def test_what_an_engine_does_not_offer_wakes_nobody_and_is_not_loaded(bench: Bench) -> None:
    queues, mine = (QUEUE,), offered("nothing")
    bench.clock.advance_ms(60_000)

    assert bench.store.next_due_ms(queues, now_ms=bench.now, offers=mine) is None
    assert bench.store.upcoming(queues, limit=9, offers=mine) == []
    assert bench.store.next_due_ms(queues, now_ms=bench.now, offers=offered(*OLD)) == bench.now
    assert len(bench.store.upcoming(queues, limit=9, offers=offered(*OLD))) == 2


def test_a_queued_run_gets_its_place_from_an_engine_that_offers_it(bench: Bench) -> None:
    ids = {name: bench.run(name) for name in ("sweep", "report")}

    sit(bench, offered("poll"))
    by_nobody = bench.fill()
    sit(bench, offered(*NEW))
    by_new = bench.fill()
    sit(bench, offered(*OLD))
    by_old = bench.fill()

    assert by_nobody.granted == ()
    assert [one.execution_id for one in by_new.granted] == ids["report"]
    assert [one.execution_id for one in by_old.granted] == ids["sweep"]


def test_a_run_that_an_engine_does_not_offer_keeps_none_of_its_own_back(bench: Bench) -> None:
    bench.run("sweep")
    bench.clock.advance_ms(60_000)
    sit(bench, offered("report"))

    [due] = bench.store.find_due((QUEUE,), now_ms=bench.now, limit=9, offers=bench.claimant.offers)
    batch = bench.claim(bench.decide([due]))

    assert len(batch.granted) == 1


def test_at_boot_an_engine_decides_what_it_offers(bench: Bench) -> None:
    for name in OLD:
        bench.add(function(f"{name}-at-boot", "on boot", job=name))

    found = {
        offers: len(bench.store.find_boot_due((QUEUE,), boot_id="boot-2", offers=offers))
        for offers in (offered(*OLD), offered(*NEW), offered(), None)
    }

    assert found == {offered(*OLD): 2, offered(*NEW): 1, offered(): 0, None: 2}


def test_a_function_is_known_by_its_name_and_a_process_by_that_of_its_schedule(
    bench: Bench,
) -> None:
    bench.add(function("by-hand", job="poll"))
    bench.add(make_spec("apart", queue=QUEUE))
    bench.clock.advance_ms(60_000)

    sit(bench, frozenset({"callable poll", "command apart"}))

    assert due(bench) == {"poll", "by-hand", "apart"}


def test_nothing_vanishes_while_an_engine_that_lives_offers_it(bench: Bench) -> None:
    store = bench.store
    old = come(store, QUEUE, *OLD)
    by_old = vanished(bench)
    new = come(store, QUEUE, *NEW)
    by_both = vanished(bench)

    store.retire_engine(new, now_ms=bench.now)
    by_old_again = vanished(bench)
    store.retire_engine(old, now_ms=bench.now)

    assert (by_old, by_both) == ({"report"}, set())
    assert by_old_again == set()  # The new version started last, and is to come back.
    assert vanished(bench) == {"sweep"}


def test_whichever_version_starts_again_takes_nothing_of_the_other(bench: Bench) -> None:
    store = bench.store
    engines = {OLD: come(store, QUEUE, *OLD), NEW: come(store, QUEUE, *NEW)}
    seen = []

    for again in (OLD, NEW, NEW, OLD, OLD):
        store.retire_engine(engines[again], now_ms=bench.now)
        engines[again] = come(store, QUEUE, *again)
        seen.append(vanished(bench))

    assert seen == [set()] * 5


def test_it_is_told_since_when_nobody_offers_it_until_somebody_does(bench: Bench) -> None:
    store = bench.store
    come(store, QUEUE, *NEW, now_ms=bench.now)
    gone_ms = bench.now
    bench.clock.advance_ms(3_600_000)
    more = come(store, QUEUE, *NEW, now_ms=bench.now)
    later = store.get_schedule("sweep")

    store.note_offers(more, offered("sweep"), now_ms=bench.now)

    assert later.vanished_at == from_ms(gone_ms)
    assert vanished(bench) == set()
    assert store.get_schedule("sweep").revision == later.revision
    assert store.get_schedule("sweep").next_plan_at == later.next_plan_at


def test_an_engine_that_takes_on_nothing_more_offers_nothing(bench: Bench) -> None:
    old = come(bench.store, QUEUE, *OLD)
    come(bench.store, QUEUE, *NEW)

    bench.store.close_queues(old, now_ms=bench.now)

    assert vanished(bench) == {"sweep"}


def test_while_an_engine_takes_whatever_there_is_nothing_has_vanished(bench: Bench) -> None:
    come(bench.store, QUEUE, *NEW)
    before = vanished(bench)

    whatever = bench.store.register_engine(
        key="whatever", pid=1, boot_id="boot-1", queues=(QUEUE,), now_ms=bench.now
    )
    with_it = vanished(bench)
    bench.store.retire_engine(whatever, now_ms=bench.now)

    assert (before, with_it) == ({"sweep"}, set())
    assert vanished(bench) == set()  # It started last.


def test_engines_of_others_let_nothing_vanish(bench: Bench) -> None:
    come(bench.store, "py:other", "poll")
    come(bench.store, "command")
    bench.store.register_engine(
        key="daemon", pid=1, boot_id="boot-1", queues=("command",), now_ms=bench.now
    )

    assert vanished(bench) == set()


def test_what_an_engine_offers_is_told(bench: Bench) -> None:
    come(bench.store, QUEUE, *NEW, key="new")

    found = {one.key: one for one in bench.store.find_engines()}

    assert found["new"].offers == ("callable poll", "callable report")
    assert found["new"].takes(QUEUE, "callable report")
    assert not found["new"].takes(QUEUE, "callable sweep")
    assert found["new"].takes(QUEUE, None)
    assert found["new"].takes("command", "command backup")
    assert not found["new"].takes("py:other", "callable poll")
    assert next(one for one in found.values() if one.key != "new").offers is None
