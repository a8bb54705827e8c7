"""Reading a document: what is wrong is told all at once, and where; nothing else is ever raised."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidDocument
from edgecron.formats.document import read_document
from edgecron.formats.document_tables import Document, spec_table
from edgecron.formats.toml import write_table
from edgecron.model.options import OPTIONS

OFTEN = settings(derandomize=True, database=None, deadline=None, max_examples=120)
# In the grammar of values, more or less.
TEXTS = st.one_of(
    st.sampled_from(
        ["none", "15m", "0 2 * * *", "local", "skip", "success:a", "a:1", "boot", "", "-1", "1e9"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
SCALARS = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(),
    st.integers(10**300, 10**301),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
TABLES = st.dictionaries(st.sampled_from([*OPTIONS, "commnd", ""]), VALUES, max_size=6)


def problems_of(text: str) -> list[dict[str, Any]]:
    with pytest.raises(InvalidDocument) as raised:
        read_document(text.encode())
    return [dict(problem) for problem in raised.value.problems]


def read(content: bytes) -> Document | InvalidDocument:
    """What is read, or why it is refused; any other exception is a failure."""
    try:
        return read_document(content)
    except InvalidDocument as error:
        return error


@OFTEN
@given(name=TEXTS, table=TABLES)
def test_any_table_is_a_schedule_or_refused(name: str, table: dict[str, object]) -> None:
    text = write_table(("schedules", name), table)

    found = read(text.encode())

    if isinstance(found, Document):
        assert [wanted.spec.name for wanted in found.wanted] == [name]
    else:
        assert found.problems


@OFTEN
@given(table=st.dictionaries(TEXTS, VALUES, max_size=4))
def test_any_document_is_read_or_refused(table: dict[str, object]) -> None:
    text = write_table((), table)

    found = read(text.encode())

    assert isinstance(found, InvalidDocument) == bool(table)


FRAGMENTS = [
    "[schedules.a]", "[schedules.'b c']", "[schedules]", "[groups]", "[defaults]", "[[schedules]]",
    'cron = "0 5 * * *"', 'cron = "0 5 * *"', 'every = ["5m", "1h after end"]', "on_boot = true",
    'after = "a:any"', 'command = ["true", "$(x)"]', 'shell = "true"', 'tz = "Zone"', "retries = 2",
    'retries = "two"', 'timeout = "5 parsecs"', 'group = "g:1"', 'env = { A = "1" }',
    "env = { A = 1, A = 2 }", 'description = """\nx\n"""', 'x = "\\u001b[2J"', "\x1b[2J", "\u202e",
    "= 1", "'", '"', "[", "]", "{", "}", ",", "#", " ", "\r\n", "\t", "\0", "\x7f", "\ufeff", "é",
    "max_runs = 99999999999999999999", "max_late = nan", "enabled = false",
    "at = 2031-01-01T00:00:00Z",
    "at = 2031-01-01", "a.b.c = 1", "0 = 0",
]  # fmt: skip


@OFTEN
@given(parts=st.lists(st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(["\n", ""]))))
def test_any_mixture_of_a_documents_text_is_read_or_refused_in_harmless_words(
    parts: list[tuple[str, str]],
) -> None:
    text = "".join(fragment + end for fragment, end in parts)

    found = read(text.encode())

    if isinstance(found, InvalidDocument):
        told = [found.message, found.hint or "", *(str(each["message"]) for each in found.problems)]
        assert all(part.replace("\n", "").isprintable() for part in told)


@OFTEN
@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    found = read(content)

    assert isinstance(found, InvalidDocument) or found.wanted == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[schedules.a]\nx = 1\n\xff = 2", "line 3 is not UTF-8"),
        (b"[schedules.a\n", "not TOML"),
        (b"[schedules.a]\n[schedules.a]\n", "TOML, line 2, column 13: a table or key is given"),
        (b'[schedules.a]\ncron = "x"\ncron = "y"\n', "a table or key is given twice"),
        (b"x = " + b"[" * 100_000, "line 1 is nested more than 8 levels deep"),
        (b"x = " + b"1" * 10_000, "not TOML"),
        (b"#" * (16 * 1024 * 1024 + 1), "larger than 16 MiB"),
    ],
)
def test_what_is_no_document_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(InvalidDocument, match=message):
        read_document(content)


def test_a_byte_order_mark_is_no_part_of_it() -> None:
    text = '[schedules.a]\non_boot = true\nshell = "date"\n'

    document = read_document(b"\xef\xbb\xbf" + text.encode())

    assert document.wanted[0].spec.triggers == ("on boot",)


def test_everything_that_is_wrong_is_told_with_its_line() -> None:
    found = problems_of(
        """\
