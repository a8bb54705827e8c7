"""What a text shows, done: its commands are run, its files applied, its programs called.

The fences say what is in them:

    console         commands behind `$ `, and what they print; `...` stands for anything
    sh              commands that print what they like, and succeed
    toml            a file that its first line names: schedules.toml or config.toml
    crontab         a file my.crontab, which is imported whole
    json            what can be read as such
    promql          what names metrics that there are
    python          one program in several parts, which prints what `print(...)  # says`
    python recipe   a program that tests/embedding runs
    ini, NAME before   what another program reads: shown for its own sake, and not run

The parts of a text share a folder, a database and a time zone, top to bottom.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import edgecron as package
from tests.support.newdatabases import new_database
from tests.support.program import PROGRAM
from tests.support.shells import put_program_on_path

ROOT = Path(__file__).parents[2]
ZONE = "Europe/Berlin"
SAID = re.compile(r"print\(.*\)\s+# (.*?)(?:: .*)?$")
_PORT = "8745"  # in the place of which a free one is taken
_OTHER_MACHINE = "//pi:"
_MEMORY = "/dev/shm"  # in the place of which a folder is taken
_BOUND_S = 60.0
# What sets up a clone of the repository, installs it or tests it: `.ci/run` does so.
_OF_THE_CLONE = ("python3 -m venv", ".venv/bin/", "packaging/", "pipx ", "uv ", "pip ")
# Said wherever nothing is at work; no topic repeats it each time.
_NO_ENGINE = "warning: no engine is running"
# The reader's zone is set by TZ here, and the machine that runs the tests has its own.
_OTHER_ZONE = "warning: local time is that of"
_INSTANT = re.compile(
    r"\b((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?Z?"
    r"( [+-]\d{4}\b)?|\b\d\d:\d\d:\d\d\b|\b[A-Z][a-z][a-z] \d\d \d\d:\d\d\b"
)
_SPAN = re.compile(r"\b\d+(\.\d+)?(ms|s|m|h|d)( \d+[smh])?( ago)?\b|\bnow\b")
_ASKED_FOR = re.compile(r"^(run \d+ of \S+: )running$")  # an engine was that quick
_FOR_SHELLS = set("$`*?[]~{}()<>|&;!\\\n'\"")
_SPACES = re.compile(r" {2,}")


_FENCED = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced part of a text, and what its fence is called."""

    label: str
    lines: tuple[str, ...]


def code_of(markdown: str) -> list[Block]:
    """The fenced parts of a text."""
    return [
        Block(label.strip(), tuple(code.splitlines())) for label, code in _FENCED.findall(markdown)
    ]


