"""Install the engine as a service.

    edgecron service install             for you, or as root for the machine
    edgecron service install --dry-run   show what install would do
    edgecron service install --linger    for you, also without a login
    edgecron service status
    edgecron service uninstall

With systemd, edgecron writes a unit, enables it and starts it. With launchd, it writes a property
list. `print --for openrc` prints the file for you to install. The service manager restarts an
engine that hangs. Jobs continue during the restart, and the new engine adopts them.

A user's service ends with the user's last session, unless you enable lingering (--linger, or
loginctl enable-linger). The service uses the database that --db names, and passes --http and
--token-file to the daemon. All other settings come from the configuration.

`install` shows each step and can be repeated: it only changes what differs. If someone has changed
a file, edgecron shows the change and replaces the file only with --force. edgecron never changes
drop-ins (systemctl edit). `uninstall` keeps the database.

`status` exits with 0 if an engine is running, 1 if none is, and 3 if no service is installed.
"""

from __future__ import annotations

import os
import plistlib
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from edgecron import __version__
from edgecron.base.errors import EdgecronError, NotSupported, UsageError
from edgecron.base.paths import is_root, read_location, user_name
from edgecron.base.value_texts import read_choice
from edgecron.cli.output import paint
from edgecron.cli.parser import Parser, add_http_argument
from edgecron.cli.service_files import (
    Manager,
    Scope,
    Service,
    is_ours,
    launchd_label,
    launchd_plist,
    openrc_script,
    procd_script,
    read_exec_line,
    strict_drop_in,
    systemd_unit,
    was_ours,
)
from edgecron.cli.service_machine import (
    ask,
    ask_systemd,
    carry_out,
    check_http,
    check_program,
    find_manager,
    launchd_steps,
    lingers,
    places_of,
    read_texts,
    scope_of,
    systemd_steps,
    wanted_service,
    warn_of_weakness,
)
from edgecron.cli.service_plan import (
    Call,
    MakeLink,
    Remove,
    Step,
    WriteFile,
    diff_lines,
)
from edgecron.cli.session import Session
from edgecron.client import Client

if TYPE_CHECKING:
    from edgecron.cli.service_plan import Places


def add_arguments(parser: Parser) -> None:
    parser.add("install|uninstall|status|print", "choose an action", dest="action")
    parser.add("--user", "install for you (default unless you are root)")
    parser.add("--system", "install for the machine (default for root)")
    parser.add("--name TEXT", "name one of several services, each with its own --db", default="")
    parser.add("--program PATH", "run this program (default: this one)")
    add_http_argument(parser)
    parser.add("--linger", "run your service without a login, too")
    parser.add("--strict", "add a drop-in that restricts jobs")
    parser.add(
        "--for systemd|launchd|openrc|procd", "write files for this service manager", dest="manager"
    )
    parser.add("--root FOLDER", "write files below this folder; start nothing")
    parser.add("--dry-run", "show the steps; change nothing")
    parser.add("--force", "replace files that someone has changed")


def run(cli: Session, args: Namespace) -> int:
    actions = {"install": _install, "uninstall": _uninstall, "status": _status, "print": _print}
    if args.action not in actions:
        from edgecron.cli.suggestions import refuse_action  # Only for errors.

        refuse_action("service", args.action, actions)
    if args.action != "uninstall":
        # An engine uses no other machine. Checked first: --token-file can belong to --url.
        cli.location()
    _check(cli, args)
    return actions[args.action](cli, args)


def _check(cli: Session, args: Namespace) -> None:
    """Raise UsageError for options that mean nothing together."""
    if args.user and args.system:
        raise UsageError("--user and --system are given, expected one of them")
    if args.linger and scope_of(args) == "system":
        raise UsageError(
            "--linger only works with --user",
            hint="leave out --linger: the machine's service starts at each boot",
        )
    if cli.token_file is not None and args.http is None:
        raise UsageError("--token-file only works with --http")
    if args.name and cli.database is None and args.action in ("install", "print"):
        raise UsageError(
            f"a service named {args.name!r} needs a database of its own", hint="also give --db PATH"
        )
    lonely = {
        "print": ("dry_run", "force", "root", "linger"),
        "uninstall": ("http", "program", "linger"),
        "status": ("dry_run", "force", "strict", "http", "program", "linger"),
        "install": (),
    }
    for name in lonely[args.action]:
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} does not work with {args.action}")


def _manager(args: Namespace, *, needed: bool) -> Manager:
    """Choose the service manager. Raises NotSupported if one is `needed` and none runs here."""
    here = find_manager()
    if args.manager is not None:
        manager = read_choice(args.manager, Manager, what="--for")
        if needed and args.root is None and manager is not here:
            raise NotSupported(
                f"{manager} does not run here", hint=f"see: edgecron service print --for {manager}"
            )
    elif args.root is not None or not needed:
        manager = here or (Manager.LAUNCHD if sys.platform == "darwin" else Manager.SYSTEMD)
    elif here is None:
        raise NotSupported(
            "no supported service manager is running: expected systemd, launchd, OpenRC or procd",
            hint="in a container, run edgecron daemon; for a machine's image, use --root;"
            " for a file to install yourself: edgecron service print",
        )
    else:
        manager = here
    if args.action in ("install", "uninstall") and manager in (Manager.OPENRC, Manager.PROCD):
        raise NotSupported(
            f"edgecron can't {args.action} services of {manager}",
            hint=f"edgecron service print --for {manager} prints the file and its place",
        )
    return manager


