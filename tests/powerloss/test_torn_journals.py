"""What a power cut may leave of a supervisor's files, and what is made of it in the next boot.

The journal is never synced. So it may be whole, or missing, or end anywhere, or have its size but
not its end; an exit that is on record is the truth, and nothing else counts as never started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from edgecron.engine.other_engines import LocalEngines
from edgecron.model.choices import Reason
from edgecron.supervisor.journal import ROTATE_BYTES, Exit, Interrupted, Journal, Verdict
from edgecron.supervisor.protocol import EndCause, ExitRecord
from edgecron.supervisor.state_files import journal_path, lock_path, take_lock
from tests.powerloss.disk import SECTOR_BYTES
from tests.support.verdicts import verdict

KEY = "0123456789abcdef"
BOOT = "boot-1"
NEXT_BOOT = "boot-2"
TOKENS = ("ended", "failed", "started", "written", "never-sent")
RECORDS = {
    "ended": ExitRecord(token="ended", cause=EndCause.EXIT, finished_ms=90, exit_code=0),
    "failed": ExitRecord(token="failed", cause=EndCause.EXIT, finished_ms=95, exit_code=3),
}
REBOOT = Interrupted(reason=Reason.REBOOT)  # It names no process: that id may be another's now.
LOST = Interrupted(reason=Reason.LOST)


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """A journal of four runs: two ended, one was started, one was about to be."""
    journal = Journal(tmp_path, KEY, boot_id=BOOT)
    journal.write_tokens(["ended", "failed", "started"])
    for pid, token in enumerate(("ended", "failed", "started"), start=os.getpid()):
        journal.add_start(token, pid=pid, start_time=34, started_ms=56)
    journal.write_backlog()
    journal.add_exit(RECORDS["ended"].to_json())
    journal.write_backlog()
    journal.write_tokens(["written"])
    journal.add_exit(RECORDS["failed"].to_json())
    journal.write_backlog()
    journal.close()  # A supervisor keeps it until it dies.
    return journal_path(tmp_path, KEY).read_bytes()


def judge_all(state_dir: Path) -> dict[str, Verdict]:
    return {token: verdict(state_dir, KEY, token, boot_id=NEXT_BOOT) for token in TOKENS}


def expected(content: bytes, whole: bytes) -> dict[str, Verdict]:
    """From the lines that are whole, up to the first that is not."""
    size = next(
        (at for at, (a, b) in enumerate(zip(content, whole, strict=False)) if a != b), len(content)
    )
    intact = whole[: whole.rfind(b"\n", 0, size) + 1]
    if not intact:
        return dict.fromkeys(TOKENS, LOST)
    ends = [line for line in intact.splitlines() if b'["exit"' in line]
    return {
        token: Exit(record=RECORDS[token])
        if any(b'"%s"' % token.encode() in line for line in ends)
        else REBOOT
        for token in TOKENS
    }


def left_of(whole: bytes) -> Iterator[bytes]:
    """Every state that an append-only file of this content may be found in."""
    for size in range(len(whole)):
        yield whole[:size]
        yield whole[:size] + bytes(len(whole) - size)
    random = Random(16)
    for _ in range(100):
        content = bytearray(whole)
        for start in range(0, len(whole), SECTOR_BYTES // 4):  # Smaller, or there are just three.
            end = min(start + SECTOR_BYTES // 4, len(whole))
            if random.random() < 0.5:
                content[start:end] = random.choice(
                    (bytes(end - start), random.randbytes(end - start))
                )
        yield bytes(content)


@pytest.mark.failure(16)
def test_whatever_is_left_of_a_journal_a_run_is_not_started_again(
    tmp_path: Path, whole: bytes
) -> None:
    path = journal_path(tmp_path, KEY)
    believed = set()

    for content in left_of(whole):
        path.write_bytes(content)
        verdicts = judge_all(tmp_path)

        assert verdicts == expected(content, whole), content
        believed.add(tuple(token for token in TOKENS if isinstance(verdicts[token], Exit)))

    assert believed == {(), ("ended",), ("ended", "failed")}


@pytest.mark.failure(16)
def test_without_its_journal_or_its_folder_a_run_is_lost_and_not_started_again(
    tmp_path: Path, whole: bytes
) -> None:
    journal_path(tmp_path, KEY).unlink()

    assert judge_all(tmp_path) == dict.fromkeys(TOKENS, LOST)
    assert judge_all(tmp_path / "missing") == dict.fromkeys(TOKENS, LOST)


@pytest.mark.failure(16)
@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_journal_whose_shorter_copy_never_reached_the_disk_starts_nothing_again(
    tmp_path: Path, is_renamed: bool
) -> None:
    journal = Journal(tmp_path, KEY, boot_id=BOOT)
    journal.write_tokens(["started", "ended"])
    journal.add_start("started", pid=os.getpid(), start_time=34, started_ms=56)
    padded = ExitRecord(
        token="ended", cause=EndCause.EXIT, finished_ms=90, error_msg="x" * ROTATE_BYTES
    )
    journal.add_exit(padded.to_json())
    journal.write_backlog()
    longer = journal_path(tmp_path, KEY).read_bytes()
    journal.shrink({"started"})
    journal.close()
    path = journal_path(tmp_path, KEY)
    assert path.stat().st_size < len(longer)

    expected_verdicts: dict[str, Verdict]
    if is_renamed:  # The name reached the disk, what was written before it did not.
        path.write_bytes(b"")
        expected_verdicts = {"started": LOST, "ended": LOST}
    else:
        path.write_bytes(longer)
        path.with_suffix(".journal.new").write_bytes(b"")
        expected_verdicts = {"started": REBOOT, "ended": Exit(record=padded)}

    verdicts = judge_all(tmp_path)
    assert {token: verdicts[token] for token in expected_verdicts} == expected_verdicts


@pytest.mark.failure(16)
def test_what_a_cut_left_of_a_supervisor_is_cleared_away(tmp_path: Path, whole: bytes) -> None:
    os.close(take_lock(lock_path(tmp_path, KEY)))
    journal_path(tmp_path, KEY).write_bytes(whole[:100] + bytes(len(whole) - 100))
    journal_path(tmp_path, KEY).with_suffix(".journal.new").touch()
    others = LocalEngines(tmp_path, boot_id=NEXT_BOOT)

    alive = others.supervisor_is_alive(KEY)
    dead = others.dead_supervisors()
    others.forget_supervisor(KEY)

    assert (alive, dead) == (False, [KEY])
    assert os.listdir(tmp_path) == []
