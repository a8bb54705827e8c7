"""How rows come to be: a model without a database.

Every row has the id that the database is to give it: what is decided first comes first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from tests.machine.plainrows import Row, Schedule, Scope
from tests.machine.plaintimes import Fire, Follows, Span, missed_since, next_after_pause

SKIPPING = ("skip", "queue")  # the overlaps that can skip a live fire
MOST_ACTIVE_CATCH_UPS = 100  # of a schedule and scope, for a live fire to join them
FAILURE, ANY = ("failure", "any"), ("any",)
ENDS = {"success": ("success", "any"), "failed": FAILURE, "interrupted": FAILURE,
        "cancelled": ANY, "skipped": ANY}  # fmt: skip


class Book:
    """All that there is: schedules, rows, groups."""

    def __init__(self, seed: bytes) -> None:
        self.seed = seed
        self.schedules: dict[int, Schedule] = {}
        self.rows: dict[int, Row] = {}
        self.groups: dict[str, int | None] = {}
        self.made_rows = 0
        # Why a time was missed is not told here, only what follows: others share no row with it.
        self.find_missed_by: Callable[[int, Scope, int], str | None] = lambda *_: None

    def find(self, name: str) -> Schedule | None:
        found = [s for s in self.schedules.values() if s.name == name and not s.is_removed]
        return found[0] if found else None

    def active(self, schedule_id: int, scope: Scope) -> list[Row]:
        return [
            row
            for row in self.rows.values()
            if row.is_active and (row.schedule_id, row.scope) == (schedule_id, scope)
        ]

    # Rows.

    def has(self, schedule: Schedule, scope: Scope, plan_ms: int, key: str) -> bool:
        """Whether a fire is decided already."""
        wanted = (schedule.id, scope, plan_ms, key)
        return any(
            (row.schedule_id, row.scope, row.plan_ms, row.key) == wanted
            for row in self.rows.values()
        )

    def insert(
        self, schedule: Schedule, scope: Scope, fire: Fire, *, now_ms: int, **more: object
    ) -> Row | None:
        """A new row, or None where the fire has one."""
        if self.has(schedule, scope, fire.plan_ms, fire.key):
            return None
        self.made_rows += 1
        wish = schedule.wish
        columns = {
            "id": self.made_rows,
            "schedule_id": schedule.id,
            "revision": schedule.revision,
            "scope": scope,
            "plan_ms": fire.plan_ms,
            "key": fire.key,
            "cause": fire.cause,
            "source": fire.source,
            "due_ms": fire.due_ms,
            "most_attempts": wish.most_attempts,
            "priority": wish.priority,
            "status": "queued",
            "queued_ms": now_ms,
        }
        row = Row(**(columns | more))  # type: ignore[arg-type]
        if fire.cause == "catch_up" and row.status == "queued" and not fire.has_joined:
            missed_by = self.find_missed_by(schedule.id, scope, fire.plan_ms)
            row.flags.append(f"missed:{missed_by}")
        self.rows[row.id] = row
        return row

    def insert_retry(self, row: Row, due_ms: int, now_ms: int) -> None:
        self.made_rows += 1
        self.rows[self.made_rows] = Row(
            id=self.made_rows, schedule_id=row.schedule_id, revision=row.revision,
            scope=row.scope, plan_ms=row.plan_ms, key=row.key, cause="retry", source=row.source,
            due_ms=due_ms, most_attempts=row.most_attempts, priority=row.priority,
            status="queued", queued_ms=now_ms, attempt=row.attempt + 1,
        )  # fmt: skip

    def skip(self, schedule: Schedule, scope: Scope, fire: Fire, span: Span, now_ms: int) -> bool:
        """A range that does not run: the newest row of the scope grows by it, or a new one."""
        mine = [r for r in self.rows.values() if (r.schedule_id, r.scope) == (schedule.id, scope)]
        newest = mine[-1] if mine else None
        missed_by = None
        if span.reason == "misfire":
            missed_by = self.find_missed_by(schedule.id, scope, span.from_ms)
        may_grow = (
            newest is not None
            and fire.key in ("", "missed")
            and newest.missed is not None
            and (newest.reason, newest.key, newest.cause) == (span.reason, fire.key, fire.cause)
            and newest.missed_by == missed_by
            and newest.missed[1] < span.from_ms
        )
        if may_grow:
            assert newest is not None
            assert newest.missed is not None
            from_ms, _, count = newest.missed
            newest.missed = (from_ms, span.to_ms, count + span.count)
        else:
            made = self.insert(
                schedule, scope, fire, now_ms=now_ms, status="skipped", reason=span.reason,
                queued_ms=None, finished_ms=now_ms,
                missed=(span.from_ms, span.to_ms, span.count), missed_by=missed_by,
            )  # fmt: skip
            if made is None:
                return False
        schedule.count("skipped", span.count)
        return True

    def record_missed(self, schedule: Schedule, scope: Scope, span: Span, now_ms: int) -> bool:
        """A range of plan times that were missed; False where it is on record."""
        if self.skip(schedule, scope, _missed(span.from_ms), span, now_ms):
            return True
        known = any(
            (row.schedule_id, row.scope, row.plan_ms, row.key)
            == (schedule.id, scope, span.from_ms, "missed")
            and row.missed is not None
            and row.missed[1] >= span.to_ms
            for row in self.rows.values()
        )
        # After a step back a range may begin as another one: it is named by its end then.
        return not known and self.skip(schedule, scope, _missed(span.to_ms), span, now_ms)

    # Overlap.

    def admit(self, schedule: Schedule, scope: Scope, fire: Fire) -> str:
        """Whether a new fire is taken in (run or wait), left out, or replaces another."""
        if fire.in_sequence:
            return "take"
        wish = schedule.wish
        others = [row for row in self.active(schedule.id, scope) if not row.is_backfill]
        if wish.limit is None or len(others) < wish.limit or wish.overlap == "allow":
            return "take"
        if wish.overlap == "replace":
            return "replace"
        waits = any(row.status == "queued" and row.cause != "retry" for row in others)
        return "take" if wish.overlap == "queue" and not waits else "skip"

    def replace(self, schedule: Schedule, row: Row, now_ms: int) -> list[Row]:
        """Make room for a new fire; what is withdrawn for it before it ran."""
        wish = schedule.wish
        active = [r for r in self.active(schedule.id, row.scope) if not r.is_backfill]
        excess = len(active) - (wish.limit or 1)
        others = [one for one in active if one is not row]
        if wish.catch_up == "all":
            late = [r for r in self.active(schedule.id, row.scope) if r.cause == "catch_up"]
            others = [one for one in others if one.cause != "catch_up"]
            excess -= len(late)
        others.sort(key=lambda one: (one.status != "queued", one.id))
        withdrawn = []
        for one in others[: max(0, excess)]:
            if one.status == "queued":
                one.status, one.reason, one.finished_ms = "cancelled", "replaced", now_ms
                schedule.count("cancelled")
                withdrawn.append(one)
            else:
                one.is_replaced = True
                one.cancel_ms = now_ms if one.cancel_ms is None else one.cancel_ms
        turns = [one.due_ms for one in withdrawn if one.cause != "retry"]
        row.due_ms = min([row.due_ms, *turns])
        return withdrawn

    def write_queued(
        self,
        schedule: Schedule,
        scope: Scope,
        fire: Fire,
        now_ms: int,
        *,
        slow: Span | None = None,
        covers: str | None = None,
    ) -> list[Row] | None:
        """One fire in one scope, that is to wait its turn; what it withdrew, None if overlap
        skips it. `covers`: the missed range that it took over, for its flags."""
        admission = self.admit(schedule, scope, fire)
        if admission == "skip":
            at_ms = fire.plan_ms
            if slow is not None and fire.cause == "catch_up":
                # One row if an engine was running all the time, else one for each reason.
                if self.find_missed_by(schedule.id, scope, slow.from_ms) is None:
                    fire = replace(fire, cause="schedule")
                else:
                    self.record_missed(schedule, scope, slow, now_ms)
                    slow = None
            span = Span(from_ms=at_ms, to_ms=at_ms, count=1, reason="overlap")
            if slow is not None:
                span.from_ms, span.count = slow.from_ms, 1 + slow.count
                if not fire.key:
                    fire = replace(fire, plan_ms=slow.from_ms)
            self.skip(schedule, scope, fire, span, now_ms)
            return None
        if slow is not None:
            self.record_missed(schedule, scope, slow, now_ms)
        flags = [] if covers is None else [covers]
        row = self.insert(schedule, scope, fire, now_ms=now_ms, flags=flags)
        if row is None or admission == "take":
            return []
        return self.replace(schedule, row, now_ms)

    # A live fire that meets what is caught up.

    def take_over(
        self, schedule: Schedule, scope: Scope, fire: Fire, now_ms: int
    ) -> tuple[Row, str] | None:
        """Skip the waiting catch-up for a live fire, if nothing else is active; that row and the
        flag of the run that covers it."""
        wish = schedule.wish
        active = self.active(schedule.id, scope)
        others = [row for row in active if row.status == "running" or not row.is_backfill]
        is_live = fire.cause == "schedule" and not fire.in_sequence and fire.key == ""
        may_be_skipped = wish.catch_up == "once" and wish.overlap in SKIPPING
        if not is_live or not may_be_skipped or len(others) != 1:
            return None
        [late] = others
        is_waiting = late.status == "queued" and late.cause == "catch_up"
        is_later = late.plan_ms < fire.plan_ms and not self.has(schedule, scope, fire.plan_ms, "")
        if not is_waiting or not is_later:
            return None
        late.status, late.reason, late.finished_ms = "skipped", "misfire", now_ms
        late.missed = (late.plan_ms, late.plan_ms, 1)
        late.missed_by = late.flags[0].removeprefix("missed:")
        schedule.count("skipped")
        earlier = [
            row
            for row in self.rows.values()
            if (row.schedule_id, row.scope) == (schedule.id, scope) and row.id < late.id
        ]
        from_ms, count = late.plan_ms, 1
        if earlier and earlier[-1].key == "missed" and earlier[-1].missed is not None:
            before = earlier[-1].missed
            if before[1] < late.plan_ms:
                from_ms, count = before[0], 1 + before[2]
        return late, f"covers:{count}:{from_ms}"

    def joins(self, schedule: Schedule, scope: Scope, fire: Fire) -> bool:
        """Whether a live fire that overlap would skip runs behind the times of catch_up=all."""
        wish = schedule.wish
        is_live = fire.cause == "schedule" and not fire.in_sequence
        if not is_live or wish.catch_up != "all" or wish.overlap not in SKIPPING:
            return False
        active = self.active(schedule.id, scope)
        if len([row for row in active if not row.is_backfill]) < (wish.limit or 1):
            return False
        late = sum(row.cause == "catch_up" for row in active)
        retried = [self.first(row) for row in active if row.cause == "retry"]
        is_catching_up = late > 0 or any(row.cause == "catch_up" for row in retried)
        return late < MOST_ACTIVE_CATCH_UPS and is_catching_up

    def first(self, row: Row) -> Row:
        """The first attempt of a planned fire; the row itself where it is none."""
        for one in self.rows.values():
            if (
                (one.schedule_id, one.scope, one.plan_ms, one.key)
                == (row.schedule_id, row.scope, row.plan_ms, row.key)
                and one.attempt == 1
                and one.key == ""
            ):
                return one
        return row

    # What max_runs bounds.

    def give_back(self, schedule: Schedule, count: int, now_ms: int) -> None:
        """Fires that max_runs counted did not run; a schedule that was done goes on after now."""
        wish = schedule.wish
        if wish.max_runs is None:
            return
        was_done = schedule.next_ms is None and wish.is_spent(schedule.planned)
        schedule.planned -= count
        if not was_done or not schedule.enabled or schedule.is_removed:
            return
        passed = missed_since(
            wish, schedule.decided_ms, now_ms, reason="overlap", planned=schedule.planned
        )
        for scope in wish.scopes if passed is not None else ():
            assert passed is not None
            self.record_missed(schedule, scope, passed, now_ms)
        following = next_after_pause(
            wish,
            now_ms + 1 if schedule.paused_ms is None else schedule.paused_ms,
            decided_ms=max(now_ms, schedule.decided_ms),
            planned=schedule.planned,
        )
        if following is not None:
            schedule.next_ms = following
            schedule.decided_ms = max(schedule.decided_ms, now_ms)

    def give_back_taken(self, row: Row, now_ms: int) -> None:
        """What a skipped catch-up was counted for, unless another scope of its fire runs."""
        schedule = self.schedules[row.schedule_id]
        runs = any(
            (one.schedule_id, one.plan_ms, one.key) == (row.schedule_id, row.plan_ms, row.key)
            and one.scope in schedule.wish.scopes
            and one.status != "skipped"
            for one in self.rows.values()
        )
        if not runs:
            self.give_back(schedule, 1, now_ms)

    # What follows an end.

    def follow(self, row: Row, now_ms: int) -> None:
        """The next attempt, or the schedules that come after this one."""
        schedule = self.schedules[row.schedule_id]
        due_ms = None if schedule.is_removed else self._retry_due(schedule, row, now_ms)
        if due_ms is not None:
            self.insert_retry(row, due_ms, now_ms)
        else:
            self.end_fire(row, now_ms)

    def _retry_due(self, schedule: Schedule, row: Row, now_ms: int) -> int | None:
        assert row.finished_ms is not None
        wish, finished_ms = schedule.wishes[row.revision], min(row.finished_ms, now_ms)
        if row.attempt >= row.most_attempts or row.cancel_ms is not None:
            return None
        if row.status == "interrupted":
            return finished_ms if wish.on_interrupt == "retry" else None
        earlier = [
            one
            for one in self.rows.values()
            if (one.schedule_id, one.scope, one.plan_ms, one.key)
            == (row.schedule_id, row.scope, row.plan_ms, row.key)
            and one.attempt < row.attempt
        ]
        failures = row.attempt - sum(one.status == "interrupted" for one in earlier)
        if row.status != "failed" or failures > wish.retries:
            return None
        delay_s = min(wish.max_delay_s / 1.1, wish.delay_s * wish.factor ** (failures - 1))
        identity = f"{schedule.name}\0{row.plan_ms}\0{row.key}\0{row.attempt}".encode()
        digest = hashlib.blake2b(identity, key=self.seed, digest_size=8).digest()
        share = int.from_bytes(digest, "big") / 2**64
        return finished_ms + round(delay_s * 1000 * (1 + 0.1 * share))

    def end_fire(self, row: Row, now_ms: int) -> None:
        """Fire the schedules that come after the one whose fire has ended with this row."""
        ends = ENDS[row.status]
        if row.status == "cancelled" and row.attempt > 1 and row.started_ms is None:
            ends = FAILURE  # Of a retry that never came: the failure before it.
        name = self.schedules[row.schedule_id].name
        for follower in list(self.schedules.values()):
            for trigger in follower.wish.triggers:
                if (
                    isinstance(trigger, Follows)
                    and trigger.upstream == name
                    and trigger.ends in ends
                    and not follower.is_removed
                ):
                    self._start(follower, trigger, row, now_ms)

    def _start(self, follower: Schedule, trigger: Follows, row: Row, now_ms: int) -> None:
        wish = follower.wish
        is_early = wish.from_ms is not None and wish.from_ms > now_ms
        is_over = wish.until_ms is not None and wish.until_ms < now_ms
        if is_early or is_over or wish.is_spent(follower.planned):
            return
        scopes = (row.scope,) if row.scope in wish.scopes else wish.scopes
        fire = Fire(
            plan_ms=row.plan_ms, due_ms=now_ms, cause="after", key=f"after:{row.id}",
            source=trigger.text,
        )  # fmt: skip
        withdrawn: list[Row] = []
        if follower.is_held(now_ms):
            at_ms = row.plan_ms
            held = Span(from_ms=at_ms, to_ms=at_ms, count=1, reason="paused")
            for scope in scopes:
                if not self.record_missed(follower, scope, held, now_ms):
                    self.skip(follower, scope, fire, held, now_ms)
            return
        will_run = False
        for scope in scopes:
            replaced = self.write_queued(follower, scope, fire, now_ms)
            will_run |= replaced is not None
            withdrawn += replaced or ()
        follower.planned += will_run
        if will_run and wish.is_spent(follower.planned):
            follower.next_ms = None
        for one in withdrawn:
            self.end_fire(one, now_ms)


def _missed(at_ms: int) -> Fire:
    return Fire(plan_ms=at_ms, due_ms=at_ms, cause="schedule", key="missed")
