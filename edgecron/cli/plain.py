"""The dashboard as lines: the status, then a prompt that takes the commands of the command line.

For screen readers and for terminals that can't move their cursor: it never draws over anything.
At the prompt it reports each run that has started or ended.
"""

from __future__ import annotations

import select
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from edgecron.base.errors import EdgecronError
from edgecron.base.safetext import clean
from edgecron.cli import run
from edgecron.cli.files import read_text
from edgecron.cli.session import Session
from edgecron.client.protocol import Client
from edgecron.model.choices import Status
from edgecron.model.listing import RunChoice
from edgecron.model.run import Execution
from edgecron.tui.own_engine import OwnEngine, start_engine
from edgecron.views.phrases import error_words, failure_words, status_words
from edgecron.views.times import distance, near_time, short_duration

_PROMPT = "edgecron> "
_LOOK_S = 0.5  # between two looks for news
_NEWEST = 100  # runs that are watched for news
_MOST_FAILURES = 3
_LEAVING = ("quit", "exit", "q")
# They would take the terminal for themselves.
_ELSEWHERE = {
    "daemon": "use `engine` to start and stop one",
    "tui": "you are in the dashboard; to leave it: quit",
    "demo": "use another terminal",
}


def run_plain(cli: Session, *, starts_engine: bool) -> int:
    """Show the status, and carry out commands until the end of stdin."""
    plain = PlainDashboard(cli)
    try:
        plain.begin(starts_engine=starts_engine)
        while (line := plain.ask()) is not None and plain.obey(line):
            pass
    finally:
        plain.close()
    return 0


class PlainDashboard:
    """One session at the prompt."""

    def __init__(self, cli: Session) -> None:
        self._cli = cli
        cli.color = "never"
        self._news: News | None = News(cli)
        self._engine: OwnEngine | None = None
        self._engine_ends: SimpleQueue[str | None] = SimpleQueue()

    def begin(self, *, starts_engine: bool) -> None:
        self._do(["status"])
        self._put_failures()
        if starts_engine:
            self._switch_engine()
        self._cli.put("type help for the commands, quit to leave")

    def ask(self) -> str | None:
        """Return the next line; None at the end of stdin. Report news before and meanwhile."""
        while True:
            try:
                self._put_news(self._find_news())
                _write(_PROMPT)
                while not _has_line():
                    if news := self._find_news():
                        _write("\n")
                        self._put_news(news)
                        _write(_PROMPT)
                line = _read_line()
            except KeyboardInterrupt:
                _write("\n")  # As in shells: forget the line.
                continue
            if not line:
                _write("\n")
            return line or None

    def obey(self, line: str) -> bool:
        """Carry out a line; return False to leave."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            self._cli.say(f"edgecron: {str(error).lower()}")
            return True
        if words[:1] == ["edgecron"]:  # as everywhere else
            words = words[1:] or ["status"]
        match words:
            case []:
                pass
            case [word, *_] if word in _LEAVING:
                return False
            case ["help"]:
                self._cli.put(read_text("texts/plain.txt").removesuffix("\n"))
            case ["help", "commands"]:
                self._do(["help", "--no-pager"])
            case ["help", *rest]:
                self._do(["help", "--no-pager", *rest])
            case ["news"]:
                self._switch_news()
            case ["engine"]:
                self._switch_engine()
            case [word, *_] if word in _ELSEWHERE:
                self._cli.say(f"edgecron: {word} does not work here: {_ELSEWHERE[word]}")
            case _:
                self._do(words)
        return True

    def close(self) -> None:
        if self._news is not None:
            self._news.close()
        if self._engine is not None:
            self._engine.close()

    def _do(self, words: Sequence[str]) -> None:
        """Run a command of the command line."""
        if self._news is not None:
            self._news.close()  # A command can fork, and no database may be open then.
        with _own_signals():
            run(["--color", "never", *self._cli.given(self._cli.database), *words])

    def _switch_engine(self) -> None:
        """Start an engine, or stop the one that was started."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
            self._cli.put("the engine of this prompt has stopped; running jobs continue")
            return
        try:
            self._engine = start_engine(
                self._cli.location(),
                config_path=self._cli.config_path,
                ended=self._engine_ends.put,
            )
        except EdgecronError as error:
            self._cli.show_error(error)
            return
        self._cli.put("an engine is running and stops with this prompt")

    def _switch_news(self) -> None:
        if self._news is not None:
            self._news.close()
            self._news = None
        else:
            self._news = News(self._cli)
        self._cli.put(f"news is {'off' if self._news is None else 'on'}")

    def _find_news(self) -> list[str]:
        found = []
        try:
            if (last := self._engine_ends.get_nowait()) is not None:
                self._engine = None
                found.append(f"the engine of this prompt has stopped: {last}")
        except Empty:
            pass
        return found if self._news is None else found + self._news.read()

    def _put_news(self, news: list[str]) -> None:
        for text in news:
            self._cli.put(text.replace("\n", " "))

    def _put_failures(self) -> None:
        """Show the failures before the last one, which the status shows."""
        try:
            client = self._cli.reading_client()
            choice = RunChoice(statuses=(Status.FAILED, Status.INTERRUPTED))
            for run in client.history(choice=choice, limit=_MOST_FAILURES)[1:]:
                when = distance(run.finished_at or run.plan_at, client.now())
                why = f": {failure_words(run)}" if run.error_msg else ""
                words = f"{run.schedule}, run {run.id}, {when}, {status_words(run)}{why}"
                self._cli.put(f"before that  {words}".replace("\n", " "))
        except EdgecronError:
            return  # The status has shown it.
        finally:
            self._cli.close()


