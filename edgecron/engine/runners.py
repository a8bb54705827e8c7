"""Start claimed runs and collect their outcomes, through every runner that an engine has.

Those are its own supervisor, the supervisors that it adopted from dead engines, and, in a program
that registered functions, the program's own threads. An engine starts its own supervisor when it
needs one, and records it before any claim.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.values import NamedTuple
from edgecron.engine.events import EventKind, EventReporter
from edgecron.engine.other_engines import Adoption
from edgecron.model.choices import COMMAND_QUEUE, Cause, Durability, JobKind, Reason, Status
from edgecron.model.engine import base_of
from edgecron.model.run import Claim, Outcome, Reported, Stall
from edgecron.planning.admission import Reserve
from edgecron.store.contract import Watched, watched_of
from edgecron.supervisor.protocol import Flag
from edgecron.supervisor.runner import THREADS, Runner

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


_SHORT_LIFE_MS = 10_000  # a supervisor that dies sooner might die again and again
_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000
_MOST_CALL_ENDS = 50  # an end can have 300 KiB of result and output


class OwnSupervisor:
    """The supervisor that an engine has started, if any, and when to start the next one.

    `start_runner` starts it. After its death another one follows: immediately, or after growing
    pauses if each one dies soon. `is_optional`: functions of a program run without a supervisor, so
    none is started until `want` is called.
    """

    def __init__(
        self, start_runner: Callable[[], Runner], *, clock: Clock, is_optional: bool
    ) -> None:
        self._start_runner = start_runner
        self._clock = clock
        self.is_optional = is_optional
        self.is_wanted = not is_optional
        self.runner: Runner | None = None
        self.id = THREADS  # of the runner of the next claim; THREADS without a supervisor
        self.is_recorded = False  # by `Supervision`, before anything is claimed for it
        self._started_ms = clock.monotonic_ms()
        self._start_at_ms = self._started_ms  # when the next one is to be started
        self._short_lives = 0  # supervisors in a row that died soon, or could not be started

    @property
    def start_wait_ms(self) -> int | None:
        """How long until another supervisor is to be started; None: not wanted."""
        if self.runner is not None or not self.is_wanted:
            return None
        return max(self._start_at_ms - self._clock.monotonic_ms(), 0)

    def want(self) -> None:
        """Have a supervisor started: there are commands to run."""
        self.is_wanted = True

    def start(self) -> None:
        """Start a supervisor. Raises SupervisorUnavailable or OSError if that fails."""
        self.runner, self.is_recorded = self._start_runner(), False
        self.id = self.runner.supervisor_id
        self._started_ms = self._clock.monotonic_ms()

    def note_failure(self) -> None:
        """Try to start a supervisor again later, and later each time: it just failed."""
        self._delay_start(is_soon=True)

    def note_death(self) -> None:
        """Let go of the supervisor: it has died."""
        self.runner, self.id, self.is_recorded = None, THREADS, False
        lived_ms = self._clock.monotonic_ms() - self._started_ms
        self._delay_start(is_soon=lived_ms < _SHORT_LIFE_MS)

    def _delay_start(self, *, is_soon: bool) -> None:
        self._short_lives = self._short_lives + 1 if is_soon else 0
        pause_ms = 0
        if self._short_lives > 1:
            pause_ms = min(_PAUSE_MS * 2 ** (self._short_lives - 2), _LONGEST_PAUSE_MS)
        self._start_at_ms = self._clock.monotonic_ms() + pause_ms


class Supervision:
    """Start an engine's own supervisor when it is needed, and record it."""

    def __init__(self, *, store: Store, own: OwnSupervisor, events: EventReporter) -> None:
        self._store = store
        self._own = own
        self._events = events
        self._is_lacking = False  # and that was reported

    def keep(self, engine_id: int, *, has_news: bool) -> None:
        """Start a supervisor if there is a command to run, and record it.

        `has_news`: there might be a first command since the last time. Raises
        SupervisorUnavailable or OSError if none can be started and nothing else can run either.
        """
        if has_news and not self._own.is_wanted and self._store.is_used(COMMAND_QUEUE):
            self._own.want()
        if self._own.start_wait_ms == 0:
            self._start()
        if self._own.runner is not None and not self._own.is_recorded:
            # Before anything is claimed for it: no other engine then removes its files.
            self._store.note_supervisor(engine_id, self._own.id)
            self._own.is_recorded = True

    def _start(self) -> None:
        try:
            self._own.start()
        except (SupervisorUnavailable, OSError) as error:
            if not self._own.is_optional:
                raise
            # Functions need no supervisor, and do not wait for it.
            self._own.note_failure()
            if not self._is_lacking:
                self._events.report(EventKind.SUPERVISOR_TROUBLE, details={"error_msg": str(error)})
            self._is_lacking = True
        else:
            if self._is_lacking:
                self._events.report(EventKind.SUPERVISOR_WELL)
            self._is_lacking = False


