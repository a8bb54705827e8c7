"""Sleep until an instant of the wall clock, or until something happens.

On Linux the kernel cancels the timer when the clock is set. It reports when another engine's
process ends, when a process writes to the write-ahead log, and when the machine changes. On other
systems the engine sleeps in naps, and notices all that when it looks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from edgecron.base.clock import Clock, ServerTime
from edgecron.base.paths import Location, ServerUrl
from edgecron.engine.step import Engine
from edgecron.model.engine import EngineInfo
from edgecron.store.sql.connection import Connection

SAFETY_MS = 45_000  # how often to look at the database's change mark, even with nothing due
_NAP_MS = 15_000
# In 2255: armed even with nothing due, to notice a clock that is set. The kernel allows 2262.
_FAR_MS = 9_000_000_000_000
_CLOCK_REALTIME = 0
_ABSTIME, _CANCEL_ON_SET = 1, 2


class Sleeper(Protocol):
    """Something that waits. The caller reads the clock and its descriptors afterwards."""

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        """Return when an fd is readable, at an instant, when the clock is set, or sooner.

        Returns the descriptors that are readable.
        """

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock that a thread holds while it is awake: a `threading.RLock`."""

    def acquire(self) -> bool: ...

    def release(self) -> None: ...


class TimerSleeper:
    """Sleep on a timerfd of the realtime clock (Linux)."""

    def __init__(self, clock: Clock) -> None:
        self._timer = _timerfd_create()
        self._server_time = clock if isinstance(clock, ServerTime) else None

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        if until_ms is not None and self._server_time is not None:
            until_ms = self._server_time.own_ms(until_ms)
        _timerfd_settime(self._timer, _FAR_MS if until_ms is None else min(until_ms, _FAR_MS))
        poller = select.poll()
        poller.register(self._timer, select.POLLIN)
        for fd in fds:
            poller.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poller.poll(SAFETY_MS)}
        try:
            os.read(self._timer, 8)
        except BlockingIOError:
            pass  # A descriptor woke us.
        except OSError as error:
            # ECANCELED: the clock was set. The caller reads it anyway.
            if error.errno != errno.ECANCELED:
                raise
        return ready - {self._timer}

    def close(self) -> None:
        os.close(self._timer)


class RestingSleeper:
    """Release a lock while its thread sleeps, so that other threads can tell."""

    def __init__(self, sleeper: Sleeper, awake: Lock) -> None:
        self._sleeper = sleeper
        self._awake = awake

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        self._awake.release()
        try:
            return self._sleeper.wait(fds, until_ms=until_ms)
        finally:
            self._awake.acquire()

    def close(self) -> None:
        self._sleeper.close()


class NapSleeper:
    """Sleep in naps of at most 15 s; a nap ends the wait if wall and monotonic time differ."""

    def __init__(self, clock: Clock, *, nap_ms: int = _NAP_MS) -> None:
        self._clock = clock
        self._nap_ms = nap_ms

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        poller = select.poll()
        for fd in fds:
            poller.register(fd, select.POLLIN)
        offset_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        slept_ms = 0
        while slept_ms < SAFETY_MS:
            nap_ms = self._nap_ms
            if until_ms is not None:
                nap_ms = max(0, min(nap_ms, until_ms - self._clock.now_ms()))
            ready = {fd for fd, _ in poller.poll(nap_ms)}
            stepped_ms = self._clock.now_ms() - self._clock.monotonic_ms() - offset_ms
            if ready or nap_ms < self._nap_ms or abs(stepped_ms) > 1000:
                return ready
            slept_ms += nap_ms
        return set()

    def close(self) -> None:
        pass


def system_sleeper(clock: Clock) -> Sleeper:
    """Make the best sleeper of this system."""
    if sys.platform == "linux":
        try:
            return TimerSleeper(clock)
        except (OSError, AttributeError):
            # A sandbox can forbid timers; naps cost a wake-up every 15 s and miss nothing.
            return NapSleeper(clock)
    return NapSleeper(clock)


