"""Places of the database, the configuration and the state folder; and names of users."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from edgecron.base.errors import DatabaseUnusable, InvalidInput, NotFound
from edgecron.base.values import dataclass

DATABASE_NAME = "edgecron.db"
CONFIG_NAME = "config.toml"
HTTP_PLACE = "127.0.0.1:8745"  # where an engine serves the HTTP API by default
_STATE_SUFFIX = ".state"
_ADOPTIONS_SUFFIX = ".adopted.json"
_MAC_FOLDER = "Library/Application Support"
# The last @ before the options ends the user and the password, even if the password has a @ too.
_SERVER = re.compile(r"(postgres(?:ql)?://)(?:([^?]*)@)?([^@?]*)(?:\?(.*))?")
# A ? in a password: what follows it would be shown as options.
_UNCLEAR = re.compile(r"[^/]*//[^/]*\?[^/]*@.*")
_ANY_SCHEME = re.compile(r"[A-Za-z][\w.]*(\+\w+)?://.*", re.DOTALL)
_SECRETS = ("password", "sslpassword")  # options of a URL


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUrl:
    """Names a database of a PostgreSQL server. As text, it has no password."""

    full: str  # with the password

    def __str__(self) -> str:
        from urllib.parse import unquote  # Most databases are files: 3 ms less for each command.

        found = _SERVER.fullmatch(self.full)
        assert found is not None
        scheme, user, rest, options = found.groups()
        shown = [
            one
            for one in (options or "").split("&")
            if unquote(one.partition("=")[0]) not in _SECRETS
        ]
        who = f"{user.partition(':')[0]}@" if user else ""
        return f"{scheme}{who}{rest}{'?' if any(shown) else ''}{'&'.join(shown)}"

    def __repr__(self) -> str:
        return f"<ServerUrl {self}>"

    @property
    def name(self) -> str:
        """The name of the database; empty if the URL has none."""
        return str(self).partition("?")[0].partition("//")[2].partition("/")[2]


Location = Path | ServerUrl  # a database: its file, or its server


def read_location(
    given: str | None = None, *, environ: Mapping[str, str] | None = None
) -> Location:
    """Return the place of the database: the given file or server, else this user's default file.

    Raises InvalidInput for an impossible path or URL.
    """
    if given is None or not _ANY_SCHEME.fullmatch(given):
        return database_path(given, environ=environ)
    found = _SERVER.fullmatch(given)
    is_unclear = _UNCLEAR.fullmatch(given) or "\0" in given
    if found is None or is_unclear or re.search("[@/]", found[2] or ""):
        raise InvalidInput(  # Without the text: a part of the password could be in it.
            "the database URL can't be read",
            hint="write it so: postgresql://USER@HOST:PORT/DATABASE; in a password, write @ as %40,"
            " / as %2F and ? as %3F",
        )
    return ServerUrl(full=given)


def shown_location(text: str) -> str:
    """Return the written name of a database for people to copy, without a password."""
    if not _ANY_SCHEME.fullmatch(text):
        return text
    try:
        return str(read_location(text))
    except InvalidInput:
        return "postgresql://..."


def location_text(location: Location | str) -> str:
    """Write a location for another process to read, with the password: never show this text."""
    return location.full if isinstance(location, ServerUrl) else os.fspath(location)


def files_of_server(uuid: str) -> Path:
    """Return the path beside which this machine keeps its files of a server's database.

    Machines can share a home folder, but no locks.
    """
    is_fixed = is_root() and not os.environ.get("XDG_STATE_HOME")
    own = (
        Path("/var/lib/edgecron")
        if is_fixed
        else _user_folder(os.environ, "XDG_STATE_HOME", ".local/state")
    )
    return own / "servers" / f"{uuid}@{os.uname().nodename}"


def database_path(given: str | None = None, *, environ: Mapping[str, str] | None = None) -> Path:
    """Return the database file: the given one, else the default of this user.

    Root's default is /var/lib/edgecron/edgecron.db, everyone else's lies in the user data folder.
    Raises InvalidInput for an impossible path.
    """
    if given:
        return resolve_path(given, what="database path")
    if is_root():
        return Path("/var/lib/edgecron") / DATABASE_NAME
    env = os.environ if environ is None else environ
    return _user_folder(env, "XDG_DATA_HOME", ".local/share") / DATABASE_NAME


def is_there(path: Path) -> bool:
    """Whether the path exists. Raises DatabaseUnusable if this user can't find out."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreachable(path, error) from error
    return True


def is_empty_file(path: Path) -> bool:
    """Whether the path is a plain file without content, and SQLite has no log beside it."""
    try:
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_size == 0 and not _has_log(path)
    except OSError:
        return False


def _has_log(path: Path) -> bool:
    try:
        return os.lstat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def unreachable(path: Path, error: OSError) -> DatabaseUnusable:
    """Make the error for a database whose existence is unknown."""
    return DatabaseUnusable(
        f"database {path} can't be reached ({error.strerror})",
        hint="check the folders above it, and whose they are",
    )


def system_config_path() -> Path:
    """Return the configuration file of the whole machine."""
    # The same for every Python: Homebrew's own uses another folder, which is not root's.
    is_mac = sys.platform == "darwin"
    folder = Path("/") / _MAC_FOLDER / "edgecron" if is_mac else Path("/etc/edgecron")
    return folder / CONFIG_NAME