class StartedRun(NamedTuple):
    """A run that is ours from its claim until its end is committed.

    `supervisor_id` names the runner: THREADS for a function of the program. Its processes have
    `grace_ms` between TERM and KILL. `durability` is that of its schedule, `is_manual`: a person or
    a program started it.
    """

    token: str
    schedule: str
    supervisor_id: str
    grace_ms: int
    durability: Durability = Durability.FULL
    is_manual: bool = False
    watched: Watched | None = None


class Runners:
    """All runners of one engine, and the runs that each of them has.

    `callables` runs the functions of the program. `own` is our own supervisor, which `start_runner`
    starts. An adopted supervisor is released when its last run has ended.
    """

    def __init__(
        self, start_runner: Callable[[], Runner], *, clock: Clock, callables: Runner | None = None
    ) -> None:
        self._clock = clock
        self._callables = callables
        self.own = OwnSupervisor(start_runner, clock=clock, is_optional=callables is not None)
        self.outcomes: list[Outcome] = []  # collected, and not on record until `settle`
        self.answers: list[Outcome] = []  # collected, of commands of conditions
        self.stalls: list[Stall] = []  # collected, and not on record yet
        self._adopted: dict[str, Runner] = {}
        self._revoked: dict[str, frozenset[str]] = {}  # tokens, by adopted supervisor
        self._runs: dict[int, StartedRun] = {}  # by execution id
        # The last recorded ends of functions, on a server: no journal has them.
        self._call_ends: deque[Outcome] = deque(maxlen=_MOST_CALL_ENDS)
        self._cancelled: set[int] = set()
        self.has_watched = False  # a run might have conditions that must hold while it runs
        self._reserve = Reserve()
        if callables is None:
            self.own.start()

    # Runs.

    def __len__(self) -> int:
        """How many runs are ours, including those whose end is not on record yet."""
        return len(self._runs)

    def start(self, claims: Sequence[Claim]) -> None:
        """Start claims: commands by our own supervisor, functions on the program's threads."""
        if self._callables is not None:
            is_call = JobKind.CALLABLE
            self._start([one for one in claims if one.job.kind is is_call], self._callables)
            claims = [one for one in claims if one.job.kind is not is_call]
        if self.own.runner is not None:
            self._start(claims, self.own.runner)
        elif claims:
            # Commands in a queue for functions: nobody else would start a supervisor for them.
            self.own.want()
            self.outcomes += [_not_started(one, now_ms=self._clock.now_ms()) for one in claims]

    def _start(self, claims: Sequence[Claim], runner: Runner) -> None:
        if not claims:
            return
        supervisor_id = runner.supervisor_id
        for claim in claims:
            policies = claim.policies
            watched = None
            if policies.while_needs:
                watched = watched_of(claim)
                self.has_watched = True
            self._cancelled.discard(claim.execution_id)  # with an earlier token
            self._runs[claim.execution_id] = StartedRun(
                claim.lease_token,
                claim.schedule,
                supervisor_id,
                round(policies.kill_grace_s * 1000),
                policies.durability,
                claim.cause is Cause.MANUAL,
                watched,
            )
        runner.start(claims)

    def ask(self, claim: Claim) -> bool:
        """Start the command of a condition; whether a supervisor has it.

        Its number is below 0, unlike that of a run. Its outcome comes among `answers`.
        """
        if self.own.runner is None:
            self.own.want()
            return False
        self.own.runner.start([claim])
        return True

    def reserve(self) -> int:
        """How many runs to claim beyond the places, for a runner that starts them by itself."""
        return self._reserve.size(self._clock.monotonic_ms(), places=self._find_places())

    def reserve_lasts_ms(self) -> int:
        """For how long the runs of the reserve keep the places busy; 0 if there are none."""
        return self._reserve.lasts_ms(
            self._clock.monotonic_ms(), places=self._find_places(), unended=self.unended_count
        )

    def _find_places(self) -> int | None:
        """The places of the only runner; None if there are several, which share their places."""
        runners = self._runners()
        return next(iter(runners)).places if len(runners) == 1 else None

    def fail(self, outcome: Outcome) -> None:
        """Note the end of a claimed run that no runner can start."""
        self.outcomes.append(outcome)

    def collect(self) -> list[Outcome]:
        """Add what came to `outcomes`, `answers` and `stalls`, and return the outcomes."""
        for runner in self._runners():
            outcomes = runner.collect()
            answers = [one for one in outcomes if one.execution_id < 0]
            if answers:
                outcomes = [one for one in outcomes if one.execution_id >= 0]
                runner.acknowledge([one.lease_token for one in answers])
                self.answers += answers
            if any(Flag.GIVEN_BACK in one.flags for one in outcomes):
                self._reserve.clear()
            self.outcomes += outcomes
            self.stalls += runner.take_stalls()
        return self.outcomes

    def settle(self, outcomes: Sequence[Outcome], *, may_lack: bool) -> list[str | None]:
        """Forget the first collected outcomes: they are on record now; their schedules, if known.

        Also tells each runner, which keeps the outcome until then. A run that was not started is
        only forgotten. `may_lack`: a server that takes over can lack these ends.
        """
        del self.outcomes[: len(outcomes)]
        settled: dict[str, list[str]] = {}
        schedules = []
        now_ms = self._clock.monotonic_ms()
        for outcome in outcomes:
            run = self._runs.get(outcome.execution_id)
            # A run that was given back might have been claimed again, with another token.
            if run is not None and run.token == outcome.lease_token:
                del self._runs[outcome.execution_id]
                self._cancelled.discard(outcome.execution_id)
            schedules.append(None if run is None else run.schedule)
            if not is_unstarted(outcome):
                supervisor_id = self.own.id if run is None else run.supervisor_id
                settled.setdefault(supervisor_id, []).append(outcome.lease_token)
                if may_lack and supervisor_id == THREADS:
                    self._call_ends.append(outcome)
                if outcome.started_ms is not None:
                    self._reserve.note_end(now_ms)
        for runner in self._runners():
            runner.acknowledge(settled.get(runner.supervisor_id, ()))
        return schedules

    def find_call_end(self, token: str) -> Outcome | None:
        """The recorded end of a function, if it is one of the last and on a server."""
        return next((one for one in self._call_ends if one.lease_token == token), None)

    def cancel(self, execution_id: int) -> None:
        """End a run, once: its outcome follows. A run that is not ours is ignored."""
        run = self._runs.get(execution_id)
        if run is None or execution_id in self._cancelled:
            return
        self._cancelled.add(execution_id)
        self._runner_of(run).cancel(run.token)

    def _runner_of(self, run: StartedRun) -> Runner:
        return next(one for one in self._runners() if one.supervisor_id == run.supervisor_id)

    def watched(self) -> dict[int, StartedRun]:
        """The runs that have conditions, by execution id."""
        found = {key: run for key, run in self._runs.items() if run.watched is not None}
        self.has_watched = bool(found)
        return found

    def lose(self, execution_id: int, message: str) -> None:
        """End a run whose condition was lost, once: its outcome follows."""
        run = self._runs.get(execution_id)
        if run is not None and execution_id not in self._cancelled:
            self._cancelled.add(execution_id)
            self._runner_of(run).lose(run.token, message)

    def suspend(self, execution_id: int) -> None:
        """Stop a run for a while. A run that is not ours is ignored."""
        run = self._runs.get(execution_id)
        if run is not None:
            self._runner_of(run).suspend(run.token)

    def resume(self, execution_id: int) -> None:
        """Let a run continue. A run that is not ours is ignored."""
        run = self._runs.get(execution_id)
        if run is not None:
            self._runner_of(run).resume(run.token)

    def stop(self) -> None:
        """End all runs: TERM, the kill grace, KILL."""
        for runner in self._runners():
            runner.stop()

    def stop_calls(self) -> None:
        """Ask the functions of the program to stop."""
        if self._callables is not None:
            self._callables.stop()

    def close(self) -> None:
        """Let go of all runners; their runs continue."""
        for runner in self._runners():
            runner.close()

    def find(self, execution_id: int) -> StartedRun | None:
        return self._runs.get(execution_id)

    def tokens(self) -> dict[int, str]:
        """The tokens of all runs, by execution id."""
        return {execution_id: run.token for execution_id, run in self._runs.items()}

    def take_progress(self) -> list[Reported]:
        """Return the progress that functions of the program reported since the last time."""
        return [] if self._callables is None else self._callables.take_progress()

    @property
    def unended_count(self) -> int:
        """How many runs have not reported their end yet."""
        return sum(runner.live_count for runner in self._runners())

    @property
    def call_count(self) -> int:
        """How many of them are functions of the program: no other engine takes these over."""
        return 0 if self._callables is None else self._callables.live_count

    @property
    def called(self) -> list[str]:
        """The names of the schedules of these functions."""
        return sorted({one.schedule for one in self._runs.values() if one.supervisor_id == THREADS})

    @property
    def longest_grace_ms(self) -> int:
        """The longest kill grace of all runs, 0 if there is none."""
        return max((run.grace_ms for run in self._runs.values()), default=0)

    # Runners.

    def filenos(self) -> list[int]:
        """Descriptors that become readable when an end came or a supervisor has died."""
        return [runner.fileno() for runner in self._runners()]

    @property
    def may_take(self) -> bool:
        """Whether a living runner can start claims."""
        return self.own.is_optional if self.own.runner is None else self.own.runner.is_alive

    def open_queues(self, queues: tuple[str, ...]) -> tuple[str, ...]:
        """The queues that can be claimed from: without a supervisor not that of commands."""
        if self.own.runner is not None:
            return queues
        return tuple(queue for queue in queues if base_of(queue) != COMMAND_QUEUE)

    @property
    def adopted_ids(self) -> frozenset[str]:
        """The supervisors that work for us, without our own."""
        return frozenset(self._adopted)

    @property
    def revoked(self) -> frozenset[str]:
        """The tokens that adopted supervisors will never start."""
        return frozenset().union(*self._revoked.values())

    def adopt(self, adoption: Adoption) -> None:
        """Add the supervisor of a dead engine, and the runs that it has."""
        runner = adoption.runner
        if runner is None:
            return
        self._adopted[runner.supervisor_id] = runner
        self._revoked[runner.supervisor_id] = frozenset(row.lease_token for row in adoption.revoked)
        for row in adoption.started:
            self._runs[row.execution_id] = StartedRun(
                token=row.lease_token,
                schedule=row.schedule,
                supervisor_id=runner.supervisor_id,
                grace_ms=row.grace_ms,
                watched=row.watched,
            )
            if row.watched is not None:
                self.has_watched = True

    def release_adopted(self) -> None:
        """Let go of adopted supervisors that have no run left."""
        busy = {run.supervisor_id for run in self._runs.values()}
        for supervisor_id in self._adopted.keys() - busy:
            self._adopted.pop(supervisor_id).close()
            self._revoked.pop(supervisor_id, None)

    @property
    def has_dead(self) -> bool:
        """Whether a runner has died that was not dropped yet."""
        return not all(runner.is_alive for runner in self._runners())

    def drop_dead(self) -> list[int]:
        """Let go of supervisors that died; how many runs each had, for recovery to judge."""
        dead = [runner for runner in self._runners() if not runner.is_alive]
        for runner in dead:
            self._adopted.pop(runner.supervisor_id, None)
            self._revoked.pop(runner.supervisor_id, None)
        if self.own.runner in dead:
            self.own.note_death()
        return [self._drop(runner) for runner in dead]

    def _drop(self, runner: Runner) -> int:
        runner.close()
        lost = [key for key, run in self._runs.items() if run.supervisor_id == runner.supervisor_id]
        for key in lost:
            del self._runs[key]
        self._cancelled.difference_update(lost)
        return len(lost)

    def _runners(self) -> Collection[Runner]:
        own = () if self.own.runner is None else (self.own.runner,)
        callables = () if self._callables is None else (self._callables,)
        return (*own, *callables, *self._adopted.values())

    @property
    def wake_ms(self) -> int | None:
        """How long until a supervisor is to be started, or a runner has news; None: neither."""
        waits_ms = [runner.wake_ms for runner in self._runners()]
        if self.own.runner is None:
            waits_ms.append(self.own.start_wait_ms)
        return min((wait_ms for wait_ms in waits_ms if wait_ms is not None), default=None)


def is_unstarted(outcome: Outcome) -> bool:
    """Whether a run was never started, so that it is queued again."""
    flags = outcome.flags
    return bool(flags) and (Flag.NOT_STARTED in flags or Flag.GIVEN_BACK in flags)


def _not_started(claim: Claim, *, now_ms: int) -> Outcome:
    """The outcome of a command without a supervisor: it can be queued again."""
    return Outcome(
        execution_id=claim.execution_id,
        lease_token=claim.lease_token,
        status=Status.FAILED,
        reason=Reason.SPAWN,
        finished_ms=now_ms,
        error_msg="there is no supervisor yet",
        flags=(Flag.NOT_STARTED,),
    )
