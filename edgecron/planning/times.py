"""Turn a schedule's triggers into times: compiled when you write it, loaded when it fires.

When you write schedules that follow others, `check_upstreams` checks that they can.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

from edgecron.base.checks import suggest
from edgecron.base.errors import SENSELESS, InvalidInput, InvalidTrigger
from edgecron.base.tzif import DAY_S
from edgecron.base.units import DAY_MS, format_duration_ms, to_ms
from edgecron.base.values import dataclass, replace
from edgecron.base.zones import LOCAL, check_zone, trigger_spans
from edgecron.model.choices import CatchUp
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import PlanTimes, Timing, WindowedTimes
from edgecron.planning.windows import Span, windows_of
from edgecron.triggers import (
    AfterEndTrigger,
    AfterTrigger,
    AtTrigger,
    CronTrigger,
    EveryTrigger,
    OnceInTrigger,
    Trigger,
    TriggerKind,
    Triggers,
    combine,
    describe_briefly,
    dump_trigger,
    load_trigger,
    parse_trigger,
)
from edgecron.triggers.kinds import EventTrigger

if TYPE_CHECKING:
    from edgecron.planning.corrections import ZonedTimes

_MOST_TRIGGERS = 64
_MOST_INTERVALS = 12
_MOST_LOOKED_AT = 64  # coming times and windows that are compared with jitter and durations
_WEEK_MS = 7 * DAY_MS
_COUNTED_S = 1461 * 7 * DAY_S  # 28 years
_MOST_INTERVALS_BESIDE_CRON = 4
_OF_ZONES = (TriggerKind.CRON, TriggerKind.ONCE_IN)  # their times depend on a zone


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSpec:
    """A specification with its triggers expanded.

    `spec` has canonical trigger texts; `compiled` is a JSON array of the same length, which
    `load_triggers` reads without croniter. `upstreams` are (schedule, which ends) that it follows.
    """

    spec: ScheduleSpec
    compiled: str
    on_boot: bool
    has_events: bool  # a trigger has no plan times of its own
    upstreams: tuple[tuple[str, str], ...]
    timing: Timing
    warnings: tuple[str, ...]


def compile_spec(
    spec: ScheduleSpec,
    *,
    seed: bytes,
    made_at: datetime,
    now: datetime | None = None,
    known: Collection[str] = (),
) -> CompiledSpec:
    """Parse and expand what a person wrote; `from_at`, else `made_at`, anchors a bare `every`.

    With `now`, refuse an `at` that is not later, as it would never fire, unless it is one of the
    `known` texts. Raises InvalidTrigger or UnknownTimezone.
    """
    if not spec.triggers:
        raise InvalidTrigger(
            f"schedule {spec.name!r} has no time to run at",
            hint="give --cron, --every, --at, --once, --on-boot, --after or --on-demand",
        )
    if len(spec.triggers) > _MOST_TRIGGERS:
        raise InvalidTrigger(
            f"schedule {spec.name!r} has {len(spec.triggers)} triggers,"
            f" expected at most {_MOST_TRIGGERS}"
        )
    check_zone(spec.timezone)
    anchor = spec.from_at or made_at
    triggers = [
        parse_trigger(text, spec.timezone, spec.name, anchor=anchor, seed=seed)
        for text in spec.triggers
    ]
    texts = tuple(trigger.text for trigger in triggers)
    if len(set(texts)) != len(texts):
        raise InvalidTrigger(
            f"schedule {spec.name!r} names the same time twice", hint="remove one of them"
        )
    _check_grids(spec.name, triggers)
    _check_once_in(spec.name, triggers)
    if now is not None:
        for trigger in triggers:
            if trigger.text not in known:
                _check_future(trigger, now)
    canonical = replace(spec, triggers=texts)
    timing = timing_of(canonical, triggers, seed=seed)
    if now is not None and not has_events(triggers):
        _check_windows(spec.name, timing, to_ms(now))
    return CompiledSpec(
        spec=canonical,
        compiled=f"[{','.join(dump_trigger(trigger) for trigger in triggers)}]",
        on_boot=is_on_boot(triggers),
        has_events=has_events(triggers),
        upstreams=upstreams_of(spec.name, triggers),
        timing=timing,
        warnings=tuple(warning for trigger in triggers for warning in trigger.warnings),
    )


def load_timing(spec: ScheduleSpec, compiled: str, *, seed: bytes) -> Timing:
    """The timing of a stored schedule. Raises InvalidTrigger or UnknownTimezone."""
    triggers = load_triggers(compiled)
    try:
        return timing_of(spec, triggers, seed=seed)
    except InvalidInput:
        raise
    except SENSELESS as error:
        raise InvalidTrigger(f"stored times can't be read ({error!r})") from error


def load_triggers(compiled: str) -> list[Trigger]:
    """The triggers of a stored schedule. Raises InvalidTrigger or UnknownTimezone."""
    return list(_load_triggers(compiled))


@lru_cache(maxsize=256)
def _load_triggers(compiled: str) -> tuple[Trigger, ...]:
    try:
        parts = json.loads(compiled)
    except (ValueError, RecursionError) as error:
        raise InvalidTrigger(f"stored triggers can't be read ({error})") from error
    if not isinstance(parts, list):
        raise InvalidTrigger("stored triggers are not a list")
    texts = (json.dumps(part, separators=(",", ":"), sort_keys=True) for part in parts)
    return tuple(map(load_trigger, texts))


def may_start_in(timing: Timing, spans: tuple[Span, ...]) -> bool:
    """Whether a schedule can have a plan time in one of these spans, by the hours of its cron."""
    return not isinstance(timing.times, Triggers) or any(
        not isinstance(one, CronTrigger)
        or not _hours_of(one.timezone, spans).isdisjoint(one.fields.hours)
        for one in timing.times.triggers
    )


@lru_cache(maxsize=64)
def _hours_of(timezone: str | None, spans: tuple[Span, ...]) -> frozenset[int]:
    """The hours that clocks in a zone can show in these spans.

    Near a clock change these are the hours by both clocks: a time that the change skips starts in
    the hour after it.
    """
    hours: set[int] = set()
    for span in spans:
        start_s, end_s = span.start_ms // 1000, (span.end_ms - 1) // 1000
        zone = trigger_spans(timezone, until_s=end_s + DAY_S)
        first, last = zone.index_at(start_s - DAY_S), zone.index_at(end_s + DAY_S)
        for offset_s in zone.offsets[first : last + 1]:
            shown = range((start_s + offset_s) // 3600, (end_s + offset_s) // 3600 + 1)
            hours.update(hour % 24 for hour in shown[:24])
    return frozenset(hours)


@lru_cache(maxsize=1024)
def when_words(compiled: str) -> str:
    """Describe stored triggers in a few words; empty if they can't be read."""
    try:
        return ", ".join(describe_briefly(trigger) for trigger in load_triggers(compiled))
    except SENSELESS:  # InvalidTrigger and UnknownTimezone are among these.
        return ""


