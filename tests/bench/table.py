"""A row of the table: what was measured, against what, and whether it is within reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum

_HEADS = ("what", "measured", "reference", "ratio", "reach", "met?")


class Bound(Enum):
    MOST = "<="
    LEAST = ">="


@dataclass(frozen=True, slots=True)
class Reach:
    """What a figure is to stay within, in its own unit."""

    bound: Bound
    limit: float
    unit: str = ""

    def is_met(self, value: float) -> bool:
        return value <= self.limit if self.bound is Bound.MOST else value >= self.limit

    def __str__(self) -> str:
        return f"{self.bound.value} {self.limit:g}{' ' if self.unit else ''}{self.unit}"


def at_most(limit: float, unit: str = "") -> Reach:
    return Reach(Bound.MOST, limit, unit)


def at_least(limit: float, unit: str = "") -> Reach:
    return Reach(Bound.LEAST, limit, unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    `value` is what the reach is about: the ratio where it is None. `low` and `high` are between
    what half of the rounds lie. `figures` go to the JSON alone, `note` below the table, too.
    """

    bench: str
    what: str
    measured: str
    reference: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reach: Reach | None = None
    value: float | None = None
    figures: dict[str, object] = field(default_factory=dict)
    note: str = ""
    is_failure: bool = False  # it could not be measured, though it should have been

    @property
    def judged(self) -> float | None:
        return self.ratio if self.value is None else self.value

    @property
    def is_met(self) -> bool | None:
        """None where there is no reach, or nothing could be measured."""
        if self.reach is None or self.judged is None:
            return None
        return self.reach.is_met(self.judged)

    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.ratio is None else figure(self.ratio)
        if self.low is not None and self.high is not None:
            ratio += f" ({figure(self.low)}-{figure(self.high)})"
        met = {True: "yes", False: "NO", None: "not yet"}
        reach = "" if self.reach is None else str(self.reach)
        is_met = "" if self.reach is None else met[self.is_met]
        return self.what, self.measured, self.reference, ratio, reach, is_met

    def to_json(self) -> dict[str, object]:
        found = asdict(self)
        found["reach"] = None if self.reach is None else str(self.reach)
        found["is_met"] = self.is_met
        return found


def figure(value: float) -> str:
    """Three digits, as people read them."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def aligned(rows: Sequence[Row]) -> str:
    lines = [_HEADS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADS))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*text, *_notes(rows)])


def markdown(rows: Sequence[Row]) -> str:
    lines = [_HEADS, ("---",) * len(_HEADS), *(row.cells() for row in rows)]
    table = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]
    return "\n".join([*table, *_notes(rows)])


def _notes(rows: Iterable[Row]) -> list[str]:
    notes = [f"- {row.what}: {row.note}" for row in rows if row.note]
    return ["", *notes] if notes else []
