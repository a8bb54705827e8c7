"""Disable a schedule at the program that has it, keeping the original, and give it back.

Each of these acts is one atomic change of a file, or one call of systemctl. Doing it twice is
harmless, and `is_active` reports what is true now.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Protocol

from edgecron.base.errors import Conflict, EdgecronError, NotFound, NotSupported, os_words
from edgecron.base.files import write_whole
from edgecron.base.paths import is_root, user_name
from edgecron.base.values import dataclass
from edgecron.client.machine_files import ask_program, is_this_system
from edgecron.client.machine_jobs import (
    MOVED_SUFFIX,
    OWN_CRONTAB,
    SYSTEM_UNITS,
    USER_UNITS,
    Origin,
    spool_path,
    user_units,
)
from edgecron.formats.crontab_identity import comment_out
from edgecron.formats.crontab_lines import MOVED_PREFIX

_SYSTEMCTL_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where another program has a schedule: what `MachineJob` says of it, below a root folder."""

    root: str
    origin: Origin
    source: str
    line: int | None
    raw: str | None

    @property
    def words(self) -> str:
        """Return the source, with the number of its line if it is one of a crontab."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


class Source(Protocol):
    """A schedule at the program that has it."""

    def is_active(self) -> bool:
        """Return whether the program runs it. Raises EdgecronError if it is gone."""

    def disable(self) -> None:
        """Let the program no longer run it."""

    def restore(self) -> None:
        """Let the program run it again."""


def open_source(place: Place) -> Source:
    """Return the source at a place. Raises NotSupported if it can't be changed."""
    match place.origin:
        case Origin.CRON | Origin.ANACRON:
            return CrontabLine(place)
        case Origin.FOLDER:
            return Script(place)
        case Origin.TIMER | Origin.USER_TIMER:
            return Timer(place)
    raise NotSupported(f"{place.source}: edgecron does not move jobs of {place.origin}")


