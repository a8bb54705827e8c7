"""A RemoteClient answers what a Client answers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

from edgecron.base.errors import AlreadyExists, Conflict, InvalidDocument, InvalidTrigger, NotFound
from edgecron.client import Client
from edgecron.client.remote import RemoteClient
from edgecron.formats.document_tables import Action, Document, Step, Wanted, compare_one
from edgecron.model.choices import Status
from edgecron.model.filters import parse_filter
from edgecron.model.listing import RunChoice, RunPage, RunSort, SortBy
from edgecron.model.run import RunOptions
from edgecron.model.schedule import ScheduleSpec
from tests.support.newdatabases import new_database
from tests.support.remote import asked_over_http, near_client
from tests.support.specs import make_spec

# What has a meaning on the machine of the database alone, or is for programs that are there.
_HERE = {
    *(
        "enqueue",
        "refuse_doubled",
        "enqueue_together",
        "behind",
        "repair_orphans",
        "finish_apply",
        "measures",
        "report_progress",
        "store",
        "retention",
        "timing",
        "compile",
        "compile_change",
        "prepare_edit",
        "ring",
        "author_of",
        "check_definition",
        "find_after_pause",
        "find_takers",
        "fires_of",
        "past_id",
        "renew_days",
        "restore_one",
    ),
    *("backup", "write_backup", "restoring", "prune", "forget", "compact", "trust_clock"),
    *("begun_runs", "output_so_far", "waiting_at_most", "drain_engine", "resume_engine"),
    "forget_machine",
    # Of the database's place on this machine.
    *("path", "state_dir", "file", "file_store", "is_there", "is_new", "known_zone"),
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(new_database(tmp_path / "edge.db")) as client:
        yield client


@pytest.fixture(params=["near", "http"])
def remote(
    client: Client, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[RemoteClient]:
    client.add(make_spec("backup", "@daily"))
    client.add(make_spec("report", "every 5m"))
    if request.param == "near":
        with near_client(client) as remote:
            yield remote
    else:
        with asked_over_http(tmp_path / "edge.db") as remote:
            yield remote


def test_the_two_have_one_face() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(Client) - public(RemoteClient) == _HERE
    assert public(RemoteClient) - public(Client) == {"request"}
    for name in sorted((public(RemoteClient) & public(Client)) - {"clock", "place"}):
        far, near = (
            [
                (each.name, each.kind, each.annotation)
                for each in inspect.signature(getattr(kind, name)).parameters.values()
            ]
            for kind in (RemoteClient, Client)
        )
        assert far == near, name


def test_a_run_has_the_same_options_there(client: Client, remote: RemoteClient) -> None:
    client.edit("backup", lambda spec: replace(spec, scopes=(("device", "a"), ("device", "b"))))
    at = client.now().replace(microsecond=0) + timedelta(days=1)
    options = RunOptions(at=at, priority=7, timeout_s=2.5, scope=("device", "b"))

    [run] = remote.run_now("backup", options=options)
    [later] = remote.run_once("report", key="k", options=RunOptions(delay_s=60))
    [again] = remote.run_once("report", key="k", options=RunOptions(delay_s=60))

    assert (run.due_at, run.priority, run.scope_id) == (at, 7, "b")
    assert client.store.find_execution(run.id) == run
    assert timedelta(seconds=50) < later.due_at - client.now() <= timedelta(seconds=60)
    assert later.id == again.id


def test_what_is_read_is_what_is_there(client: Client, remote: RemoteClient) -> None:
    client.run_now("backup")
    [run] = client.history()
    backup = client.schedule("backup")

    assert remote.schedules() == client.schedules()
    assert remote.definitions() == client.definitions()
    assert remote.standings() == client.standings()
    assert remote.schedule("backup") == backup
    assert remote.count_schedules() == (2, 0, 0)
    assert remote.history() == [run]
    assert remote.history("backup", choice=RunChoice(statuses=(Status.QUEUED,)), limit=1) == [run]
    assert remote.execution(run.id) == run
    assert remote.spec_of(run) == client.spec_of(run)
    assert remote.next_attempt(run) is None
    assert remote.active_counts() == {Status.QUEUED: 1}
    assert remote.run_bounds() == client.run_bounds()
    assert remote.run_page(limit=5) == RunPage([run], [])
    assert remote.run_page(limit=5, sort=RunSort.DURATION) == RunPage([run], [])
    assert remote.waiting_runs() == []
    assert remote.late_places() == (0, (), 0)
    assert remote.disk_problem() == client.disk_problem()
    assert remote.last_failure() is None
    assert remote.find_dependents("backup") == []
    assert remote.removed_at("backup") is None
    assert remote.engines() == []
    assert not remote.has_engine("command")
    assert not remote.is_supervised(run)
    assert remote.output(run.id) is None
    assert remote.local_zone() is None
    assert remote.other_databases() == []
    assert remote.clock_state().is_trusted == client.clock_state().is_trusted
    assert remote.database_sizes()[0] == client.database_sizes()[0]
    assert remote.schedule_names() == client.schedule_names()
    assert remote.first_schedule_lines(9) == client.first_schedule_lines(9)
    assert [one.text for one in remote.triggers(backup)] == ["@daily"]
    assert [one.text for one in remote.triggers_at("backup", datetime.now(UTC))] == ["@daily"]
    remote.take_over()


def test_filters_and_orders_travel_as_values(client: Client, remote: RemoteClient) -> None:
    wanted = parse_filter("job:back !state:paused")

    assert remote.schedule_order() == client.schedule_order()
    assert remote.schedule_order(SortBy.NEXT, is_descending=True) == client.schedule_order(
        SortBy.NEXT, is_descending=True
    )
    assert list(remote.schedule_order(matches=wanted)) == [1]
    assert list(remote.schedule_ids_named(wanted)) == [1]
    assert remote.nearest_names("rep", limit=3) == ["report"]
    assert remote.schedule_lines([2, 1]) == client.schedule_lines([2, 1])
    assert [fire.schedule for fire in islice(remote.next_fires(matches=wanted), 2)] == [
        *("backup", "backup"),
    ]


def test_fires_to_come_are_read_in_pages_as_far_as_they_are_wanted(
    client: Client, remote: RemoteClient
) -> None:
    wanted = list(islice(client.next_fires(), 700))

    assert list(islice(remote.next_fires(), 700)) == wanted
    assert list(remote.next_fires(most_each=2)) == list(client.next_fires(most_each=2))
    assert next(remote.next_fires("report")) == next(client.next_fires("report"))
    client.remove("report")
    client.reschedule("backup", client.now() + timedelta(seconds=90))
    assert next(remote.next_fires()) == next(client.next_fires())


def test_what_is_to_come_and_why_is_told(client: Client, remote: RemoteClient) -> None:
    at = client.now() - timedelta(days=1)
    spec = make_spec("fresh", "0 2 * * *")

    assert remote.outlook("backup") == client.outlook("backup")
    assert remote.foresee(spec) == client.foresee(spec)
    told, there = remote.explain("backup", at), client.explain("backup", at)
    assert replace(told, words=there.words) == there
    assert (told.words.revision, told.words.timing) == (there.words.revision, None)
    assert remote.tallies(since=at) == client.tallies(since=at)
    assert remote.plan_backfill("backup", at, at).wanted == ()
    assert list(remote.week_heat("UTC")) == [list(client.week_heat("UTC"))[-1]]
    *_, heat = client.week_heat("UTC", most_per_hour=1)
    assert list(remote.week_heat("UTC", most_per_hour=1)) == [heat]
    until = client.now() + timedelta(days=3)
    *_, simulated = client.simulate(from_at=client.now(), until_at=until)
    assert list(remote.simulate(from_at=client.now(), until_at=until)) == [simulated]


def test_schedules_are_changed_and_runs_asked_for(client: Client, remote: RemoteClient) -> None:
    def describe(spec: ScheduleSpec) -> ScheduleSpec:
        return replace(spec, description="nightly")

    until = client.now().replace(microsecond=0) + timedelta(days=2)

    assert remote.add(make_spec("fresh", "@hourly"), origin="cli") == client.schedule("fresh")
    assert [one.name for one in remote.add_all([make_spec("a"), make_spec("b")])] == ["a", "b"]
    assert remote.edit("fresh", describe).spec.description == "nightly"
    assert remote.pause("fresh", until=until).paused_until == until
    assert remote.resume("fresh").paused_until is None
    assert remote.reschedule("fresh", until).next_run_at == until
    remote.limit_group("disk", 2)
    [run] = remote.run_now("fresh", payload='{"n": 1}')
    remote.acknowledge(run.schedule_id, "0a1b", run.id)
    [seen] = remote.acknowledged([run.schedule_id])
    assert (seen.error, seen.execution_id) == ("0a1b", run.id)
    assert remote.cancel(run.id).status is Status.CANCELLED
    told: list[tuple[int, int]] = []
    since = until - timedelta(days=9)
    ids = remote.backfill(
        "fresh", since, since + timedelta(hours=5), on_progress=lambda *at: told.append(at)
    )
    assert len(ids) == told[0][0] > 3
    assert remote.remove("fresh").name == "fresh"
    assert not remote.remove_unreadable("fresh")
    assert remote.removed_at("fresh") is not None


def test_an_edit_of_what_others_have_changed_since_is_tried_again(
    client: Client, remote: RemoteClient
) -> None:
    seen: list[str | None] = []

    def describe(spec: ScheduleSpec) -> ScheduleSpec:
        seen.append(spec.description)
        if len(seen) == 1:
            client.edit("backup", lambda spec: replace(spec, description="theirs"))
        return replace(spec, description="ours")

    changed = remote.edit("backup", describe)

    assert seen == [None, "theirs"]
    assert changed.spec.description == client.schedule("backup").spec.description == "ours"


def test_a_document_is_planned_checked_and_applied(client: Client, remote: RemoteClient) -> None:
    document = Document(wanted=(Wanted(spec=make_spec("fresh")),), text="")
    step = compare_one(Wanted(spec=make_spec("other")), None)

    steps = remote.plan_document(document, origin="apply x", is_pruned=False)
    made = remote.apply(steps, origin="apply x")

    assert [one.action for one in steps] == [Action.CREATE, Action.LEAVE, Action.LEAVE]
    assert [one.name for one in made] == ["fresh"]
    remote.check(step)
    assert client.schedule("fresh") == made[0]


def test_errors_are_raised_as_what_they_are(client: Client, remote: RemoteClient) -> None:
    taken = Step(
        action=Action.CREATE, name="backup", wanted=Wanted(spec=make_spec("backup", "@daily"))
    )
    broken = Document(wanted=(Wanted(spec=make_spec("x", "61 * * * *")),), text="")

    with pytest.raises(NotFound, match="there is no schedule 'bakup'") as missing:
        remote.schedule("bakup")
    with pytest.raises(AlreadyExists):
        remote.add(make_spec("backup"))
    with pytest.raises(AlreadyExists):
        remote.check(taken)
    with pytest.raises(InvalidTrigger):
        remote.add(make_spec("x", "61 * * * *"))
    with pytest.raises(InvalidDocument) as wrong:
        remote.plan_document(broken, origin="apply x")
    client.pause("backup")
    with pytest.raises(Conflict, match="no next time to move"):
        remote.reschedule("backup", client.now() + timedelta(days=1))

    assert missing.value.hint == "did you mean 'backup'?"
    assert wrong.value.problems[0]["schedule"] == "x"


def test_the_time_is_the_server_s(remote: RemoteClient) -> None:
    before = datetime.now(UTC)

    told = remote.now()

    assert abs((told - before).total_seconds()) < 5


@pytest.mark.parametrize("name", ["a b", "../status", "41", "-", "x" * 200])
def test_a_name_that_no_schedule_can_have_is_not_found(
    client: Client, remote: RemoteClient, name: str
) -> None:
    for one in (client, remote):
        with pytest.raises(NotFound, match="there is no schedule"):
            one.schedule(name)
        with pytest.raises(NotFound, match="there is no schedule"):
            one.pause(name)
