"""why: one plain answer for what ran, what did not, and what will."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.model.choices import Overlap, Status
from edgecron.views.outlook import Explanation, Verdict
from tests.support.cli import Edgecron
from tests.support.clock import FakeClock
from tests.support.specs import make_spec
from tests.support.story import Story

MORNING = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
FIELDS = [
    *("schedule", "at", "verdict", "answer", "runs", "plan_at", "due_at", "source"),
    *("previous_at", "next_at", "revision"),
]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(MORNING)


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Client:
    return Client(tmp_path / "why.db", clock=clock)


def verdict(client: Client, name: str, at: datetime) -> Verdict:
    return client.explain(name, at).verdict


def test_a_time_to_come_is_told_with_its_trigger_and_those_around_it(
    client: Client,
) -> None:
    client.add(make_spec("hourly", "30 * * * *"))

    coming = client.explain("hourly", MORNING + timedelta(minutes=30))
    none = client.explain("hourly", MORNING + timedelta(minutes=31))

    assert (coming.verdict, coming.source) == (Verdict.COMING, "30 * * * *")
    assert none.verdict is Verdict.NO_TIME
    assert none.previous_at == MORNING + timedelta(minutes=30)
    assert none.next_at == MORNING + timedelta(minutes=90)


def test_a_whole_minute_means_all_of_it_and_a_second_only_itself(client: Client) -> None:
    client.add(make_spec("sixth", "17 30 9 * * *"))

    minute = client.explain("sixth", MORNING + timedelta(minutes=90))
    second = client.explain("sixth", MORNING + timedelta(minutes=90, seconds=16))

    assert minute.plan_at == MORNING + timedelta(minutes=90, seconds=17)
    assert second.verdict is Verdict.NO_TIME


def test_what_bounds_a_schedule_is_named(client: Client, clock: FakeClock) -> None:
    hour = timedelta(hours=1)
    spec = make_spec("bounded", "0 * * * *", max_runs=5)
    client.add(spec)
    client.add(make_spec("held", "0 * * * *"))
    client.pause("held", until=MORNING + 3 * hour)

    assert verdict(client, "bounded", MORNING - hour) is Verdict.NOT_MADE
    assert verdict(client, "bounded", MORNING + 5 * hour) is Verdict.COMING
    assert verdict(client, "bounded", MORNING + 6 * hour) is Verdict.USED_UP
    assert verdict(client, "held", MORNING + 2 * hour) is Verdict.HELD
    assert verdict(client, "held", MORNING + 3 * hour) is Verdict.COMING
    clock.advance_ms(3_600_000)
    assert verdict(client, "bounded", MORNING + hour) is Verdict.DUE


def test_a_time_is_judged_by_what_the_schedule_said_then(client: Client, clock: FakeClock) -> None:
    client.add(make_spec("moved", "0 9 * * *"))
    clock.advance_to(MORNING + timedelta(minutes=30))
    client.edit("moved", lambda _: make_spec("moved", "0 10 * * *"))
    clock.advance_to(MORNING + timedelta(hours=4))

    before = client.explain("moved", MORNING + timedelta(minutes=10))
    after = client.explain("moved", MORNING + timedelta(hours=1))

    assert (before.verdict, before.words.revision) == (Verdict.NO_TIME, 1)
    assert before.next_at == MORNING + timedelta(hours=1)
    assert (after.verdict, after.words.revision) == (Verdict.NO_TIME, 2)
    assert after.next_at == MORNING + timedelta(hours=2)


def told(story: Story, name: str, seconds: int) -> Explanation:
    """What is known of so long after the story's beginning."""
    start = story.runs(name)[0].plan_at
    return story.client.explain(name, start + timedelta(seconds=seconds))


def test_what_ran_and_what_was_left_out_is_told_by_its_rows(story: Story) -> None:
    policies = make_spec(overlap=Overlap.SKIP).policies
    story.add("long", "* * * * *", lasts_s=150, policies=policies)
    for _ in range(5):
        story.after_s(60)

    ran, left_out = told(story, "long", 0), told(story, "long", 60)

    assert [run.status for run in ran.runs] == [Status.SUCCESS]
    assert [(run.status, run.reason) for run in left_out.runs] == [("skipped", "overlap")]
    assert ran.verdict is left_out.verdict is Verdict.RECORDED


def test_a_time_within_a_missed_range_is_told_by_the_range_where_it_is_one_of_its(
    story: Story,
) -> None:
    story.add("hourly", "0 * * * *")
    story.after_s(3600)
    story.after_s(5 * 3600)

    within, between = told(story, "hourly", 2 * 3600), told(story, "hourly", 2 * 3600 + 1800)

    [row] = within.runs
    assert (row.status, row.reason, row.missed_count) == ("skipped", "misfire", 4)
    assert between.verdict is Verdict.NO_TIME
    assert between.runs == ()


