"""Commands that only seem to run, for an engine that is stepped by hand with a fake clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace

from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.run import Claim, Outcome, Output, OutputChunk, Reported, Stall
from edgecron.store.contract import RunningRow
from edgecron.supervisor.journal import Exit, Interrupted, Verdict
from tests.support.clock import FakeClock
from tests.support.household import Role
from tests.support.printing import Draw, printed

_QUICK_S = 60  # a job that typically ends sooner ends unseen: its row is written with the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A command that seems to run, and what it would print if it were left alone."""

    claim: Claim
    role: Role
    draw: Draw
    started_ms: int
    ends_ms: int  # by itself, or by its timeout
    cut_ms: int | None = None  # on request

    @property
    def is_quick(self) -> bool:
        return self.role.typical_s < _QUICK_S

    def outcome(self) -> Outcome:
        status, reason, code = Status.SUCCESS, None, self.draw.exit_code
        message = None
        finished_ms = self.ends_ms if self.cut_ms is None else min(self.cut_ms, self.ends_ms)
        if self.cut_ms is not None:
            status, reason, code = Status.CANCELLED, Reason.REQUEST, 143
        elif self.ends_ms - self.started_ms < round(self.draw.lasts_s * 1000):
            status, reason, code = Status.FAILED, Reason.TIMEOUT, 143
            message = f"ran longer than {self.claim.policies.timeout_s:g}s, and was ended"
        elif code:
            status, reason = Status.FAILED, Reason.EXIT
            message = f"exit code {code}"
        return Outcome(
            execution_id=self.claim.execution_id,
            lease_token=self.claim.lease_token,
            status=status,
            reason=reason,
            exit_code=code,
            started_ms=self.started_ms,
            finished_ms=finished_ms,
            duration_ms=finished_ms - self.started_ms,
            error_msg=message,
            output=self.printed(finished_ms),
        )

    def printed(self, until_ms: int) -> Output:
        """What it has printed by an instant: of the same lines, whenever it is asked."""
        return printed(
            self.role.prints(self.draw._replace(dice=copy(self.draw.dice))),
            started_ms=self.started_ms,
            ends_ms=self.started_ms + round(self.draw.lasts_s * 1000),
            until_ms=until_ms,
        )


class SeemingRunner:
    """Lets each claim last, end and print as its role has it."""

    kinds = frozenset({JobKind.COMMAND, JobKind.SHELL})
    failure = None
    is_alive = True
    places = None
    wake_ms = None

    def __init__(self, supervisor_id: str, *, clock: FakeClock, cast: dict[str, Role]) -> None:
        self.supervisor_id = supervisor_id
        self._clock = clock
        self._cast = cast
        self.bodies: dict[str, Body] = {}

    @property
    def live_count(self) -> int:
        return len(self.bodies)

    @property
    def next_end_ms(self) -> int | None:
        """When the next of those ends that somebody waits for."""
        ends = (body.ends_ms for body in self.bodies.values() if not body.is_quick)
        return min(ends, default=None)

    def said(self) -> dict[str, tuple[OutputChunk, ...]]:
        """What each of them has printed so far, by its lease token."""
        now_ms = self._clock.now_ms()
        return {token: body.printed(now_ms).chunks for token, body in self.bodies.items()}

    def fileno(self) -> int:
        return -1  # News never come by themselves: a step collects them.

    def start(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            role = self._cast[claim.schedule]
            draw = role.draw(claim.plan_ms, claim.attempt)
            lasts_s = min(draw.lasts_s, claim.policies.timeout_s or draw.lasts_s)
            now_ms = self._clock.now_ms() + draw.dice.randrange(4, 30)
            self.bodies[claim.lease_token] = Body(
                claim=claim,
                role=role,
                draw=draw,
                started_ms=now_ms,
                ends_ms=now_ms + round(lasts_s * 1000),
            )

    def collect(self) -> list[Outcome]:
        now_ms = self._clock.now_ms()
        over = [
            body
            for body in self.bodies.values()
            if body.ends_ms <= now_ms or body.cut_ms is not None
        ]
        for body in over:
            del self.bodies[body.claim.lease_token]
        return [body.outcome() for body in sorted(over, key=lambda body: body.ends_ms)]

    def lose(self, token: str, message: str) -> None:
        """No run here has conditions."""

    def suspend(self, token: str) -> None:
        """No run here has conditions."""

    def resume(self, token: str) -> None:
        """No run here has conditions."""

    def take_progress(self) -> list[Reported]:
        return []

    def take_stalls(self) -> list[Stall]:
        return []

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """An outcome was given once and for all."""

    def cancel(self, token: str) -> None:
        if token in self.bodies:
            self.bodies[token] = replace(self.bodies[token], cut_ms=self._clock.now_ms())

    def stop(self) -> None:
        for token in list(self.bodies):
            self.cancel(token)

    def close(self) -> None:
        self.bodies.clear()


class SeemingEngines:
    """Of all engines and supervisors that were, only the present one is alive."""

    def __init__(self, key: str, *, supervisor_id: str) -> None:
        self._key = key
        self._supervisor_id = supervisor_id

    def ring(self) -> None:
        """No other engine is alive."""

    def announce(self) -> None:
        """No other engine is alive."""

    def adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> None:
        """No other supervisor is alive."""

    def engine_is_alive(self, key: str) -> bool:
        return key == self._key

    def is_elsewhere(self, machine: str | None) -> bool:
        return False

    def supervisor_is_alive(self, supervisor_id: str) -> bool:
        return supervisor_id == self._supervisor_id

    def dead_supervisors(self) -> list[str]:
        return []

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        return {token: Interrupted(reason=Reason.REBOOT) for token in tokens}

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        raise AssertionError(f"nobody has left an end of {row.schedule}")

    def find_output(self, token: str) -> tuple[Output, bool] | None:
        return None

    def find_printed(self, supervisor_id: str, token: str) -> Output | None:
        return None

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        """What ran ended with the machine."""

    def find_unattended(self) -> dict[str, list[str]]:
        """No other engine was here before."""
        return {}

    def end_forgotten(self, supervisor_id: str, tokens: Sequence[str]) -> bool:
        """No other engine was here before."""
        return False

    def forget_engine(self, key: str) -> None:
        """They have no files."""

    def forget_supervisor(self, supervisor_id: str) -> None:
        """They have no files."""

    def remove_dead_files(self, *, known: Collection[str], now_ms: int) -> None:
        """They have no files."""
