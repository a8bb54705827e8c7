"""JSON that came from outside is read as every other reader of it would."""

from __future__ import annotations

import pytest

from edgecron.base.checks import read_json


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
