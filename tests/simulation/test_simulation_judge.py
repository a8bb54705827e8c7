"""The judge can tell: what is spoilt behind its back is found, and named by its invariant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import apsw
import pytest

from tests.simulation.casts import START_MS
from tests.simulation.lives import Life
from tests.simulation.machine import MOST_LEAD_MS, Machine
from tests.simulation.people import wish
from tests.simulation.points import watching
from tests.simulation.seeds import folder_in_memory

SPEC = wish("plain", periods_s=(5,), anchor_ms=START_MS, lasts_s=1)


def sql(text: str) -> Callable[[Life], object]:
    """Somebody else changes the database."""

    def spoil(life: Life) -> None:
        connection = apsw.Connection(str(life.machine.path))
        connection.execute("DROP TRIGGER executions_final")
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute(text)
        connection.close()

    return spoil


def start_twice(life: Life) -> None:
    body = next(iter(life.machine.bodies.values()))
    life.machine.bodies["again"] = replace(body, token="again")


def start_early(life: Life) -> None:
    for body in life.machine.bodies.values():
        body.highest_ms = START_MS - 1


def start_beside(life: Life) -> None:
    first, second = list(life.machine.bodies.values())[:2]
    life.machine.bodies[second.token] = replace(second, beside=(first.token,))


def end_otherwise(life: Life) -> None:
    for body in life.machine.bodies.values():
        body.exit_code = 7


def forget_a_row(life: Life) -> None:
    body = next(iter(life.machine.bodies.values()))
    life.machine.bodies["unknown"] = replace(body, token="unknown", execution_id=999)


UNSEEN = {  # before the judge has looked at all
    "I1": sql(
        """UPDATE executions SET attempt = 2, max_attempts = 2,
               plan_at = (SELECT plan_at FROM executions WHERE id = 1) WHERE id = 2"""
    ),
    "I3": start_twice,
    "I5": forget_a_row,
    "I6": end_otherwise,
    "I7": start_beside,
    "I12": sql("UPDATE executions SET attempt = 3, max_attempts = 2 WHERE id = 1"),
    "I13": sql("UPDATE executions SET status = 'skipped', reason = NULL WHERE id = 1"),
    "I15": sql("UPDATE executions SET plan_at = plan_at + 1 WHERE id = 2"),
    "I17": start_early,
}
SEEN = {  # what it has seen is changed
    "I8": sql("UPDATE executions SET exit_code = 9 WHERE id = 1"),
    "I10": sql("DELETE FROM executions WHERE id = 1"),
    "I11": sql("UPDATE schedules SET next_plan_at = next_plan_at - 5000"),
}


def spoilt(spoil: Callable[[Life], object], *, is_seen: bool) -> str:
    """What the judge says of a short life in which something was spoilt."""
    with folder_in_memory() as folder:
        machine = Machine(folder, seed=1, start_ms=START_MS)
        with watching(machine):
            life = Life(machine, [SPEC])
            try:
                life.run(17_000)
                if is_seen:
                    life.judge.check()
                    life.judge.checks += 7  # the next one looks at everything
                spoil(life)
                with pytest.raises(AssertionError) as caught:
                    life.judge.check()
            finally:
                life.close()
    return str(caught.value)


@pytest.mark.parametrize("invariant", UNSEEN)
def test_what_is_wrong_is_found(invariant: str) -> None:
    told = spoilt(UNSEEN[invariant], is_seen=False)

    assert told.startswith(f"{invariant} ")


@pytest.mark.parametrize("invariant", SEEN)
def test_what_has_changed_is_found(invariant: str) -> None:
    told = spoilt(SEEN[invariant], is_seen=True)

    assert told.startswith(f"{invariant} ")


def test_an_engine_that_does_nothing_is_found() -> None:
    with folder_in_memory() as folder:
        machine = Machine(folder, seed=1, start_ms=START_MS)
        with watching(machine):
            life = Life(machine, [SPEC])
            try:
                life.run(7_000)
                life.daemons[0].stepper.stalled_until_ms = machine.true_ms + 60_000
                life.run(30_000)
                with pytest.raises(AssertionError, match="I16"):
                    life.judge.check_recovered()
            finally:
                life.close()


def claimed_ahead(life: Life) -> bool:
    """Whether a fire is claimed that is not due yet."""
    now_ms = life.machine.clock.now_ms()
    return bool(
        life.judge.database.execute(
            "SELECT 1 FROM executions WHERE due_at > ? AND claimed_at = due_at", (now_ms,)
        ).fetchall()
    )


def life_with_a_claim_ahead(machine: Machine) -> Life:
    """A life at an instant at which its engine has claimed a fire that is due in a moment."""
    life = Life(machine, [SPEC])
    while not claimed_ahead(life):
        # Every second engine claims ahead of time.
        life.run(1 if machine.clock.now_ms() % 5_000 >= 4_970 else 30)
        if machine.true_ms % 60_000 > 30_000:
            life.kill_an_engine()
            life.run(30_000)
    return life


def test_a_fire_claimed_ahead_of_a_clock_that_is_then_set_back_does_not_start_early() -> None:
    with folder_in_memory() as folder:
        machine = Machine(folder, seed=1, start_ms=START_MS)
        with watching(machine):
            life = life_with_a_claim_ahead(machine)
            try:
                machine.step_clock(-15_000)
                life.run(1_000)
                body = list(machine.bodies.values())[-1]
                row: Any = life.judge.database.execute(
                    "SELECT due_at FROM executions WHERE id = ?", (body.execution_id,)
                ).fetchall()[0]
                assert body.highest_ms < row[0]  # It started at once, as its time is decided.

                life.judge.check()
            finally:
                life.close()


@pytest.mark.parametrize(
    ("early_ms", "lead_ms"),
    [
        (1, None),
        (1, 0),
        (1, MOST_LEAD_MS + 1),
        (MOST_LEAD_MS + 1, MOST_LEAD_MS),
    ],
)
def test_a_start_before_its_time_is_found_unless_the_clock_was_set_back_right_before_it(
    early_ms: int, lead_ms: int | None
) -> None:
    def start_earlier(life: Life) -> None:
        body = list(life.machine.bodies.values())[-1]
        due_ms = body.started_ms // 5_000 * 5_000
        body.highest_ms = due_ms - early_ms
        if lead_ms is not None:
            life.machine.set_back_from_ms.append(due_ms - lead_ms)

    told = spoilt(start_earlier, is_seen=False)

    assert told.startswith("I17 ")
