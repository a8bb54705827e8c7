"""The schedules of a small home server: what each runs, how long that takes, how it may end."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import Stream
from edgecron.model.schedule import ScheduleSpec
from tests.support.printing import (
    FOR_EVER_S,
    HOME_FOLDERS,
    PHOTO_FOLDERS,
    Draw,
    Prints,
    backing_up,
    print_blocklist,
    print_calendar,
    print_certificates,
    print_index,
    print_inverter,
    print_meter,
    print_offsite,
    print_prune,
    print_speed,
    print_verify,
    print_weather,
    saying,
)

GONE_ZONE = "US/Pacific-New"  # tzdata had it until 2020
PRESENT_ZONE = "US/Pacific"
LOCAL = "local"
DISK = "disk"
_QUICKEST = -1.4  # of the normal law: nothing ends in next to no time
_LONGEST_TRIAL_S = 90.0  # that a harmless job in the place of a long one takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A schedule, and how its runs go: the typical time, how much that varies (sigma of its
    logarithm), how often it fails, with which code, and how often it does not end by itself."""

    spec: ScheduleSpec
    typical_s: float
    prints: Prints
    varies: float = 0.25
    fails: float = 0.0
    exit_code: int = 1
    hangs: float = 0.0

    def draw(self, plan_ms: int, attempt: int) -> Draw:
        """How a run goes, the same each time it is asked."""
        dice = Random(f"{self.spec.name} {plan_ms} {attempt}")
        slow = dice.gauss()
        slow = slow if slow > _QUICKEST else -slow
        lasts_s = self.typical_s * math.exp(self.varies * slow)
        if dice.random() < self.hangs:
            return Draw(FOR_EVER_S, 0, dice)
        has_failed = dice.random() < self.fails
        if has_failed:
            lasts_s *= dice.uniform(0.2, 0.9)
        return Draw(lasts_s, self.exit_code if has_failed else 0, dice)


def harmless(role: Role) -> ScheduleSpec:
    """The schedule with a job that anybody may run: it prints and waits, and changes nothing."""
    draw = Draw(role.typical_s, 0, Random(role.spec.name))
    lasts_s = min(role.typical_s, _LONGEST_TRIAL_S)
    script, before = [], 0.0
    for line in role.prints(draw):
        script.append(f"sleep {(line.part - before) * lasts_s:.1f}")
        where = " >&2" if line.stream is Stream.STDERR else ""
        script.append(f"echo {shlex.quote(line.text)}{where}")
        before = line.part
    script.append(f"sleep {(1 - before) * lasts_s:.1f}")
    return replace(role.spec, job=Job(kind=JobKind.SHELL, argv=("; ".join(script),)))


def first_roles(end: datetime) -> list[Role]:
    """Who is there from the beginning. `end` is the local time at which the story ends: what waits
    then was due a little before it."""
    return [*_guardians(end), *_keepers()]


def _guardians(end: datetime) -> list[Role]:
    offsite, prune = end - timedelta(minutes=32), end - timedelta(minutes=2)
    photos = end + timedelta(days=2)
    return [
        Role(
            spec=_spec(
                "backup-home", "0 2 * * *", "restic backup /home --tag home", group=DISK,
                description="Everything below /home, to the disk in the cellar",
                policies=Policies(timeout_s=10_800, retries=2, retry_delay_s=300),
            ),
            typical_s=660, varies=0.12, fails=0.22,
            prints=backing_up("/home", HOME_FOLDERS, gigabytes=212),
        ),
        Role(
            spec=_spec(
                "backup-photos", f"30 3 * * {_weekday(photos)}",
                "restic backup /srv/photos --tag photos", group=DISK,
                description="The family's photos, once a week",
            ),
            typical_s=1_620, varies=0.1,
            prints=backing_up("/srv/photos", PHOTO_FOLDERS, gigabytes=846),
        ),
        Role(
            spec=_spec(
                "verify-backup", "after backup-home:success",
                "restic check --read-data-subset=2.5%",
                policies=Policies(needs=("success:backup-home:1h",)),
            ),
            typical_s=215, prints=print_verify,
        ),
        Role(
            spec=_spec(
                "copy-offsite", f"{offsite.minute} {offsite.hour} * * {_weekday(offsite)}",
                "/usr/local/bin/copy-offsite --week",
                description="A copy outside of the house, once the photos are saved",
                policies=Policies(needs=("success:backup-photos:1d",), needs_deadline_s=36_000),
            ),
            typical_s=1_500, prints=print_offsite,
        ),
        Role(
            spec=_spec(
                "prune-snapshots", f"{prune.minute} {prune.hour} * * *",
                "restic forget --prune --keep-daily 7 --keep-weekly 5", group=DISK,
            ),
            typical_s=140, prints=print_prune,
        ),
    ]  # fmt: skip


