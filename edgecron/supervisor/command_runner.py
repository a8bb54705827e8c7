"""Run commands and shell lines: claims become requests, and exit records become outcomes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.clock import Clock, instant_by
from edgecron.base.values import NamedTuple
from edgecron.model.choices import JobKind, Reason, StallAction, Status
from edgecron.model.job import Job, read_cpu_max, read_ionice, read_memory_max
from edgecron.model.run import OUTPUT_CAP_BYTES, Claim, Outcome, Reported, Stall
from edgecron.supervisor.environment import (
    SHELL,
    Account,
    NotRunnable,
    base_environment,
    find_account,
    identity_of,
    own_account,
    own_variables,
    resolve_path,
    run_environment,
    working_folder,
)
from edgecron.supervisor.link import Event, Exited, NotStarted, Stalled, SupervisorLink
from edgecron.supervisor.output import load_output
from edgecron.supervisor.protocol import GIVEN_BACK, EndCause, ExitRecord, Flag, StartRequest
from edgecron.supervisor.results import Left, split_result
from edgecron.supervisor.runner import Lease

_ENDS: Mapping[EndCause, tuple[Status, Reason]] = {
    EndCause.EXIT: (Status.FAILED, Reason.EXIT),
    EndCause.SIGNAL: (Status.FAILED, Reason.SIGNAL),
    EndCause.TIMEOUT: (Status.FAILED, Reason.TIMEOUT),
    EndCause.STALLED: (Status.FAILED, Reason.STALLED),
    EndCause.SPAWN: (Status.FAILED, Reason.SPAWN),
    EndCause.CANCELLED: (Status.CANCELLED, Reason.REQUEST),
    EndCause.STOPPED: (Status.CANCELLED, Reason.SHUTDOWN),
    EndCause.CONDITION: (Status.CANCELLED, Reason.CONDITION),
}


class Part(NamedTuple):
    """A function that runs in its own process: its command and its environment."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


