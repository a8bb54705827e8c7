"""A name for a command of a crontab: what a person would call it.

The main program's base name, or its script's, found behind tests (`[ -x ... ] &&`), `cd`, variables
and wrappers (`nice`, `flock`, `sudo`, `sh -c`). Only the command itself counts, so a name stays
when other lines of the crontab change.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import unicodedata


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Programs that run the command behind them: their options that take a value, and + for each word
# that stands before the command.
_WRAPPERS = {
    name: options
    for name, *options in map(
        str.split,
        """\
nice -n --adjustment
ionice -c -n -p --class --classdata
timeout -k -s --kill-after --signal +
flock -w -E --wait --timeout +
setlock +
chrt +
taskset +
sudo -u -g -h -p -C -r -t -T --user --group
doas -u -C
su -s -g -G --shell +
runuser -u -g -G -s --user --shell
env -u -C --unset --chdir
time -f -o
stdbuf -i -o -e
systemd-cat -t -p --identifier --priority
systemd-run -u -p -E --unit --property --slice
systemd-inhibit
exec -a
command
builtin
cronic
chronic
nohup
setsid
busybox
dbus-run-session
""".splitlines(),
    )
}
_SCRIPT_OPTIONS = ("-c", "--command")
_TAKE_SCRIPTS = ("flock", "su", "runuser")
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish")
_INTERPRETERS = (*_SHELLS, "python", "pypy", "perl", "ruby", "php", "node", "java", "lua", "tclsh")
_VALUE_OPTIONS = ("-W", "-X", "-I", "-d", "-cp", "-classpath", "--require", "-o", "-O")
# Programs that do many things: the first plain word says which.
_SUBCOMMANDS = _words(
    "git docker podman docker-compose systemctl service apt apt-get aptitude dnf yum apk snap"
    " flatpak brew npm yarn pip pip3 restic borg rclone certbot kubectl aws gcloud zfs zpool btrfs"
    " mdadm ip nmcli wp drush composer rake bundle snapper"
)
# Scripts that do many things, as these programs do.
_DISPATCHERS = _words("manage artisan console occ rails")
# File names that say nothing without their folder, and folders that add nothing.
_VAGUE = _words("run main index start cron job script task")
_VAGUE_FOLDERS = _words(
    "bin sbin src scripts script jobs cron public html htdocs web www app current usr local opt lib"
    " etc var home srv root tmp"
)
_WEB_CLIENTS = ("curl", "wget", "http", "https", "lynx")
_KEYWORDS = _words("{ } ! if then elif else fi while until do done")
# Commands that prepare or guard another one; they name a line only if it has no other.
_ASIDES = _words(
    "[ [[ test cd pushd popd true false : exit return sleep export unset set umask ulimit . source"
    " mkdir echo printf date hostname trap wait shopt which type hash read local for case"
)

_STEM_MOST = 64
_READ_MOST = 4096  # characters of a command that are read
_DEPTH_MOST = 4  # sh -c "sh -c '...'"
_OPERATOR = re.compile(r"[();<>|&]+")
_REDIRECTION = re.compile(r"[&\d]*[<>]+[&|]?")
_ENV_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.ASCII | re.DOTALL)
_EXTENSION = re.compile(
    r"(?<=.)\.(?:sh|bash|zsh|ksh|csh|fish|py|pyc|pl|rb|php\d?|js|mjs|ts|lua|tcl|jar|exe|bin|run)\Z",
    re.IGNORECASE,
)
_HOST = re.compile(r"https?://(?:[^/@]*@)?([^/:?#]+)", re.IGNORECASE)
_ACTION = re.compile(r"[a-z][a-z0-9_:-]*", re.ASCII)
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_PLAIN_WORD = re.compile(r"[a-z][a-z0-9_-]*", re.ASCII)


def suggest_stem(command: str) -> str:
    """Suggest a valid schedule name for a shell command: always the same for the same command."""
    found = _find_main(command[:_READ_MOST], depth=0)
    slug = _slug(found) if found else ""
    if slug:
        return slug
    digest = hashlib.sha256(command.encode("utf-8", "surrogatepass")).hexdigest()
    return f"cron-{digest[:8]}"


def take_name(stem: str, *, taken: dict[str, int]) -> str:
    """Take the stem, or the first of stem-2, stem-3, ... that is free.

    `taken` holds every used name with the last number tried behind it, so that a crontab of a
    hundred thousand equal lines takes linear time.
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
    # A segment that begins with a dash is the rest of a substitution: [ $(date +%d) -le 7 ].
    segments = [words for words in segments if words and not words[0].startswith("-")]
    for words in segments:
        name = _name_segment(words, depth=depth)
        if name:
            return name
    return _base_name(segments[0][0]) if segments else None


