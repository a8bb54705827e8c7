"""The completion scripts of the shells: one module for each."""

from __future__ import annotations

from collections.abc import Iterator

from edgecron import __version__
from edgecron.cli.commands import COMMANDS
from edgecron.cli.grammar import CommandGrammar, Kind, Option, Words, global_options, read_grammar
from edgecron.cli.topics import TOPICS

# What zsh knows itself.
_ZSH_KINDS = {Kind.FILE: "_files", Kind.FOLDER: "_files -/", Kind.USER: "_users"}
_ZSH = r"""
_edgecron_ask() {
    # Words that are looked up by their kind, or that are told as they are: @word.
    local -a found shown
    local kind line
    for kind in "$@"; do
        if [[ $kind == @* ]]; then
            found+=("${kind#@}")
            shown+=("${kind#@}")
            continue
        fi
        for line in ${(f)"$(command edgecron $edgecron_database completion --words $kind \
                2>/dev/null </dev/null)"}; do
            found+=("${line%% *}")
            shown+=("${line/ /  }")
        done
    done
    compadd -l -d shown -a found
}

_edgecron_command() {
    # What stands behind --, completed as a command of its own.
    shift $at words
    ((CURRENT -= at))
    _normal
}

_edgecron() {
    local -a edgecron_database
    local at=${words[(I)--db]}
    if ((at > 0 && at < CURRENT)); then
        edgecron_database=(--db "${(Q)words[at + 1]}")
    elif [[ -n ${words[(r)--db=*]} ]]; then
        edgecron_database=("${(Q)words[(r)--db=*]}")
    fi
    local curcontext=$curcontext state line
    local -A opt_args
    _arguments -C \
        $globals_here \
        '(-): :_edgecron_verbs' \
        '(-)*:: :->verb'
    [[ $state == verb ]] || return
    curcontext=${curcontext%:*:*}:edgecron-$words[1]:
    at=${words[(i)--]}
    ((at < CURRENT)) || at=0
    case $words[1] in"""


def zsh_lines(grammar: list[CommandGrammar]) -> Iterator[str]:
    """The lines of the script."""
    yield "#compdef edgecron"
    yield ""
    yield "_edgecron_verbs() {"
    yield "    local -a verbs=("
    for name, command in COMMANDS.items():
        yield f"        {_zsh_quoted(f'{name}:{command.summary}')}"
    yield "        'help:tell more of a verb or a topic'"
    yield "    )"
    yield "    _describe verb verbs"
    yield "}"
    yield ""
    yield "_edgecron_topics() {"
    yield "    local -a topics=("
    for topic, summary in TOPICS.items():
        yield f"        {_zsh_quoted(f'{topic}:{_zsh_text(summary)}')}"
    yield "    )"
    yield "    _describe topic topics"
    yield "}"
    yield ""
    yield "_edgecron_helped() { _edgecron_verbs; _edgecron_topics }"
    globals_ = [_zsh_option(option) for option in global_options(grammar)]
    globals_ += ["'(- *)--help[help]'", "'(- *)--version[version]'"]
    yield from _ZSH.replace("$globals_here", " \\\n        ".join(globals_)).splitlines()
    for one in grammar:
        behind = "((at)) && _edgecron_command && return; " if one.takes_command else ""
        yield f"        {one.name}) {behind}_arguments -s \\"
        specs = [_zsh_option(option) for option in one.options]
        for number, words in enumerate(one.arguments, 1):
            is_repeated = number == len(one.arguments) and one.is_last_repeated
            place = "*" if is_repeated else str(number)
            specs.append(_zsh_quoted(f"{place}:{_zsh_text(words.label)}:{_zsh_action(words)}"))
        yield "            " + " \\\n            ".join(specs) + " ;;"
    yield "        help) _arguments '1: :_edgecron_helped' ;;"
    yield "    esac"
    yield "}"
    yield ""
    yield "# Read from fpath it is a function already; by eval it has to be made known."
    yield 'if [ "$funcstack[1]" = _edgecron ]; then _edgecron "$@"'
    yield "else compdef _edgecron edgecron; fi"


def _zsh_option(option: Option) -> str:
    """`(-n --name)-n+[help]:NAME:action`, once for each of its names."""
    action = ""
    if option.value is not None:
        action = f":{_zsh_text(option.value.label)}:{_zsh_action(option.value)}"
    star = "*" if option.is_repeated else ""
    end = "" if option.value is None else "="
    specs = []
    for name in option.names:
        is_long = name.startswith("--")
        others = f"({' '.join(option.names)})" if len(option.names) > 1 and not star else ""
        mark = end if is_long else end and "+"
        specs.append(_zsh_quoted(f"{others}{star}{name}{mark}[{_zsh_text(option.help)}]{action}"))
    return " \\\n            ".join(specs)


