"""What systemd itself says of its times."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime

from edgecron.base.units import to_ms
from tests.support.tools import need_tools


def times_of_systemd(expression: str, count: int) -> list[int] | None:
    """Ask systemd for the times from 2026 on, in milliseconds; None if it refuses the text."""
    need_tools("systemd-analyze")
    said = subprocess.run(
        [
            *("systemd-analyze", "calendar", "--base-time=2026-01-01 00:00:00 UTC"),
            *(f"--iterations={count}", "--", expression),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "TZ": "UTC"},
    )
    if said.returncode:
        return None
    found = []
    for line in said.stdout.splitlines():
        label, _, value = line.strip().partition(": ")
        if label in ("Next elapse", *(f"Iter. #{n}" for n in range(2, count + 1))):
            if value == "never":
                break
            at = datetime.strptime(value, "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
            found.append(to_ms(at))
    return found
