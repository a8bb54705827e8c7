"""Limits, overlap, pauses and needs, looked at again in the transaction that starts."""

from __future__ import annotations

from .hunts import CRASHES, POLICIES, fails
from .mutation import Edit, Hunt, Mutation

_LIMITS = "tests/engine/test_engine_limits.py"
_NO_LIMIT = f"{_LIMITS}::test_no_limit_is_ever_passed_whatever_comes_together"
_LEDGER = "store/ledger.py"

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="engine-limit",
        guard="what an engine runs is counted in each claim",
        proves=("49",),
        edits=(
            Edit(
                file=_LEDGER,
                old="            self._places = seat.max_running - running\n",
                new="            self._places = seat.max_running\n",
            ),
        ),
        hunt=Hunt(tests=(_NO_LIMIT, _LIMITS), says="test_(no_limit|an_engine_s_limit)"),
    ),
    Mutation(
        name="group-limit",
        guard="what a group runs is counted in each claim",
        proves=("49",),
        edits=(
            Edit(
                file=_LEDGER,
                old="return {name: most - running for name, most, running in rows}",
                new="return {name: most for name, most, running in rows}",
            ),
        ),
        hunt=Hunt(tests=(_NO_LIMIT, _LIMITS), says="test_(no_limit|a_group_s_limit)"),
    ),
    Mutation(
        name="schedule-limit",
        guard="what a schedule runs is counted before a queued row starts",
        proves=("I7", "28"),
        edits=(
            Edit(
                file="admission.py",
                old="    return limit is None or taken < limit\n",
                new="    return True\n",
            ),
            Edit(
                file="admission.py",
                old="    return limit is not None and occupancy.running >= limit\n",
                new="    return False\n",
            ),
        ),
        hunt=Hunt(tests=(CRASHES, POLICIES), says=fails("I7")),
    ),
)
