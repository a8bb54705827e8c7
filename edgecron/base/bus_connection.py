"""Talk to the system bus through jeepney (the extra `dbus`), with a time limit for each answer.

The socket never blocks, and jeepney only reads and writes messages.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping

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
            self.close()  # Nobody else has the connection yet.
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
