"""TOML that is nested too deeply is refused before anything is built of it."""

from __future__ import annotations

import time
import tomllib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidConfig, InvalidDocument
from edgecron.formats.config_files import read_file
from edgecron.formats.document import read_document
from edgecron.formats.toml import MOST_LEVELS, find_too_deep

OFTEN = settings(derandomize=True, database=None, deadline=None, max_examples=500)
LINE = 'on_boot = true\nshell = "date"\n'
TOO_DEEP = {
    "a header": "[schedules" + ".a" * 60_000 + "]\n",
    "a header of several tables": "[[schedules" + ".a" * 60_000 + "]]\n",
    "a header in quotes": "[schedules" + ' . "a.b"' * 60_000 + "]\n",
    "a key": "schedules" + ".a" * 60_000 + " = 1\n",
    "a key below a header": "[schedules.a]\nenv" + ".a" * 60_000 + " = 1\n",
    "arrays": "x = " + "[" * 60_000 + "]" * 60_000 + "\n",
    "inline tables": "x = " + "{a = " * 60_000 + "1" + "}" * 60_000 + "\n",
    "keys in an inline table": "x = {a" + ".a" * 60_000 + " = 1}\n",
}


@pytest.mark.parametrize("text", TOO_DEEP.values(), ids=TOO_DEEP.keys())
def test_what_is_nested_too_deeply_is_refused_by_its_line_and_takes_no_memory(text: str) -> None:
    content = f"[schedules.b]\n{LINE}# fine up to here\n\n{text}".encode()
    line = content.count(b"\n")
    tracemalloc.start()
    try:
        with pytest.raises(InvalidDocument, match=f"^line {line} is nested more than 8 levels"):
            read_document(content)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 8 * len(content)


def test_a_configuration_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[limits]\n\n[" + "a." * 60_000 + "a]\n")
    path.chmod(0o600)

    with pytest.raises(InvalidConfig, match=r"config\.toml:3: nested more than 8 levels deep"):
        read_file(path)


@pytest.mark.parametrize(
    "text",
    [
        '[schedules."a.b.c.d.e.f.g.h.i.j"]\n' + LINE,
        f"[schedules.a] # {'a.' * 20}\n{LINE}",
        f"[schedules.a]\non_boot = true\nshell = '{'[{.' * 20}'\n",
        '[schedules.a]\non_boot = true\nshell = """\n' + "a.b.c[{\n" * 20 + '"""\n',
        "[schedules.a]\non_boot = true\nshell = '''\n" + 'a"b.c[{\\\n' * 20 + "'''\n",
        '[schedules.a]\non_boot = true\nshell = "\\"' + "[" * 20 + '"\n',
        '[schedules.a]\non_boot = true\ncommand = [\n  "a", # [[[[[[[[[\n  "b",\n]\n',
        "".join(f"[schedules.a{number}]\n{LINE}env.A = '1'\n" for number in range(20)),
    ],
)
def test_what_only_looks_deep_is_read(text: str) -> None:
    assert read_document(text.encode()).wanted


def test_what_looks_like_a_deep_header_in_a_text_costs_nothing() -> None:
    deep = "[a" + ".a" * 60_000 + "]"
    text = f'[schedules.a]\ndescription = """ \\"""\n{deep}\n"""\nretries = -1\n{LINE}'

    with pytest.raises(InvalidDocument) as refused:
        read_document(text.encode())

    assert {problem["key"] for problem in refused.value.problems} >= {"retries"}


@pytest.mark.parametrize(
    "text",
    [
        '[schedules."a' + " " * 200_000 + 'b"]\n',
        'x = """' + '\\"""' * 200_000,
        "x = '" * 200_000,
        "x = [" + "1," * 200_000,
        "x = " + "[1]" * 200_000,
    ],
)
def test_a_strange_text_takes_no_time(text: str) -> None:
    before_s = time.process_time()

    with pytest.raises(InvalidDocument):
        read_document(text.encode())

    assert time.process_time() - before_s < 10


def depth_of(value: Any) -> int:
    """How many tables and arrays are within each other."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth_of, inner), default=0)


PIECES = st.lists(
    st.sampled_from(
        ["a", "b", ".", "=", "1", "[", "]", "{", "}", ",", "\n", " ", '"', "'", '"x.y"', "#", "\\",
         '"""', "'''", "a.b", "= 1\n", "= {a = 1}\n", "[a.b]\n", "[[b.a]]\n",
         "c.d = [[1], {b = 2}]\n"]
    ),
    max_size=14,
)  # fmt: skip


@OFTEN
@given(pieces=PIECES)
def test_no_nesting_is_missed_and_none_is_made_up(pieces: list[str]) -> None:
    text, most = "".join(pieces), 2
    try:
        depth = depth_of(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return

    if find_too_deep(text, most=most) is None:
        assert depth <= 2 * most + 1  # an array of tables is one more for each of its names
    else:
        assert depth >= most


def test_a_schedule_s_variables_are_well_within_the_bound() -> None:
    assert (
        find_too_deep('schedules.a.env.B = "1"\n[schedules.c]\nenv = {D = "1"}\n', most=4) is None
    )
    assert MOST_LEVELS >= 4
