"""Mistakes of a program: each is an error that names the parameter, the value and what to give."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgecron import Scheduler, cron, every, parse_trigger
from edgecron.base.errors import EdgecronError, InvalidInput
from edgecron.embedding.testing import context, travel
from edgecron.model.choices import Cause

Act = Callable[[Any], Any]
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001


def wrong(call: Any) -> Any:
    """Call with values that a type checker would refuse."""
    return call


def said_by(caught: pytest.ExceptionInfo[EdgecronError]) -> str:
    assert caught.value.hint, caught.value.message
    return f"{caught.value.message} [{caught.value.hint}]"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_running": 0}, "max_running is 0, expected 1 to 1000000 [for example: 1]"),
        ({"max_running": "3"}, "max_running is '3', expected a whole number or None [such as"),
        ({"max_running": True}, "max_running is True, expected a whole number or None"),
        ({"labels": "berlin"}, "labels is 'berlin', expected a list of names [such as labels="),
        ({"labels": ["each"]}, "a label is 'each', which --on reserves for itself [for example"),
        ({"on_shutdown": "x"}, "on_shutdown is 'x', expected one of leave, wait, stop [such as"),
        ({"commands": "no"}, "commands is 'no', expected True or False [such as commands=True]"),
        ({"shutdown_timeout": "x"}, "shutdown_timeout is 'x', expected seconds [such as"),
        ({"shutdown_timeout": -1}, "shutdown_timeout is -1, expected 0 to"),
        ({"shutdown_timeout": float("nan")}, "shutdown_timeout is nan, expected 0 to"),
        ({"shutdown_timeout": timedelta(1)}, "expected seconds [such as shutdown_timeout=10.0]"),
        ({"busy_wait": "x"}, "busy_wait is 'x', expected seconds [such as busy_wait=30.0]"),
        ({"busy_wait": -1}, "busy_wait is -1, expected 0 to"),
        ({"retention": 5}, "retention is 5, expected a Retention or None [such as"),
        ({"clock": 5}, "clock is 5, expected a clock or None [such as"),
        ({"name": 5}, "program name is 5, expected text [give the Scheduler a name"),
        ({"timezone": UTC}, "timezone is datetime.timezone.utc, expected a name"),
    ],
)
def test_a_wrong_option_of_a_scheduler_is_named(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        Scheduler(tmp_path / "app.db", **options)

    assert said in said_by(caught)


def test_a_misspelt_parameter_of_a_scheduler_is_named_with_the_right_one() -> None:
    with pytest.raises(InvalidInput) as caught:
        wrong(Scheduler)("app.db", timezon="UTC")

    assert said_by(caught) == ("Scheduler has no parameter 'timezon' [did you mean timezone?]")
    with pytest.raises(InvalidInput, match="Scheduler has no parameter 'x'") as caught:
        wrong(Scheduler)("app.db", x=1)
    assert said_by(caught).endswith("[help(Scheduler) shows what it takes]")


def test_a_database_is_a_path() -> None:
    with pytest.raises(
        InvalidInput, match="database is 5, expected a path, a URL or None"
    ) as caught:
        Scheduler(5)  # type: ignore[arg-type]

    assert "Scheduler('app.db')" in said_by(caught)


def poll(host: str = "plc1") -> None:
    """Do nothing."""


def add(**options: Any) -> Act:
    return lambda s: s.add("a", "@daily", **({"command": ["true"]} | options))


def job(*when: Any, **options: Any) -> Act:
    return lambda s: s.job(*(when or ("@daily",)), name="a", **options)(poll)


def run_now(s: Any) -> Any:
    return s.add("a", "@daily", command=["true"]).run_now()


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (job(catch_up=True), "catch_up is True, expected"),
        (lambda s: s.get(99), "a schedule's name is text, got 99"),
        (lambda s: s.run("nosuch"), "a run's id is a number, got 'nosuch'"),
        (lambda s: s.run(True), "a run's id is a number, got True"),
        (lambda s: s.run(2**70), "there is no run 1180591620717411303424"),
        (lambda s: s.run(-1), "there is no run -1"),
        (lambda s: s.add("a", "@daily", command=["true"]).run_now(object()), "object"),
        (lambda s: s.add(5, "@daily", command=["true"]), "schedule name is 5, expected text"),
        (lambda s: s.add("a b", "@daily", command=["true"]), "schedule name 'a b' is not usable"),
        (add(command=[1]), "command[0] is 1, expected text [such as"),
        (add(command=["ls", None]), "command[1] is None, expected text"),
        (add(command=5), "command is 5, expected a list of words"),
        (add(command={"a": 1}), "command is {'a': 1}, expected a list of words"),
        (add(command=[b"ls"]), "command[0] is b'ls', expected text"),
        (add(command=None, shell=5), "shell is 5, expected text [such as shell="),
        (add(command=None, shell=["ls"]), "shell is ['ls'], expected text"),
        (add(env=5), "env is 5, expected a dict of texts [such as env={'LANG': 'C'}]"),
        (add(env={1: "x"}), "env has the key 1, expected text"),
        (add(env={"A": None}), "env['A'] is None, expected text"),
        (add(cwd=5), "cwd is 5, expected a path [such as cwd="),
        (add(user=5), "user is 5, expected text"),
        (add(stdin=b"x"), "stdin is b'x', expected text"),
        (add(timeout=True), "timeout is True, expected seconds, a timedelta or text"),
        (add(timeout=[]), "timeout is [], expected seconds, a timedelta or text"),
        (add(timeout=-1), "timeout is -1 seconds, expected 0 to 100 years [such as timeout="),
        (add(retries=True), "retries is True, expected a whole number [such as retries=3]"),
        (add(allow_fast="no"), "allow_fast is 'no', expected True or False"),
        (add(description=5), "description is 5, expected text"),
        (add(group=5), "group is 5, expected text [such as group="),
        (add(needs=5), "needs is 5, expected text, or a list of texts"),
        (add(scopes=[5]), "scopes is [5], expected text, or a list of texts"),
        (add(from_at=5), "from_at is 5, expected a datetime or text"),
        (add(from_at=NAIVE), "from_at is 2026-01-01 00:00:00, which has no time"),
        (add(timezone=5), "timezone is 5, expected a name"),
        (add(timezone=UTC), "timezone is datetime.timezone.utc, expected a name"),
        (add(foo=1), "option 'foo' is unknown [help(Scheduler.add) shows"),
        (add(retry=1), "option 'retry' is unknown [did you mean retries?]"),
        (
            lambda s: s.add("a", "@daily", comand=["ls"]),
            "schedule 'a': option 'comand' is unknown [did you mean command?]",
        ),
        (lambda s: s.add("a", "@daily", shel="ls"), "'shel' is unknown [did you mean shell?]"),
        (job(proces=True), "option 'proces' is unknown [did you mean process?]"),
        (job(paylod=5), "option 'paylod' is unknown [did you mean payload?]"),
        (job(comand=["ls"]), "option 'comand' is unknown [help(Scheduler.job) shows"),
        (add(tz="UTC"), "option 'tz' is unknown [did you mean timezone?]"),
        (job(env={"A": "1"}), "option 'env' is only for commands"),
        (job(command=["ls"]), "option 'command' is unknown"),
        (job(process="x"), "process is 'x', expected True or False"),
        (lambda s: s.job("@daily", name=5)(poll), "schedule name is 5, expected text"),
        (lambda s: s.job("@daily", name="")(poll), "schedule name '' is not usable"),
        (lambda s: s.job("@daily")(int), "job 'int' is a class whose parameters can't be read"),
        (lambda s: s.job("@daily")(5), "the job is 5, expected a function"),
        (lambda s: s.job("@daily")(partial(poll)), "the job has no name"),
        (lambda s: s.job(poll), "is not a trigger, expected a trigger or its text"),
        (lambda s: s.stop("x"), "wait is 'x', expected seconds or None [such as"),
        (lambda s: s.stop(-1), "wait is -1, expected 0 to"),
        (lambda s: s.prune(others="x"), "others is 'x', expected True or False"),
        (lambda s: s.subscribe(poll, job=5), "job is 5, expected a job or the name of a schedule"),
        (lambda s: s.subscribe(poll, job=""), "job is '', expected a job or the name"),
        (lambda s: s.subscribe(5), "the callback is 5, expected a function"),
        (lambda s: run_now(s).wait(float("nan")), "timeout is nan, expected 0 to"),
        (lambda s: run_now(s).wait(-1), "timeout is -1, expected 0 to"),
        (lambda s: run_now(s).wait(True), "timeout is True, expected seconds or None"),
        (lambda s: run_now(s).wait(timedelta(1)), "expected seconds or None [such as timeout=10]"),
        (lambda s: job()(s).history(status=5), "status is 5, expected text, or a list of texts"),
        (lambda s: job()(s).history(limit="x"), "limit is 'x', expected a whole number from 0"),
        (lambda s: job()(s).next_runs(-1), "count is -1, expected a whole number from 0"),
        (lambda s: job()(s).pause(NAIVE), "expected a time with an offset [such"),
        (lambda s: job()(s).pause(datetime(2009, 1, 1, tzinfo=UTC)), "is in the past [give a"),
        (lambda s: job()(s).reschedule(None), "the new time is None, expected a datetime"),
        (lambda s: add()(s).run_now({1: 2}), "payload has the key 1, expected text [write"),
        (lambda s: add()(s).run_now(float("nan")), "payload is nan, which is not a JSON number ["),
        (lambda s: wrong(every)(None), "interval is None, expected 1 ms to 100 years"),
        (lambda s: every(True), "interval is True, expected 1 ms to 100 years"),
        (lambda s: wrong(every)([]), "interval is [], expected 1 ms to 100 years"),
        (lambda s: wrong(parse_trigger)("H 1 * * *", name=5), "schedule name is 5, expected text"),
        (lambda s: wrong(cron)(5), "trigger is 5, expected text"),
        (lambda s: wrong(context)(attempt=0), "attempt is 0, expected 1 to"),
        (lambda s: wrong(context)(attempt="x"), "attempt is 'x', expected a whole number"),
        (lambda s: wrong(context)(timeout="x"), "timeout is 'x', expected seconds or None"),
        (lambda s: wrong(context)(state=5), "state is 5, expected a dict"),
        (lambda s: wrong(context)(state={"a": object()}), "is object, which JSON does not hold"),
        (lambda s: wrong(context)(scope="x"), "scope is 'x', expected (kind, id)"),
        (lambda s: wrong(context)(schedule=5), "schedule name is 5, expected text"),
        (lambda s: wrong(context)(plan_at=NAIVE), "plan_at is 2026-01-01T00:00:00,"),
        (lambda s: wrong(context)(plan_at="x"), "plan_at is 'x', expected a datetime"),
        (
            lambda s: wrong(context)().progress("x"),
            "progress is 'x', expected a number from 0 to 1",
        ),
        (lambda s: wrong(context)().progress(5), "progress is 5.0, expected 0 to 1"),
        (lambda s: wrong(context)().progress(0.5, 5), "text of progress is 5, expected text"),
    ],
)
def test_a_wrong_argument_is_named_with_a_hint(tmp_path: Path, act: Act, said: str) -> None:
    with pytest.raises(EdgecronError) as caught:
        act(Scheduler(tmp_path / "app.db"))

    assert said in said_by(caught)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda j: j.advance(days="x"), "days is 'x', expected a number [such as"),
        (lambda j: j.sleep(hours=-1), "hours is -1, expected 0 to"),
        (lambda j: j.advance_to(5), "instant is 5, expected a datetime"),
        (lambda j: j.advance(), "no time is given [such as"),
        (lambda j: j.fired(5), "job is 5, expected a job or the name of a schedule"),
        (lambda j: j.lasts("nosuch", hours=1), "there is no schedule 'nosuch'"),
    ],
)
def test_a_wrong_argument_of_a_journey_is_named(tmp_path: Path, act: Act, said: str) -> None:
    scheduler = Scheduler(tmp_path / "app.db")
    with travel(scheduler) as journey, pytest.raises(EdgecronError) as caught:
        act(journey)

    assert said in said_by(caught)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((5,), "scheduler is 5, expected a Scheduler"),
        ((None, 5), "start is 5, expected a datetime"),
        ((None, NAIVE), "start is 2026-01-01T00:00:00, expected a time with"),
    ],
)
def test_a_wrong_argument_of_travel_is_named(
    tmp_path: Path, given: tuple[Any, ...], said: str
) -> None:
    scheduler, *start = given
    with (
        pytest.raises(EdgecronError) as caught,
        travel(scheduler or Scheduler(tmp_path / "app.db"), *start),
    ):
        pass

    assert said in said_by(caught)


def test_a_wait_takes_seconds_and_a_run_knows_its_cause(tmp_path: Path) -> None:
    run = Scheduler(tmp_path / "app.db").add("a", "@daily", command=["true"]).run_now()

    with pytest.raises(InvalidInput, match="timeout is 'abc', expected seconds or None"):
        run.wait("abc")  # type: ignore[arg-type]
    assert run.cause is Cause.MANUAL


def test_a_wait_without_an_engine_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler(tmp_path / "app.db", name="app")
    own = job()(scheduler)
    command = scheduler.add("b", "@daily", command=["true"])

    with caplog.at_level(logging.WARNING), pytest.raises(TimeoutError):
        own.run_now().wait(0)
    with caplog.at_level(logging.WARNING), pytest.raises(TimeoutError):
        command.run_now().wait(0)

    assert [record.getMessage() for record in caplog.records] == [
        "run 1 of 'a' waits: the program 'app' is not running; start its engine: scheduler.start()",
        "run 2 of 'b' waits: no engine is running; start one: scheduler.start()",
    ]


def test_a_wait_for_a_run_on_another_machine_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(tmp_path / "app.db", name="app")
    far = job(on="web1")(scheduler)
    command = scheduler.add("b", "@daily", command=["true"], on="web1")
    start = "is not running; start its engine: scheduler.start()"

    with scheduler, caplog.at_level(logging.WARNING):
        for one in (far, command):
            with pytest.raises(TimeoutError):
                one.run_now().wait(0)

    assert [record.getMessage() for record in caplog.records] == [
        f"run 1 of 'a' waits: the program 'app' on web1 {start}",
        "run 2 of 'b' waits: no engine of web1 is running; start one on web1: scheduler.start()",
    ]


def test_a_traceback_shows_the_hint_below_the_error(tmp_path: Path) -> None:
    with pytest.raises(EdgecronError) as caught:
        Scheduler(tmp_path / "app.db").get("nosuch")

    assert traceback.format_exception_only(caught.value)[-1] == "hint: see: edgecron list\n"
