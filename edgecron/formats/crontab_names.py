"""A name for a command: what a person would call it.

The main program's base name, or its script's, looked for behind tests (`[ -x ... ] &&`), `cd`,
variables and wrappers (`nice`, `flock`, `sudo`, `sh -c`, ...). Only the command itself counts, so
that a name stays when other lines of the crontab change.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import unicodedata
from collections.abc import Sequence

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


_STEM_MOST = 64
_READ_MOST = 4096  # characters of a command that are looked at
_DEPTH_MOST = 4  # sh -c "sh -c '...'"

_OPERATOR = re.compile(r"[();<>|&]+")
_REDIRECTION = re.compile(r"[&\d]*[<>]+[&|]?")
_ENV_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.ASCII | re.DOTALL)
_EXTENSION = re.compile(
    r"\.(?:sh|bash|zsh|ksh|csh|fish|py|pyc|pl|rb|php\d?|phar|js|mjs|ts|lua|tcl|jar|exe|bin|run)\Z",
    re.IGNORECASE,
)
_VERSION = re.compile(r"[\d.]+")
_HOST = re.compile(r"https?://(?:[^/@]*@)?([^/:?#]+)", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"[a-z][a-z0-9_-]*", re.ASCII)


def suggest_stem(command: str) -> str:
    """A valid schedule name for a shell command; always the same one for the same command."""
    found = _find_main(command[:_READ_MOST], depth=0)
    slug = _slug(found) if found else ""
    if slug:
        return slug
    digest = hashlib.sha256(command.encode("utf-8", "surrogatepass")).hexdigest()
    return f"cron-{digest[:8]}"


def take_name(stem: str, *, taken: dict[str, int]) -> str:
    """The stem, or the first of stem-2, stem-3, ... that is not taken, and take it.

    `taken` holds every used name with the last number that was tried behind it: counting on from
    there keeps a crontab of a hundred thousand equal lines from taking forever.
    """
    name = stem
    number = taken.get(stem, 0)
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    if name != stem:
        taken[stem] = number
    taken[name] = 1
    return name


def _find_main(command: str, *, depth: int) -> str | None:
    segments = [_strip_front(words) for words in _split_segments(command)]
    # What begins with a dash goes on after a substitution: [ $(date +%d) -le 7 ].
    segments = [words for words in segments if words and not words[0].startswith("-")]
    for words in segments:
        name = _name_segment(words, depth=depth)
        if name:
            return name
    return _base_name(segments[0][0]) if segments else None


def _split_segments(command: str) -> list[list[str]]:
    """The words of each simple command, redirections left out."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:  # a quote without its partner
        tokens = command.split()
    segments: list[list[str]] = [[]]
    skips_target = False
    for token in tokens:
        if _REDIRECTION.fullmatch(token):
            skips_target = True
            if segments[-1] and segments[-1][-1].isdigit():
                segments[-1].pop()  # the 2 of 2>&1
        elif skips_target:
            skips_target = False
        elif _OPERATOR.fullmatch(token):
            segments.append([])
        else:
            segments[-1].append(token)
    return segments


def _strip_front(words: list[str]) -> list[str]:
    start = 0
    while start < len(words) and (words[start] in KEYWORDS or _ENV_WORD.fullmatch(words[start])):
        start += 1
    return words[start:]


def _name_segment(words: Sequence[str], *, depth: int) -> str | None:
    """The name of one simple command, looking through wrappers; None where it is an aside."""
    rest = list(words)
    while rest:
        program = _base_name(rest[0])
        if program == "command" and rest[1:2] in (["-v"], ["-V"]):
            return None  # asks whether there is such a command
        if program in WRAPPERS:
            script, rest = _unwrap(program, rest[1:])
            if script is not None:
                return _find_main(script, depth=depth + 1) if depth < _DEPTH_MOST else program
            rest = _strip_front(rest)
            continue
        return _name_program(program, rest, depth=depth)
    return _base_name(words[0])


def _unwrap(program: str, words: list[str]) -> tuple[str | None, list[str]]:
    """What a wrapper runs: a script text (`su -c TEXT`), or the words of a command."""
    wrapper = WRAPPERS[program]
    positionals = wrapper.positionals
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word in wrapper.script_options and position < len(words):
            return words[position], []
        if word in wrapper.value_options:
            position += 1
        elif word == "--" or word.startswith("-"):
            continue
        elif positionals:
            positionals -= 1
        else:
            return None, words[position - 1 :]
    return None, []


def _name_program(program: str, words: list[str], *, depth: int) -> str | None:
    if program in ASIDES:
        return None
    plain = _VERSION.sub("", program) if program not in INTERPRETERS else program
    if plain in INTERPRETERS:
        return _name_interpreted(plain, words[1:], depth=depth)
    if program == "run-parts":
        folders = [word for word in words[1:] if not word.startswith("-")]
        return _base_name(folders[-1]) if folders else program
    if program in WEB_CLIENTS:
        hosts = [match[1] for word in words[1:] if (match := _HOST.match(word))]
        return f"{program}-{hosts[0]}" if hosts else program
    if program in SUBCOMMANDS:
        verbs = [word for word in words[1:] if _PLAIN_WORD.fullmatch(word)]
        return f"{program}-{verbs[0]}" if verbs else program
    return program


def _name_interpreted(program: str, words: list[str], *, depth: int) -> str | None:
    """The script's name, the module's, or what an inline script names."""
    position = 0
    while position < len(words):
        word = words[position]
        following = words[position + 1] if position + 1 < len(words) else ""
        if not word.startswith("-"):
            return _base_name(word)
        if program in SHELLS and _is_inline(word, "c"):
            return _find_main(following, depth=depth + 1) if depth < _DEPTH_MOST else program
        if word == "-m" and program.startswith(("python", "pypy")):
            return following
        if _is_inline(word, "c" if program.startswith(("python", "pypy")) else "er"):
            # The customary random delay: perl -e 'sleep int(rand(3600))' && ...
            return None if "sleep" in following else program
        position += 2 if word in INTERPRETERS[program] else 1
    return program


def _is_inline(option: str, letters: str) -> bool:
    return not option.startswith("--") and option[-1] in letters


def _base_name(word: str) -> str:
    """The last part of a path without a script's extension; the word where nothing is left."""
    base = word.rstrip("/").rpartition("/")[2] or word
    extension = _EXTENSION.search(base)
    if extension is not None and extension.start() > 0:
        return base[: extension.start()]
    return base


def _slug(text: str) -> str:
    """The text with only the letters that a schedule name may have; '' where none is left."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9_.]+", "-", plain)[:_STEM_MOST].strip("-._")
    return f"job-{slug}" if slug.isdigit() else slug
