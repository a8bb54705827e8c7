"""The processes of one run besides its main one: signals to all, and word of those that live on.

With a cgroup these are all that it ever started. Without, they are its session, and of those that
got out of that it can at most be said that they did.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from edgecron.supervisor.cgroups import RunCgroup
from edgecron.supervisor.flags import Flag
from edgecron.supervisor.groups import (
    group_has_members,
    sessions_of,
    signal_group,
    signal_members,
    signal_session,
)
from edgecron.supervisor.looks import Looks
from edgecron.supervisor.results import VARIABLE, WITHOUT

_RUN_ID = "EDGECRON_RUN_ID"


class Members:
    """What a run's main process (`leader`) has started."""

    def __init__(
        self,
        leader: int,
        *,
        environment: Mapping[str, str],
        looks: Looks,
        cgroup: RunCgroup | None,
    ) -> None:
        self._leader = leader
        self._mark = find_mark(environment)
        self._looks = looks
        self._cgroup = cgroup
        self._killed: set[int] = set()  # of the session, as looks have seen it
        self._found_in: int | None = None  # the last turn that has seen another one

    def terminate(self) -> None:
        """Ask all of them to end. A stopped process must go on to be able to."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            signal_group(self._leader, number)
            if self._cgroup is not None:
                signal_members(self._cgroup.find_members(), number, leader=self._leader)
            else:
                signal_session(self._seen(), number, leader=self._leader)

    def kill(self) -> bool:
        """KILL to all. The main process must not be reaped: its number is then its own.

        True where this turn has seen some of them for the first time: what they started since that
        look is for the next turn to find.
        """
        signal_group(self._leader, signal.SIGKILL)
        if self._cgroup is not None:
            self._cgroup.kill()
            return False
        seen = set(self._seen())
        signal_session(seen, signal.SIGKILL, leader=self._leader)
        if not seen <= self._killed:
            self._killed |= seen
            self._found_in = self._looks.turn()
        return self._found_in == self._looks.turn()

    def may_yet_end(self) -> bool:
        """Whether any of those that were asked to end is left. What has escaped was not asked."""
        if self._cgroup is not None:
            return True
        look = self._looks.look()
        return not look.processes or bool(look.session(self._leader))

    def let_go(self) -> None:
        """Of a run that did not come to be."""
        if self._cgroup is not None:
            self._cgroup.let_go()

    def flag_left(self) -> list[Flag]:
        """What to say of those that live on after the main process ended by itself."""
        flags = {Flag.LEFT_BEHIND} if group_has_members(self._leader) else set()
        if self._cgroup is not None:
            flags |= self._flag_members(self._cgroup)
        else:
            look = self._looks.look_if_rested()
            # Asked anew: it may be a look of before the end, earlier in this turn.
            if look is not None and sessions_of(look.session(self._leader)) == {self._leader}:
                flags.add(Flag.LEFT_BEHIND)
            if look is not None and self._mark and look.has_escaped(self._leader, self._mark):
                flags.add(Flag.ESCAPED)
        return sorted(flags)

    def flag_escaped(self) -> list[Flag]:
        """What to say once all that could be found was killed."""
        if self._cgroup is not None:
            self._cgroup.let_go()
            return []
        is_told = self._mark and self._looks.look().has_escaped(self._leader, self._mark)
        return [Flag.ESCAPED] if is_told else []

    def _flag_members(self, cgroup: RunCgroup) -> set[Flag]:
        if cgroup.let_go():
            return set()
        sessions = sessions_of(cgroup.find_members())
        flags = {Flag.LEFT_BEHIND} if self._leader in sessions else set()
        return flags | ({Flag.ESCAPED} if sessions - {self._leader} else set())

    def _seen(self) -> list[int]:
        """Its session, as a look of this turn has seen it."""
        return self._looks.look().session(self._leader)


def find_mark(environment: Mapping[str, str]) -> bytes | None:
    """The variable by which a process of the run is known; None where it has none.

    The file of its result is its own, or the mark where that can't be made. Another database may
    have a run of the same number.
    """
    for name in (VARIABLE, WITHOUT, _RUN_ID):
        if name in environment:
            return os.fsencode(f"{name}={environment[name]}")
    return None
