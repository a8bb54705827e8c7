"""The verdict on one token, from the journal in a state folder."""

from __future__ import annotations

from pathlib import Path

from edgecron.supervisor.journal import Verdict, judge, read_journal


def verdict(state_dir: Path, supervisor_id: str, token: str, *, boot_id: str) -> Verdict:
    return judge(read_journal(state_dir, supervisor_id), token, boot_id=boot_id)
