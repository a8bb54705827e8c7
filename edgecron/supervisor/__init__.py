"""The process that starts and watches an engine's commands, and outlives the engine.

process.py    how it comes to be            loop.py       its event loop
link.py       the engine's end of the link  engine_end.py its own end
protocol.py   the frames between them       records.py    requests and exit records
starting.py   what waits to be started      spawn.py      the start of a command
watching.py   what runs                     run.py        one run, and its end
output.py     what a run prints             groups.py     process groups
ledger.py     ends not acknowledged yet     journal.py    starts and exits on record
files.py      names, locks                  verdicts.py   what became of a run of a dead one
remains.py    what dead ones left           deadlines.py  times to act at
guardian.py   its parent, ends orphans      results.py    the result that a run leaves
controls.py   its control socket            control.py    how others ask it
addresses.py  sockets, whatever their path  run_session.py  what a run has started
holders.py    of locks whose files were deleted   flags.py  what is noted of a run

The names below are loaded when they are first used: an engine that has no command to run reads a
lock now and then, and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.supervisor.files import lock_is_held, lock_path
    from edgecron.supervisor.flags import Flag
    from edgecron.supervisor.groups import LeftGroup, end_left_group
    from edgecron.supervisor.journal import JournalState, Trace, read_journal
    from edgecron.supervisor.link import Event, Exited, NotStarted, Started, SupervisorLink
    from edgecron.supervisor.process import StartBy, start
    from edgecron.supervisor.records import EndCause, ExitRecord, Identity, StartRequest
    from edgecron.supervisor.remains import forget
    from edgecron.supervisor.verdicts import (
        Exit,
        Interrupted,
        NeverStarted,
        Verdict,
        judge,
        verdict,
    )

_HOME = {
    "EndCause": "records",
    "Event": "link",
    "Exit": "verdicts",
    "ExitRecord": "records",
    "Exited": "link",
    "Flag": "flags",
    "Identity": "records",
    "Interrupted": "verdicts",
    "JournalState": "journal",
    "LeftGroup": "groups",
    "NeverStarted": "verdicts",
    "NotStarted": "link",
    "StartBy": "process",
    "StartRequest": "records",
    "Started": "link",
    "SupervisorLink": "link",
    "Trace": "journal",
    "Verdict": "verdicts",
    "end_left_group": "groups",
    "forget": "remains",
    "judge": "verdicts",
    "lock_is_held": "files",
    "lock_path": "files",
    "read_journal": "journal",
    "start": "process",
    "verdict": "verdicts",
}

__all__ = [
    "EndCause",
    "Event",
    "Exit",
    "ExitRecord",
    "Exited",
    "Flag",
    "Identity",
    "Interrupted",
    "JournalState",
    "LeftGroup",
    "NeverStarted",
    "NotStarted",
    "StartBy",
    "StartRequest",
    "Started",
    "SupervisorLink",
    "Trace",
    "Verdict",
    "end_left_group",
    "forget",
    "judge",
    "lock_is_held",
    "lock_path",
    "read_journal",
    "start",
    "verdict",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'edgecron.supervisor' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"edgecron.supervisor.{_HOME[name]}"), name)
    globals()[name] = value
    return value