class News:
    """Reports starts and ends of the newest runs, but not of runs known at first."""

    def __init__(self, cli: Session) -> None:
        self._cli = cli
        self._client: Client | None = None
        self._mark: int | None = None
        self._known: dict[int, Status] | None = None
        self._trouble: str | None = None

    def read(self) -> list[str]:
        """Return a line for each change since the last call."""
        try:
            lines = self._find()
        except EdgecronError as error:
            self.close()
            is_told = self._trouble == error.message
            self._trouble = error.message
            return [] if is_told else [error_words(error)]
        if self._trouble is not None:
            self._trouble = None
            lines.insert(0, "the database can be read again")
        return lines

    def close(self) -> None:
        """Close the database; the next `read` opens it again."""
        if self._client is not None:
            self._client.close()
            self._client = None
            self._mark = None  # A new connection counts from the start.

    def _find(self) -> list[str]:
        if self._client is None:
            if not self._cli.has_database():
                return []
            self._cli.close()
            self._client = self._cli.opener()(True)
        mark = self._client.change_mark()
        if mark == self._mark:
            return []
        self._mark = mark
        runs = self._client.history(limit=_NEWEST)
        before, self._known = self._known, {run.id: run.status for run in runs}
        if before is None:
            return []
        newest_id = max(before, default=0)
        return [
            self._words(run, self._client)
            for run in reversed(runs)
            # An unknown run with a lower id is old: newer ones were removed.
            if (run.id in before or run.id > newest_id)
            and run.status is not before.get(run.id)
            and run.status not in (Status.QUEUED, Status.SKIPPED)
        ]

    def _words(self, run: Execution, client: Client) -> str:
        zone, now = self._cli.zone(), client.now()
        start = f"{run.schedule}, run {run.id},"
        if run.status is Status.RUNNING:
            return f"{start} started at {near_time(run.started_at or now, zone=zone, now=now)}"
        why = f" ({failure_words(run)})" if run.error_msg else ""
        took = "" if run.duration_ms is None else f", {short_duration(run.duration_ms)}"
        ended = near_time(run.finished_at or now, zone=zone, now=now)
        return f"{start} ended at {ended}: {status_words(run)}{why}{took}"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _read_line() -> str:
    """Return a line, echoed if no terminal does; empty at the end."""
    line = sys.stdin.readline()
    if line and not sys.stdin.isatty():
        _write(clean(line.rstrip("\n")) + "\n")
    return line


def _has_line() -> bool:
    """Return whether a line, or the end, can be read; on a terminal, wait for it a moment."""
    return not sys.stdin.isatty() or bool(select.select([sys.stdin], [], [], _LOOK_S)[0])


@contextmanager
def _own_signals() -> Iterator[None]:
    """Let a command set signal handlers; restore ours afterwards."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
