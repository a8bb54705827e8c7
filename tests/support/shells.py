"""Shells that complete a line, as a person's own would when TAB is pressed."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
from pathlib import Path

from tests.support.program import PROGRAM
from tests.support.sharing import shared_path
from tests.support.terminal import BOUND_S, read_until

_BASH = r"""
source "$1"; shift
compopt() { :; }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_edgecron
printf '%s\n' "${COMPREPLY[@]}"
"""


def put_program_on_path(folder: Path) -> None:
    """A program `edgecron` in a folder, which is the one under test."""
    program = folder / "edgecron"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    program.chmod(0o755)


def complete_in_bash(script: Path, line: str, *, environment: dict[str, str]) -> list[str]:
    """What bash offers for the last word of a line."""
    said = subprocess.run(
        ["bash", "--norc", "-c", _BASH, "bash", str(script), *line.split(" ")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    assert said.stderr == ""
    return said.stdout.split()


def complete_in_fish(script: Path, line: str, *, environment: dict[str, str]) -> list[str]:
    """What fish offers, each word without what it says of it."""
    said = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    assert said.stderr == ""
    return [line.split("\t")[0] for line in said.stdout.splitlines()]


def complete_in_zsh(script: Path, line: str, *, environment: dict[str, str]) -> list[str]:
    """What the line editor of zsh lists: words, and what it says of them."""
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        ["zsh", "-f", "-i"],
        env={**environment, "TERM": "dumb", "COLUMNS": "200", "LINES": "500"},
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    try:
        # A key may be pressed only when the line editor waits: each step is awaited by its mark.
        os.write(
            outer,
            b"PS1=; unsetopt zle_bracketed_paste prompt_sp; autoload -Uz compinit;"
            # It writes down what it found in the system's folders, which takes half a second.
            + f" compinit -u -C -d {shared_path('zcompdump')};".encode()
            + f" source {script}; LISTMAX=1000;".encode()
            + b" looked() { print -r -- BE''GIN; zle list-choices; zle -R; print -r -- E''ND };"
            b" zle -N looked; bindkey '^I' looked; print REA''DY\n",
        )
        read_until(outer, "READY")
        os.write(outer, line.encode() + b"\t")
        shown = read_until(outer, "END")
    finally:
        process.kill()
        process.wait()
        os.close(outer)
    listed = shown.split("BEGIN")[-1].split("END")[0]
    return [
        word
        for word in re.split(r"\s{2,}|[\r\n]+", listed)
        if word and word.strip() != line.strip()
    ]
