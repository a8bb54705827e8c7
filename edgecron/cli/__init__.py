"""The command line. Only the module of the command that runs is imported.

A command is a module, or a class in a module of related commands, such as `PauseCommand`. It has
`add_arguments(parser)` and `run(cli, args) -> int`. Its docstring is its help, with the examples in
the second paragraph. Optional: `USAGE`, if arguments have alternatives;
`TAKES_ARGV`, if a command follows `--`; `LIVES_LONG`, if it can run for longer than seconds
(garbage is then collected).

    commands.py, parser.py  the table of commands, their parsers
    session.py              settings and database of a command, here or by --url
    output.py               data, words, questions, tables and colours; broken streams
    help_.py                help, and the manual page; topics/: longer texts
    suggestions.py          hints for typos, and for words of other programs
    texts/                  longer texts, units, scripts, words of other programs
    schedule_arguments.py   options of add and edit
    plans.py                changes of a document
    run_output.py           output of runs; run_waiting.py: run --wait
    engine_hosting.py       an engine in this process; event_lines.py: its log
    schedule_files.py       documents that the daemon applies
    service_*.py, mcp_*.py  parts of service and mcp

Sentences about values, shared with the dashboard, are in `edgecron.views.phrases`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgecron import __version__
from edgecron.base.errors import EdgecronError, os_words

if TYPE_CHECKING:
    from edgecron.cli.session import Session

_INTERRUPTED = 130  # 128 + SIGINT, as in shells


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit code.

    0 ok, 1 failed, 2 bad usage or input, 3 no such thing, 4 already there, 5 database unusable.
    """
    if list(argv) == ["--version"]:
        return _show_version()
    # Not for --version, which takes 1.7 times a bare interpreter without these, else 3.3 times.
    from edgecron.cli.output import drop, flush_streams, show_crash
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
        drop(sys.stdout)  # The reader of our output has closed it: not an error.
        # With `run --wait`, 0 would mean that the job succeeded, but the job is still running.
        return 0 if session.error_exit is None else session.error_exit
    except OSError as error:
        session.show_error(EdgecronError(os_words(error)))
        return 1 if session.error_exit is None else session.error_exit
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        if session.error_exit is None:
            raise  # A defect of edgecron: exit code 1, which with `run --wait` is the job's.
        show_crash(type(error), error, error.__traceback__)
        return session.error_exit
    finally:
        session.close()
        flush_streams()


def _show_version() -> int:
    try:
        print(f"edgecron {__version__}", flush=True)
    except OSError as error:
        from edgecron.cli.output import drop, tell  # Only for a stream that is broken.

        drop(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            tell(f"error: {os_words(error)}")
            return 1
    return 0


def _run(session: Session, argv: list[str]) -> int:
    from edgecron.cli.parser import parse

    try:
        module, args = parse(session, argv)
    except SystemExit:
        return 0  # Help or version was shown.
    if module is None:
        # All topics: only if help is asked for or needed.
        from edgecron.cli.help_ import refuse_command, show_help

        if args.unknown is not None:
            refuse_command(args.unknown)
        return show_help(session, args.words)
    if getattr(module, "LIVES_LONG", False):
        gc.enable()
    code: int = module.run(session, args)
    return code
