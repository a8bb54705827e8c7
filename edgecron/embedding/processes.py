"""Functions in other processes: the paths by which they are imported, and their own processes.

An added schedule stores its function by an import path, such as `reports.daily:send`. The engine
imports the function when the schedule fires for the first time.

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
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput
from edgecron.base.paths import Location, location_text
from edgecron.embedding.context import is_generator_function
from edgecron.embedding.job import Job as Declared
from edgecron.model.choices import JobKind
from edgecron.model.engine import CALL, is_import_path
from edgecron.model.job import Job
from edgecron.model.run import Claim

if TYPE_CHECKING:
    from edgecron.supervisor.command_runner import Part

VARIABLE = "EDGECRON_PROGRAM"  # tells the child what `process_part` knows of the program
_CHILD = Path(__file__).with_name("child.py")


_TOP_LEVEL = "define the function at the top level of a module"


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


def import_path(call: object, *, name: str) -> str:
    """Return the path by which any process can import a function.

    Raises InvalidInput if the path does not lead to this function.
    """
    if not callable(bare(call)):
        raise InvalidInput(
            f"schedule {name!r}: call is {call!r:.60}, expected a function",
            hint="such as call=reports.send",
        )
    module, qualname = getattr(call, "__module__", None), getattr(call, "__qualname__", None)
    if not module or not qualname:
        raise _unimportable(name, f"{call!r:.60} has no name", "give its arguments as args=[...]")
    if qualname.endswith("<lambda>"):
        raise _unimportable(name, "it is a lambda", f"{_TOP_LEVEL}, with def")
    if module == "__main__":
        raise _unimportable(
            name,
            f"{qualname} is part of the started program (__main__)",
            "put the function in a module, and import it from there",
        )
    if "<locals>" in qualname:
        raise _unimportable(name, f"{qualname} is within another function", _TOP_LEVEL)
    if hasattr(call, "__func__") and not isinstance(getattr(call, "__self__", None), type):
        raise _unimportable(name, f"{qualname} is a method of an instance", _TOP_LEVEL)
    if is_generator_function(bare(call)):
        raise InvalidInput(
            f"schedule {name!r}: {qualname} is a generator, which does nothing until a caller"
            " iterates over it",
            hint="let a function iterate over it, and add that function",
        )
    path = f"{module}:{qualname}"
    try:
        found = _import(path)
    except ImportError as error:
        raise _unimportable(name, str(error), _TOP_LEVEL) from error
    if found is not call and found != call:  # A method of a class is another object each time.
        raise _unimportable(
            name, f"{path} is another object: {found!r:.60}", f"{_TOP_LEVEL}, under its own name"
        )
    return path


def find_path(job: Job) -> str | None:
    """Return the import path of an added function; None for any other job."""
    if job.kind is JobKind.CALLABLE:
        return job.argv[0] if is_import_path(job.argv[0]) else None
    return job.argv[1] if job.argv[0] == CALL and len(job.argv) == 2 else None


def load_function(path: str) -> Callable[..., Any]:
    """Import a function by its path. Raises ImportError with the path."""
    function = bare(_import(path))
    if not callable(function):
        raise ImportError(f"{path} is {function!r:.60}, expected a function")
    found: Callable[..., Any] = function
    return found


def _import(path: str) -> object:
    module, _, qualname = path.partition(":")
    try:
        found: object = import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ImportError(f"{path} can't be imported: {why}") from error
    return found


def bare(call: object) -> Any:
    """Return the function of a job, which decides how its runs are called; else the object."""
    return call.function if isinstance(call, Declared) else call


def _unimportable(name: str, why: str, hint: str) -> InvalidInput:
    return InvalidInput(
        f"schedule {name!r}: other processes can't import its function: {why}", hint=hint
    )
