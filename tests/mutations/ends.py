"""What keeps an end the end: the token, the state it comes from, what is written with it."""

from __future__ import annotations

from .hunts import CRASHES, EVERY_CALL, POLICIES, fails
from .mutation import Edit, Hunt, Mutation

_ENDING = "store/ends.py"
_AFTER = "store/follow_ups.py"

# The trigger of the database, and what it is told from a planted one by.
_NO_TRIGGER = tuple(
    Edit(
        file=file,
        old="WHEN OLD.status NOT IN ('queued', 'running') AND (\n",
        new="WHEN OLD.status NOT IN ('queued', 'running') AND FALSE AND (\n",
    )
    for file in ("store/migrations/0004_leaner_runs.sql", "store/migrate.py")
)

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="token-of-an-end",
        guard="the lease token of an end",
        proves=("I6", "29"),
        edits=(
            Edit(
                file=_ENDING,
                old="    WHERE id = :id AND lease_token = :token AND status = 'running'\n"
                "    RETURNING id, lease_token, schedule_id",
                new="    WHERE id = :id AND status = 'running'\n"
                "    RETURNING id, :token, schedule_id",
            ),
        ),
        hunt=Hunt(
            tests=("tests/store/test_store_ends.py",),
            says="test_an_end_with_another_token_changes_nothing",
        ),
        is_quick=True,
    ),
    Mutation(
        name="end-of-what-runs",
        guard="only what runs is ended, by the statement and by the database",
        proves=("I8", "29"),
        edits=(
            Edit(
                file=_ENDING,
                old="    WHERE id = :id AND lease_token = :token AND status = 'running'\n"
                "    RETURNING id, lease_token, schedule_id",
                new="    WHERE id = :id AND lease_token = :token\n"
                "    RETURNING id, lease_token, schedule_id",
            ),
            *_NO_TRIGGER,
        ),
        # A second end of a run writes its retry again, which the database refuses.
        hunt=Hunt(
            tests=(POLICIES, CRASHES),
            says=rf"{fails('I[268]')}|UNIQUE constraint failed: executions",
        ),
    ),
    Mutation(
        name="terminal-rows",
        guard="the database itself refuses to change what has ended",
        proves=("I8", "29"),
        edits=(*_NO_TRIGGER,),
        hunt=Hunt(tests=("tests/store/test_sqlite_rows.py",), says="Expected regex: 'terminal'"),
    ),
    Mutation(
        name="state-of-a-failure",
        guard="what a schedule is to remember is written with a success alone",
        proves=("I6",),
        edits=(
            Edit(
                file=_ENDING,
                old="    if outcome.state and outcome.status is Status.SUCCESS:\n",
                new="    if outcome.state:\n",
            ),
        ),
        hunt=Hunt(tests=(CRASHES,), says=fails("I6")),
    ),
    Mutation(
        name="requeue-by-token",
        guard="the token of what is queued again",
        proves=("I3", "17"),
        edits=(
            Edit(
                file=_ENDING,
                old="WHERE id = :id AND lease_token = :token AND status = 'running'\n"
                "               RETURNING schedule_id, cancel",
                new="WHERE id = :id AND status = 'running'\n"
                "               RETURNING schedule_id, cancel",
            ),
        ),
        hunt=Hunt(
            tests=("tests/store/test_store_ends.py",),
            says="test_what_was_claimed_anew_is_not_queued",
        ),
    ),
    Mutation(
        name="retry-of-its-revision",
        guard="a retry keeps the revision of its fire",
        proves=("I9",),
        edits=(
            Edit(
                file=_AFTER,
                old="           SELECT schedule_id, revision, scope_kind, scope_id, plan_at,"
                " fire_key, 'retry',\n",
                new="           SELECT schedule_id, (SELECT s.revision FROM schedules AS s\n"
                "                   WHERE s.id = schedule_id), scope_kind, scope_id, plan_at,"
                " fire_key, 'retry',\n",
            ),
        ),
        hunt=Hunt(tests=(POLICIES,), says="AssertionError: a revision changed"),
    ),
    Mutation(
        name="retry-count",
        guard="as many retries as the schedule says",
        proves=("I12",),
        edits=(
            Edit(
                file="planning/retry.py",
                old="if ended.status is not Status.FAILED or failures > policy.retries:",
                new="if ended.status is not Status.FAILED:",
            ),
        ),
        hunt=Hunt(tests=(POLICIES,), says=fails("I12")),
    ),
    Mutation(
        name="no-retry-of-the-unwanted",
        guard="what was cancelled is not tried again",
        proves=("I12", "26"),
        edits=(Edit(file=_AFTER, old="    if row.is_unwanted:\n", new="    if False:\n"),),
        hunt=Hunt(
            tests=("tests/store/test_store_ends.py",), says="test_what_failed_before_it_could_be"
        ),
    ),
    Mutation(
        name="interrupted-is-not-retried",
        guard="what was interrupted runs again only where the schedule asks",
        proves=("I12", "17"),
        edits=(
            Edit(
                file="planning/retry.py",
                old="return ended.finished_ms if policy.on_interrupt is OnInterrupt.RETRY"
                " else None",
                new="return ended.finished_ms",
            ),
        ),
        hunt=Hunt(tests=(POLICIES,), says=fails("I12")),
    ),
    Mutation(
        name="end-before-acknowledgement",
        guard="a supervisor keeps an end until that is committed",
        proves=("I6", "15", "17"),
        edits=(
            Edit(
                file="engine/finish.py",
                old="        self._claimer.report()  # A run's start is reported before its end.\n",
                new="        self._claimer.report()\n"
                "        schedules = self._runners.settle(outcomes)\n",
            ),
            Edit(
                file="engine/finish.py",
                old="            written = self._store.finish(ended, now_ms=now_ms)\n"
                "        schedules = self._runners.settle(outcomes)\n",
                new="            written = self._store.finish(ended, now_ms=now_ms)\n",
            ),
        ),
        hunt=Hunt(tests=(EVERY_CALL, CRASHES, POLICIES), says=fails("I[346]")),
    ),
)
