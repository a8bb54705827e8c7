"""Read the files of a system below a root folder, and what its journal recorded."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from edgecron.base.errors import EdgecronError, os_words
from edgecron.base.values import dataclass, field

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Failures of a unit that the journal has recorded."""

    unit: str
    count: int
    last_at_us: int


JOURNAL_DAYS = 7
_UNIT_FAILED = "d9b373ed55a64feb8242e02dbe79a49c"  # SD_MESSAGE_UNIT_FAILURE_RESULT


def find_failures() -> dict[str, Failure]:
    """Ask the journal which services failed in the last week, bounded; empty if it can't say."""
    said = ask_program(
        *("journalctl", "--quiet", "--no-pager", "--output=json"),
        *(f"--since=-{JOURNAL_DAYS}d", "--output-fields=UNIT,USER_UNIT"),
        f"MESSAGE_ID={_UNIT_FAILED}",
    )
    return read_failures(said or b"")


def read_failures(content: bytes) -> dict[str, Failure]:
    """Count the failures of each unit in records of the journal, one JSON object a line."""
    found: dict[str, Failure] = {}
    for line in content.splitlines():
        try:
            record = json.loads(line)
            unit = record.get("UNIT") or record.get("USER_UNIT")
            at_us = int(record["__REALTIME_TIMESTAMP"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EdgecronError(f"the journal's answer can't be read: {error}") from error
        if isinstance(unit, str):
            count = found[unit].count + 1 if unit in found else 1
            found[unit] = Failure(unit=unit, count=count, last_at_us=at_us)
    return found
