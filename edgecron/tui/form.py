"""The form to add or change a schedule. Nothing is written before it is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button

from edgecron.base.errors import ChangedByOthers, EdgecronError
from edgecron.base.safetext import clean
from edgecron.formats.document_tables import Table, schedule_table
from edgecron.model.schedule import Schedule
from edgecron.tui.database_app import DatabaseApp, Made
from edgecron.tui.dialogs import ConfirmDialog
from edgecron.tui.form_check import Draft, FormCheck, Saved, check_draft, save_draft, saved_words
from edgecron.tui.form_fields import (
    FIELDS,
    SECTIONS,
    FieldKind,
    FormField,
    texts_of,
    uneditable_fields,
)
from edgecron.tui.form_widgets import Choice, FieldLines, FieldRow, FormFields, Preview, SectionHead
from edgecron.tui.keys import bindings
from edgecron.tui.queries import QueryScreen
from edgecron.tui.status import StatusLine
from edgecron.tui.text_line import Facts, Span, TextLine, Title, pace_of, whole_parts
from edgecron.views.phrases import PROBLEM, WARNING, error_words, folded

# A key, its name, and what a click on it does.
_KEYS = (
    ("^s", "save", "screen.save"),
    ("esc", "back", "screen.back"),
    ("tab ↓", "next field", "app.focus_next"),
    ("⇧tab ↑", "previous field", "app.focus_previous"),
)


_PLAIN_TEXTS = texts_of("", {})


class ScheduleForm(QueryScreen[str | None]):
    """The fields of a schedule; returns its name if it was saved.

    `opened` is the schedule to change; None for a new one, which begins with `defaults` and with
    the `texts` of fields that are already written.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("back", "quit"),
        Binding("ctrl+s", "save", show=False),
        # With priority, the focus moves before the app sends the next letter to a field.
        Binding("tab", "app.focus_next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", show=False, priority=True),
    ]

    DEFAULT_CSS = """
    ScheduleForm #form { height: 1fr; }
    ScheduleForm #form-fields { height: 1fr; scrollbar-size-vertical: 1; padding: 0 1 0 0; }
    ScheduleForm #preview { height: 8; }
    ScheduleForm #hint { background: $surface; }
    ScheduleForm #message { background: $panel; }
    ScheduleForm .section { margin-top: 1; }
    ScheduleForm #section-0 { margin-top: 0; }
    ScheduleForm #save {
        width: 8; min-width: 8; margin: 1 0 1 17; text-align: left; content-align: left middle;
        background: $panel; color: $primary;
    }
    ScheduleForm #save:focus { background: $primary; color: $background; text-style: bold; }
    ScheduleForm.-low #preview { height: 3; }
    ScheduleForm.-low #hint, ScheduleForm.-low #status { display: none; }
    ScheduleForm.-wide #form { layout: horizontal; }
    ScheduleForm.-wide #form-fields { width: 3fr; }
    ScheduleForm.-wide #preview { width: 2fr; height: 1fr; margin: 0 0 0 1; }
    """

    AUTO_FOCUS = ""  # It would show the hint of the first field, whichever has the focus.

    app: DatabaseApp

    def __init__(
        self,
        opened: Schedule | None,
        *,
        defaults: Mapping[str, object],
        texts: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (120, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-tall")]
        self._opened = opened
        self._current = opened  # as last read before saving
        self._base: Table = dict(defaults) if opened is None else schedule_table(opened)
        self._before = texts_of("" if opened is None else opened.name, self._base)
        self._first = {**self._before, **(texts or {})}
        self._hidden = uneditable_fields(self._before, self._base)
        self._touched = set(FIELDS) if opened is not None else set(texts or ())
        self._found: FormCheck | None = None
        self._is_saving = False
        self._rows = {key: self._row(field) for key, field in FIELDS.items()}
        self._refusal = ""  # why it was not saved, until the next change
        self._timer: Timer | None = None
        self._passed: datetime | None = None  # a time of the preview that was asked again

    def compose(self) -> ComposeResult:
        yield TextLine(id="top")
        yield TextLine(id="message")
        with Container(id="form"):
            with FormFields(id="form-fields"):
                for number in range(len(SECTIONS)):
                    yield from self._section(number)
                yield Button("Save", id="save", compact=True)
            yield Preview()
        yield TextLine(id="hint")
        yield StatusLine()
        yield TextLine(id="keys")

    def _section(self, number: int) -> Iterator[Widget]:
        title, fields = SECTIONS[number]
        if number:
            yield SectionHead(number, title)
        else:
            head = Facts(id="section-0", classes="section")
            head.show_rows([Title(title)])
            yield head
        for field in fields:
            yield self._rows[field.key]

    def _row(self, field: FormField) -> FieldRow:
        choices = field.choices
        text = self._first[field.key]
        if field.form is FieldKind.CHOICE and text not in choices:
            choices = (*choices, text)  # such as `callable`, which is not offered
        return FieldRow(field, text, choices=choices, is_hidden=field.key in self._hidden)

    def on_mount(self) -> None:
        self.query_one("#message").display = False
        self._show_top()
        changed = {key for key, text in self._first.items() if text != _PLAIN_TEXTS[key]}
        for number, (_, fields) in enumerate(SECTIONS):
            self._fold(number, is_open=any(field.key in changed for field in fields))
        self._focus("name" if self._opened is None else "when")
        self.app.release_keys()
        self._check()

    @property
    def texts(self) -> dict[str, str]:
        """The text of each field."""
        return {key: row.text for key, row in self._rows.items()}

    @property
    def is_changed(self) -> bool:
        """Whether any field was changed."""
        return self.texts != self._before

    def _draft(self) -> Draft:
        return Draft(self.texts, self._opened, self._base, self._before)

    def _fold(self, number: int, *, is_open: bool) -> None:
        """Open or fold a section; the first one is always open."""
        if not number:
            return
        _, fields = SECTIONS[number]
        for field in fields:
            self._rows[field.key].display = is_open
        texts = {field.key: self._rows[field.key].text for field in fields}
        values = [
            f"{FIELDS[key].label} {text.splitlines()[0]}"
            for key, text in texts.items()
            if text.strip() and text != _PLAIN_TEXTS[key]
        ]
        self.query_one(f"#section-{number}", SectionHead).show_fold(
            is_open=is_open, values=", ".join(values), count=len(fields)
        )

    def on_section_head_toggled(self, message: SectionHead.Toggled) -> None:
        first = SECTIONS[message.number][1][0]
        self._fold(message.number, is_open=not self._rows[first.key].display)

    def _open_section_of(self, key: str) -> None:
        for number, (_, fields) in enumerate(SECTIONS):
            if any(field.key == key for field in fields) and not self._rows[key].display:
                self._fold(number, is_open=True)

    def _focus(self, key: str) -> None:
        self._open_section_of(key)
        editor = self._rows[key].editor
        if editor is not None:
            editor.focus()

    # Checking.

    def on_input_changed(self) -> None:
        self._note_change()

    def on_text_area_changed(self) -> None:
        self._note_change()

    def on_choice_changed(self) -> None:
        self._note_change()

    def on_changed(self) -> None:
        self._check()

    def _note_change(self) -> None:
        texts = self.texts
        self._touched |= {key for key, text in texts.items() if text != self._before[key]}
        self._refusal = ""
        self._show_top()
        self._check()

    def _check(self) -> None:
        draft = self._draft()

        def take(found: FormCheck) -> None:
            if self.texts == draft.texts:
                self._take(found)

        self.ask("form", partial(check_draft, draft=draft), take)

    def _take(self, found: FormCheck) -> None:
        self._found = found
        for key, row in self._rows.items():
            problem = found.problems.get(key, "") if key in self._touched else ""
            is_new = self._opened is None or row.text != self._before[key]
            caution = found.cautions.get(key, "") if is_new else ""
            # The preview shows what is wrong with a time.
            if key == "when" and found.times.is_wrong:
                problem = ""
            if problem or caution:
                self._open_section_of(key)
            row.show_problem(problem or caution, is_wrong=bool(problem))
        self.query_one(Preview).show_check(found)
        if self._refusal:
            self._show_message(self._refusal)
        else:
            self._show_message(found.others, style="warn")
        self.refresh_times()

    def refresh_times(self) -> None:
        """Redraw distances, and again when their words change."""
        self.query_one(Preview).refresh()
        if self._timer is not None:
            self._timer.stop()
        if self._found is not None and self._found.times.fires:
            first = self._found.times.fires[0][0]
            away_s = (first - self.app.now()).total_seconds()
            if away_s <= 0 and first != self._passed:
                self._passed = first
                self._check()  # The next times begin after it.
            self._timer = self.set_timer(pace_of(max(0.0, away_s)), self.refresh_times)

    # Showing.

    def _show_top(self) -> None:
        spans: list[Span] = [(" edgecron ", "bold")]
        if self._opened is None:
            spans.append((" new schedule ", "dim"))
        else:
            spans += [(" edit  ", "dim"), (clean(self._opened.name), "bold")]
        right = [("● not saved yet ", "warn")] if self.is_changed else [("", "")]
        self.query_one("#top", TextLine).show(spans, right=right)

    def _show_message(self, words: str, *, style: str = "bad") -> None:
        line = self.query_one("#message", TextLine)
        line.display = bool(words)
        lines = list(folded(clean(words), max(20, self.size.width - 4)))
        mark = (PROBLEM if style == "bad" else WARNING).letter
        line.styles.height = len(lines)
        line.show(*[[(f" {' ' if at else mark} {line}", style)] for at, line in enumerate(lines)])

    def on_descendant_focus(self) -> None:
        row = self._current_row()
        words = "" if row is None else f"{row.field.label}: {row.field.hint}"
        if isinstance(self.focused, SectionHead):
            words = "⏎ opens or folds these fields"
        if row is not None:
            self._open_section_of(row.field.key)
        self.query_one("#hint", TextLine).show([(f" {words}", "dim")])
        self._show_keys()

    def on_resize(self) -> None:
        self._show_keys()

    def _show_keys(self) -> None:
        self.query_one("#keys", TextLine).show(self._key_spans())

    def _key_spans(self) -> list[Span]:
        """Return the keys that fit as a whole."""
        keys = list(_KEYS)
        if isinstance(self.focused, Choice):
            keys.insert(2, ("← →", "choose", ""))
        elif isinstance(self.focused, FieldLines):
            keys.insert(2, ("⏎", "new line", ""))
            keys.append(("^u", "clear the line", ""))
        parts = [
            ((key, f"accent@{action}" if action else "accent"), (f" {name}", f"dim@{action}"))
            for key, name, action in keys
        ]
        return [(" ", ""), *whole_parts(parts, self.app.size.width - 1)]

    def _current_row(self) -> FieldRow | None:
        if self.focused is None:
            return None
        return next((one for one in self.focused.ancestors if isinstance(one, FieldRow)), None)

    # Leaving.

    def action_back(self) -> None:
        self._leave(lambda: self.dismiss(None))

    async def action_quit(self) -> None:
        self._leave(self.app.leave)

    def _leave(self, leave: Callable[[], object]) -> None:
        if not self.is_changed:
            leave()
            return

        def answered(is_dropped: bool | None) -> None:
            if is_dropped:
                leave()

        words = ("Your changes are not saved.",)
        self.app.push_screen(
            ConfirmDialog(
                "Leave the form?", words, yes="discard changes", no="keep editing", is_danger=True
            ),
            answered,
        )

    # Saving.

    def on_button_pressed(self) -> None:
        self.action_save()

    def action_save(self) -> None:
        self._touched = set(FIELDS)
        if self._is_saving:
            return
        if self._found is not None and self._found.problems:
            self._refuse(self._found)
            return
        self._is_saving = True
        self.app.do(
            "form",
            partial(save_draft, draft=self._draft(), over=self._current),
            done=self._saved,
            refused=self._refused,
        )

    def _refuse(self, found: FormCheck) -> None:
        """Say how many fields are wrong, and focus the first one."""
        count = len(found.problems)
        first = next((key for key in FIELDS if key in found.problems), None)
        many = "1 field has a problem"
        if count > 1:
            many = f"{count} fields have problems"
        more = found.problems.get("", many)
        self._refusal = f"not saved: {more}"
        self._take(found)
        if first is not None:
            self._focus(first)

    def _saved(self, saved: Saved) -> None:
        app, schedule = self.app, saved.schedule
        if saved.is_new or saved.changed:
            app.journal.add((Made(schedule.name, schedule.revision),))
        undo_key = app.label("undo")
        app.show_notice(saved_words(saved, zone=app.zone, now=app.now(), undo_key=undo_key))
        if saved.note is not None:
            self.app.show_notice(saved.note, severity="warning")
        self.dismiss(schedule.name)

    def _refused(self, error: EdgecronError) -> None:
        self._is_saving = False
        self._refusal = f"not saved: {error_words(error)}"
        if isinstance(error, ChangedByOthers):
            self._refusal = f"not saved: {error.message}; press ^s again to overwrite their changes"
        self._show_message(self._refusal)
        if not isinstance(error, ChangedByOthers):
            return
        opened = self._opened
        if opened is not None:
            self.ask("others", lambda client: client.schedule(opened.name), self._take_current)

    def _take_current(self, current: Schedule) -> None:
        self._current = current
