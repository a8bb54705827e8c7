"""A laptop for a month: `why` tells the truth about every due time.

It sleeps each night, leaves its power supply and its network each day, goes through tunnels, joins
a hotel's network with a login page, has its clock set, fills its disk and travels through zones.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from edgecron.base.bus_facts import Connectivity
from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import NamedTuple
from edgecron.model.choices import Cause, Reason, Status
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.views.outlook import Verdict
from edgecron.views.run_words import run_sentence
from tests.support.laptop import Laptop

FIRST = datetime(2026, 3, 9, tzinfo=UTC)  # a Monday; clocks go forward in Berlin on day 20
DAYS = 30
ROUTE = "wlan0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0"
GB = 1_000_000_000
SLACK = timedelta(seconds=12)  # after a sleep, the machine settles for 10 s
LONGEST_PAUSE = timedelta(seconds=61)  # between two checks of what nobody reports
NEEDS = {
    "backup": ("online", "unmetered", "ac-power"),
    "mail": ("online",),
    "photos": ("disk:/home:1GB",),
    "index": ("battery:50%",),
    "upload": ("online", "ac-power"),
    "scan": ("ac-power",),
}
# The laptop sleeps while both open. It wakes before the first one closes, and after the second.
WINDOWS = {"upload": "23:30-06:30", "scan": "02:00-05:00"}
DEADLINES_S = {"backup": 12 * 3600, "mail": 1800, "photos": 2 * 3600, "index": 2 * 3600}


class State(NamedTuple):
    """The laptop from an instant on."""

    at: datetime
    is_asleep: bool = False
    is_on_mains: bool = True
    has_route: bool = True
    connectivity: Connectivity | None = Connectivity.FULL
    is_metered: bool = False
    battery_percent: float = 90.0
    free_bytes: int = 20 * GB

    def meets(self, need: str) -> bool:
        return {
            "online": self.has_route and self.connectivity is Connectivity.FULL,
            "unmetered": not self.is_metered,
            "ac-power": self.is_on_mains,
            "battery:50%": self.battery_percent >= 50,
            "disk:/home:1GB": self.free_bytes >= GB,
        }[need]


class Month:
    """The laptop, its user, and a diary of what was true when."""

    def __init__(self, folder: Path) -> None:
        self.laptop = Laptop(folder)
        self.clock, self.story = self.laptop.clock, self.laptop.story
        self.diary = [State(from_ms(self.clock.now_ms()))]
        self.set()

    def until(self, day: int, hour: int, minute: int = 0) -> None:
        """Let the engine do its work until then."""
        target_ms = to_ms(FIRST + timedelta(days=day, hours=hour, minutes=minute))
        while True:
            wake_ms = self.story.engine.step().wake_ms
            now_ms = self.clock.now_ms()
            if wake_ms is not None and wake_ms <= now_ms:
                continue
            if now_ms >= target_ms:
                return
            next_ms = target_ms if wake_ms is None else min(wake_ms, target_ms)
            self.clock.advance_ms(next_ms - now_ms)

    def set(self, **changes: object) -> None:
        """Change the state of the laptop; the kernel and the system bus report it."""
        now = from_ms(self.clock.now_ms())
        state = self.diary[-1]._replace(at=now, **changes)  # type: ignore[arg-type]
        self.diary.append(state)
        machine = self.laptop.machine
        machine.set_routes(*([ROUTE] if state.has_route else []))
        machine.set_on_mains(state.is_on_mains)
        machine.set_free("/home", state.free_bytes)
        machine.bus.report(
            connectivity=state.connectivity,
            is_metered=state.is_metered,
            is_on_battery=not state.is_on_mains,
            battery_percent=state.battery_percent,
        )
        if self.story.engine.conditions.filenos():
            self.laptop.report()

    def sleep_until(self, day: int, hour: int, minute: int) -> None:
        self.set(is_asleep=True)
        target_ms = to_ms(FIRST + timedelta(days=day, hours=hour, minutes=minute))
        self.clock.suspend_ms(target_ms - self.clock.now_ms())
        self.set(is_asleep=False)

    def set_clock(self, by: timedelta) -> None:
        """Set the clock forward. Until then, it was as if the laptop were asleep."""
        self.set(is_asleep=True)
        self.clock.step_ms(round(by.total_seconds() * 1000))
        self.set(is_asleep=False)

    def states(self, begin: datetime, end: datetime) -> list[tuple[datetime, datetime, State]]:
        """The states between two instants, each with its begin and end."""
        ends = [one.at for one in self.diary[1:]] + [datetime.max.replace(tzinfo=UTC)]
        return [
            (max(one.at, begin), min(last, end), one)
            for one, last in zip(self.diary, ends, strict=True)
            if one.at <= end and last > begin and (last > one.at)
        ]

    def was_met_for(self, name: str, begin: datetime, end: datetime) -> timedelta:
        """The longest time for which all conditions were met, awake."""
        longest, current = timedelta(0), timedelta(0)
        for first, last, state in self.states(begin, end):
            is_met = not state.is_asleep and all(map(state.meets, NEEDS[name]))
            current = current + (last - first) if is_met else timedelta(0)
            longest = max(longest, current)
        return longest

    def meets(self, name: str, at: datetime) -> bool:
        """Whether all conditions were met at an instant, or right before it."""
        return any(
            all(map(state.meets, NEEDS[name]))
            for _, _, state in self.states(at - timedelta(milliseconds=500), at)
        )

    def was_asleep(self, at: datetime) -> bool:
        return any(state.is_asleep for _, _, state in self.states(at, at + timedelta(seconds=1)))


def live(month: Month, monkeypatch: pytest.MonkeyPatch) -> None:
    """The month as it happens."""
    for day in range(DAYS):
        month.until(day, 7)
        if day == 6:
            month.until(day, 8, 10)
            month.set_clock(timedelta(minutes=30))
        # By train: on battery, with a metered network that tunnels interrupt.
        month.until(day, 8, 45)
        month.set(is_on_mains=False, is_metered=True)
        month.until(day, 8, 58)
        month.set(has_route=False)
        month.until(day, 9, 10)
        month.set(has_route=True, battery_percent=45.0 if day % 3 == 0 else 70.0)
        month.until(day, 9, 50)
        month.set(has_route=False)
        month.until(day, 9, 55)
        month.set(has_route=True)
        # At the office, which lends its supply only later on some days.
        month.until(day, 10)
        month.set(is_metered=False)
        if day == 16:
            month.set(free_bytes=GB // 10)
        if day == 18:
            month.until(day, 11)
            month.set(free_bytes=30 * GB)
        month.until(day, 12, 30)
        month.set(is_on_mains=True, battery_percent=80.0)
        # On the way home, or to a hotel that wants a login first.
        month.until(day, 16, 59)
        month.set(is_on_mains=False, has_route=False)
        month.until(day, 17, 50)
        is_hotel = 10 <= day < 14
        month.set(
            has_route=True,
            is_on_mains=True,
            connectivity=Connectivity.PORTAL if is_hotel else Connectivity.FULL,
        )
        month.until(day, 19, 45)
        month.set(connectivity=Connectivity.FULL)
        month.until(day, 23)
        if day == 9:
            monkeypatch.setenv("TZ", "America/New_York")  # a flight at night
        if day == 13:
            monkeypatch.setenv("TZ", "Europe/Berlin")
        month.sleep_until(day + 1, 6, 20)
    month.until(DAYS, 7)


def due_times(name: str) -> list[datetime]:
    """The plan times of a schedule in this month, reckoned by hand."""
    hours = {"backup": 1, "photos": 10, "index": 12, "upload": 23, "scan": 2}
    if name == "mail":
        return [FIRST + timedelta(hours=hour) for hour in range(1, 24 * DAYS)]
    if name != "standup":
        minute = 30 if name in ("photos", "upload") else 0
        return [
            FIRST + timedelta(days=day, hours=hours[name], minutes=minute) for day in range(DAYS)
        ]
    found = []
    for day in range(DAYS):
        zone = ZoneInfo("America/New_York" if 10 <= day < 14 else "Europe/Berlin")
        date = FIRST.date() + timedelta(days=day)
        found.append(datetime(date.year, date.month, date.day, 9, tzinfo=zone).astimezone(UTC))
    return found


@pytest.fixture
def month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Month:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    month = Month(tmp_path)
    for name, trigger in (
        ("backup", "0 1 * * *"),
        ("mail", "0 * * * *"),
        ("photos", "30 10 * * *"),
        ("index", "0 12 * * *"),
    ):
        policies = Policies(needs=NEEDS[name], needs_deadline_s=DEADLINES_S[name])
        month.story.add(name, trigger, timezone="UTC", policies=policies)
    for name, window in WINDOWS.items():
        trigger = f"once in {window} when {' and '.join(NEEDS[name])}"
        month.story.add(name, trigger, timezone="UTC")
    month.story.add("standup", "0 9 * * *", timezone="local")
    return month


def test_why_tells_the_truth_about_every_due_time_of_a_laptops_month(
    month: Month, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(month, monkeypatch)

    seen: Counter[str] = Counter()
    for name in (*NEEDS, "standup"):
        for at in due_times(name):
            found = month.story.client.explain(name, at)
            assert found.verdict is Verdict.RECORDED, (name, at, found.verdict)
            run = found.runs[-1]
            words = run_sentence(run, zone=UTC, now=month.clock.now(), spec=found.schedule.spec)
            kind = judge(month, name, at, run, words)
            seen[f"{name} {kind}"] += 1

    assert seen == {
        "backup caught up": 29,
        "backup on time": 1,
        "index on time": 20,
        "index waited": 10,
        "mail caught up": 29,
        "mail given up": 30,
        "mail given up at a login page": 8,
        "mail on time": 448,
        "mail slept through": 174,
        "mail waited": 30,
        "photos given up": 2,
        "photos on time": 27,
        "photos waited": 1,
        "scan on time": 1,
        "scan slept through": 29,
        "standup on time": 30,
        "upload waited": 30,
    }


def judge(month: Month, name: str, at: datetime, run: Execution, words: str) -> str:
    """Check a run and its words against the diary; what kind of run it is."""
    where = (name, at, words)
    if run.status is Status.SKIPPED and run.reason is Reason.CONDITION:
        deadline = at + timedelta(seconds=DEADLINES_S[name])
        # Met for a moment is not enough if it was checked before and after.
        assert month.was_met_for(name, at, deadline) <= LONGEST_PAUSE, where
        assert "which was not true within" in words, where
        is_portal = any(
            state.connectivity is Connectivity.PORTAL for *_, state in month.states(at, deadline)
        )
        assert words.endswith("NetworkManager reports a login page.") is is_portal, where
        return "given up at a login page" if is_portal else "given up"
    if run.status is Status.SKIPPED and run.reason is Reason.MISFIRE:
        assert month.was_asleep(at), where
        assert "the machine was asleep" in words, where
        closed = ("its window has closed.", "their windows have closed.")
        assert words.endswith(closed) is (name in WINDOWS), where
        return "slept through"
    assert run.status is Status.SUCCESS, where
    assert run.started_at is not None
    is_today = run.started_at.date() == month.clock.now().date()
    assert f"started at {run.started_at:{'%H:%M' if is_today else '%b %d %H:%M'}}" in words, where
    if name in NEEDS:
        assert month.meets(name, run.started_at), where
        begin = max(at, run.due_at)
        if run.started_at - begin > SLACK:
            # It waited: until then, its conditions were not met, or the laptop slept.
            assert month.was_met_for(name, begin, run.started_at) <= SLACK, where
    if run.cause is Cause.CATCH_UP:
        assert month.was_asleep(at), where
        assert "the machine was asleep" in words or "was set forward" in words, where
        return "caught up"
    if run.started_at - at > SLACK:
        return "waited"
    return "on time"
