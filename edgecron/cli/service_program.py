"""How this program is named, so that a service manager can start it after upgrades, too."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgecron.base.errors import InvalidInput, os_words
from edgecron.base.files import find_weakness
from edgecron.supervisor.environment import DEFAULT_PATH

_BOUND_S = 30


def find_program(argv0: str, *, executable: str) -> tuple[str, ...]:
    """The words that start this program again, given how it was started.

    A script or a binary is named as it was, links and all: those of pipx and uv stay where they
    are when what they lead to is replaced. `python -m edgecron` is that of this Python.
    """
    found = None if Path(argv0).name == "__main__.py" else _find_called(argv0)
    if found is not None and os.access(found, os.X_OK) and os.path.isfile(found):
        return (found,)
    # Not resolved: a virtual environment is its link to a Python.
    return (executable, "-m", "edgecron")


def find_binary(argv0: str, *, file: str, is_roots: bool) -> str:
    """The path of a single binary, given how it was started and the `file` that was behind it.

    Links and all, where it was started by some: an upgrade puts the next version behind them. With
    `is_roots` never by a path that others than root may change, who would choose what root runs.
    Raises InvalidInput where `file` is '', as it is after another has taken its place.
    """
    if not file:
        raise InvalidInput(
            "the file of this program was removed or replaced while it ran",
            hint="start the one that is there now, or name one: --program PATH",
        )
    found = _find_called(argv0)
    if found is None or (is_roots and find_weakness(Path(found), must_exist=True)):
        return file
    try:
        return found if os.path.samefile(found, file) else file
    except OSError:
        return file


def _find_called(argv0: str) -> str | None:
    """The path that the first word of a command line means, absolute; None where PATH has none."""
    found = argv0 if os.sep in argv0 else shutil.which(argv0)
    return None if found is None else os.path.abspath(found)


def check_program(words: Sequence[str], *, version: str) -> None:
    """Start it as a service manager will, with nothing of our environment, and ask who it is.

    Raises InvalidInput where that is not an edgecron, of this version.
    """
    shown = " ".join(words)
    hint = "name one that is installed for good: --program PATH"
    try:
        said = subprocess.run(
            [*words, "--version"],
            cwd="/",
            env={"PATH": DEFAULT_PATH, "HOME": os.path.expanduser("~")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BOUND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = os_words(error) if isinstance(error, OSError) else "it does not answer"
        raise InvalidInput(f"program {shown!r} can't be started: {why}", hint=hint) from error
    if said.returncode != 0 or not said.stdout.startswith("edgecron "):
        lines = (said.stderr or said.stdout).strip().splitlines() or ["it says nothing"]
        raise InvalidInput(f"program {shown!r} is no edgecron on its own: {lines[-1]}", hint=hint)
    theirs = said.stdout.split()[1]
    if theirs != version:
        raise InvalidInput(
            f"program {shown!r} is edgecron {theirs}, and this is {version}",
            hint="install with the one that is to run, or upgrade it",
        )


def find_strangers(path: str) -> list[str]:
    """Who else than root may change a program, by owner and mode of it and of its folders.

    In words; none where only root may. A link counts as what it leads to, too.
    """
    found = []
    for each in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        for place in (Path(each), *Path(each).parents):
            try:
                seen = place.stat()
            except OSError:
                continue
            is_sticky = bool(seen.st_mode & 0o1000)
            if seen.st_uid != 0:
                found.append(f"{place} belongs to user {seen.st_uid}")
            elif seen.st_mode & 0o022 and not is_sticky:
                found.append(f"{place} can be written by others")
    return list(dict.fromkeys(found))
