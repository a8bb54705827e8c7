"""Run the commands of conditions, through the supervisor, in the environment of their schedules.

Such a command is not a run: it has no row, and its answer counts only for a moment. The engine
never waits for an answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.units import format_duration_ms
from edgecron.base.values import NamedTuple, replace
from edgecron.engine.runners import Runners
from edgecron.model.choices import Cause, JobKind, Reason, Status
from edgecron.model.claim import Claim, Outcome
from edgecron.model.machine_conditions import MachineCondition, split_command
from edgecron.model.options import Policies

if TYPE_CHECKING:
    from edgecron.model.schedule import ScheduleSpec

_GRACE_S = 1.0  # between TERM and KILL, after its timeout
_MOST_NOTE = 200
_LOST_MS = 30_000  # after timeout and grace: no answer will come


class Answer(NamedTuple):
    """The answer of a command. `is_met` None: the command could not tell."""

    condition: MachineCondition
    is_met: bool | None
    note: str | None


class _Asked(NamedTuple):
    condition: MachineCondition
    until_ms: int  # monotonic


class ConditionCommands:
    """The commands of conditions that are running: each condition has at most one."""

    def __init__(
        self,
        *,
        clock: Clock,
        runners: Runners,
        find_spec: Callable[[int, int], ScheduleSpec | None],
    ) -> None:
        self._clock = clock
        self._runners = runners
        self._find_spec = find_spec  # of a schedule at a revision
        self._asked: dict[int, _Asked] = {}  # by the number of the claim, which is below 0
        self._last_number = 0

    def ask(self, condition: MachineCondition, *, schedule_id: int, revision: int) -> None:
        """Start the command of a condition, unless it is running or can't be started now."""
        now_ms = self._clock.monotonic_ms()
        self._asked = {key: one for key, one in self._asked.items() if one.until_ms > now_ms}
        if any(one.condition == condition for one in self._asked.values()):
            return
        spec = self._find_spec(schedule_id, revision)
        if spec is None:
            return
        self._last_number -= 1
        if self._runners.ask(self._claim(condition, spec)):
            until_ms = now_ms + round(condition.amount + _GRACE_S * 1000) + _LOST_MS
            self._asked[self._last_number] = _Asked(condition, until_ms)

    def take(self, outcomes: Iterable[Outcome]) -> list[Answer]:
        """The answers of commands that have ended."""
        answers = []
        for outcome in outcomes:
            asked = self._asked.pop(outcome.execution_id, None)
            if asked is not None:
                answers.append(_answer(asked.condition, outcome))
        return answers

    def _claim(self, condition: MachineCondition, spec: ScheduleSpec) -> Claim:
        now_ms = self._clock.now_ms()
        return Claim(
            execution_id=self._last_number,
            lease_token=os.urandom(8).hex(),
            schedule_id=condition.of,
            schedule=spec.name,
            job=replace(
                spec.job,
                kind=JobKind.COMMAND,
                argv=split_command(condition.name),
                stdin=None,
                payload=None,
            ),
            plan_ms=now_ms,
            due_ms=now_ms,
            fire_key="",
            cause=Cause.SCHEDULE,
            attempt=1,
            max_attempts=1,
            scope_kind="",
            scope_id="",
            policies=Policies(timeout_s=condition.amount / 1000, kill_grace_s=_GRACE_S),
        )


def _answer(condition: MachineCondition, outcome: Outcome) -> Answer:
    if outcome.status is Status.SUCCESS:
        return Answer(condition, True, None)
    if outcome.reason in (Reason.EXIT, Reason.SIGNAL):
        return Answer(condition, False, _with_last_line(f"exit code {outcome.exit_code}", outcome))
    if outcome.reason is Reason.TIMEOUT:
        limit = format_duration_ms(round(condition.amount))
        return Answer(condition, None, _with_last_line(f"it took longer than {limit}", outcome))
    return Answer(condition, None, (outcome.error_msg or "")[:_MOST_NOTE] or None)


def _with_last_line(words: str, outcome: Outcome) -> str:
    """Add the last line that a command has printed."""
    chunks = () if outcome.output is None else outcome.output.chunks
    text = b"".join(chunk.content for chunk in chunks).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{words}: {lines[-1][:_MOST_NOTE]}" if lines else words
