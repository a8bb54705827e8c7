"""Mistakes of a program: each is an error that names the parameter, the value and what to give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgecron import Scheduler
from edgecron.base.errors import InvalidInput
from edgecron.model.choices import Cause

Act = Callable[[Any], object]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_running": 0}, "max_running is 0, expected 1 to"),
        ({"max_running": "3"}, "max_running is '3', expected a whole number or None"),
        ({"max_running": True}, "max_running is True, expected a whole number or None"),
        ({"on_shutdown": "x"}, "on_shutdown is 'x', expected one of leave, wait, stop"),
    ],
)
def test_a_wrong_option_of_a_scheduler_is_named(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        Scheduler(tmp_path / "app.db", **options)

    assert said in caught.value.message


def test_a_database_is_a_path() -> None:
    with pytest.raises(InvalidInput, match="database is 5, expected a path or None"):
        Scheduler(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda s: s.job("@daily", name="a", catch_up=True)(print), "catch_up is true, expected"),
        (lambda s: s.get(99), "a schedule's name is text, got 99"),
        (lambda s: s.run("nosuch"), "a run's id is a number, got 'nosuch'"),
        (lambda s: s.add("a", "@daily", command=["true"]).run_now(object()), "object"),
    ],
)
def test_a_wrong_argument_is_named(tmp_path: Path, act: Act, said: str) -> None:
    with pytest.raises((InvalidInput, TypeError)) as caught:
        act(Scheduler(tmp_path / "app.db"))

    assert said in str(caught.value)


def test_a_wait_takes_seconds_and_a_run_knows_its_cause(tmp_path: Path) -> None:
    run = Scheduler(tmp_path / "app.db").add("a", "@daily", command=["true"]).run_now()

    with pytest.raises(InvalidInput, match="timeout is 'abc', expected seconds or None"):
        run.wait("abc")  # type: ignore[arg-type]
    assert run.cause is Cause.MANUAL
