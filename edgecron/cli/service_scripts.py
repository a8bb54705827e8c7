"""Init scripts for OpenRC (Alpine, Gentoo) and for procd (OpenWrt)."""

from __future__ import annotations

import re
import shlex

from edgecron.base.errors import InvalidInput
from edgecron.cli.service_marking import PLACE, marked
from edgecron.cli.service_wanted import Service

_PATH = re.compile(r"[A-Za-z0-9_@+=:,./-]+", re.ASCII)

_OPENRC = """\
#!/sbin/openrc-run
# Written by `edgecron service print --for openrc`. Put it in /etc/init.d/{id}, mode 755, then:
#     rc-update add {id} default && rc-service {id} start
# {place}

name={id}
description="edgecron, scheduled jobs"
supervisor=supervise-daemon
command={program}
command_args={args}
respawn_delay=5
# 0: never given up.
respawn_max=0
# Only the engine is ended: jobs go on under their supervisor, and the next engine adopts them.
# So rc_cgroup_cleanup stays off.
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
# Written by `edgecron service print --for procd`. Put it in /etc/init.d/{id}, mode 755, then:
#     /etc/init.d/{id} enable && /etc/init.d/{id} start
# {place}

# shellcheck disable=SC2034  # read by rc.common
START=95
# shellcheck disable=SC2034
STOP=05
# shellcheck disable=SC2034
USE_PROCD=1

start_service() {{
    procd_open_instance
    procd_set_param command {words}
    # After 5 s, however often (0).
    procd_set_param respawn 3600 5 0
    procd_set_param stdout 1
    procd_set_param stderr 1
    # Only the engine is ended: jobs go on under their supervisor, and the next engine adopts them.
    procd_set_param term_timeout 90
    procd_close_instance
}}
"""


def openrc(service: Service) -> str:
    """A script of OpenRC. Raises InvalidInput for a program path that OpenRC can't take."""
    program, *args = service.words()
    if not _PATH.fullmatch(program):
        raise InvalidInput(
            f"program {program!r} has letters in its path that OpenRC splits or expands",
            hint="make a link to it, and give that as --program",
        )
    # Quoted twice: OpenRC has a shell read it once more.
    words = shlex.quote(shlex.join(args))
    return marked(_OPENRC.format(id=service.id, place=PLACE, program=program, args=words))


def procd(service: Service) -> str:
    """A script for OpenWrt."""
    words = shlex.join(service.words())
    return marked(_PROCD.format(id=service.id, place=PLACE, words=words))
