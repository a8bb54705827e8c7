"""For the tests of programs that embed a Scheduler: time moves only when a test moves it.

    def test_the_backup_runs_at_night():
        with travel(scheduler, start=datetime(2026, 3, 28, tzinfo=UTC)) as journey:
            journey.advance(days=1)
            assert journey.fired(backup) == [datetime(2026, 3, 28, 2, tzinfo=UTC)]

travel           a Scheduler in a time of its own, and the Journey that moves it
travel_engine    its engine, stepped by hand, and its clock
travel_calls     its functions and coroutines, in turn
travel_commands  its commands, in turn
context          (here) a RunContext to call a function with

Nothing here needs pytest or starts a thread. For pytest, `pytest_plugin` has fixtures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from edgecron.base.checks import (
    check_aware,
    check_aware_or_none,
    check_name,
    check_range,
    check_seconds,
    check_type,
)
from edgecron.base.errors import InvalidInput
from edgecron.base.json_texts import json_text
from edgecron.base.units import MAX_DURATION_MS, to_ms
from edgecron.embedding.context import RunContext
from edgecron.embedding.job import payload_json
from edgecron.embedding.travel import Journey, travel
from edgecron.embedding.travel_engine import START, FakeClock
from edgecron.model.choices import GLOBAL_SCOPE, Cause, JobKind, Reason
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import Claim, Progress, Upstream, progress_text
from edgecron.supervisor.calls import Call

__all__ = ["FakeClock", "FakeContext", "Journey", "context", "travel"]


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
    payload: object = None,
    state: Mapping[str, Any] | None = None,
    upstream: Upstream | None = None,
) -> FakeContext:
    """Return a context to call a function with, without a run.

        run = context(attempt=2, state={"cursor": 41})
        assert copy(run, "/srv") == 12
        assert run.reports[-1] == (1.0, "copied 12 of 12")
        assert run.remembered == {"cursor": 53}

    `max_attempts` None is `attempt`, `due_at` None is `plan_at`. Its `timeout`, in seconds, is
    over when a test moves `run.clock` beyond it. `payload` is JSON, as `run.payload` has it; the
    function gets only the arguments of its call. `upstream` is the run that a follow-up follows,
    such as `Upstream("backup", run=7, status="failed")`. Raises InvalidInput for impossible values.
    """
    try:
        known_cause = Cause(cause)
    except ValueError:
        raise InvalidInput(
            f"cause is {cause!r:.40}", hint=f"expected one of {', '.join(Cause)}"
        ) from None
    check_name(schedule, what="schedule name")
    check_aware("plan_at", plan_at)
    check_aware_or_none("due_at", due_at)
    most = attempt if max_attempts is None else max_attempts
    for what, number in (("attempt", attempt), ("max_attempts", most)):
        check_type(what, number, int, expected="a whole number", hint=f"such as {what}=2")
        check_range(what, number, 1, 1_000_000)
    check_seconds(
        "timeout", timeout, example="timeout=5", most=MAX_DURATION_MS / 1000, is_optional=True
    )
    if [type(scope), *map(type, scope)] != [tuple, str, str]:
        raise InvalidInput(
            f"scope is {scope!r:.60}, expected (kind, id)",
            hint="such as scope=('device', 'pump-3')",
        )
    check_type(
        "state", {} if state is None else state, Mapping,
        expected="a dict", hint="such as state={'cursor': 41}",
    )  # fmt: skip
    claim = Claim(
        execution_id=1,
        lease_token="test",
        schedule_id=1,
        schedule=schedule,
        job=Job(kind=JobKind.CALLABLE, argv=(schedule,), payload=payload_json(payload)),
        plan_ms=to_ms(plan_at),
        due_ms=to_ms(due_at or plan_at),
        fire_key="",
        cause=known_cause,
        attempt=attempt,
        max_attempts=max(attempt, most),
        scope_kind=scope[0],
        scope_id=scope[1],
        policies=Policies(timeout_s=timeout),
        upstream=upstream,
    )
    clock = FakeClock(due_at or plan_at)
    texts = {key: json_text(value, what=f"state {key!r}") for key, value in (state or {}).items()}
    call = _RecordingCall(claim, clock=clock, read_state=lambda _: texts)
    call.begin(clock.monotonic_ms())
    return FakeContext(call, clock)


class FakeContext(RunContext):
    """A RunContext that records its calls. `clock` is the clock of its timeout."""

    __slots__ = ("_recording", "clock")

    def __init__(self, call: _RecordingCall, clock: FakeClock) -> None:
        super().__init__(call)
        self._recording = call
        self.clock = clock

    @property
    def reports(self) -> list[tuple[float | None, str]]:
        """The reported progress, in order: fraction and text."""
        return self._recording.reports

    @property
    def remembered(self) -> dict[str, Any]:
        """The state after the function: what is kept if the run succeeds."""
        return {key: json.loads(text) for key, text in self._recording.state.items()}

    def cancel(self) -> None:
        """Ask it to stop, as a person would."""
        self._recording.ask_to_stop(Reason.REQUEST)


class _RecordingCall(Call):
    __slots__ = ("reports",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reports: list[tuple[float | None, str]] = []

    def report_progress(self, fraction: float | None, text: str = "") -> None:
        progress_text(Progress(fraction=fraction, text=text))
        self.reports.append((fraction, text))
