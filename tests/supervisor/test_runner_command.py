"""Claims in, outcomes out, with a real supervisor between."""

from __future__ import annotations

import itertools
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.clock import SystemClock
from edgecron.model.choices import Cause, JobKind, Reason, StallAction, Status
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import OUTPUT_CAP_BYTES, Claim, Outcome, error_code_of
from edgecron.supervisor.command_runner import CommandRunner, Part, outcome_of
from edgecron.supervisor.journal import Exit, Interrupted, NeverStarted
from edgecron.supervisor.launch import start
from edgecron.supervisor.link import SupervisorLink
from edgecron.supervisor.protocol import EndCause, ExitRecord
from edgecron.supervisor.run_session import LeftGroup, end_left_group
from edgecron.supervisor.runner import Runner
from tests.supervisor.supervisor_bench import Bell
from tests.support.accounts import as_root
from tests.support.verdicts import verdict

BOUND_MS = 20_000
_POLICIES = ("timeout_s", "stall_timeout_s", "stall_action", "ok_codes")
NUMBERS = itertools.count(1)


def claim(*argv: str, kind: JobKind = JobKind.COMMAND, **changes: Any) -> Claim:
    number = next(NUMBERS)
    job = Job(kind=kind, argv=argv, **{"cwd": "/", **changes.pop("job", {})})
    values: dict[str, Any] = {
        "execution_id": number,
        "lease_token": f"lease-{number}",
        "schedule_id": 7,
        "schedule": "backup",
        "job": job,
        "plan_ms": 0,
        "due_ms": 0,
        "fire_key": "",
        "cause": Cause.SCHEDULE,
        "attempt": 1,
        "max_attempts": 1,
        "scope_kind": "global",
        "scope_id": "",
        "policies": Policies(**{name: changes.pop(name) for name in _POLICIES if name in changes}),
    }
    return Claim(**(values | changes))


def shell(line: str, **changes: Any) -> Claim:
    return claim(line, kind=JobKind.SHELL, **changes)


def collect_all(runner: Runner) -> dict[int, Outcome]:
    """Outcomes by execution, until nothing is live."""
    poller = select.poll()
    poller.register(runner.fileno(), select.POLLIN)
    outcomes: dict[int, Outcome] = {}
    while runner.live_count:
        assert poller.poll(BOUND_MS), "no outcome came"
        outcomes |= {outcome.execution_id: outcome for outcome in runner.collect()}
    return outcomes


def run(runner: Runner, one: Claim) -> Outcome:
    runner.start([one])
    return collect_all(runner)[one.execution_id]


def printed(outcome: Outcome) -> bytes:
    assert outcome.output is not None
    return b"".join(chunk.content for chunk in outcome.output.chunks)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[SupervisorLink]:
    link = start(tmp_path / "state", clock=SystemClock())
    yield link
    if link.is_alive:
        link.stop_all()
    link.close()


@pytest.fixture
def runner(link: SupervisorLink) -> CommandRunner:
    return CommandRunner(link, clock=SystemClock())


def test_a_command_that_succeeds(runner: CommandRunner) -> None:
    one = claim("/bin/echo", "hello")

    outcome = run(runner, one)

    assert outcome.execution_id == one.execution_id
    assert outcome.lease_token == one.lease_token
    assert (outcome.status, outcome.reason) == (Status.SUCCESS, None)
    assert (outcome.exit_code, outcome.error_msg, outcome.flags) == (0, None, ())
    assert outcome.started_ms is not None
    assert outcome.started_ms <= outcome.finished_ms
    assert printed(outcome) == b"hello\n"


@pytest.mark.parametrize(
    ("line", "changes", "status", "reason", "code", "words"),
    [
        ("exit 3", {}, Status.FAILED, Reason.EXIT, 3, "exit code 3"),
        ("exit 3", {"ok_codes": (0, 3)}, Status.SUCCESS, None, 3, None),
        ("exit 0", {"ok_codes": (3,)}, Status.FAILED, Reason.EXIT, 0, "exit code 0"),
        ("kill -9 $$", {}, Status.FAILED, Reason.SIGNAL, 137, "ended by SIGKILL"),
        ("kill -9 $$", {"ok_codes": (137,)}, Status.SUCCESS, None, 137, None),
        (
            "exec sleep 60",
            {"timeout_s": 0.1},
            Status.FAILED,
            Reason.TIMEOUT,
            143,
            "ran longer than 100ms, and was ended",
        ),
        (
            "true",
            {"job": {"cwd": "/no/such"}},
            Status.FAILED,
            Reason.SPAWN,
            None,
            "folder '/no/such' is missing",
        ),
        (
            "true",
            {"job": {"env_file": "/no/such"}},
            Status.FAILED,
            Reason.SPAWN,
            None,
            "environment file '/no/such' is missing",
        ),
        (
            "true",
            {"job": {"user": "no-such-user"}},
            Status.FAILED,
            Reason.SPAWN,
            None,
            "user 'no-such-user' is unknown on this machine",
        ),
    ],
)
def test_each_end_has_its_outcome(
    runner: CommandRunner,
    line: str,
    changes: dict[str, Any],
    status: Status,
    reason: Reason | None,
    code: int | None,
    words: str | None,
) -> None:
    outcome = run(runner, shell(line, **changes))

    assert (outcome.status, outcome.reason, outcome.exit_code) == (status, reason, code)
    assert outcome.error_msg == words
    assert (outcome.output is None) == (outcome.started_ms is None)


