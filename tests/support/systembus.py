"""A system bus of one's own: a real dbus-daemon, and services that python-dbusmock plays."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType

from jeepney import DBusAddress, Message, MessageType, Properties, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from tests.support.tools import SYSTEM_PYTHON, need_dbusmock

_MOCK = "org.freedesktop.DBus.Mock"
_WAIT_S = 30.0
_NO_METHODS: list[tuple[str, str, str, str]] = []
_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={path}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
NETWORK = DBusAddress(
    "/org/freedesktop/NetworkManager",
    bus_name="org.freedesktop.NetworkManager",
    interface="org.freedesktop.NetworkManager",
)
POWER = DBusAddress(
    "/org/freedesktop/UPower",
    bus_name="org.freedesktop.UPower",
    interface="org.freedesktop.UPower",
)
LOGIN = DBusAddress(
    "/org/freedesktop/login1",
    bus_name="org.freedesktop.login1",
    interface="org.freedesktop.login1.Manager",
)
_TEMPLATES = {
    "networkmanager": NETWORK,
    "upower": POWER,
    "logind": LOGIN,
}


class MockedBus:
    """The bus. Set `DBUS_SYSTEM_BUS_ADDRESS` to its `address` to have programs use it."""

    def __init__(self, folder: Path) -> None:
        need_dbusmock()
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "bus"
        self.address = f"unix:path={self.socket}"
        self._config = folder / "bus.conf"
        self._config.write_text(_CONFIG.format(path=self.socket))
        self._services: dict[str, subprocess.Popen[str]] = {}
        self._daemon: subprocess.Popen[str] | None = None
        self._connection: DBusConnection | None = None

    def __enter__(self) -> MockedBus:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self._services):
            self.end_service(name)
        self.stop()

    def start(self) -> None:
        """Start the bus, without any service."""
        self._daemon = subprocess.Popen(
            ["dbus-daemon", f"--config-file={self._config}", "--nofork", "--print-address"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._daemon.stdout is not None
        assert self._daemon.stdout.readline()
        self._connection = open_dbus_connection(self.address, auth_timeout=_WAIT_S)

    def stop(self) -> None:
        """Kill the bus."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.communicate()
            self._daemon = None
        self.socket.unlink(missing_ok=True)

    def add_service(self, template: str) -> None:
        """Start a service from a template of python-dbusmock, and wait until it is there."""
        command = [SYSTEM_PYTHON, "-m", "dbusmock", "--system", "--template", template]
        self._services[template] = subprocess.Popen(
            command,
            env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": self.address},
            stdout=subprocess.PIPE,
            text=True,
        )
        service = _TEMPLATES[template]
        owner = DBusAddress(
            "/org/freedesktop/DBus",
            bus_name="org.freedesktop.DBus",
            interface="org.freedesktop.DBus",
        )
        while not self.call(owner, "NameHasOwner", "s", (service.bus_name,))[0]:
            assert self._services[template].poll() is None, f"{template} has ended"

    def end_service(self, template: str) -> None:
        service = self._services.pop(template)
        service.kill()
        service.communicate()

    def freeze_service(self, template: str) -> None:
        """Let a service hang until `thaw_service`."""
        self._services[template].send_signal(signal.SIGSTOP)

    def thaw_service(self, template: str) -> None:
        self._services[template].send_signal(signal.SIGCONT)

    def freeze(self) -> None:
        """Let the bus itself hang until `thaw`."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGCONT)

    def call(
        self,
        of: DBusAddress,
        method: str,
        signature: str | None = None,
        body: tuple[object, ...] = (),
    ) -> tuple[object, ...]:
        return self._send(new_method_call(of, method, signature, body))

    def set(self, of: DBusAddress, name: str, signature: str, value: object) -> None:
        """Set a property: the service reports the change to all who listen."""
        self._send(Properties(of).set(name, signature, value))

    def add_property(self, of: DBusAddress, name: str, signature: str, value: object) -> None:
        """Give a service a property that its template lacks."""
        body = (of.interface, name, (signature, value))
        self.call(of.with_interface(_MOCK), "AddProperty", "ssv", body)

    def add_object(
        self, of: DBusAddress, path: str, interface: str, properties: dict[str, tuple[str, object]]
    ) -> DBusAddress:
        """Give a service an object with properties."""
        body = (path, interface, properties, _NO_METHODS)
        self.call(of.with_interface(_MOCK), "AddObject", "ssa{sv}a(ssss)", body)
        return DBusAddress(path, bus_name=of.bus_name, interface=interface)

    def _send(self, message: Message) -> tuple[object, ...]:
        assert self._connection is not None
        reply = self._connection.send_and_get_reply(message, timeout=_WAIT_S)
        assert reply.header.message_type is MessageType.method_return, reply.body
        body: tuple[object, ...] = reply.body
        return body
