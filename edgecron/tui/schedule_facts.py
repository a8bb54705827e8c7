"""Facts of one schedule for its screen, read in one question, and its changes: laid out as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from edgecron.base.errors import NotFound
from edgecron.base.safetext import clean
from edgecron.base.values import dataclass
from edgecron.base.zones import LOCAL, local_zone_name
from edgecron.client.protocol import Client
from edgecron.client.why import idle_sentence, trigger_lines
from edgecron.formats.document_tables import JOBS, TRIGGERS, Table, default_of, schedule_table
from edgecron.model.choices import Status
from edgecron.model.listing import (
    Recent,
    RunChoice,
    ScheduleLine,
    ScheduleState,
    standing_of,
    state_of,
)
from edgecron.model.options import LISTS, OPTIONS, POLICIES
from edgecron.model.schedule import Act, Change, Schedule
from edgecron.planning.forecast import UpcomingFire
from edgecron.tui.actions import WordsFront
from edgecron.tui.dialogs import Overlay
from edgecron.tui.keys import key_words
from edgecron.tui.schedule_list import last_spans, next_spans
from edgecron.tui.text_line import Cells, Fact, Row, ScrolledLines, Span, TextLine, Title
from edgecron.tui.themes import STATE_GLYPHS, STATUS_GLYPHS
from edgecron.tui.upcoming import far_span
from edgecron.views.changes import act_words, author_words, change_lines, mask_change
from edgecron.views.outlook import Outlook
from edgecron.views.phrases import (
    CHANGED,
    CREATED,
    REMOVED,
    WARNING,
    excluded_words,
    folded,
    moved_words,
)
from edgecron.views.schedule_words import (
    ALWAYS_SHOWN,
    bound_lines,
    job_lines,
    pause_lines,
    present_lines,
    record_lines,
)
from edgecron.views.times import local_time, near_time, weekday_time

NEWEST = 3  # changes on the screen of a schedule
MOST_CHANGES = 200  # changes in the list
_STYLES = {Act.ADD: "good", Act.REMOVE: "bad", Act.EDIT: "warn", Act.UNDO: "accent"}
_GLYPH_STYLES = {CREATED: "good", CHANGED: "warn", REMOVED: "bad"}
_INDENT = 8


def change_rows(
    changes: Sequence[Change], *, labels: Mapping[str, tuple[str, ...]], zone: tzinfo, now: datetime
) -> list[Row]:
    """Return a line for each change: its revision, its time, what it did and who made it."""
    if not changes:
        return []
    rows: list[Row] = [Title("Changes", _key_note("changes", "all", labels=labels))]
    for change in changes:
        lines = change_lines(mask_change(change), zone=zone, now=now)
        what = ", ".join(line.text for line in lines) if change.act is not Act.ADD else ""
        rows.append(Cells((*_head(change, zone=zone, now=now), (f"  {clean(what)}", "dim"))))
    return rows


def _key_note(
    action: str, words: str, *, labels: Mapping[str, tuple[str, ...]]
) -> tuple[Span, ...]:
    """Return the key of an action, if it has one, and words to click."""
    keys = [(f"{key_words(label)} ", f"accent@screen.{action}") for label in labels[action][:1]]
    return (*keys, (words, f"dim@screen.{action}"))


def _head(change: Change, *, zone: tzinfo, now: datetime) -> list[Span]:
    return [
        (f"{change.revision:>4}  ", "dim"),
        (f"{near_time(change.at, zone=zone, now=now):<12}  ", ""),
        (f"{act_words(change):<9}", _STYLES.get(change.act, "")),
        (f"  {clean(author_words(change))}", "dim"),
    ]


def all_lines(
    changes: Sequence[Change], *, zone: tzinfo, now: datetime, width: int
) -> list[list[Span]]:
    """Return every change with its differences, folded to a width."""
    lines: list[list[Span]] = []
    for change in changes:
        if lines:
            lines.append([])
        lines.append(_head(change, zone=zone, now=now))
        for glyph, text in change_lines(mask_change(change), zone=zone, now=now):
            sign = glyph.letter
            for part in folded(clean(text), max(8, width - _INDENT)):
                span = (f"{sign} {part}", _GLYPH_STYLES[glyph])
                lines.append([(" " * (_INDENT - 2), ""), span])
                sign = " "
        if not change.is_complete:
            lines.append([(" " * _INDENT, ""), ("retention removed the definition", "dim")])
    return lines


class ChangeList(Overlay[None]):
    """Show all changes of a schedule, to scroll. Escape and q leave it."""

    DEFAULT_CSS = """
    ChangeList { align: center middle; }
    ChangeList #box {
        width: 100; max-width: 98%; height: auto; padding: 0 1;
        border: round $border; border-title-color: $primary; background: $surface;
        border-subtitle-color: $muted;
    }
    ChangeList ScrolledLines { height: auto; scrollbar-size-vertical: 1; background: $surface; }
    """

    def __init__(
        self, name: str, changes: Sequence[Change], *, zone: tzinfo, now: datetime
    ) -> None:
        super().__init__()
        self._schedule = name
        self._changes = changes
        self._zone, self._now = zone, now

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Content(f"Changes of {clean(self._schedule)}")
            box.border_subtitle = Content(
                clean(f"edgecron undo {self._schedule} REVISION returns to a revision   esc back")
            )
            with ScrolledLines():
                yield TextLine(id="changes")

    def on_mount(self) -> None:
        self.query_one(ScrolledLines).focus()

    def on_resize(self) -> None:
        width = min(100, int(self.size.width * 0.98)) - 5
        lines = all_lines(self._changes, zone=self._zone, now=self._now, width=width)
        shown = self.query_one("#changes", TextLine)
        shown.show(*(lines or [[("no changes are recorded", "dim")]]))
        shown.styles.height = max(1, len(lines))
        self.query_one(ScrolledLines).styles.max_height = max(3, self.size.height - 4)

    def key_q(self, event: events.Key) -> None:
        event.stop()
        self.action_leave()

    def key_c(self, event: events.Key) -> None:
        event.stop()
        self.action_leave()


UPCOMING = 10
_MOST_BARS = 60  # runs in the chart of durations
_ENDED = RunChoice(statuses=(Status.SUCCESS, Status.FAILED, Status.CANCELLED, Status.INTERRUPTED))
_SHOWN_ELSEWHERE = {*TRIGGERS, *JOBS, "description", "timezone", "queue", "enabled"}
# Conditions and windows are shown with the bounds.
_POLICIES = tuple(one.name for one in POLICIES if one.type not in LISTS)
_AWAY, _VALUE = 10, 12  # columns of a distance, and of a value before its explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetail:
    """Everything the screen shows of a schedule.

    `idle` says why no run is to come ('' if one is). `triggers` are (text, words). `recent` are the
    last ended runs, `changes` the last changes, both newest first.
    """

    outlook: Outlook
    triggers: tuple[tuple[str, str], ...]
    idle: str
    recent: tuple[Recent, ...]
    changes: tuple[Change, ...]

    @property
    def schedule(self) -> Schedule:
        return self.outlook.schedule


def read_detail(
    client: Client,
    name: str,
    *,
    schedule_id: int | None,
    zone: tzinfo,
) -> ScheduleDetail | None:
    """Read a schedule; by its id if it was renamed. None if it is gone."""
    outlook = _find_outlook(client, name)
    if schedule_id is not None and (outlook is None or outlook.schedule.id != schedule_id):
        lines = client.schedule_lines([schedule_id])
        outlook = _find_outlook(client, lines[0].standing.name) if lines else None
    if outlook is None:
        return None
    schedule, idle = outlook.schedule, ""
    if not outlook.upcoming:
        idle = idle_sentence(WordsFront(client), outlook, zone=zone, now=client.now())
    ended = client.history(schedule.name, choice=_ENDED, limit=_MOST_BARS)
    return ScheduleDetail(
        outlook=outlook,
        triggers=tuple(trigger_lines(client, schedule)),
        idle=idle,
        recent=tuple(
            Recent(run.status.value, run.duration_ms) for run in ended if run.started_at is not None
        ),
        changes=tuple(client.changes(schedule.name, limit=NEWEST)),
    )


def _find_outlook(client: Client, name: str) -> Outlook | None:
    try:
        return client.outlook(name, upcoming=UPCOMING)
    except NotFound:
        return None


def standing_parts(found: ScheduleDetail, *, zone: tzinfo, now: datetime) -> list[tuple[Span, ...]]:
    """Return its last run, its next run, and its state as a glyph and a word."""
    line = _line(found)
    is_trusted = found.outlook.is_clock_trusted
    next_span, _ = next_spans(line, now=now, zone=zone, is_clock_trusted=is_trusted)
    last = last_spans(line.standing.last_status, line.standing.last_run_at, now=now)
    parts: list[tuple[Span, ...]] = [(("last ", "dim"), *last)]
    if found.outlook.upcoming:
        parts.append((("next ", "dim"), next_span))
    word, (glyph, style) = _state(found, now=now)
    return [*parts, ((f"{glyph} {word}", style),)]


def _state(found: ScheduleDetail, *, now: datetime) -> tuple[str, Span]:
    """Return the state of its active runs or its own: a word, and a styled glyph."""
    state = state_of(standing_of(found.schedule), now=now)
    active = [run.execution.status for run in found.outlook.active]
    if state is ScheduleState.VANISHED:
        active = []  # No engine will take its queued runs.
    for status in (Status.RUNNING, Status.QUEUED):
        if status in active:
            return status.value, STATUS_GLYPHS[status.value]
    return state.value, STATE_GLYPHS[state.value]


def _line(found: ScheduleDetail) -> ScheduleLine:
    schedule = found.schedule
    return ScheduleLine(
        id=schedule.id,
        standing=standing_of(schedule),
        when=", ".join(schedule.spec.triggers),
        timezone=schedule.spec.timezone,
        group=schedule.spec.group,
        recent=(),
        active=found.outlook.active_count,
    )


def upcoming_rows(found: ScheduleDetail, *, most: int, zone: tzinfo, now: datetime) -> list[Row]:
    """Return when it runs, at most so many of its next runs, and its active runs."""
    outlook, spec = found.outlook, found.schedule.spec
    is_broken = found.schedule.trigger_error is not None
    rows: list[Row] = []
    if spec.description:
        rows.append(Fact("description", spec.description))
    for number, (text, words) in enumerate(found.triggers):
        style = "bad" if is_broken else ""
        rows.append(Fact("" if number else "when", f"{text}   {words}", style))
    rows.append(Fact("zone", _zone_words(spec.timezone)))
    rows.append(Title("Next runs"))
    rows += [Fact(label, text, "warn") for label, text in pause_lines(outlook, zone=zone, now=now)]
    has_several = len(found.triggers) > 1
    rows += [
        _fire_row(fire, outlook, zone=zone, now=now, has_source=has_several)
        for fire in outlook.upcoming[:most]
    ]
    rows += [
        Fact("" if number else "excluded", excluded_words(one, spec.timezone, zone=zone), "dim")
        for number, one in enumerate(outlook.excluded)
    ]
    if found.idle:
        rows.append(Fact("", found.idle, "bad" if is_broken else "warn"))
    rows += [Fact(f"{WARNING.letter} clocks", text, "warn") for text in outlook.changes]
    rows.append(Title("Now"))
    for label, text in present_lines(outlook, doctor="edgecron doctor", zone=zone, now=now):
        rows.append(Fact(label, text, {"held": "bad", "active": "busy"}.get(label, "")))
    return rows


def _zone_words(timezone: str | None) -> str:
    if timezone == LOCAL:
        return f"local  ({local_zone_name()} here)"
    return timezone or "UTC"


def _fire_row(
    fire: UpcomingFire, outlook: Outlook, *, zone: tzinfo, now: datetime, has_source: bool
) -> Cells:
    time = weekday_time(fire.due_at, outlook.schedule.spec.timezone, zone=zone)
    far, style = far_span(fire.due_at, now, is_clock_trusted=outlook.is_clock_trusted)
    notes = [clean(fire.source)] if has_source and fire.source else []
    if fire.is_moved:
        notes.append(moved_words(fire, zone=zone, now=now))
    return Cells(((f"{far:<{_AWAY}}  ", style), (time, ""), (f"  {', '.join(notes)}", "dim")))


def definition_rows(
    found: ScheduleDetail,
    *,
    is_full: bool,
    labels: Mapping[str, tuple[str, ...]],
    zone: tzinfo,
    now: datetime,
) -> list[Row]:
    """Return its job, its policies and its records; with every field if `is_full`.

    `labels` are the keys of each action.
    """
    schedule = found.schedule
    table = schedule_table(schedule)
    rows: list[Row] = [Title("Job")]
    rows += [Fact(label, text) for label, text in job_lines(schedule)]
    toggle = "main fields" if is_full else "all fields"
    rows.append(Title("Policies", _key_note("fields", toggle, labels=labels)))
    rows += [Fact(label, text) for label, text in bound_lines(schedule, zone=zone)]
    rows += [Fact(_label(key), _text(table[key])) for key in _POLICIES if key in table]
    rows += _rest_rows(table) if is_full else [_folded_row(table)]
    rows.append(Title("History"))
    rows += [
        Fact(label, text, "bad" if label == "last error" else "")
        for label, text in record_lines(schedule, zone=zone, now=now)
    ]
    if is_full:
        rows += _kept_rows(schedule, zone=zone)
    return rows + change_rows(found.changes, labels=labels, zone=zone, now=now)


def _label(key: str) -> str:
    return key.replace("_", " ")


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def _rest_rows(table: Table) -> list[Row]:
    """Return every option it does not set, with its default and its help."""
    rows: list[Row] = []
    for key, option in OPTIONS.items():
        if key not in table and key not in _SHOWN_ELSEWHERE:
            rows.append(
                Fact(_label(key), f"{_text(default_of(key)):<{_VALUE}}  {option.help}", "dim")
            )
    return rows


def _folded_row(table: Table) -> Fact:
    rest = [key for key in _POLICIES if key not in table]
    shown = [f"{_label(key)} {_text(default_of(key))}" for key in ALWAYS_SHOWN if key in rest]
    more = len(rest) - len(shown)
    return Fact("defaults", ", ".join([*shown, f"and {more} more"]), "dim")


def _kept_rows(schedule: Schedule, *, zone: tzinfo) -> list[Row]:
    made, changed = (local_time(at, zone=zone) for at in (schedule.created_at, schedule.updated_at))
    rows = [("made", made), ("changed", f"{changed}, revision {schedule.revision}")]
    if schedule.last_success_at is not None:
        rows.append(("success", f"last at {local_time(schedule.last_success_at, zone=zone)}"))
    rows.append(("queue", schedule.spec.queue))
    return [Fact(label, text, "dim") for label, text in rows]
