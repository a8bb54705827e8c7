"""The jobs of other programs, and the files below a root folder that hold them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from edgecron.base.errors import os_words
from edgecron.base.values import dataclass, field
from edgecron.formats.crontab_lines import LOCAL
from edgecron.model.schedule import ScheduleSpec

MOST_BYTES = 1024 * 1024  # of a crontab or unit; a larger file is named and not read
_ASK_S = 10.0


def is_this_system(root: Path) -> bool:
    """Return whether a root folder is that of the running system."""
    return os.path.realpath(root) == "/"


def ask_program(*argv: str, given: bytes | None = None, bound_s: float = _ASK_S) -> bytes | None:
    """Run a program of the system, bounded; None if it is missing or fails."""
    try:
        said = subprocess.run(argv, input=given, capture_output=True, timeout=bound_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout if said.returncode == 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFiles:
    """The files of a system. `unread` collects what could not be read, as sentences."""

    root: Path
    unread: list[str] = field(default_factory=list)

    def shown(self, path: Path) -> str:
        """Return a path as the system below the root knows it."""
        try:
            return f"/{path.relative_to(self.root)}"
        except ValueError:
            return str(path)

    def list_below(self, folder: str) -> list[Path]:
        """List a folder below the root; nothing if it is not there."""
        return self.list_folder(self.root / folder)

    def list_folder(self, folder: Path) -> list[Path]:
        """List a folder; nothing if it is not there or can't be read, which is reported."""
        try:
            return sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.unread.append(f"{self.shown(folder)}: {os_words(error, is_named=True)}")
            return []

    def read(self, path: Path) -> bytes | None:
        """Read a file; None if it is not there, or can't be read, which is reported."""
        try:
            if not path.is_file():
                return None
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            self.unread.append(f"{self.shown(path)}: {os_words(error, is_named=True)}")
            return None
        if len(content) > MOST_BYTES:
            self.unread.append(f"{self.shown(path)}: it is larger than 1 MiB")
            return None
        return content

    def read_text(self, path: Path) -> str | None:
        """Read a unit file; None if it is not there or can't be read."""
        content = self.read(path)
        return None if content is None else content.decode("utf-8", "replace")


# A script whose name has a dot is not run by run-parts.
MOVED_SUFFIX = ".moved-to-edgecron"
OWN_CRONTAB = "crontab of "  # begins the source of a user's own lines; the name follows


class Origin(StrEnum):
    """The program that runs a job."""

    CRON = "cron"
    ANACRON = "anacron"
    FOLDER = "run-parts"
    TIMER = "systemd"
    USER_TIMER = "systemd --user"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineJob:
    """A schedule of another program.

    `source` is a file, the crontab of a user, or a unit. `line` and `raw` are those of a crontab.
    `spec` is the schedule that edgecron would have; None with the `reason` why it can't have it.
    Of a timer, `raw` has the links that enable it, by JSON.
    `mail_rules` has the addresses of MAILTO by the rule for notices that `spec` names.
    `is_caught_up`: whether its program runs it later if the machine slept; None if this does not
    apply. `notes` are facts for people. `become`: the words before the command of the user who can
    adopt it; None if no other user can.
    """

    name: str
    origin: Origin
    source: str
    command: str
    triggers: tuple[str, ...] = ()
    timezone: str = LOCAL
    line: int | None = None
    raw: str | None = None
    spec: ScheduleSpec | None = None
    reason: str | None = None
    become: str | None = None
    notes: tuple[str, ...] = ()
    mail_rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_enabled: bool = True
    is_caught_up: bool | None = False
    is_moved: bool = False  # edgecron has it now


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """All jobs that were found, those that edgecron has now, and what could not be read."""

    jobs: tuple[MachineJob, ...]
    moved: tuple[MachineJob, ...]
    unread: tuple[str, ...]
