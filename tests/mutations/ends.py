"""What keeps an end the end: the token, the state it comes from, what is written with it."""

from __future__ import annotations

from tests.support.edits import Edit, FileEdit

from .hunts import CRASHES, EVERY_CALL, POLICIES, fails
from .mutation import Hunt, Mutation

_SETTLED = "schedules = self._runners.settle(outcomes, may_lack=self._store.leases is not None)"

# The trigger of the database.
_WHEN = "WHEN OLD.status NOT IN ('queued', 'running') AND"
_NO_TRIGGER = (
    FileEdit(
        file="store/sqlite/schema.sql",
        old=f"{_WHEN} (",
        new=f"{_WHEN} FALSE AND (",
    ),
)

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="token-of-an-end",
        guard="the lease token of an end",
        proves=("I6", "29"),
        edits=(
            Edit(
                function="_END",
                old="lease_token = :token AND status = 'running'",
                new="status = 'running'",
            ),
            Edit(
                function="_is_simple",
                old="row is None or row.token != outcome.lease_token",
                new="row is None",
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
            Edit(function="_END", old="AND status = 'running'", new=""),
            Edit(function="_find_unfollowed", old="e.status = 'running' AND", new=""),
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
                function="_changes_state",
                old="bool(outcome.state) and outcome.status is Status.SUCCESS",
                new="bool(outcome.state)",
            ),
        ),
        hunt=Hunt(tests=(CRASHES,), says=fails("I6")),
    ),
    Mutation(
        name="requeue-by-token",
        guard="the token of what is queued again",
        proves=("I3", "17"),
        edits=(Edit(function="_requeue", old="lease_token = :token AND status", new="status"),),
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
                function="_retry",
                old="SELECT schedule_id, revision,",
                new=(
                    "SELECT schedule_id, (SELECT s.revision FROM schedules AS s WHERE s.id "
                    "= schedule_id),"
                ),
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
                function="plan_retry",
                old="or failures > policy.retries:",
                new=":",
            ),
        ),
        hunt=Hunt(tests=(POLICIES,), says=fails("I12")),
    ),
    Mutation(
        name="no-retry-of-the-unwanted",
        guard="what was cancelled is not tried again",
        proves=("I12", "26"),
        edits=(Edit(function="_retry", old="row.is_unwanted:", new="False:"),),
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
                function="plan_retry",
                old=("ended.finished_ms if policy.on_interrupt is OnInterrupt.RETRY else None"),
                new="ended.finished_ms",
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
                function="Finishing.finish",
                old=("self._claimer.report()\n    claimant"),
                new=(f"self._claimer.report()\n    {_SETTLED}\n    claimant"),
            ),
            Edit(
                function="Finishing.finish",
                old=(f"{_SETTLED}\n    self._report"),
                new="self._report",
            ),
        ),
        hunt=Hunt(tests=(EVERY_CALL, CRASHES, POLICIES), says=fails("I[346]")),
    ),
)
