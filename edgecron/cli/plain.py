"""The dashboard as lines: how it stands, then a prompt that takes the verbs of the command line.

For screen readers and terminals that can't move their cursor: nothing is ever drawn over. Between
two prompts each run that has started or ended is told in a line.
"""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from edgecron.base.errors import EdgecronError
from edgecron.cli.session import Session

if TYPE_CHECKING:
    from edgecron.cli.news import NewsReader
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
            from edgecron.cli.news import NewsReader

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
