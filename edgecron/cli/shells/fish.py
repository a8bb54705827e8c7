"""The completion script of fish, written from the grammar of the command line."""

from __future__ import annotations

from collections.abc import Iterator

from edgecron.cli.grammar import Kind, Option, VerbGrammar, Words, global_options
from edgecron.cli.topics import TOPICS
from edgecron.cli.verbs import VERBS

# What fish knows itself.
_KINDS = {
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


def fish_lines(grammar: list[VerbGrammar]) -> Iterator[str]:
    """The lines of the script."""
    valued = {
        name
        for verb in grammar
        for option in verb.options
        if option.value is not None
        for name in option.names
    }
    yield from _FISH.replace("$valued_here", " ".join(sorted(valued))).splitlines()
    none_yet = "-n 'test (count (__edgecron_words)) = 0'"
    for name, verb in VERBS.items():
        yield f"complete -c edgecron {none_yet} -a {name} -d {_quoted(verb.summary)}"
    yield f"complete -c edgecron {none_yet} -a help -d 'tell more of a verb or a topic'"
    yield f"complete -c edgecron {none_yet} -l version -d version"
    yield f"complete -c edgecron -n '__edgecron_at help 0 0' -a '{' '.join(VERBS)}'"
    for topic, summary in TOPICS.items():
        yield f"complete -c edgecron -n '__edgecron_at help 0 0' -a {topic} -d {_quoted(summary)}"
    for option in global_options(grammar):
        yield _fish_option(option, condition=none_yet)
    for one in grammar:
        for option in one.options:
            yield _fish_option(option, condition=f"-n '__edgecron_has {one.verb}'")
        for number, words in enumerate(one.arguments):
            is_repeated = number == len(one.arguments) - 1 and one.is_last_repeated
            most = 999 if is_repeated else number
            shown = _fish_action(words)
            if shown:
                condition = f"-n '__edgecron_at {one.verb} {number} {most}'"
                yield f'complete -c edgecron {condition} -a "{shown}"'
        if one.takes_command:
            behind = f"-n '__edgecron_is_behind {one.verb}'"
            yield f"complete -c edgecron {behind} -a '(__edgecron_command)'"


def _fish_option(option: Option, *, condition: str) -> str:
    parts = [f"complete -c edgecron {condition}"]
    for name in option.names:
        parts.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    if option.value is not None:
        shown = _fish_action(option.value)
        parts.append(f'-x -a "{shown}"' if shown else "-x")
    return " ".join([*parts, f"-d {_quoted(option.help)}"])


def _fish_action(words: Words) -> str:
    parts = [_KINDS.get(kind, f"(__edgecron_ask {kind.value})") for kind in words.kinds]
    return " ".join([*words.choices, *parts])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
