"""The state of the machine, as its kernel's files show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.base.bus_facts import BusFacts, Connectivity
from edgecron.base.clock import SystemClock
from edgecron.base.machine import KernelMachine
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine

HOUR_MS = 3_600_000


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path, FakeClock(1_773_000_000_000))


@pytest.mark.parametrize(
    ("four", "six", "expected"),
    [
        ("eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0", "", True),
        # A route to the local network only, and a default route that is down.
        ("eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0", "", False),
        ("eth0\t00000000\t0102A8C0\t0002\t0\t0\t0\t00000000\t0\t0\t0", "", False),
        ("", f"{'0' * 32} 00 {'0' * 32} 00 fe80{'0' * 28} 00 1 2 00000003 eth0", True),
        # The kernel's own route for what has none.
        ("", f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 1 0 00200200 lo", False),
    ],
)
def test_a_default_route_is_a_connection(
    machine: FakeMachine, four: str, six: str, expected: bool
) -> None:
    machine.set_routes(*([four] if four else []), six=six)

    assert machine.facts().is_online() is expected


def test_a_network_is_an_interface_that_is_up(machine: FakeMachine) -> None:
    machine.set_interface("wlan0", flags="0x1003", operstate="dormant")
    machine.set_interface("wg0", flags="0x91", operstate="unknown")
    machine.set_interface("tun0", flags="0x90", operstate="unknown")

    assert machine.facts().networks() == frozenset({"eth0", "wg0"})


def test_on_battery_no_supply_is_connected(machine: FakeMachine) -> None:
    before = machine.facts().is_on_mains()
    machine.set_on_mains(False)

    assert (before, machine.facts().is_on_mains()) == (True, False)


def test_a_machine_without_battery_is_on_mains_with_a_full_charge(tmp_path: Path) -> None:
    (tmp_path / "sys" / "class").mkdir(parents=True)
    desktop = KernelMachine(FakeClock(0), root=tmp_path)

    assert (desktop.is_on_mains(), desktop.battery_percent()) == (True, 100.0)


def test_the_battery_of_a_mouse_does_not_count(machine: FakeMachine) -> None:
    machine.set_supply("mouse", type="Battery", scope="Device", capacity="3")

    assert machine.facts().battery_percent() == 80.0


def test_batteries_count_by_their_size(machine: FakeMachine) -> None:
    machine.set_supply("BAT1", type="Battery", energy_now="30000", energy_full="30000")

    assert machine.facts().battery_percent() == 95.0


@pytest.mark.parametrize(
    "values",
    [
        {"charge_now": "1500", "charge_full": "3000"},
        {"capacity": "50"},
    ],
)
def test_a_battery_that_shows_no_energy_shows_its_charge(
    tmp_path: Path, values: dict[str, str]
) -> None:
    machine = FakeMachine(tmp_path, FakeClock(0))
    for file in (tmp_path / "sys/class/power_supply/BAT0").iterdir():
        file.unlink()
    machine.set_supply("BAT0", type="Battery", **values)

    assert machine.facts().battery_percent() == 50.0


def test_nobody_has_typed_since_the_newest_use_of_a_terminal(machine: FakeMachine) -> None:
    machine.type_at("pts/0")
    machine.clock.advance_ms(HOUR_MS)
    machine.type_at("tty2")
    machine.write("dev/ttyS0", "")  # a serial line is no terminal of a person
    machine.clock.advance_ms(60_000)

    assert machine.facts().idle_ms() == 60_000


def test_load_and_pressure_are_those_of_the_last_moments(machine: FakeMachine) -> None:
    facts = machine.facts()

    assert (facts.load(), facts.pressure_percent("io")) == (0.5, 1.5)
    assert facts.pressure_percent("cpu") is None  # this kernel shows none


def test_a_mount_is_found_by_its_path(machine: FakeMachine) -> None:
    machine.write("proc/self/mountinfo", "30 22 8:17 / /media/my\\040disk rw - vfat /dev/sdb1 rw\n")
    facts = machine.facts()

    assert facts.is_mounted("/media/my disk")
    assert not facts.is_mounted("/media")


def test_what_exists_is_seen_and_what_can_not_be_seen_is_unknown(machine: FakeMachine) -> None:
    machine.write("run/vpn.up", "")
    (machine.root / "loop").symlink_to("loop")
    facts = machine.facts()
    facts.look_at_paths(["/run/vpn.up", "/run/other", "/run/vpn.up/below", "/loop"])

    assert facts.exists("/run/vpn.up") is True
    assert facts.exists("/run/other") is False
    assert facts.exists("/run/vpn.up/below") is False
    assert facts.exists("/loop") is None


def test_free_space_is_that_of_the_path(machine: FakeMachine) -> None:
    facts = machine.facts()
    facts.look_at_paths(["/proc", "/nowhere"])

    assert (facts.free_bytes("/proc") or 0) > 0
    assert facts.free_bytes("/nowhere") is None


def test_a_machine_without_these_files_can_not_tell(tmp_path: Path) -> None:
    bare = KernelMachine(FakeClock(0), root=tmp_path)

    assert [
        bare.is_online(), bare.networks(), bare.is_on_mains(), bare.battery_percent(),
        bare.idle_ms(), bare.pressure_percent("io"),
    ] == [None] * 6  # fmt: skip


def test_the_real_machine_answers(tmp_path: Path) -> None:
    real = KernelMachine(SystemClock())
    real.look_at_paths([str(tmp_path)])

    assert isinstance(real.load(), float)
    assert real.is_mounted("/")
    assert (real.free_bytes(str(tmp_path)) or 0) > 0
    assert real.exists(str(tmp_path))


@pytest.mark.parametrize(
    ("connectivity", "is_online", "note"),
    [
        (None, True, None),
        (Connectivity.FULL, True, None),
        (Connectivity.PORTAL, False, "NetworkManager reports a login page"),
        (Connectivity.LIMITED, False, "NetworkManager reports no way to the internet"),
    ],
)
def test_network_manager_knows_where_a_default_route_leads(
    machine: FakeMachine, connectivity: Connectivity | None, is_online: bool, note: str | None
) -> None:
    machine.bus.report(connectivity=connectivity)
    facts = machine.facts()
    facts.look_at_bus()
    with_route = facts.is_online()
    machine.set_routes()

    assert (with_route, facts.online_note()) == (is_online, note)
    assert facts.is_online() is False


def test_reports_of_the_system_bus_count_until_they_are_forgotten(machine: FakeMachine) -> None:
    machine.bus.report(
        networks=frozenset({"Office"}),
        is_metered=True,
        is_on_battery=True,
        battery_percent=12.5,
        is_idle=True,
        idle_since_ms=machine.clock.now_ms() - HOUR_MS,
    )
    facts = machine.facts()

    def seen() -> tuple[object, ...]:
        return (
            facts.networks(), facts.is_unmetered(), facts.is_on_mains(), facts.battery_percent(),
            facts.idle_ms(),
        )  # fmt: skip

    before = seen()
    facts.look_at_bus()
    during = seen()
    facts.forget_bus()

    assert during == (frozenset({"eth0", "Office"}), False, False, 12.5, HOUR_MS)
    assert before == seen() == (frozenset({"eth0"}), None, True, 80.0, None)


def test_what_the_system_bus_might_know_is_unknown_until_it_answers(machine: FakeMachine) -> None:
    facts = machine.facts()
    machine.bus.facts = None
    facts.look_at_bus()

    assert [
        facts.is_online(), facts.networks(), facts.is_on_mains(), facts.battery_percent(),
        facts.idle_ms(), facts.is_unmetered(),
    ] == [None] * 6  # fmt: skip


def test_somebody_who_types_at_a_terminal_is_not_idle_whatever_logind_says(
    machine: FakeMachine,
) -> None:
    machine.type_at("pts/0")
    machine.clock.advance_ms(60_000)
    machine.bus.facts = BusFacts(is_idle=True, idle_since_ms=0)
    facts = machine.facts()
    facts.look_at_bus()

    assert facts.idle_ms() == 60_000


def test_terminals_lie_in_file_systems_of_the_kernel_which_always_answer() -> None:
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()]
    kinds = {fields[4]: fields[fields.index("-") + 1] for fields in mounts}

    assert kinds["/dev/pts"] == "devpts"
    assert kinds["/dev"] in ("devtmpfs", "tmpfs")
