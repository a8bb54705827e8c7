"""What an install or uninstall does on this machine: what is there is seen, and plans are asked."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from edgecron.base.errors import NotSupported
from edgecron.cli.session import Session

if TYPE_CHECKING:
    from edgecron.cli.service_places import Places
    from edgecron.cli.service_planning import Deed, UnitState, Wish
    from edgecron.cli.service_wanted import Service


def warn_of_strangers(cli: Session, service: Service) -> None:
    from edgecron.cli.service_program import find_strangers
    from edgecron.cli.service_wanted import Scope

    if service.scope is Scope.SYSTEM and (found := find_strangers(service.program[0])):
        cli.warn(
            f"root will run {service.program[0]}, but {found[0]}: who can change it gets root's"
            " rights; better a program that is root's alone, by --program"
        )


def systemd_deeds(cli: Session, args: Namespace, service: Service) -> list[Deed]:
    from edgecron.cli.service_managers import see
    from edgecron.cli.service_planning import (
        FileChanged,
        Wish,
        plan_systemd_install,
        plan_systemd_uninstall,
    )

    places = places_of(args)
    seen = see(
        [places.unit(service), places.strict_drop_in(service), *places.packaged_units(service)]
    )
    linger_user = user_name() if args.linger else None
    wish = Wish(
        service=service,
        is_strict=args.strict,
        is_forced=args.force,
        linger_user=linger_user,
    )
    plan = plan_systemd_install if args.action == "install" else plan_systemd_uninstall
    is_live, state = _ask(args, wish)
    try:
        return plan(wish, places, seen, is_live=is_live, state=state)
    except FileChanged as changed:
        if not cli.is_json:
            for line in changed.diff:
                cli.put(line)
        raise


def _ask(args: Namespace, wish: Wish) -> tuple[bool, UnitState | None]:
    """Whether there is a systemd to ask, and how it has the unit. Raises NotSupported."""
    from edgecron.cli.service_managers import ask_systemd, find_manager
    from edgecron.cli.service_wanted import Manager

    if args.root is not None:
        return False, None
    state = ask_systemd(wish.service) if find_manager() is Manager.SYSTEMD else None
    if state is None and not args.dry_run:
        raise NotSupported(
            f"systemd can't be asked for the services of user {user_name()}, who has no session",
            hint="log in (su and sudo open none), or install it for the machine: --system",
        )
    return True, state


def launchd_deeds(args: Namespace, service: Service) -> list[Deed]:
    from edgecron.cli.service_launchd import label, plist
    from edgecron.cli.service_managers import ask, see
    from edgecron.cli.service_planning import Wish, plan_launchd_install, plan_launchd_uninstall
    from edgecron.cli.service_wanted import Scope

    path = places_of(args).plist(service)
    domain = "system" if service.scope is Scope.SYSTEM else f"gui/{os.getuid()}"
    is_loaded = ask(["launchctl", "print", f"{domain}/{label(service)}"]).code == 0
    wish, seen = Wish(service=service, is_forced=args.force), see([path])
    if args.action == "uninstall":
        return plan_launchd_uninstall(wish, path, seen, domain=domain, is_loaded=is_loaded)
    text = plist(service, home=PurePosixPath(Path.home()))
    return plan_launchd_install(wish, path, seen, text=text, domain=domain, is_loaded=is_loaded)


def places_of(args: Namespace) -> Places:
    """The folders of this machine, or of the one below --root."""
    from edgecron.cli.service_places import Places

    home = Path.home()
    named = os.environ.get("XDG_CONFIG_HOME", "")
    config_home = Path(named) if named.startswith("/") else home / ".config"
    if args.root is None:
        return Places(root=Path("/"), home=home, config_home=config_home)
    root = Path(args.root).absolute()
    return Places(
        root=root,
        home=root / home.relative_to("/"),
        config_home=root / config_home.relative_to("/"),
    )


def lingers(args: Namespace) -> bool:
    """Whether this user's services run without a login."""
    return places_of(args).linger_mark(user_name()).exists()


def user_name() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name
