"""Doing things: the actions on schedules and runs, with what is asked before and told after.

What only they need is loaded when the first of them is asked for: the first screen waits for none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.binding import BindingType
from textual.screen import ScreenResultType

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.tui.bindings import bindings
from edgecron.tui.list_model import Targets
from edgecron.tui.queries import QueryScreen
from edgecron.views.phrases import count_words, error_words

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule
    from edgecron.tui import action_dialogs
    from edgecron.tui.actions import Progress, Report
    from edgecron.tui.database_app import Telling
    from edgecron.tui.dialogs import Dialog, ShowCheck

    _Opened = tuple[Schedule | None, Mapping[str, object]]


T = TypeVar("T")

_MANY = 20  # from so many on it is told how far it is
_STEPS = 100
_numbers = count(1)


class ActionWords(NamedTuple):
    """How an action is called: as a verb, while it goes on, when it is done, and to what."""

    verb: str
    doing: str
    did: str
    what: str = "schedule"


_RUN = ActionWords("run", "starting", "started")
_PAUSE = ActionWords("pause", "pausing", "paused")
_RESUME = ActionWords("resume", "resuming", "resumed")
_RESCHEDULE = ActionWords("move", "moving", "moved the next run of")
_CANCEL = ActionWords("end", "ending", "ended or withdrew", "run")
_DELETE = ActionWords("remove", "removing", "removed")
_UNDO = ActionWords("restore", "restoring", "restored")
_BACKFILL = ActionWords("backfill", "backfilling", "backfilled")


class ActionScreen(QueryScreen[ScreenResultType]):
    """A screen from which something can be done about schedules and runs."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "run", "pause", "resume", "reschedule", "cancel", "delete", "undo", "backfill"
    )

    app: Telling

    def targets(self) -> Targets | None:
        """What an action is for now: what is marked, else what the cursor is on."""
        return None

    def clear_marks(self) -> None:
        """It is done to what was marked: nothing is marked any more."""

    # The actions.

    def action_run(self) -> None:
        from edgecron.tui import actions

        self._carry_out_chosen(_RUN, actions.run_now)

    def action_resume(self) -> None:
        from edgecron.tui import actions

        zone = self.app.zone

        def clear_marks(client: Client, targets: Targets, progress: Progress) -> Report:
            return actions.resume(client, targets, progress, zone=zone)

        self._carry_out_chosen(_RESUME, clear_marks)

    def action_pause(self) -> None:
        from edgecron.tui import action_dialogs, actions

        zone, now = self.app.zone, self.app.now

        def ask(names: tuple[str, ...]) -> None:
            def hold(until: action_dialogs.PauseEnd) -> None:
                self._carry_out(
                    _PAUSE,
                    lambda client, progress: actions.pause(
                        client, Targets(names), progress, until=until.at, zone=zone
                    ),
                )

            self._put(action_dialogs.pause_dialog(names, zone=zone, now=now), hold)

        self._read(_PAUSE, actions.names_of, ask)

    def action_reschedule(self) -> None:
        from edgecron.tui import action_dialogs, actions

        zone, now = self.app.zone, self.app.now

        def read(client: Client, targets: Targets) -> action_dialogs.Coming:
            return action_dialogs.read_next_runs(client, targets, zone=zone)

        def ask(coming: action_dialogs.Coming) -> None:
            def move(at: datetime) -> None:
                targets = Targets(coming.names)
                self._carry_out(
                    _RESCHEDULE,
                    lambda client, progress: actions.reschedule(
                        client, targets, progress, at=at, zone=zone
                    ),
                )

            self._put(action_dialogs.reschedule_dialog(coming, zone=zone, now=now), move)

        self._read(_RESCHEDULE, read, ask)

    def action_cancel(self) -> None:
        from edgecron.model.choices import Status
        from edgecron.tui import action_dialogs, actions

        def ask(found: action_dialogs.Cancellation) -> None:
            runs = found.active

            def end(_: bool = True) -> None:
                ids = [run.id for run in runs]
                self._carry_out(
                    _CANCEL, lambda client, progress: actions.cancel(client, ids, progress)
                )

            if not runs:
                self.app.tell(found.why_none, severity="warning")
            elif any(run.status is Status.RUNNING for run in runs):
                self._put(action_dialogs.cancel_dialog(runs), end)
            else:
                end()

        self._read(_CANCEL, action_dialogs.read_cancellation, ask)

    def action_delete(self) -> None:
        from edgecron.tui import action_dialogs, actions

        targets = self.targets()
        if targets is not None and targets.run_ids:
            why = "runs are not removed by hand: retention removes them when their time has come"
            self.app.tell(why, severity="warning")
            return

        def ask(removal: action_dialogs.Removal) -> None:
            def remove(_: bool) -> None:
                self._carry_out(
                    _DELETE,
                    lambda client, progress: actions.remove(client, removal.names, progress),
                )

            self._put(action_dialogs.removal_dialog(removal), remove)

        self._read(_DELETE, action_dialogs.read_removal, ask)

    def action_undo(self) -> None:
        from edgecron.tui import actions

        zone, names = self.app.zone, self.app.removed
        if not names:
            why = "nothing was removed from here; edgecron undo restores earlier removals"
            self.app.tell(why, severity="warning")
            return
        self.app.removed = ()
        self._carry_out(
            _UNDO, lambda client, progress: actions.restore(client, names, progress, zone=zone)
        )

    def action_backfill(self) -> None:
        from edgecron.tui import action_dialogs, actions

        zone, now = self.app.zone, self.app.now

        def ask(gap: action_dialogs.BackfillRange) -> None:
            def plan(span: action_dialogs.Span, told: ShowCheck[action_dialogs.Span]) -> None:
                self.app.ask(
                    "backfill plan",
                    lambda client: action_dialogs.check_backfill(
                        client, gap.names, span, zone=zone
                    ),
                    told,
                )

            def fill(span: action_dialogs.Span) -> None:
                self._carry_out(
                    _BACKFILL,
                    lambda client, progress: actions.backfill(
                        client, gap.names, progress, span=span
                    ),
                )

            self._put(action_dialogs.backfill_dialog(gap, zone=zone, now=now, plan=plan), fill)

        self._read(_BACKFILL, action_dialogs.read_backfill, ask)

    # How they are carried out.

    def _choose(self, naming: ActionWords) -> Targets | None:
        targets = self.targets()
        if targets is None:
            self.app.tell(f"there is nothing here to {naming.verb}", severity="warning")
        return targets

    def _read(
        self,
        naming: ActionWords,
        question: Callable[[Client, Targets], T],
        then: Callable[[T], None],
    ) -> None:
        """Look at what is chosen, and go on where this screen is still in front."""
        targets = self._choose(naming)
        if targets is None:
            return

        def look(client: Client) -> tuple[T] | EdgecronError:
            try:
                return (question(client, targets),)
            except NotFound as error:
                return error  # It has gone meanwhile; the others are told in the banner.

        def looked(found: tuple[T] | EdgecronError) -> None:
            if isinstance(found, EdgecronError):
                self.app.show_error(found)
            elif self.app.screen is self:
                then(*found)

        self.ask(f"to {naming.verb}", look, looked)

    def _put(self, dialog: Dialog[T], then: Callable[[T], None]) -> None:
        """Put a question; what follows is done where it was answered."""

        def answered(value: T | None) -> None:
            if value is not None:
                then(value)

        self.app.push_screen(dialog, answered)

    def _carry_out_chosen(
        self, naming: ActionWords, deed: Callable[[Client, Targets, Progress], Report]
    ) -> None:
        targets = self._choose(naming)
        if targets is not None:
            self._carry_out(naming, lambda client, progress: deed(client, targets, progress))

    def _carry_out(self, naming: ActionWords, deed: Callable[[Client, Progress], Report]) -> None:
        """Do it beside all else, tell how far it is, and what became of it."""
        app = self.app

        def progress(done: int, count: int) -> None:
            if count >= _MANY and done % max(1, count // _STEPS) == 0:
                words = f"{naming.doing} {done:,} of {count:,} ..."
                app.deliver(partial(app.show_progress, words))

        def done(report: Report) -> None:
            app.show_progress("")
            is_fine = not (report.refused or report.idle)
            app.removed = report.removed or app.removed
            app.tell(
                report_words(
                    report, naming, engine_key=app.label("engine"), undo_key=app.label("undo")
                ),
                severity="information" if is_fine else "warning",
            )
            if report.done:
                self.clear_marks()
            app.post_changed()

        def refused(error: EdgecronError) -> None:
            app.show_progress("")
            app.show_error(error)

        # Each is done, whatever is asked for after it.
        topic = f"act {next(_numbers)}"
        app.do(topic, lambda client: deed(client, progress), done=done, refused=refused)


def report_words(
    report: Report, naming: ActionWords, *, engine_key: str, undo_key: str = ""
) -> str:
    """What became of it, and what it still lacks."""
    parts = []
    if report.done == 1 or report.is_summed:
        parts.append(report.said)
    elif report.done:
        parts.append(f"{naming.did} {count_words(report.done, naming.what)}")
    if report.removed and undo_key:
        them = "it" if len(report.removed) == 1 else "them"
        parts[-1] += f"; {undo_key} restores {them}"
    if report.done and report.refused:
        parts.append(f"{report.refused:,} could not be:")
    parts += [error_words(error) for error in report.errors]
    more = report.refused - len(report.errors)
    if more > 0:
        parts.append(f"and {more:,} more")
    for words in report.idle:
        if words:
            parts.append(words)
        elif engine_key:
            parts.append(f"no engine is alive: it waits; {engine_key} runs one from here")
        else:
            parts.append("no engine is alive: it waits until one is")
    return "\n".join(parts)


class EditScreen(ActionScreen[ScreenResultType]):
    """A screen from which schedules can be added and changed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("add", "edit")

    def current_schedule(self) -> str | None:
        """The schedule that `edit` is for now; None where there is none."""
        return None

    def saved(self, name: str) -> None:
        """A schedule was saved, and has this name."""

    def action_add(self) -> None:
        self.app.ensure_database(lambda: self._open_form(None))

    def action_edit(self) -> None:
        name = self.current_schedule()
        if name is None:
            self.app.tell("there is no schedule here to change", severity="warning")
        else:
            self._open_form(name)

    def _open_form(self, name: str | None) -> None:
        defaults = self.app.defaults

        def read(client: Client) -> _Opened | EdgecronError:
            # What it is made of takes a while to load, and nobody waits for that here.

            try:
                if name is None:
                    return None, defaults()
                return client.schedule(name), {}
            except EdgecronError as error:
                return error

        def show(found: _Opened | EdgecronError) -> None:
            from edgecron.tui.form import ScheduleForm

            if isinstance(found, EdgecronError):
                self.app.show_error(found)
                return
            if self.app.screen is not self:
                return  # Something else has been gone to meanwhile, or the key was pressed twice.
            opened, given = found
            self.app.push_screen(ScheduleForm(opened, defaults=given), answered)

        def answered(name: str | None) -> None:
            if name is not None:
                self.saved(name)

        self.ask("form", read, show)
