"""Actions from the key to the notice: read what a question is about, ask the user, act, report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from threading import Event
from typing import Any, TypeVar

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.model.choices import Status
from edgecron.tui.action_dialogs import (
    TimeRange,
    backfill_dialog,
    bulk_dialog,
    cancel_dialog,
    check_backfill,
    pause_dialog,
    read_backfill,
    read_cancellation,
    read_next_runs,
    read_removal,
    removal_dialog,
    reschedule_dialog,
)
from edgecron.tui.actions import Actions, Report, act_on_each, names_of
from edgecron.tui.database_app import Made
from edgecron.tui.dialogs import Dialog, ShowCheck
from edgecron.tui.list_rows import Targets
from edgecron.tui.queries import QueryScreen
from edgecron.views.phrases import count_words, error_words

T = TypeVar("T")

_STEPS = 100  # progress messages, at most
_numbers = count(1)


class ActionWords(NamedTuple):
    """Words for an action: its verb, present and past forms, and the noun of its targets."""

    key: str
    verb: str
    present: str
    past: str
    noun: str = "schedule"


_PLAIN = ("run", "resume")  # actions that ask nothing about one line
_WORDS = {
    "run": ActionWords("run", "run", "starting", "started"),
    "pause": ActionWords("pause", "pause", "pausing", "paused"),
    "resume": ActionWords("resume", "resume", "resuming", "resumed"),
    "reschedule": ActionWords("reschedule", "move", "moving", "moved the next run of"),
    "cancel": ActionWords("cancel", "cancel", "cancelling", "cancelled", "run"),
    "delete": ActionWords("delete", "remove", "removing", "removed"),
    "undo": ActionWords("undo", "undo", "undoing", "undid the last change of"),
    "redo": ActionWords("redo", "redo", "redoing", "redid the last change of"),
    "backfill": ActionWords("backfill", "backfill", "backfilling", "backfilled"),
}


def begin(
    screen: QueryScreen[Any],
    name: str,
    *,
    targets: Targets | None,
    clear_marks: Callable[[], None],
) -> None:
    """Begin an action of a screen; `clear_marks` is called if it was done to any target."""
    flow = _Flow(screen, name, clear_marks)
    if name in ("undo", "redo"):
        screen.app.journal.when_done(flow.begin_undo)
    elif targets is None:
        flow.warn(f"select a line first: nothing here to {flow.words.verb}")
    elif name == "delete" and targets.run_ids:
        flow.warn("you can't remove single runs: retention removes old runs")
    elif name in _PLAIN and targets.size == 1:
        flow.act_plainly(targets)
    else:
        screen.prepare(flow.ask(_QUESTIONS[name], targets))


def _names_to_run(client: Client, targets: Targets) -> Sequence[str]:
    # A run that ended while no engine ran must not count as an overlap.
    client.take_over()
    return names_of(client, targets)


class _Left(Exception):
    """The user left the question, or it has no answer."""


class _Flow:
    """One action of a screen, from its question to its report."""

    def __init__(
        self, screen: QueryScreen[Any], name: str, clear_marks: Callable[[], None]
    ) -> None:
        self.screen = screen
        self.app = screen.app
        self.clear_marks = clear_marks
        self.words = _WORDS[name]

    async def ask(self, question: Callable[[_Flow, T], Awaitable[None]], targets: T) -> None:
        """Ask a question, and act on its answer."""
        with suppress(_Left):
            await question(self, targets)

    async def do_plainly(self, targets: Targets) -> None:
        names = await self._read(targets, names_of)
        if len(names) > 1:
            await self._answer(bulk_dialog(self.words.verb, names, runs=len(targets.run_ids)))
        self.act_plainly(Targets(names=names))

    def act_plainly(self, targets: Targets) -> None:
        """Run or resume without a question."""
        if self.words.key == "run":
            self.act(lambda client: _names_to_run(client, targets), Actions.run_now)
        else:
            self.act(lambda client: names_of(client, targets), Actions.resume)

    async def pause(self, targets: Targets) -> None:
        app, names = self.app, await self._read(targets, names_of)
        end = await self._answer(pause_dialog(names, zone=app.zone, now=app.now))
        self.act(lambda _: names, lambda actions, name: actions.pause(name, until=end.at))

    async def reschedule(self, targets: Targets) -> None:
        app, found = (
            self.app,
            await self._read(targets, partial(read_next_runs, zone=self.app.zone)),
        )
        at = await self._answer(reschedule_dialog(found, zone=app.zone, now=app.now))
        self.act(lambda _: found.names, lambda actions, name: actions.reschedule(name, at=at))

    async def cancel(self, targets: Targets) -> None:
        found = await self._read(targets, read_cancellation)
        runs = found.active
        if not runs:
            self.warn(found.why_none)
            return
        if len(runs) > 1 or runs[0].status is Status.RUNNING:
            await self._answer(cancel_dialog(runs))
        self.act(lambda _: [run.id for run in runs], Actions.cancel)

    async def delete(self, targets: Targets) -> None:
        found = await self._read(targets, read_removal)
        await self._answer(removal_dialog(found))
        self.act(lambda _: found.names, Actions.remove)

    async def backfill(self, targets: Targets) -> None:
        app, found = self.app, await self._read(targets, read_backfill)

        def plan(span: TimeRange, show: ShowCheck[TimeRange]) -> None:
            app.ask(
                "backfill plan",
                lambda client: check_backfill(client, found.names, span, zone=app.zone),
                show,
            )

        dialog = backfill_dialog(found, zone=app.zone, now=app.now, plan=plan)
        span = await self._answer(dialog)
        self.act(lambda _: found.names, lambda actions, name: actions.backfill(name, span=span))

    def begin_undo(self) -> None:
        """Undo or redo the newest change; ask first if it concerns several schedules."""
        journal, is_undo = self.app.journal, self.words.key == "undo"
        entries = journal.done if is_undo else journal.undone
        if entries:
            changed = entries[-1]
            if len(changed) > 1:
                journal.drop_waiting()
                self.screen.prepare(self.ask(_Flow.undo_many, changed))
            else:
                self._undo(changed)
        elif not is_undo:
            self.warn("nothing to redo: you undid nothing since your last change")
        elif journal.undone:
            self.warn(f"nothing more to undo; {self.app.label('redo')} redoes your changes")
        else:
            self.warn(
                "nothing to undo: you changed nothing in this dashboard yet;"
                " `edgecron undo NAME` undoes earlier changes"
            )

    async def undo_many(self, changed: tuple[Made, ...]) -> None:
        names = [made.name for made in changed]
        await self._answer(bulk_dialog(f"{self.words.verb} the last change of", names))
        self._undo(changed)

    def _undo(self, changed: tuple[Made, ...]) -> None:
        journal, is_undo = self.app.journal, self.words.key == "undo"
        taken, given = journal.done, journal.undone
        if not is_undo:
            taken, given = given, taken
        if not taken or taken[-1] != changed:
            return  # It was undone while the question was open.
        taken.pop()
        seen = {made.name: journal.seen(made.name) for made in changed}

        def undone(made: tuple[Made, ...]) -> None:
            if made:
                given.append(made)
                journal.note(made)

        self.act(
            lambda _: changed,
            lambda actions, made: actions.undo(made, seen=seen[made.name]),
            noted=undone,
            failed=lambda: taken.append(changed),
        )

    def warn(self, words: str) -> None:
        """Say why the action is not done."""
        self.app.show_notice(words, severity="warning")

    async def _read(self, targets: Targets, question: Callable[[Client, Targets], T]) -> T:
        """Read what a question is about. Raises _Left if this screen is no longer in front."""
        try:
            found = await self.screen.answer_to(
                f"to {self.words.verb}", lambda client: question(client, targets)
            )
        except NotFound as error:  # It was removed meanwhile.
            self.app.show_error(error)
            raise _Left from error
        if self.app.screen is not self.screen:
            raise _Left
        return found

    async def _answer(self, dialog: Dialog[T]) -> T:
        """Show a dialog, and return its answer. Raises _Left if there is none."""
        answer = await self.app.push_screen_wait(dialog)
        if not answer:
            raise _Left
        return answer

    def act(
        self,
        targets_of: Callable[[Client], Sequence[T]],
        act: Callable[[Actions, T], str],
        *,
        noted: Callable[[tuple[Made, ...]], None] | None = None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Act on each target on the writer's thread; show the progress and the outcome.

        `noted` takes the changes; without it, they can be undone. `failed` is called if the
        database refuses all.
        """
        app, stop = self.app, Event()
        app.journal.begin()

        def progress(done: int, total: int) -> None:
            if done % max(1, total // _STEPS) == 0 and 1 < total != done:
                words = f"{self.words.present} {done:,} of {total:,} ..."
                app.deliver(partial(show_progress, words))

        def show_progress(words: str) -> None:
            if stop not in app.stops:
                app.stops.append(stop)
            app.show_progress("stopping ..." if stop.is_set() else words)

        def end_progress() -> None:
            if stop in app.stops:
                app.stops.remove(stop)
            app.show_progress("")

        def write(client: Client) -> Report:
            targets = targets_of(client)
            progress(0, len(targets))
            return act_on_each(
                client, targets, act, zone=app.zone, progress=progress, is_stopped=stop.is_set
            )

        def done(report: Report) -> None:
            end_progress()
            is_fine = not (report.failed or report.waiting or report.left)
            (noted or app.journal.add)(report.changed)
            back = "redo" if self.words.key == "undo" else "undo"
            words = report_words(
                report, self.words, engine_key=app.label("engine"), undo_key=app.label(back)
            )
            app.show_notice(words, severity="information" if is_fine else "warning")
            if report.done:
                self.clear_marks()
            app.post_changed()
            app.journal.end()

        def refused(error: EdgecronError) -> None:
            end_progress()
            app.show_error(error)
            failed()
            app.journal.end()

        # A topic of its own: a later action must not replace this one.
        app.do(f"act {next(_numbers)}", write, done=done, refused=refused)


_QUESTIONS = {
    **dict.fromkeys(_PLAIN, _Flow.do_plainly),
    "pause": _Flow.pause,
    "reschedule": _Flow.reschedule,
    "cancel": _Flow.cancel,
    "delete": _Flow.delete,
    "backfill": _Flow.backfill,
}


def report_words(
    report: Report, action: ActionWords, *, engine_key: str, undo_key: str = ""
) -> str:
    """Describe what an action did, what failed, and what still waits for an engine."""
    parts = []
    if report.done == 1 or report.is_summed:
        parts.append(report.message)
    elif report.done:
        parts.append(f"{action.past} {count_words(report.done, action.noun)}")
    if report.changed and undo_key:
        parts[-1] += f"; {undo_key} {'redoes it' if action.verb == 'undo' else 'undoes it'}"
    if report.done and report.failed:
        parts.append(f"{report.failed:,} failed:")
    parts += [error_words(error) for error in report.errors]
    more = report.failed - len(report.errors)
    if more > 0:
        parts.append(f"and {more:,} more")
    if report.left:
        parts.append(f"stopped: {count_words(report.left, action.noun)} left as before")
    for words in report.waiting:
        if words:
            parts.append(words)
        elif engine_key:
            parts.append(
                f"no engine is running: the run waits; press {engine_key} to start an engine"
            )
        else:
            parts.append("no engine is running: the run waits until you start one")
    return "\n".join(parts)
