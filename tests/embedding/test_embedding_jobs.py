"""Functions of a program as jobs: declared, run by hand with arguments, and seen by everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron import Scheduler, at, cron, every
from edgecron.base.errors import AlreadyExists, Conflict, DatabaseBusy, InvalidInput, NotFound
from edgecron.client import Client
from edgecron.model.choices import JobKind, Overlap
from tests.support.clock import START, FakeClock
from tests.support.servers import wait_until
from tests.support.specs import make_spec

BOUND_S = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def declared(path: Path, clock: FakeClock, **options: Any) -> Scheduler:
    """A program with one job, as each of its starts declares it."""
    scheduler = Scheduler(path, clock=clock)

    @scheduler.job(every("5m"), **options)
    def poll(host: str = "plc1") -> int:
        return len(host)

    return scheduler


def _apart() -> None:
    """Declared as a process of its own."""


def has_vanished(client: Client, name: str) -> bool:
    return client.schedule(name).vanished_at is not None


@pytest.fixture
def client(path: Path) -> Iterator[Client]:
    with Client(path) as client:
        yield client


def test_a_job_is_still_the_function_that_it_was(path: Path) -> None:
    scheduler = Scheduler(path)

    @scheduler.job("@daily", payload=[4])
    def double(number: int, *, times: int = 2) -> int:
        """Twice as much."""
        return number * times

    assert double(4) == 8
    assert double(4, times=3) == 12
    assert double.__name__ == "double"  # type: ignore[attr-defined]
    assert double.__doc__ == "Twice as much."


def test_declaring_opens_nothing_and_starts_nothing(path: Path, clock: FakeClock) -> None:
    scheduler = declared(path, clock)

    assert not path.exists()
    assert not scheduler.is_running


def test_a_declared_job_is_kept_when_it_is_first_used(path: Path, clock: FakeClock) -> None:
    scheduler = Scheduler(path, clock=clock, timezone="Europe/Berlin")

    @scheduler.job(cron("0 2 * * *"), "on boot", retries=3, timeout="30s", max_late=90)
    def backup() -> None: ...

    schedule = backup.schedule

    assert schedule.spec.job.kind is JobKind.CALLABLE
    assert schedule.spec.job.argv == ("backup",)
    assert schedule.spec.queue == "py:app"
    assert schedule.spec.timezone == "Europe/Berlin"
    assert schedule.spec.triggers == ("0 2 * * *", "on boot")
    assert schedule.spec.policies.retries == 3
    assert schedule.spec.policies.timeout_s == 30
    assert schedule.spec.policies.max_late_s == 90
    assert backup.next_runs(2) == [
        datetime(2026, 11, 21, 1, tzinfo=UTC),
        datetime(2026, 11, 22, 1, tzinfo=UTC),
    ]


def test_the_zone_of_a_trigger_comes_before_that_of_its_scheduler(path: Path) -> None:
    scheduler = Scheduler(path, timezone="Europe/Berlin")

    @scheduler.job(cron("0 2 * * *", "Asia/Tokyo"))
    def tokyo() -> None: ...

    assert tokyo.schedule.spec.timezone == "Asia/Tokyo"
    with pytest.raises(InvalidInput, match="names the time zones Asia/Tokyo and UTC"):
        scheduler.job(cron("0 2 * * *", "Asia/Tokyo"), timezone="UTC", name="both")(print)


def test_a_job_that_is_declared_twice_is_an_error_that_names_both_places(path: Path) -> None:
    scheduler = declared(path, FakeClock())

    with pytest.raises(AlreadyExists, match=r"declared twice .*jobs\.py:\d+ and .*jobs\.py:\d+"):
        scheduler.job("@daily", name="poll")(print)


def test_starting_again_changes_nothing_that_did_not_change(
    path: Path, clock: FakeClock, client: Client
) -> None:
    declared(path, clock, retries=2).get("poll")
    before = client.schedule("poll")
    clock.advance_ms(3_600_000)

    declared(path, clock, retries=2).get("poll")

    assert client.schedule("poll") == before


def test_what_changed_in_the_code_is_changed_and_never_fires_for_the_past(
    path: Path, clock: FakeClock, client: Client
) -> None:
    declared(path, clock).get("poll")
    before = client.schedule("poll")
    clock.advance_ms(3_600_000)
    again = Scheduler(path, clock=clock)

    @again.job(every("10m"), overlap="queue")
    def poll(host: str = "plc1") -> int:
        return 1

    after = poll.schedule

    assert after.id == before.id
    assert after.revision == before.revision + 1
    assert after.spec.policies.overlap is Overlap.QUEUE
    assert after.next_plan_at is not None
    assert after.next_plan_at > START + timedelta(hours=1)


def test_an_instant_that_has_passed_by_the_next_start_is_no_mistake(
    path: Path, clock: FakeClock
) -> None:
    scheduler = Scheduler(path, clock=clock)

    @scheduler.job(at(START - timedelta(days=1)))
    def move() -> None: ...

    assert move.next_runs() == []


def test_a_name_that_another_kind_of_schedule_has_is_refused(path: Path, clock: FakeClock) -> None:
    Scheduler(path, clock=clock).add("poll", "@daily", command=["true"])
    Scheduler(path, clock=clock, name="other").job("@daily", name="theirs")(print)

    with pytest.raises(AlreadyExists, match="'poll' exists already, and it is a command"):
        declared(path, clock).get("poll")


def test_the_job_of_another_program_is_refused(path: Path, clock: FakeClock) -> None:
    declared(path, clock).get("poll")
    other = Scheduler(path, clock=clock, name="other")
    poll = other.job("@daily", name="poll")(print)

    with pytest.raises(AlreadyExists, match="and it is a callable of queue 'py:app'"):
        poll.next_runs()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries is '-1'"),
        ({"timeout": "soon"}, "timeout: duration 'soon' is not understood"),
        ({"timeout": True}, "timeout is True, expected seconds"),
        ({"overlap": "maybe"}, "overlap is 'maybe', expected skip, queue, allow or replace"),
        ({"needs": "luck"}, "luck"),
        ({"retry": 3}, "option 'retry' is unknown"),
        ({"timezone": "Mars/Base"}, "Mars/Base"),
        ({"until_at": datetime(2030, 1, 1)}, "until_at is 2030-01-01 00:00:00, which has no"),  # noqa: DTZ001
        ({"payload": {"hst": "plc2"}}, "can't be called by its schedule: .*'hst'"),
        ({"payload": 4}, "the payload of job 'poll' is '4', expected an object or an array"),
        ({"payload": {"host": {1, 2}}}, r"payload of 'poll'\['host'\] is set, which JSON"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_told_where_it_stands(
    path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        declared(path, FakeClock(), **options)


def test_a_job_without_a_time_says_what_to_give(path: Path) -> None:
    with pytest.raises(InvalidInput, match="schedule 'print': it has no time to run at"):
        Scheduler(path).job()(print)


def test_a_generator_is_no_job(path: Path) -> None:
    def each() -> Iterator[int]:
        yield 1

    with pytest.raises(InvalidInput, match="generator"):
        Scheduler(path).job("@daily")(each)


def test_a_lambda_needs_a_name(path: Path) -> None:
    scheduler = Scheduler(path)

    with pytest.raises(InvalidInput, match="a lambda has no name"):
        scheduler.job("@daily")(lambda: 1)
    scheduler.job("@daily", name="one")(lambda: 1)


def test_an_argument_that_nobody_gives_is_found_when_it_is_declared(path: Path) -> None:
    def copy(source: str) -> None: ...

    with pytest.raises(InvalidInput, match="missing a required argument: 'source'"):
        Scheduler(path).job("@daily")(copy)
    Scheduler(path).job("@daily", payload=["/srv"])(copy)


def test_arguments_by_hand_are_checked_before_anything_is_queued(
    path: Path, clock: FakeClock
) -> None:
    scheduler = Scheduler(path, clock=clock)

    @scheduler.job("@daily")
    def poll(host: object = "plc1") -> None: ...

    with pytest.raises(TypeError, match=r"job '.*poll' takes .*: too many positional arguments"):
        poll.run_now(*["plc2", "plc3"])
    for wrong, error in (
        (({1: 2},), InvalidInput),
        ((b"plc2",), InvalidInput),
        ((float("nan"),), InvalidInput),
        (("\ud800",), InvalidInput),
        (("x" * 100_000,), InvalidInput),
        (("plc2", "plc3"), TypeError),
    ):
        with pytest.raises(error):
            poll.run_now(*wrong)
    nested: list[object] = []
    nested.append(nested)
    with pytest.raises(InvalidInput, match="nested too deeply"):
        poll.run_now(nested)  # type: ignore[call-arg]

    assert poll.history() == []


def test_a_program_name_that_no_queue_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="program name"):
        Scheduler(tmp_path / "my app.db")

    assert Scheduler(tmp_path / "my app.db", name="app").queue == "py:app"


def test_a_job_is_paused_resumed_and_moved(path: Path, clock: FakeClock) -> None:
    poll = declared(path, clock).get("poll")

    poll.pause()
    assert poll.next_runs() == []
    poll.resume()
    poll.reschedule(START + timedelta(minutes=2))

    assert poll.next_runs(2) == [START + timedelta(minutes=2), START + timedelta(minutes=10)]


@pytest.mark.parametrize("when", [datetime(2030, 1, 1), "tomorrow 09:00"])  # noqa: DTZ001
def test_a_time_that_names_no_instant_is_refused_in_words(path: Path, when: Any) -> None:
    poll = declared(path, FakeClock()).get("poll")

    with pytest.raises(InvalidInput, match=r"the end of the pause is .* with an offset"):
        poll.pause(until=when)
    with pytest.raises(InvalidInput, match=r"the new time is .* with an offset"):
        poll.reschedule(when)
    with pytest.raises(InvalidInput, match="with an offset"):
        at(when)


def test_a_schedule_that_is_not_there_is_not_found(path: Path) -> None:
    with pytest.raises(NotFound):
        Scheduler(path).get("nothing")


def test_a_status_that_there_is_not_is_refused(path: Path) -> None:
    poll = declared(path, FakeClock()).get("poll")

    with pytest.raises(InvalidInput, match="status 'odd' is unknown"):
        poll.history(status="odd")


@pytest.mark.parametrize("number", [-1, 2.5, "3", 2**63])
def test_what_is_no_number_of_runs_is_refused(path: Path, number: Any) -> None:
    poll = declared(path, FakeClock()).get("poll")

    with pytest.raises(InvalidInput, match=r"limit is .* expected a whole number"):
        poll.history(limit=number)
    with pytest.raises(InvalidInput, match=r"before is .* expected a whole number"):
        poll.history(before=number)
    with pytest.raises(InvalidInput, match=r"count is .* expected a whole number"):
        poll.next_runs(number)


def test_a_command_is_kept_at_once_and_replaced_on_request(path: Path, client: Client) -> None:
    Scheduler(path).add("rotate", "@daily", command=["logrotate", "/etc/lr.conf"], env={"A": "1"})
    first = client.schedule("rotate")
    Scheduler(path).add("rotate", "@daily", shell="logrotate /etc/lr.conf", replace=True)
    second = client.schedule("rotate")

    assert first.spec.job.argv == ("logrotate", "/etc/lr.conf")
    assert first.spec.job.env == {"A": "1"}
    assert second.id == first.id
    assert second.spec.job.kind is JobKind.SHELL
    with pytest.raises(InvalidInput, match="has no command"):
        Scheduler(path).add("rotate", "@daily")


def test_a_command_that_is_one_text_is_not_taken_letter_by_letter(path: Path) -> None:
    scheduler = Scheduler(path)

    with pytest.raises(InvalidInput, match="command is the text 'ls -l', expected a list") as told:
        scheduler.add("listing", "@daily", command="ls -l")

    assert told.value.hint is not None
    assert "shell='ls -l'" in told.value.hint
    with pytest.raises(NotFound):
        scheduler.get("listing")


def test_a_command_that_was_refused_stands_in_no_ones_way(path: Path) -> None:
    scheduler = Scheduler(path)
    with pytest.raises(InvalidInput, match="runs after 'dump', and there is no schedule"):
        scheduler.add("verify", "after dump", command=["true"])

    with scheduler:
        scheduler.add("dump", "@daily", command=["true"])
        verify = scheduler.add("verify", "after dump", command=["true"])

    assert verify.schedule.spec.triggers == ("after dump",)


def test_a_vanished_job_is_run_by_nobody_until_it_comes_back(
    path: Path, clock: FakeClock, client: Client
) -> None:
    declared(path, clock).get("poll")
    before = client.schedule("poll")

    with Scheduler(path):
        wait_until(lambda: has_vanished(client, "poll"), lambda: "vanished")
    gone = client.schedule("poll")
    with declared(path, clock):
        wait_until(lambda: not has_vanished(client, "poll"), lambda: "back")
    back = client.schedule("poll")

    assert gone.next_plan_at == before.next_plan_at
    assert (back.spec, back.revision) == (before.spec, before.revision)
    assert client.schedule("poll").vanished_at is None  # Nor while its program does not run.


def test_the_jobs_of_another_program_do_not_vanish(path: Path, client: Client) -> None:
    declared(path, FakeClock()).get("poll")

    with Scheduler(path, name="other") as other:
        assert client.engines()
        assert other.is_running
    assert not has_vanished(client, "poll")


def test_prune_removes_what_the_program_made_and_declares_no_more(
    path: Path, clock: FakeClock, client: Client
) -> None:
    old = declared(path, clock)
    old.add("rotate", "@daily", command=["true"])
    old.keep_declared()
    with Client(path) as people:
        people.add(make_spec("by-hand"))
    now = Scheduler(path, clock=clock)
    now.job("@daily", name="report")(print)

    assert now.prune() == ["poll"]
    assert [one.name for one in client.schedules()] == ["by-hand", "report", "rotate"]


def test_prune_leaves_what_another_version_needs_that_is_at_work_unless_told(
    path: Path, clock: FakeClock, client: Client
) -> None:
    old = declared(path, clock)
    old.job("@daily", name="apart", process=True)(_apart)
    older = Scheduler(path, clock=clock)
    older.job("@daily", name="sweep")(print)
    older.keep_declared()
    now = Scheduler(path, clock=clock)
    now.job("@daily", name="report")(print)

    with old:
        assert client.engines()
        spared, rest = now.prune(), {one.name for one in client.schedules()}
        forced = now.prune(others=True)

    assert (spared, rest) == (["sweep"], {"apart", "poll", "report"})
    assert forced == ["apart", "poll"]


def test_prune_beside_an_engine_of_the_same_version_is_as_without(
    path: Path, clock: FakeClock, client: Client
) -> None:
    old = Scheduler(path, clock=clock)
    old.job("@daily", name="sweep")(print)
    old.keep_declared()

    with declared(path, clock):
        assert client.engines()

        with pytest.warns(UserWarning, match="another Scheduler"):
            second = declared(path, clock)
        assert second.prune() == ["sweep"]


def test_fire_runs_a_job_for_each_of_its_scopes(path: Path, clock: FakeClock) -> None:
    scheduler = declared(path, clock, scopes=["device:plc1", "device:plc2"])
    poll = scheduler.get("poll")

    runs = poll.fire()

    assert [run.scope for run in runs] == [("device", "plc1"), ("device", "plc2")]
    assert {run.status for run in runs} == {"queued"}


def test_run_now_runs_nothing_of_what_has_several_scopes(path: Path, client: Client) -> None:
    scheduler = Scheduler(path)

    @scheduler.job("@daily", scopes=["device:plc1", "device:plc2"])
    def poll() -> None: ...

    with pytest.raises(InvalidInput, match="'poll' has 2 scopes, expected one"):
        poll.run_now()

    assert client.history("poll") == []


def test_run_now_goes_by_the_scopes_that_there_are_now(path: Path, client: Client) -> None:
    scheduler = Scheduler(path)
    both = scheduler.add("both", "@daily", shell="true", scopes=["device:a", "device:b"])
    both.fire()[0].cancel()

    client.edit("both", lambda spec: replace(spec, scopes=(("device", "a"),)))
    run = both.run_now()
    client.edit("both", lambda spec: replace(spec, scopes=(("device", "a"), ("device", "b"))))
    with pytest.raises(InvalidInput, match="2 scopes"):
        both.run_now()

    assert run.scope == ("device", "a")
    assert len(client.history("both")) == 3


def test_a_run_shows_what_it_is(path: Path, clock: FakeClock) -> None:
    [run] = declared(path, clock).get("poll").fire({"host": "plc2"})

    assert re.fullmatch(r"<Run \d+ of poll: queued>", repr(run))
    assert run.plan_at == START
    assert run.is_active
    assert (run.result, run.output, run.error, run.exit_code) == (None, "", None, None)
    assert run.cancel().status == "cancelled"
    with pytest.raises(Conflict):
        run.cancel()


def test_waiting_for_a_run_that_nobody_runs_ends_with_the_time(path: Path) -> None:
    [run] = declared(path, FakeClock()).get("poll").fire()

    with pytest.raises(TimeoutError, match="is queued after 0 s"):
        run.wait(0)


def test_the_database_of_a_scheduler_that_names_none_is_that_of_the_command_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGECRON_DB", str(path))
    scheduler = Scheduler()

    @scheduler.job("@daily")
    def one() -> int:
        return 1

    with scheduler:
        result = one.run_now().wait(BOUND_S).result

    assert (scheduler.path, scheduler.name, result) == (path, "app", 1)


def test_no_name_of_a_database_is_not_the_default_one() -> None:
    with pytest.raises(InvalidInput, match="database is '', expected a path"):
        Scheduler("")


def test_what_is_no_function_is_run_by_hand_in_the_same_words(path: Path, client: Client) -> None:
    scheduler = Scheduler(path)
    rotate = scheduler.add("rotate", "@daily", command=["true"])
    both = scheduler.add("both", "@daily", shell="true", scopes=["device:a", "device:b"])

    run = rotate.run_now({"keep": 3})

    assert (run.schedule, run.status) == ("rotate", "queued")
    assert client.execution(run.id).payload == '{"keep":3}'
    assert scheduler.get("rotate").run_now().status == "skipped"  # The first goes on.
    with pytest.raises(InvalidInput, match="2 scopes") as caught:
        both.run_now()
    assert "fire()" in (caught.value.hint or "")
    assert client.history("both") == []


def test_a_program_that_enters_another_folder_keeps_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scheduler = Scheduler("app.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    scheduler.add("rotate", "@daily", shell="true")

    assert [one.name for one in Client(tmp_path / "app.db").schedules()] == ["rotate"]
    assert list(Path().iterdir()) == []


def test_a_job_needs_permission_for_an_interval_under_a_second(path: Path, client: Client) -> None:
    scheduler = Scheduler(path)
    with pytest.raises(InvalidInput, match="less than a second"):
        scheduler.job(every("1ms"), name="apart")(_apart)

    scheduler.add("probe", every("250ms"), shell="true", allow_fast=True)

    assert client.schedule("probe").spec.triggers == ("every 250ms",)


def test_who_asks_while_the_database_is_locked_waits_for_so_long_and_is_told_what_to_do(
    path: Path,
) -> None:
    scheduler = Scheduler(path, busy_wait=0.05)
    rotate = scheduler.add("rotate", "@daily", shell="true")
    locker = apsw.Connection(str(path))
    locker.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(DatabaseBusy, match="is locked by another process") as caught:
            rotate.run_now()
    finally:
        locker.close()

    assert "edgecron doctor" in (caught.value.hint or "")
    assert rotate.run_now().status == "queued"
