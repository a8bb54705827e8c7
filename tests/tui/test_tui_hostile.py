"""Text that means no good, in every place that the dashboard shows: none of it is obeyed.

All that the program writes to its terminal is read. Some of it was planted behind every check, as
whoever has the file can.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
from pathlib import Path

import apsw
import pytest

from tests.support.acts import World
from tests.support.terminal import BOUND_S, process_on_terminal, read_until, resize

# Markup as Textual and Rich have it: an action on a click, styles, an end without a beginning.
MARKUP = "[@click=app.quit]m[/][bold red on blue]n[/bold red][/] [/nothing] \\[o"
# A title, a clipboard write, a cursor position and a colour that nobody else uses, other strings
# for the terminal, a bidirectional override, a separator of lines.
NASTY = (
    "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[66;66H\x1b[38;5;199mZ\x9b66;66H\x9d0;owned\x9c"
    "\x1bPowned\x1b\\\x1b_owned\x1b\\\x1b^owned\x1b\\\x1bcr\rn\nb\bt\u202eu\u2028v"
)
_FORBIDDEN = re.compile(
    "\x1b[P_^Xc]"  # strings for the terminal, and its reset
    "|\x1b\\](?!22;[a-z]*\x07)"  # but for the form of the mouse pointer, which Textual sets
    "|[\x80-\x9f]"  # the same, and more, as single letters
    r"|\x1b\[66;66H|\x1b\[38;5;199m|\x1b\[2J|\x1b\[31m"
    "|[\u202a-\u202e\u2066-\u2069\u2028\u2029]"
    "|\u0301{9}"
)
_QUIET_S = 0.15
# Every screen, on every line of each list; some keys do nothing where they are pressed.
_KEYS = (
    *("1", "j", "j", "j", "g", "\r", "\x1b", "j", "\r", "\x1b", "j", "\r", "\x06", "\x1b"),
    *("2", "j", "\r", "\x1b", "3", "\r", "w", "t", "\x1b", "j", "\r", "t", "\x1b", "j", "\r"),
    *("\x1b", "3", "c", "\x1b"),
    *("1", "g", "r", "\x1b", "p", "\x1b", "d", "\x1b", "m", "\x1b", "e", "\x1b", "b", "\x1b", "u"),
    *("/", "e", "v", "\r", "\x1b", "\x1b", ":", "e", "v", "\r", "\x1b", "?", "\x1b", "s", "*"),
    *("d", "\x1b"),
)  # fmt: skip
# What has another look on a small screen: each list, a schedule, a run and the form.
_KEYS_FOR_LITTLE_ROOM = (
    *("1", "g", "\r", "\x1b", "j", "\r", "\x1b", "e", "\x1b"),
    *("2", "j", "3", "g", "\r", "t", "\x1b", "d", "\x1b"),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    world.build(environment_of(world))
    plant(world.database)
    return world


@pytest.fixture
def world(built: World, tmp_path: Path) -> World:
    return built.copy_to(tmp_path)


def environment_of(world: World) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    own = {"EDGECRON_DB": str(world.database), "TZ": "UTC", "TERM": "xterm-256color"}
    return {**inherited, **own, "COLORTERM": ""}


def plant(database: Path) -> None:
    """Write into every text of a database that a screen may show."""
    connection = apsw.Connection(str(database))
    nasty = NASTY + MARKUP
    connection.execute("PRAGMA foreign_keys = OFF")
    guards = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
    ).fetchall()
    for name, _ in guards:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("INSERT INTO groups (name) VALUES (?)", (nasty[:100],))
    connection.execute(
        "UPDATE schedules SET group_name = ?, description = ?, last_error = ?",
        (nasty[:100], nasty, nasty),
    )
    connection.execute("UPDATE schedules SET name = ? WHERE name = 'missing'", (nasty[:128],))
    connection.execute("UPDATE schedules SET name = ? WHERE name = 'plain'", (MARKUP,))
    connection.execute("UPDATE executions SET error_msg = ? || coalesce(error_msg, '')", (nasty,))
    connection.execute("UPDATE executions SET error_code = ?", (nasty,))
    connection.execute("UPDATE executions SET scope_kind = 'device', scope_id = ?", (nasty,))
    connection.execute("UPDATE executions SET trigger_text = ?", (nasty,))
    progress = json.dumps({"fraction": 0.5, "text": nasty[:100]}, ensure_ascii=False)
    connection.execute("UPDATE executions SET progress = ?, payload = ?", (progress, nasty))
    for _, sql in guards:
        connection.execute(str(sql))
    connection.close()


def read_quiet(outer: int) -> str:
    """What comes until nothing does for a moment."""
    read = b""
    while select.select([outer], [], [], _QUIET_S)[0]:
        try:
            part = os.read(outer, 65_536)
        except OSError:
            break
        if not part:
            break
        read += part
    return read.decode("utf-8", "surrogateescape")


@pytest.mark.failure(72)
def test_nothing_that_is_shown_is_obeyed(world: World) -> None:
    with process_on_terminal(environment_of(world), "tui", size=(170, 50)) as (outer, process):
        shown = read_until(outer, "evil")
        shown += read_quiet(outer)
        for size, keys in (((170, 50), _KEYS), ((80, 24), _KEYS_FOR_LITTLE_ROOM), ((40, 10), ())):
            resize(outer, size)
            process.send_signal(signal.SIGWINCH)
            shown += read_quiet(outer)
            for key in keys:
                os.write(outer, key.encode())
                shown += read_quiet(outer)
            assert process.poll() is None, shown[-3000:]
        os.write(outer, b"\x11")
        shown += read_until(outer, None)
        code = process.wait(BOUND_S)

    assert code == 0
    assert "\\x1b]52" in shown  # it was to be seen, and was made harmless
    assert "[@click=app.quit]" in shown
    found = _FORBIDDEN.search(shown)
    assert found is None, repr(shown[max(0, found.start() - 200) : found.end() + 50])


@pytest.mark.failure(72)
def test_nor_is_it_where_lines_are_all_there_is(world: World) -> None:
    lines = "list\nnext\nhistory\nlogs 1\nshow evil\nstatus\n"
    with process_on_terminal(environment_of(world), "tui", "--plain") as (outer, _):
        shown = read_until(outer, "edgecron> ")
        for line in lines.splitlines():
            os.write(outer, f"{line}\n".encode())
            shown += read_until(outer, "edgecron> ")
        os.write(outer, b"quit\n")
        shown += read_until(outer, None)

    assert "\\x1b]52" in shown
    assert "\x1b" not in shown
    assert _FORBIDDEN.search(shown) is None


@pytest.mark.failure(72)
def test_nor_is_what_is_told_of_a_database_that_can_t_be_read(world: World) -> None:
    world.database.write_bytes(b"nothing that could be read" * 100)

    with process_on_terminal(environment_of(world), "tui") as (outer, process):
        shown = read_until(outer, "is damaged")
        os.write(outer, b"q")
        shown += read_until(outer, None)
        process.wait(BOUND_S)

    assert _FORBIDDEN.search(shown) is None
