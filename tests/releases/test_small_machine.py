"""A short form of the trial on a small machine: memory that runs out, a disk that is full.

As root it is a real limit of memory and a real disk; as anybody else the rest of it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.releasing import PACKAGING, ROOT


@pytest.mark.failure(21)
@pytest.mark.failure(51)
def test_a_small_machine_is_enough(capfd: pytest.CaptureFixture[str]) -> None:
    trial = PACKAGING / "trials" / "small_machine.py"
    program = [sys.executable, "-m", "edgecron"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "EDGECRON_CONFIG": "none"}

    ended = subprocess.run(
        [sys.executable, trial, "--minutes", "0.1", "--pace", "12", "--", *program],
        env=environment,
        timeout=300,
        check=False,
    )

    said = capfd.readouterr()
    assert ended.returncode == 0, said.out + said.err
    assert "| runs, all successful |" in said.out
