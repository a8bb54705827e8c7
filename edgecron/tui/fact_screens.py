"""Read-only screens of one list and its facts: notices, and engines with their machines."""

from __future__ import annotations

from datetime import datetime, tzinfo

from edgecron.base.safetext import clean
from edgecron.base.units import from_ms
from edgecron.client.engine_health import EngineState
from edgecron.client.protocol import Client
from edgecron.model.notices import Notice, NoticeStatus
from edgecron.tui.list_rows import Column, Line
from edgecron.tui.list_view import LineView
from edgecron.tui.queries import FactsScreen, RowSource, ThrottledQuery
from edgecron.tui.text_line import Fact, Row, Title
from edgecron.views.phrases import count_words, size_words
from edgecron.views.run_words import delivery_words, event_words, notice_title
from edgecron.views.times import distance, local_time, near_time

_MOST_NOTICES = 500
_NOTICE_STYLES = {
    NoticeStatus.SENT: "good",
    NoticeStatus.WAITING: "accent",
    NoticeStatus.HELD: "warn",
    NoticeStatus.GIVEN_UP: "bad",
}
_NO_NOTICES = "no notices yet: a rule [notify.NAME] sends them; see edgecron help alerts"
_NOTICE_COLUMNS = (
    Column("TIME", 12, 12),
    Column("EVENT", 14, 25, share=1),
    Column("SCHEDULE", 8, 28, share=2),
    Column("RUN", 4, 9, drop=2, is_right=True),
    Column("STATUS", 8, 8),
    Column("RULE", 6, 16, share=1, drop=1),
    Column("NOTE", 16, 60, share=3, drop=3),
)


class _NoticeSource(RowSource[Notice]):
    """Notices as lines of a list."""

    VALUES = (
        lambda one: one.at_ms,
        event_words,
        lambda one: one.schedule,
        lambda one: one.execution_id,
        lambda one: one.status.value,
        lambda one: one.rule,
        lambda one: one.error,
    )

    def key_of(self, row: Notice) -> int:
        return row.id

    def line(self, index: int) -> Line | None:
        one, now = self.rows[index], self.now
        if now is None:
            return None
        status = one.status.value.replace("_", " ")
        note = delivery_words(one, zone=self._zone, now=now)
        return Line(
            key=one.id,
            cells=(
                ((near_time(from_ms(one.at_ms), zone=self._zone, now=now), ""),),
                ((event_words(one), ""),),
                ((clean(one.schedule or ""), "bold"),),
                (("" if one.execution_id is None else str(one.execution_id), "dim"),),
                ((status, _NOTICE_STYLES.get(one.status, "")),),
                ((clean(one.rule), "dim"),),
                ((clean(note), "dim"),),
            ),
        )


def notice_rows(one: Notice, *, zone: tzinfo, now: datetime) -> list[Row]:
    """Return the facts of a notice: its text, and how it was sent."""
    detail = one.detail
    rows: list[Row] = [Title(clean(notice_title(one)))]
    words = (detail.get("sentence"), detail.get("trouble"))
    rows += [Fact("" if number else "text", str(text)) for number, text in enumerate(words) if text]
    tail = detail.get("output_tail")
    if isinstance(tail, list) and tail:
        rows.append(Fact("output", "\n".join(str(line) for line in tail)))
    rows.append(Title("Delivery"))
    status = one.status.value.replace("_", " ")
    sent = "" if one.sent_ms is None else f" {local_time(from_ms(one.sent_ms), zone=zone)}"
    rows.append(Fact("status", f"{status}{sent}", _NOTICE_STYLES.get(one.status, "")))
    if one.due_ms is not None:
        rows.append(Fact("next try", near_time(from_ms(one.due_ms), zone=zone, now=now)))
    rows.append(Fact("tries", str(one.tries)))
    if one.error is not None:
        rows.append(Fact("last error", one.error, "bad"))
    rows.append(Fact("rule", one.rule))
    if one.message is not None:
        rows.append(Fact("message", one.message))
    return rows


class NoticeScreen(FactsScreen):
    """The newest notices of the database."""

    PLACE = "notices"

    def __init__(self) -> None:
        super().__init__()
        self._query: ThrottledQuery[list[Notice]] = ThrottledQuery(self, "notices")

    def make_list(self) -> LineView:
        self._source = _NoticeSource(zone=self.app.zone)
        return LineView(self._source, _NOTICE_COLUMNS, id="notices", empty=_NO_NOTICES)

    def begin(self) -> None:
        self.show_title("notices")
        self._read()

    def on_changed(self) -> None:
        self._read()

    def _read(self) -> None:
        def find(client: Client) -> list[Notice]:
            return client.notices(limit=_MOST_NOTICES)

        self._query.ask(find, self._show)

    def _show(self, found: list[Notice]) -> None:
        self._source.show(found, now=self.app.now())
        self.query_one(LineView).source_changed()
        waiting = sum(one.due_ms is not None for one in found)
        shown = count_words(len(found), "notice")
        self.show_summary((f"{shown}, {waiting} not sent yet", "dim"))
        self.show_facts()

    def rows(self) -> list[Row]:
        notices = self._source.rows
        if not notices:
            return []
        one = notices[min(self.query_one(LineView).cursor, len(notices) - 1)]
        return notice_rows(one, zone=self.app.zone, now=self.app.now())


