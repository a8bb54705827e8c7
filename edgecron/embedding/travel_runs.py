"""The runs of a journey, in turn, in the test's thread: functions, coroutines and commands.

Coroutines run side by side, as in a program, on the journey's loop. `performer` says what commands
do.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.clock import Clock
from edgecron.base.errors import InvalidInput
from edgecron.base.units import format_duration_ms
from edgecron.base.values import NamedTuple, replace
from edgecron.embedding.processes import find_path
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.run import Claim, Outcome, Output, OutputChunk, Reported, Stall, Stream
from edgecron.supervisor.callable_runner import CallableRunner, Coroutine, Function
from edgecron.supervisor.calls import Call
from edgecron.supervisor.environment import (
    NotRunnable,
    base_environment,
    own_account,
    run_environment,
    working_folder,
)
from edgecron.supervisor.protocol import Flag
from edgecron.supervisor.results import VARIABLE, Left, split_result, take_result
from edgecron.supervisor.threads import Workers

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from edgecron.supervisor.calls import ReadState

Lasts = Callable[[str], int]  # how long the runs of a schedule last, in milliseconds


class _Turn(NamedTuple):
    at_ms: int  # on the monotonic clock
    number: int
    token: str
    work: Callable[[], object]


class Stage:
    """Does pieces of work at their times, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: list[_Turn] = []
        self._count = 0

    @property
    def next_ms(self) -> int | None:
        """The monotonic time of the next piece of work; None without one."""
        return self._turns[0].at_ms if self._turns else None

    def add(self, token: str, work: Callable[[], object], *, after_ms: int) -> None:
        """Do a piece of work after a while; 0 is the next turn."""
        self._count += 1
        at_ms = self._clock.monotonic_ms() + after_ms
        heappush(self._turns, _Turn(at_ms, self._count, token, work))

    def hasten(self, token: str) -> None:
        """Do the work that waits under this token in the next turn."""
        waiting = [turn for turn in self._turns if turn.token == token]
        self._turns = [turn for turn in self._turns if turn.token != token]
        for turn in waiting:
            self.add(token, turn.work, after_ms=0)
        self._turns.sort()

    def play(self) -> bool:
        """Do all work whose time has come; report whether there was any."""
        has_played = False
        while self._turns and self._turns[0].at_ms <= self._clock.monotonic_ms():
            has_played = True
            heappop(self._turns).work()
        return has_played


# Functions and coroutines.

F = TypeVar("F")


class CallsInTurn(CallableRunner):
    """Runs functions in their turn on the stage, and coroutines on the journey's loop.

    An exception is the failure of its run. Only exceptions that end the test itself, such as
    KeyboardInterrupt and `pytest.fail`, are also kept in `raised`.
    """

    def __init__(
        self,
        functions: Mapping[str, Function],
        coroutines: Mapping[str, Coroutine],
        *,
        load: Callable[[Call], None],
        stage: Stage,
        lasts: Lasts,
        find_loop: Callable[[], AbstractEventLoop],
        clock: Clock,
        read_state: ReadState,
    ) -> None:
        self.raised: BaseException | None = None
        self._stage = stage
        self._lasts = lasts
        self._begun: dict[str, tuple[int, int]] = {}  # by token: monotonic and wall time
        super().__init__(
            _Wrapped(functions, self._watched),
            coroutines=_Wrapped(coroutines, self._watched_coroutine),
            load=load,
            find_loop=find_loop,
            clock=clock,
            read_state=read_state,
        )
        self._workers = _Turns(self._put, self._run, clock=clock)

    @property
    def has_tasks(self) -> bool:
        """Whether coroutines are active."""
        return bool(self._tasks)

    def cancel(self, token: str) -> None:
        super().cancel(token)
        self._stage.hasten(token)

    def _dispatch(self, calls: Sequence[Call]) -> None:
        # Before its turn: a coroutine has its turn on the journey's loop. If the import fails, it
        # fails again when the function is to be called, and that is recorded.
        for call in calls:
            with suppress(ImportError):
                self._load(call)
        super()._dispatch(calls)

    def _wait_for_coroutines(self, until_ms: int) -> None:
        """Do not wait: a run that still lasts ends only if the test moves the time."""

    def _put(self, call: Call, work: Callable[[], object]) -> None:
        claim = call.claim
        self._begun[claim.lease_token] = (self._clock.monotonic_ms(), self._clock.now_ms())
        self._stage.add(claim.lease_token, work, after_ms=self._lasts(claim.schedule))

    def _begin_coroutine(self, call: Call, function: Coroutine) -> None:
        begin = super()._begin_coroutine
        self._put(call, lambda: begin(call, function))

    def _begin(self, call: Call) -> int:
        # The run began when it was started, though the function is called at its end.
        monotonic_ms, now_ms = self._begun.pop(call.claim.lease_token)
        call.begin(monotonic_ms)
        return now_ms

    @contextmanager
    def _noting_end_of_test(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit, asyncio.CancelledError):
            raise
        except BaseException as error:
            self.raised = error
            raise

    def _watched(self, function: Function) -> Function:
        def call_watched(call: Call) -> object:
            with self._noting_end_of_test():
                return function(call)

        return call_watched

    def _watched_coroutine(self, function: Coroutine) -> Coroutine:
        async def call_watched(call: Call) -> object:
            with self._noting_end_of_test():
                return await function(call)

        return call_watched


