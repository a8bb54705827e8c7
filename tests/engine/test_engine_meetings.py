"""How policies meet: a table of stories, each with the history that a person would call right.

Every story begins at 20:00 with an engine that steps whenever anything is due. A line of history
reads

    20:15..20:45 x3 skipped:misfire           three plan times that did not run, and why
    20:15 #2 at 20:31 success                 the second attempt, which started later than its plan
    20:15 catch_up at 20:50 failed:exit       a cause is named where it is not its trigger in time

with times to the minute. If no topic of help states a rule, the name of its story says "silent".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.units import from_ms, to_ms
from edgecron.model.choices import CatchUp, Cause, OnInterrupt, Overlap, Reason
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from tests.support.story import START_MS, Story

DAY_BEGAN_MS = START_MS - 20 * 3_600_000
MINUTE_MS = 60_000

Happening = Callable[["Telling"], object]


@dataclass(frozen=True, kw_only=True)
class Tale:
    """Schedules, what happens when, and the history of each schedule at `until`."""

    schedules: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...]
    then: tuple[tuple[str, Happening], ...] = ()
    until: str
    history: dict[str, str]
    places: int = 16
    after: dict[str, str | None] = field(default_factory=dict)  # the next time of each


class Telling:
    """A story under way: an engine that is awake unless it is told to sleep."""

    def __init__(self, path: Path, places: int) -> None:
        self.story = Story(path, max_running=places)
        self.clock = self.story.world.clock

    @property
    def client(self) -> Any:
        return self.story.client

    def go_to(self, time: str) -> None:
        """Let the engine live until a time: it steps at each wake-up and at each end."""
        target_ms = ms(time)
        self.step()
        while self.clock.now_ms() < target_ms:
            coming = [target_ms]
            if self.wake_ms is not None:
                coming.append(self.wake_ms)
            now_ms = self.clock.now_ms()
            coming += [b.ends_ms for b in self.story.world.bodies if b.ends_ms > now_ms]
            self.clock.advance_ms(max(min(coming) - now_ms, 1))
            self.step()

    def step(self) -> None:
        """What starts in one step may end in the next, which may let another start."""
        for _ in range(4):
            self.wake_ms = self.story.engine.step().wake_ms

    def history(self, name: str) -> list[str]:
        return [shown(run) for run in self.story.runs(name)]


def ms(time: str) -> int:
    hour, minute = time.split(":")
    return DAY_BEGAN_MS + int(hour) * 3_600_000 + int(minute) * MINUTE_MS


def clock_time(at_ms: int) -> str:
    hour, minute = divmod((at_ms - DAY_BEGAN_MS) // MINUTE_MS, 60)
    return f"{hour:02}:{minute:02}"


def shown(run: Execution) -> str:
    """A row of history as one line of the table."""
    plan = clock_time(to_ms(run.plan_at))
    words = [plan] if run.scope_kind == "global" else [run.scope_id, plan]
    if run.missed_to_at is not None and run.missed_count != 1:
        words = [f"{plan}..{clock_time(to_ms(run.missed_to_at))} x{run.missed_count}"]
        words = words if run.scope_kind == "global" else [run.scope_id, *words]
    if run.attempt > 1:
        words.append(f"#{run.attempt}")
    if run.cause not in (Cause.SCHEDULE, Cause.RETRY):
        words.append(str(run.cause))
    if run.started_at is not None and clock_time(to_ms(run.started_at)) != plan:
        words.append(f"at {clock_time(to_ms(run.started_at))}")
    words.append(f"{run.status}:{run.reason}" if run.reason else str(run.status))
    return " ".join(words)


_CHOICES = {"catch_up": CatchUp, "overlap": Overlap, "on_interrupt": OnInterrupt}

# What the schedules of a tale are, and what may happen in it.


def job(name: str, *triggers: str, lasts_m: float = 0, code: int = 0, **more: Any) -> Any:
    """A schedule; what is not a bound or the scopes is a policy."""
    bounds = ("from_at", "until_at", "max_runs", "scopes")
    options: dict[str, Any] = {key: more.pop(key) for key in bounds if key in more}
    more = {key: _CHOICES[key](value) if key in _CHOICES else value for key, value in more.items()}
    options |= {"lasts_s": int(lasts_m * 60), "code": code, "policies": Policies(**more)}
    return name, triggers, options


def asleep(until: str) -> Happening:
    """The machine sleeps; a job that lasts longer than that is still running."""
    return lambda telling: telling.clock.suspend_ms(ms(until) - telling.clock.now_ms())


def both(first: Happening, second: Happening) -> Happening:
    """One after the other, before the engine is awake again."""
    return lambda telling: (first(telling), second(telling))


def power_cut(until: str) -> Happening:
    """Everything ends; at `until` the machine and a new engine start."""

    def happen(telling: Telling) -> None:
        telling.story.world.reboot()
        telling.clock.advance_ms(ms(until) - telling.clock.now_ms())
        telling.story.key = telling.story.world.start_engine(max_running=16)

    return happen


def pause(name: str, until: str | None = None) -> Happening:
    def happen(telling: Telling) -> None:
        telling.client.pause(name, until=None if until is None else from_ms(ms(until)))

    return happen


def resume(name: str) -> Happening:
    return lambda telling: telling.client.resume(name)


def run(name: str) -> Happening:
    return lambda telling: telling.client.run_now(name)


def remove(name: str) -> Happening:
    return lambda telling: telling.client.remove(name)


def mend(name: str) -> Happening:
    return lambda telling: telling.story.world.mend(name)


def cancel(name: str) -> Happening:
    """The newest run of a schedule that has not ended."""

    def happen(telling: Telling) -> None:
        newest = telling.story.runs(name)[-1]
        if newest.status == "queued":
            telling.client.cancel(newest.id)
        else:
            body = next(b for b in telling.story.world.bodies if b.execution_id == newest.id)
            for supervisor in telling.story.world.supervisors.values():
                supervisor.end(body.token, Reason.REQUEST, telling.clock.now_ms())

    return happen


def edit(name: str, *triggers: str, **policies: Any) -> Happening:
    def change(spec: ScheduleSpec) -> ScheduleSpec:
        changed = replace(spec, policies=replace(spec.policies, **policies))
        return replace(changed, triggers=triggers) if triggers else changed

    return lambda telling: telling.client.edit(name, change)


def at(time: str) -> Any:
    return from_ms(ms(time))


QUARTERLY = "*/15 * * * *"
FIVE = "*/5 * * * *"
TWO = (("device", "a"), ("device", "b"))

TALES: dict[str, Tale] = {
    # catch_up x overlap
    "a misfire that meets what still runs is left out, as overlap says": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=60),),
        then=(("20:20", asleep("21:02")),),
        until="21:20",
        history={
            "sync": """
                20:15 success
                20:30..20:45 x2 skipped:misfire
                21:00 catch_up skipped:overlap
                21:15 running
            """
        },
    ),
    "a misfire that meets what still runs waits, under overlap queue": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=50, overlap="queue"),),
        then=(("20:20", asleep("21:02")),),
        until="21:10",
        history={
            "sync": """
                20:15 success
                20:30..20:45 x2 skipped:misfire
                21:00 catch_up at 21:05 running
            """
        },
    ),
    "all that was missed runs in turn, and so does what comes meanwhile under overlap skip": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=10, catch_up="all"),),
        then=(("20:01", asleep("20:50")),),
        until="21:45",
        history={
            "sync": """
                20:15 catch_up at 20:50 success
                20:30 catch_up at 21:00 success
                20:45 catch_up at 21:10 success
                21:00 catch_up at 21:20 success
                21:15 catch_up at 21:30 success
                21:30 catch_up at 21:40 running
                21:45 catch_up queued
            """
        },
    ),
    "all that was missed runs in turn, and so does what comes meanwhile under overlap queue": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=10, catch_up="all", overlap="queue"),),
        then=(("20:01", asleep("20:50")),),
        until="21:29",
        history={
            "sync": """
                20:15 catch_up at 20:50 success
                20:30 catch_up at 21:00 success
                20:45 catch_up at 21:10 success
                21:00 catch_up at 21:20 running
                21:15 catch_up queued
            """
        },
    ),
    "all that was missed runs in turn also under overlap allow, beside what is on time": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=10, catch_up="all", overlap="allow"),),
        then=(("20:01", asleep("20:50")),),
        until="21:29",
        history={
            "sync": """
                20:15 catch_up at 20:50 success
                20:30 catch_up at 21:00 success
                20:45 catch_up at 21:10 success
                21:00 success
                21:15 success
            """
        },
    ),
    "what is on time replaces none of those that are caught up in sequence": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=10, catch_up="all", overlap="replace"),),
        then=(("20:01", asleep("20:50")),),
        until="21:29",
        history={
            "sync": """
                20:15 catch_up at 20:50 success
                20:30 catch_up at 21:00 success
                20:45 catch_up at 21:10 success
                21:00 cancelled:replaced
                21:15 at 21:20 running
            """
        },
    ),
    # catch_up x retries
    "a caught-up fire that fails is tried again like any other": Tale(
        schedules=(job("sync", QUARTERLY, code=1, retries=1, retry_delay_s=120),),
        then=(("20:01", asleep("20:50")),),
        until="20:59",
        history={
            "sync": """
                20:15..20:30 x2 skipped:misfire
                20:45 catch_up at 20:50 failed:exit
                20:45 #2 at 20:52 failed:exit
            """
        },
    ),
    "the next of several caught up waits for the last attempt of the one before": Tale(
        schedules=(job("sync", QUARTERLY, code=1, retries=1, retry_delay_s=120, catch_up="all"),),
        then=(("20:01", asleep("20:31")),),
        until="20:44",
        history={
            "sync": """
                20:15 catch_up at 20:31 failed:exit
                20:30 catch_up at 20:33 failed:exit
                20:15 #2 at 20:33 failed:exit
                20:30 #2 at 20:35 failed:exit
            """
        },
    ),
    "the next of several caught up waits for that also where others may run beside it": Tale(
        schedules=(
            job(
                "sync",
                QUARTERLY,
                code=1,
                retries=1,
                retry_delay_s=120,
                catch_up="all",
                overlap="allow",
            ),
        ),
        then=(("20:01", asleep("20:31")),),
        until="20:44",
        history={
            "sync": """
                20:15 catch_up at 20:31 failed:exit
                20:30 catch_up at 20:33 failed:exit
                20:15 #2 at 20:33 failed:exit
                20:30 #2 at 20:35 failed:exit
            """
        },
    ),
    # catch_up x bounds
    "a misfire after the end of the schedule runs the last time before it": Tale(
        schedules=(job("sync", QUARTERLY, until_at=at("20:40")),),
        then=(("20:01", asleep("21:02")),),
        until="22:00",
        history={
            "sync": """
                20:15 skipped:misfire
                20:30 catch_up at 21:02 success
            """
        },
        after={"sync": None},
    ),
    "nothing was missed before the schedule's beginning": Tale(
        schedules=(job("sync", QUARTERLY, from_at=at("20:40")),),
        then=(("20:01", asleep("21:02")),),
        until="21:05",
        history={
            "sync": """
                20:45 skipped:misfire
                21:00 catch_up at 21:02 success
            """
        },
    ),
    "max-runs bounds what is caught up; beyond it nothing was due": Tale(
        schedules=(job("sync", QUARTERLY, max_runs=2, catch_up="all"),),
        then=(("20:01", asleep("21:02")),),
        until="22:00",
        history={
            "sync": """
                20:15 catch_up at 21:02 success
                20:30 catch_up at 21:02 success
            """
        },
        after={"sync": None},
    ),
    "what was missed and does not run costs none of max-runs (silent)": Tale(
        schedules=(job("sync", QUARTERLY, max_runs=2),),
        then=(("20:01", asleep("21:02")),),
        until="22:00",
        history={
            "sync": """
                20:15..20:45 x3 skipped:misfire
                21:00 catch_up at 21:02 success
                21:15 success
            """
        },
        after={"sync": None},
    ),
    # max_runs x others
    "attempts and runs by hand cost none of max-runs": Tale(
        schedules=(job("sync", QUARTERLY, max_runs=2, code=1, retries=1, retry_delay_s=60),),
        then=(("20:05", run("sync")),),
        until="21:00",
        history={
            "sync": """
                20:05 manual failed:exit
                20:05 #2 at 20:06 failed:exit
                20:15 failed:exit
                20:15 #2 at 20:16 failed:exit
                20:30 failed:exit
                20:30 #2 at 20:31 failed:exit
            """
        },
        after={"sync": None},
    ),
    "max-runs counts plan times, and jitter only moves them": Tale(
        schedules=(job("sync", "0 * * * *", max_runs=2, jitter_s=59),),
        until="24:00",
        history={"sync": "21:00 success\n22:00 success"},
        after={"sync": None},
    ),
    "a fire that overlap skips costs none of max-runs": Tale(
        schedules=(job("sync", QUARTERLY, max_runs=2, lasts_m=20),),
        until="21:20",
        history={"sync": "20:15 success\n20:30 skipped:overlap\n20:45 success"},
        after={"sync": None},
    ),
    "a fire that waits in vain for what it needs costs none of max-runs": Tale(
        schedules=(
            job("up", "at 2026-03-08T21:20:00Z"),
            job(
                "sync",
                QUARTERLY,
                max_runs=1,
                needs=("success:up",),
                needs_deadline_s=2400,
            ),
        ),
        until="22:10",
        history={
            "sync": """
                20:15 skipped:condition
                20:30..20:45 x2 skipped:overlap
                21:00 at 21:20 success
            """
        },
        after={"sync": None},
    ),
    "max-runs bounds boots too": Tale(
        schedules=(job("greet", "on boot", max_runs=1),),
        then=(("20:10", power_cut("20:20")), ("20:30", power_cut("20:40"))),
        until="21:00",
        history={"greet": "20:20 boot success"},
    ),
    "a boot outside of from and until is none": Tale(
        schedules=(
            job("early", "on boot", from_at=at("20:30")),
            job("late", "on boot", until_at=at("20:30")),
        ),
        then=(("20:10", power_cut("20:20")), ("20:30", power_cut("20:40"))),
        until="21:00",
        history={"early": "20:40 boot success", "late": "20:20 boot success"},
    ),
    "an upstream's end outside of from and until is not followed": Tale(
        schedules=(
            job("first", QUARTERLY),
            job("second", "after first", from_at=at("20:20"), until_at=at("20:50")),
        ),
        until="21:10",
        history={
            "first": "20:15 success\n20:30 success\n20:45 success\n21:00 success",
            "second": "20:30 after success\n20:45 after success",
        },
    ),
    "an interval after the end ends with until": Tale(
        schedules=(job("poll", "every 10m after end", until_at=at("20:35")),),
        until="21:30",
        history={"poll": "20:10 success\n20:20 success\n20:30 success"},
        after={"poll": None},
    ),
    "an interval after the end ends with max-runs": Tale(
        schedules=(job("poll", "every 10m after end", max_runs=2, lasts_m=5),),
        until="21:30",
        history={"poll": "20:10 success\n20:25 success"},
        after={"poll": None},
    ),
    "an interval after the end begins with from": Tale(
        schedules=(job("poll", "every 10m after end", from_at=at("20:31")),),
        until="20:50",
        history={"poll": "20:31 success\n20:41 success"},
    ),
    # pause x each
    "what passed in a pause is one row, and resume catches nothing up": Tale(
        schedules=(job("sync", QUARTERLY, catch_up="all"),),
        then=(("20:10", pause("sync")), ("21:02", resume("sync"))),
        until="21:20",
        history={"sync": "20:15..21:00 x4 skipped:paused\n21:15 success"},
    ),
    "an interval after the end counts from the end of a pause that has one": Tale(
        schedules=(job("poll", "every 10m after end"),),
        then=(("20:05", pause("poll", "20:30")),),
        until="20:55",
        history={"poll": "20:40 success\n20:50 success"},
    ),
    "a pause with an end holds what is before it, and no more": Tale(
        schedules=(job("sync", QUARTERLY),),
        then=(("20:10", pause("sync", "20:45")),),
        until="21:05",
        history={"sync": "20:15..20:30 x2 skipped:paused\n20:45 success\n21:00 success"},
    ),
    "asleep beyond the end of a pause: what it held and what was missed are told apart": Tale(
        schedules=(job("sync", QUARTERLY),),
        then=(("20:10", pause("sync", "20:40")), ("20:11", asleep("21:02"))),
        until="21:05",
        history={
            "sync": """
                20:15..20:30 x2 skipped:paused
                20:45 skipped:misfire
                21:00 catch_up at 21:02 success
            """
        },
    ),
    "what was missed before a pause that came first is the pause's as well (silent)": Tale(
        schedules=(job("sync", QUARTERLY),),
        then=(("20:01", both(asleep("20:35"), pause("sync"))), ("20:50", resume("sync"))),
        until="21:05",
        history={"sync": "20:15..20:45 x3 skipped:paused\n21:00 success"},
    ),
    "what runs when the pause begins finishes": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=10),),
        then=(("20:20", pause("sync")),),
        until="20:40",
        history={"sync": "20:15 success"},
    ),
    "a pause holds what is queued": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=20, overlap="queue"),),
        then=(("20:31", pause("sync")), ("20:50", resume("sync"))),
        until="20:59",
        history={"sync": "20:15 success\n20:30 at 20:50 running\n20:45 skipped:paused"},
    ),
    "a pause holds the next attempt": Tale(
        schedules=(job("sync", "0 * * * *", code=1, retries=1, retry_delay_s=120),),
        then=(("21:01", pause("sync")), ("21:30", resume("sync"))),
        until="21:40",
        history={"sync": "21:00 failed:exit\n21:00 #2 at 21:30 failed:exit"},
    ),
    "a pause does not hold a run by hand": Tale(
        schedules=(job("sync", "0 * * * *"),),
        then=(("20:10", pause("sync")), ("20:20", run("sync"))),
        until="20:40",
        history={"sync": "20:20 manual success"},
    ),
    "a pause holds what comes after, which is recorded": Tale(
        schedules=(job("first", QUARTERLY), job("second", "after first")),
        then=(("20:20", pause("second")), ("20:50", resume("second"))),
        until="21:05",
        history={
            "first": "20:15 success\n20:30 success\n20:45 success\n21:00 success",
            "second": """
                20:15 after success
                20:30..20:45 x2 skipped:paused
                21:00 after success
            """,
        },
    ),
    "after a pause an interval after the end counts from the resume": Tale(
        schedules=(job("poll", "every 10m after end"),),
        then=(("20:15", pause("poll")), ("20:47", resume("poll"))),
        until="21:00",
        history={"poll": "20:10 success\n20:57 success"},
    ),
    "a boot within a pause is not caught up (silent: whether it leaves a row)": Tale(
        schedules=(job("greet", "on boot"),),
        then=(
            ("20:05", pause("greet")),
            ("20:10", power_cut("20:20")),
            ("20:30", resume("greet")),
            ("20:40", power_cut("20:50")),
        ),
        until="21:00",
        history={"greet": "20:50 boot success"},
    ),
    # retries x overlap
    "a fire waits while another is tried again, and overlap leaves it out": Tale(
        schedules=(job("sync", FIVE, code=1, retries=1, retry_delay_s=360),),
        until="20:14",
        history={
            "sync": """
                20:05 failed:exit
                20:05 #2 at 20:11 failed:exit
                20:10 skipped:overlap
            """
        },
    ),
    "overlap queue lets a fire wait until the last attempt of the one before": Tale(
        schedules=(job("sync", FIVE, code=1, retries=1, retry_delay_s=360, overlap="queue"),),
        until="20:14",
        history={
            "sync": """
                20:05 failed:exit
                20:05 #2 at 20:11 failed:exit
                20:10 at 20:11 failed:exit
                20:10 #2 queued
            """
        },
    ),
    "a fire replaces one that would be tried again, which is not": Tale(
        schedules=(job("sync", FIVE, code=1, retries=1, retry_delay_s=360, overlap="replace"),),
        until="20:14",
        history={
            "sync": """
                20:05 failed:exit
                20:05 #2 cancelled:replaced
                20:10 failed:exit
                20:10 #2 queued
            """
        },
    ),
    "what was replaced while it ran is not tried again": Tale(
        schedules=(
            job("sync", QUARTERLY, lasts_m=20, retries=3, retry_delay_s=60, overlap="replace"),
        ),
        until="20:44",
        history={"sync": "20:15 cancelled:replaced\n20:30 running"},
    ),
    "what a person cancelled is not tried again": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=10, code=1, retries=3, retry_delay_s=60),),
        then=(("20:20", cancel("sync")),),
        until="20:29",
        history={"sync": "20:15 cancelled:request"},
    ),
    "an attempt that a person withdraws is the fire's end": Tale(
        schedules=(
            job("sync", "0 * * * *", code=1, retries=3, retry_delay_s=300),
            job("alarm", "after sync:any"),
        ),
        then=(("21:02", cancel("sync")),),
        until="21:20",
        history={
            "sync": "21:00 failed:exit\n21:00 #2 cancelled:request",
            "alarm": "21:00 after at 21:02 success",
        },
    ),
    "a run that a person withdraws before it starts is an end to count from": Tale(
        schedules=(
            job("poll", "every 10m after end", lasts_m=5, retries=1, retry_delay_s=120, code=1),
        ),
        then=(("20:16", cancel("poll")),),
        until="20:27",
        history={
            "poll": """
                20:10 failed:exit
                20:10 #2 cancelled:request
                20:26 running
            """
        },
    ),
    # after x others
    "what comes after waits for the last attempt, and follows what that was": Tale(
        schedules=(
            job("first", "0 * * * *", code=1, retries=1, retry_delay_s=120),
            job("well", "after first"),
            job("badly", "after first:failure"),
        ),
        then=(("21:01", mend("first")),),
        until="21:20",
        history={
            "first": "21:00 failed:exit\n21:00 #2 at 21:02 success",
            "well": "21:00 after at 21:02 success",
            "badly": "",
        },
    ),
    "what comes after is tried again by its own policy": Tale(
        schedules=(
            job("first", "0 * * * *"),
            job("second", "after first", code=1, retries=1, retry_delay_s=120),
        ),
        until="21:20",
        history={
            "first": "21:00 success",
            "second": "21:00 after failed:exit\n21:00 #2 at 21:02 failed:exit",
        },
    ),
    "what comes after meets overlap like any fire": Tale(
        schedules=(
            job("first", QUARTERLY),
            job("skips", "after first", lasts_m=20),
            job("waits", "after first", lasts_m=20, overlap="queue"),
            job("replaces", "after first", lasts_m=20, overlap="replace"),
        ),
        until="20:40",
        history={
            "skips": "20:15 after success\n20:30 after skipped:overlap",
            "waits": "20:15 after success\n20:30 after at 20:35 running",
            "replaces": "20:15 after cancelled:replaced\n20:30 after running",
        },
    ),
    "a run that is replaced is followed by what follows any end alone": Tale(
        schedules=(
            job("first", QUARTERLY, lasts_m=20, overlap="replace"),
            job("well", "after first"),
            job("badly", "after first:failure"),
            job("always", "after first:any"),
        ),
        until="20:40",
        history={
            "first": "20:15 cancelled:replaced\n20:30 running",
            "well": "",
            "badly": "",
            "always": "20:15 after at 20:30 success",
        },
    ),
    "what is caught up is followed, what was missed is not": Tale(
        schedules=(job("first", QUARTERLY), job("second", "after first:any")),
        then=(("20:01", asleep("20:50")),),
        until="20:55",
        history={
            "first": "20:15..20:30 x2 skipped:misfire\n20:45 catch_up at 20:50 success",
            "second": "20:45 after at 20:50 success",
        },
    ),
    "what a power cut interrupts counts as a failure": Tale(
        schedules=(
            job("first", "0 * * * *", lasts_m=30),
            job("well", "after first"),
            job("badly", "after first:failure"),
        ),
        then=(("21:10", power_cut("21:20")),),
        until="21:30",
        history={
            "first": "21:00 interrupted:reboot",
            "well": "",
            "badly": "21:00 after at 21:20 success",
        },
    ),
    "an interrupted run that is tried again is followed once, by its last attempt": Tale(
        schedules=(
            job("first", "0 * * * *", lasts_m=30, on_interrupt="retry"),
            job("second", "after first:any"),
        ),
        then=(("21:10", power_cut("21:20")),),
        until="21:55",
        history={
            "first": "21:00 interrupted:reboot\n21:00 #2 at 21:20 success",
            "second": "21:00 after at 21:50 success",
        },
    ),
    # after end x others
    "of several triggers the earliest wins, and the interval counts from the end it had": Tale(
        schedules=(job("poll", "every 20m after end", "30 * * * *", lasts_m=5),),
        until="21:40",
        history={
            "poll": "20:20 success\n20:30 success\n20:55 success\n21:20 success\n21:30 success"
        },
    ),
    "an interval after the end counts from the last attempt": Tale(
        schedules=(job("poll", "every 20m after end", code=1, retries=1, retry_delay_s=240),),
        until="20:50",
        history={
            "poll": "20:20 failed:exit\n20:20 #2 at 20:24 failed:exit\n20:44 failed:exit\n"
            "20:44 #2 at 20:48 failed:exit"
        },
    ),
    "an interval after the end counts from the last end, that of a run by hand as well": Tale(
        schedules=(job("poll", "every 20m after end"),),
        then=(("20:05", run("poll")),),
        until="20:45",
        history={"poll": "20:05 manual success\n20:25 success\n20:45 success"},
    ),
    # rm x each
    "what runs when its schedule is removed finishes, what waits is cancelled": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=20, overlap="queue"),),
        then=(("20:31", remove("sync")),),
        until="21:00",
        history={"sync": "20:15 success\n20:30 cancelled:removed"},
    ),
    "the next attempt of a removed schedule is cancelled": Tale(
        schedules=(job("sync", "0 * * * *", code=1, retries=3, retry_delay_s=300),),
        then=(("21:01", remove("sync")),),
        until="21:20",
        history={"sync": "21:00 failed:exit\n21:00 #2 cancelled:removed"},
    ),
    "what was missed when its schedule is removed is recorded": Tale(
        schedules=(job("sync", QUARTERLY, catch_up="all"),),
        then=(("20:01", both(asleep("20:50"), remove("sync"))),),
        until="21:00",
        history={"sync": "20:15..20:45 x3 skipped:removed"},
    ),
    "what is still to be caught up when its schedule is removed is cancelled": Tale(
        schedules=(job("sync", QUARTERLY, catch_up="all", lasts_m=10),),
        then=(("20:01", asleep("20:50")), ("20:55", remove("sync"))),
        until="21:30",
        history={
            "sync": """
                20:15 catch_up at 20:50 success
                20:30 catch_up cancelled:removed
                20:45 catch_up cancelled:removed
            """
        },
    ),
    "a run that ends after its schedule was removed is followed (silent)": Tale(
        schedules=(job("first", "0 * * * *", lasts_m=10), job("second", "after first")),
        then=(("21:05", remove("first")),),
        until="21:20",
        history={"first": "21:00 success", "second": "21:00 after at 21:10 success"},
    ),
    # edits x each
    "a fire keeps the attempts that its schedule had when it began": Tale(
        schedules=(job("sync", "0 * * * *", code=1, retries=1, retry_delay_s=120),),
        then=(("21:01", edit("sync", retries=5)),),
        until="21:30",
        history={"sync": "21:00 failed:exit\n21:00 #2 at 21:02 failed:exit"},
    ),
    "new triggers first record what was missed, then count from now": Tale(
        schedules=(job("sync", QUARTERLY, catch_up="all"),),
        then=(("20:01", both(asleep("20:50"), edit("sync", "20 * * * *"))),),
        until="21:30",
        history={"sync": "20:15..20:45 x3 skipped:edited\n21:20 success"},
    ),
    "another edit does not move the next time, nor what was missed": Tale(
        schedules=(job("sync", QUARTERLY),),
        then=(("20:01", both(asleep("20:50"), edit("sync", timeout_s=60))),),
        until="21:05",
        history={
            "sync": """
                20:15..20:30 x2 skipped:misfire
                20:45 catch_up at 20:50 success
                21:00 success
            """
        },
    ),
    "new triggers leave what runs and what waits alone": Tale(
        schedules=(job("sync", QUARTERLY, lasts_m=20, overlap="queue"),),
        then=(("20:31", edit("sync", "0 0 * * *")),),
        until="21:00",
        history={"sync": "20:15 success\n20:30 at 20:35 success"},
    ),
    # scopes x each
    "each scope has its own overlap and its own attempts": Tale(
        schedules=(job("probe", QUARTERLY, scopes=TWO, code=1, retries=1, retry_delay_s=120),),
        until="20:29",
        history={
            "probe": """
                a 20:15 failed:exit
                b 20:15 failed:exit
                a 20:15 #2 at 20:17 failed:exit
                b 20:15 #2 at 20:17 failed:exit
            """
        },
    ),
    "a misfire is recorded and caught up in each scope": Tale(
        schedules=(job("probe", QUARTERLY, scopes=TWO),),
        then=(("20:01", asleep("20:50")),),
        until="20:55",
        history={
            "probe": """
                a 20:15..20:30 x2 skipped:misfire
                a 20:45 catch_up at 20:50 success
                b 20:15..20:30 x2 skipped:misfire
                b 20:45 catch_up at 20:50 success
            """
        },
    ),
    "a fire in all scopes is one of max-runs": Tale(
        schedules=(job("probe", QUARTERLY, scopes=TWO, max_runs=1),),
        until="21:00",
        history={"probe": "a 20:15 success\nb 20:15 success"},
        after={"probe": None},
    ),
    "what comes after runs in the scope that has ended, and in all after any other": Tale(
        schedules=(
            job("first", "0 * * * *", scopes=TWO),
            job("same", "after first", scopes=TWO),
            job("once", "after first", overlap="allow"),
        ),
        until="21:05",
        history={
            "same": "a 21:00 after success\nb 21:00 after success",
            "once": "21:00 after success\n21:00 after success",
        },
    ),
    "an interval after the end counts from the last scope's end": Tale(
        schedules=(job("probe", "every 10m after end", scopes=TWO, lasts_m=5),),
        then=(("20:12", cancel("probe")),),
        until="20:29",
        history={
            "probe": """
                a 20:10 success
                b 20:10 cancelled:request
                a 20:25 running
                b 20:25 running
            """
        },
    ),
    # manual x each
    "a run by hand meets overlap": Tale(
        schedules=(
            job("skips", "0 * * * *", lasts_m=10),
            job("waits", "0 * * * *", lasts_m=10, overlap="queue"),
        ),
        then=(("21:05", run("skips")), ("21:05", run("waits"))),
        until="21:30",
        history={
            "skips": "21:00 success\n21:05 manual skipped:overlap",
            "waits": "21:00 success\n21:05 manual at 21:10 success",
        },
    ),
}


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("name", TALES)
def test_policies_meet_as_the_table_says(name: str, tmp_path: Path) -> None:
    tale = TALES[name]
    telling = Telling(tmp_path / "story.db", tale.places)
    for schedule, triggers, options in tale.schedules:
        telling.story.add(schedule, *triggers, **options)

    for time, happen in tale.then:
        telling.go_to(time)
        happen(telling)
    telling.go_to(tale.until)

    told = {schedule: telling.history(schedule) for schedule in tale.history}
    assert told == {schedule: lines(text) for schedule, text in tale.history.items()}
    for schedule, upcoming in tale.after.items():
        found = telling.client.schedule(schedule).next_plan_at
        assert upcoming == (None if found is None else clock_time(to_ms(found)))
