"""`logs -f`: a run to its end, or the runs of a schedule one after the other."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound
from edgecron.cli.printing import OF_BOTH, Printer, last_lines, only, pieces_of, put_pieces
from edgecron.cli.session import Session
from edgecron.client.engine_words import stalled_engine_words
from edgecron.client.run_words import PRINTS_ELSEWHERE, end_words, prints_elsewhere, state_words
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution

if TYPE_CHECKING:
    from edgecron.cli.printing import Piece
    from edgecron.client.protocol import LaterRuns


class LogFollower:
    """Puts what runs print on stdout, as it comes; what else is to be known is said on stderr.

    Of what there is already only the last `lines` are shown, None is all of it; of what comes
    then, everything.
    """

    def __init__(
        self, cli: Session, *, stream: str | None, lines: int | None, zone: tzinfo | None
    ) -> None:
        self._cli = cli
        self._stream = stream
        self._lines = lines
        self._zone = zone

    def follow_run(self, execution: Execution) -> None:
        """Follow a run to its end, and say how it ended."""
        had_ended = execution.status not in ACTIVE
        words = stalled_engine_words(self._cli, execution)
        if words is not None:
            self._cli.warn(words)
        if execution.status is Status.RUNNING and prints_elsewhere(execution):
            self._cli.say(f"run {execution.id} of {execution.schedule} goes on; {PRINTS_ELSEWHERE}")
        printer = Printer(zone=self._zone)
        has_printed = self._print(execution, printer)
        printer.end()
        ended = self._cli.client().execution(execution.id)
        if had_ended and not has_printed:
            words = f" {state_words(self._cli, ended, zone=self._cli.zone())}"
        else:
            words = end_words(self._cli, ended, zone=self._cli.zone())
        self._cli.say(f"run {ended.id} of {ended.schedule}{words}")

    def follow_schedule(self, name: str) -> int:
        """Follow its runs, those that go on now or else its last one first, until it is removed."""
        client = self._cli.client()
        first = self._find_first(name)
        later = client.later_runs(name, known=first)
        if first is None:
            self._cli.say(f"schedule {name} has not run yet; waiting for its first run")
        else:
            self._follow_next(first)
        # What there was is shown: of the runs that come, all is new.
        self._lines = None
        try:
            schedule = client.schedule(name)
        except NotFound:
            return self._say_removed(name)
        self._cli.warn_without_engine(client, schedule)
        while (execution := self._wait_next(later, name)) is not None:
            self._follow_next(execution)
        return self._say_removed(name)

    def _find_first(self, name: str) -> Execution | None:
        client = self._cli.client()
        running = client.history(name, statuses=(Status.RUNNING,), limit=1000)
        if running:
            return running[-1]
        try:
            return client.last_run(name)
        except NotFound:
            if client.removed_at(name) is not None:
                raise
            return None

    def _follow_next(self, execution: Execution) -> None:
        from edgecron.views.times import near_time

        started = execution.started_at or execution.claimed_at or execution.due_at
        time = near_time(started, zone=self._cli.zone(), now=self._cli.client().now())
        attempt = f", attempt {execution.attempt}" if execution.attempt > 1 else ""
        scope = f", {execution.scope_kind}:{execution.scope_id}" if execution.scope_id else ""
        self._cli.say(f"==> run {execution.id} of {execution.schedule}{attempt}{scope}, {time} <==")
        self.follow_run(execution)

    def _wait_next(self, later: LaterRuns, name: str) -> Execution | None:
        """The next run that begins; None where the schedule was removed, and nothing of it runs."""
        while (execution := later.find_next()) is None:
            if later.is_due_for_check and self._cli.client().removed_at(name) is not None:
                return later.find_next()
            later.wait()
        return execution

    def _print(self, execution: Execution, printer: Printer) -> bool:
        """Print what there is and what comes until it has ended; whether there was anything."""
        client = self._cli.client()
        has_printed = False

        def put(pieces: list[Piece], *, lines: int | None = None) -> None:
            nonlocal has_printed
            chosen = last_lines(only(pieces, self._stream), lines)
            put_pieces(self._cli, chosen, printer, of=OF_BOTH if self._stream else "")
            has_printed |= bool(pieces)

        output = client.output(execution.id)
        if output is not None and output.removed_at is None:
            pieces = pieces_of(output, self._stream)
            put_pieces(self._cli, last_lines(pieces, self._lines), printer)
            return bool(output.chunks)
        with client.follower(execution.id) as follower:
            put(follower.read_kept(execution), lines=self._lines)
            while execution.status in ACTIVE:
                if execution.status is Status.RUNNING and follower.is_due_for_check:
                    client.take_over()
                due_s = (execution.due_at - client.now()).total_seconds()
                follower.wait(until_s=due_s if execution.status is Status.QUEUED else 0)
                execution = client.execution(execution.id)
                put(follower.read(execution))
            put(list(follower.read_stored()))
        return has_printed

    def _say_removed(self, name: str) -> int:
        self._cli.say(f"schedule {name} was removed, and nothing of it follows")
        return 0
