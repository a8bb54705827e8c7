"""The journals of supervisors after a power cut: real files, which nobody ever synced."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from random import Random

from edgecron.model import Reason
from edgecron.supervisor.files import journal_path
from edgecron.supervisor.journal import Journal, read_journal
from edgecron.supervisor.records import EndCause, ExitRecord
from edgecron.supervisor.verdicts import Exit, Interrupted, judge
from powerloss.disk import SECTOR_BYTES
from simulation.world import Body, SimSupervisor


class JournalFate(StrEnum):
    WHOLE = "whole"  # the system had written it out by itself
    MISSING = "missing"  # its name never reached the disk
    SHORT = "short"  # it ends anywhere
    ZEROED = "zeroed"  # its size reached the disk, its end did not
    HOLED = "holed"  # some sectors did not reach the disk


def key_of(supervisor_id: str) -> str:
    """A name that files may have: a virtual supervisor's is for people."""
    return supervisor_id.encode().hex()


def leave_journals(
    state_dir: Path,
    journals: Mapping[str, tuple[str, list[Body]]],
    *,
    fate: JournalFate,
    random: Random,
) -> None:
    """Write what supervisors had on record of their bodies, and let the power be cut."""
    for supervisor_id, (boot_id, bodies) in journals.items():
        key = key_of(supervisor_id)
        write_journal(state_dir, key, boot_id=boot_id, bodies=bodies)
        path = journal_path(state_dir, key)
        if fate is JournalFate.MISSING:
            path.unlink()
        else:
            path.write_bytes(damage(path.read_bytes(), fate, random))


def remember(
    state_dir: Path, supervisor_id: str, bodies: list[Body], *, boot_id: str
) -> SimSupervisor | None:
    """A dead supervisor with what the verdicts on its files say; None where they say nothing."""
    state = read_journal(state_dir, key_of(supervisor_id))
    verdicts = {body.token: judge(state, body.token, boot_id=boot_id) for body in bodies}
    if state.boot_id is None:
        lost = Interrupted(reason=Reason.LOST)
        assert all(verdict == lost for verdict in verdicts.values()), verdicts
        return None
    supervisor = SimSupervisor(supervisor_id, state.boot_id, engine_key=None, is_alive=False)
    for body in bodies:
        verdict = verdicts[body.token]
        if verdict == Exit(record=record_of(body)):
            supervisor.journal[body.token] = replace(body)
        else:
            assert verdict == Interrupted(reason=Reason.REBOOT), verdict
    return supervisor


def write_journal(state_dir: Path, key: str, *, boot_id: str, bodies: list[Body]) -> None:
    journal = Journal(state_dir, key, boot_id=boot_id)
    moves = [(body.started_ms, 0, body) for body in bodies]
    moves += [(body.ends_ms, 1, body) for body in bodies if not body.is_cut_short]
    for _, is_end, body in sorted(moves, key=lambda move: move[:2]):
        if is_end:
            journal.add_exit(record_of(body).to_json())
        else:
            journal.write_tokens([body.token])
            journal.add_start(body.token, pid=2, start_time=3, started_ms=body.started_ms)
        journal.write_backlog()
    os.close(journal._fd)  # A supervisor keeps it until it dies.


def record_of(body: Body) -> ExitRecord:
    return ExitRecord(
        token=body.token,
        cause=EndCause.EXIT,
        exit_code=body.exit_code,
        started_ms=body.started_ms,
        finished_ms=body.ends_ms,
        duration_ms=body.ends_ms - body.started_ms,
    )


def damage(content: bytes, fate: JournalFate, random: Random) -> bytes:
    """What may be left of a journal whose name reached the disk."""
    size = random.randrange(len(content) + 1)
    match fate:
        case JournalFate.SHORT:
            return content[:size]
        case JournalFate.ZEROED:
            return content[:size] + bytes(len(content) - size)
        case JournalFate.HOLED:
            left = bytearray(content)
            for start in range(0, len(content), SECTOR_BYTES):
                if random.random() < 0.5:
                    part = left[start : start + SECTOR_BYTES]
                    left[start : start + SECTOR_BYTES] = bytes(len(part))
            return bytes(left)
        case _:
            return content
