"""What is to be run by a service manager: for whom, under which name, as which command."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from edgecron.base.bundle import find_bundle
from edgecron.base.paths import is_root, resolve_path, user_config_path
from edgecron.base.tokens import read_token
from edgecron.cli.service_files import Scope, Service
from edgecron.cli.service_machine import find_binary, find_program
from edgecron.cli.session import Session


def wanted_service(cli: Session, args: Namespace) -> Service:
    """What is to be run. Raises InvalidInput."""
    bundle, scope = find_bundle(), Scope(scope_of(args))
    if args.program is not None:
        program: tuple[str, ...] = (args.program,)
    elif bundle is not None:
        is_roots = scope is Scope.SYSTEM
        program = (find_binary(sys.argv[0], file=bundle.file, is_roots=is_roots),)
    else:
        program = find_program(sys.argv[0], executable=sys.executable)
    token_file = cli.token_file
    if token_file is not None:
        token_file = str(resolve_path(token_file, what="token file"))
    return Service(
        program=program,
        scope=scope,
        name=args.name,
        database=_database(cli, is_user=scope is Scope.USER),
        config=_config(cli, is_user=scope is Scope.USER),
        http=_http(cli, args.http),
        token_file=token_file,
    )


def scope_of(args: Namespace) -> str:
    """Whose service is meant: root's is the machine's, unless it is said."""
    return "system" if args.system or (is_root() and not args.user) else "user"


def check_http(cli: Session, service: Service) -> None:
    """Refuse now what the daemon would refuse when it starts. Raises InvalidInput, NotSupported."""
    if service.http is None:
        return
    from edgecron.http.serving import check_served, read_place

    if service.token_file is not None:
        read_token(service.token_file)
    place = read_place(service.http, database=cli.own_database_path())
    check_served(place, has_token=service.token_file is not None)


def _database(cli: Session, *, is_user: bool) -> str | None:
    """The database that is named here and now; None where that is left to the configuration,
    which the service reads by itself, or is the usual one."""
    given = cli.config().find("database")
    is_named = given is not None and (
        given.origin.startswith("--") or given.origin == "EDGECRON_DB"
    )
    # A service manager knows nothing of what a shell has put there.
    is_moved = given is None and is_user and not is_root() and "XDG_DATA_HOME" in os.environ
    return str(cli.own_database_path()) if is_named or is_moved else None


def _config(cli: Session, *, is_user: bool) -> str | None:
    """Likewise of the configuration file."""
    given = cli.config_path or os.environ.get("EDGECRON_CONFIG")
    if given == "none":
        return given
    if given:
        return str(resolve_path(given, what="configuration path"))
    if not is_user or "XDG_CONFIG_HOME" not in os.environ:
        return None
    path = user_config_path()
    return str(path) if path is not None and path.exists() else None


def _http(cli: Session, given: str | None) -> str | None:
    """Where the API is to be served, without the folder that we are in now. Raises InvalidInput."""
    if given is None:
        return None
    from edgecron.http.serving import UnixPlace, read_place, words

    place = read_place(given, database=cli.own_database_path())
    # `unix:` alone follows the database.
    return words(place) if isinstance(place, UnixPlace) and given != "unix:" else given
