"""Schedules as hypothesis draws them, and as edgecron is told of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from edgecron.base.units import from_ms
from edgecron.model.choices import CatchUp, JobKind, OnInterrupt, Overlap
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from tests.machine.plaintimes import DAY_MS, Follows, Grid, Once, Trigger, Wish

START_MS = 1_795_161_600_000  # 2026-11-20T08:00:00Z
SECOND_MS = 1000

_UPSTREAMS = {"x": ("a", "b"), "y": ("x", "c")}  # no circle is possible


def grid(period_s: int, offset_s: int) -> Grid:
    """A grid in the words of cron where those can say it, else in those of an interval."""
    through_ms = START_MS - DAY_MS + offset_s * SECOND_MS
    if offset_s == 0 and period_s in (60, 300, 3600):
        text = {60: "* * * * *", 300: "*/5 * * * *", 3600: "0 * * * *"}[period_s]
    else:
        text = f"every {_duration(period_s)} from {from_ms(through_ms):%Y-%m-%dT%H:%M:%SZ}"
    return Grid(text=text, period_ms=period_s * SECOND_MS, through_ms=through_ms)


def _duration(seconds: int) -> str:
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


GRIDS = st.builds(grid, st.sampled_from((30, 60, 300, 420, 3600)), st.sampled_from((0, 10, 20)))


@st.composite
def triggers(draw: st.DrawFn, name: str, now_ms: int) -> tuple[Trigger, ...]:
    """One to three triggers, none of them twice."""
    found: list[Trigger] = []
    if name in _UPSTREAMS:
        upstream = draw(st.sampled_from(_UPSTREAMS[name]))
        ends = draw(st.sampled_from(("success", "failure", "any")))
        text = f"after {upstream}" + ("" if ends == "success" else f":{ends}")
        found.append(Follows(text=text, upstream=upstream, ends=ends))
    if name not in _UPSTREAMS or draw(st.booleans()):
        found.append(draw(GRIDS))
    more = draw(st.sampled_from(("", "", "", "grid", "at")))
    if more == "grid":
        found.append(draw(GRIDS))
    elif more == "at":
        at_ms = now_ms // SECOND_MS * SECOND_MS + draw(st.sampled_from((5, 65, 4000))) * SECOND_MS
        found.append(Once(text=f"at {from_ms(at_ms):%Y-%m-%dT%H:%M:%SZ}", at_ms=at_ms))
    return tuple({one.text: one for one in found}.values())


@st.composite
def wishes(draw: st.DrawFn, name: str, now_ms: int) -> Wish:
    """Anything that a person may say of a schedule of this name."""
    second_ms = now_ms // SECOND_MS * SECOND_MS
    from_ms_ = draw(st.sampled_from((None, None, None, second_ms + 100_000)))
    until_ms = draw(st.sampled_from((None, None, None, second_ms + 600_000)))
    return Wish(
        triggers=draw(triggers(name, now_ms)),
        lasts_s=draw(st.sampled_from((0, 5, 45, 400))),
        code=draw(st.sampled_from((0, 0, 3))),
        from_ms=from_ms_,
        until_ms=until_ms,
        max_runs=draw(st.sampled_from((None, None, None, 2, 5))),
        scopes=draw(
            st.sampled_from(
                ((("global", ""),), (("global", ""),), (("device", "a"), ("device", "b")))
            )
        ),
        **draw(policies()),
    )


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    """What may be changed without changing times."""
    retries = draw(st.sampled_from((0, 0, 1, 3)))
    return {
        "catch_up": draw(st.sampled_from(("once", "skip", "all"))),
        "max_late_s": draw(st.sampled_from((None, 0, 90, 3600))),
        "overlap": draw(st.sampled_from(("skip", "queue", "allow", "replace"))),
        "max_running": draw(st.sampled_from((None, None, 1, 2))),
        "retries": retries,
        "delay_s": draw(st.sampled_from((0, 10, 60))) if retries else 10,
        "factor": draw(st.sampled_from((1, 2, 3))) if retries else 2,
        "max_delay_s": draw(st.sampled_from((3600, 80))) if retries else 3600,
        "on_interrupt": draw(st.sampled_from(("leave", "retry"))),
        "priority": draw(st.sampled_from((0, 0, 10))),
        "group": draw(st.sampled_from((None, None, "g", "h"))),
    }


def spec_of(name: str, wish: Wish) -> ScheduleSpec:
    """The same, as edgecron is told of it."""
    return ScheduleSpec(
        name=name,
        triggers=tuple(one.text for one in wish.triggers),
        job=Job(kind=JobKind.COMMAND, argv=("job", str(wish.lasts_s), str(wish.code))),
        scopes=wish.scopes,
        group=wish.group,
        from_at=None if wish.from_ms is None else from_ms(wish.from_ms),
        until_at=None if wish.until_ms is None else from_ms(wish.until_ms),
        max_runs=wish.max_runs,
        policies=Policies(
            catch_up=CatchUp(wish.catch_up),
            max_late_s=wish.max_late_s,
            overlap=Overlap(wish.overlap),
            max_running=wish.max_running,
            retries=wish.retries,
            retry_delay_s=wish.delay_s,
            retry_factor=wish.factor,
            retry_max_delay_s=wish.max_delay_s,
            on_interrupt=OnInterrupt(wish.on_interrupt),
            priority=wish.priority,
        ),
    )
