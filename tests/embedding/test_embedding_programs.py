"""Whole programs: what they load, how they end, and what a type checker says of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.embedding.own_engine import stopping_words
from edgecron.model.choices import Reason, Status

BOUND_S = 30.0


def written(folder: Path, text: str) -> Path:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(text))
    return program


def started(program: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


FOREVER = """
    import sys, threading
    from edgecron import Scheduler

    scheduler = Scheduler(sys.argv[1])

    @scheduler.job("@daily")
    def one() -> int:
        return 1

    @scheduler.job("@daily")
    def hang() -> None:
        print("hangs", flush=True)
        threading.Event().wait()

    def tell() -> None:
        print(one.run_now().wait(20).status, flush=True)
        if len(sys.argv) > 2:
            hang.run_now()

    threading.Thread(target=tell).start()
    scheduler.run_forever()
    print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_program_in_the_foreground_ends_well_on_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    with started(written(tmp_path, FOREVER), str(tmp_path / "app.db")) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "success\n"
        running.send_signal(number)
        assert running.stdout.read() == "ended\n"
        assert running.wait(BOUND_S) == 0

    with Client(tmp_path / "app.db") as client:
        assert client.engines() == []


def test_a_program_in_the_foreground_says_what_it_waits_for(tmp_path: Path) -> None:
    with started(written(tmp_path, FOREVER), str(tmp_path / "app.db"), "hang") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "success\n"
        assert running.stdout.readline() == "hangs\n"
        running.terminate()
        said = running.stderr.readline()
        if said.startswith("run 1 of 'one' waits: "):  # It was asked for before the engine started.
            said = running.stderr.readline()
        assert said == (
            "edgecron is stopping: waiting up to 10 s for 1 function to end (hang);"
            " a second signal ends this program immediately\n"
        )
        running.terminate()
        assert running.wait(BOUND_S) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({"on_shutdown": "wait", "runs": 2}, "waiting for 2 runs to end"),
        ({"on_shutdown": "stop", "runs": 1, "functions": 1}, "ending 1 run"),
        (
            {"on_shutdown": "leave", "runs": 3, "functions": 2, "called": ["copy", "poll"]},
            "waiting up to 0.5 s for 2 functions to end (copy, poll), leaving 1 command running",
        ),
        (
            {"on_shutdown": "leave", "runs": 6, "functions": 6, "called": list("abcdef")},
            "waiting up to 0.5 s for 6 functions to end (a, b, c, d, e, ...)",
        ),
    ],
)
def test_what_is_waited_for_is_told_by_what_becomes_of_it(
    details: dict[str, object], words: str
) -> None:
    told = stopping_words(details, wait_s=0.5)

    assert told == f"edgecron is stopping: {words}; a second signal ends this program immediately"


def test_a_second_signal_ends_the_program_at_once(tmp_path: Path) -> None:
    with started(written(tmp_path, FOREVER), str(tmp_path / "app.db"), "hang") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "success\n"
        assert running.stdout.readline() == "hangs\n"
        running.terminate()
        while running.poll() is None:  # One that comes too soon is one with the first.
            running.terminate()
        assert running.returncode == -signal.SIGTERM

    with Client(tmp_path / "app.db") as client:
        client.take_over()
        hung = client.last_run("hang")
    assert (hung.status, hung.reason) == (Status.INTERRUPTED, Reason.LOST)


@pytest.mark.failure(79)
def test_an_interpreter_that_ends_mid_run_is_not_held_up_and_the_run_was_interrupted(
    tmp_path: Path,
) -> None:
    program = written(
        tmp_path,
        """
        import sys, threading
        from edgecron import Scheduler

        scheduler = Scheduler(sys.argv[1], shutdown_timeout=0.2)
        entered = threading.Event()

        @scheduler.job("@daily")
        def hang() -> None:
            entered.set()
            threading.Event().wait()

        scheduler.start()
        hang.run_now()
        assert entered.wait(20)
        print("leaves", flush=True)
        """,
    )
    with started(program, str(tmp_path / "app.db")) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "leaves\n"
        assert running.wait(BOUND_S) == 0

    with Client(tmp_path / "app.db") as client:
        client.take_over()
        run = client.last_run("hang")
    assert (run.status, run.reason) == (Status.INTERRUPTED, Reason.LOST)


