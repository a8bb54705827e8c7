"""The command line: one module per verb, and nothing is imported before it is needed.

A verb module has `add_arguments(parser)` and `run(cli, args) -> int`, and `LIVES_LONG` where that
may go on for longer than seconds; its docstring is its help, examples first.

    options.py   the parser                        session.py      what a verb is given
    verbs.py     the table of verbs                screen.py       text for people
    streams.py   closed pipes, full disks          completion.py   and shells/, from grammar.py
    httpserving.py  daemon --http                  transitions.py  an engine's events as lines
    wanted.py    a schedule's options, read        everyday.py     what help and manual say
    wantedjob.py those of its job                  printing.py     what runs print
    help_.py     help; manual.py: the man page     followlogs.py   logs -f
    waiting.py   run --wait                        defaults.py     those that were not given
    topics/      texts of help                     elsewhere.py    the database of another machine

What is said of values in plain words, here and on the dashboard, lies in `edgecron.views.words`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.cli.session import Session

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def run(argv: Sequence[str]) -> int:
    """Run a command line; its exit code.

    0 ok, 1 failed, 2 bad usage or input, 3 no such thing, 4 already there, 5 database unusable.
    """
    from edgecron.base.errors import EdgecronError
    from edgecron.cli.session import Session

    session = Session()
    try:
        code = _run(session, list(argv))
        session.flush()
        return code
    except EdgecronError as error:
        session.show_error(error)
        return error.exit_code if session.error_exit is None else session.error_exit
    except BrokenPipeError:
        from edgecron.cli.streams import drop

        drop(sys.stdout)  # Whoever read our output has seen enough.
        # Of `run --wait` a 0 would say that the job did well, which goes on.
        return 0 if session.error_exit is None else session.error_exit
    except OSError as error:
        from edgecron.base.errors import os_words

        session.show_error(EdgecronError(os_words(error)))
        return 1 if session.error_exit is None else session.error_exit
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        if session.error_exit is None:
            raise  # A defect of ours: it is shown, and the code is 1, which here is the job's.
        from edgecron.cli.streams import show_crash

        show_crash(type(error), error, error.__traceback__)
        return session.error_exit
    finally:
        session.close()
        _settle_streams()


def _settle_streams() -> None:
    """See that nothing is left which the interpreter would fail to write when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            from edgecron.cli.streams import drop

            drop(stream)


def _run(session: Session, argv: list[str]) -> int:
    from edgecron.cli.options import parse

    try:
        module, args = parse(session, argv)
    except SystemExit:
        return 0  # Help or version was shown.
    if getattr(module, "LIVES_LONG", False):
        gc.enable()
    code: int = module.run(session, args)
    return code
