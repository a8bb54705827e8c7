"""TOML as it is written: what is read back is what was written, and it is safe to show."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.formats.toml import write_table, write_text
from tests.support.forms import tried

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TRICKY = st.text(st.sampled_from("a '\"\\\n\r\t\0\x1b\x7f\x85\u202eä#="), max_size=12)
SCALARS = st.one_of(
    TEXTS,
    TRICKY,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
KEYS = st.one_of(TEXTS, TRICKY)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=8,
)


@settings(derandomize=True, database=None, deadline=None, max_examples=tried(50, 150))
@given(table=st.dictionaries(KEYS, VALUES, max_size=5), name=KEYS)
def test_what_is_written_is_read_back(table: dict[str, object], name: str) -> None:
    text = write_table(("schedules", name), table)

    assert tomllib.loads(text) == {"schedules": {name: table}}


@settings(derandomize=True, database=None, deadline=None, max_examples=tried(50, 150))
@given(text=st.one_of(TEXTS, TRICKY))
def test_what_is_written_is_printable(text: str) -> None:
    written = write_text(text)

    assert written.replace("\n", "").isprintable()
    assert tomllib.loads(f"x = {written}") == {"x": text}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", '"plain"'),
        ('say "hi"', "'say \"hi\"'"),
        ('it\'s "so"', '"it\'s \\"so\\""'),
        ("one\n", '"one\\n"'),
        ("one\ntwo\n", "'''\none\ntwo\n'''"),
        ("one\n\ttwo", '"""\none\n\\ttwo"""'),
        ("\x1b[2J", '"\\u001b[2J"'),
        ("", '""'),
    ],
)
def test_text_stands_in_the_quotes_in_which_it_reads_best(text: str, written: str) -> None:
    assert write_text(text) == written


def test_a_long_array_has_a_line_for_each_of_its_values() -> None:
    argv = [
        "/usr/bin/rsync",
        "--archive",
        "--delete",
        "--exclude=*.tmp",
        "/home",
        "host:/srv/home/",
    ]
    argv += ["--bwlimit=1000"]

    written = write_table(("schedules", "a.b"), {"command": argv})

    assert written.splitlines()[:3] == [
        '[schedules."a.b"]',
        "command = [",
        '    "/usr/bin/rsync",',
    ]
    assert tomllib.loads(written)["schedules"]["a.b"]["command"] == argv


def test_what_no_document_holds_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        write_table(("x",), {"key": None})
