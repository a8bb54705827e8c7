"""Decide what answers of conditions mean: those of commands, and those of `--while`. Pure.

The command of a condition runs in the environment of its schedule, but it is not a run. It has no
row, its number is below 0, and its answer counts only for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from edgecron.base.units import format_duration_ms
from edgecron.base.values import NamedTuple, replace
from edgecron.model.choices import Cause, JobKind, Reason, Status, WhileLost
from edgecron.model.conditions import Condition
from edgecron.model.machine_conditions import MachineCondition, split_command
from edgecron.model.options import Policies
from edgecron.model.run import Claim, Outcome
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
    last = "" if outcome.output is None else outcome.output.last_line
    return f"{words}: {last[:_MOST_NOTE]}" if last else words


LOST_MS = 5_000  # a condition that is not true for so long is lost
_PAUSE_MS = 10_000  # between two checks of what the kernel does not report
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000  # while a run is suspended


class WatchedRun(NamedTuple):
    """A run with `--while`, as the last check left it. Times are monotonic."""

    token: str
    check_at_ms: int
    pause_ms: int = _FIRST_PAUSE_MS
    unmet_since_ms: int | None = None
    is_suspended: bool = False


class WhileAct(Enum):
    """The action on a run after a check of its conditions."""

    NOTHING = auto()
    END = auto()
    SUSPEND = auto()
    SUSPEND_AGAIN = auto()  # an adopted supervisor might have let it continue
    RESUME = auto()


def judge_while(
    run: WatchedRun,
    judged: Sequence[tuple[Condition, bool | None]],
    *,
    lost: WhileLost,
    now_ms: int,
) -> tuple[WatchedRun, WhileAct, Condition | None]:
    """Decide what becomes of a run whose conditions were judged; also return the unmet one.

    A condition that is not true for a few seconds counts as lost. If the machine can't tell (None),
    nothing changes.
    """
    unmet = next((condition for condition, is_met in judged if is_met is False), None)
    if run.is_suspended:
        if all(is_met for _, is_met in judged):
            return WatchedRun(run.token, now_ms + _PAUSE_MS), WhileAct.RESUME, None
        again = run._replace(
            check_at_ms=now_ms + run.pause_ms, pause_ms=min(2 * run.pause_ms, _LONGEST_PAUSE_MS)
        )
        return again, WhileAct.SUSPEND_AGAIN, unmet
    if unmet is None:
        # Unknown for a moment, as while a command runs: what was seen before still counts.
        is_known = all(is_met is not None for _, is_met in judged)
        since_ms = None if is_known else run.unmet_since_ms
        kept = run._replace(check_at_ms=now_ms + _PAUSE_MS, unmet_since_ms=since_ms)
        return kept, WhileAct.NOTHING, None
    since_ms = now_ms if run.unmet_since_ms is None else run.unmet_since_ms
    if now_ms - since_ms < LOST_MS:
        kept = run._replace(check_at_ms=since_ms + LOST_MS, unmet_since_ms=since_ms)
        return kept, WhileAct.NOTHING, unmet
    if lost is WhileLost.END:
        ended = run._replace(check_at_ms=now_ms + _PAUSE_MS, unmet_since_ms=since_ms)
        return ended, WhileAct.END, unmet
    at_ms = now_ms + _FIRST_PAUSE_MS
    suspended = WatchedRun(run.token, at_ms, 2 * _FIRST_PAUSE_MS, is_suspended=True)
    return suspended, WhileAct.SUSPEND, unmet
