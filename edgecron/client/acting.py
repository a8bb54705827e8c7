"""Acting: runs are asked for, and ended."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.checks import check_json
from edgecron.base.errors import Conflict, InvalidInput, SupervisorUnavailable
from edgecron.base.paths import state_dir
from edgecron.base.units import from_ms, to_ms
from edgecron.client.opening import TRIES
from edgecron.client.reading import Reading

if TYPE_CHECKING:
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.planning.next_fire import Fire

_REPORT_MS = 1_000  # between two reports of a run, at least
KEY_S = 24 * 3600  # for so long a key is known
MOST_KEY_LETTERS = 255
MOST_PAYLOAD_BYTES = 64 * 1024  # of a run's own: it goes to a command as a variable


class Acting(Reading):
    """What is done about runs, by hand."""

    # Who asks for one run after the other does so of one schedule; whether it is still as it was is
    # looked at with each.
    _asked_last: Schedule | None = None
    _reported: tuple[int, int] | None = None  # the run that reported last, and when, monotonic

    def run_now(self, name: str, *, payload: str | None = None) -> list[Execution]:
        """Queue a fire of a schedule, in each of its scopes; its next time does not change.

        `payload`, a text of JSON, is that of this fire and its retries in the place of its
        schedule's. A row comes back `skipped` where overlap left it out. Raises InvalidInput for
        a payload that is no JSON, or longer than 64 KiB.
        """
        return [self.execution(one) for one in self.ask(name, payload=payload)]

    def ask(self, name: str, *, payload: str | None = None, is_one: bool = False) -> list[int]:
        """As `run_now`: the ids of the rows, for who does not look at them.

        With `is_one` there is to be one: raises InvalidInput where it has several scopes.
        """
        if payload is not None:
            check_json(payload, what="payload", most_bytes=MOST_PAYLOAD_BYTES)
        for _ in range(TRIES):
            schedule = self._asked_last
            if schedule is None or schedule.spec.name != name or (is_one and _is_many(schedule)):
                schedule = self.store.get_schedule(name)
            if is_one and _is_many(schedule):
                raise InvalidInput(
                    f"{name!r} has {len(schedule.spec.scopes)} scopes, and nothing of it was run",
                    hint="use fire(), which gives a run for each",
                )
            now_ms = self._clock.now_ms()
            fire = _fire_by_hand(f"manual:{os.urandom(6).hex()}", payload, now_ms=now_ms)
            decided = self.store.enqueue_fire(schedule, fire, now_ms=now_ms)
            self._asked_last = schedule if decided is not None else None
            if decided is not None:
                self._ring()
                return [one.execution_id for one in decided]
        raise Conflict(f"schedule {name!r} is being changed by others", hint="try again")

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
    ) -> list[Execution]:
        """As `run_now`, once for a key: with one that was given before, the rows of that time, as
        they are now.

        A key is the schedule's own, and known for 24 hours, or until retention removes its rows;
        longer while these are among the newest 100 of the schedule, for a clock may be set.
        `asked_at` is when it was asked for first, None where that is now. Raises InvalidInput for
        a key that is not of 1 to 255 printable characters of ASCII, KeyReused for one that was
        given with another payload, and Conflict where nobody can know it any more.
        """
        fire_key = _fire_key(key)
        if payload is not None:
            check_json(payload, what="payload", most_bytes=MOST_PAYLOAD_BYTES)
        for _ in range(TRIES):
            schedule = self.store.get_schedule(name)
            now_ms = self._clock.now_ms()
            fire = _fire_by_hand(fire_key, payload, now_ms=now_ms)
            found = self.store.enqueue_once(
                schedule,
                fire,
                asked_ms=now_ms if asked_at is None else to_ms(asked_at),
                since_ms=now_ms - KEY_S * 1000,
                now_ms=now_ms,
            )
            if found is not None:
                self._ring()
                return [self.execution(one) for one in found]
        raise Conflict(f"schedule {name!r} is being changed by others", hint="try again")

    def report_progress(self, execution_id: int, fraction: float | None, text: str = "") -> bool:
        """Say how far a run is; whether that is on record. Not where the run does not go on, nor
        within a second after the last time: flash is not for writing.

        `fraction` is from 0 to 1, None where that can't be told. Raises InvalidInput for others.
        """
        from edgecron.model.reports import Progress, progress_text

        progress = progress_text(Progress(fraction=fraction, text=text))
        now_ms = self._clock.monotonic_ms()
        last = self._reported
        if last is not None and last[0] == execution_id and now_ms - last[1] < _REPORT_MS:
            return False
        self._reported = (execution_id, now_ms)
        return self.store.report_progress(execution_id, progress)

    def cancel(self, execution_id: int) -> Execution:
        """End a run: withdraw a queued one, or have a running one's session or cgroup ended.

        A running one gets TERM, its grace, then KILL; its row says `cancelled` once its engine,
        or the next one, has written the end. Raises NotFound, Conflict where it has ended
        already, SupervisorUnavailable where nobody is left to end it.
        """
        from edgecron.engine.owner import refuse_foreign
        from edgecron.engine.peers import end_run
        from edgecron.model.choices import ACTIVE, Status

        for _ in range(TRIES):
            now_ms = self._clock.now_ms()
            execution = self.execution(execution_id)
            if execution.status is Status.QUEUED:
                if self.store.cancel_queued(execution_id, now_ms=now_ms):
                    self._ring()
                    return self.execution(execution_id)
            elif execution.status is Status.RUNNING:
                row = self.store.request_cancel(execution_id, now_ms=now_ms)
                if row is not None:
                    try:
                        end_run(row, state_dir(self.path))
                    except SupervisorUnavailable:
                        # It may have ended with nobody there to write it down.
                        self.take_over()
                        ended = self.execution(execution_id)
                        if ended.status in ACTIVE:
                            refuse_foreign(self.path)
                            raise
                        if ended.status is Status.CANCELLED:
                            return ended  # by us: its supervisor has gone before it said so
                        continue
                    return self.execution(execution_id)
            else:
                raise Conflict(f"run {execution_id} has ended already: {execution.status}")
        raise Conflict(f"run {execution_id} is being changed by others", hint="try again")

    def trust_clock(self) -> tuple[datetime | None, datetime]:
        """Vouch that the clock is right now, so that engines believe it.

        The trusted mark as it was, None where there was none yet, and as it is now.
        """
        for _ in range(TRIES):
            was_ms = self.store.find_clock_marks().trusted_high_ms
            now_ms = self._clock.now_ms()
            if self.store.note_trusted(now_ms, was_ms=was_ms):
                self._ring()
                return (None if was_ms is None else from_ms(was_ms)), from_ms(now_ms)
        raise Conflict("the trusted mark is being changed by others", hint="try again")


def _fire_by_hand(fire_key: str, payload: str | None, *, now_ms: int) -> Fire:
    from edgecron.model.choices import Cause
    from edgecron.planning.next_fire import Fire

    return Fire(
        plan_ms=now_ms,
        due_ms=now_ms,
        cause=Cause.MANUAL,
        source=None,
        fire_key=fire_key,
        payload=payload,
    )


def _fire_key(key: str) -> str:
    """What tells the fire of an idempotency key from others. Raises InvalidInput."""
    if not (1 <= len(key) <= MOST_KEY_LETTERS and key.isascii() and key.isprintable()):
        raise InvalidInput(
            f"key is {key[:60]!a}, expected 1 to {MOST_KEY_LETTERS} printable characters of ASCII"
        )
    from hashlib import sha256

    return f"manual:{sha256(key.encode()).hexdigest()[:32]}"


def _is_many(schedule: Schedule) -> bool:
    """Whether a fire of it has several runs."""
    return len(schedule.spec.scopes) > 1