class _Turns(Workers[Call]):
    """Takes the place of worker threads: each piece gets its turn on the stage."""

    def __init__(
        self,
        put: Callable[[Call, Callable[[], object]], object],
        work: Callable[[Call], object],
        *,
        clock: Clock,
    ) -> None:
        super().__init__(work, name="none", clock=clock)
        self._take = put

    def put(self, pieces: Collection[Call]) -> None:
        for piece in pieces:
            self._take(piece, partial(self._work, piece))


class _Wrapped(Mapping[str, F]):
    """A live view of a program's registry, with each function wrapped."""

    def __init__(self, functions: Mapping[str, F], around: Callable[[F], F]) -> None:
        self._functions = functions
        self._around = around

    def __getitem__(self, name: str) -> F:
        return self._around(self._functions[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


# Commands.

# A stand-in for a program: its arguments -> its exit code; None means 0.
Play = Callable[[Sequence[str]], int | None]
_SHELL = "/bin/sh"


class Done(NamedTuple):
    """How a command ended. A `failure` (timeout, spawn) stands instead of its exit code."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    failure: Reason | None = None
    error: str | None = None
    left: Left | None = Left()  # what it left in its result file; None if that can't be read
    flags: tuple[Flag, ...] = ()


Perform = Callable[[Claim], Done]


def performer(commands: str | Play) -> Perform:
    """Return what performs the commands of a journey. Raises InvalidInput for another word."""
    if callable(commands):
        return lambda claim: Done(exit_code=commands(_argv(claim)) or 0)
    if commands == "skip":
        return lambda claim: Done()
    if commands == "run":
        return _run
    raise InvalidInput(
        f"commands is {commands!r:.40}, expected 'skip', 'run' or a function",
        hint="such as: commands=lambda argv: 1 if argv[0] == 'rsync' else 0",
    )


class CommandsInTurn:
    """A Runner that performs commands in their turn on the stage.

    `process_commands` are the commands of jobs with processes of their own, by job: `calls` calls
    their functions instead.
    """

    supervisor_id = "journey"
    kinds = frozenset({JobKind.COMMAND, JobKind.SHELL})
    is_alive = True
    failure = None
    places = None
    wake_ms = None

    def __init__(
        self,
        perform: Perform,
        calls: CallsInTurn,
        *,
        process_commands: Mapping[str, tuple[str, ...]],
        stage: Stage,
        lasts: Lasts,
        clock: Clock,
    ) -> None:
        self._perform = perform
        self._calls = calls
        self._process_commands = process_commands
        self._stage = stage
        self._lasts = lasts
        self._clock = clock
        self._live: dict[str, Claim] = {}
        self._ends: dict[str, Reason] = {}  # of commands that were asked to end
        self._outcomes: list[Outcome] = []

    @property
    def live_count(self) -> int:
        return len(self._live)

    def fileno(self) -> int:
        return -1  # No engine waits for it: each step collects.

    def start(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            function = find_path(claim.job)
            if self._process_commands.get(claim.schedule) == claim.job.argv:
                function = claim.schedule
            if function is not None:
                job = replace(claim.job, kind=JobKind.CALLABLE, argv=(function,))
                self._calls.start([claim._replace(job=job)])
                continue
            lasts_ms = self._lasts(claim.schedule)
            if claim.policies.timeout_s is not None and lasts_ms >= claim.policies.timeout_s * 1000:
                lasts_ms = max(1, round(claim.policies.timeout_s * 1000))
                self._ends[claim.lease_token] = Reason.TIMEOUT
            self._live[claim.lease_token] = claim
            self._begin(claim, self._clock.now_ms(), lasts_ms)

    def collect(self) -> list[Outcome]:
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            del self._live[outcome.lease_token]
        return outcomes

    def lose(self, token: str, message: str) -> None:
        """No run here has conditions."""

    def suspend(self, token: str) -> None:
        """No run here has conditions."""

    def resume(self, token: str) -> None:
        """No run here has conditions."""

    def take_progress(self) -> list[Reported]:
        return []

    def take_stalls(self) -> list[Stall]:
        return []  # A command prints all of its output at its end.

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """It keeps nothing."""

    def cancel(self, token: str) -> None:
        self._end(token, Reason.REQUEST)

    def stop(self) -> None:
        for token in self._live:
            self._end(token, Reason.SHUTDOWN)

    def close(self) -> None:
        """It has nothing to close."""

    def _begin(self, claim: Claim, started_ms: int, lasts_ms: int) -> None:
        self._stage.add(
            claim.lease_token, lambda: self._finish(claim, started_ms), after_ms=lasts_ms
        )

    def _end(self, token: str, reason: Reason) -> None:
        if token not in self._live:
            self._calls.cancel(token)
            return
        self._ends[token] = reason
        self._stage.hasten(token)

    def _finish(self, claim: Claim, started_ms: int) -> None:
        reason = self._ends.pop(claim.lease_token, None)
        done = Done() if reason is not None else self._perform(claim)
        reason = reason or done.failure
        left, flags = done.left or Left(), done.flags
        if done.left is None or left.is_lost:
            flags = (*flags, Flag.RESULT_INVALID)
        is_ok = reason is None and done.exit_code in claim.policies.ok_codes
        status = Status.SUCCESS if is_ok else Status.FAILED
        if reason in (Reason.REQUEST, Reason.SHUTDOWN):
            status = Status.CANCELLED
        elif not is_ok and reason is None:
            reason = Reason.SIGNAL if done.exit_code > 128 else Reason.EXIT
        now_ms = self._clock.now_ms()
        self._outcomes.append(
            Outcome(
                execution_id=claim.execution_id,
                lease_token=claim.lease_token,
                status=status,
                reason=reason,
                started_ms=started_ms,
                finished_ms=now_ms,
                duration_ms=now_ms - started_ms,
                exit_code=None if reason in (Reason.TIMEOUT, Reason.SPAWN) else done.exit_code,
                error_msg=done.error,
                flags=flags,
                result=left.result,
                state=left.state,
                progress=left.progress,
                output=_output(done, now_ms),
            )
        )


def _run(claim: Claim) -> Done:
    """Run a command to its end. This takes no time of the journey."""
    try:
        return _run_here(claim)
    except subprocess.TimeoutExpired as error:
        limit = format_duration_ms(round(error.timeout * 1000))
        words = f"ran longer than {limit}, and was ended"
        return Done(0, error.stdout or b"", error.stderr or b"", Reason.TIMEOUT, words)
    except (OSError, NotRunnable) as error:
        return Done(failure=Reason.SPAWN, error=str(error))


def _run_here(claim: Claim) -> Done:
    account = own_account(os.environ)
    job = claim.job
    more: dict[str, Any] = {"stdin": subprocess.DEVNULL}
    if job.stdin is not None:
        more = {"input": job.stdin.encode("utf-8", "surrogateescape")}
    environment = run_environment(claim, base_environment(os.environ, account), home=account.home)
    with TemporaryDirectory(prefix="edgecron-") as folder:
        path = Path(folder) / "result"
        ended = subprocess.run(
            _argv(claim),
            env={**environment, VARIABLE: str(path)},
            cwd=working_folder(job.cwd, home=account.home),
            capture_output=True,
            check=False,
            timeout=claim.policies.timeout_s,
            **more,
        )
        text, flag = take_result(path)
    code = ended.returncode
    return Done(
        128 - code if code < 0 else code,
        ended.stdout,
        ended.stderr,
        left=split_result(text),
        flags=() if flag is None else (flag,),
    )


def _argv(claim: Claim) -> tuple[str, ...]:
    if claim.job.kind is JobKind.SHELL:
        return (_SHELL, "-c", claim.job.argv[0])
    return claim.job.argv


def _output(done: Done, now_ms: int) -> Output | None:
    texts = ((Stream.STDOUT, done.stdout), (Stream.STDERR, done.stderr))
    chunks = tuple(
        OutputChunk(stream=stream, at_ms=now_ms, content=text) for stream, text in texts if text
    )
    if not chunks:
        return None
    return Output(chunks=chunks, stdout_bytes=len(done.stdout), stderr_bytes=len(done.stderr))
