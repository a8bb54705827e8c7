"""The program that pages through a text, in the terminal that it is lent meanwhile."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from edgecron.base.errors import EdgecronError, os_words

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
_LOOK_S = 0.2  # between two looks whether the terminal is still there
_GRACE_S = 1.0  # for a pager to end by itself when its terminal has gone


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


def page(
    command: list[str],
    text: str,
    *,
    defaults: Mapping[str, str] = _NOTHING,
    folders: str = os.defpath,
) -> None:
    """Show a text that is clean, until the person leaves or the terminal goes away.

    `defaults` are variables that the pager finds if they were not set; `folders` are those of the
    system's programs. Raises EdgecronError.
    """
    environ: Mapping[str, str] = os.environ
    if _is_for_somebody_else(environ):
        environ = _harmless(environ)
    environ = {**defaults, **environ}
    try:
        with _signals_are_the_pagers() as heard:
            _run_pager(_tied(command, environ, folders=folders), text, environ=environ, heard=heard)
    except OSError as error:
        raise EdgecronError(f"{command[0]} can't be started: {os_words(error)}") from error


def _tied(command: list[str], environ: Mapping[str, str], *, folders: str) -> list[str]:
    """A command that the kernel hangs up when this process ends, however it ends.

    That needs util-linux on Linux (busybox has another setpriv). Elsewhere it is the command alone:
    if this process is killed with KILL, its pager stays until the person leaves it.
    """
    # Whoever is missing is reported by its own name, not as an end of setpriv.
    setpriv = shutil.which("setpriv", path=folders)
    if setpriv is None or shutil.which(command[0], path=environ.get("PATH", os.defpath)) is None:
        return command
    tie = [setpriv, "--pdeathsig", "HUP", "--"]
    tried = subprocess.run([*tie, "true"], capture_output=True, env=environ, check=False)
    return [*tie, *command] if tried.returncode == 0 else command


def _run_pager(
    command: list[str], text: str, *, environ: Mapping[str, str], heard: list[int]
) -> None:
    terminal = _find_terminal()
    pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ)
    feeder = threading.Thread(
        target=pager.communicate, args=(text.encode(),), name="pager", daemon=True
    )
    feeder.start()
    while feeder.is_alive():
        feeder.join(_LOOK_S)
        # If this process leads the session, only this process hears the hangup. `more` would
        # then read a dead terminal for ever, and use a processor for that.
        if signal.SIGHUP in heard or (terminal is not None and _has_hung_up(terminal)):
            _end_pager(pager)
            feeder.join(_GRACE_S)
            pager.kill()
            break
    feeder.join()


def _find_terminal() -> int | None:
    """The descriptor of the terminal that the pager writes to; None if there is none."""
    try:
        fd = sys.__stdout__.fileno() if sys.__stdout__ is not None else -1
    except (OSError, ValueError):
        return None
    return fd if fd >= 0 and os.isatty(fd) else None


def _has_hung_up(terminal: int) -> bool:
    poller = select.poll()
    poller.register(terminal, 0)  # POLLHUP is always reported.
    return any(events & select.POLLHUP for _, events in poller.poll(0))


def _end_pager(pager: subprocess.Popen[bytes]) -> None:
    """Hang up, as a shell does with its jobs: a pager can be a script that has started another."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGHUP)
    else:
        pager.send_signal(signal.SIGHUP)


@contextmanager
def _signals_are_the_pagers() -> Iterator[list[int]]:
    """Keep signals until the pager has left: Ctrl-C is for the pager, which has the terminal.

    Yields the signals that came. Not ignored, or the pager would inherit that.
    """
    heard: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: heard.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    # Else the event loop would hear of each of them.
    wakeup_fd = signal.set_wakeup_fd(-1)
    try:
        yield heard
    finally:
        signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
        for number, handler in before.items():
            signal.signal(number, handler)
        for told in dict.fromkeys(heard):
            if told != signal.SIGINT:
                signal.raise_signal(told)
