"""What runs for an engine: under its own supervisor, under those it has adopted, and, where it is
part of a program that registered callables, on threads of the program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from edgecron.clock import Clock
from edgecron.engine.adoption import Adoption
from edgecron.model import Claim, JobKind, Outcome
from edgecron.runners import Runner

_SHORT_LIFE_MS = 10_000  # a supervisor that dies sooner than that may do so again and again
_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000


class LiveRun(NamedTuple):
    """An execution that is ours from the grant until its end is committed.

    `supervisor_id` is its runner's: of callables, that of no supervisor.
    """

    token: str
    schedule: str
    supervisor_id: str
    kill_grace_ms: int


class LiveRuns:
    """The runners of an engine, and what it has given to each.

    `start_runner` starts our own, and another one whenever that has died: at once, or later and
    later where each one dies soon. An adopted one is let go, and its supervisor with it, as soon
    as nothing of it is left. `callables` runs the functions of the program, where it has any.
    """

    def __init__(
        self, start_runner: Callable[[], Runner], *, clock: Clock, callables: Runner | None = None
    ) -> None:
        self._start_runner = start_runner
        self._clock = clock
        self._callables = callables
        self._started_ms = clock.monotonic_ms()
        self._start_at_ms: int | None = None  # of the next one, while there is none
        self._soon_deaths = 0
        self._adopted: dict[str, Runner] = {}
        self._revoked: dict[str, frozenset[str]] = {}  # tokens, by adopted supervisor
        self._runs: dict[int, LiveRun] = {}  # by execution id
        self._cancelled: set[int] = set()
        self.own = start_runner()

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def adopted_ids(self) -> frozenset[str]:
        """The supervisors that answer to us besides our own."""
        return frozenset(self._adopted)

    @property
    def revoked(self) -> frozenset[str]:
        """The tokens that adopted supervisors will never start."""
        return frozenset().union(*self._revoked.values())

    @property
    def unended_count(self) -> int:
        """How many have not told their end yet."""
        return sum(runner.live_count for runner in self._runners())

    @property
    def call_count(self) -> int:
        """How many of them are functions of the program: they end with it."""
        return 0 if self._callables is None else self._callables.live_count

    @property
    def kill_grace_ms(self) -> int:
        """The longest of all, 0 where nothing runs."""
        return max((run.kill_grace_ms for run in self._runs.values()), default=0)

    def filenos(self) -> list[int]:
        """Descriptors that are readable when an end came, or a supervisor has gone."""
        return [runner.fileno() for runner in self._runners()]

    @property
    def has_runner(self) -> bool:
        """Whether there is one of our own to give claims to."""
        return self._start_at_ms is None

    @property
    def wake_ms(self) -> int | None:
        """How long to sleep at most until another runner is to be started."""
        if self._start_at_ms is None:
            return None
        return max(self._start_at_ms - self._clock.monotonic_ms(), 0)

    @property
    def has_dead(self) -> bool:
        """Whether a runner has died, and was not let go of yet."""
        return not all(runner.is_alive for runner in self._runners())

    def tokens(self) -> dict[int, str]:
        """The tokens of all, by execution id."""
        return {execution_id: run.token for execution_id, run in self._runs.items()}

    def find(self, execution_id: int) -> LiveRun | None:
        return self._runs.get(execution_id)

    def start(self, claims: Sequence[Claim]) -> None:
        """Have claims run by our own supervisor, and callables on our own threads."""
        if self._callables is not None:
            is_call = JobKind.CALLABLE
            self._start([one for one in claims if one.job.kind is is_call], self._callables)
            claims = [one for one in claims if one.job.kind is not is_call]
        self._start(claims, self.own)

    def _start(self, claims: Sequence[Claim], runner: Runner) -> None:
        if not claims:
            return
        supervisor_id = runner.supervisor_id
        for claim in claims:
            self._runs[claim.execution_id] = LiveRun(
                token=claim.lease_token,
                schedule=claim.schedule,
                supervisor_id=supervisor_id,
                kill_grace_ms=round(claim.kill_grace_s * 1000),
            )
        runner.start(claims)

    def adopt(self, adoption: Adoption) -> None:
        """Answer for what another engine's supervisor runs."""
        runner = adoption.runner
        if runner is None:
            return
        self._adopted[runner.supervisor_id] = runner
        self._revoked[runner.supervisor_id] = frozenset(row.lease_token for row in adoption.revoked)
        for row in adoption.started:
            self._runs[row.execution_id] = LiveRun(
                token=row.lease_token,
                schedule=row.schedule,
                supervisor_id=runner.supervisor_id,
                kill_grace_ms=round(row.kill_grace_s * 1000),
            )

    def collect(self) -> list[Outcome]:
        """The ends that came in since."""
        return [outcome for runner in self._runners() for outcome in runner.collect()]

    def cancel(self, execution_id: int) -> None:
        """Have a run ended, once: its end follows. Nothing where it is none of ours."""
        run = self._runs.get(execution_id)
        if run is None or execution_id in self._cancelled:
            return
        self._cancelled.add(execution_id)
        for runner in self._runners():
            if runner.supervisor_id == run.supervisor_id:
                runner.cancel(run.token)

    def forget(self, execution_id: int) -> LiveRun | None:
        """It never started, and is not ours any more; what it was."""
        self._cancelled.discard(execution_id)
        return self._runs.pop(execution_id, None)

    def settle(self, outcomes: Sequence[Outcome]) -> list[str | None]:
        """These ends are committed: tell who reported them; their schedules, as far as known."""
        told: dict[str, list[str]] = {}
        schedules = []
        for outcome in outcomes:
            run = self._runs.pop(outcome.execution_id, None)
            self._cancelled.discard(outcome.execution_id)
            by = self.own.supervisor_id if run is None else run.supervisor_id
            told.setdefault(by, []).append(outcome.lease_token)
            schedules.append(None if run is None else run.schedule)
        for runner in self._runners():
            runner.acknowledge(told.get(runner.supervisor_id, ()))
        return schedules

    def drop_dead(self) -> list[int]:
        """Let go of supervisors that died; how many runs each had.

        What became of those is for recovery.
        """
        dead = [runner for runner in self._runners() if not runner.is_alive]
        for runner in dead:
            self._adopted.pop(runner.supervisor_id, None)
            self._revoked.pop(runner.supervisor_id, None)
        if self.own in dead:
            self._plan_start()
        return [self._drop(runner) for runner in dead]

    def start_again(self) -> None:
        """Start another runner of our own, where ours has died and it is time.

        Raises SupervisorUnavailable where none can be started.
        """
        if self._start_at_ms is not None and self._clock.monotonic_ms() >= self._start_at_ms:
            self.own = self._start_runner()
            self._started_ms, self._start_at_ms = self._clock.monotonic_ms(), None

    def stop(self) -> None:
        """Have all of them ended, by TERM, its grace, KILL."""
        for runner in self._runners():
            runner.stop()

    def stop_calls(self) -> None:
        """Ask the functions of the program to stop."""
        if self._callables is not None:
            self._callables.stop()

    def close(self) -> None:
        """Let go of all; what runs goes on."""
        for runner in self._runners():
            runner.close()

    def _plan_start(self) -> None:
        """Say when another runner is to be started: at once, but for those that die again soon."""
        now_ms = self._clock.monotonic_ms()
        lived_ms = now_ms - self._started_ms
        self._soon_deaths = self._soon_deaths + 1 if lived_ms < _SHORT_LIFE_MS else 0
        pause_ms = 0
        if self._soon_deaths > 1:
            pause_ms = min(_PAUSE_MS * 2 ** (self._soon_deaths - 2), _LONGEST_PAUSE_MS)
        self._start_at_ms = now_ms + pause_ms

    def _runners(self) -> Collection[Runner]:
        own = (self.own,) if self.has_runner else ()
        callables = () if self._callables is None else (self._callables,)
        return (*own, *callables, *self._adopted.values())

    def _drop(self, runner: Runner) -> int:
        runner.close()
        lost = [key for key, run in self._runs.items() if run.supervisor_id == runner.supervisor_id]
        for key in lost:
            del self._runs[key]
        self._cancelled.difference_update(lost)
        return len(lost)

    def let_go(self) -> None:
        """Let go of adopted supervisors of which nothing is left."""
        busy = {run.supervisor_id for run in self._runs.values()}
        for supervisor_id in self._adopted.keys() - busy:
            self._adopted.pop(supervisor_id).close()
            self._revoked.pop(supervisor_id, None)
