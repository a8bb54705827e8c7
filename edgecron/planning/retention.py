"""Decide how much of the past is kept. Pure.

Output is removed before history: by age, then by bytes, the oldest first. Then history is removed:
by age, by count per schedule and by the size of the database. Rows that an engine needs, and the
last run of each schedule, always stay; the store knows which rows those are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

from edgecron.base.checks import check_range
from edgecron.base.errors import InvalidInput
from edgecron.base.tzif import DAY_S
from edgecron.base.units import MIB
from edgecron.base.values import NamedTuple, dataclass, names_of, replace
from edgecron.planning.corrections import FIRST_MS

_MOST_BATCH = 125  # rows that one transaction removes, each with its output
_MOST_BATCH_BYTES = 2 * 1024 * 1024  # of output in one transaction: it reads and writes each page
_MOST_AGE_S = 100 * 366 * DAY_S
_MOST_COUNT = 10**12
_LEAST_DATABASE_BYTES = MIB  # an empty one has 100 KB
# A walk in the order of birth ends after this many rows that are certainly young: a few can lie
# among older ones.
_ENOUGH_YOUNG = 10
# A former definition that no run needs stays this long, and only if few are newer: `undo` and
# `show --changes` need it.
_UNDO_AGE_S = 30 * DAY_S
_UNDO_COUNT = 20
NOTICE_AGE_S = 90 * DAY_S  # of a notice that was sent or given up
NOTICE_COUNT = 5_000  # of each rule: a job that runs each minute has two pings each time


class Reason(StrEnum):
    """Why something is removed."""

    AGE = "age"
    BYTES = "bytes"
    COUNT = "count"
    UNUSED = "unused"  # no run refers to it


class Kind(StrEnum):
    """The kinds of rows that retention removes."""

    OUTPUT = "output"  # of a run; how much it printed stays recorded
    RUN = "run"  # a row, with its output
    SCHEDULE = "schedule"  # that a person removed, after its last run
    REVISION = "revision"  # a former definition of a schedule
    NOTICE = "notice"  # that was sent or given up


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much is kept; None: no limit.

    `history_count` limits the ended runs of each schedule, the others the whole database.
    """

    output_age_s: float | None = 90 * DAY_S
    output_bytes: int | None = 256 * MIB  # as stored, which is compressed
    history_age_s: float | None = 400 * DAY_S  # a year, and some weeks before it to compare with
    history_count: int | None = 50_000  # a month of one run a minute
    database_bytes: int | None = 1024 * MIB

    def __post_init__(self) -> None:
        check_range("output age", self.output_age_s, 1, _MOST_AGE_S)
        check_range("output bytes", self.output_bytes, 0, 2**62)
        check_range("history age", self.history_age_s, 1, _MOST_AGE_S)
        check_range("history count", self.history_count, 1, _MOST_COUNT)
        if self.database_bytes is not None and self.database_bytes < _LEAST_DATABASE_BYTES:
            raise InvalidInput(
                f"database bytes is {self.database_bytes}, expected {_LEAST_DATABASE_BYTES}"
                " (1 MiB) or more"
            )

    @property
    def is_unlimited(self) -> bool:
        """Whether everything is kept for ever."""
        return all(getattr(self, name) is None for name in names_of(type(self)))


