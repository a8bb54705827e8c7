"""An engine that the dashboard runs: a child process, which ends with it, however it ends.

Its stdin is a pipe whose other end nobody holds but the dashboard: where that is killed, the pipe
ends, and the engine ends in good order. What it says is read as it comes, and the last of it kept;
what can't be taken, as while the dashboard is suspended, it drops.
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
from edgecron.engine.owner import open_refusal, owner_of

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]
_MOST_LINES = 200
_SAID = "edgecron: "  # what is not a line of its log
_END_S = 5.0  # so long its end is waited for


def engine_command(database: Path, *, config_path: str | None) -> Start:
    """The command line of an engine of this program: it goes by the limits of the configuration,
    and leaves what runs when it ends."""
    config = [] if config_path is None else ["--config", config_path]
    words = [*config, "--db", os.fspath(database), "daemon", "--until-eof"]
    words += ["--on-shutdown", "leave", "--log-format", "text"]
    bundle = find_bundle()
    if bundle is not None:
        return bundle.start(*words)
    # -P: the folder we happen to be in must not stand in for a module.
    return Start([sys.executable, "-P", "-m", "edgecron", *words], ())


def engine_environment() -> Mapping[str, str]:
    """The environment of that command: ours, in which the very same package is found."""
    paths = [str(_PACKAGE_PARENT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def find_refusal(database: Path) -> EdgecronError | None:
    """Why no engine of ours may run here; None where one may."""
    owner = owner_of(database)
    if owner in (None, os.geteuid()):
        return open_refusal(database)
    return EdgecronError(
        f"database {database} belongs to user {owner}, and you are user {os.geteuid()}:"
        " an engine runs as the owner of its database",
        hint="start one as that user",
    )


class OwnEngine:
    """One engine, from its start to its end."""

    def __init__(
        self,
        command: Start,
        *,
        environment: Mapping[str, str],
        ended: Callable[[str | None], object],
    ) -> None:
        """Start it. `ended` is called once, on a thread of the engine's own, when it has ended:
        with why, or None where it was told to end."""
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
        """Its process id; None before there is one."""
        return None if self._process is None else self._process.pid

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines of its log, oldest first."""
        return tuple(self._lines)

    def stop(self) -> None:
        """Tell it to end; what runs goes on under its supervisor."""
        if not self._is_stopping.is_set():
            self._is_stopping.set()
            os.close(self._stdin)

    def close(self) -> None:
        """The same, and wait until it has ended."""
        self.stop()
        self._thread.join(_END_S)
        if self._thread.is_alive() and self._process is not None:
            # It may wait for a lock that another program has. Runs are their supervisor's, so there
            # is nothing that an end at once could lose.
            self._process.kill()
        self._thread.join()

    def _run(self) -> None:
        last = None
        try:
            code = self._follow()
        except OSError as error:
            last = f"no engine can be started: {error.strerror or error}"
        else:
            last = self._last_words(code)
        finally:
            self._ended(None if self._is_stopping.is_set() else last)

    def _last_words(self, code: int) -> str:
        """Why it ended: what it said of that itself, and not whatever it wrote down last."""
        if code < 0:
            return f"it was ended by signal {-code}"
        said = (line for line in reversed(self._lines) if line.startswith(_SAID))
        return next(said, f"exit code {code}")

    def _follow(self) -> int:
        """Read what it says until it ends; its exit code."""
        output, theirs = os.pipe()
        # It must never wait for us: a line that finds no room is lost.
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
                    start_new_session=True,  # the keys of the terminal are not meant for it
                )
            finally:
                os.close(theirs)
                os.close(self._lifeline)
            for line in log:
                self._lines.append(line.rstrip("\n"))
        return self._process.wait()