class CrontabLine:
    """A line of a crontab or an anacrontab, which becomes a comment."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._raw = (place.raw or "").encode()
        root, is_here = Path(place.root), is_this_system(Path(place.root))
        # cron may miss that another program has changed a spooled file.
        self._user: str | None = None
        self._path: Path | None = root / place.source.lstrip("/")
        if place.source.startswith(OWN_CRONTAB):
            user = place.source.removeprefix(OWN_CRONTAB)
            self._user = user if is_here else None
            # The spool is closed to users: crontab reads it for them.
            self._path = None if is_here and not is_root() else spool_path(root, user)

    def is_active(self) -> bool:
        return self._find(self._read())[1]

    def disable(self) -> None:
        content = self._read()
        number, is_active = self._find(content)
        if is_active:
            self._write(comment_out(content, [number]), content)

    def restore(self) -> None:
        content = self._read()
        number, is_active = self._find(content)
        if not is_active:
            lines = content.split(b"\n")
            lines[number - 1] = lines[number - 1].removeprefix(MOVED_PREFIX.encode())
            self._write(b"\n".join(lines), content)

    def _find(self, content: bytes) -> tuple[int, bool]:
        """Find the line, also if lines were added before it, and whether it is active.

        Raises Conflict if it was removed or changed meanwhile.
        """
        lines = [line.removesuffix(b"\r") for line in content.split(b"\n")]
        moved = MOVED_PREFIX.encode() + self._raw
        number = self._place.line or 0
        if 0 < number <= len(lines) and lines[number - 1] in (self._raw, moved):
            return number, lines[number - 1] == self._raw
        for wanted in (moved, self._raw):
            if wanted in lines:
                return lines.index(wanted) + 1, wanted == self._raw
        raise Conflict(
            f"{self._place.source} no longer has the line {self._raw[:80].decode()!a}",
            hint="see what is there: edgecron scan",
        )

    def _read(self) -> bytes:
        if self._path is None:
            content = ask_program("crontab", "-l") if self._user == user_name() else None
            if content is None:
                raise NotFound(f"{self._place.source} does not exist")
            return content
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"{self._path} does not exist any more") from None
        except OSError as error:
            raise _refused(self._path, error) from error

    def _write(self, content: bytes, before: bytes) -> None:
        if self._read() != before:
            raise Conflict(f"{self._place.source} has just changed", hint="repeat the command")
        if self._user is not None:
            whose = ("-u", self._user) if is_root() else ()
            if ask_program("crontab", *whose, "-", given=content) is not None:
                return
        if self._path is None:
            raise EdgecronError(f"crontab did not take the changed {self._place.source}")
        try:
            owner = self._path.stat().st_uid
            # cron ignores file names with a dot, so it never runs the temporary file.
            write_whole(Path(os.path.realpath(self._path)), [content], owner=owner)
        except OSError as error:
            raise _refused(self._path, error) from error


class Script:
    """A script in a folder of run-parts, which gets a name that run-parts skips."""

    def __init__(self, place: Place) -> None:
        self._path = Path(place.root) / place.source.lstrip("/")
        self._moved = self._path.with_name(self._path.name + MOVED_SUFFIX)

    def is_active(self) -> bool:
        if self._path.exists():
            return True
        if self._moved.exists():
            return False
        raise NotFound(f"{self._path} does not exist any more")

    def disable(self) -> None:
        if self.is_active():
            self._rename(self._path, self._moved)

    def restore(self) -> None:
        if not self.is_active():
            self._rename(self._moved, self._path)

    def _rename(self, old: Path, new: Path) -> None:
        if os.path.lexists(new):
            raise Conflict(f"{new} exists already", hint=f"remove one of them: ls -l {old} {new}")
        try:
            os.rename(old, new)
        except OSError as error:
            raise _refused(old, error) from error


class Timer:
    """A timer of systemd, which is disabled and stopped."""

    def __init__(self, place: Place) -> None:
        self._name = place.source
        self._root = Path(place.root)
        self._is_user = place.origin is Origin.USER_TIMER
        if shutil.which("systemctl") is None:
            raise NotSupported(f"{self._name} can't be moved: systemctl is not installed")
        if is_this_system(self._root) and not Path("/run/systemd/system").exists():
            raise NotSupported(f"{self._name} can't be moved: systemd does not run here")

    def is_active(self) -> bool:
        """Return whether systemd starts the timer at boot, or has started it now."""
        if is_this_system(self._root) and self._ask("is-active", "--quiet", self._name):
            return True
        folders = USER_UNITS if self._is_user else SYSTEM_UNITS
        places = [self._root / folder for folder in folders]
        if self._is_user and is_this_system(self._root):
            places.append(user_units())
        return any(
            os.path.lexists(link / self._name)
            for folder in places
            for kind in ("wants", "requires")
            for link in folder.glob(f"*.{kind}")
        )

    def disable(self) -> None:
        self._change("disable")
        if self.is_active():
            raise EdgecronError(
                f"systemctl disable {self._name} left the timer on",
                hint=f"see why: systemctl status {self._name}",
            )

    def restore(self) -> None:
        # Of a persistent timer, systemd would catch up times that edgecron has run.
        stamp = self._root / "var/lib/systemd/timers" / f"stamp-{self._name}"
        if not self._is_user and stamp.exists():
            try:
                os.utime(stamp)
            except OSError as error:
                raise _refused(stamp, error) from error
        if not self.is_active():
            self._change("enable")

    def _change(self, verb: str) -> None:
        now = ("--now",) if is_this_system(self._root) else (f"--root={self._root}",)
        if not self._ask(verb, *now, self._name):
            raise EdgecronError(
                f"systemctl {verb} {self._name} failed",
                hint=f"see why: systemctl {verb} {self._name}",
            )

    def _ask(self, *words: str) -> bool:
        scope = ("--user",) if self._is_user else ()
        if self._is_user and not is_this_system(self._root):
            scope = ("--global",)
        return ask_program("systemctl", *scope, *words, bound_s=_SYSTEMCTL_S) is not None


def _refused(path: Path, error: OSError) -> EdgecronError:
    return EdgecronError(f"{path} can't be changed: {os_words(error, is_named=True)}")
