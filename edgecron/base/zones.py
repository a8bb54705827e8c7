"""Load zones by name, always from the tzdata package, by path.

The process-wide search path of `zoneinfo` is never touched. 'local' is the machine's own zone. It
is looked up each time, so that edgecron follows a change.
"""

from __future__ import annotations

import os
from _thread import _local  # what `threading` gives, which takes 1 ms to load
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from edgecron.base.checks import suggest
from edgecron.base.errors import UnknownTimezone
from edgecron.base.tzif import DAY_S, History, Spans, read_history, rule_content
from edgecron.base.values import blake2b

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

LOCAL = "local"
_ETC = "/etc"
_LOCALTIME = (
    "localtime"  # of a local zone without a name: only the bytes of /etc/localtime define it
)


class _Seen(_local):
    """The machine's zone as a thread last read it, within `one_local_zone`."""

    is_kept = False
    history: History | None = None
    engines_zone: str | None = None  # see `use_zone_of_engines`


_seen = _Seen()


def load_zone(name: str | None) -> ZoneInfo:
    """Load the tzinfo of an IANA name, of 'local', or of None, which is UTC.

    Raises UnknownTimezone.
    """
    resolved = resolve_zone_name(check_zone(name))
    return _zone_info(resolved, _changed_ns(resolved))


def resolve_zone_name(name: str | None) -> str:
    """Return a name that does not depend on the machine: 'UTC' for None, the zone for 'local'.

    Does not check that an IANA name exists.
    """
    if name is None:
        return "UTC"
    return local_zone_name() if name == LOCAL else name


def zone_spans(name: str | None, *, until_s: int) -> Spans:
    """List a zone's spans of constant offset up to an instant. Raises UnknownTimezone."""
    return zone_history(resolve_zone_name(name)).spans(until_s)


def zone_history(resolved: str) -> History:
    """The history of a resolved zone name. Raises UnknownTimezone."""
    return _history(resolved, _changed_ns(resolved))


def local_history() -> History:
    """The history of the zone that `local` means for triggers. Raises UnknownTimezone."""
    if not _seen.is_kept:
        return zone_history(trigger_zone_name())
    if _seen.history is None:
        _seen.history = zone_history(local_zone_name())
    return _seen.history


def trigger_zone_name() -> str:
    """The name of the zone that `local` means for triggers on this thread."""
    return _seen.engines_zone or local_zone_name()


def use_zone_of_engines(mark: str | None) -> None:
    """Have `local` mean a zone of the engines, by its mark, for triggers on this thread.

    So a shell with another TZ computes the same times as the engines. None, and a zone without a
    name, mean the machine's own. Times that a person writes are always in the machine's own.
    """
    _seen.engines_zone = mark if mark is not None and _is_listed(mark) else None


def trigger_spans(name: str | None, *, until_s: int) -> Spans:
    """`zone_spans` of a trigger's zone."""
    history = local_history() if name == LOCAL else zone_history(resolve_zone_name(name))
    return history.spans(until_s)


@contextmanager
def one_local_zone() -> Iterator[None]:
    """Look the machine's zone up once, so that all decisions within have the same zone."""
    before = _seen.is_kept, _seen.history
    _seen.is_kept, _seen.history = True, None
    try:
        yield
    finally:
        _seen.is_kept, _seen.history = before


def check_zone(name: object) -> str | None:
    """Return the name if it is None or a zone that can be loaded.

    Raises UnknownTimezone with the nearest name there is.
    """
    if name is not None and not isinstance(name, str):
        raise UnknownTimezone(
            f"timezone is {name!r}, expected a name such as 'Europe/Berlin', 'local' or None",
            hint="write an IANA name, local or UTC",
        )
    if name is not None and name != LOCAL and not _is_listed(name):
        # A POSIX rule, which TZ can hold, works only as 'local', not as the name of a zone.
        raise _unknown(name)
    zone_history(resolve_zone_name(name))
    return name


def local_zone_stamp(etc: str = _ETC) -> tuple[object, ...]:
    """Return a value that changes if the machine's own zone possibly changed. Costs a stat."""
    found: list[object] = [os.environ.get("TZ")]
    for name in ("localtime", "timezone"):
        path = os.path.join(etc, name)
        for look in (os.lstat, os.stat):
            try:
                seen = look(path)
            except OSError:
                found.append(None)
            else:
                found.append((seen.st_dev, seen.st_ino, seen.st_mtime_ns))
    return tuple(found)


def local_zone_changed_ms() -> int | None:
    """When the machine's zone was set, as far as /etc/localtime says; None if it does not."""
    try:
        return os.lstat(os.path.join(_ETC, "localtime")).st_mtime_ns // 1_000_000
    except OSError:
        return None


def local_zone_mark(etc: str = _ETC) -> str:
    """Return the name of the machine's zone for comparison; a hash for a zone without a name."""
    name = local_zone_name(etc)
    if name != _LOCALTIME:
        return name
    try:
        content = _read(os.path.join(etc, "localtime"))
    except OSError:
        return name
    return f"{name}:{blake2b(content, digest_size=8).hexdigest()}"


def local_zone_name(etc: str = _ETC) -> str:
    """The machine's zone: an IANA name, a POSIX rule from TZ, or 'localtime'.

    The first that exists decides: TZ, the target of the link /etc/localtime, /etc/timezone, the
    bytes of /etc/localtime. Without any of them it is UTC, as in the C library.
    """
    localtime = os.path.join(etc, "localtime")
    variable = os.environ.get("TZ", localtime).removeprefix(":")
    if variable != localtime:
        return _after_zoneinfo(variable) or "UTC"
    return machine_zone_name(etc)