def user_config_path(
    given: str | None = None, *, environ: Mapping[str, str] | None = None
) -> Path | None:
    """Return the configuration file of this user: the given one, else the default.

    None for root, who uses the system's file, and for a user without a home. Raises InvalidInput
    for an impossible path.
    """
    if given:
        return resolve_path(given, what="configuration path")
    if is_root():
        return None
    env = os.environ if environ is None else environ
    try:
        return _user_folder(env, "XDG_CONFIG_HOME", ".config") / CONFIG_NAME
    except InvalidInput:
        return None


def state_dir(database: Path) -> Path:
    """Return the folder beside a database that holds journals, FIFOs and locks."""
    return database.with_name(database.name + _STATE_SUFFIX)


def adoptions_path(database: Path) -> Path:
    """Return the file beside a database that records which schedules were adopted."""
    return database.with_name(database.name + _ADOPTIONS_SUFFIX)


def is_root() -> bool:
    return os.name == "posix" and os.geteuid() == 0


def user_name(user_id: int | None = None) -> str:
    """Return the name of a user (default: this one); the number if it has none."""
    import pwd

    found = os.geteuid() if user_id is None else user_id
    try:
        return pwd.getpwuid(found).pw_name
    except KeyError:
        return str(found)


def is_user(name: str) -> bool:
    """Return whether this machine has a user of this name."""
    import pwd

    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def person_name() -> str:
    """Return the name of this user, and under sudo also the one who asked: `anna as root`."""
    asked_by = os.environ.get("SUDO_USER", "") if is_root() else ""
    name = user_name()
    return f"{asked_by[:64]} as {name}" if asked_by not in ("", name) else name


def refuse_missing_folder(path: Path, *, origin: str = "") -> None:
    """Raise NotFound if a new database has no folder: only the default folder is created.

    A mistyped path must not become a database. `origin` says what named the path.
    """
    if is_there(path.parent) or path == database_path():
        return
    raise NotFound(
        f"database {path} can't be created: its folder does not exist{origin}",
        hint=folder_hint(path),
    )


def folder_hint(path: Path) -> str:
    """Say how to create the missing folder of a path."""
    from shlex import quote  # Rarely needed, and engines import this module.

    return f"check the path; to create the folder: mkdir -p {quote(str(path.parent))}"


def hint_for_missing(file: str) -> str:
    """Suggest a file with a similar name, else the command that lists the files beside it."""
    from edgecron.base.checks import suggest  # Only errors need it.

    path = Path(file)
    close = suggest(path.name, list_names(path.parent))
    if close is not None:
        return f"did you mean {os.path.join(os.path.dirname(file), close)}?"
    folder = next((one for one in path.parents if one.is_dir()), Path())
    return f"see which files exist: {list_command(folder)}"


def list_command(folder: Path) -> str:
    """Return the command that lists the files of a folder, the newest first."""
    from shlex import quote  # Rarely needed, and engines import this module.

    return f"ls -t {quote(str(folder))}"


def make_folders(folder: Path, *, mode: int = 0o700) -> None:
    """Make a folder and those above it that are missing, each with this mode whatever the umask."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        with suppress(FileExistsError):  # Another process made it meanwhile.
            one.mkdir(mode=mode)
            if stat.S_IMODE(one.lstat().st_mode) != mode:
                one.chmod(mode)  # The umask took some of it.


def resolve_path(given: str, *, what: str) -> Path:
    """Make a written path absolute. Raises InvalidInput for an impossible path."""
    if "\0" in given:
        raise InvalidInput(f"{what} {given[:60]!a} holds a NUL character")
    try:
        path = Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidInput(
            f"{what} {given!r} begins with a home folder that is unknown",
            hint="set HOME, or give the whole path",
        ) from error
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{what} {given!r} counts from the current folder, which was removed",
            hint="go to another folder, or give the whole path",
        ) from error
    try:
        str(path).encode()
    except UnicodeEncodeError:
        # SQLite takes no other names, and a locale that is not UTF-8 makes some of them so.
        raise InvalidInput(
            f"{what} {str(path)!a} is not valid UTF-8",
            hint="take another name, or a UTF-8 locale",
        ) from None
    return path


def list_names(state_dir: Path | str) -> list[str]:
    """List the files of a folder; none if it is missing or not a folder."""
    # glob takes four times as long, and idle engines call this.
    try:
        return os.listdir(state_dir)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """Return edgecron's folder among the user's own, as platformdirs does.

    On Linux this is the XDG rule written out: every command needs it, and importing platformdirs
    takes a third of the time of `list`. Raises InvalidInput if this user has no home.
    """
    named, home = environ.get(variable, ""), environ.get("HOME", "")
    if sys.platform == "linux" and "ANDROID_DATA" not in environ:
        if named.startswith("/"):
            return Path(named) / "edgecron"
        if home.startswith("/"):
            return Path(home) / below_home / "edgecron"
    import platformdirs

    try:
        if variable == "XDG_CONFIG_HOME":
            return platformdirs.user_config_path("edgecron", appauthor=False)
        return platformdirs.user_data_path("edgecron", appauthor=False)
    except RuntimeError:  # In a container, a user is often only a number.
        raise InvalidInput(
            f"HOME is not set, and user {os.geteuid()} is unknown on this machine",
            hint="set HOME to a folder of this user, or name the database with --db or EDGECRON_DB",
        ) from None
