"""`run --wait`: follow a run to the end of its last attempt; without an engine, run it here.

If an engine is running, it executes the run and we follow. Otherwise an engine in this process
executes this one run. The claim of the run's row decides which engine gets it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.errors import DatabaseBusy, EdgecronError, NotSupported, ServerLost
from edgecron.cli.engine_hosting import open_host
from edgecron.cli.session import Session
from edgecron.client.sentences import (
    absence_words,
    end_words,
    find_active,
    follow_words,
    missing_words,
    queued_words,
    remedy,
    stalled_engine_words,
)
from edgecron.engine.presence import EngineSettings
from edgecron.model.choices import ACTIVE, COMMAND_QUEUE, Status, WaitsFor
from edgecron.model.engine import ANYWHERE
from edgecron.views.phrases import place_words, runner_words
from edgecron.views.schedule_words import removal_words

if TYPE_CHECKING:
    from edgecron.cli.run_output import Piece, Printer
    from edgecron.client.following import Follower
    from edgecron.engine.host import EngineHost
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule


_CHECKS_BEFORE_WORDS = 2  # no message for a run that starts within about a second
# A server that starts or stops can answer for a moment without an engine. Two seconds lie between
# two checks.
_LOOKS_ELSEWHERE = 5


class Waiter:
    """Follows runs of one schedule, and prints their output as it comes, if there is a printer.

    Why a run waits is printed on stderr, once for each reason.
    """

    def __init__(
        self,
        cli: Session,
        schedule: Schedule,
        *,
        printer: Printer | None,
        is_as_scheduled: bool = False,
    ) -> None:
        """With `is_as_scheduled`, a run that no engine takes is cancelled, and not run here."""
        if cli.remote_url() is None:
            import edgecron.client.following  # noqa: F401 - before the run begins, which prints at once
        self._cli = cli
        self._schedule = schedule
        self._printer = printer
        self._is_as_scheduled = is_as_scheduled
        self._checks = 0
        self._said_waits_for: WaitsFor | None = None
        self._said_abandoned: str | None = None
        self._placed_id: int | None = None  # the run whose machine was said

    def wait(self, execution: Execution) -> Execution:
        """Wait for a run and its retries; return the last attempt."""
        while True:
            self._checks, self._said_waits_for = 0, None
            ended = self._follow(execution.id)
            if self._printer is not None:
                self._printer.end()
            following = self._cli.client().next_attempt(ended)
            if following is None:
                return ended
            words = end_words(self._cli, ended, zone=self._cli.zone())
            self._cli.say(f"edgecron: run {ended.id} of {ended.schedule}{words}")
            execution = following

    def leave(self, executions: Iterable[Execution]) -> None:
        """Stop waiting: cancel queued runs if no engine is running; the others continue."""
        for execution in executions:
            try:
                self._leave_one(execution)
            except ServerLost:
                look = self._cli.command(f"show {execution.id}")
                self._cli.say(
                    f"edgecron: run {execution.id} was requested and might still be active: {look}"
                )

    def _leave_one(self, execution: Execution) -> None:
        client = self._cli.client()
        last = client.execution(execution.id)
        while (following := client.next_attempt(last)) is not None:
            last = following
        if last.status is Status.QUEUED and not self._has_engine():
            client.cancel(last.id)
            self._cli.say(f"edgecron: cancelled run {last.id}")
        elif last.status in ACTIVE:
            end = self._cli.command(f"cancel {last.id}")
            self._cli.say(f"edgecron: run {last.id} continues; to end it: {end}")

    def _put(self, pieces: Iterable[Piece]) -> None:
        if self._printer is not None:
            self._printer.put(pieces)

    def _follow(self, execution_id: int) -> Execution:
        """Follow one attempt to its end; if no engine is running, run it here.

        A stalled engine that wakes finds the row claimed. A row that it claimed stays its own.
        """
        while True:
            ended = self._follow_elsewhere(execution_id) or self._run_here(execution_id)
            if ended is not None:
                return ended

    def _follow_elsewhere(self, execution_id: int) -> Execution | None:
        """Follow an attempt to its end; None if it is due and no engine is running."""
        client = self._cli.client()
        was_due, looks = False, 0
        with client.follower(execution_id) as follower:
            while True:
                execution = client.execution(execution_id)
                if execution.status not in ACTIVE:
                    self._put(follower.read_stored())
                    return execution
                self._put(follower.read(execution))
                if execution.status is Status.RUNNING:
                    self._check_running(execution, follower)
                else:
                    is_due = execution.due_at <= client.now()
                    is_time = follower.is_due_for_check or (is_due and not was_due)
                    was_due = is_due
                    if is_time and is_due:
                        looks = 0 if self._has_engine() else looks + 1
                    if looks >= self._most_looks:
                        return None
                    if follower.is_due_for_check:
                        self._check_queued(execution)
                follower.wait(until_s=(execution.due_at - client.now()).total_seconds())

    @property
    def _most_looks(self) -> int:
        """How many checks must find no engine before the run counts as unattended."""
        return 1 if self._cli.remote_url() is None else _LOOKS_ELSEWHERE

    def _has_engine(self) -> bool:
        return _has_engine(self._cli, self._schedule)

    def _check_running(self, execution: Execution, follower: Follower) -> None:
        """Record the end of a run without an engine; warn once if nothing attends it."""
        if self._placed_id != execution.id:
            self._placed_id = execution.id
            if (place := follow_words(self._cli.client(), execution)) is not None:
                self._cli.say(f"edgecron: run {execution.id} {place}")
        if follower.is_due_for_check:
            # The supervisor may have recorded its end while no engine was running.
            with suppress(DatabaseBusy):  # The database is locked: the next check tries again.
                self._cli.client().take_over()
            if self._cli.client().execution(execution.id).status is not Status.RUNNING:
                return
        if follower.is_due_for_check or follower.is_silent:
            words = self._abandoned_words(execution)
            if words is not None and self._said_abandoned is None:
                self._cli.warn(words)
            self._said_abandoned = words

    def _abandoned_words(self, execution: Execution) -> str | None:
        """Say which engine is missing or stalled for a running run; None if all is well."""
        states = [state for state in self._cli.client().engines() if state.is_alive]
        has_own = any(state.info.id == execution.engine_id for state in states)
        if not has_own and not any(state.is_working and state.info.queues for state in states):
            return "the engine of the run has gone; the run continues, waiting for its end"
        return stalled_engine_words(self._cli, execution)

    def _run_here(self, execution_id: int) -> Execution | None:
        """Run it here to its end; None if another engine claimed it first.

        If that fails, cancel the run, so that no engine starts it later.
        """
        if self._schedule.spec.queue != COMMAND_QUEUE:
            # The program was running when the run was queued.
            refuse_absent_program(self._cli, self._schedule)
        try:
            refuse_without_engine(self._cli, self._schedule, is_as_scheduled=self._is_as_scheduled)
            return self._drive_new_host(execution_id)
        except EdgecronError:
            with suppress(EdgecronError):  # Report the first error.
                if self._cli.client().execution(execution_id).status is Status.QUEUED:
                    self._cli.client().cancel(execution_id)
            raise

    def _drive_new_host(self, execution_id: int) -> Execution | None:
        path = self._cli.location()
        settings = EngineSettings(
            only=execution_id,
            clock_wait_ms=None,
            output_cap_bytes=self._cli.setting("limits.output"),
        )
        # The host forks the supervisor, which must not inherit an open database.
        self._cli.close()
        host = open_host(path, settings, report=lambda event: None)
        try:
            with self._cli.client().follower(execution_id) as follower:
                try:
                    return self._drive(host, follower)
                except KeyboardInterrupt:
                    self._end_here(host, follower)
                    raise
        finally:
            host.engine.retire()
            host.close()

    def _drive(self, host: EngineHost, follower: Follower) -> Execution | None:
        """Step the engine until the run has ended; None if another engine has claimed it."""
        client = self._cli.client()
        must_step = True
        is_running = False
        while True:
            if must_step:
                self._step(host, may_wait=is_running)
            execution = client.execution(follower.execution_id)
            is_running = execution.status is Status.RUNNING
            if is_running and execution.engine_id != host.engine.engine_id:
                return None
            if execution.status not in ACTIVE:
                self._put(follower.read_stored())
                return execution
            self._put(follower.read(execution))
            if not is_running and follower.is_due_for_check:
                # This engine starts nothing else: say what blocks the run.
                self._check_queued(execution)
            ready = follower.wait(host.engine.runners.filenos())
            is_heard = not ready.isdisjoint(host.engine.runners.filenos())
            must_step = is_heard or follower.is_due_for_check or host.engine.has_changed()

    def _step(self, host: EngineHost, *, may_wait: bool) -> None:
        try:
            host.engine.step()
        except DatabaseBusy as error:
            if not may_wait:
                raise
            # Do not give up the run: a later step records its end.
            self._cli.warn(
                f"{error.message}; edgecron records the end of the run when the database is free"
            )

    def _end_here(self, host: EngineHost, follower: Follower) -> None:
        """End the run of our own engine; a second Ctrl-C leaves that to the supervisor."""
        self._cli.say(
            f"edgecron: ending run {follower.execution_id};"
            " Ctrl-C again leaves it to its supervisor"
        )
        try:
            self._cli.client().cancel(follower.execution_id)
        except EdgecronError:  # The run has just ended, or the database is locked.
            host.engine.runners.stop()
        self._drive(host, follower)

    def _check_queued(self, execution: Execution) -> None:
        """Print what a queued run waits for, if that has changed."""
        self._checks += 1
        if self._checks < _CHECKS_BEFORE_WORDS:
            return

        found = find_active(self._cli.client(), execution)
        if found is None or found.waits_for is self._said_waits_for:
            return
        self._said_waits_for = found.waits_for
        words = queued_words(self._cli, execution, zone=self._cli.zone())
        self._cli.say(f"edgecron: run {execution.id} {words}")


def refuse_absent_program(cli: Session, schedule: Schedule) -> None:
    """Raise NotSupported if the schedule belongs to a program that is not running."""
    queue = schedule.spec.placed_queue
    if schedule.spec.queue == COMMAND_QUEUE or _has_engine(cli, schedule):
        return
    if schedule.vanished_at is not None:
        words = absence_words(cli.client(), schedule)
        raise NotSupported(words, hint=removal_words(schedule.name, command=cli.command))
    is_running = cli.client().has_engine(queue)
    how = "running, but does not declare it" if is_running else "not running"
    raise NotSupported(
        f"{schedule.name} is run by {runner_words(queue)}, which is {how}",
        hint="start that program; without --wait, it starts with the program",
    )


def refuse_without_engine(cli: Session, schedule: Schedule, *, is_as_scheduled: bool) -> None:
    """Raise NotSupported if a run needs an engine, and no engine is running.

    A run on the machine of a server needs one, and so does a run as scheduled.
    """
    url, queue = cli.remote_url(), schedule.spec.placed_queue
    can_run_here = schedule.spec.policies.on in (ANYWHERE, os.uname().nodename)
    if (url is None and not is_as_scheduled and can_run_here) or _has_engine(cli, schedule):
        return
    states = cli.client().engines()
    missing, advice = missing_words(states, queue), remedy(states, queue, command=cli.command)
    if not can_run_here:
        raise NotSupported(
            f"{schedule.name} only runs{place_words(queue)}, and {missing}",
            hint=f"{advice}; without --wait, the run starts then",
        )
    if url is not None:
        raise NotSupported(
            f"{missing} on the machine of {url}, and this command can't start a run there",
            hint=f"{advice}; without --wait, the run starts with the engine",
        )
    raise NotSupported(
        f"{missing}, and --as-scheduled needs the environment of an engine",
        hint=f"{advice}; without --wait, the run starts with the engine",
    )


def _has_engine(cli: Session, schedule: Schedule) -> bool:
    """Return whether a running engine takes runs of a schedule."""
    return cli.client().has_engine(schedule.spec.placed_queue, offer=schedule.offer)
