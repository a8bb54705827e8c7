"""A pass of an engine, in plain words: ends, free places, what is due."""

from __future__ import annotations

from dataclasses import dataclass, field

from machine.plainbook import LATE, Body, Book, Row, Schedule, Scope
from machine.plaintimes import Due, Fire, Span, Verdict, decide

_NOTICED_MS = 1000  # by more than so much a clock was set; less is kept for slewing


@dataclass(kw_only=True)
class Engine:
    key: str
    max_running: int
    # The supervisors that answer to it, its own first.
    supervisors: list[str] = field(default_factory=list)
    has_looked: bool = False  # at the clock, so that ends make room at once


class Engines:
    """Every engine, alive or dead, and the bodies under their supervisors."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.alive: dict[str, Engine] = {}
        self.bodies: dict[int, Body] = {}  # by row, until the end is written
        self.registered: list[str] = []  # in the order of their first passes
        self.clock_was_set: dict[str, int] = {}  # by how much, since that engine looked at it

    def start(self, key: str, *, max_running: int) -> None:
        self.alive[key] = Engine(key=key, max_running=max_running, supervisors=[key])

    # What happens to processes.

    def kill(self, key: str) -> None:
        """Its supervisors go on with what runs."""
        del self.alive[key]

    def kill_with_supervisors(self, key: str, now_ms: int) -> None:
        """What runs under them ends with them, and nobody knows how."""
        for body in self.bodies.values():
            if body.supervisor in self.alive[key].supervisors:
                self._cut_short(body, now_ms)
        self.kill(key)

    def reboot(self, now_ms: int) -> None:
        self.alive.clear()
        for body in self.bodies.values():
            self._cut_short(body, now_ms)
            body.fate = None if body.fate is None else "reboot"

    def _cut_short(self, body: Body, now_ms: int) -> None:
        if not body.has_ended(now_ms):
            body.is_over, body.fate = True, "lost"

    def set_clock(self, now_ms: int, *, by_ms: int) -> None:
        """What has ended stays ended, whatever the clock says."""
        for body in self.bodies.values():
            body.is_over = body.has_ended(now_ms)
        for key in self.alive:
            self.clock_was_set[key] = self.clock_was_set.get(key, 0) + by_ms

    # A pass.

    def step(self, key: str, now_ms: int) -> None:
        engine = self.alive[key]
        if key not in self.registered:
            self.registered.append(key)
        has_filled = self._end(engine, now_ms)
        if self._take_over(engine, now_ms):
            has_filled |= self._end(engine, now_ms)
        self._end_unwanted(engine, now_ms)
        engine.has_looked = True
        self.clock_was_set[key] = 0
        has_decided = False
        while due := self._due(now_ms):
            has_decided = True
            self._fire(engine, due, now_ms)
        if has_decided or not has_filled:
            self._fill(engine, now_ms)
        self._end_unwanted(engine, now_ms)

    def _end_unwanted(self, engine: Engine, now_ms: int) -> None:
        for row in self._running(engine):
            if row.cancel_ms is not None:
                self.bodies[row.id].end(now_ms)

    def _running(self, engine: Engine) -> list[Row]:
        return [
            row
            for row in self.book.rows.values()
            if row.status == "running" and row.engine == engine.key
        ]

    # Ends.

    def _end(self, engine: Engine, now_ms: int) -> bool:
        """Write the ends that came in; whether their places were given away at once."""
        ended = [
            body
            for supervisor in engine.supervisors
            for body in self._bodies_of(supervisor, is_own=supervisor == engine.key)
            if body.has_ended(now_ms)
        ]
        for body in ended:
            self._write_end(body, now_ms)
        engine.supervisors[1:] = [
            one for one in engine.supervisors[1:] if self._bodies_of(one, is_own=False)
        ]
        was_set = abs(self.clock_was_set.get(engine.key, 0)) > _NOTICED_MS
        if not ended or not engine.has_looked or was_set:
            return False
        self._fill(engine, now_ms)
        return True

    def _bodies_of(self, supervisor: str, *, is_own: bool) -> list[Body]:
        """In the order of their starts; of one that was adopted, in that of the rows."""
        found = [body for body in self.bodies.values() if body.supervisor == supervisor]
        return found if is_own else sorted(found, key=lambda body: body.row.id)

    def _write_end(self, body: Body, now_ms: int) -> None:
        row = body.row
        del self.bodies[row.id]
        assert row.started_ms is not None
        if body.fate is not None:
            row.status, row.finished_ms = "interrupted", max(now_ms, row.started_ms)
            row.reason = body.fate
        else:
            row.finished_ms = max(body.ends_ms, row.started_ms)
            row.exit_code = body.exit_code
            if body.was_asked:
                row.status, row.reason = "cancelled", "replaced" if row.is_replaced else "request"
            else:
                row.status = "success" if body.exit_code == 0 else "failed"
                row.reason = None if body.exit_code == 0 else "exit"
        row.is_replaced = False
        schedule = self.book.schedules[row.schedule_id]
        schedule.last_row, schedule.last_status = row.id, row.status
        schedule.count(row.status)
        schedule.count("run")
        self.book.follow(row, now_ms)

    def _take_over(self, engine: Engine, now_ms: int) -> bool:
        """What dead engines left: adopted where its supervisor lives, else judged."""
        orphans = {
            (row.engine or "", self.bodies[row.id].supervisor): None
            for row in self.book.rows.values()
            if row.status == "running" and row.engine not in self.alive
        }
        has_adopted = False
        for _, supervisor in sorted(orphans, key=lambda pair: self._order(*pair)):
            mine = self._bodies_of(supervisor, is_own=False)
            if any(body.fate is None and not body.has_ended(now_ms) for body in mine):
                engine.supervisors.append(supervisor)
                has_adopted = True
                for body in mine:
                    body.row.engine = engine.key
            else:
                for body in mine:
                    self._write_end(body, now_ms)
        return has_adopted

    def _order(self, key: str, supervisor: str) -> tuple[int, int]:
        ids = [body.row.id for body in self.bodies.values() if body.supervisor == supervisor]
        return self.registered.index(key), min(ids)

    # What is due.

    def _due(self, now_ms: int) -> list[Schedule]:
        found = [
            one
            for one in self.book.schedules.values()
            if one.next_ms is not None and one.next_ms[1] <= now_ms
        ]
        return sorted(found, key=lambda one: (one.next_ms or (0, 0))[1])

    def _fire(self, engine: Engine, due: list[Schedule], now_ms: int) -> None:
        """Decide what is due, all of it before any of it is written."""
        verdicts: list[tuple[Schedule, Verdict]] = []
        for one in due:
            assert one.next_ms is not None
            plan_ms, due_ms = one.next_ms
            looked = Due(
                wish=one.wish, plan_ms=plan_ms, due_ms=due_ms, decided_ms=one.decided_ms,
                paused_ms=one.paused_ms, planned=one.planned,
            )  # fmt: skip
            verdict = decide(looked, now_ms)
            verdicts.append((one, verdict))
            one.next_ms, one.planned, one.paused_ms = verdict.next_ms, verdict.planned, None
            one.decided_ms = max(one.decided_ms, verdict.decided_ms)
        wanted = [
            fire for one, verdict in verdicts for fire in verdict.fires for _ in one.wish.scopes
        ]
        late = sum(fire.cause in LATE for fire in wanted)
        # Where there are places for all of it, and nobody waits, it starts in order of time.
        is_direct = (
            len(wanted) <= self._places(engine)
            and late <= self._late_places(engine)
            and not self._waiting(now_ms)
        )
        withdrawn: list[Row] = []
        for one, verdict in verdicts:
            first = verdict.fires[0] if verdict.fires else None
            spans = list(verdict.missed)
            # Overlap skips what an engine was too slow for with the fire after it.
            is_next = first is not None and not first.in_sequence
            slow = spans.pop() if is_next and spans and spans[-1].reason == "misfire" else None
            for scope in one.wish.scopes:
                for span in spans:
                    self.book.record_missed(one, scope, span, now_ms)
                for fire in verdict.fires:
                    before = slow if fire is first else None
                    withdrawn += self._write(engine, one, scope, fire, is_direct, now_ms, before)
        for row in withdrawn:
            self.book.end_fire(row, now_ms)

    def _write(
        self,
        engine: Engine,
        schedule: Schedule,
        scope: Scope,
        fire: Fire,
        is_direct: bool,
        now_ms: int,
        slow: Span | None,
    ) -> list[Row]:
        others = [
            row
            for row in self.book.active(schedule.id, scope)
            if not row.is_backfill or row.status == "running"
        ]
        limit = 1 if fire.in_sequence else schedule.wish.limit
        is_free = limit is None or len(others) < limit
        has_place = is_direct and is_free and self._has_place(engine, schedule, fire.cause)
        before = set(self.book.rows)
        withdrawn = self.book.write_queued(schedule, scope, fire, now_ms, slow=slow)
        made = [one for id_, one in self.book.rows.items() if id_ not in before]
        row = made[-1] if made else None
        if has_place and row is not None and row.status == "queued":
            self._start(engine, row, now_ms)
        return withdrawn

    # Places.

    def _places(self, engine: Engine) -> int:
        return engine.max_running - len(self._running(engine))

    def _late_places(self, engine: Engine) -> int:
        late = sum(row.cause in LATE for row in self._running(engine))
        return min(self._places(engine), max(1, engine.max_running // 4) - late)

    def _has_place(self, engine: Engine, schedule: Schedule, cause: str) -> bool:
        places = self._late_places(engine) if cause in LATE else self._places(engine)
        return places > 0 and not self._is_group_full(schedule.wish.group)

    def _is_group_full(self, group: str | None) -> bool:
        most = None if group is None else self.book.groups.get(group)
        running = sum(
            row.status == "running" and self.book.schedules[row.schedule_id].wish.group == group
            for row in self.book.rows.values()
        )
        return most is not None and running >= most

    def _waiting(self, now_ms: int) -> list[Row]:
        """What is queued and due and not held, in the order in which it gets places."""
        found = []
        for row in self.book.rows.values():
            schedule = self.book.schedules[row.schedule_id]
            is_held = row.cause != "manual" and (schedule.is_removed or schedule.is_held(now_ms))
            if row.status == "queued" and row.due_ms <= now_ms and not is_held:
                found.append(row)
        return sorted(found, key=lambda row: (-row.priority, row.due_ms, row.id))

    def _fill(self, engine: Engine, now_ms: int) -> None:
        waiting = self._waiting(now_ms)
        for priority in sorted({row.priority for row in waiting}, reverse=True):
            rows = [row for row in waiting if row.priority == priority]
            # A schedule that runs nothing goes before one that runs something.
            for is_later in (False, True):
                for row in rows:
                    if row.status == "queued" and (is_later or not self._has_running(row)):
                        self._try(engine, row, now_ms)

    def _has_running(self, row: Row) -> bool:
        return any(
            one.status == "running" and one.schedule_id == row.schedule_id
            for one in self.book.rows.values()
        )

    def _try(self, engine: Engine, row: Row, now_ms: int) -> None:
        schedule = self.book.schedules[row.schedule_id]
        if self._has_place(engine, schedule, row.cause) and self._may_start(schedule, row):
            self._start(engine, row, now_ms)

    def _may_start(self, schedule: Schedule, row: Row) -> bool:
        """Whether a row may run beside what goes on of its schedule and scope.

        What waits for its next attempt goes on, and keeps its place.
        """
        others = [one for one in self.book.active(schedule.id, row.scope) if one is not row]
        running = [one for one in others if one.status == "running"]
        retrying = [one for one in others if one.status == "queued" and one.cause == "retry"]
        begun = [*running, *(self._first(one) for one in others if one.cause == "retry")]
        if row.cause == "catch_up" and any(one.cause == "catch_up" for one in begun):
            return False
        if row.is_backfill and any(one.is_backfill for one in running + retrying):
            return False
        taken = len(running) + sum(not one.is_backfill for one in retrying)
        limit = schedule.wish.limit
        return limit is None or taken < limit

    def _first(self, row: Row) -> Row:
        """The first attempt of a planned fire; the row itself where it is none."""
        for one in self.book.rows.values():
            if (
                (one.schedule_id, one.scope, one.plan_ms, one.key)
                == (row.schedule_id, row.scope, row.plan_ms, row.key)
                and one.attempt == 1
                and one.key == ""
            ):
                return one
        return row

    def _start(self, engine: Engine, row: Row, now_ms: int) -> None:
        wish = self.book.schedules[row.schedule_id].wishes[row.revision]
        row.status, row.started_ms, row.engine = "running", now_ms, engine.key
        self.bodies[row.id] = Body(
            row=row, supervisor=engine.supervisors[0],
            ends_ms=now_ms + wish.lasts_s * 1000, exit_code=wish.code,
        )  # fmt: skip
