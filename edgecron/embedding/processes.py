"""Functions in other processes: the paths by which they are imported, and their own processes.

An added schedule stores its function by an import path, such as `reports.daily:send`. The engine
imports the function when the schedule fires for the first time.

The engine's supervisor starts and watches such a process like any command. It kills the process at
its timeout and keeps its output, and the process outlives the engine. The process gets the whole
environment of the program and starts in its folder. It starts no engine. `child` is its main file,
and calls `call_here`, which writes the function's result for the engine.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from edgecron.base.clock import SystemClock
from edgecron.base.errors import DatabaseUnusable, EdgecronError, InvalidInput, NotFound
from edgecron.base.paths import Location, location_text
from edgecron.embedding.context import Arguments, Middleware, is_generator_function
from edgecron.embedding.job import Job as Declared
from edgecron.model.choices import Cause, JobKind, Reason
from edgecron.model.engine import CALL, is_import_path
from edgecron.model.job import Job
from edgecron.model.run import MOST_RESULT_BYTES, Claim
from edgecron.supervisor.calls import Call, Skip, failure_of
from edgecron.supervisor.environment import upstream_of, without_run

if TYPE_CHECKING:
    from types import FrameType

    from edgecron.client import Client
    from edgecron.supervisor.command_runner import Part

VARIABLE = "EDGECRON_PROGRAM"  # tells the child what `process_part` knows of the program
_CHILD = Path(__file__).with_name("child.py")
_REPORT_WAIT_S = 1.0  # to wait for another process's lock to report progress
_MAIN = "__mp_main__"  # the name that multiprocessing uses, and that guards of programs expect
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
    from edgecron.base.service_manager import take_manager
    from edgecron.supervisor.command_runner import Part

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


# In the child.

_is_child = False


def is_child() -> bool:
    """Report whether this process is the child of one function, which starts no engine."""
    return _is_child


def call_here(target: str, told: Mapping[str, Any]) -> int:
    """Call the function that `target` names for the run in `told` and our environment.

    Return our exit code. An exception's traceback goes to stderr.
    """
    global _is_child
    _is_child = True
    from edgecron.client import Client  # The program's own process might never need it.

    client = Client(told["database"], must_exist=True)
    reporting = Client(told["database"], must_exist=True, busy_wait_s=_REPORT_WAIT_S)
    call = _ChildCall(_claim(told["run"]), client, reporting=reporting)
    signal.signal(signal.SIGTERM, call.end)
    try:
        if told["is_added"]:
            arguments = Arguments(load_function(target), job=target, middleware=Middleware())
        else:
            arguments = _find(target, name=call.claim.schedule).arguments
        returned = arguments.call(call)
        if isinstance(returned, CoroutineType):
            import asyncio  # only if needed: 30 ms and 11 MB

            returned = asyncio.run(returned)
        _leave(returned, call)
    except EdgecronError as error:
        hint = f" ({error.hint})" if error.hint else ""
        if not isinstance(error, Skip):
            sys.stderr.write(f"edgecron: {error}{hint}\n")
        _leave_error(error, call)
        return 1
    except BaseException as error:  # CancelledError, too
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise
        import traceback  # seldom needed, and heavy

        traceback.print_exc()
        _leave_error(error, call)
        return 1
    finally:
        client.close()
        reporting.close()
    return 0


class _ChildCall(Call):
    """One run of a function in a process of its own. The supervisor enforces its timeout.

    `reporting` writes its progress, and waits only briefly for a lock.
    """

    __slots__ = ("_last", "_reporting")

    def __init__(self, claim: Claim, client: Client, *, reporting: Client) -> None:
        super().__init__(
            claim, clock=SystemClock(), read_state=lambda _: client.state(claim.schedule)
        )
        self._reporting = reporting
        self._last: tuple[float | None, str] | None = None

    def report_progress(self, fraction: float | None, text: str = "") -> None:
        with suppress(DatabaseUnusable):  # Progress is not worth failing the work.
            self._reporting.report_progress(self.claim.execution_id, fraction, text)
        self._last = (fraction, text)

    def end(self, number: int, frame: FrameType | None) -> None:
        """End by an exception on TERM, so that `finally` blocks run. KILL follows."""
        self.ask_to_stop(Reason.REQUEST)
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(128 + number)

    def left(self, result: object, *, is_lost: bool = False) -> str:
        """Return the text for the engine: the result, the changes of state, and the progress.

        `is_lost` means that the result is not JSON. Raises InvalidInput if the text is too large
        and would lose changes of state.
        """
        parts: dict[str, object] = {"lost": True} if is_lost else {"result": result}
        changes = self.close_state()
        if changes:
            parts["state"] = changes
        if self._last is not None:
            parts["progress"] = {"fraction": self._last[0], "text": self._last[1]}
        text = json.dumps({"edgecron": parts}, ensure_ascii=False, allow_nan=False)
        size_bytes = len(text.encode())
        if changes and size_bytes > MOST_RESULT_BYTES:
            raise InvalidInput(
                f"its changes of state and its result are {size_bytes} bytes together,"
                f" expected at most {MOST_RESULT_BYTES}",
                hint="keep what is large in a file, or run the function on a thread",
            )
        return text


def _claim(run: Mapping[str, Any]) -> Claim:
    variable = os.environ.__getitem__
    return Claim(
        execution_id=int(variable("EDGECRON_RUN_ID")),
        lease_token="",
        schedule_id=run["schedule_id"],
        schedule=variable("EDGECRON_SCHEDULE"),
        job=Job(kind=JobKind.COMMAND, argv=("child",), payload=os.environ.get("EDGECRON_PAYLOAD")),
        plan_ms=run["plan_ms"],
        due_ms=run["due_ms"],
        fire_key=run["fire_key"],
        cause=Cause(variable("EDGECRON_CAUSE")),
        attempt=int(variable("EDGECRON_ATTEMPT")),
        max_attempts=run["max_attempts"],
        scope_kind=variable("EDGECRON_SCOPE_KIND"),
        scope_id=variable("EDGECRON_SCOPE_ID"),
        fence=int(os.environ.get("EDGECRON_FENCE", 0)),
        upstream=upstream_of(os.environ),
    )


def _find(target: str, *, name: str) -> Declared[..., ..., Any, Any]:
    """Load the module of a function and return its job."""
    home, _, qualname = target.rpartition(":")
    if home.endswith(".py"):
        import runpy  # A function of a module does not need it.

        found = runpy.run_path(home, run_name=_MAIN).get(qualname)
    else:
        found = getattr(import_module(home), qualname, None)
    if not isinstance(found, Declared):
        raise NotFound(
            f"{target} is not a job",
            hint="declare a job with process=True at the top level of its module",
        )
    if found.name != name or not found.is_process:
        raise InvalidInput(f"{target} is job {found.name!r}, and not {name!r} in a process")
    return found


def _leave(result: object, call: _ChildCall) -> None:
    path = os.environ.get("EDGECRON_RESULT")
    if path is None:
        return
    try:
        text = call.left(result)
    except InvalidInput:
        raise
    except (TypeError, ValueError, RecursionError):
        # The changes of state must not be lost with it.
        sys.stderr.write("edgecron: its return value is not JSON, and is not kept\n")
        text = call.left(None, is_lost=True)
    _write(path, text)


def _leave_error(error: BaseException, call: Call) -> None:
    """Write the exception of the function: the run shows that instead of an exit code."""
    path = os.environ.get("EDGECRON_RESULT")
    if path is not None:
        why = failure_of(error, call)
        left = {name: value for name, value in why._asdict().items() if name != "trace"}
        left["message"] = why.message.removeprefix(f"{_MAIN}.")
        text = json.dumps({"edgecron": {"error": left}})
        with suppress(OSError):  # It is on stderr, too.
            _write(path, text)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
