"""Files of service managers. Each has a hash of its own text.

So a newer edgecron replaces a file of an older one, and never a file that a person has changed.
"""

from __future__ import annotations

import plistlib
import re
import shlex
from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import PurePath, PurePosixPath

from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass

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
                f"program {self.program[0]!a} is no absolute path",
                hint="a service manager looks in no PATH: give the whole path",
            )
        for word in self.words():
            if not word.isprintable():
                raise InvalidInput(f"{word!a} holds a letter that no service file can hold")

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

_UNIT = """\
# Written by `edgecron service install`, which replaces it where nobody has changed it.
# For changes of your own: {edit}
# {place}
[Unit]
Description=edgecron, scheduled jobs{name}
# Never given up: what keeps it from starting now, such as a full disk, may be over in an hour.
StartLimitIntervalSec=0

[Service]
# Ready when the database is open, the engine registered and its first step done.
Type=notify
ExecStart={exec}
Restart=always
RestartSec=5s
# A command line or a configuration that can't be read is for a person to mend.
RestartPreventExitStatus=2
# Fed by the engine's own steps: one that hangs is restarted. It looks every 45 s at least.
WatchdogSec=5min
# A large database may be brought up to date by a new version; to kill that would be to begin anew.
TimeoutStartSec=1h
TimeoutAbortSec=10s
# Jobs outlive the engine, under their supervisor, and the next engine adopts them.
KillMode=process
# A job that is killed for its memory is that job's failure, and no reason to stop the others.
OOMPolicy=continue
{spared}\
{state}\
# What is forbidden here is forbidden to every job: more than this breaks jobs that cron runs.
# `edgecron service print --strict` is a drop-in that forbids much more.
LockPersonality=yes
RestrictRealtime=yes

[Install]
WantedBy={target}
"""

# Only for the system: it takes root.
_SPARED = """\
# Nor is who watches them to be ended in their place: what runs is not spared with it.
OOMScoreAdjust=-500
"""

_STRICT = """\
# Written by `edgecron service install --strict`, which replaces it where nobody has changed it.
# It holds for every job, too: allow what yours need in a later drop-in{allow}.
# {place}
[Service]
"""

_STRICT_FOR_ALL = """\
# No setuid program, such as sudo or some mailers, gets more rights than its caller.
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# Not forbidden: MemoryDenyWriteExecute=yes, with which Java, Node and the like do not run.
"""

_STRICT_FOR_ROOT = """\
# All is read-only but /dev, /proc, /sys, and what is named here.
ProtectSystem=strict
ReadWritePaths={writable}
# Not PrivateTmp=yes: systemd empties that at each restart, under jobs that live on.
ReadWritePaths=/tmp /var/tmp
# Where the single binary is unpacked.
CacheDirectory=edgecron
ProtectHome=read-only
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
# What a job of another user, `user =`, takes: to become that user, reach its files, and end it.
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL
CapabilityBoundingSet=CAP_SETGID CAP_SETUID CAP_SYS_RESOURCE
"""


def systemd_unit(service: Service) -> str:
    """Write a unit, as packages also have it."""
    is_system = service.scope is Scope.SYSTEM
    return marked(
        _UNIT.format(
            place=SUM_PLACE,
            name=f" ({service.name})" if service.name else "",
            edit=f"{systemctl_words(service)} edit {service.id}",
            exec=exec_line(service.words()),
            state=_state_lines(service) if is_system else "",
            spared=_SPARED if is_system else "",
            target="multi-user.target" if is_system else "default.target",
        )
    )


def strict_drop_in(service: Service) -> str:
    """Write a drop-in that forbids what few jobs do."""
    database = _database_folder(service)
    is_system = service.scope is Scope.SYSTEM
    lines = _STRICT_FOR_ALL
    if is_system:
        # '-': the folder can be missing. The state folder is always made and writable.
        lines += _STRICT_FOR_ROOT.format(writable=quoted(f"-{database}"))
    allow = ",\n# such as ReadWritePaths=/backup" if is_system else ""
    return marked(_STRICT.format(place=SUM_PLACE, allow=allow) + lines)


def systemctl_words(service: Service) -> str:
    return "systemctl" if service.scope is Scope.SYSTEM else "systemctl --user"


def _database_folder(service: Service) -> PurePosixPath:
    return _STATE if service.database is None else PurePosixPath(service.database).parent


def _state_lines(service: Service) -> str:
    """Have systemd make the folder of the database, if it is the default one."""
    if _database_folder(service) != _STATE:
        return ""
    return "StateDirectory=edgecron\nStateDirectoryMode=0700\n"


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
    mark = f"<!-- Written by `edgecron service install`. {SUM_PLACE} -->\n"
    return marked(text + mark)


_PLAIN_PATH = re.compile(r"[A-Za-z0-9_@+=:,./-]+", re.ASCII)

# With both, only the engine is stopped: jobs continue under their supervisor, and the next engine
# adopts them. So OpenRC's rc_cgroup_cleanup stays off. A limit of 0 restarts the engine forever.
_OPENRC = """\
#!/sbin/openrc-run
# Put this in /etc/init.d/{id}, mode 755: rc-update add {id} default && rc-service {id} start
name={id}
description="edgecron, scheduled jobs"
supervisor=supervise-daemon
command={program}
command_args={args}
respawn_delay=5
respawn_max=0
retry=TERM/90/KILL/5
output_logger="logger -t {id}"
error_logger="logger -t {id}"

depend() {{
    need localmount
    use clock logger
    after bootmisc
}}
"""

_PROCD = """\
#!/bin/sh /etc/rc.common
# Put this in /etc/init.d/{id}, mode 755: /etc/init.d/{id} enable && /etc/init.d/{id} start
# shellcheck disable=SC2034  # read by rc.common
START=95 STOP=05 USE_PROCD=1

start_service() {{
    procd_open_instance
    procd_set_param command {words}
    procd_set_param respawn 3600 5 0
    procd_set_param stdout 1
    procd_set_param stderr 1
    procd_set_param term_timeout 90
    procd_close_instance
}}
"""


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
    return _OPENRC.format(id=service.id, program=program, args=words)


def procd_script(service: Service) -> str:
    """Write a script for OpenWrt."""
    return _PROCD.format(id=service.id, words=shlex.join(service.words()))
