"""Decide which runs can start and continue, and whether another attempt follows. Pure.

Overlap, limits and pace decide what starts. Answers of conditions do so too, and with `--while`
they end or suspend a run. The command of a condition runs in the environment of its schedule, but
it is not a run. It has no row, its number is below 0, and its answer counts only for a moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from edgecron.base.units import format_duration_ms
from edgecron.base.values import NamedTuple, blake2b, dataclass, replace
from edgecron.model.choices import (
    Cause,
    JobKind,
    OnInterrupt,
    Overlap,
    Reason,
    Status,
    WhileLost,
)
from edgecron.model.conditions import Condition
from edgecron.model.engine import EngineInfo, Offers
from edgecron.model.machine_conditions import MachineCondition, split_command
from edgecron.model.options import Policies
from edgecron.model.run import Claim, Outcome

if TYPE_CHECKING:
    from edgecron.model.schedule import ScheduleSpec

_SPREAD = 0.1  # a retry moves by up to this share of its delay: so a thousand do not come at once
_BURST_MS = 1000
# As many runs are claimed ahead as ended within this time, if these are as many as there are
# places. 1,000 functions at once take 350 ms with at most 64 ahead, and 280 ms with 160.
_AHEAD_MS = 100
_MOST_AHEAD = 128
_LEAST_ENDED = 8  # fewer runs do not show how long runs take
# Engines of one queue wake so long after each other for what is due. On a server, one claim of 256
# schedules takes 50 ms: of 1,000 schedules and 50 engines, p99 was 1.6 to 2.0 s with 8 ms, and is
# 0.3 s with 40 ms.
_TURN_MS = 40
_LAST_TURN_MS = 1_000
# Only a few late runs run at once: so there are places for runs on time, and after a resume
# hundreds of late runs do not start together.
LATE_CAUSES = frozenset({Cause.CATCH_UP, Cause.BACKFILL})
_LATE_SHARE = 4


class Admission(Enum):
    RUN = "run"  # a place is free
    QUEUE = "queue"  # it waits for a place
    SKIP = "skip"  # the overlap policy forbids it
    REPLACE = "replace"  # it waits until the run that it replaces has been ended


class Occupancy(NamedTuple):
    """Active fires of one schedule and scope; `catching_up` late ones have started.

    `retrying` fires wait for their next attempt, and keep their places. `backfilling` of the
    running ones belong to a backfill, and `backfill_retrying` more wait for their next attempt.
    Backfill fires that have not started are not counted, as no other fire waits for them.
    """

    running: int = 0
    queued: int = 0
    retrying: int = 0
    catching_up: int = 0
    backfilling: int = 0
    backfill_retrying: int = 0

    @property
    def active(self) -> int:
        """How many fires are running, waiting or retrying, without those of a backfill."""
        return self.running - self.backfilling + self.queued + self.retrying


def running_limit(overlap: Overlap, max_running: int | None) -> int | None:
    """How many runs of one schedule and scope can run at the same time; None is unlimited."""
    if max_running is not None:
        return max_running
    return None if overlap is Overlap.ALLOW else 1


def late_limit(max_running: int) -> int:
    """How many of an engine's places late runs can have."""
    return max(1, max_running // _LATE_SHARE)


def admit_fire(
    *,
    overlap: Overlap,
    max_running: int | None,
    in_sequence: bool,
    occupancy: Occupancy,
    has_place: bool,
) -> Admission:
    """Decide about a new fire, given the active ones of its schedule and scope."""
    limit = running_limit(overlap, max_running)
    active = occupancy.active
    run_or_wait = Admission.RUN if has_place else Admission.QUEUE
    if in_sequence:
        # Overlap does not discard the fires of catch_up=all; they run one after the other.
        return run_or_wait if active + occupancy.backfilling == 0 else Admission.QUEUE
    if limit is None:
        return run_or_wait
    if active < limit:
        # It waits for a run of a backfill instead of being skipped.
        return run_or_wait if active + occupancy.backfilling < limit else Admission.QUEUE
    if overlap is Overlap.ALLOW:
        return Admission.QUEUE
    if overlap is Overlap.REPLACE:
        return Admission.REPLACE
    if overlap is Overlap.QUEUE and occupancy.queued == 0:
        return Admission.QUEUE
    return Admission.SKIP


def is_full(*, overlap: Overlap, max_running: int | None, occupancy: Occupancy) -> bool:
    """Whether a schedule and scope have as many runs as allowed, so that no other can start."""
    limit = running_limit(overlap, max_running)
    return limit is not None and occupancy.running >= limit


def is_behind(*, cause: Cause, occupancy: Occupancy) -> bool:
    """Whether a row of a backfill waits for the end of the one before it."""
    begun = occupancy.backfilling + occupancy.backfill_retrying
    return begun > (cause is Cause.RETRY)


def may_start_queued(
    *,
    overlap: Overlap,
    max_running: int | None,
    cause: Cause,
    occupancy: Occupancy,
    is_backfill: bool = False,
) -> bool:
    """Whether a queued row can run beside the running ones of its schedule and scope.

    `is_backfill`: it belongs to a backfill, with its first attempt or a later one.
    """
    limit = running_limit(overlap, max_running)
    if cause is Cause.CATCH_UP and occupancy.catching_up:
        # In sequence after the one before, but not after runs of other causes: a schedule that is
        # always running would never catch up.
        return False
    if is_backfill and is_behind(cause=cause, occupancy=occupancy):
        return False
    is_own = cause is Cause.RETRY and not is_backfill
    taken = occupancy.running + occupancy.retrying - is_own
    return limit is None or taken < limit


class Burst:
    """Limit how fast runs start: at most `most` within any second; None is no limit.

    Instants are monotonic.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken: deque[tuple[int, int]] = deque()  # (when, how many), the oldest first

    def free(self, now_ms: int) -> int | None:
        """How many runs can start now; None is no limit."""
        if self._most is None:
            return None
        while self._taken and now_ms - self._taken[0][0] >= _BURST_MS:
            self._taken.popleft()
        return max(0, self._most - sum(count for _, count in self._taken))

    def take(self, count: int, now_ms: int) -> None:
        """Note that so many runs have started."""
        if self._most is not None and count:
            self._taken.append((now_ms, count))

    def wait_ms(self, now_ms: int) -> int | None:
        """How long until one more run can start; None if one can start now."""
        if self.free(now_ms) != 0:
            return None
        return self._taken[0][0] + _BURST_MS - now_ms


class Reserve:
    """The runs to claim beyond the places of a runner, by how fast runs end.

    Instants are monotonic.
    """

    def __init__(self) -> None:
        self._ended_ms: deque[int] = deque()  # when the latest runs ended; newest last

    def note_end(self, now_ms: int) -> None:
        """Note that a run has ended."""
        self._ended_ms.append(now_ms)

    def clear(self) -> None:
        """Forget what ended: the runs that take the places now are longer."""
        self._ended_ms.clear()

    def size(self, now_ms: int, *, places: int | None) -> int:
        """How many runs to claim beyond the places: none, if they take a tenth of a second.

        None also if fewer runs than there are places ended just now. A runner that starts all runs
        immediately has no places (None), and no reserve.
        """
        while self._ended_ms and self._ended_ms[0] <= now_ms - _AHEAD_MS:
            self._ended_ms.popleft()
        ended = len(self._ended_ms)
        return min(ended, _MOST_AHEAD) if places and ended >= max(places, _LEAST_ENDED) else 0

    def lasts_ms(self, now_ms: int, *, places: int | None, unended: int) -> int:
        """For how long the reserve of so many unended runs keeps the places busy; 0 without one."""
        if places is None or not self.size(now_ms, places=places):
            return 0
        return max(0, (unended - places) * _AHEAD_MS // len(self._ended_ms))


def find_turn_ms(
    others: Iterable[EngineInfo],
    queue: str,
    due_ms: int,
    *,
    engine_id: int,
    offers: Offers | None,
) -> int:
    """How long after a due time this engine wakes, so that the first one claims undisturbed.

    Its turn is among the live engines that take jobs of the queue; `others` are all other engines
    that live. Each second has another order.
    """
    ids = [one.id for one in others if one.shares(queue, offers)]
    place = sum(one < engine_id for one in ids)
    turn = (place + due_ms // 1000) % (len(ids) + 1)
    return min(turn * _TURN_MS, _LAST_TURN_MS)


# Retries.


class RetryPolicy(NamedTuple):
    """How often, and after how long, a fire is attempted again."""

    retries: int
    delay_s: float
    factor: float
    max_delay_s: float
    on_interrupt: OnInterrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """An attempt that has ended. `interrupted_before` earlier attempts were interrupted.

    With `gave_up` there is no other attempt after a failure. `retry_after_ms` is the delay that the
    function asked for; None is that of the policy.
    """

    schedule: str
    plan_ms: int
    fire_key: str
    attempt: int
    max_attempts: int
    interrupted_before: int
    status: Status
    finished_ms: int
    gave_up: bool = False
    retry_after_ms: int | None = None


def most_attempts(retries: int, on_interrupt: OnInterrupt) -> int:
    """How many attempts a fire has at most: an interrupted one does not use up a retry."""
    return retries + 1 + (on_interrupt is OnInterrupt.RETRY)


def plan_retry(policy: RetryPolicy, ended: EndedAttempt, *, seed: bytes) -> int | None:
    """When the next attempt is due; None if there is none.

    At most `retries` attempts follow a failure. An attempt follows an interruption only if the
    schedule asks for it, and then immediately: an interruption is not a failure.
    """
    if ended.attempt >= ended.max_attempts:
        return None
    if ended.status is Status.INTERRUPTED:
        return ended.finished_ms if policy.on_interrupt is OnInterrupt.RETRY else None
    failures = ended.attempt - ended.interrupted_before
    if ended.status is not Status.FAILED or ended.gave_up or failures > policy.retries:
        return None
    if ended.retry_after_ms is not None:
        return ended.finished_ms + ended.retry_after_ms
    return ended.finished_ms + _delay_ms(policy, ended, failures, seed)


def _delay_ms(policy: RetryPolicy, ended: EndedAttempt, failures: int, seed: bytes) -> int:
    """The delay: it grows with each failure, and a stable hash spreads it.

    It never exceeds its maximum: there it is spread below it.
    """
    # A float can't hold a large factor to a large power.
    delay_s = policy.max_delay_s / (1 + _SPREAD)
    if policy.factor == 1 or failures <= 64:
        delay_s = min(delay_s, policy.delay_s * policy.factor ** (failures - 1))
    identity = f"{ended.schedule}\0{ended.plan_ms}\0{ended.fire_key}\0{ended.attempt}"
    digest = blake2b(identity.encode(), key=seed, digest_size=8).digest()
    share = int.from_bytes(digest, "big") / 2**64
    return round(delay_s * 1000 * (1 + _SPREAD * share))


# Conditions.

_COMMAND_GRACE_S = 1.0  # between TERM and KILL, after its timeout
_MOST_NOTE = 200
_UNANSWERED_MS = 30_000  # after timeout and grace: no answer will come


class Answer(NamedTuple):
    """The answer of a command. `is_met` None: the command could not tell."""

    condition: MachineCondition
    is_met: bool | None
    note: str | None


def most_wait_ms(condition: MachineCondition) -> int:
    """How long to wait for the answer of a command, at most."""
    return round(condition.amount + _COMMAND_GRACE_S * 1000) + _UNANSWERED_MS


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
        policies=Policies(timeout_s=condition.amount / 1000, kill_grace_s=_COMMAND_GRACE_S),
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
