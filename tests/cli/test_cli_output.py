"""What a run printed and was given, byte for byte, through every command that shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.cli import run
from edgecron.client import Client

PRINTF = r"printf 'a\000b\377\033[2Jc\303'; printf '\033]0;t\007' >&2"
# What a terminal obeys: all control characters but the end of a line, those of C1 included.
OBEYED = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n"}


Say = Callable[..., tuple[str, str]]


@pytest.fixture
def say(database: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Say:
    """Run a command line; what it wrote on stdout and stderr. Bytes that are no text stand out."""

    def call(*words: str) -> tuple[str, str]:
        capfdbinary.readouterr()
        run(words)
        wrote = capfdbinary.readouterr()
        return wrote.out.decode(errors="backslashreplace"), wrote.err.decode()

    return call


def run_here(say: Say, name: str, *job: str) -> str:
    """Make a schedule and run it once; what the run printed."""
    say("add", name, "--every", "1h", *job)
    return say("run", name, "--wait")[0]


@pytest.mark.failure(45)
def test_any_byte_is_stored_as_it_came_and_is_text_as_json(say: Say) -> None:
    run_here(say, "loud", "--shell", PRINTF)

    with Client() as client:
        output = client.output(1)
    out, _ = say("logs", "loud", "--json")

    assert output is not None
    stored = {chunk.stream.name: chunk.content for chunk in output.chunks}
    assert stored == {"STDOUT": b"a\0b\xff\x1b[2Jc\xc3", "STDERR": b"\x1b]0;t\x07"}
    assert not OBEYED & set(out)
    assert {line["stream"]: line["text"] for line in json.loads(out)} == {
        "stdout": "a\0b\ufffd\x1b[2Jc\ufffd",
        "stderr": "\x1b]0;t\x07",
    }


@pytest.mark.failure(45)
def test_a_letter_that_lies_in_two_chunks_is_one_letter_as_json(say: Say) -> None:
    # Whatever a pipe gives at once is of an even size, but for the end: so letters are torn.
    program = "import sys; sys.stdout.buffer.write(b'a' + 'é'.encode() * 60_000 + b'\\xc3')"
    run_here(say, "words", "--", sys.executable, "-c", program)

    with Client() as client:
        output = client.output(1)
    lines = json.loads(say("logs", "words", "--json")[0])

    assert output is not None
    assert any(chunk.content.endswith(b"\xc3") for chunk in output.chunks[:-1]), "nothing is torn"
    assert "".join(line["text"] for line in lines) == "a" + "é" * 60_000 + "\ufffd"


@pytest.mark.failure(45)
def test_a_letter_that_was_torn_by_the_dropped_middle_takes_nothing_of_what_follows(
    say: Say,
) -> None:
    # Head and tail are 128 KiB each, and the head ends within a letter.
    program = "import sys; sys.stdout.buffer.write(b'a' + 'é'.encode() * 200_000)"
    run_here(say, "words", "--", sys.executable, "-c", program)

    text = "".join(line["text"] for line in json.loads(say("logs", "words", "--json")[0]))

    half = 128 * 1024
    assert text == "a" + "é" * (half // 2 - 1) + "\ufffd" + "é" * (half // 2)


@pytest.mark.failure(45)
def test_what_a_missing_command_is_called_is_shown_harmlessly(say: Say) -> None:
    run_here(say, "gone", "--", "/no/such/\x1b]52;c;aGk=\x07\x9b2J\r\n")

    for words in (("history",), ("history", "gone"), ("logs", "gone"), ("show", "gone"), ("list",)):
        assert not OBEYED & set("".join(say(*words))), words
    [row] = json.loads(say("history", "--json")[0])
    assert (row["status"], row["reason"]) == ("failed", "spawn")
    assert "\x1b]52" in row["error_msg"]


@pytest.mark.failure(46)
def test_a_run_reads_the_text_of_its_schedule_and_else_finds_its_end_at_once(say: Say) -> None:
    given = run_here(say, "given", "--stdin", "two\nlines é", "--", "cat")
    plain = run_here(say, "plain", "--", "cat")

    rows = json.loads(say("history", "--json")[0])
    assert (given, plain) == ("two\nlines é", "")
    assert [row["status"] for row in rows] == ["success", "success"]
