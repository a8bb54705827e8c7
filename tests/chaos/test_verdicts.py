"""Each invariant finds its violation: a history without one, and for each a planted one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.history import (
    Body,
    Change,
    Era,
    History,
    Life,
    Promise,
    Refusal,
    Remark,
    Row,
    Step,
    Trouble,
)
from tests.chaos.verdicts import CHECKS, NOT_CHECKED, judge

T0 = 1_800_000_000_000  # a whole number of every period below
S = 1000


def era(**changes: Any) -> Era:
    plain = Era(
        revision=1,
        since_ms=T0,
        until_ms=None,
        period_ms=2 * S,
        overlap="skip",
        max_running=None,
        retries=0,
        on_interrupt="leave",
    )
    return replace(plain, **changes)


def life(schedule_id: int, name: str, **changes: Any) -> Life:
    plain = Life(
        schedule_id=schedule_id,
        name=name,
        scopes=(("global", ""),),
        made_ms=T0,
        removed_ms=T0 + 7 * S,
        pruned_until_ms=None,
        eras=(era(),),
        counts={"success": 3},
    )
    return replace(plain, **changes)


def row(number: int, schedule_id: int, name: str, plan_ms: int, **changes: Any) -> Row:
    return {
        "id": number,
        "schedule_id": schedule_id,
        "name": name,
        "revision": 1,
        "scope_kind": "global",
        "scope_id": "",
        "plan_at": plan_ms,
        "fire_key": "",
        "cause": "schedule",
        "due_at": plan_ms,
        "attempt": 1,
        "max_attempts": 1,
        "status": "success",
        "reason": None,
        "claimed_at": plan_ms + 5,
        "queued_at": None,
        "started_at": plan_ms + 10,
        "finished_at": plan_ms + 1010,
        "exit_code": 0,
        "engine_id": 1,
        "supervisor_id": "sup",
        "cancel_requested_at": None,
        "missed_from_at": None,
        "missed_to_at": None,
        "missed_count": None,
        **changes,
    }


def body(number: int, name: str, plan_ms: int, **changes: Any) -> Body:
    plain = Body(
        run=number,
        schedule=name,
        scope=("global", ""),
        plan_ms=plan_ms,
        attempt=1,
        cause="schedule",
        key=f"{name}-{plan_ms}",
        by="engine-0.1",
        pid=1000 + number,
        kind="short",
        began_ms=plan_ms + 10,
        began_mono_ms=plan_ms - T0 + 10,
        seen_mono_ms=plan_ms - T0 + 1000,
        ended_ms=plan_ms + 1000,
        code=0,
    )
    return replace(plain, **changes)


def calm_history() -> History:
    """Two schedules, every 2 s, three times each, and nothing wrong."""
    plans = [T0 + 2 * S, T0 + 4 * S, T0 + 6 * S]
    pulses = [row(number, 1, "pulse", at) for number, at in enumerate(plans, start=1)]
    others = [row(number, 2, "other", at) for number, at in enumerate(plans, start=4)]
    return History(
        began_ms=T0,
        healed_ms=T0,
        removed_ms=T0 + 60 * S,
        rows=(*pulses, *others),
        lives=(life(1, "pulse"), life(2, "other")),
        bodies=tuple(body(one["id"], one["name"], one["plan_at"]) for one in pulses + others),
    )


def with_row(history: History, number: int, **changes: Any) -> History:
    rows = tuple({**one, **changes} if one["id"] == number else one for one in history.rows)
    return replace(history, rows=rows)


def with_body(history: History, number: int, **changes: Any) -> History:
    bodies = tuple(replace(one, **changes) if one.run == number else one for one in history.bodies)
    return replace(history, bodies=bodies)


def without_row(history: History, number: int) -> History:
    return replace(history, rows=tuple(one for one in history.rows if one["id"] != number))


def without_body(history: History, number: int) -> History:
    return replace(history, bodies=tuple(one for one in history.bodies if one.run != number))


def more(history: History, *rows: Row, bodies: tuple[Body, ...] = ()) -> History:
    return replace(history, rows=(*history.rows, *rows), bodies=(*history.bodies, *bodies))


def remarked(number: str) -> Callable[[History], History]:
    return lambda history: replace(history, remarks=(Remark(number=number, text="planted"),))


def refused(code: int) -> Callable[[History], History]:
    asked = Promise(kind="pause", began_ms=T0 + S, at_ms=T0 + 2 * S, name="other")
    refusal = Refusal(asked=asked, code=code, words="planted")
    return lambda history: replace(history, refusals=(refusal,))


FINAL = row(9, 2, "other", T0 + 4 * S)
SKIP = {"status": "skipped", "missed_from_at": T0, "missed_to_at": T0, "missed_count": 1}
# By the invariant that must find it: what is planted, and in words.
PLANTED: list[tuple[str, str, Callable[[History], History]]] = [
    ("I1", "a second success", lambda h: more(h, row(9, 2, "other", T0 + 2 * S, attempt=2))),
    ("I2", "an attempt twice", lambda h: more(h, row(9, 2, "other", T0 + 2 * S))),
    ("I3", "a body twice", lambda h: more(h, bodies=(body(4, "other", T0 + 2 * S, pid=7),))),
    (
        "I4",
        "a fire with two bodies",
        lambda h: more(
            h,
            row(9, 2, "other", T0 + 2 * S, attempt=2, status="failed", reason="exit"),
            bodies=(body(9, "other", T0 + 2 * S, attempt=2),),
        ),
    ),
    ("I5", "an effect without a row", lambda h: without_row(h, 5)),
    ("I5", "an effect of another fire", lambda h: with_body(h, 5, plan_ms=T0 + 2 * S)),
    ("I6", "another exit code", lambda h: with_body(h, 5, code=3)),
    ("I6", "a success without an end", lambda h: with_body(h, 5, code=None, ended_ms=None)),
    ("I6", "a success that never began", lambda h: without_body(h, 5)),
    (
        "I6",
        "a failure that the job does not know of",
        lambda h: with_row(h, 5, status="failed", reason="exit", exit_code=1),
    ),
    (
        "I6",
        "interrupted without a cause",
        lambda h: with_row(h, 5, status="interrupted", reason="lost", exit_code=None),
    ),
    (
        "I6",
        "an end that was lost",
        lambda h: replace(
            with_row(h, 5, status="interrupted", reason="lost", finished_at=T0 + 30 * S),
            troubles=(
                Trouble(
                    kind="kill_supervisor",
                    began_ms=T0 + 20 * S,
                    healed_ms=T0 + 20 * S,
                    ended=("sup",),
                ),
            ),
        ),
    ),
    (
        "I6",
        "ended by a signal that nobody sent",
        lambda h: with_body(
            with_row(h, 5, status="failed", reason="signal", exit_code=137),
            5,
            code=None,
            ended_ms=None,
        ),
    ),
    (
        "I6",
        "ended as too long that had ended",
        lambda h: with_row(h, 5, status="failed", reason="timeout", exit_code=None),
    ),
    (
        "I6",
        "a failure of another kind",
        lambda h: with_row(h, 5, status="failed", reason="unreadable", exit_code=None),
    ),
    (
        "I6",
        "left out, and yet it ran",
        lambda h: with_row(h, 5, status="skipped", reason="overlap"),
    ),
    (
        "I6",
        "withdrawn, and yet it ran",
        lambda h: with_row(h, 5, status="cancelled", reason="request", started_at=None),
    ),
    (
        "I6",
        "ended on request of nobody",
        lambda h: with_row(h, 5, status="cancelled", reason="request"),
    ),
    ("I7", "two bodies at once", lambda h: with_body(h, 4, seen_mono_ms=5 * S)),
    (
        "I8",
        "a final row that changed",
        lambda h: replace(h, changes=(Change(before=FINAL, after={**FINAL, "exit_code": 1}),)),
    ),
    (
        "I8",
        "a range that shrank",
        lambda h: replace(
            h,
            changes=(
                Change(
                    before={**FINAL, **SKIP, "missed_count": 2},
                    after={**FINAL, **SKIP},
                ),
            ),
        ),
    ),
    ("I9", "an attempt that is missing", lambda h: with_row(h, 5, attempt=2)),
    (
        "I9",
        "an attempt that fell",
        lambda h: replace(
            h, changes=(Change(before={**FINAL, "attempt": 2}, after={**FINAL, "attempt": 1}),)
        ),
    ),
    (
        "I10",
        "a row that vanished",
        lambda h: replace(h, changes=(Change(before=FINAL, after=None),)),
    ),
    (
        "I10",
        "a promised run that is not there",
        lambda h: replace(
            h, promises=(Promise(kind="run", began_ms=T0, at_ms=T0, name="other", runs=(99,)),)
        ),
    ),
    (
        "I10",
        "a schedule that was added and is not there",
        lambda h: replace(h, promises=(Promise(kind="add", began_ms=T0, at_ms=T0, name="new"),)),
    ),
    (
        "I10",
        "a count that differs",
        lambda h: replace(h, lives=(h.lives[0], replace(h.lives[1], counts={"success": 4}))),
    ),
    (
        "I11",
        "a next time that moved back",
        lambda h: replace(
            h, steps_back=(Step(name="other", revision=1, before_ms=T0 + S, after_ms=T0),)
        ),
    ),
    ("I12", "more attempts than asked for", lambda h: with_row(h, 5, attempt=2, max_attempts=2)),
    ("I13", "no reason", lambda h: with_row(h, 5, status="cancelled", reason=None)),
    ("I14", "still running", lambda h: with_row(h, 5, status="running", finished_at=None)),
    ("I14", "a process that is left", lambda h: replace(h, alive=("job other pid 7",))),
    ("I15", "a time that was lost", lambda h: without_body(without_row(h, 5), 5)),
    (
        "I15",
        "a time that was never due",
        lambda h: more(h, row(9, 2, "other", T0 + 3 * S), bodies=(body(9, "other", T0 + 3 * S),)),
    ),
    (
        "I15",
        "a time that was decided twice",
        lambda h: more(
            h,
            row(
                9,
                2,
                "other",
                T0 + 6 * S,
                fire_key="missed",
                status="skipped",
                reason="misfire",
                missed_from_at=T0 + 6 * S,
                missed_to_at=T0 + 6 * S,
                missed_count=1,
            ),
        ),
    ),
    (
        "I15",
        "a range of another size",
        lambda h: without_body(
            with_row(
                h,
                5,
                status="skipped",
                reason="misfire",
                missed_from_at=T0 + 4 * S,
                missed_to_at=T0 + 4 * S,
                missed_count=2,
            ),
            5,
        ),
    ),
    (
        "I16",
        "no service after the last fault",
        lambda h: replace(
            h, troubles=(Trouble(kind="lock", began_ms=T0 + 6 * S, healed_ms=T0 + 10 * S),)
        ),
    ),
    ("I16", "no service at the end", remarked("I16")),
    (
        "I16",
        "a run that is forgotten",
        lambda h: replace(
            with_row(h, 4, status="cancelled", reason="removed", finished_at=T0 + 60 * S),
            troubles=(Trouble(kind="lock", began_ms=T0 + S, healed_ms=T0 + 2 * S),),
        ),
    ),
    (
        "I16",
        "no service in a calm",
        lambda h: replace(
            h,
            healed_ms=T0 + 60 * S,
            troubles=(
                Trouble(kind="lock", began_ms=T0 + 7 * S, healed_ms=T0 + 8 * S),
                Trouble(kind="lock", began_ms=T0 + 50 * S, healed_ms=T0 + 60 * S),
            ),
        ),
    ),
    ("I17", "early", lambda h: with_body(h, 5, began_ms=T0 + 4 * S - 1)),
    ("I18", "late", lambda h: with_body(h, 1, began_ms=T0 + 30 * S)),
    (
        "I18",
        "missed without a cause",
        lambda h: without_body(with_row(h, 1, status="skipped", reason="misfire"), 1),
    ),
    ("I19", "a file that others can read", lambda h: replace(h, modes={"edge.db": 0o640})),
    ("I20", "a job that outlived a stop", remarked("I20")),
    ("I21", "a damaged database", lambda h: replace(h, integrity=("row 5 missing",))),
    ("I21", "damage that was seen meanwhile", remarked("I21")),
    (
        "I22",
        "a problem that doctor finds",
        lambda h: replace(h, doctor=({"check": "runs", "message": "planted"},)),
    ),
    ("I22", "no answer", lambda h: replace(h, doctor=None)),
    ("N30", "a copy that nobody noticed", remarked("N30")),
    ("VERB", "a verb that failed", remarked("VERB")),
    ("VERB", "a verb that found no database", refused(5)),
    ("VERB", "a verb that found no schedule", refused(3)),
    ("LOG", "an engine that failed", remarked("LOG")),
]


def found(history: History) -> set[str]:
    return {violation.number for violation in judge(history)}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert found(calm_history()) == set()


@pytest.mark.parametrize(
    ("number", "plant"), [pytest.param(n, p, id=f"{n}: {words}") for n, words, p in PLANTED]
)
def test_a_planted_violation_is_found(number: str, plant: Callable[[History], History]) -> None:
    assert number in found(plant(calm_history()))


def test_every_check_has_a_planted_violation() -> None:
    assert {number for number, _, _ in PLANTED} == set(CHECKS)
    assert {f"I{number}" for number in range(1, 23)} <= set(CHECKS)
    assert all(NOT_CHECKED.values())


LOCK = Trouble(kind="lock", began_ms=T0, healed_ms=T0 + 3 * S)
DEATH = Trouble(kind="kill_supervisor", began_ms=T0 + 4500, healed_ms=T0 + 4500, ended=("sup",))


def test_a_verb_may_find_no_database_near_a_fault_and_nothing_in_another_one() -> None:
    away = replace(LOCK, kind="away")

    assert "VERB" not in found(replace(refused(5)(calm_history()), troubles=(LOCK,)))
    assert "VERB" in found(replace(refused(3)(calm_history()), troubles=(LOCK,)))
    assert "VERB" not in found(replace(refused(3)(calm_history()), troubles=(away,)))


def test_a_run_after_a_change_of_state_is_judged_by_the_definition_before_it() -> None:
    history = with_row(calm_history(), 5, revision=3)
    retried = with_row(history, 5, attempt=2, max_attempts=2)

    assert found(history) == set()
    assert "I12" in found(retried)


def test_times_of_a_definition_that_retention_removed_are_not_judged() -> None:
    history = without_body(without_row(calm_history(), 5), 5)
    history = without_body(without_row(history, 6), 6)
    known = era(until_ms=T0 + 3 * S)
    removed = replace(history.lives[1], eras=(known,), counts={"success": 1})

    assert "I15" in found(history)
    assert "I15" not in found(replace(history, lives=(history.lives[0], removed)))


def test_late_before_a_fault_is_not_excused_by_it() -> None:
    late = with_body(calm_history(), 1, began_ms=T0 + 30 * S)
    after = Trouble(kind="lock", began_ms=T0 + 25 * S, healed_ms=T0 + 31 * S)

    assert "I18" in found(replace(late, troubles=(after,)))


def test_late_near_a_fault_is_excused() -> None:
    late = with_body(calm_history(), 1, began_ms=T0 + 30 * S)

    assert "I18" not in found(replace(late, troubles=(LOCK,)))


def test_interrupted_near_the_death_of_a_supervisor_is_what_it_should_be() -> None:
    cut = with_body(calm_history(), 5, code=None, ended_ms=None)
    cut = with_row(cut, 5, status="interrupted", reason="lost", exit_code=None)

    assert "I6" not in found(replace(cut, troubles=(DEATH,)))
    assert "I6" in found(replace(cut, troubles=(LOCK,)))
    assert "I6" in found(replace(cut, troubles=(replace(DEATH, ended=("another",)),)))


def test_what_replaced_the_database_may_be_noticed_late() -> None:
    history = replace(calm_history(), removed_ms=T0 + 200 * S)
    away = Trouble(kind="replaced_unseen", began_ms=T0 + 6 * S, healed_ms=T0 + 7 * S)
    late = body(7, "pulse", T0 + 6 * S, began_ms=T0 + 80 * S)
    seen = replace(history, bodies=(*history.bodies, late))

    assert "I16" in found(replace(history, troubles=(away,)))
    assert "I16" not in found(replace(seen, troubles=(away,)))
    assert "I16" in found(replace(seen, troubles=(replace(away, kind="away"),)))


def test_a_skip_may_grow() -> None:
    before = {**FINAL, **SKIP}
    grown = {**before, "missed_to_at": T0 + S, "missed_count": 2}

    assert found(replace(calm_history(), changes=(Change(before=before, after=grown),))) == set()


def test_what_was_pruned_may_be_gone() -> None:
    history = without_body(without_row(calm_history(), 4), 4)
    history = replace(history, changes=(Change(before=row(4, 2, "other", T0 + 2 * S), after=None),))
    lives = (history.lives[0], replace(history.lives[1], pruned_until_ms=T0 + 2 * S))

    assert found(replace(history, lives=lives)) == set()
    assert found(history) == {"I10"}


def test_a_removed_range_may_be_beyond_what_was_pruned() -> None:
    gone = row(4, 2, "other", T0 + 2 * S, **{**SKIP, "fire_key": "missed", "reason": "misfire"})
    gone = {**gone, "missed_from_at": T0 + 2 * S, "missed_to_at": T0 + 2 * S}
    history = without_body(without_row(calm_history(), 4), 4)
    history = replace(history, changes=(Change(before=gone, after=None),))
    lives = (history.lives[0], replace(history.lives[1], pruned_until_ms=T0))

    assert found(replace(history, lives=lives)) == set()
    assert found(replace(history, lives=lives, changes=())) == {"I15"}


def test_a_time_may_have_come_while_a_removal_waited_for_the_lock() -> None:
    calm = calm_history()
    history = replace(calm, lives=(calm.lives[0], life(2, "other", counts={"success": 4})))

    def with_run_at(plan_ms: int) -> History:
        return more(history, row(9, 2, "other", plan_ms), bodies=(body(9, "other", plan_ms),))

    assert found(with_run_at(T0 + 8 * S)) == set()
    assert found(with_run_at(T0 + 9 * S)) == {"I15"}
    assert found(with_run_at(T0 + 40 * S)) == {"I15"}


def test_nothing_is_put_down_once_a_removal_was_told_of() -> None:
    calm = calm_history()
    told = Promise(kind="rm", began_ms=T0 + 7 * S, at_ms=T0 + 9 * S, name="other")
    lives = (calm.lives[0], life(2, "other", counts={"success": 4}))
    history = replace(calm, lives=lives, promises=(told,))

    def with_run(plan_ms: int, **changes: Any) -> History:
        late = row(9, 2, "other", plan_ms, **changes)
        return more(history, late, bodies=(body(9, "other", plan_ms),))

    assert found(with_run(T0 + 8 * S, queued_at=T0 + 8 * S + 5)) == set()
    assert found(with_run(T0 + 8 * S, queued_at=T0 + 9 * S)) == set()
    assert found(with_run(T0 + 8 * S, queued_at=T0 + 9 * S + 1)) == {"I15"}
    assert found(with_run(T0 + 10 * S, queued_at=T0 + 9 * S)) == set()  # right before its time
    assert found(with_run(T0 + 10 * S, queued_at=T0 + 10 * S)) == {"I15"}
    # Of another schedule it says nothing.
    late = with_run(T0 + 10 * S, queued_at=T0 + 10 * S)
    assert found(replace(late, promises=(replace(told, name="pulse"),))) == set()


def test_what_a_removal_withdrew_was_there_before_it_also_where_it_was_queued_again() -> None:
    calm = calm_history()
    told = Promise(kind="rm", began_ms=T0 + 7 * S, at_ms=T0 + 9 * S, name="other")
    lives = (calm.lives[0], life(2, "other", counts={"success": 3, "cancelled": 1}))
    withdrawn = row(
        9,
        2,
        "other",
        T0 + 8 * S,
        status="cancelled",
        reason="removed",
        queued_at=T0 + 12 * S,
        started_at=None,
        claimed_at=None,
        finished_at=T0 + 12 * S,
        exit_code=None,
    )

    assert found(more(replace(calm, lives=lives, promises=(told,)), withdrawn)) == set()
