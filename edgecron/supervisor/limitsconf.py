"""The limits that a machine sets for its users, as pam_limits reads them for cron: limits.conf(5).

/etc/security/limits.conf, then limits.d/*.conf by name, as one text. A user's own line counts
before one of a group, that before one for all; of lines that count alike the last.
"""

from __future__ import annotations

import grp
import resource
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from edgecron.base.values import dataclass

PLACE = Path("/etc/security")
_UNLIMITED = ("unlimited", "infinity", "-1")
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a user is limited to. `resources`: number of RLIMIT_*, soft and hard, None as it is."""

    resources: tuple[tuple[int, int | None, int | None], ...] = ()
    nice: int | None = None
    no_new_privs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Who:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


NO_LIMITS = Limits()

# By the name of an item: the resource, and what a value is to be multiplied with.
_RESOURCES: Mapping[str, tuple[str, int]] = {
    "core": ("RLIMIT_CORE", _KIB),
    "data": ("RLIMIT_DATA", _KIB),
    "fsize": ("RLIMIT_FSIZE", _KIB),
    "memlock": ("RLIMIT_MEMLOCK", _KIB),
    "nofile": ("RLIMIT_NOFILE", 1),
    "rss": ("RLIMIT_RSS", _KIB),
    "stack": ("RLIMIT_STACK", _KIB),
    "cpu": ("RLIMIT_CPU", 60),
    "nproc": ("RLIMIT_NPROC", 1),
    "as": ("RLIMIT_AS", _KIB),
    "sigpending": ("RLIMIT_SIGPENDING", 1),
    "msgqueue": ("RLIMIT_MSGQUEUE", 1),
    "nice": ("RLIMIT_NICE", 1),
    "rtprio": ("RLIMIT_RTPRIO", 1),
    "rttime": ("RLIMIT_RTTIME", 1),
}
_TYPES: Mapping[str, tuple[str, ...]] = {
    "soft": ("soft",),
    "hard": ("hard",),
    "-": ("soft", "hard"),
}


def find_limits(
    name: str, *, uid: int, gid: int, groups: tuple[int, ...], place: Path = PLACE
) -> Limits:
    """The limits of a user; none where the machine has no such files.

    Raises ValueError where they ask for what can't be done here: to run it all in a `chroot`.
    """
    who = _Who(name=name, uid=uid, gid=gid, groups=groups)
    return judge_limits(_read(place), rank=lambda domain: _rank(domain, who))


def judge_limits(text: str, *, rank: Callable[[str], int | None]) -> Limits:
    """The limits by the text of limits.conf(5). Raises ValueError for `chroot`.

    `rank` says how closely a domain means the user, the lowest first, and None where it does not.
    A line that can't be read counts for nothing, as with PAM.
    """
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for domain, kinds, item, value in _lines(text):
        own = rank(domain)
        if own is None:
            continue
        if item == "-":
            if _is_by_name(domain):
                return NO_LIMITS  # "user -", "@group -": nothing is set for those at all
            continue
        for kind in kinds:
            if (item, kind) not in found or found[item, kind][0] >= own:
                found[item, kind] = (own, value)
    if ("chroot", "hard") in found or ("chroot", "soft") in found:
        raise ValueError("limits.conf asks for chroot, which edgecron has not")
    return Limits(
        resources=tuple(_resources({key: value for key, (_, value) in found.items()})),
        nice=_nice_of(found),
        no_new_privs=any(found.get(("nonewprivs", kind), (0, ""))[1] == "1" for kind in ("hard",)),
    )


def _read(place: Path) -> str:
    try:
        others = sorted((place / "limits.d").glob("*.conf"), key=lambda path: path.name)
    except OSError:
        others = []
    parts = []
    for path in (place / "limits.conf", *others):
        try:
            parts.append(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return "\n".join(parts)


def _lines(text: str) -> Iterator[tuple[str, tuple[str, ...], str, str]]:
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[1] == "-":
            yield words[0], (), "-", ""
        elif len(words) == 4 and words[1] in _TYPES:
            yield words[0], _TYPES[words[1]], words[2].lower(), words[3].lower()


def _is_by_name(domain: str) -> bool:
    """Whether it is a user or a group: of wildcards and ranges PAM takes no such line."""
    return domain not in ("*", "%") and ":" not in domain


def _rank(domain: str, who: _Who) -> int | None:
    if domain == who.name:
        return 0
    if who.uid == 0:
        return None  # Groups and wildcards are not meant for root.
    if domain == "*":
        return 2
    if domain.startswith("@"):
        return 1 if _is_in_group(domain[1:], who) else None
    return 0 if ":" in domain and _is_within(domain, who.uid) else None


def _is_in_group(name: str, who: _Who) -> bool:
    if ":" in name:
        low = name.partition(":")[0]
        return any(_is_within(name, gid) for gid in ((who.gid,) if low else who.groups))
    try:
        return grp.getgrnam(name).gr_gid in (who.gid, *who.groups)
    except KeyError:
        return False


def _is_within(text: str, number: int) -> bool:
    """Whether a number is in `LOW:HIGH`, at or above it in `LOW:`, or just it in `:EXACT`."""
    low, _, high = text.partition(":")
    try:
        if not low:
            return number == int(high)
        return int(low) <= number and (not high or number <= int(high))
    except ValueError:
        return False


def _resources(
    found: Mapping[tuple[str, str], str],
) -> Iterator[tuple[int, int | None, int | None]]:
    for item, (name, factor) in _RESOURCES.items():
        number = getattr(resource, name, None)  # Other systems have fewer of them.
        soft, hard = (_value(found.get((item, kind)), item, factor) for kind in ("soft", "hard"))
        if number is not None and (soft, hard) != (None, None):
            yield number, soft, hard


def _value(text: str | None, item: str, factor: int) -> int | None:
    if text is None:
        return None
    if item == "nice":
        # As the kernel counts: 20 is a niceness of 0.
        number = _integer(text)
        return None if number is None else min(max(20 - number, 0), 40)
    if text in _UNLIMITED:
        return resource.RLIM_INFINITY
    number = _integer(text)
    return None if number is None or number < 0 else number * factor


def _nice_of(found: Mapping[tuple[str, str], tuple[int, str]]) -> int | None:
    _, text = found.get(("priority", "hard"), found.get(("priority", "soft"), (0, "")))
    number = _integer(text)
    return None if number is None else min(max(number, -20), 19)


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
