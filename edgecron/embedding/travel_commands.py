"""Commands on a journey: not started, unless the test asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgecron.base.clock import Clock
from edgecron.base.errors import InvalidInput
from edgecron.base.values import NamedTuple, replace
from edgecron.embedding.travel_calls import CallsInTurn, Lasts, Stage
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.claim import Claim, Outcome, Output, OutputChunk, Stream
from edgecron.model.reports import Reported

# What is done with a command, by its arguments: its exit code, None being 0.
Play = Callable[[Sequence[str]], int | None]
_SHELL = "/bin/sh"


class Done(NamedTuple):
    """What a command has left."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""


Perform = Callable[[Claim], Done]


def performer(commands: str | Play) -> Perform:
    """What `travel` is told about commands. Raises InvalidInput for a word that there is not."""
    if callable(commands):
        return _played(commands)
    if commands == "skip":
        return lambda claim: Done()
    if commands == "run":
        return _run
    raise InvalidInput(
        f"commands is {commands!r:.40}, expected 'skip', 'run' or a function",
        hint="such as: commands=lambda argv: 1 if argv[0] == 'rsync' else 0",
    )


class CommandsInTurn:
    """A Runner that has commands done when the stage says so.

    Of those that are a process of one function, which `apart` has by the name of its job, the
    function is called: `calls` does that, and tells its end.
    """

    supervisor_id = "journey"
    kinds = frozenset({JobKind.COMMAND, JobKind.SHELL})
    is_alive = True
    failure = None

    def __init__(
        self,
        perform: Perform,
        calls: CallsInTurn,
        *,
        apart: Mapping[str, tuple[str, ...]],
        stage: Stage,
        lasts: Lasts,
        clock: Clock,
    ) -> None:
        self._perform = perform
        self._calls = calls
        self._apart = apart
        self._stage = stage
        self._lasts = lasts
        self._clock = clock
        self._live: dict[str, Claim] = {}
        self._ends: dict[str, Reason] = {}  # of those that were asked to end
        self._outcomes: list[Outcome] = []

    @property
    def live_count(self) -> int:
        return len(self._live)

    def fileno(self) -> int:
        return -1  # Nobody waits for it: a step collects.

    def start(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            if self._apart.get(claim.schedule) == claim.job.argv:
                job = replace(claim.job, kind=JobKind.CALLABLE, argv=(claim.schedule,))
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

    def take_progress(self) -> list[Reported]:
        return []

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """Nothing is kept."""

    def cancel(self, token: str) -> None:
        self._end(token, Reason.REQUEST)

    def stop(self) -> None:
        for token in self._live:
            self._end(token, Reason.SHUTDOWN)

    def close(self) -> None:
        """There is nothing to let go of."""

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
                exit_code=None if reason is Reason.TIMEOUT else done.exit_code,
                output=_output(done, now_ms),
            )
        )


def _played(play: Play) -> Perform:
    def perform(claim: Claim) -> Done:
        return Done(exit_code=play(_argv(claim)) or 0)

    return perform


def _run(claim: Claim) -> Done:
    """Start a command, and wait for its end, which takes no time of the journey."""
    import subprocess

    from edgecron.supervisor.accounts import own_account
    from edgecron.supervisor.environment import base_environment, run_environment, working_folder

    account = own_account(os.environ)
    job = claim.job
    more: dict[str, Any] = {"stdin": subprocess.DEVNULL}
    if job.stdin is not None:
        more = {"input": job.stdin.encode("utf-8", "surrogateescape")}
    ended = subprocess.run(
        _argv(claim),
        env=run_environment(claim, base_environment(os.environ, account), home=account.home),
        cwd=working_folder(job.cwd, home=account.home),
        capture_output=True,
        check=False,
        timeout=claim.policies.timeout_s,
        **more,
    )
    code = ended.returncode
    return Done(128 - code if code < 0 else code, ended.stdout, ended.stderr)


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
