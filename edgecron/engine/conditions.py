"""Look at the machine for the conditions that runs need: before their start, and during it.

`ConditionWatch` wakes the runs that wait for a condition. `WhileRuns` ends or suspends a running
run whose `--while` condition is lost, and continues it later.

An engine that no run waits in does nothing here: it has no descriptor, no timer and no wake-up for
conditions. While runs wait, the kernel reports changes of networks, power supplies and mounts
(`KernelReports`), and services of the system bus report theirs (`look_at_bus` of the machine).
Other conditions are checked again after growing pauses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from edgecron.base.clock import Clock
from edgecron.base.units import format_ms
from edgecron.base.values import NamedTuple
from edgecron.base.window_texts import is_command
from edgecron.engine.events import EventKind, EventReporter
from edgecron.model.conditions import Condition, bind, find_note, find_of_machine, read_condition
from edgecron.model.machine_conditions import (
    NOTHING_KNOWN,
    OF_BUS,
    Kind,
    Machine,
    MachineCondition,
    judge,
)
from edgecron.planning.admission import (
    WatchedRun,
    WhileAct,
    command_claim,
    judge_while,
    most_wait_ms,
    read_answer,
)
from edgecron.store.contract import Waited, Watched

if TYPE_CHECKING:
    from edgecron.engine.runners import Runners, StartedRun
    from edgecron.model.run import Outcome
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.store.protocol import Store

_FRESH_MS = 500  # a fact that is older is read again before a claim
_ASKED_MS = 60_000  # a condition that no claim asked for since is not looked at
_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000
# The shortest pause before reports of the machine, or later fires, start a command again.
_COMMAND_PAUSE_MS = 10_000
_SETTLE_MS = 10_000
_OF_PATHS = frozenset({Kind.DISK, Kind.EXISTS})
# Linux reports changes of these.
_REPORTED = frozenset({Kind.ONLINE, Kind.NETWORK, Kind.AC_POWER, Kind.BATTERY, Kind.MOUNTED})


class Reports(Protocol):
    """Changes of the machine that its kernel reports."""

    def open(self) -> int | None:
        """Begin to listen; a descriptor that is readable after a change. None: it can't."""

    def clear(self) -> None:
        """Forget the changes that were reported."""

    def close(self) -> None:
        """Stop listening."""


