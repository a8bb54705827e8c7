"""What schemathesis is told of texts: of each format some that mean something, and any other."""

from __future__ import annotations

import getpass

import schemathesis
from hypothesis import strategies as st

_NAMES = st.sampled_from(["backup", "report", "job-1", "a.b_c"])
_DURATIONS = st.sampled_from(["90s", "15m", "6h", "2d", "1h30m", "250ms"])
_TIMES = st.sampled_from(["2098-06-01T12:00:00Z", "2098-06-01T12:00:00+02:00", "in 20m"])

for name, strategy in {
    "schedule-name": _NAMES,
    "time-zone": st.sampled_from(["UTC", "local", "Europe/Berlin", "America/St_Johns"]),
    "when": _TIMES,
    "duration-text": _DURATIONS,
    "printable": st.text(st.sampled_from("aé日 -"), min_size=1, max_size=20),
    "cron": st.sampled_from(["* * * * *", "0 2 * * 1-5", "@daily", "*/10 0 3 1 * *"]),
    "every": _DURATIONS | st.just("1h after end") | st.just("15m from 2030-01-01T00:00:00Z"),
    "after": st.builds("{}{}".format, _NAMES, st.sampled_from(["", ":success", ":any"])),
    "argument": st.sampled_from(["true", "/bin/sleep", "echo $HOME", "日本"]),
    "user": st.just(getpass.getuser()),
    "json": st.sampled_from(["null", '{"size": 3}', "[1, 2]"]),
    "group": st.sampled_from(["disk", "disk:2", "net:none"]),
    "condition": st.sampled_from(["success:backup", "success:backup:8h"]),
    "scope": st.sampled_from(["global", "device:pump-3"]),
    "entity-tags": st.sampled_from(["*", '"1.1"', 'W/"1.1"', '"1.1-00000000", "2.1"']),
    "idempotency-key": st.sampled_from(["k", "8e03978e-40d5", '"8e03978e-40d5"', '"a \\"b\\""']),
}.items():
    schemathesis.openapi.format(name, strategy)
