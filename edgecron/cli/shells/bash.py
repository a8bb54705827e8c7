"""The completion script of bash, written from the grammar of the command line."""

from __future__ import annotations

from collections.abc import Iterator

from edgecron.cli.grammar import Kind, VerbGrammar, Words, global_options
from edgecron.cli.topics import TOPICS
from edgecron.cli.verbs import VERBS

_GLOBALS = ("--help", "--version")
# What bash knows itself, by the option of compgen.
_KINDS = {Kind.FILE: "-f", Kind.FOLDER: "-d", Kind.USER: "-u"}
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


def bash_lines(grammar: list[VerbGrammar]) -> Iterator[str]:
    """The lines of the script."""
    globals_ = global_options(grammar)
    yield "_edgecron_options() {"
    yield "    case $1 in"
    for verb in grammar:
        names = [name for option in verb.options for name in option.names]
        yield f"        {verb.verb}) echo '{' '.join(names)}' ;;"
    every = [name for option in globals_ for name in option.names]
    yield f"        *) echo '{' '.join([*every, *_GLOBALS])}' ;;"
    yield "    esac"
    yield "}"
    yield ""
    yield "# What the value of an option can be; fails for one that takes none."
    yield "_edgecron_value() {"
    yield '    case "$1 $2" in'
    for option in globals_:
        if option.value is not None:
            yield _bash_case([f"*' {name}'" for name in option.names], option.value)
    for verb in grammar:
        for option in verb.options:
            if option.value is not None and not option.is_global:
                yield _bash_case([f"'{verb.verb} {name}'" for name in option.names], option.value)
    yield "        *) return 1 ;;"
    yield "    esac"
    yield "}"
    yield ""
    yield "_edgecron_argument() {"
    yield '    case "$1 $2" in'
    for verb in grammar:
        for number, words in enumerate(verb.arguments):
            is_last = number == len(verb.arguments) - 1
            pattern = f"'{verb.verb} {number}'"
            if is_last and verb.is_last_repeated:
                pattern = f"'{verb.verb} '*"
            yield _bash_case([pattern], words)
    yield "        *) choices='' kinds='' ;;"
    yield "    esac"
    yield "}"
    text = _BASH.replace("$verbs_here", f"'{' '.join([*VERBS, 'help'])}'")
    yield from text.replace("$helped_here", f"'{' '.join([*VERBS, *TOPICS])}'").splitlines()


def _bash_case(patterns: list[str], words: Words) -> str:
    kinds = " ".join(_KINDS.get(kind, kind.value) for kind in words.kinds)
    return f"        {'|'.join(patterns)}) choices='{' '.join(words.choices)}' kinds='{kinds}' ;;"
