"""Templates of a document: which value counts, and what is wrong with its line."""

from __future__ import annotations

from typing import Any

import pytest

from edgecron.base.errors import InvalidDocument
from edgecron.cli.help_ import read_topic
from edgecron.formats.document import BUILT_IN, built_in, read_document
from edgecron.formats.document_tables import Document, spec_table


def read(text: str) -> Document:
    return read_document(text.encode(), is_portable=True)


def tables(text: str) -> dict[str, dict[str, Any]]:
    return {one.spec.name: spec_table(one.spec) for one in read(text).wanted}


def problems(text: str) -> list[tuple[int, str]]:
    with pytest.raises(InvalidDocument) as refused:
        read(text)
    return [(one["line"], one["message"]) for one in refused.value.problems]


def test_the_own_key_counts_then_the_later_template() -> None:
    found = tables(
        """
        [templates.slow]
        every = "1h"
        timeout = "2h"
        retries = 3
        [templates.quiet]
        timeout = "3h"
        nice = 5
        [schedules.sync]
        templates = ["slow", "quiet"]
        nice = 7
        command = ["true"]
        """
    )

    assert found["sync"] == {
        "every": "1h", "command": ["true"], "nice": 7, "timeout": "3h", "retries": 3,
    }  # fmt: skip


def test_times_replace_all_times_variables_add_up_and_lists_replace_lists() -> None:
    found = tables(
        """
        [templates.base]
        cron = ["0 1 * * *", "0 2 * * *"]
        env = { LANG = "C", MODE = "full" }
        ok_codes = [0, 1]
        [schedules.a]
        template = "base"
        every = "10m"
        env.MODE = "small"
        ok_codes = [0, 2]
        command = ["true"]
        [schedules.b]
        template = "base"
        cron = "0 5 * * *"
        command = ["true"]
        """
    )

    assert (found["a"]["every"], "cron" in found["a"]) == ("10m", False)
    assert found["a"]["env"] == {"LANG": "C", "MODE": "small"}
    assert found["a"]["ok_codes"] == [0, 2]
    assert found["b"]["cron"] == "0 5 * * *"


def test_none_clears_a_key_of_a_template() -> None:
    found = tables(
        """
        [schedules.look]
        template = "poll"
        timeout = "none"
        command = ["true"]
        """
    )

    assert "timeout" not in found["look"]
    assert found["look"]["every"] == built_in()["poll"]["every"]


@pytest.mark.parametrize("name", built_in())
def test_each_template_of_edgecron_makes_a_schedule(name: str) -> None:
    found = tables(f'[schedules.job]\ntemplate = "{name}"\ncommand = ["true"]')["job"]

    assert found == {**built_in()[name], "command": ["true"]}


def test_the_topic_shows_the_templates_of_edgecron() -> None:
    assert BUILT_IN in read_topic("templates")


def test_an_unused_template_and_one_that_hides_another_are_noted_with_their_line() -> None:
    document = read('[templates.poll]\nevery = "7m"\n[templates.mine]\nretries = 1\n')

    assert document.notes == (
        "line 1: template 'poll' is not used by any schedule",
        "line 1: template 'poll' replaces edgecron's template of this name",
        "line 3: template 'mine' is not used by any schedule",
    )


def test_what_is_wrong_is_reported_once_and_where_it_is() -> None:
    found = problems(
        """[templates.base]
timeout = "abc"
command = ["true"]
template = "poll"
retry = 3
[schedules.a]
template = "base"
every = "5m"
command = ["true"]
[schedules.b]
template = "bse"
timeout = "x"
command = ["true"]
[schedules.c]
template = "poll"
templates = ["base"]
command = ["true"]
[schedules.d]
templates = ["poll", 3]
command = ["true"]
"""
    )

    assert [(line, message.partition(": duration")[0]) for line, message in found] == [
        (2, "template 'base': timeout"),
        (3, "template 'base': key 'command' is refused"),
        (4, "template 'base': key 'template' is refused"),
        (5, "template 'base': key 'retry' is unknown"),
        (11, "template 'bse' is unknown"),
        (12, "timeout"),
        (16, "template and templates are given, expected one of them"),
        (19, "a template's name is text in quotes"),
    ]


def test_what_only_shows_in_a_schedule_names_its_template() -> None:
    found = problems(
        """[templates.base]
retry_delay = "30m"
[schedules.a]
template = "base"
every = "1d"
retry_max_delay = "10m"
command = ["true"]
"""
    )

    [(line, message)] = found
    assert line == 3
    assert message.endswith("(from template 'base')")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[templates.a]\ntimout = '1m'", "did you mean timeout?"),
        ("[templates.a]\ncomand = ['a']", "a template has no job: write it in the schedule"),
        ("[templates.a]\ncmd = ['a']", "a template has no job: write it in the schedule"),
        (
            "[templates.a]\ntemplat = 'poll'",
            "a template does not build on templates: name both in the schedule",
        ),
        ("[schedules.a]\ntemplat = 'poll'\ncommand = ['a']", "did you mean template?"),
        ("[schedules.a]\nevery = '1d'\ncomand = ['a']", "did you mean command?"),
        ("[template.a]\ntimeout = '1m'", "write [templates.NAME]"),
        ("[schedule.a]\nevery = '1d'", "did you mean [schedules.a]?"),
        ("[notify.ops]\ncommand = ['a']", "see where the configuration is: edgecron config path"),
    ],
)
def test_a_hint_names_the_nearest_key_of_its_table(text: str, hint: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read_document(text.encode())

    assert hint in {one["hint"] for one in caught.value.problems}
