"""The fields of the form: a table as texts, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.formats.document_tables import Table, spec_table
from edgecron.model.choices import CatchUp, JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.tui.form_fields import FIELDS, field_of, table_of, texts_of, uneditable_fields

FULL = ScheduleSpec(
    name="backup",
    triggers=("0 2 * * *", "every 15m", "on boot", "after other:any"),
    job=Job(
        kind=JobKind.COMMAND,
        argv=("sh", "-c", "echo 'a b' \"$1\"", ""),
        env={"LANG": "C", "X": "a=b c"},
        cwd="/srv",
        stdin="yes\nno\n",
    ),
    timezone="Europe/Berlin",
    group="disk",
    description="one\ntwo",
    policies=Policies(
        catch_up=CatchUp.ALL,
        ok_codes=(0, 2),
        timeout_s=5400,
        priority=10,
        needs=("success:other:8h",),
    ),
    scopes=(("device", "a"), ("device", "b")),
)


def written(table: Table, **texts: str) -> tuple[Table, list[str]]:
    """What the form says after something was written into some fields, and what is wrong."""
    before = texts_of("backup", table)
    found, problems = table_of({**before, **texts}, base=table, before=before)
    return found, [f"{problem.key}: {problem.message}" for problem in problems]


def rewritten(table: Table) -> Table:
    """The table that the form makes of its own texts where all of them are written anew."""
    nothing = texts_of("", {})
    found, problems = table_of(texts_of("backup", table), base={}, before=nothing)
    assert problems == []
    return found


def test_what_stands_in_the_fields_is_what_the_schedule_has() -> None:
    texts = texts_of("backup", spec_table(FULL))

    assert texts["when"] == "0 2 * * *\nevery 15m\non boot\nafter other:any"
    assert texts["job"] == "sh -c 'echo '\"'\"'a b'\"'\"' \"$1\"' ''"
    assert texts["env"] == "LANG=C\nX=a=b c"
    assert texts["scope"] == "device:a\ndevice:b"
    assert (texts["catch_up"], texts["overlap"], texts["max_late"]) == ("all", "skip", "")
    assert (texts["ok_codes"], texts["timeout"], texts["priority"]) == ("0, 2", "1h30m", "high")


def test_what_nobody_touches_stays_as_it_is() -> None:
    table = spec_table(FULL)

    assert written(table) == (table, [])
    assert written(table, max_late="6h") == ({**table, "max_late": "6h"}, [])


def test_all_of_it_written_anew_means_the_same() -> None:
    table = rewritten(spec_table(FULL))

    assert table == {
        **spec_table(FULL),
        "cron": ["0 2 * * *"],
        "every": ["15m"],
        "after": ["other:any"],
        "ok_codes": "0, 2",
    }


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1, max_size=4))
def test_every_command_is_a_line_that_means_it(argv: list[str]) -> None:
    table = {"command": ["true", *argv]}

    assert rewritten(table)["command"] == ["true", *argv]


def test_an_empty_field_is_the_default() -> None:
    table = spec_table(FULL)

    found, _ = written(table, timeout="", catch_up="once", env="", description=" ", scope="")

    assert not {"timeout", "catch_up", "env", "description", "scope"} & set(found)


def test_another_kind_of_job_takes_the_place_of_the_first() -> None:
    found, _ = written({"command": ["date"]}, kind="shell", job="date | logger")

    assert found == {"shell": "date | logger"}


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("job", "echo 'a", "the command can't be split into words: no closing quotation"),
        ("env", "SECRET", "a line of env is not KEY=VALUE"),
        ("env", "A B=1", "env names the variable 'A B', which no shell can read"),
        ("when", "on shutdown", "'on shutdown' is not a trigger, expected: on boot or on demand"),
    ],
)
def test_what_is_no_text_of_a_value_is_told(field: str, text: str, words: str) -> None:
    _, wrong = written({"command": ["date"]}, **{field: text})

    assert wrong == [f"{field}: {words}"]


def test_a_pause_is_none_of_its_business() -> None:
    found, _ = written({"command": ["date"], "enabled": False}, timeout="5s")

    assert found == {"command": ["date"], "timeout": "5s"}


def test_every_key_that_can_be_wrong_has_a_field() -> None:
    assert [field_of(key) for key in ("cron", "at", "on_boot")] == ["when"] * 3
    assert [field_of(key) for key in ("command", "shell", "callable")] == ["job"] * 3
    assert field_of("timeout") == "timeout"
    assert field_of(None) is None
    assert field_of("queue") is None


@pytest.mark.failure(72)
def test_what_a_screen_can_not_show_is_not_written_on_it() -> None:
    table = {"command": ["echo", "\x1b[2J"], "env": {"A": "two\nlines"}, "description": "one\ntwo"}

    assert uneditable_fields(texts_of("x", table), table) == {"job", "env"}
    assert set(texts_of("x", table)) == set(FIELDS)
