"""What packages of Debian 12 run by time: the schedule lines, and the settings of their units.

Commands are shortened. Each package is a dictionary of paths and texts; a timer `NAME` stands for
`NAME.timer` and `NAME.service`, with the lines of [Timer] and those of the service.
"""

from __future__ import annotations

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin"
NO_SYSTEMD = "[ ! -d /run/systemd/system ] &&"

# By package: lines of /etc/cron.d/PACKAGE, and other crontabs by their path.
CRONTABS: dict[str, dict[str, str]] = {
    "cron": {
        "etc/crontab": f"SHELL=/bin/sh\n{PATH}\n"
        "17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n"
        "25 6\t* * *\troot\ttest -x /usr/sbin/anacron || run-parts --report /etc/cron.daily\n"
        "47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || run-parts --report /etc/cron.weekly\n"
        "52 6\t1 * *\troot\ttest -x /usr/sbin/anacron || run-parts --report /etc/cron.monthly\n",
    },
    "anacron": {
        "etc/cron.d/anacron": f"SHELL=/bin/sh\n{PATH}\n\n"
        f"30 7-23 * * *   root\t{NO_SYSTEMD} invoke-rc.d anacron start >/dev/null\n",
        "etc/anacrontab": f"SHELL=/bin/sh\n{PATH}\nHOME=/root\nLOGNAME=root\n\n"
        "1\t5\tcron.daily\trun-parts --report /etc/cron.daily\n"
        "7\t10\tcron.weekly\trun-parts --report /etc/cron.weekly\n"
        "@monthly\t15\tcron.monthly\trun-parts --report /etc/cron.monthly\n",
    },
    "sysstat": {
        "etc/cron.d/sysstat": "PATH=/usr/lib/sysstat:/usr/sbin:/usr/bin:/sbin:/bin\n\n"
        "5-55/10 * * * * root command -v debian-sa1 > /dev/null && debian-sa1 1 1\n"
        "59 23 * * * root command -v debian-sa1 > /dev/null && debian-sa1 60 2\n",
    },
    "certbot": {
        "etc/cron.d/certbot": f"SHELL=/bin/sh\n{PATH}\n"
        "0 */12 * * * root test -x /usr/bin/certbot -a \\! -d /run/systemd/system &&"
        " perl -e 'sleep int(rand(43200))' && certbot -q renew\n",
    },
    "mdadm": {
        "etc/cron.d/mdadm": "57 0 * * 0 root if [ $(date +\\%d) -le 7 ]; then checkarray; fi\n",
    },
    "php-common": {
        "etc/cron.d/php": f"09,39 *     * * *     root   {NO_SYSTEMD} /usr/lib/php/sessionclean\n",
    },
    "e2fsprogs": {
        "etc/cron.d/e2scrub_all": "30 3 * * 0 root SERVICE_MODE=1 /usr/lib/e2scrub_all_cron\n"
        "10 3 * * * root SERVICE_MODE=1 /sbin/e2scrub_all -A -r\n",
    },
    "ntpsec": {
        "etc/cron.d/ntpsec": f"25 6     * * * root {NO_SYSTEMD} /usr/libexec/rotate-stats\n",
    },
    "backupninja": {"etc/cron.d/backupninja": f"{PATH}\n0 * * * * root /usr/sbin/backupninja\n"},
    "cacti": {
        "etc/cron.d/cacti": "MAILTO=root\n"
        "*/5 * * * * www-data php poller.php 2>&1 >/dev/null | ts >> /var/log/poller-error.log\n",
    },
    "awstats": {
        "etc/cron.d/awstats": "MAILTO=root\n\n*/10 * * * * www-data /usr/share/awstats/update.sh\n"
        "10 03 * * * www-data /usr/share/awstats/buildstatic.sh\n",
    },
    "mailman3": {
        "etc/cron.d/mailman3": f"SHELL=/bin/sh\n{PATH}\n\n"
        "0  8 * * *  list\t/usr/bin/mailman notify\n"
        "0 12 * * *  list\t/usr/bin/mailman digests --periodic\n",
    },
    "dma": {"etc/cron.d/dma": "*/5 *\t* * *\troot\t/usr/sbin/dma -q\n"},
    "munin-node": {
        "etc/cron.d/munin-node": "MAILTO=root\n\n"
        "*/5 * * * *\troot /etc/munin/plugins/apt update 7200 12 >/dev/null\n",
    },
    "cron-apt": {"etc/cron.d/cron-apt": "0 4\t* * *\troot\t/usr/sbin/cron-apt\n"},
    "rsnapshot": {"etc/cron.d/rsnapshot": "# 0 */4\t* * *\troot\t/usr/bin/rsnapshot alpha\n"},
}

