"""The dashboard as lines: how it stands, then a prompt that takes the verbs of the command line.

For screen readers and terminals that can't move their cursor: nothing is ever drawn over. Between
two prompts each run that has started or ended is told in a line.
"""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from edgecron.base.errors import EdgecronError
from edgecron.base.values import NamedTuple
from edgecron.cli.session import Session
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution
from edgecron.views.times import near_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.tui.own_engine import OwnEngine


_PROMPT = "edgecron> "
_LOOK_S = 0.5  # how often it is looked for news while nobody types
_MOST_FAILURES = 3
_LEAVING = ("quit", "exit", "q")
# They would take the terminal for themselves.
_ELSEWHERE = {
    "daemon": "`engine` runs one, and stops it",
    "tui": "this is it, and quit leaves it",
    "demo": "it shows itself on a terminal of its own",
}
_HELP = """\
list, next, history, logs 41, run NAME, pause NAME and so on
            every verb, as on the command line
help verbs  all of them; help VERB tells of one
status      how it stands
news        tell of runs that start and end, or no more
engine      run an engine from here, or stop it
quit        leave; runs go on"""


def run_plain(cli: Session, *, starts_engine: bool) -> int:
    """Say how it stands, and do what is asked for until the end of stdin."""
    plain = PlainDashboard(cli)
    try:
        plain.begin(starts_engine=starts_engine)
        while (line := plain.ask()) is not None and plain.obey(line):
            pass
    finally:
        plain.close()
    return 0


class PlainDashboard:
    """One sitting at the prompt."""

    def __init__(self, cli: Session) -> None:
        self._cli = cli
        cli.color = "never"
        self._is_telling = True
        self._reader: NewsReader | None = None
        self._trouble: str | None = None
        self._engine: OwnEngine | None = None
        self._engine_ends: SimpleQueue[str | None] = SimpleQueue()
        self._unsaid: list[str] = []

    def begin(self, *, starts_engine: bool) -> None:
        self._do(["status"])
        self._tell_failures()
        if starts_engine:
            self._switch_engine()
        self._cli.put("help says what can be asked for here, quit leaves")

    def ask(self) -> str | None:
        """The next line; None at the end of stdin. News are told before and meanwhile."""
        while True:
            try:
                self._look()
                self._tell()
                _write(_PROMPT)
                while not _has_line():
                    self._look()
                    if self._unsaid:
                        _write("\n")
                        self._tell()
                        _write(_PROMPT)
                line = _read_line()
            except KeyboardInterrupt:
                _write("\n")  # As in shells: what was begun is forgotten.
                continue
            if not line:
                _write("\n")
            return line or None

    def obey(self, line: str) -> bool:
        """Do what a line says; False where that is to leave."""
        words = self._split(line)
        if words[:1] == ["edgecron"]:  # as it is written everywhere else
            words = words[1:] or ["status"]
        if not words:
            return True
        if words[0] in _LEAVING:
            return False
        if words == ["help"]:
            self._cli.put(_HELP)
        elif words == ["news"]:
            self._is_telling = not self._is_telling
            self._let_go_of_reader()  # What is not told now is not told later either.
            self._cli.put(f"news is {'on' if self._is_telling else 'off'}")
        elif words == ["engine"]:
            self._switch_engine()
        elif words[0] in _ELSEWHERE:
            self._cli.say(f"edgecron: {words[0]} can't be had here: {_ELSEWHERE[words[0]]}")
        else:
            # Lines alone: no pager either.
            asked = [] if words == ["help", "verbs"] else words[1:]
            self._do(["help", "--no-pager", *asked] if words[0] == "help" else words)
        return True

    def close(self) -> None:
        self._let_go_of_reader()
        if self._engine is not None:
            self._engine.close()

    def _split(self, line: str) -> list[str]:
        import shlex

        try:
            return shlex.split(line)
        except ValueError as error:
            self._cli.say(f"edgecron: {str(error).lower()}")
            return []

    def _do(self, words: Sequence[str]) -> None:
        """Do what the command line does."""
        from edgecron.cli import run

        if self._reader is not None:
            self._reader.let_go()  # A verb may fork, and no database may be open then.
        with _own_signals():
            run(["--color", "never", *self._cli.given(self._cli.database), *words])

    def _switch_engine(self) -> None:
        """Run an engine from here, or stop the one that runs."""
        from edgecron.tui.own_engine import (
            OwnEngine,
            engine_command,
            engine_environment,
            find_refusal,
        )

        if self._engine is not None:
            self._engine.close()
            self._engine = None
            self._cli.put("the engine from here has ended; what runs goes on")
            return
        database = self._cli.database_path()
        refusal = find_refusal(database)
        if refusal is not None:
            self._cli.show_error(refusal)
            return
        self._engine = OwnEngine(
            engine_command(database, config_path=self._cli.config_path),
            environment=engine_environment(),
            ended=self._engine_ends.put,
        )
        self._cli.put("an engine runs from here, and ends with this prompt")

    # News.

    def _let_go_of_reader(self) -> None:
        if self._reader is not None:
            self._reader.let_go()
            self._reader = None

    def _look(self) -> None:
        """Find out what has not been said yet."""
        try:
            if (last := self._engine_ends.get_nowait()) is not None:
                self._engine = None
                self._unsaid.append(f"the engine from here has ended: {last}")
        except Empty:
            pass
        try:
            self._unsaid += self._find_news() if self._is_telling else []
        except EdgecronError as error:
            self._let_go_of_reader()
            if self._trouble != error.message:
                self._trouble = error.message
                hint = f" ({error.hint})" if error.hint else ""
                self._unsaid.append(f"{error.message}{hint}")

    def _find_news(self) -> list[str]:
        if self._reader is None:
            if not self._cli.has_database():
                return []  # There is none yet, which was told at the beginning.
            self._cli.close()
            client = self._cli.opener()(True)
            self._reader = NewsReader(client, zone=self._cli.zone())
        found = self._reader.read()
        if self._trouble is not None:
            self._trouble = None
            found = ["the database can be read again", *found]
        return found

    def _tell(self) -> None:
        for text in self._unsaid:
            self._cli.put(text.replace("\n", " "))
        self._unsaid.clear()

    def _tell_failures(self) -> None:
        """The failures before the last one, which is told with how it stands."""
        from edgecron.model.choices import Status
        from edgecron.views.phrases import status_words
        from edgecron.views.times import distance

        try:
            client = self._cli.find_client()
            if client is None:
                return
            statuses = (Status.FAILED, Status.INTERRUPTED)
            for run in client.history(statuses=statuses, limit=_MOST_FAILURES)[1:]:
                when = distance(run.finished_at or run.plan_at, client.now())
                why = f": {run.error_msg}" if run.error_msg else ""
                words = f"{run.schedule}, run {run.id}, {when}, {status_words(run)}{why}"
                self._cli.put(f"before that  {words}".replace("\n", " "))
        except EdgecronError:
            return  # How it stands has told it.
        finally:
            self._cli.close()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _read_line() -> str:
    """A line, shown as a terminal would have shown it; empty at the end."""
    line = sys.stdin.readline()
    if line and not sys.stdin.isatty():
        from edgecron.base.safetext import clean

        _write(clean(line.rstrip("\n")) + "\n")
    return line


