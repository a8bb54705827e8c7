"""Schedules that a program adds at run time: they stay without a declaration."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgecron import Run, RunContext, Scheduler, every
from edgecron.base.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from edgecron.client import Client
from edgecron.client.doctor import check_all
from edgecron.embedding.testing import travel

BOUND_S = 20.0
MODULE = "reports_of_tests"
REPORTS = """
    from edgecron import RunContext, Scheduler

    sent = []

    def send(customer, copies=1):
        sent.append((customer, copies))
        return customer * copies

    async def fetch(host):
        return f"read {host}"

    def tell(run: RunContext, word="hello"):
        return [run.schedule, word]

    def find_process():
        import os
        return os.getpid()

    def numbers():
        yield 1

    def fail():
        raise LookupError("no customer")

    class Sender:
        def send(self, customer): ...

        @classmethod
        def default(cls, word):
            return word.upper()

    def outer():
        def inner(): ...
        return inner

    wrong_name = outer()
    shout = lambda: None
    moved = send
    scheduler = Scheduler("declared.db")

    @scheduler.job("@daily")
    async def declared(n: int = 2) -> int:
        return n
"""


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / f"{MODULE}.py").write_text(textwrap.dedent(REPORTS))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    __import__(MODULE)
    yield sys.modules[MODULE]
    sys.modules.pop(MODULE, None)


def test_an_added_call_runs_after_a_restart_without_a_declaration(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    added = scheduler.add("report-7", "@daily", call=reports.send, args=["x"], kwargs={"copies": 3})
    assert added.schedule.spec.job.argv == (f"{MODULE}:send",)
    sys.modules.pop(MODULE)  # As after a restart: the engine imports the module by its name.

    later = Scheduler(scheduler.path, name=scheduler.name)
    with later:
        assert later.get("report-7").run_now().get(BOUND_S) == "xxx"


def test_a_coroutine_and_a_function_with_a_context_can_be_added(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    fetched = scheduler.add("fetch", "@daily", call=reports.fetch, args=["plc1"])
    told = scheduler.add("tell", "@daily", call=reports.tell)
    upper = scheduler.add("upper", "@daily", call=reports.Sender.default, args=["a"])
    declared = scheduler.add("again", "@daily", call=reports.declared, kwargs={"n": 5})

    with scheduler:
        assert fetched.run_now().get(BOUND_S) == "read plc1"
        assert fetched.run_now({"host": "plc2"}).get(BOUND_S) == "read plc2"
        assert told.run_now().get(BOUND_S) == ["tell", "hello"]
        assert upper.run_now().get(BOUND_S) == "A"
        assert declared.run_now().get(BOUND_S) == 5


def test_the_engine_of_another_process_runs_what_this_one_adds(
    scheduler: Scheduler, reports: ModuleType, tmp_path: Path
) -> None:
    program = "import sys; from edgecron import Scheduler; Scheduler(sys.argv[1]).run_forever()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(scheduler.path)],
        env={"PYTHONPATH": f"{tmp_path / 'code'}:{':'.join(sys.path)}"},
    ) as engine:
        try:
            added = scheduler.add("report", "@daily", call=reports.send, args=["x"])
            assert added.run_now().get(BOUND_S) == "x"
        finally:
            engine.terminate()


def test_an_added_call_can_run_in_a_process_of_its_own_under_any_engine(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    found = scheduler.add("find", "@daily", call=reports.find_process, process=True)
    sent = scheduler.add("sent", "@daily", call=reports.send, args=["x"], process=True)
    failed = scheduler.add("fail", "@daily", call=reports.fail, process=True)
    sent.change(args=["y", 3])

    later = Scheduler(scheduler.path, name=scheduler.name)
    assert later.prune() == []
    with later:
        assert found.run_now().get(BOUND_S) not in (None, os.getpid())
        assert sent.run_now().get(BOUND_S) == "yyy"
        run = failed.run_now().wait(BOUND_S)

    assert (run.status, run.error) == ("failed", "LookupError: no customer")
    with pytest.raises(InvalidInput, match="has process, but no call"):
        scheduler.add("list", "@daily", command=["ls"], process=True)  # type: ignore[call-overload]


def test_a_journey_calls_an_added_function_itself(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    scheduler.add("sent", "@daily", call=reports.send, args=["x"], process=True)

    with travel(scheduler, datetime(2026, 5, 1, 12, tzinfo=UTC)) as journey:
        journey.advance(days=1)

    assert reports.sent == [("x", 1)]


def test_a_path_that_can_not_be_imported_fails_its_run_and_doctor_names_it(
    scheduler: Scheduler, reports: ModuleType, tmp_path: Path
) -> None:
    added = scheduler.add("report", "@daily", call=reports.send, args=["x"])
    other = scheduler.add("tell", "@daily", call=reports.tell)
    sys.modules.pop(MODULE)
    (tmp_path / "code" / f"{MODULE}.py").unlink()

    with scheduler:
        run = added.run_now().wait(BOUND_S)
        other.run_now().wait(BOUND_S)

    assert (run.status, run.reason) == ("failed", "spawn")
    words = f"{MODULE}:send can't be imported: ModuleNotFoundError: No module named {MODULE!r}"
    assert run.error == f"ImportError: {words}"
    with Client(scheduler.path) as client:
        found = check_all(client, command="edgecron {}".format)
    [finding] = [one for one in found.findings if "report failed" in one.message]
    assert "can't import reports_of_tests:send" in (finding.hint or "")


def test_an_error_of_an_added_function_is_logged_as_that_of_a_declared_one(
    scheduler: Scheduler, reports: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    added = scheduler.add("report", "@daily", call=reports.fail)

    with scheduler:
        run = added.run_now().wait(BOUND_S)

    assert (run.reason, run.error) == ("exception", "LookupError: no customer")
    assert "job report failed" in caplog.text


WRONG: list[tuple[Callable[[ModuleType], Any], str]] = [
    (lambda m: m.shout, "it is a lambda"),
    (lambda m: m.wrong_name, "inner is within another function"),
    (lambda m: m.Sender().send, "Sender.send is a method of an instance"),
    (lambda m: partial(m.send, "x"), "has no name"),
    (lambda m: m.numbers, "numbers is a generator"),
    (lambda m: 5, "call is 5, expected a function"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_what_no_other_process_can_import_is_refused(
    scheduler: Scheduler, reports: ModuleType, call: Callable[[ModuleType], Any], words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        scheduler.add("report", "@daily", call=call(reports))

    assert words in caught.value.message
    assert caught.value.hint
    with pytest.raises(NotFound):
        scheduler.get("report")


def test_a_function_under_another_object_s_name_is_refused(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    former = reports.send
    reports.__dict__["send"] = print

    with pytest.raises(InvalidInput, match=f"{MODULE}:send is another object"):
        scheduler.add("report", "@daily", call=former)


def test_a_function_of_the_started_program_is_refused_with_a_hint(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            from edgecron import Scheduler
            def f(): ...
            Scheduler("app.db").add("report", "@daily", call=f)
        """)
    )

    told = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "f is part of the started program (__main__)" in told.stderr
    assert "hint: put the function in a module" in told.stderr


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"args": [1, 2, 3]}, "takes (customer, copies=1)"),
        ({}, "missing a required argument: 'customer'"),
        ({"args": ["x"], "kwargs": {"odd": 1}}, "unexpected keyword argument 'odd'"),
        ({"args": [object()]}, "object"),
        ({"args": "x"}, "args is 'x', expected a list"),
        ({"kwargs": [1]}, "kwargs is [1], expected a dict"),
        ({"args": ["x"], "env": {"A": "1"}}, "option 'env' is only for commands"),
        ({"args": ["x"], "shell": "true"}, "a call and a command"),
    ],
)
def test_wrong_arguments_of_a_call_are_refused(
    scheduler: Scheduler, reports: ModuleType, how: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        scheduler.add("report", "@daily", call=reports.send, **how)

    assert words in caught.value.message


def test_arguments_without_a_call_are_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="has args or kwargs, but no call"):
        scheduler.add("report", "@daily", command=["true"], args=["x"])  # type: ignore[call-overload]


