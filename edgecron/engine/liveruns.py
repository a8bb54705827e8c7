"""What runs for an engine: under its own supervisor, and under those it has adopted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from edgecron.model import Claim, Outcome
from edgecron.runners import Runner
from edgecron.store.contract import RunningRow


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """An execution that is ours from the grant until its end is committed."""

    token: str
    schedule: str
    supervisor_id: str


class LiveRuns:
    """The runners of an engine, and what it has given to each.

    `start_runner` starts our own, and another one whenever that has died. An adopted one is let
    go, and its supervisor with it, as soon as nothing of it is left.
    """

    def __init__(self, start_runner: Callable[[], Runner]) -> None:
        self._start_runner = start_runner
        self._adopted: dict[str, Runner] = {}
        self._runs: dict[int, LiveRun] = {}  # by execution id
        self.own = start_runner()

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def supervisor_ids(self) -> frozenset[str]:
        """Those that answer to us."""
        return frozenset(runner.supervisor_id for runner in self._runners())

    @property
    def unended_count(self) -> int:
        """How many have not told their end yet."""
        return sum(runner.live_count for runner in self._runners())

    def filenos(self) -> list[int]:
        """Descriptors that are readable when an end came, or a supervisor has gone."""
        return [runner.fileno() for runner in self._runners()]

    def tokens(self) -> dict[int, str]:
        """The tokens of all, by execution id."""
        return {execution_id: run.token for execution_id, run in self._runs.items()}

    def find(self, execution_id: int) -> LiveRun | None:
        return self._runs.get(execution_id)

    def start(self, claims: Sequence[Claim]) -> None:
        """Have claims run by our own supervisor."""
        supervisor_id = self.own.supervisor_id
        for claim in claims:
            self._runs[claim.execution_id] = LiveRun(
                token=claim.lease_token, schedule=claim.schedule, supervisor_id=supervisor_id
            )
        self.own.start(claims)

    def adopt(self, runner: Runner, rows: Sequence[RunningRow]) -> None:
        """Answer for what another engine's supervisor runs."""
        self._adopted[runner.supervisor_id] = runner
        for row in rows:
            self._runs[row.execution_id] = LiveRun(
                token=row.lease_token, schedule=row.schedule, supervisor_id=runner.supervisor_id
            )
        self._let_go()

    def collect(self) -> list[Outcome]:
        """The ends that came in since."""
        return [outcome for runner in self._runners() for outcome in runner.collect()]

    def forget(self, execution_id: int) -> LiveRun | None:
        """It never started, and is not ours any more; what it was."""
        return self._runs.pop(execution_id, None)

    def settle(self, outcomes: Sequence[Outcome]) -> list[str | None]:
        """These ends are committed: tell who reported them; their schedules, as far as known."""
        told: dict[str, list[str]] = {}
        schedules = []
        for outcome in outcomes:
            run = self._runs.pop(outcome.execution_id, None)
            by = self.own.supervisor_id if run is None else run.supervisor_id
            told.setdefault(by, []).append(outcome.lease_token)
            schedules.append(None if run is None else run.schedule)
        for runner in self._runners():
            runner.acknowledge(told.get(runner.supervisor_id, ()))
        self._let_go()
        return schedules

    def drop_dead(self) -> list[int]:
        """Let go of supervisors that died, ours being replaced; how many runs each had.

        What became of those is for recovery. Raises SupervisorUnavailable where another one can't
        be started: then all is as it was.
        """
        runs = []
        if not self.own.is_alive:
            dead, self.own = self.own, self._start_runner()
            runs.append(self._drop(dead))
        for runner in [runner for runner in self._adopted.values() if not runner.is_alive]:
            del self._adopted[runner.supervisor_id]
            runs.append(self._drop(runner))
        return runs

    def stop(self) -> None:
        """Have all of them ended, by TERM, its grace, KILL."""
        for runner in self._runners():
            runner.stop()

    def close(self) -> None:
        """Let go of all; what runs goes on."""
        for runner in self._runners():
            runner.close()

    def _runners(self) -> Collection[Runner]:
        return (self.own, *self._adopted.values())

    def _drop(self, runner: Runner) -> int:
        runner.close()
        lost = [key for key, run in self._runs.items() if run.supervisor_id == runner.supervisor_id]
        for key in lost:
            del self._runs[key]
        return len(lost)

    def _let_go(self) -> None:
        busy = {run.supervisor_id for run in self._runs.values()}
        for supervisor_id in self._adopted.keys() - busy:
            self._adopted.pop(supervisor_id).close()
