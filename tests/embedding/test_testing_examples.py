"""The examples of edgecron.embedding.testing's docstrings: they run, and what they say is so."""

from __future__ import annotations

import doctest
import inspect
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import edgecron.embedding.testing
import edgecron.embedding.travel_engine
from edgecron import RunContext, Scheduler, every
from edgecron.embedding.testing import context, travel

SHOWN = {"testing": edgecron.embedding.testing, "travel": travel, "context": context}


def example_of(shown: object) -> str:
    """The lines of a docstring that are set in by four."""
    lines = inspect.cleandoc(shown.__doc__ or "").splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line[:4] in ("    ", "")))


def program(folder: Path) -> dict[str, Any]:
    """What the examples take for granted."""
    scheduler = Scheduler(folder / "app.db")

    @scheduler.job("0 2 * * *")
    def backup() -> None: ...

    @scheduler.job(every("5m"))
    def poll(host: str = "plc1") -> int:
        return len(host)

    @scheduler.job("@daily")
    def copy(run: RunContext, folder: str = "/home") -> int:
        run.progress(1, "copied 12 of 12")
        run.state["cursor"] = run.state["cursor"] + 12
        return 12

    names = {"backup": backup, "poll": poll, "copy": copy, "scheduler": scheduler}
    return {**names, "travel": travel, "context": context, "datetime": datetime, "UTC": UTC}


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_docstring_shows_is_so(name: str, tmp_path: Path) -> None:
    text = example_of(SHOWN[name])
    names = program(tmp_path)
    assert "assert " in text

    exec(compile(text, f"{name}'s docstring", "exec", dont_inherit=True), names)

    # Those that are written as tests are called as such.
    for one in [names[key] for key in list(names) if key.startswith("test_")]:
        one()


def test_what_the_clock_shows_is_so() -> None:
    found = doctest.testmod(edgecron.embedding.travel_engine)

    assert (found.failed, found.attempted > 0) == (0, True)
