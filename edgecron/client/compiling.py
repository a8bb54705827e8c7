"""Check specifications and compute their times; nothing is written."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput
from edgecron.client.opening import OpenDatabase
from edgecron.model.choices import Reason
from edgecron.model.conditions import read_needs

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.times import CompiledSpec
    from edgecron.store.sqlite.schedule_changes import Retiming


class Compiling(OpenDatabase):
    """What would become of a schedule, and of those that name it."""

    def compile(
        self,
        spec: ScheduleSpec,
        *,
        is_past_ok: bool = False,
        made_at: datetime | None = None,
        known: Collection[str] = (),
    ) -> CompiledSpec:
        """Check a specification as `add` would, writing nothing.

        With `is_past_ok` a time of `at` may have passed, as may those of the `known` texts.
        `made_at` anchors a bare `every` that has no `from_at`; None is now.
        """
        from edgecron.planning.times import compile_spec

        now = self.now()
        return compile_spec(
            spec,
            seed=self.store.seed,
            made_at=made_at or now,
            now=None if is_past_ok else now,
            known=known,
        )

    def compile_change(self, schedule: Schedule, spec: ScheduleSpec) -> CompiledSpec:
        """Check another specification of a schedule as `edit` would, writing nothing."""
        compiled, _ = self._prepare_edit(schedule, spec, now_ms=self._clock.now_ms())
        return compiled

    def _prepare_edit(
        self,
        schedule: Schedule,
        spec: ScheduleSpec,
        *,
        now_ms: int,
        is_declared: bool = False,
        is_past_ok: bool = False,
    ) -> tuple[CompiledSpec, Retiming | None]:
        """A changed specification compiled, with its new times; None where they do not move.

        What is declared may be changed by each start of a program of which there are two versions:
        its times go on from where they began, else none of an interval would ever come.
        """
        from edgecron.client.retiming import keep_triggers, retime, retime_declared
        from edgecron.planning.times import timing_words, trigger_words

        is_mended = schedule.trigger_error is not None
        if not is_mended and trigger_words(spec) == trigger_words(schedule.spec):
            # Kept as they were expanded: a bare `every` would get another anchor.
            compiled = keep_triggers(self.store, schedule, spec)
        else:
            made_at = schedule.created_at if is_declared else None
            compiled = self.compile(
                spec,
                is_past_ok=is_declared or is_past_ok,
                made_at=made_at,
                known=schedule.spec.triggers,
            )
        if not is_mended and timing_words(spec) == timing_words(schedule.spec):
            return compiled, None
        if is_declared:
            return compiled, retime_declared(self.store, schedule, compiled.timing, now_ms=now_ms)
        return compiled, retime(
            self.store, schedule, compiled.timing, now_ms=now_ms, reason=Reason.EDITED
        )

    def find_dependents(self, name: str) -> list[str]:
        """The schedules that need a run of this one before they start, or come after it."""
        needing = set()
        for one, needs in self.store.find_needs():
            with suppress(InvalidInput):  # What can't be read is not started, whatever happens.
                if any(condition.schedule == name for condition in read_needs(needs)):
                    needing.add(one)
        following = {one for one, upstream in self.store.find_upstreams() if upstream == name}
        return sorted((needing | following) - {name})
