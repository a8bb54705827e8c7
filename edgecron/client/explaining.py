"""Explaining: what became of a time of a schedule, or will, and why."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.checks import check_aware
from edgecron.base.errors import InvalidInput
from edgecron.base.units import from_ms, to_ms
from edgecron.client.reading import Reading

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule
    from edgecron.triggers import Trigger
    from edgecron.views.explanation import Explanation, Words


class Explaining(Reading):
    """Answers to why something ran, did not run, or will not run."""

    def explain(self, name: str, at: datetime) -> Explanation:
        """What became of a time of a schedule, past or to come.

        A whole minute means all of it, else a second does. By what was recorded where something
        was, else by what the schedule said at that time.
        """
        from edgecron.store.explanations import find_deciding
        from edgecron.views.explanation import explain, last_of

        check_aware("the time", at)
        schedule = self.store.get_schedule(name)
        at = at.replace(microsecond=0)
        at_ms = to_ms(at)
        runs = [
            run
            for scope in schedule.spec.scopes
            for run in find_deciding(
                self.store, schedule.id, scope, from_ms=at_ms, to_ms=last_of(at_ms)
            )
        ]
        return explain(
            schedule,
            self._words_at(schedule, at_ms),
            runs,
            at=at,
            now=self.now(),
            pruned_until=schedule.pruned_until,
        )

    def triggers_at(self, name: str, at: datetime) -> list[Trigger]:
        """The triggers that a schedule had at a time; none where they can't be read any more."""
        from edgecron.planning.times import load_triggers
        from edgecron.store.explanations import find_revision

        schedule = self.store.get_schedule(name)
        found = find_revision(self.store, schedule.id, at_ms=to_ms(at))
        try:
            return load_triggers(str(found.columns.get("compiled"))) if found is not None else []
        except InvalidInput:
            return []

    def _words_at(self, schedule: Schedule, at_ms: int) -> Words:
        from edgecron.planning.times import load_timing
        from edgecron.store.explanations import find_revision
        from edgecron.store.rows import spec_of
        from edgecron.views.explanation import Words

        found = find_revision(self.store, schedule.id, at_ms=at_ms)
        if found is None or found.is_newest:
            revision, written_at = schedule.revision, schedule.updated_at
            spec, compiled = schedule.spec, self.store.compiled_of(schedule)
        elif found.is_removed:
            return Words(
                revision=found.revision,
                written_at=from_ms(found.at_ms),
                timing=None,
                is_removed=True,
            )
        else:
            revision, written_at = found.revision, from_ms(found.at_ms)
            spec, compiled = schedule.spec, str(found.columns.get("compiled"))
            try:
                spec = spec_of(found.columns, schedule.spec.scopes)
            except InvalidInput:
                return Words(revision=revision, written_at=written_at, timing=None)
        try:
            timing = load_timing(spec, compiled, seed=self.store.seed)
        except InvalidInput:
            timing = None
        return Words(revision=revision, written_at=written_at, timing=timing)
