"""Ask the service managers of this machine, and carry out plans."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from edgecron.base.bundle import find_bundle
from edgecron.base.errors import EdgecronError, InvalidInput, NotSupported, os_words
from edgecron.base.files import check_folder, find_weakness, read_token, write_whole
from edgecron.base.paths import (
    is_root,
    location_text,
    make_folders,
    resolve_path,
    user_config_path,
    user_name,
)
from edgecron.base.values import dataclass
from edgecron.cli.service_files import Manager, Scope, Service, launchd_label, launchd_plist
from edgecron.cli.service_plan import (
    Call,
    FileChanged,
    MakeLink,
    Places,
    Remove,
    Step,
    Texts,
    UnitState,
    Wish,
    WriteFile,
    plan_launchd_install,
    plan_launchd_uninstall,
    plan_systemd_install,
    plan_systemd_uninstall,
    systemctl,
)
from edgecron.cli.session import Session
from edgecron.supervisor.environment import DEFAULT_PATH

_BOUND_S = 120  # systemd waits for READY before a start has succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a service manager's command. `code` is 127 if the command does not exist."""

    code: int
    out: str
    err: str


def find_manager(*, root: Path = Path("/")) -> Manager | None:
    """Find the service manager that runs on this machine, None if edgecron knows none."""
    if sys.platform == "darwin":
        return Manager.LAUNCHD
    marks = {
        "run/systemd/system": Manager.SYSTEMD,  # sd_booted(3)
        "run/openrc": Manager.OPENRC,
        "sbin/procd": Manager.PROCD,
    }
    return next((manager for mark, manager in marks.items() if (root / mark).exists()), None)