def test_adding_the_same_again_changes_nothing_and_another_needs_replace(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    def add(copies: int, **how: Any) -> int:
        call = {"call": reports.send, "kwargs": {"customer": "x", "copies": copies}}
        return scheduler.add("report", "@daily", **call, **how).schedule.revision

    assert add(1) == add(1)
    with pytest.raises(AlreadyExists, match="differs in: payload") as caught:
        add(2)
    assert "test_embedding_added.py" in caught.value.message
    assert "replace=True" in (caught.value.hint or "")
    assert add(2, replace=True) == 2


def test_the_rule_is_the_same_for_a_command(scheduler: Scheduler) -> None:
    scheduler.add("rotate", "@daily", command=["true"])
    other = Scheduler(scheduler.path, name=scheduler.name)

    other.add("rotate", "@daily", command=["true"])
    with pytest.raises(AlreadyExists, match="differs in: command"):
        other.add("rotate", "@daily", command=["false"])
    other.add("rotate", "@daily", shell="true", replace=True)

    assert scheduler.get("rotate").schedule.spec.job.argv == ("true",)


def test_a_name_is_declared_or_added(scheduler: Scheduler, reports: ModuleType) -> None:
    scheduler.job("@daily", name="a")(print)
    scheduler.add("b", "@daily", call=reports.tell)

    with pytest.raises(AlreadyExists, match=r"declared and added .*added.py:\d+ and .*added.py:"):
        scheduler.add("a", "@daily", call=reports.tell)
    with pytest.raises(AlreadyExists, match="declared and added"):
        scheduler.job("@daily", name="b")(print)
    other = Scheduler(scheduler.path, name=scheduler.name)
    other.job("@daily", name="b")(print)
    with pytest.raises(AlreadyExists, match=r"'b' is declared at .*, and exists already: it was"):
        other.keep_declared()


def test_added_schedules_stay_when_the_program_prunes_and_never_vanish(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    scheduler.add("report", "@daily", call=reports.tell)
    scheduler.add("rotate", "@daily", command=["true"])
    other = Scheduler(scheduler.path, name=scheduler.name)

    assert other.prune() == []
    with other:
        assert other.get("report").schedule.vanished_at is None
    assert {one.name for one in other.schedules()} == {"report", "rotate"}


def test_the_start_of_the_program_keeps_a_change_of_an_added_schedule(
    scheduler: Scheduler,
) -> None:
    scheduler.add("rotate", "@daily", command=["true"])
    Scheduler(scheduler.path, name=scheduler.name).get("rotate").change("@hourly")

    with scheduler:
        assert scheduler.get("rotate").schedule.spec.triggers == ("@hourly",)


def test_change_sets_what_is_given_and_keeps_the_rest(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    entry = scheduler.add("report", "@daily", call=reports.send, args=["x"], retries=2)
    before = entry.schedule

    entry.change(when=every("5m"))
    timed = entry.schedule
    entry.change(retries=3, timeout="10s", kwargs={"customer": "y"})
    entry.change(["@hourly", "@daily"], description="both", timezone="Europe/Berlin")
    after = entry.schedule

    assert timed.spec.triggers == ("every 5m",)
    assert (timed.spec.job, timed.spec.policies) == (before.spec.job, before.spec.policies)
    assert len(after.spec.triggers) == 2
    assert (after.spec.policies.retries, after.spec.policies.timeout_s) == (3, 10.0)
    assert after.spec.job.payload == '{"customer":"y"}'
    assert (after.spec.description, after.spec.timezone) == ("both", "Europe/Berlin")
    entry.change(call=reports.tell, kwargs={})
    assert entry.schedule.spec.job.argv == (f"{MODULE}:tell",)
    assert entry.schedule.spec.job.payload is None


def test_change_of_a_command(scheduler: Scheduler) -> None:
    entry = scheduler.add("rotate", "@daily", command=["true"], env={"A": "1"})

    entry.change(shell="echo hello", payload={"n": 1}, timeout=None)

    job = entry.schedule.spec.job
    assert (job.kind, job.argv, job.payload) == ("shell", ("echo hello",), '{"n":1}')
    assert job.env == {"A": "1"}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"shell": "true"}, "calls a function, so command"),
        ({"payload": {}}, "has no payload"),
        ({"args": []}, "missing a required argument"),
        ({"retry": 3}, "option 'retry' is unknown"),
        ({"env": {}}, "only for commands"),
        ({"when": 5}, "5 is not a trigger"),
        ({"call": print, "args": ["x"], "timeout": "soon"}, "soon"),
    ],
)
def test_a_wrong_change_is_refused_and_changes_nothing(
    scheduler: Scheduler, reports: ModuleType, how: dict[str, Any], words: str
) -> None:
    entry = scheduler.add("report", "@daily", call=reports.send, args=["x"])

    with pytest.raises(InvalidInput) as caught:
        entry.change(**how)

    assert words in caught.value.message
    assert entry.schedule.revision == 1


