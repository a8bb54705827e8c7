"""Count what a database holds: statistics as objects, metrics as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from edgecron.base.bundle import hint_for_extra
from edgecron.base.errors import NotFound, NotSupported, ServerUnavailable, Unreadable
from edgecron.base.values import NamedTuple
from edgecron.model.choices import Status
from edgecron.views.json_objects import instant

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from edgecron.client import Client as LocalClient
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Schedule
    from edgecron.views.statistics import Tallied, Tally


_MOST_SINGLE = 50  # schedules that are read one by one
OPENMETRICS = "application/openmetrics-text"
_EOF = b"# EOF\n"


class _OneFamily(NamedTuple):
    """The registry that the library expects: one family, or a slice of one."""

    family: Metric

    def collect(self) -> Iterable[Metric]:
        return (self.family,)


class _Format(NamedTuple):
    content_type: str
    write: Callable[[_OneFamily], bytes]
    ending: bytes


def exposition(
    client: LocalClient, accept: str | None, *, per_schedule: bool = False
) -> tuple[bytes, str]:
    """Return all metrics as text, and its content type, as an Accept header asks for.

    With `per_schedule`, histograms have a label for the schedule. Raises NotSupported if
    prometheus-client is missing.
    """
    content_type, parts = exposition_parts(client, accept, per_schedule=per_schedule)
    return b"".join(parts), content_type


def exposition_parts(
    client: LocalClient, accept: str | None, *, per_schedule: bool = False
) -> tuple[str, Iterator[bytes]]:
    """Return the content type, and the text in parts, which needs little memory."""
    form = _format_of(accept)
    from edgecron.client.metric_families import families

    return form.content_type, _parts(families(client, per_schedule=per_schedule), form)


def need_library() -> None:
    """Raise NotSupported if prometheus-client is missing, without loading it."""
    if find_spec("prometheus_client") is None:
        raise NotSupported(
            "metrics need prometheus-client, which is not installed",
            hint=hint_for_extra("metrics"),
        )


def _parts(found: Iterable[Metric], form: _Format) -> Iterator[bytes]:
    before = None
    for family in found:
        text = form.write(_OneFamily(family)).removesuffix(form.ending)
        if family.name == before:
            text = _without_head(text)  # All slices of a family have one head.
        before = family.name
        yield text
    yield form.ending


def _without_head(text: bytes) -> bytes:
    while text.startswith(b"#"):
        _, _, text = text.partition(b"\n")
    return text


def _format_of(accept: str | None) -> _Format:
    """Choose the first known format of an Accept header, as Prometheus' own libraries do."""
    need_library()
    from prometheus_client import exposition as plain
    from prometheus_client.openmetrics import exposition as openmetrics

    for one in (accept or "").split(","):
        wanted = one.partition(";")[0].strip().lower()
        if wanted == "text/plain":
            break
        if wanted == OPENMETRICS:
            # No name of ours needs escaping, and checking each letter is slow.
            write = partial(openmetrics.generate_latest, escaping=openmetrics.ALLOWUTF8)
            return _Format(openmetrics.CONTENT_TYPE_LATEST, write, _EOF)
    write = partial(plain.generate_latest, escaping=openmetrics.ALLOWUTF8)
    return _Format(plain.CONTENT_TYPE_PLAIN_0_0_4, write, b"")


def find_families(client: LocalClient, *, per_schedule: bool = False) -> Iterator[Metric]:
    """Yield all families, in slices. Raises NotSupported if prometheus-client is missing."""
    need_library()
    from edgecron.client.metric_families import families

    return families(client, per_schedule=per_schedule)


def read_families(fetch: Callable[[], bytes]) -> Iterator[Metric]:
    """Fetch a text in OpenMetrics, and yield its families.

    Raises NotSupported before the fetch if prometheus-client is missing, and ServerUnavailable if
    the text can't be read.
    """
    need_library()
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    read: Callable[[str], Iterator[Metric]] = text_string_to_metric_families
    try:
        found = list(read(fetch().decode()))  # Find errors before anything is shown.
    except ValueError as error:
        raise ServerUnavailable(
            f"the server's /metrics can't be read: {error}",
            hint="use the same version on both machines",
        ) from error
    return iter(found)


__all__ = ["OPENMETRICS", "exposition", "exposition_parts", "find_families", "read_families"]


def stats_objects(
    client: Client, found: Tallied, name: str | None, *, has_total: bool
) -> list[dict[str, Any]]:
    """Return the statistics of one schedule, or of all that are counted.

    With `has_total`, the last object is about all of them, and its schedule is null.
    """
    schedules = find_counted(client, found, name)
    objects = [
        _stats_object(found, each, tally, schedules.get(each))
        for each, tally in found.by_name.items()
    ]
    if name is None and has_total:
        objects.append(_stats_object(found, None, found.total, None))
    elif name is not None and not objects:
        objects = [_stats_object(found, name, found.total, schedules.get(name))]
    return objects


def find_counted(client: Client, found: Tallied, name: str | None) -> dict[str, Schedule]:
    """Return the counted schedules that still exist, by name: one, or all."""
    names = list(found.by_name) if name is None else [name]
    if len(names) > _MOST_SINGLE:
        return {schedule.name: schedule for schedule in client.schedule_page().schedules}
    schedules = {}
    for each in names:
        # A schedule that was removed or can't be read: its runs are counted.
        with suppress(NotFound, Unreadable):
            schedules[each] = client.schedule(each)
    return schedules


def _stats_object(
    found: Tallied, name: str | None, tally: Tally, schedule: Schedule | None
) -> dict[str, Any]:
    took, late = tally.duration_ms, tally.late_ms
    ended = (Status.SUCCESS, Status.FAILED, Status.CANCELLED, Status.INTERRUPTED)
    printed = found.output_bytes
    trend = None if name is None else found.trends.get(name)
    return {
        "schedule": name,
        "since_at": instant(found.since),
        "counted_from_at": instant(found.cut_at or found.since),
        "runs": tally.runs,
        **{status.value: tally.counts.get(status, 0) for status in ended},
        "retries": tally.retries,
        "success_rate": tally.success_rate,
        "skipped": sum(tally.skipped.values()),
        "skipped_by_reason": tally.skipped,
        "duration_median_ms": None if took is None else took.median,
        "duration_p95_ms": None if took is None else took.p95,
        "duration_max_ms": None if took is None else took.most,
        "late_median_ms": None if late is None else late.median,
        "late_p95_ms": None if late is None else late.p95,
        "late_max_ms": None if late is None else late.most,
        "output_median_bytes": None if printed is None else printed.median,
        "output_max_bytes": None if printed is None else printed.most,
        "ever": None
        if schedule is None
        else {
            "runs": schedule.run_count,
            **{status.value: count for status, count in schedule.counts.items()},
        },
        "trend": None
        if trend is None
        else {
            "success_rates": list(trend.success_rates),
            "durations_ms": list(trend.durations_ms),
            "success_rate_before": trend.success_rate_before,
            "duration_before_ms": trend.duration_before_ms,
        },
    }
