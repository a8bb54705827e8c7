"""A laptop's month, simulated in seconds: what its owner would call the right history.

Europe/Berlin from Thursday 1 October to Sunday 1 November 2026; the clocks go back on the 25th.
The lid is open from 08:00 to 23:00 on weekdays, and day and night over the weekends of the
clock change (until Sunday noon) and of the end.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from edgecron.model.choices import Status
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from tests.support.story import Story

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    """Milliseconds since 1970 of a wall time in October, such as `25 02:30`."""
    day, time = text.split()
    month = 10 if int(day) <= 31 else 11
    hour, minute = map(int, time.split(":"))
    local = datetime(2026, month, int(day) - (month - 10) * 31, hour, minute, tzinfo=BERLIN)
    return int(local.timestamp() * 1000)


def wall(instant: datetime) -> str:
    return instant.astimezone(BERLIN).strftime("%d %H:%M")


class Laptop(Story):
    """An engine while the lid is open; asleep nothing moves but the clock."""

    def open_until(self, time: str) -> None:
        clock, target_ms = self.world.clock, at(time)
        while clock.now_ms() < target_ms:
            wake_ms = self.engine.step().wake_ms
            now_ms = clock.now_ms()
            ends = [body.ends_ms for body in self.world.bodies[-20:] if body.ends_ms > now_ms]
            coming = [target_ms, *ends, *([] if wake_ms is None else [max(wake_ms, now_ms + 1)])]
            clock.advance_ms(min(coming) - now_ms)
        self.engine.step()

    def runs(self, name: str) -> list[Execution]:
        return self.client.history(name, limit=5000)[::-1]

    def sleep_until(self, time: str) -> None:
        self.world.clock.advance_to(at(time))

    def lose_power_until(self, time: str) -> None:
        self.world.reboot()
        self.sleep_until(time)
        self.key = self.world.start_engine(max_running=16)

    def engine_crashes(self) -> None:
        self.world.kill_engine(self.key)
        self.key = self.world.start_engine(max_running=16)


def told(run: Execution) -> str:
    """One line of history."""
    if run.missed_count is not None and run.missed_from_at and run.missed_to_at:
        span = f"{wall(run.missed_from_at)}..{wall(run.missed_to_at)} x{run.missed_count}"
        return f"{span} {run.status}:{run.reason}"
    words = [wall(run.plan_at)]
    if run.attempt > 1:
        words.append(f"#{run.attempt}")
    if run.started_at and wall(run.started_at) != wall(run.plan_at):
        words.append(f"at {wall(run.started_at)}")
    words.append(f"{run.status}:{run.reason}" if run.reason else str(run.status))
    return " ".join(words)


def history(laptop: Laptop, name: str) -> list[str]:
    return [told(run) for run in laptop.runs(name)]


@pytest.mark.failure(2)
@pytest.mark.failure(6)
def test_a_laptops_month_gives_the_history_that_its_owner_would_call_right(
    tmp_path: Path,
) -> None:
    laptop = Laptop(tmp_path / "month.db", max_running=16)
    laptop.world.clock.set_ms(at("1 08:00"))
    berlin: dict[str, Any] = {"timezone": "Europe/Berlin"}
    # 40 minutes long: on some days it still goes on when something happens.
    laptop.add("backup", "30 2 * * *", lasts_s=2400, **berlin,
               policies=Policies(retries=1, retry_delay_s=600))  # fmt: skip
    laptop.add("report", "after backup:any", lasts_s=60, **berlin)
    laptop.add("sync", "0 * * * *", lasts_s=30, **berlin)
    laptop.add("poll", "every 15m after end", lasts_s=300, **berlin)

    workdays = [day for day in range(1, 31) if day % 7 not in (3, 4)]
    for day in workdays:
        if day > 1:
            laptop.sleep_until(f"{day} 08:00")
        if day == 6:
            laptop.open_until("6 08:20")
            laptop.engine_crashes()  # The backup goes on under its supervisor.
        if day == 8:
            laptop.open_until("8 08:20")
            laptop.lose_power_until("8 09:10")  # The backup ends with the machine.
        if day == 12:
            laptop.client.pause("sync")
        if day == 19:
            laptop.open_until("19 08:10")
            laptop.client.resume("sync")
        if day == 21:
            laptop.open_until("21 12:00")
            laptop.client.edit("report", lambda spec: replace(spec, triggers=("after backup",)))
            laptop.client.edit(
                "backup", lambda spec: replace(spec, triggers=("30 2 * * *", "0 20 * * 5"))
            )
        if day == 23:
            laptop.open_until("24 00:00")
            # This night and the next it stays awake: the clocks go back.
            laptop.open_until("25 12:00")
            continue
        laptop.open_until(f"{day} 23:00")
    laptop.open_until("32 00:00")

    assert history(laptop, "backup") == lines(BACKUP)
    assert history(laptop, "report") == lines(REPORT)
    syncs = laptop.runs("sync")
    assert [told(run) for run in syncs if is_odd(run)] == lines(SYNC)
    # Every hour of the month is accounted for; the one that came twice, in both its passes.
    assert sum(run.missed_count or 1 for run in syncs) == 30 * 24 + 16 + 1
    twice = [run.plan_at.hour for run in syncs if wall(run.plan_at) == "25 02:00"]
    assert twice == [0, 1]
    polls = laptop.runs("poll")
    assert [told(run) for run in polls if is_odd(run)] == lines(POLL)
    # Awake, it goes on for ever: a quarter of an hour, and the five minutes that it takes.
    steady = [run.plan_at for run in polls if wall(run.plan_at).startswith("21 1")]
    assert {(b - a).total_seconds() for a, b in itertools.pairwise(steady)} == {1200}


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_odd(run: Execution) -> bool:
    """Whether a person would stop at this line: not a success on time."""
    return run.status is not Status.SUCCESS or wall(run.started_at or run.plan_at) != wall(
        run.plan_at
    )


# Each night's backup runs when the lid is opened, the weekend's once; awake, at its time.
BACKUP = """
    02 02:30 at 02 08:00 success
    03 02:30..04 02:30 x2 skipped:misfire
    05 02:30 at 05 08:00 success
    06 02:30 at 06 08:00 success
    07 02:30 at 07 08:00 success
    08 02:30 at 08 08:00 interrupted:reboot
    09 02:30 at 09 08:00 success
    10 02:30..11 02:30 x2 skipped:misfire
    12 02:30 at 12 08:00 success
    13 02:30 at 13 08:00 success
    14 02:30 at 14 08:00 success
    15 02:30 at 15 08:00 success
    16 02:30 at 16 08:00 success
    17 02:30..18 02:30 x2 skipped:misfire
    19 02:30 at 19 08:00 success
    20 02:30 at 20 08:00 success
    21 02:30 at 21 08:00 success
    22 02:30 at 22 08:00 success
    23 02:30 at 23 08:00 success
    23 20:00 success
    24 02:30 success
    25 02:30 success
    26 02:30 at 26 08:00 success
    27 02:30 at 27 08:00 success
    28 02:30 at 28 08:00 success
    29 02:30 at 29 08:00 success
    30 02:30 at 30 08:00 success
    30 20:00 success
    31 02:30 success
