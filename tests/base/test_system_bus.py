"""The reports of NetworkManager, UPower and logind, over a real bus, and a bus that fails."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgecron.base.bus_facts import NO_FACTS, BusFacts, Connectivity
from edgecron.base.clock import SystemClock
from edgecron.base.system_bus import SystemBus
from tests.support.systembus import LOGIN, NETWORK, POWER, MockedBus

_WAIT_S = 30.0
_clock = SystemClock()


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MockedBus]:
    with MockedBus(tmp_path / "dbus") as mocked:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", mocked.address)
        yield mocked


@pytest.fixture
def seen() -> Iterator[SystemBus]:
    found = SystemBus()
    yield found
    found.forget()


def wait_for(seen: SystemBus, is_right: Callable[[BusFacts], bool]) -> BusFacts:
    """Wait for facts, awakened by the descriptor only."""
    until_ms = _clock.monotonic_ms() + round(_WAIT_S * 1000)
    facts = seen.look(wait_s=_WAIT_S)
    while facts is None or not is_right(facts):
        left_s = max(0, until_ms - _clock.monotonic_ms()) / 1000
        has_news = select.select(seen.filenos(), [], [], left_s)[0]
        assert has_news, f"the right facts did not come: {facts}"
        seen.clear()
        facts = seen.look(wait_s=0)
    return facts


def test_network_manager_reports_a_login_page_and_its_end(bus: MockedBus, seen: SystemBus) -> None:
    bus.add_service("networkmanager")
    bus.set(NETWORK, "Connectivity", "u", 2)
    before = seen.look(wait_s=_WAIT_S)

    bus.set(NETWORK, "Connectivity", "u", 4)
    after = wait_for(seen, lambda facts: facts.connectivity is Connectivity.FULL)

    assert before is not None
    assert before.connectivity is Connectivity.PORTAL
    assert after._replace(connectivity=None) == NO_FACTS


@pytest.mark.parametrize(
    ("number", "is_metered"), [(0, None), (1, True), (2, False), (3, True), (4, False), (9, None)]
)
def test_network_manager_reports_whether_the_network_is_metered(
    bus: MockedBus, seen: SystemBus, number: int, is_metered: bool | None
) -> None:
    bus.add_service("networkmanager")
    bus.add_property(NETWORK, "Metered", "u", number)

    facts = seen.look(wait_s=_WAIT_S)

    assert facts is not None
    assert facts.is_metered is is_metered


def test_a_network_is_active_by_the_name_of_its_connection_and_of_its_wifi(
    bus: MockedBus, seen: SystemBus
) -> None:
    bus.add_service("networkmanager")
    point = f"{NETWORK.object_path}/AccessPoint/1"
    bus.add_object(
        NETWORK,
        point,
        f"{NETWORK.interface}.AccessPoint",
        {"Ssid": ("ay", "Hôtel 7".encode())},
    )
    connection = bus.add_object(
        NETWORK,
        f"{NETWORK.object_path}/ActiveConnection/1",
        f"{NETWORK.interface}.Connection.Active",
        {"Id": ("s", "Holiday"), "State": ("u", 1), "SpecificObject": ("o", point)},
    )
    before = seen.look(wait_s=_WAIT_S)

    bus.set(NETWORK, "ActiveConnections", "ao", [connection.object_path])
    bus.set(connection, "State", "u", 2)
    joined = wait_for(seen, lambda facts: bool(facts.networks))
    bus.set(connection, "State", "u", 3)
    left = wait_for(seen, lambda facts: not facts.networks)

    assert before is not None
    assert (before.networks, left.networks) == (frozenset(), frozenset())
    assert joined.networks == frozenset({"Holiday", "Hôtel 7"})


def test_upower_reports_the_supply_and_the_charge(bus: MockedBus, seen: SystemBus) -> None:
    bus.add_service("upower")
    batteries = POWER.with_interface(f"{POWER.interface}.Device")
    batteries.object_path = f"{POWER.object_path}/devices/DisplayDevice"
    before = seen.look(wait_s=_WAIT_S)

    bus.set(POWER, "OnBattery", "b", True)
    bus.set(batteries, "Type", "u", 2)
    bus.set(batteries, "IsPresent", "b", True)
    bus.set(batteries, "Percentage", "d", 41.5)
    after = wait_for(seen, lambda facts: facts.battery_percent == 41.5)

    assert before is not None
    assert (before.is_on_battery, before.battery_percent) == (False, None)
    assert after.is_on_battery is True


def test_logind_reports_since_when_nobody_types(bus: MockedBus, seen: SystemBus) -> None:
    bus.add_service("logind")
    before = seen.look(wait_s=_WAIT_S)

    bus.set(LOGIN, "IdleSinceHint", "t", 1_800_000_000_000_000)
    bus.set(LOGIN, "IdleHint", "b", True)
    after = wait_for(seen, lambda facts: facts.is_idle is True)

    assert before is not None
    assert before.is_idle is False
    assert after.idle_since_ms == 1_800_000_000_000


def test_a_service_that_starts_later_or_ends_is_noticed(bus: MockedBus, seen: SystemBus) -> None:
    before = seen.look(wait_s=_WAIT_S)

    bus.add_service("upower")
    during = wait_for(seen, lambda facts: facts.is_on_battery is not None)
    bus.end_service("upower")
    after = wait_for(seen, lambda facts: facts.is_on_battery is None)

    assert (before, after) == (NO_FACTS, NO_FACTS)
    assert during.is_on_battery is False


def test_a_service_that_hangs_does_not_hide_the_others(bus: MockedBus, seen: SystemBus) -> None:
    bus.add_service("networkmanager")
    bus.add_service("upower")
    bus.freeze_service("networkmanager")
    hanging = wait_for(seen, lambda facts: facts.is_on_battery is not None)

    bus.thaw_service("networkmanager")
    answering = wait_for(seen, lambda facts: facts.connectivity is not None)

    assert hanging.connectivity is None
    assert answering.connectivity is Connectivity.FULL


def test_a_bus_that_restarts_is_found_again(bus: MockedBus, seen: SystemBus) -> None:
    bus.add_service("upower")
    before = seen.look(wait_s=_WAIT_S)

    bus.end_service("upower")
    bus.stop()
    gone = wait_for(seen, lambda facts: facts.is_on_battery is None)
    bus.start()
    bus.add_service("upower")
    after = wait_for(seen, lambda facts: facts.is_on_battery is not None)

    assert gone == NO_FACTS
    assert before == after


def test_a_bus_that_hangs_has_no_services_after_a_while(bus: MockedBus, seen: SystemBus) -> None:
    bus.freeze()
    try:
        first = seen.look(wait_s=0.05)
        facts = wait_for(seen, lambda _: True)
    finally:
        bus.thaw()

    assert first is None
    assert facts == NO_FACTS


def test_without_a_bus_there_is_no_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: SystemBus
) -> None:
    for address in (f"unix:path={tmp_path / 'nobody'}", "tcp:host=example.org", "nonsense"):
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)

        assert seen.look(wait_s=_WAIT_S) == NO_FACTS
        seen.forget()


@pytest.mark.parametrize(
    "answers",
    [
        [b"REJECTED\r\n"],
        [b"x" * 100_000],
        [b"OK 1234\r\n", b"\0" * 4096],
        [b"OK 1234\r\n", b"l\2\1\1" + b"\xff" * 4096],
        [b"OK 1234\r\n", os.urandom(4096)],
    ],
)
def test_a_bus_that_answers_nonsense_has_no_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: SystemBus, answers: list[bytes]
) -> None:
    path = tmp_path / "bus"
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={path}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        answering = threading.Thread(target=_answer, args=(server, answers), name="nonsense")
        answering.start()

        facts = wait_for(seen, lambda _: True)
        seen.forget()
        server.shutdown(socket.SHUT_RDWR)
        answering.join(_WAIT_S)

    assert facts == NO_FACTS


def _answer(server: socket.socket, answers: list[bytes]) -> None:
    """Give each connection the same answers, one for each thing it sends."""
    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        with peer:
            for answer in answers:
                if not peer.recv(4096):
                    break
                peer.sendall(answer)


def test_nobody_listens_after_the_last_question(bus: MockedBus, seen: SystemBus) -> None:
    bus.add_service("upower")
    seen.look(wait_s=_WAIT_S)
    [fd] = seen.filenos()
    during = [one.name for one in threading.enumerate() if one.name == "edgecron-bus"]

    seen.forget()
    left = [one for one in threading.enumerate() if one.name == "edgecron-bus"]
    for one in left:
        one.join(_WAIT_S)

    assert during == ["edgecron-bus"]
    assert seen.filenos() == []
    assert not any(one.is_alive() for one in left)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
