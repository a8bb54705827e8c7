"""Tasks that a program enqueues, with stored results: edgecron beside huey, in turns.

One by one, and by eight threads, until all have run and are on record. huey twice: with every
commit written through to the disk (`fsync=True`) as edgecron does, and as it is, where a power cut
can take what was enqueued.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

from tests.bench.machine import Setting
from tests.bench.peers.embedded import OURS, find_apps, in_turns
from tests.bench.peers.programs import Programs
from tests.bench.table import Row, at_least

_HUEY = "huey"
_AS_IT_IS = "huey without fsync"


def rows(setting: Setting, programs: Programs) -> Iterator[Row]:
    apps = {name: app for name, app in find_apps(programs).items() if name in (OURS, _HUEY)}
    if _HUEY in apps:
        environment = {**apps[_HUEY].environment, "HUEY_AS_IT_IS": "1"}
        apps[_AS_IT_IS] = replace(apps[_HUEY], environment=environment)
    count = setting.pick(3000, 400)
    for act, how in (("stream", "one by one"), ("threads", "by 8 threads")):
        found = in_turns(setting, apps, act, count, rounds=setting.pick(5, 2))
        per_s = {
            name: statistics.median(count / float(one["took_s"]) for one in told)
            for name, told in found.items()
        }
        others = {name: value for name, value in per_s.items() if name != OURS}
        yield Row(
            bench="enqueue",
            what=f"{count:,} tasks enqueued {how}: until all have run and are on record",
            measured=f"{per_s[OURS]:,.0f} tasks/s",
            reference=", ".join(f"{name} {value:,.0f}" for name, value in others.items()),
            ratio=per_s[OURS] / per_s[_HUEY] if _HUEY in per_s else None,
            reach=at_least(1.0),
            figures={
                name: [count / float(one["took_s"]) for one in told] for name, told in found.items()
            },
            note="the ratio is to huey with fsync",
        )
