"""What must hold of retries, chains, intervals, bounds and edits, by the account of the people.

Read with `invariants`, whose numbers are used; nothing here shares code with edgecron.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from tests.simulation.counted import check_counts
from tests.simulation.invariants import check_bodies, check_rows, fire_of, read_all
from tests.simulation.people import Life, People, attempts_of

Row = dict[str, Any]
_ENDS = {"success": ("success", "any"), "failed": ("failure", "any"),
         "interrupted": ("failure", "any"), "cancelled": ("any",)}  # fmt: skip
_LARGEST_STEP_MS = 20_000  # of the clock, in these worlds


def check_account(people: People, *, settled_ms: int) -> Counter[str]:
    """Raise AssertionError, naming the invariant, where one does not hold.

    All schedules are removed; from `settled_ms` on nothing failed any more.
    """
    world = people.world
    rows = read_all(world)
    check_rows(rows)
    check_bodies(rows, world.bodies)
    check_counts(world, rows)
    _check_turns(people)
    by_life: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_life[row["schedule_id"]].append(row)
    for body in world.bodies:
        if people.lives[body.schedule_id].is_lone:
            assert body.beside == (), f"I7 {body}"
    for life in people.lives.values():
        mine = by_life[life.schedule_id]
        check_attempts(life, mine, settled_ms=settled_ms)
        check_coverage(people.anchor_ms, life, mine)
        check_after(people.anchor_ms, life, mine, rows)
        check_intervals(life, mine)
    return Counter(row["status"] for row in rows)


def _check_turns(people: People) -> None:
    """A fire goes on until its last attempt: no other of a lone schedule begins before that."""
    turns: dict[Any, list[Any]] = defaultdict(list)
    for body in people.world.bodies:
        if people.lives[body.schedule_id].is_lone:
            fire = body.plan_ms, body.fire_key
            mine = turns[body.schedule_id, body.scope]
            if not mine or mine[-1] != fire:
                assert fire not in mine, f"I7 another fire began between the attempts of {body}"
                mine.append(fire)


def check_attempts(life: Life, rows: list[Row], *, settled_ms: int) -> None:
    """I9, I12: attempts follow each other, as often as the schedule said, and where they must."""
    fires: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        fires[fire_of(row)].append(row)
    for attempts in fires.values():
        attempts.sort(key=lambda row: row["attempt"])
        numbers = [row["attempt"] for row in attempts]
        assert numbers == list(range(1, len(attempts) + 1)), f"I9 {attempts}"
        if attempts[0]["status"] == "skipped":
            assert len(attempts) == 1, f"I12 {attempts}"
            continue
        retries, retries_interrupted = attempts_of(life.spec_at(attempts[0]["revision"]))
        assert len({row["revision"] for row in attempts}) == 1, f"a revision changed {attempts}"
        failures = interruptions = 0
        for row in attempts:
            is_last = row is attempts[-1]
            failures += row["status"] == "failed"
            interruptions += row["status"] == "interrupted"
            may_go_on = (row["status"] == "failed" and failures <= retries) or (
                row["status"] == "interrupted" and retries_interrupted
            )
            assert is_last or may_go_on, f"I12 tried again without cause {attempts}"
            # One interruption costs no retry; of more of them the last attempt may be the end.
            # What was to be ended is not tried again, however it ended.
            is_unwanted = row["cancel_requested_at"] is not None
            assert is_last or not is_unwanted, f"I12 tried again what was cancelled {attempts}"
            may_go_on = may_go_on and not is_unwanted
            must_go_on = may_go_on and interruptions <= 1 and _ended_in_life(life, row, settled_ms)
            assert not is_last or not must_go_on, f"I12 not tried again {attempts}"
        assert len(attempts) <= 1 + retries + retries_interrupted, f"I12 {attempts}"


def _ended_in_life(life: Life, row: Row, settled_ms: int) -> bool:
    """Whether the schedule was there when the end was written, which may be much later."""
    assert life.removed_ms is not None
    return life.removed_ms > settled_ms >= row["finished_at"]


def check_coverage(anchor_ms: int, life: Life, rows: list[Row]) -> None:
    """I15: each plan time up to the end of a life has one row, or lies in one range."""
    expected = life.plans(anchor_ms)
    follows_end = any("after end" in text for text in life.spec.triggers)
    # What a clock that was set back repeats counts among max_runs, and covers nothing. A fire that
    # overlap skipped in some of its scopes ran in the others.
    ran = {
        (row["plan_at"], row["fire_key"])
        for row in rows
        if row["status"] != "skipped" and row["fire_key"].partition(":")[0] in ("", "again")
    }
    most = life.spec.max_runs
    assert most is None or len(ran) <= most, f"{life.spec.name}: {len(ran)} fires, at most {most}"
    for scope in life.spec.scopes:
        covered: Counter[int] = Counter()
        for row in rows:
            if (row["scope_kind"], row["scope_id"]) != scope or row["attempt"] > 1:
                continue
            if row["fire_key"] not in ("", "missed"):
                continue
            if row["missed_count"] is None:
                covered[row["plan_at"]] += 1
            elif not is_of_events(life):
                span = {at for at in expected if row["missed_from_at"] <= at <= row["missed_to_at"]}
                assert len(span) == row["missed_count"], f"I15 count of {row}: {len(span)}"
                covered.update(span)
        twice = [at for at, count in covered.items() if count > 1]
        assert not twice, f"I15 {life.spec.name} {scope} decided twice: {sorted(twice)[:5]}"
        if follows_end:
            continue
        extra = set(covered) - expected
        assert not extra, f"I15 {life.spec.name} {scope} was never due: {sorted(extra)[:5]}"
        expected_here = expected
        if len(ran) == most:
            expected_here = {at for at in expected if at <= max(covered, default=0)}
        lost = expected_here - set(covered)
        assert not lost, f"I15 {life.spec.name} {scope} lost: {sorted(lost)[:5]}"


def is_of_events(life: Life) -> bool:
    return any(text.startswith("after ") or "after end" in text for text in life.spec.triggers)


def check_after(anchor_ms: int, life: Life, mine: list[Row], rows: list[Row]) -> None:
    """One fire, in each scope, for each end that is followed: no more, and no less."""
    upstreams = dict(_upstream(text) for text in life.spec.triggers if text.startswith("after "))
    if not upstreams:
        return
    by_id = {row["id"]: row for row in rows}
    last: dict[Any, Row] = {}
    for row in rows:
        if fire_of(row) not in last or last[fire_of(row)]["attempt"] < row["attempt"]:
            last[fire_of(row)] = row
    followed: Counter[int] = Counter()
    for row in mine:
        if not row["fire_key"].startswith("after:") or row["attempt"] > 1:
            continue
        upstream = by_id[int(row["fire_key"].removeprefix("after:"))]
        ends = upstreams[upstream["name"]]
        assert last[fire_of(upstream)] is upstream, f"followed before its last attempt: {row}"
        assert ends in _ends_of(upstream), f"follows no such end: {row} {upstream}"
        assert row["plan_at"] == upstream["plan_at"], f"not the upstream's plan time: {row}"
        followed[upstream["id"]] += 1
    if life.was_held or life.spec.max_runs is not None or life.made_ms != anchor_ms:
        return
    for upstream in last.values():
        follows = upstreams.get(upstream["name"])
        if follows is None or follows not in _ends_of(upstream):
            continue
        if upstream["reason"] == "removed":
            continue  # Its follower may have been removed before it.
        scope = (upstream["scope_kind"], upstream["scope_id"])
        wanted = 1 if scope in life.spec.scopes else len(life.spec.scopes)
        assert followed[upstream["id"]] == wanted, f"not followed: {upstream} by {life.spec.name}"


def _ends_of(row: Row) -> tuple[str, ...]:
    """What an end is to those that follow: of an attempt that never came, the failure before."""
    if row["status"] == "cancelled" and row["attempt"] > 1 and row["started_at"] is None:
        return _ENDS["failed"]
    return _ENDS.get(row["status"], ())


def _upstream(text: str) -> tuple[str, str]:
    name, _, ends = text.removeprefix("after ").partition(":")
    return name, ends or "success"


def check_intervals(life: Life, rows: list[Row]) -> None:
    """A time after the end is that long after an end, or after somebody changed the schedule."""
    intervals = [t for t in life.spec.triggers if t.endswith("after end")]
    if not intervals or periods_apart(life):
        return
    interval_ms = int(intervals[0].split()[1][:-1]) * 1000
    ends = {row["finished_at"] for row in rows if row["finished_at"] is not None}
    origins = ends | set(life.touched_ms)
    for row in rows:
        if row["fire_key"] == "":
            origin_ms = row["plan_at"] - interval_ms
            # An end on record by a clock that was set back since is taken for one of now.
            is_near = any(abs(origin_ms - ms) <= _LARGEST_STEP_MS for ms in origins)
            assert is_near, f"after no end: {row}"


def periods_apart(life: Life) -> bool:
    """Whether it has times of the calendar as well."""
    return any(era.periods_s for era in life.wanted)


def check_next_times(
    people: People, seen: dict[tuple[int, int], int], now: list[tuple[Any, ...]]
) -> None:
    """I11: within a revision a next time never moves back, but to an interval after an end."""
    for schedule_id, revision, next_plan_ms in now:
        life = people.lives[schedule_id]
        if is_of_events(life) or next_plan_ms is None:
            continue
        before = seen.get((schedule_id, revision))
        assert before is None or next_plan_ms >= before, f"I11 {life.spec.name}"
        seen[schedule_id, revision] = next_plan_ms


def check_unchanged(before: list[Row], now: list[Row], *, newest: set[int] | None = None) -> None:
    """I8, I10: what has ended stays as it is, and is there unless retention has removed it; but the
    newest skip may grow.

    `newest` are the ids that may, where `before` is not all that there was.
    """
    by_id = {row["id"]: row for row in now}
    if newest is None:
        newest = set(
            {
                (row["schedule_id"], row["scope_kind"], row["scope_id"]): row["id"]
                for row in before
            }.values()
        )
    for row in before:
        after = by_id.get(row["id"])
        assert after is not None, f"I10 {row}"
        if row["status"] in ("queued", "running") or _same(row, after):
            continue
        grown = row | {name: after[name] for name in ("missed_to_at", "missed_count")}
        may_grow = row["status"] == "skipped" and row["id"] in newest
        assert may_grow, f"I8 {row} {after}"
        assert _same(grown, after), f"I8 {row} {after}"


def _same(row: Row, after: Row) -> bool:
    return all(row[name] == value for name, value in after.items())


_KEYED = len("manual:") + 32  # letters of the fire key of a run that somebody gave a key


def check_enqueued(
    acknowledged: Sequence[tuple[str | None, int, tuple[int, ...]]],
    rows: Mapping[int, Row],
    *,
    gone: Set[int],
    sizes: Set[int],
) -> None:
    """I23: acknowledged runs by hand have rows, a key has one fire, and a group is whole.

    Retention may have removed those that are `gone`, and their keys with them.
    """
    of_key: dict[tuple[int, str], tuple[int, ...]] = {}
    for key, count, ids in acknowledged:
        lost = [id_ for id_ in ids if id_ not in rows]
        assert not lost, f"I23 acknowledged runs are lost: {lost}"
        is_whole = len(set(ids)) == len(ids) >= count and len(ids) % count == 0
        assert is_whole, f"I23 {count} fires became the runs {ids}"
        if key is not None and gone.isdisjoint(ids):
            first = of_key.setdefault((rows[ids[0]]["schedule_id"], key), ids)
            assert first == ids, f"I23 key {key} gave {first}, then {ids}"
    by_hand = [row for row in rows.values() if row["cause"] == "manual"]
    keyed = Counter(
        (row["schedule_id"], row["scope_kind"], row["scope_id"], row["fire_key"])
        for row in by_hand
        if len(row["fire_key"]) == _KEYED and row["id"] not in gone
    )
    twice = [fire for fire, count in keyed.items() if count > 1]
    assert not twice, f"I23 a key was run twice: {twice}"
    groups = Counter(
        (row["fire_key"].partition(".")[0], row["scope_kind"], row["scope_id"])
        for row in by_hand
        if len(row["fire_key"]) != _KEYED
    )
    torn = {group: count for group, count in groups.items() if count not in {1, *sizes}}
    assert not torn, f"I23 parts of groups of {sizes} are there: {torn}"


def check_added(names: Set[str], lives: Iterable[Life]) -> None:
    """I23: a schedule that a program has added is there once, until somebody removes it."""
    there = Counter(life.spec.name for life in lives if life.is_there)
    wrong = {name: there[name] for name in names if there[name] != 1}
    assert not wrong, f"I23 added schedules are lost or twice: {wrong}"
