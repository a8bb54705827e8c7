"""What systemd itself says of its times."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime

from edgecron.base.units import to_ms
from tests.support.tools import need_tools

START = datetime(2026, 1, 1, tzinfo=UTC)


def times_of_systemd(
    expression: str, count: int, *, zone: str = "UTC", since: datetime = START
) -> list[int] | None:
    """Ask systemd on a machine in a zone for its times; None if it refuses the text.

    They are in milliseconds.
    """
    need_tools("systemd-analyze")
    said = subprocess.run(
        [
            *("systemd-analyze", "calendar", f"--base-time={since:%Y-%m-%d %H:%M:%S} UTC"),
            *(f"--iterations={count}", "--", expression),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "TZ": zone},
    )
    if said.returncode:
        return None
    found = []
    names = ("Next elapse", *(f"Iter. #{n}" for n in range(2, count + 1)))
    for line in said.stdout.splitlines():
        label, _, value = line.strip().partition(": ")
        if label in (names if zone == "UTC" else ("(in UTC)",)):
            if value == "never":
                break
            at = datetime.strptime(value, "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
            found.append(to_ms(at))
    return found