def _split_segments(command: str) -> list[list[str]]:
    """Split into the words of each simple command, without redirections."""
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
    while start < len(words) and (words[start] in _KEYWORDS or _ENV_WORD.fullmatch(words[start])):
        start += 1
    return words[start:]


def _name_segment(words: list[str], *, depth: int) -> str | None:
    """Name one simple command; None if it only prepares or guards another one."""
    rest = words
    while rest:
        program, *behind = rest
        program = _base_name(program)
        interpreter = re.sub(r"[\d.]+", "", program)
        if program in _ASIDES or (program == "command" and behind[:1] in (["-v"], ["-V"])):
            return None
        if program in _WRAPPERS:
            script, rest = _unwrap(program, behind)
            if script is not None and depth < _DEPTH_MOST:
                return _find_main(script, depth=depth + 1)
        elif interpreter in _INTERPRETERS:
            return _name_interpreted(interpreter, behind, depth=depth)
        else:
            return _name_program(_name_file(rest[0]), behind)
    return _base_name(words[0])


def _unwrap(wrapper: str, words: list[str]) -> tuple[str | None, list[str]]:
    """The command behind a wrapper: a script text (`su -c TEXT`), or the words of a command."""
    options = _WRAPPERS[wrapper]
    before = options.count("+")
    position = 0
    while position < len(words):
        word = words[position]
        if word in _SCRIPT_OPTIONS and wrapper in _TAKE_SCRIPTS and position + 1 < len(words):
            return words[position + 1], []
        if word in options:
            position += 2
        elif word.startswith("-"):
            position += 1
        elif before:
            before -= 1
            position += 1
        else:
            break
    return None, _strip_front(words[position:])


def _name_program(program: str, words: list[str]) -> str:
    plain = [word for word in words if not word.startswith("-")]
    if program == "run-parts" and plain:
        return _base_name(plain[-1])
    if program in _WEB_CLIENTS:
        parts = [match[1] for word in words if (match := _HOST.match(word))]
    else:
        is_split = program in _SUBCOMMANDS
        parts = [word for word in words if is_split and _PLAIN_WORD.fullmatch(word)]
    return "-".join([program, *parts[:1]])


def _name_interpreted(program: str, words: list[str], *, depth: int) -> str | None:
    """Name the script or module that an interpreter runs, or what an inline script names."""
    while words:
        word, *words = words
        following = words[0] if words else ""
        is_short = not word.startswith("--")
        if not word.startswith("-"):
            is_action = _base_name(word) in _DISPATCHERS and _ACTION.fullmatch(following)
            return f"{_base_name(word)}-{following}" if is_action else _name_file(word)
        if word == "-m":
            return following
        if program in _SHELLS and is_short and word.endswith("c"):
            return _find_main(following, depth=depth + 1) if depth < _DEPTH_MOST else program
        if word in _VALUE_OPTIONS:
            words = words[1:]
        elif is_short and word[-1] in "cer":
            # A usual random delay: perl -e 'sleep int(rand(3600))' && ...
            return None if "sleep" in following else program
    return program


def _name_file(word: str) -> str:
    """Return the base name of a path, behind its folder if the base name says nothing."""
    name = _base_name(word)
    if name.lower() not in _VAGUE:
        return name
    path = re.sub(r"^/home/[^/]+/", "", word)
    folders = [one for one in path.split("/")[:-1] if _FOLDER.fullmatch(one)]
    telling = [one for one in folders if one.lower() not in _VAGUE_FOLDERS]
    return f"{telling[-1]}-{name}" if telling else name


def _base_name(word: str) -> str:
    """The last part of a path without a script's extension."""
    base = word.rstrip("/").rpartition("/")[2] or word
    return _EXTENSION.sub("", base)


def _slug(text: str) -> str:
    """The text with only the letters that a schedule name can have."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9_.]+", "-", plain)[:_STEM_MOST].strip("-._")
    return f"job-{slug}" if slug.isdigit() else slug
