"""Ask who runs this database: its engines, their clock, and the copies that run beside it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict
from edgecron.base.paths import state_dir
from edgecron.base.units import from_ms
from edgecron.client.opening import TRIES, OpenDatabase

if TYPE_CHECKING:
    from edgecron.engine.health import EngineState
    from edgecron.engine.other_engines import DatabaseCopy
    from edgecron.model.run import Execution
    from edgecron.planning.corrections import ClockState


class Engines(OpenDatabase):
    """Reads of engines and clock, and the take-over of runs that dead engines left."""

    def engines(self) -> list[EngineState]:
        """The engines of this database that have not said goodbye, and how each of them does."""
        # Most verbs ask this for a hint alone: nothing heavy is loaded where there are none.
        if not self.store.find_engines():
            return []
        from edgecron.engine.health import find_states

        return find_states(self.store, state_dir(self.path), clock=self._clock)

    def clock_state(self) -> ClockState:
        """Whether this machine's clock can be trusted, as an engine of this database sees it."""
        from edgecron.planning.corrections import ClockState, is_trusted, resolve_mark_ms

        now_ms = self._clock.now_ms()
        marks = self.store.find_clock_marks()
        mark_ms = resolve_mark_ms(marks.trusted_high_ms)
        is_synchronised = self._clock.is_synchronised()
        return ClockState(
            now_ms=now_ms,
            mark_ms=mark_ms,
            is_synchronised=is_synchronised,
            is_trusted=is_trusted(now_ms, mark_ms=mark_ms, is_synchronised=is_synchronised),
            set_at_ms=marks.set_at_ms,
            set_by_ms=marks.set_by_ms,
        )

    def local_zone(self) -> str | None:
        """The zone that is local for the engines, by their last look; None before the first."""
        return self.store.find_clock_marks().local_timezone

    def twins(self) -> list[DatabaseCopy]:
        """The processes that run a copy of this database: each schedule fires in both."""
        from edgecron.engine.other_engines import find_copies

        return find_copies(self.path, uuid=self.store.uuid)

    def disk_problem(self) -> str | None:
        """Why engines can't record a start: too little room beside the database; None if not."""
        from edgecron.client.doctor_files import check_space
        from edgecron.client.doctor_findings import CheckStatus

        found = check_space(self.path, state_dir(self.path))
        return next((one.message for one in found if one.status is CheckStatus.PROBLEM), None)

    def has_engine(self, queue: str, *, offer: str | None = None) -> bool:
        """Whether an engine that is alive and not stalled looks at a queue, and takes of it what
        has to be offered for a schedule; None is whatever may be there."""
        return any(state.is_working and state.info.takes(queue, offer) for state in self.engines())

    def is_supervised(self, execution: Execution) -> bool:
        """Whether the supervisor of a running run is alive."""
        from edgecron.supervisor.files import is_key, lock_is_held, lock_path

        key = execution.supervisor_id
        if key is None or not is_key(key):
            return False
        return lock_is_held(lock_path(state_dir(self.path), key))

    def take_over(self) -> None:
        """Write the ends that dead engines left, where no engine at work does it.

        Else what has long ended would still look like a run that goes on. Of another user's
        database nothing is taken over.
        """
        if self.store.count_active() and not any(state.is_working for state in self.engines()):
            from edgecron.engine.health import record_left_ends
            from edgecron.engine.state_folder import find_foreign_owner

            if find_foreign_owner(self.path) is None:
                record_left_ends(self.store, state_dir(self.path), clock=self._clock)

    def trust_clock(self) -> tuple[datetime | None, datetime]:
        """Vouch that the clock is right now, so that engines believe it.

        The trusted mark as it was, None where there was none yet, and as it is now.
        """
        for _ in range(TRIES):
            was_ms = self.store.find_clock_marks().trusted_high_ms
            now_ms = self._clock.now_ms()
            if self.store.note_trusted(now_ms, was_ms=was_ms):
                self.ring()
                return (None if was_ms is None else from_ms(was_ms)), from_ms(now_ms)
        raise Conflict("the trusted mark is being changed by others", hint="try again")
