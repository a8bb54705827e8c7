"""A RunContext for a test that calls a function directly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from edgecron.base.errors import InvalidInput
from edgecron.base.units import to_ms
from edgecron.embedding.context import RunContext
from edgecron.embedding.fake_clock import START, FakeClock
from edgecron.model.choices import GLOBAL_SCOPE, Cause, JobKind, Reason
from edgecron.model.claim import Claim, Upstream
from edgecron.model.options import Job, Policies
from edgecron.model.reports import Progress, progress_text
from edgecron.supervisor.calls import Call


def context(
    *,
    schedule: str = "test",
    plan_at: datetime = START,
    due_at: datetime | None = None,
    cause: str = "schedule",
    attempt: int = 1,
    max_attempts: int | None = None,
    scope: tuple[str, str] = GLOBAL_SCOPE,
    timeout: float | None = None,
    state: Mapping[str, Any] | None = None,
    upstream: Upstream | None = None,
) -> FakeContext:
    """What a function is called with that has a context, of a run that there is not.

        run = context(attempt=2, state={"cursor": 41})
        assert copy(run, "/srv") == 12
        assert run.reports[-1] == (1.0, "copied 12 of 12")
        assert run.remembered == {"cursor": 53}

    `max_attempts` None is `attempt`, `due_at` None is `plan_at`. Its `timeout`, in seconds, is
    over when `run.clock` is moved beyond it. `upstream` is the run that a follow-up follows, such
    as `Upstream("backup", run=7, status="failed")`. Raises InvalidInput for what no run could be.
    """
    try:
        known_cause = Cause(cause)
    except ValueError:
        raise InvalidInput(
            f"cause is {cause!r:.40}", hint=f"expected one of {', '.join(Cause)}"
        ) from None
    claim = Claim(
        execution_id=1,
        lease_token="test",
        schedule_id=1,
        schedule=schedule,
        job=Job(kind=JobKind.CALLABLE, argv=(schedule,)),
        plan_ms=to_ms(plan_at),
        due_ms=to_ms(due_at or plan_at),
        fire_key="",
        cause=known_cause,
        attempt=attempt,
        max_attempts=max(attempt, max_attempts or attempt),
        scope_kind=scope[0],
        scope_id=scope[1],
        policies=Policies(timeout_s=timeout),
        upstream=upstream,
    )
    clock = FakeClock(due_at or plan_at)
    texts = {key: json.dumps(value) for key, value in (state or {}).items()}
    call = _RecordingCall(claim, clock=clock, read_state=lambda _: texts)
    call.begin(clock.monotonic_ms())
    return FakeContext(call, clock)


class FakeContext(RunContext):
    """A RunContext that keeps what it is told. `clock` is what its timeout goes by."""

    __slots__ = ("_recording", "clock")

    def __init__(self, call: _RecordingCall, clock: FakeClock) -> None:
        super().__init__(call)
        self._recording = call
        self.clock = clock

    @property
    def reports(self) -> list[tuple[float | None, str]]:
        """The progress that was reported, in order: fraction and text."""
        return self._recording.reports

    @property
    def remembered(self) -> dict[str, Any]:
        """The state as the function has left it: what is kept if the run succeeds."""
        return {key: json.loads(text) for key, text in self._recording.state.items()}

    def cancel(self) -> None:
        """Ask it to stop, as a person may."""
        self._recording.ask_to_stop(Reason.REQUEST)


class _RecordingCall(Call):
    __slots__ = ("reports",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reports: list[tuple[float | None, str]] = []

    def report_progress(self, fraction: float | None, text: str = "") -> None:
        progress_text(Progress(fraction=fraction, text=text))
        self.reports.append((fraction, text))
