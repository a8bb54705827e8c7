"""stats: counts, durations and delays of the runs in a span of time, at a bounded cost."""

from __future__ import annotations

import shlex
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from edgecron.client import local
from edgecron.model.choices import Overlap, Status
from edgecron.model.run import EndedRun
from edgecron.views.statistics import Spread, spread, tally
from tests.support.cli import Edgecron
from tests.support.specs import make_spec
from tests.support.story import Story

FIELDS = [
    *("schedule", "since_at", "counted_from_at", "runs", "success", "failed", "cancelled"),
    *("interrupted", "retries", "success_rate", "skipped", "skipped_by_reason"),
    *("duration_median_ms", "duration_p95_ms", "duration_max_ms"),
    *("late_median_ms", "late_p95_ms", "late_max_ms"),
    *("output_median_bytes", "output_max_bytes", "ever", "trend"),
]
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings are one line, whatever terminal the tests run on."""
    monkeypatch.setenv("COLUMNS", "300")


def ended(status: str, **more: object) -> EndedRun:
    values = {
        "schedule_id": 1, "status": status, "reason": None, "cause": "schedule", "attempt": 1,
        "missed_count": None, "duration_ms": None, "late_ms": None,
    }  # fmt: skip
    return EndedRun(**(values | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7], (1, 7, 7, 7)),
        ([3, 1], (2, 1, 3, 3)),
        (list(range(1, 101)), (100, 50, 95, 100)),
        (list(range(1, 21)), (20, 10, 19, 20)),
    ],
)
def test_a_spread_is_of_values_that_were_there(
    values: list[int], expected: tuple[int, int, int, int]
) -> None:
    count, median, p95, most = expected

    assert spread(values) == Spread(count=count, median=median, p95=p95, most=most)
    assert spread([]) is None


def test_what_was_left_out_or_late_on_purpose_is_counted_apart() -> None:
    found = tally(
        [
            ended("success", duration_ms=10, late_ms=-1),
            ended("success", duration_ms=30, late_ms=3_600_000, cause="catch_up"),
            ended("failed", reason="exit", duration_ms=20, late_ms=5, attempt=2),
            ended("cancelled", reason="request"),
            ended("skipped", reason="misfire", missed_count=40),
            ended("skipped", reason="overlap", missed_count=1),
        ]
    )

    assert found.runs == 4
    assert found.counts == {Status.SUCCESS: 2, Status.FAILED: 1, Status.CANCELLED: 1}
    assert found.skipped == {"misfire": 40, "overlap": 1}
    assert (found.retries, found.success_rate) == (1, 2 / 3)
    assert found.duration_ms == Spread(count=3, median=20, p95=30, most=30)
    assert found.late_ms == Spread(count=2, median=0, p95=5, most=5)


def test_only_what_was_decided_since_then_is_counted(story: Story) -> None:
    story.add("often", "* * * * *", lasts_s=30)
    story.add("fails", "* * * * *", code=1)
    for _ in range(5):
        story.after_s(60)
    story.client.pause("fails")
    middle = story.client.now()
    for _ in range(3):
        story.after_s(60)

    everything = story.client.tallies(since=middle - DAY)
    latest = story.client.tallies(since=middle)
    one = story.client.tallies("fails", since=middle - DAY)

    assert sorted(everything.by_name) == ["fails", "often"]
    assert everything.by_name["fails"].success_rate == 0
    assert everything.total.runs == sum(each.runs for each in everything.by_name.values())
    assert latest.by_name["often"].runs <= 3 < everything.by_name["often"].runs
    assert one.by_name["fails"] == one.total == everything.by_name["fails"]
    assert story.client.tallies(since=story.client.now() + DAY).by_name == {}


def test_more_than_can_be_counted_is_cut_and_said(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MOST_COUNTED", 3)
    story.add("often", "* * * * *")
    for _ in range(6):
        story.after_s(60)

    found = story.client.tallies(since=story.client.now() - DAY)

    assert found.total.runs == 3
    assert found.cut_at == story.runs("often")[-3].claimed_at


def test_times_of_a_range_count_each(story: Story) -> None:
    story.add("hourly", "0 * * * *", policies=make_spec(overlap=Overlap.SKIP).policies)
    story.after_s(3600)
    story.after_s(5 * 3600)

    found = story.client.tallies("hourly", since=story.client.now() - DAY)

    assert found.total.skipped == {"misfire": 4}


def test_what_a_run_that_is_stuck_keeps_out_counts_as_long_as_that_goes_on(story: Story) -> None:
    story.add("stuck", "* * * * *", lasts_s=1_000_000)
    for _ in range(5):
        story.after_s(60)
    before = story.client.now()
    for _ in range(5):
        story.after_s(60)

    found = story.client.tallies("stuck", since=before)
    after = story.client.tallies("stuck", since=story.client.now() + DAY)

    # One row, which has grown since: it counts whole.
    assert found.total.skipped == {"overlap": 9}
    assert after.total.skipped == {}


def test_a_table_for_all_and_lines_for_one(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "fails", "--every", "1h", "--", "false")
    for name in (backup, "fails"):
        edgecron("run", name, "--wait")

    every, one = edgecron("stats"), edgecron("stats", backup)

    assert (every.code, one.code) == (0, 0)
    heading, *rows = every.out.splitlines()
    assert heading.split()[:5] == ["SCHEDULE", "RUNS", "SUCCESS", "RATE", "FAILED"]
    assert [row.split()[0] for row in rows] == [backup, "fails", "(all)"]
    assert [[word for word in row.split() if "%" in word] for row in rows] == [
        ["100%"], ["0%"], ["50%"],
    ]  # fmt: skip
    assert "1, 1 success" in one.out
    assert "median 9 bytes, at most 9 bytes, of the newest run that printed" in one.out
    assert "1 run, 1 success" in one.out


def test_the_fields_are_a_contract(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup, "--wait")

    every = edgecron("stats", "--json").json
    [one] = edgecron("stats", backup, "--json").json

    assert [each["schedule"] for each in every] == [backup, None]
    assert [list(each) for each in (*every, one)] == [FIELDS] * 3
    assert (one["runs"], one["success_rate"], one["ever"]["runs"]) == (1, 1.0, 1)
    assert (one["output_median_bytes"], every[0]["output_median_bytes"]) == (9, None)


def test_where_there_is_nothing_that_is_said(edgecron: Edgecron, database: object) -> None:
    edgecron("add", "new", "--every", "1h", "--", "true")

    every, one = edgecron("stats"), edgecron("stats", "new")

    assert (every.code, every.out) == (0, "")
    assert "no run has ended since" in every.err
    assert "none of its runs has ended" in one.err
    assert edgecron("stats", "nobody").code == 3
    assert edgecron("stats", "--since", "tomorrow 09:00").code == 2
    assert edgecron("stats", "--since", "7 parsecs").code == 2
    assert edgecron("stats", "--since", "2021-03-28").code == 0


@pytest.mark.parametrize("since", ["yesterday", "at yesterday 09:00", "2h ago", "1mo", "monday"])
def test_since_is_any_time_of_the_past(edgecron: Edgecron, backup: str, since: str) -> None:
    assert edgecron("stats", "--since", since).code == 0
    assert edgecron("why", backup, "yesterday").code == 0
    assert edgecron("backfill", backup, "2d ago", "yesterday 09:00", "--dry-run").code == 0


def test_a_page_of_stats_is_followed_by_the_rest(story: Story, edgecron: Edgecron) -> None:
    for name in ("a", "b", "c", "idle"):
        story.add(name, "* * * * *" if name != "idle" else "0 0 1 1 *")
    story.after_s(60)
    story.client.remove("b")
    story.after_s(60)
    since = story.client.now() - DAY

    every = story.client.tallies(since=since)
    first = story.client.tallies(since=since, limit=2)
    rest = story.client.tallies(since=since, after="b", limit=2)

    assert list(first.by_name) == ["a", "b"]
    assert list(rest.by_name) == ["c"]
    assert first.by_name | rest.by_name == every.by_name


def test_a_page_of_stats_counts_skipped_times_that_still_grow(story: Story) -> None:
    story.add("stuck", "* * * * *", lasts_s=1_000_000)
    for _ in range(5):
        story.after_s(60)
    before = story.client.now()
    for _ in range(5):
        story.after_s(60)

    page = story.client.tallies(since=before, limit=50)

    assert page.by_name == story.client.tallies(since=before).by_name
    assert page.by_name["stuck"].skipped == {"overlap": 9}


def test_a_page_of_stats_reads_a_bounded_number_of_runs(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MOST_COUNTED", 6)
    for name in ("a", "b"):
        story.add(name, "* * * * *")
    for _ in range(6):
        story.after_s(60)

    found = story.client.tallies(since=story.client.now() - DAY, limit=2)

    assert {name: each.runs for name, each in found.by_name.items()} == {"a": 3, "b": 3}
    assert found.cut_at == story.runs("b")[-3].claimed_at


def test_stats_pages_on_request_and_counts_all_together_only_of_all(edgecron: Edgecron) -> None:
    for name in ("a", "b"):
        edgecron("add", name, "--every", "1h", "--", "true")
        edgecron("run", name, "--wait")

    page, every = edgecron("stats", "-n", "1"), edgecron("stats", "-n", "all")

    assert [line.split()[0] for line in page.out.splitlines()] == ["SCHEDULE", "a"]
    assert "stats --after a" in page.err
    assert "(all)" in every.out
    assert [one["schedule"] for one in edgecron("stats", "-n", "1", "--json").json] == ["a"]


def test_the_command_that_continues_stats_asks_for_the_same(edgecron: Edgecron) -> None:
    for name in ("a", "b"):
        edgecron("add", name, "--every", "1h", "--", "true")
        edgecron("run", name, "--wait")

    page = edgecron("stats", "--since", "2026-01-01 09:00", "-n", "1")
    command = page.err.split("there are more: edgecron ")[1].split(";")[0]
    rest = edgecron(*shlex.split(command))

    assert command == "stats --since '2026-01-01 09:00' --after a -n 1"
    assert [line.split()[0] for line in rest.out.splitlines()] == ["SCHEDULE", "b"]


def test_a_page_of_stats_behind_the_last_schedule_is_empty(edgecron: Edgecron) -> None:
    edgecron("add", "a", "--every", "1h", "--", "true")
    edgecron("run", "a", "--wait")

    assert edgecron("stats", "--after", "z", "--json").json == []


def test_an_earlier_schedule_of_a_name_counts_only_in_the_total(story: Story) -> None:
    since = story.client.now() - DAY
    for lasts in (3, 2, 1):  # runs of the first, the second and the last schedule of this name
        story.add("poll", "@yearly")
        for _ in range(lasts):
            story.client.run_now("poll")
            story.after_s(1)
        if lasts > 1:
            story.client.remove("poll")
            story.after_s(1)
    story.add("gone", "@yearly")
    story.client.run_now("gone")
    story.after_s(1)
    story.client.remove("gone")

    found = story.client.tallies(since=since)
    page = story.client.tallies(since=since, limit=50)

    assert {name: each.runs for name, each in found.by_name.items()} == {"gone": 1, "poll": 1}
    assert page.by_name == found.by_name
    assert story.client.tallies("poll", since=since).total.runs == 1
    assert found.total.runs == 7
    story.client.remove("poll")
    for limit in (None, 50):
        found = story.client.tallies(since=since, limit=limit)
        assert {name: each.runs for name, each in found.by_name.items()} == {"gone": 1, "poll": 1}
    assert list(story.client.tallies(since=since, after="gone", limit=50).by_name) == ["poll"]
    assert list(story.client.tallies(since=since, after="gone").by_name) == ["poll"]


def test_a_trend_compares_with_the_month_before_in_words_plots_and_json(
    edgecron: Edgecron, database: Path
) -> None:
    for name in ("fetch", "store"):
        edgecron("add", name, "--every", "1h", "--", "true")
        for _ in range(4):
            edgecron("run", name, "--wait")
    connection = apsw.Connection(str(database))
    connection.execute("DROP TRIGGER executions_final")  # Move runs into the past.
    connection.execute(
        """UPDATE executions SET queued_at = queued_at - 864000000, duration_ms = 2000,
               status = iif(id = 1, 'failed', status), reason = iif(id = 1, 'exit', NULL)
           WHERE id IN (1, 2)"""
    )
    connection.execute(
        "UPDATE schedules SET pruned_until = (unixepoch() - 777600) * 1000 WHERE name = 'store'"
    )
    connection.close()

    table = edgecron("stats", "--trend")
    fetch, store = edgecron("stats", "--trend", "--json", "-n", "2").json[:2]
    one = edgecron("stats", "fetch", "--trend")

    assert fetch["success_rate"] == 1.0
    assert fetch["trend"]["success_rate_before"] == 0.5
    assert fetch["trend"]["duration_before_ms"] == 2000
    assert [one for one in fetch["trend"]["success_rates"] if one is not None] == [0.5, 1.0]
    assert store["trend"]["success_rate_before"] is None
    assert table.out.splitlines()[0].split()[:3] == ["SCHEDULE", "SUCCESS", "RATE"]
    assert "50%" in table.out
    assert "█" in table.out
    assert "in the month before 50%" in one.out
    assert edgecron("stats", "--json").json[0]["trend"] is None
