"""End or suspend running runs whose `--while` condition is lost, and continue suspended ones.

A condition that is not true for a few seconds counts as lost. If the machine can't tell, nothing
changes. An engine without such a run does not load this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.units import format_ms
from edgecron.base.values import NamedTuple
from edgecron.engine.conditions import ConditionWatch
from edgecron.engine.events import EventKind, EventReporter
from edgecron.engine.runners import Runners, StartedRun
from edgecron.model.choices import WhileLost
from edgecron.model.conditions import Condition
from edgecron.store.contract import Waited, Watched

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

LOST_MS = 5_000  # a condition that is not true for so long is lost
_PAUSE_MS = 10_000  # between two checks of what the kernel does not report
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000  # while a run is suspended


class _Seen(NamedTuple):
    """A run as the last check left it. Times are monotonic."""

    token: str
    check_at_ms: int
    pause_ms: int
    unmet_since_ms: int | None = None
    is_suspended: bool = False


class WhileRuns:
    """The running runs with conditions, each with the time of its next check."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        runners: Runners,
        conditions: ConditionWatch,
        events: EventReporter,
    ) -> None:
        self._store = store
        self._clock = clock
        self._runners = runners
        self._conditions = conditions
        self._events = events
        self._seen: dict[int, _Seen] = {}

    @property
    def wake_ms(self) -> int | None:
        """How long until the next check; None without such a run."""
        at_ms = min((one.check_at_ms for one in self._seen.values()), default=None)
        return None if at_ms is None else max(0, at_ms - self._clock.monotonic_ms())

    def look(self, *, has_news: bool) -> None:
        """Check the runs whose time has come; with `has_news` all: the machine has changed."""
        now_ms = self._clock.monotonic_ms()
        runs = self._runners.watched()
        self._seen = {key: self._find(key, run, now_ms) for key, run in runs.items()}
        due = [key for key, one in self._seen.items() if has_news or one.check_at_ms <= now_ms]
        wanted = {key: _waited(_watched(runs[key])) for key in due}
        self._conditions.look([one for waited in wanted.values() for one in waited])
        for key, waited in wanted.items():
            self._seen[key] = self._check(key, runs[key], waited, now_ms)
        self._conditions.watch({one for run in runs.values() for one in _waited(_watched(run))})

    def _find(self, execution_id: int, run: StartedRun, now_ms: int) -> _Seen:
        seen = self._seen.get(execution_id)
        if seen is not None and seen.token == run.token:
            return seen
        return _Seen(run.token, now_ms, _FIRST_PAUSE_MS, is_suspended=_watched(run).is_suspended)

    def _check(
        self, execution_id: int, run: StartedRun, waited: Sequence[Waited], now_ms: int
    ) -> _Seen:
        seen = self._seen[execution_id]
        judged = [self._conditions.judge(one) for one in waited]
        unmet = next((condition for condition, is_met in judged if is_met is False), None)
        if seen.is_suspended:
            if all(is_met for _, is_met in judged):
                self._resume(execution_id, run)
                return _Seen(run.token, now_ms + _PAUSE_MS, _FIRST_PAUSE_MS)
            # Again: an adopted supervisor might have let it continue.
            self._runners.suspend(execution_id)
            pause_ms = min(2 * seen.pause_ms, _LONGEST_PAUSE_MS)
            return seen._replace(check_at_ms=now_ms + seen.pause_ms, pause_ms=pause_ms)
        if unmet is None:
            # Unknown for a moment, as while a command runs: what was seen before still counts.
            is_known = all(is_met is not None for _, is_met in judged)
            since_ms = None if is_known else seen.unmet_since_ms
            return seen._replace(check_at_ms=now_ms + _PAUSE_MS, unmet_since_ms=since_ms)
        since_ms = now_ms if seen.unmet_since_ms is None else seen.unmet_since_ms
        if now_ms - since_ms < LOST_MS:
            return seen._replace(check_at_ms=since_ms + LOST_MS, unmet_since_ms=since_ms)
        if _watched(run).lost is WhileLost.END:
            self._runners.lose(execution_id, f"its condition {unmet.text} was no longer true")
            return seen._replace(check_at_ms=now_ms + _PAUSE_MS, unmet_since_ms=since_ms)
        self._suspend(execution_id, run, unmet)
        return _Seen(run.token, now_ms + _FIRST_PAUSE_MS, 2 * _FIRST_PAUSE_MS, is_suspended=True)

    def _suspend(self, execution_id: int, run: StartedRun, unmet: Condition) -> None:
        self._runners.suspend(execution_id)
        since = format_ms(self._clock.now_ms())
        note = f"suspended since {since}: it waits for {unmet.words()}"
        if self._store.note_suspension(execution_id, run.token, note):
            details: dict[str, object] = {"waiting_for": unmet.text}
            self._events.report(EventKind.SUSPENDED, execution_id, run.schedule, details)

    def _resume(self, execution_id: int, run: StartedRun) -> None:
        self._runners.resume(execution_id)
        if self._store.note_suspension(execution_id, run.token, None):
            self._events.report(EventKind.CONTINUED, execution_id, run.schedule)


def _watched(run: StartedRun) -> Watched:
    assert run.watched is not None
    return run.watched


def _waited(watched: Watched) -> tuple[Waited, ...]:
    return tuple(Waited(text, watched.schedule_id, watched.revision) for text in watched.needs)
