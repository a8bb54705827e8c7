"""Notices and whether they were sent, newest first. Read-only."""

from __future__ import annotations

from datetime import datetime, tzinfo

from edgecron.base.safetext import clean
from edgecron.base.units import from_ms
from edgecron.client.protocol import Client
from edgecron.model.notices import Notice, NoticeStatus
from edgecron.tui.list_rows import Column, Line
from edgecron.tui.list_view import LineView
from edgecron.tui.queries import FactsScreen, RowSource, ThrottledQuery
from edgecron.tui.text_line import Fact, Row, Title
from edgecron.views.notice_words import delivery_words, event_words, notice_title
from edgecron.views.phrases import count_words
from edgecron.views.times import local_time, near_time

_MOST = 500
_STYLES = {
    NoticeStatus.SENT: "good",
    NoticeStatus.WAITING: "accent",
    NoticeStatus.HELD: "warn",
    NoticeStatus.GIVEN_UP: "bad",
}
_COLUMNS = (
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
                ((status, _STYLES.get(one.status, "")),),
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
    rows.append(Fact("status", f"{status}{sent}", _STYLES.get(one.status, "")))
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
        return LineView(self._source, _COLUMNS, id="notices", empty="no notices yet")

    def begin(self) -> None:
        self.show_title("notices")
        self._read()

    def on_changed(self) -> None:
        self._read()

    def _read(self) -> None:
        def find(client: Client) -> list[Notice]:
            return client.notices(limit=_MOST)

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
            return [Fact("", "a rule [notify.NAME] sends notices: edgecron help alerts", "dim")]
        one = notices[min(self.query_one(LineView).cursor, len(notices) - 1)]
        return notice_rows(one, zone=self.app.zone, now=self.app.now())
