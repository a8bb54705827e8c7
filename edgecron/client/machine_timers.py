"""Find the timers of systemd below a root folder: those of the system, and those of users."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from edgecron.base.paths import is_root, user_name
from edgecron.base.values import NamedTuple, dataclass, field, replace
from edgecron.client.machine_files import (
    MachineFiles,
    MachineJob,
    Origin,
    ask_program,
    is_this_system,
)
from edgecron.formats.crontab_names import suggest_stem
from edgecron.formats.systemd_units import (
    Unit,
    UnitName,
    read_timer,
    read_unit,
    read_unit_name,
    service_of,
)

# In the order of their priority, as in systemd.unit(5).
_SYSTEM_UNITS = (
    "etc/systemd/system.control", "run/systemd/system.control", "run/systemd/transient",
    "run/systemd/generator.early", "etc/systemd/system", "etc/systemd/system.attached",
    "run/systemd/system", "run/systemd/system.attached", "run/systemd/generator",
    "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system",
    "run/systemd/generator.late",
)  # fmt: skip
_OF_USER = ".config/systemd/user"
_USER_UNITS = (
    "etc/systemd/user", "run/systemd/user", "usr/local/share/systemd/user",
    "usr/share/systemd/user", "usr/local/lib/systemd/user", "usr/lib/systemd/user",
)  # fmt: skip
_LINGER = "var/lib/systemd/linger"


class Account(NamedTuple):
    """A user of a system, with the home folder below the root."""

    name: str
    uid: str
    home: Path


@dataclass(slots=True, kw_only=True)
class Units:
    """Unit files of one service manager.

    `folders` are in the order of their priority. `links` are those in .wants and .requires folders,
    by the name of the unit that they start.
    """

    files: MachineFiles
    folders: list[Path]
    links: dict[str, list[Path]] = field(default_factory=dict)

    def timers(self) -> Iterator[UnitName]:
        """Yield each timer once, by name; instances of templates only if they are enabled."""
        found: set[str] = set()
        seen: set[str] = set()
        for folder in self.folders:
            real = os.path.realpath(folder)  # /lib is /usr/lib on most systems.
            if real in seen:
                continue
            seen.add(real)
            for path in self.files.list_folder(folder):
                if path.suffix == ".timer":
                    found.add(path.name)
                elif path.suffix in (".wants", ".requires"):
                    for link in self.files.list_folder(path):
                        if link.is_symlink():
                            self.links.setdefault(link.name, []).append(link)
        wanted = found | {name for name in self.links if name.endswith(".timer")}
        for full in sorted(wanted):
            name = read_unit_name(full)
            if not name.is_template:
                yield name

    def find(self, name: UnitName) -> Path | None:
        """Find the file of a unit, or the link that masks it; None if there is none."""
        return next((one for one in self._places(_names(name)) if os.path.lexists(one)), None)

    def is_masked(self, name: UnitName) -> bool:
        """Return whether a unit is masked: a link to /dev/null, or an empty file."""
        path = self.find(name)
        if path is None:
            return False
        return os.path.realpath(path) == "/dev/null" or (path.is_file() and not path.stat().st_size)

    def load(self, name: UnitName) -> Unit | None:
        """Read a unit with its drop-ins; None if it is missing or masked."""
        path = self.find(name)
        if path is None or self.is_masked(name):
            return None
        text = self.files.read_text(path)
        if text is None:
            return None
        drop_ins: dict[str, Path] = {}
        for folder in self._drop_in_folders(_names(name)):
            for one in self.files.list_folder(folder):
                if one.suffix == ".conf":
                    drop_ins.setdefault(one.name, one)
        texts = (self.files.read_text(drop_ins[key]) for key in sorted(drop_ins))
        return read_unit([text, *(one for one in texts if one)])

    def _places(self, names: Iterable[str]) -> Iterator[Path]:
        for one in names:
            for folder in self.folders:
                yield folder / one

    def _drop_in_folders(self, names: list[str]) -> Iterator[Path]:
        kind = names[0].rpartition(".")[2]
        stem = names[0].removesuffix(f".{kind}")
        dashes = [f"{stem[: at + 1]}.{kind}" for at, letter in enumerate(stem) if letter == "-"]
        for one in (*names, *reversed(dashes), kind):
            for folder in self.folders:
                yield folder / f"{one}.d"


def _names(name: UnitName) -> list[str]:
    return [name.full] if name.template is None else [name.full, name.template]


def read_timers(files: MachineFiles) -> Iterator[MachineJob]:
    """Yield the timers of the system, those of this user and, for root, those of other users."""
    root = files.root
    is_here, me = is_this_system(root), user_name()
    active = _active_timers() if is_here else None
    units = Units(files=files, folders=[root / folder for folder in _SYSTEM_UNITS])
    runs = not is_here or Path("/run/systemd/system").exists()
    for job in _read_manager(units, Origin.TIMER, active):
        why = "systemd does not run here"
        yield job if runs else replace(job, spec=None, reason=why, is_enabled=False)
    active = _active_timers("--user") if is_here else None
    folders = [root / folder for folder in _USER_UNITS]
    units = Units(files=files, folders=[*(_own_folders() if is_here else ()), *folders])
    yield from _read_manager(units, Origin.USER_TIMER, active)
    for account in _accounts(files):
        folder = account.home / _OF_USER
        is_read = is_here and (account.name == me or not is_root())
        if is_read or not os.path.isdir(folder):
            continue
        lingers = (root / _LINGER / account.name).exists()
        for job in _read_manager(Units(files=files, folders=[folder]), Origin.USER_TIMER):
            yield replace(
                job,
                source=f"{job.source} of {account.name}",
                spec=None,
                reason=f"it is a timer of {account.name}: adopt it as {account.name}",
                # systemctl --user finds the user's service manager by this variable.
                become=f"sudo -u {account.name} XDG_RUNTIME_DIR=/run/user/{account.uid}",
                notes=() if lingers else (f"it runs only while {account.name} is logged in",),
            )


def _own_folders() -> list[Path]:
    """Return the folders of this user's own units."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folders = [Path(config) / "systemd/user"]
    return [Path(runtime) / "systemd/transient", *folders] if runtime else folders


