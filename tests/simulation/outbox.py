"""Judge the outbox of a world, from its rows, from what was received, and by who came first.

O1: each end of a run has exactly one notice. O2: the failure of a schedule and its recovery have
their notices in turn. O3: no notice is lost: each is sent in the end. O4: a notice belongs to one
message, whose id and content stay, however often it is sent. O5: each missed, late, slow and silent
run is told, and told once until a run of its schedule is well again. O6: the pings of a schedule
arrive in order, and the newest one arrives; only older ones can be left out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from edgecron.client import Client
from edgecron.client.notice_channels import Message
from edgecron.model.notices import Notice, NoticeEvent
from tests.simulation.world import World

# Rules: of each run, of failures, of the others, and a monitor.
EACH, OPS, TIMES, PINGS = "each", "ops", "times", "pings"
LATE_MS, SLOW_MS, STALL_MS = 20_000, 8_000, 5_000
JUDGED = (NoticeEvent.MISSED, NoticeEvent.LATE, NoticeEvent.SLOW, NoticeEvent.STALLED)


class Row(NamedTuple):
    """A run as the database has it."""

    id: int
    schedule: str
    status: str
    reason: str | None
    cause: str
    plan_ms: int
    due_ms: int
    claimed_ms: int | None
    started_ms: int | None
    finished_ms: int | None
    took_ms: int | None
    flags: tuple[str, ...]

    @property
    def has_ended(self) -> bool:
        return self.status not in ("queued", "running")

    def is_well(self, event: NoticeEvent) -> bool:
        """Whether this run ends the trouble of its schedule."""
        if self.status not in ("success", "failed", "interrupted") or self.started_ms is None:
            return False
        match event:
            case NoticeEvent.LATE:
                return (self.started_ms or self.due_ms) - self.due_ms < LATE_MS
            case NoticeEvent.SLOW:
                return (self.took_ms or 0) < SLOW_MS
            case NoticeEvent.STALLED:
                return "stalled" not in self.flags
        return True


def read_rows(world: World) -> dict[int, Row]:
    """All runs by number."""
    found = world.look(
        """SELECT e.id, s.name, e.status, e.reason, e.cause, e.plan_at, e.due_at, e.claimed_at,
               e.started_at, e.finished_at, e.duration_ms, e.flags
           FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id ORDER BY e.id"""
    )
    return {row[0]: Row._make((*row[:-1], tuple(json.loads(row[-1] or "[]")))) for row in found}


class Diary:
    """What was seen after each move, by the number of the move."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._move = 0
        self.looks: list[tuple[int, int]] = []  # of the process that sends: move, and its time
        self.seen: dict[int, int] = {}  # runs
        self.ended: dict[int, int] = {}
        self.claims: defaultdict[int, set[int | None]] = defaultdict(set)  # times of each run
        # Runs that were not claimed in time: one that was can be queued again, and then be late.
        self.unclaimed: dict[int, int] = {}
        self.told: dict[int, int] = {}  # notices

    def note(self, *, is_look: bool = False) -> None:
        """Note what is new. `is_look`: the move was one of the process that sends."""
        self._move += 1
        if is_look:
            self.looks.append((self._move, self._world.clock.now_ms()))
            for (notice_id,) in self._world.look("SELECT id FROM notices"):
                self.told.setdefault(notice_id, self._move)
            return
        for row in read_rows(self._world).values():
            self.seen.setdefault(row.id, self._move)
            self.claims[row.id].add(row.claimed_ms)
            if row.claimed_ms is not None and row.claimed_ms - row.due_ms < LATE_MS:
                self.unclaimed.pop(row.id, None)
            else:
                self.unclaimed.setdefault(row.id, self._move)
            if row.has_ended:
                self.ended.setdefault(row.id, self._move)

    def next_look(self, move: int, *, at_ms: int = 0) -> int | None:
        """The first look after a move that is not before an instant; None if none came."""
        later = (one for one, now_ms in self.looks if one > move and now_ms >= at_ms)
        return next(later, None)

    def last_look(self, move: int) -> int:
        """The last look before a move."""
        return max((one for one, _ in self.looks if one < move), default=0)


def check_outbox(world: World, diary: Diary, received: list[Message]) -> None:
    """Raise AssertionError, naming the invariant, if one does not hold."""
    with Client(world.path, clock=world.clock) as client:
        notices = client.notices(limit=100_000)[::-1]
    rows = read_rows(world)
    _check_ends(rows, notices)
    _check_turns(notices)
    told = [one for one in notices if one.rule != PINGS]
    assert {one.status for one in told} == {"sent"}, "O3"
    _check_messages(told, [one for one in received if not one.schedule])
    pings = [one for one in notices if one.rule == PINGS]
    _check_pings(pings, [one for one in received if one.schedule])
    for event in JUDGED:
        told = [one for one in notices if one.rule == TIMES and one.event is event]
        for schedule in {row.schedule for row in rows.values()}:
            runs = {id_: row for id_, row in rows.items() if row.schedule == schedule}
            _check_trouble(diary, runs, [one for one in told if one.schedule == schedule], event)


