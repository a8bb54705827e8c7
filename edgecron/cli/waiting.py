"""`run --wait`: a fire is followed to the end of its last attempt, and run here if need be.

Where an engine is at work, it runs it and we follow; else an engine of our own does, which takes
this one run and nothing else. Who of several engines takes it is decided by the claim of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.cli.session import Session
from edgecron.client.engine_words import stalled_engine_words
from edgecron.client.run_words import end_words, queued_words

if TYPE_CHECKING:
    from edgecron.client.protocol import Follower
    from edgecron.engine.host import EngineHost
    from edgecron.model.choices import WaitsFor
    from edgecron.model.claim import OutputChunk
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule

    # A chunk, and the number of bytes before it that were printed and not kept.
    Put = Callable[[Iterable[tuple[int, OutputChunk]]], object]

_CHECKS_BEFORE_WORDS = 2  # a run that starts within about a second is not said to wait
# A server that ends, or begins, may answer for a moment while it has no engine; between two of
# these looks are two seconds.
_LOOKS_ELSEWHERE = 5


class Waiter:
    """Follows fires of one schedule. What a run prints goes to `put`, as it comes.

    What is to be known of its waiting is said on stderr, once for each reason.
    """

    def __init__(
        self, cli: Session, schedule: Schedule, *, put: Put, end_line: Callable[[], object]
    ) -> None:
        if cli.remote_url() is None:
            import edgecron.client.follow  # noqa: F401 - before the run begins, which prints at once
        self._cli = cli
        self._schedule = schedule
        self._put = put
        self._end_line = end_line
        self._checks = 0
        self._said_waits_for: WaitsFor | None = None
        self._said_abandoned: str | None = None

    def wait(self, execution: Execution) -> Execution:
        """The last attempt of a fire, when it has ended."""
        while True:
            self._checks, self._said_waits_for = 0, None
            ended = self._follow(execution.id)
            self._end_line()
            following = self._cli.client().next_attempt(ended)
            if following is None:
                return ended
            words = end_words(self._cli, ended, zone=self._cli.zone())
            self._cli.say(f"edgecron: run {ended.id} of {ended.schedule}{words}")
            execution = following

    def leave(self, executions: Iterable[Execution]) -> None:
        """Stop waiting for fires: what nobody is there to run is withdrawn, the rest goes on."""
        from edgecron.base.errors import ServerLost

        for execution in executions:
            try:
                self._leave_one(execution)
            except ServerLost:
                look = self._cli.command(f"show {execution.id}")
                self._cli.say(f"edgecron: run {execution.id} was asked for, and may go on: {look}")

    def _leave_one(self, execution: Execution) -> None:
        from edgecron.model.choices import ACTIVE, Status

        client = self._cli.client()
        last = client.execution(execution.id)
        while (following := client.next_attempt(last)) is not None:
            last = following
        if last.status is Status.QUEUED and not self._has_engine():
            client.cancel(last.id)
            self._cli.say(f"edgecron: run {last.id} was withdrawn")
        elif last.status in ACTIVE:
            end = self._cli.command(f"cancel {last.id}")
            self._cli.say(f"edgecron: run {last.id} goes on; to end it: {end}")

    def _follow(self, execution_id: int) -> Execution:
        """Follow one attempt to its end; where no engine is alive and at work, run it here.

        A stalled engine that wakes finds the row claimed; what it has claimed itself is left to it.
        """
        while True:
            ended = self._follow_elsewhere(execution_id) or self._run_here(execution_id)
            if ended is not None:
                return ended

    def _follow_elsewhere(self, execution_id: int) -> Execution | None:
        """Follow it to its end; None where it is due and nobody is there to run it."""
        from edgecron.model.choices import ACTIVE, Status

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
        """After how many looks that found no engine there is none."""
        return 1 if self._cli.remote_url() is None else _LOOKS_ELSEWHERE

    def _has_engine(self) -> bool:
        return _has_engine(self._cli, self._schedule)

    def _check_running(self, execution: Execution, follower: Follower) -> None:
        """Write its end where nobody else does; say once who does not look after it."""
        from edgecron.base.errors import DatabaseBusy
        from edgecron.model.choices import Status

        if follower.is_due_for_check:
            # Its end may be on record with no engine there to take it over.
            with suppress(DatabaseBusy):  # Somebody writes for long: then with the next check.
                self._cli.client().take_over()
            if self._cli.client().execution(execution.id).status is not Status.RUNNING:
                return
        if follower.is_due_for_check or follower.is_silent:
            words = self._abandoned_words(execution)
            if words is not None and self._said_abandoned is None:
                self._cli.warn(words)
            self._said_abandoned = words

    def _abandoned_words(self, execution: Execution) -> str | None:
        """Who does not look after a running run, and what it waits for; None where all is well."""
        states = [state for state in self._cli.client().engines() if state.is_alive]
        has_own = any(state.info.id == execution.engine_id for state in states)
        if not has_own and not any(state.is_working and state.info.queues for state in states):
            return "its engine has gone, and it goes on without one; waiting for its end"
        return stalled_engine_words(self._cli, execution)

    def _run_here(self, execution_id: int) -> Execution | None:
        """Run it here to its end; None where an engine has come, and was first.

        Where that can't be, it is not left for an engine to come upon later.
        """
        from edgecron.base.errors import EdgecronError
        from edgecron.model.choices import COMMAND_QUEUE, Status

        if self._schedule.spec.queue != COMMAND_QUEUE:
            # It was alive when the run was queued.
            refuse_absent_program(self._cli, self._schedule)
        try:
            refuse_without_engine_elsewhere(self._cli, self._schedule)
            return self._drive_new_host(execution_id)
        except EdgecronError:
            with suppress(EdgecronError):  # The first error is the one to tell.
                if self._cli.client().execution(execution_id).status is Status.QUEUED:
                    self._cli.client().cancel(execution_id)
            raise

    def _drive_new_host(self, execution_id: int) -> Execution | None:
        from edgecron.cli.daemon import open_host, run_limits

        path, limits = self._cli.database_path(), run_limits(self._cli)
        # The supervisor is forked next, and must not inherit an open database.
        self._cli.close()
        host = open_host(path, report=lambda event: None, only=execution_id, **limits)
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
        """Step until the run has ended; None where another engine has taken it."""
        from edgecron.model.choices import ACTIVE, Status

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
                # Nothing else starts here: what holds it back stays until that has ended.
                self._check_queued(execution)
            ready = follower.wait(host.engine.filenos())
            is_heard = not ready.isdisjoint(host.engine.filenos())
            must_step = is_heard or follower.is_due_for_check or host.engine.has_changed()

    def _step(self, host: EngineHost, *, may_wait: bool) -> None:
        from edgecron.base.errors import DatabaseBusy

        try:
            host.engine.step()
        except DatabaseBusy as error:
            if not may_wait:
                raise
            # What runs is not given up for it: the end is written with a later step.
            self._cli.warn(f"{error.message}; its end is written when that is over")

    def _end_here(self, host: EngineHost, follower: Follower) -> None:
        """End what we run ourselves; a second Ctrl-C leaves that to its supervisor."""
        from edgecron.base.errors import EdgecronError

        self._cli.say(
            f"edgecron: ending run {follower.execution_id};"
            " Ctrl-C again leaves it to its supervisor"
        )
        try:
            self._cli.client().cancel(follower.execution_id)
        except EdgecronError:  # It has ended just now, or nothing can be written.
            host.engine.live.stop()
        self._drive(host, follower)

    def _check_queued(self, execution: Execution) -> None:
        """Say what it waits for, where it is not the same still."""
        self._checks += 1
        if self._checks < _CHECKS_BEFORE_WORDS:
            return
        from edgecron.client.outlook_words import find_active

        found = find_active(self._cli.client(), execution)
        if found is None or found.waits_for is self._said_waits_for:
            return
        self._said_waits_for = found.waits_for
        words = queued_words(self._cli, execution, zone=self._cli.zone())
        self._cli.say(f"edgecron: run {execution.id} {words}")


def refuse_absent_program(cli: Session, schedule: Schedule) -> None:
    """Raise NotSupported where only a program that does not run could run what is queued."""
    from edgecron.base.errors import NotSupported
    from edgecron.client.engine_words import absence_words, removal_words, runner_words
    from edgecron.model.choices import COMMAND_QUEUE

    queue = schedule.spec.queue
    if queue == COMMAND_QUEUE or _has_engine(cli, schedule):
        return
    if schedule.vanished_at is not None:
        words = absence_words(cli.client(), schedule)
        raise NotSupported(words, hint=removal_words(schedule.name, command=cli.command))
    is_at_work = cli.client().has_engine(queue)
    how = "at work in a version without it" if is_at_work else "not at work"
    raise NotSupported(
        f"it is run by {runner_words(queue)}, which is {how}",
        hint="start that program, or leave out --wait: then it is run when that starts",
    )


def refuse_without_engine_elsewhere(cli: Session, schedule: Schedule) -> None:
    """Raise NotSupported where the run is another machine's, and nobody there is at work: it can't
    be run from here."""
    url = cli.remote_url()
    if url is not None and not _has_engine(cli, schedule):
        from edgecron.base.errors import NotSupported

        raise NotSupported(
            f"no engine is at work on the database of {url}, and it can't be run from here",
            hint=f"start one: {cli.command('daemon')}; or leave out --wait, and it is run then",
        )


def _has_engine(cli: Session, schedule: Schedule) -> bool:
    """Whether an engine at work takes what there is of a schedule."""
    return cli.client().has_engine(schedule.spec.queue, offer=schedule.offer)
