"""What was found, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .hunting import Found

_HEAD = ("mutation", "what is taken away", "proves", "found by", "after")


def table(found: Sequence[Found]) -> str:
    """Rows of what was taken away, who found it, and after how many tests."""
    rows = [_HEAD, *(_cells(one) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join([*lines, "", *_notes(found), _sum(found)])


def to_json(found: Sequence[Found]) -> list[dict[str, object]]:
    return [
        {
            "mutation": one.mutation.name,
            "guard": one.mutation.guard,
            "proves": list(one.mutation.proves),
            "found": one.by is not None,
            "by": one.by,
            "said": one.said,
            "runs": one.runs,
            "took_s": round(one.took_s, 1),
            "why": one.why,
        }
        for one in found
    ]


def _cells(one: Found) -> tuple[str, ...]:
    tests = "1 test" if one.runs == 1 else f"{one.runs} tests"
    by = "NOBODY" if one.by is None else one.by.rpartition("/")[2].replace(".py::", ": ")
    proves = ", ".join(one.mutation.proves)
    return one.mutation.name, one.mutation.guard, proves, by, f"{tests}, {one.took_s:.0f} s"


def _notes(found: Sequence[Found]) -> Iterator[str]:
    for one in found:
        if one.by is None:
            yield f"{one.mutation.name}: {one.why}"


def _sum(found: Sequence[Found]) -> str:
    caught = sum(one.by is not None for one in found)
    runs = sum(one.runs for one in found)
    took_s = sum(one.took_s for one in found)
    return f"{caught} of {len(found)} mutations found, by {runs} tests in {took_s:.0f} s"