if sys.version_info >= (3, 13) and sys.platform == "linux":

    def _timerfd_create() -> int:
        return os.timerfd_create(_CLOCK_REALTIME, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

    def _timerfd_settime(timer: int, at_ms: int) -> None:
        try:
            os.timerfd_settime_ns(
                timer,
                flags=os.TFD_TIMER_ABSTIME | os.TFD_TIMER_CANCEL_ON_SET,
                initial=max(1, at_ms * 1_000_000),
            )
        except OSError as error:
            # The clock was set since the last wait, and the timer is armed all the same.
            if error.errno != errno.ECANCELED:
                raise

else:

    def _timerfd_create() -> int:
        timer: int = ctypes.CDLL(None, use_errno=True).timerfd_create(
            _CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC
        )
        if timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        return timer

    def _timerfd_settime(timer: int, at_ms: int) -> None:
        # struct itimerspec: interval, then the first expiry, each seconds and nanoseconds.
        at_ms = max(1, at_ms)
        spec = struct.pack("@llll", 0, 0, at_ms // 1000, at_ms % 1000 * 1_000_000)
        result = ctypes.CDLL(None, use_errno=True).timerfd_settime(
            timer, _ABSTIME | _CANCEL_ON_SET, spec, None
        )
        # ECANCELED: as above.
        if result != 0 and ctypes.get_errno() != errno.ECANCELED:
            raise OSError(ctypes.get_errno(), "timerfd_settime")


class PeerWatch:
    """Notice the end of other engines' processes: a descriptor of each becomes readable (Linux)."""

    def __init__(self) -> None:
        self._fds: dict[str, int] = {}  # by the engine's key; -1 if it can't be watched
        self._has_missed = False

    def watch(self, engines: Iterable[EngineInfo]) -> list[int]:
        """Watch these engines and no others; their descriptors."""
        wanted = {one.key: one.pid for one in engines}
        for key in self._fds.keys() - wanted.keys():
            self._close(key)
        for key in wanted.keys() - self._fds.keys():
            # The process id might be of another namespace, or in use again. Then another process
            # wakes us, and the engine's lock shows the truth.
            try:
                self._fds[key] = _open(wanted[key])
            except ProcessLookupError:
                self._fds[key] = -1
                self._has_missed = True
        return [fd for fd in self._fds.values() if fd >= 0]

    def take_missed(self) -> bool:
        """Whether an engine had ended before it could be watched; True once."""
        has_missed, self._has_missed = self._has_missed, False
        return has_missed

    def forget(self, fd: int) -> None:
        """Forget a descriptor: its process has ended."""
        for key, known in self._fds.items():
            if known == fd:
                os.close(fd)
                self._fds[key] = -1

    def close(self) -> None:
        for key in list(self._fds):
            self._close(key)

    def _close(self, key: str) -> None:
        fd = self._fds.pop(key)
        if fd >= 0:
            os.close(fd)


def _open(pid: int) -> int:
    """A descriptor of a process, -1 if the system has none. Raises ProcessLookupError."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # another system, an old kernel
        return -1


# How long after a write the engine looks: longer than a commit takes, and rare enough beside
# engines that write all the time.
LOOK_AFTER_MS = 2_000
_IN_MODIFY = 0x2


class WriteWatch(Protocol):
    """Notices writes by other connections.

    The caller looks at the change mark `look_after_ms` after a write, and every `poll_ms`, if set.
    """

    look_after_ms: int

    @property
    def poll_ms(self) -> int | None:
        """How often to look if no descriptor shows writes; None if the regular look is enough."""

    def arm(self) -> list[int]:
        """Watch; the descriptors to wait for, if any."""

    def clear(self) -> None:
        """Clear the hints that came."""

    def take_news(self) -> bool:
        """Whether another connection has certainly written since the last call."""

    def take_followed(self) -> Collection[int]:
        """Return the runs whose output other machines have asked for since the last call."""

    def close(self) -> None: ...


class WalWatch:
    """Notice writes by programs that ring no doorbell, such as a SQL shell (Linux).

    A write to the write-ahead log is only a hint. It comes before the commit can be seen, and our
    own writes cause it too. So the engine looks at the change mark a moment later. The regular look
    stays the safety net: for other systems, and if inotify is used up.
    """

    look_after_ms = LOOK_AFTER_MS
    poll_ms = None

    def __init__(self, database: Path) -> None:
        self._wal = os.fsencode(f"{database}-wal")
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def arm(self) -> list[int]:
        """Watch the present log file; the descriptors to wait for, if any."""
        if self._fd < 0 or self._libc.inotify_add_watch(self._fd, self._wal, _IN_MODIFY) < 0:
            return []
        return [self._fd]

    def clear(self) -> None:
        """Clear the hints that came."""
        try:
            while os.read(self._fd, 4096):
                pass
        except BlockingIOError:
            pass

    def take_news(self) -> bool:
        """Return False: it has only hints."""
        return False

    def take_followed(self) -> Collection[int]:
        return ()  # All programs of a file see the output themselves.

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def watch_writes(
    location: Location, store: Connection | None, *, hears_all: bool = True
) -> WriteWatch:
    """Watch for writes of other connections: by the log of a file, or by notices of a server.

    Only a server needs its `store`.
    An engine does not need `hears_all`: a server's notice shows whether it gives engines work.
    """
    if not isinstance(location, ServerUrl):
        return WalWatch(location)
    from edgecron.store.postgres.connection import ServerDatabase  # an extra
    from edgecron.store.postgres.store import Listening

    assert isinstance(store, ServerDatabase)
    return Listening(store, hears_all=hears_all)


_NETLINK_ROUTE, _NETLINK_UEVENT = 0, 15
# Of linux/rtnetlink.h: links, and the addresses and routes of IPv4 and IPv6.
_ROUTE_GROUPS = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
_UEVENT_GROUP = 1
_MOUNTS = "/proc/self/mountinfo"
_MOST_AT_ONCE = 1_000  # messages that one call takes


class KernelReports:
    """A descriptor that is readable after a change; it does not show which."""

    def __init__(self) -> None:
        self._poll: select.epoll | None = None
        self._sockets: list[socket.socket] = []
        self._mounts = -1

    def open(self) -> int | None:
        """Begin to listen; the descriptor, or None if this system reports nothing."""
        if sys.platform != "linux":
            return None
        try:
            self._poll = select.epoll()
            for protocol, groups in (
                (_NETLINK_ROUTE, _ROUTE_GROUPS),
                (_NETLINK_UEVENT, _UEVENT_GROUP),
            ):
                self._listen(protocol, groups)
            with suppress(OSError):
                self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
                # Not EPOLLIN: the table can always be read.
                self._poll.register(self._mounts, select.EPOLLPRI)
        except OSError:  # No descriptor is left. Conditions are still checked after pauses.
            self.close()
            return None
        return self._poll.fileno()

    def _listen(self, protocol: int, groups: int) -> None:
        assert self._poll is not None
        with suppress(OSError):  # A sandbox can forbid these sockets.
            kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
            listener = socket.socket(socket.AF_NETLINK, kind, protocol)
            self._sockets.append(listener)
            listener.bind((0, groups))
            self._poll.register(listener, select.EPOLLIN)

    def clear(self) -> None:
        """Forget the changes that were reported."""
        if self._poll is not None:
            self._poll.poll(0)  # The change of a mount is forgotten as soon as it was told.
        for listener in self._sockets:
            for _ in range(_MOST_AT_ONCE):
                try:
                    listener.recv(65_536)
                except BlockingIOError:
                    break
                except OSError:  # ENOBUFS: messages were lost. One change is enough to know.
                    continue

    def close(self) -> None:
        """Stop listening."""
        for listener in self._sockets:
            listener.close()
        self._sockets.clear()
        if self._mounts >= 0:
            os.close(self._mounts)
            self._mounts = -1
        if self._poll is not None:
            self._poll.close()
            self._poll = None


# A rehearsal takes 2 ms after a sleep.
_REHEARSAL_MS = 3
_FIRST_MS = 2  # how long functions that just started have the interpreter for themselves
# How long before its time a fire is claimed: at least, at most, and longer than the last claim
# took. The lead shrinks by 1 ms a fire.
_LEAD_MS, _MOST_LEAD_MS, _SPARE_MS = 3, 20, 2


class EarlyStart:
    """Start runs exactly on time: rehearse the claim a few milliseconds before, claim, start.

    A run starts only after its claim is on the disk, which takes 1 to 30 ms. So it is claimed that
    much earlier, up to 20 ms. If the rehearsal shows anything other than starts (for example a
    run that is skipped because of the one before), the fire is decided when it is due.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._lead_ms = _LEAD_MS

    def wait(self, sleeper: Sleeper, fds: list[int], *, until_ms: int) -> set[int]:
        """Wait for descriptors, or until the fire is due; the readable ones, as `Sleeper.wait`."""
        lead_ms = self._lead_ms
        is_sure = False
        for before_ms in (lead_ms + _REHEARSAL_MS, lead_ms):
            if until_ms - self._clock.now_ms() <= before_ms:
                continue
            ready = sleeper.wait(fds, until_ms=until_ms - before_ms)
            if ready or not 0 < until_ms - self._clock.now_ms() <= before_ms:
                return ready  # A descriptor has ended the wait, or it lasted too long.
            if is_sure:
                self._claim(sleeper, until_ms)
                # Our next work would keep the functions from the interpreter.
                sleeper.wait(fds, until_ms=self._clock.now_ms() + _FIRST_MS)
                return set()
            is_sure = self._engine.rehearse(until_ms)
        return sleeper.wait(fds, until_ms=until_ms)

    def _claim(self, sleeper: Sleeper, until_ms: int) -> None:
        begun_ms = self._clock.monotonic_ms()
        self._engine.claim_early(until_ms)
        took_ms = self._clock.monotonic_ms() - begun_ms
        wanted_ms = max(took_ms + _SPARE_MS, self._lead_ms - 1, _LEAD_MS)
        self._lead_ms = min(wanted_ms, _MOST_LEAD_MS)
        try:
            # A clock that is set, by however little, ends a wait. If it was set back by more than
            # we would wait, start immediately: the fire is decided. The doorbell can wait for the
            # next step.
            while 0 < until_ms - self._clock.now_ms() <= _MOST_LEAD_MS:
                sleeper.wait([], until_ms=until_ms)
        finally:
            self._engine.start_early()