"""
# After each backup; until the 21st also after the one that the power cut ended.
REPORT = """
    02 02:30 at 02 08:40 success
    05 02:30 at 05 08:40 success
    06 02:30 at 06 08:40 success
    07 02:30 at 07 08:40 success
    08 02:30 at 08 09:10 success
    09 02:30 at 09 08:40 success
    12 02:30 at 12 08:40 success
    13 02:30 at 13 08:40 success
    14 02:30 at 14 08:40 success
    15 02:30 at 15 08:40 success
    16 02:30 at 16 08:40 success
    19 02:30 at 19 08:40 success
    20 02:30 at 20 08:40 success
    21 02:30 at 21 08:40 success
    22 02:30 at 22 08:40 success
    23 02:30 at 23 08:40 success
    23 20:00 at 23 20:40 success
    24 02:30 at 24 03:10 success
    25 02:30 at 25 02:10 success
    26 02:30 at 26 08:40 success
    27 02:30 at 27 08:40 success
    28 02:30 at 28 08:40 success
    29 02:30 at 29 08:40 success
    30 02:30 at 30 08:40 success
    30 20:00 at 30 20:40 success
    31 02:30 at 31 03:10 success
"""
# The pause of a week, from the lid of the 12th to the 19th, takes in the weekend before it.
SYNC = """
    02 00:00..02 07:00 x8 skipped:misfire
    03 00:00..05 07:00 x56 skipped:misfire
    06 00:00..06 07:00 x8 skipped:misfire
    07 00:00..07 07:00 x8 skipped:misfire
    08 00:00..08 07:00 x8 skipped:misfire
    08 09:00 at 08 09:10 success
    09 00:00..09 07:00 x8 skipped:misfire
    10 00:00..19 08:00 x225 skipped:paused
    20 00:00..20 07:00 x8 skipped:misfire
    21 00:00..21 07:00 x8 skipped:misfire
    22 00:00..22 07:00 x8 skipped:misfire
    23 00:00..23 07:00 x8 skipped:misfire
    25 13:00..26 07:00 x19 skipped:misfire
    27 00:00..27 07:00 x8 skipped:misfire
    28 00:00..28 07:00 x8 skipped:misfire
    29 00:00..29 07:00 x8 skipped:misfire
    30 00:00..30 07:00 x8 skipped:misfire
    01 00:00 running
"""
# The last poll of a day comes when the lid is opened; after a weekend it is too late for that.
POLL = """
    01 23:15 at 02 08:00 success
    02 23:20..02 23:20 x1 skipped:misfire
    05 23:15 at 06 08:00 success
    06 23:20 at 07 08:00 success
    07 23:20 at 08 08:00 success
    08 08:20 interrupted:reboot
    08 23:05 at 09 08:00 success
    09 23:20..09 23:20 x1 skipped:misfire
    12 23:15 at 13 08:00 success
    13 23:20 at 14 08:00 success
    14 23:20 at 15 08:00 success
    15 23:20 at 16 08:00 success
    16 23:20..16 23:20 x1 skipped:misfire
    19 23:15 at 20 08:00 success
    20 23:20 at 21 08:00 success
    21 23:20 at 22 08:00 success
    22 23:20 at 23 08:00 success
    25 12:20 at 26 08:00 success
    26 23:20 at 27 08:00 success
    27 23:20 at 28 08:00 success
    28 23:20 at 29 08:00 success
    29 23:20 at 30 08:00 success
    01 00:00 running
"""