class CommandRunner:
    """Runs commands and shell lines by a supervisor. See Runner for the contract.

    `places` is what the supervisor was started with. `leases` are the live runs of an adopted
    supervisor, which takes no claims. If `part_of` returns a Part for a claim,
    that is started instead, in this program's folder.
    """

    kinds = frozenset({JobKind.COMMAND, JobKind.SHELL})

    def __init__(
        self,
        link: SupervisorLink,
        *,
        clock: Clock,
        places: int | None = None,
        environ: Mapping[str, str] | None = None,
        leases: Sequence[Lease] = (),
        output_cap_bytes: int = OUTPUT_CAP_BYTES,
        part_of: Callable[[Claim], Part | None] | None = None,
    ) -> None:
        self.supervisor_id = link.supervisor_id
        self.places = places
        self.link = link
        self._clock = clock
        self._environ = dict(os.environ if environ is None else environ)
        self._own = own_account(self._environ)
        self._own_base = base_environment(self._environ, self._own)
        self._output_cap_bytes = output_cap_bytes
        self._part_of = part_of
        self._leases = {lease.lease_token: lease for lease in leases}
        self._stalls: list[Stall] = []

    @property
    def is_alive(self) -> bool:
        return self.link.is_alive

    @property
    def failure(self) -> str | None:
        return self.link.end_message

    @property
    def live_count(self) -> int:
        return len(self._leases)

    def fileno(self) -> int:
        return self.link.fileno()

    def start(self, claims: Sequence[Claim]) -> None:
        requests = [self._request(claim) for claim in claims]
        self._leases.update((claim.lease_token, _lease(claim)) for claim in claims)
        self.link.start(requests)

    def collect(self) -> list[Outcome]:
        outcomes = (self._outcome(event) for event in self.link.receive())
        return [outcome for outcome in outcomes if outcome is not None]

    @property
    def wake_ms(self) -> int | None:
        return None

    def take_progress(self) -> list[Reported]:
        return []  # Commands report their progress to the database.

    def take_stalls(self) -> list[Stall]:
        stalls, self._stalls = self._stalls, []
        return stalls

    def acknowledge(self, tokens: Sequence[str]) -> None:
        self.link.acknowledge(tokens)

    def cancel(self, token: str) -> None:
        self.link.cancel([token])

    def lose(self, token: str, message: str) -> None:
        self.link.end(token, EndCause.CONDITION, message)

    def suspend(self, token: str) -> None:
        self.link.suspend(token)

    def resume(self, token: str) -> None:
        self.link.resume(token)

    def stop(self) -> None:
        self.link.stop_all(EndCause.STOPPED)

    def close(self) -> None:
        self.link.close()

    def _request(self, claim: Claim) -> StartRequest:
        policies = claim.policies
        try:
            surroundings = self._find_surroundings(claim)
        except NotRunnable as why:
            surroundings = {"env": {}, "cwd": "/", "refused": (why.code, why.message)}
        return StartRequest(
            token=claim.lease_token,
            **{"argv": _argv(claim), **surroundings},
            stdin=claim.job.stdin,
            nice=claim.job.nice,
            **_limits(claim.job),
            keep_awake=policies.keep_awake,
            leaves_nothing=claim.execution_id < 0,  # the command of a condition
            timeout_ms=_whole_ms(policies.timeout_s),
            stall_timeout_ms=_whole_ms(policies.stall_timeout_s),
            ends_stalled=policies.stall_action is StallAction.END,
            kill_grace_ms=round(policies.kill_grace_s * 1000),
            output_cap_bytes=self._output_cap_bytes,
        )

    def _find_surroundings(self, claim: Claim) -> dict[str, Any]:
        """Find user, folder and environment of a request. Raises NotRunnable."""
        job = claim.job
        if job.kind not in self.kinds:
            message = f"'{job.argv[0]}' is a {job.kind}, which no command runner can start"
            raise NotRunnable("EINVAL", message)
        account = self._own
        if job.user is not None:
            account = find_account(job.user, own=self._own, now_ms=self._clock.now_ms())
        part = None if self._part_of is None else self._part_of(claim)
        if part is not None and job.user is not None:
            message = f"a function runs as its program does, and not as user '{job.user}'"
            raise NotRunnable("EPERM", message)
        if account is not self._own:
            return _as_another(claim, account, base_environment(self._environ, account))
        if part is not None:
            environment = run_environment(claim, part.environment, home=account.home)
            return {"argv": part.argv, "env": environment, "cwd": _our_folder()}
        return {
            "env": run_environment(claim, self._own_base, home=account.home),
            "cwd": working_folder(job.cwd, home=account.home),
        }

    def _outcome(self, event: Event) -> Outcome | None:
        if isinstance(event, Exited):
            lease = self._leases.pop(event.record.token, None)
            if lease is None:
                return None  # Its row has ended: the former engine died before it acknowledged.
            return outcome_of(
                event.record,
                execution_id=lease.execution_id,
                token=lease.lease_token,
                ok_codes=lease.ok_codes,
                state_dir=self.link.state_dir,
                clock=self._clock,
            )
        if isinstance(event, NotStarted):
            lease = self._leases.pop(event.token, None)
            return None if lease is None else self._not_started(lease, event)
        if isinstance(event, Stalled) and (lease := self._leases.get(event.token)) is not None:
            self._stalls.append(Stall(lease.execution_id, event.at_ms))
        return None

    def _not_started(self, lease: Lease, event: NotStarted) -> Outcome:
        return Outcome(
            execution_id=lease.execution_id,
            lease_token=lease.lease_token,
            status=Status.FAILED,
            reason=Reason.SPAWN,
            finished_ms=self._clock.now_ms(),
            error_code=event.error_code,
            error_msg=event.error_msg,
            flags=(Flag.GIVEN_BACK if event.error_code == GIVEN_BACK else Flag.NOT_STARTED,),
        )


