"""The embedding face: schedules are made, changed, paused, run and removed by a person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from edgecron.base.errors import (
    AlreadyExists,
    Conflict,
    InvalidInput,
    InvalidTrigger,
    NotFound,
    UnknownTimezone,
)
from edgecron.base.units import to_ms
from edgecron.client import Client
from edgecron.model.choices import Overlap, Reason, Status
from edgecron.model.filters import parse_filter
from edgecron.model.listing import standing_of
from edgecron.model.options import Policies
from edgecron.model.run import RunOptions
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.forecast import UpcomingFire, in_order
from edgecron.planning.next_fire import Due
from edgecron.store.contract import Claimant, Decision
from edgecron.store.sqlite.connection import Database
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.scene import local_zone
from tests.support.specs import make_spec


def at(hour: int, minute: int = 0, *, day: int = 20) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at(8))


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms()), clock=clock) as made:
        yield made


def fire(client: Client) -> None:
    """Decide what is due, as an engine would."""
    now_ms = to_ms(client.now())
    due: list[Due] = client.store.find_due(("command",), now_ms=now_ms, limit=100)
    decisions = []
    for one in due:
        [schedule] = [found for found in client.schedules() if found.id == one.schedule_id]
        plan = plan_fire(client.timing(schedule), one, now_ms=now_ms)
        decisions.append(Decision(plan=plan, spec=schedule.spec))
    claimant = Claimant(engine_id=1, supervisor_id="s", queues=("command",), max_running=100)
    client.store.claim_due(decisions, claimant=claimant, now_ms=now_ms)


def hourly(**policies: Any) -> ScheduleSpec:
    return make_spec("backup", "0 * * * *", overlap=Overlap.ALLOW, **policies)


@pytest.mark.failure(13)
def test_a_new_schedule_computes_from_now_and_not_for_the_past(client: Client) -> None:
    schedule = client.add(hourly())

    assert schedule.next_plan_at == at(9)
    assert schedule.decided_until == at(8)
    assert client.history() == []


def test_triggers_are_kept_in_their_canonical_words(client: Client) -> None:
    schedule = client.add(make_spec("backup", "@daily"))

    assert [trigger.next_after(at(8)) for trigger in client.triggers(schedule)] == [at(0, day=21)]
    assert client.schedule("backup").spec.triggers == schedule.spec.triggers


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (make_spec("backup", "60 * * * *"), InvalidTrigger),
        (make_spec("backup", "0 8 * * *", timezone="Mars/Olympus"), UnknownTimezone),
        (make_spec("backup", "0 8 * * *", "0 8 * * *"), InvalidTrigger),
        (make_spec("backup", "at 2026-11-20T07:59:59Z"), InvalidInput),
        (replace(make_spec(), triggers=()), InvalidTrigger),
        (make_spec("backup", "after other"), InvalidTrigger),
        (make_spec("backup", "after backup:any"), InvalidTrigger),
    ],
)
def test_what_can_not_fire_is_refused_when_written(
    client: Client, spec: ScheduleSpec, error: type[Exception]
) -> None:
    with pytest.raises(error):
        client.add(spec)

    assert client.schedules() == []


@pytest.mark.failure(58)
def test_a_name_that_is_taken_is_an_error_of_its_own(client: Client) -> None:
    client.add(hourly())

    with pytest.raises(AlreadyExists) as caught:
        client.add(hourly())

    assert caught.value.exit_code == 4


@pytest.mark.failure(59)
def test_of_several_of_which_one_is_refused_none_is_made(client: Client) -> None:
    with pytest.raises(AlreadyExists):
        client.add_all([make_spec("one"), make_spec("two"), make_spec("one")])

    assert client.schedules() == []


@pytest.mark.failure(13)
def test_new_triggers_record_what_was_missed_and_compute_from_now(
    client: Client, clock: FakeClock
) -> None:
    client.add(hourly())
    clock.advance_to(at(11, 30))

    edited = client.edit("backup", lambda spec: replace(spec, triggers=("15 * * * *",)))

    assert edited.next_plan_at == at(12, 15)
    [row] = client.history()
    assert (row.status, row.reason, row.missed_count) == (Status.SKIPPED, Reason.EDITED, 3)
    assert (row.missed_from_at, row.missed_to_at) == (at(9), at(11))


@pytest.mark.parametrize("change", ["edit", "remove"])
def test_a_time_that_is_decided_while_a_change_is_made_is_not_missed(
    client: Client, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    schedule_id = client.add(hourly()).id
    clock.advance_to(at(9))
    find = client.store.get_schedule
    fires = [lambda: fire(client)]

    def find_and_be_late(name: str) -> Schedule:
        found = find(name)
        while fires:
            fires.pop()()
        return found

    monkeypatch.setattr(client.store, "get_schedule", find_and_be_late)

    if change == "edit":
        client.edit("backup", lambda spec: replace(spec, triggers=("*/5 * * * *",)))
    else:
        client.remove("backup")

    [run] = client.store.find_executions(schedule_id=schedule_id).runs
    assert (run.plan_at, run.status) == (at(9), Status.RUNNING)


def test_any_other_edit_keeps_the_next_time_and_the_grid(client: Client, clock: FakeClock) -> None:
    client.add(make_spec("backup", "every 7m"))
    clock.advance_to(at(8, 3))
    before = [fire.plan_at for fire in islice(client.next_fires("backup"), 5)]

    client.edit("backup", lambda spec: replace(spec, description="other"))
    described = [fire.plan_at for fire in islice(client.next_fires("backup"), 5)]
    client.edit("backup", lambda spec: replace(spec, policies=replace(spec.policies, jitter_s=5)))
    jittered = [fire.plan_at for fire in islice(client.next_fires("backup"), 5)]

    assert before[0] == at(8, 7)
    assert described == before
    assert jittered == before


@pytest.mark.failure(4)
def test_an_edit_after_the_clock_went_back_does_not_fire_what_is_decided(
    client: Client, clock: FakeClock
) -> None:
    client.add(hourly())
    clock.advance_to(at(11))
    fire(client)
    clock.step_ms(-2 * 3600_000)

    edited = client.edit("backup", lambda spec: replace(spec, triggers=("*/30 * * * *",)))

    assert edited.next_plan_at == at(11, 30)


def test_a_schedule_that_others_name_keeps_its_name(client: Client) -> None:
    client.add(hourly())
    client.add(replace(hourly(), name="follows", triggers=("after backup",)))
    needs = Policies(needs=("success:backup:1h",))
    client.add(replace(hourly(), name="needs", policies=needs))

    with pytest.raises(Conflict, match=r"follow or need '[^']+': follows, needs"):
        client.edit("backup", lambda spec: replace(spec, name="copy"))
    client.remove("follows")
    client.edit("needs", lambda spec: replace(spec, policies=Policies()))
    renamed = client.edit("backup", lambda spec: replace(spec, name="copy"))

    assert renamed.name == "copy"
    assert [one.name for one in client.schedules()] == ["copy", "needs"]


def test_max_runs_is_not_counted_anew_by_an_edit_a_pause_or_a_resume(
    client: Client, clock: FakeClock
) -> None:
    client.add(replace(hourly(), max_runs=2))
    shown = list(client.next_fires("backup"))
    for hour in (9, 10):
        clock.advance_to(at(hour))
        fire(client)
    done = client.schedule("backup")
    clock.advance_to(at(15))

    edited = client.edit("backup", lambda spec: replace(spec, triggers=("5 * * * *",)))
    client.pause("backup")
    resumed = client.resume("backup")
    longer = client.edit("backup", lambda spec: replace(spec, max_runs=3))

    assert [fire.plan_at for fire in shown] == [at(9), at(10)]
    assert done.next_plan_at is edited.next_plan_at is resumed.next_plan_at is None
    assert [row.status for row in client.history()] == [Status.RUNNING] * 2
    assert longer.next_plan_at == at(15, 5)


def test_a_resume_records_one_range_and_does_not_catch_up(client: Client, clock: FakeClock) -> None:
    client.add(hourly())
    paused = client.pause("backup")
    clock.advance_to(at(12, 30))

    resumed = client.resume("backup")

    assert (paused.enabled, paused.next_plan_at) == (False, None)
    assert (resumed.enabled, resumed.next_plan_at) == (True, at(13))
    [row] = client.history()
    assert (row.reason, row.missed_count) == (Reason.PAUSED, 4)


def test_a_pause_with_an_end_is_over_by_itself(client: Client, clock: FakeClock) -> None:
    client.add(hourly())

    paused = client.pause("backup", until=at(11, 30))
    clock.advance_to(at(12))
    fire(client)

    assert (paused.enabled, paused.paused_until, paused.next_plan_at) == (True, at(11, 30), at(12))
    run, held = client.history()
    assert (held.reason, held.missed_count) == (Reason.PAUSED, 3)
    assert (run.status, run.plan_at) == (Status.RUNNING, at(12))


def test_a_resume_after_the_end_of_a_pause_leaves_the_rest_to_the_engine(
    client: Client, clock: FakeClock
) -> None:
    client.add(hourly())
    client.pause("backup", until=at(9, 30))
    clock.advance_to(at(12, 30))

    client.resume("backup")
    fire(client)

    newest, misfired, held = client.history()
    assert (held.reason, held.missed_count) == (Reason.PAUSED, 1)
    assert (misfired.reason, misfired.missed_count) == (Reason.MISFIRE, 2)
    assert newest.plan_at == at(12)


def test_an_edit_within_a_pause_does_not_end_it(client: Client, clock: FakeClock) -> None:
    client.add(hourly())
    client.pause("backup", until=at(11))
    clock.advance_to(at(9, 30))

    edited = client.edit("backup", lambda spec: replace(spec, triggers=("20 * * * *",)))

    assert edited.next_plan_at == at(11, 20)
    assert edited.paused_until == at(11)


def test_a_pause_can_not_end_in_the_past(client: Client) -> None:
    client.add(hourly())

    with pytest.raises(InvalidInput, match="in the past"):
        client.pause("backup", until=at(8))


def test_a_run_by_hand_keeps_the_next_time(client: Client) -> None:
    client.add(hourly())

    [row] = client.run_now("backup")

    assert (row.status, row.plan_at) == (Status.QUEUED, at(8))
    assert row.fire_key.startswith("manual:")
    assert client.schedule("backup").next_plan_at == at(9)
    assert client.active_counts() == {Status.QUEUED: 1}


@pytest.mark.failure(27)
def test_runs_by_hand_in_one_instant_are_distinct(client: Client) -> None:
    client.add(hourly())

    rows = client.run_now("backup") + client.run_now("backup")

    assert len({row.id for row in rows}) == len({row.fire_key for row in rows}) == 2


def test_a_run_by_hand_tells_of_itself_and_not_of_what_it_replaces(client: Client) -> None:
    client.add(make_spec("feed", "@hourly", overlap=Overlap.REPLACE))
    [replaced] = client.run_now("feed")

    rows = client.run_now("feed")

    assert [row.status for row in rows] == [Status.QUEUED]
    assert client.execution(replaced.id).reason is Reason.REPLACED


def test_a_removal_records_what_was_due_and_cancels_what_waits(
    client: Client, clock: FakeClock
) -> None:
    client.add(hourly())
    client.run_now("backup")
    clock.advance_to(at(9, 30))

    client.remove("backup")

    with pytest.raises(NotFound):
        client.schedule("backup")
    with pytest.raises(NotFound):
        client.run_now("backup")
    missed, queued = client.history()
    assert (queued.status, queued.reason) == (Status.CANCELLED, Reason.REMOVED)
    assert (missed.status, missed.missed_count) == (Status.SKIPPED, 1)


@pytest.mark.failure(9)
def test_a_schedule_whose_zone_is_gone_can_be_removed_or_mended_and_hides_no_other(
    client: Client, tmp_path: Path, clock: FakeClock
) -> None:
    for name in ("broken", "mended", "sound"):
        client.add(make_spec(name, "0 * * * *", timezone="Europe/Berlin"))
    database = Database(tmp_path / "edgecron.db")
    with database.transaction():
        database.change(
            """UPDATE schedules SET timezone = 'Europe/Nowhere',
                   compiled = replace(compiled, 'Europe/Berlin', 'Europe/Nowhere')
               WHERE name != 'sound'"""
        )
    database.close()
    clock.advance_to(at(10, 30))

    shown = {fire.schedule for fire in islice(client.next_fires(), 20)}
    mended = client.edit("mended", lambda spec: replace(spec, timezone="Europe/Berlin"))
    client.remove("broken")

    assert "sound" in shown
    assert mended.next_plan_at == at(11)
    assert [schedule.name for schedule in client.schedules()] == ["mended", "sound"]


def test_a_pause_whose_end_is_known_mends_a_schedule_that_can_be_read_again(
    client: Client,
) -> None:
    schedule = client.add(hourly())
    assert client.store.mark_broken(
        schedule.id, revision=schedule.revision, error="zone is gone", now_ms=to_ms(at(8))
    )

    paused = client.pause("backup", until=at(12))

    assert (paused.next_plan_at, paused.trigger_error) == (at(12), None)


def test_what_was_missed_while_a_trigger_could_not_be_read_is_recorded_once_it_can(
    client: Client, clock: FakeClock
) -> None:
    schedule = client.add(hourly())
    assert client.store.mark_broken(
        schedule.id, revision=schedule.revision, error="zone is gone", now_ms=to_ms(at(8))
    )
    clock.advance_to(at(11, 30))

    client.edit("backup", lambda spec: replace(spec, triggers=("30 * * * *",)))

    [missed] = client.history("backup")
    assert (missed.missed_from_at, missed.missed_to_at) == (at(9), at(11))
    assert missed.missed_count == 3


def test_a_change_that_others_keep_making_first_is_a_conflict(
    client: Client, tmp_path: Path, clock: FakeClock
) -> None:
    client.add(hourly())
    counts = count(1)
    with Client(tmp_path / "edgecron.db", clock=clock) as other:

        def change(spec: ScheduleSpec) -> ScheduleSpec:
            words = f"theirs {next(counts)}"
            other.edit("backup", lambda spec: replace(spec, description=words))
            return replace(spec, description="mine")

        with pytest.raises(Conflict):
            client.edit("backup", change)

    assert (client.schedule("backup").spec.description or "").startswith("theirs")


def test_an_edit_that_changes_nothing_writes_no_revision(client: Client) -> None:
    before = client.add(hourly())

    same = client.edit("backup", lambda spec: replace(spec, name="backup"))

    assert same == before


def test_a_frequent_schedule_hides_no_other_among_few_fires_of_each(client: Client) -> None:
    client.add(make_spec("often", "every 10s"))
    client.add(make_spec("yearly", "0 0 1 1 *"))

    fires = [fire.schedule for fire in client.next_fires(most_each=2)]

    assert fires == ["often", "often", "yearly", "yearly"]


def test_fires_to_come_of_all_schedules_are_in_order(client: Client) -> None:
    client.add(make_spec("b", "30 * * * *"))
    client.add(make_spec("a", "0 * * * *"))
    client.add(make_spec("once", "at 2026-11-20T09:10:00Z"))
    client.add(make_spec("boot", "on boot"))

    fires = list(islice(client.next_fires(), 5))

    assert [(fire.schedule, fire.plan_at - at(8)) for fire in fires] == [
        ("b", timedelta(minutes=30)),
        ("a", timedelta(hours=1)),
        ("once", timedelta(minutes=70)),
        ("b", timedelta(minutes=90)),
        ("a", timedelta(hours=2)),
    ]


def test_what_is_not_there_is_not_found(client: Client) -> None:
    client.add(hourly())

    with pytest.raises(NotFound, match="no run 7"):
        client.execution(7)
    with pytest.raises(NotFound, match="has not run yet"):
        client.last_run("backup")
    with pytest.raises(NotFound, match="no schedule 'other'"):
        client.edit("other", lambda spec: spec)
    assert client.output(7) is None


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    client = Client(tmp_path / "sub" / "edgecron.db", must_exist=True)

    with pytest.raises(NotFound):
        client.schedules()

    client.close()
    assert not (tmp_path / "sub").exists()


def test_without_an_engine_none_is_alive(client: Client) -> None:
    client.add(hourly())

    assert client.engines() == []
    assert not client.has_engine("command")


def test_resume_mends_a_schedule_whose_trigger_can_be_read_again(
    client: Client, clock: FakeClock
) -> None:
    schedule = client.add(make_spec("mended", "0 * * * *"))
    client.store.mark_broken(
        schedule.id, revision=1, error="its zone was gone", now_ms=clock.now_ms()
    )
    clock.advance_ms(2 * 3_600_000)

    resumed = client.resume("mended")

    assert resumed.trigger_error is None
    assert resumed.next_plan_at is not None
    [missed] = client.history("mended")
    assert (missed.reason, missed.missed_count) == (Reason.MISFIRE, 2)


def test_many_schedules_fires_are_those_of_each_one_merged(client: Client) -> None:
    for number in range(130):
        spec = make_spec(f"s{number:03d}", f"every {number % 40 + 1}m", jitter_s=number % 3 * 20)
        client.add(replace(spec, queue="command" if number % 5 else "py:app"))
    client.pause("s001", until=at(9))
    client.reschedule("s002", at(8, 25))
    each = [list(islice(client.next_fires(one.name), 100)) for one in client.schedules()]

    shown = list(islice(client.next_fires(), 300))

    merged = sorted((fire for fires in each for fire in fires), key=lambda fire: fire.due_at)
    last_at = shown[-1].due_at
    assert [fire.due_at for fire in shown] == [fire.due_at for fire in merged[:300]]
    before_last = {fire for fire in merged if fire.due_at < last_at}
    assert {fire for fire in shown if fire.due_at < last_at} == before_last


def test_the_fires_of_schedules_whose_names_match_are_those_of_each_one_merged(
    client: Client,
) -> None:
    for number in range(130):
        client.add(make_spec(f"s{number:03d}", f"every {number % 40 + 1}m"))
    names = [name for number in range(130) if "0" in (name := f"s{number:03d}")]
    each = [list(islice(client.next_fires(name), 100)) for name in names]

    shown = list(islice(client.next_fires(matches=parse_filter("0")), 100))

    merged = sorted((fire for fires in each for fire in fires), key=lambda fire: fire.due_at)
    assert [fire.due_at for fire in shown] == [fire.due_at for fire in merged[:100]]
    assert {fire.schedule for fire in shown} <= set(names)


def test_fires_come_in_order_where_jitter_is_longer_than_the_interval(client: Client) -> None:
    client.add(make_spec("probe", "every 1m", jitter_s=1800))

    alone = [fire.due_at for fire in islice(client.next_fires("probe"), 50)]
    among_all = [fire.due_at for fire in islice(client.next_fires(), 50)]

    assert alone == sorted(alone)
    assert among_all == alone


def test_as_many_as_are_due_at_once_are_not_all_read_for_the_first(client: Client) -> None:
    client.add_all([make_spec(f"s{number}", "0 * * * *") for number in range(100)])
    seen: list[str] = []

    def fires(schedule: Schedule) -> Iterator[UpcomingFire]:
        seen.append(schedule.name)
        return client.next_fires(schedule.name)

    first = list(islice(in_order(client.store.coming_schedules(), fires), 3))

    assert [fire.schedule for fire in first] == ["s0", "s1", "s2"]
    assert len(seen) <= 4


def test_what_comes_next_is_found_without_looking_at_what_comes_later(
    client: Client,
) -> None:
    client.add_all([make_spec(f"s{number}", f"every {number + 1}m") for number in range(200)])
    seen: list[str] = []

    def fires(schedule: Schedule) -> Iterator[UpcomingFire]:
        seen.append(schedule.name)
        return client.next_fires(schedule.name)

    first = next(in_order(client.store.coming_schedules(), fires))

    assert (first.schedule, seen) == ("s0", ["s0"])


def test_definitions_are_those_of_the_schedules(client: Client) -> None:
    client.add(make_spec("b", "30 * * * *", group="disk", scopes=(("host", "x"), ("host", "y"))))
    client.add(replace(make_spec("a", "on boot"), until_at=at(12)))
    client.add(make_spec("gone", "@daily"))
    client.store.set_group_limit("disk", 2)
    client.pause("b")
    client.remove("gone")

    listed = client.definitions()

    assert listed == [schedule.definition for schedule in client.schedules()]
    assert [(one.spec.name, one.enabled) for one in listed] == [("a", True), ("b", False)]
    assert [one.group_max_running for one in listed] == [None, 2]
    assert listed[1].spec.scopes == (("host", "x"), ("host", "y"))


def test_how_a_schedule_stands_in_a_list_is_how_it_stands_by_itself(client: Client) -> None:
    client.add(make_spec("b", "30 * * * *", "every 2h", max_runs=3))
    client.add(replace(make_spec("a", "on boot"), until_at=at(12)))
    client.pause("b", until=at(9))

    listed = client.standings()

    assert listed == [standing_of(schedule) for schedule in client.schedules()]
    assert [standing.name for standing in listed] == ["a", "b"]


@pytest.mark.parametrize(("month", "day"), [(3, 26), (10, 29)])
def test_a_filter_by_hours_finds_what_runs_around_a_clock_change(
    client: Client, clock: FakeClock, month: int, day: int
) -> None:
    clock.advance_ms(to_ms(datetime(2027, month, day, tzinfo=UTC)) - clock.now_ms())
    until = clock.now() + timedelta(days=7)
    berlin = ZoneInfo("Europe/Berlin")
    for name, cron, zone in (
        ("skipped", "30 2 * * *", "Europe/Berlin"),
        ("after", "15 3 * * 6,0", "Europe/Berlin"),
        ("far", "0 21 * * *", "America/New_York"),
        ("half", "45 8 * * *", "Asia/Kolkata"),
        ("often", "*/40 1-3 * * *", None),
    ):
        client.add(make_spec(name, cron, timezone=zone))

    with local_zone("Europe/Berlin"):
        every = [*takewhile(lambda one: one.due_at < until, client.next_fires())]
        found = {
            hour: [*client.next_fires(matches=parse_filter(f"due:{hour:02}"))] for hour in range(24)
        }

    assert len(every) > 40
    for hour, fires in found.items():
        assert fires == [one for one in every if one.due_at.astimezone(berlin).hour == hour]


def test_a_filter_by_hours_finds_what_runs_then(client: Client, clock: FakeClock) -> None:
    client.add(make_spec("nightly", "0 3 * * *"))
    client.add(make_spec("hourly", "30 * * * *"))
    client.add(make_spec("sunday", "15 3 * * 0"))
    client.add(make_spec("noon", "0 12 * * *"))
    client.add(make_spec("monthly", "0 3 1 * *"))
    client.add(make_spec("twice", "45 * * * *", max_runs=2))
    client.add(make_spec("spread", "50 2 * * *", jitter_s=1200))
    client.add(make_spec("paused", "0 3 * * *"))
    client.pause("paused")
    client.run_now("noon", options=RunOptions(at=at(8) + timedelta(hours=19, minutes=59)))

    with local_zone("UTC"):
        wanted = parse_filter("due:03")
        fires = list(client.next_fires(matches=wanted))
        ids = client.schedule_order(matches=wanted)
        found = [line.standing.name for line in client.schedule_lines(ids)]
        none = client.schedule_order(matches=parse_filter("due:03 twice"))

    every = [
        fire
        for fire in takewhile(
            lambda fire: fire.due_at < clock.now() + timedelta(days=7), client.next_fires()
        )
        if fire.due_at.hour == 3
    ]
    assert fires[: len(every)] == every
    assert {fire.schedule for fire in fires} == {*found, "noon"}
    # Whether "spread" has a run in this hour depends on its jitter.
    assert found == sorted({"monthly", *(fire.schedule for fire in every)} - {"noon"})
    assert {"hourly", "nightly", "sunday"} <= {*found}
    assert list(none) == []
