"""The journal of a supervisor: tokens before they start, starts, and exits.

The file only grows. A line is eight hexadecimal digits of CRC-32, a space and a JSON array. The
first line names the format, the boot and the supervisor:

    ["edgecron-journal", 2, boot_id, key]
    ["token", [token, ...]]                         about to be started, one line for a batch
    ["start", token, pid, start_time, started_ms]   start_time: what the kernel says, or null
    ["exit", {record}]                              an ExitRecord, short output included
    ["revoked", [token, ...]]                       will never start after all

Version 1 had no `revoked`. A reader uses the lines that it knows and reports the others as foreign:
if you add a kind of line, raise the version.

Nothing is synced to the disk: a line outlives the process once the kernel has it. A power cut means
another boot, and then a run without an exit in the journal is `interrupted` anyway.
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
from edgecron.base.paths import list_names
from edgecron.base.values import dataclass, field
from edgecron.model.choices import Reason
from edgecron.supervisor.protocol import TOKEN, ExitRecord, to_json
from edgecron.supervisor.results import forget_results
from edgecron.supervisor.state_files import (
    is_key,
    journal_path,
    lock_is_held,
    lock_path,
    socket_path,
    spool_name,
)

FORMAT = "edgecron-journal"
FORMAT_VERSION = 2
_READABLE = (1, 2)
ROTATE_BYTES = 1024 * 1024
TRUNCATE_BYTES = 16 * 1024
_DAMAGED = "another program damaged the journal"


class Journal:
    """Writes the journal of one supervisor. Starts and exits wait in memory if the disk is full."""

    def __init__(self, state_dir: Path, key: str, *, boot_id: str) -> None:
        self._path = journal_path(state_dir, key)
        self._header = encode_line([FORMAT, FORMAT_VERSION, boot_id, key])
        self._backlog: list[bytes] = []
        self._size = 0
        self._is_torn = False  # it ends with a part of a line that could not be cut off
        self._rotate_at = ROTATE_BYTES
        self._fd = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        self._append(self._header)

    @property
    def has_backlog(self) -> bool:
        """Whether something must still be written or cut off."""
        return self._is_torn or bool(self._backlog)

    def close(self) -> None:
        os.close(self._fd)

    def write_tokens(self, tokens: Sequence[str]) -> None:
        """Write tokens before they start. Raises OSError if none of them was written."""
        self.write_backlog()
        self._append(encode_line(["token", list(tokens)]))

    def add_start(self, token: str, *, pid: int, start_time: int | None, started_ms: int) -> None:
        """Keep a start for the next write."""
        self._backlog.append(encode_line(["start", token, pid, start_time, started_ms]))

    def add_exit(self, record: Mapping[str, Any]) -> None:
        """Keep the JSON of an ExitRecord for the next write."""
        self._backlog.append(encode_line(["exit", record]))

    def add_revoked(self, tokens: Sequence[str]) -> None:
        """Keep for the next write that tokens in the journal will never start."""
        self._backlog.append(encode_line(["revoked", list(tokens)]))

    def write_backlog(self) -> None:
        """Write what waits, in one piece. Raises OSError if there is no space."""
        if self._is_torn:
            self._cut_back()
        if self._backlog:
            self._append(b"".join(self._backlog))
            self._backlog.clear()

    def find_exits(self, tokens: Collection[str]) -> list[dict[str, Any]]:
        """Return the JSON of the ExitRecords of these tokens, written or waiting.

        Raises OSError if one can't be read.
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
        """Drop lines of other tokens than the `needed` ones, if that is worth a write.

        `needed` are the live tokens, and those whose end is not acknowledged. Raises OSError if
        the journal can't be written; it is then as before.
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
        """Read the journal by its open descriptor.

        The name can be gone, and the process can have no descriptor left.
        """
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
        # A torn line would make everything after it unreadable. If the disk refuses this too,
        # nothing is written until it succeeds.
        os.ftruncate(self._fd, self._size)
        self._is_torn = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The progress of a token in a journal: nothing else, then `pid`, then `exit`."""

    pid: int | None = None
    start_time: int | None = None
    exit: ExitRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """The content of a journal. Not intact: it is missing, damaged from some line on, or foreign.

    If `is_foreign`, another version of edgecron wrote it and can read more entries.
    """

    is_intact: bool
    is_foreign: bool = False
    boot_id: str | None = None
    traces: dict[str, Trace] = field(default_factory=dict)


def read_journal(state_dir: Path, key: str) -> JournalState:
    """Read the journal of a supervisor, alive or dead, up to the first damage."""
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
    # A torn line has no newline.
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
            is_intact, is_foreign = False, True  # The line is whole, but unknown.
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
    """Decode a line without its newline; None if it is damaged."""
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
        raise ValueError(f"journal entry {kind!r} is unknown")


