"""How often a second the dashboard can draw."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RAISED = """
import os
from edgecron.cli.tui import raise_frame_rate
rate = raise_frame_rate()
from textual.screen import UPDATE_PERIOD
print(rate, UPDATE_PERIOD, os.environ.get("TEXTUAL_FPS"))
"""


@pytest.mark.parametrize(("own", "rate"), [(None, 250), ("30", 30)])
def test_frames_follow_keys_soon_and_other_programs_are_not_told(
    own: str | None, rate: int
) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "TEXTUAL_FPS"}
    if own is not None:
        environment["TEXTUAL_FPS"] = own

    done = subprocess.run(
        [sys.executable, "-c", RAISED], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [str(rate), str(1 / rate), str(own)]
