"""Show the service manager's and the database's state of a service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import EdgecronError
from edgecron.base.paths import database_path, is_there, user_name
from edgecron.cli.output import paint
from edgecron.cli.service_files import (
    Manager,
    Scope,
    Service,
    is_ours,
    launchd_label,
    read_exec_line,
    was_ours,
)
from edgecron.cli.service_machine import ask, ask_systemd, find_manager, read_texts
from edgecron.cli.session import Session
from edgecron.client import Client

if TYPE_CHECKING:
    from edgecron.cli.service_plan import Places

_NOT_INSTALLED = 3  # as for all things that do not exist


def show(cli: Session, manager: Manager, *, scope: str, name: str, places: Places) -> int:
    """Show the state of a service; return the exit code."""
    service = Service(program=("/",), scope=Scope(scope), name=name)
    if manager in (Manager.OPENRC, Manager.PROCD):
        facts = _facts(service, manager)
        facts["file"] = _script(places, service)
    elif manager is Manager.LAUNCHD:
        facts = _launchd_facts(service, places)
    else:
        facts = _systemd_facts(service, places)
    facts |= _engine_facts(cli, facts["database"])
    if cli.is_json:
        cli.put_json([facts])
    else:
        _put(cli, facts)
    if facts["file"] is None:
        return _NOT_INSTALLED
    return 0 if facts["engine_alive"] else 1


def _facts(service: Service, manager: Manager) -> dict[str, Any]:
    return {
        "service": service.id,
        "scope": service.scope.value,
        "manager": manager.value,
        "manager_runs": True,
        "file": None,
        "changed": None,
        "drop_ins": [],
        "enabled": None,
        "active": None,
        "pid": None,
        "says": None,
        "linger": None,
        "program": None,
        "database": None,
    }


def _systemd_facts(service: Service, places: Places) -> dict[str, Any]:
    facts = _facts(service, Manager.SYSTEMD)
    texts = read_texts([places.unit(service), *places.packaged_units(service)])
    facts["drop_ins"] = sorted(str(path) for path in places.drop_ins(service).glob("*.conf"))
    if service.scope is Scope.USER:
        facts["linger"] = places.linger_mark(user_name()).exists()
    for path, text in texts.items():
        facts |= {"file": str(path), "changed": was_ours(text) and not is_ours(text)}
        lines = [line for line in text.splitlines() if line.startswith("ExecStart=")]
        words = read_exec_line(lines[-1].partition("=")[2]) if lines else ()
        facts |= _command_facts(words)
        break
    facts["manager_runs"] = find_manager(root=places.root) is Manager.SYSTEMD
    state = ask_systemd(service) if facts["manager_runs"] and places.root == Path("/") else None
    if state is not None:
        facts |= {"active": state.active, "enabled": state.enabled, "pid": state.pid}
        facts["says"] = state.says
    elif places.has_link(service):
        facts["enabled"] = "enabled"
    return facts


def _launchd_facts(service: Service, places: Places) -> dict[str, Any]:
    import plistlib

    facts = _facts(service, Manager.LAUNCHD)
    path = places.plist(service)
    text = read_texts([path]).get(path)
    if text is not None:
        facts |= {"file": str(path), "changed": was_ours(text) and not is_ours(text)}
        facts |= _command_facts(tuple(plistlib.loads(text.encode()).get("ProgramArguments", ())))
    domain = "system" if service.scope is Scope.SYSTEM else f"gui/{os.getuid()}"
    answer = ask(["launchctl", "print", f"{domain}/{launchd_label(service)}"])
    facts["manager_runs"] = answer.code != 127
    if facts["manager_runs"]:
        is_loaded = answer.code == 0
        states = [
            line.split("=")[1].strip() for line in answer.out.splitlines() if "state =" in line
        ]
        facts["active"] = (states or ["loaded"])[0] if is_loaded else "not loaded"
        facts["enabled"] = "enabled" if is_loaded else "not loaded"
    return facts


def _script(places: Places, service: Service) -> str | None:
    path = places.root / "etc/init.d" / service.id
    return str(path) if path.exists() else None


def _command_facts(words: tuple[str, ...]) -> dict[str, Any]:
    """Read the program and the database of a command line."""
    before = words[: words.index("daemon")] if "daemon" in words else words
    at = next((at for at, word in enumerate(before) if word in ("--db", "--config")), len(before))
    named = before[before.index("--db") + 1] if "--db" in before[:-1] else None
    return {"program": " ".join(before[:at]) or None, "database": named}


def _engine_facts(cli: Session, named: str | None) -> dict[str, Any]:
    """Ask the database whether an engine is running."""
    path = cli.own_database_path() if named is None else database_path(named)
    facts: dict[str, Any] = {"database": str(path), "engine_alive": False, "engine_pid": None}
    facts["database_error"] = None
    try:
        if not is_there(path):
            return facts
        with Client(path, must_exist=True) as client:
            alive = [each for each in client.engines() if each.is_alive and each.info.queues]
    except EdgecronError as error:
        facts["database_error"] = error.message
        return facts
    if alive:
        facts |= {"engine_alive": True, "engine_pid": alive[0].info.pid}
    return facts


def _put(cli: Session, facts: dict[str, Any]) -> None:
    is_colored = cli.use_color(sys.stdout)

    def line(label: str, text: str, style: str | None = None) -> None:
        shown = paint(text, style, is_on=is_colored)
        cli.put_data(f"{paint(f'{label:<10}', 'dim', is_on=is_colored)}{shown}")

    line("service", f"{facts['service']}, of the {facts['scope']}, by {facts['manager']}")
    if facts["file"] is None:
        line("file", "none: it is not installed", "yellow")
    else:
        changed = ", changed since edgecron wrote it" if facts["changed"] else ""
        line("file", f"{facts['file']}{changed}")
    for path in facts["drop_ins"]:
        line("", path)
    if not facts["manager_runs"]:
        line(
            "state",
            f"{facts['manager']} does not run here, so the service does not start",
            "yellow",
        )
    elif facts["active"] is not None:
        pid = f", pid {facts['pid']}" if facts["pid"] else ""
        says = f": {facts['says']}" if facts["says"] else ""
        is_active = facts["active"].startswith(("active", "running"))
        line("state", f"{facts['active']}{pid}{says}", "green" if is_active else "red")
    if facts["enabled"] is not None:
        line("enabled", facts["enabled"])
    if facts["linger"] is not None:
        words = (
            "yes: it runs from boot on"
            if facts["linger"]
            else ("no: it runs while you are logged in; to change that: loginctl enable-linger")
        )
        line("linger", words)
    if facts["program"]:
        line("program", facts["program"])
    line("database", facts["database"])
    if facts["database_error"]:
        line("engine", f"unknown: {facts['database_error']}", "yellow")
    elif facts["engine_alive"]:
        line("engine", f"running, pid {facts['engine_pid']}", "green")
    else:
        line("engine", "no engine is running", "red")