@pytest.mark.failure(60)
def test_nothing_is_put_into_a_shell(runner: CommandRunner, tmp_path: Path) -> None:
    trap = f"$(touch {tmp_path}/touched)"
    one = claim(
        "/usr/bin/printf",
        "%s",
        trap,
        scope_id=trap,
        job={"payload": trap, "env": {"X": trap}, "stdin": trap},
    )

    outcome = run(runner, one)

    assert printed(outcome) == trap.encode()
    assert not (tmp_path / "touched").exists()


def test_a_shell_line_is_taken_whole_by_the_shell_that_is_asked_for(
    runner: CommandRunner,
) -> None:
    plain = shell("echo $0 $SHELL; echo 100%")
    other = shell("echo $0", job={"env": {"SHELL": "/bin/bash"}})
    relative = shell("echo $0", job={"env": {"SHELL": "bash"}})

    runner.start([plain, other, relative])
    outcomes = collect_all(runner)

    assert printed(outcomes[plain.execution_id]) == b"/bin/sh /bin/sh\n100%\n"
    assert printed(outcomes[other.execution_id]) == b"/bin/bash\n"
    assert printed(outcomes[relative.execution_id]) == b"/bin/sh\n"


def test_a_callable_is_never_taken_for_a_shell_line(runner: CommandRunner, tmp_path: Path) -> None:
    outcome = run(runner, claim(f"touch {tmp_path}/made", kind=JobKind.CALLABLE))

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.SPAWN)
    assert "callable" in (outcome.error_msg or "")
    assert list(tmp_path.glob("made")) == []


