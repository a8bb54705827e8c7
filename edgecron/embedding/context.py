"""The run that a function is called for: its facts, its progress and its state."""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import Cancelled
from edgecron.base.json_texts import json_text
from edgecron.base.units import from_ms
from edgecron.supervisor.environment import idempotency_key

if TYPE_CHECKING:
    from edgecron.model.claim import Upstream
    from edgecron.supervisor.calls import Call


class RunContext:
    """The run that a function is called for. A function gets it as its first parameter:

        @scheduler.job("@daily")
        def copy(run: RunContext, folder: str = "/srv") -> int:
            run.progress(0.4, "copied 12 of 30")

    Any thread can call its methods until the function has returned.
    """

    __slots__ = ("_call", "_state")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._state: State | None = None

    def __repr__(self) -> str:
        return f"<RunContext of run {self.id}, {self.schedule}, attempt {self.attempt}>"

    @property
    def id(self) -> int:
        """The id of the run, as `history` shows it."""
        return self._call.claim.execution_id

    @property
    def schedule(self) -> str:
        """The name of the schedule."""
        return self._call.claim.schedule

    @property
    def plan_at(self) -> datetime:
        """Its plan time, aware, in UTC, however late it runs."""
        return from_ms(self._call.claim.plan_ms)

    @property
    def due_at(self) -> datetime:
        """When it could start: `plan_at` plus jitter, or plus the delay of a retry."""
        return from_ms(self._call.claim.due_ms)

    @property
    def cause(self) -> str:
        """Why the run exists: `schedule`, `catch_up`, `manual`, `retry`, and others."""
        return self._call.claim.cause.value

    @property
    def attempt(self) -> int:
        """1 for the first attempt, 2 for the first retry."""
        return self._call.claim.attempt

    @property
    def max_attempts(self) -> int:
        return self._call.claim.max_attempts

    @property
    def is_last_attempt(self) -> bool:
        return self.attempt >= self.max_attempts

    @property
    def scope(self) -> tuple[str, str]:
        """The (kind, id) of its scope; ('global', '') without scopes."""
        return self._call.claim.scope_kind, self._call.claim.scope_id

    @property
    def idempotency_key(self) -> str:
        """32 hexadecimal digits: the same for all attempts of one fire, different for others."""
        return idempotency_key(self._call.claim)

    @property
    def fence(self) -> int:
        """A number that grows with each run of the schedule.

        A store that keeps the largest number it saw can refuse a late write of an earlier run.
        """
        return self._call.claim.fence

    @property
    def upstream(self) -> Upstream | None:
        """The run before this one, if this one follows another schedule's: `name` of the schedule,
        number `run`, `status`, `reason`, `exit_code` and `error`.

        None for all other runs, and if retention has removed that run.
        """
        return self._call.claim.upstream

    @property
    def must_stop(self) -> bool:
        """Whether it was asked to stop, or its timeout is over: return soon, or raise.

        A function on a thread can't be ended from outside. A coroutine is also cancelled.
        """
        return self._call.must_stop

    def check(self) -> None:
        """Raise Cancelled if it must stop: for loops that have nothing to clean up."""
        if self._call.must_stop:
            reason = self._call.stop_reason
            why = "timeout" if reason is None else reason.value
            raise Cancelled(f"run {self.id} of {self.schedule!r} is to stop ({why})")

    def progress(self, fraction: float | None, text: str = "") -> None:
        """Report the progress: a fraction from 0 to 1, or None if unknown, and a few words.

        The dashboard and `status` show it live. At most one report a second is written, the newest;
        this never waits. Raises InvalidInput for any other value.
        """
        self._call.report_progress(fraction, text)

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The JSON values that the schedule keeps from run to run, by key.

        Changes are written in the transaction that records this run's success. If the run fails,
        is cancelled or interrupted, none of them is.
        """
        if self._state is None:
            self._state = State(self._call)
        return self._state


class State(MutableMapping[str, Any]):
    """The state of a schedule in one run. A value that is read is a copy."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def __getitem__(self, key: str) -> Any:
        return json.loads(self._call.state[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self._call.set_state(key, json_text(value, what=f"state {key!r}"))

    def __delitem__(self, key: str) -> None:
        if key not in self._call.state:
            raise KeyError(key)
        self._call.delete_state(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._call.state)

    def __len__(self) -> int:
        return len(self._call.state)