def when_order(compiled: str) -> tuple[float, str] | None:
    """Return a value to sort stored triggers by: how often they fire, most often first; then words.

    Triggers without times come last. None if they can't be read.
    """
    words = when_words(compiled)
    return (-sum(map(_fires_of, load_triggers(compiled))), words) if words else None


def _fires_of(trigger: Trigger) -> float:
    """Count the fires in 28 years, in which each weekday and each date comes equally often."""
    match trigger:
        case EveryTrigger() | AfterEndTrigger():
            return _COUNTED_S * 1000 / trigger.interval_ms
        case CronTrigger():
            return trigger.fields.count(0, _COUNTED_S)
        case OnceInTrigger():
            return trigger.opening.fields.count(0, _COUNTED_S)
        case _:
            return int(isinstance(trigger, AtTrigger))


def _check_windows(name: str, timing: Timing, now_ms: int) -> None:
    """Refuse windows that exclude every coming time."""
    after_ms = max(now_ms, (timing.from_ms or 0) - 1)
    excluded = None if timing.excluded is None else timing.excluded.next_with_source(after_ms)
    until_ms = timing.until_ms
    if excluded is None or (until_ms is not None and excluded[0] > until_ms):
        return
    found = timing.times.next_with_source(after_ms)
    if found is None or (until_ms is not None and found[0] > until_ms):
        raise InvalidInput(
            f"schedule {name!r} would never run: its windows exclude all its times",
            hint="see: edgecron help windows",
        )


def timing_of(spec: ScheduleSpec, triggers: list[Trigger], *, seed: bytes) -> Timing:
    """Combine what planning needs: times, and the policies about them."""
    policies = spec.policies
    times: PlanTimes = combine(triggers)
    excluded: PlanTimes | None = None
    windows = windows_of(policies, spec.timezone)
    if windows is not None:
        excluded = WindowedTimes(times, windows, is_open=False)
        times = WindowedTimes(times, windows, is_open=True)
    return Timing(
        name=spec.name,
        times=times,
        seed=seed,
        catch_up=policies.catch_up,
        max_late_ms=None if policies.max_late_s is None else round(policies.max_late_s * 1000),
        jitter_ms=round(policies.jitter_s * 1000),
        from_ms=None if spec.from_at is None else to_ms(spec.from_at),
        until_ms=None if spec.until_at is None else to_ms(spec.until_at),
        max_runs=spec.max_runs,
        after_end_ms=_after_end_ms(triggers),
        windows=windows,
        excluded=excluded,
        once_in=tuple(one for one in triggers if isinstance(one, OnceInTrigger)),
    )


