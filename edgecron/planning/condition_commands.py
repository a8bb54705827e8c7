"""Turn the command of a condition into a claim, and its outcome into an answer. Pure.

The command runs in the environment of its schedule, but it is not a run: it has no row, its number
is below 0, and its answer counts only for a moment.
"""

from __future__ import annotations

from edgecron.base.units import format_duration_ms
from edgecron.base.values import NamedTuple, replace
from edgecron.model.choices import Cause, JobKind, Reason, Status
from edgecron.model.claim import Claim, Outcome
from edgecron.model.machine_conditions import MachineCondition, split_command
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec

_GRACE_S = 1.0  # between TERM and KILL, after its timeout
_MOST_NOTE = 200
_LOST_MS = 30_000  # after timeout and grace: no answer will come


class Answer(NamedTuple):
    """The answer of a command. `is_met` None: the command could not tell."""

    condition: MachineCondition
    is_met: bool | None
    note: str | None


def most_wait_ms(condition: MachineCondition) -> int:
    """How long to wait for the answer of a command, at most."""
    return round(condition.amount + _GRACE_S * 1000) + _LOST_MS


def command_claim(
    condition: MachineCondition, spec: ScheduleSpec, *, number: int, token: str, now_ms: int
) -> Claim:
    """The claim that starts the command of a condition. `number` is below 0."""
    return Claim(
        execution_id=number,
        lease_token=token,
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


def read_answer(condition: MachineCondition, outcome: Outcome) -> Answer:
    """The answer of a command that has ended."""
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
