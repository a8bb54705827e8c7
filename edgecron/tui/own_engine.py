"""Run an engine as a child process of the dashboard; it ends with the dashboard.

Its stdin is a pipe that only the dashboard holds. If the dashboard is killed, the pipe ends and the
engine stops cleanly. Its log is read and the last lines are kept. Lines that can't be read, as
while the dashboard is suspended, are dropped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from edgecron.base.bundle import Start, find_bundle
from edgecron.base.errors import EdgecronError
from edgecron.base.paths import Location, ServerUrl
from edgecron.engine.state_folder import owner_of, root_risk_error

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]
_MOST_LINES = 200
_MESSAGE_PREFIX = "error: "
_END_S = 5.0  # the wait for its end


def engine_command(database: Location, *, config_path: str | None) -> Start:
    """Return the command line of an engine that leaves running jobs when it ends."""
    config = [] if config_path is None else ["--config", config_path]
    # Other users can read the words of a command, so the URL of a server is not among them.
    named = [] if isinstance(database, ServerUrl) else ["--db", os.fspath(database)]
    words = [*config, *named, "daemon", "--until-eof"]
    words += ["--on-shutdown", "leave", "--log-format", "text"]
    bundle = find_bundle()
    if bundle is not None:
        return bundle.start(*words)
    # -P: a file in the current folder must not replace a module.
    return Start([sys.executable, "-P", "-m", "edgecron", *words], ())


def engine_environment(database: Location | None = None) -> Mapping[str, str]:
    """Return our environment, changed so that the engine finds this same package and database."""
    paths = [str(_PACKAGE_PARENT), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    if isinstance(database, ServerUrl):
        found["EDGECRON_DB"] = database.full
        found.pop("EDGECRON_URL", None)
    return found


def find_refusal(database: Location) -> EdgecronError | None:
    """Say why this user can't run an engine on a database; None if it is allowed."""
    if isinstance(database, ServerUrl):
        return None  # The server decides.
    owner = owner_of(database)
    if owner in (None, os.geteuid()):
        return root_risk_error(database)
    return EdgecronError(
        f"database {database} belongs to user {owner}, and you are user {os.geteuid()}:"
        " an engine runs as the owner of its database",
        hint="start one as that user",
    )


def start_engine(
    database: Location, *, config_path: str | None, ended: Callable[[str | None], object]
) -> OwnEngine:
    """Start an engine for a database. Raises the error of `find_refusal`."""
    refusal = find_refusal(database)
    if refusal is not None:
        raise refusal
    return OwnEngine(
        engine_command(database, config_path=config_path),
        environment=engine_environment(database),
        ended=ended,
    )


class OwnEngine:
    """One engine process, from start to end."""

    def __init__(
        self,
        command: Start,
        *,
        environment: Mapping[str, str],
        ended: Callable[[str | None], object],
    ) -> None:
        """Start the engine.

        `ended` is called once, on a separate thread, with the reason; None after `stop`.
        """
        self._command = command
        self._environment = environment
        self._ended = ended
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._is_stopping = threading.Event()
        self._lifeline, self._stdin = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="dashboard-engine")
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""
        return None if self._process is None else self._process.pid

    @property
    def lines(self) -> tuple[str, ...]:
        """The last log lines, oldest first."""
        return tuple(self._lines)

    def stop(self) -> None:
        """Stop the engine; running jobs continue under their supervisor."""
        if not self._is_stopping.is_set():
            self._is_stopping.set()
            os.close(self._stdin)

    def close(self) -> None:
        """Stop the engine, and wait until it has ended."""
        self.stop()
        self._thread.join(_END_S)
        if self._thread.is_alive() and self._process is not None:
            # It may wait for another program's lock. Killing it loses nothing: its supervisor keeps
            # the runs.
            self._process.kill()
        self._thread.join()

    def _run(self) -> None:
        last = None
        try:
            code = self._follow()
        except OSError as error:
            last = f"can't start an engine: {error.strerror or error}"
        else:
            last = self._end_reason(code)
        finally:
            self._ended(None if self._is_stopping.is_set() else last)

    def _end_reason(self, code: int) -> str:
        """Return why the engine ended: its own message, not its last log line."""
        if code < 0:
            return f"killed by signal {-code}"
        said = (line for line in reversed(self._lines) if line.startswith(_MESSAGE_PREFIX))
        return next((line.removeprefix(_MESSAGE_PREFIX) for line in said), f"exit code {code}")

    def _follow(self) -> int:
        """Read its log until it ends; return its exit code."""
        output, theirs = os.pipe()
        # It must never wait for us: a line without room in the pipe is lost.
        os.set_blocking(theirs, False)
        with open(output, encoding="utf-8", errors="replace") as log:
            try:
                self._process = subprocess.Popen(
                    self._command.argv,
                    executable=self._command.executable,
                    pass_fds=self._command.pass_fds,
                    stdin=self._lifeline,
                    stdout=theirs,
                    stderr=theirs,
                    env=self._environment,
                    start_new_session=True,  # keys of the terminal must not signal it
                )
            finally:
                os.close(theirs)
                os.close(self._lifeline)
            for line in log:
                self._lines.append(line.rstrip("\n"))
        return self._process.wait()
