"""What must hold of the jobs' own log, beside the rows."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.chaos.history import Body, History, Life, Row
from tests.chaos.rows import short

_NOTICED_MS = 10_000  # a fault that has healed may be noticed so late
_RECORDED_MS = 5_000  # an end is on record so soon after it, where nothing is wrong
_KILLED_MS = 2_000  # between a job's last word and its end by a signal


def body_words(body: Body) -> str:
    ended = "no end" if body.code is None else f"ended {body.ended_ms} with {body.code}"
    return (
        f"run {body.run} of {body.schedule} attempt {body.attempt} pid {body.pid} by {body.by}"
        f" began {body.began_ms}, {ended}"
    )


def started_once(history: History) -> Iterator[str]:
    """I3: an attempt's body starts at most once."""
    counts = Counter(body.run for body in history.bodies)
    for run, count in counts.items():
        if count > 1:
            yield "; ".join(body_words(body) for body in history.bodies if body.run == run)


def one_body_of_a_fire(history: History) -> Iterator[str]:
    """I4: where nothing is to be tried again, a fire has at most one body."""
    rows = {row["id"]: row for row in history.rows}
    lives = {life.schedule_id: life for life in history.lives}
    fires: dict[str, list[Body]] = defaultdict(list)
    for body in history.bodies:
        fires[body.key].append(body)
    for bodies in fires.values():
        row = rows.get(bodies[0].run)
        if len(bodies) > 1 and row is not None:
            era = lives[row["schedule_id"]].era_at(row["revision"])
            if era.retries == 0 and era.on_interrupt == "leave":
                yield "; ".join(map(body_words, bodies))
            elif len({body.attempt for body in bodies}) != len(bodies):
                yield f"one attempt twice: {'; '.join(map(body_words, bodies))}"


def effects_have_rows(history: History) -> Iterator[str]:
    """I5: what was done is on record, as what it was done for."""
    rows = {row["id"]: row for row in history.rows}
    pruned = {life.name: life.pruned_until_ms for life in history.lives}
    for body in history.bodies:
        row = rows.get(body.run)
        if row is None:
            until_ms = pruned.get(body.schedule)
            if until_ms is None or body.plan_ms > until_ms:
                yield f"no row: {body_words(body)}"
            continue
        wanted = (body.schedule, *body.scope, body.plan_ms, body.attempt, body.cause)
        found = tuple(
            row[name] for name in ("name", "scope_kind", "scope_id", "plan_at", "attempt", "cause")
        )
        if wanted != found:
            yield f"another row: {body_words(body)}: {short(row)}"


def rows_agree(history: History) -> Iterator[str]:
    """I6: a row says what its job says."""
    bodies = {body.run: body for body in history.bodies}
    for row in history.rows:
        if row["status"] not in ("queued", "running"):
            found = _disagreement(row, bodies.get(row["id"]), history)
            if found is not None:
                body = bodies.get(row["id"])
                words = "no body" if body is None else body_words(body)
                yield f"{found}: {short(row)}: {words}"


def _disagreement(row: Row, body: Body | None, history: History) -> str | None:
    match row["status"], row["reason"]:
        case "success", _:
            if body is None or body.code != row["exit_code"] or body.code != 0:
                return "a success that the job does not know of"
        case "failed", "exit":
            if body is None or body.code != row["exit_code"]:
                return "an exit that the job does not know of"
        case "failed", "spawn":
            if body is not None:
                return "not started, and yet it began"
            if not _is_near(row, history):
                return "not started, and nothing was wrong"
        case "failed", "signal":
            if body is not None and body.code is not None and not _was_hit(body, history):
                return "ended by a signal, and the job says otherwise"
            if not _is_near(row, history):
                return "ended by a signal, and nothing was wrong"
        case "failed", "timeout":
            if body is not None and body.code is not None and not _is_near(row, history):
                return "ended as too long, and the job ended by itself"
        case "failed", _:
            if not _is_near(row, history):
                return "failed otherwise, and nothing was wrong"
        case "skipped", _:
            if body is not None:
                return "left out, and yet it began"
        case "interrupted", _:
            end_ms = _end_of_supervisor(row, history)
            if end_ms is None:
                return "interrupted, and its supervisor was not ended"
            if (
                body is not None
                and body.ended_ms is not None
                and not _is_lost(body, end_ms, history)
            ):
                return "interrupted, and its end should be on record"
        case "cancelled", "request" if row["cancel_requested_at"] is None and row["claimed_at"]:
            return "ended on request, and nobody asked"
        case "cancelled", _:
            if row["started_at"] is None and body is not None:
                return "withdrawn, and yet it began"
    return None


def _is_near(row: Row, history: History) -> bool:
    since_ms = row["claimed_at"] or row["queued_at"] or row["due_at"]
    return any(
        trouble.began_ms <= row["finished_at"] and since_ms <= trouble.healed_ms + _NOTICED_MS
        for trouble in history.troubles
    )


def _end_of_supervisor(row: Row, history: History) -> int | None:
    """When the supervisor of a run was ended by a fault."""
    for trouble in history.troubles:
        if row["supervisor_id"] in trouble.ended and trouble.began_ms <= row["finished_at"]:
            return trouble.began_ms
    return None


def _is_lost(body: Body, end_ms: int, history: History) -> bool:
    """Whether its supervisor can't have put its end on record, before it was ended itself."""
    assert body.ended_ms is not None
    return body.ended_ms + _RECORDED_MS > end_ms or any(
        trouble.began_ms <= body.ended_ms + _RECORDED_MS and body.ended_ms <= trouble.healed_ms
        for trouble in history.troubles
    )


def _was_hit(body: Body, history: History) -> bool:
    assert body.ended_ms is not None
    return any(
        body.ended_ms - _KILLED_MS <= trouble.healed_ms
        and trouble.began_ms <= body.ended_ms + _KILLED_MS
        for trouble in history.troubles
        if trouble.kind in ("kill_job", "term_job", "stop_job")
    )


def is_lone(life: Life) -> bool:
    """Whether no two runs of it may ever be active, whatever its policies were."""
    return all(era.overlap != "allow" and era.max_running in (None, 1) for era in life.eras)


def no_overlap(history: History) -> Iterator[str]:
    """I7: no two bodies at once where they must not overlap, as far as both gave signs of life."""
    lone = {life.name for life in history.lives if is_lone(life)}
    by_scope: dict[Any, list[Body]] = defaultdict(list)
    for body in history.bodies:
        if body.schedule in lone:
            by_scope[body.schedule, body.scope].append(body)
    for bodies in by_scope.values():
        bodies.sort(key=lambda body: body.began_mono_ms)
        latest = bodies[0]
        for earlier, later in itertools.pairwise(bodies):
            latest = max(latest, earlier, key=lambda body: body.seen_mono_ms)
            if later.began_mono_ms < latest.seen_mono_ms:
                over_ms = latest.seen_mono_ms - later.began_mono_ms
                yield f"{over_ms} ms at once: {body_words(latest)}; {body_words(later)}"
