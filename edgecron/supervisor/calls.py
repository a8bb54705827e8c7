"""One run of a function of the program: what the function is called with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from edgecron.base.clock import Clock
from edgecron.model.choices import Reason
from edgecron.model.claim import Claim
from edgecron.model.reports import Progress, Reported, progress_text
from edgecron.supervisor.call_reports import ProgressReports, ReadState, StateChanges


def remember_nothing(schedule_id: int) -> Mapping[str, str]:
    """What a schedule remembers where nobody asks the database."""
    return {}


class Call:
    """One run of a function: what the function is called with."""

    __slots__ = (
        *("_clock", "_reports", "_state", "_until_ms", "begun_ms", "claim", "on_stop"),
        "stop_reason",
    )

    def __init__(
        self,
        claim: Claim,
        *,
        clock: Clock,
        reports: ProgressReports | None = None,
        read_state: ReadState = remember_nothing,
    ) -> None:
        self.claim = claim
        self._reports = reports
        self._state = StateChanges(claim.schedule_id, read_state)
        self.stop_reason: Reason | None = None  # why it was asked to stop
        self.on_stop: Callable[[], object] | None = None  # ends it, where that can be done
        self._clock = clock
        self._until_ms: int | None = None
        self.begun_ms = 0

    @property
    def payload(self) -> object:
        """Its own payload, else its schedule's, as a value of JSON; None where neither has one."""
        text = self.claim.job.payload
        return None if text is None else json.loads(text)

    @property
    def is_over_time(self) -> bool:
        """Whether it has run for longer than its timeout."""
        return self.left_ms == 0

    @property
    def left_ms(self) -> int | None:
        """How much of its timeout is left, None where it has none."""
        if self._until_ms is None:
            return None
        return max(self._until_ms - self._clock.monotonic_ms(), 0)

    @property
    def must_stop(self) -> bool:
        """Whether its end was asked for, or its time is over: it should end soon by itself."""
        return self.stop_reason is not None or self.is_over_time

    def ask_to_stop(self, reason: Reason) -> None:
        """Say that it should end, and why; the first reason counts. From any thread."""
        if self.stop_reason is None:
            self.stop_reason = reason
        if self.on_stop is not None:
            self.on_stop()

    @property
    def state(self) -> Mapping[str, str]:
        """What its schedule remembers: texts of JSON by key, with the changes of this run."""
        return self._state.values()

    def set_state(self, key: str, value: str) -> None:
        """Have its schedule remember a text of JSON, from the end of this run on if it succeeds.

        Raises InvalidInput for a key that is not 1 to 128 printable characters, a value that is
        no JSON or longer than 64 KiB, and for more than 1,000 keys. From any thread.
        """
        self._state.set(key, value)

    def delete_state(self, key: str) -> None:
        """Have its schedule forget a key, in the same way."""
        self._state.delete(key)

    def report_progress(self, fraction: float | None, text: str = "") -> None:
        """Say how far it is, for people: from any thread, as often as it likes; it never waits.

        `fraction` is from 0 to 1, None where that can't be told. What is newest is put on record
        once a second. Raises InvalidInput for a fraction that is none.
        """
        progress = progress_text(Progress(fraction=fraction, text=text))
        if self._reports is not None:
            claim = self.claim
            self._reports.put(Reported(claim.execution_id, claim.lease_token, progress))

    def close_state(self) -> Mapping[str, str | None] | None:
        """Its changes of state; no more are taken then."""
        return self._state.close()

    def begin(self, now_ms: int) -> None:
        """Its timeout counts from now, by the monotonic clock."""
        self.begun_ms = now_ms
        if self.claim.policies.timeout_s is not None:
            self._until_ms = now_ms + max(1, round(self.claim.policies.timeout_s * 1000))
