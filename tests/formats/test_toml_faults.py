"""A text that is not TOML is explained by its own fault, and the hint mends that fault."""

from __future__ import annotations

import tomllib

import pytest

from edgecron.base.errors import InvalidDocument
from edgecron.formats.document import read_document
from edgecron.formats.toml import Fault, explain_fault

HEAD = "[schedules.a]\n"


def fault_of(text: str) -> Fault:
    with pytest.raises(tomllib.TOMLDecodeError) as refused:
        tomllib.loads(text)
    return explain_fault(refused.value, text)


@pytest.mark.parametrize(
    ("line", "words", "hint"),
    [
        ("every = 1h", "neither a number nor text in quotes", 'put it in quotes: every = "1h"'),
        ("every = 1h  # x", "neither a number nor", 'put it in quotes: every = "1h"'),
        ("every = hello", "a text has no quotes", 'put it in quotes: every = "hello"'),
        ("every = a'b", "a text has no quotes", 'put text in quotes: timeout = "1h"'),
        ('every == "1h"', "= is written twice", "write a single ="),
        ("retries = 03", "a number begins with 0", "remove this 0"),
        ("every =", "a value is missing", 'for example: timeout = "1h"'),
        ("every = # none", "a value is missing", 'for example: timeout = "1h"'),
        ('every "1h"', "= is missing after a key", 'for example: timeout = "1h"'),
        ('every: "1h"', "a colon stands in place of =", 'for example: timeout = "1h"'),
        ('every = "1h', "no closing quote in its line", "put a quote at the end"),
        ("every = '1h", "has no closing quote", "look for the quote that opens it, and close it"),
        ('shell = """x', "has no closing quote", "look for the quote that opens it, and close it"),
        ("enabled = True", "neither true nor false", "write true or false"),
        ("enabled = off", "neither true nor false", "write true or false"),
        ('every = "1h" x', "more text follows after a value", "begin a new line after each value"),
        ('every = "1h" // x', "a comment begins with //", "write # before a comment"),
        ("// x", "a comment begins with //", "write # before a comment"),
        ('cwd = "C:\\dir"', "a backslash in double quotes", "put the text in single quotes"),
        ('command = ["a" "b"]', "lacks a comma or its closing ]", "put a comma between two items"),
        ('command = ["a",', "lacks a comma or its closing ]", "put a comma between two items"),
        ("command = [", "lacks a comma or its closing ]", "put a comma between two items"),
        ("env = {", "lacks a comma or its closing }", "put a comma between two pairs"),
        ('env = { A = "x"', "lacks a comma or its closing }", "put a comma between two pairs"),
        ('env = { A = "x", }', "a comma stands before }", "remove this comma"),
        ("[schedules.b", "a heading has no closing ]", "write [schedules.NAME], in "),
        ("[schedules.b c]", "a name that needs quotes", "write [schedules.NAME]"),
        ("[schedules.ä]", "a name that needs quotes", "write [schedules.NAME]"),
        ("[schedules.b]]", "more text follows after a heading", "begin a new line after it"),
        ("[schedules.a]", "a table or key is given twice", "remove one of them"),
    ],
)
def test_a_fault_is_explained_with_its_own_hint(line: str, words: str, hint: str) -> None:
    fault = fault_of(f"{HEAD}{line}\n")

    assert fault.line == 2
    assert words in fault.words
    assert (fault.hint or "").startswith(hint)


def test_a_line_of_a_hint_is_toml() -> None:
    hint = fault_of(f"{HEAD}every = 1h\n").hint or ""

    tomllib.loads(hint.partition(": ")[2])


def test_json_is_recognised() -> None:
    assert fault_of('{"a": 1}').words == "it looks like JSON"


def test_a_long_line_takes_no_time_and_is_not_repeated() -> None:
    fault = fault_of("x" + " " * 1_000_000 + "y = 1")

    assert len(str(fault)) < 200


def test_a_fault_that_is_not_known_shows_how_a_file_is_written() -> None:
    with pytest.raises(InvalidDocument) as refused:
        read_document(f"{HEAD}= 1".encode())

    assert refused.value.message == (
        "the file is not TOML, line 2, column 1: a line begins with neither a key nor a heading"
    )
    assert refused.value.hint == "for an example: edgecron export"
