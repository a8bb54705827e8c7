"""Start runs by hand: now or later, once for a key, many in one transaction, or for past times."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from edgecron.base.checks import check_aware, check_json, check_range
from edgecron.base.errors import Conflict, EdgecronError, InvalidInput, NotFound
from edgecron.base.units import format_ms, from_ms, to_ms
from edgecron.base.values import NamedTuple, replace, sha256
from edgecron.client.opening import TRIES
from edgecron.client.runs import Runs
from edgecron.model.choices import Cause
from edgecron.model.engine import EACH
from edgecron.model.run import AS_SCHEDULED, Execution, RunOptions
from edgecron.planning.forecast import (
    MOST_BACKFILLED,
    Backfill,
    PastFire,
    PastTimes,
    default_priority,
    find_past_times,
    last_of_first,
    times_of,
)
from edgecron.planning.next_fire import Fire
from edgecron.planning.times import timing_words
from edgecron.store.sql.manual_runs import Enqueued
from edgecron.triggers import TriggerKind

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule
    from edgecron.planning.next_fire import Timing

MOST_KEY_LETTERS = 255
MOST_PAYLOAD_BYTES = 64 * 1024  # of a run's own: it goes to a command as a variable


class Wish(NamedTuple):
    """Runs that a caller asks for: see `make_wish`."""

    name: str
    payloads: tuple[str | None, ...]
    fire_key: str | None
    asked_at: datetime | None
    options: RunOptions
    is_one: bool
    queue: str | None


def make_wish(
    name: str,
    payloads: Sequence[str | None],
    *,
    key: str | None = None,
    asked_at: datetime | None = None,
    options: RunOptions = AS_SCHEDULED,
    is_one: bool = False,
    queue: str | None = None,
) -> Wish:
    """Check and return the runs that a caller asks for; see `ManualRuns.enqueue`.

    With `queue`, the schedule must have that queue. Raises InvalidInput.
    """
    for payload in payloads:
        if payload is not None:
            check_json(payload, what="payload", most_bytes=MOST_PAYLOAD_BYTES)
    fire_key = None if key is None else _fire_key(key)
    return Wish(name, tuple(payloads), fire_key, asked_at, options, is_one, queue)


class ManualRuns(Runs):
    """Start runs by hand."""

    @cached_property
    def _read(self) -> dict[str, Schedule]:
        """Schedules as last read, for `enqueue`: the database says if one was changed since."""
        return {}

    def run_now(
        self, name: str, *, payload: str | None = None, options: RunOptions = AS_SCHEDULED
    ) -> list[Execution]:
        """Run a schedule now, once per scope, and return the queued runs; its next time stays.

        `payload`, a text of JSON, replaces the schedule's for this fire and its retries; `options`
        can delay it. A run is `skipped` if an active run overlaps it. Raises InvalidInput for a
        payload that is not JSON or longer than 64 KiB, and for a scope that the schedule lacks.
        """
        return [self.execution(one) for one in self.enqueue(name, [payload], options=options)]

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
        options: RunOptions = AS_SCHEDULED,
    ) -> list[Execution]:
        """Run a schedule as `run_now`, once per key; a known key returns the runs that it started.

        Each schedule and scope has its own keys. A key is known as long as its run is in the
        history: retention can remove it. `asked_at` is the time of the first request (default:
        now). Raises InvalidInput if the key is not 1 to 255 printable ASCII characters. Raises
        KeyReused if it was used with another payload, and Conflict if it is unknown and the first
        request was made more than 24 hours ago.
        """
        found = self.enqueue(name, [payload], key=key, asked_at=asked_at, options=options)
        return [self.execution(one) for one in found]

    def enqueue(
        self,
        name: str,
        payloads: Sequence[str | None],
        *,
        key: str | None = None,
        asked_at: datetime | None = None,
        options: RunOptions = AS_SCHEDULED,
        is_one: bool = False,
    ) -> list[int]:
        """Queue a fire for each payload in one transaction; return the ids of all runs in order.

        The rest is as in `run_once`. With `is_one`, raises InvalidInput if each fire would have
        several runs, one for each scope.
        """
        wish = make_wish(name, payloads, key=key, asked_at=asked_at, options=options, is_one=is_one)
        [found] = self.enqueue_together([wish])
        if isinstance(found, Exception):
            raise found
        return found

    def enqueue_together(self, wishes: Sequence[Wish]) -> list[list[int] | EdgecronError]:
        """Queue runs of several callers in one transaction; return the ids or the error of each.

        See `enqueue`.
        """
        found: dict[int, list[int] | EdgecronError] = {}
        for _ in range(TRIES):
            now_ms = self._clock.now_ms()
            left: dict[int, Enqueued] = {}
            for place, wish in enumerate(wishes):
                if place not in found:
                    try:
                        left[place] = self._prepare(wish, now_ms)
                    except EdgecronError as error:
                        found[place] = error
            if not left:
                break
            answers = self.store.enqueue_together(list(left.values()), now_ms=now_ms)
            for place, answer in zip(left, answers, strict=True):
                if answer is None:
                    self._read.pop(wishes[place].name, None)
                else:
                    found[place] = answer
        self.ring()
        return [
            found[place]
            if place in found
            else Conflict(f"another program is changing schedule {wish.name!r}", hint="try again")
            for place, wish in enumerate(wishes)
        ]

    def _prepare(self, wish: Wish, now_ms: int) -> Enqueued:
        """Return the fires that a caller wants. Raises NotFound, and InvalidInput."""
        known = self._read.get(wish.name)
        # A machine that joins a schedule on each machine does not change its revision.
        if known is not None and known.spec.policies.on != EACH:
            with suppress(EdgecronError):  # It can have changed since it was read.
                return self._prepare_of(known, wish, now_ms)
        schedule = self._read[wish.name] = self.store.get_schedule(wish.name)
        return self._prepare_of(schedule, wish, now_ms)

    def _prepare_of(self, schedule: Schedule, wish: Wish, now_ms: int) -> Enqueued:
        if wish.queue not in (None, schedule.spec.queue):
            raise NotFound(f"schedule {wish.name!r} is not of queue {wish.queue!r}")
        scopes, scope = schedule.spec.scopes, wish.options.scope
        if scope is not None and scope not in scopes:
            close = ", ".join(_scope_text(one) for one in scopes[:3])
            raise InvalidInput(
                f"{wish.name!r} has no scope {_scope_text(scope)!r}", hint=f"its scopes: {close}"
            )
        if scope is not None:
            schedule = replace(schedule, spec=replace(schedule.spec, scopes=(scope,)))
        elif wish.is_one and len(scopes) > 1:
            raise InvalidInput(
                f"{wish.name!r} has {len(scopes)} scopes, expected one",
                hint=f"name one: scope={_scope_text(scopes[0])!r}; fire() gives a run for each",
            )
        due_ms, options = wish.options.due_ms(now_ms), wish.options
        group = "" if wish.fire_key else os.urandom(6).hex()
        fires = [
            Fire(
                plan_ms=due_ms,
                due_ms=due_ms,
                cause=Cause.MANUAL,
                fire_key=wish.fire_key or f"manual:{group}" + (f".{place}" if place else ""),
                payload=payload,
                priority=options.priority,
                timeout_s=options.timeout_s,
            )
            for place, payload in enumerate(wish.payloads)
        ]
        return Enqueued(
            schedule,
            fires,
            is_keyed=wish.fire_key is not None,
            asked_ms=None if wish.asked_at is None else to_ms(wish.asked_at),
        )


def _scope_text(scope: tuple[str, str]) -> str:
    return ":".join(scope).removesuffix(":")


def _fire_key(key: str) -> str:
    """Return the fire key of an idempotency key. Raises InvalidInput."""
    if not (1 <= len(key) <= MOST_KEY_LETTERS and key.isascii() and key.isprintable()):
        raise InvalidInput(
            f"key is {key[:60]!a}, expected 1 to {MOST_KEY_LETTERS} printable characters of ASCII"
        )
    return f"manual:{sha256(key.encode()).hexdigest()[:32]}"


_ROWS = 250  # of one transaction
_MOST_PRIORITY = 1_000_000


class Backfills(Runs):
    """Plan and queue runs for past plan times."""

    def plan_backfill(self, name: str, from_at: datetime, to_at: datetime) -> Backfill:
        """Return what a backfill of [from, to] would queue, without a change.

        Raises InvalidInput for an empty range, a schedule without times of its own, and more than
        10,000 runs.
        """
        schedule = self.store.get_schedule(name)
        check_aware("from", from_at)
        check_aware("to", to_at)
        if to_at < from_at:
            raise InvalidInput(
                f"the end of the backfill, {format_ms(to_ms(to_at))}, is before its beginning,"
                f" {format_ms(to_ms(from_at))}",
                hint="give the earlier time first",
            )
        self._need_times(schedule)
        timing = self.timing(schedule)
        past = find_past_times(
            timing,
            from_ms=to_ms(from_at),
            to_ms=to_ms(to_at),
            decided_until_ms=to_ms(schedule.decided_until),
            pruned_until_ms=None if schedule.pruned_until is None else to_ms(schedule.pruned_until),
        )
        _need_few(schedule, timing, past)
        return self._plan_of(schedule, timing, past)

    def backfill(
        self,
        name: str,
        from_at: datetime,
        to_at: datetime,
        *,
        priority: int | None = None,
        on_progress: Callable[[int, int], object] = lambda done, count: None,
    ) -> list[int]:
        """Queue a run for each decided plan time in [from, to] without a success; return their ids.

        They run one after the other (default priority: below all runs that are on time). It skips
        plan times that get another run meanwhile. `on_progress` gets how many are done, and of how
        many. Raises what `plan_backfill` raises, and Conflict if the schedule's times are changed
        meanwhile; a second backfill takes the rest.
        """
        check_range("priority", priority, -_MOST_PRIORITY, _MOST_PRIORITY)
        plan = self.plan_backfill(name, from_at, to_at)
        schedule = plan.schedule
        ids: list[int] = []
        for start in range(0, len(plan.wanted), _ROWS):
            rows = plan.wanted[start : start + _ROWS]
            wanted = [(to_ms(fire.plan_at), fire.source, fire.scope) for fire in rows]
            for _ in range(TRIES):
                chosen = schedule.spec.policies.priority
                queued = self.store.queue_backfill(
                    schedule,
                    wanted,
                    priority=default_priority(chosen) if priority is None else priority,
                    now_ms=self._clock.now_ms(),
                )
                if queued is not None:
                    break
                schedule = self._same_times(schedule, len(ids))
            else:
                raise Conflict(f"another program is changing schedule {name!r}", hint="try again")
            ids += queued
            self.ring()
            self.store.let_others_write()
            on_progress(start + len(rows), len(plan.wanted))
        return ids

    def _same_times(self, before: Schedule, count: int) -> Schedule:
        """Return the schedule as it is now. Raises Conflict if its times were changed."""
        now = self.store.get_schedule(before.name)
        same = now.id == before.id and now.spec.scopes == before.spec.scopes
        if not same or timing_words(now.spec) != timing_words(before.spec):
            raise Conflict(
                f"the times of schedule {before.name!r} changed after {count} runs were queued",
                hint="check the schedule, then backfill again: the queued runs are skipped",
            )
        return now

    def _need_times(self, schedule: Schedule) -> None:
        """Raise InvalidInput if no trigger of a schedule has times of its own."""
        kinds = {trigger.kind for trigger in self.triggers(schedule)}
        if not kinds & {TriggerKind.CRON, TriggerKind.EVERY, TriggerKind.AT, TriggerKind.ONCE_IN}:
            raise InvalidInput(
                f"schedule {schedule.name!r} has no times of its own: it fires"
                f" {' and '.join(schedule.spec.triggers)}",
                hint=f"run it now: edgecron run {schedule.name}",
            )

    def _plan_of(self, schedule: Schedule, timing: Timing, past: PastTimes) -> Backfill:
        covered = {
            scope: self.store.find_covered(
                schedule, scope, from_ms=past.from_ms, to_ms=past.last_ms
            )
            for scope in schedule.spec.scopes
        }
        wanted: list[PastFire] = []
        succeeded: list[PastFire] = []
        active: list[PastFire] = []
        for plan_ms, source in times_of(timing, past):
            for scope in schedule.spec.scopes:
                has_succeeded = covered[scope].get(plan_ms)
                group = wanted if has_succeeded is None else succeeded if has_succeeded else active
                group.append(PastFire(plan_at=from_ms(plan_ms), scope=scope, source=source))
        return Backfill(
            schedule=schedule,
            wanted=tuple(wanted),
            succeeded=tuple(succeeded),
            active=tuple(active),
            forgotten_count=past.forgotten_count,
            undecided_count=past.undecided_count,
            out_of_bounds_count=past.out_of_bounds_count,
        )


def _need_few(schedule: Schedule, timing: Timing, past: PastTimes) -> None:
    """Raise InvalidInput if there are more plan times than one backfill takes."""
    scopes = len(schedule.spec.scopes)
    count = past.count * scopes
    if count > MOST_BACKFILLED:
        most = MOST_BACKFILLED // scopes
        end = format_ms(last_of_first(timing, past, most))
        raise InvalidInput(
            f"that is {count:,} runs of schedule {schedule.name!r},"
            f" expected at most {MOST_BACKFILLED:,}",
            hint=f"backfill it in parts; first up to {end}" if most else None,
        )
