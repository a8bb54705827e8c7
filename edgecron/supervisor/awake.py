"""Keep the machine from sleeping while runs want it (`--keep-awake`), by logind's inhibitor.

Only the first such run loads this module. `systemd-inhibit` holds the inhibitor while a program of
ours runs below it: that program ends when our end of its stdin closes, so also if we are killed.
"""

from __future__ import annotations

import os
import subprocess
from shutil import which

from edgecron.base.clock import Clock
from edgecron.base.machine import KernelMachine

LOOK_MS = 30_000  # how often the battery, and the program that holds the inhibitor, are looked at
LOW_PERCENT = 10.0  # of the battery: with less, sleep saves the work of the user
_INHIBIT = ("systemd-inhibit", "--what=sleep:idle", "--who=edgecron", "--mode=block")


class Inhibitor:
    """Holds the inhibitor while any run wants it and the battery is not low."""

    def __init__(self, machine: KernelMachine, *, program: tuple[str, ...] = _INHIBIT) -> None:
        self._machine = machine
        self._program = program
        self._wanted: dict[str, bool] = {}  # by token: whether it was held from then on
        self._holder: tuple[int, int] | None = None  # process id, and our end of its stdin
        self._ending: list[int] = []  # process ids

    @classmethod
    def of_this_machine(cls, clock: Clock) -> Inhibitor:
        return cls(KernelMachine(clock))

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def end(self, token: str) -> bool:
        """Forget a run; whether the machine was kept awake for all of its time."""
        self.look()
        was_held = self._wanted.pop(token)
        if not self._wanted:
            self._release()
        return was_held

    def look(self, token: str | None = None) -> None:
        """Take or release the inhibitor, by the battery and by whether it is still held.

        With a `token`, keep the machine awake until this run ends.
        """
        if token is not None:
            self._wanted[token] = True
        self._ending = [pid for pid in self._ending if not _has_ended(pid)]
        if self._holder is not None and _has_ended(self._holder[0]):
            os.close(self._holder[1])
            self._holder = None  # logind refused the inhibitor, or its program was ended.
            is_held = False
        elif self._is_battery_low():
            self._release()
            is_held = False
        else:
            is_held = self._holder is not None or self._hold()
        if not is_held:
            self._wanted = dict.fromkeys(self._wanted, False)

    def _is_battery_low(self) -> bool:
        percent = self._machine.battery_percent()
        return (
            self._machine.is_on_mains() is False and percent is not None and percent < LOW_PERCENT
        )

    def _hold(self) -> bool:
        program = which(self._program[0])
        if program is None:
            return False
        try:
            process = subprocess.Popen(
                [program, *self._program[1:], "--why=a run with --keep-awake", "cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                close_fds=False,  # All of ours close at exec.
                start_new_session=True,
            )
        except OSError:
            return False
        process.returncode = 0  # `subprocess` must not wait for it: we do.
        assert process.stdin is not None
        self._holder = (process.pid, os.dup(process.stdin.fileno()))
        process.stdin.close()
        return True

    def _release(self) -> None:
        if self._holder is not None:
            pid, stdin_fd = self._holder
            os.close(stdin_fd)
            self._ending.append(pid)
            self._holder = None


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended, and reap it."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True
