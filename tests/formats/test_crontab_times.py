"""Time fields and macros, and where cron and our own gate would differ."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from edgecron.formats.crontab_lines import Crontab
from edgecron.triggers import parse_trigger

Read = Callable[..., Crontab]


def test_a_boot_line_runs_on_boot(read: Read) -> None:
    (entry,) = read("CRON_TZ=Japan\n@reboot run\n").entries

    assert entry.spec.triggers == ("on boot",)
    assert entry.spec.timezone == "local"


@pytest.mark.parametrize(
    "macro", ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"]
)
def test_macros_stay_as_they_are(read: Read, macro: str) -> None:
    assert read(f"{macro}\trun\n").entries[0].spec.triggers == (macro,)


@pytest.mark.parametrize(
    "macro", ["@Daily", "@every_minute", "@every", "@AppleNotOnBattery", "@", "@daily@x", "@10"]
)
def test_other_macros_are_problems(read: Read, macro: str) -> None:
    (problem,) = read(f"{macro} run\n").problems

    assert macro in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    "fields",
    [
        "* * * * *",
        "*/15 0-23/2 1,15 jan-mar,DEC *",
        "09,39 05 * * 7",
        "0 5 * * 0-7",
        "0 5 * * 5-7/2",
        "0 5 * * Sun,tue",
        "1-5,10-20/3 * */2 * 1",
        "0 0 29 2 *",
        "5-5 * * * *",
        "*,5 * * * *",
    ],
)
def test_plain_cron_fields_are_taken(read: Read, fields: str) -> None:
    crontab = read(f"{fields} run\n")

    assert crontab.problems == ()
    assert crontab.entries[0].spec.triggers == (fields,)


@pytest.mark.failure(11)
@pytest.mark.parametrize(
    "fields",
    [
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "* * * foo *",
        "* * * * sunday",
        "mon * * * *",
        "*/0 * * * *",
        "-5 * * * *",
        "--5 * * * *",
        "5, * * * *",
        "5-x * * * *",
        "5-7x * * * *",
        "1-2-3 * * * *",
        "+5 * * * *",
        "٥ * * * *",
        "99999999999999999999 * * * *",
        "5\u00a0* * * * *",
        "0 0 5 * * *",
    ],
)
def test_what_cron_refuses_is_a_problem(read: Read, fields: str) -> None:
    crontab = read(f"@daily x\n{fields} run\n")

    assert [problem.line for problem in crontab.problems] == [2]
    assert [entry.line for entry in crontab.entries] == [1]


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ("5/10 * * * *", "write 5-59/10, or 5"),
        ("0 5 * * fri-sun", "write 5-7"),
        ("0 22-2 * * *", "write 22,23,0,1,2"),
        ("0~30 * * * *", "--jitter"),
        ("0 5 L * *", "edgecron add"),
        ("0 5 15W * *", "edgecron add"),
        ("0 5 * * 1#2", "edgecron add"),
        ("H 5 * * *", "edgecron add"),
        ("0 5 ? * *", "edgecron add"),
    ],
)
def test_what_cron_and_our_gate_read_differently_is_named_with_advice(
    read: Read, fields: str, advice: str
) -> None:
    (problem,) = read(f"{fields} run\n").problems

    assert advice in (problem.hint or "")


def test_the_star_that_debian_reads_as_all_is_named(read: Read) -> None:
    assert [problem.line for problem in read("*5 * * * * run\n").problems] == [1]


@pytest.mark.failure(10)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [("x 1 * * *", "0-59"), ("1 x * * *", "0-23"), ("1 1 x * *", "1-31"),
     ("1 1 * x *", "1-12 or JAN-DEC"), ("1 1 * * jan", "0-7 or SUN-SAT")],
)  # fmt: skip
def test_a_refused_field_names_the_values_it_takes(read: Read, fields: str, expected: str) -> None:
    (problem,) = read(f"{fields} run\n").problems

    assert f"expected {expected}, a range, a list or a step" in problem.message


def test_what_the_gate_refuses_is_a_problem_with_its_message(read: Read) -> None:
    (problem,) = read("0 0 30 2 * run\n").problems

    assert problem.line == 1
    assert "30" in problem.message or "never" in problem.message


@pytest.mark.failure(11)
def test_a_step_beyond_its_field_is_taken_with_the_gates_warning(read: Read) -> None:
    crontab = read("*/90 * * * * run\n")

    assert crontab.problems == ()
    assert [warning.line for warning in crontab.warnings] == [1]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # From Wednesday 2021-03-03 00:00 UTC.
        ("0 5 * * 0-7", datetime(2021, 3, 3, 5, tzinfo=UTC)),
        ("0 5 * * 7", datetime(2021, 3, 7, 5, tzinfo=UTC)),
        ("0 5 * * 6-7", datetime(2021, 3, 6, 5, tzinfo=UTC)),
        ("0 5 * * 1-7/3", datetime(2021, 3, 4, 5, tzinfo=UTC)),
        ("0 5 * * */7", datetime(2021, 3, 7, 5, tzinfo=UTC)),
        ("0 5 1-31 * 0", datetime(2021, 3, 3, 5, tzinfo=UTC)),
        ("0 5 1 * 0-7", datetime(2021, 3, 3, 5, tzinfo=UTC)),
        ("0 5 20 * 6", datetime(2021, 3, 6, 5, tzinfo=UTC)),
        ("0 5 */10 * 6", datetime(2021, 5, 1, 5, tzinfo=UTC)),
    ],
)
def test_days_of_the_week_mean_what_they_mean_to_cron(
    read: Read, fields: str, expected: datetime
) -> None:
    (entry,) = read(f"{fields} run\n").entries

    trigger = parse_trigger(entry.spec.triggers[0], "UTC")

    assert trigger.next_after(datetime(2021, 3, 3, tzinfo=UTC)) == expected


@pytest.mark.failure(11)
@pytest.mark.parametrize("line", ["*/10 * * * * * run", "0 0 5 * * * run", "@daily * * * run"])
def test_a_star_where_the_command_should_be_is_named(read: Read, line: str) -> None:
    (problem,) = read(f"{line}\n").problems

    assert "no seconds" in (problem.hint or "")
