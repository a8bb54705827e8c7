"""Entity tags and conditional requests (RFC 9110, section 13), and idempotency keys.

The tag of a schedule is its id, its revision, and after a dash a checksum of all that is shown:
`"7.3-5e0c1f2a"`. A write compares only the revision: a run that ended meanwhile is not a lost
update. A read compares the whole tag. `"7.3"`, from the fields `id` and `revision`, works too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from zlib import crc32

from edgecron.base.values import dataclass
from edgecron.http.messages import Parameter, Refused
from edgecron.model.schedule import Schedule

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
    """The conditions of a write; None is no condition."""

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
    words="a key of your own, for which the schedule fires once. If you repeat the request within"
    " 24 hours, such as after a lost answer, it returns the same runs as they are now, unless they"
    " were pruned. This holds longer while they are among the newest 100 of the schedule. Each"
    " schedule has its own keys. The same key with another payload is 422 idempotency_key_reused",
)


def find_key(headers: Mapping[str, str]) -> str | None:
    """Return the idempotency key of a request; None if it has none."""
    given = headers.get(IDEMPOTENCY_KEY.name.lower())
    if given is None or not given.startswith('"'):
        return given
    return re.sub(r"\\(.)", r"\1", given[1:-1])
