"""Processes on their way to be another user's command, at the moment when their time is over."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from edgecron.supervisor import EndCause, ExitRecord, Flag, Identity, StartRequest, becoming
from edgecron.supervisor.becoming import Becoming
from edgecron.supervisor.run import LiveRun
from edgecron.supervisor.spawn import Spawned, Spawner
from tests.supervisor.supervisor_bench import (
    BOUND_MS,
    Bell,
    Starting,
    Unanswering,
    wait_gone,
)
from tests.support.accounts import as_root, identity

HELD_UP = "user 'nobody' or a folder of theirs held its start up for more than 10 s"


class Noted(Spawner):
    """Says which process is on its way."""

    process: Becoming

    def spawn(self, request: StartRequest, *, env: Mapping[str, str]) -> Spawned:
        spawned = super().spawn(request, env=env)
        assert spawned.becoming is not None
        self.process = spawned.becoming
        return spawned


class Held:
    """One process on its way, without a loop around it: what is looked at is up to the test."""

    def __init__(self, state_dir: Path, *argv: str, who: Identity) -> None:
        spawner = Noted()
        self.starting = Starting(state_dir, spawner=spawner)
        # Some files of runs lie outside the state folder, and tests run side by side.
        self.token = os.urandom(4).hex()
        self.starting.start(
            StartRequest(
                token=self.token,
                argv=argv,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                output_cap_bytes=1,
                identity=who,
            )
        )
        self.process = spawner.process

    def wait_for_exec(self) -> None:
        """Until it has told that it comes to that, and is held up within it."""
        poller = select.poll()
        poller.register(self.process.heard_fd, select.POLLIN)
        assert poller.poll(BOUND_MS), "it does not come to its command"

    def wait_for_last_word(self) -> None:
        """Until there is nothing more to come that it could be heard by; none of it is heard."""
        poller = select.poll()
        poller.register(self.process.heard_fd, 0)  # its end alone
        assert poller.poll(BOUND_MS), "it has not become its command"

    def meet_deadline(self) -> None:
        self.starting.clock.advance_ms(becoming.PATIENCE_MS)
        [due] = self.starting.deadlines.pop_due(self.starting.clock.monotonic_ms())
        assert self.starting.starter.on_deadline(due)

    @property
    def run(self) -> LiveRun:
        """Its run, where it has started."""
        [run] = self.starting.started
        return run

    def refused(self) -> ExitRecord:
        """The record of its end, where it has not."""
        record = self.starting.traces()[self.token].exit
        assert self.starting.started == []
        assert record is not None
        return record

    def reap(self) -> ExitRecord:
        """The record of its end, where it has started."""
        os.waitid(os.P_PID, self.run.pid, os.WEXITED | os.WNOWAIT)
        self.starting.snapshots.begin_turn()
        record = self.run.reap()
        assert record is not None
        return record


Hold = Callable[..., Held]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """Begin to start a command as another user."""
    begun: list[Held] = []

    def begin(*argv: str, **changes: Any) -> Held:
        begun.append(Held(tmp_path, *argv, who=identity(**changes)))
        return begun[-1]

    yield begin
    for held in begun:
        held.starting.close()
    begun.clear()


def nothing() -> None:
    pass


class Surround(Protocol):
    def __call__(
        self, *, before: Callable[[], None] = nothing, after: Callable[[], None] = nothing
    ) -> None: ...


@pytest.fixture
def around_its_end(monkeypatch: pytest.MonkeyPatch) -> Surround:
    """Have something happen between the look at the deadline and the kill, or after that."""
    end = Becoming.end

    def have(*, before: Callable[[], None] = nothing, after: Callable[[], None] = nothing) -> None:
        def end_between(process: Becoming) -> None:
            before()
            end(process)
            after()

        monkeypatch.setattr(Becoming, "end", end_between)

    return have


@as_root
def test_what_became_its_command_while_nobody_looked_is_not_held_up(
    hold: Hold,
) -> None:
    """As where the supervisor was stopped, or its disk took its time, and the deadline comes."""
    held = hold("/bin/sleep", "60")
    held.wait_for_last_word()

    held.meet_deadline()
    is_running = held.run.reap() is None
    held.run.kill()
    held.reap()

    assert is_running


@as_root
@pytest.mark.parametrize("is_gone_at_once", [False, True])
def test_what_is_held_up_within_exec_when_it_is_killed_has_not_started(
    hold: Hold,
    unanswering: Unanswering,
    around_its_end: Surround,
    is_gone_at_once: bool,
) -> None:
    held = hold(unanswering.path, "exec sleep 60")
    held.wait_for_exec()
    if is_gone_at_once:
        around_its_end(after=held.wait_for_last_word)

    held.meet_deadline()
    wait_gone(held.process.pid)

    refused = held.refused()
    assert (refused.cause, refused.error_code) == (EndCause.SPAWN, "ETIMEDOUT")
    assert refused.error_msg == HELD_UP


@as_root
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_what_became_its_command_as_it_was_given_up_has_run_and_leaves_nobody(
    hold: Hold,
    unanswering: Unanswering,
    bell: Bell,
    around_its_end: Surround,
    is_cancelled: bool,
) -> None:
    """What was begun must never be said not to have been, and be tried again beside its rest."""
    bell.path.chmod(0o666)
    held = hold(unanswering.path, f"sleep 60 & echo $! >{bell.path}; wait")
    held.wait_for_exec()
    if is_cancelled:
        held.starting.starter.withdraw(held.token, EndCause.CANCELLED)
    started: list[int] = []

    def begin() -> None:
        unanswering.answer()
        started.append(int(bell.wait()))

    around_its_end(before=begin)
    held.meet_deadline()
    wait_gone(started[0])
    record = held.reap()

    assert record.cause is (EndCause.CANCELLED if is_cancelled else EndCause.SIGNAL)
    assert (record.signal, record.flags) == (signal.SIGKILL, (Flag.KILLED,))
    assert record.started_ms is not None
    assert record.error_msg == f"{HELD_UP}, and it was ended as it began"


@as_root
def test_what_could_not_be_its_command_as_it_was_given_up_is_told_by_its_own_reason(
    hold: Hold, theirs: Path, around_its_end: Surround
) -> None:
    script = Unanswering(theirs / "script", "#!/no/such/shell\n")
    held = hold(script.path)
    held.wait_for_exec()

    def answer() -> None:
        script.answer()
        held.wait_for_last_word()

    around_its_end(before=answer)
    held.meet_deadline()

    assert "names an interpreter in its first line that is missing" in str(held.refused().error_msg)


@as_root
def test_who_is_killed_within_exec_has_not_started(hold: Hold, unanswering: Unanswering) -> None:
    """As by its user, whose process it is already, while a disk holds it up."""
    held = hold(unanswering.path)
    held.wait_for_exec()

    os.kill(held.process.pid, signal.SIGKILL)
    held.wait_for_last_word()
    held.meet_deadline()

    refused = held.refused()
    assert (refused.cause, refused.error_code) == (EndCause.SPAWN, "EINTR")
    assert "was ended by signal 9 before it was the command" in str(refused.error_msg)