def test_a_declared_schedule_changes_in_code_only(scheduler: Scheduler) -> None:
    scheduler.job("@daily", name="poll")(print)
    entry = scheduler.get("poll")

    for act in (entry.change, entry.remove, partial(entry.add_scopes, "device:a")):
        with pytest.raises(Conflict, match=r"'poll' is declared in code, at .*added.py:\d+"):
            act()


def test_scopes_come_and_go(scheduler: Scheduler) -> None:
    entry = scheduler.add("poll", "@daily", shell="true")

    def scopes() -> list[str]:
        return [one for _, one in entry.schedule.spec.scopes]

    entry.remove_scopes("device:a")
    assert scopes() == [""]
    entry.add_scopes("device:a", "device:b")
    entry.add_scopes("device:b", "device:c")
    assert scopes() == ["a", "b", "c"]
    entry.remove_scopes("device:a", "device:x")
    assert scopes() == ["b", "c"]
    with pytest.raises(InvalidInput, match="no scope left"):
        entry.remove_scopes("device:b", "device:c")
    with pytest.raises(InvalidInput, match="scope is 5, expected text"):
        entry.add_scopes(5)  # type: ignore[arg-type]
    assert [run.scope for run in entry.fire()] == [("device", "b"), ("device", "c")]


def test_a_removed_schedule_is_gone_and_can_be_added_again(scheduler: Scheduler) -> None:
    entry = scheduler.add("rotate", "@daily", command=["true"])

    entry.remove()
    with pytest.raises(NotFound):
        entry.remove()
    with scheduler:
        assert scheduler.schedules() == []
    scheduler.add("rotate", "@hourly", command=["true"])
    assert scheduler.get("rotate").schedule.spec.triggers == ("@hourly",)


