"""Simulate the schedules of a database, or those of a document, from what is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.checks import check_aware
from edgecron.base.errors import InvalidInput
from edgecron.base.units import DAY_MS, MINUTE_MS, from_ms, to_ms
from edgecron.base.values import replace
from edgecron.planning.forecast import is_moved
from edgecron.planning.simulation import (
    MOST_NAMED,
    Simulated,
    SimulatedChange,
    Simulation,
    Unsimulated,
    simulate,
)
from edgecron.planning.times import load_triggers, upstreams_of
from edgecron.store.sql.history import find_usual_ms
from edgecron.triggers import (
    AfterTrigger,
    EveryTrigger,
    Trigger,
    TriggerKind,
    clock_change_notes,
    combine,
)

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.formats.document_tables import Document, Wanted
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.next_fire import Timing

LONGEST_DAYS = 3_660
_PAGE = 500


class Simulating:
    """One simulation: what it reads, and what it leaves out."""

    def __init__(self, client: Client, *, from_at: datetime, until_at: datetime) -> None:
        """Whole minutes count. Raises InvalidInput if there is none, or for over ten years."""
        since_ms, until_ms = to_ms(check_aware("from", from_at)), to_ms(check_aware("to", until_at))
        since_ms, until_ms = since_ms - since_ms % MINUTE_MS, until_ms - until_ms % MINUTE_MS
        if not since_ms < until_ms:
            raise InvalidInput(
                "the simulation does not end after its beginning", hint="give a later --to"
            )
        if until_ms - since_ms > LONGEST_DAYS * DAY_MS:
            raise InvalidInput(
                f"the simulation is longer than {LONGEST_DAYS} days", hint="give an earlier --to"
            )
        self._client = client
        self._since_ms, self._until_ms = since_ms, until_ms
        self._now_ms = to_ms(client.now())
        self._schedules: list[Simulated] = []
        self._left_out: list[Unsimulated] = []
        self._changes: dict[tuple[int, str], list[str]] = {}

    def run(self, document: Document | None) -> Iterator[Simulation | None]:
        """Yields None after each step, then the result."""
        if document is None:
            yield from self._read_database()
        else:
            for wanted in document.wanted:
                self._add_wanted(wanted)
            yield None
        changes = tuple(
            SimulatedChange(
                at=from_ms(at_ms), text=text, schedules=len(names), names=tuple(names[:MOST_NAMED])
            )
            for (at_ms, text), names in sorted(self._changes.items())
        )
        for found in simulate(self._schedules, since_ms=self._since_ms, until_ms=self._until_ms):
            if found is None:
                yield None
            else:
                yield replace(found, clock_changes=changes, left_out=tuple(self._left_out))

    def _read_database(self) -> Iterator[None]:
        after: str | None = None
        while (page := self._client.schedule_page(after=after, limit=_PAGE)).names:
            for name in page.unreadable:
                self._leave_out(name, "it can't be read")
            for schedule in page.schedules:
                self._add_schedule(schedule)
            after = page.names[-1]
            yield None

    def _add_schedule(self, schedule: Schedule) -> None:
        """Add a schedule from its next fire on."""
        if schedule.trigger_error is not None:
            self._leave_out(schedule.name, schedule.trigger_error)
            return
        if not schedule.enabled:
            self._leave_out(schedule.name, "it is paused")
            return
        if schedule.vanished_at is not None:
            self._leave_out(schedule.name, "its program no longer offers it")
            return
        try:
            triggers, timing = self._client.triggers(schedule), self._client.timing(schedule)
        except InvalidInput as error:
            self._leave_out(schedule.name, error.message)
            return
        next_ms = None if schedule.next_plan_at is None else to_ms(schedule.next_plan_at)
        after_ms = self._now_ms if next_ms is None else next_ms - 1
        if timing.windows is not None and timing.after_end_ms is None and not is_moved(schedule):
            # Times that windows exclude come before the next fire, and are counted.
            after_ms = min(after_ms, max(self._now_ms, to_ms(schedule.decided_until)))
        if schedule.paused_until is not None:
            after_ms = max(after_ms, to_ms(schedule.paused_until) - 1)
        found = self._find(schedule.spec, triggers, timing, schedule.id, after_ms=after_ms)
        if is_moved(schedule) and schedule.next_run_at is not None:
            found = replace(found, first_due_ms=to_ms(schedule.next_run_at))
        if found.runs_left is not None:
            found = replace(found, runs_left=max(0, found.runs_left - schedule.planned_count))
        self._schedules.append(replace(found, group_max_running=schedule.group_max_running))

    def _add_wanted(self, wanted: Wanted) -> None:
        """Add a schedule of a document as if it were made now."""
        spec = wanted.spec
        if wanted.enabled is False:
            self._leave_out(spec.name, "it is paused")
            return
        compiled = self._client.compile(spec, is_past_ok=True)
        found = self._find(
            spec,
            load_triggers(compiled.compiled),
            compiled.timing,
            self._client.store.find_id(spec.name),
            after_ms=self._now_ms,
        )
        limit = None if wanted.limit is None else wanted.limit[1]
        self._schedules.append(replace(found, group_max_running=limit))

    def _find(
        self,
        spec: ScheduleSpec,
        triggers: list[Trigger],
        timing: Timing,
        schedule_id: int | None,
        *,
        after_ms: int,
    ) -> Simulated:
        """Return what both have in common, and note what can't be simulated."""
        duration_ms = (
            None if schedule_id is None else find_usual_ms(self._client.store, schedule_id)
        )
        times = combine(triggers)
        if timing.after_end_ms is not None:
            # Each interval begins when a run ends, so the runs have a grid of their own.
            interval_ms = timing.after_end_ms + (duration_ms or 0)
            grid = EveryTrigger(
                interval_ms=interval_ms,
                anchor_ms=max(after_ms + 1, self._now_ms + timing.after_end_ms),
                is_bounded=True,
                timezone=None,
                text="after end",
            )
            times = combine([*triggers, grid])
        self._note(spec, triggers)
        return Simulated(
            name=spec.name,
            timing=timing,
            times=times,
            after_ms=after_ms,
            overlap=spec.policies.overlap,
            max_running=spec.policies.max_running,
            duration_ms=duration_ms,
            runs_left=timing.max_runs,
            scopes=len(spec.scopes),
            group=spec.group,
            upstreams=upstreams_of(spec.name, triggers),
        )

    def _note(self, spec: ScheduleSpec, triggers: list[Trigger]) -> None:
        for trigger in triggers:
            if trigger.kind is TriggerKind.BOOT:
                self._leave_out(spec.name, "its runs at boot have no known time")
            elif trigger.kind is TriggerKind.DEMAND:
                self._leave_out(spec.name, "it runs only on demand")
            elif isinstance(trigger, AfterTrigger) and trigger.on == "failure":
                self._leave_out(spec.name, f"it follows failures of {trigger.upstream}")
            for change in clock_change_notes(trigger, self._since_ms, self._until_ms):
                key = (to_ms(change.at), f"{change.date}: {change.text}")
                names = self._changes.setdefault(key, [])
                if spec.name not in names:
                    names.append(spec.name)

    def _leave_out(self, name: str, why: str) -> None:
        self._left_out.append(Unsimulated(name=name, why=why))
