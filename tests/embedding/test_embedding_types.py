"""What type checkers say of the programs that help and README show, and what `edgecron` exports."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import edgecron
from edgecron.base import errors
from edgecron.cli.help_ import TOPICS, read_topic
from edgecron.http.openapi import ANSWERS
from edgecron.model.run import Execution
from tests.support.examples import code_of, python_of

ROOT = Path(__file__).parents[2]
TEXTS = {"readme": (ROOT / "README.md").read_text(encoding="utf-8")}
TEXTS |= {name: read_topic(name) for name in TOPICS}
# A program that names what its values are.
TYPED = """
from datetime import UTC, datetime
from typing import assert_type

from edgecron import (
    AlreadyExists, Cause, Entry, Retention, Run, RunEvent, Schedule, Scheduler, Status
)

scheduler = Scheduler("app.db", retention=Retention(history_age_s=86_400))


@scheduler.job("@daily")
def count(host: str = "plc1") -> int:
    return len(host)


def send(customer: int) -> str:
    return str(customer)


async def fetch(customer: int) -> bytes:
    return bytes(customer)


def report(event: RunEvent) -> None:
    print(event.status is Status.FAILED, event.run_id)


def main() -> None:
    assert_type(count.run_now("plc2"), Run[int])
    assert_type(count.run_now().get(), int | None)
    assert_type([run.result for run in count.history()], list[int | None])
    assert_type(count.fire(), list[Run[int]])
    sent = scheduler.add("report-7", "@daily", call=send, args=[7], retries=3)
    assert_type(sent, Entry[str])
    assert_type(sent.run_now().get(), str | None)
    assert_type(scheduler.add("fetch-7", "@daily", call=fetch, args=[7]), Entry[bytes])
    assert_type(scheduler.add("rotate", "@daily", command=["true"], env={"A": "1"}), Entry[None])
    sent.change(when="@hourly", timeout="30s")
    assert_type(sent.schedule, Schedule)
    assert_type(count.run_now().cause, Cause)
    with scheduler.subscribe(report, "failed"):
        pass
    try:
        sent.pause(datetime(2030, 1, 1, tzinfo=UTC))
    except AlreadyExists:
        pass
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of all texts, in one folder."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "typed_example.py").write_text(TYPED)
    for name, text in TEXTS.items():
        program, _ = python_of(code_of(text))
        if program:
            (folder / f"{name}_example.py").write_text(f"{program}\n")
    assert (folder / "embedding_example.py").exists()
    return folder


@pytest.mark.needs_package("mypy")
def test_mypy_finds_nothing_in_the_examples(programs: Path) -> None:
    told = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="),
            *("--cache-dir", "cache", *(one.name for one in sorted(programs.glob("*.py")))),
        ],
        cwd=programs,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )

    assert (told.stdout, told.returncode) == ("", 0), told.stderr


@pytest.mark.needs_package("basedpyright")
def test_pyright_finds_nothing_in_the_examples(programs: Path) -> None:
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))

    told = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable],
        cwd=programs,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (told.stdout, told.returncode) == ("0 errors, 0 warnings, 0 notes\n", 0), told.stderr


def test_every_exported_name_is_there() -> None:
    assert all(hasattr(edgecron, name) for name in edgecron.__all__)


@pytest.mark.parametrize("kind", ["Scheduler", "Entry", "Job", "Run", "RunContext", "EventStream"])
def test_errors_that_a_method_says_it_raises_are_exported(kind: str) -> None:
    methods = inspect.getmembers(getattr(edgecron, kind))
    said = " ".join(
        sentence
        for name, method in methods
        if not name.startswith("_")
        for sentence in re.findall(r"Raises[^.]*\.", inspect.getdoc(method) or "")
    )

    named = {word for word in re.findall(r"[A-Z]\w+", said) if hasattr(errors, word)}
    assert named <= set(edgecron.__all__)


def test_errors_that_a_page_names_are_exported() -> None:
    named = {word for text in TEXTS.values() for word in re.findall(r"`([A-Z]\w+)`", text)}

    assert {word for word in named if hasattr(errors, word)} <= set(edgecron.__all__)


def test_a_run_has_the_same_fields_in_python_as_over_http() -> None:
    answered = ANSWERS["Run"]["properties"].keys() - {"payload_text", "result_text", "timezone"}

    assert answered <= {one for one in dir(Execution) if not one.startswith("_")}