def test_coroutines_have_the_same_calls(scheduler: Scheduler, reports: ModuleType) -> None:
    async def main() -> list[object]:
        entry = await scheduler.aadd("report", "@daily", call=reports.send, args=["x"])
        await entry.achange("@hourly", kwargs={"customer": "y"})
        await entry.aadd_scopes("device:a", "device:b")
        await entry.aremove_scopes("device:a")
        await entry.apause()
        await entry.aresume()
        schedule = await entry.aschedule()
        async with scheduler:
            found: object = await (await entry.arun_now()).aget()
        await entry.aremove()
        return [schedule.spec.triggers, schedule.spec.scopes, found]

    assert asyncio.run(main()) == [("@hourly",), (("device", "b"),), "y"]


def test_a_journey_runs_added_calls_at_their_times(
    scheduler: Scheduler, reports: ModuleType
) -> None:
    scheduler.add("report", "@daily", call=reports.send, args=["x"])
    scheduler.add("fetch", "@daily", call=reports.fetch, args=["plc1"])

    with travel(scheduler, datetime(2026, 3, 28, tzinfo=UTC)) as journey:
        journey.advance(days=2)
        runs: list[Run[object]] = journey.runs()
        results = [run.result for run in runs]

    assert sorted(map(str, results)) == ["read plc1", "read plc1", "x", "x"]


def test_middleware_is_around_added_calls(scheduler: Scheduler, reports: ModuleType) -> None:
    seen: list[str] = []

    @scheduler.middleware
    def note(run: RunContext) -> Iterator[None]:
        seen.append(run.schedule)
        yield

    with scheduler:
        scheduler.add("tell", "@daily", call=reports.tell).run_now().get(BOUND_S)

    assert seen == ["tell"]