LIGHT = """
import sys, threading
from edgecron import Scheduler, cron, every
print(threading.active_count(), *sorted(sys.modules))
"""


def test_importing_starts_no_thread_and_loads_little() -> None:
    told = subprocess.run(
        [
            *(sys.executable, "-c"),
            LIGHT,
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    count, *modules = told.stdout.split()

    assert count == "1"
    heavy = {"asyncio", "croniter", "textual", "rich", "logging", "ssl", "http", "apsw"}
    assert heavy & set(modules) == set()


CALLER = """
    from typing import assert_type
    from edgecron import Job, Run, RunContext, Scheduler, cron, every

    scheduler = Scheduler("app.db", timezone="Europe/Berlin")

    @scheduler.job(every("5m"), retries=3, timeout="30s", overlap="skip")
    def poll(host: str = "plc1", *, port: int = 502) -> int:
        return port

    @scheduler.job(cron("0 2 * * *"), catch_up="once")
    async def backup() -> str:
        return ""

    @scheduler.job("@daily", payload={"source": "/srv"})
    def copy(run: RunContext, source: str) -> bool:
        return run.attempt == 1

    @scheduler.job("@daily")
    async def clean(run: RunContext, days: int = 3) -> None: ...

    assert_type(poll("plc2", port=1), int)
    run = poll.run_now("plc2", port=1502)
    assert_type(run, Run[int])
    assert_type(run.wait(3).result, int | None)
    assert_type(backup.run_now(), Run[str])
    assert_type(copy.run_now("/home"), Run[bool])
    assert_type(clean.run_now(days=2), Run[None])

    async def main() -> None:
        async with scheduler as same:
            assert_type(same, Scheduler)
            assert_type(await backup(), str)
            assert_type(await backup.run_now(), Run[str])

    for past in poll.history(status="failed"):
        assert_type(past.result, int | None)
    scheduler.add("rotate", "@daily", command=["logrotate", "/etc/lr.conf"]).fire()
"""
WRONG = """
    poll(5)
    poll.run_now(5)
    poll.run_now("plc2", port="x")
    poll.run_now(hst="plc2")
    copy("/home")
    copy.run_now(5)
    scheduler.job(every("5m"), retry=3)
    scheduler.job(every("5m"), overlap="maybe")
    scheduler.add("rotate", "@daily", command=3)
"""


def checked(folder: Path, text: str) -> list[str]:
    program = written(folder, text)
    told = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary"),
            *("--cache-dir", str(folder / "cache"), "--config-file", os.devnull, str(program)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MYPYPATH": str(Path(__file__).parents[2])},
    )
    assert told.returncode in (0, 1), told.stderr
    return told.stdout.splitlines()


@pytest.mark.needs_package("mypy")
def test_a_type_checker_finds_each_wrong_argument_and_nothing_else(tmp_path: Path) -> None:
    right, wrong = textwrap.dedent(CALLER), textwrap.dedent(WRONG)
    first = len(right.splitlines())

    found = checked(tmp_path, right + wrong)

    errors = {int(line.split(":")[1]) for line in found if ": error:" in line}
    assert errors == {first + 1 + number for number in range(1, len(wrong.splitlines()))}


@pytest.mark.needs_package("mypy")
def test_a_type_checker_finds_nothing_in_the_recipes(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    # One after the other: the second finds in the cache what the first has learnt of the package.
    for folder, *what in (
        ("web", "children.py", "fastapi_app.py", "flask_app.py", "jobs.py", "worker.py"),
        ("shop", "orders", "shop"),
        ("middleware", "errors.py", "tracing.py"),
        ("tested", "app.py", "cases.py", "fixtures.py"),
    ):
        told = subprocess.run(
            [
                *(sys.executable, "-m", "mypy", "--check-untyped-defs", "--ignore-missing-imports"),
                *("--no-error-summary", "--config-file=", "--cache-dir", str(tmp_path), *what),
            ],
            cwd=tests / "recipes" / folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "MYPYPATH": str(tests.parent)},
        )

        assert (told.stdout, told.returncode) == ("", 0), told.stderr
