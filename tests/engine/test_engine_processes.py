"""Real engines, real supervisors, real commands and real signals."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgecron.base.errors import Conflict
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.client.notice_rules import load_recorded, sync_config
from edgecron.client.notice_sending import NoticeSender
from edgecron.formats.config import load
from edgecron.model.choices import Reason, Status
from edgecron.model.options import Policies
from edgecron.model.run import Stall
from edgecron.store.sqlite.connection import Database
from tests.support.clock import FakeClock
from tests.support.engines import Place
from tests.support.following import follow
from tests.support.processes import Gate, ends, parent_of
from tests.support.program import PROGRAM
from tests.support.stuck import stop_at_rest


def _at_the_gate(place: Place) -> str:
    return f"""echo began >>"$LOG"; echo out; echo err >&2
        {place.gate.line}; echo went >>"$LOG"; exit 7"""


def test_an_idle_engine_runs_what_another_process_adds(place: Place) -> None:
    daemon = place.daemon()
    daemon.wait_for("engine_started")

    place.add("soon", "every 1s", "echo hello")
    ended = daemon.wait_for("ended", schedule="soon")

    assert ended["status"] == "success"
    output = place.client.output(ended["run"])
    assert output is not None
    assert [chunk.content for chunk in output.chunks] == [b"hello\n"]


@pytest.mark.failure(19)
@pytest.mark.failure(43)
def test_a_run_outlives_its_killed_engine_and_the_next_one_gets_its_end(place: Place) -> None:
    place.add("long", "@yearly", _at_the_gate(place))
    first = place.daemon()
    place.client.run_now("long")
    first.wait_for("started", schedule="long")
    place.gate.wait_arrival()

    first.kill()
    place.gate.open()
    second = place.daemon()
    ended = second.wait_for("ended", schedule="long")

    assert (ended["status"], ended["exit_code"]) == ("failed", 7)
    assert place.effects() == ["began", "went"]
    [run] = place.runs("long")
    output = place.client.output(run.id)
    assert output is not None
    assert {chunk.content for chunk in output.chunks} == {b"out\n", b"err\n"}


@pytest.mark.failure(36)
def test_a_stopped_engine_leaves_its_runs_going(place: Place) -> None:
    place.add("long", "@yearly", _at_the_gate(place))
    first = place.daemon()
    place.client.run_now("long")
    first.wait_for("started", schedule="long")
    place.gate.wait_arrival()

    code = first.stop()
    second = place.daemon()
    second.wait_for("engine_started")
    place.gate.open()
    ended = second.wait_for("ended", schedule="long")

    assert code == 0
    assert first.lines[-1]["event"] == "engine_stopped"
    assert (ended["status"], ended["exit_code"]) == ("failed", 7)


@pytest.mark.failure(17)
@pytest.mark.failure(19)
def test_engine_and_supervisor_killed_leave_an_interrupted_row_and_no_process(
    place: Place,
) -> None:
    place.add("long", "@yearly", _at_the_gate(place))
    first = place.daemon()
    place.client.run_now("long")
    first.wait_for("started", schedule="long")
    job = place.gate.wait_arrival()
    watch = os.pidfd_open(job)

    first.kill()
    os.kill(parent_of(job), signal.SIGKILL)
    second = place.daemon()
    ended = second.wait_for("ended", schedule="long")

    assert (ended["status"], ended["reason"]) == ("interrupted", "lost")
    assert ends(watch), "what was left of the command was not ended"
    assert place.effects() == ["began"]
    place.client.run_now("long")
    second.wait_for("started", schedule="long")
    place.gate.open()
    assert second.wait_for("ended", schedule="long")["exit_code"] == 7


@pytest.mark.failure(18)
def test_a_killed_supervisor_is_replaced_and_its_runs_are_interrupted(place: Place) -> None:
    place.add("long", "@yearly", _at_the_gate(place))
    daemon = place.daemon()
    place.client.run_now("long")
    daemon.wait_for("started", schedule="long")
    job = place.gate.wait_arrival()

    os.kill(parent_of(job), signal.SIGKILL)
    ended = daemon.wait_for("ended", schedule="long")
    place.add("next", "every 1s", "true")
    well = daemon.wait_for("ended", schedule="next")

    assert (ended["status"], ended["reason"]) == ("interrupted", "lost")
    assert well["status"] == "success"


@pytest.mark.failure(23)
def test_a_stalled_engine_keeps_its_runs_and_does_no_harm_when_it_wakes(place: Place) -> None:
    place.add("long", "@yearly", _at_the_gate(place))
    first = place.daemon()
    place.client.run_now("long")
    first.wait_for("started", schedule="long")
    place.gate.wait_arrival()

    stop_at_rest(first.process)
    second = place.daemon()
    place.add("other", "every 1s", "true")
    second.wait_for("ended", schedule="other")
    [while_stalled] = place.runs("long")
    known = {state.info.pid for state in place.client.engines() if state.is_alive}
    first.process.send_signal(signal.SIGCONT)
    place.gate.open()
    ended = first.wait_for("ended", schedule="long")

    assert while_stalled.status is Status.RUNNING
    assert known == {first.process.pid, second.process.pid}
    assert ended["exit_code"] == 7
    assert len(place.runs("long")) == 1


def test_a_stopped_engine_leaves_no_file_behind_but_what_runs_need(place: Place) -> None:
    place.add("soon", "every 1s", "true")
    daemon = place.daemon()
    daemon.wait_for("ended", schedule="soon")

    daemon.stop()
    second = place.daemon()
    second.wait_for("ended", schedule="soon")
    second.stop()

    left = sorted(path.name for path in state_dir(place.database).iterdir())
    # The last supervisor may still be on its way out; the one before it has been cleared away.
    assert len([name for name in left if name.endswith(".lock")]) <= 1, left
    assert [name for name in left if name.startswith("engine-")] == []


def test_an_end_is_taken_over_while_other_runs_of_the_dead_engine_go_on(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "second").mkdir()
    second_gate = Gate(tmp_path / "second")
    place.add("long", "@yearly", _at_the_gate(place))
    place.add("short", "@yearly", second_gate.line)
    first = place.daemon()
    place.client.run_now("long")
    place.client.run_now("short")
    place.gate.wait_arrival()
    second_gate.wait_arrival()

    first.kill()
    second = place.daemon()
    second_gate.open()
    short_end = second.wait_for("ended", schedule="short")
    [long_run] = place.runs("long")
    place.gate.open()
    long_end = second.wait_for("ended", schedule="long")
    second_gate.close()

    assert short_end["status"] == "success"
    assert long_run.status is Status.RUNNING
    assert long_end["exit_code"] == 7


def test_a_run_that_ended_without_an_engine_does_not_overlap_the_next(place: Place) -> None:
    place.add("short", "@yearly", _at_the_gate(place))
    daemon = place.daemon()
    place.client.run_now("short")
    job = place.gate.wait_arrival()
    supervisor = os.pidfd_open(parent_of(job))

    daemon.kill()
    place.gate.open()
    assert ends(supervisor)
    place.client.take_over()
    [queued] = place.client.run_now("short")

    first, second = place.runs("short")
    assert (first.status, first.exit_code) == (Status.FAILED, 7)
    assert (second.id, second.status) == (queued.id, Status.QUEUED)


@pytest.mark.failure(26)
def test_a_run_that_goes_on_is_ended_on_request(place: Place) -> None:
    place.add("long", "@yearly", _at_the_gate(place))
    daemon = place.daemon()
    [run] = place.client.run_now("long")
    watch = os.pidfd_open(place.gate.wait_arrival())

    cancelled = place.client.cancel(run.id)
    ended = daemon.wait_for("ended", schedule="long")

    assert cancelled.cancel_requested_at is not None
    assert (ended["status"], ended["reason"]) == ("cancelled", "request")
    assert ends(watch)
    assert place.effects() == ["began"]
    with pytest.raises(Conflict, match="ended already"):
        place.client.cancel(run.id)


@pytest.mark.failure(26)
def test_a_run_is_ended_on_request_with_no_engine_alive(place: Place) -> None:
    place.add("long", "@yearly", _at_the_gate(place))
    daemon = place.daemon()
    [run] = place.client.run_now("long")
    job = place.gate.wait_arrival()
    supervisor = os.pidfd_open(parent_of(job))
    daemon.kill()

    place.client.cancel(run.id)
    assert ends(supervisor)
    place.client.take_over()

    [ended] = place.runs("long")
    assert (ended.status, ended.reason) == (Status.CANCELLED, Reason.REQUEST)


@pytest.mark.parametrize(("timeout_s", "is_reminded"), [(3600, True), (172_800, False)])
def test_a_reminder_says_that_a_run_prints_nothing_only_while_it_does(
    place: Place, tmp_path: Path, timeout_s: int, is_reminded: bool
) -> None:
    """It printed a day ago. No engine is running, so nothing else sends."""
    place.add("long", "@yearly", _at_the_gate(place))
    place.client.edit(
        "long", lambda spec: replace(spec, policies=Policies(stall_timeout_s=timeout_s))
    )
    daemon = place.daemon()
    [run] = place.client.run_now("long")
    place.gate.wait_arrival()
    daemon.kill()
    config = tmp_path / "config.toml"
    config.write_text('[notify.ops]\ncommand = ["true"]\n')
    clock, sent = FakeClock(place.client.clock.now_ms()), list[str]()
    with Client(place.database, clock=clock) as client:
        sync_config(client, load(str(config)))
        client.store.note_stalls([Stall(run.id, clock.now_ms())])
        for _ in range(2):
            NoticeSender(
                client,
                load_recorded(client),
                send=lambda _, message: sent.append(message.subject.partition("] ")[2]),
                pause=lambda seconds: clock.advance_ms(round(1000 * seconds)),
            ).run()
            clock.advance_ms(25 * 3_600_000)
    place.gate.open()

    silent = [title for title in sent if "engine" not in title]
    reminders = ["long still prints nothing for long"] if is_reminded else []
    assert silent == ["long prints nothing", *reminders]


def test_output_is_read_while_a_run_goes_on_and_to_its_end(place: Place) -> None:
    place.add("long", "@yearly", _at_the_gate(place) + "; echo never")
    daemon = place.daemon()
    [run] = place.client.run_now("long")
    place.gate.wait_arrival()

    so_far = place.client.output_so_far(place.client.execution(run.id))
    pieces = follow(place.client, run.id)
    early = [next(pieces), next(pieces)]
    place.gate.open()
    late = list(pieces)
    daemon.wait_for("ended", schedule="long")

    assert {chunk.content for chunk in so_far} == {b"out\n", b"err\n"}
    assert {chunk.content for _, chunk in early} == {b"out\n", b"err\n"}
    assert [skipped for skipped, _ in early] == [0, 0]
    assert late == []
    assert list(follow(place.client, run.id)) == early


def test_output_is_followed_by_the_program(place: Place) -> None:
    place.add("short", "@yearly", place.gate.line + "; echo the end")
    daemon = place.daemon()
    [run] = place.client.run_now("short")
    place.gate.wait_arrival()
    logs = subprocess.Popen(
        [*PROGRAM, "--db", str(place.database), "logs", "-f", str(run.id)],
        stdout=subprocess.PIPE,
    )

    place.gate.open()
    out, _ = logs.communicate(timeout=30)
    daemon.wait_for("ended", schedule="short")

    assert (logs.returncode, out) == (0, b"the end\n")


@pytest.mark.failure(31)
@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_engine_whose_database_is_gone_says_so_and_stops(
    place: Place, is_replaced: bool
) -> None:
    place.add("soon", "every 1s", 'echo ran >>"$LOG"')
    daemon = place.daemon()
    daemon.wait_for("ended", schedule="soon")

    place.database.unlink()
    if is_replaced:
        with Client(place.database.with_name("other.db")) as other:
            other.schedules()
        place.database.with_name("other.db").rename(place.database)
    trouble = daemon.wait_for("database_trouble")
    code = daemon.wait_end()

    assert "deleted, moved or replaced" in trouble["error_msg"]
    assert code == 5


@pytest.mark.failure(31)
def test_an_engine_whose_database_is_emptied_says_so_and_stops_and_leaves_the_log(
    place: Place,
) -> None:
    place.add("soon", "every 1s", "true")
    daemon = place.daemon()
    daemon.wait_for("ended", schedule="soon")

    os.truncate(place.database, 0)  # as a `cp` to it does that fails, or `>`
    trouble = daemon.wait_for("database_trouble")
    code = daemon.wait_end()
    place.client.close()

    assert "was emptied while it was open" in trouble["error_msg"]
    assert code == 5
    assert place.database.stat().st_size == 0
    assert Path(f"{place.database}-wal").stat().st_size > 0


@pytest.mark.failure(22)
@pytest.mark.parametrize(
    ("engines", "schedules", "fires"),
    [(4, 20, 100), pytest.param(20, 200, 12_000, marks=pytest.mark.slow)],
)
def test_many_engines_fire_each_time_once(
    place: Place, engines: int, schedules: int, fires: int
) -> None:
    for number in range(schedules):
        place.add(
            f"s{number}", "* * * * * *", 'echo "$EDGECRON_SCHEDULE $EDGECRON_PLAN_AT" >>"$LOG"'
        )
    daemons = [place.daemon() for _ in range(engines)]

    ends = 0
    while ends < fires:
        for daemon in daemons:
            daemon.wait_for("ended")
            ends += 1
    for number in range(schedules):
        place.client.remove(f"s{number}")
    codes = [daemon.stop() for daemon in daemons]

    assert codes == [0] * engines
    _check_each_fire(place)


def _check_each_fire(place: Place) -> None:
    """Each due time has one row or lies in one range; each effect has its row; none was early."""
    effects = place.effects()
    assert len(effects) == len(set(effects)), "a fire ran twice"
    database = Database(place.database)
    rows = database.rows(
        """SELECT s.name, e.plan_at, e.due_at, e.started_at, e.status, e.missed_count, e.reason
           FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id ORDER BY e.plan_at"""
    )
    made = dict(database.rows("SELECT name, created_at FROM schedules"))
    removed = dict(database.rows("SELECT name, deleted_at FROM schedules"))
    database.close()
    covered: dict[str, list[int]] = {name: [] for name in made}
    for name, plan, due, started, status, missed, reason in rows:
        assert started is None or started >= due, f"early: {name} {plan}"
        if missed is None:
            covered[name].append(plan)
            assert status == "success" or reason in (Reason.REMOVED, Reason.LOST), (name, status)
        else:
            covered[name].extend(plan + 1000 * number for number in range(missed))
    for name, plans in covered.items():
        # A removal reads the clock before it waits for the lock: a last fire may come between.
        until = max(removed[name], *plans)
        expected = range((made[name] // 1000 + 1) * 1000, until + 1, 1000)
        assert sorted(plans) == list(expected), name
