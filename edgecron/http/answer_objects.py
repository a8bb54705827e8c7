"""Objects of answers with their tags, and the conditions and keys that requests bring."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any
from zlib import crc32

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.base.values import dataclass
from edgecron.client.record_forms import run_fields
from edgecron.client.schedule_forms import schedule_fields
from edgecron.formats.document_writing import schedule_table
from edgecron.http.document_schema import DEFAULT_ZONE
from edgecron.http.messages import Answer, Parameter, Refused, json_answer, json_bytes
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.views.json_objects import fire_object, schedule_object

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.model.run import Execution
    from edgecron.planning.forecast import UpcomingFire


_TAG = r'(W/)?"[!#-~]*"'
_TAGS = rf"^(\*|{_TAG}([ ]*,[ ]*{_TAG})*)$"
IF_MATCH = Parameter(
    name="If-Match",
    shape={"type": "string", "maxLength": 1000, "pattern": _TAGS, "format": "entity-tags"},
    words="act only if the schedule still has this ETag, else 412; *: only if it exists",
)
IF_NONE_MATCH = Parameter(
    name="If-None-Match",
    shape={"type": "string", "maxLength": 1000, "pattern": _TAGS, "format": "entity-tags"},
    words="for a read: 304 if it still has this ETag; for a write: *: only if it does not exist",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of a write. A condition that the request does not have is None."""

    match: tuple[str, ...] | None = None
    none_match: tuple[str, ...] | None = None

    def check(self, schedule: Schedule | None) -> None:
        """Raise Refused if a schedule (None: there is none) does not meet the conditions."""
        if self.match is not None:
            is_there = schedule is not None and "*" in self.match
            if not is_there and (schedule is None or revision_of(schedule) not in self.match):
                raise lost(schedule)
        if self.none_match is not None and schedule is not None:
            is_there = "*" in self.none_match or revision_of(schedule) in self.none_match
            if is_there:
                raise lost(schedule)


def read_conditions(headers: Mapping[str, str]) -> Conditions:
    """Read the conditions of a write from its headers."""
    return Conditions(
        match=_revisions(headers.get("if-match")),
        none_match=_revisions(headers.get("if-none-match")),
    )


def is_known(tag: str, headers: Mapping[str, str]) -> bool:
    """Whether the client has the answer of a tag already."""
    given = headers.get("if-none-match")
    if given is None:
        return False
    return given.strip() == "*" or tag in re.findall(r'"[!#-~]*"', given)


def revision_of(schedule: Schedule) -> str:
    """Return the part of a tag that changes with the schedule."""
    return f"{schedule.id}.{schedule.revision}"


def tag_of(schedule: Schedule, shown: bytes) -> str:
    """Return the tag of a schedule and of all values shown with it."""
    return f'"{revision_of(schedule)}-{crc32(shown):08x}"'


def lost(schedule: Schedule | None) -> Refused:
    """Return the refusal for a condition that no longer holds."""
    if schedule is None:
        message = "there is no such schedule, but If-Match requires one"
    else:
        message = (
            f"schedule {schedule.name!r} is at revision {schedule.revision}:"
            " the condition of the request, If-Match or If-None-Match, does not hold"
        )
    return Refused(
        412,
        "precondition_failed",
        message,
        hint="read it again, and repeat with the ETag that it has then",
    )


def _revisions(given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    if given.strip() == "*":
        return ("*",)
    return tuple(tag.partition("-")[0] for tag in re.findall(r'"([!#-~]*)"', given))


# 1 to 255 characters, bare or as a String of structured fields (RFC 9651).
_BARE = r"[!#-~]([ -~]{0,253}[!-~])?"
_QUOTED = r'"([ !#-\[\]-~]|\\["\\]){1,255}"'
IDEMPOTENCY_KEY = Parameter(
    name="Idempotency-Key",
    shape={
        "type": "string",
        "minLength": 1,
        "maxLength": 512,
        "pattern": f"^({_BARE}|{_QUOTED})$",
        "format": "idempotency-key",
        "description": "1 to 255 printable characters of ASCII, in quotes or without",
    },
    words="a key of your own, for which the schedule fires once. If you repeat the request, such as"
    " after a lost answer, it returns the same runs as they are now, as long as the history holds"
    " them. Each schedule and scope has its own keys. The same key with another payload is 422"
    " idempotency_key_reused",
)


def find_key(headers: Mapping[str, str]) -> str | None:
    """Return the idempotency key of a request; None if it has none."""
    given = headers.get(IDEMPOTENCY_KEY.name.lower())
    if given is None or not given.startswith('"'):
        return given
    return re.sub(r"\\(.)", r"\1", given[1:-1])


_UPCOMING = 5


def zone_of(spec: ScheduleSpec) -> str:
    """Return the zone of a schedule's times."""
    return spec.timezone or DEFAULT_ZONE


def listed_schedule(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as lists show it."""
    return schedule_object(schedule) | {"timezone": zone_of(schedule.spec)}


def shown_schedule(client: Client, schedule: Schedule) -> dict[str, Any]:
    """Return all about a schedule, with the document that PUT takes."""
    fires: list[UpcomingFire] = []
    with suppress(InvalidInput, NotFound):  # Its trigger_error says what can't be read.
        fires += islice(client.next_fires(schedule.name), _UPCOMING)
    zone = zone_of(schedule.spec)
    return schedule_fields(schedule) | {
        "upcoming": [fire_object(fire) | {"timezone": zone} for fire in fires],
        "document": document_of(schedule),
    }


def document_of(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as PUT takes it: with its time zone, and its payload as JSON."""
    document = schedule_table(schedule) | {"timezone": zone_of(schedule.spec)}
    if schedule.spec.job.payload is not None:
        document["payload"] = payload_value(schedule.spec.job.payload)
    return document


def payload_value(text: str | None) -> Any:
    """Return the JSON value of a payload, or a text that is not JSON: only SQL can write it."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def schedule_answer(
    client: Client, schedule: Schedule, *, status: int = 200, location: str | None = None
) -> Answer:
    """Return the answer that shows a schedule, with its ETag."""
    shown = shown_schedule(client, schedule)
    headers = {"etag": tag_of(schedule, json_bytes(shown))}
    if location is not None:
        headers["location"] = location
    return json_answer(shown, status=status, headers=headers)


def shown_runs(client: Client, runs: Iterable[Execution]) -> list[dict[str, Any]]:
    """Return runs as lists show them."""
    zones: dict[tuple[int, int], str | None] = {}
    shown = []
    for run in runs:
        key = (run.schedule_id, run.revision)
        if key not in zones:
            spec = client.spec_of(run)
            zones[key] = None if spec is None else zone_of(spec)
        shown.append(run_fields(run) | {"timezone": zones[key]})
    return shown


def shown_fires(client: Client, fires: Sequence[UpcomingFire]) -> list[dict[str, Any]]:
    """Return fires to come, as lists show them."""
    zones: dict[str, str | None] = {}
    for fire in fires:
        if fire.schedule not in zones:
            zones[fire.schedule] = None
            with suppress(NotFound):  # The schedule was removed since.
                zones[fire.schedule] = zone_of(client.schedule(fire.schedule).spec)
    return [fire_object(fire) | {"timezone": zones[fire.schedule]} for fire in fires]