[schedules.backup]
cron = "61 * * * *"
comand = ["tar"]
shell = '''
timeout = 5
'''
timeout = "5 parsecs"

[schedules.'a b']
every = "1h"
command = "date"
env.EDGECRON_X = "1"

[schedules.report]
every = "1h"
command = ["date"]
retries = -1
overlap = "que"
enabled = "yes"
"""
    )

    assert [(one["line"], one["schedule"], one["key"]) for one in found] == [
        (2, "backup", "cron"),
        (3, "backup", "comand"),
        (7, "backup", "timeout"),
        (9, "a b", None),
        (11, "a b", "command"),
        (12, "a b", "env"),
        (17, "report", "retries"),
        (18, "report", "overlap"),
        (19, "report", "enabled"),
    ]
    assert found[1]["hint"] == "did you mean command?"
    assert all(one["key"] in one["message"] for one in found if one["key"])


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ('tz = "UTC"', "'tz' is unknown", "did you mean timezone?"),
        ('retry_dely = "1s"', "'retry_dely' is unknown", "did you mean retry_delay?"),
        ('timezone = "Europe/Berln"', "Berln", "Europe/Berlin"),
        ('retry_delay = "2h"', "retry_delay is 2h", "give retry_max_delay too"),
        ('command = ["a"]', "command and shell are given", None),
        ("timeout = true", "timeout: the value is true", None),
        (
            "retries = true",
            "retries: the value is true, expected text in quotes or a number",
            "such as: retries = 3",
        ),
        ("timeout = [1]", "timeout: the value is an array", 'such as: timeout = "1h"'),
        ("description = { a = 1 }", "the value is a table", 'such as: description = "nightly'),
        ('queue = "x"', "queue is 'x', which no engine serves", "remove queue: only callables"),
        ('queue = "py:"', "queue is 'py:', which no engine serves", None),
        ("every = false", "every: the value is false", None),
        ("ok_codes = [256]", "ok_codes is '256'", None),
        ('at = "tomorrow 09:00"', "not understood", "2026-11-20T08:00:00Z"),
        ("payload = '{'", "payload is not JSON", None),
        (
            'until = "2001-01-01"\nfrom = "2002-01-01"',
            "until (2001-01-01T00:00:00Z) is not later than from (2002-01-01T00:00:00Z)",
            None,
        ),
        ('group = "-"', "group name", None),
        ('needs = "sucess:other"', "is unknown", None),
        ('scope = "device"', "expected KIND:ID", "device:pump-3"),
        ("env = 5", "env: the value is a number, expected a table", None),
        ('user = "nobody-of-that-name"', "unknown on this machine", None),
        ('stdin = "\\u0000"', "", None),
    ],
)
def test_a_wrong_value_is_told_with_what_was_expected(
    line: str, message: str, hint: str | None
) -> None:
    text = f'[schedules.x]\ncron = "@daily"\nshell = "date"\n{line}\n'
    if not message:
        assert read_document(text.encode()).wanted[0].spec.job.stdin == "\0"
        return

    [found] = problems_of(text)

    assert message in found["message"]
    assert hint is None or hint in found["hint"]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("", "queue is missing, expected that of the program with the callable", "queue = "),
        ('queue = "command"', "queue is 'command', expected that of the program", "queue = "),
        ('queue = "py:app"\nenv.A = "1"', "env is only for commands", "remove env, or make"),
        ('queue = "py:app"\ncwd = "/srv"', "cwd is only for commands", "remove cwd"),
        ('queue = "py:app"\nstdin = "yes"', "stdin is only for commands", "remove stdin"),
        ('queue = "py:app"\nenv_file = "/e"', "env_file is only for commands", "remove env_file"),
    ],
)
def test_a_callable_has_the_queue_of_its_program_and_nothing_of_a_command(
    line: str, message: str, hint: str
) -> None:
    text = f'[schedules.x]\ncron = "@daily"\ncallable = "report"\n{line}\n'

    [found] = problems_of(text)

    assert message in found["message"]
    assert hint in found["hint"]
    assert found["line"] == (4 if line else 3) + line.count("\n")


def test_a_callable_can_have_a_payload() -> None:
    text = "[schedules.x]\ncron = '@daily'\ncallable = 'report'\nqueue = 'py:app'\npayload = '3'"

    assert read_document(text.encode()).wanted[0].spec.job.payload == "3"


@pytest.mark.parametrize("when", ["every = []", "on_boot = false", "at = []\nafter = []"])
def test_a_schedule_whose_keys_give_no_time_is_told_in_the_words_of_the_file(when: str) -> None:
    [found] = problems_of(f'[schedules.x]\n{when}\nshell = "date"\n')

    assert found["message"] == "it has no time to run at"
    assert found["hint"] == "give cron, every, at, once, on_boot, after or on_demand"


@pytest.mark.parametrize("job", ["command = []", 'command = [""]', 'shell = " "'])
def test_an_empty_command_is_told_in_the_words_of_the_file(job: str) -> None:
    [found] = problems_of(f'[schedules.x]\ncron = "@daily"\n{job}\n')

    assert found["message"].endswith("the command is missing")
    assert found["hint"] == 'such as: command = ["/usr/bin/rsync", "-a", "/home", "/srv"]'


def test_only_tables_of_schedules_are_known() -> None:
    found = problems_of('[backup]\ncron = "@daily"\n[schedules]\nx = 1\n')

    assert found[0]["hint"] == "did you mean [schedules.backup]?"
    assert found[0]["line"] == 1
    assert found[1]["schedule"] == "x"


def test_a_slip_in_the_first_word_of_a_heading_is_told_with_its_line() -> None:
    [found] = problems_of('# jobs\n[schedule.backup]\ncron = "@daily"\nshell = "date"\n')

    assert found["hint"] == "did you mean [schedules.backup]?"
    assert found["line"] == 2


def test_a_group_has_one_limit() -> None:
    table = '[schedules.{}]\nevery = "1h"\nshell = "date"\ngroup = "disk:{}"\n'

    [found] = problems_of(table.format("a", 1) + table.format("b", 2))

    assert (found["schedule"], found["line"]) == ("b", 8)
    assert "another limit here than in schedule 'a'" in found["message"]


def test_times_of_toml_need_no_quotes() -> None:
    text = (
        '[schedules.a]\nshell = "date"\ntimezone = "Europe/Berlin"\n'
        "at = [2030-06-01T12:00:00+02:00, 2030-06-01 13:00:00]\nuntil = 2031-01-01\n"
    )

    [wanted] = read_document(text.encode()).wanted

    assert wanted.spec.triggers == ("at 2030-06-01T10:00:00Z", "at 2030-06-01T11:00:00Z")
    assert wanted.spec.until_at == datetime(2030, 12, 31, 23, tzinfo=UTC)


def test_an_editor_may_tell_times_by_their_distance() -> None:
    text = '[schedules.a]\nshell = "date"\ntimezone = "UTC"\nat = "tomorrow 09:00"\n'
    now = datetime(2026, 11, 20, 8, tzinfo=UTC)

    [wanted] = read_document(text.encode(), now=now).wanted

    assert wanted.spec.triggers == ("at 2026-11-21T09:00:00Z",)


def test_none_stands_for_the_default() -> None:
    text = (
        '[schedules.a]\nshell = "date"\nevery = "1h"\ntimeout = "none"\ngroup = "none"\n'
        'from = "none"\nmax_runs = "none"\ncwd = "none"\nneeds = "none"\n'
    )

    [wanted] = read_document(text.encode()).wanted

    plain = '[schedules.a]\nshell = "date"\nevery = "1h"\n'
    assert read_document(plain.encode()).wanted == (wanted,)


@pytest.mark.parametrize("interval", ["1ms", "999ms", "1ms after end", "250ms from 2030-01-01"])
def test_an_interval_under_a_second_needs_permission(interval: str) -> None:
    table = f'[schedules.a]\nshell = "date"\nevery = "{interval}"\n'

    [found] = problems_of(table)

    assert (found["key"], found["line"]) == ("every", 3)
    assert "is less than a second" in found["message"]
    assert found["hint"].endswith("allow_fast = true")
    allowed = read_document(f"{table}allow_fast = true\n".encode())
    assert allowed.wanted[0].spec.triggers[0].startswith(f"every {interval.partition(' ')[0]}")


def test_an_exported_schedule_names_its_permission_to_be_fast() -> None:
    table = '[schedules.{}]\nshell = "date"\nevery = "{}"\nallow_fast = true\n'
    fast, slow = read_document(
        (table.format("a", "500ms after end") + table.format("b", "1s")).encode()
    ).wanted

    assert spec_table(fast.spec)["allow_fast"] is True
    assert "allow_fast" not in spec_table(slow.spec)
    again = read_document(write_table(("schedules", "a"), spec_table(fast.spec)).encode())
    assert again.wanted[0].spec == fast.spec
