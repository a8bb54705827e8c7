"""Failures by schedule and error, newest first, until a person acknowledges them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from edgecron.base.errors import EdgecronError, NotSupported
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple, sha256
from edgecron.client.protocol import Client
from edgecron.client.why import last_line
from edgecron.model.choices import Reason, Status
from edgecron.model.run import Execution
from edgecron.tui.action_screen import ActionScreen
from edgecron.tui.dialogs import ConfirmDialog
from edgecron.tui.keys import bindings
from edgecron.tui.list_rows import Column, Line, Targets
from edgecron.tui.list_view import LineView
from edgecron.tui.output_tail import OutputTail
from edgecron.tui.queries import FactsScreen, RowSource, ThrottledQuery
from edgecron.tui.text_line import Fact, Row, Title
from edgecron.views.phrases import count_words, failure_words, named_words
from edgecron.views.run_words import run_sentence
from edgecron.views.times import local_time, near_time

PAGE = 500  # failed runs that are read at a time
FIRST_READ = 10 * PAGE  # older ones are read when the cursor reaches the last line
_FAILED = (Status.FAILED, Status.INTERRUPTED)
_FACTS, _WIDE_FACTS = 10, 14  # rows of the facts below and beside the list, the last one blank
_NO_FAILURES = "no failures: a failed run is listed here until you acknowledge it"
_MOST_LISTED = 12  # schedules in a question
_MOST_LINE = 200  # letters of a line of output
_NUMBER = re.compile(r"\d+")
_COLUMNS = (
    Column("SCHEDULE", 20, 28, share=2),
    Column("FAILURES", 8, 8, is_right=True),
    Column("NEWEST", 12, 12),
    Column("ERROR", 20, 60, share=3),
    Column("SINCE", 12, 12, drop=2),
    Column("RUN", 4, 9, drop=1, is_right=True),
)


class FailureGroup(NamedTuple):
    """Failed runs of one schedule with the same error; `error` identifies it.

    `ids` are those of its runs, newest first.
    """

    error: str
    words: str
    newest: Execution
    oldest: Execution
    ids: tuple[int, ...]

    @property
    def key(self) -> int:
        """The key of its line, which stays when the same error comes again."""
        text = f"{self.newest.schedule_id} {self.error}"
        return int(sha256(text.encode()).hexdigest()[:12], 16)


class Failures(NamedTuple):
    """Open failures, newest first. `unread_before` is None if all failed runs were read.

    `lack` says why nothing is known of acknowledgements; empty if they are known.
    """

    groups: tuple[FailureGroup, ...] = ()
    unread_before: int | None = None
    lack: str = ""


def error_of(run: Execution) -> str:
    """Return the error of a failed run in words: its reason, exit code or signal, and message."""
    reason = run.reason
    words = "" if reason in (None, Reason.EXIT, Reason.SIGNAL) else f"{reason.value}: "
    message = failure_words(run)
    if not message:
        message = f"exit code {run.exit_code}" if run.exit_code is not None else run.status.value
    return f"{words}{message}"


def group_failures(
    runs: Iterable[Execution], acknowledged: Mapping[tuple[int, str], int]
) -> tuple[FailureGroup, ...]:
    """Group failed runs, newest first, without those up to the acknowledged run of their error.

    Errors that differ only by numbers in their messages are the same; exit codes count.
    """
    groups: dict[tuple[int, str], FailureGroup] = {}
    ids: dict[tuple[int, str], list[int]] = {}
    for run in runs:
        words = error_of(run)
        text = f"{run.exit_code} {_NUMBER.sub('#', words)}"
        error = sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        key = run.schedule_id, error
        if run.id > acknowledged.get(key, 0):
            newest = groups.setdefault(key, FailureGroup(error, words, run, run, ()))
            groups[key] = newest._replace(oldest=run)
            ids.setdefault(key, []).append(run.id)
    return tuple(group._replace(ids=tuple(ids[key])) for key, group in groups.items())


def read_failures(client: Client, *, most: int = FIRST_READ) -> Failures:
    """Read the newest failed runs, at most `most`, without those that a person acknowledged."""
    runs: list[Execution] = []
    unread_before: int | None = None
    while len(runs) < most:
        page = client.run_page(statuses=_FAILED, before_id=unread_before, limit=PAGE)
        runs += page.runs
        ids = [run.id for run in page.runs] + page.unreadable
        unread_before = min(ids) if len(ids) == PAGE else None
        if unread_before is None:
            break
    schedules = sorted({run.schedule_id for run in runs})
    try:
        found = client.acknowledged(schedules) if schedules else []
    except NotSupported as error:
        return Failures(group_failures(runs, {}), unread_before, lack=error.message)
    known = {(one.schedule_id, one.error): one.execution_id for one in found}
    return Failures(group_failures(runs, known), unread_before)


class _FailureSource(RowSource[FailureGroup]):
    """Groups of failures as lines of a list."""

    VALUES = (
        lambda group: group.newest.schedule,
        lambda group: len(group.ids),
        lambda group: _began(group.newest),
        lambda group: group.words,
        lambda group: _began(group.oldest),
        lambda group: group.newest.id,
    )

    def key_of(self, row: FailureGroup) -> int:
        return row.key

    def line(self, index: int) -> Line | None:
        group, now = self.rows[index], self.now
        if now is None:
            return None
        newest, oldest = (_began(run) for run in (group.newest, group.oldest))
        return Line(
            key=group.key,
            cells=(
                ((clean(group.newest.schedule), "bold"),),
                ((f"{len(group.ids):,}", "bad"),),
                ((near_time(newest, zone=self._zone, now=now), ""),),
                ((clean(group.words), ""),),
                ((near_time(oldest, zone=self._zone, now=now), "dim"),),
                ((str(group.newest.id), "dim"),),
            ),
        )


def _began(run: Execution) -> datetime:
    return run.started_at or run.plan_at


class FailureScreen(FactsScreen, ActionScreen[None]):
    """The open failures; Enter opens the newest output of one."""

    PLACE = "failures"
    BINDINGS: ClassVar[list[BindingType]] = bindings("acknowledge", "tail")

    def __init__(self) -> None:
        super().__init__()
        self._query: ThrottledQuery[Failures] = ThrottledQuery(self, "failures")
        self._found = Failures()
        self._most = FIRST_READ
        self._is_reading_older = False
        self._printed: tuple[int | None, str] = None, ""  # a run, and the last line of its output

    def make_list(self) -> LineView:
        self._source = _FailureSource(zone=self.app.zone)
        return LineView(self._source, _COLUMNS, id="failures", empty=_NO_FAILURES)

    def compose_below(self) -> Sequence[Widget]:
        return (OutputTail(),)

    def begin(self) -> None:
        self.show_title("failures", note="")
        self._place()
        self._read()

    def on_changed(self) -> None:
        self._read()

    def _read(self) -> None:
        most = self._most
        self._query.ask(lambda client: read_failures(client, most=most), self._show)

    def _show(self, found: Failures) -> None:
        view = self.query_one(LineView)
        before = view.current()
        self._found, self._is_reading_older = found, False
        self._source.show(found.groups, now=self.app.now())
        view.marked -= self._source.gone_of(view.marked)
        view.source_changed()
        self._place()
        if before is not None and self._source.index_of(before.key) is not None:
            view.seek(before.key)  # Also from the first line: `a` acts on what the user looks at.
        self.show_facts()
        self._read_tail()  # A group keeps its line when a newer run fails.
        self._show_status()
        # The newest can all be of one group, or acknowledged: then the cursor can't move on.
        if self._most < 4 * FIRST_READ:
            self._read_older()

    def on_resize(self) -> None:
        self._place()

    def _place(self) -> None:
        """Give the output the rows that the list and its facts leave."""
        self.query_one(OutputTail).place()
        rows: int | None = None
        if self.has_class("-tall") and self.has_class("-tail"):
            lines = len(self._found.groups) + 1
            rows = max(lines, _WIDE_FACTS) if self.has_class("-wide") else lines + _FACTS
        self.query_one("#parts").styles.max_height = rows

    def action_tail(self) -> None:
        """Show or hide the output of the newest run of the group under the cursor."""
        self.query_one(OutputTail).switch()
        self._place()

    def _current(self) -> FailureGroup | None:
        """Return the group under the cursor."""
        groups, cursor = self._source.rows, self.query_one(LineView).cursor
        return groups[cursor] if cursor < len(groups) else None

    def _read_tail(self) -> None:
        group = self._current()
        self.query_one(OutputTail).show_run(None if group is None else group.newest.id)
        if group is None or group.newest.id == self._printed[0]:
            return
        run = group.newest

        def take(line: str) -> None:
            self._printed = run.id, line
            self.show_facts()

        self.ask("last line", lambda client: last_line(client, run), take)

    def on_line_view_moved(self) -> None:
        super().on_line_view_moved()
        self._read_tail()
        self._read_older()

    def _read_older(self) -> None:
        """Read older failures if the cursor is on the last line."""
        is_last = self.query_one(LineView).cursor >= len(self._found.groups) - 1
        if is_last and self._found.unread_before is not None and not self._is_reading_older:
            self._is_reading_older = True
            self._most *= 2
            self._query.skip_wait()
            self._read()

    def _show_status(self) -> None:
        found = self._found
        runs = sum(len(group.ids) for group in found.groups)
        words = "no failures are open"
        if found.groups:
            words = f"{count_words(len(found.groups), 'group')}, {count_words(runs, 'failed run')}"
        if found.unread_before is not None:
            words += f", without runs before {found.unread_before}"
        marked = len(self.query_one(LineView).marked)
        more = f"   ▌{marked:,} marked" if marked else ""
        lack = f"   {clean(found.lack)}" if found.lack else ""
        self.show_summary((words, "dim"), (lack, "warn"), (more, "accent"))

    def on_line_view_marked(self) -> None:
        self._show_status()

    def _chosen(self) -> list[FailureGroup]:
        keys = set(self.query_one(LineView).target_keys())
        return [group for group in self._source.rows if group.key in keys]

    def rows(self) -> list[Row]:
        group = self._current()
        if group is None:
            return []
        run, zone = group.newest, self.app.zone
        rows: list[Row] = [Title(clean(run.schedule)), Fact("error", group.words, "bad")]
        if self._printed[0] == run.id and self._printed[1]:
            rows.append(Fact("last line", self._printed[1][:_MOST_LINE]))
        rows.append(Fact("newest", run_sentence(run, zone=zone, now=self.app.now())))
        ids = ", ".join(map(str, group.ids[:10]))
        rows.append(Fact("runs", ids + (", ..." if len(group.ids) > 10 else "")))
        rows.append(Fact("since", local_time(_began(group.oldest), zone=zone)))
        return rows

    def targets(self) -> Targets | None:
        names = tuple(dict.fromkeys(group.newest.schedule for group in self._chosen()))
        return Targets(names=names) if names else None

    def clear_marks(self) -> None:
        self.query_one(LineView).clear_marks()

    def on_line_view_opened(self) -> None:
        from edgecron.tui.run_screen import RunScreen

        group = self._current()
        if self.app.screen is self and group is not None:
            self.app.push_screen(RunScreen(group.newest.id))

    def action_back(self) -> None:
        if not self.query_one(LineView).clear_marks():
            super().action_back()

    def action_acknowledge(self) -> None:
        """Acknowledge the marked groups, or the one under the cursor, up to their newest run."""
        groups = self._chosen()
        if not groups:
            self.app.show_notice("no failure to acknowledge", severity="warning")
            return

        if len(groups) == 1:
            self._acknowledge(groups)
            return
        words = f"acknowledge {count_words(len(groups), 'group')}"
        names = list(dict.fromkeys(group.newest.schedule for group in groups))
        question = ConfirmDialog(
            f"{words.capitalize()} of failures?",
            [named_words(names, most=_MOST_LISTED), "You can't undo this."],
            yes=words,
        )
        self.app.push_screen(question, lambda is_yes: self._acknowledge(groups) if is_yes else None)

    def _acknowledge(self, groups: Sequence[FailureGroup]) -> None:
        def write(client: Client) -> int:
            for group in groups:
                client.acknowledge(group.newest.schedule_id, group.error, group.newest.id)
            return len(groups)

        def done(count: int) -> None:
            self.app.show_notice(f"acknowledged {count_words(count, 'group')} of failures")
            self.clear_marks()
            self.app.post_changed()

        def refused(error: EdgecronError) -> None:
            self.app.show_error(error)
            self.app.post_changed()  # Those before the refused one are acknowledged.

        self.app.do("acknowledge", write, done=done, refused=refused)
