"""A second import adds nothing, and lines that were moved become comments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidInput
from edgecron.formats.crontab_identity import comment_out, find_new
from edgecron.formats.crontab_lines import Crontab
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from tests.support.forms import tried

Read = Callable[..., Crontab]

CRONTAB = "0 5 * * * backup a\nX=1\n0 5 * * * backup a\n@reboot backup%in\n"


def specs(crontab: Crontab) -> list[ScheduleSpec]:
    return [entry.spec for entry in crontab.entries]


def test_a_first_import_adds_every_line(read: Read) -> None:
    crontab = read(CRONTAB)

    comparison = find_new(crontab.entries, [])

    assert [entry.spec.name for entry in comparison.new] == ["backup", "backup-2", "backup-3"]
    assert comparison.known == ()


def test_a_second_import_adds_nothing(read: Read) -> None:
    crontab = read(CRONTAB)

    comparison = find_new(crontab.entries, specs(crontab))

    assert comparison.new == ()
    assert [entry.line for entry in comparison.known] == [1, 3, 4]


def test_a_line_is_known_whatever_its_name_description_and_policies_became(read: Read) -> None:
    crontab = read("0 5 * * * backup\n")
    edited = replace(
        crontab.entries[0].spec,
        name="nightly",
        description="mine",
        policies=Policies(retries=3, jitter_s=60),
    )

    comparison = find_new(crontab.entries, [edited])

    assert comparison.new == ()
    assert [entry.spec.name for entry in comparison.known] == ["nightly"]


@pytest.mark.parametrize(
    "changed",
    [
        "1 5 * * * backup a\n",
        "0 5 * * * backup b\n",
        "0 5 * * * backup a%x\n",
        "X=1\n0 5 * * * backup a\n",
        "CRON_TZ=Japan\n0 5 * * * backup a\n",
    ],
)
def test_a_changed_line_is_new_under_a_free_name(read: Read, changed: str) -> None:
    existing = specs(read("0 5 * * * backup a\n"))

    comparison = find_new(read(changed).entries, existing)

    assert [entry.spec.name for entry in comparison.new] == ["backup-2"]


def test_the_second_of_two_equal_lines_is_new_where_one_schedule_holds_the_first(
    read: Read,
) -> None:
    existing = specs(read("0 5 * * * backup\n"))

    comparison = find_new(read("0 5 * * * backup\n0 5 * * * backup\n").entries, existing)

    assert [entry.line for entry in comparison.known] == [1]
    assert [entry.spec.name for entry in comparison.new] == ["backup-2"]


@pytest.mark.failure(58)
def test_new_names_avoid_those_of_other_schedules(read: Read) -> None:
    other = ScheduleSpec(
        name="backup",
        triggers=("every 1h",),
        job=Job(kind=JobKind.COMMAND, argv=("backup",)),
        timezone="local",
    )

    comparison = find_new(read("@daily backup\n").entries, [other], taken={"backup-2"})

    assert [entry.spec.name for entry in comparison.new] == ["backup-3"]


def test_moved_lines_become_comments_and_are_no_longer_entries(read: Read) -> None:
    content = b"# head\n0 5 * * * a\r\nX=1\n\t@daily b"

    moved = comment_out(content, [2, 4])

    assert moved == (
        b"# head\n# moved to edgecron: 0 5 * * * a\r\nX=1\n# moved to edgecron: \t@daily b"
    )
    assert read(moved).entries == ()
    assert comment_out(moved, [2, 4]) == moved


@pytest.mark.parametrize("number", [0, -1, 3])
def test_a_line_that_is_not_there_can_not_be_moved(number: int) -> None:
    with pytest.raises(InvalidInput, match="is not in the crontab"):
        comment_out(b"a\nb\n", [number])


@settings(max_examples=tried(40, 100), deadline=None)
@given(st.binary(), st.data())
def test_moving_touches_nothing_but_the_lines_named(content: bytes, data: st.DataObject) -> None:
    lines = content.split(b"\n")
    numbers = (
        data.draw(st.sets(st.integers(1, len(lines) if lines[-1] else len(lines) - 1)))
        if content
        else set()
    )

    moved = comment_out(content, numbers).split(b"\n")

    back = [
        line.removeprefix(b"# moved to edgecron: ") if number in numbers else line
        for number, line in enumerate(moved, 1)
    ]
    assert back == lines
