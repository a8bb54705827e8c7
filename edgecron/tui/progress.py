"""How far a run is, as a bar and in words."""

from __future__ import annotations

from edgecron.base.safetext import clean
from edgecron.model.choices import Status
from edgecron.model.run import Execution
from edgecron.tui.facts import Cells, Fact, Row
from edgecron.tui.tables import Span
from edgecron.views.phrases import percent_words

_DONE, _LEFT = "━", "─"  # of the same height in every font that has lines
_BAR = 20  # columns of it among facts
_WIDEST = 40
_LOOKS = {Status.RUNNING: "busy", Status.SUCCESS: "good"}


def progress_rows(run: Execution) -> list[Row]:
    """The bar, and below it what was said with it; nothing where the run has told nothing."""
    if run.progress is None:
        return []
    text = Fact("", run.progress.text)
    if run.progress.fraction is None:
        return [text._replace(label="progress")]
    return [Cells((*_bar(run, run.progress.fraction, _BAR), _percent(run)), "progress"), text]


def progress_line(run: Execution, *, width: int) -> list[Span]:
    """Both on one line, for what goes on or did not come to its end; else nothing."""
    progress = run.progress
    if progress is None or run.status is Status.SUCCESS:
        return []
    text = clean(progress.text)
    if progress.fraction is None:
        return [(" progress  ", "dim"), (text, _look(run))]
    # A third of the line at most: what is said is worth more than a long bar.
    bar = _bar(run, progress.fraction, max(8, min(_WIDEST, width // 3)))
    return [(" ", ""), *bar, _percent(run), (f"  {text}", "")]


def _bar(run: Execution, fraction: float, width: int) -> tuple[Span, ...]:
    done = int(fraction * width)
    return (_DONE * done, _look(run)), (_LEFT * (width - done), "faint")


def _percent(run: Execution) -> Span:
    assert run.progress is not None
    return f" {percent_words(run.progress):>4}", _look(run)


def _look(run: Execution) -> str:
    return _LOOKS.get(run.status, "dim")
