"""Which rows of the failure catalogue a test carries, and why the others are not carried yet.

A row is carried by `@pytest.mark.failure(N)` on a test of that failure. Who writes the first
test of a row takes it out of NOT_CARRIED; who removes the last one puts it back, with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent

# What goes wrong with schedulers in the field.
ROWS = {
    # Time
    1: "a fixed time in the spring gap",
    2: "a time in the repeated hour",
    3: "the clock jumps forward",
    4: "the clock jumps back",
    5: "boot with the clock at 1970 or 2099",
    6: "suspend and resume",
    7: "a sleeping engine when the clock is set",
    8: "time zone data changes",
    9: "a zone that no longer exists",
    10: "a date that can never come",
    11: "fields that no cron promises",
    12: "an expression of absurd length",
    13: "editing a schedule fires for the past",
    14: "intervals drift over days",
    # Crash and power
    15: "kill -9 at each statement and file operation",
    16: "power loss",
    17: "killed between claim, start, record and exit",
    18: "a supervisor killed",
    19: "every engine killed at once",
    20: "a reboot with the same process id in use again",
    21: "a job killed for memory",
    # Concurrency
    22: "many engines race for the same due time",
    23: "an engine stopped for a minute",
    24: "a foreign program holds the write lock",
    25: "a reader that never ends",
    26: "pause, cancel, delete against a starting run",
    27: "run at the very instant of a due time",
    28: "catch-up meets overlap=queue",
    29: "a late terminal write after a lost lease",
    30: "the database copied, and both copies run",
    31: "the database replaced or deleted while an engine runs",
    # Processes and signals
    32: "a job that ignores TERM",
    33: "a grandchild that keeps the pipe open",
    34: "a job that daemonises",
    35: "zombies, and waiting for strange children",
    36: "TERM to the daemon",
    37: "the terminal closes",
    38: "a job inherits file descriptors",
    39: "a job inherits signal masks and ignored signals",
    40: "no more processes or descriptors at spawn",
    41: "the command or its folder is missing",
    42: "parent-death signals and threads",
    43: "the service manager restarts the daemon",
    # Output and resources
    44: "output without end",
    45: "invalid UTF-8, NUL, escape sequences in output",
    46: "a job that reads stdin",
    47: "no space while output is written",
    48: "ten million past runs",
    49: "ten thousand due at once",
    50: "a resume with hundreds of catch-ups",
    # Storage
    51: "disk full, I/O error, read-only file system",
    52: "a corrupt database",
    53: "-wal or -shm deleted under a live engine",
    54: "a network file system",
    55: "cp of a live database is no backup",
    56: "fork with the database open",
    # Input and configuration
    57: "hostile names",
    58: "a duplicate name",
    59: "an import or apply that fails half way",
    60: "shell syntax in names, arguments, payloads",
    61: "percent signs, SHELL and PATH in crontabs",
    # Security
    62: "a wide umask",
    63: "a link where a file or folder of ours should be",
    64: "environment leaks into jobs",
    65: "secrets in the database, process list, logs, exports",
    66: "a hostile schema or trigger planted in the database",
    67: "a callable that the program did not register",
    # Upgrade
    68: "an older schema",
    69: "a newer schema",
    70: "two versions at once",
    71: "a bundled binary whose unpacked files vanish",
    # Dashboard and command line
    72: "hostile output or names reach the terminal",
    73: "resize, 1x1, dumb terminals, other locales",
    74: "the database locked or lost under the dashboard",
    75: "a closed pipe",
    76: "quitting the dashboard",
    # Embedding
    77: "the engine's thread dies",
    78: "the host uses sqlite3 on the same file",
    79: "the interpreter exits mid-run",
    80: "a pre-forking server",
    81: "a callable that raises SystemExit, hangs, or returns what is no JSON",
    # A server for several machines
    82: "the connection to the server is lost within a transaction",
    83: "the answer of a COMMIT is lost",
    84: "the server is killed while engines fire",
    85: "the server's disk is full",
    86: "a foreign program keeps rows of the server locked",
    87: "clocks of two machines differ by minutes",
    88: "a pooler gives each transaction another connection",
    89: "an engine starts on a machine whose runs others took over",
    90: "no engine of a schedule's machine or label is running",
    91: "one of the machines that all run a schedule is away, comes later or is removed",
    92: "a server that takes over lacks the last transactions",
    93: "the server cancels a statement, or its database is replaced",
    94: "two machines send the notices of a server, or one has other rules",
}

NOT_CARRIED: dict[int, str] = {}


@cache
def carried() -> dict[int, set[str]]:
    """The rows that tests are marked with, and the files of those tests.

    A test that is not run by default, or not everywhere, carries none.
    """
    found: dict[int, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if "pytest.mark.failure(" not in text:
            continue  # Most files: to parse them all takes seconds.
        for node in _walk_what_runs(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if ast.unparse(node.func) == "pytest.mark.failure":
                [row] = node.args
                found.setdefault(ast.literal_eval(row), set()).add(path.name)
    return found


def _walk_what_runs(node: ast.AST) -> Iterator[ast.AST]:
    marks = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
    if any(mark.startswith(("pytest.mark.slow", "pytest.mark.skip")) for mark in marks):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk_what_runs(child)


def test_every_row_is_carried_or_says_why_not() -> None:
    silent = {row: title for row, title in ROWS.items() if row not in {*carried(), *NOT_CARRIED}}

    assert silent == {}


def test_no_row_that_is_carried_says_that_it_is_not() -> None:
    both = {row: sorted(carried()[row]) for row in NOT_CARRIED if row in carried()}

    assert both == {}, "take these rows out of NOT_CARRIED"


def test_every_mark_names_a_row_of_the_catalogue() -> None:
    assert set(carried()) <= set(ROWS)
    assert set(NOT_CARRIED) <= set(ROWS)
    assert list(ROWS) == list(range(1, len(ROWS) + 1))
