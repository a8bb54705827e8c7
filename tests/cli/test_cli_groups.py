"""Several schedules at once, by group or all; groups listed; a schedule renamed."""

from __future__ import annotations

import pytest

from tests.support.cli import Edgecron


@pytest.fixture
def grouped(edgecron: Edgecron) -> None:
    """Two schedules of the group disk, one of net, one of none."""
    for name, *group in (("a", "disk:2"), ("b", "disk"), ("c", "net"), ("d",)):
        words = ("--group", group[0]) if group else ()
        assert edgecron("add", name, "--every", "1h", *words, "--", "true").code == 0


def paused(edgecron: Edgecron) -> set[str]:
    return {one["name"] for one in edgecron("list", "--json").json if not one["enabled"]}


def test_a_group_is_paused_and_resumed(edgecron: Edgecron, grouped: None) -> None:
    held = edgecron("pause", "--group", "disk")
    after_pause = paused(edgecron)
    freed = edgecron("resume", "--group", "disk")

    assert (held.code, freed.code) == (0, 0)
    assert [line.split(";")[0] for line in held.out.splitlines()] == ["paused a", "paused b"]
    assert after_pause == {"a", "b"}
    assert [line.split(";")[0] for line in freed.out.splitlines()] == ["resumed a", "resumed b"]
    assert paused(edgecron) == set()


def test_all_are_paused_and_those_that_are_paused_are_resumed(
    edgecron: Edgecron, grouped: None
) -> None:
    held = edgecron("pause", "--all", "--until", "in 2h", "--json")
    edgecron("resume", "c")
    freed = edgecron("resume", "--all", "--json")
    again = edgecron("resume", "--all")

    assert [one["name"] for one in held.json] == ["a", "b", "c", "d"]
    assert all(one["paused_until"] for one in held.json)
    assert [one["name"] for one in freed.json] == ["a", "b", "d"]
    assert (again.code, again.out) == (0, "")
    assert "no schedule was paused" in again.err


def test_a_pause_of_all_with_an_end_leaves_longer_pauses(edgecron: Edgecron) -> None:
    for name in ("a", "b", "c"):
        edgecron("add", name, "--every", "1h", "--", "true")
    edgecron("pause", "a")
    edgecron("pause", "b", "--until", "in 3h")

    said = edgecron("pause", "--all", "--until", "in 2h")

    assert "a stays paused for longer\nb stays paused for longer\npaused c until" in said.out
    assert paused(edgecron) == {"a"}
    assert "paused a until" in edgecron("pause", "a", "--until", "in 2h").out


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize(
    "words", [(), ("a", "--all"), ("a", "--group", "disk"), ("--all", "--group", "disk")]
)
def test_one_way_to_choose_schedules_is_needed(
    edgecron: Edgecron, grouped: None, command: str, words: tuple[str, ...]
) -> None:
    said = edgecron(command, *words)

    assert said.code == 2
    assert "expected one of NAME, --group and --all" in said.err
    assert paused(edgecron) == set()


def test_a_group_that_does_not_exist_is_named(edgecron: Edgecron, grouped: None) -> None:
    said = edgecron("pause", "--group", "dsik")

    assert said.code == 3
    assert "no schedule is in group 'dsik'" in said.err
    assert "edgecron list --groups" in said.err


def test_groups_are_listed_with_their_limits_and_schedules(
    edgecron: Edgecron, grouped: None
) -> None:
    edgecron("pause", "b")

    shown = edgecron("list", "--groups")
    found = edgecron("list", "--groups", "--json").json

    assert [line.split() for line in shown.out.splitlines()] == [
        ["GROUP", "MAX", "RUNNING", "SCHEDULES", "PAUSED"],
        ["disk", "2", "2", "1"],
        ["net", "-", "1", "0"],
    ]
    assert found == [
        {"group": "disk", "max_running": 2, "schedules": 2, "paused": 1},
        {"group": "net", "max_running": None, "schedules": 1, "paused": 0},
    ]


@pytest.mark.parametrize("words", [("-n", "1"), ("--after", "a")])
def test_the_list_of_groups_has_no_pages(
    edgecron: Edgecron, grouped: None, words: tuple[str, str]
) -> None:
    refused = edgecron("list", "--groups", *words)

    assert refused.code == 2
    assert "--groups lists every group" in refused.err


def test_without_groups_the_list_says_how_to_make_one(edgecron: Edgecron, backup: str) -> None:
    shown = edgecron("list", "--groups")

    assert (shown.code, shown.out) == (0, "")
    assert "edgecron edit NAME --group G" in shown.err
    assert edgecron("list", "--groups", "--json").json == []


def test_a_schedule_is_renamed_and_keeps_its_runs(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)
    before = edgecron("show", backup, "--json").json[0]

    said = edgecron("edit", backup, "--name", "nightly")

    after = edgecron("show", "nightly", "--json").json[0]
    assert said.code == 0
    assert "name" in said.out
    assert (after["id"], after["next_plan_at"]) == (before["id"], before["next_plan_at"])
    assert [run["schedule"] for run in edgecron("history", "nightly", "--json").json] == ["nightly"]
    assert edgecron("show", backup).code == 3


def test_a_name_and_something_else_change_together(edgecron: Edgecron, backup: str) -> None:
    edgecron("edit", backup, "--name", "nightly", "--timeout", "2h")

    assert edgecron("show", "nightly", "--json").json[0]["timeout_s"] == 7200


@pytest.mark.parametrize(("new", "code"), [("other", 4), ("7", 2), ("a b", 2), ("", 2)])
def test_a_name_that_is_taken_or_none_is_refused(
    edgecron: Edgecron, backup: str, new: str, code: int
) -> None:
    edgecron("add", "other", "--every", "1h", "--", "true")

    said = edgecron("edit", backup, "--name", new)

    assert said.code == code
    assert edgecron("show", backup).code == 0
