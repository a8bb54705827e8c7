"""The machine's other schedules: what cron, systemd and launchd run when. Read-only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from math import inf
from pathlib import Path

from textual.timer import Timer
from textual.widget import Widget

from edgecron.base.errors import EdgecronError
from edgecron.base.safetext import clean
from edgecron.client.machine_scan import (
    MachineTimeline,
    TimedJob,
    failure_words,
    find_starts,
    pile_up_words,
    read_timeline,
)
from edgecron.triggers import parse_trigger
from edgecron.triggers.words import describe
from edgecron.tui.list_rows import Column, Line
from edgecron.tui.list_view import LineView
from edgecron.tui.queries import FactsScreen, RowSource
from edgecron.tui.text_line import Fact, Row, Span, Title, pace_of, whole_parts
from edgecron.tui.upcoming import UpcomingBar, UpcomingFires
from edgecron.views.phrases import count_words
from edgecron.views.times import distance, full_time, near_time

_LONGEST_S = 60.0
_MOST_PILE_UPS = 2  # of a job
_READ_AGAIN = timedelta(minutes=1)
_COLUMNS = (
    Column("IN", 10, 11),
    Column("TIME", 12, 12, drop=2),
    Column("NAME", 12, 28, share=2),
    Column("ADOPT", 5, 5),
    Column("SOURCE", 20, 40, share=2, drop=1),
    Column("JOB", 20, 80, share=3, drop=3),
)


class _JobSource(RowSource[TimedJob]):
    """The jobs of a machine as lines of a list."""

    VALUES = (
        lambda one: one.next_at,
        lambda one: one.next_at,
        lambda one: one.job.name,
        lambda one: one.job.spec is None,
        lambda one: (one.job.source, one.job.line or 0),
        lambda one: one.job.command,
    )

    def key_of(self, row: TimedJob) -> int:
        return hash((row.job.source, row.job.line, row.job.name))

    def line(self, index: int) -> Line | None:
        one, job, now = self.rows[index], self.rows[index].job, self.now
        if one.next_at is None or now is None:
            head: tuple[Span, ...] = ((_rhythm(one), "dim"),)
            time = ""
        else:
            head = ((distance(one.next_at, now), "accent"),)
            time = near_time(one.next_at, zone=self._zone, now=now)
        can_adopt = ("yes", "good") if job.spec is not None else ("no", "warn")
        name_style = "bad" if one.failure is not None else "bold" if job.is_enabled else "dim"
        return Line(
            key=self.keys[index],
            cells=(
                head,
                ((time, ""),),
                ((clean(job.name), name_style),),
                (can_adopt,),
                ((clean(_source_words(one)), "dim"),),
                ((clean(job.command), "dim"),),
            ),
        )

    def nearest_s(self, first: int, last: int) -> float:
        now = self.now
        times = [one.next_at for one in self.rows[first:last]]
        if now is None:
            return inf
        return min((abs((at - now).total_seconds()) for at in times if at is not None), default=inf)


def _rhythm(one: TimedJob) -> str:
    """Say in a word why a job has no next time."""
    if not one.job.is_enabled:
        return "off"
    first = next(iter(one.job.triggers), "")
    return "at boot" if first == "on boot" else "-"


def _source_words(one: TimedJob) -> str:
    job = one.job
    return job.source if job.line is None else f"{job.source}:{job.line}"


def job_rows(one: TimedJob, found: MachineTimeline, *, zone: tzinfo, now: datetime) -> list[Row]:
    """Return the facts of a job: whether it can be adopted first, then its times."""
    job = one.job
    rows: list[Row] = [Title(clean(job.name))]
    if job.spec is not None:
        rows.append(Fact("to adopt", f"edgecron adopt {job.name}", "good"))
    else:
        rows.append(Fact("can't adopt", job.reason or "", "warn"))
    if not job.is_enabled:
        rows.append(Fact("off", "its program does not start it by time"))
    if one.next_at is not None:
        at = full_time(one.next_at, job.timezone, zone=zone)
        rows.append(Fact("next", f"{at}   {distance(one.next_at, now)}"))
    for number, text in enumerate(job.triggers):
        words = describe(parse_trigger(text, job.timezone, job.name))
        rows.append(Fact("" if number else "when", f"{text}   {words}"))
    rows += [Fact("job", job.command), Fact("source", f"{_source_words(one)} ({job.origin})")]
    if job.is_enabled and job.is_caught_up is not None:
        words = "the job runs later" if job.is_caught_up else "the job is not run later"
        rows.append(Fact("asleep or off", words, "" if job.is_caught_up else "warn"))
    if one.failure is not None:
        rows.append(Fact("failed", failure_words(one.failure, zone=zone, now=now), "bad"))
    rows += [Fact("to know", note, "warn") for note in job.notes]
    rows += [
        Fact("same minute", pile_up_words(pile_up, zone=zone), "warn")
        for pile_up in [one for one in found.pile_ups if job.name in one.names][:_MOST_PILE_UPS]
    ]
    return rows


def summary_parts(found: MachineTimeline) -> list[list[Span]]:
    """Say how many jobs there are, and how many of them edgecron can adopt."""
    enabled = [one.job for one in found.jobs if one.job.is_enabled]
    able = sum(1 for job in enabled if job.spec is not None)
    off = len(found.jobs) - len(enabled)
    missed = sum(1 for job in enabled if job.is_caught_up is False)
    parts: list[list[Span]] = [[(f"{count_words(len(enabled), 'job')}, {able} can be adopted", "")]]
    if found.unread:
        parts.append([(f"{count_words(len(found.unread), 'file')} not read", "warn")])
    for count, words in (
        (off, "off"),
        (missed, "not run later if the machine sleeps"),
        (found.moved_count, "moved to edgecron"),
    ):
        if count:
            parts.append([(f"{count} {words}", "")])
    return parts


class MachineScreen(FactsScreen):
    """The other schedules of a machine, whose files lie below a root folder."""

    PLACE = "machine"
    DEFAULT_CSS = """
    MachineScreen #machine-bar { margin-top: 1; display: none; }
    MachineScreen.-tall #machine-bar { display: block; }
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._found: MachineTimeline | None = None
        self._read_at: datetime | None = None
        self._timer: Timer | None = None

    def make_list(self) -> LineView:
        self._source = _JobSource(zone=self.app.zone)
        empty = "no jobs of cron, systemd or launchd were found"
        return LineView(self._source, _COLUMNS, id="machine", empty=empty)

    def compose_below(self) -> Sequence[Widget]:
        return (UpcomingBar(id="machine-bar"),)

    def begin(self) -> None:
        self.show_title("other schedules of this machine")
        self.show_summary(("reading crontabs and units ...", "dim"))
        self._read()

    def _read(self) -> None:
        self._read_at = self.app.now()
        self.run_worker(self._scan(), exclusive=True)

    async def _scan(self) -> None:
        # Not on a database thread: the journal can take seconds.
        try:
            found = await asyncio.to_thread(read_timeline, self._root, self.app.now())
        except EdgecronError as error:
            self.app.show_error(error)
            return
        self._found = found
        starts = find_starts([one.job for one in found.jobs], self.app.now())
        self.query_one(UpcomingBar).show_fires(
            UpcomingFires(starts), now=self.app.now(), zone=self.app.zone
        )
        self._source.show(found.jobs, now=self.app.now())
        self.query_one(LineView).source_changed()
        self.show_summary(*whole_parts(summary_parts(found), self.size.width - 2))
        self.show_facts()
        self._tick()

    def _tick(self) -> None:
        """Redraw distances, and again when their words change; read again what has passed."""
        if self._found is None or self._read_at is None or not self.is_current:
            return
        now = self._source.now = self.app.now()
        first = next((one.next_at for one in self._found.jobs if one.next_at is not None), None)
        if first is not None and first <= now and now - self._read_at >= _READ_AGAIN:
            self._read()
        pace_s = min(_LONGEST_S, pace_of(self._source.nearest_s(0, 1)))
        pace_s = min(pace_s, self.query_one(LineView).tick())
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(pace_s, self._tick)

    def on_screen_resume(self) -> None:
        self._tick()

    def rows(self) -> list[Row]:
        """Return the facts of the job under the cursor, then those of the machine."""
        found, view = self._found, self.query_one(LineView)
        if found is None or not found.jobs:
            return []
        zone, now = self.app.zone, self.app.now()
        rows = job_rows(self._source.rows[view.cursor], found, zone=zone, now=now)
        if found.pile_ups or found.unread:
            rows.append(Title("This machine"))
        rows += [
            Fact("" if number else "same minute", pile_up_words(one, zone=zone))
            for number, one in enumerate(found.pile_ups)
        ]
        rows += [
            Fact("" if number else "not read", text, "warn")
            for number, text in enumerate(found.unread)
        ]
        return rows
