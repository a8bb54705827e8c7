"""`undo`: what was removed last comes back as it was, with its history."""

from __future__ import annotations

import os
import re
from pathlib import Path

import apsw
import pytest

from edgecron.base.paths import person_name
from tests.support.cli import Edgecron
from tests.support.story import Story
from tests.support.terminal import on_terminal, read_until


def test_a_removed_schedule_comes_back_with_its_history(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup, "--wait")
    before = edgecron("list", "--json").json[0]
    removed = edgecron("rm", backup)

    said = edgecron("undo", backup)

    after = edgecron("list", "--json").json[0]
    assert removed.out == (
        f"removed {backup}; its history stays; restore it: edgecron undo {backup}\n"
    )
    assert said.code == 0
    assert said.out.startswith(f"restored {backup}; next ")
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"revision", "updated_at"}
    assert len(edgecron("history", backup, "--json").json) == 1


def test_a_paused_schedule_comes_back_paused(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "later", "--every", "1h", "--", "true")
    edgecron("pause", backup)
    edgecron("pause", "later", "--until", "2030-01-01 09:00")
    edgecron("rm", backup, "later")

    edgecron("undo", backup, "later")

    found = {one["name"]: one for one in edgecron("list", "--json").json}
    assert found[backup]["enabled"] is False
    assert found["later"]["enabled"] is True
    assert found["later"]["paused_until"] == "2030-01-01T09:00:00Z"
    assert str(found["later"]["next_run_at"]) > "2030"


