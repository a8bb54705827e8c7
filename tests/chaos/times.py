"""What must hold of times: nothing is lost, early, or late without a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.chaos.bodies import body_words
from tests.chaos.crowd import PATIENT, PULSES
from tests.chaos.history import History, Life, Row, Trouble
from tests.chaos.rows import short
from tests.chaos.surroundings import remarks

RECOVERY_S = 30  # within it after the last fault has healed, service is full again
# An engine that has nothing to do looks once in 30 to 60 s whether its database is in its place.
UNSEEN_S = 75
LATE_S = 15  # more is late, and needs a cause
# So long whoever removes a schedule may wait for another's lock, and has read the clock before.
REMOVAL_S = 30


def next_times_rise(history: History) -> Iterator[str]:
    """I11: within one revision a next time never moves back."""
    for step in history.steps_back:
        back_ms = step.before_ms - step.after_ms
        yield f"{step.name} revision {step.revision}: {step.before_ms}, then {back_ms} ms before"


def every_time_is_covered(history: History) -> Iterator[str]:
    """I15: every due time, in every scope, has exactly one row, or lies in the range of one."""
    rows: dict[tuple[int, str, str], list[Row]] = {}
    # What was removed is judged with the others; I10 says whether it may be gone.
    gone = (change.before for change in history.changes if change.after is None)
    for row in (*history.rows, *gone):
        if row["attempt"] == 1 and row["fire_key"] in ("", "missed"):
            key = row["schedule_id"], row["scope_kind"], row["scope_id"]
            rows.setdefault(key, []).append(row)
    for life in history.lives:
        # What only follows events has no times of its own.
        if all(era.period_ms is not None for era in life.eras):
            for scope in life.scopes:
                own = rows.get((life.schedule_id, *scope), [])
                for words in _uncovered(life, own, gone_ms=_gone_ms(life, history)):
                    yield f"{life.name} {scope[1]}: {words}"


def _gone_ms(life: Life, history: History) -> int:
    """When a schedule was gone for sure: whoever removed it was told so by then."""
    removed_ms = life.removed_ms or 0
    said = (one for one in history.promises if (one.kind, one.name) == ("rm", life.name))
    told = [one.at_ms for one in said if one.at_ms >= removed_ms]
    return min(told, default=removed_ms + 1000 * REMOVAL_S)


def _noted_ms(row: Row) -> int:
    """When it was first put down, by the clock before that."""
    if (row["status"], row["reason"]) == ("cancelled", "removed"):
        return 0  # It was there for the removal to find, or for who queued it again.
    return int(row["queued_at"] or row["finished_at"] or 0)


def _uncovered(life: Life, rows: list[Row], *, gone_ms: int) -> Iterator[str]:
    if life.removed_ms is None:
        yield "was not removed at the end"
        return
    expected = life.plans(after_ms=life.made_ms, until_ms=life.removed_ms)
    until_ms = life.removed_ms + 1000 * REMOVAL_S
    may_be = life.plans(after_ms=life.removed_ms, until_ms=until_ms)
    covered: Counter[int] = Counter()
    for row in rows:
        if row["missed_count"] is None:
            covered[row["plan_at"]] += 1
            continue
        span = {at for at in expected if row["missed_from_at"] <= at <= row["missed_to_at"]}
        if len(span) != row["missed_count"]:
            yield f"{len(span)} times in the range of {short(row)}"
        covered.update(span)
    kept_ms = life.pruned_until_ms or 0
    twice = sorted(at for at, count in covered.items() if count > 1)
    lost = sorted(at for at in expected - set(covered) if at > kept_ms)
    extra = sorted(set(covered) - expected - may_be)
    if twice:
        yield f"decided twice: {twice[:5]}"
    if lost:
        yield f"{len(lost)} times lost: {lost[:5]}"
    if extra:
        yield f"never due: {extra[:5]}"
    for row in rows:
        if _noted_ms(row) > gone_ms:
            yield f"put down after its removal, which was told of at {gone_ms}: {short(row)}"


def recovery_ms(trouble: Trouble) -> int:
    """How long after it has healed service is full again, at most."""
    return 1000 * (UNSEEN_S if trouble.kind == "replaced_unseen" else RECOVERY_S)


def full_service_again(history: History) -> Iterator[str]:
    """I16: within a bound after all has healed, what is due begins in time."""
    starts = sorted(body.began_ms for body in history.bodies if body.schedule == PULSES[0])
    for healed_ms, bound_ms in calms(history):
        if not any(healed_ms <= at <= bound_ms for at in starts):
            yield f"all had healed at {healed_ms}, and nothing began before {bound_ms}"
        for row in history.rows:
            if _goes_on_through(row, healed_ms, bound_ms):
                yield f"all had healed at {healed_ms}, and it goes on at {bound_ms}: {short(row)}"
    yield from remarks(history, "I16")


def _goes_on_through(row: Row, since_ms: int, until_ms: int) -> bool:
    """Whether a run waited or ran all the time, which is longer than any job or line takes."""
    return (
        row["name"] not in PATIENT
        and row["due_at"] <= since_ms
        and (row["finished_at"] is None or row["finished_at"] >= until_ms)
    )


def calms(history: History) -> list[tuple[int, int]]:
    """When all had healed and stayed so for long enough, and until when service must be full."""
    found = []
    healed_ms, bound_ms = history.began_ms, history.began_ms
    for trouble in sorted(history.troubles, key=lambda one: one.began_ms):
        if healed_ms < bound_ms < trouble.began_ms:
            found.append((healed_ms, bound_ms))
        healed_ms = max(trouble.healed_ms, healed_ms)
        bound_ms = max(trouble.healed_ms + recovery_ms(trouble), bound_ms)
    if healed_ms < bound_ms < history.healed_ms:
        found.append((healed_ms, bound_ms))  # the calm with which the storm ended
    if history.healed_ms > healed_ms:
        bound_ms += history.healed_ms - healed_ms
        healed_ms = history.healed_ms
    if healed_ms < bound_ms < history.removed_ms:
        found.append((healed_ms, bound_ms))
    return found


def never_early(history: History) -> Iterator[str]:
    """I17: nothing begins before it is due."""
    rows = {row["id"]: row for row in history.rows}
    for body in history.bodies:
        row = rows.get(body.run)
        if row is not None and body.began_ms < max(row["due_at"], row["plan_at"]):
            yield f"{body_words(body)}: {short(row)}"


def late_only_near_a_fault(history: History) -> Iterator[str]:
    """I18: what waits for nobody begins in time, but near a fault."""
    began = {body.run: body.began_ms for body in history.bodies}
    for row in _pulses(history):
        began_ms = began.get(row["id"], row["finished_at"])
        has_run = row["id"] in began
        if has_run and began_ms - row["due_at"] <= LATE_S * 1000:
            continue
        if not has_run and row["status"] == "skipped" and row["reason"] == "overlap":
            continue
        if not _is_excused(row["due_at"], history.troubles):
            how = f"{(began_ms - row['due_at']) / 1000:.1f} s late" if has_run else "not run"
            yield f"{how}, and nothing was wrong: {short(row)}"


def count_judged(history: History) -> int:
    """The pulses that no fault would excuse had they been late."""
    return sum(not _is_excused(row["due_at"], history.troubles) for row in _pulses(history))


def _pulses(history: History) -> Iterator[Row]:
    for row in history.rows:
        is_fire = row["fire_key"] == "" and row["attempt"] == 1
        # The last ones were removed with their schedules.
        is_before_end = row["plan_at"] <= history.removed_ms - LATE_S * 1000
        if row["name"] in PULSES and is_fire and is_before_end:
            yield row


def _is_excused(due_ms: int, troubles: tuple[Trouble, ...]) -> bool:
    """Whether something was wrong before it was late. What came later is no excuse."""
    late_ms = due_ms + LATE_S * 1000
    return any(
        trouble.began_ms <= late_ms and due_ms <= trouble.healed_ms + recovery_ms(trouble)
        for trouble in troubles
    )