def _zsh_action(words: Words) -> str:
    own = [_ZSH_KINDS[kind] for kind in words.kinds if kind in _ZSH_KINDS]
    if own:
        return own[0]
    if words.kinds:
        # The space keeps what zsh would put before these words.
        asked = [*(kind.value for kind in words.kinds), *(f"@{word}" for word in words.choices)]
        return " _edgecron_ask " + " ".join(asked)
    return f"({' '.join(words.choices)})" if words.choices else " "


def _zsh_text(text: str) -> str:
    for letter in "\\:[]":
        text = text.replace(letter, f"\\{letter}")
    return text


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# What fish knows itself.
_FISH_KINDS = {
    Kind.FILE: "(__fish_complete_path (commandline -ct))",
    Kind.FOLDER: "(__fish_complete_directories)",
    Kind.USER: "(__fish_complete_users)",
}
_FISH = r"""
function __edgecron_words
    # The words that a switch or an option's value is not: the verb, then its arguments.
    set -l words
    set -l is_value 0
    for word in (commandline -opc)[2..-1]
        if test $is_value = 1
            set is_value 0
        else if test "$word" = --
            set -a words $word
            break
        else if string match -qr -- '^-' $word
            contains -- $word $valued_here; and set is_value 1
        else
            set -a words $word
        end
    end
    test (count $words) -gt 0; and printf '%s\n' $words
end

function __edgecron_at --argument-names verb least most
    set -l words (__edgecron_words)
    contains -- -- $words; and return 1
    set -l count (math (count $words) - 1)
    test "$words[1]" = "$verb" -a $count -ge $least -a $count -le $most
end

function __edgecron_has --argument-names verb
    set -l words (__edgecron_words)
    contains -- -- $words; and return 1
    test "$words[1]" = "$verb"
end

function __edgecron_ask
    set -l database
    set -l words (commandline -opc)
    if set -l at (contains -i -- --db $words)
        set database --db $words[(math $at + 1)]
    end
    command edgecron $database completion --words $argv 2>/dev/null </dev/null \
        | string replace ' ' \t
end

function __edgecron_is_behind --argument-names verb
    set -l words (__edgecron_words)
    contains -- -- $words; and test "$words[1]" = "$verb"
end

function __edgecron_command
    # What stands behind --, completed as a command of its own.
    set -l words (commandline -opc) (commandline -ct)
    set -l at (contains -i -- -- $words)
    set -l rest $words[(math $at + 1)..-1]
    complete -C "$rest"
end

complete -c edgecron -f"""


def fish_lines(grammar: list[CommandGrammar]) -> Iterator[str]:
    """The lines of the script."""
    valued = {
        name
        for command in grammar
        for option in command.options
        if option.value is not None
        for name in option.names
    }
    yield from _FISH.replace("$valued_here", " ".join(sorted(valued))).splitlines()
    none_yet = "-n 'test (count (__edgecron_words)) = 0'"
    for name, command in COMMANDS.items():
        yield f"complete -c edgecron {none_yet} -a {name} -d {_fish_quoted(command.summary)}"
    yield f"complete -c edgecron {none_yet} -a help -d 'tell more of a verb or a topic'"
    yield f"complete -c edgecron {none_yet} -l version -d version"
    yield f"complete -c edgecron -n '__edgecron_at help 0 0' -a '{' '.join(COMMANDS)}'"
    for topic, summary in TOPICS.items():
        at_help = "-n '__edgecron_at help 0 0'"
        yield f"complete -c edgecron {at_help} -a {topic} -d {_fish_quoted(summary)}"
    for option in global_options(grammar):
        yield _fish_option(option, condition=none_yet)
    for one in grammar:
        for option in one.options:
            yield _fish_option(option, condition=f"-n '__edgecron_has {one.name}'")
        for number, words in enumerate(one.arguments):
            is_repeated = number == len(one.arguments) - 1 and one.is_last_repeated
            most = 999 if is_repeated else number
            shown = _fish_action(words)
            if shown:
                condition = f"-n '__edgecron_at {one.name} {number} {most}'"
                yield f'complete -c edgecron {condition} -a "{shown}"'
        if one.takes_command:
            behind = f"-n '__edgecron_is_behind {one.name}'"
            yield f"complete -c edgecron {behind} -a '(__edgecron_command)'"


def _fish_option(option: Option, *, condition: str) -> str:
    parts = [f"complete -c edgecron {condition}"]
    for name in option.names:
        parts.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    if option.value is not None:
        shown = _fish_action(option.value)
        parts.append(f'-x -a "{shown}"' if shown else "-x")
    return " ".join([*parts, f"-d {_fish_quoted(option.help)}"])


