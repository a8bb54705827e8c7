"""The program that pages through a text, in the terminal that it is lent meanwhile."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from edgecron.errors import EdgecronError
from edgecron.words.phrases import os_words

_FALLBACKS = ("less", "more")
_NOTHING: Mapping[str, str] = MappingProxyType({})
# Who has our powers: sudo and systemd's run0, pkexec, and doas, each by its own variable.
_LENT_TO_UID = ("SUDO_UID", "PKEXEC_UID")
_LENT_TO_NAME = "DOAS_USER"
_VERSION_S = 5.0  # less says it within milliseconds
# What a pager may find of somebody who has our powers through these, and what it is told, as
# less(1) has it. HOME is not in it, where keys lie; LESSSECURE_ALLOW would give back what is taken.
_HARMLESS = ("TERM", "COLUMNS", "LINES", "LANG", "LC_ALL", "LC_CTYPE")
_READ_ONLY = {"LESSSECURE": "1", "LESSHISTFILE": "-"}


def pager_command(
    environ: Mapping[str, str],
    *,
    which: Callable[[str], str | None] = shutil.which,
    folders: str = os.defpath,
) -> list[str]:
    """$PAGER, else less, else more. Raises EdgecronError where there is none.

    For somebody who has our powers through sudo, doas or pkexec it is the less of the system's
    `folders` alone. A pager starts shells and writes files: who may have `edgecron help` as root
    would be root.
    """
    if _is_for_somebody_else(environ):
        return [_system_less(folders, _harmless(environ))]
    wanted = environ.get("PAGER", "").strip()
    if wanted:
        try:
            return shlex.split(wanted)
        except ValueError as error:
            raise EdgecronError(f"PAGER is {wanted!r}: {error}") from error
    for name in _FALLBACKS:
        if which(name) is not None:
            return [name]
    raise EdgecronError("no pager was found", hint="set PAGER, or install less")


def _is_for_somebody_else(environ: Mapping[str, str]) -> bool:
    """Whether somebody else than root has our powers, who may not have all of them."""
    own = ("", "0", str(os.geteuid()))
    if any(environ.get(name, "") not in own for name in _LENT_TO_UID):
        return True
    user = environ.get(_LENT_TO_NAME, "")
    return bool(user) and _uid_of(user) not in own


def _uid_of(user: str) -> str | None:
    import pwd

    try:
        return str(pwd.getpwnam(user).pw_uid)
    except KeyError:
        return None


def _harmless(environ: Mapping[str, str]) -> dict[str, str]:
    """What a pager finds of somebody else."""
    return {name: environ[name] for name in _HARMLESS if name in environ} | _READ_ONLY


def _system_less(folders: str, environ: Mapping[str, str]) -> str:
    found = shutil.which("less", path=folders)
    if found is None or not _is_less(found, environ):
        raise EdgecronError(
            "no pager was found",
            hint=f"through sudo, doas and pkexec it is less alone, in {folders}",
        )
    return found


def _is_less(path: str, environ: Mapping[str, str]) -> bool:
    """Whether it is less, as it says itself, and no other program of that name: busybox has one
    that reads and writes any file, and knows of no LESSSECURE."""
    try:
        said = subprocess.run(
            [path, "-V"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            timeout=_VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False  # What does not answer is not taken for it.
    return said.stdout.startswith(b"less ")


def page(command: list[str], text: str, *, defaults: Mapping[str, str] = _NOTHING) -> None:
    """Show a text that is clean, until the person leaves. Raises EdgecronError.

    `defaults` are variables that the pager finds where they were not set.
    """
    environ: Mapping[str, str] = os.environ
    if _is_for_somebody_else(environ):
        environ = _harmless(environ)
    environ = {**defaults, **environ}
    try:
        with _signals_are_the_pagers():
            subprocess.run(command, input=text.encode(), env=environ, check=False)
    except OSError as error:
        raise EdgecronError(f"{command[0]} can't be started: {os_words(error)}") from error


@contextmanager
def _signals_are_the_pagers() -> Iterator[None]:
    """Ctrl-C is for the pager, which has the terminal; what is to end us is told when it has left.

    Not ignored, or the pager would inherit that.
    """
    heard: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: heard.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    # Else the event loop would hear of each of them.
    wakeup_fd = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
        for number, handler in before.items():
            signal.signal(number, handler)
        for told in heard:
            if told != signal.SIGINT:
                signal.raise_signal(told)