# By package: scripts in the folders of run-parts.
SCRIPTS: dict[str, tuple[str, ...]] = {
    "debsums": ("daily/debsums", "weekly/debsums", "monthly/debsums"),
    "logwatch": ("daily/00logwatch",),
    "rkhunter": ("daily/rkhunter", "weekly/rkhunter"),
    "popularity-contest": ("daily/popularity-contest",),
    "tmpreaper": ("daily/tmpreaper",),
}

_IDLE = "IOSchedulingClass=idle"
# By package: units by name. A line with a dot in front is one of [Unit], the others of [Service].
TIMERS: dict[str, dict[str, tuple[str, ...]]] = {
    "anacron": {
        "anacron": (
            "OnCalendar=*-*-* 07..23:30 RandomizedDelaySec=5m Persistent=true",
            ".ConditionACPower=true",
            "EnvironmentFile=/etc/default/anacron",
            "ExecStart=/usr/sbin/anacron -d -q $ANACRON_ARGS",
        ),
    },
    "apt": {
        "apt-daily": (
            "OnCalendar=*-*-* 6,18:00 RandomizedDelaySec=12h Persistent=true",
            ".ConditionACPower=true",
            "ExecStartPre=-/usr/lib/apt/apt-helper wait-online",
            "ExecStart=/usr/lib/apt/apt.systemd.daily update",
        ),
        "apt-daily-upgrade": (
            "OnCalendar=*-*-* 6:00 RandomizedDelaySec=60m Persistent=true",
            "ExecStart=/usr/lib/apt/apt.systemd.daily install",
            "KillMode=process",
        ),
    },
    "btrfsmaintenance": {
        name: ("OnCalendar=monthly AccuracySec=1h Persistent=true", f"ExecStart=/usr/{name}.sh")
        for name in ("btrfs-balance", "btrfs-defrag", "btrfs-scrub", "btrfs-trim")
    },
    "certbot": {
        "certbot": (
            "OnCalendar=*-*-* 00,12:00:00 RandomizedDelaySec=43200 Persistent=true",
            "ExecStart=/usr/bin/certbot -q renew",
            "PrivateTmp=true",
        ),
    },
    "chkrootkit": {
        "chkrootkit": (
            "OnBootSec=30min OnUnitActiveSec=24h AccuracySec=1h Persistent=true",
            "ExecStart=chkrootkit-daily",
            "ExecStart=sleep 0.5s",
        ),
    },
    "dpkg": {"dpkg-db-backup": ("OnCalendar=daily", "ExecStart=/usr/libexec/dpkg-db-backup")},
    "e2fsprogs": {
        "e2scrub_all": (
            "OnCalendar=Sun *-*-* 03:10:00 RandomizedDelaySec=60 Persistent=true",
            "Environment=SERVICE_MODE=1",
            "ExecStart=/sbin/e2scrub_all",
        ),
    },
    "etckeeper": {
        "etckeeper": ("OnBootSec=15min OnUnitActiveSec=1d", "ExecStart=/etc/daily", _IDLE),
    },
    "exim4-base": {
        "exim4-base": (
            "OnCalendar=daily AccuracySec=12h Persistent=true",
            "ExecStart=/etc/cron.daily/exim4-base systemd-timer",
            "Nice=19",
        ),
    },
    "fwupd": {
        "fwupd-refresh": (
            "OnCalendar=*-*-* *:00:00 RandomizedDelaySec=1h Persistent=true",
            "ExecStart=/usr/bin/fwupdmgr refresh",
            "SuccessExitStatus=2 101",
        ),
    },
    "logrotate": {
        "logrotate": (
            "OnCalendar=daily AccuracySec=1h Persistent=true",
            ".ConditionACPower=true",
            "ExecStart=/usr/sbin/logrotate /etc/logrotate.conf",
            "Nice=19",
        ),
    },
    "man-db": {
        "man-db": (
            "OnCalendar=daily RandomizedDelaySec=12h Persistent=true",
            "ExecStart=+/usr/bin/install -d /var/cache/man",
            "ExecStart=/usr/bin/mandb --quiet",
            "User=man",
        ),
    },
    "mdadm": {
        "mdcheck_start": (
            "OnCalendar=Sun *-*-1..7 1:00:00",
            'Environment="MDADM_CHECK_DURATION=6 hours"',
            "ExecStart=/usr/share/mdadm/mdcheck --duration ${MDADM_CHECK_DURATION}",
        ),
        "mdcheck_continue": ("OnCalendar=1:05:00", "ExecStart=/usr/share/mdadm/mdcheck --continue"),
        "mdmonitor-oneshot": (
            "OnCalendar=2:00:00",
            "EnvironmentFile=-/run/sysconfig/mdadm",
            "ExecStart=/sbin/mdadm --monitor --oneshot $MDADM_MONITOR_ARGS",
        ),
    },
    "ntpsec": {
        "ntpsec-rotate-stats": (
            "OnCalendar=*-*-* 06:25:00 Persistent=true",
            "ExecStart=/usr/libexec/ntpsec/rotate-stats",
        ),
    },
    "pcp": {
        "pmfind": ("OnBootSec=1min OnUnitActiveSec=1min", "ExecStart=/usr/lib/pcp/bin/pmfind"),
        "pmie_check": (
            "OnBootSec=1min OnCalendar=*-*-* *:28:00 OnCalendar=*-*-* *:58:00",
            "WorkingDirectory=/var/lib/pcp",
            "ExecStart=/usr/lib/pcp/bin/pmie_check",
        ),
        "pmie_farm_check": (
            "OnCalendar=*-*-* *:28:10 OnCalendar=*-*-* *:58:10",
            "ExecStart=/usr/bin/pmiectl -m check",
        ),
        "pmie_daily": ("OnCalendar=*-*-* 00:08:00 Persistent=true", "ExecStart=/usr/pmie_daily"),
    },
    "php-common": {
        "phpsessionclean": (
            "OnCalendar=*-*-* *:09,39:00 Persistent=true",
            "ExecStart=/usr/lib/php/sessionclean",
            "ProtectHome=true",
        ),
    },
    "plocate": {
        "plocate-updatedb": (
            "OnCalendar=daily RandomizedDelaySec=12h AccuracySec=20min Persistent=true",
            "ExecStart=/usr/sbin/updatedb.plocate",
            _IDLE,
        ),
    },
    "podman": {
        "podman-auto-update": (
            "OnCalendar=daily RandomizedDelaySec=900 Persistent=true",
            "ExecStart=/usr/bin/podman auto-update",
            "ExecStartPost=/usr/bin/podman image prune -f",
        ),
    },
    "spamassassin": {
        "spamassassin-maintenance": (
            "OnCalendar=*-*-* 6:00 RandomizedDelaySec=60m Persistent=true",
            "ExecStart=/usr/sbin/spamassassin-maint",
            "ProtectSystem=strict",
        ),
    },
    "sysstat": {
        "sysstat-collect": ("OnCalendar=*:00/10", "User=root", "ExecStart=/usr/lib/sa1 1 1"),
        "sysstat-summary": ("OnCalendar=00:07:00", "User=root", "ExecStart=/usr/lib/sa2 -A"),
    },
    "util-linux": {
        "fstrim": (
            "OnCalendar=weekly AccuracySec=1h Persistent=true RandomizedDelaySec=6000",
            ".ConditionVirtualization=!container",
            "ExecStart=/sbin/fstrim --listed-in /etc/fstab:/proc/self/mountinfo",
        ),
    },
}

PACKAGES = tuple(sorted({*CRONTABS, *SCRIPTS, *TIMERS}))


def unit_texts(lines: tuple[str, ...]) -> tuple[str, str]:
    """Return the texts of a timer and of its service."""
    words: list[str] = []
    for word in lines[0].split():
        if "=" in word:
            words.append(word)
        else:
            words[-1] += f" {word}"
    unit = [line[1:] for line in lines[1:] if line.startswith(".")]
    service = [line for line in lines[1:] if not line.startswith(".")]
    return (
        "\n".join(["[Timer]", *words, "[Install]", "WantedBy=timers.target", ""]),
        "\n".join(["[Unit]", *unit, "[Service]", "Type=oneshot", *service, ""]),
    )