def test_the_words_are_those_of_a_person(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "after-it", "--after", backup, "--", "true")
    nothing = edgecron("why", backup)
    edgecron("run", backup, "--wait")
    last = edgecron("why", backup)
    run = edgecron("why", backup, "1")

    assert nothing.out.startswith("It has not run yet, and no time was skipped.\nNext: ")
    assert last.out.startswith("Run 1 started at ")
    assert "because a user or a program started it; it succeeded" in last.out
    assert run.out == last.out.partition("Next: ")[0]
    assert "because run 1 ended, and the schedule follows it" in edgecron("why", "after-it").out


def test_a_failed_run_is_explained_with_the_last_line_that_it_printed(
    edgecron: Edgecron, backup: str
) -> None:
    printing = r"printf 'reading\n/mnt/usb: no \033[1msuch disk\n\n' >&2; exit 7"
    edgecron("add", "copy", "--every", "1h", "--shell", printing)
    edgecron("run", "copy", "--wait")

    said = " ".join(edgecron("why", "copy", "1").out.split())

    assert 'exit code 7. Its last line of output: "/mnt/usb: no \\x1b[1msuch disk".' in said


@pytest.mark.parametrize(
    ("printing", "quoted"),
    [
        (r"printf '10%%\r20%%\rdisk full\r\n'", 'Its last line of output: "disk full".'),
        (r"printf '\033%0300d' 0", f'Its last line of output begins: "\\x1b{"0" * 199}".'),
        (r"printf '%0199d\033[31m' 0", f'Its last line of output begins: "{"0" * 199}\\x1b".'),
    ],
)
def test_of_a_long_last_line_the_beginning_is_quoted_and_of_progress_the_last_step(
    edgecron: Edgecron, backup: str, printing: str, quoted: str
) -> None:
    edgecron("add", "copy", "--every", "1h", "--shell", f"{printing}; exit 7")
    edgecron("run", "copy", "--wait")

    [answer] = edgecron("why", "copy", "1", "--json").json

    assert answer["answer"].endswith(quoted)


def test_the_end_of_a_pause_is_told_before_what_comes_next(edgecron: Edgecron) -> None:
    edgecron("add", "noon", "--cron", "0 12 * * *", "--", "true")
    edgecron("pause", "noon", "--until", "2999-12-24 18:00")
    paused = edgecron("why", "noon").out.splitlines()
    edgecron("resume", "noon")
    resumed = edgecron("why", "noon").out

    [told] = [number for number, line in enumerate(paused) if line.startswith("Paused: until ")]
    assert paused[told].startswith("Paused: until 2999-12-24 18:00:00")
    assert "skips" in paused[told]
    assert paused[told + 1].startswith("Next: ")
    assert "Paused" not in resumed


def test_the_fields_are_a_contract(edgecron: Edgecron, backup: str) -> None:
    found = edgecron("why", backup, "2021-03-28 02:30", "--json")
    now = edgecron("why", backup, "--json")

    assert list(found.json[0]) == FIELDS
    assert found.json[0]["verdict"] == "not_made"
    assert found.json[0]["at"] == "2021-03-28T02:30:00Z"
    assert list(now.json[0]) == ["schedule", "at", "verdict", "answer", "runs", "outlook"]


def test_a_bare_time_is_today_and_yesterday_is_understood(edgecron: Edgecron, backup: str) -> None:
    today = edgecron("why", backup, "00:00", "--json").json[0]["at"]
    yesterday = edgecron("why", backup, "yesterday 00:00", "--json").json[0]["at"]

    parsed = [datetime.fromisoformat(text) for text in (yesterday, today)]
    assert parsed[1] - parsed[0] == timedelta(days=1)
    assert parsed[1] <= datetime.now(UTC)


def test_a_run_by_hand_that_is_left_out_is_not_called_a_time_of_the_schedule(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("run", backup)
    edgecron("run", backup)

    said = edgecron("why", backup, "2")

    assert said.out.startswith("The manual run of ")
    assert " was skipped (run 2): an earlier run was still" in " ".join(said.out.split())


def test_of_many_runs_of_one_time_the_last_five_are_told(edgecron: Edgecron) -> None:
    scopes = [word for number in range(7) for word in ("--scope", f"line:{number}")]
    edgecron("add", "poll", "--every", "1h", *scopes, "--", "true")
    edgecron("run", "poll")
    [*_, run] = edgecron("history", "poll", "--json").json

    said = edgecron("why", "poll", run["plan_at"])

    assert said.out.startswith("Of 7 runs these are the last; see ")
    assert said.out.count("because a user or a program started it") == 5


def test_what_is_asked_wrongly_is_told(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "gone", "--every", "1h", "--", "true")
    edgecron("rm", "gone")

    assert edgecron("why", "nobody").code == 3
    assert edgecron("why", backup, "9999").code == 3
    assert edgecron("why", backup, "at some time").code == 2
    assert "time 'yesterday noon' is not" in edgecron("why", backup, "yesterday noon").err
    assert "time '9:75' is not understood" in edgecron("why", backup, "9:75").err
    said = edgecron("why", "gone")
    assert said.code == 3
    assert "was removed" in said.err
