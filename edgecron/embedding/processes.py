"""Run functions of a program in processes of their own.

The engine's supervisor starts and watches such a process as it does any command: the supervisor
kills it at its timeout and keeps its output, and the process outlives the engine. It has the
program's whole environment and its folder. It starts no engine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput
from edgecron.model.claim import Claim

if TYPE_CHECKING:
    from edgecron.supervisor.command_runner import Part


VARIABLE = "EDGECRON_PROGRAM"  # in whose child's environment: what `tell` says
_CHILD = Path(__file__).with_name("child.py")


def command_of(function: Callable[..., Any], *, name: str) -> list[str]:
    """What starts a process that calls a function. Raises InvalidInput where none can find it."""
    qualname = getattr(function, "__qualname__", "")
    if not qualname.isidentifier():
        raise InvalidInput(
            f"job {name!r} is {qualname or function!r}, which no other process can import",
            hint="let it be a function of a module, not one within a function or class",
        )
    # -P: the folder of the child's own file must not stand in for modules.
    return [sys.executable, "-P", os.fspath(_CHILD), f"{_home_of(function, name=name)}:{qualname}"]


def _home_of(function: Callable[..., Any], *, name: str) -> str:
    """The module of a function: its name, or its file where it is the program that was started."""
    module = function.__module__
    if module != "__main__":
        return str(module)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)  # python -m
    file = getattr(main, "__file__", None)
    if file is None:
        raise InvalidInput(
            f"job {name!r} was typed at a prompt, where no other process finds it",
            hint="write it into a module",
        )
    return os.path.abspath(str(file))


class Processes:
    """The functions of a program that run in processes of their own, by the name of their job."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.commands: dict[str, tuple[str, ...]] = {}

    def part_of(self, claim: Claim) -> Part | None:
        """How the process of a claim is started, and what it finds beside its run's own variables,
        which come over it: as this version of the program has it, where another one wrote it down.

        None where it is a command like any other.
        """
        own = self.commands.get(claim.schedule)
        if own is None or not _is_process(claim.job.argv):
            return None
        found: list[object] = [*sys.path]
        told = {
            # Anything else there, such as a Path, is nothing to an import either.
            "path": [one for one in found if isinstance(one, str)],
            "argv": sys.argv,
            "database": os.fspath(self._database),
            "run": {
                "schedule_id": claim.schedule_id,
                "plan_ms": claim.plan_ms,
                "due_ms": claim.due_ms,
                "fire_key": claim.fire_key,
                "max_attempts": claim.max_attempts,
            },
        }
        from edgecron.engine.watchdog import take_manager
        from edgecron.supervisor.command_runner import Part
        from edgecron.supervisor.environment import without_run

        variables = {**without_run(os.environ), VARIABLE: json.dumps(told)}
        take_manager(variables, pid=os.getpid())  # Who speaks to a service manager is the program.
        return Part(own, variables)


def _is_process(argv: tuple[str, ...]) -> bool:
    """Whether it is a command as `command_of` gives it, wherever an edgecron is installed."""
    return len(argv) == 4 and argv[1] == "-P" and Path(argv[2]).name == _CHILD.name


_is_child = False


def begin_child() -> None:
    """Say that it is."""
    global _is_child
    _is_child = True


def is_child() -> bool:
    return _is_child
