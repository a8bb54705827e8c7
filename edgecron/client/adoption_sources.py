"""Disable a schedule at the program that has it, keeping the original, and give it back.

Each of these acts is an atomic change of a file, or changes links and calls systemctl. Doing it
twice is harmless, and `is_active` reports what is true now.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
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
    Origin,
)
from edgecron.client.machine_scan import spool_path
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
    """A timer of systemd, which loses the links that enable it and is stopped.

    `systemctl disable` would also disable other units that its Also= names.
    """

    def __init__(self, place: Place) -> None:
        self._name = place.source
        self._root = Path(place.root)
        self._is_user = place.origin is Origin.USER_TIMER
        self._is_here = is_this_system(self._root)
        links = json.loads(place.raw or "{}")
        self._links = {self._root / path.lstrip("/"): str(target) for path, target in links.items()}
        if self._is_here and not Path("/run/systemd/system").exists():
            raise NotSupported(f"{self._name} can't be moved: systemd does not run here")

    def is_active(self) -> bool:
        """Return whether systemd starts the timer at boot, or has started it now."""
        if self._is_here and self._ask("is-active", "--quiet", self._name):
            return True
        if self._present():
            return True
        for link, target in self._links.items():
            # A target is absolute below the root, or relative to its link.
            file = self._root / target.lstrip("/") if target[:1] == "/" else link.parent / target
            if not os.path.lexists(file):
                raise NotFound(f"{file} does not exist any more")
        return False

    def disable(self) -> None:
        for link in self._present():
            try:
                link.unlink(missing_ok=True)
            except OSError as error:
                raise _refused(link, error) from error
        if self._is_here:
            self._change("daemon-reload")
            self._change("stop", self._name)
        if self.is_active():
            raise EdgecronError(
                f"systemctl stop {self._name} left the timer on",
                hint=f"see why: systemctl status {self._name}",
            )

    def restore(self) -> None:
        # Of a persistent timer, systemd would catch up times that edgecron has run.
        stamp = self._stamps() / f"stamp-{self._name}"
        if stamp.exists():
            try:
                os.utime(stamp)
            except OSError as error:
                raise _refused(stamp, error) from error
        for link, target in self._links.items():
            try:
                link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    link.symlink_to(target)
            except OSError as error:
                raise _refused(link, error) from error
        if self._is_here:
            self._change("daemon-reload")
            self._change("start", self._name)

    def _present(self) -> list[Path]:
        """Find the links that enable the timer now, also new ones."""
        folders = dict.fromkeys(link.parent.parent for link in self._links)
        return [
            link
            for folder in folders
            for kind in ("wants", "requires")
            for linked in folder.glob(f"*.{kind}")
            if os.path.lexists(link := linked / self._name)
        ]

    def _stamps(self) -> Path:
        if not self._is_user:
            return self._root / "var/lib/systemd/timers"
        own = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        return Path(own) / "systemd/timers"

    def _change(self, *words: str) -> None:
        if not self._ask(*words):
            called = " ".join(("systemctl", *self._scope(), *words))
            raise EdgecronError(f"{called} failed", hint=f"see why: {called}")

    def _ask(self, *words: str) -> bool:
        return ask_program("systemctl", *self._scope(), *words, bound_s=_SYSTEMCTL_S) is not None

    def _scope(self) -> tuple[str, ...]:
        return ("--user",) if self._is_user else ()


def _refused(path: Path, error: OSError) -> EdgecronError:
    return EdgecronError(f"{path} can't be changed: {os_words(error, is_named=True)}")
