"""What is taken over from the dead, and what is left to the living."""

from __future__ import annotations

from tests.support.edits import Edit

from .hunts import CRASHES, POLICIES, fails
from .mutation import Hunt, Mutation

_STORIES = "tests/engine/test_engine_recovery.py"

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="kernel-locks",
        guard="who is alive is what the kernel says, and not how old a heartbeat is",
        proves=("I6", "I7", "23"),
        edits=(
            Edit(function="find_running", old="e.started_at", new="e.heartbeat_at"),
            Edit(
                function="RecoveryPass._find_left",
                old="if not _is_alive(row.engine_key, row, self._others, judges_machines=judges)}",
                new="}",
            ),
            Edit(
                function="RecoveryPass._find_left",
                old="in known]",
                new="== self._engine_id or self._now_ms() - row.started_ms > 10000]",
            ),
            Edit(
                function="RecoveryPass._adopt",
                old=("if not self._others.supervisor_is_alive(supervisor_id):\n        return"),
                new="return",
            ),
            Edit(
                function="RecoveryPass._judge",
                old="self._others.supervisor_is_alive(supervisor_id)",
                new="False",
            ),
        ),
        hunt=Hunt(tests=(CRASHES, POLICIES), says=fails("I[367]")),
        is_quick=True,
    ),
    Mutation(
        name="who-is-dead-first",
        guard="what an engine left is read after it is known to be dead",
        proves=("I14", "17", "19"),
        edits=(
            Edit(
                function="RecoveryPass._find_left",
                old="engines = {row.engine_id: row for row in self._store.find_running()",
                new=(
                    "rows = self._store.find_running()\n"
                    "    engines = {row.engine_id: row for row in rows"
                ),
            ),
            Edit(
                function="RecoveryPass._find_left",
                old="[row for row in self._store.find_running()",
                new="[row for row in rows",
            ),
        ),
        hunt=Hunt(
            tests=("tests/engine/test_engine_recovery.py",),
            says="test_what_is_claimed_just_before_its_engine_dies_is_not_overlooked",
        ),
    ),
    Mutation(
        name="a-whole-term-first",
        guard="an engine that could not reach the server judges no other by its lease",
        proves=("I6",),
        edits=(
            Edit(
                function="Registration.judges_others",
                old="self._held_since_ms is not None and",
                new="True or",
            ),
        ),
        hunt=Hunt(
            tests=("tests/engine/test_engine_leases.py",),
            says="test_nobody_is_judged_before_a_whole_term",
        ),
    ),
    Mutation(
        name="revoked-before-requeued",
        guard="nothing is queued again while its supervisor may start it",
        proves=("I3", "17"),
        edits=(Edit(function="RecoveryPass._judge", old="Exit)):", new="Exit | NeverStarted)):"),),
        hunt=Hunt(
            tests=("tests/engine/test_engine_recovery.py",),
            says="test_what_a_supervisor_that_does_not_answer_may_still_start",
        ),
    ),
    Mutation(
        name="supervisor-on-record",
        guard="whom an engine claims for is on record before it claims",
        proves=("I6", "17"),
        edits=(
            Edit(
                function="Supervision.keep",
                old="self._store.note_supervisor(engine_id, self._own.id)",
                new="pass",
            ),
        ),
        hunt=Hunt(tests=(_STORIES,), says="test_the_files_of_a_supervisor_stay"),
    ),
    Mutation(
        name="adoption-on-record",
        guard="what an adopted supervisor runs is put down as its new engine's",
        proves=("I14",),
        edits=(
            Edit(
                function="RecoveryPass._adopt",
                old="self._record_as_ours(adoption.started)",
                new="pass",
            ),
        ),
        hunt=Hunt(tests=(_STORIES,), says="test_what_runs_when_its_engine_dies_is_adopted"),
    ),
)