def ask(argv: Sequence[str]) -> Answer:
    """Run a command of a service manager, bounded."""
    try:
        said = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BOUND_S,
            check=False,
        )
    except FileNotFoundError:
        return Answer(code=127, out="", err=f"{argv[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Answer(code=1, out="", err=f"did not answer within {_BOUND_S} s")
    return Answer(code=said.returncode, out=said.stdout.strip(), err=said.stderr.strip())


def read_texts(paths: Iterable[Path]) -> Texts:
    """Read the files that exist. Raises EdgecronError if one can't be read."""
    texts = {}
    for path in paths:
        try:
            texts[path] = path.read_text("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise EdgecronError(f"{path} can't be read: {os_words(error)}") from error
    return texts


def carry_out(steps: Iterable[Step], *, tell: Callable[[Step], object]) -> None:
    """Do one step after the other, each shown before. Raises EdgecronError if one can't be done."""
    for step in steps:
        tell(step)
        try:
            _do(step)
        except OSError as error:
            raise EdgecronError(
                os_words(error),
                hint="edgecron keeps the steps that were done before; repeat the command",
            ) from error


def _do(step: Step) -> None:
    match step:
        case WriteFile(path=path, text=text):
            make_folders(path.parent, mode=0o755)
            # Readable for all users, as the units of packages are.
            write_whole(path, [text.encode("utf-8", "surrogateescape")], mode=0o644)
        case Remove(path=path, is_folder=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        case Remove(path=path):
            path.unlink(missing_ok=True)
        case MakeLink(path=path, target=target):
            make_folders(path.parent, mode=0o755)
            check_folder(path.parent)
            path.unlink(missing_ok=True)
            path.symlink_to(target)
        case Call(argv=argv, may_fail=may_fail):
            answer = ask(argv)
            if answer.code != 0 and not may_fail:
                raise EdgecronError(
                    f"{' '.join(argv)}: {answer.err or answer.out or f'exit code {answer.code}'}"
                )


def ask_systemd(service: Service) -> UnitState | None:
    """Ask systemd about a unit; None if it can't be asked, as without a session."""
    argv = [*systemctl(service.scope), "show", f"{service.id}.service"]
    answer = ask([*argv, "--property=ActiveState,SubState,UnitFileState,MainPID,StatusText"])
    if answer.code != 0:
        return None
    told = dict(line.split("=", 1) for line in answer.out.splitlines() if "=" in line)
    pid = told.get("MainPID", "0")
    return UnitState(
        active=f"{told.get('ActiveState', 'unknown')} ({told.get('SubState', 'unknown')})",
        enabled=told.get("UnitFileState") or "not installed",
        pid=int(pid) if pid.isdigit() and pid != "0" else None,
        says=told.get("StatusText") or None,
    )


_PROGRAM_BOUND_S = 30


def find_program(argv0: str, *, executable: str) -> tuple[str, ...]:
    """Find the words that start this program again.

    The path of a script keeps its links: those of pipx and uv stay when their targets are replaced.
    """
    found = None if Path(argv0).name == "__main__.py" else _find_called(argv0)
    if found is not None and os.access(found, os.X_OK) and os.path.isfile(found):
        return (found,)
    # Not resolved: the link to Python makes it the virtual environment.
    return (executable, "-m", "edgecron")


def find_binary(argv0: str, *, file: str, is_roots: bool) -> str:
    """Find the path of the single binary, with the links that it was started by.

    An upgrade puts the next version behind these links. With `is_roots`, never use a path that
    other users can change: they would choose what root runs. Raises InvalidInput if `file` is '':
    then the binary was removed or replaced.
    """
    if not file:
        raise InvalidInput(
            "the file of this program was removed or replaced while it ran",
            hint="start edgecron again, or name a program: --program PATH",
        )
    found = _find_called(argv0)
    if found is None or (is_roots and find_weakness(Path(found), must_exist=True)):
        return file
    try:
        return found if os.path.samefile(found, file) else file
    except OSError:
        return file


def _find_called(argv0: str) -> str | None:
    """Find the absolute path of a command line's first word; None if PATH has none."""
    found = argv0 if os.sep in argv0 else shutil.which(argv0)
    return None if found is None else os.path.abspath(found)


def check_program(words: Sequence[str], *, version: str) -> None:
    """Start the program without this environment, as a service manager does, and ask its version.

    Raises InvalidInput if it is not an edgecron of this version.
    """
    shown = " ".join(words)
    hint = "name a program that stays installed: --program PATH"
    try:
        said = subprocess.run(
            [*words, "--version"],
            cwd="/",
            env={"PATH": DEFAULT_PATH, "HOME": os.path.expanduser("~")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROGRAM_BOUND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = os_words(error) if isinstance(error, OSError) else "it does not answer"
        raise InvalidInput(f"program {shown!r} can't be started: {why}", hint=hint) from error
    if said.returncode != 0 or not said.stdout.startswith("edgecron "):
        lines = (said.stderr or said.stdout).strip().splitlines() or ["it prints nothing"]
        raise InvalidInput(
            f"program {shown!r} is not an edgecron that runs by itself: {lines[-1]}", hint=hint
        )
    theirs = said.stdout.split()[1]
    if theirs != version:
        raise InvalidInput(
            f"program {shown!r} is edgecron {theirs}, and this is {version}",
            hint="upgrade that program, or install the service with it",
        )


def warn_of_weakness(cli: Session, service: Service) -> None:
    """Warn if a user other than root can change the program that root will run."""
    program = Path(service.program[0])
    weakness = find_weakness(program, may_have_links=True)
    if service.scope is Scope.SYSTEM and weakness is not None:
        cli.warn(
            f"root will run {program}, but {weakness.words}: users who can change it get root's"
            " rights; use a program that only root can change: --program PATH"
        )


def systemd_steps(cli: Session, args: Namespace, service: Service) -> list[Step]:
    places = places_of(args)
    texts = read_texts(
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
        return plan(wish, places, texts, is_live=is_live, state=state)
    except FileChanged as changed:
        if not cli.is_json:
            for line in changed.diff:
                cli.put(line)
        raise


def _ask(args: Namespace, wish: Wish) -> tuple[bool, UnitState | None]:
    """Return whether systemd can be asked, and its state of the unit. Raises NotSupported."""
    if args.root is not None:
        return False, None
    state = ask_systemd(wish.service) if find_manager() is Manager.SYSTEMD else None
    if state is None and not args.dry_run:
        raise NotSupported(
            f"systemd can't be asked for the services of user {user_name()}, who has no session",
            hint="log in (not by su or sudo), or install the service for the machine: --system",
        )
    return True, state


def launchd_steps(args: Namespace, service: Service) -> list[Step]:
    path = places_of(args).plist(service)
    domain = "system" if service.scope is Scope.SYSTEM else f"gui/{os.getuid()}"
    is_loaded = ask(["launchctl", "print", f"{domain}/{launchd_label(service)}"]).code == 0
    wish, texts = Wish(service=service, is_forced=args.force), read_texts([path])
    if args.action == "uninstall":
        return plan_launchd_uninstall(wish, path, texts, domain=domain, is_loaded=is_loaded)
    text = launchd_plist(service, home=PurePosixPath(Path.home()))
    return plan_launchd_install(wish, path, texts, text=text, domain=domain, is_loaded=is_loaded)


def places_of(args: Namespace) -> Places:
    """Return the folders of this machine, or of the image below --root."""
    home = resolve_path("~", what="home folder")
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


def wanted_service(cli: Session, args: Namespace) -> Service:
    """Make the service that the options describe. Raises InvalidInput."""
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
    """Choose the scope (default: root's service is the machine's)."""
    return "system" if args.system or (is_root() and not args.user) else "user"


def check_http(cli: Session, service: Service) -> None:
    """Refuse what the daemon would refuse at its start. Raises InvalidInput, NotSupported."""
    if service.http is None:
        return
    from edgecron.http.serving import check_served, read_place

    if service.token_file is not None:
        read_token(service.token_file)
    place = read_place(service.http, database=cli.own_location())
    check_served(place, has_token=service.token_file is not None)


def _database(cli: Session, *, is_user: bool) -> str | None:
    """Return the database that is named here; None if the service finds it by itself."""
    given = cli.config().find("database")
    is_named = given is not None and (
        given.origin.startswith("--") or given.origin == "EDGECRON_DB"
    )
    # A service manager does not have this variable of the shell.
    is_moved = given is None and is_user and not is_root() and "XDG_DATA_HOME" in os.environ
    if not is_named and not is_moved:
        return None
    location = cli.own_location()
    if location_text(location) != str(location):
        raise InvalidInput(
            f"the files of a service can't keep the password of {location}: others can read it",
            hint="write it to ~/.pgpass, and name the URL without it; see: edgecron help postgres",
        )
    return str(location)


def _config(cli: Session, *, is_user: bool) -> str | None:
    """The configuration file that is named here; None if the service finds its file by itself."""
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
    """Return the address of the API, independent of the current folder. Raises InvalidInput."""
    if given is None:
        return None
    from edgecron.http.serving import UnixPlace, read_place, words

    place = read_place(given, database=cli.own_location())
    # `unix:` alone follows the database.
    return words(place) if isinstance(place, UnixPlace) and given != "unix:" else given
