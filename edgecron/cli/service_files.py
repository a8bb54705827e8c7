"""Files of service managers. Each has a hash of its own text.

So a newer edgecron replaces a file of an older one, and never a file that a person has changed.
"""

from __future__ import annotations

import plistlib
import re
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePath, PurePosixPath

from edgecron.base.errors import InvalidInput
from edgecron.base.files import fill_text
from edgecron.base.values import dataclass, sha256

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class Scope(StrEnum):
    USER = "user"  # one user: from login on, or from boot on if they linger
    SYSTEM = "system"  # the machine: from boot on, as root


class Manager(StrEnum):
    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    OPENRC = "openrc"
    PROCD = "procd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An engine that a service manager runs. Raises InvalidInput for text that no file can hold.

    `program` starts edgecron; its first word is an absolute path. `name` distinguishes several
    services (default: ''). None leaves a value to the configuration.
    """

    program: tuple[str, ...]
    scope: Scope
    name: str = ""
    database: str | None = None
    config: str | None = None
    http: str | None = None
    token_file: str | None = None

    def __post_init__(self) -> None:
        if self.name and not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"service name {self.name[:70]!a} is not usable, expected 1 to 64 of ASCII letters,"
                " digits, '_', '-', '.', starting with a letter or digit"
            )
        if not PurePath(self.program[0]).is_absolute():
            raise InvalidInput(
                f"program {self.program[0]!a} is not an absolute path",
                hint="give the whole path: a service manager does not use PATH",
            )
        for word in self.words():
            if not word.isprintable():
                raise InvalidInput(
                    f"{word!a} has a character that is not allowed in a service file"
                )

    @property
    def id(self) -> str:
        """The name for the service manager."""
        return f"edgecron-{self.name}" if self.name else "edgecron"

    def words(self) -> tuple[str, ...]:
        """The command line."""
        words = list(self.program)
        for option, value in (("--config", self.config), ("--db", self.database)):
            words += [] if value is None else [option, value]
        words.append("daemon")
        for option, value in (("--http", self.http), ("--token-file", self.token_file)):
            words += [] if value is None else [option, value]
        return tuple(words)


_MARK = re.compile(r"edgecron-sum: ([0-9a-f]{16})")
SUM_PLACE = "edgecron-sum: " + "0" * 16  # is replaced by the hash of the text


def marked(text: str) -> str:
    """Put the text's hash at its SUM_PLACE."""
    return text.replace(SUM_PLACE, f"edgecron-sum: {_sum(text)}", 1)


def is_ours(text: str) -> bool:
    """Whether an edgecron wrote a text that is unchanged since."""
    found = _MARK.search(text)
    return found is not None and found[1] == _sum(text)


def was_ours(text: str) -> bool:
    """Whether an edgecron wrote a text, changed since or not."""
    return _MARK.search(text) is not None


def _sum(text: str) -> str:
    return sha256(_MARK.sub("", text, count=1).encode()).hexdigest()[:16]


_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)


def exec_line(words: Sequence[str]) -> str:
    """Write the value of ExecStart= that runs exactly these printable words.

    Raises InvalidInput for a program path that systemd refuses.
    """
    if any(letter in words[0] for letter in "\"'\\"):
        raise InvalidInput(
            f"program {words[0]!r} has a quote or backslash in its path, which systemd refuses",
            hint="make a link to it, and give that as --program",
        )
    # ':' keeps systemd from expanding '$' as a variable.
    prefix = ":" if any("$" in word for word in words) else ""
    return prefix + " ".join(quoted(word) for word in words)


def quoted(word: str) -> str:
    """Quote one word of a list, such as ReadWritePaths= or ExecStart=."""
    # systemd expands a specifier, such as %h, within quotes too.
    word = word.replace("%", "%%")
    if _PLAIN_WORD.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read_exec_line(line: str) -> tuple[str, ...]:
    """Read the words of an `exec_line`, or nearly those of a line that a person wrote."""
    try:
        return tuple(word.replace("%%", "%") for word in shlex.split(line.lstrip(":@+!-")))
    except ValueError:
        return tuple(line.split())


