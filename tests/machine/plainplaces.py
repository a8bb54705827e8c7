"""The places of engines, in plain words: who gets a free one, and when late runs do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.machine.plainbook import Book
from tests.machine.plainrows import LATE, Body, Row, Schedule, Scope

_LateKey = tuple[int, Scope, str]


@dataclass(kw_only=True)
class Engine:
    key: str
    max_running: int
    # The supervisors that answer to it, its own first.
    supervisors: list[str] = field(default_factory=list)
    has_looked: bool = False  # at the clock, so that ends make room at once
    must_repeat: bool = True  # it has still to look for times that a clock set back repeats
    back_ms: int | None = None  # by how much it saw the clock set back


class Places:
    """Free places, and the bodies of what gets them."""

    def __init__(self, book: Book, bodies: dict[int, Body]) -> None:
        self.book = book
        self.bodies = bodies

    def running(self, engine: Engine) -> list[Row]:
        return [
            row
            for row in self.book.rows.values()
            if row.status == "running" and row.engine == engine.key
        ]

    def free(self, engine: Engine) -> int:
        return engine.max_running - len(self.running(engine))

    def free_late(self, engine: Engine) -> int:
        late = sum(row.cause in LATE for row in self.running(engine))
        return min(self.free(engine), max(1, engine.max_running // 4) - late)

    def has_place(self, engine: Engine, schedule: Schedule, cause: str) -> bool:
        places = self.free_late(engine) if cause in LATE else self.free(engine)
        return places > 0 and not self._is_group_full(schedule.wish.group)

    def _is_group_full(self, group: str | None) -> bool:
        most = None if group is None else self.book.groups.get(group)
        running = sum(
            row.status == "running" and self.book.schedules[row.schedule_id].wish.group == group
            for row in self.book.rows.values()
        )
        return most is not None and running >= most

    def waiting(self, now_ms: int) -> list[Row]:
        """What is queued and due and not held, in the order in which it gets places."""
        found = []
        for row in self.book.rows.values():
            schedule = self.book.schedules[row.schedule_id]
            is_held = row.cause != "manual" and (schedule.is_removed or schedule.is_held(now_ms))
            if row.status == "queued" and row.due_ms <= now_ms and not is_held:
                found.append(row)
        return sorted(found, key=lambda row: (-row.priority, row.due_ms, row.id))

    def fill(self, engine: Engine, now_ms: int) -> None:
        waiting = self.waiting(now_ms)
        late = _NextLate(self, engine, now_ms)
        has_looked = False
        while not has_looked or late.goes_on():
            has_looked = True
            for priority in sorted({row.priority for row in waiting}, reverse=True):
                rows = [row for row in waiting if row.priority == priority]
                # A schedule that runs nothing goes before one that runs something.
                for is_later in (False, True):
                    for row in rows:
                        if row.status == "queued" and (is_later or not self._has_running(row)):
                            self._try(engine, row, now_ms, late)

    def _has_running(self, row: Row) -> bool:
        return any(
            one.status == "running" and one.schedule_id == row.schedule_id
            for one in self.book.rows.values()
        )

    def _try(self, engine: Engine, row: Row, now_ms: int, late: _NextLate) -> None:
        schedule = self.book.schedules[row.schedule_id]
        if not self.has_place(engine, schedule, row.cause):
            return
        if (row.cause not in LATE or late.has(row)) and self._may_start(schedule, row):
            self.start(engine, row, now_ms)

    def find_next_late(self, engine: Engine, stuck: set[_LateKey], now_ms: int) -> list[Row]:
        """The late rows that get the next places: by priority, then the shortest backlog first.

        At most one of each schedule and scope. The newest, unless they run in sequence.
        """
        rows = [
            row
            for row in self.waiting(now_ms)
            if row.cause in LATE and not self._is_full(row) and _late_key(row) not in stuck
        ]
        counts = Counter(row.schedule_id for row in rows)
        heads: dict[tuple[int, Scope], Row] = {}
        for row in sorted(rows, key=self._turn):
            heads.setdefault((row.schedule_id, row.scope), row)

        def place(row: Row) -> tuple[int, float, int, int]:
            schedule = self.book.schedules[row.schedule_id]
            runs = schedule.counts.get("run", 0)
            backlog = counts[schedule.id] * (1.0 * schedule.took_ms / runs if runs else 1e15)
            return -row.priority, backlog, -row.due_ms, row.id

        return sorted(heads.values(), key=place)[: self.free_late(engine)]

    def _turn(self, row: Row) -> tuple[int, int, int]:
        is_in_sequence = self.book.schedules[row.schedule_id].wish.catch_up == "all"
        is_oldest_first = is_in_sequence or row.cause == "backfill"
        return -row.priority, row.plan_ms if is_oldest_first else -row.plan_ms, row.id

    def _is_full(self, row: Row) -> bool:
        """Whether as many run of its schedule and scope as may."""
        limit = self.book.schedules[row.schedule_id].wish.limit
        active = self.book.active(row.schedule_id, row.scope)
        return limit is not None and sum(one.status == "running" for one in active) >= limit

    def _may_start(self, schedule: Schedule, row: Row) -> bool:
        """Whether a row may run beside what goes on of its schedule and scope.

        What waits for its next attempt goes on, and keeps its place.
        """
        others = [one for one in self.book.active(schedule.id, row.scope) if one is not row]
        running = [one for one in others if one.status == "running"]
        retrying = [one for one in others if one.status == "queued" and one.cause == "retry"]
        begun = [*running, *(self.book.first(one) for one in others if one.cause == "retry")]
        if row.cause == "catch_up" and any(one.cause == "catch_up" for one in begun):
            return False
        if row.is_backfill and any(one.is_backfill for one in running + retrying):
            return False
        taken = len(running) + sum(not one.is_backfill for one in retrying)
        limit = schedule.wish.limit
        return limit is None or taken < limit

    def start(self, engine: Engine, row: Row, now_ms: int) -> None:
        wish = self.book.schedules[row.schedule_id].wishes[row.revision]
        row.status, row.started_ms, row.engine = "running", now_ms, engine.key
        self.bodies[row.id] = Body(
            row=row, supervisor=engine.supervisors[0],
            ends_ms=now_ms + wish.lasts_s * 1000, exit_code=wish.code,
        )  # fmt: skip


def _late_key(row: Row) -> _LateKey:
    """If one late row can't start, none of the same schedule, scope and cause can."""
    return row.schedule_id, row.scope, row.cause


class _NextLate:
    """The late rows that are next while an engine fills its places: all others wait."""

    def __init__(self, places: Places, engine: Engine, now_ms: int) -> None:
        self._places = places
        self._engine = engine
        self._now_ms = now_ms
        self._stuck: set[_LateKey] = set()
        self._next: list[Row] | None = None  # chosen when the first late row is looked at

    def has(self, row: Row) -> bool:
        if self._next is None:
            self._next = self._find()
        return row in self._next

    def goes_on(self) -> bool:
        """Whether places are left because some that were next could not start: others are then."""
        if not self._next or self._places.free_late(self._engine) <= 0:
            return False
        self._stuck |= {_late_key(row) for row in self._next if row.status == "queued"}
        self._next = self._find()
        return bool(self._next)

    def _find(self) -> list[Row]:
        return self._places.find_next_late(self._engine, self._stuck, self._now_ms)
