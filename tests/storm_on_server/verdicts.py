"""What must hold after a storm, of the rows and of the jobs' own log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from edgecron.base.values import dataclass

COLUMNS = (
    *(
        "id",
        "schedule",
        "scope_id",
        "plan_at",
        "fire_key",
        "cause",
        "attempt",
        "status",
        "reason",
        "exit_code",
    ),
    *("claimed_at", "started_at", "finished_at", "engine_id", "fence", "missed_from_at"),
    *("missed_to_at", "error_msg"),
)
_MOST_WAIT_MS = 35_000  # of a claim for the lock of the writers, and of an engine that stood still

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A schedule: its period from `made_ms` until `removed_ms`; None: it has no times.

    With `on = each`, a schedule has one life for each machine, its `scope`.
    """

    name: str
    scope: str = ""
    anchor_ms: int
    period_ms: int | None
    made_ms: int
    removed_ms: int
    skips_overlap: bool = False
    group_limit: int | None = None  # of all schedules that have one


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All that is known after a storm. `starts` are those of `JobLog`."""

    lives: Sequence[Life]
    rows: Sequence[Row]
    starts: Sequence[dict[str, Any]]
    promised: Sequence[int]  # runs that were requested, by an answer that came
    alive: Sequence[str]  # processes that are left
    remarks: Sequence[str]


def judge(account: Account) -> Iterator[str]:
    """Yield what is violated."""
    for check in _CHECKS:
        name = check.__name__.lstrip("_")
        yield from (f"{name}: {words}" for words in check(account))


def _lost(account: Account) -> Iterator[str]:
    """Each plan time ran or is covered by a row, once."""
    covering: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in account.rows:
        life_of = row["schedule"], row["scope_id"]
        if row["missed_from_at"] is not None:
            covering[life_of].append((row["missed_from_at"], row["missed_to_at"]))
        elif row["fire_key"] == "" and row["attempt"] == 1:
            covering[life_of].append((row["plan_at"], row["plan_at"]))
    for life in account.lives:
        if life.period_ms is None:
            continue
        first = (life.made_ms - life.anchor_ms) // life.period_ms + 1
        spans = sorted(covering[life.name, life.scope])
        for number in range(first, (life.removed_ms - life.anchor_ms) // life.period_ms + 1):
            at_ms = life.anchor_ms + number * life.period_ms
            found = sum(from_ms <= at_ms <= to_ms for from_ms, to_ms in spans)
            if found != 1:
                yield f"{life.name} {life.scope} at {at_ms} is covered by {found} rows"


def _astray(account: Account) -> Iterator[str]:
    """With `on = each`, a run starts only on its own machine."""
    rows = {row["id"]: row for row in account.rows}
    for one in account.starts:
        row = rows.get(one["run"])
        if row is not None and row["scope_id"] not in ("", one["host"]):
            yield f"started on {one['host']}: {_short(row)}"


def _promise(account: Account) -> Iterator[str]:
    """A run that was requested has its row."""
    known = {row["id"] for row in account.rows}
    yield from (f"run {one} is not there" for one in account.promised if one not in known)


def _twice(account: Account) -> Iterator[str]:
    """No attempt starts twice, no fire succeeds twice, and no default fire starts twice."""
    counts = Counter(one["run"] for one in account.starts)
    yield from (f"run {run} has started {n} times" for run, n in counts.items() if n > 1)
    scopes = {row["id"]: row["scope_id"] for row in account.rows}
    tries = Counter(
        (one["schedule"], scopes.get(one["run"]), one["plan"], one["key"], one["attempt"])
        for one in account.starts
    )
    yield from (f"{key} has started {n} times" for key, n in tries.items() if n > 1)
    successes = Counter(
        (row["schedule"], row["scope_id"], row["plan_at"], row["fire_key"])
        for row in account.rows
        if row["status"] == "success"
    )
    yield from (f"{key} has succeeded {n} times" for key, n in successes.items() if n > 1)


def _agree(account: Account) -> Iterator[str]:
    """A row says of its end what the job says."""
    starts = {one["run"]: one for one in account.starts}
    for row in account.rows:
        start = starts.get(row["id"])
        if start is None:
            if row["status"] == "success" or (row["status"], row["reason"]) == ("failed", "exit"):
                yield f"nothing has run for {_short(row)}"
            continue
        if row["status"] in ("skipped", "queued"):
            yield f"a job has run for {_short(row)}"
        code = start.get("code")
        if row["status"] == "success" and code != 0:
            yield f"the job's own code is {code}: {_short(row)}"
        if row["reason"] == "exit" and row["exit_code"] != code:
            yield f"the job's own code is {code}: {_short(row)}"


def _fence(account: Account) -> Iterator[str]:
    """A later claim has a larger fence, and the job gets the fence of its row."""
    rows = {row["id"]: row for row in account.rows}
    for one in account.starts:
        row = rows.get(one["run"])
        if row is not None and one["fence"] != row["fence"]:
            yield f"the job got {one['fence']}: {_short(row)}"
    by_schedule: dict[str, list[Row]] = defaultdict(list)
    for row in account.rows:
        if row["fence"] is not None and row["claimed_at"] is not None:
            by_schedule[row["schedule"]].append(row)
    for found in by_schedule.values():
        found.sort(key=lambda row: (row["fence"], row["id"]))
        latest_ms = 0
        for before, after in pairwise(found):
            if before["fence"] == after["fence"]:
                yield f"the same fence: {_short(before)} and {_short(after)}"
            latest_ms = max(latest_ms, before["claimed_at"])
            if after["claimed_at"] + _MOST_WAIT_MS < latest_ms:
                yield f"claimed earlier, with a larger fence: {_short(after)}"


def _early(account: Account) -> Iterator[str]:
    """Nothing starts before its plan time."""
    rows = {row["id"]: row for row in account.rows}
    for one in account.starts:
        row = rows.get(one["run"])
        if row is not None and one["wall_ms"] < row["plan_at"]:
            yield f"{row['plan_at'] - one['wall_ms']} ms early: {_short(row)}"


def _overlap(account: Account) -> Iterator[str]:
    """Limits hold across machines, but for jobs whose machine was out of reach."""
    rows = {row["id"]: row for row in account.rows}
    lives = {(life.name, life.scope): life for life in account.lives}
    spans: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for one in account.starts:
        row = rows.get(one["run"])
        if row is None or row["reason"] == "lost":
            continue
        life = lives.get((row["schedule"], row["scope_id"]))
        if life is None:
            continue
        lasted_ms = one.get("seen_mono_ms", one["mono_ms"]) - one["mono_ms"]
        ended_ms = one.get("ended_ms") or one["wall_ms"] + lasted_ms
        if life.skips_overlap:
            spans[f"{life.name} {life.scope}"].append((one["wall_ms"], ended_ms, one["run"]))
        if life.group_limit is not None:
            spans["the group"].append((one["wall_ms"], ended_ms, one["run"]))
    most = max((life.group_limit or 1 for life in account.lives), default=1)
    for name, found in spans.items():
        limit = most if name == "the group" else 1
        found.sort()
        for from_ms, _, run in found:
            beside = [other for start, end, other in found if start <= from_ms < end]
            if len(beside) > limit:
                yield f"{name}: {beside} are active when {run} starts, limit {limit}"


def _quiet(account: Account) -> Iterator[str]:
    """Nothing is active at the end, and each end has its reason."""
    for row in account.rows:
        if row["status"] in ("queued", "running"):
            yield f"still active: {_short(row)}"
        elif row["status"] != "success" and not row["reason"]:
            yield f"without a reason: {_short(row)}"
    yield from (f"still alive: {one}" for one in account.alive)


def _remark(account: Account) -> Iterator[str]:
    """No engine ends by a defect."""
    yield from account.remarks


def _short(row: Row) -> str:
    return " ".join(f"{name}={row[name]}" for name in COLUMNS if row[name] is not None)


_CHECKS: tuple[Callable[[Account], Iterator[str]], ...] = (
    _lost, _astray, _promise, _twice, _agree, _fence, _early, _overlap, _quiet, _remark,
)  # fmt: skip