_STATE = PurePosixPath("/var/lib/edgecron")


def systemd_unit(service: Service) -> str:
    """Write a unit, as packages also have it."""
    is_system = service.scope is Scope.SYSTEM
    # systemd makes the folder of the database, if it is the default one.
    has_state = is_system and _database_folder(service) == _STATE
    return marked(
        fill_text(
            "cli/texts/systemd.service",
            name=f" ({service.name})" if service.name else "",
            edit=f"{systemctl_words(service)} edit {service.id}",
            exec=exec_line(service.words()),
            system="" if is_system else None,
            state="" if has_state else None,
            target="multi-user.target" if is_system else "default.target",
        )
    )


def strict_drop_in(service: Service) -> str:
    """Write a drop-in that forbids what few jobs do."""
    database = _database_folder(service)
    is_system = service.scope is Scope.SYSTEM
    allow = ",\n# such as ReadWritePaths=/backup" if is_system else ""
    text = fill_text("cli/texts/systemd-strict.conf", allow=allow)
    if is_system:
        # '-': the folder can be missing. The state folder is always made and writable.
        text += fill_text("cli/texts/systemd-strict-root.conf", writable=quoted(f"-{database}"))
    return marked(text)


def systemctl_words(service: Service) -> str:
    return "systemctl" if service.scope is Scope.SYSTEM else "systemctl --user"


def _database_folder(service: Service) -> PurePosixPath:
    """The folder of the database; of one on a server, the folder of this machine's files."""
    if service.database is None or "://" in service.database:
        return _STATE
    return PurePosixPath(service.database).parent


# launchd's own PATH lacks /usr/local/bin and Homebrew's, where most jobs have their programs.
_LAUNCHD_PATH = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def launchd_label(service: Service) -> str:
    """Return the name for launchd."""
    return f"org.edgecron.{service.name or 'daemon'}"


def launchd_plist(service: Service, *, home: PurePosixPath) -> str:
    """Write a property list. `home` is the home of the agent's user."""
    is_system = service.scope is Scope.SYSTEM
    logs = PurePosixPath("/Library/Logs") if is_system else home / "Library/Logs"
    log = str(logs / f"{service.id}.log")
    content = {
        "Label": launchd_label(service),
        "ProgramArguments": list(service.words()),
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": 10,
        # Jobs outlive the engine, under their supervisor, and the next engine adopts them.
        "AbandonProcessGroup": True,
        "ExitTimeOut": 90,
        "EnvironmentVariables": {"PATH": _LAUNCHD_PATH},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "WorkingDirectory": "/",
    }
    # Only plistlib writes tabs: `Service` accepts only printable text.
    text = plistlib.dumps(content, sort_keys=False).decode().replace("\t", "  ")
    mark = f"<!-- `edgecron service install` wrote this file. {SUM_PLACE} -->\n"
    return marked(text + mark)


_PLAIN_PATH = re.compile(r"[A-Za-z0-9_@+=:,./-]+", re.ASCII)


# With OpenRC and procd, only the engine is stopped: jobs continue under their supervisor, and the
# next engine adopts them. So OpenRC's rc_cgroup_cleanup stays off. A limit of 0 restarts forever.
def openrc_script(service: Service) -> str:
    """Write a script for OpenRC. Raises InvalidInput for a program path that it can't run."""
    program, *args = service.words()
    if not _PLAIN_PATH.fullmatch(program):
        raise InvalidInput(
            f"program {program!r} has letters in its path that OpenRC splits or expands",
            hint="make a link to it, and give that as --program",
        )
    # Quoted twice: a shell of OpenRC reads it once more.
    words = shlex.quote(shlex.join(args))
    return fill_text("cli/texts/openrc.sh", id=service.id, program=program, args=words)


def procd_script(service: Service) -> str:
    """Write a script for OpenWrt."""
    return fill_text("cli/texts/procd.sh", id=service.id, words=shlex.join(service.words()))
