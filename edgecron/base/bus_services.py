"""Read what services of the system bus report, and read it again after each signal of a change.

It talks to the bus through jeepney (the extra `dbus`), with a time limit for each answer. The
socket never blocks, and jeepney only reads and writes messages.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Mapping
from contextlib import closing

from jeepney import (
    DBusAddress,
    HeaderFields,
    MatchRule,
    Message,
    MessageFlag,
    MessageType,
    Parser,
    Properties,
    find_system_bus,
    message_bus,
)
from jeepney.auth import BEGIN, Authenticator

from edgecron.base.bus_facts import NO_FACTS, BusFacts, Connectivity
from edgecron.base.clock import SystemClock
from edgecron.base.values import NamedTuple

ANSWER_MS = 1_000  # how long the bus, or a service, may take to answer
_CHUNK = 65_536
_clock = SystemClock()  # A bus answers in true time.


class Stopped(Exception):
    """The owner of the connection has closed it."""


class BusObject(NamedTuple):
    """An object of a service, and the interface whose properties are of interest."""

    service: str
    path: str
    interface: str


class BusConnection:
    """One connection. Whenever `stop_fd` becomes readable, each call raises Stopped.

    All calls raise OSError if the bus is gone, does not answer or answers nonsense.
    """

    def __init__(self, stop_fd: int) -> None:
        self._parser = Parser()
        self._serial = 0
        self._has_news = False
        self._stop_fd = stop_fd
        try:
            address = find_system_bus()
        except (ValueError, RuntimeError) as error:  # of the environment
            raise ConnectionError(f"the address of the system bus is invalid: {error}") from error
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.setblocking(False)
            self._socket.connect(address)  # It fails rather than waits if the bus is too busy.
            self._authenticate()
            self._call(message_bus.Hello())
        except BaseException:
            self.close()  # The caller gets no connection that it could close.
            raise

    def close(self) -> None:
        self._socket.close()

    def follow(self, service: str) -> None:
        """Have the bus report when a service appears or disappears."""
        rule = MatchRule(
            type="signal",
            sender="org.freedesktop.DBus",
            interface="org.freedesktop.DBus",
            member="NameOwnerChanged",
        )
        rule.add_arg_condition(0, service)
        self._call(message_bus.AddMatch(rule))

    def follow_changes(self, service: str, *, path: str, with_children: bool = False) -> None:
        """Have the bus report changes of an object, or of all whose paths begin with its path."""
        rule = MatchRule(
            type="signal",
            sender=service,
            member="PropertiesChanged",
            path=None if with_children else path,
            path_namespace=path if with_children else None,
        )
        self._call(message_bus.AddMatch(rule))

    def read(self, one: BusObject) -> Mapping[str, object] | None:
        """The properties of an object; None if there is no such object or service."""
        address = DBusAddress(one.path, bus_name=one.service, interface=one.interface)
        message = Properties(address).get_all()
        # Do not have the bus start a service that is not running.
        message.header.flags |= MessageFlag.no_auto_start
        reply = self._call(message)
        if reply.header.message_type is not MessageType.method_return:
            return None
        found = reply.body[0] if reply.body else None
        if not isinstance(found, dict):
            return None
        # A property is a pair of its type and its value.
        return {name: value[1] for name, value in found.items() if isinstance(value, tuple)}

    def wait(self, wait_ms: int | None) -> bool:
        """Wait for a signal, without an end for None; whether one has come since the last call."""
        until_ms = None if wait_ms is None else _clock.monotonic_ms() + wait_ms
        while not self._has_news:
            left_ms = None if until_ms is None else max(0, until_ms - _clock.monotonic_ms())
            if not self._is_readable(left_ms):
                return False
            self._take()
        self._has_news = False
        return True

    def _authenticate(self) -> None:
        login = Authenticator()
        for text in login:
            self._send(text)
            if not self._is_readable(ANSWER_MS):
                raise TimeoutError("the system bus did not answer")
            try:
                login.feed(self._receive())
            except ValueError as error:
                raise ConnectionError(f"the system bus refused the login: {error}") from error
        self._send(BEGIN)

    def _call(self, message: Message) -> Message:
        self._serial += 1
        self._send(message.serialise(serial=self._serial))
        until_ms = _clock.monotonic_ms() + ANSWER_MS
        while self._is_readable(max(0, until_ms - _clock.monotonic_ms())):
            for one in self._take():
                if one.header.fields.get(HeaderFields.reply_serial) == self._serial:
                    return one
        raise TimeoutError("the system bus or its service did not answer")

    def _take(self) -> list[Message]:
        """The messages that are complete now; a signal counts as news."""
        content = self._receive()
        try:
            found: list[Message] = self._parser.feed(content)
        except Exception as error:  # whatever a parser raises for nonsense
            raise ConnectionError(f"the system bus sent nonsense: {error}") from error
        self._has_news |= any(one.header.message_type is MessageType.signal for one in found)
        return found

    def _is_readable(self, wait_ms: int | None) -> bool:
        poll = select.poll()
        poll.register(self._stop_fd, select.POLLIN)
        poll.register(self._socket, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(wait_ms)}
        if self._stop_fd in ready:
            raise Stopped
        return bool(ready)

    def _receive(self) -> bytes:
        content = self._socket.recv(_CHUNK)
        if not content:
            raise ConnectionResetError("the system bus has closed the connection")
        return content

    def _send(self, content: bytes) -> None:
        if self._socket.send(content) < len(content):
            raise ConnectionError("the system bus takes no more messages")


_GATHER_MS = 50  # signals often come several at a time
_RESTART_MS = 5_000  # a service that restarts is back by then
_PAUSES_MS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000)  # between two tries
_MOST_CONNECTIONS = 32

_NETWORK = "org.freedesktop.NetworkManager"
_NETWORK_PATH = "/org/freedesktop/NetworkManager"
_CONNECTIONS_PATH = f"{_NETWORK_PATH}/ActiveConnection"
_POWER = "org.freedesktop.UPower"
_POWER_PATH = "/org/freedesktop/UPower"
_BATTERIES_PATH = f"{_POWER_PATH}/devices/DisplayDevice"  # all batteries together
_LOGIN = "org.freedesktop.login1"
_LOGIN_PATH = "/org/freedesktop/login1"

# The numbers of NetworkManager and UPower.
_CONNECTIVITY = {2: Connectivity.PORTAL, 3: Connectivity.LIMITED, 4: Connectivity.FULL}
_IS_METERED = {1: True, 2: False, 3: True, 4: False}  # known, known, guessed, guessed
_ACTIVATED = 2
_BATTERY_TYPES = (2, 3)  # a battery, an uninterruptible supply


def report(publish: Callable[[BusFacts], None], *, stop_fd: int) -> None:
    """Publish the facts and their changes until `stop_fd` becomes readable."""
    reporter = _Reporter(publish, stop_fd)
    while not reporter.is_stopped(0):
        try:
            reporter.follow()
        except Stopped:
            return
        except OSError:
            # The bus might be restarting: earlier facts count until the next try.
            if reporter.failures or not reporter.has_facts:
                publish(NO_FACTS)
        pause_ms = _PAUSES_MS[min(reporter.failures, len(_PAUSES_MS) - 1)]
        reporter.failures += 1
        if reporter.is_stopped(pause_ms):
            return


class _Reporter:
    """The state between two connections.

    `failures` counts tries since all services answered. `has_facts`: it has ever published any.
    """

    def __init__(self, publish: Callable[[BusFacts], None], stop_fd: int) -> None:
        self._publish = publish
        self._stop_fd = stop_fd
        self._present: frozenset[str] = frozenset()  # services that answered
        self.failures = 0
        self.has_facts = False

    def follow(self) -> None:
        """Publish facts until the bus is gone, or a service does not answer. Raises OSError."""
        with closing(BusConnection(self._stop_fd)) as connection:
            _subscribe(connection)
            while self._read(connection):
                self.failures = 0
                connection.wait(None)
                connection.wait(_GATHER_MS)

    def is_stopped(self, wait_ms: int) -> bool:
        poll = select.poll()
        poll.register(self._stop_fd, select.POLLIN)
        return bool(poll.poll(wait_ms))

    def _read(self, connection: BusConnection) -> bool:
        """Publish the facts; whether all services that are present answered."""
        until_ms = _clock.monotonic_ms() + _RESTART_MS
        found = _Reading(connection)
        # Without NetworkManager, a hotel's login page would look like the internet.
        while self._present - found.present and not found.silent:
            left_ms = until_ms - _clock.monotonic_ms()
            if left_ms <= 0:
                break
            connection.wait(left_ms)
            found = _Reading(connection)
        self._present = frozenset(found.present)
        self._publish(found.facts)
        self.has_facts = True
        return not found.silent


class _Reading:
    """One reading of all services."""

    def __init__(self, connection: BusConnection) -> None:
        self._connection = connection
        self.present: set[str] = set()
        self.silent: set[str] = set()
        network = self._read(_NETWORK, _NETWORK_PATH)
        power = self._read(_POWER, _POWER_PATH)
        batteries = self._read(_POWER, _BATTERIES_PATH, f"{_POWER}.Device")
        login = self._read(_LOGIN, _LOGIN_PATH, f"{_LOGIN}.Manager")
        self.facts = BusFacts(
            connectivity=_CONNECTIVITY.get(_number(network, "Connectivity")),
            is_metered=_IS_METERED.get(_number(network, "Metered")),
            networks=self._networks(network),
            is_on_battery=_claim(power, "OnBattery"),
            battery_percent=_percent(batteries),
            is_idle=_claim(login, "IdleHint"),
            idle_since_ms=max(0, _number(login, "IdleSinceHint")) // 1000,
        )

    def _read(self, service: str, path: str, interface: str | None = None) -> Mapping[str, object]:
        if service in self.silent:
            return {}
        try:
            found = self._connection.read(BusObject(service, path, interface or service))
        except TimeoutError:
            self.silent.add(service)
            return {}
        if found is not None:
            self.present.add(service)
        return found or {}

    def _networks(self, network: Mapping[str, object]) -> frozenset[str]:
        """The names of active connections, and of the wireless networks that are joined."""
        paths = network.get("ActiveConnections")
        names = set()
        for path in paths[:_MOST_CONNECTIONS] if isinstance(paths, list) else ():
            if not isinstance(path, str):
                continue
            connection = self._read(_NETWORK, path, f"{_NETWORK}.Connection.Active")
            if _number(connection, "State") != _ACTIVATED:
                continue
            name = connection.get("Id")
            if isinstance(name, str):
                names.add(name)
            joined = connection.get("SpecificObject")
            if isinstance(joined, str) and "/AccessPoint/" in joined:
                ssid = self._read(_NETWORK, joined, f"{_NETWORK}.AccessPoint").get("Ssid")
                if isinstance(ssid, bytes):
                    names.add(ssid.decode("utf-8", "replace"))
        return frozenset(names)


def _subscribe(connection: BusConnection) -> None:
    for service in (_NETWORK, _POWER, _LOGIN):
        connection.follow(service)
    connection.follow_changes(_NETWORK, path=_NETWORK_PATH)
    connection.follow_changes(_NETWORK, path=_CONNECTIONS_PATH, with_children=True)
    connection.follow_changes(_POWER, path=_POWER_PATH)
    connection.follow_changes(_POWER, path=_BATTERIES_PATH)
    connection.follow_changes(_LOGIN, path=_LOGIN_PATH)


def _number(properties: Mapping[str, object], name: str) -> int:
    value = properties.get(name)
    return value if isinstance(value, int) else 0


def _claim(properties: Mapping[str, object], name: str) -> bool | None:
    value = properties.get(name)
    return value if isinstance(value, bool) else None


def _percent(batteries: Mapping[str, object]) -> float | None:
    percent = batteries.get("Percentage")
    is_there = batteries.get("IsPresent") is True and batteries.get("Type") in _BATTERY_TYPES
    if not is_there or not isinstance(percent, float) or not 0 <= percent <= 100:
        return None
    return percent