def machine_zone_name(etc: str = _ETC) -> str:
    """The zone of a process without TZ: an IANA name, or 'localtime'."""
    localtime = os.path.join(etc, "localtime")
    try:
        linked = _after_zoneinfo(os.readlink(localtime))
    except OSError:
        linked = ""
    if _is_listed(linked):
        return linked
    try:
        written = _read(os.path.join(etc, "timezone")).decode("ascii", "replace").strip()
    except OSError:
        written = ""
    if _is_listed(written):
        return written
    return _LOCALTIME if os.path.exists(localtime) else "UTC"


def is_same_zone(one: str | None, other: str | None) -> bool:
    """Return whether two names, as of `load_zone`, are of one zone, such as UTC and Etc/UTC."""
    first, second = resolve_zone_name(one), resolve_zone_name(other)
    return first == second or _have_same_content(first, second)


def tzdata_version() -> str:
    """The IANA version of the tzdata package, such as '2025b'."""
    import tzdata

    return str(tzdata.IANA_VERSION)


def zone_names() -> frozenset[str]:
    """Every zone name that the tzdata package has."""
    return frozenset(_list().split())


def _is_listed(name: str) -> bool:
    """Whether the tzdata package has a zone of this name."""
    return name.isprintable() and bool(name) and f"\n{name}\n" in _list()


@lru_cache(maxsize=1)
def _list() -> str:
    # One text: a set of its words takes eight times the memory, for the months an engine runs.
    names = _read(os.path.join(_package_folder(), "zones")).decode("ascii")
    return "\n".join(["", *names.split(), ""])


def resolve_wall(wall_s: int, *, timezone: str | None) -> int:
    """Find the instant of a wall time, both in seconds since 1970.

    A time that a gap skips is the gap's end. A repeated time is its first pass.
    """
    spans = zone_spans(timezone, until_s=wall_s + 2 * DAY_S)
    # No offset is as much as 36 hours: the span found here began before the wall time.
    index = spans.index_at(wall_s - 3 * DAY_S // 2)
    for at in range(index, len(spans.starts)):
        start, offset = spans.starts[at], spans.offsets[at]
        if wall_s < start + offset:
            return start
        if wall_s < spans.end(at) + offset:
            return wall_s - offset
    return wall_s - spans.offsets[-1]


def offset_at(instant_s: int, *, timezone: str | None) -> int:
    """Wall time minus UTC at an instant, in seconds."""
    spans = zone_spans(timezone, until_s=instant_s)
    return spans.offsets[spans.index_at(instant_s)]


@lru_cache(maxsize=700)
def _history(resolved: str, changed_ns: int) -> History:
    return read_history(_content(resolved))


@lru_cache(maxsize=64)
def _have_same_content(one: str, other: str) -> bool:
    # Only names of the package, whose content never changes; others can't have a second name.
    return _is_listed(one) and _is_listed(other) and _content(one) == _content(other)


@lru_cache(maxsize=64)
def _zone_info(resolved: str, changed_ns: int) -> ZoneInfo:
    from io import BytesIO
    from zoneinfo import ZoneInfo

    return ZoneInfo.from_file(BytesIO(_content(resolved)), key=resolved)


def _changed_ns(resolved: str) -> int:
    """Return when the bytes of the machine's own zone changed last; 0 for other zones."""
    if resolved != _LOCALTIME:
        return 0
    try:
        return os.stat(os.path.join(_ETC, "localtime")).st_mtime_ns
    except OSError:
        raise _unknown(resolved) from None


def _content(resolved: str) -> bytes:
    # Only a name on the package's own list becomes a path: `..`, `/etc` and NUL never do.
    if _is_listed(resolved):
        return _read(os.path.join(_package_folder(), "zoneinfo", *resolved.split("/")))
    if resolved == _LOCALTIME:
        try:
            return _read(os.path.join(_ETC, "localtime"))
        except OSError:
            raise _unknown(resolved) from None
    if resolved == os.environ.get("TZ", "").removeprefix(":"):
        try:
            return rule_content(resolved)
        except (ValueError, IndexError):
            raise _unknown(resolved) from None
    raise _unknown(resolved)


def _unknown(name: str) -> UnknownTimezone:
    shown = ascii(name) if len(name) <= 80 else f"{name[:60]!a}... ({len(name)} long)"
    message = f"timezone {shown} is unknown, expected an IANA name such as Europe/Berlin"
    by_lower = {known.lower(): known for known in zone_names()}
    lower = name[:80].lower().replace(" ", "_")
    near = suggest(lower, by_lower, cutoff=0.75)
    if near is None:
        by_city = {known.rpartition("/")[2]: known for known in by_lower}
        city = suggest(lower, by_city, cutoff=0.8)
        near = None if city is None else by_city[city]
    hint = f"did you mean {by_lower[near]}?" if near else "write an IANA name, local or UTC"
    hours = lower.removeprefix("utc").removeprefix("gmt")
    if hours[:1] in ("+", "-") and hours[1:].isdecimal() and int(hours[1:]) <= 12:
        # The names of fixed offsets have the opposite sign.
        sign = "-" if hours[0] == "+" else "+"
        hint = f"write the zone of a city; a fixed offset is Etc/GMT{sign}{int(hours[1:])}"
    return UnknownTimezone(message, hint=hint)


def _after_zoneinfo(path: str) -> str:
    """Extract the zone from a path such as /usr/share/zoneinfo/Europe/Berlin, else the text."""
    _, found, name = path.rpartition("/zoneinfo/")
    return (name if found else path).removeprefix("posix/")


@lru_cache(maxsize=1)
def _package_folder() -> str:
    import tzdata

    return os.path.dirname(str(tzdata.__file__))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
