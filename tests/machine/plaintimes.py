"""What a schedule says, and what becomes of its times, in the plainest words: sets of instants.

Shares no code with edgecron. Every plan time between two instants is written out, then looked at;
the engine's own arithmetic never does that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

DAY_MS = 86_400_000
MINUTE_MS = 60_000
TOGETHER_MS = 1_000  # two due times that lie this close came due together
MOST_AT_ONCE = 100
FAR_MS = 4 * DAY_MS  # further ahead no time is looked for: the longest period is an hour


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Times a period apart, through an instant."""

    text: str
    period_ms: int
    through_ms: int

    def within(self, after_ms: int, until_ms: int) -> set[int]:
        first = self.through_ms + ((after_ms - self.through_ms) // self.period_ms + 1) * (
            self.period_ms
        )
        return set(range(first, until_ms + 1, self.period_ms))

    def repeats_from(self, fired_ms: int) -> int:
        """The first instant that it can fire at again, if the clock was set back after a fire."""
        if self.text.startswith("every "):
            return fired_ms + self.period_ms - min(self.period_ms // 10, 1000)
        return fired_ms + min(self.period_ms // 2, MINUTE_MS)


@dataclass(frozen=True, kw_only=True)
class Once:
    """One time."""

    text: str
    at_ms: int

    def within(self, after_ms: int, until_ms: int) -> set[int]:
        return {self.at_ms} if after_ms < self.at_ms <= until_ms else set()


@dataclass(frozen=True, kw_only=True)
class Follows:
    """The ends of another schedule: no times of its own."""

    text: str
    upstream: str
    ends: str

    def within(self, after_ms: int, until_ms: int) -> set[int]:
        return set()


Trigger = Grid | Once | Follows


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a person says of a schedule. The job lasts so long, and ends with this code."""

    triggers: tuple[Trigger, ...]
    lasts_s: int = 5
    code: int = 0
    from_ms: int | None = None
    until_ms: int | None = None
    max_runs: int | None = None
    catch_up: str = "once"
    max_late_s: int | None = None
    overlap: str = "skip"
    max_running: int | None = None
    retries: int = 0
    delay_s: int = 10
    factor: int = 2
    max_delay_s: int = 3600
    on_interrupt: str = "leave"
    priority: int = 0
    group: str | None = None
    scopes: tuple[tuple[str, str], ...] = (("global", ""),)
    repeats_until_ms: int | None = None  # up to there only times that follow elapsed time

    def plans(self, after_ms: int, until_ms: int) -> list[int]:
        """Every plan time in (after, until], within from and until."""
        if self.from_ms is not None:
            after_ms = max(after_ms, self.from_ms - 1)
        if self.until_ms is not None:
            until_ms = min(until_ms, self.until_ms)
        found = set().union(*(one.within(after_ms, until_ms) for one in self.triggers))
        if self.repeats_until_ms is not None:
            again = set().union(*(one.within(after_ms, until_ms) for one in self.elapsed))
            found = {at for at in found if at > self.repeats_until_ms or at in again}
        return sorted(found)

    @property
    def elapsed(self) -> tuple[Grid, ...]:
        """The triggers that follow elapsed time, and come again after a clock was set back: the
        intervals, and cron with a `*` for its minutes or hours as all that is drawn here."""
        return tuple(one for one in self.triggers if isinstance(one, Grid))

    def next_repeated(self, after_ms: int, *, fired_ms: int) -> int | None:
        """The first time later than this that comes again after a clock was set back."""
        found: set[int] = set()
        for one in self.elapsed:
            first_ms = max(after_ms, one.repeats_from(fired_ms) - 1)
            found |= one.within(first_ms, first_ms + one.period_ms)
        return min(found, default=None)

    def next_plan(self, after_ms: int) -> int | None:
        """The first plan time later than this."""
        if self.from_ms is not None:
            after_ms = max(after_ms, self.from_ms - 1)
        span_ms = 2 * 3_600_000
        found = self.plans(after_ms, after_ms + span_ms) or self.plans(after_ms, after_ms + FAR_MS)
        return found[0] if found else None

    def sources(self, plan_ms: int) -> set[str]:
        """The triggers that give a plan time."""
        return {one.text for one in self.triggers if one.within(plan_ms - 1, plan_ms)}

    @property
    def limit(self) -> int | None:
        """How many runs of one scope there may be at once."""
        if self.max_running is not None:
            return self.max_running
        return None if self.overlap == "allow" else 1

    @property
    def most_attempts(self) -> int:
        return 1 + self.retries + (self.on_interrupt == "retry")

    def is_spent(self, planned: int) -> bool:
        return self.max_runs is not None and planned >= self.max_runs


@dataclass(kw_only=True)
class Due:
    """A schedule whose next fire may start."""

    wish: Wish
    plan_ms: int
    due_ms: int
    decided_ms: int
    paused_ms: int | None
    planned: int
    repeats_ms: int | None = None  # since then a clock that was set back repeats decided times


@dataclass(kw_only=True)
class Fire:
    plan_ms: int
    due_ms: int
    cause: str
    in_sequence: bool = False
    key: str = ""
    source: str | None = None  # None: that of the plan time
    has_joined: bool = False  # a live one, behind those that catch_up=all runs in sequence


@dataclass(kw_only=True)
class Span:
    """Plan times that do not run."""

    from_ms: int
    to_ms: int
    count: int
    reason: str


@dataclass(kw_only=True)
class Verdict:
    """What becomes of what is due; `next_ms` is (plan time, when it may start)."""

    decided_ms: int
    planned: int
    next_ms: tuple[int, int] | None
    fires: list[Fire] = field(default_factory=list)
    missed: list[Span] = field(default_factory=list)


def span_of(plans: list[int], reason: str) -> Span | None:
    if not plans:
        return None
    return Span(from_ms=plans[0], to_ms=plans[-1], count=len(plans), reason=reason)


def missed_since(
    wish: Wish, decided_ms: int, until_ms: int, *, reason: str, planned: int
) -> Span | None:
    """The plan times in (decided, until] that nothing will run."""
    if wish.is_spent(planned):
        return None
    return span_of(wish.plans(decided_ms, until_ms), reason)


def next_of(wish: Wish, after_ms: int, planned: int) -> tuple[int, int] | None:
    if wish.is_spent(planned):
        return None
    plan_ms = wish.next_plan(after_ms)
    return None if plan_ms is None else (plan_ms, plan_ms)


def next_after_pause(
    wish: Wish, until_ms: int, *, decided_ms: int, planned: int
) -> tuple[int, int] | None:
    """The first fire from the end of a pause on; else what the pause holds, due at its end."""
    found = next_of(wish, max(until_ms - 1, decided_ms), planned)
    if found is not None:
        return found
    held = next_of(wish, decided_ms, planned)
    return None if held is None else (held[0], max(until_ms, held[1]))


def decide(due: Due, now_ms: int) -> Verdict:
    """What becomes of a schedule whose next fire may start."""
    wish, planned = due.wish, due.planned
    is_decided = due.plan_ms <= due.decided_ms
    if due.repeats_ms is not None and is_decided and not wish.is_spent(planned):
        is_put_right = now_ms > due.decided_ms and now_ms - due.due_ms > MINUTE_MS
        if wish.elapsed and not is_put_right:
            return _decide_again(due, f"again:{due.repeats_ms}", now_ms)
    if due.plan_ms <= due.decided_ms or wish.is_spent(planned):
        # Decided already, by a clock that has gone back since.
        return Verdict(
            decided_ms=due.decided_ms,
            planned=planned,
            next_ms=next_of(wish, due.decided_ms, planned),
        )
    if due.paused_ms is not None and due.plan_ms < due.paused_ms:
        held_ms = due.paused_ms - 1
        span = missed_since(wish, due.decided_ms, held_ms, reason="paused", planned=planned)
        return Verdict(
            decided_ms=held_ms,
            planned=planned,
            next_ms=next_of(wish, held_ms, planned),
            missed=[] if span is None else [span],
        )
    pending = [due.plan_ms, *wish.plans(due.plan_ms, now_ms)]
    if wish.is_spent(planned + 1) and due.paused_ms is None:
        is_alone = True  # No other is to run, whatever passed.
    else:
        is_alone = len(pending) == 1
    fires = _fires(due, pending, now_ms=now_ms)
    if is_alone and due.paused_ms is None and now_ms - due.due_ms <= MINUTE_MS:
        pending = pending[:1]
        fires = [Fire(plan_ms=due.plan_ms, due_ms=due.due_ms, cause="schedule")]
    if wish.max_runs is not None:
        fires = fires[: wish.max_runs - planned]
    missed = []
    if due.paused_ms is not None:
        before_ms = min(due.paused_ms, due.plan_ms) - 1
        missed.append(span_of(wish.plans(due.decided_ms, before_ms), "paused"))
    first_ms = fires[0].plan_ms if fires else now_ms + FAR_MS
    passed = [at for at in pending if at < first_ms]
    # At its due time an engine would have run the latest of these: a person moved the first.
    at_once = [at for at in passed if at < max([due.plan_ms, *wish.plans(due.plan_ms, due.due_ms)])]
    if wish.catch_up == "all" or due.paused_ms is not None:
        at_once = []
    missed.append(span_of(at_once, "rescheduled"))
    missed.append(span_of(passed[len(at_once) :], "misfire"))
    planned += len(fires)
    return Verdict(
        decided_ms=pending[-1],
        planned=planned,
        next_ms=next_of(wish, pending[-1], planned),
        fires=fires,
        missed=[span for span in missed if span is not None],
    )


def _decide_again(due: Due, key: str, now_ms: int) -> Verdict:
    """What becomes of times that come a second time: up to the mark only what runs is new."""
    until_ms = due.decided_ms
    repeated = replace(due.wish, repeats_until_ms=until_ms)
    again = replace(due, wish=repeated, decided_ms=due.plan_ms - 1, repeats_ms=None)
    verdict = decide(again, now_ms)
    for fire in verdict.fires:
        fire.key = key if fire.plan_ms <= until_ms else ""
    missed = [
        one if one.from_ms > until_ms else span_of(due.wish.plans(until_ms, one.to_ms), one.reason)
        for one in verdict.missed
    ]
    verdict.missed = [one for one in missed if one is not None]
    return verdict


def _fires(due: Due, pending: list[int], *, now_ms: int) -> list[Fire]:
    wish, latest_ms = due.wish, pending[-1]
    are_together = latest_ms <= due.due_ms + TOGETHER_MS or len(pending) == 1
    if now_ms - due.due_ms <= MINUTE_MS and are_together:
        if wish.catch_up == "all" and len(pending) > 1:
            return _all(due, pending, cause="schedule", not_before_ms=due.plan_ms)
        return [_fire(due, latest_ms, "schedule")]
    if wish.max_late_s is not None:
        max_late_ms = wish.max_late_s * 1000
    else:
        following_ms = replace_bounds(wish).next_plan(latest_ms)
        max_late_ms = max(DAY_MS, 0 if following_ms is None else following_ms - latest_ms)
    if wish.catch_up == "all":
        return _all(due, pending, cause="catch_up", not_before_ms=now_ms - max_late_ms)
    # An engine that is only slow is not catching up.
    cause = "catch_up" if now_ms - due.due_ms > MINUTE_MS else "schedule"
    fire = _fire(due, latest_ms, cause)
    return [fire] if wish.catch_up == "once" and fire.due_ms >= now_ms - max_late_ms else []


def replace_bounds(wish: Wish) -> Wish:
    """The same times without an end: an interval is one beyond `until` as well."""
    return Wish(triggers=wish.triggers, repeats_until_ms=wish.repeats_until_ms)


def _all(due: Due, pending: list[int], *, cause: str, not_before_ms: int) -> list[Fire]:
    fires = [_fire(due, at, cause) for at in pending]
    fires = [fire for fire in fires if fire.due_ms >= not_before_ms]
    for fire in fires:
        fire.in_sequence = True
    return fires[-MOST_AT_ONCE:]


def _fire(due: Due, plan_ms: int, cause: str) -> Fire:
    due_ms = due.due_ms if plan_ms == due.plan_ms else max(due.due_ms, plan_ms)
    return Fire(plan_ms=plan_ms, due_ms=due_ms, cause=cause)
