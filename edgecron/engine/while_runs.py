"""End or suspend running runs whose `--while` condition is lost, and continue suspended ones.

An engine without such a run does not load this module. `judge_while` decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.base.units import format_ms
from edgecron.base.window_texts import is_command
from edgecron.engine.claim import Core
from edgecron.engine.conditions import ConditionWatch
from edgecron.engine.events import EventKind
from edgecron.engine.runners import StartedRun
from edgecron.model.conditions import Condition
from edgecron.planning.condition_answers import WatchedRun, WhileAct, judge_while
from edgecron.store.contract import Waited, Watched


class WhileRuns:
    """The running runs with conditions, each with the time of its next check."""

    def __init__(self, core: Core, conditions: ConditionWatch) -> None:
        self._store = core.store
        self._clock = core.clock
        self._runners = core.runners
        self._conditions = conditions
        self._events = core.events
        self._seen: dict[int, WatchedRun] = {}

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
        wanted = {
            key: _waited(_watched(runs[key]))
            for key, one in self._seen.items()
            if has_news or one.check_at_ms <= now_ms
        }
        # News of one command must not start others: they would start each other without a pause.
        self._conditions.look(
            [
                one
                for key, waited in wanted.items()
                for one in waited
                if self._seen[key].check_at_ms <= now_ms or not is_command(one.text)
            ]
        )
        for key, waited in wanted.items():
            self._seen[key] = self._check(key, runs[key], waited, now_ms)
        self._conditions.watch({one for run in runs.values() for one in _waited(_watched(run))})

    def _find(self, execution_id: int, run: StartedRun, now_ms: int) -> WatchedRun:
        seen = self._seen.get(execution_id)
        if seen is not None and seen.token == run.token:
            return seen
        return WatchedRun(run.token, now_ms, is_suspended=_watched(run).is_suspended)

    def _check(
        self, execution_id: int, run: StartedRun, waited: Sequence[Waited], now_ms: int
    ) -> WatchedRun:
        before = self._seen[execution_id]
        judged = [self._conditions.judge(one, is_strict=not before.is_suspended) for one in waited]
        seen, act, unmet = judge_while(before, judged, lost=_watched(run).lost, now_ms=now_ms)
        if before.check_at_ms > now_ms and act in (WhileAct.NOTHING, WhileAct.SUSPEND_AGAIN):
            # News, however often they come, do not put off the check of what nothing reports.
            at_ms = min(seen.check_at_ms, before.check_at_ms)
            seen = seen._replace(check_at_ms=at_ms, pause_ms=before.pause_ms)
        if act is WhileAct.RESUME:
            self._resume(execution_id, run)
        elif act is WhileAct.SUSPEND_AGAIN:
            self._runners.suspend(execution_id)
        elif unmet is not None and act is WhileAct.END:
            self._runners.lose(execution_id, f"its condition {unmet.text} was no longer true")
        elif unmet is not None and act is WhileAct.SUSPEND:
            self._suspend(execution_id, run, unmet)
        return seen

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