def has_events(triggers: Sequence[Trigger]) -> bool:
    """Whether a trigger has no plan times of its own."""
    return any(isinstance(trigger, EventTrigger) for trigger in triggers)


def is_on_boot(triggers: Sequence[Trigger]) -> bool:
    """Whether one of the triggers is `on boot`."""
    return any(trigger.kind is TriggerKind.BOOT for trigger in triggers)


def upstreams_of(name: str, triggers: Sequence[Trigger]) -> tuple[tuple[str, str], ...]:
    """Return (schedule, which ends) of each schedule that the triggers follow.

    Raises InvalidTrigger if a schedule follows itself, or the same one twice.
    """
    found = [(t.upstream, t.on) for t in triggers if isinstance(t, AfterTrigger)]
    names = [upstream for upstream, _ in found]
    if name in names:
        raise InvalidTrigger(
            f"schedule {name!r} runs after itself",
            hint="an interval after its own end is: every 1h after end",
        )
    if len(set(names)) != len(names):
        raise InvalidTrigger(f"schedule {name!r} runs after the same schedule twice")
    return tuple(found)


def _after_end_ms(triggers: Sequence[Trigger]) -> int | None:
    """The shortest interval after the end, or None."""
    found = [t.interval_ms for t in triggers if isinstance(t, AfterEndTrigger)]
    return min(found, default=None)


def find_outdated(found: Iterable[ZonedTimes], *, only_local: bool) -> list[int]:
    """The schedules whose next time the zones' rules might not give any more.

    Those of all zones but UTC, or only those in the machine's own zone. Of a million schedules that
    have few different cron texts, each text is computed once.
    """
    outdated = []
    kept: dict[tuple[str, int, str], int] = {}  # since when a next time is the first one
    for one in found:
        if one.has_windows:
            outdated.append(one.schedule_id)  # Few schedules have any.
            continue
        key = (one.compiled, one.plan_ms, one.source)
        if one.is_plain and kept.get(key, one.plan_ms) <= one.after_ms < one.plan_ms:
            continue
        try:
            times, zones = _zoned_times(one.compiled)
            if not (LOCAL in zones if only_local else zones):
                continue
            if (
                one.is_plain
                and one.after_ms < one.plan_ms
                and times.next_with_source(one.after_ms) == (one.plan_ms, one.source)
            ):
                kept[key] = one.after_ms
                continue
        except SENSELESS:
            pass  # `plan_rezone` finds the same, and the schedule is stopped.
        outdated.append(one.schedule_id)
    return outdated


@lru_cache(maxsize=256)
def _zoned_times(compiled: str) -> tuple[PlanTimes, frozenset[str]]:
    """The times of stored triggers, and the zones that their calendar times follow, but UTC."""
    triggers = load_triggers(compiled)
    zones = {one.timezone or "UTC" for one in triggers if one.kind in _OF_ZONES}
    return combine(triggers), frozenset(zones - {"UTC"})


def trigger_words(spec: ScheduleSpec) -> tuple[object, ...]:
    """The fields whose change makes a schedule's triggers be compiled again."""
    return (spec.triggers, spec.timezone, spec.from_at)


def timing_words(spec: ScheduleSpec) -> tuple[object, ...]:
    """The fields whose change makes a schedule's times be computed again."""
    return (
        *trigger_words(spec),
        spec.until_at,
        spec.max_runs,
        spec.policies.jitter_s,
        spec.policies.between,
        spec.policies.not_between,
        spec.policies.except_days,
    )


def jitter_warning(timing: Timing, *, after_ms: int) -> str | None:
    """Warn if jitter is longer than a coming interval, so that runs become due together."""
    plan_ms: list[int] = []
    found = timing.times.next_with_source(max(after_ms, (timing.from_ms or 0) - 1))
    while found is not None and len(plan_ms) < _MOST_LOOKED_AT:
        plan_ms.append(found[0])
        found = timing.times.next_with_source(found[0])
    gap_ms = min((late - early for early, late in pairwise(plan_ms)), default=None)
    if gap_ms is None or timing.jitter_ms <= gap_ms:
        return None
    words = (
        f"jitter {format_duration_ms(timing.jitter_ms)} is longer than the interval"
        f" {format_duration_ms(gap_ms)}"
    )
    if timing.catch_up is CatchUp.ALL:
        return f"{words}: several runs become due together, and run one after the other"
    return f"{words}: of runs that become due together only the last runs; the rest are skipped"


