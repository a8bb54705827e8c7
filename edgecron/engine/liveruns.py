"""What runs for an engine: under its own supervisor, under those it has adopted, and, where it is
part of a program that registered callables, on threads of the program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from edgecron.base.clock import Clock
from edgecron.base.values import NamedTuple
from edgecron.engine.adopted import Adoption
from edgecron.engine.handover import not_started
from edgecron.model.choices import COMMAND_QUEUE, JobKind
from edgecron.model.claim import Claim, Outcome
from edgecron.model.reports import Reported
from edgecron.supervisor.runner import THREADS, Runner

_SHORT_LIFE_MS = 10_000  # a supervisor that dies sooner than that may do so again and again
_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000


class LiveRun(NamedTuple):
    """An execution that is ours from the grant until its end is committed.

    `supervisor_id` is its runner's: THREADS where that is no supervisor.
    """

    token: str
    schedule: str
    supervisor_id: str
    kill_grace_ms: int


class LiveRuns:
    """The runners of an engine, and what it has given to each.

    `start_runner` starts our own, and another one whenever that has died: at once, or later and
    later where each one dies soon. An adopted one is let go, and its supervisor with it, as soon
    as nothing of it is left. `callables` runs the functions of the program, where it has any: then
    there is no supervisor before `want_supervisor`, and functions are run without one.
    """

    def __init__(
        self, start_runner: Callable[[], Runner], *, clock: Clock, callables: Runner | None = None
    ) -> None:
        self._start_runner = start_runner
        self._clock = clock
        self._callables = callables
        self._started_ms = self._start_at_ms = clock.monotonic_ms()  # of it, or of the next one
        self._is_wanted = callables is None
        self._soon_deaths = 0  # failed starts included
        self._stranded: list[Outcome] = []  # commands that came where there was no supervisor
        self._adopted: dict[str, Runner] = {}
        self._revoked: dict[str, frozenset[str]] = {}  # tokens, by adopted supervisor
        self._runs: dict[int, LiveRun] = {}  # by execution id
        self._cancelled: set[int] = set()
        self._own: Runner | None = None
        self._supervisor_id = THREADS
        if callables is None:
            self.start_supervisor()

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
        """How many of them are functions of the program: nobody takes them over."""
        return 0 if self._callables is None else self._callables.live_count

    @property
    def called(self) -> list[str]:
        """Their schedules, by name."""
        return sorted({one.schedule for one in self._runs.values() if one.supervisor_id == THREADS})

    @property
    def kill_grace_ms(self) -> int:
        """The longest of all, 0 where nothing runs."""
        return max((run.kill_grace_ms for run in self._runs.values()), default=0)

    def filenos(self) -> list[int]:
        """Descriptors that are readable when an end came, or a supervisor has gone."""
        return [runner.fileno() for runner in self._runners()]

    @property
    def supervisor_id(self) -> str:
        """What answers for the next claim: our own supervisor, THREADS where none is needed."""
        return self._supervisor_id

    @property
    def has_supervisor(self) -> bool:
        """Whether there is one of our own to give commands to."""
        return self._own is not None

    @property
    def may_take(self) -> bool:
        """Whether there is anybody to give claims to, who has not died meanwhile."""
        if self._own is None:
            return self._callables is not None
        return self._own.is_alive

    @property
    def wake_ms(self) -> int | None:
        """How long to sleep at most until another supervisor is to be started."""
        if self._own is not None or not self._is_wanted:
            return None
        return max(self._start_at_ms - self._clock.monotonic_ms(), 0)

    def open_queues(self, queues: tuple[str, ...]) -> tuple[str, ...]:
        """Those of these queues that may be claimed from: commands only with a supervisor."""
        if self._own is not None:
            return queues
        return tuple(queue for queue in queues if queue != COMMAND_QUEUE)

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
        if self._own is not None:
            self._start(claims, self._own)
        elif claims:
            # Of a queue for functions: who would look for them there?
            self._is_wanted = True
            self._stranded += [not_started(one, now_ms=self._clock.now_ms()) for one in claims]

    def _start(self, claims: Sequence[Claim], runner: Runner) -> None:
        if not claims:
            return
        supervisor_id = runner.supervisor_id
        for claim in claims:
            self._runs[claim.execution_id] = LiveRun(
                token=claim.lease_token,
                schedule=claim.schedule,
                supervisor_id=supervisor_id,
                kill_grace_ms=round(claim.policies.kill_grace_s * 1000),
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
        stranded, self._stranded = self._stranded, []
        ends = [outcome for runner in self._runners() for outcome in runner.collect()]
        return stranded + ends

    def take_progress(self) -> list[Reported]:
        """How far functions of the program are that said so since the last time."""
        return [] if self._callables is None else self._callables.take_progress()

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
            by = self.supervisor_id if run is None else run.supervisor_id
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
        if self._own in dead:
            self._own = None
            if self._callables is not None:
                self._supervisor_id = THREADS
            lived_ms = self._clock.monotonic_ms() - self._started_ms
            self._put_off(is_soon=lived_ms < _SHORT_LIFE_MS)
        return [self._drop(runner) for runner in dead]

    @property
    def is_wanting(self) -> bool:
        """Whether there was ever something that only a supervisor runs."""
        return self._is_wanted

    def want_supervisor(self) -> None:
        """There is something that only a supervisor runs."""
        self._is_wanted = True

    def is_start_due(self) -> bool:
        """Whether a supervisor of our own is wanted, is not there, and it is time for one."""
        return self.wake_ms == 0

    def start_supervisor(self) -> None:
        """Start one of our own. Raises SupervisorUnavailable, or OSError, where none can be."""
        self._own = self._start_runner()
        self._supervisor_id = self._own.supervisor_id
        self._started_ms = self._clock.monotonic_ms()

    def put_off(self) -> None:
        """None could be started: try again later, and later each time."""
        self._put_off(is_soon=True)

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

    def _put_off(self, *, is_soon: bool) -> None:
        """Say when the next one is to be started: at once, but for those that die again soon."""
        self._soon_deaths = self._soon_deaths + 1 if is_soon else 0
        pause_ms = 0
        if self._soon_deaths > 1:
            pause_ms = min(_PAUSE_MS * 2 ** (self._soon_deaths - 2), _LONGEST_PAUSE_MS)
        self._start_at_ms = self._clock.monotonic_ms() + pause_ms

    def _runners(self) -> Collection[Runner]:
        own = () if self._own is None else (self._own,)
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
