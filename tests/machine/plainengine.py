"""A pass of an engine, in plain words: ends, the clock, what is due."""

from __future__ import annotations

from dataclasses import replace

from tests.machine.plainbook import Book
from tests.machine.plainplaces import Engine, Places
from tests.machine.plainrows import LATE, Body, Row, Schedule, Scope
from tests.machine.plaintimes import Due, Fire, Span, Verdict, decide

_NOTICED_MS = 1000  # by more than so much a clock was set; less is kept for slewing


class Engines:
    """Every engine, alive or dead, and the bodies under their supervisors."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.alive: dict[str, Engine] = {}
        self.bodies: dict[int, Body] = {}  # by row, until the end is written
        self.places = Places(book, self.bodies)
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
        self._look_at_clock(engine, now_ms)
        has_decided = False
        while due := self._due(now_ms):
            has_decided = True
            self._fire(engine, due, now_ms)
        if has_decided or not has_filled:
            self.places.fill(engine, now_ms)
        self._end_unwanted(engine, now_ms)

    # A clock that was set back.

    def _look_at_clock(self, engine: Engine, now_ms: int) -> None:
        set_ms = self.clock_was_set.get(engine.key, 0) if engine.has_looked else 0
        if set_ms < -_NOTICED_MS:
            engine.must_repeat, engine.back_ms = True, -set_ms
        engine.has_looked = True
        self.clock_was_set[engine.key] = 0
        if not engine.must_repeat:
            return
        for row in self.book.rows.values():
            self._bring_back(row, now_ms)
        for schedule in self.book.schedules.values():
            written_ms = schedule.changed_ms
            if schedule.repeats_ms is not None:
                written_ms = schedule.repeats_ms
            is_ahead = max(schedule.fired_ms or 0, written_ms) > now_ms + _NOTICED_MS
            if is_ahead and schedule.decided_ms > now_ms and schedule.paused_ms is None:
                self._repeat(schedule, now_ms, engine.back_ms)
        engine.must_repeat, engine.back_ms = False, None

    def _bring_back(self, row: Row, now_ms: int) -> None:
        """What was queued by a clock that was ahead waits from now on."""
        if row.status != "queued":
            return
        assert row.queued_ms is not None
        wish = self.book.schedules[row.schedule_id].wishes[row.revision]
        most_ms = 1100 * wish.max_delay_s if row.cause == "retry" else 0
        if row.queued_ms > now_ms or row.due_ms > now_ms + most_ms:
            row.due_ms = now_ms + min(max(0, row.due_ms - row.queued_ms), most_ms)
            row.queued_ms = now_ms

    def _repeat(self, schedule: Schedule, now_ms: int, back_ms: int | None) -> None:
        """Have a schedule that follows elapsed time go on, though its times are decided."""
        wish = schedule.wish
        if schedule.next_ms is None or not wish.elapsed:
            return
        if schedule.next_ms[0] != schedule.next_ms[1]:
            return  # A person has moved it.
        fired_ms = now_ms
        if back_ms is not None:
            last_ms = schedule.decided_ms
            last_ms = last_ms if schedule.fired_ms is None else min(last_ms, schedule.fired_ms)
            fired_ms = min(now_ms, last_ms - back_ms)
        plan_ms = wish.next_repeated(max(now_ms, (wish.from_ms or 0) - 1), fired_ms=fired_ms)
        until_ms = schedule.decided_ms
        if wish.until_ms is not None:
            until_ms = min(until_ms, wish.until_ms)
        if plan_ms is not None and plan_ms <= until_ms:
            schedule.next_ms = plan_ms, plan_ms
        schedule.repeats_ms = now_ms
        if schedule.fired_ms is not None:
            schedule.fired_ms = min(schedule.fired_ms, fired_ms)

    def _end_unwanted(self, engine: Engine, now_ms: int) -> None:
        for row in self.places.running(engine):
            if row.cancel_ms is not None:
                self.bodies[row.id].end(now_ms)

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
        self.places.fill(engine, now_ms)
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
            took_ms = max(0, body.ends_ms - row.started_ms)
            self.book.schedules[row.schedule_id].took_ms += took_ms
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
                paused_ms=one.paused_ms, planned=one.planned, repeats_ms=one.repeats_ms,
            )  # fmt: skip
            verdict = decide(looked, now_ms)
            verdicts.append((one, verdict))
            one.next_ms, one.planned, one.paused_ms = verdict.next_ms, verdict.planned, None
            one.decided_ms = max(one.decided_ms, verdict.decided_ms)
            if verdict.fires:
                one.fired_ms = now_ms
            if verdict.next_ms is not None and verdict.next_ms[0] > one.decided_ms:
                one.repeats_ms = None
        wanted = [
            fire for one, verdict in verdicts for fire in verdict.fires for _ in one.wish.scopes
        ]
        late = sum(fire.cause in LATE for fire in wanted)
        # Where there are places for all of it, and nobody waits, it starts in order of time.
        is_direct = (
            len(wanted) <= self.places.free(engine)
            and late <= self.places.free_late(engine)
            and not self.places.waiting(now_ms)
        )
        withdrawn: list[Row] = []
        for one, verdict in verdicts:
            first = verdict.fires[0] if verdict.fires else None
            spans = list(verdict.missed)
            # Overlap skips what an engine was too slow for with the fire after it.
            is_next = first is not None and not first.in_sequence
            slow = spans.pop() if is_next and spans and spans[-1].reason == "misfire" else None
            will_run = False
            for scope in one.wish.scopes:
                for span in spans:
                    self.book.record_missed(one, scope, span, now_ms)
                for fire in verdict.fires:
                    before = slow if fire is first else None
                    replaced = self._write(engine, one, scope, fire, is_direct, now_ms, before)
                    will_run |= replaced is not None
                    withdrawn += replaced or ()
            if verdict.fires and not will_run:
                self.book.give_back(one, len(verdict.fires), now_ms)
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
    ) -> list[Row] | None:
        taken = self.book.take_over(schedule, scope, fire, now_ms)
        if self.book.joins(schedule, scope, fire):
            fire = replace(fire, cause="catch_up", in_sequence=True, has_joined=True)
        if taken is not None:
            if slow is not None:
                self.book.record_missed(schedule, scope, slow, now_ms)
                slow = None
            self.book.give_back_taken(taken[0], now_ms)
        others = [
            row
            for row in self.book.active(schedule.id, scope)
            if not row.is_backfill or row.status == "running"
        ]
        limit = 1 if fire.in_sequence else schedule.wish.limit
        is_free = limit is None or len(others) < limit
        has_place = is_direct and is_free and self.places.has_place(engine, schedule, fire.cause)
        before = set(self.book.rows)
        covers = None if taken is None else taken[1]
        withdrawn = self.book.write_queued(schedule, scope, fire, now_ms, slow=slow, covers=covers)
        made = [one for id_, one in self.book.rows.items() if id_ not in before]
        row = made[-1] if made else None
        if has_place and row is not None and row.status == "queued":
            self.places.start(engine, row, now_ms)
        return withdrawn
