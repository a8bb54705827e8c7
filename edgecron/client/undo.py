"""Read the recorded changes of schedules, and undo them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import check_range
from edgecron.base.errors import Conflict, InvalidInput, NotFound, Unreadable
from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import replace
from edgecron.client.retiming import keep_triggers, missed_of, retime
from edgecron.model.choices import Reason
from edgecron.model.schedule import Act, Change, Schedule, Undo
from edgecron.planning.next_fire import fresh_fire
from edgecron.planning.times import timing_words
from edgecron.store.sql.connection import RollBack
from edgecron.views.changes import find_differences

if TYPE_CHECKING:
    from edgecron.client.schedule_changes import ScheduleChanges
    from edgecron.store.sql.revisions import ChangeRow, StoredDefinition

_MOST_PARTS = 3  # records of one change


class ChangeLog:
    """The recorded changes of the schedules of a database."""

    def __init__(self, database: ScheduleChanges) -> None:
        self._database = database
        self._store = database.store

    def find(self, name: str, *, before: int | None, limit: int) -> list[Change]:
        """Return changes of a schedule before a revision, newest first. Raises NotFound."""
        schedule_id = self._database.past_id(name)
        found = self.find_groups(schedule_id, before=before, limit=limit)
        return [self.change_of(name, rows) for rows in found]

    def find_groups(
        self, schedule_id: int, *, before: int | None = None, limit: int = 1
    ) -> list[list[ChangeRow]]:
        """Return the records of each change, newest first; those of one change, too."""
        rows = self._store.find_changes(schedule_id, before=before, limit=limit * _MOST_PARTS)
        groups: list[list[ChangeRow]] = []
        part: list[ChangeRow] = []
        for row in rows:
            part.append(row)
            if row.act is not Act.PART:
                groups.append(part)
                part = []
        return groups[:limit]

    def change_of(self, name: str, rows: Sequence[ChangeRow]) -> Change:
        first, last = rows[-1], rows[0]
        before, after, is_complete = None, None, True
        try:
            after = self._store.find_definition(first.schedule_id, last.revision)
            if first.act is not Act.ADD:
                before = self.find_before(first)
                is_complete = before is not None
            if after is None or not _covers(after, last.revision, last.at_ms + 1):
                is_complete = False
        except Unreadable:
            is_complete = False
        changes = find_differences(
            None if before is None or not is_complete else before.spec,
            None if after is None or not is_complete else after.spec,
            state=state_of(rows),
        )
        return Change(
            schedule=name if after is None else after.spec.name,
            revision=last.revision,
            at=from_ms(first.at_ms),
            act=first.act,
            origin=first.origin,
            user=first.user,
            changes=changes,
            is_complete=is_complete,
        )

    def find_before(self, row: ChangeRow) -> StoredDefinition | None:
        """Return the definition that a change was made from; None if retention removed it."""
        found = self._store.find_definition(row.schedule_id, row.revision - 1)
        return found if found is not None and _covers(found, -1, row.at_ms) else None


def _covers(stored: StoredDefinition, revision: int, until_ms: int) -> bool:
    """Whether a definition was valid up to an instant, or is that of a revision."""
    until = stored.known_until_ms
    return stored.revision == revision or until is None or until >= until_ms


def state_of(rows: Sequence[ChangeRow]) -> dict[str, list[object]]:
    """Put the states of the records of one change together."""
    state: dict[str, list[object]] = {}
    for row in reversed(rows):
        for key, (old, new) in row.state.items():
            state[key] = [state[key][0] if key in state else old, new]
    return {key: two for key, two in state.items() if two[0] != two[1]}


_UPCOMING = 3
_MOST_NAMED = 8  # revisions in a hint


class Undoing:
    """Undo changes of schedules. An undo is a change, too: times that were decided stay decided."""

    def __init__(self, database: ScheduleChanges) -> None:
        self._database = database
        self._store = database.store
        self._log = ChangeLog(database)
        self._author = database.author_of()
        self._now_ms = database.clock.now_ms()
        self._has_written = False

    def plan(self, name: str, revision: int | None = None) -> Undo:
        """Return what an undo would do: carry it out, look, and roll back."""
        with suppress(RollBack), self._store.transaction():
            planned = self._carry_out(name, revision, seen=None)
            raise RollBack
        return planned

    def undo(
        self,
        name: str,
        revision: int | None = None,
        *,
        seen: int | None = None,
        change: int | None = None,
    ) -> Undo:
        """Undo the last change of a schedule, or return to the definition of a revision.

        `change` undoes the one that made this revision; all later ones must be undone. Raises
        NotFound, Conflict if there is nothing to undo or the schedule has changed since revision
        `seen`, and what a change raises.
        """
        self._database.refuse_doubled(name)
        with self._store.transaction():
            done = self._carry_out(name, revision, seen=seen, change=change)
        self._database.ring()
        return done

    def _carry_out(
        self, name: str, revision: int | None, *, seen: int | None, change: int | None = None
    ) -> Undo:
        check_range("revision", revision, 1, 2**62)
        check_range("change", change, 1, 2**62)
        before, is_removed, removed_state = self._find(name)
        if seen is not None and before.revision != seen:
            raise Conflict(
                f"schedule {name!r} was changed in the meantime: it has revision"
                f" {before.revision}, expected {seen}",
                hint=f"see: edgecron show {name} --changes",
            )
        undone = None
        if revision is None:
            if change is None or change == before.revision:
                rows = self._last_change(before, is_removed=is_removed)
            else:
                rows = self._earlier_change(before, change, is_removed=is_removed)
            undone = None if rows is None else self._log.change_of(name, rows)
            after = self._revert(before, rows, removed_state)
        else:
            after = self._return_to(before, revision, removed_state, is_removed=is_removed)
        state: dict[str, list[Any]] = {
            "removed": [is_removed, after is None],
            "enabled": [before.enabled, before.enabled if after is None else after.enabled],
            "paused_until": [_ms(before.paused_until), _ms(after.paused_until if after else None)],
        }
        if is_removed or after is None:
            state = {"removed": state["removed"]}
        elif undone is not None and any(one.key == "next_run_at" for one in undone.changes):
            state["next_run_at"] = [_ms(before.next_run_at), _ms(after.next_run_at)]
        return Undo(
            schedule=name if after is None else after.name,
            seen=before.revision,
            made=before.revision + 1 if after is None else after.revision,
            revision=before.revision if revision is None else revision,
            undone=undone,
            changes=find_differences(
                before.spec,
                before.spec if after is None else after.spec,
                state={key: two for key, two in state.items() if two[0] != two[1]},
            ),
            next_before=() if is_removed else self._next_of(before),
            next_after=() if after is None else self._next_of(after),
            is_removed=after is None,
        )

    def _find(self, name: str) -> tuple[Schedule, bool, str | None]:
        """Return a schedule, or the one of this name that was removed last."""
        if self._store.find_id(name) is not None:
            return self._store.get_schedule(name), False, None
        removed = self._store.find_last_removed(name)
        if not removed:
            self._store.get_schedule(name)  # Raises NotFound with a suggestion.
        schedule, state = removed[0]
        return schedule, True, state

    def _next_of(self, schedule: Schedule) -> tuple[datetime, ...]:
        with suppress(InvalidInput):
            fires = islice(self._database.fires_of(schedule), _UPCOMING)
            return tuple(fire.due_at for fire in fires)
        return ()

    # The last change.

    def _last_change(self, schedule: Schedule, *, is_removed: bool) -> list[ChangeRow] | None:
        """Return the records of the last change; None for a removal by an older edgecron."""
        groups = self._log.find_groups(schedule.id)
        if groups and groups[0][0].revision == schedule.revision:
            return groups[0]
        if is_removed:
            return None
        raise Conflict(
            f"the last change of schedule {schedule.name!r} is unknown: an older edgecron made it",
            hint=f"choose a revision: edgecron show {schedule.name} --changes",
        )

    def _earlier_change(
        self, schedule: Schedule, revision: int, *, is_removed: bool
    ) -> list[ChangeRow]:
        """Return the records of a change after which nothing but undone changes came."""
        groups = self._log.find_groups(schedule.id, before=revision + 1)
        if not groups or groups[0][0].revision != revision:
            raise NotFound(
                f"schedule {schedule.name!r} has no recorded change with revision {revision}",
                hint=f"see: edgecron show {schedule.name} --changes",
            )
        made = self._store.find_definition(schedule.id, revision)
        is_undone = made is not None and self._is_defined_as(schedule, made)
        has_removed = state_of(groups[0]).get("removed") == [False, True]
        if not is_undone or has_removed is not is_removed:
            raise Conflict(
                f"schedule {schedule.name!r} was changed after revision {revision}",
                hint=f"see: edgecron show {schedule.name} --changes",
            )
        return groups[0]

    def _revert(
        self, schedule: Schedule, rows: Sequence[ChangeRow] | None, removed_state: str | None
    ) -> Schedule | None:
        """Revert a change; return the schedule afterwards, None if that removes it."""
        state = {} if rows is None else state_of(rows)
        if rows is None or state.get("removed") == [False, True]:
            return self._restore(schedule, removed_state)
        first = rows[-1]
        if first.act is Act.ADD or "removed" in state:
            self._remove(schedule)
            return None
        defined = self._store.find_definition(schedule.id, schedule.revision)
        if defined is not None and defined.revision >= first.revision:
            before = self._log.find_before(first)
            if before is None:
                raise self._pruned(schedule, f"before revision {first.revision}")
            if not state and self._is_defined_as(schedule, before):
                raise self._unchanged(schedule)
            schedule = self._write(schedule, before)
        if "next_run_at" in state:
            schedule = self._move_back(schedule, state["next_run_at"])
        if "enabled" in state or "paused_until" in state:
            schedule = self._switch_back(schedule, state)
        return schedule

    def _move_back(self, schedule: Schedule, moved: Sequence[object]) -> Schedule:
        old_ms, new_ms = moved
        assert isinstance(old_ms, int)
        assert isinstance(new_ms, int)
        if schedule.next_plan_at is None or _ms(schedule.next_run_at) != new_ms:
            raise Conflict(
                f"there is nothing to undo: the moved run of schedule {schedule.name!r} is decided",
                hint=f"see: edgecron history {schedule.name}",
            )
        if old_ms <= self._now_ms:
            regular = fresh_fire(
                self._database.timing(schedule),
                max(self._now_ms, to_ms(schedule.decided_until)),
                planned_count=schedule.planned_count,
            )
            # At a later regular time, the moved run would be lost.
            if regular is None or regular.due_ms >= new_ms:
                raise Conflict(
                    f"the next run of schedule {schedule.name!r} can't be moved back: its former"
                    " time has passed",
                    hint=f"run it now: edgecron run {schedule.name}",
                )
            old_ms = regular.due_ms
        self._need_done(
            schedule,
            self._store.reschedule(
                schedule, run_ms=old_ms, now_ms=self._now_ms, act=self._act, author=self._author
            ),
        )
        return self._store.get_schedule(schedule.name)

    def _switch_back(self, schedule: Schedule, state: dict[str, list[object]]) -> Schedule:
        """Pause or resume a schedule as it was."""
        is_enabled = bool(state["enabled"][0]) if "enabled" in state else schedule.enabled
        until = schedule.paused_until
        if "paused_until" in state:
            old_ms = state["paused_until"][0]
            until = from_ms(old_ms) if isinstance(old_ms, int) else None
        now_ms = self._now_ms
        if until is not None and to_ms(until) <= now_ms:
            until = None
        if (is_enabled, until) == (schedule.enabled, schedule.paused_until):
            raise Conflict(
                f"there is nothing to undo: the former pause of schedule {schedule.name!r} would"
                " be over by now",
                hint=f"see: edgecron show {schedule.name} --changes",
            )
        if is_enabled and until is None:
            free = replace(schedule, enabled=True, paused_until=None)
            timing = self._database.timing(schedule)
            retiming = retime(self._store, free, timing, now_ms=now_ms, reason=Reason.PAUSED)
            is_done = self._store.resume_schedule(
                schedule,
                retiming=retiming,
                boot_id=self._database.clock.boot_id(),
                now_ms=now_ms,
                act=self._act,
                author=self._author,
            )
        else:
            following = None
            if is_enabled and until is not None:
                following = self._database.find_after_pause(schedule, until_ms=to_ms(until))
            is_done = self._store.pause_schedule(
                schedule,
                until_ms=_ms(until) if is_enabled else None,
                following=following,
                now_ms=now_ms,
                act=self._act,
                author=self._author,
            )
        self._need_done(schedule, is_done)
        return self._store.get_schedule(schedule.name)

    # A revision.

    def _return_to(
        self, schedule: Schedule, revision: int, removed_state: str | None, *, is_removed: bool
    ) -> Schedule:
        if revision > schedule.revision:
            raise NotFound(
                f"schedule {schedule.name!r} has no revision {revision}:"
                f" its last one is {schedule.revision}",
                hint=f"see: edgecron show {schedule.name} --changes",
            )
        wanted = self._store.find_definition(schedule.id, revision)
        if wanted is None or (wanted.known_until_ms is not None and wanted.revision != revision):
            raise self._pruned(schedule, f"of revision {revision}")
        if is_removed:
            schedule = self._restore(schedule, removed_state)
        if not self._is_defined_as(schedule, wanted):
            return self._write(schedule, wanted)
        if not is_removed:
            raise Conflict(
                f"there is nothing to undo: schedule {schedule.name!r} already has the definition"
                f" of revision {revision}",
                hint=f"see: edgecron show {schedule.name} --changes",
            )
        return schedule

    def _is_defined_as(self, schedule: Schedule, stored: StoredDefinition) -> bool:
        is_same = stored.spec == schedule.spec
        return is_same and stored.compiled == self._store.compiled_of(schedule)

    def _unchanged(self, schedule: Schedule) -> Conflict:
        """Make the error for an edit that changed nothing, as an earlier edgecron recorded."""
        return Conflict(
            f"there is nothing to undo: the last edit of schedule {schedule.name!r} changed none of"
            " its options",
            hint=f"choose a revision: edgecron show {schedule.name} --changes",
        )

    def _pruned(self, schedule: Schedule, which: str) -> NotFound:
        kept = self._store.find_defined(schedule.id)
        others = [one for one in kept if one != kept[0]]
        named = ", ".join(map(str, others[:_MOST_NAMED]))
        more = ", ..." if len(others) > _MOST_NAMED else ""
        hint = (
            f"you can return to revisions {named}{more}: edgecron undo {schedule.name} {others[0]}"
            if others
            else f"no earlier definition is left; change it: edgecron edit {schedule.name}"
        )
        return NotFound(
            f"the definition of schedule {schedule.name!r} {which} is gone: retention removed it",
            hint=hint,
        )

    # What both need.

    @property
    def _act(self) -> Act:
        """The act to record: the first record of this undo names it, the others are parts."""
        act, self._has_written = Act.PART if self._has_written else Act.UNDO, True
        return act

    def _need_done(self, schedule: Schedule, is_done: bool) -> None:
        if not is_done:
            raise Conflict(
                f"another program is changing schedule {schedule.name!r}", hint="try again"
            )

    def _restore(self, schedule: Schedule, removed_state: str | None) -> Schedule:
        self._database.restore_one(schedule, removed_state, now_ms=self._now_ms)
        self._has_written = True
        return self._store.get_schedule(schedule.name)

    def _remove(self, schedule: Schedule) -> None:
        dependents = self._database.find_dependents(schedule.name)
        if dependents:
            raise Conflict(
                f"schedule {schedule.name!r} can't be removed:"
                f" other schedules follow or need it: {', '.join(dependents)}",
                hint=f"to remove it anyway: edgecron rm {schedule.name}",
            )
        missed = missed_of(self._store, schedule, now_ms=self._now_ms, reason=Reason.REMOVED)
        self._need_done(
            schedule,
            self._store.remove_schedule(
                schedule, missed=missed, now_ms=self._now_ms, act=self._act, author=self._author
            ),
        )

    def _write(self, schedule: Schedule, stored: StoredDefinition) -> Schedule:
        """Give a schedule a former definition, with its triggers as they were expanded then."""
        spec, now_ms = stored.spec, self._now_ms
        compiled = keep_triggers(self._store, stored.compiled, spec)
        self._database.check_definition(schedule, compiled)
        is_same_time = (
            schedule.trigger_error is None
            and timing_words(spec) == timing_words(schedule.spec)
            and stored.compiled == self._store.compiled_of(schedule)
        )
        retiming = None
        if not is_same_time:
            retiming = retime(
                self._store, schedule, compiled.timing, now_ms=now_ms, reason=Reason.EDITED
            )
        self._need_done(
            schedule,
            self._store.update_schedule(
                schedule,
                compiled,
                retiming=retiming,
                boot_id=self._database.clock.boot_id(),
                origin=stored.origin,
                now_ms=now_ms,
                act=self._act,
                author=self._author,
            ),
        )
        return self._store.get_schedule(spec.name)


def _ms(at: datetime | None) -> int | None:
    return None if at is None else to_ms(at)
