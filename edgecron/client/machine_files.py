"""Read the files of a system below a root folder, its units, and what its journal recorded."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from edgecron.base.errors import EdgecronError, os_words
from edgecron.base.values import dataclass, field
from edgecron.formats.systemd_units import Unit, UnitName, read_unit, read_unit_name

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


@dataclass(slots=True, kw_only=True)
class Units:
    """Unit files of one service manager.

    `folders` are in the order of their priority. `enabled` has the names that .wants folders hold.
    """

    files: MachineFiles
    folders: list[Path]
    enabled: set[str] = field(default_factory=set)

    def timers(self) -> Iterator[UnitName]:
        """Yield each timer once, by name; instances of templates only if they are enabled."""
        found: set[str] = set()
        is_linked: set[str] = set()
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
                    is_linked |= {one.name for one in self.files.list_folder(path)}
        self.enabled |= is_linked
        wanted = found | {name for name in is_linked if name.endswith(".timer")}
        for full in sorted(wanted):
            name = read_unit_name(full)
            if not name.is_template:
                yield name

    def load(self, name: UnitName) -> Unit | None:
        """Read a unit with its drop-ins; None if it is missing or masked."""
        names = [name.full] if name.template is None else [name.full, name.template]
        path = next((one for one in self._places(names) if os.path.lexists(one)), None)
        if path is None or os.path.realpath(path) == "/dev/null":
            return None
        text = self.files.read_text(path)
        if not text:
            return None  # An empty file masks a unit.
        drop_ins: dict[str, Path] = {}
        for folder in self._drop_in_folders(names):
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
