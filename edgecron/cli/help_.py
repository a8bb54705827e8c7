"""Help: of the program, of a verb, and the manual page."""

from __future__ import annotations

from argparse import Namespace

from edgecron.cli.everyday import EVERYDAY, EXIT_CODES, USAGE
from edgecron.cli.options import UsageError, parser_of, refuse_verb
from edgecron.cli.session import Session
from edgecron.cli.verbs import VERBS


def run(cli: Session, args: Namespace) -> int:
    cli.put(_text(args.words))
    return 0


def _text(words: list[str]) -> str:
    """What `help` and `--help` show; of a verb where one follows. Raises UsageError."""
    if words == ["--man"]:
        from edgecron.cli.manual import manual_page

        return manual_page()
    named = [word for word in words if word not in ("-h", "--help")]
    if not named:
        return _overview()
    if len(named) > 1:
        raise UsageError(f"help is of one verb, not of {' '.join(named)!r}")
    if named[0] not in VERBS:
        refuse_verb(named[0])
    return parser_of(named[0])[1].format_help().rstrip("\n")


def _overview() -> str:
    lines = ["edgecron: cron that you can see, trust and embed", ""]
    lines += [f"  {line}" for line in EVERYDAY.splitlines()]
    lines += ["", f"usage: {USAGE}"]
    group = None
    for name, verb in VERBS.items():
        if verb.group != group:
            group = verb.group
            lines += ["", f"{group}:"]
        lines.append(f"  {name:<11} {verb.summary}")
    codes = [f"{code} {meaning}" for code, meaning in EXIT_CODES.items()]
    lines += [
        "",
        "edgecron help VERB tells more of each; help --man prints the manual page.",
        f"exit codes: {', '.join(codes[:4])},",
        f"            {', '.join(codes[4:])}",
    ]
    return "\n".join(lines)
