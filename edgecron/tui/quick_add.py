"""Add a schedule by one line: `every weekday at 9 run ./sync.sh`.

A line can begin with a name, and a `;` separates triggers: `sync: daily at 9; at boot run ls`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, tzinfo
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.formats.crontab_names import suggest_stem
from edgecron.model.choices import JobKind
from edgecron.tui.database_app import DatabaseApp, Made
from edgecron.tui.dialogs import Dialog, choice
from edgecron.tui.form_check import Draft, FormCheck, Saved, check_draft, save_draft, saved_words
from edgecron.tui.form_fields import texts_of
from edgecron.tui.text_line import LineInput, Span, TextLine
from edgecron.views.phrases import OK, PROBLEM, Glyph, error_words, folded
from edgecron.views.times import distance, weekday_time

_RUN = re.compile(r"(?:^|\s)(?:run|--)(?=\s|$)", re.IGNORECASE)
_NAME = re.compile(r"([A-Za-z_][\w.-]*):\s+(.*)", re.ASCII | re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*\s", re.ASCII)
_SHELL_LETTERS = "|&;<>()$`*?["
_SHELL_STARTS = "~#"  # of a word: a home folder, a comment
_SHOWN_TIMES = 5
_MOST_TAKEN = 100  # names that are tried
_AWAY = 10  # columns of a distance
_WIDTH = 88
_PREVIEW_LINES = 10
_EXAMPLES = (
    "every weekday at 9 run ./sync.sh",
    "photos: daily at 02:30 run tar czf /srv/photos.tgz /home",
    "every 5 minutes run curl -fsS example.org | grep ok",
)
_OWN = ("name", "when", "kind", "job")  # fields that the line itself has
Line = tuple[Span, ...]


class QuickLine(NamedTuple):
    """The parts of a line; a part that is not written yet is empty. `when` has lines."""

    name: str
    when: str
    job: str


class QuickCheck(NamedTuple):
    """What a line would add; `sign` is the first letter in its job that only a shell reads."""

    draft: Draft
    found: FormCheck
    sign: str

    @property
    def is_right(self) -> bool:
        return not (self.found.problems or self.found.times.is_wrong)


class QuickAnswer(NamedTuple):
    """The name of the schedule that was added, or the texts with which the form continues."""

    name: str = ""
    texts: Mapping[str, str] | None = None


def split_line(text: str) -> QuickLine:
    """Split a line into a name, triggers and a job."""
    named = _NAME.fullmatch(text.strip())
    name, rest = (named[1], named[2]) if named else ("", text.strip())
    found = _RUN.search(rest)
    when, job = (rest, "") if found is None else (rest[: found.start()], rest[found.end() :])
    lines = [part.strip() for part in when.split(";")]
    return QuickLine(name, "\n".join(line for line in lines if line), job.strip())


def find_shell_sign(command: str) -> str:
    """Find the first part of a command that only a shell reads; '' if a shell is not needed."""
    if found := _ASSIGNMENT.match(command):
        return found[0].partition("=")[0] + "="
    quote, is_escaped = "", False
    for before, letter in zip(f" {command}", command, strict=False):
        if is_escaped:
            is_escaped = False
        elif letter == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            if letter == quote:
                quote = ""
            elif quote == '"' and letter in "$`":
                return letter
        elif letter in "'\"":
            quote = letter
        elif letter in _SHELL_LETTERS or (before.isspace() and letter in _SHELL_STARTS):
            return letter
    return ""


def check_line(
    client: Client,
    text: str,
    *,
    defaults: Callable[[], Mapping[str, object]],
    is_shell: bool | None,
) -> QuickCheck:
    """Check what a line would add; write nothing. `is_shell` None decides by the job itself."""
    line = split_line(text)
    sign = find_shell_sign(line.job)
    kind = JobKind.SHELL if (bool(sign) if is_shell is None else is_shell) else JobKind.COMMAND
    base = dict(defaults())
    before = texts_of("", base)
    name = line.name or (_free_name(client, suggest_stem(line.job)) if line.job else "")
    texts = {**before, "name": name, "when": line.when, "kind": kind.value, "job": line.job}
    draft = Draft(texts, None, base, before)
    return QuickCheck(draft, check_draft(client, draft), sign)


def _free_name(client: Client, stem: str) -> str:
    for number in range(1, _MOST_TAKEN):
        name = stem if number == 1 else f"{stem}-{number}"
        try:
            client.schedule(name)
        except NotFound:
            return name
        except EdgecronError:
            continue  # It is there, but unreadable.
    return stem


def preview_lines(
    checked: QuickCheck, *, width: int, zone: tzinfo, now: datetime, toggle_key: str = "^t"
) -> list[Line]:
    """Show what a line would add: triggers, times, job and name, and what is missing."""
    texts, found = checked.draft.texts, checked.found
    lines: list[Line] = []
    for key, words in found.problems.items():
        is_missing = key in _OWN and not texts[key].strip()
        if not (is_missing or (key == "when" and found.times.is_wrong)):
            lines += _marked(PROBLEM, words, width, is_wrong=True)
    for time in found.times.lines:
        sign = PROBLEM if time.is_wrong else OK
        lines += _marked(sign, time.words or time.text, width, is_wrong=time.is_wrong)
    for due_at, _ in found.times.fires[:_SHOWN_TIMES]:
        away = distance(due_at, now, is_clock_trusted=found.is_clock_trusted)
        when = weekday_time(due_at, found.times.timezone, zone=zone)
        lines.append((("  ", ""), (f"{away:<{_AWAY}} ", "accent"), (clean(when), "")))
    if not texts["when"]:
        lines.append((("  then: a time, such as every weekday at 9", "dim"),))
    if texts["job"]:
        lines += _job_lines(checked, width=width, toggle_key=toggle_key)
    elif texts["when"]:
        lines.append((("  then: run COMMAND", "dim"),))
    for words in found.cautions.values():
        lines += [((f"  {part}", "warn"),) for part in folded(clean(words), width - 2)]
    return lines


def _job_lines(checked: QuickCheck, *, width: int, toggle_key: str) -> Iterator[Line]:
    texts = checked.draft.texts
    is_shell = texts["kind"] == JobKind.SHELL.value
    why = f"it has {checked.sign}" if checked.sign else "no shell signs found"
    kind = "shell line" if is_shell else "command"
    other = "command" if is_shell else "shell line"
    yield ("  runs     ", "dim"), (clean(texts["job"])[: width - 12], "")
    yield (
        ("  as       ", "dim"),
        (kind, "" if is_shell is bool(checked.sign) else "warn"),
        (f"  ({why}; {toggle_key} makes it a {other})", "dim"),
    )
    yield ("  name     ", "dim"), (clean(texts["name"]), "bold")


def _marked(sign: Glyph, words: str, width: int, *, is_wrong: bool) -> Iterator[Line]:
    style = "bad" if is_wrong else "good"
    for number, part in enumerate(folded(clean(words), width - 3)):
        head = ("  ", "") if number else (f"{sign.letter} ", style)
        yield head, (part, "bad" if is_wrong else "")


class QuickAdd(Dialog[QuickAnswer]):
    """Ask for a schedule in one line, with a preview while it is typed; save it on Enter."""

    DEFAULT_CSS = f"""
    QuickAdd #box {{ width: {_WIDTH + 6}; }}
    QuickAdd #line {{ margin-bottom: 1; }}
    QuickAdd #preview {{ height: {_PREVIEW_LINES}; margin-bottom: 1; }}
    QuickAdd.-low #line, QuickAdd.-low #preview {{ margin-bottom: 0; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "form", show=False, priority=True),
        Binding("ctrl+t", "toggle_kind", show=False, priority=True),
    ]

    app: DatabaseApp

    def __init__(self, defaults: Callable[[], Mapping[str, object]]) -> None:
        super().__init__("Add a schedule")
        self._defaults = defaults
        self._is_shell: bool | None = None
        self._checked: QuickCheck | None = None
        self._is_wanted = False  # Enter was pressed before the check came
        self._is_saving = False

    def compose_fields(self) -> ComposeResult:
        yield LineInput(placeholder="TIME run COMMAND", id="line", compact=True)
        yield TextLine(id="preview")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(LineInput).focus()
        self.app.release_keys()
        self._show_preview()

    @property
    def text_width(self) -> int:
        return max(10, min(_WIDTH, self.size.width * 96 // 100 - 6))

    def on_resize(self) -> None:
        super().on_resize()
        preview = self.query_one("#preview", TextLine)
        preview.styles.height = max(1, min(_PREVIEW_LINES, self.size.height - 7))
        self._show_preview()

    def show_choices(self) -> None:
        self.query_one("#choices", TextLine).show(
            [
                *choice("⏎", "add it", "agree"),
                *choice("tab", "all fields", "form"),
                *choice("esc", "go back", "leave"),
            ]
        )

    def on_input_changed(self) -> None:
        self._is_wanted = False
        self._check()

    def _check(self) -> None:
        text, is_shell = self._text, self._is_shell
        self._checked = None

        def take(found: QuickCheck) -> None:
            if self.is_attached and (self._text, self._is_shell) == (text, is_shell):
                self._checked = found
                self._show_preview()
                if self._is_wanted:
                    self.action_agree()

        if not text.strip():
            self._show_preview()
            return
        question = partial(check_line, text=text, defaults=self._defaults, is_shell=is_shell)
        self.app.ask("quick add", question, take)

    @property
    def _text(self) -> str:
        return self.query_one(LineInput).value

    def _show_preview(self, refusal: str = "") -> None:
        width, app = self.text_width, self.app
        lines: list[Line] = []
        if not self._text.strip():
            lines = [(("for example:", "dim"),), *((((f"  {one}", "dim"),)) for one in _EXAMPLES)]
        elif self._checked is not None:
            lines = preview_lines(self._checked, width=width, zone=app.zone, now=app.now())
        else:
            return  # The former preview stays until the check comes.
        if refusal:
            lines = [*_marked(PROBLEM, refusal, width, is_wrong=True), *lines]
        self.query_one("#preview", TextLine).show(*lines)

    def action_toggle_kind(self) -> None:
        if self._checked is not None:
            is_shell = self._checked.draft.texts["kind"] == JobKind.SHELL.value
            self._is_shell = not is_shell
            self._check()

    def action_form(self) -> None:
        self.app.hold_keys()  # They are for the form.
        # After the letters that were typed before.
        self.query_one(LineInput).call_later(self._go_to_form)

    def _go_to_form(self) -> None:
        line = split_line(self._text)
        texts = {"name": line.name, "when": line.when, "job": line.job}
        if self._checked is not None:
            texts |= {key: self._checked.draft.texts[key] for key in _OWN}
        elif find_shell_sign(line.job):
            texts["kind"] = JobKind.SHELL.value
        self.dismiss(QuickAnswer(texts=texts))

    def on_input_submitted(self) -> None:
        self.action_agree()

    def action_agree(self) -> None:
        if self._is_saving:
            return
        if self._checked is None:
            self._is_wanted = bool(self._text.strip())
            return
        self._is_wanted = False
        if not self._checked.is_right:
            missing = [key for key in ("when", "job") if not self._checked.draft.texts[key]]
            names = {"when": "a time", "job": "run COMMAND"}
            words = f"not added: write {' and '.join(names[key] for key in missing)}"
            self._show_preview(words if missing else "not added")
            return
        self._is_saving = True
        self.app.do(
            "form",
            partial(save_draft, draft=self._checked.draft, over=None),
            done=self._saved,
            refused=self._refused,
        )

    def _saved(self, saved: Saved) -> None:
        app, schedule = self.app, saved.schedule
        app.journal.add((Made(schedule.name, schedule.revision),))
        undo_key = app.label("undo")
        app.show_notice(saved_words(saved, zone=app.zone, now=app.now(), undo_key=undo_key))
        self.dismiss(QuickAnswer(name=schedule.name))

    def _refused(self, error: EdgecronError) -> None:
        self._is_saving = False
        self._show_preview(f"not added: {error_words(error)}")
