"""What makes a fire one fire: the unique row, and the conditional update that advances."""

from __future__ import annotations

from tests.support.edits import Edit, FileEdit

from .hunts import CLOCKS, CRASHES, CUTS, EVERY_CALL, PLACEMENT, STORIES, fails
from .mutation import Hunt, Mutation

_CLAIMS = "tests/store/test_store_claims.py"
ALL: tuple[Mutation, ...] = (
    Mutation(
        name="boot-decided",
        guard="the boot that a schedule has decided last",
        proves=("I4", "22"),
        edits=(
            Edit(
                function="_decide_boot", old="boot_decided IS NOT :boot AND on_boot", new="on_boot"
            ),
        ),
        hunt=Hunt(tests=(_CLAIMS,), says="test_a_boot_stays_decided"),
    ),
    Mutation(
        name="clock-trust",
        guard="calendar times wait for a clock that can be trusted",
        proves=("I17", "5"),
        edits=(
            Edit(
                function="is_trusted",
                old="is_synchronised is True or is_plausible(now_ms, mark_ms=mark_ms)",
                new="True",
            ),
        ),
        hunt=Hunt(tests=(CLOCKS,), says=fails("I17")),
    ),
    Mutation(
        name="placement",
        guard="the machine or label that is part of a run's queue",
        proves=("I26", "90"),
        edits=(
            Edit(
                function="update_schedule",
                old="compiled.spec.placed_queue != schedule.spec.placed_queue and can_move",
                new="False",
            ),
        ),
        hunt=Hunt(tests=(PLACEMENT,), says=fails("I26")),
    ),
    Mutation(
        name="own-machine",
        guard="of the runs on each machine, an engine starts its own",
        proves=("91",),
        edits=(
            Edit(
                function="FireWriter._write_fire",
                old="self._direct and is_here",
                new="self._direct",
            ),
        ),
        hunt=Hunt(
            tests=("tests/engine/test_engine_each.py",),
            says="test_each_machine_runs_a_due_schedule_once",
        ),
    ),
    Mutation(
        name="unique-row",
        guard="the row that makes a fire unique",
        proves=("I2", "I4", "22"),
        edits=(
            FileEdit(
                file="store/sqlite/schema.sql",
                old=(
                    "    UNIQUE (schedule_id, scope_kind, scope_id, plan_at, fire_key, attempt),\n"
                ),
                new="",
            ),
            Edit(
                function="_ONCE",
                old=(
                    "ON CONFLICT (schedule_id, scope_kind, scope_id, plan_at, fire_key, "
                    "attempt) DO NOTHING"
                ),
                new="",
            ),
        ),
        hunt=Hunt(tests=(CLOCKS,), says=fails("I[124]")),
        is_quick=True,
    ),
    Mutation(
        name="advance-by-time",
        guard="the next time that a claim must still find",
        proves=("I4", "22"),
        edits=(
            Edit(
                function="_advance_all",
                old="found.get((due.schedule_id, due.revision, due.plan_ms, due.due_ms))",
                new="{key[:2]: fence for key, fence in found.items()}.get(due[:2])",
            ),
        ),
        hunt=Hunt(tests=(_CLAIMS,), says="test_the_second_engine_loses"),
    ),
    Mutation(
        name="advance-by-revision",
        guard="the revision that a claim must still find",
        proves=("I15", "13", "26"),
        edits=(
            Edit(
                function="_advance_all",
                old="found.get((due.schedule_id, due.revision, due.plan_ms, due.due_ms))",
                new="{(key[0], *key[2:]): fence for key, fence in found.items()}.get("
                "(due.schedule_id, due.plan_ms, due.due_ms))",
            ),
        ),
        hunt=Hunt(tests=(_CLAIMS,), says="test_an_edit_between_look_and_claim_wins"),
    ),
    Mutation(
        name="advance-count",
        guard="the rows that the conditional update gives back",
        proves=("I4", "22"),
        edits=(
            Edit(
                function="claim_due",
                old="[one for one in decisions if one.plan.due.schedule_id in fences]",
                new="list(decisions)",
            ),
        ),
        hunt=Hunt(tests=(_CLAIMS,), says="test_the_second_engine_loses"),
    ),
    Mutation(
        name="decided-until",
        guard="up to when plan times are decided",
        proves=("I15", "4"),
        edits=(
            Edit(
                function="_plan_all",
                old="due.plan_ms <= due.decided_until_ms or is_done:",
                new="is_done:",
            ),
        ),
        # The unique row holds too, as long as there is one: the plan is asked for itself.
        hunt=Hunt(
            tests=("tests/planning/test_planning_catch_up.py",),
            says="test_what_is_decided_already_does_not_fire_again",
        ),
    ),
    Mutation(
        name="commit-before-start",
        guard="nothing starts before its claim is committed",
        proves=("I5", "15", "16"),
        edits=(
            Edit(
                function="_batch_of",
                old=("tuple(writer.decided)\n    batch"),
                new=("tuple(writer.decided)\n    database.on_granted(granted)\n    batch"),
            ),
            Edit(
                function="Claimer.start",
                old=("claims = self._complete(batch, claimant)\n    self._runners.start(claims)"),
                new="claims: list[Claim] = []",
            ),
            Edit(
                function="Claimer.claimant",
                old="return",
                new=(
                    "from edgecron.store.sql.connection import OwnConnection\n"
                    "    OwnConnection.on_granted = staticmethod(lambda granted: "
                    "self._runners.start(self._complete(ClaimBatch(granted=granted), "
                    "self.claimant())))\n"
                    "    return"
                ),
            ),
        ),
        hunt=Hunt(tests=(EVERY_CALL, CUTS, CRASHES), says=fails("I5") + "|AssertionError: lost"),
    ),
    Mutation(
        name="key-is-looked-up",
        guard="a run by hand with a key is queued once, by the look-up and by the index",
        proves=("I23",),
        edits=(
            Edit(function="_enqueue", old="if wanted.is_keyed else []", new="if False else []"),
            FileEdit(
                file="store/sqlite/schema.sql",
                old="CREATE UNIQUE INDEX executions_keyed",
                new="CREATE INDEX executions_keyed",
            ),
        ),
        hunt=Hunt(tests=(STORIES,), says=fails("I23")),
    ),
    Mutation(
        name="acknowledged-before-commit",
        guard="a run by hand is acknowledged only if it was committed",
        proves=("I23",),
        edits=(
            Edit(
                function="enqueue_together",
                old="with database.transaction(is_synced=is_synced):",
                new="with database.rehearsal():",
            ),
        ),
        hunt=Hunt(tests=(STORIES,), says=fails("I23")),
    ),
    Mutation(
        name="added-before-commit",
        guard="a schedule that a program adds is acknowledged only if it was committed",
        proves=("I23",),
        edits=(
            Edit(
                function="add_one",
                old="_carry_out(database, plan, origin=origin)",
                new=(
                    "with database.store.rehearsal():\n"
                    "        _carry_out(database, plan, origin=origin)"
                ),
            ),
        ),
        hunt=Hunt(tests=(STORIES,), says=fails("I23")),
    ),
    Mutation(
        name="group-is-whole",
        guard="all runs of a group are queued",
        proves=("I23",),
        edits=(
            Edit(
                function="_enqueue",
                old="_queue(database, schedule, wanted.fires, now_ms)",
                new="_queue(database, schedule, wanted.fires[:2], now_ms)",
            ),
        ),
        hunt=Hunt(tests=(STORIES,), says=fails("I23")),
    ),
)
