"""`--since` and `--until` of `history` and `logs`: which runs they show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgecron.model.choices import Status
from edgecron.model.listing import RunChoice
from tests.support.cli import Edgecron
from tests.support.story import START_MS, Story

BEGIN = datetime.fromtimestamp(START_MS / 1000, UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def hourly(story: Story) -> Story:
    """A schedule that has run at five full hours."""
    story.add("copy", "every 1h", lasts_s=1)
    for _ in range(5):
        story.after_s(3600)
    story.after_s(60)
    return story


def starts(story: Story, since: datetime | None, until: datetime | None) -> list[datetime]:
    found = story.client.history_page("copy", choice=RunChoice(since=since, until=until))
    return [run.started_at or run.plan_at for run in found.runs]


def test_a_run_counts_from_its_start_on_and_until_excludes_its_own_instant(hourly: Story) -> None:
    every = starts(hourly, None, None)

    assert len(every) == 5
    assert starts(hourly, every[2], None) == every[:3]
    assert starts(hourly, None, every[2]) == every[3:]
    assert starts(hourly, every[3], every[1]) == every[2:4]
    assert starts(hourly, every[0] + HOUR, None) == []


def test_bounds_and_statuses_and_pages_go_together(hourly: Story) -> None:
    every = starts(hourly, None, None)
    client = hourly.client

    first = client.history_page("copy", choice=RunChoice(since=every[3]), limit=2).runs
    rest = client.history_page(
        "copy", choice=RunChoice(since=every[3], before_id=first[-1].id)
    ).runs

    assert [run.started_at for run in first + rest] == every[:4]
    assert (
        client.history_page(
            "copy", choice=RunChoice(statuses=(Status.FAILED,), since=every[4])
        ).runs
        == []
    )


def test_a_run_that_did_not_start_counts_by_its_plan_time(story: Story) -> None:
    story.add("copy", "every 1h", lasts_s=2 * 3600)
    for _ in range(2):
        story.after_s(3600)

    [skipped] = story.client.history_page("copy", choice=RunChoice(since=BEGIN + 2 * HOUR)).runs

    assert skipped.status is Status.SKIPPED


def test_history_takes_times_as_people_write_them(hourly: Story, edgecron: Edgecron) -> None:
    path = str(hourly.world.path)
    day = BEGIN.strftime("%Y-%m-%d")

    whole = edgecron("--db", path, "history", "--since", day, "--json").json
    part = edgecron(
        *("--db", path, "history", "--json"),
        *("--since", f"{day} 22:30", "--until", f"{day}T23:30:00Z"),
    ).json
    none = edgecron("--db", path, "history", "copy", "--since", "2h ago")

    assert len(whole) == 5
    assert [run["started_at"][:13] for run in part] == [f"{day}T23"]
    assert (none.code, none.out, none.err) == (0, "", "no such runs\n")


@pytest.mark.parametrize("command", ["history", "logs"])
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--since", "now", "--until", "1h"), "--since is 'now', which is not before --until '1h'"),
        (("--since", "in 2h"), "--since is 'in 2h', that is"),
        (("--since", "someday"), "--since: time 'someday' is not understood"),
    ],
)
def test_times_that_mean_nothing_are_refused_with_a_hint(
    hourly: Story, edgecron: Edgecron, command: str, words: tuple[str, ...], error: str
) -> None:
    said = edgecron("--db", str(hourly.world.path), command, "copy", *words)

    assert said.code == 2
    assert said.err.startswith(f"error: {error}")
    assert "\nhint: " in said.err


def test_logs_print_all_runs_within_times_the_oldest_first(edgecron: Edgecron, backup: str) -> None:
    for _ in range(3):
        edgecron("run", backup, "--wait")

    all_runs = edgecron("logs", backup, "--since", "1h", "--stream", "stdout", "-n", "1")
    none = edgecron("logs", backup, "--until", "1h")
    chunks = edgecron("logs", backup, "--since", "1h", "--json").json

    assert all_runs.out == "good\n" * 3
    assert [line.split(",")[0] for line in all_runs.err.splitlines()] == [
        f"==> run {number} of backup" for number in (1, 2, 3)
    ]
    assert (none.out, none.err) == ("", "no such runs\n")
    assert [chunk["run"] for chunk in chunks] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("words", [("1",), ("backup", "-f"), ("backup", "--result")])
def test_times_are_for_the_past_runs_of_a_schedule(
    edgecron: Edgecron, backup: str, words: tuple[str, ...], database: Path
) -> None:
    edgecron("run", backup, "--wait")

    said = edgecron("logs", *words, "--since", "1h")

    assert said.code == 2
    assert said.err.startswith("error: --since and --until print the past runs of a schedule\n")


def test_why_of_a_day_explains_every_time_of_it_the_oldest_first(
    hourly: Story, edgecron: Edgecron
) -> None:
    path = str(hourly.world.path)
    day = BEGIN.strftime("%Y-%m-%d")

    said = edgecron("--db", path, "why", "copy", day)
    objects = edgecron("--db", path, "why", "copy", day, "--json").json

    numbers = [run.id for run in hourly.runs("copy") if run.plan_at.date() == BEGIN.date()]
    assert [line.split()[1] for line in said.out.splitlines() if line.startswith("Run ")] == [
        str(number) for number in numbers
    ]
    assert [one["runs"][0]["id"] for one in objects] == numbers


def test_why_of_a_long_day_says_where_the_rest_is(story: Story, edgecron: Edgecron) -> None:
    story.add("copy", "every 5m", lasts_s=1)
    for _ in range(15):
        story.after_s(300)
    story.after_s(60)

    said = edgecron("--db", str(story.world.path), "why", "copy", BEGIN.strftime("%Y-%m-%d"))

    assert "These are the last 10 of the day; earlier ones: edgecron" in said.out
    assert said.out.count("Run ") == 10


def test_why_of_a_day_without_runs_explains_its_midnight(hourly: Story, edgecron: Edgecron) -> None:
    said = edgecron("--db", str(hourly.world.path), "why", "copy", "2026-01-02")

    assert said.code == 0
    assert "2026-01-02 00:00:00" in said.out
