"""What is taken over from the dead, and what is left to the living."""

from __future__ import annotations

from .hunts import CRASHES, POLICIES, TAKE_OVER, fails
from .mutation import Edit, Hunt, Mutation

_STORIES = "tests/engine/test_engine_recovery.py"
_RECOVERY = "engine/recovery.py"

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="kernel-locks",
        guard="who is alive is what the kernel says, and not how old a heartbeat is",
        proves=("I6", "I7", "23"),
        edits=(
            Edit(
                file="store/ends.py",
                old="s.ok_codes, s.kill_grace_s, e.started_at\n"
                "           FROM executions AS e INDEXED",
                new="s.ok_codes, s.kill_grace_s, e.heartbeat_at\n"
                "           FROM executions AS e INDEXED",
            ),
            Edit(
                file=_RECOVERY,
                old="if key is None or not self._others.engine_is_alive(key)",
                new="if True",
            ),
            Edit(
                file=_RECOVERY,
                old="if row.engine_id in known]",
                new="if row.engine_id == self._engine_id\n"
                "            or self._now_ms() - row.started_ms > 10_000]",
            ),
            Edit(
                file=_RECOVERY,
                old="        if not self._others.supervisor_is_alive(supervisor_id):\n"
                "            return False\n",
                new="        return False\n",
            ),
            Edit(
                file=_RECOVERY,
                old="        is_alive = self._others.supervisor_is_alive(supervisor_id)\n",
                new="        is_alive = False\n",
            ),
        ),
        hunt=Hunt(tests=(CRASHES, POLICIES), says=fails("I[67]")),
        is_quick=True,
    ),
    Mutation(
        name="who-is-dead-first",
        guard="what an engine left is read after it is known to be dead",
        proves=("I14", "17", "19"),
        edits=(
            Edit(
                file=_RECOVERY,
                old="        keys = {\n"
                "            row.engine_id: row.engine_key\n"
                "            for row in self._store.find_running()\n",
                new="        rows = self._store.find_running()\n"
                "        keys = {\n"
                "            row.engine_id: row.engine_key\n"
                "            for row in rows\n",
            ),
            Edit(
                file=_RECOVERY,
                old="        return [row for row in self._store.find_running()"
                " if row.engine_id in known]",
                new="        return [row for row in rows if row.engine_id in known]",
            ),
        ),
        hunt=Hunt(tests=(TAKE_OVER,), says=fails("I1[46]"), is_long=True),
    ),
    Mutation(
        name="revoked-before-requeued",
        guard="nothing is queued again while its supervisor may start it",
        proves=("I3", "17"),
        edits=(
            Edit(
                file=_RECOVERY,
                old="            if is_alive and not isinstance(verdict, Exit):\n",
                new="            if is_alive and not isinstance(verdict, Exit | NeverStarted):\n",
            ),
        ),
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
                file="engine/runners.py",
                old="            self._store.note_supervisor("
                "engine_id, self._runners.supervisor_id)\n",
                new="",
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
                file=_RECOVERY,
                old="            self._record_as_ours(adoption.started)\n",
                new="            pass\n",
            ),
        ),
        hunt=Hunt(tests=(_STORIES,), says="test_what_runs_when_its_engine_dies_is_adopted"),
    ),
)
