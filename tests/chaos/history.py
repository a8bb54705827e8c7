"""All that is known after a storm, as plain values: what the invariants are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]  # of `executions`, by the names of its columns, with `name`


@dataclass(frozen=True, kw_only=True)
class Body:
    """One start of a job, by its own log. Instants are of the wall clock, `*_mono_ms` are not.

    `seen_mono_ms` is its last sign of life. `code` None: it never came to its end.
    """

    run: int
    schedule: str
    scope: tuple[str, str]
    plan_ms: int
    attempt: int
    cause: str
    key: str
    by: str
    pid: int
    kind: str
    began_ms: int
    began_mono_ms: int
    seen_mono_ms: int
    ended_ms: int | None = None
    code: int | None = None


@dataclass(frozen=True, kw_only=True)
class Era:
    """What a schedule was from a revision on, as its snapshots say. No period: only by events.

    A change of its state alone has no snapshot. `until_ms`: when it ended for sure, if retention
    has removed the snapshot of the next one.
    """

    revision: int
    since_ms: int
    until_ms: int | None
    period_ms: int | None
    overlap: str
    max_running: int | None
    retries: int
    on_interrupt: str


@dataclass(frozen=True, kw_only=True)
class Life:
    """A schedule from its making to its removal."""

    schedule_id: int
    name: str
    scopes: tuple[tuple[str, str], ...]
    made_ms: int
    removed_ms: int | None
    pruned_until_ms: int | None
    eras: tuple[Era, ...]
    counts: Mapping[str, int]  # per status, as the schedule keeps them

    def era_at(self, revision: int) -> Era:
        """Return the era that holds at a revision; the first if none is as old."""
        return max(
            (era for era in self.eras if era.revision <= revision),
            key=lambda era: era.revision,
            default=self.eras[0],
        )

    def plans(self, *, after_ms: int, until_ms: int) -> set[int]:
        """Its plan times in (after, until], by grids that all begin at the epoch."""
        found: set[int] = set()
        ends = [era.since_ms for era in self.eras[1:]] + [until_ms]
        for era, end_ms in zip(self.eras, ends, strict=True):
            if era.period_ms is None:
                continue
            since_ms = max(after_ms, era.since_ms)
            first = (since_ms // era.period_ms + 1) * era.period_ms
            known_ms = end_ms if era.until_ms is None else min(end_ms, era.until_ms)
            found.update(range(first, min(known_ms, until_ms) + 1, era.period_ms))
        return found


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Something that was wrong from an instant to another, by the wall clock."""

    kind: str
    began_ms: int
    healed_ms: int
    ended: tuple[str, ...] = ()  # the supervisors that it was the end of, by their ids


@dataclass(frozen=True, kw_only=True)
class Change:
    """A row that was final, and what it was at a later look; None: it had gone."""

    before: Row
    after: Row | None


@dataclass(frozen=True, kw_only=True)
class Step:
    """A next time that moved between two looks, within one revision."""

    name: str
    revision: int
    before_ms: int
    after_ms: int


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a command line said was done: `kind` is its verb."""

    kind: str
    began_ms: int
    at_ms: int
    name: str = ""
    runs: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What a command line said could not be done: `code` is how it ended."""

    asked: Promise
    code: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something that was seen while it happened, and is a violation as it stands."""

    number: str
    text: str


@dataclass(frozen=True, kw_only=True)
class History:
    """Everything, when all is quiet."""

    began_ms: int
    healed_ms: int  # when the last fault had healed and every engine was up
    removed_ms: int  # when people began to remove every schedule
    rows: tuple[Row, ...]
    lives: tuple[Life, ...]
    bodies: tuple[Body, ...]
    troubles: tuple[Trouble, ...] = ()
    changes: tuple[Change, ...] = ()
    steps_back: tuple[Step, ...] = ()
    promises: tuple[Promise, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    remarks: tuple[Remark, ...] = ()
    alive: tuple[str, ...] = ()  # processes that are left
    modes: Mapping[str, int] = field(default_factory=dict)
    integrity: tuple[str, ...] = ()  # what integrity_check and foreign_key_check found
    doctor: tuple[Mapping[str, Any], ...] | None = ()  # its problems; None: it gave no answer


@dataclass(frozen=True, kw_only=True)
class Violation:
    number: str
    text: str
