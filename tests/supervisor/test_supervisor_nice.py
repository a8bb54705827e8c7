"""The niceness of a command: given before it starts, and only to this command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.supervisor.protocol import EndCause
from tests.supervisor.supervisor_bench import Bench
from tests.support.accounts import as_root, identity

NICE = os.getpriority(os.PRIO_PROCESS, 0)
BELOW = """
import sys
from pathlib import Path
from tests.supervisor.supervisor_bench import Bench

bench = Bench(Path(sys.argv[1]))
record = bench.run("nice", nice=-20)
print(record.cause, record.error_code, record.started_ms, record.error_msg)
bench.close()
"""


def test_a_command_has_its_niceness_from_its_first_instruction(bench: Bench) -> None:
    nice = min(NICE + 5, 19)

    nicer = bench.run("nice", nice=nice)
    plain = bench.run("nice")

    assert bench.printed(nicer) == f"{nice}\n".encode()
    assert bench.printed(plain) == f"{NICE}\n".encode()


def test_a_nice_command_has_a_session_and_a_group_of_its_own_and_what_others_have(
    bench: Bench, tmp_path: Path
) -> None:
    line = 'cut -d" " -f5,6 /proc/$$/stat; ls /proc/$$/fd; pwd; echo $A; cat'

    record = bench.run_shell(
        line, nice=19, cwd=str(tmp_path), stdin="in", env={"PATH": os.environ["PATH"], "A": "b"}
    )

    pid = str(record.pid)
    printed = bench.printed(record).decode().split()
    assert printed == [pid, pid, "0", "1", "2", str(tmp_path), "b", "in"]


def test_a_nice_command_is_cancelled_and_overdue_like_any_other(bench: Bench) -> None:
    cancelled = bench.start("/bin/sleep", "60", nice=19)
    bench.started(cancelled)

    bench.link.cancel([cancelled])
    overdue = bench.run("/bin/sleep", "60", nice=19, timeout_ms=50)

    assert bench.ended(cancelled).cause is EndCause.CANCELLED
    assert overdue.cause is EndCause.TIMEOUT


@pytest.mark.failure(41)
def test_a_nice_command_that_is_missing_is_told_as_any_other(bench: Bench) -> None:
    for argv in (("no-such-command",), ("/no/such/command",)):
        nicer, plain = bench.run(*argv, nice=19), bench.run(*argv)

        assert nicer.cause is EndCause.SPAWN
        assert (nicer.error_code, nicer.error_msg) == (plain.error_code, plain.error_msg)


@as_root
def test_root_gives_another_user_s_command_any_niceness(bench: Bench) -> None:
    record = bench.run_shell("nice; id -un", nice=-5, identity=identity())

    assert bench.printed(record) == b"-5\nnobody\n"


def test_a_niceness_below_the_engine_s_own_needs_the_right_to_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", BELOW, str(tmp_path / "state")]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to give up a capability of root")
        argv = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", *argv]

    printed = subprocess.run(argv, capture_output=True, check=True, text=True).stdout

    assert printed == (
        "spawn EACCES None command 'nice' can't be started with nice -20:"
        " Permission denied; only root can go below the engine's own\n"
    )


def test_a_function_has_no_niceness_of_its_own() -> None:
    with pytest.raises(InvalidInput, match="functions run with the niceness of their program"):
        Job(kind=JobKind.CALLABLE, argv=("report",), nice=5)


@pytest.mark.parametrize("nice", [-21, 20])
def test_a_niceness_is_one_that_the_kernel_knows(nice: int) -> None:
    with pytest.raises(InvalidInput, match="expected -20 to 19"):
        Job(kind=JobKind.COMMAND, argv=("true",), nice=nice)
