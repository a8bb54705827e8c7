"""`list`: pages, filters and words."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.tui.themes import STATE_GLYPHS
from tests.support.cli import Edgecron
from tests.support.terminal import on_terminal, read_until


def make(database: Path, count: int) -> None:
    """Make `job-000` and so on."""
    specs = [
        ScheduleSpec(
            name=f"job-{number:03}",
            triggers=("every 1h",),
            job=Job(kind=JobKind.COMMAND, argv=("rsync", f"/srv/{number}")),
            group="even" if number % 2 == 0 else None,
            description={7: "Nightly copy", 9: "Ärger mit BÄREN"}.get(number),
        )
        for number in range(count)
    ]
    with Client(database) as client:
        client.add_all(specs)


@pytest.fixture
def many(edgecron: Edgecron, database: Path) -> int:
    """How many schedules there are: three more than a page."""
    make(database, 53)
    return 53


def test_a_pipe_gets_every_schedule(edgecron: Edgecron, many: int) -> None:
    assert len(edgecron("list").out.splitlines()) == 1 + many
    assert len(edgecron("list", "--json").json) == many


def test_a_terminal_gets_a_page_and_the_command_that_continues(many: int, database: Path) -> None:
    environment = {**os.environ, "EDGECRON_DB": str(database), "TERM": "xterm-256color"}

    with on_terminal(environment, "list") as terminal:
        shown = read_until(terminal, None)

    assert "job-049" in shown
    assert "job-050" not in shown
    assert "list --after job-049" in shown


def test_pages_follow_each_other_without_a_gap(edgecron: Edgecron, many: int) -> None:
    first = edgecron("list", "-n", "50", "--json").json
    rest = edgecron("list", "-n", "all", "--after", first[-1]["name"], "--json").json

    assert len(first) == 50
    assert [one["name"] for one in first + rest] == [f"job-{number:03}" for number in range(many)]


def test_the_last_page_says_nothing_of_more(edgecron: Edgecron, many: int) -> None:
    assert "there are more" in edgecron("list", "-n", str(many - 1)).err
    assert "there are more" not in edgecron("list", "-n", str(many)).err


def test_the_command_that_continues_keeps_the_filters(edgecron: Edgecron, many: int) -> None:
    said = edgecron("list", "rsync", "--group", "even", "-n", "1")

    assert "list rsync --group even --after job-000 -n 1" in said.err


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("job-012",), ["job-012"]),
        (("SRV/7",), ["job-007"]),
        (("nightly",), ["job-007"]),
        (("Ärger", "bären"), ["job-009"]),
        (("rsync", "/srv/51"), ["job-051"]),
        (("rsync", "nightly", "absent"), []),
        (("--group", "even", "job-01"), [f"job-{number:03}" for number in range(10, 20, 2)]),
        (("--group", "eve"), []),
    ],
)
def test_words_and_group_choose_schedules(
    edgecron: Edgecron, many: int, words: tuple[str, ...], names: list[str]
) -> None:
    assert [one["name"] for one in edgecron("list", "--json", *words).json] == names
    lines = edgecron("list", *words).out.splitlines()
    assert [line.split()[1] for line in lines[1:]] == names


def test_a_choice_that_nothing_matches_is_not_an_empty_database(
    edgecron: Edgecron, many: int
) -> None:
    said = edgecron("list", "--failed")

    assert said.out == ""
    assert said.err == "no schedule matches\n"


def test_paused_ones_are_those_without_end_and_until_a_time_to_come(
    edgecron: Edgecron, many: int
) -> None:
    edgecron("pause", "job-003")
    edgecron("pause", "job-005", "--until", "in 2h")

    names = [one["name"] for one in edgecron("list", "--paused", "--json").json]

    assert names == ["job-003", "job-005"]


def test_failed_ones_are_those_whose_last_run_failed(edgecron: Edgecron) -> None:
    for name, line in (("bad", "exit 3"), ("good", "true")):
        edgecron("add", name, "--every", "1h", "--shell", line)
        edgecron("run", name, "--wait")

    assert [one["name"] for one in edgecron("list", "--failed", "--json").json] == ["bad"]


def test_a_line_has_the_glyph_that_the_dashboard_shows(edgecron: Edgecron, database: Path) -> None:
    states = ("active", "broken", "done", "paused", "vanished")
    for name in (*states, "load"):
        edgecron("add", name, "--every", "1h", "--", "true")
    edgecron("add", "orphan", "--after", "load", "--", "true")
    edgecron("rm", "load")
    edgecron("pause", "paused")
    with sqlite3.connect(database) as connection:
        connection.executescript("""
            UPDATE schedules SET trigger_error = 'lost', next_run_at = NULL, next_plan_at = NULL
                WHERE name = 'broken';
            UPDATE schedules SET vanished_at = updated_at WHERE name = 'vanished';
            UPDATE schedules SET until_at = 1, next_run_at = NULL, next_plan_at = NULL
                WHERE name = 'done';
        """)
    connection.close()

    shown = {line.split()[1]: line.split()[0] for line in edgecron("list").out.splitlines()[1:]}

    # Nothing starts the orphan again, but its state is the one that the dashboard shows.
    wanted = {name: STATE_GLYPHS[name][0] for name in states}
    assert shown == {**wanted, "orphan": STATE_GLYPHS["active"][0]}


def test_a_limit_that_is_no_number_is_refused(edgecron: Edgecron, many: int) -> None:
    said = edgecron("list", "-n", "some")

    assert said.code == 2
    assert "some" in said.err


def test_many_objects_are_json_with_one_object_to_a_line(
    edgecron: Edgecron, database: Path
) -> None:
    make(database, 201)

    said = edgecron("list", "--json")

    lines = said.out.splitlines()
    assert len(lines) == 2 + 201
    assert json.loads(lines[1].rstrip(","))["name"] == "job-000"
    assert len(said.json) == 201


def test_next_shows_two_runs_of_each_schedule_and_how_to_see_all(
    edgecron: Edgecron, database: Path
) -> None:
    edgecron("add", "poll", "--every", "5m", "--", "true")
    only = edgecron("next")
    edgecron("add", "nightly", "--cron", "0 2 1 * *", "--", "true")

    said = edgecron("next")

    assert (only.out.count("poll"), only.err) == (10, "")
    assert [("poll" in line, "nightly" in line) for line in said.out.splitlines()[1:]] == [
        (True, False),
        (True, False),
        (False, True),
        (False, True),
    ]
    assert "at most 2 runs of each schedule; for all runs: edgecron next -n 10\n" in said.err
    for words in (("-n", "10"), ("poll",), ("--filter", "job:poll"), ("--json",)):
        every = edgecron("next", *words)
        assert every.out.count("poll") >= 10
        assert "at most" not in every.err


@pytest.mark.parametrize("command", ["list", "next"])
def test_a_list_loads_no_code_that_writes(many: int, database: Path, command: str) -> None:
    script = f"import sys; from edgecron.cli import run; run([{command!r}]); print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "EDGECRON_DB": str(database)},
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = set(done.stdout.splitlines()[-1].split())
    assert "job-007" in done.stdout
    assert "edgecron.store.sqlite.reading_store" in loaded
    assert not loaded & {"edgecron.store.sqlite.store", "edgecron.store.sql.claims"}
    assert not loaded & {"hashlib", "ctypes", "difflib", "uuid"}


def test_a_cron_text_of_another_zone_names_the_zone(edgecron: Edgecron) -> None:
    job = ("--", "true")
    edgecron("add", "far", "--cron", "0 9 * * *", "--tz", "Asia/Tokyo", *job)
    edgecron("add", "here", "--cron", "0 9 * * *", *job)
    edgecron("add", "often", "--every", "1h", "--tz", "Asia/Tokyo", *job)

    lines = edgecron("list").out.splitlines()[1:]

    assert [" Asia/Tokyo " in line for line in lines] == [True, False, False]
