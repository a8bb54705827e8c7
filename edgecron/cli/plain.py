"""The dashboard as lines: the status, then a prompt that takes the commands of the command line.

For screen readers and for terminals that can't move their cursor: it never draws over anything.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue

from edgecron.base.errors import EdgecronError
from edgecron.base.files import package_text
from edgecron.base.safetext import clean
from edgecron.cli import run
from edgecron.cli.session import Session
from edgecron.model.choices import Status
from edgecron.model.listing import RunChoice
from edgecron.tui.own_engine import OwnEngine, start_engine
from edgecron.views.phrases import failure_words, status_words
from edgecron.views.times import distance

_PROMPT = "edgecron> "
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
        self._engine: OwnEngine | None = None
        self._engine_ends: SimpleQueue[str | None] = SimpleQueue()

    def begin(self, *, starts_engine: bool) -> None:
        self._do(["status"])
        self._put_failures()
        if starts_engine:
            self._switch_engine()
        self._cli.put("type help for the commands, quit to leave")

    def ask(self) -> str | None:
        """Return the next line; None at the end of stdin."""
        while True:
            try:
                self._put_end()
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
                self._cli.put(package_text("cli/texts/plain.txt").removesuffix("\n"))
            case ["help", "commands"]:
                self._do(["help", "--no-pager"])
            case ["help", *rest]:
                self._do(["help", "--no-pager", *rest])
            case ["engine"]:
                self._switch_engine()
            case [word, *_] if word in _ELSEWHERE:
                self._cli.say(f"edgecron: {word} does not work here: {_ELSEWHERE[word]}")
            case _:
                self._do(words)
        return True

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def _do(self, words: Sequence[str]) -> None:
        """Run a command of the command line."""
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

    def _put_end(self) -> None:
        """Report that the engine of this prompt has ended by itself."""
        with suppress(Empty):
            if (last := self._engine_ends.get_nowait()) is not None:
                self._engine = None
                self._cli.put(f"the engine of this prompt has stopped: {last}".replace("\n", " "))

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


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _read_line() -> str:
    """Return a line, echoed if no terminal does; empty at the end."""
    line = sys.stdin.readline()
    if line and not sys.stdin.isatty():
        _write(clean(line.rstrip("\n")) + "\n")
    return line


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
