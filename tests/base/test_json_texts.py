"""JSON that came from outside is read as every other reader would, or its fault is explained."""

from __future__ import annotations

import pytest

from edgecron.base.checks import check_json, json_words, read_json
from edgecron.base.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("hello", "a value is missing at character 1; text needs double quotes"),
        ("'a'", "text needs double quotes, but a single quote stands at character 1"),
        ("{a:1}", "a key in double quotes is missing at character 2"),
        ("{'a':1}", "text needs double quotes, but a single quote stands at character 2"),
        ('{"a" 1}', "a colon after the key is missing at character 6"),
        ('{"a":1 "b":2}', "a comma is missing at character 8"),
        ('{"a":\n1 2}', "a comma is missing at line 2, character 3"),
        ("[1,]", "a comma stands before ], and nothing follows the comma"),
        ('{"a":1, }', "a comma stands before }, and nothing follows the comma"),
        ("[1,", "it ends too early, without the closing bracket or the last value"),
        ('{"a":', "it ends too early, without the closing bracket or the last value"),
        ('["a', "the text that begins at character 2 has no closing quote"),
        ('"a\tb"', "a text holds a line break or a tab at character 3; write \\n or \\t"),
        ('"\\d"', "the backslash at character 2 begins no escape of JSON; write two for one"),
        ('{"a":1} x', "more text follows after its end, at character 9"),
        ("9" * 5000, "a number in it is too long"),
        ("[NaN]", "NaN is not a JSON value"),
    ],
)
def test_a_text_that_is_not_json_is_explained(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_json(text, what="--payload")

    assert refused.value.message == f"--payload is not JSON: {words}"
    assert refused.value.hint == "for example: --payload '{\"size\": 3}'"


def test_bytes_that_are_no_text_are_explained() -> None:
    with pytest.raises(UnicodeDecodeError) as refused:
        read_json(b'["\xff"]')

    assert json_words(refused.value) == "byte 3 is not UTF-8"


def test_the_example_of_a_key_has_no_quotes_of_the_shell() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_json("hello", what="payload")

    assert refused.value.hint == 'for example: {"size": 3}'


@pytest.mark.parametrize("levels", [600, 100_000])
def test_too_many_levels_are_named(levels: int) -> None:
    with pytest.raises(InvalidInput, match="payload is more than 500 levels deep"):
        check_json("[" * levels + "]" * levels, what="payload")


def test_json_is_read() -> None:
    assert read_json('{"name": "ü", "at": [1, 2.5, null]}'.encode()) == {
        "name": "ü",
        "at": [1, 2.5, None],
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": 1, "a": 2}', "a key is given twice in one object"),
        (b'[{"b": {"a": 1, "a": 1}}]', "a key is given twice in one object"),
        (b"[NaN]", "NaN is not a JSON value"),
        (b"-Infinity", "-Infinity is not a JSON value"),
        (b"", "Expecting value"),
        (b'"\xff"', "can't decode byte"),
        ('{"a": 1}'.encode("utf-16"), "can't decode byte"),
    ],
)
def test_what_readers_differ_in_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_json(content)
