"""Jobs of added schedules, which stay in the database without a declaration.

A function is stored by its import path, such as `reports.daily:send`. The engine imports the
function when the schedule fires for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from edgecron.base.checks import check_type
from edgecron.base.errors import InvalidInput
from edgecron.base.values import NamedTuple
from edgecron.embedding.context import Arguments, Middleware, is_generator_function
from edgecron.embedding.declared_options import COMMAND_OPTION_NAMES, OPTION_NAMES, command_keys
from edgecron.embedding.job import Job as Declared
from edgecron.model.choices import COMMAND_QUEUE, JobKind
from edgecron.model.engine import CALL, is_import_path
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec

_TOP_LEVEL = "define the function at the top level of a module"


class AddedJob(NamedTuple):
    """The job that a call of `add` or `change` gives. A part that was not given is None."""

    command: Sequence[str] | None
    shell: str | None
    call: Callable[..., Any] | None
    args: Sequence[object] | None
    kwargs: Mapping[str, object] | None
    is_process: bool = False  # each run of the call is a process of its own

    @property
    def option_names(self) -> frozenset[str]:
        """The options of a new schedule with this job."""
        return COMMAND_OPTION_NAMES if self.call is None else OPTION_NAMES

    @property
    def _has_arguments(self) -> bool:
        return bool(self.args) or bool(self.kwargs)

    def keys(self, name: str, *, queue: str) -> dict[str, object]:
        """Return the document's keys for a new schedule. Raises InvalidInput."""
        if self.call is None:
            if self.is_process:
                raise InvalidInput(
                    f"schedule {name!r} has process, but no call",
                    hint="a command is a process of its own already",
                )
            if self._has_arguments:
                raise InvalidInput(
                    f"schedule {name!r} has args or kwargs, but no call",
                    hint="such as call=reports.send; a command has its arguments in command=[...]",
                )
            return command_keys(name, self.command, self.shell)
        if (self.command, self.shell) != (None, None):
            raise InvalidInput(
                f"schedule {name!r} has a call and a command, expected one of them",
                hint="make two schedules",
            )
        path = import_path(self.call, name=name)
        kind: dict[str, object] = (
            {"command": [CALL, path]} if self.is_process else {"callable": path}
        )
        return {**kind, "queue": queue, **self._payload_keys(name, self.call)}

    def changed_keys(self, spec: ScheduleSpec, *, queue: str) -> dict[str, object]:
        """Return the document's keys that change in a schedule; a key that is None goes.

        Raises InvalidInput.
        """
        name, job, has_arguments = spec.name, spec.job, (self.args, self.kwargs) != (None, None)
        path = find_path(job)
        is_call = path is not None
        wants_call = self.call is not None or has_arguments
        wants_command = (self.command, self.shell) != (None, None)
        if wants_call and not is_call:
            raise _another_kind(name, "is not an added call of a function", "call=f")
        if wants_command and (is_call or spec.queue != COMMAND_QUEUE):
            raise _another_kind(name, "calls a function", "command=[...]")
        if self.call is not None:
            is_process = job.kind is JobKind.COMMAND
            new = self._replace(is_process=is_process).keys(name, queue=queue)
            if not has_arguments:
                _arguments(self.call, name=name).check(job.payload)
                return new | {"payload": job.payload}
            return {"payload": None, **new}
        if has_arguments:
            assert path is not None
            return {"payload": None, **self._payload_keys(name, _found(name, path))}
        return command_keys(name, self.command, self.shell) if wants_command else {}

    def _payload_keys(self, name: str, call: object) -> dict[str, object]:
        args, kwargs = self.args, self.kwargs
        check_type(
            "args", args, list, tuple, type(None),
            expected="a list", hint='such as args=["plc2"]',
        )  # fmt: skip
        check_type(
            "kwargs", kwargs, Mapping, type(None),
            expected="a dict", hint='such as kwargs={"host": "plc2"}',
        )  # fmt: skip
        try:
            payload = _arguments(call, name=name).payload_of(tuple(args or ()), kwargs or {})
        except TypeError as error:
            raise InvalidInput(
                f"schedule {name!r}: {error}",
                hint="give args=[...] or kwargs={...} that the function takes",
            ) from None
        return {} if payload is None else {"payload": payload}


def _arguments(call: object, *, name: str) -> Arguments:
    """Return what a function takes. It is not called here, so nothing is around it."""
    return Arguments(_bare(call), job=name, middleware=Middleware())


def import_path(call: object, *, name: str) -> str:
    """Return the path by which any process can import a function.

    Raises InvalidInput if the path does not lead to this function.
    """
    if not callable(_bare(call)):
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
    if is_generator_function(_bare(call)):
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
    function = _bare(_import(path))
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


def _found(name: str, path: str) -> Callable[..., Any]:
    try:
        return load_function(path)
    except ImportError as error:
        raise InvalidInput(
            f"schedule {name!r}: {error}", hint="change it in a program that has this module"
        ) from error


def _bare(call: object) -> Any:
    """Return the function of a job, which decides how its runs are called; else the object."""
    return call.function if isinstance(call, Declared) else call


def _unimportable(name: str, why: str, hint: str) -> InvalidInput:
    return InvalidInput(
        f"schedule {name!r}: other processes can't import its function: {why}", hint=hint
    )


def _another_kind(name: str, what: str, key: str) -> InvalidInput:
    return InvalidInput(
        f"schedule {name!r} {what}, so {key} can't change it",
        hint="remove it, and add it again",
    )
