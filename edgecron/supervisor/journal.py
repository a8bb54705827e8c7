"""The journal of a supervisor: tokens before they start, starts, exits. Append-only, checksummed.

A line is eight hexadecimal digits of CRC-32, a space and a JSON array. The first names the format,
the boot and the supervisor:

    ["edgecron-journal", 2, boot_id, key]
    ["token", [token, ...]]                         about to be started, one write for a batch
    ["start", token, pid, start_time, started_ms]   start_time: what the kernel says, or null
    ["exit", {record}]                              an ExitRecord, short output included
    ["revoked", [token, ...]]                       on record before, and will never start

Version 1 knew of no `revoked`. A reader takes what it knows, and says of the rest
that it is another version's: whoever adds a kind of entry raises the version.

Nothing is synced to the disk: a record outlives the process once the kernel has it, and a power
cut means another boot, after which whatever has no exit on record is `interrupted` anyway.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.files import open_private
from edgecron.base.values import dataclass, field
from edgecron.supervisor.protocol import to_json
from edgecron.supervisor.records import TOKEN, ExitRecord
from edgecron.supervisor.state_files import journal_path

FORMAT = "edgecron-journal"
FORMAT_VERSION = 2
_READABLE = (1, 2)
ROTATE_BYTES = 1024 * 1024
TRUNCATE_BYTES = 16 * 1024
_DAMAGED = "the journal was damaged by somebody else"


class Journal:
    """Writes one supervisor's journal. Starts and exits that find no space wait in memory."""

    def __init__(self, state_dir: Path, key: str, *, boot_id: str) -> None:
        self._path = journal_path(state_dir, key)
        self._header = encode_line([FORMAT, FORMAT_VERSION, boot_id, key])
        self._backlog: list[bytes] = []
        self._size = 0
        self._is_torn = False  # a part of a line follows what counts, and could not be cut off
        self._rotate_at = ROTATE_BYTES
        self._fd = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        self._append(self._header)

    @property
    def has_backlog(self) -> bool:
        """Whether something waits to be written, or to be cut off."""
        return self._is_torn or bool(self._backlog)

    def close(self) -> None:
        os.close(self._fd)

    def write_tokens(self, tokens: Sequence[str]) -> None:
        """Put tokens on record before they start. Raises OSError: then none of them is there."""
        self.write_backlog()
        self._append(encode_line(["token", list(tokens)]))

    def add_start(self, token: str, *, pid: int, start_time: int | None, started_ms: int) -> None:
        """Keep a start for the next write."""
        self._backlog.append(encode_line(["start", token, pid, start_time, started_ms]))

    def add_exit(self, record: Mapping[str, Any]) -> None:
        """Keep the JSON of an ExitRecord for the next write."""
        self._backlog.append(encode_line(["exit", record]))

    def add_revoked(self, tokens: Sequence[str]) -> None:
        """Keep for the next write that tokens which are on record will never start."""
        self._backlog.append(encode_line(["revoked", list(tokens)]))

    def write_backlog(self) -> None:
        """Write what waits, all at once. Raises OSError where there is no space: it waits on."""
        if self._is_torn:
            self._cut_back()
        if self._backlog:
            self._append(b"".join(self._backlog))
            self._backlog.clear()

    def find_exits(self, tokens: Collection[str]) -> list[dict[str, Any]]:
        """The JSON of the ExitRecords of these tokens, those that wait included.

        Raises OSError where one of them can't be read.
        """
        if not tokens:
            return []
        lines = [*self._read_content().splitlines(), *(line[:-1] for line in self._backlog)]
        entries = [decode_line(line) for line in lines]
        exits = [entry[1] for entry in entries if entry and entry[0] == "exit"]
        found = [body for body in exits if body["token"] in tokens]
        if {body["token"] for body in found} != set(tokens):
            raise OSError(errno.EIO, _DAMAGED)
        return found

    def shrink(self, needed: Collection[str]) -> None:
        """Drop what nobody needs any more, where that is worth a write.

        `needed` are the tokens that are live, or whose end was not acknowledged.
        Raises OSError where it can't be written: then the journal is as before.
        """
        if self._backlog:
            return
        if not needed:
            if self._size >= TRUNCATE_BYTES:
                os.ftruncate(self._fd, len(self._header))
                self._size = len(self._header)
                self._rotate_at = ROTATE_BYTES
        elif self._size >= self._rotate_at:
            self._rewrite(needed)

    def _rewrite(self, needed: Collection[str]) -> None:
        fresh_path = self._path.with_suffix(".journal.new")
        fresh_path.unlink(missing_ok=True)
        fresh_fd = open_private(fresh_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        try:
            content = self._header + b"".join(_needed_lines(self._read_content(), needed))
            if os.write(fresh_fd, content) != len(content):
                raise OSError("no space for the shorter journal")
            os.rename(fresh_path, self._path)
        except OSError:
            os.close(fresh_fd)
            fresh_path.unlink(missing_ok=True)
            self._rotate_at = self._size + ROTATE_BYTES
            raise
        os.close(self._fd)
        self._fd = fresh_fd
        self._is_torn = False
        self._size = len(content)
        self._rotate_at = max(ROTATE_BYTES, 2 * self._size)

    def _read_content(self) -> bytes:
        """All that was written, by the descriptor that is open: its name may be gone, and a
        process that has no descriptor left can read it too."""
        content = bytearray()
        while part := os.pread(self._fd, self._size - len(content), len(content)):
            content += part
        return bytes(content)

    def _append(self, line: bytes) -> None:
        written = os.write(self._fd, line)
        if written != len(line):
            self._is_torn = True
            self._cut_back()
            raise OSError(28, os.strerror(28))
        self._size += written

    def _cut_back(self) -> None:
        # A torn line would make everything after it unreadable. A disk that took only a part of
        # it may refuse this too, for a while: then nothing is written until it lets us.
        os.ftruncate(self._fd, self._size)
        self._is_torn = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a journal knows of a token: about to start, then `pid`, then `exit`."""

    pid: int | None = None
    start_time: int | None = None
    exit: ExitRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """A journal as it was found. Not intact: missing, damaged from some place on, or foreign.

    `is_foreign`: another version of edgecron has written it, and can read more of it.
    """

    is_intact: bool
    is_foreign: bool = False
    boot_id: str | None = None
    traces: dict[str, Trace] = field(default_factory=dict)


def read_journal(state_dir: Path, key: str) -> JournalState:
    """The journal of a supervisor, alive or dead; what lies before a damage is used."""
    try:
        journal_fd = open_private(journal_path(state_dir, key), os.O_RDONLY)
    except FileNotFoundError:
        return JournalState(is_intact=False)
    with open(journal_fd, "rb") as journal:
        lines = journal.read().split(b"\n")
    entries = [decode_line(line) for line in lines[:-1]]
    header = entries[0] if entries else None
    if not header or header[:1] != [FORMAT] or header[1:2] not in [[each] for each in _READABLE]:
        return JournalState(is_intact=False, is_foreign=bool(header))
    if header[3:4] != [key]:
        return JournalState(is_intact=False)
    # What follows the last newline is a line that was torn.
    is_intact = lines[-1] == b""
    is_foreign = False
    traces: dict[str, Trace] = {}
    for entry in entries[1:]:
        if entry is None:
            is_intact = False
            break
        try:
            _note(entry, traces)
        except (ValueError, TypeError, KeyError, IndexError):
            is_intact, is_foreign = False, True  # It is whole, and says what we do not know.
            break
    return JournalState(
        is_intact=is_intact,
        is_foreign=is_foreign,
        boot_id=header[2],
        traces=traces,
    )


def encode_line(entry: list[Any]) -> bytes:
    text = to_json(entry).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode_line(line: bytes) -> list[Any] | None:
    """The entry of a line without its newline; None where it is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    entry = json.loads(text)
    return entry if isinstance(entry, list) else None


def _note(entry: list[Any], traces: dict[str, Trace]) -> None:
    kind = entry[0]
    if kind == "token":
        for token in entry[1]:
            traces.setdefault(_checked(token), Trace())
    elif kind == "start":
        traces[_checked(entry[1])] = Trace(pid=entry[2], start_time=entry[3])
    elif kind == "exit":
        record = ExitRecord.from_json(entry[1])
        before = traces.get(_checked(record.token), Trace())
        traces[record.token] = Trace(pid=before.pid, start_time=before.start_time, exit=record)
    elif kind == "revoked":
        for token in entry[1]:
            traces.pop(token, None)
    else:
        raise ValueError(f"journal entry {kind!r} is not known")


def _checked(token: str) -> str:
    """A token, which names files too. Raises ValueError or TypeError for what is none."""
    if TOKEN.fullmatch(token) is None:
        raise ValueError(f"token {token!r} is not 1 to 64 of A-Z a-z 0-9 _ -")
    return token


def _needed_lines(content: bytes, needed: Collection[str]) -> list[bytes]:
    lines = []
    for line in content.splitlines(keepends=True)[1:]:
        entry = decode_line(line[:-1])
        if entry is None:
            raise OSError(errno.EIO, _DAMAGED)
        if entry[0] in ("token", "revoked"):
            if kept := [token for token in entry[1] if token in needed]:
                lines.append(encode_line([entry[0], kept]))
        else:
            token = entry[1]["token"] if entry[0] == "exit" else entry[1]
            if token in needed:
                lines.append(line)
    return lines
