"""Any store: how far runs are, and what their schedules remember from one to the next."""

from __future__ import annotations

import pytest

from edgecron.model.choices import Overlap, Reason, Status
from edgecron.model.run import Execution, Outcome, Progress, Reported, progress_text
from edgecron.store.contract import Granted
from tests.store.store_bench import Bench, OpenStore, outcome_of
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

MINUTE = 60_000
HALF = progress_text(Progress(fraction=0.5, text="half"))


@pytest.fixture
def granted(bench: Bench) -> Granted:
    bench.add()
    return fire(bench)


def fire(bench: Bench) -> Granted:
    bench.clock.advance_ms(MINUTE)
    [grant] = bench.fire().granted
    return grant


def end(bench: Bench, grant: Granted, state: dict[str, str | None], **changes: object) -> Outcome:
    """Write an end that changes a state."""
    outcome = outcome_of(grant, bench.now)._replace(state=state, **changes)  # type: ignore[arg-type]
    bench.store.finish([outcome], now_ms=bench.now)
    return outcome


def state(bench: Bench, name: str = "backup") -> dict[str, str]:
    return bench.store.find_state(bench.store.get_schedule(name).id)


# State.


def test_a_success_changes_what_its_schedule_remembers(bench: Bench, granted: Granted) -> None:
    end(bench, granted, {"cursor": "41", "seen": '["ü"]', "old": "1"})
    first = state(bench)
    end(bench, fire(bench), {"cursor": "42", "old": None, "never": None})

    assert first == {"cursor": "41", "old": "1", "seen": '["ü"]'}
    assert state(bench) == {"cursor": "42", "seen": '["ü"]'}
    assert bench.store.count_state(granted.schedule_id) == 2


def test_a_state_that_would_grow_too_large_is_not_changed(bench: Bench, granted: Granted) -> None:
    part = f'"{"x" * 60_000}"'
    end(bench, granted, {f"{number}": part for number in range(17)})
    kept = state(bench)
    end(bench, fire(bench), {"more": part})
    end(bench, fire(bench), {"1": None})
    end(bench, fire(bench), {f"key {number}": "1" for number in range(1_000)})

    rows = [(row.status, row.flags) for row in bench.rows()]

    assert (len(kept), len(state(bench))) == (17, 16)
    assert [flags for _, flags in rows] == [(), ("state_refused",), (), ("state_refused",)]
    assert {status for status, _ in rows} == {Status.SUCCESS}


def test_ends_of_one_batch_do_not_together_make_a_state_too_large(bench: Bench) -> None:
    bench.add(make_spec(overlap=Overlap.ALLOW))
    grants = [fire(bench) for _ in range(4)]
    part = f'"{"x" * 60_000}"'
    states: list[dict[str, str | None]] = [
        {f"{number}": part for number in range(10)},
        {f"{number}": part for number in range(10, 20)},  # with those of the first: too large
        {f"{number}": None for number in range(10)},
        {f"{number}": part for number in range(10, 20)},
    ]
    ends = [
        outcome_of(grant, bench.now)._replace(state=state)
        for grant, state in zip(grants, states, strict=True)
    ]

    lost = ends[2]._replace(lease_token="another's")
    bench.store.finish([ends[0], lost, *ends[1:]], now_ms=bench.now)

    assert [row.flags for row in bench.rows()] == [(), ("state_refused",), (), ()]
    assert sorted(state(bench)) == [f"{number}" for number in range(10, 20)]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status.FAILED, Reason.EXCEPTION),
        (Status.CANCELLED, Reason.REQUEST),
        (Status.INTERRUPTED, Reason.LOST),
    ],
)
def test_an_end_that_is_no_success_leaves_what_was_remembered_before(
    bench: Bench, granted: Granted, status: Status, reason: Reason
) -> None:
    end(bench, granted, {"cursor": "41"})

    end(bench, fire(bench), {"cursor": "42", "half": "1"}, status=status, reason=reason)

    assert state(bench) == {"cursor": "41"}


@pytest.mark.failure(29)
def test_an_end_whose_lease_was_lost_remembers_nothing(bench: Bench, granted: Granted) -> None:
    end(bench, granted, {"cursor": "41"}, lease_token="0" * 16)
    before = state(bench)
    end(bench, granted, {"cursor": "42"})
    end(bench, granted, {"cursor": "43"})

    assert (before, state(bench)) == ({}, {"cursor": "42"})


