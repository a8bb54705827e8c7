"""Run the program that pages through a text, on this process's terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from edgecron.base.errors import EdgecronError, os_words

_FALLBACKS = ("less", "more")
_NOTHING: Mapping[str, str] = MappingProxyType({})
# Who called sudo or systemd's run0, pkexec, and doas: each has a variable of its own.
_CALLER_UIDS = ("SUDO_UID", "PKEXEC_UID")
_CALLER_NAME = "DOAS_USER"


def pager_command(
    environ: Mapping[str, str], *, which: Callable[[str], str | None] = shutil.which
) -> list[str]:
    """Return $PAGER, else less, else more. Raises EdgecronError if there is none.

    Through sudo, doas and pkexec there is none: a pager starts shells and writes files, so whoever
    is allowed to run only `edgecron help` as root would be root.
    """
    if _is_for_another_user(environ):
        raise EdgecronError("no pager is started through sudo, doas and pkexec")
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


def _is_for_another_user(environ: Mapping[str, str]) -> bool:
    """Whether a user who is neither root nor this user started this process."""
    own = ("", "0", str(os.geteuid()))
    if any(environ.get(name, "") not in own for name in _CALLER_UIDS):
        return True
    user = environ.get(_CALLER_NAME, "")
    return bool(user) and _uid_of(user) not in own


def _uid_of(user: str) -> str | None:
    import pwd

    try:
        return str(pwd.getpwnam(user).pw_uid)
    except KeyError:
        return None


def page(command: list[str], text: str, *, defaults: Mapping[str, str] = _NOTHING) -> None:
    """Show a clean text until the person leaves the pager. Raises EdgecronError.

    `defaults` are variables that the pager gets unless they are set. A hangup ends the pager.
    """
    pagers: list[subprocess.Popen[bytes]] = []
    with _signals_are_for(pagers):
        try:
            pager = subprocess.Popen(command, stdin=subprocess.PIPE, env={**defaults, **os.environ})
        except OSError as error:
            raise EdgecronError(f"{command[0]} can't be started: {os_words(error)}") from error
        pagers.append(pager)
        pager.communicate(text.encode())


@contextmanager
def _signals_are_for(pagers: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Hold back signals meanwhile: Ctrl-C is for the pager, which has the terminal.

    Pass a hangup on to the pager: `more` would read a terminal that is gone forever.
    """
    heard: list[int] = []

    def hear(number: int, _frame: object) -> None:
        heard.append(number)
        if number == signal.SIGHUP:
            for pager in pagers:
                pager.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, hear) for number in numbers}
    # Otherwise the event loop of the dashboard would get each signal, too.
    wakeup_fd = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
        for number, handler in before.items():
            signal.signal(number, handler)
        for told in dict.fromkeys(heard):
            if told != signal.SIGINT:
                signal.raise_signal(told)
