"""The completion script of zsh, written from the grammar of the command line."""

from __future__ import annotations

from collections.abc import Iterator

from edgecron.cli.grammar import Kind, Option, VerbGrammar, Words, global_options
from edgecron.cli.topics import TOPICS
from edgecron.cli.verbs import VERBS

# What zsh knows itself.
_KINDS = {Kind.FILE: "_files", Kind.FOLDER: "_files -/", Kind.USER: "_users"}
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


def zsh_lines(grammar: list[VerbGrammar]) -> Iterator[str]:
    """The lines of the script."""
    yield "#compdef edgecron"
    yield ""
    yield "_edgecron_verbs() {"
    yield "    local -a verbs=("
    for name, verb in VERBS.items():
        yield f"        {_quoted(f'{name}:{verb.summary}')}"
    yield "        'help:tell more of a verb or a topic'"
    yield "    )"
    yield "    _describe verb verbs"
    yield "}"
    yield ""
    yield "_edgecron_topics() {"
    yield "    local -a topics=("
    for topic, summary in TOPICS.items():
        yield f"        {_quoted(f'{topic}:{_zsh_text(summary)}')}"
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
        yield f"        {one.verb}) {behind}_arguments -s \\"
        specs = [_zsh_option(option) for option in one.options]
        for number, words in enumerate(one.arguments, 1):
            is_repeated = number == len(one.arguments) and one.is_last_repeated
            place = "*" if is_repeated else str(number)
            specs.append(_quoted(f"{place}:{_zsh_text(words.label)}:{_zsh_action(words)}"))
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
        specs.append(_quoted(f"{others}{star}{name}{mark}[{_zsh_text(option.help)}]{action}"))
    return " \\\n            ".join(specs)


def _zsh_action(words: Words) -> str:
    own = [_KINDS[kind] for kind in words.kinds if kind in _KINDS]
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


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