def _print(cli: Session, args: Namespace) -> int:
    service, manager = wanted_service(cli, args), _manager(args, needed=False)
    if args.strict and manager is not Manager.SYSTEMD:
        raise UsageError(f"--strict only works with systemd, not with {manager}")
    texts = {
        Manager.SYSTEMD: strict_drop_in if args.strict else systemd_unit,
        Manager.LAUNCHD: lambda each: launchd_plist(each, home=PurePosixPath(Path.home())),
        Manager.OPENRC: openrc_script,
        Manager.PROCD: procd_script,
    }
    text = texts[manager](service)
    if cli.is_json:
        cli.put_json([{"manager": manager.value, "name": service.id, "text": text}])
    else:
        cli.put_data(text.removesuffix("\n"))
    return 0


def _install(cli: Session, args: Namespace) -> int:
    manager = _manager(args, needed=not args.dry_run)
    service = wanted_service(cli, args)
    if args.root is None:
        cli.check_folder()
        check_http(cli, service)
        _refuse_rights(args, service.scope)
        check_program(service.program, version=__version__)
        warn_of_weakness(cli, service)
    steps = _carry_out(cli, args, service, manager)
    if not args.dry_run and not cli.is_json:
        _say_installed(cli, args, service, has_changed=bool(steps))
    return 0


def _uninstall(cli: Session, args: Namespace) -> int:
    service = Service(program=("/",), scope=Scope(scope_of(args)), name=args.name)
    if not args.dry_run and _is_absent(args, service):
        if not cli.is_json:
            cli.say(f"service {service.id} is not installed")
        return 0
    manager = _manager(args, needed=not args.dry_run)
    if args.root is None:
        _refuse_rights(args, service.scope)
    steps = _carry_out(cli, args, service, manager)
    if not args.dry_run and not cli.is_json:
        done = "has been removed" if steps else "is not installed"
        cli.say(f"service {service.id} {done}; running jobs continue, and the database stays")
        if service.scope is Scope.USER and lingers(args):
            cli.say("lingering is still enabled for you; to disable it: loginctl disable-linger")
    return 0


def _is_absent(args: Namespace, service: Service) -> bool:
    """Report whether no service manager is running here, and no file of the service exists."""
    if find_manager() is not None or args.manager is not None or args.root is not None:
        return False
    places = places_of(args)
    return not read_texts([places.unit(service), *places.packaged_units(service)])


def _refuse_rights(args: Namespace, scope: Scope) -> None:
    """Raise NotSupported if only root can do this."""
    if scope is Scope.SYSTEM and not is_root() and not args.dry_run:
        raise NotSupported(
            f"only root can {args.action} a service of the machine",
            hint=f"sudo edgecron service {args.action} --system; or for you only: --user",
        )


def _carry_out(cli: Session, args: Namespace, service: Service, manager: Manager) -> list[Step]:
    """Carry out the steps of an install or uninstall, or show them; return them."""
    if manager is Manager.LAUNCHD:
        steps = launchd_steps(args, service)
    else:
        steps = systemd_steps(cli, args, service)

    def tell(step: Step) -> None:
        if not cli.is_json:
            for line in step_lines(step):
                cli.put_data(line)

    if args.dry_run:
        for step in steps:
            tell(step)
    else:
        carry_out(steps, tell=tell)
    if cli.is_json:
        objects: list[dict[str, Any]] = [step_object(step) for step in steps]
        cli.put_json(objects)
    elif args.dry_run:
        cli.say("nothing was changed" if steps else "there is nothing to do")
    return steps


def _say_installed(cli: Session, args: Namespace, service: Service, *, has_changed: bool) -> None:
    if not has_changed:
        cli.say(f"service {service.id} is already installed")
        return
    if args.root is not None:
        cli.say(f"service {service.id} starts when that machine boots")
        return
    cli.say(f"service {service.id} is installed and running; see: edgecron service status")
    is_user = service.scope is Scope.USER
    if is_user and sys.platform == "linux" and not lingers(args):
        cli.say(
            "it ends with your last session and starts with your next login; to run it"
            " always, from boot on: loginctl enable-linger"
        )


def step_lines(step: Step) -> Iterator[str]:
    """Describe a step in one line; for a written file, add its text or its changes."""
    match step:
        case WriteFile(path=path, text=text, before=before):
            yield f"{'write' if before is None else 'change':<8}{path}"
            lines = text.splitlines()
            if before is not None:
                lines = diff_lines(path, before=before, text=text)
            yield from (f"    {line}".rstrip() for line in lines)
        case Remove(path=path, is_folder=is_folder):
            yield f"{'remove':<8}{path}{', if it is empty' if is_folder else ''}"
        case MakeLink(path=path, target=target):
            yield f"{'link':<8}{path} to {target}"
        case Call(argv=argv):
            yield f"{'run':<8}{shlex.join(argv)}"


def step_object(step: Step) -> dict[str, Any]:
    match step:
        case WriteFile(path=path, text=text):
            return {"act": "write", "path": str(path), "text": text}
        case Remove(path=path):
            return {"act": "remove", "path": str(path)}
        case MakeLink(path=path, target=target):
            return {"act": "link", "path": str(path), "target": target}
        case Call(argv=argv):
            return {"act": "run", "argv": list(argv)}


_NOT_INSTALLED = 3  # as for all things that do not exist


def _status(cli: Session, args: Namespace) -> int:
    """Show the service manager's and the database's state of a service; return the exit code."""
    manager, places = _manager(args, needed=False), places_of(args)
    service = Service(program=("/",), scope=Scope(scope_of(args)), name=args.name)
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
    path = cli.own_location() if named is None else read_location(named)
    facts: dict[str, Any] = {"database": str(path), "engine_alive": False, "engine_pid": None}
    facts["database_error"] = None
    try:
        with Client(path, must_exist=True) as client:
            if not client.is_there():
                return facts
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
            else ("no: a service ends when you log out; to change that: loginctl enable-linger")
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
