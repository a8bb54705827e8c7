"""What holds for every command: JSON, streams that can't be written, and hostile text."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from edgecron.cli import run
from edgecron.cli.commands import COMMANDS
from edgecron.views.phrases import display_width
from tests.support.acts import ACTS, EVIL, LASTING, World
from tests.support.cli import Edgecron
from tests.support.program import PROGRAM
from tests.support.terminal import BOUND_S, on_terminal, process_on_terminal, read_until

_COLOURS = re.compile("\x1b\\[(?:0|1|2|3[1-6])m")
_SHOWN_EMPTY = ("list", "history", "next")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("made"))
    world.build(environment_of(world))
    return world


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    return made.copy_to(tmp_path)


def environment_of(world: World, **more: str) -> dict[str, str]:
    # Buffered, as the program is for everybody else.
    unwanted = ("NO_COLOR", "PYTHONUNBUFFERED", "COLUMNS")
    inherited = {key: value for key, value in os.environ.items() if key not in unwanted}
    own = {"EDGECRON_DB": str(world.database), "TZ": "UTC", "TERM": "xterm-256color"}
    return {**inherited, **own, **more}


def act(world: World, command: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, *world.words(command)],
        env=environment_of(world),
        stdin=subprocess.DEVNULL,
        timeout=BOUND_S,
        check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


def test_every_verb_has_an_act_here() -> None:
    assert set(ACTS) | LASTING == set(COMMANDS), (
        "give the new command a line in tests/support/acts.py"
    )


@pytest.mark.parametrize("command", ACTS)
def test_json_is_an_array_of_objects(
    world: World,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("EDGECRON_DB", str(world.database))

    code = run(("--json", *world.words(command)))
    out, err = capsys.readouterr()

    assert code == 0, err
    found = json.loads(out)
    assert isinstance(found, list)
    assert all(isinstance(one, dict) and one for one in found)
    assert found or command == "backfill"


@pytest.mark.parametrize("command", COMMANDS)
def test_errors_are_json_where_json_was_asked_for(edgecron: Edgecron, command: str) -> None:
    said = edgecron(command, "--no-such-option", "--json")

    assert (said.code, said.out) == (2, "")
    assert said.error["code"] == "usage"
    assert set(said.error) == {"code", "message", "hint"}


@pytest.mark.parametrize(
    "words", [("--json", "\udcff"), ("\udcff", "--json"), ("nonesuch", "--json")]
)
def test_errors_are_json_whatever_stands_on_the_line(
    edgecron: Edgecron, words: tuple[str, ...]
) -> None:
    said = edgecron(*words)

    assert said.code == 2
    assert said.error["code"] == "usage"


@pytest.mark.parametrize("command", _SHOWN_EMPTY)
def test_json_of_nothing_is_an_empty_array(edgecron: Edgecron, backup: str, command: str) -> None:
    removed = edgecron("rm", backup, "--yes")

    said = edgecron(command, "--json")

    assert removed.code == 0
    assert (said.code, said.json) == (0, [])


@pytest.mark.failure(45)
@pytest.mark.failure(72)
@pytest.mark.parametrize("json_words", [(), ("--json",)])
@pytest.mark.parametrize("command", ACTS)
def test_nothing_but_text_and_our_colours_reaches_a_terminal(
    world: World, command: str, json_words: tuple[str, ...]
) -> None:
    with on_terminal(environment_of(world), *json_words, *world.words(command)) as outer:
        os.write(outer, b"n\n")  # import asks.
        shown = read_until(outer, None)

    rest = _COLOURS.sub("", shown)
    assert rest.strip()
    assert not _unseen(rest), ascii(_unseen(rest))


@pytest.mark.failure(72)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_usage_error_shows_the_word_it_quotes_harmlessly(world: World, command: str) -> None:
    with on_terminal(environment_of(world), command, *[f"x{EVIL}"] * 4, f"--{EVIL}") as outer:
        shown = read_until(outer, None)

    assert "x1b]52;c;aGk=" in shown
    assert not _unseen(shown)


@pytest.mark.failure(72)
@pytest.mark.parametrize("words", [(), ("--log-format", "json")])
def test_the_log_of_an_engine_holds_nothing_but_text(world: World, words: tuple[str, ...]) -> None:
    with process_on_terminal(environment_of(world), "daemon", *words) as (outer, process):
        shown = read_until(outer, "success")
        process.terminate()
        shown += read_until(outer, None)

    assert not _unseen(_COLOURS.sub("", shown))


@pytest.mark.failure(75)
@pytest.mark.parametrize("command", ACTS)
def test_a_reader_that_has_gone_is_no_failure(world: World, command: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)

    said = act(world, command, stdout=write_end)
    os.close(write_end)

    assert said.returncode == 0
    assert b"Traceback" not in said.stderr
    assert b"ignored" not in said.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.failure(75)
@pytest.mark.parametrize("command", ACTS)
def test_results_that_can_not_be_written_are_a_failure_that_says_so(
    world: World, command: str
) -> None:
    with open("/dev/full", "wb") as full:
        said = act(world, command, stdout=full)

    assert said.returncode == 1
    assert b"no space left on device" in said.stderr
    assert b"Traceback" not in said.stderr
    assert b"ignored" not in said.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.failure(75)
@pytest.mark.parametrize("command", ACTS)
def test_words_that_can_not_be_written_change_no_result(
    made: World, tmp_path: Path, command: str
) -> None:
    with open("/dev/full", "wb") as full:
        said = act(made.copy_to(tmp_path), command, stderr=full)

    assert said.returncode == 0
    assert said.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.failure(75)
def test_an_error_that_nobody_can_read_keeps_its_exit_code(world: World) -> None:
    with open("/dev/full", "wb") as full:
        said = subprocess.run(
            [*PROGRAM, "show", "nonesuch"], env=environment_of(world), stderr=full, check=False
        )

    assert said.returncode == 3


@pytest.mark.failure(75)
def test_ctrl_c_ends_what_waits_without_a_word(world: World) -> None:
    words = world.words("import")
    with process_on_terminal(environment_of(world), *words) as (outer, process):
        read_until(outer, "[y/N] ")
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # The first one came just before it waited.
        rest = read_until(outer, None)

    assert (process.returncode, rest) == (130, "\r\n")


@pytest.mark.failure(73)
@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("command", ["list", "next", "history", "import"])
def test_tables_fit_the_terminal(
    world: World,
    command: str,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("EDGECRON_DB", str(world.database))
    monkeypatch.setenv("COLUMNS", str(columns))
    long = "a-name-that-is-as-long-as-some-people-have-them"
    run(("add", long, "--every", "1h", "--cron", "0 2 * * MON-FRI", "--", "true"))
    run(("run", long))
    capsys.readouterr()

    run(world.words(command))
    lines = capsys.readouterr().out.splitlines()

    assert lines
    assert max(display_width(line) for line in lines) <= columns


@pytest.mark.parametrize(
    ("settings", "words", "is_coloured"),
    [
        ({}, (), True),
        ({"NO_COLOR": "1"}, (), False),
        ({"NO_COLOR": ""}, (), True),
        ({"NO_COLOR": "1"}, ("--color", "always"), True),
        ({"TERM": "dumb"}, (), False),
        ({}, ("--color", "never"), False),
    ],
)
def test_colours_are_as_the_person_wants_them(
    world: World, settings: dict[str, str], words: tuple[str, ...], is_coloured: bool
) -> None:
    environment = environment_of(world, **settings)

    with on_terminal(environment, *words, "list") as outer:
        shown = read_until(outer, None)

    assert ("\x1b" in shown) is is_coloured


@pytest.mark.failure(73)
@pytest.mark.parametrize("command", ACTS)
def test_no_letter_is_too_strange_for_a_locale(world: World, command: str) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}

    said = subprocess.run(
        [*PROGRAM, *world.words(command)],
        env=environment_of(world, **ascii_only),
        capture_output=True,
        check=False,
    )

    assert said.returncode == 0, said.stderr
    # Those are the job's own bytes, and a document is UTF-8.
    if command not in ("logs", "export"):
        assert (said.stdout + said.stderr).isascii()


def _unseen(text: str) -> str:
    """What of a text is neither to be seen nor a line or a tab."""
    lines = re.sub("[\r\n\t]", "", text)
    return "".join(c for c in lines if not c.isprintable() or c == "\u3164")