def test_without_a_name_the_last_change_is_undone_whole(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text(
        '[schedules.a]\nevery = "1h"\nshell = "a"\n[schedules.b]\nafter = "a"\nshell = "b"\n'
    )
    edgecron("apply", str(file))
    edgecron("rm", backup)
    file.write_text('[schedules.c]\nevery = "1h"\nshell = "c"\n')
    edgecron("apply", str(file), "--prune")

    found = edgecron("undo", "--json").json

    assert [(one["name"], one["is_removed"]) for one in found] == [
        ("c", True),
        ("a", False),
        ("b", False),
    ]
    assert [one["name"] for one in edgecron("list", "--json").json] == ["a", "b"]


CLOCK = r"(?:[A-Z][a-z]{2} \d\d )?\d\d:\d\d(?::\d\d)?"


def without_times(text: str) -> list[str]:
    return re.sub(CLOCK, "TIME", text).splitlines()


def test_show_lists_the_changes_of_a_schedule_with_who_made_them(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("edit", backup, "--timeout", "1h", "--env", "KEY=secret")
    edgecron("pause", backup)

    shown = edgecron("show", backup, "--changes")

    who = f"by {person_name()}, command line"
    assert without_times(shown.out) == [
        f"   3  TIME  paused {who}",
        f"   2  TIME  changed {who}",
        "      + env.KEY: none -> ***",
        "      + timeout: none -> 1h",
        f"   1  TIME  added {who}",
        "      + every: 1h",
        "      + shell: echo good; echo bad >&2",
    ]
    assert shown.err == f"undo the last change: edgecron undo {backup}\n"


def test_a_dry_run_shows_an_undo_and_changes_nothing(edgecron: Edgecron, backup: str) -> None:
    edgecron("edit", backup, "--timeout", "1h")
    edgecron("pause", backup)
    before = edgecron("list", "--json").json

    last = edgecron("undo", backup, "--dry-run")
    first = edgecron("undo", backup, "1", "--dry-run")
    whole = edgecron("undo", "--dry-run", "--json").json

    who = f"by {person_name()}, command line"
    assert without_times(last.out) == [
        f"undo revision 3 of {backup} (paused TIME {who}):",
        "    ~ enabled: false -> true",
        "    next runs: none",
        "    then:      TIME, TIME, TIME",
    ]
    assert last.err == "nothing is written: this was a dry run\n"
    assert without_times(first.out)[:2] == [
        f"return {backup} to revision 1:",
        "    - timeout: 1h -> none",
    ]
    assert [(one["name"], one["revision"], one["is_removed"]) for one in whole] == [
        (backup, 3, False)
    ]
    assert edgecron("list", "--json").json == before


def test_a_changed_value_that_is_hidden_is_shown_as_changed(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("edit", backup, "--env", "LANG=C")
    edgecron("edit", backup, "--env", "LANG=de_DE")

    shown = edgecron("show", backup, "--changes").out
    revealed = edgecron("show", backup, "--changes", "--reveal").out
    undone = edgecron("undo", backup).out

    assert "~ env.LANG: changed (hidden)" in shown
    assert "~ env.LANG: C -> de_DE" in revealed
    assert "~ env.LANG: changed (hidden)" in undone


def test_an_undo_that_fails_shows_what_was_undone_before(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "alone", "--every", "1h", "--", "true")
    edgecron("add", "follows", "--after", backup, "--", "true")

    said = edgecron("undo", "alone", backup)

    assert said.code == 1
    assert said.out == "undid the addition of alone: the schedule is removed, its history stays\n"
    assert f"schedule '{backup}' can't be removed" in said.err
    assert {one["name"] for one in edgecron("list", "--json").json} == {backup, "follows"}


def test_the_undo_of_an_addition_says_that_it_removes(edgecron: Edgecron, backup: str) -> None:
    planned = edgecron("undo", backup, "--dry-run")
    said = edgecron("undo", backup)

    assert "    the schedule is removed; its history stays" in planned.out.splitlines()
    assert said.out == (
        f"undid the addition of {backup}: the schedule is removed, its history stays\n"
    )
    assert said.err == f"to undo this: edgecron undo {backup}\n"
    assert edgecron("undo", backup).out.startswith(f"restored {backup}; next ")
    assert edgecron("undo", backup).out == (
        f"undid the undo of {backup}: the schedule is removed, its history stays\n"
    )


@pytest.mark.parametrize(
    ("names", "question"),
    [
        (["backup"], "undo the last change of backup?"),
        (["backup", "1"], "return backup to revision 1?"),
        ([], "undo the last change of 2 schedules?"),
    ],
)
def test_the_question_of_an_undo_names_what_it_undoes(
    edgecron: Edgecron, backup: str, tmp_path: Path, names: list[str], question: str
) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text(
        '[schedules.a]\nevery = "1h"\nshell = "a"\n[schedules.b]\nevery = "1h"\nshell = "b"\n'
    )
    edgecron("edit", backup, "--timeout", "1h")
    edgecron("apply", str(file))
    before = edgecron("list", "--json").json

    with on_terminal(dict(os.environ), "undo", "--quiet", *names) as outer:
        read_until(outer, f"{question} [y/N] ")
        os.write(outer, b"n\n")
        read_until(outer, None)

    assert edgecron("list", "--json").json == before


def test_an_undo_leaves_the_limit_of_a_group(edgecron: Edgecron, backup: str) -> None:
    edgecron("edit", backup, "--group", "disk:2")
    edgecron("edit", backup, "--group", "disk:5", "--timeout", "1h")

    edgecron("undo", backup)

    [found] = edgecron("list", "--json").json
    assert (found["group"], found["group_max_running"]) == ("disk", 5)
    assert found["timeout_s"] is None
    assert "does not change it" in edgecron("help", "undo").out


def test_an_edit_to_the_same_value_is_no_change_to_undo(edgecron: Edgecron, backup: str) -> None:
    edgecron("edit", backup, "--group", "disk:2", "--timeout", "1h")
    again = edgecron("edit", backup, "--timeout", "1h")
    edgecron("edit", backup, "--group", "disk:5")
    before = edgecron("list", "--json").json[0]

    edgecron("undo", backup)

    after = edgecron("list", "--json").json[0]
    assert again.code == 0
    assert before["revision"] == 2
    assert (before["group"], after["group"]) == ("disk", None)


def test_without_any_change_there_is_nothing_to_undo(edgecron: Edgecron, database: Path) -> None:
    edgecron("add", "backup", "--every", "1h", "--", "true")
    with apsw.Connection(str(database)) as connection:
        connection.execute("DELETE FROM schedule_changes")

    said = edgecron("undo")

    assert said.code == 3
    assert said.err == "error: there is nothing to undo: no change is recorded\n"


def test_a_name_that_was_taken_meanwhile_means_the_new_schedule(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("rm", backup)
    edgecron("add", backup, "--every", "2h", "--", "other")

    edgecron("edit", backup, "--timeout", "1h")
    edgecron("undo", backup)
    edited = edgecron("list", "--json").json
    edgecron("edit", backup, "--name", "newer")
    edgecron("undo", backup)

    assert [(one["job"], one["timeout_s"]) for one in edited] == [(["other"], None)]
    assert [one["name"] for one in edgecron("list", "--json").json] == [backup, "newer"]
    assert edgecron("undo", "nobody").code == 3


def test_times_that_passed_before_the_undo_are_a_skipped_row(story: Story) -> None:
    story.add("hourly", "every 1h")
    story.after_s(30 * 60)
    story.client.remove("hourly")
    story.after_s(150 * 60)

    [restored] = story.client.undo_removal("hourly")
    story.after_s(60 * 60)

    assert restored.next_run_at is not None
    [skipped] = [run for run in story.runs("hourly") if run.status == "skipped"]
    assert (skipped.reason, skipped.missed_count) == ("removed", 3)
    assert story.statuses("hourly")[-1] == "success"


def test_the_history_of_a_name_shows_earlier_schedules_apart(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("run", backup, "--wait")
    edgecron("rm", backup)
    edgecron("add", backup, "--every", "2h", "--", "true")
    edgecron("run", backup, "--wait")

    shown = edgecron("history", backup).out.splitlines()
    ids = [one["id"] for one in edgecron("history", backup, "--json").json]

    [border] = [number for number, line in enumerate(shown) if "an earlier schedule" in line]
    assert shown[border].startswith(f"an earlier schedule {backup}, removed at ")
    assert [line.split()[0] for line in shown[1:border]] == [str(ids[0])]
    assert [line.split()[0] for line in shown[border + 2 :]] == [str(ids[1])]


def test_what_was_forgotten_can_not_be_restored(edgecron: Edgecron, backup: str) -> None:
    edgecron("rm", backup)
    edgecron("prune", "--forget", backup)

    said = edgecron("undo", backup)

    assert said.code != 0
    assert "its definition was forgotten" in said.err
    assert edgecron("list", "--json").json == []


def test_what_an_older_version_removed_comes_back_paused(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    edgecron("rm", backup)
    with apsw.Connection(str(database)) as connection:
        connection.execute("UPDATE schedules SET removed_state = NULL")

    edgecron("undo")

    assert edgecron("list", "--json").json[0]["enabled"] is False