def _has_line() -> bool:
    """Whether a line can be read, or the end; waits a while. What is no terminal is waited for."""
    return not sys.stdin.isatty() or bool(select.select([sys.stdin], [], [], _LOOK_S)[0])


@contextmanager
def _own_signals() -> Iterator[None]:
    """Let a verb do with signals what it likes; afterwards they do what they did before."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    kept = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


_MOST_ACTIVE = 1000  # that are watched; of others the end alone is not told
_PAGE = 500
_MOST_TOLD = 10  # at once


class NewsReader:
    """Reads what is new of a database, as lines for people; what there is at first is known."""

    def __init__(self, client: Client, *, zone: tzinfo) -> None:
        self._client = client
        self._zone = zone
        self._mark: int | None = client.change_mark()
        self._last_id = client.run_bounds().last_id
        self._active = self._find_active()

    def read(self) -> list[str]:
        """The lines since the last time; none where nobody has changed anything."""
        mark = self._client.change_mark()
        if mark == self._mark:
            return []
        self._mark = mark
        before = {id_: run.status for id_, run in self._active.items()}
        self._active = self._find_active()
        gone = [self._find(id_) for id_ in before if id_ not in self._active]
        fresh = self._find_fresh()
        runs = {run.id: run for run in (*gone, *self._active.values(), *fresh) if run is not None}
        return news_lines(
            find_news(before, list(runs.values())), zone=self._zone, now=self._client.now()
        )

    def let_go(self) -> None:
        """Close the database; the next `read` opens it anew, and has what was changed meanwhile."""
        self._client.close()
        self._mark = None  # A new connection counts anew.

    def _find_active(self) -> dict[int, Execution]:
        found = self._client.history(statuses=tuple(ACTIVE), limit=_MOST_ACTIVE)
        return {run.id: run for run in found}

    def _find_fresh(self) -> list[Execution]:
        """Runs that have begun since, those that have ended already among them."""
        found = self._client.run_page(after_id=self._last_id, limit=_PAGE).runs
        self._last_id = max(self._last_id, self._client.run_bounds().last_id)
        return found

    def _find(self, execution_id: int) -> Execution | None:
        from edgecron.base.errors import NotFound

        try:
            return self._client.execution(execution_id)
        except NotFound:
            return None  # Retention has removed it: its end is not news any more.


class News(NamedTuple):
    """That a run has started, or ended, and when."""

    run: Execution
    at: datetime


def find_news(before: Mapping[int, Status], runs: Sequence[Execution]) -> list[News]:
    """What is new of runs, in the order of time.

    `before` has the statuses of those that were known to be active. What was skipped has neither
    started nor ended.
    """
    news = []
    for run in runs:
        if run.status is before.get(run.id) or run.status in (Status.QUEUED, Status.SKIPPED):
            continue
        at = run.started_at if run.status is Status.RUNNING else run.finished_at
        news.append(News(run, at or run.due_at))
    return sorted(news, key=lambda each: (each.at, each.run.id))


def news_lines(news: Sequence[News], *, zone: tzinfo, now: datetime) -> list[str]:
    """A line for each, the name first; of many the last ones, and how many there were before."""
    lines = [_line(each, zone=zone, now=now) for each in news[-_MOST_TOLD:]]
    left_out = len(news) - len(lines)
    return [f"{left_out} runs more: see history", *lines] if left_out else lines


def _line(news: News, *, zone: tzinfo, now: datetime) -> str:
    from edgecron.views.phrases import failure_words, status_words

    run = news.run
    start = f"{run.schedule}, run {run.id},"
    time = near_time(news.at, zone=zone, now=now)
    if run.status is Status.RUNNING:
        return f"{start} started at {time}"
    why = f" ({failure_words(run)})" if run.error_msg else ""
    took = "" if run.duration_ms is None else f", {short_duration(run.duration_ms)}"
    return f"{start} ended at {time}: {status_words(run)}{why}{took}"
