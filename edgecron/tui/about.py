"""What is under the cursor, in one line: a schedule's times in words, or why a run ran."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.base.safetext import clean
from edgecron.client.face import Face
from edgecron.client.reason_words import run_sentence
from edgecron.tui.tables import Span
from edgecron.views.phrases import job_words

if TYPE_CHECKING:
    from edgecron.model.run import Execution


def schedule_spans(client: Face, name: str) -> tuple[Span, ...]:
    """When a schedule runs, and what; nothing of one that has gone meanwhile."""
    from edgecron.triggers import describe

    try:
        schedule = client.schedule(name)
    except NotFound:
        return ()
    if schedule.trigger_error is not None:
        return ((f"broken: {clean(schedule.trigger_error)}", "bad"),)
    try:
        words = ", and ".join(describe(trigger) for trigger in client.triggers(schedule))
    except InvalidInput as error:
        return ((clean(error.message), "bad"),)
    return (
        (clean(words), ""),
        ("  ·  ", "faint"),
        (clean(job_words(schedule.spec)), "dim"),
    )


def run_spans(run: Execution, *, zone: tzinfo, now: datetime) -> tuple[Span, ...]:
    """Why a run ran and how it ended, or why it did not run."""
    return ((clean(run_sentence(run, zone=zone, now=now)), ""),)
