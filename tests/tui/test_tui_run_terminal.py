"""A run's screen on a real terminal: none of its output gets out, and a pager gets it whole."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.program import PROGRAM
from tests.support.terminal import on_terminal, read_until

_POINTER = re.compile(r"\x1b\]22;[a-z-]*\x07")  # the mouse pointer's shape, which is Textual's own
_LEFT = "\x1b[?1049l"
_ENTERED = "\x1b[?1049h"
_HOSTILE = r"\033]52;c;aGk=\007 \033]0;title\007 \302\2332J \342\200\256begin%send \377\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A terminal, and a database with one schedule and its one run, which has printed.

    No test changes it.
    """
    environment = {
        **os.environ,
        "EDGECRON_DB": str(tmp_path_factory.mktemp("noisy") / "edgecron.db"),
        "TZ": "UTC",
        "TERM": "xterm-256color",
    }
    for words in (
        ("add", "noisy", "--at", "2090-01-01T00:00:00Z", "--shell", f"printf '{_HOSTILE}' '[red]'"),
        ("run", "noisy", "--wait"),
    ):
        subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, check=True)
    return environment


@pytest.mark.failure(72)
def test_nothing_that_a_job_prints_reaches_the_terminal(environment: dict[str, str]) -> None:
    with on_terminal(environment, "tui") as outer:
        shown = read_until(outer, "noisy")
        os.write(outer, b"3")
        shown += read_until(outer, "STARTED")
        os.write(outer, b"\r")
        shown += read_until(outer, "begin[red]end")
        os.write(outer, b"tw")
        shown += read_until(outer, ".")
        os.write(outer, b"q")
        shown += read_until(outer, None)

    others = _POINTER.sub("", shown)
    assert not [letter for letter in others if letter in "\x07\u202e" or "\x80" <= letter < "\xa0"]
    assert "\x1b]" not in others


def test_a_pager_has_the_terminal_until_it_is_left(
    environment: dict[str, str], tmp_path: Path
) -> None:
    pager = tmp_path / "pager"
    pager.write_text(
        f"#!/bin/sh\ncat >{tmp_path}/got\necho paging\nread key <&2\n",
        encoding="utf-8",
    )
    pager.chmod(0o700)

    with on_terminal({**environment, "PAGER": str(pager)}, "tui") as outer:
        read_until(outer, "noisy")
        os.write(outer, b"3")
        read_until(outer, "STARTED")
        os.write(outer, b"\r")
        read_until(outer, "begin[red]end")
        os.write(outer, b"v")
        paged = read_until(outer, "paging")
        os.write(outer, b"\n")
        back = read_until(outer, "begin[red]end")
        os.write(outer, b"q")
        read_until(outer, None)

    assert _LEFT in paged
    assert _ENTERED in back
    text = (tmp_path / "got").read_text(encoding="utf-8")
    assert "begin[red]end" in text
    assert text.replace("\n", "").isprintable()


def test_through_sudo_no_pager_is_started(environment: dict[str, str], tmp_path: Path) -> None:
    theirs = {"SUDO_UID": str(os.geteuid() + 1), "PAGER": f"touch {tmp_path}/ran"}

    with on_terminal({**environment, **theirs}, "tui") as outer:
        read_until(outer, "noisy")
        os.write(outer, b"3")
        read_until(outer, "STARTED")
        os.write(outer, b"\r")
        read_until(outer, "begin[red]end")
        os.write(outer, b"v")
        read_until(outer, "no pager is started")
        os.write(outer, b"q")
        read_until(outer, None)

    assert not (tmp_path / "ran").exists()


def test_a_pager_that_can_t_be_started_gives_the_terminal_back(
    environment: dict[str, str], tmp_path: Path
) -> None:
    missing = tmp_path / "missing"

    with on_terminal({**environment, "PAGER": str(missing)}, "tui") as outer:
        read_until(outer, "noisy")
        os.write(outer, b"3")
        read_until(outer, "STARTED")
        os.write(outer, b"\r")
        read_until(outer, "begin[red]end")
        os.write(outer, b"v")
        shown = read_until(outer, "can't be started")
        os.write(outer, b"q")
        read_until(outer, None)

    assert _ENTERED in shown[shown.index(_LEFT) :]
