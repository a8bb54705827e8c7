"""Schedules and rows as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.machine.plaintimes import Wish

LATE = ("catch_up", "backfill")
ACTIVE = ("queued", "running")

Scope = tuple[str, str]


@dataclass(kw_only=True)
class Row:
    """One attempt of one fire, or a range of fires that did not run."""

    id: int
    schedule_id: int
    revision: int
    scope: Scope
    plan_ms: int
    key: str
    cause: str
    source: str | None
    due_ms: int
    most_attempts: int
    priority: int
    status: str
    queued_ms: int | None
    attempt: int = 1
    reason: str | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    exit_code: int | None = None
    engine: str | None = None  # who runs it
    cancel_ms: int | None = None  # when its end was asked for
    is_replaced: bool = False
    missed: tuple[int, int, int] | None = None
    missed_by: str | None = None  # why nothing ran, of a misfire
    flags: list[str] = field(default_factory=list)

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def is_backfill(self) -> bool:
        return self.key.startswith("backfill:")


@dataclass(kw_only=True)
class Body:
    """The command of a running row, under a supervisor that outlives its engine."""

    row: Row
    supervisor: str
    ends_ms: int
    exit_code: int
    is_over: bool = False
    fate: str | None = None  # why nobody knows how it ended
    was_asked: bool = False

    def has_ended(self, now_ms: int) -> bool:
        return self.is_over or self.ends_ms <= now_ms

    def end(self, now_ms: int) -> None:
        """TERM, for which it takes no time."""
        if not self.has_ended(now_ms):
            self.ends_ms, self.exit_code, self.was_asked = now_ms, 143, True


@dataclass(kw_only=True)
class Schedule:
    id: int
    name: str
    wish: Wish
    decided_ms: int
    next_ms: tuple[int, int] | None
    enabled: bool = True
    paused_ms: int | None = None
    revision: int = 1
    planned: int = 0
    is_removed: bool = False
    pruned_ms: int | None = None
    last_row: int | None = None
    last_status: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    took_ms: int = 0  # all its runs together
    wishes: dict[int, Wish] = field(default_factory=dict)  # by revision
    changed_ms: int = 0
    fired_ms: int | None = None  # when a time of it was decided last, by the clock as it is
    repeats_ms: int | None = None  # since then a clock that was set back repeats decided times

    def count(self, status: str, by: int = 1) -> None:
        self.counts[status] = self.counts.get(status, 0) + by

    def is_held(self, now_ms: int) -> bool:
        return not self.enabled or (self.paused_ms is not None and self.paused_ms > now_ms)

    def change(self, now_ms: int, wish: Wish | None = None) -> None:
        """Every change is another revision."""
        self.revision += 1
        self.changed_ms = now_ms
        self.wish = self.wish if wish is None else wish
        self.wishes[self.revision] = self.wish
