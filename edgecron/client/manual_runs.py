"""Start runs by hand: now or later, once for a key, or many in one transaction."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict, EdgecronError, InvalidInput, NotFound
from edgecron.base.hashes import sha256
from edgecron.base.json_texts import check_json
from edgecron.base.units import to_ms
from edgecron.base.values import NamedTuple, replace
from edgecron.client.opening import TRIES
from edgecron.client.runs import Runs
from edgecron.model.choices import Cause
from edgecron.model.run import AS_SCHEDULED, Execution, RunOptions
from edgecron.planning.next_fire import Fire
from edgecron.store.sqlite.manual_runs import Enqueued

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule

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
        if known is not None:
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