def _accounts(files: MachineFiles) -> Iterator[Account]:
    """Yield the users of the system below the root that have a home folder."""
    root, seen = files.root, set[str]()
    if is_this_system(root):
        homes = [(entry.pw_name, str(entry.pw_uid), entry.pw_dir) for entry in pwd.getpwall()]
    else:
        content = (files.read(root / "etc/passwd") or b"").decode("utf-8", "replace")
        rows = [line.split(":") for line in content.splitlines()]
        homes = [(row[0], row[2], row[5]) for row in rows if len(row) > 5]
    for name, uid, home in homes:
        if home.strip("/") and home not in seen:  # "/" and shared homes are nobody's own.
            seen.add(home)
            yield Account(name, uid, root / home.lstrip("/"))


def _active_timers(*scope: str) -> frozenset[str] | None:
    """Ask systemd which timers it has started; None if it does not run or can't say."""
    said = ask_program(
        *("systemctl", *scope, "list-units", "--type=timer", "--state=active"),
        *("--plain", "--no-legend", "--full"),
    )
    if said is None:
        return None
    lines = said.decode("utf-8", "replace").splitlines()
    return frozenset(line.split()[0] for line in lines if line.strip())


def _read_manager(
    units: Units, origin: Origin, active: frozenset[str] | None = None
) -> Iterator[MachineJob]:
    """Yield the timers of a service manager. `active`: those that it has started, if known."""
    for name in units.timers():
        timer = units.load(name)
        if timer is not None:
            is_active = None if active is None else name.full in active
            yield _timer_job(name, timer, units, origin=origin, is_active=is_active)
        elif units.is_masked(name):
            yield MachineJob(
                name=_stem(name),
                origin=origin,
                source=name.full,
                command=name.full,
                reason="it is masked",
                is_enabled=False,
                is_caught_up=None,
            )


def _timer_job(
    name: UnitName, timer: Unit, units: Units, *, origin: Origin, is_active: bool | None
) -> MachineJob:
    is_user = origin is Origin.USER_TIMER
    started = read_unit_name(service_of(timer, name))
    service = units.load(started)
    reading = read_timer(name, timer, service, is_user=is_user, importer=user_name())
    paths = units.links.get(name.full, ())
    links = [units.files.shown(path) for path in paths]
    reason = reading.reason
    if service is None and units.is_masked(started):
        reason = f"its service {started.full} is masked"
    reason = reason or _why_fixed(
        name.full, units.files.shown(units.find(name) or Path()), links, is_active=is_active
    )
    become = None
    if reason is None and not is_user and not is_root():
        reason, become = "it is a timer of the system: adopt it as root", "sudo"
    notes = reading.notes
    if links and is_active is False:
        notes = (*notes, f"systemd has not started it; see why: systemctl status {name.full}")
    return MachineJob(
        name=_stem(name),
        origin=origin,
        source=name.full,
        raw=json.dumps(
            [
                (link, os.readlink(path), path.lstat().st_mtime_ns)
                for link, path in zip(links, paths, strict=True)
            ]
        ),
        command=reading.command,
        triggers=reading.triggers,
        timezone=reading.timezone,
        spec=reading.spec if reason is None else None,
        reason=reason,
        become=become,
        notes=notes,
        service=started.full,
        is_enabled=bool(links) or is_active is True,
        is_spread=reading.spec is not None and reading.spec.policies.jitter_s > 0,
        is_caught_up=reading.is_persistent if timer.all("Timer", "OnCalendar") else None,
    )


def _stem(name: UnitName) -> str:
    return suggest_stem(f"/{name.full.removesuffix('.timer').replace('/', '-')}")


def _why_fixed(name: str, file: str, links: Sequence[str], *, is_active: bool | None) -> str | None:
    """Say why a timer can't be disabled for good; None if it can."""
    if any("/systemd/generator" in path for path in (file, *links)):
        return "a generator makes it at each boot"
    if "/systemd/transient/" in file or any(path.startswith("/run/") for path in links):
        return "it lasts only until the next boot"
    if any(path.startswith(("/usr/", "/lib/")) for path in links):
        return "it is a fixed part of its package"
    if any(path.startswith("/etc/systemd/user/") for path in links):
        return f"it runs for every user: add the job, then use systemctl --user mask {name}"
    if is_active and not links:
        return "it was started by hand, and is not enabled"
    return None