def _checked(token: str) -> str:
    """Return a token, which names files too. Raises ValueError or TypeError."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The journal has its end."""

    record: ExitRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverStarted:
    """It was not started, and can be queued again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """It can have run, and its end is unknown.

    `reason` is lost or reboot. `pid` and `start_time`, for `end_left_group`, are of this boot only.
    """

    reason: Reason
    pid: int | None = None
    start_time: int | None = None


Verdict = Exit | NeverStarted | Interrupted


def judge(journal: JournalState, token: str, *, boot_id: str) -> Verdict:
    """Return what became of a run whose engine and supervisor are both dead, by its token.

    ARCHITECTURE.md, "Who recovers what", has the table. `boot_id` is that of now.
    """
    trace = journal.traces.get(token)
    is_same_boot = journal.boot_id == boot_id
    if trace is not None and trace.exit is not None:
        return Exit(record=trace.exit)
    if trace is None and journal.is_intact and is_same_boot:
        return NeverStarted()
    if journal.boot_id is not None and not is_same_boot:
        return Interrupted(reason=Reason.REBOOT)
    known = trace or Trace()
    return Interrupted(
        reason=Reason.LOST,
        pid=known.pid,
        start_time=known.start_time,
    )


def find_dead(state_dir: Path) -> list[str]:
    """Find the keys of dead supervisors whose files are still there."""
    # After a power cut, lock or journal can be missing.
    keys = _keys(state_dir, "lock", "journal")
    return sorted(key for key in keys if not lock_is_held(lock_path(state_dir, key)))


def forget(state_dir: Path, key: str) -> bool:
    """Remove the files of a dead supervisor. Call it when all its runs are on record.

    False, and nothing is removed, if the supervisor still runs, or if its journal is damaged, so
    that the files of other supervisors are unknown. A traceback stays for a person to read.
    """
    if lock_is_held(lock_path(state_dir, key)):
        return False
    journal = journal_path(state_dir, key)
    known = read_journal(state_dir, key)
    unknown = set() if known.is_intact else _unknown_tokens(state_dir, but=key)
    if unknown is None:
        return False
    tokens = known.traces.keys() | unknown
    for token in tokens:
        (state_dir / spool_name(token)).unlink(missing_ok=True)
        forget_results(token, state_dir)
    journal.with_suffix(".journal.new").unlink(missing_ok=True)
    journal.unlink(missing_ok=True)
    socket_path(state_dir, key).unlink(missing_ok=True)
    clear_late_results(state_dir, key)
    # Last: after an interruption here, the lock file leads back to the rest.
    lock_path(state_dir, key).unlink(missing_ok=True)
    return True


def clear_late_results(state_dir: Path, key: str) -> None:
    """Remove results that a background process left after the end of its run.

    `key` is a supervisor without runs. Results of other supervisors' runs stay.
    """
    late = _tokens_of_files(state_dir, "result")
    others = _known_to_others(state_dir, but=key) if late else None
    if others is not None:
        for token in late - others:
            forget_results(token, state_dir)


def _keys(state_dir: Path, *kinds: str) -> set[str]:
    """Find the supervisors that have a file of one of these kinds."""
    names = (name.partition(".") for name in list_names(state_dir))
    found = {
        stem.removeprefix("supervisor-")
        for stem, _, kind in names
        if kind in kinds and stem.startswith("supervisor-")
    }
    return {key for key in found if is_key(key)}


def _unknown_tokens(state_dir: Path, *, but: str) -> set[str] | None:
    """Find the tokens of files that no other journal has, so that they belong to the damaged one.

    None if that is unknown.
    """
    # Files first: a token is in its journal before its run has a file.
    found = _tokens_of_files(state_dir, "*")
    others = _known_to_others(state_dir, but=but)
    return None if others is None else found - others


def _tokens_of_files(state_dir: Path, kind: str) -> set[str]:
    return {path.stem.removeprefix("run-") for path in state_dir.glob(f"run-*.{kind}")}


def _known_to_others(state_dir: Path, *, but: str) -> set[str] | None:
    """Collect the tokens of all journals but one.

    None if a journal can have more than can be read: of a living supervisor, or a later version.
    """
    known: set[str] = set()
    for key in _keys(state_dir, "lock", "journal") - {but}:
        # Before the journal: one that ends meanwhile has then written everything.
        is_alive = lock_is_held(lock_path(state_dir, key))
        other = read_journal(state_dir, key)
        if not other.is_intact and (is_alive or other.is_foreign):
            return None
        known |= other.traces.keys()
    return known
