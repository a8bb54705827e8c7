"""Write schedules as a TOML file.

    edgecron export > schedules.toml
    edgecron export nightly weekly -o schedules.toml
    edgecron export --crontab          what cron can do, the rest as comments

`edgecron apply` reads the file. It contains only values that differ from the defaults. Variables
(env) are written as the database holds them: keep secrets in a file that env_file names.

The file has no history, counts or next times, and no pause that has an end. `edgecron backup`
copies everything. In a crontab, a comment explains each thing that cron can't do.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from edgecron.base.errors import UsageError
from edgecron.base.files import write_file
from edgecron.base.paths import user_name
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.document_tables import schedule_table, write_document
from edgecron.formats.option_texts import secret_warnings
from edgecron.views.phrases import count_words

if TYPE_CHECKING:
    from edgecron.model.schedule import Definition


def add_arguments(parser: Parser) -> None:
    parser.add("[NAME...]", "write these schedules (default: all)", dest="names")
    parser.add("-o --output FILE", "write to FILE instead of stdout")
    parser.add("--crontab", "write a crontab instead of TOML")


def run(cli: Session, args: Namespace) -> int:
    if args.crontab and cli.is_json:
        raise UsageError("--crontab and --json are both given, expected one of them")
    schedules = _find(cli, args.names)
    if cli.is_json:
        objects = [{"name": one.spec.name, **schedule_table(one)} for one in schedules]
        cli.put_json(objects)
        return 0
    if args.crontab:
        # It loads the reader of crontabs: an eighth of the time of a small export.
        from edgecron.formats.crontab_writing import write_crontab

        text = write_crontab(schedules, owner=user_name())
    else:
        text = write_document(schedules)
    specs = (one.spec for one in schedules)
    for words in secret_warnings(specs, held_by="the export contains"):
        cli.warn(words)
    _put(cli, text, file=args.output)
    if args.output is not None:
        cli.say(f"wrote {count_words(len(schedules), 'schedule')} to {args.output}")
    return 0


def _find(cli: Session, names: list[str]) -> list[Definition]:
    client = cli.reader()
    assert client is not None
    if names:
        return [client.schedule(name).definition for name in dict.fromkeys(names)]
    schedules = client.definitions()
    if not schedules:
        cli.say(f"edgecron: no schedules in {client.place}: nothing is exported")
    return schedules


def _put(cli: Session, text: str, *, file: str | None) -> None:
    if file is not None:
        # The variables in it are nobody else's.
        write_file(file, [text.encode()])
    elif sys.stdout.isatty():
        cli.put_data(text.removesuffix("\n"))
    else:
        # TOML is UTF-8, whatever the locale is.
        cli.put_bytes(text.encode())
