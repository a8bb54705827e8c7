"""Create, change, pause, resume, reschedule, remove and restore schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import AlreadyExists
from edgecron.base.units import to_ms
from edgecron.base.values import dataclass
from edgecron.model.choices import GLOBAL_SCOPE
from edgecron.model.engine import EACH, MACHINE, place
from edgecron.model.schedule import Act, Author, Schedule, ScheduleSpec
from edgecron.planning.next_fire import Missed, NextFire
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.manual_runs import cancel_removed
from edgecron.store.sql.revisions import State, find_scopes, write_change, write_revision
from edgecron.store.sql.row_batches import record_missed
from edgecron.store.sql.rows import spec_columns
from edgecron.store.sql.waiting_rows import wake_schedule

if TYPE_CHECKING:
    from edgecron.planning.times import CompiledSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Retiming:
    """New times for a schedule: what it missed until now, and its next fire."""

    next: NextFire | None
    decided_until_ms: int
    missed: tuple[Missed, ...] = ()


_UNKNOWN = Author()


def insert_schedules(
    database: Connection,
    made: Sequence[tuple[CompiledSpec, Retiming]],
    *,
    boot_id: str,
    origin: str,
    now_ms: int,
    author: Author = _UNKNOWN,
) -> list[int]:
    """Create schedules, all or none; their ids. AlreadyExists names the first that exists."""
    with database.transaction():
        return [
            _insert_one(database, compiled, retiming, boot_id, origin, now_ms, author)
            for compiled, retiming in made
        ]


def update_schedule(
    database: Connection,
    schedule: Schedule,
    compiled: CompiledSpec,
    *,
    retiming: Retiming | None,
    boot_id: str,
    origin: str,
    now_ms: int,
    act: Act = Act.EDIT,
    author: Author = _UNKNOWN,
) -> bool:
    """Change a schedule; False if it has changed since it was read.

    Without `retiming`, its next time stays. With it, the call also returns False if an engine has
    decided one of its times since.
    """
    columns = _columns(compiled)
    with database.transaction():
        _need_group(database, compiled.spec.group)
        if retiming is not None and _has_fired(database, schedule):
            return False
        if not _set_columns(database, schedule, columns, now_ms):
            return False
        database.change(
            """UPDATE schedules SET boot_decided = iif(on_boot, coalesce(boot_decided, :boot),
                   NULL) WHERE id = :id""",
            {"id": schedule.id, "boot": boot_id},
        )
        if retiming is not None:
            _retime(database, schedule, compiled.spec, retiming, now_ms)
        scopes = _scopes_after(compiled.spec, _find_machines(database, schedule))
        _write_scopes(database, schedule.id, scopes)
        _write_upstreams(database, schedule.id, compiled)
        is_same_kind = compiled.spec.job.kind is schedule.spec.job.kind
        can_move = is_same_kind or compiled.spec.queue == schedule.spec.queue
        if compiled.spec.placed_queue != schedule.spec.placed_queue and can_move:
            # In the former queue, no engine would start its queued runs, nor the retries of its
            # running ones: these hold back later runs.
            is_each = compiled.spec.policies.on == EACH
            database.change(
                """UPDATE executions
                   SET queue = iif(scope_kind = :kind, coalesce(:each || scope_id, :queue), :queue)
                   WHERE schedule_id = :id AND status IN ('queued', 'running')""",
                {
                    "id": schedule.id,
                    "queue": compiled.spec.placed_queue,
                    "kind": MACHINE,
                    "each": place(compiled.spec.queue, "") if is_each else None,
                },
            )
        wake_schedule(database, schedule.id, now_ms=now_ms)
        revision = schedule.revision + 1
        write_revision(database, schedule.id, revision, columns, origin, now_ms, scopes=scopes)
        write_change(database, schedule.id, revision, act=act, author=author, now_ms=now_ms)
    return True


def pause_schedule(
    database: Connection,
    schedule: Schedule,
    *,
    until_ms: int | None,
    following: NextFire | None,
    now_ms: int,
    act: Act = Act.PAUSE,
    author: Author = _UNKNOWN,
) -> bool:
    """Pause a schedule: without end, or until an instant and its next fire after that."""
    columns: dict[str, Any] = {
        "enabled": 0 if until_ms is None else 1,
        "paused_until": until_ms,
        **_next_columns(following),
    }
    if following is not None:
        columns["trigger_error"] = None  # Its times could be read.
    state = _state_of(schedule, enabled=until_ms is not None, paused_until_ms=until_ms)
    with database.transaction():
        if not _set_columns(database, schedule, columns, now_ms):
            return False
        _note(database, schedule, act, author, now_ms, state)
    return True


def resume_schedule(
    database: Connection,
    schedule: Schedule,
    *,
    retiming: Retiming,
    boot_id: str,
    now_ms: int,
    act: Act = Act.RESUME,
    author: Author = _UNKNOWN,
) -> bool:
    """Let a schedule fire again; the times of the pause become one skipped range.

    A boot during the pause is not caught up either.
    """
    with database.transaction():
        if _has_fired(database, schedule):
            return False
        if not _set_columns(database, schedule, {"enabled": 1, "paused_until": None}, now_ms):
            return False
        database.change(
            "UPDATE schedules SET boot_decided = :boot WHERE id = :id AND on_boot",
            {"id": schedule.id, "boot": boot_id},
        )
        _retime(database, schedule, schedule.spec, retiming, now_ms)
        state = _state_of(schedule, enabled=True, paused_until_ms=None)
        _note(database, schedule, act, author, now_ms, state)
    return True


def remove_schedule(
    database: Connection,
    schedule: Schedule,
    *,
    missed: tuple[Missed, ...],
    now_ms: int,
    act: Act = Act.REMOVE,
    author: Author = _UNKNOWN,
) -> bool:
    """Mark a schedule as removed and cancel its queued runs; running ones finish.

    `missed` are the times that were due and not decided yet.
    """
    with database.transaction():
        if missed and _has_fired(database, schedule):
            return False
        if not _set_columns(
            database,
            schedule,
            {
                "enabled": 0,
                **_next_columns(None),
                "deleted_at": now_ms,
                "removed_state": "enabled" if schedule.enabled else "paused",
            },
            now_ms,
        ):
            return False
        _record_missed(database, schedule, schedule.spec, missed, now_ms)
        cancel_removed(database, schedule.id, now_ms=now_ms)
        _note(database, schedule, act, author, now_ms, {"removed": (False, True)})
    return True


def restore_removed(
    database: Connection,
    schedule: Schedule,
    *,
    retiming: Retiming,
    boot_id: str,
    now_ms: int,
    author: Author = _UNKNOWN,
) -> bool:
    """Restore a removed schedule, enabled if `schedule` is; False if it was restored already.

    Raises AlreadyExists if another schedule has its name now.
    """
    problem = AlreadyExists(
        f"schedule {schedule.name!r} can't be restored: another schedule has its name",
        hint=f"rename that one first: edgecron edit {schedule.name} --name NEW",
    )
    with database.transaction():
        with database.unique("schedules.name", problem):
            restored = database.change(
                """UPDATE schedules SET deleted_at = NULL, removed_state = NULL,
                       enabled = :enabled, revision = revision + 1, updated_at = :now,
                       boot_decided = iif(on_boot, :boot, NULL)
                   WHERE id = :id AND deleted_at IS NOT NULL AND revision = :revision""",
                {
                    "id": schedule.id,
                    "enabled": int(schedule.enabled),
                    "revision": schedule.revision,
                    "boot": boot_id,
                    "now": now_ms,
                },
            )
        if restored:
            _retime(database, schedule, schedule.spec, retiming, now_ms)
            _note(database, schedule, Act.UNDO, author, now_ms, {"removed": (True, False)})
    return restored == 1


def remove_unreadable(
    database: Connection, name: str, *, now_ms: int, author: Author = _UNKNOWN
) -> bool:
    """Remove a schedule that might be unreadable; False if there is none of that name."""
    with database.transaction():
        removed = database.returning(
            """UPDATE schedules SET enabled = 0, paused_until = NULL, next_plan_at = NULL,
                   next_run_at = NULL, next_source = NULL, deleted_at = :now,
                   revision = revision + 1
               WHERE name = :name AND deleted_at IS NULL RETURNING id, revision""",
            {"name": name, "now": now_ms},
        )
        if removed is None:
            return False
        cancel_removed(database, removed[0], now_ms=now_ms)
        write_change(
            database, removed[0], removed[1],
            act=Act.REMOVE, author=author, now_ms=now_ms, state={"removed": (False, True)},
        )  # fmt: skip
    return True


def _insert_one(
    database: Connection,
    compiled: CompiledSpec,
    retiming: Retiming,
    boot_id: str,
    origin: str,
    now_ms: int,
    author: Author,
) -> int:
    spec = compiled.spec
    columns = _columns(compiled)
    following = retiming.next
    kept = {
        **_next_columns(following),
        "decided_until": retiming.decided_until_ms,
        "done_revision": None if following or compiled.timing.after_end_ms else 1,
        # A schedule that is created during this boot waits for the next one.
        "boot_decided": boot_id if compiled.on_boot else None,
        "created_at": now_ms,
        "updated_at": now_ms,
    }
    _need_group(database, spec.group)
    names = (*columns, *kept)
    problem = AlreadyExists(
        f"schedule {spec.name!r} exists already", hint=f"change it with: edgecron edit {spec.name}"
    )
    with database.unique("schedules.name", problem):
        row = database.returning(
            f"""INSERT INTO schedules ({", ".join(names)})
                VALUES ({", ".join(f":{name}" for name in names)}) RETURNING id""",
            columns | kept,
        )
    assert row is not None
    schedule_id = int(row[0])
    scopes = _scopes_after(spec, ())
    _write_scopes(database, schedule_id, scopes)
    _write_upstreams(database, schedule_id, compiled)
    write_revision(database, schedule_id, 1, columns, origin, now_ms, scopes=scopes)
    write_change(database, schedule_id, 1, act=Act.ADD, author=author, now_ms=now_ms)
    return schedule_id


def _note(
    database: Connection, schedule: Schedule, act: Act, author: Author, now_ms: int, state: State
) -> None:
    """Record the change that follows a schedule as it was read."""
    revision = schedule.revision + 1
    write_change(
        database, schedule.id, revision, act=act, author=author, now_ms=now_ms, state=state
    )


def _state_of(schedule: Schedule, *, enabled: bool, paused_until_ms: int | None) -> State:
    before_ms = None if schedule.paused_until is None else to_ms(schedule.paused_until)
    return {
        "enabled": (schedule.enabled, enabled),
        "paused_until": (before_ms, paused_until_ms),
    }


def _has_fired(database: Connection, schedule: Schedule) -> bool:
    """Whether an engine has decided a time since a schedule was read. This bumps no revision."""
    found = database.rows(
        "SELECT 1 FROM schedules WHERE id = :id AND decided_until != :decided",
        {"id": schedule.id, "decided": to_ms(schedule.decided_until)},
    )
    return bool(found)


def _set_columns(
    database: Connection, schedule: Schedule, columns: dict[str, Any], now_ms: int
) -> bool:
    """Set columns and bump the revision; False if the schedule has changed since it was read."""
    assignments = ", ".join(f"{name} = :{name}" for name in columns)
    problem = AlreadyExists(
        f"schedule {columns.get('name')!r} exists already",
        hint="choose another name, or remove that schedule",
    )
    with database.unique("schedules.name", problem):
        changed = database.change(
            f"""UPDATE schedules SET {assignments}, revision = revision + 1, updated_at = :now_,
                    done_revision = iif(done_revision = revision, revision + 1, NULL)
                WHERE id = :id_ AND revision = :revision_ AND deleted_at IS NULL""",
            {**columns, "id_": schedule.id, "revision_": schedule.revision, "now_": now_ms},
        )
    return changed == 1


def _next_columns(following: NextFire | None) -> dict[str, Any]:
    """The columns of a next fire."""
    return {
        "next_plan_at": following.plan_ms if following else None,
        "next_run_at": following.due_ms if following else None,
        "next_source": following.source if following else None,
    }


def _retime(
    database: Connection,
    schedule: Schedule,
    spec: ScheduleSpec,
    retiming: Retiming,
    now_ms: int,
) -> None:
    _record_missed(database, schedule, spec, retiming.missed, now_ms)
    database.change(
        """UPDATE schedules SET next_plan_at = :next_plan_at, next_run_at = :next_run_at,
               next_source = :next_source, decided_until = :decided, trigger_error = NULL,
               done_revision = iif(:next_plan_at IS NULL AND after_end_ms IS NULL, revision, NULL),
               repeats_since = NULL
           WHERE id = :id""",
        {
            "id": schedule.id,
            "decided": retiming.decided_until_ms,
            **_next_columns(retiming.next),
        },
    )


def _record_missed(
    database: Connection,
    schedule: Schedule,
    spec: ScheduleSpec,
    missed: tuple[Missed, ...],
    now_ms: int,
) -> None:
    scopes, revision = schedule.spec.scopes, schedule.revision + 1
    for one in missed:
        record_missed(database, schedule.id, revision, spec, one, scopes=scopes, now_ms=now_ms)


def _need_group(database: Connection, group: str | None) -> None:
    if group is not None:
        database.change(
            "INSERT INTO groups (name) VALUES (:name) ON CONFLICT DO NOTHING", {"name": group}
        )


def _columns(compiled: CompiledSpec) -> dict[str, Any]:
    return spec_columns(
        compiled.spec,
        compiled=compiled.compiled,
        on_boot=compiled.on_boot,
        after_end_ms=compiled.timing.after_end_ms,
    )


def _write_upstreams(database: Connection, schedule_id: int, compiled: CompiledSpec) -> None:
    database.change("DELETE FROM schedule_upstreams WHERE schedule_id = :id", {"id": schedule_id})
    database.change_many(
        """INSERT INTO schedule_upstreams (schedule_id, upstream, ends)
           VALUES (:id, :upstream, :ends)""",
        [
            {"id": schedule_id, "upstream": upstream, "ends": ends}
            for upstream, ends in compiled.upstreams
        ],
    )


def _find_machines(database: Connection, schedule: Schedule) -> tuple[tuple[str, str], ...]:
    """The scopes of a schedule on each machine; some can have changed since it was read."""
    if schedule.spec.policies.on != EACH:
        return ()
    return find_scopes(database, schedule.id)


def _scopes_after(
    spec: ScheduleSpec, machines: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """The scopes of a changed schedule. Engines add those of a schedule on each machine."""
    if spec.policies.on == EACH:
        return machines or (GLOBAL_SCOPE,)
    return tuple(one for one in spec.scopes if one not in machines) or (GLOBAL_SCOPE,)


def _write_scopes(
    database: Connection, schedule_id: int, scopes: tuple[tuple[str, str], ...]
) -> None:
    database.change("DELETE FROM schedule_scopes WHERE schedule_id = :id", {"id": schedule_id})
    database.change_many(
        """INSERT INTO schedule_scopes (schedule_id, scope_kind, scope_id)
           VALUES (:id, :kind, :scope_id)""",
        [{"id": schedule_id, "kind": kind, "scope_id": id_} for kind, id_ in scopes],
    )


def reschedule(
    database: Connection,
    schedule: Schedule,
    *,
    run_ms: int,
    now_ms: int,
    act: Act = Act.RESCHEDULE,
    author: Author = _UNKNOWN,
) -> bool:
    """Start the next fire of a schedule at another time; its plan time does not change.

    False if the schedule has changed, or that fire was decided, since it was read.
    """
    assert schedule.next_plan_at is not None
    with database.transaction():
        changed = database.change(
            """UPDATE schedules SET next_run_at = :run, revision = revision + 1, updated_at = :now
               WHERE id = :id AND revision = :revision AND next_plan_at = :plan
                   AND deleted_at IS NULL""",
            {
                "id": schedule.id,
                "revision": schedule.revision,
                "plan": to_ms(schedule.next_plan_at),
                "run": run_ms,
                "now": now_ms,
            },
        )
        if changed:
            assert schedule.next_run_at is not None
            state = {"next_run_at": (to_ms(schedule.next_run_at), run_ms)}
            _note(database, schedule, act, author, now_ms, state)
    return changed == 1