UNLIMITED = Retention(
    output_age_s=None,
    output_bytes=None,
    history_age_s=None,
    history_count=None,
    database_bytes=None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A retention at an instant: an end before `*_before_ms` is too old. None: no limit."""

    now_ms: int
    output_before_ms: int | None
    output_bytes: int | None
    history_before_ms: int | None
    history_count: int | None
    database_bytes: int | None
    replaced_before_ms: int | None = None  # a former definition was replaced
    noticed_before_ms: int | None = None  # the event of a notice


def limits_at(
    retention: Retention, now_ms: int, *, is_trusted: bool, passed_ms: int | None = None
) -> Limits:
    """The limits now. If the clock can't be trusted, nothing is too old.

    Ages count to `passed_ms`, if that is given and earlier.
    """
    aged_ms = now_ms if passed_ms is None else min(now_ms, passed_ms)
    return Limits(
        now_ms=now_ms,
        output_before_ms=_before_ms(retention.output_age_s, aged_ms) if is_trusted else None,
        output_bytes=output_limit(retention),
        history_before_ms=_before_ms(retention.history_age_s, aged_ms) if is_trusted else None,
        history_count=retention.history_count,
        database_bytes=retention.database_bytes,
        replaced_before_ms=_before_ms(_UNDO_AGE_S, aged_ms) if is_trusted else None,
        noticed_before_ms=_before_ms(NOTICE_AGE_S, aged_ms) if is_trusted else None,
    )


def find_outdated(began: Mapping[int, int], *, replaced_before_ms: int | None) -> list[int]:
    """The definitions that `undo` does not need any more: long replaced, or behind many others.

    `began` says since when each was valid, by revision, oldest first. The newest is never outdated.
    """
    revisions = list(began)
    return [
        revision
        for place, (revision, following) in enumerate(pairwise(revisions), 1)
        if len(revisions) - place > _UNDO_COUNT
        or (replaced_before_ms is not None and began[following] < replaced_before_ms)
    ]


def _before_ms(age_s: float | None, now_ms: int) -> int | None:
    return None if age_s is None else now_ms - round(age_s * 1000)


def output_limit(retention: Retention) -> int | None:
    """How much output is kept, in bytes: at most half of the database, to leave room for runs."""
    if retention.database_bytes is None:
        return retention.output_bytes
    half = retention.database_bytes // 2
    return half if retention.output_bytes is None else min(retention.output_bytes, half)


class AgeWalk:
    """Judge rows by age, in the order of their birth, and say when all others are young.

    Rows that were born after young ones are young, whatever a wrong clock has written into them.
    An end before the first edgecron has an unknown age.
    """

    def __init__(self, *, before_ms: int, now_ms: int) -> None:
        self._before_ms = before_ms
        self._now_ms = now_ms
        self._young = 0

    @property
    def is_over(self) -> bool:
        """Whether all that follows is young."""
        return self._young >= _ENOUGH_YOUNG

    def is_too_old(self, *, ended_ms: int | None, plan_ms: int) -> bool:
        """Judge the next row. `ended_ms` None: it has not ended."""
        if self.is_over:
            return False
        if ended_ms is not None and ended_ms < self._before_ms:
            return ended_ms >= FIRST_MS
        self._young += self._before_ms <= plan_ms <= self._now_ms
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """The rows that one transaction has removed; `size_bytes` is about its size in the file."""

    kind: Kind
    reason: Reason
    count: int
    size_bytes: int


class Forgotten(NamedTuple):
    """How many former definitions of a schedule were removed, and how many active runs need.

    `is_log_empty`: the write-ahead log does not hold them any more.
    """

    removed: int
    kept: int
    is_log_empty: bool


class Kept(NamedTuple):
    """The contents of a database, and the free space in its file, in bytes."""

    used_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The rows that a pass has removed, or would remove, by kind and reason.

    `has_ages` is False if the clock can't be trusted: then nothing was removed for its age.
    """

    removed: tuple[Removed, ...]
    before: Kept
    after: Kept
    has_ages: bool


def sum_of(before: Sequence[Removed], one: Removed) -> list[Removed]:
    """Add one to the sum of its kind and reason."""
    summed = list(before)
    for at, other in enumerate(summed):
        if (other.kind, other.reason) == (one.kind, one.reason):
            summed[at] = replace(
                other,
                count=other.count + one.count,
                size_bytes=other.size_bytes + one.size_bytes,
            )
            return summed
    return [*summed, one]


def batches_of(sizes: Mapping[int, int]) -> Iterator[list[int]]:
    """Split rows, by id with their sizes, into transactions of few rows and few bytes."""
    batch: list[int] = []
    size_bytes = 0
    for one, one_bytes in sizes.items():
        is_full = len(batch) == _MOST_BATCH or size_bytes + one_bytes > _MOST_BATCH_BYTES
        if batch and is_full:
            yield batch
            batch, size_bytes = [], 0
        batch.append(one)
        size_bytes += one_bytes
    if batch:
        yield batch