class Example:
    """A folder in which the parts of one text are done, top to bottom; `close` ends what runs.

    A text that `shows_warnings` shows each of them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._port = str(server.getsockname()[1])
        self.shows_warnings = False
        self.wrong: list[str] = []  # what was not done, or printed something else
        self._daemons: list[subprocess.Popen[str]] = []
        # A reader of the text has a database: a command refuses one that is named and not there.
        new_database(folder / "edgecron.db")
        (folder / "shm").mkdir()
        programs = folder / "bin"
        programs.mkdir()
        put_program_on_path(programs)
        # A job that calls it has no PYTHONPATH, and would start the one that is installed.
        source = Path(package.__file__).parents[1]
        program = programs / "edgecron"
        text = program.read_text().replace("exec ", f"PYTHONPATH={shlex.quote(str(source))} exec ")
        program.write_text(text)
        kept = ("LANG", "LC_", "PYTHON", "VIRTUAL_ENV")
        self.environ = {
            **{name: value for name, value in os.environ.items() if name.startswith(kept)},
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",  # Both streams in the order that a terminal shows.
            "HOME": str(folder),
            "EDGECRON_DB": str(folder / "edgecron.db"),
            "EDGECRON_CONFIG": "none",
            "TZ": ZONE,
        }

    def close(self) -> None:
        for daemon in self._daemons:
            daemon.send_signal(signal.SIGTERM)
            daemon.communicate(timeout=_BOUND_S)

    def do(self, block: Block) -> None:
        """Do what a fenced part shows; where it does not do what it says, `wrong` tells."""
        text = "\n".join(block.lines) + "\n"
        match block.label:
            case "console":
                for command, said in _commands(block.lines):
                    self._compare(command, said)
            case "sh":
                for command in _joined(block.lines):
                    if not command.startswith(_OF_THE_CLONE):
                        self._expect_success(command)
            case "toml":
                self._read_toml(text)
            case "crontab":
                self._import(text)
            case "python" | "python recipe":
                pass  # The former are one program: see `python_of`.
            case "json":
                json.loads(text)
            case "promql":
                self._find_metrics(text)
            case label:
                assert label in ("ini", "sql") or label.endswith(" before"), (
                    f"a fence called {label!r}"
                )

    def run(self, command: str) -> tuple[int, str]:
        """The exit code of a command line of the shell, and what it prints on both streams."""
        command = command.replace(_PORT, self._port).replace(_MEMORY, str(self.folder / "shm"))
        command = command.replace(_OTHER_MACHINE, "//127.0.0.1:")
        command = re.sub(r"--http(?= &$)", f"--http 127.0.0.1:{self._port}", command)
        environ = dict(self.environ)
        if "EDGECRON_URL" in command:
            del environ["EDGECRON_DB"]  # Two databases are refused.
        if command.startswith("edgecron daemon"):
            return self._start(command)
        done = subprocess.run(
            _plain_start(command) or ["bash", "-c", command],
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=_BOUND_S,
            check=False,
        )
        return done.returncode, done.stdout.replace(self._port, _PORT)

    def _start(self, command: str) -> tuple[int, str]:
        """Have an engine go on beside what follows, once it is alive."""
        words = shlex.split(command.partition("#")[0].rstrip(" &"))
        daemon = subprocess.Popen(
            [*PROGRAM, *words[1:]],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._daemons.append(daemon)
        assert daemon.stdout is not None
        printed = []
        for line in daemon.stdout:
            if "engine_started" in line:
                return 0, ""
            printed.append(line)
        return daemon.wait(), "".join(printed).replace(self._port, _PORT)

    def _compare(self, command: str, said: list[str]) -> None:
        _, printed = self.run(command)
        is_fixed = "--from" in command
        expected = [_masked(line, is_fixed=is_fixed) for line in said]
        hidden = (_OTHER_ZONE,) if self.shows_warnings else (_NO_ENGINE, _OTHER_ZONE)
        found = [
            _masked(line, is_fixed=is_fixed)
            for line in printed.splitlines()
            if not line.startswith(hidden)
        ]
        if not _is_like(expected, found):
            self.wrong.append("\n".join([f"$ {command}", *said, "--- it prints:", printed]))

    def _read_toml(self, text: str) -> None:
        name = text.splitlines()[0].removeprefix("# ")
        assert name in ("schedules.toml", "config.toml"), f"the first line names no file: {name}"
        (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / name).chmod(0o600)
        command = f"edgecron --config ./{name} config check"
        if name == "schedules.toml":
            command = f"edgecron apply {name} --dry-run"
        self._expect_success(command)

    def _import(self, text: str) -> None:
        (self.folder / "my.crontab").write_text(text, encoding="utf-8")
        self._expect_success("edgecron --db imported.db import crontab my.crontab")

    def _find_metrics(self, text: str) -> None:
        _, known = self.run("edgecron metrics")
        missing = set(re.findall(r"scheduler_\w+", text)) - set(re.findall(r"scheduler_\w+", known))
        if missing:
            self.wrong.append(f"there are no metrics {missing}")

    def _expect_success(self, command: str) -> None:
        code, printed = self.run(command)
        if code != 0:
            self.wrong.append(f"$ {command}\n{printed}exit code {code}")


def python_of(blocks: list[Block]) -> tuple[str, list[str]]:
    """The one program that the parts of a text are, and the lines that it says it prints."""
    parts = ["\n".join(block.lines) for block in blocks if block.label == "python"]
    program = "\n\n".join(parts)
    return program, [found[1] for line in program.splitlines() if (found := SAID.search(line))]


def _commands(lines: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Each command, with the lines that it is said to print."""
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    assert starts[:1] == [0], "a console begins with a command"
    for start, end in pairwise([*starts, len(lines)]):
        first, *rest = lines[start:end]
        command = [first.removeprefix("$ ")]
        while rest and rest[0].startswith("> "):
            command.append(rest.pop(0).removeprefix("> "))
        yield "\n".join(command), [line for line in rest if line]


def _plain_start(command: str) -> list[str] | None:
    """What a shell would start; None if a command has more for a shell than words and quotes.

    Without a shell, the test can start the program as a fork, which takes a third of the time.
    """
    lexer = shlex.shlex(command, posix=False, punctuation_chars=True)
    lexer.whitespace_split = True
    parts = list(lexer)
    is_plain = all(
        (part[0] == part[-1] == "'" and part.count("'") == 2) or not _FOR_SHELLS & set(part)
        for part in parts
    )
    if not is_plain or parts[0] != "edgecron":
        return None
    return [*PROGRAM, *shlex.split(command, comments=True)[1:]]


def _joined(lines: tuple[str, ...]) -> Iterator[str]:
    """Command lines, with the documents and lines that belong to them."""
    command: list[str] = []
    until = None
    for line in lines:
        command.append(line)
        begun = re.search(r"<<'(\w+)'", line)
        until = begun[1] if begun else None if line == until else until
        if until is None and not line.endswith("\\"):
            yield "\n".join(command)
            command = []
    assert not command, "a command without an end"


def _masked(line: str, *, is_fixed: bool) -> str:
    """A line without what depends on when it is printed: all that does, or distances alone."""
    if not is_fixed:
        line = _INSTANT.sub("<instant>", line)
    return _SPACES.sub("  ", _SPAN.sub("<span>", _ASKED_FOR.sub(r"\1queued", line))).rstrip()


def _is_like(expected: list[str], found: list[str]) -> bool:
    """Whether lines are those expected; `...` stands for any text, and alone for any lines."""
    lines = []
    for line in expected:
        any_text = re.escape(line).replace(re.escape("..."), ".*")
        lines.append(r"(?:.*\n)*" if line.strip() == "..." else any_text + r"\n")
    found_text = "".join(f"{line}\n" for line in found if line)
    return re.fullmatch("".join(lines), found_text) is not None