_READ_ENGINES_S = 5.0  # an engine that died commits nothing, so engines are polled
_HERE = "this machine"  # of an engine of a file
_ENGINE_STYLES = {"running": "good", "drained": "warn", "stopping": "warn", "stalled": "warn"}
_ENGINE_COLUMNS = (
    Column("MACHINE", 10, 30, share=2),
    Column("STATE", 8, 12),
    Column("RUNNING", 8, 12),
    Column("SEEN", 8, 11, drop=2),
    Column("LABELS", 8, 40, share=3, drop=1),
    Column("STARTED", 12, 12, drop=3),
    Column("PID", 5, 9, drop=4, is_right=True),
)


class _EngineSource(RowSource[EngineState]):
    """Engines as lines of a list."""

    VALUES = (
        lambda one: one.info.name,
        lambda one: one.word,
        lambda one: one.running,
        lambda one: one.seen_at,
        lambda one: ", ".join(one.info.labels) or None,
        lambda one: one.info.started_at,
        lambda one: one.info.pid,
    )

    def key_of(self, row: EngineState) -> int:
        return row.info.id

    def line(self, index: int) -> Line | None:
        one, now = self.rows[index], self.now
        if now is None:
            return None
        seen = "here" if one.seen_at is None else distance(one.seen_at, now)
        return Line(
            key=one.info.id,
            cells=(
                ((clean(one.info.name), "bold") if one.info.name else (_HERE, "dim"),),
                ((one.word, _ENGINE_STYLES.get(one.word, "bad")),),
                ((one.load, "busy" if one.running else "dim"),),
                ((seen, "dim"),),
                ((clean(", ".join(one.info.labels)), ""),),
                ((near_time(one.info.started_at, zone=self._zone, now=now), "dim"),),
                ((str(one.info.pid), "dim"),),
            ),
        )


def engine_rows(one: EngineState, *, zone: tzinfo, now: datetime) -> list[Row]:
    """Return the facts of an engine: how it is doing, what it takes, and since when."""
    info = one.info
    rows: list[Row] = [
        Title(clean(f"{info.name or 'engine'}, process {info.pid}")),
        Fact("state", one.word, _ENGINE_STYLES.get(one.word, "bad")),
        Fact("why", clean(one.why)),
        Fact("running", one.load),
        Fact("labels", clean(", ".join(info.labels))),
        Fact("takes", clean(", ".join(info.base_queues))),
    ]
    if info.drained_at is not None:
        undo = f"edgecron engine resume {info.name or info.pid}"
        rows.append(Fact("drained", near_time(info.drained_at, zone=zone, now=now)))
        rows.append(Fact("to undo", clean(undo), "warn"))
    if one.seen_at is not None:
        rows.append(Fact("last seen", distance(one.seen_at, now)))
        rows.append(
            Fact("woken by", "notices of the server (LISTEN)")
            if one.polls_s is None
            else Fact("looks", f"every {one.polls_s:g} s: no notices reach it", "warn")
        )
    rows.append(Fact("started", near_time(info.started_at, zone=zone, now=now)))
    rows.append(Fact("version", info.version))
    if info.written_per_day is not None:
        rows.append(Fact("writes", f"{size_words(info.written_per_day)} a day"))
    return [row for row in rows if not isinstance(row, Fact) or row.text]


class EngineScreen(FactsScreen):
    """The engines of the database, those of other machines too."""

    PLACE = "engines"

    def make_list(self) -> LineView:
        self._source = _EngineSource(zone=self.app.zone)
        here = f"{key} here, or " if (key := self.app.engine_key) else ""
        empty = f"no engine is running: start one by {here}edgecron daemon"
        return LineView(self._source, _ENGINE_COLUMNS, id="engines", empty=empty)

    def begin(self) -> None:
        self.show_title("engines and machines")
        self.set_interval(_READ_ENGINES_S, self._read_again)
        self._read()

    def on_changed(self) -> None:
        self._read()

    def _read_again(self) -> None:
        if self.is_current:
            self._read()

    def _read(self) -> None:
        def find(client: Client) -> list[EngineState]:
            return client.engines()

        self.ask("engines", find, self._show)

    def _show(self, found: list[EngineState]) -> None:
        found = sorted(found, key=lambda one: (one.info.name or "", one.info.id))
        self._source.show(found, now=self.app.now())
        self.query_one(LineView).source_changed()
        machines = len({one.info.machine for one in found})
        running = sum(one.running or 0 for one in found)
        words = f"{count_words(len(found), 'engine')} on {count_words(machines, 'machine')}"
        words += f", {count_words(running, 'run')} running"
        self.show_summary((words, "dim"))
        self.show_facts()

    def rows(self) -> list[Row]:
        states = self._source.rows
        if not states:
            return []
        one = states[min(self.query_one(LineView).cursor, len(states) - 1)]
        return engine_rows(one, zone=self.app.zone, now=self.app.now())