def test_what_is_remembered_is_remembered_with_what_follows_an_end(bench: Bench) -> None:
    # An end that has followers, or a next time, is written in a way of its own.
    bench.add(make_spec("first"))
    bench.add(make_spec("second", "after first"))

    end(bench, fire(bench), {"cursor": "41"})

    assert state(bench, "first") == {"cursor": "41"}
    assert bench.statuses("second") == ["queued"]


def test_schedules_do_not_remember_one_another_s_state(bench: Bench) -> None:
    bench.add(make_spec("one"))
    bench.add(make_spec("two"))
    bench.clock.advance_ms(MINUTE)
    grants = bench.fire().granted
    outcomes = [
        outcome_of(grant, bench.now)._replace(state={"id": str(grant.schedule_id)})
        for grant in grants
    ]

    bench.store.finish(outcomes, now_ms=bench.now)

    found = {name: state(bench, name)["id"] for name in ("one", "two")}
    assert found == {name: str(bench.store.get_schedule(name).id) for name in ("one", "two")}


def test_a_schedule_of_the_name_of_a_removed_one_remembers_nothing(
    bench: Bench, granted: Granted
) -> None:
    end(bench, granted, {"cursor": "41"})
    schedule = bench.store.get_schedule("backup")
    bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)

    bench.add()

    assert state(bench) == {}


@pytest.mark.failure(52)
def test_a_value_that_no_edgecron_lets_through_holds_up_no_end(
    bench: Bench, granted: Granted
) -> None:
    end(bench, granted, {"bad": "[" * 2000 + "]" * 2000, "worse": "{", "good": "1"})

    assert bench.statuses() == ["success"]
    assert state(bench) == {"good": "1"}


# Progress.


def progress(bench: Bench) -> list[Progress | None]:
    return [row.progress for row in bench.rows()]


def test_progress_of_a_run_is_on_its_row_and_stays_there(bench: Bench, granted: Granted) -> None:
    reported = Reported(granted.execution_id, granted.lease_token, HALF)

    before = progress(bench)
    bench.store.note_progress([reported])
    during = progress(bench)
    bench.end(granted)

    half = Progress(fraction=0.5, text="half")
    assert (before, during, progress(bench)) == ([None], [half], [half])


def test_an_end_brings_the_last_progress(bench: Bench, granted: Granted) -> None:
    bench.store.note_progress([Reported(granted.execution_id, granted.lease_token, HALF)])
    last = progress_text(Progress(fraction=1))

    end(bench, granted, {}, progress=last)

    assert progress(bench) == [Progress(fraction=1)]


@pytest.mark.failure(29)
def test_progress_of_what_is_no_longer_ours_changes_nothing(bench: Bench, granted: Granted) -> None:
    foreign = Reported(granted.execution_id, "0" * 16, HALF)
    bench.store.note_progress([foreign, Reported(999, granted.lease_token, HALF)])
    before = progress(bench)
    bench.end(granted)
    bench.store.note_progress([Reported(granted.execution_id, granted.lease_token, HALF)])
    is_on_record = bench.store.report_progress(granted.execution_id, HALF)

    assert (before, progress(bench), is_on_record) == ([None], [None], False)


def test_another_process_can_say_how_far_a_run_is(bench: Bench, granted: Granted) -> None:
    told = [bench.store.report_progress(granted.execution_id, HALF) for _ in range(2)]

    assert told == [True, True]
    assert progress(bench) == [Progress(fraction=0.5, text="half")]
    assert bench.store.report_progress(999, HALF) is False


def test_progress_that_has_not_changed_is_not_written(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = Bench(make_store, clock)
    bench.add()
    grant = fire(bench)
    reported = Reported(grant.execution_id, grant.lease_token, HALF)
    bench.store.note_progress([reported])
    onlooker = make_store()
    mark = onlooker.change_mark

    bench.store.note_progress([reported])
    bench.store.report_progress(grant.execution_id, HALF)

    assert onlooker.change_mark == mark


def test_what_is_queued_again_has_no_progress_of_a_run_that_was_none(
    bench: Bench, granted: Granted
) -> None:
    [row] = bench.store.find_running()

    bench.store.requeue(row.execution_id, row.lease_token, now_ms=bench.now)

    [execution] = bench.rows()
    assert isinstance(execution, Execution)
    assert execution.progress is None
