"""How often a second the dashboard can draw, and how soon it obeys Escape."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HASTENED = """
import os
from edgecron.cli.tui import hasten_keys
rate, wait_s = hasten_keys()
from textual.screen import UPDATE_PERIOD
print(rate, UPDATE_PERIOD, wait_s, os.environ.get("TEXTUAL_FPS"), os.environ.get("ESCDELAY"))
"""


@pytest.mark.parametrize(
    ("own", "rate", "wait_s"),
    [({}, 250, 0.02), ({"TEXTUAL_FPS": "30"}, 30, 0.02), ({"ESCDELAY": "200"}, 250, 0.2)],
)
def test_the_dashboard_follows_keys_soon_and_other_programs_are_not_told(
    own: dict[str, str], rate: int, wait_s: float
) -> None:
    known = ("TEXTUAL_FPS", "ESCDELAY")
    environment = {name: text for name, text in os.environ.items() if name not in known} | own

    done = subprocess.run(
        [sys.executable, "-c", HASTENED],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    left = [str(own.get(name)) for name in known]
    assert done.stdout.split() == [str(rate), str(1 / rate), str(wait_s), *left]
