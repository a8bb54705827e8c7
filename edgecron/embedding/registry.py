"""What a program has declared: its functions by name, and the schedules as they are to be kept."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import AlreadyExists, InvalidInput
from edgecron.base.values import dataclass
from edgecron.embedding.context import RunContext
from edgecron.embedding.signatures import (
    Arguments,
    find_first_annotation,
    is_coroutine_function,
    is_generator_function,
)
from edgecron.model.engine import Offers, find_program, offer_of

if TYPE_CHECKING:
    from edgecron.formats.document_values import Wanted
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.supervisor.calls import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule that the program declares, and where it does."""

    wanted: Wanted
    where: str  # file and line


class Functions:
    """What is called for a job, by its name."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[[Call], object]] = {}
        self.coroutines: dict[str, Callable[[Call], Awaitable[object]]] = {}


class Registry(Functions):
    """The declarations of a program. Changed and read from any thread.

    `apart` are those that engines call in processes of their own, where these are found anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.apart = Functions()
        self._lock = threading.Lock()
        self._declared: dict[str, Declared] = {}
        self._unkept: dict[str, Declared] = {}  # the database may say something else
        self.offers: Offers = frozenset()  # what an engine of the program can run of its queue

    @property
    def callables(self) -> frozenset[str]:
        """The names of the functions that an engine of the program calls, in whatever way."""
        return frozenset(name for some in self._callables for name in some)

    def has_callable(self, name: str) -> bool:
        """Whether `name` is among `callables`."""
        return any(name in some for some in self._callables)

    @property
    def _callables(self) -> tuple[Mapping[str, object], ...]:
        return (self.functions, self.coroutines, self.apart.functions, self.apart.coroutines)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._declared)

    def begin_anew(self) -> None:
        """In a forked child: whoever was at it is not here."""
        self._lock = threading.Lock()

    def add(self, one: Declared, *, prepare: Callable[[], object] = lambda: None) -> None:
        """Take up a declaration. Raises AlreadyExists where its name is taken.

        `prepare` makes ready what its runs need, before anybody can keep it.
        """
        name = one.wanted.spec.name
        with self._lock:
            other = self._declared.get(name)
            if other is not None:
                raise AlreadyExists(
                    f"schedule {name!r} is declared twice in this program: {other.where} and"
                    f" {one.where}",
                    hint="give one of them another name: @scheduler.job(..., name='other')",
                )
            prepare()
            self.offers |= _offered(one.wanted.spec)
            self._declared[name] = self._unkept[name] = one

    def take_back(self, one: Declared) -> None:
        """Forget a command that could not be kept: who declared it was told."""
        name = one.wanted.spec.name
        with self._lock:
            if self._unkept.get(name) is one:  # nobody else has kept it meanwhile
                del self._unkept[name], self._declared[name]

    def unkept(self) -> list[Declared]:
        """What may have to be written still."""
        with self._lock:
            return list(self._unkept.values())

    def declared(self) -> list[Declared]:
        with self._lock:
            return list(self._declared.values())

    def note_kept(self, declared: list[Declared]) -> None:
        """The database says now what these do."""
        with self._lock:
            for one in declared:
                self._unkept.pop(one.wanted.spec.name, None)

    def forget_kept(self) -> None:
        """Another database may be in its place: all is to be looked at again."""
        with self._lock:
            self._unkept = dict(self._declared)


def _offered(spec: ScheduleSpec) -> frozenset[str]:
    """What an engine of the program offers for a schedule: nothing for what any engine runs."""
    if find_program(spec.queue) is None:
        return frozenset()
    return frozenset({offer_of(spec.job.kind, spec.job.argv[0], schedule=spec.name)})


def register(
    registry: Functions, name: str, function: Callable[..., Any], arguments: Arguments
) -> None:
    """Let engines of this process call a function by the name of its job."""

    def call(call: Call) -> Any:
        return invoke(function, arguments, call)

    if is_coroutine_function(function):
        registry.coroutines[name] = call
    else:
        registry.functions[name] = call


def invoke(function: Callable[..., Any], arguments: Arguments, call: Call) -> Any:
    """Call a function as its run has it; what it returns, of a coroutine that to be awaited."""
    args, kwargs = arguments.read(call.claim.job.payload)
    if arguments.has_context:
        return function(RunContext(call), *args, **kwargs)
    return function(*args, **kwargs)


def check_function(function: Callable[..., Any], *, name: str) -> None:
    """Raise InvalidInput for what no run could be of."""
    if not callable(function):
        raise InvalidInput(f"job {name!r} is {function!r:.60}, expected a function")
    if is_generator_function(function):
        raise InvalidInput(
            f"job {name!r} is a generator, which does nothing until somebody goes through it",
            hint="let a function go through it, and make that the job",
        )


def wants_context(function: Callable[..., Any]) -> bool:
    """Whether the first parameter of a function is said to be a RunContext."""
    said = find_first_annotation(function)
    if isinstance(said, str):
        # Where annotations are not evaluated: `RunContext`, `edgecron.RunContext`.
        return said.strip("'\"").rpartition(".")[2] == RunContext.__name__
    return said is RunContext


def place_of(depth: int) -> str:
    """File and line of the caller so many frames above ours."""
    import sys

    frame = sys._getframe(depth + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def payload_text(payload: object, *, name: str) -> Mapping[str, object]:
    """The key of a document for a payload; none where there is none."""
    from edgecron.embedding.signatures import json_text

    if payload is None:
        return {}
    return {"payload": json_text(payload, what=f"the payload of {name!r}")}