class NoReports:
    """A machine that reports no change."""

    def open(self) -> int | None:
        return None

    def clear(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Check(NamedTuple):
    """When a condition is checked next and was checked last, by the monotonic clock.

    `pause_ms` follows the next check.
    """

    at_ms: int
    pause_ms: int
    last_ms: int | None = None


class _Asked(NamedTuple):
    """A command of a condition that is running. Its answer comes until then (monotonic)."""

    condition: MachineCondition
    until_ms: int


def _kinds_of(one: Waited) -> set[Kind]:
    return {condition.kind for condition in find_of_machine((one.text,))}


class ConditionWatch:
    """Know which conditions of the machine hold, and which of them runs wait for.

    `machine` answers None for what it can't tell; a run then waits until its deadline. `checks` has
    the conditions that runs wait for, and `asked` those that claims asked for. While `has_waits` is
    false, as in nearly all engines, an engine need not call this at all.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        machine: Machine | None,
        reports: Reports,
        runners: Runners,
        find_spec: Callable[[int, int], ScheduleSpec | None],
    ) -> None:
        self._store = store
        self._runners = runners
        self._find_spec = find_spec
        self._commands: dict[int, _Asked] = {}  # by the numbers of their claims
        self._last_number = 0
        self._said: dict[MachineCondition, str | None] = {}  # by commands, at their last end
        self._clock = clock
        self._machine = machine
        self._reports = reports
        self.asked: dict[MachineCondition, int] = {}  # when it was last of interest (monotonic)
        self._known: dict[MachineCondition, bool] = {}
        self._known_at_ms: dict[MachineCondition, int] = {}  # monotonic
        self.checks: dict[Waited, _Check] = {}  # of the conditions that runs wait for
        self._notes: dict[Waited, str | None] = {}  # what was recorded of unmet conditions
        self._answered: set[Waited] = set()  # waits whose command has just ended
        self.has_waits = True  # a run waits, or might wait for a condition that is not known yet
        self._has_reports = False  # the machine has reported a change
        self._watched_kinds: set[Kind] = set()  # conditions of running runs
        self._fd: int | None = None
        self._settled_at_ms: int | None = None  # monotonic, if the machine has just woken up

    def filenos(self) -> list[int]:
        """The descriptors that show a change; empty if no run waits."""
        machine = [] if self._machine is None else self._machine.filenos()
        return machine if self._fd is None else [self._fd, *machine]

    @property
    def wake_ms(self) -> int | None:
        """How long until the next check; None if no run waits."""
        at_ms = min((one.at_ms for one in self.checks.values()), default=None)
        return None if at_ms is None else max(0, at_ms - self._clock.monotonic_ms())

    def look(
        self, wanted: Sequence[Waited] = (), *, is_for_claim: bool = False
    ) -> Mapping[MachineCondition, bool]:
        """Look at the machine for these conditions, and return all that is known.

        A condition that was asked for a moment ago is looked at again. Right after the machine woke
        up, nothing is known. A command is only started: its answer comes later, and counts as long
        as the answers of other commands can take, so that several can be true together. Claims
        start a command for which a run waits only now and then.
        """
        now_ms = self._clock.monotonic_ms()
        for one in wanted:
            may_ask = not is_for_claim or self._may_ask_again(one, now_ms)
            for condition in find_of_machine((one.text,), one.schedule_id or 0):
                self.asked[condition] = now_ms
                is_command = condition.kind is Kind.COMMAND and self._machine is not None
                if is_command and may_ask and not self._is_fresh(condition, now_ms):
                    self._ask(condition, revision=one.revision or 0)
        if not self.asked or self._machine is None or self._is_settling(now_ms):
            return NOTHING_KNOWN
        old = []
        answer_ms = self._answer_lasts_ms()
        for condition, asked_ms in list(self.asked.items()):
            if asked_ms < now_ms - max(_ASKED_MS, answer_ms):
                del self.asked[condition]
                for facts in (self._known, self._known_at_ms, self._said):
                    facts.pop(condition, None)
            elif condition.kind is Kind.COMMAND:
                if not self._is_fresh(condition, now_ms, within_ms=answer_ms):
                    self._known.pop(condition, None)
            elif not self._is_fresh(condition, now_ms):
                self._known.pop(condition, None)
                old.append(condition)
        if old:
            self._known.update(judge(self._machine, old))
            self._known_at_ms.update(dict.fromkeys(old, now_ms))
        return dict(self._known)

    def _may_ask_again(self, one: Waited, now_ms: int) -> bool:
        """Whether a claim can start the command of a condition, and note that it does."""
        check = self.checks.get(one)
        if check is None or not is_command(one.text):
            return True
        if check.last_ms is not None and now_ms < check.last_ms + _COMMAND_PAUSE_MS:
            return False
        self.checks[one] = check._replace(last_ms=now_ms)
        return True

    def _is_fresh(
        self, condition: MachineCondition, now_ms: int, *, within_ms: int = _FRESH_MS
    ) -> bool:
        return self._known_at_ms.get(condition, now_ms - within_ms) > now_ms - within_ms

    def _answer_lasts_ms(self) -> int:
        """How long the answer of a command counts: another one can take so long."""
        limits_ms = (one.amount for one in self.asked if one.kind is Kind.COMMAND)
        return round(max(limits_ms, default=0)) + _FIRST_PAUSE_MS

    def _ask(self, condition: MachineCondition, *, revision: int) -> None:
        """Start the command of a condition, unless it is running or can't be started now."""
        now_ms = self._clock.monotonic_ms()
        self._commands = {key: one for key, one in self._commands.items() if one.until_ms > now_ms}
        spec = self._find_spec(condition.of, revision)
        if spec is None or any(one.condition == condition for one in self._commands.values()):
            return
        self._last_number -= 1
        number, token = self._last_number, os.urandom(8).hex()
        at_ms = self._clock.now_ms()
        claim = command_claim(condition, spec, number=number, token=token, now_ms=at_ms)
        if self._runners.ask(claim):
            until_ms = now_ms + most_wait_ms(condition)
            self._commands[self._last_number] = _Asked(condition, until_ms)

    def take_news(self) -> bool:
        """Note what commands have answered; whether they or the machine have told something new."""
        outcomes, self._runners.answers = self._runners.answers, []
        has_reports, self._has_reports = self._has_reports, False
        if outcomes:
            self._take_answers(outcomes)
        return has_reports or bool(outcomes)

    def _take_answers(self, outcomes: Sequence[Outcome]) -> None:
        now_ms = self._clock.monotonic_ms()
        for outcome in outcomes:
            asked = self._commands.pop(outcome.execution_id, None)
            if asked is None:
                continue  # It came too late.
            condition, is_met, note = read_answer(asked.condition, outcome)
            self._said[condition] = note
            self.asked[condition] = now_ms
            self._known_at_ms[condition] = now_ms
            self._known.pop(condition, None)
            if is_met is not None:
                self._known[condition] = is_met
            for one in self.checks:
                if condition in find_of_machine((one.text,), one.schedule_id or 0):
                    self._answered.add(one)

    def wake_runs(self, queues: Sequence[str]) -> bool:
        """Wake the runs whose condition holds now; whether there were any."""
        answered, self._answered = self._answered, set()
        now_ms = self._clock.monotonic_ms()
        due = [one for one, check in self.checks.items() if check.at_ms <= now_ms]
        if not due and not answered:
            return False
        # What has just answered is not asked again.
        self.look([one for one in due if one not in answered])
        for one in due:
            pause_ms = self.checks[one].pause_ms
            self.checks[one] = _Check(
                now_ms + pause_ms, min(2 * pause_ms, _LONGEST_PAUSE_MS), last_ms=now_ms
            )
        looked_at = answered.union(due)
        met = [one for one in looked_at if self.judge(one)[1]]
        self._note_unmet(queues, [one for one in looked_at if one not in met])
        return bool(met) and self._store.wake_waiting(queues, met) > 0

    def judge(self, one: Waited, *, is_strict: bool = False) -> tuple[Condition, bool | None]:
        """A condition, and whether it holds by what was seen; None if that is unknown.

        With `is_strict`, only what was seen just now counts.
        """
        condition = bind(read_condition(one.text), one.schedule_id or 0)
        if is_strict:
            now_ms = self._clock.monotonic_ms()
            of_machine = find_of_machine((one.text,), one.schedule_id or 0)
            if not all(self._is_fresh(each, now_ms) for each in of_machine):
                return condition, None
        return condition, condition.is_met(self)

    def watch(self, watched: set[Waited]) -> None:
        """Listen to the machine for running runs, too, which have these conditions."""
        kinds = {kind for one in watched for kind in _kinds_of(one)}
        if kinds != self._watched_kinds:
            self._watched_kinds = kinds
            self.listen()

    def find_waits(self, queues: Sequence[str]) -> None:
        """Find the conditions that runs wait for. Without any, do not listen to the machine."""
        now_ms = self._clock.monotonic_ms()
        waited = self._store.find_waited(queues)
        self.has_waits = bool(waited)
        self.checks = {one: self.checks.get(one) or self._first(one, now_ms) for one in waited}
        for one in self._notes.keys() - self.checks.keys():
            del self._notes[one]
        self.listen()

    def listen(self) -> None:
        """Listen to the machine if a run waits for what it reports, or has it as a condition."""
        kinds = {kind for one in self.checks for kind in _kinds_of(one)} | self._watched_kinds
        if self._machine is not None and not kinds & _OF_PATHS:
            self._machine.forget_paths()
        if self._machine is not None and not kinds & OF_BUS:
            self._machine.forget_bus()
        if not kinds & _REPORTED:
            self._stop_reports()
        elif self._fd is None:
            self._fd = self._reports.open()

    def hear(self) -> None:
        """Check everything that runs wait for: the machine has reported a change.

        However many changes it reports, commands are started only now and then.
        """
        self._has_reports = self.has_waits = True
        self._reports.clear()
        if self._machine is not None:
            self._machine.clear()
        self._known_at_ms = {
            one: at_ms for one, at_ms in self._known_at_ms.items() if one.kind is Kind.COMMAND
        }
        self._check_all(self._clock.monotonic_ms())

    def settle(self) -> None:
        """Distrust what the machine shows for a moment: it has just woken up."""
        self._settled_at_ms = self._clock.monotonic_ms() + _SETTLE_MS
        self._known.clear()
        self._known_at_ms.clear()
        self._check_all(self._settled_at_ms)

    def close(self) -> None:
        """Stop listening to the machine."""
        if self._machine is not None:
            self._machine.forget_paths()
            self._machine.forget_bus()
        self._stop_reports()

    def _stop_reports(self) -> None:
        if self._fd is not None:
            self._fd = None
            self._reports.close()

    def _note_unmet(self, queues: Sequence[str], waited: Sequence[Waited]) -> None:
        """Record why these conditions are not met, if the machine says that and it is new."""
        for one in waited:
            note = None if self._machine is None else find_note(self._machine, one.text)
            for condition in find_of_machine((one.text,), one.schedule_id or 0):
                note = note or self._said.get(condition)
            if self._notes.get(one) != note:
                self._notes[one] = note
                self._store.note_wait(queues, one, note)

    def _is_settling(self, now_ms: int) -> bool:
        if self._settled_at_ms is not None and now_ms >= self._settled_at_ms:
            self._settled_at_ms = None
        return self._settled_at_ms is not None

    def _check_all(self, at_ms: int) -> None:
        at_ms = max(at_ms, self._settled_at_ms or 0)
        for one, check in self.checks.items():
            pause_ms = _FIRST_PAUSE_MS
            one_at_ms = at_ms
            if is_command(one.text) and check.last_ms is not None:
                pause_ms = min(check.pause_ms, _COMMAND_PAUSE_MS)
                soonest_ms = check.last_ms + _COMMAND_PAUSE_MS
                one_at_ms = max(at_ms, min(check.at_ms, soonest_ms))
            self.checks[one] = _Check(one_at_ms, pause_ms, check.last_ms)

    def _first(self, one: Waited, now_ms: int) -> _Check:
        """When a new wait is checked: now, unless this pass has looked at the machine for it."""
        if self._is_settling(now_ms):
            return _Check(self._settled_at_ms or now_ms, _FIRST_PAUSE_MS)
        wanted = find_of_machine((one.text,), one.schedule_id or 0)
        # A command that was started for it answers by itself.
        is_seen = bool(wanted) and all(
            condition.kind is Kind.COMMAND or self._is_fresh(condition, now_ms)
            for condition in wanted
        )
        at_ms = now_ms + _FIRST_PAUSE_MS if is_seen else now_ms
        pause_ms = 2 * _FIRST_PAUSE_MS if is_seen else _FIRST_PAUSE_MS
        return _Check(at_ms, pause_ms, last_ms=now_ms if is_seen else None)

    # The facts by which a condition is judged.

    @property
    def now_ms(self) -> int:
        return self._clock.now_ms()

    def last_success_ms(self, schedule: str) -> int | None:
        return self._store.find_last_success_ms(schedule)

    def holds(self, condition: MachineCondition) -> bool | None:
        return self._known.get(condition)


class WhileRuns:
    """The running runs with conditions, each with the time of its next check."""

    def __init__(
        self,
        conditions: ConditionWatch,
        *,
        store: Store,
        clock: Clock,
        runners: Runners,
        events: EventReporter,
    ) -> None:
        self._conditions = conditions
        self._store = store
        self._clock = clock
        self._runners = runners
        self._events = events
        self._seen: dict[int, WatchedRun] = {}

    @property
    def wake_ms(self) -> int | None:
        """How long until the next check; None without such a run."""
        at_ms = min((one.check_at_ms for one in self._seen.values()), default=None)
        return None if at_ms is None else max(0, at_ms - self._clock.monotonic_ms())

    def look(self, *, has_news: bool) -> None:
        """Check the runs whose time has come; with `has_news` all: the machine has changed."""
        now_ms = self._clock.monotonic_ms()
        runs = self._runners.watched()
        self._seen = {key: self._find(key, run, now_ms) for key, run in runs.items()}
        wanted = {
            key: _waited(_watched(runs[key]))
            for key, one in self._seen.items()
            if has_news or one.check_at_ms <= now_ms
        }
        # News of one command must not start others: they would start each other without a pause.
        self._conditions.look(
            [
                one
                for key, waited in wanted.items()
                for one in waited
                if self._seen[key].check_at_ms <= now_ms or not is_command(one.text)
            ]
        )
        for key, waited in wanted.items():
            self._seen[key] = self._check(key, runs[key], waited, now_ms)
        self._conditions.watch({one for run in runs.values() for one in _waited(_watched(run))})

    def _find(self, execution_id: int, run: StartedRun, now_ms: int) -> WatchedRun:
        seen = self._seen.get(execution_id)
        if seen is not None and seen.token == run.token:
            return seen
        return WatchedRun(run.token, now_ms, is_suspended=_watched(run).is_suspended)

    def _check(
        self, execution_id: int, run: StartedRun, waited: Sequence[Waited], now_ms: int
    ) -> WatchedRun:
        before = self._seen[execution_id]
        judged = [self._conditions.judge(one, is_strict=not before.is_suspended) for one in waited]
        seen, act, unmet = judge_while(before, judged, lost=_watched(run).lost, now_ms=now_ms)
        if before.check_at_ms > now_ms and act in (WhileAct.NOTHING, WhileAct.SUSPEND_AGAIN):
            # News, however often they come, do not put off the check of what nothing reports.
            at_ms = min(seen.check_at_ms, before.check_at_ms)
            seen = seen._replace(check_at_ms=at_ms, pause_ms=before.pause_ms)
        if act is WhileAct.RESUME:
            self._resume(execution_id, run)
        elif act is WhileAct.SUSPEND_AGAIN:
            self._runners.suspend(execution_id)
        elif unmet is not None and act is WhileAct.END:
            self._runners.lose(execution_id, f"its condition {unmet.text} was no longer true")
        elif unmet is not None and act is WhileAct.SUSPEND:
            self._suspend(execution_id, run, unmet)
        return seen

    def _suspend(self, execution_id: int, run: StartedRun, unmet: Condition) -> None:
        self._runners.suspend(execution_id)
        since = format_ms(self._clock.now_ms())
        note = f"suspended since {since}: it waits for {unmet.words()}"
        if self._store.note_suspension(execution_id, run.token, note):
            details: dict[str, object] = {"waiting_for": unmet.text}
            self._events.report(EventKind.SUSPENDED, execution_id, run.schedule, details)

    def _resume(self, execution_id: int, run: StartedRun) -> None:
        self._runners.resume(execution_id)
        if self._store.note_suspension(execution_id, run.token, None):
            self._events.report(EventKind.CONTINUED, execution_id, run.schedule)


def _watched(run: StartedRun) -> Watched:
    assert run.watched is not None
    return run.watched


def _waited(watched: Watched) -> tuple[Waited, ...]:
    return tuple(Waited(text, watched.schedule_id, watched.revision) for text in watched.needs)
