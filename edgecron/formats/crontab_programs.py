"""What is known of programs when a name is looked for: wrappers, interpreters and the like."""

from __future__ import annotations

from edgecron.base.values import dataclass


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Options that take the next word, words before the command, options that take a script."""

    value_options: frozenset[str] = frozenset()
    positionals: int = 0
    script_options: frozenset[str] = frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _wrapper(options: str = "", *, positionals: int = 0, scripts: str = "") -> Wrapper:
    return Wrapper(_words(options), positionals, _words(scripts))


_PLAIN = _wrapper()

WRAPPERS = {
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n -p --class --classdata"),
    "chrt": _wrapper("-T -P -D", positionals=1),
    "taskset": _wrapper(positionals=1),
    "timeout": _wrapper("-k -s --kill-after --signal", positionals=1),
    "gtimeout": _wrapper("-k -s", positionals=1),
    "flock": _wrapper(
        "-w -E --wait --timeout --conflict-exit-code", positionals=1, scripts="-c --command"
    ),
    "setlock": _wrapper(positionals=1),
    "chpst": _wrapper("-u -U -e -m -o -p -f -c"),
    "sudo": _wrapper("-u -g -h -p -C -r -t -T --user --group"),
    "doas": _wrapper("-u -C"),
    "su": _wrapper("-s -g -G --shell", positionals=1, scripts="-c --command"),
    "runuser": _wrapper("-u -g -G -s --user --shell", scripts="-c --command"),
    "env": _wrapper("-u -C --unset --chdir"),
    "time": _wrapper("-f -o"),
    "stdbuf": _wrapper("-i -o -e"),
    "systemd-cat": _wrapper("-t -p --identifier --priority"),
    "systemd-run": _wrapper("-u -p -E --unit --property --slice"),
    "systemd-inhibit": _wrapper(),
    "exec": _wrapper("-a"),
    "xvfb-run": _wrapper("-n -s --server-num --server-args"),
    "command": _PLAIN,
    "cronic": _PLAIN,
    "chronic": _PLAIN,
    "nohup": _PLAIN,
    "setsid": _PLAIN,
    "eatmydata": _PLAIN,
    "caffeinate": _wrapper("-t -w"),
    "builtin": _PLAIN,
    "dbus-run-session": _PLAIN,
    "busybox": _PLAIN,
}

SHELLS = _words("sh bash dash zsh ksh mksh ash fish")

# Options that take the next word, by interpreter.
INTERPRETERS = {
    **dict.fromkeys(SHELLS, frozenset({"-o", "-O", "--rcfile", "--init-file"})),
    "python": frozenset({"-W", "-X"}),
    "pypy": frozenset({"-W", "-X"}),
    "perl": frozenset[str](),
    "ruby": frozenset({"-I"}),
    "php": frozenset({"-d", "-c"}),
    "node": frozenset({"--require"}),
    "java": frozenset({"-cp", "-classpath"}),
    "lua": frozenset({"-l"}),
    "tclsh": frozenset[str](),
    "Rscript": frozenset[str](),
}

# Programs that do many things: the first plain word says which.
SUBCOMMANDS = _words(
    "git docker podman docker-compose systemctl service apt apt-get aptitude dnf yum apk snap"
    " flatpak brew npm yarn pip pip3 restic borg rclone certbot kubectl aws gcloud zfs zpool btrfs"
    " mdadm ip nmcli wp drush composer rake bundle snapper"
)

WEB_CLIENTS = _words("curl wget http https lynx")

# Words of the shell that stand before a command.
KEYWORDS = _words("{ } ! if then elif else fi while until do done")

# Commands that prepare or guard another one; they name a line only where it has no other.
ASIDES = _words(
    "[ [[ test cd pushd popd true false : exit return sleep export unset set umask ulimit . source"
    " mkdir echo printf date hostname trap wait shopt which type hash read local for case"
)