def window_warning(timing: Timing, *, usual_ms: int, after_ms: int) -> str | None:
    """Warn if a coming window closes before a run of its first time has usually ended."""
    windows = timing.windows
    usual_ms = max(1, round(usual_ms / 1000)) * 1000  # milliseconds say nothing to a person
    after_ms = max(after_ms, (timing.from_ms or 0) - 1)
    for one in timing.once_in:
        plan_ms = one.next_after_ms(after_ms)
        open_ms = usual_ms if plan_ms is None else one.closes_ms(plan_ms) - plan_ms
        if open_ms < usual_ms:
            return (
                f"its runs usually take {format_duration_ms(usual_ms)}, but the window of"
                f" {one.text!r} is open for {format_duration_ms(open_ms)}:"
                " the run continues after the window"
            )
    if windows is None:
        return None
    for number in range(_MOST_LOOKED_AT):
        found = timing.times.next_with_source(after_ms)
        if found is None or (timing.until_ms is not None and found[0] > timing.until_ms):
            return None
        plan_ms = found[0]
        closes_ms = windows.closes_ms(plan_ms, before_ms=plan_ms + max(usual_ms, _WEEK_MS))
        if closes_ms is None:
            return None
        before_ms = None if number else timing.times.last_ms(plan_ms - _WEEK_MS, plan_ms - 1)
        is_first = before_ms is None or windows.closes_ms(before_ms, before_ms=plan_ms) is not None
        if is_first and closes_ms - plan_ms < usual_ms:
            return (
                f"its runs usually take {format_duration_ms(usual_ms)}, but a window closes"
                f" {format_duration_ms(closes_ms - plan_ms)} after the first run starts:"
                " the run continues after the window"
            )
        after_ms = closes_ms - 1
    return None


def _check_grids(name: str, triggers: Sequence[Trigger]) -> None:
    """Refuse more intervals than can be counted quickly after a long time was missed.

    Each interval doubles the sets whose common times are counted, and beside cron each set is
    compared with the times of a year. The allowed number costs a tenth of a second at most, for
    fifty years.
    """
    kinds = [trigger.kind for trigger in triggers]
    count = kinds.count(TriggerKind.EVERY)
    has_cron = TriggerKind.CRON in kinds
    most = _MOST_INTERVALS_BESIDE_CRON if has_cron else _MOST_INTERVALS
    if count > most:
        beside = " beside cron" if has_cron else ""
        raise InvalidTrigger(
            f"schedule {name!r} has {count} intervals{beside}, expected at most {most}",
            hint="make a second schedule of the same command",
        )


def _check_once_in(name: str, triggers: Sequence[Trigger]) -> None:
    """Refuse windows that overlap, and other times beside windows: a fire has one window."""
    windows = [one for one in triggers if isinstance(one, OnceInTrigger)]
    allowed = (TriggerKind.BOOT, TriggerKind.AFTER, TriggerKind.DEMAND, TriggerKind.ONCE_IN)
    other = next((one for one in triggers if one.kind not in allowed), None)
    if windows and other is not None:
        raise InvalidTrigger(
            f"schedule {name!r} has {windows[0].text!r} and {other.text!r},"
            " expected no other times beside a window",
            hint="make a second schedule of the same command",
        )
    for first, second in permutations(windows, 2):
        openings = (day * DAY_S + second.window.start_s for day in second.window.weekdays)
        if any(first.window.holds(at_s) for at_s in openings):
            raise InvalidTrigger(
                f"schedule {name!r}: the windows of {first.text!r} and {second.text!r} overlap",
                hint="write one window for both, or make a second schedule",
            )


def _check_future(trigger: Trigger, now: datetime) -> None:
    if trigger.kind is TriggerKind.AT and trigger.next_after(now) is None:
        raise InvalidInput(f"{trigger.text!r} is in the past", hint="give a time in the future")


def check_upstreams(
    wanted: Mapping[str, Collection[str]],
    *,
    known: Iterable[tuple[str, str]],
    names: Collection[str],
) -> None:
    """Check the upstreams of schedules that are being written.

    `wanted`: their upstreams by name. `known`: the (schedule, upstream) pairs of the database.
    `names`: all its schedules. Raises InvalidTrigger for an upstream that does not exist, and for a
    circle, whose runs would never end.
    """
    for name, upstreams in wanted.items():
        for upstream in upstreams:
            if upstream not in names and upstream not in wanted:
                raise _missing(name, upstream, names)
    graph: dict[str, set[str]] = {}
    for name, upstream in known:
        if name not in wanted:
            graph.setdefault(name, set()).add(upstream)
    graph |= {name: set(upstreams) for name, upstreams in wanted.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]  # from a schedule along its upstreams back to itself
        raise InvalidTrigger(
            f"schedule {circle[0]!r} would run after itself: {' after '.join(circle)}",
            hint="remove one of these after",
        ) from None


def _missing(name: str, upstream: str, names: Collection[str]) -> InvalidTrigger:
    close = suggest(upstream, names)
    return InvalidTrigger(
        f"schedule {name!r} runs after {upstream!r}, and there is no schedule with that name",
        hint=f"did you mean {close!r}?" if close else "see: edgecron list",
    )