def outcome_of(
    record: ExitRecord,
    *,
    execution_id: int,
    token: str,
    ok_codes: Sequence[int],
    state_dir: Path,
    clock: Clock | None = None,
) -> Outcome:
    """Return the outcome of an exit record, from the link or a journal.

    Its instants are those of `clock`; None: this machine's own.

    `state_dir` holds its longer output. An end by signal N is a success only if `ok_codes` has
    128+N.
    """
    status, reason = _ENDS[record.cause]
    started_ms = record.started_ms
    is_own_end = record.cause in (EndCause.EXIT, EndCause.SIGNAL)
    is_success = is_own_end and record.exit_code in ok_codes
    output, is_whole = load_output(record.output, state_dir)
    flags = record.flags
    if not is_whole and Flag.OUTPUT_LOST not in flags:
        flags = (*flags, Flag.OUTPUT_LOST)
    left = Left() if record.result is None else split_result(record.result)
    if left is None or left.is_lost:
        flags = (*flags, Flag.RESULT_INVALID)
    error_code, error_msg = record.error_code, record.error_msg or _end_in_words(record)
    exit_code, retry_after_ms = record.exit_code, None
    raised = left.error if left is not None and record.cause is EndCause.EXIT else None
    if raised is not None and not is_success:
        error_code, error_msg, retry_after_ms = raised.code, raised.message, raised.retry_after_ms
        if raised.gives_up:
            flags = (*flags, Flag.GAVE_UP)
        if raised.is_skip:
            status, reason, exit_code = Status.SKIPPED, Reason.DECLINED, None
    return Outcome(
        execution_id=execution_id,
        lease_token=token,
        status=Status.SUCCESS if is_success else status,
        reason=None if is_success else reason,
        exit_code=exit_code,
        started_ms=None if started_ms is None else instant_by(clock, started_ms),
        finished_ms=instant_by(clock, record.finished_ms),
        duration_ms=record.duration_ms,
        error_code=None if is_success else error_code,
        error_msg=None if is_success else error_msg,
        flags=flags,
        result=None if left is None else left.result,
        state=None if left is None else left.state,
        progress=None if left is None else left.progress,
        output=None if started_ms is None else output,
        retry_after_ms=retry_after_ms,
        asks_again=raised is not None and not is_success and raised.asks_again,
    )


def _as_another(claim: Claim, account: Account, base: Mapping[str, str]) -> dict[str, Any]:
    """Find the surroundings of a command as another user.

    Do not look at that user's files here, because a folder can lie on a file system that does not
    answer. Only the fork that becomes the user looks.
    """
    job = claim.job
    cwd = account.home if job.cwd is None else resolve_path(job.cwd, home=account.home)
    file = None if job.env_file is None else resolve_path(job.env_file, home=account.home)
    above = {**job.env, **own_variables(claim, payload=job.payload)}
    return {
        "cwd": cwd or "/",
        "is_home": job.cwd is None,
        "identity": identity_of(account),
        "env": above,
        "base_env": base,
        "env_file": file,
    }


def _our_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        message = f"the folder that this program runs in is gone: {error.strerror}"
        raise NotRunnable("ENOENT", message) from None


def _lease(claim: Claim) -> Lease:
    return Lease(
        execution_id=claim.execution_id,
        lease_token=claim.lease_token,
        ok_codes=claim.policies.ok_codes,
    )


def _whole_ms(limit_s: float | None) -> int | None:
    return None if limit_s is None else max(1, round(limit_s * 1000))


def _argv(claim: Claim) -> tuple[str, ...]:
    if claim.job.kind is JobKind.COMMAND:
        return claim.job.argv
    shell = claim.job.env.get("SHELL", "")
    return (shell if shell.startswith("/") else SHELL, "-c", claim.job.argv[0])


def _limits(job: Job) -> dict[str, Any]:
    """Return the fields of a request that limit a job; most jobs have none."""
    limits: dict[str, Any] = {}
    if job.ionice is not None:
        limits["ionice"] = read_ionice(job.ionice)
    if job.memory_max is not None:
        limits["memory_max_bytes"] = read_memory_max(job.memory_max)
    if job.cpu_max is not None:
        limits["cpu_max_percent"] = read_cpu_max(job.cpu_max)
    return limits


def _end_in_words(record: ExitRecord) -> str | None:
    if record.started_ms is None:
        return "ended before it was started"
    if record.signal is not None:
        return f"ended by {_signal_name(record.signal)}"
    return None if record.exit_code is None else f"exit code {record.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
