"""What people do, in plain words, on a `Book`: each act as the design tells it."""

from __future__ import annotations

from tests.machine.plainbook import Book
from tests.machine.plainengine import Engines
from tests.machine.plainrows import Row, Schedule, Scope
from tests.machine.plaintimes import (
    Fire,
    Span,
    Wish,
    missed_since,
    next_after_pause,
    next_of,
)

_TIMING = ("triggers", "from_ms", "until_ms", "max_runs")


class People:
    def __init__(self, book: Book, engines: Engines) -> None:
        self.book = book
        self.engines = engines

    def add(self, schedule_id: int, name: str, wish: Wish, now_ms: int) -> None:
        """It computes from now, and never fires for the past."""
        assert schedule_id not in self.book.schedules
        schedule = Schedule(
            id=schedule_id,
            name=name,
            wish=wish,
            decided_ms=now_ms,
            next_ms=next_of(wish, now_ms, 0),
            wishes={1: wish},
            changed_ms=now_ms,
        )
        self.book.schedules[schedule.id] = schedule
        self._need_group(wish)

    def edit(self, schedule: Schedule, wish: Wish, now_ms: int) -> None:
        """New times: what was missed is recorded, then from now. Else the next time stays."""
        is_retimed = any(getattr(wish, one) != getattr(schedule.wish, one) for one in _TIMING)
        missed = self._missed(schedule, now_ms, reason="edited")
        scopes = schedule.wish.scopes
        schedule.change(now_ms, wish)
        self._need_group(wish)
        if is_retimed:
            self._retime(schedule, missed, scopes, now_ms)

    def remove(self, schedule: Schedule, now_ms: int) -> None:
        """What is queued is cancelled; what runs finishes."""
        missed = self._missed(schedule, now_ms, reason="removed")
        schedule.change(now_ms)
        self._record(schedule, schedule.wish.scopes, missed, now_ms)
        schedule.enabled, schedule.next_ms = False, None  # Its pause stays, for undo.
        schedule.is_removed = True
        for row in self.book.rows.values():
            if row.schedule_id == schedule.id and row.status == "queued":
                row.status, row.reason, row.finished_ms = "cancelled", "removed", now_ms
                schedule.count("cancelled")

    def pause(self, schedule: Schedule, until_ms: int | None, now_ms: int) -> None:
        schedule.change(now_ms)
        schedule.enabled, schedule.paused_ms = until_ms is not None, until_ms
        schedule.next_ms = None
        if until_ms is not None:
            schedule.next_ms = next_after_pause(
                schedule.wish, until_ms, decided_ms=schedule.decided_ms, planned=schedule.planned
            )

    def resume(self, schedule: Schedule, now_ms: int) -> None:
        """What passed meanwhile is one range; nothing where the pause is over by itself."""
        if not schedule.is_held(now_ms):
            return
        missed = self._missed(schedule, now_ms, reason="paused")
        schedule.change(now_ms)
        schedule.enabled, schedule.paused_ms = True, None
        self._retime(schedule, missed, schedule.wish.scopes, now_ms)

    def run(self, schedule: Schedule, key: str, now_ms: int) -> None:
        withdrawn: list[Row] = []
        for scope in schedule.wish.scopes:
            fire = Fire(plan_ms=now_ms, due_ms=now_ms, cause="manual", key=key)
            withdrawn += self.book.write_queued(schedule, scope, fire, now_ms) or ()
        for row in withdrawn:
            self.book.end_fire(row, now_ms)

    def cancel(self, row: Row, now_ms: int) -> None:
        """Withdraw what waits; what runs is asked to end, and its row is written by an engine."""
        if row.status == "queued":
            row.status, row.reason, row.finished_ms = "cancelled", "request", now_ms
            row.cancel_ms = now_ms
            self.book.schedules[row.schedule_id].count("cancelled")
            self.book.end_fire(row, now_ms)
            return
        row.cancel_ms = now_ms if row.cancel_ms is None else row.cancel_ms
        self.engines.bodies[row.id].end(now_ms)

    def reschedule(self, schedule: Schedule, run_ms: int, now_ms: int) -> None:
        assert schedule.next_ms is not None
        schedule.change(now_ms)
        schedule.next_ms = (schedule.next_ms[0], run_ms)

    def backfill(self, schedule: Schedule, from_ms: int, to_ms: int, now_ms: int) -> None:
        """A run for each decided time of the range without a success or an active row."""
        wish = schedule.wish
        from_ms = max(from_ms, (schedule.pruned_ms or 0) + 1)
        for plan_ms in wish.plans(from_ms - 1, min(to_ms, schedule.decided_ms)):
            for scope in wish.scopes:
                planned = [
                    row
                    for row in self.book.rows.values()
                    if (row.schedule_id, row.scope, row.plan_ms) == (schedule.id, scope, plan_ms)
                    and (row.key == "" or row.is_backfill)
                ]
                if any(row.is_active or row.status == "success" for row in planned):
                    continue
                numbers = [int(row.key.split(":")[1]) for row in planned if row.is_backfill]
                fire = Fire(
                    plan_ms=plan_ms, due_ms=now_ms, cause="backfill",
                    key=f"backfill:{1 + max(numbers, default=0)}",
                )  # fmt: skip
                priority = min(-10, wish.priority - 10)
                self.book.insert(schedule, scope, fire, now_ms=now_ms, priority=priority)

    def prune(self, left: set[int], schedules: dict[int, int | None], *, count: int) -> None:
        """Take over what retention did, where it did no more than it may.

        Which rows it picks is not told here: only that none of them may be needed.
        """
        gone = [row for id_, row in self.book.rows.items() if id_ not in left]
        assert left <= set(self.book.rows), "a row came back"
        for row in gone:
            schedule = self.book.schedules[row.schedule_id]
            assert not row.is_active, f"removed while active: {row}"
            mine = [r for r in self.book.rows.values() if r.schedule_id == row.schedule_id]
            ended = [r for r in mine if not r.is_active]
            assert len(ended) > count, f"removed though there are no more than {count}: {row}"
            newer = sum(r.id > row.id for r in ended)
            assert newer >= count, f"removed though it is among the newest {count}: {row}"
            assert schedule.is_removed or row.id != schedule.last_row, f"the last run: {row}"
            del_key = row.key == "" and not schedule.is_removed
            assert not del_key or row.plan_ms < schedule.decided_ms, f"a decided time: {row}"
        for row in gone:
            del self.book.rows[row.id]
        for schedule_id, schedule in list(self.book.schedules.items()):
            if schedule_id in schedules:
                schedule.pruned_ms = schedules[schedule_id]
                continue
            assert schedule.is_removed, f"a schedule that lives is gone: {schedule}"
            has_rows = any(r.schedule_id == schedule_id for r in self.book.rows.values())
            assert not has_rows, f"a schedule is gone whose rows are there: {schedule}"
            del self.book.schedules[schedule_id]
        for row in gone:
            left_of = self.book.schedules.get(row.schedule_id)
            if left_of is not None and (row.key == "" or row.is_backfill):
                assert (left_of.pruned_ms or 0) >= row.plan_ms, f"forgotten without a mark: {row}"

    def limit_group(self, group: str, most: int | None) -> None:
        self.book.groups[group] = most

    def _need_group(self, wish: Wish) -> None:
        if wish.group is not None:
            self.book.groups.setdefault(wish.group, None)

    def _missed(self, schedule: Schedule, now_ms: int, *, reason: str) -> Span | None:
        is_held = not schedule.enabled or schedule.paused_ms is not None
        return missed_since(
            schedule.wish,
            schedule.decided_ms,
            now_ms,
            reason="paused" if is_held else reason,
            planned=schedule.planned,
        )

    def _record(
        self, schedule: Schedule, scopes: tuple[Scope, ...], missed: Span | None, now_ms: int
    ) -> None:
        for scope in scopes if missed is not None else ():
            assert missed is not None
            self.book.record_missed(schedule, scope, missed, now_ms)

    def _retime(
        self, schedule: Schedule, missed: Span | None, scopes: tuple[Scope, ...], now_ms: int
    ) -> None:
        """What is decided stays decided; from there, or from now, the new times count."""
        decided_ms = max(now_ms, schedule.decided_ms)
        schedule.next_ms = self._next(schedule, decided_ms)
        if decided_ms > now_ms and self._is_decided_early(schedule, scopes, now_ms):
            earlier = self._next(schedule, now_ms)
            if earlier is not None and earlier[0] < decided_ms:
                schedule.next_ms, decided_ms = earlier, now_ms
        schedule.decided_ms, schedule.repeats_ms = decided_ms, None
        self._record(schedule, scopes, missed, now_ms)

    def _next(self, schedule: Schedule, after_ms: int) -> tuple[int, int] | None:
        if not schedule.enabled:
            return None
        until_ms = after_ms if schedule.paused_ms is None else schedule.paused_ms
        return next_after_pause(
            schedule.wish, until_ms, decided_ms=after_ms, planned=schedule.planned
        )

    def _is_decided_early(self, schedule: Schedule, scopes: tuple[Scope, ...], now_ms: int) -> bool:
        """Whether a person had the last decided time run before it came."""
        return any(
            row.schedule_id == schedule.id
            and row.scope in scopes
            and row.plan_ms == schedule.decided_ms > now_ms
            and row.key == ""
            and ((row.finished_ms if row.queued_ms is None else row.queued_ms) or 0) <= now_ms
            for row in self.book.rows.values()
        )
