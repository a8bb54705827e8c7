"""Units of systemd, and a drop-in for machines whose jobs are known to need little."""

from __future__ import annotations

from pathlib import PurePosixPath

from edgecron.cli.service_marking import PLACE, marked
from edgecron.cli.service_quoting import exec_line, quoted
from edgecron.cli.service_wanted import Scope, Service

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
# A cgroup of our own, in which each job has one: then nothing that it started escapes its end.
Delegate=yes
{state}\
# What is forbidden here is forbidden to every job: more than this breaks jobs that cron runs.
# `edgecron service print --strict` is a drop-in that forbids much more.
LockPersonality=yes
RestrictRealtime=yes

[Install]
WantedBy={target}
"""

# For the system alone: to spare one's own from it takes root.
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


def unit(service: Service) -> str:
    """The text of a unit, which is also that of a package."""
    is_system = service.scope is Scope.SYSTEM
    return marked(
        _UNIT.format(
            place=PLACE,
            name=f" ({service.name})" if service.name else "",
            edit=f"{systemctl_words(service)} edit {service.id}",
            exec=exec_line(service.words()),
            state=_state_lines(service) if is_system else "",
            spared=_SPARED if is_system else "",
            target="multi-user.target" if is_system else "default.target",
        )
    )


def strict_drop_in(service: Service) -> str:
    """The text of a drop-in that forbids what the jobs of many machines never do."""
    database = _database_folder(service)
    is_system = service.scope is Scope.SYSTEM
    lines = _STRICT_FOR_ALL
    if is_system:
        # '-': it may not be there yet. The state folder is writable and made in any case.
        lines += _STRICT_FOR_ROOT.format(writable=quoted(f"-{database}"))
    allow = ",\n# such as ReadWritePaths=/backup" if is_system else ""
    return marked(_STRICT.format(place=PLACE, allow=allow) + lines)


def systemctl_words(service: Service) -> str:
    return "systemctl" if service.scope is Scope.SYSTEM else "systemctl --user"


def _database_folder(service: Service) -> PurePosixPath:
    return _STATE if service.database is None else PurePosixPath(service.database).parent


def _state_lines(service: Service) -> str:
    """Who makes the folder of the database: systemd, where that is the usual one."""
    if _database_folder(service) != _STATE:
        return ""
    return "StateDirectory=edgecron\nStateDirectoryMode=0700\n"
