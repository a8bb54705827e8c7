"""Random specifications, such as people write them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from edgecron.model.choices import (
    GLOBAL_SCOPE,
    CatchUp,
    Durability,
    JobKind,
    OnInterrupt,
    Overlap,
    StallAction,
    WhileLost,
)
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec

NAMES = st.sampled_from(["backup", "a.b", "x-1", "R2D2", "none", "1a"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
WORDS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
LINES = WORDS
TRIGGERS = st.lists(
    st.sampled_from(
        [
            "0 2 * * *",
            "*/5 * * * * *",
            "@daily",
            "H 3 * * MON",
            "every 15m",
            "every 1h from 2026-01-01T00:00:00Z",
            "every 2h after end",
            "at 2030-12-24T18:00:00Z",
            "at 2031-01-01T00:00:00.250Z",
            "on boot",
            "after other",
            "after third:failure",
        ]
    ),
    min_size=1,
    max_size=4,
    unique=True,
)
SECONDS = st.sampled_from([0.25, 1.0, 10.0, 90.0, 3600.0, 5400.0, 86_400.0, 604_800.0])
COUNTS = st.integers(1, 1000)
VARIABLES = st.sampled_from(["PATH", "LANG", "MY-VAR", "with space", "ä", "API_TOKEN"])
SCOPES = st.sampled_from([GLOBAL_SCOPE, ("device", "pump-3"), ("device", "a:b"), ("tenant", "ä")])

PAYLOADS = st.none() | st.sampled_from(["{}", '{"a": [1, "\\n"]}', "null"])

CALLABLES = st.builds(
    lambda name, payload: Job(kind=JobKind.CALLABLE, argv=(name,), payload=payload),
    name=LINES,
    payload=PAYLOADS,
)
COMMANDS = st.builds(
    lambda kind, argv, **rest: Job(
        kind=kind, argv=tuple(argv) if kind is JobKind.COMMAND else tuple(argv[:1]), **rest
    ),
    kind=st.sampled_from([JobKind.COMMAND, JobKind.SHELL]),
    argv=st.tuples(LINES, TEXTS, TEXTS).map(list),
    payload=PAYLOADS,
    stdin=st.none() | TEXTS,
    env=st.dictionaries(VARIABLES, TEXTS, max_size=3),
    env_file=st.none() | st.sampled_from(["/etc/a b.env", "~/x", "rel/ative"]),
    cwd=st.none() | st.sampled_from(["/srv", "~", "C:\\odd"]),
)
JOBS = CALLABLES | COMMANDS
POLICIES = st.builds(
    Policies,
    catch_up=st.sampled_from(list(CatchUp)),
    max_late_s=st.none() | SECONDS | st.just(0.0),
    overlap=st.sampled_from(list(Overlap)),
    max_running=st.none() | COUNTS,
    timeout_s=st.none() | SECONDS,
    stall_timeout_s=st.none() | SECONDS,
    stall_action=st.sampled_from(list(StallAction)),
    kill_grace_s=SECONDS | st.just(0.0),
    retries=st.integers(0, 9),
    retry_delay_s=st.sampled_from([0.0, 1.0, 90.0]),
    retry_factor=st.sampled_from([1.0, 1.5, 2.0, 10.0]),
    retry_max_delay_s=st.sampled_from([90.0, 3600.0, 7200.0]),
    on_interrupt=st.sampled_from(list(OnInterrupt)),
    ok_codes=st.lists(st.integers(0, 255), min_size=1, max_size=3).map(tuple),
    priority=st.integers(-1000, 1000) | st.sampled_from([-10, 0, 10]),
    jitter_s=SECONDS | st.just(0.0),
    needs=st.lists(
        st.sampled_from(["success:other", "success:third:8h"]), max_size=2, unique=True
    ).map(tuple),
    needs_deadline_s=SECONDS,
    durability=st.sampled_from(list(Durability)),
    while_needs=st.sampled_from([(), ("ac-power",), ("not:online", "battery:20%")]),
    keep_awake=st.booleans(),
    wake=st.booleans(),
    while_lost=st.sampled_from(list(WhileLost)),
    between=st.sampled_from([(), ("21:00-05:00",), ("SAT,SUN", "9:00-24:00 MON-FRI")]),
    not_between=st.sampled_from([(), ("12:00-13:00",)]),
    except_days=st.sampled_from([(), ("2026-12-24",), ("2026-12-24..2027-01-02", "2027-05-01")]),
    notify=st.sampled_from([(), ("off",), ("mail",), ("mail", "chat.2")]),
)


def _spec(
    jobs: tuple[Job, str], policies: Policies, triggers: tuple[str, ...], **rest: Any
) -> ScheduleSpec:
    """A schedule that is not refused: a function has no policies of processes, and windows leave
    times of its triggers."""
    job, queue = jobs
    if not any(text.startswith(("every", "*/5")) for text in triggers):
        policies = replace(policies, between=(), not_between=())
    if job.kind is JobKind.CALLABLE:
        policies = replace(
            policies, stall_timeout_s=None, keep_awake=False, while_lost=WhileLost.END
        )
    return ScheduleSpec(job=job, queue=queue, policies=policies, triggers=triggers, **rest)


SPECS = st.builds(
    _spec,
    name=NAMES,
    triggers=TRIGGERS.map(tuple),
    jobs=st.tuples(CALLABLES, st.just("py:app"))
    | st.tuples(COMMANDS, st.sampled_from(["command", "py:app"])),
    timezone=st.sampled_from([None, "UTC", "local", "Europe/Berlin"]),
    group=st.none() | st.just("disk"),
    description=st.none() | WORDS | st.just("two\nlines\tand a tab"),
    policies=POLICIES,
    scopes=st.lists(SCOPES, min_size=1, max_size=3, unique=True).map(tuple),
    from_at=st.none() | st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    until_at=st.none() | st.just(datetime(2040, 1, 1, 12, 30, 0, 250_000, tzinfo=UTC)),
    max_runs=st.none() | COUNTS,
)
