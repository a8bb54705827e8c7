"""Actions from the key to the notice: read what a question is about, ask the user, act, report."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from typing import Any, TypeVar

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.model.choices import Status
from edgecron.tui import actions
from edgecron.tui.action_dialogs import (
    TimeRange,
    backfill_dialog,
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
from edgecron.tui.actions import Progress, Report
from edgecron.tui.dialogs import ShowCheck
from edgecron.tui.list_model import Targets
from edgecron.tui.queries import QueryScreen
from edgecron.views.phrases import count_words, error_words

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


_WORDS = {
    "run": ActionWords("run", "starting", "started"),
    "pause": ActionWords("pause", "pausing", "paused"),
    "resume": ActionWords("resume", "resuming", "resumed"),
    "reschedule": ActionWords("move", "moving", "moved the next run of"),
    "cancel": ActionWords("end", "ending", "ended or withdrew", "run"),
    "delete": ActionWords("remove", "removing", "removed"),
    "undo": ActionWords("restore", "restoring", "restored"),
    "backfill": ActionWords("backfill", "backfilling", "backfilled"),
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
    if name == "undo":
        flow.undo()
        return
    if targets is None:
        flow.warn(f"there is nothing here to {flow.words.verb}")
    elif name == "delete" and targets.run_ids:
        flow.warn("runs are not removed by hand: retention removes them when their time has come")
    elif name == "run":
        flow.act(lambda client, progress: actions.run_now(client, targets, progress))
    elif name == "resume":
        zone = screen.app.zone
        flow.act(lambda client, progress: actions.resume(client, targets, progress, zone=zone))
    else:
        screen.run_worker(_QUESTIONS[name](flow, targets))


class _Flow:
    """One action of a screen, from its question to its report."""

    def __init__(
        self, screen: QueryScreen[Any], name: str, clear_marks: Callable[[], None]
    ) -> None:
        self.screen = screen
        self.clear_marks = clear_marks
        self.words = _WORDS[name]

    async def pause(self, targets: Targets) -> None:
        app = self.screen.app
        names = await self._read(targets, actions.names_of)
        if names is None:
            return
        until = await app.push_screen_wait(pause_dialog(names, zone=app.zone, now=app.now))
        if until is not None:
            self.act(
                lambda client, progress: actions.pause(
                    client, Targets(names), progress, until=until.at, zone=app.zone
                )
            )

    async def reschedule(self, targets: Targets) -> None:
        app = self.screen.app
        found = await self._read(targets, partial(read_next_runs, zone=app.zone))
        if found is None:
            return
        at = await app.push_screen_wait(reschedule_dialog(found, zone=app.zone, now=app.now))
        if at is not None:
            self.act(
                lambda client, progress: actions.reschedule(
                    client, Targets(found.names), progress, at=at, zone=app.zone
                )
            )

    async def cancel(self, targets: Targets) -> None:
        found = await self._read(targets, read_cancellation)
        if found is None:
            return
        runs = found.active
        if not runs:
            self.warn(found.why_none)
            return
        is_agreed: bool | None = True
        if any(run.status is Status.RUNNING for run in runs):
            is_agreed = await self.screen.app.push_screen_wait(cancel_dialog(runs))
        if is_agreed:
            ids = [run.id for run in runs]
            self.act(lambda client, progress: actions.cancel(client, ids, progress))

    async def delete(self, targets: Targets) -> None:
        found = await self._read(targets, read_removal)
        if found is None:
            return
        if await self.screen.app.push_screen_wait(removal_dialog(found)):
            self.act(lambda client, progress: actions.remove(client, found.names, progress))

    async def backfill(self, targets: Targets) -> None:
        app = self.screen.app
        found = await self._read(targets, read_backfill)
        if found is None:
            return

        def plan(span: TimeRange, show: ShowCheck[TimeRange]) -> None:
            app.ask(
                "backfill plan",
                lambda client: check_backfill(client, found.names, span, zone=app.zone),
                show,
            )

        dialog = backfill_dialog(found, zone=app.zone, now=app.now, plan=plan)
        span = await app.push_screen_wait(dialog)
        if span is not None:
            self.act(
                lambda client, progress: actions.backfill(client, found.names, progress, span=span)
            )

    def undo(self) -> None:
        app = self.screen.app
        names = app.removed
        if not names:
            self.warn("nothing was removed from here; edgecron undo restores earlier removals")
            return
        app.removed = ()
        self.act(lambda client, progress: actions.restore(client, names, progress, zone=app.zone))

    def warn(self, words: str) -> None:
        """Say why the action is not done."""
        self.screen.app.show_notice(words, severity="warning")

    async def _read(self, targets: Targets, question: Callable[[Client, Targets], T]) -> T | None:
        """Read what a question is about; None if this screen is no longer in front."""
        screen = self.screen
        try:
            found = await screen.answer_to(
                f"to {self.words.verb}", lambda client: question(client, targets)
            )
        except NotFound as error:  # It was removed meanwhile.
            screen.app.show_error(error)
            return None
        return found if screen.app.screen is screen else None

    def act(self, act: Callable[[Client, Progress], Report]) -> None:
        """Run the action on the writer's thread; show its progress and its outcome."""
        app = self.screen.app

        def progress(done: int, total: int) -> None:
            if total >= _LEAST_WITH_PROGRESS and done % max(1, total // _STEPS) == 0:
                words = f"{self.words.present} {done:,} of {total:,} ..."
                app.deliver(partial(app.show_progress, words))

        def done(report: Report) -> None:
            app.show_progress("")
            is_fine = not (report.failed or report.waiting)
            app.removed = report.removed or app.removed
            words = report_words(
                report, self.words, engine_key=app.label("engine"), undo_key=app.label("undo")
            )
            app.show_notice(words, severity="information" if is_fine else "warning")
            if report.done:
                self.clear_marks()
            app.post_changed()

        def refused(error: EdgecronError) -> None:
            app.show_progress("")
            app.show_error(error)

        # A topic of its own: a later action must not replace this one.
        topic = f"act {next(_numbers)}"
        app.do(topic, lambda client: act(client, progress), done=done, refused=refused)


_QUESTIONS: dict[str, Callable[[_Flow, Targets], Coroutine[Any, Any, None]]] = {
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