def _check_ends(rows: dict[int, Row], notices: list[Notice]) -> None:
    told = Counter(one.execution_id or 0 for one in notices if one.rule == EACH)
    ended = Counter(row.id for row in rows.values() if row.status != "skipped")
    assert told == ended, f"O1 {told - ended} {ended - told}"


def _check_turns(notices: list[Notice]) -> None:
    turns: defaultdict[str | None, list[NoticeEvent]] = defaultdict(list)
    for one in notices:
        if one.rule == OPS and one.event in (NoticeEvent.FAILED, NoticeEvent.RECOVERED):
            turns[one.schedule].append(one.event)
    for name, events in turns.items():
        expected = [NoticeEvent.FAILED, NoticeEvent.RECOVERED] * len(events)
        assert events == expected[: len(events)], f"O2 {name} {events}"


def _check_messages(notices: list[Notice], received: list[Message]) -> None:
    contents: dict[str, Any] = {}
    for message in received:
        found: Any = message.body["notices"]
        ids = [one["id"] for one in found]
        assert contents.setdefault(message.id, ids) == ids, f"O4 {message.id}"
    carried = Counter(notice_id for ids in contents.values() for notice_id in ids)
    assert carried == Counter(one.id for one in notices), "O3 O4"


def _check_pings(notices: list[Notice], received: list[Message]) -> None:
    arrived: defaultdict[str | None, list[str | None]] = defaultdict(list)
    for message in received:
        arrived[message.schedule].append(message.id)
    places = {one.message: place for place, one in enumerate(notices)}
    for name, ids in arrived.items():
        # A message that is not on record was sent under the name of an earlier try.
        assert places.keys() >= set(ids), f"O4 {name} {ids}"
        assert ids == sorted(ids, key=lambda one: places[one]), f"O6 {name} {ids}"
    newest = {one.schedule: one for one in notices}
    assert {one.status for one in newest.values()} == {"sent"}, "O6"


def _check_trouble(
    diary: Diary, runs: dict[int, Row], told: list[Notice], event: NoticeEvent
) -> None:
    well = [diary.ended[row.id] for row in runs.values() if row.is_well(event)]

    def was_well(after: int, before: int) -> bool:
        return any(after < move < before for move in well)

    for one in told:
        row = runs[one.execution_id or 0]
        assert _is_true(diary, row, one), f"O5 {event} is untrue of {row}: {one}"
    for earlier, later in pairwise(told):
        since = diary.last_look(diary.told[earlier.id])
        assert was_well(since, diary.told[later.id]), f"O5 {event} twice: {earlier} {later}"
    for row, move, look in _troubles(diary, runs, event):
        assert any(
            diary.told[one.id] <= look and not was_well(diary.told[one.id], move) for one in told
        ), f"O5 {event} of {row} is not told"


def _is_true(diary: Diary, row: Row, notice: Notice) -> bool:
    match notice.event:
        case NoticeEvent.LATE:
            return notice.at_ms == row.due_ms + LATE_MS
        case NoticeEvent.SLOW:
            return notice.at_ms - SLOW_MS in diary.claims[row.id]
        case NoticeEvent.STALLED:
            claims_ms = [at_ms for at_ms in diary.claims[row.id] if at_ms is not None]
            return notice.at_ms - min(claims_ms) >= STALL_MS
    return row.status == "skipped" and row.reason == "misfire"


def _troubles(
    diary: Diary, runs: dict[int, Row], event: NoticeEvent
) -> Iterator[tuple[Row, int, int]]:
    """Runs that must be told: with the move that made it so, and the look that tells it."""
    for row in runs.values():
        move, at_ms = diary.ended[row.id], 0
        match event:
            case NoticeEvent.MISSED:
                caught = (
                    one.cause == "catch_up" and one.plan_ms > row.plan_ms for one in runs.values()
                )
                if row.status != "skipped" or row.reason != "misfire" or any(caught):
                    continue
            case NoticeEvent.STALLED:
                if "stalled" not in row.flags:
                    continue
            case NoticeEvent.LATE:
                if row.claimed_ms is None or row.claimed_ms - row.due_ms < LATE_MS:
                    continue
                move, at_ms = diary.unclaimed[row.id], row.due_ms + LATE_MS
            case NoticeEvent.SLOW:
                if row.claimed_ms is None or row.finished_ms is None:
                    continue
                if row.finished_ms - row.claimed_ms < SLOW_MS:
                    continue
                move, at_ms = diary.seen[row.id], row.claimed_ms + SLOW_MS
        look = diary.next_look(move, at_ms=at_ms)
        assert look is not None, f"O5 nobody looked at {row}"
        # A limit is judged at the look, after all that ended before it.
        yield row, look if at_ms else move, look
