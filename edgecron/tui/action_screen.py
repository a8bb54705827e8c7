"""Screens with actions on schedules and runs: their keys, questions, progress and notices.

The first screen is such a screen, and must not wait for modules that only actions need. So each
action imports `actions`, `action_dialogs` and the form when it is first used.
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
    from edgecron.tui.database_app import DatabaseApp
    from edgecron.tui.dialogs import Dialog, ShowCheck

    _Opened = tuple[Schedule | None, Mapping[str, object]]


T = TypeVar("T")

_LEAST_WITH_PROGRESS = 20  # targets; for fewer, progress is not shown
_STEPS = 100  # progress messages, at most
_numbers = count(1)


class ActionWords(NamedTuple):
    """Words for an action: its verb, present and past forms, and the noun of its targets."""

    verb: str
    present: str
    past: str
    noun: str = "schedule"


_RUN = ActionWords("run", "starting", "started")
_PAUSE = ActionWords("pause", "pausing", "paused")
_RESUME = ActionWords("resume", "resuming", "resumed")
_RESCHEDULE = ActionWords("move", "moving", "moved the next run of")
_CANCEL = ActionWords("end", "ending", "ended or withdrew", "run")
_DELETE = ActionWords("remove", "removing", "removed")
_UNDO = ActionWords("restore", "restoring", "restored")
_BACKFILL = ActionWords("backfill", "backfilling", "backfilled")


class ActionScreen(QueryScreen[ScreenResultType]):
    """A screen with the actions on schedules and runs."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "run", "pause", "resume", "reschedule", "cancel", "delete", "undo", "backfill"
    )

    app: DatabaseApp

    def targets(self) -> Targets | None:
        """Return the targets of an action: the marked lines, or the line under the cursor."""
        return None

    def clear_marks(self) -> None:
        """Remove all marks: an action was done to the marked lines."""

    # The actions.

    def action_run(self) -> None:
        from edgecron.tui import actions

        self._do_with_targets(_RUN, actions.run_now)

    def action_resume(self) -> None:
        from edgecron.tui import actions

        zone = self.app.zone

        def resume(client: Client, targets: Targets, progress: Progress) -> Report:
            return actions.resume(client, targets, progress, zone=zone)

        self._do_with_targets(_RESUME, resume)

    def action_pause(self) -> None:
        from edgecron.tui import action_dialogs, actions

        zone, now = self.app.zone, self.app.now

        def ask(names: tuple[str, ...]) -> None:
            def pause(until: action_dialogs.PauseEnd) -> None:
                self._do(
                    _PAUSE,
                    lambda client, progress: actions.pause(
                        client, Targets(names), progress, until=until.at, zone=zone
                    ),
                )

            self._ask_user(action_dialogs.pause_dialog(names, zone=zone, now=now), pause)

        self._read(_PAUSE, actions.names_of, ask)

    def action_reschedule(self) -> None:
        from edgecron.tui import action_dialogs, actions

        zone, now = self.app.zone, self.app.now

        def read(client: Client, targets: Targets) -> action_dialogs.NextRuns:
            return action_dialogs.read_next_runs(client, targets, zone=zone)

        def ask(next_runs: action_dialogs.NextRuns) -> None:
            def move(at: datetime) -> None:
                targets = Targets(next_runs.names)
                self._do(
                    _RESCHEDULE,
                    lambda client, progress: actions.reschedule(
                        client, targets, progress, at=at, zone=zone
                    ),
                )

            self._ask_user(action_dialogs.reschedule_dialog(next_runs, zone=zone, now=now), move)

        self._read(_RESCHEDULE, read, ask)

    def action_cancel(self) -> None:
        from edgecron.model.choices import Status
        from edgecron.tui import action_dialogs, actions

        def ask(found: action_dialogs.Cancellation) -> None:
            runs = found.active

            def end(_: bool = True) -> None:
                ids = [run.id for run in runs]
                self._do(_CANCEL, lambda client, progress: actions.cancel(client, ids, progress))

            if not runs:
                self.app.show_notice(found.why_none, severity="warning")
            elif any(run.status is Status.RUNNING for run in runs):
                self._ask_user(action_dialogs.cancel_dialog(runs), end)
            else:
                end()

        self._read(_CANCEL, action_dialogs.read_cancellation, ask)

    def action_delete(self) -> None:
        from edgecron.tui import action_dialogs, actions

        targets = self.targets()
        if targets is not None and targets.run_ids:
            why = "runs are not removed by hand: retention removes them when their time has come"
            self.app.show_notice(why, severity="warning")
            return

        def ask(removal: action_dialogs.Removal) -> None:
            def remove(_: bool) -> None:
                self._do(
                    _DELETE,
                    lambda client, progress: actions.remove(client, removal.names, progress),
                )

            self._ask_user(action_dialogs.removal_dialog(removal), remove)

        self._read(_DELETE, action_dialogs.read_removal, ask)

    def action_undo(self) -> None:
        from edgecron.tui import actions

        zone, names = self.app.zone, self.app.removed
        if not names:
            why = "nothing was removed from here; edgecron undo restores earlier removals"
            self.app.show_notice(why, severity="warning")
            return
        self.app.removed = ()
        self._do(
            _UNDO, lambda client, progress: actions.restore(client, names, progress, zone=zone)
        )

    def action_backfill(self) -> None:
        from edgecron.tui import action_dialogs, actions

        zone, now = self.app.zone, self.app.now

        def ask(gap: action_dialogs.BackfillRange) -> None:
            def plan(
                span: action_dialogs.TimeRange, show: ShowCheck[action_dialogs.TimeRange]
            ) -> None:
                self.app.ask(
                    "backfill plan",
                    lambda client: action_dialogs.check_backfill(
                        client, gap.names, span, zone=zone
                    ),
                    show,
                )

            def fill(span: action_dialogs.TimeRange) -> None:
                self._do(
                    _BACKFILL,
                    lambda client, progress: actions.backfill(
                        client, gap.names, progress, span=span
                    ),
                )

            self._ask_user(action_dialogs.backfill_dialog(gap, zone=zone, now=now, plan=plan), fill)

        self._read(_BACKFILL, action_dialogs.read_backfill, ask)

    # How actions run.

    def _need_targets(self, action: ActionWords) -> Targets | None:
        targets = self.targets()
        if targets is None:
            self.app.show_notice(f"there is nothing here to {action.verb}", severity="warning")
        return targets

    def _read(
        self,
        action: ActionWords,
        question: Callable[[Client, Targets], T],
        then: Callable[[T], None],
    ) -> None:
        """Read what a question is about, and continue if this screen is still in front."""
        targets = self._need_targets(action)
        if targets is None:
            return

        def read(client: Client) -> tuple[T] | EdgecronError:
            try:
                return (question(client, targets),)
            except NotFound as error:
                return error  # It was removed meanwhile. The banner shows all other errors.

        def answered(found: tuple[T] | EdgecronError) -> None:
            if isinstance(found, EdgecronError):
                self.app.show_error(found)
            elif self.app.screen is self:
                then(*found)

        self.ask(f"to {action.verb}", read, answered)

    def _ask_user(self, dialog: Dialog[T], then: Callable[[T], None]) -> None:
        """Show a dialog, and call `then` if it was answered."""

        def answered(value: T | None) -> None:
            if value is not None:
                then(value)

        self.app.push_screen(dialog, answered)

    def _do_with_targets(
        self, action: ActionWords, act: Callable[[Client, Targets, Progress], Report]
    ) -> None:
        targets = self._need_targets(action)
        if targets is not None:
            self._do(action, lambda client, progress: act(client, targets, progress))

    def _do(self, action: ActionWords, act: Callable[[Client, Progress], Report]) -> None:
        """Run an action on the writer's thread; show its progress and its outcome."""
        app = self.app

        def progress(done: int, count: int) -> None:
            if count >= _LEAST_WITH_PROGRESS and done % max(1, count // _STEPS) == 0:
                words = f"{action.present} {done:,} of {count:,} ..."
                app.deliver(partial(app.show_progress, words))

        def done(report: Report) -> None:
            app.show_progress("")
            is_fine = not (report.failed or report.waiting)
            app.removed = report.removed or app.removed
            app.show_notice(
                report_words(
                    report, action, engine_key=app.label("engine"), undo_key=app.label("undo")
                ),
                severity="information" if is_fine else "warning",
            )
            if report.done:
                self.clear_marks()
            app.post_changed()

        def refused(error: EdgecronError) -> None:
            app.show_progress("")
            app.show_error(error)

        # A topic of its own: a later action must not replace this one.
        topic = f"act {next(_numbers)}"
        app.do(topic, lambda client: act(client, progress), done=done, refused=refused)


def report_words(
    report: Report, action: ActionWords, *, engine_key: str, undo_key: str = ""
) -> str:
    """Describe what an action did, what failed, and what still waits for an engine."""
    parts = []
    if report.done == 1 or report.is_summed:
        parts.append(report.message)
    elif report.done:
        parts.append(f"{action.past} {count_words(report.done, action.noun)}")
    if report.removed and undo_key:
        them = "it" if len(report.removed) == 1 else "them"
        parts[-1] += f"; {undo_key} restores {them}"
    if report.done and report.failed:
        parts.append(f"{report.failed:,} could not be:")
    parts += [error_words(error) for error in report.errors]
    more = report.failed - len(report.errors)
    if more > 0:
        parts.append(f"and {more:,} more")
    for words in report.waiting:
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
        """Return the schedule that `edit` opens; None without one."""
        return None

    def schedule_saved(self, name: str) -> None:
        """Show the schedule that the form saved under this name."""

    def action_add(self) -> None:
        self.app.ensure_database(lambda: self._open_form(None))

    def action_edit(self) -> None:
        name = self.current_schedule()
        if name is None:
            self.app.show_notice("there is no schedule here to change", severity="warning")
        else:
            self._open_form(name)

    def _open_form(self, name: str | None) -> None:
        defaults = self.app.defaults

        def read(client: Client) -> _Opened | EdgecronError:
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
                return  # The user went to another screen, or pressed the key twice.
            opened, given = found
            self.app.push_screen(ScheduleForm(opened, defaults=given), answered)

        def answered(name: str | None) -> None:
            if name is not None:
                self.schedule_saved(name)

        self.ask("form", read, show)
