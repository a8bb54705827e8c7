"""What holds for every command: JSON, streams that can't be written, and hostile text."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from edgecron.cli import run
from edgecron.cli.commands import COMMANDS
from edgecron.views.phrases import display_width
from tests.support.acts import ACTS, EVIL, LASTING, World
from tests.support.cli import Edgecron
from tests.support.program import PROGRAM
from tests.support.streams import call, call_on_terminal
from tests.support.terminal import process_on_terminal, read_until

_COLOURS = re.compile("\x1b\\[(?:0|1|2|3[1-6])m")
# Buffered, as the program is for everybody else.
_UNWANTED = ("NO_COLOR", "PYTHONUNBUFFERED", "COLUMNS")
_SHOWN_EMPTY = ("list", "history", "next")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("made"))
    world.build(environment_of(world))
    return world


@pytest.fixture
def world(made: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = made.copy_to(tmp_path)
    for name in _UNWANTED:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment_of(world).items():
        monkeypatch.setenv(name, value)
    return world


def environment_of(world: World) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
    own = {"EDGECRON_DB": str(world.database), "TZ": "UTC", "TERM": "xterm-256color"}
    own["EDGECRON_CONFIG"] = str(world.config)
    return inherited | own


def test_every_verb_has_an_act_here() -> None:
    assert set(ACTS) | LASTING == set(COMMANDS), (
        "give the new command a line in tests/support/acts.py"
    )


@pytest.mark.parametrize("command", ACTS)
def test_json_is_an_array_of_objects(
    world: World,
    command: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(("--json", *world.words(command)))
    out, err = capsys.readouterr()

    assert code == 0, err
    found = json.loads(out)
    assert isinstance(found, list)
    assert all(isinstance(one, dict) and one for one in found)
    assert found or command in ("backfill", "engine")  # No engine is running here.


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
    shown = call_on_terminal(*json_words, *world.words(command), typed="n\n")  # import asks.

    rest = _COLOURS.sub("", shown)
    assert rest.strip()
    assert not _unseen(rest), ascii(_unseen(rest))


@pytest.mark.failure(72)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_usage_error_shows_the_word_it_quotes_harmlessly(world: World, command: str) -> None:
    shown = call_on_terminal(command, *[f"x{EVIL}"] * 4, f"--{EVIL}")

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

    said = call(*world.words(command), stdout=write_end)
    os.close(write_end)

    assert said.code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.failure(75)
@pytest.mark.parametrize("command", ACTS)
def test_results_that_can_not_be_written_are_a_failure_that_says_so(
    world: World, command: str
) -> None:
    with open("/dev/full", "wb") as full:
        said = call(*world.words(command), stdout=full.fileno())

    assert said.code == 1
    assert "stdout can't be written: no space left on device" in said.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.failure(75)
@pytest.mark.parametrize("command", ACTS)
def test_words_that_can_not_be_written_change_no_result(world: World, command: str) -> None:
    with open("/dev/full", "wb") as full:
        said = call(*world.words(command), stderr=full.fileno())

    assert said.code == 0
    assert said.out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.failure(75)
@pytest.mark.parametrize("command", ["list", "export", "logs"])  # lines, a document and bytes
def test_the_program_ends_without_a_word_of_its_interpreter(world: World, command: str) -> None:
    with open("/dev/full", "wb") as full:
        said = subprocess.run(
            [*PROGRAM, *world.words(command)], stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert said.returncode == 1
    assert len(said.stderr.splitlines()) == 1
    assert b"stdout can't be written: no space left on device" in said.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.failure(75)
def test_an_error_that_nobody_can_read_keeps_its_exit_code(world: World) -> None:
    with open("/dev/full", "wb") as full:
        said = subprocess.run([*PROGRAM, "show", "nonesuch"], stderr=full, check=False)

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
    world: World,
    settings: dict[str, str],
    words: tuple[str, ...],
    is_coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    shown = call_on_terminal(*words, "list")

    assert ("\x1b" in shown) is is_coloured


@pytest.mark.failure(73)
@pytest.mark.parametrize("command", ACTS)
def test_no_letter_is_too_strange_for_a_locale(world: World, command: str) -> None:
    said = call(*world.words(command), encoding="ascii")

    assert said.code == 0, said.err
    # Those are the job's own bytes, and a document is UTF-8.
    if command not in ("logs", "export"):
        assert (said.out + said.err).isascii()


def _unseen(text: str) -> str:
    """What of a text is neither to be seen nor a line or a tab."""
    lines = re.sub("[\r\n\t]", "", text)
    return "".join(c for c in lines if not c.isprintable() or c == "\u3164")
