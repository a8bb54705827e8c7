"""The line above an output: how much there is, and what of it is followed, found or selected."""

from __future__ import annotations

from bisect import bisect_right

from edgecron.base.safetext import clean
from edgecron.tui.output import OutputView
from edgecron.tui.outputlines import ERROR_MARK
from edgecron.tui.tables import Span
from edgecron.views.letters import fit
from edgecron.views.phrases import count_words, size_words

_MOST_WANTED = 24  # columns of what is searched for


def output_title(
    view: OutputView, *, is_live: bool, printed_bytes: int | None, width: int
) -> tuple[list[Span], list[Span]]:
    """What is at its left, and at its right end; `printed_bytes` where the run has ended."""
    left: list[Span] = [(" Output", "bold")]
    if view.count:
        left.append((f"  {count_words(view.count, 'line')}", "dim"))
    if printed_bytes:
        left.append((f", {size_words(printed_bytes)}", "dim"))
    if view.printed.first and width >= 80:
        left.append((f", the {view.printed.first:,} before are not kept here", "dim"))
    if view.has_errors:
        left += [(f"   {ERROR_MARK}", "warn"), (" stderr", "dim")]
    if view.left:
        left.append((f"   from column {view.left + 1}", "dim"))
    return left, [*_state(view, is_live=is_live), (" ", "")]


def _state(view: OutputView, *, is_live: bool) -> list[Span]:
    if view.selection is not None:
        count = count_words(view.selection.line_count, "line")
        return [(f"{count} selected", "accent"), (": y copies", "dim")]
    if view.wanted:
        return _search_state(view)
    if not is_live:
        return []
    if view.is_following:
        return [("following", "busy")]
    return [("paused", "warn"), (": f follows", "dim")]


def _search_state(view: OutputView) -> list[Span]:
    wanted = clean(view.wanted)
    shown = fit(wanted, _MOST_WANTED) if len(wanted) > _MOST_WANTED else wanted
    if not view.hits:
        return [(f"/{shown}", "dim"), ("  not found", "warn")]
    lines = count_words(len(view.hits), "line")
    if view.hit is None:
        return [(f"/{shown}", "dim"), (f"  in {lines}", "")]
    place = bisect_right(view.hits, view.hit)  # they are in order
    return [(f"/{shown}", "dim"), (f"  {place} of {lines}", ""), ("  n N", "accent")]
