"""Actions from the key to the notice: read what a question is about, ask the user, act, report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from functools import partial
from itertools import count
from threading import Event
from typing import Any, TypeVar

from edgecron.base.errors import EdgecronError, InvalidInput, NotFound
from edgecron.base.value_texts import read_time
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.model.choices import Status
from edgecron.model.run import Execution
from edgecron.tui.actions import (
    Actions,
    ActionWords,
    BackfillRange,
    NextRuns,
    Removal,
    Report,
    TimeRange,
    WordsFront,
    act_on_each,
    active_words,
    listed_words,
    names_of,
    names_words,
    read_backfill,
    read_cancellation,
    read_next_runs,
    read_removal,
    report_words,
)
from edgecron.tui.database_app import Made
from edgecron.tui.dialogs import (
    CheckResult,
    ConfirmDialog,
    Dialog,
    Field,
    Lines,
    ShowCheck,
    check_move,
    check_time,
)
from edgecron.tui.list_rows import Targets
from edgecron.tui.queries import QueryScreen
from edgecron.views.changes import left_lines
from edgecron.views.phrases import count_words, error_words, named_words
from edgecron.views.times import local_time

T = TypeVar("T")

_STEPS = 100  # progress messages, at most
_MOST_NAMED = 3
_EXAMPLE = "2h, 18:00, tomorrow, monday 09:00, 2026-12-24"
_MOVE_EXAMPLE = "2h from now, +2h later than due, 18:00, tomorrow"
_numbers = count(1)


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
            await self._answer(_bulk_dialog(self.words.verb, names, runs=len(targets.run_ids)))
        self.act_plainly(Targets(names=names))

    def act_plainly(self, targets: Targets) -> None:
        """Run or resume without a question."""
        if self.words.key == "run":
            self.act(lambda client: _names_to_run(client, targets), Actions.run_now)
        else:
            self.act(lambda client: names_of(client, targets), Actions.resume)

    async def pause(self, targets: Targets) -> None:
        app, names = self.app, await self._read(targets, names_of)
        end = await self._answer(_pause_dialog(names, zone=app.zone, now=app.now))
        pause = partial(Actions.pause, until=end.at, is_only=len(names) == 1)
        self.act(lambda _: names, pause)

    async def reschedule(self, targets: Targets) -> None:
        app, found = (
            self.app,
            await self._read(targets, partial(read_next_runs, zone=self.app.zone)),
        )
        to = await self._answer(_reschedule_dialog(found, zone=app.zone, now=app.now))
        self.act(lambda _: found.names, lambda actions, name: actions.reschedule(name, to=to))

    async def cancel(self, targets: Targets) -> None:
        found = await self._read(targets, read_cancellation)
        runs = found.active
        if not runs:
            self.warn(found.why_none)
            return
        if len(runs) > 1 or runs[0].status is Status.RUNNING:
            await self._answer(_cancel_dialog(runs))
        self.act(lambda _: [run.id for run in runs], Actions.cancel)

    async def delete(self, targets: Targets) -> None:
        found = await self._read(targets, read_removal)
        await self._answer(_removal_dialog(found))
        self.act(lambda _: found.names, Actions.remove)

    async def backfill(self, targets: Targets) -> None:
        app, found = self.app, await self._read(targets, read_backfill)

        def plan(span: TimeRange, show: ShowCheck[TimeRange]) -> None:
            app.ask(
                "backfill plan",
                lambda client: _check_backfill(client, found.names, span, zone=app.zone),
                show,
            )

        dialog = _backfill_dialog(found, zone=app.zone, now=app.now, plan=plan)
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
                "nothing to undo: you changed no schedule in this dashboard yet;"
                " `edgecron undo NAME` undoes earlier changes"
            )

    async def undo_many(self, changed: tuple[Made, ...]) -> None:
        names = [made.name for made in changed]
        await self._answer(_bulk_dialog(f"{self.words.verb} the last change of", names))
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


# Dialogs.

_Now = Callable[[], datetime]


class _PauseEnd(NamedTuple):
    """The end of a pause; None for one without end."""

    at: datetime | None


def _check_backfill(
    client: Client, names: Sequence[str], span: TimeRange, *, zone: tzinfo
) -> CheckResult[TimeRange]:
    """Say how many runs a backfill would queue, and what it would skip."""
    try:
        plans = [client.plan_backfill(name, *span) for name in names]
    except InvalidInput as error:
        return CheckResult(error_words(error))
    count = sum(len(plan.wanted) for plan in plans)
    lines = left_lines(WordsFront(client).command, plans[0], zone=zone) if len(plans) == 1 else []
    left = "".join(f"; {line}" for line in lines)
    if not count:
        return CheckResult(f"nothing to backfill for {names_words(names)}{left}")
    times = [fire.plan_at for plan in plans for fire in (plan.wanted[:1] + plan.wanted[-1:])]
    first, last = local_time(min(times), zone=zone), local_time(max(times), zone=zone)
    return CheckResult(f"queues {count_words(count, 'run')}, {first} to {last}{left}", span)


def _listed(names: Sequence[str]) -> list[str]:
    """Return the names of several schedules in words; nothing for one, which the title names."""
    return [listed_words(names)] if len(names) > 1 else []


def _pause_dialog(names: Sequence[str], *, zone: tzinfo, now: _Now) -> Dialog[_PauseEnd]:
    """Ask for the end of a pause."""

    def check(texts: tuple[str, ...], show: ShowCheck[_PauseEnd]) -> None:
        if not texts[0]:
            show(CheckResult("until you resume it", _PauseEnd(None)))
            return
        words, end = check_time(texts[0], zone=zone, now=now())
        show(CheckResult(f"until {words}", _PauseEnd(end)) if end else CheckResult(words))

    return Lines(
        f"Pause {names_words(names)}",
        [*_listed(names), "Stops scheduled runs until then. Active runs continue."],
        fields=[Field("until", example=_EXAMPLE)],
        check=check,
        yes="pause",
    )


def _reschedule_dialog(
    next_runs: NextRuns, *, zone: tzinfo, now: _Now
) -> Dialog[datetime | timedelta]:
    """Ask for the new time of the next run, or for how much later it is to start."""
    is_one = len(next_runs.names) == 1

    def check(texts: tuple[str, ...], show: ShowCheck[datetime | timedelta]) -> None:
        show(check_move(texts[0], next_runs.first, is_one=is_one, zone=zone, now=now()))

    if is_one:
        what = "Only this run moves. The run after it follows the trigger."
    else:
        what = "Only the next run of each moves, not a later one that a filter found."
    return Lines(
        f"Move the next run of {names_words(next_runs.names)}",
        [*filter(None, [next_runs.words]), what],
        fields=[Field("to", example=_MOVE_EXAMPLE)],
        check=check,
        yes="move",
    )


def _removal_dialog(removal: Removal) -> Dialog[bool]:
    """Ask whether to remove; for several schedules, their number must be typed."""
    names = removal.names
    title = f"Remove {names_words(names)}?"
    what = "it" if len(names) == 1 else "them"
    words = [active_words(removal.active)]
    if removal.dependents:
        named = named_words(removal.dependents, most=_MOST_NAMED)
        words.append(f"Schedules after {what} will not run again: {named}.")
    if len(names) == 1:
        return ConfirmDialog(title, words, yes="remove it", no="keep it", is_danger=True)
    number = str(len(names))

    def check(texts: tuple[str, ...], show: ShowCheck[bool]) -> None:
        is_typed = texts[0] == number
        words = f"removes {names_words(names)}" if is_typed else f"type {number} to remove them"
        show(CheckResult(words, True if is_typed else None))

    return Lines(
        title,
        [named_words(sorted(names), most=_MOST_NAMED), *words],
        fields=[Field("how many")],
        check=check,
        yes="remove",
        is_danger=True,
    )


def _cancel_dialog(runs: Sequence[Execution]) -> Dialog[bool]:
    """Ask whether to cancel running runs."""
    running = [run for run in runs if run.status is Status.RUNNING]
    if len(runs) == 1:
        title = f"Cancel run {runs[0].id} of {runs[0].schedule}?"
    else:
        title = f"Cancel {count_words(len(runs), 'run')}?"
    whose = "their" if len(running) > 1 else "its"
    words = []
    if len(runs) > 1:
        names = tuple(dict.fromkeys(run.schedule for run in runs))
        words.append(listed_words(names))
    if running:
        words.append(f"All {whose} processes get TERM, and KILL after the kill grace.")
    if len(running) < len(runs):
        waiting = len(runs) - len(running)
        words.append(f"{count_words(waiting, 'queued run')} will not start.")
    if len(runs) == 1:
        return ConfirmDialog(title, words, yes="cancel the run", no="let it run", is_danger=True)
    yes = f"cancel {count_words(len(runs), 'run')}"
    return ConfirmDialog(title, words, yes=yes, no="let them run", is_danger=True)


def _bulk_dialog(verb: str, names: Sequence[str], *, runs: int = 0) -> Dialog[bool]:
    """Ask whether to act on several schedules; `runs` of them were marked instead of schedules."""
    many = names_words(names)
    words = [listed_words(names)]
    if runs:
        verb_of = "belongs" if runs == 1 else "belong"
        words.append(f"{count_words(runs, 'marked run')} {verb_of} to them. Each runs once.")
    title = f"{verb[0].upper()}{verb[1:]} {many}?"
    return ConfirmDialog(title, words, yes=f"{verb} {many}")


def _backfill_dialog(
    gap: BackfillRange,
    *,
    zone: tzinfo,
    now: _Now,
    plan: Callable[[TimeRange, ShowCheck[TimeRange]], None],
) -> Dialog[TimeRange]:
    """Ask for the time range of a backfill; `plan` previews it."""
    begins, ends = ("", "")
    if gap.span is not None:
        begins, ends = (local_time(instant, zone=zone) for instant in gap.span)

    def check(texts: tuple[str, ...], show: ShowCheck[TimeRange]) -> None:
        if not all(texts):
            show(CheckResult(""))
            return
        try:
            first, last = (
                read_time(text, what=label, timezone="local", now=now(), is_past_ok=True)
                for label, text in zip(("from", "to"), texts, strict=True)
            )
        except InvalidInput as error:
            show(CheckResult(error_words(error)))
            return
        plan((first, last), show)

    return Lines(
        f"Backfill {names_words(gap.names)}",
        [*_listed(gap.names), "Queues a run for each plan time without a successful run."],
        fields=[
            Field("from", begins, "2026-11-01, or with a time: 2026-11-01 06:00"),
            Field("to", ends, "the last time, included; or now"),
        ],
        check=check,
        yes="queue runs",
    )
