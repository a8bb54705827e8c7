"""People at the command lines of a virtual machine: each verb is a process, killed like any other.

What they ask for is put down; whether they got it is for the judge to read from the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.base.units import from_ms, to_ms
from edgecron.client import Client
from edgecron.client.declaring import add_one
from edgecron.formats.document_tables import Document, Wanted
from edgecron.model.choices import Status
from edgecron.model.run import RunOptions
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.retention import Retention
from tests.simulation.daemons import BUSY_WAIT_S
from tests.simulation.machine import Machine
from tests.simulation.people import triggers_of
from tests.simulation.steppers import Stepper
from tests.simulation.witness import Asked

ACTIVE = (Status.QUEUED, Status.RUNNING)
NEVER = "at 2100-01-01T00:00:00Z"


class People:
    """Who asks. Nobody edits by a clock that shows the past, and while somebody edits nobody sets
    the clock back: what is then decided already is nobody's expectation."""

    def __init__(self, machine: Machine, asked: Asked) -> None:
        self.machine = machine
        self.asked = asked
        self.outcomes: Counter[str] = Counter()
        self.busy: list[Stepper] = []

    @property
    def is_busy(self) -> bool:
        self.busy = [one for one in self.busy if not one.is_done]
        return bool(self.busy)

    def is_behind(self) -> bool:
        return self.machine.behind_ms > 0

    def begin(self, verb: str, act: Callable[[Client], object]) -> Stepper:
        """Somebody presses the return key."""
        machine = self.machine
        self.outcomes[verb] += 1

        def work() -> None:
            client = Client(machine.location, clock=machine.clock, busy_wait_s=BUSY_WAIT_S)
            try:
                act(client)
            except EdgecronError as error:
                self.outcomes[f"{type(error).__name__}"] += 1
            finally:
                client.close()

        stepper = machine.add(f"{verb}-", work)
        self.busy.append(stepper)
        return stepper

    def do(self, verb: str, act: Callable[[Client], object]) -> None:
        """The same, and nothing else meanwhile: before anything is to go wrong."""
        stepper = self.begin(verb, act)
        while not stepper.is_done:
            self.machine.resume(stepper)

    # What they ask for.

    def add(self, spec: ScheduleSpec) -> None:
        self.asked.note(spec)
        self.begin("add", lambda client: client.add(spec))

    def add_by_program(self, spec: ScheduleSpec) -> None:
        """Add it as `scheduler.add` does, and put it down once that was acknowledged."""

        def act(client: Client) -> None:
            add_one(client, Wanted(spec=spec), queue=spec.queue, origin="sim", replaces=False)
            self.asked.added.add(spec.name)

        self.asked.note(spec)
        self.begin("program", act)

    def remove(self, name: str) -> None:
        self.asked.removed.add(name)
        self.begin("rm", lambda client: client.remove(name))

    def replace(self, spec: ScheduleSpec) -> None:
        """By `rm` and `add`, and whoever is killed between them has removed it."""
        self.asked.note(spec)
        self.asked.removed.add(spec.name)

        def act(client: Client) -> None:
            client.remove(spec.name)
            client.add(spec)

        self.begin("rm-add", act)

    def run(self, name: str) -> None:
        self.begin("run", lambda client: client.run_now(name))

    def enqueue(
        self, name: str, *, count: int = 1, key: str | None = None, delay_s: float | None = None
    ) -> None:
        """Ask for runs, and put down those that were acknowledged."""

        def act(client: Client) -> None:
            payloads = [None] * count
            options = RunOptions(delay_s=delay_s)
            ids = client.enqueue(name, payloads, key=key, options=options)
            self.asked.acknowledged.append((key, count, tuple(ids)))

        self.asked.group_sizes.add(count)
        self.begin("enqueue", act)

    def pause(self, name: str, *, for_ms: int | None = None) -> None:
        until = None if for_ms is None else from_ms(self.machine.clock.now_ms() + for_ms)
        if until is not None:
            self.asked.touched_ms[name].append(to_ms(until))
        self.begin("pause", lambda client: client.pause(name, until=until))

    def resume(self, name: str) -> None:
        self.begin("resume", lambda client: client.resume(name))

    def edit(self, name: str, change: Callable[[ScheduleSpec], ScheduleSpec]) -> None:
        def changed(spec: ScheduleSpec) -> ScheduleSpec:
            now = change(spec)
            self.asked.note(now)
            return now

        self.begin("edit", lambda client: client.edit(name, changed))

    def set_periods(self, name: str, periods_s: Sequence[int]) -> None:
        texts = triggers_of(periods_s, anchor_ms=self.asked.anchor_ms)
        self.edit(name, lambda spec: replace(spec, triggers=texts))

    def set_policies(self, name: str, **changes: object) -> None:
        self.edit(
            name,
            lambda spec: replace(spec, policies=replace(spec.policies, **changes)),  # type: ignore[arg-type]
        )

    def let_nothing_come(self, names: Sequence[str]) -> None:
        """Nothing is held any more, and no time of these schedules comes before long."""

        def changed(spec: ScheduleSpec) -> ScheduleSpec:
            now = replace(spec, triggers=(NEVER,), until_at=None)
            self.asked.note(now)
            return now

        def act(client: Client) -> None:
            for name in names:
                with suppress(NotFound):  # Who was to make it anew was killed.
                    client.resume(name)
                    client.edit(name, changed)

        self.begin("edit", act)

    def apply(self, names: Sequence[str], *, priority: int) -> None:
        """Change several at once, by a document: all or nothing."""

        def act(client: Client) -> None:
            wanted = []
            for name in names:
                spec = client.schedule(name).spec
                spec = replace(spec, policies=replace(spec.policies, priority=priority))
                self.asked.note(spec)
                wanted.append(Wanted(spec=spec))
            document = Document(wanted=tuple(wanted), text="")
            steps = client.plan_document(document, origin="sim")
            client.apply(steps, origin="sim")

        self.begin("apply", act)

    def reschedule(self, name: str, *, in_ms: int) -> None:
        at = from_ms(self.machine.clock.now_ms() + in_ms)
        self.asked.moved.add(name)
        self.begin("reschedule", lambda client: client.reschedule(name, at))

    def backfill(self, name: str, *, last_s: int, priority: int | None = None) -> None:
        def act(client: Client) -> None:
            now = client.now()
            since = max(from_ms(self.asked.anchor_ms), now - timedelta(seconds=last_s))
            client.backfill(name, since, now, priority=priority)

        self.begin("backfill", act)

    def cancel(self, number: int) -> None:
        """End one of the runs that are active, or withdraw it."""

        def act(client: Client) -> None:
            active = [run for run in client.history(limit=100) if run.status in ACTIVE]
            if active:
                client.cancel(active[number % len(active)].id)

        self.begin("cancel", act)

    def prune(self, retention: Retention) -> None:
        self.begin("prune", lambda client: client.prune(retention=retention))
