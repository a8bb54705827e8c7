"""What the journal says of failed services."""

from __future__ import annotations

import json

import pytest

from edgecron.base.errors import EdgecronError
from edgecron.client.machine_files import read_failures


def record(at_us: int, **fields: object) -> bytes:
    return json.dumps({"__REALTIME_TIMESTAMP": str(at_us), **fields}).encode() + b"\n"


def test_failures_are_counted_by_unit_with_the_last_time() -> None:
    found = read_failures(
        record(1, UNIT="a.service") + record(2, USER_UNIT="b.service") + record(3, UNIT="a.service")
    )

    assert {unit: (one.count, one.last_at_us) for unit, one in found.items()} == {
        "a.service": (2, 3),
        "b.service": (1, 2),
    }


def test_a_record_without_a_unit_is_no_failure() -> None:
    assert read_failures(record(1) + record(2, UNIT=[97, 255])) == {}


@pytest.mark.parametrize("content", [b"no json\n", b"[]\n", b"{}\n"])
def test_an_answer_that_is_no_journal_is_an_error(content: bytes) -> None:
    with pytest.raises(EdgecronError, match="the journal's answer can't be read"):
        read_failures(content)