def pollers() -> list[Role]:
    """Who comes when the crontab is given up."""
    return [
        Role(
            spec=_spec("poll-meter", "every 5m", "/usr/local/bin/poll-meter --unit 1"),
            typical_s=1.1, fails=0.006, prints=print_meter,
        ),
        Role(
            spec=_spec(
                "sync-calendar", "every 15m", "vdirsyncer sync",
                policies=Policies(retries=2, retry_delay_s=30),
            ),
            typical_s=6.5, varies=0.4, fails=0.05, prints=print_calendar,
        ),
        Role(
            spec=_spec("weather", "every 30m", "/usr/local/bin/weather --station home"),
            typical_s=0.9, fails=0.01, prints=print_weather,
        ),
        Role(
            spec=_spec(
                "speedtest", "@hourly", "speedtest-cli --simple",
                policies=Policies(jitter_s=600, timeout_s=120),
            ),
            typical_s=24, fails=0.01, prints=print_speed,
        ),
        Role(
            spec=_spec("index-media", "5,25,45 * * * *", "/usr/local/bin/index-media /srv/media"),
            typical_s=190, varies=0.75, prints=print_index,
        ),
    ]  # fmt: skip


def _keepers() -> list[Role]:
    return [
        Role(
            spec=_spec(
                "renew-certs", "17 4,16 * * *", "certbot renew --quiet",
                policies=Policies(jitter_s=1800),
            ),
            typical_s=4, fails=0.06, prints=print_certificates,
        ),
        Role(
            spec=_spec("rotate-logs", "@daily", "logrotate /etc/logrotate.conf"),
            typical_s=1.8, prints=saying("rotating 14 logs", "compressed 9 of them"),
        ),
        Role(
            spec=_spec("update-blocklist", "40 4 * * *", "/usr/local/bin/update-blocklist"),
            typical_s=16, prints=print_blocklist,
        ),
        Role(
            spec=_spec("warm-cache", "on boot", "/usr/local/bin/warm-cache --dns --web"),
            typical_s=38, prints=saying("dns: 412 names", "web: 96 pages", "cache is warm"),
        ),
        Role(
            spec=_spec(
                "report-weekly", "0 8 * * MON", "/usr/local/bin/report --weekly --mail",
                timezone="America/New_York", description="For the cousins in Boston",
            ),
            typical_s=12, prints=saying("7 days, 4 charts", "mailed to 3 people"),
        ),
        Role(
            spec=_spec(
                "mirror-packages", "15 5 * * *", "debmirror --config /etc/mirror.conf",
                policies=Policies(timeout_s=5_400),
            ),
            typical_s=1_260, prints=saying("fetching indices", "218 packages", "mirror is whole"),
        ),
        Role(
            spec=_spec(
                "transcode-videos", "0 1 * * *", "/usr/local/bin/transcode --queue inbox",
                policies=Policies(priority=-10),
            ),
            typical_s=3_050, prints=saying("3 videos", "1 of 3", "2 of 3", "3 of 3"),
        ),
        Role(
            spec=_spec(
                "picture-of-day", "5 5 * * *", "/usr/local/bin/fetch-picture --wallpaper",
                timezone=PRESENT_ZONE,
            ),
            typical_s=3, prints=saying("a nebula, 4.2 MiB", "wallpaper is set"),
        ),
    ]  # fmt: skip


def inverter() -> Role:
    """Who polls the new inverter, from when that is there."""
    return Role(
        spec=_spec(
            "poll-inverter", "every 1m", "/usr/local/bin/poll-inverter inverter.lan",
            policies=Policies(timeout_s=20),
        ),
        typical_s=0.8, varies=0.4, fails=0.012, exit_code=3, hangs=0.006, prints=print_inverter,
    )  # fmt: skip


def tariff(at: str) -> Role:
    """Who switches the tariff, once, at an instant in RFC 3339."""
    return Role(
        spec=_spec("switch-tariff", f"at {at}", "/usr/local/bin/tariff --set winter"),
        typical_s=2,
        prints=saying("tariff is now: winter"),
    )


def _weekday(instant: datetime) -> str:
    return ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")[instant.weekday()]


def _spec(
    name: str, trigger: str, command: str, *, timezone: str = LOCAL, **more: object
) -> ScheduleSpec:
    job = Job(kind=JobKind.COMMAND, argv=tuple(shlex.split(command)))
    return ScheduleSpec(
        name=name,
        triggers=(trigger,),
        job=job,
        timezone=timezone,
        **more,  # type: ignore[arg-type]
    )
