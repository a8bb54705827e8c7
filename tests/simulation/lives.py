"""Lives: a machine from its first start to its last, moved and maltreated by a seed, and judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgecron.client import Client
from edgecron.client.doctor import check_all
from edgecron.client.doctor_machine import CheckStatus
from edgecron.model.choices import CatchUp, OnShutdown
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.retention import UNLIMITED, Retention
from tests.simulation.casts import ALIKE_S, FOLLOWERS, PERIODS_S, START_MS, attempts
from tests.simulation.daemons import Daemon
from tests.simulation.judging import Judge
from tests.simulation.lines import People
from tests.simulation.machine import Machine
from tests.simulation.points import Chances
from tests.simulation.witness import Asked

PRUNED = Retention(history_age_s=120, history_count=10)
_MOST_ENGINES = 3
_LONGEST_MS = 60_000  # longer than any job, and any delay before another attempt
_MOST_MINUTES = 30


@dataclass(kw_only=True)
class Figures:
    """What happened in a life, or in many."""

    lives: int = 0
    fires: int = 0
    runs: int = 0
    ranges: int = 0  # of plan times that did not run
    points: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    recoveries: int = 0
    punctual: int = 0  # fires of the calm at the end, each decided at once
    simulated_s: int = 0
    took_s: float = 0.0

    def add(self, other: Figures) -> None:
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


class Life:
    """One machine, with engines and people on it."""

    def __init__(
        self,
        machine: Machine,
        specs: Sequence[ScheduleSpec],
        *,
        is_exact: bool = True,
        content: bytes | None = None,
    ) -> None:
        """On a new database, or on the `content` of one in which these schedules are already."""
        self.machine = machine
        self.specs = {spec.name: spec for spec in specs}
        self.asked = Asked(anchor_ms=START_MS)
        self.people = People(self.machine, self.asked)
        self.daemons: list[Daemon] = []
        self.retention = UNLIMITED
        self.options: dict[str, object] | None = None  # of every engine, in the place of chance
        self.engines_wanted = 1
        self.may_change_times = True  # whether people give schedules other times
        self._passes: dict[Daemon, int] | None = None
        self._starts_at_ms = 0
        for spec in specs:
            self.asked.note(spec)
        if content is None:
            self.people.do("add", lambda client: client.add_all(specs))
        else:
            machine.path.touch(mode=0o600)
            machine.path.write_bytes(content)
        self.judge = Judge(self.machine, self.asked, is_exact=is_exact)
        self.machine.before_delete = self.judge.remember
        self.machine.may_set_back = lambda: not self.people.is_busy
        self.punctual = 0

    @property
    def random(self):  # type: ignore[no-untyped-def]
        return self.machine.random

    def close(self) -> None:
        self.machine.close()
        self.judge.close()

    # Time.

    def run(self, duration_ms: int) -> None:
        """Let everybody move for so long, and look at the database after each recovery."""
        machine = self.machine
        until_ms = machine.true_ms + duration_ms
        while machine.true_ms < until_ms:
            self._mind_engines()
            stops = [until_ms, self._starts_at_ms]
            machine.move(most_ms=min(at for at in stops if at > machine.true_ms) - machine.true_ms)
            if machine.is_disturbed:
                self._mind_recovery()

    def start_engine(self, **options: object) -> Daemon:
        daemon = Daemon(self.machine, **options)  # type: ignore[arg-type]
        self.daemons.append(daemon)
        return daemon

    def _mind_engines(self) -> None:
        """The service manager starts again what has ended."""
        self.daemons = [one for one in self.daemons if one.is_alive]
        if len(self.daemons) >= self.engines_wanted or self.machine.true_ms < self._starts_at_ms:
            return
        random = self.random
        if self.options is not None:
            self.start_engine(**self.options)
            return
        self.start_engine(
            max_running=random.choice((8, 60, 200)),
            burst=random.choice((None, None, None, 5)),
            retention=self.retention,
            on_shutdown=random.choice(list(OnShutdown)),
        )
        self._starts_at_ms = self.machine.true_ms + random.choice((0, 1_000, 10_000))

    def _mind_recovery(self) -> None:
        """Where an engine has passed since something went wrong, all of it must hold."""
        if self._passes is None:
            self._passes = {one: one.passes for one in self.daemons}
        before = self._passes
        if any(one.is_well and one.passes > before.get(one, 0) + 1 for one in self.daemons):
            self.machine.is_disturbed = False
            self._passes = None
            self.judge.check()

    # What happens to it.

    def maltreat(self, *, is_about_clock: bool = True) -> None:
        """One thing that goes wrong between two points, or is asked for."""
        machine, random = self.machine, self.random
        dice = random.random()
        if dice < 0.10:
            self.kill_an_engine()
        elif dice < 0.15:
            self.kill_a_supervisor()
        elif dice < 0.20:
            victim = random.choice(machine.steppers) if machine.steppers else None
            if victim is not None:  # SIGSTOP, then SIGCONT
                victim.stalled_until_ms = machine.true_ms + random.choice((2_000, 70_000))
                machine.faults["stopped"] += 1
        elif dice < 0.22:
            machine.reboot(down_ms=random.choice((5_000, 90_000)))
        elif dice < 0.24:
            machine.suspend(random.choice((4_000, 90_000, 300_000)))
        elif dice < 0.26 and self.daemons:
            self.be_away(random.choice((30_000, 300_000)))
        elif dice < 0.30 and is_about_clock:
            self.set_clock(random.choice(machine.chances.steps_ms))
        elif dice < 0.34:
            self.engines_wanted = random.randint(1, _MOST_ENGINES)
        elif dice < 0.38 and self.daemons:
            random.choice(self.daemons).stop()
        else:
            self.meddle()

    def kill_an_engine(self) -> None:
        alive = [one for one in self.daemons if one.is_alive]
        if alive:
            self.machine.kill(self.random.choice(alive).stepper)

    def kill_a_supervisor(self) -> None:
        alive = [one for one in self.machine.steppers if one.name.startswith("supervisor")]
        if alive:
            self.machine.kill(self.random.choice(alive))

    def be_away(self, duration_ms: int) -> None:
        """Every engine is killed, and nobody starts one for a while."""
        self.machine.faults["downtime"] += 1
        for daemon in self.daemons:
            if daemon.is_alive:
                self.machine.kill(daemon.stepper)
        self._starts_at_ms = self.machine.true_ms + duration_ms

    def set_clock(self, by_ms: int) -> None:
        if by_ms > 0 or not self.people.is_busy:
            self.machine.step_clock(by_ms)

    def meddle(self) -> None:
        """Somebody at a command line."""
        people, random = self.people, self.random
        name = random.choice(sorted(self.specs))
        spec, dice = self.specs[name], random.random()
        if dice < 0.12:
            people.run(name)
        elif dice < 0.20:
            self._enqueue(name)
        elif dice < 0.32:
            people.cancel(random.randrange(100))
        elif dice < 0.36:
            people.prune(
                Retention(
                    output_age_s=random.choice((None, 60)),
                    history_age_s=random.choice((None, 30, 300, 3000)),
                    history_count=random.choice((None, 1, 3, 20)),
                )
            )
        elif dice < 0.42:
            priority = random.choice((None, 0, 20))
            people.backfill(name, last_s=random.choice((60, 240)), priority=priority)
        elif name in FOLLOWERS or people.is_behind():
            return
        elif dice < 0.50:
            people.reschedule(name, in_ms=random.choice((1_000, 12_000, 40_000)))
        elif dice < 0.55:
            people.pause(name)
        elif dice < 0.62:
            people.pause(name, for_ms=random.choice((5_000, 30_000)))
        elif dice < 0.75:
            people.resume(name)
        elif dice < 0.82:
            people.set_policies(name, **attempts(random))
        elif not (self.may_change_times and spec.name.startswith(("calendar", "alike"))):
            return
        elif dice < 0.86:
            people.set_policies(name, catch_up=random.choice(list(CatchUp)))
        elif dice < 0.92 and spec.max_runs is None:
            periods = ALIKE_S if name.startswith("alike") else PERIODS_S
            people.set_periods(name, random.sample(periods, random.choice((1, 2))))
        elif dice < 0.95:
            others = [one for one in sorted(self.specs) if one.startswith("alike")]
            names, priority = random.sample(others, 3), random.choice((-5, 5))
            people.apply(names, priority=priority)
        else:
            people.replace(spec)

    def _enqueue(self, name: str) -> None:
        """A program asks for runs: later, with a key that others gave, or in a group."""
        random = self.random
        key = random.choice((None, "a", "b"))
        self.people.enqueue(
            name,
            count=1 if key is not None else random.choice((1, 3)),
            key=key,
            delay_s=random.choice((None, 5.0, 40.0)),
        )

    # The end.

    def finish(self) -> None:
        """No more faults; then everything is judged, in the calm and in the quiet."""
        machine = self.machine
        machine.be_calm()
        self.start_now()
        self.engines_wanted = max(1, min(2, self.engines_wanted))
        self.run(60_000)
        self.run_until_ahead()
        self.judge.check_recovered()
        since_ms = machine.clock.now_ms() + 1_000
        self.run(20_000)
        self.punctual = self.judge.check_punctual(since_ms=since_ms)
        self.shut_down()
        self.run(5_000)
        if self.random.random() < 0.5:
            self.drain()
        self.remove_all()
        self.come_to_rest()

    def start_now(self) -> None:
        """The service manager waits no longer before it starts an engine."""
        self._starts_at_ms = self.machine.true_ms

    def drain(self) -> None:
        """Nothing comes due any more, and nobody withdraws what waits: each run has its turn."""
        self.people.let_nothing_come(
            [
                name
                for name, spec in sorted(self.specs.items())
                if not any(text.startswith("after ") for text in spec.triggers)
            ]
        )
        self.run(5_000)
        before = None
        for _ in range(_MOST_MINUTES):
            active = self.judge.active()
            if not active:
                break
            assert active != before, f"I16 nothing moves for a minute: {active[:5]}"
            before = active
            self.run(_LONGEST_MS)

    def remove_all(self) -> None:
        """What follows others is removed last: it would not follow the end of what runs now."""
        for name in sorted(self.specs, key=lambda name: (name in FOLLOWERS, name)):
            self.people.remove(name)
            self.run(1_000 if name not in FOLLOWERS else 20_000)

    def run_until_ahead(self) -> None:
        """Until the wall clock shows what no engine has decided: by another nobody edits."""
        if self.machine.behind_ms:
            self.run(self.machine.behind_ms)

    def finish_early(
        self, *, pause_ms: int = 0, is_drained: bool = False, quiet_ms: int = 12_000
    ) -> None:
        """The same of a short story: no more happens, and it is judged after `quiet_ms`.

        Drained: what waits is run before, else it is withdrawn with its schedule.
        """
        machine = self.machine
        machine.be_calm()
        self.start_now()
        self.run(quiet_ms)
        self.run_until_ahead()
        self.judge.check_recovered()
        if is_drained:
            self.drain()
        for name in self.specs:
            self.people.remove(name)
            self.run(pause_ms)
        self.come_to_rest()

    def come_to_rest(self) -> None:
        """Time until what was begun has ended; then the engines stop, and doctor is asked."""
        machine = self.machine
        self.run(5_000)
        for _ in range(20):
            if not self.judge.count_active():
                break
            self.run(60_000)
        self.judge.check_quiet()
        self.engines_wanted = 0
        for daemon in self.daemons:
            daemon.stop()
        machine.run_until(lambda: not any(one.is_alive for one in self.daemons))
        self._ask_doctor()

    @property
    def mishaps(self) -> int:
        """How often a process was killed, failed or stood still."""
        faults = self.machine.faults
        return (
            faults.total() + self.machine.kills.total() - faults["adoption"] - faults["clock set"]
        )

    def shut_down(self, *, is_judged: bool = True) -> None:
        """I20: who is told to wait or to stop leaves nothing behind of what it ran.

        Unless something goes wrong meanwhile.
        """
        machine, before = self.machine, self.mishaps
        stopping = [one for one in self.daemons if one.is_alive]
        self.engines_wanted = 0
        mine = {
            one: [link.supervisor_id for link in one.links if link.is_alive] for one in stopping
        }
        for daemon in stopping:
            daemon.stop()
        machine.run_until(lambda: not any(one.is_alive for one in stopping))
        for daemon in stopping:
            if daemon.on_shutdown is OnShutdown.LEAVE:
                continue
            left = [
                body for body in machine.live_bodies.values() if body.supervisor in mine[daemon]
            ]
            is_calm = is_judged and self.mishaps == before
            assert not (left and is_calm), f"I20 {daemon.on_shutdown} has left {left}"
        self.engines_wanted = 1

    def _ask_doctor(self) -> None:
        with Client(self.machine.location, clock=self.machine.clock, must_exist=True) as client:
            checkup = check_all(client, command=lambda words: words, is_deep=True)
        wrong = [
            one
            for one in checkup.findings
            if one.status is CheckStatus.PROBLEM and one.check != "engines"
        ]
        assert not wrong, f"I22 {wrong}"

    def figures(self, *, took_s: float = 0.0) -> Figures:
        machine = self.machine
        rows = self.judge.rows.values()
        return Figures(
            lives=1,
            fires=sum(row["attempt"] == 1 and row["missed_count"] is None for row in rows),
            runs=len(machine.bodies),
            ranges=sum(row["missed_count"] is not None for row in rows),
            points=machine.reached,
            kills=machine.kills,
            faults=machine.faults,
            verbs=self.people.outcomes,
            recoveries=self.judge.checks,
            punctual=self.punctual,
            simulated_s=machine.true_ms // 1000,
            took_s=took_s,
        )


def maltreated(life: Life, *, for_ms: int) -> None:
    """A time in which things go wrong, at any point and between."""
    random, machine = life.random, life.machine
    machine.chances = Chances(
        kill=random.choice((0.0, 0.0002, 0.001)),
        pause=random.choice((0.0, 0.002, 0.01)),
        fault=random.choice((0.0, 0.0005, 0.003)),
        clock=random.choice((0.0, 0.0, 0.00005)),
    )
    life.engines_wanted = random.randint(1, _MOST_ENGINES)
    life.retention = random.choice((UNLIMITED, PRUNED))
    until_ms = machine.true_ms + for_ms
    while machine.true_ms < until_ms:
        life.run(random.choice((500, 2_000, 5_000, 5_000, 10_000)))
        life.maltreat()