def test_home_is_the_folder_unless_told(link: SupervisorLink, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    runner = CommandRunner(link, clock=SystemClock(), environ={"HOME": str(home)})

    at_home = run(runner, claim("/bin/pwd", job={"cwd": None}))
    below = run(runner, claim("/bin/pwd", job={"cwd": "~/sub"}))

    assert printed(at_home).decode().strip() == str(home)
    assert printed(below).decode().strip() == str(home / "sub")


@as_root
def test_a_command_of_another_user_finds_itself_there(runner: CommandRunner) -> None:
    outcome = run(runner, shell("id -un; echo $USER $LOGNAME $HOME", job={"user": "nobody"}))

    assert printed(outcome) == b"nobody\nnobody nobody /nonexistent\n"


@as_root
@pytest.mark.failure(65)
def test_a_command_of_another_user_finds_what_is_in_a_file_of_root_s(
    runner: CommandRunner, tmp_path: Path
) -> None:
    secret = tmp_path / "env"
    secret.write_text("A=file\nB=file\nHOME=/file\n")
    secret.chmod(0o600)
    job = {"user": "nobody", "env_file": str(secret), "env": {"B": "own"}}

    outcome = run(runner, shell("echo $A $B $HOME $USER", job=job))

    assert printed(outcome) == b"file own /file nobody\n"


@pytest.mark.failure(64)
def test_a_command_finds_nothing_that_was_not_meant_for_it(
    runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")

    outcome = run(runner, claim("/usr/bin/env"))

    allowed = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "TMPDIR"}
    allowed |= {"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}
    names = {line.split("=")[0] for line in printed(outcome).decode().splitlines()}
    assert {name for name in names - allowed if not name.startswith(("LC_", "EDGECRON_"))} == set()


@pytest.mark.failure(41)
def test_a_part_of_a_program_whose_folder_is_gone_is_not_started_and_says_so(
    link: SupervisorLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Part(("/bin/true",), os.environ)
    runner = CommandRunner(link, clock=SystemClock(), part_of=lambda claim: part)
    folder = tmp_path / "release"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()

    outcome = run(runner, claim("true"))

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.SPAWN)
    assert outcome.error_msg == (
        "the folder that this program runs in is gone: No such file or directory"
    )


def test_a_result_is_part_of_the_outcome(runner: CommandRunner) -> None:
    outcome = run(runner, shell("""echo '{"rows": 3}' >"$EDGECRON_RESULT" """))

    assert (outcome.status, outcome.result) == (Status.SUCCESS, '{"rows": 3}')


def test_a_cancel_is_an_outcome(runner: CommandRunner) -> None:
    one = shell("exec sleep 60")
    runner.start([one])

    runner.cancel(one.lease_token)
    outcome = collect_all(runner)[one.execution_id]

    assert (outcome.status, outcome.reason) == (Status.CANCELLED, Reason.REQUEST)


def test_stop_ends_all_that_runs(runner: CommandRunner, bell: Bell) -> None:
    claims = [shell(f"echo > {bell.path}; exec sleep 60") for _ in range(3)]
    runner.start(claims)
    bell.wait(3)

    runner.stop()
    outcomes = collect_all(runner)

    assert outcomes.keys() == {one.execution_id for one in claims}
    assert {(outcome.status, outcome.reason) for outcome in outcomes.values()} == {
        (Status.CANCELLED, Reason.SHUTDOWN)
    }


@pytest.mark.failure(18)
def test_the_death_of_the_supervisor_shows_and_no_outcome_is_invented(
    runner: CommandRunner, link: SupervisorLink
) -> None:
    done = shell("exit 3")
    run(runner, done)
    one = shell("echo $PPID; exec sleep 60", timeout_s=60)
    never = shell("true")
    runner.start([one])
    poller = select.poll()
    poller.register(runner.fileno(), select.POLLIN)
    assert poller.poll(BOUND_MS)
    collected = runner.collect()
    os.kill(link.pid, signal.SIGKILL)

    while runner.is_alive:
        assert poller.poll(BOUND_MS)
        collected += runner.collect()
    runner.start([never])
    collected += runner.collect()

    boot_id = SystemClock().boot_id()
    lost = verdict(link.state_dir, runner.supervisor_id, one.lease_token, boot_id=boot_id)
    assert isinstance(lost, Interrupted)
    assert lost.pid is not None
    # Its guardian may be faster.
    assert end_left_group(lost.pid, lost.start_time) in (LeftGroup.ENDED, LeftGroup.GONE)
    assert collected == []
    assert runner.live_count == 2
    assert (
        verdict(link.state_dir, runner.supervisor_id, never.lease_token, boot_id=boot_id)
        == NeverStarted()
    )
    told = verdict(link.state_dir, runner.supervisor_id, done.lease_token, boot_id=boot_id)
    assert isinstance(told, Exit)


def test_a_journal_record_has_the_outcome_that_the_link_would_have_told(
    runner: CommandRunner, link: SupervisorLink
) -> None:
    one = shell("head -c 600000 /dev/zero; exit 3")

    told = run(runner, one)
    found = verdict(
        link.state_dir, runner.supervisor_id, one.lease_token, boot_id=SystemClock().boot_id()
    )

    assert isinstance(found, Exit)
    again = outcome_of(
        found.record,
        execution_id=one.execution_id,
        token=one.lease_token,
        ok_codes=one.policies.ok_codes,
        state_dir=link.state_dir,
    )
    assert again == told
    assert told.output is not None
    assert told.output.dropped_bytes == 600_000 - OUTPUT_CAP_BYTES


def test_output_that_was_lost_with_its_file_is_flagged(tmp_path: Path) -> None:
    record = ExitRecord(
        token="t",
        cause=EndCause.EXIT,
        exit_code=0,
        started_ms=1,
        finished_ms=2,
        output={"spool": "run-t.out", "regions": [[0, 9], [9, 0], [9, 0]], "stdout_bytes": 9},
    )

    outcome = outcome_of(record, execution_id=1, token="t", ok_codes=(0,), state_dir=tmp_path)

    assert (outcome.status, outcome.flags) == (Status.SUCCESS, ("output_lost",))


def test_the_command_runner_is_a_runner(runner: CommandRunner) -> None:
    as_protocol: Runner = runner

    assert as_protocol.kinds == {JobKind.COMMAND, JobKind.SHELL}
    assert as_protocol.failure is None
    assert as_protocol.is_alive


def test_a_command_that_stalls_is_reported_once_and_its_end_says_so(runner: CommandRunner) -> None:
    one = shell("exec sleep 60", stall_timeout_s=0.05, stall_action=StallAction.END)

    outcome = run(runner, one)
    stalls = runner.take_stalls()

    assert [stall.execution_id for stall in stalls] == [one.execution_id]
    assert runner.take_stalls() == []
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.STALLED)
    assert error_code_of(outcome) == "stalled"
    assert outcome.flags == ("stalled",)
