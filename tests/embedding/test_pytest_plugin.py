"""The fixtures for pytest: what a program's own tests get, and what other projects pay."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "tests" / "recipes" / "tested"
PLUGIN = ("-p", "edgecron.embedding.pytest_plugin")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_pytest(tmp_path: Path) -> Run:
    """Run pytest in a folder of its own, without the settings of this repository."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
            cwd=tmp_path,
            env={
                **{name: text for name, text in os.environ.items() if "PYTEST" not in name},
                "PYTHONPATH": str(ROOT),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_tests_that_the_help_shows_pass(run_pytest: Run, tmp_path: Path) -> None:
    for file, name in (("app", "app"), ("fixtures", "conftest"), ("cases", "test_app")):
        (tmp_path / f"{name}.py").write_text((RECIPE / f"{file}.py").read_text())

    done = run_pytest(*PLUGIN)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_a_project_without_an_own_scheduler_gets_a_new_one_for_each_test(
    run_pytest: Run, tmp_path: Path
) -> None:
    (tmp_path / "test_new.py").write_text(
        """
import pytest
from edgecron import RunContext

@pytest.mark.parametrize("number", [1, 2])
def test_is_new(scheduler, tmp_path, number):
    assert not scheduler.is_running
    assert scheduler.path.parent == tmp_path

    @scheduler.job("@daily")
    def poll() -> int:
        return number

    scheduler.start()  # The fixture stops it.
    assert poll.run_now().get(20) == number

def test_travels(scheduler, travel):
    @scheduler.job("@hourly")
    def poll(run: RunContext) -> int:
        return run.plan_at.hour

    travel.advance(hours=2)
    assert [run.result for run in travel.runs(poll)] == [9, 10]
    assert not scheduler.path.name == "edgecron.db" or travel.now.hour == 10
"""
    )

    done = run_pytest(*PLUGIN)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_a_project_that_uses_no_fixture_loads_nothing_of_edgecron(
    run_pytest: Run, tmp_path: Path
) -> None:
    (tmp_path / "test_other.py").write_text(
        """
import sys

def test_loaded():
    print(sorted(name for name in sys.modules if name.startswith("edgecron")))
"""
    )

    done = run_pytest(*PLUGIN, "-s")

    assert "['edgecron', 'edgecron.embedding', 'edgecron.embedding.pytest_plugin']" in done.stdout


def test_the_fixtures_are_listed_with_what_they_are(run_pytest: Run) -> None:
    listed = run_pytest(*PLUGIN, "--fixtures").stdout

    assert re.search(r"^scheduler -- .*\n    A Scheduler of its own for each test", listed, re.M)
    assert re.search(r"^travel -- .*\n    The time of `scheduler`", listed, re.M)
