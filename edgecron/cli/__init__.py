"""The command line: one module per verb, and nothing is imported before it is needed.

A verb module has `add_arguments(parser)` and `run(cli, args) -> int`; its docstring is its help,
examples first.

    options.py   the parser, policies and times as options     screen.py   text for people
    session.py   what a verb is given: database, output        verbs.py    the table of verbs
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run a command line; its exit code.

    0 ok, 1 failed, 2 bad usage or input, 3 no such thing, 4 already there, 5 database unusable.
    """
    from edgecron.cli.session import Session
    from edgecron.errors import EdgecronError

    session = Session()
    try:
        return _run(session, list(argv))
    except EdgecronError as error:
        session.show_error(error)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has seen enough. Nothing more may be written to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    finally:
        session.close()


def _run(session: object, argv: list[str]) -> int:
    from edgecron.cli.options import parse
    from edgecron.cli.session import Session

    assert isinstance(session, Session)
    module, args = parse(session, argv)
    code: int = module.run(session, args)
    sys.stdout.flush()
    return code
