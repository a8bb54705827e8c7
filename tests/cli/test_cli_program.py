"""The installed program: real processes, signals, pipes and start-up."""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgecron.cli.commands import COMMANDS
from tests.support.program import PROGRAM

BOUND_S = 30.0
HEAVY = [
    "apsw.ext", "asyncio", "concurrent", "croniter", "edgecron.engine.step",
    "edgecron.supervisor.launch", "logging", "rich", "socket", "subprocess", "textual",
]  # fmt: skip

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    return {
        **os.environ,
        "EDGECRON_DB": str(tmp_path / "edgecron.db"),
        "TMPDIR": str(temporary),
        "TZ": "UTC",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start the program; what is left of it at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(*words: str, **more: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*PROGRAM, *words],
            env={**environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # So that nothing that was read ahead hides from select.
            bufsize=0,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=BOUND_S)


def run(start: Start, *words: str, **more: str) -> tuple[int, str, str]:
    process = start(*words, **more)
    out, err = process.communicate(timeout=BOUND_S)
    return process.returncode, out.decode(), err.decode()


def read_until(process: subprocess.Popen[bytes], text: str) -> list[str]:
    """Lines of stdout until one holds the text; the bound makes a hang a failure."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        ready, _, _ = select.select([process.stdout], [], [], BOUND_S)
        assert ready, f"no {text!r} in time after {lines}"
        line = process.stdout.readline().decode()
        assert line, f"ended without {text!r}: {lines}"
        lines.append(line)
    return lines


@pytest.mark.failure(36)
def test_the_daemon_runs_what_is_due_and_ends_on_term(start: Start) -> None:
    run(start, "add", "tick", "--every", "1s", "--", "echo", "tock")
    daemon = start("daemon")

    lines = read_until(daemon, "status=success")
    code, status, _ = run(start, "status", "--json")
    daemon.send_signal(signal.SIGTERM)
    out, err = daemon.communicate(timeout=BOUND_S)

    assert any("event=started run=" in line for line in lines)
    assert all(line.startswith("ts=20") for line in [*lines, *out.decode().splitlines()])
    assert err.decode().startswith("ts=20")
    [found] = json.loads(status)
    assert code == 0
    assert [engine["pid"] for engine in found["engines"] if engine["alive"]] == [daemon.pid]
    assert daemon.returncode == 0
    assert b"event=engine_stopped" in out
    assert f"pid={daemon.pid} schedules=1 next=tick next_run_at=20" in err.decode()
    assert all("=" in word for line in err.decode().splitlines() for word in line.split())
    assert run(start, "logs", "tick")[1] == "tock\n"
    assert "no engine" in run(start, "run", "tick")[2]


def test_the_daemon_says_that_it_made_a_database(start: Start) -> None:
    said = []
    for _ in range(2):
        daemon = start("daemon")
        read_until(daemon, "engine_started")
        daemon.send_signal(signal.SIGTERM)
        said.append(daemon.communicate(timeout=BOUND_S)[1])

    assert b"new_database=true" in said[0]
    assert b"new_database" not in said[1]


def test_the_log_is_json_where_that_is_asked_for(start: Start) -> None:
    run(start, "add", "tick", "--every", "1s", "--priority", "high", "--shell", "exit 3")
    [schedule] = json.loads(run(start, "list", "--json")[1])
    daemon = start("daemon", "--log-format", "json")

    lines = [json.loads(line) for line in read_until(daemon, '"ended"')]
    daemon.send_signal(signal.SIGINT)

    assert [line["event"] for line in lines[:2]] == ["starting", "engine_started"]
    ended = lines[-1]
    assert (ended["schedule"], ended["status"], ended["exit_code"]) == ("tick", "failed", 3)
    assert ended["ts"].endswith("Z")
    assert ended["schedule_id"] == schedule["id"]
    assert (ended["job_name"], ended["run_id"]) == ("tick", ended["run"])
    assert (ended["priority"], ended["level"]) == (schedule["priority"], "error")
    assert ended["next_run_at"] > ended["ts"][:-1].split(".")[0]
    assert all({"ts", "level", "msg", "component"} <= line.keys() for line in lines)
    assert daemon.wait(timeout=BOUND_S) == 0


@pytest.mark.failure(36)
def test_a_second_signal_ends_the_daemon_at_once(start: Start, tmp_path: Path) -> None:
    run(start, "add", "tick", "--every", "1s", "--", "true")
    daemon = start("daemon")
    read_until(daemon, "status=success")
    # Somebody holds the write lock, so that it can't say goodbye to the database.
    locker = sqlite3.connect(tmp_path / "edgecron.db", isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")

    daemon.send_signal(signal.SIGTERM)
    daemon.send_signal(signal.SIGINT)

    assert daemon.wait(timeout=BOUND_S / 2) in (-signal.SIGTERM, -signal.SIGINT)
    locker.close()


_ON_WINDOWS = """
import os, sys
sys.platform = "win32"
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("getuid", "geteuid", "getgid", "getegid", "fork"):
    delattr(os, name)
from edgecron.__main__ import main
main()
"""


@pytest.mark.parametrize("words", [(), ("--version",), ("add", "x", "--every", "1h", "--", "y")])
def test_on_windows_one_sentence_says_that_it_is_not_supported(words: tuple[str, ...]) -> None:
    said = subprocess.run(
        [sys.executable, "-c", _ON_WINDOWS, *words], capture_output=True, text=True, check=False
    )

    assert said.returncode == 2
    assert said.stdout == ""
    assert said.stderr == "edgecron: Windows is not supported: use Linux, macOS or WSL\n"


@pytest.mark.failure(37)
def test_the_daemon_ends_cleanly_when_its_terminal_closes(start: Start) -> None:
    run(start, "add", "tick", "--every", "1s", "--", "true")
    daemon = start("daemon")
    read_until(daemon, "status=success")

    daemon.send_signal(signal.SIGHUP)

    assert daemon.wait(timeout=BOUND_S) == 0


def test_a_run_is_waited_for_where_another_engine_runs_it(start: Start) -> None:
    run(start, "add", "job", "--every", "1h", "--shell", "echo done; exit 9")
    daemon = start("daemon")
    read_until(daemon, "engine_started")

    code, out, _ = run(start, "run", "job", "--wait")

    assert (code, out) == (9, "done\n")
    read_until(daemon, "status=failed")
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(timeout=BOUND_S) == 0


def test_a_run_that_waits_says_for_which_one(start: Start, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    run(start, "add", "slow", "--every", "1h", "--overlap", "queue", "--shell", f"read x < {fifo}")
    daemon = start("daemon")
    read_until(daemon, "engine_started")
    run(start, "run", "slow")
    read_until(daemon, "event=started")

    waiting = start("run", "slow", "--wait")
    assert waiting.stderr is not None
    assert select.select([waiting.stderr], [], [], BOUND_S)[0]
    line = waiting.stderr.readline().decode()
    for _ in range(2):
        fifo.write_text("on\n")
        read_until(daemon, "status=success")

    assert line == "edgecron: run 2 waits: run 1 is still running\n"
    assert waiting.wait(timeout=BOUND_S) == 0
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(timeout=BOUND_S) == 0


def test_ctrl_c_ends_a_run_that_is_run_from_here(start: Start, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    run(start, "add", "long", "--every", "1h", "--shell", f"echo up > {fifo}; exec sleep 300")
    waiting = start("run", "long", "--wait")
    fd = os.open(fifo, os.O_RDWR)
    assert select.select([fd], [], [], BOUND_S)[0]

    waiting.send_signal(signal.SIGINT)

    assert waiting.wait(timeout=BOUND_S) == 130
    os.close(fd)
    [execution] = json.loads(run(start, "history", "--json")[1])
    assert (execution["status"], execution["reason"]) == ("cancelled", "request")


def test_the_demo_shows_runs_and_leaves_nothing(start: Start, environment: dict[str, str]) -> None:
    code, out, err = run(start, "demo", "--seconds", "3")

    assert (code, err) == (0, "")
    for word in ("hello from run", "success", "LAST OUTPUT", "try it yourself", "edgecron daemon"):
        assert word in out
    assert os.listdir(environment["TMPDIR"]) == []
    assert not os.path.exists(environment["EDGECRON_DB"])


def test_the_demo_says_how_a_shell_finds_a_program_that_was_called_by_its_path(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    program = tmp_path / "bin" / "edgecron"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom edgecron.__main__ import main\nmain()\n")
    program.chmod(0o755)

    def shown(path: str) -> str:
        called = [str(program), "demo", "--seconds", "1"]
        return subprocess.check_output(called, env={**environment, "PATH": path}, text=True)

    assert f"\n  export PATH={program.parent}:$PATH\n" in shown(f"{tmp_path}")
    assert "export PATH" not in shown(f"{program.parent}")


def test_the_demo_leaves_nothing_on_ctrl_c(start: Start, environment: dict[str, str]) -> None:
    demo = start("demo", "--seconds", "600")
    read_until(demo, "success")

    demo.send_signal(signal.SIGINT)
    out, _ = demo.communicate(timeout=BOUND_S)

    assert demo.returncode == 0
    assert b"LAST OUTPUT" in out
    assert os.listdir(environment["TMPDIR"]) == []


@pytest.mark.failure(75)
@pytest.mark.parametrize(
    "words", [("check", "* * * * *", "-n", "10000"), ("add", "--help"), ("next", "-n", "10000")]
)
def test_a_closed_pipe_is_a_clean_exit(start: Start, words: tuple[str, ...]) -> None:
    run(start, "add", "x", "--every", "1m", "--", "true")
    process = start(*words)
    assert process.stdout is not None

    process.stdout.close()

    assert process.stderr is not None
    assert process.wait(timeout=BOUND_S) == 0
    assert process.stderr.read() == b""


@pytest.mark.failure(73)
def test_a_locale_that_can_not_show_a_letter_is_no_reason_to_fail(start: Start) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TERM": "dumb", "COLUMNS": "1"}
    run(start, "add", "x", "--every", "1m", "--description", "Grüße 🎉", "--", "echo", "ü")

    for words in (
        ("list",),
        ("show", "x"),
        ("status",),
        ("next",),
        ("check", "30 2 * * *"),
        ("doctor",),
    ):
        code, out, err = run(start, *words, **ascii_only)
        assert code == 0, err
        assert out.isascii()
    shown = json.loads(run(start, "show", "x", "--json", **ascii_only)[1])
    assert shown[0]["description"] == "Grüße 🎉"


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("--help",),
        ("list",),
        ("history",),
        ("next",),
        ("logs", "x"),
        ("show", "x"),
        ("pause", "x"),
        ("resume", "x"),
        ("rm", "x"),
        ("add", "y", "--every", "5m", "--", "true"),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(
    start: Start, environment: dict[str, str], words: tuple[str, ...]
) -> None:
    run(start, "add", "x", "--every", "1m", "--", "true")

    assert loaded(HEAVY, by=words, environment=environment) == "[]"


def test_a_list_loads_what_reads_schedules_and_not_what_fires_them(
    start: Start, environment: dict[str, str]
) -> None:
    run(start, "add", "x", "--every", "1m", "--", "true")
    rooms = ["edgecron.store.contract", "edgecron.store.sql.due", "edgecron.triggers"]

    assert loaded(rooms, by=("list",), environment=environment) == "[]"
    assert loaded(rooms[2:], by=("next",), environment=environment) == "['edgecron.triggers']"


def loaded(names: list[str], *, by: tuple[str, ...], environment: dict[str, str]) -> str:
    """Return which of some modules a command has loaded when it ends, as Python shows a list."""
    script = (
        "import sys, edgecron.cli\n"
        f"edgecron.cli.run({list(by)!r})\n"
        f"print([name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    return found.stderr.splitlines()[-1]


def test_help_shows_examples_first(start: Start) -> None:
    code, out, _ = run(start, "add", "--help")

    assert code == 0
    assert out.index("edgecron add nightly --cron") < out.index("usage:") < out.index("--jitter")
    assert run(start, "--help")[1].index("edgecron add") < 200
    assert run(start, "--version")[1].startswith("edgecron ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_the_terminal_and_indents_its_examples(start: Start, command: str) -> None:
    code, out, _ = run(start, command, "--help", COLUMNS="80")

    examples = out.split("\n\n")[1].splitlines()
    prose = out[: out.index("usage:")].split("\n\n")[2:]
    assert code == 0
    assert all(line.startswith("    ") and "edgecron" in line for line in examples)
    assert all(len(line) <= 80 for part in [*prose, *examples] for line in part.splitlines())


def test_help_names_the_statuses(start: Start) -> None:
    out = run(start, "history", "--help", COLUMNS="200")[1]

    assert "queued, running, success, failed, skipped, cancelled, interrupted" in out


def test_without_a_verb_it_is_status(start: Start, environment: dict[str, str]) -> None:
    database = environment["EDGECRON_DB"]

    missing = run(start)
    run(start, "add", "tick", "--every", "1h", "--", "true")
    code, out, _ = run(start)

    assert missing[:2] == (3, "")
    assert f"database {database} does not exist (named by EDGECRON_DB)" in missing[2]
    assert code == 0
    assert database in out
    assert "1 schedule" in out