def _fish_action(words: Words) -> str:
    parts = [_FISH_KINDS.get(kind, f"(__edgecron_ask {kind.value})") for kind in words.kinds]
    return " ".join([*words.choices, *parts])


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_BASH_GLOBALS = ("--help", "--version")
# What bash knows itself, by the option of compgen.
_BASH_KINDS = {Kind.FILE: "-f", Kind.FOLDER: "-d", Kind.USER: "-u"}
_BASH = r"""
_edgecron_take() {
    # The words of stdin that begin with the one at hand; they are never expanded.
    local word rest
    while read -r word rest; do
        [[ -n $word && $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}

_edgecron_ask() {
    command "$program" ${database:+--db "$database"} completion --words "$1" 2>/dev/null </dev/null
}

_edgecron() {
    local cur=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} verb='' database='' option=''
    local word at count=0 values='' choices='' kinds='' kind
    [[ $program == '~'* ]] && program=edgecron
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if [[ $word == -- ]]; then
            # A command of the system, and then its files.
            if ((at == COMP_CWORD - 1)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            else
                compopt -o default 2>/dev/null
            fi
            return
        elif [[ -n $option ]]; then
            [[ $word == = ]] && continue
            [[ $option == --db ]] && database=$word
            option=''
        elif [[ $word == -* ]]; then
            _edgecron_value "$verb" "$word" && option=$word
        elif [[ -z $verb ]]; then
            verb=$word
        else
            ((count += 1))
        fi
    done
    [[ $cur == = ]] && cur=''
    if [[ -n $option ]]; then
        _edgecron_value "$verb" "$option"
    elif [[ $cur == -* ]]; then
        values=$(_edgecron_options "$verb")
    elif [[ -z $verb ]]; then
        values=$verbs_here
    elif [[ $verb == help ]]; then
        ((count)) || values=$helped_here
    else
        _edgecron_argument "$verb" "$count"
    fi
    _edgecron_take < <(printf '%s\n' $values $choices)
    for kind in $kinds; do
        case $kind in
            -*) compopt -o filenames 2>/dev/null
                mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen "$kind" -- "$cur") ;;
            *) _edgecron_take < <(_edgecron_ask "$kind") ;;
        esac
    done
}
complete -F _edgecron edgecron"""


def bash_lines(grammar: list[CommandGrammar]) -> Iterator[str]:
    """The lines of the script."""
    globals_ = global_options(grammar)
    yield "_edgecron_options() {"
    yield "    case $1 in"
    for command in grammar:
        names = [name for option in command.options for name in option.names]
        yield f"        {command.name}) echo '{' '.join(names)}' ;;"
    every = [name for option in globals_ for name in option.names]
    yield f"        *) echo '{' '.join([*every, *_BASH_GLOBALS])}' ;;"
    yield "    esac"
    yield "}"
    yield ""
    yield "# What the value of an option can be; fails for one that takes none."
    yield "_edgecron_value() {"
    yield '    case "$1 $2" in'
    for option in globals_:
        if option.value is not None:
            yield _bash_case([f"*' {name}'" for name in option.names], option.value)
    for command in grammar:
        for option in command.options:
            if option.value is not None and not option.is_global:
                yield _bash_case(
                    [f"'{command.name} {name}'" for name in option.names], option.value
                )
    yield "        *) return 1 ;;"
    yield "    esac"
    yield "}"
    yield ""
    yield "_edgecron_argument() {"
    yield '    case "$1 $2" in'
    for command in grammar:
        for number, words in enumerate(command.arguments):
            is_last = number == len(command.arguments) - 1
            pattern = f"'{command.name} {number}'"
            if is_last and command.is_last_repeated:
                pattern = f"'{command.name} '*"
            yield _bash_case([pattern], words)
    yield "        *) choices='' kinds='' ;;"
    yield "    esac"
    yield "}"
    text = _BASH.replace("$verbs_here", f"'{' '.join([*COMMANDS, 'help'])}'")
    yield from text.replace("$helped_here", f"'{' '.join([*COMMANDS, *TOPICS])}'").splitlines()


def _bash_case(patterns: list[str], words: Words) -> str:
    kinds = " ".join(_BASH_KINDS.get(kind, kind.value) for kind in words.kinds)
    return f"        {'|'.join(patterns)}) choices='{' '.join(words.choices)}' kinds='{kinds}' ;;"


_LINES = {"bash": bash_lines, "zsh": zsh_lines, "fish": fish_lines}
SHELLS = tuple(_LINES)
_HEAD = "# {shell} completion for edgecron {version}; made by: edgecron completion {shell}"


def script_for(shell: str) -> str:
    """The script for one of SHELLS."""
    lines = list(_LINES[shell](read_grammar()))
    # zsh looks for a mark of its own in the first line.
    place = 1 if shell == "zsh" else 0
    lines.insert(place, _HEAD.format(shell=shell, version=__version__))
    return "\n".join(lines)
