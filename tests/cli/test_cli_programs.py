"""Schedules of a program's functions, seen from the command line: who runs them, and who does not.

Of the program `plant`, `poll` is declared and `sweep` is not any more.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from tests.support.cli import Edgecron
from tests.support.embedded import QUEUE, program, step_until_ended
from tests.support.offering import let_vanish

GONE = "the program 'plant' no longer declares it, so nothing runs it"
SINCE = "the program 'plant' has not declared it since THEN (2d ago), so nothing runs it"
REMEDY = "remove it: edgecron rm sweep, or call scheduler.prune() in the program"
ABSENT = "the program 'plant' is not running and will run it when it starts"


def function(name: str, queue: str) -> ScheduleSpec:
    job = Job(kind=JobKind.CALLABLE, argv=(name,))
    return ScheduleSpec(name=name, triggers=("every 1h",), job=job, queue=queue)


@pytest.fixture(autouse=True)
def _plant(database: Path) -> None:
    with Client(database) as client:
        client.add(function("poll", QUEUE))
        client.add(function("sweep", QUEUE))
        let_vanish(client, "sweep", ago_ms=2 * 86_400_000)


def timeless(text: str) -> str:
    """A text with each day and time of it as THEN."""
    return re.sub(r"[A-Z][a-z]{2} \d\d \d\d:\d\d(?= \()", "THEN", text)


def test_a_list_shows_what_nobody_runs(edgecron: Edgecron) -> None:
    said = edgecron("list")

    poll, sweep = said.out.splitlines()[1:]
    assert "no program" not in poll
    assert sweep.split() == ["?", "sweep", "every", "1h", "no", "program", "runs", "it", "-", "0"]
    assert said.err == "some schedules have no program that runs them; see: edgecron doctor\n"


def test_nothing_is_to_come_of_what_nobody_runs(edgecron: Edgecron) -> None:
    names = {fire["schedule"] for fire in edgecron("next", "--json").json}
    alone = edgecron("next", "sweep")

    assert names == {"poll"}
    assert (alone.out, alone.err) == ("", "sweep: next: no program runs it\n")


def test_why_says_first_that_nobody_runs_it(edgecron: Edgecron) -> None:
    [told] = edgecron("why", "sweep", "--json").json

    assert timeless(told["answer"]).startswith(f"T{SINCE[1:]}; {REMEDY}. ")
    assert told["outlook"]["idle"] == "vanished"
    assert told["outlook"]["next"] is None


def test_of_a_time_to_come_why_says_that_nobody_runs_it(edgecron: Edgecron, database: Path) -> None:
    with Client(database) as client:
        coming = client.schedule("sweep").next_plan_at
    assert coming is not None

    [told] = edgecron("why", "sweep", coming.isoformat(), "--json").json

    assert told["verdict"] == "vanished"
    assert SINCE in timeless(told["answer"])


def test_why_names_the_program_that_is_not_at_work(edgecron: Edgecron) -> None:
    [told] = edgecron("why", "poll", "--json").json

    assert told["answer"].endswith(f"T{ABSENT[1:]}.")
    assert "edgecron daemon" not in told["answer"]


def test_show_says_who_would_run_it(edgecron: Edgecron) -> None:
    poll, sweep = edgecron("show", "poll").out, edgecron("show", "sweep").out

    assert "would wait for the program 'plant'" in poll
    assert f"next         none: {SINCE}; {REMEDY}\n" in timeless(sweep)
    assert "would not run: its program no longer declares it" in sweep


def test_status_counts_what_nobody_runs(edgecron: Edgecron) -> None:
    [told] = edgecron("status", "--json").json

    assert "2 schedules, 1 vanished, which no program runs: see edgecron doctor" in (
        edgecron("status").out
    )
    assert edgecron("status").err == (
        "start the program 'plant', and for commands an engine: edgecron daemon\n"
    )
    assert told["vanished"] == 1
    assert told["next"]["schedule"] == "poll"


def test_a_run_by_hand_is_queued_with_who_runs_it(edgecron: Edgecron) -> None:
    poll, sweep = edgecron("run", "poll"), edgecron("run", "sweep")

    assert (poll.code, sweep.code) == (0, 0)
    assert poll.err == f"warning: {ABSENT}\n"
    assert timeless(sweep.err) == f"warning: {SINCE}; {REMEDY}\n"
    assert GONE in edgecron("run", "sweep").err  # skipped behind the first one
    assert "nothing runs it: its program no longer declares it" in edgecron("show", "sweep").out


def test_nobody_waits_for_a_run_that_nobody_begins(edgecron: Edgecron) -> None:
    poll, sweep = edgecron("run", "poll", "--wait"), edgecron("run", "sweep", "--wait")

    assert (poll.code, sweep.code) == (125, 125)
    assert "is run by the program 'plant', which is not running" in poll.err
    assert sweep.err == f"error: {GONE}\nhint: {REMEDY}\n"
    assert edgecron("history", "--json").json == []


def test_doctor_names_what_nobody_runs_and_says_what_to_do(edgecron: Edgecron) -> None:
    found = edgecron("doctor", "--json").json

    told = [(one["check"], one["message"], one["hint"]) for one in found if one["hint"]]
    assert (
        "engines",
        "the program 'plant' is not running, and 1 schedule waits",
        "start that program",
    ) in told
    assert ("vanished", f"sweep: {GONE}", REMEDY) in told
    assert sum("sweep" in str(one) for one in told) == 1


def test_what_nobody_runs_has_no_next_time_to_move(edgecron: Edgecron) -> None:
    said = edgecron("reschedule", "sweep", "in 20m")

    assert said.code == 1
    assert (
        "no next time to move: no program runs it\nhint: remove it: edgecron rm sweep" in said.err
    )


def test_a_change_by_hand_says_that_the_code_takes_it_back(edgecron: Edgecron) -> None:
    note = "note: the program 'plant' restores the definition of its code"

    assert note in edgecron("edit", "poll", "--every", "10m").err
    assert "note" not in edgecron("edit", "sweep", "--every", "10m").err


def test_with_its_program_at_work_all_is_as_ever(edgecron: Edgecron, database: Path) -> None:
    with program(database, {}, offers=lambda: frozenset({"callable poll"})) as host:
        host.engine.step()
        queued, why = edgecron("run", "poll"), edgecron("why", "poll")

        assert queued.err == ""
        assert "plant" not in why.out
        assert "would start immediately" not in edgecron("show", "sweep").out
        assert SINCE in timeless(edgecron("run", "sweep").err)


def test_where_another_version_is_at_work_it_is_told_that_one_is_missing(
    edgecron: Edgecron, database: Path
) -> None:
    missing = "a version that does not declare it"
    with program(database, {}, offers=lambda: frozenset({"callable sweep"})) as host:
        host.engine.step()
        with Client(database) as client:
            client.store.register_engine(
                key="newer",
                pid=1,
                boot_id="boot-1",
                queues=(QUEUE,),
                now_ms=client.clock.now_ms(),
                offers=frozenset({"callable poll"}),
            )
        queued, why = edgecron("run", "poll"), edgecron("why", "poll")
        waited, doctor = edgecron("run", "poll", "--wait"), edgecron("doctor", "--json").json

    assert queued.err == f"warning: the program 'plant' is running {missing}\n"
    assert missing in " ".join(why.out.split())
    assert (waited.code, "which is running, but does not declare it" in waited.err) == (125, True)
    [told] = [one for one in doctor if missing in one["message"]]
    assert (told["check"], told["hint"]) == ("engines", "start that version")
    assert told["message"].startswith("poll: the program 'plant' is running")


def test_what_waited_is_run_when_its_program_declares_it_again(
    edgecron: Edgecron, database: Path
) -> None:
    edgecron("run", "sweep")

    with program(database, {"sweep": lambda call: None}) as host:
        step_until_ended(host)

    [run] = edgecron("history", "sweep", "--json").json
    assert run["status"] == "success"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--env", "A=1"), ("--env-file", "/srv/a.env"), ("--cwd", "/srv"), ("--stdin", "yes")],
)
def test_edit_refuses_what_a_function_would_ignore(
    edgecron: Edgecron, option: str, value: str
) -> None:
    said = edgecron("edit", "poll", option, value)

    assert said.code == 2
    assert said.err == (
        f"error: {option} is only for commands, and the job is a function of a program\n"
        f"hint: remove {option}, or make the job a command\n"
    )
    assert edgecron("edit", "poll", "--payload", "3").code == 0
