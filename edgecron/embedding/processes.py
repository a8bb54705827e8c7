"""Run functions of a program in processes of their own: the engine's side.

The engine's supervisor starts and watches such a process like any command. It kills the process at
its timeout and keeps its output, and the process outlives the engine. The process gets the whole
environment of the program and starts in its folder. It starts no engine. `child` is its main file,
`child_run` calls the function.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput
from edgecron.base.paths import Location, location_text
from edgecron.model.engine import CALL
from edgecron.model.run import Claim

if TYPE_CHECKING:
    from edgecron.supervisor.command_runner import Part

VARIABLE = "EDGECRON_PROGRAM"  # tells the child what `process_part` knows of the program
_CHILD = Path(__file__).with_name("child.py")


def command_of(function: Callable[..., Any], *, name: str) -> list[str]:
    """Return the command that calls a function. Raises InvalidInput if no process can find it."""
    qualname = getattr(function, "__qualname__", "")
    if not qualname.isidentifier():
        raise InvalidInput(
            f"job {name!r} is {qualname or function!r}, which no other process can import",
            hint="define it at the top level of a module, not within a function or class",
        )
    # -P: the folder of the child's own file must not stand in for modules.
    return [sys.executable, "-P", os.fspath(_CHILD), f"{_home_of(function, name=name)}:{qualname}"]


def _home_of(function: Callable[..., Any], *, name: str) -> str:
    """Return the module of a function: its name, or the file of the program that was started."""
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
            f"job {name!r} was typed at a prompt, so no other process can import it",
            hint="define it in a module",
        )
    return os.path.abspath(str(file))


def is_typed(function: Callable[..., Any]) -> bool:
    """Report whether a function was typed at a prompt or in a notebook, so it has no file."""
    return getattr(function, "__module__", None) == "__main__" and is_interactive()


def is_interactive() -> bool:
    """Report whether the program is typed at a prompt or in a notebook."""
    return getattr(sys.modules["__main__"], "__file__", None) is None


def process_part(
    claim: Claim, command: tuple[str, ...] | None, *, database: Location
) -> Part | None:
    """Return the command and the environment of a claim's process; None for any other command.

    `command` is the one of this version of the program: another version might have written the
    schedule. The variables of the run come over this environment.
    """
    argv = claim.job.argv
    is_process = len(argv) == 4 and argv[1] == "-P" and Path(argv[2]).name == _CHILD.name
    is_added = argv[0] == CALL and len(argv) == 2
    if is_added:
        command = (sys.executable, "-P", os.fspath(_CHILD), argv[1])
    elif command is None or not is_process:
        return None
    from edgecron.engine.watchdog import take_manager
    from edgecron.supervisor.command_runner import Part
    from edgecron.supervisor.environment import without_run

    path: list[object] = [*sys.path]
    told = {
        # Imports ignore other values in it, such as a Path.
        "path": [one for one in path if isinstance(one, str)],
        "argv": sys.argv,
        "is_added": is_added,
        "database": location_text(database),
        "run": {
            "schedule_id": claim.schedule_id,
            "plan_ms": claim.plan_ms,
            "due_ms": claim.due_ms,
            "fire_key": claim.fire_key,
            "max_attempts": claim.max_attempts,
        },
    }
    variables = {**without_run(os.environ), VARIABLE: json.dumps(told)}
    take_manager(variables, pid=os.getpid())  # Only the program talks to the service manager.
    return Part(command, variables)


_is_child = False


def begin_child() -> None:
    """Note that this process is the child of one function, which starts no engine."""
    global _is_child
    _is_child = True


def is_child() -> bool:
    return _is_child
