"""The declarations of a program: its functions by name, and the schedules that it wants."""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import check_name
from edgecron.base.errors import AlreadyExists, InvalidInput
from edgecron.base.values import dataclass
from edgecron.embedding.context import Arguments, Middleware, is_generator_function
from edgecron.embedding.processes import is_typed, load_function
from edgecron.model.engine import IMPORTED, Offers, find_program, is_import_path, offer_of

if TYPE_CHECKING:
    from typing import Literal, TypedDict

    from edgecron.embedding.failures import Errors, OnFailure
    from edgecron.formats.document_tables import Wanted
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.supervisor.calls import Call

    Duration = str | float | timedelta  # "90s", seconds, or a timedelta

    class Options(TypedDict, total=False):
        """How a schedule behaves. The defaults are those of the command line.

        An option that accepts None has no limit then.
        """

        description: str
        timezone: str
        from_at: datetime | str
        until_at: datetime | str
        max_runs: int | None
        allow_fast: bool  # allow intervals under a second
        jitter: Duration
        between: str | Sequence[str]
        not_between: str | Sequence[str]
        except_days: str | date | Sequence[str | date]
        catch_up: Literal["once", "skip", "all"]
        max_late: Duration
        overlap: Literal["skip", "queue", "allow", "replace"]
        max_running: int
        timeout: Duration | None
        stall_timeout: Duration
        stall_action: Literal["notice", "end"]
        kill_grace: Duration
        retries: int
        retry_delay: Duration
        retry_factor: float
        retry_max_delay: Duration
        on_interrupt: Literal["leave", "retry"]
        priority: Literal["low", "normal", "high"] | int
        group: str
        notify: str | Sequence[str]
        needs: str | Sequence[str]
        needs_deadline: Duration
        while_needs: str | Sequence[str]
        while_lost: Literal["end", "suspend"]
        on: str
        keep_awake: bool
        wake: bool
        durability: Literal["full", "normal", "volatile"]
        scopes: Sequence[str]
        enabled: bool

    class JobOptions(Options, total=False):
        """The same, and what follows from exceptions of a function."""

        retry_on: Errors
        give_up_on: Errors
        on_failure: OnFailure

    class CommandOptions(Options, total=False):
        """The same, and the surroundings of a command."""

        env: Mapping[str, str]
        env_file: str
        cwd: str
        user: str
        nice: int
        ionice: str
        memory_max: str
        cpu_max: str
        stdin: str
        ok_codes: int | Sequence[int]
        payload: object

    class AddOptions(CommandOptions, total=False):
        """Options of `add` with a command."""

        command: Sequence[str]
        shell: str
        replace: bool

    class CallOptions(Options, total=False):
        """Options of `add` with a function."""

        args: Sequence[object]
        kwargs: Mapping[str, object]
        process: bool
        replace: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule that the program declares, or has added.

    `arguments` calls a declared function; None for an added schedule. A function that `is_process`
    runs in a process of its own.
    """

    wanted: Wanted
    where: str  # file and line
    arguments: Arguments | None = None
    is_process: bool = False

    @property
    def is_added(self) -> bool:
        """Whether it lives in the database only: no start of the program writes it again."""
        return self.arguments is None

    def replaces(self, other: Declared) -> bool:
        """Whether it is a function that was typed again, as in a cell of a notebook."""
        if self.arguments is None or other.arguments is None:
            return False
        new, old = self.arguments.function, other.arguments.function
        return is_typed(new) and is_typed(old) and new.__qualname__ == old.__qualname__


class Registry:
    """The declarations of a program, and what it added. Any thread can change and read them.

    `functions` and `coroutines` also have the imported functions that have run, by their paths.
    """

    def __init__(self) -> None:
        self.functions: dict[str, Callable[[Call], object]] = {}
        self.coroutines: dict[str, Callable[[Call], Awaitable[object]]] = {}
        self.process_commands: dict[str, tuple[str, ...]] = {}  # by schedule: see `processes`
        self.middleware = Middleware()
        # The jobs of the program's queue that its engines run.
        self.offers: Offers = frozenset({IMPORTED})
        self._lock = threading.Lock()
        self._importing: set[str] = set()  # schedules whose functions were imported
        self._declared: dict[str, Declared] = {}
        self._unkept: dict[str, Declared] = {}  # the database might hold something else

    @property
    def callables(self) -> frozenset[str]:
        """The names of the declared functions, those with processes of their own included."""
        names = (*self.functions, *self.coroutines)
        return frozenset(name for name in names if not is_import_path(name))

    def has_callable(self, schedule: str) -> bool:
        """Report whether a schedule calls a function: a declared one, or one that we imported."""
        return (
            schedule in self.functions or schedule in self.coroutines or schedule in self._importing
        )

    def load(self, call: Call) -> None:
        """Import the function of a run if that is still to do. Raises ImportError.

        The job of a declared function is its name, and nothing is to do.
        """
        path = call.claim.job.argv[0]
        if not is_import_path(path):
            return
        self._importing.add(call.claim.schedule)
        if path in self.functions or path in self.coroutines:
            return
        function = load_function(path)
        called = Arguments(function, job=path, middleware=self.middleware).call
        (self.coroutines if iscoroutinefunction(function) else self.functions)[path] = called

    def reset_in_child(self) -> None:
        """Replace the lock, in a forked child: a thread of the parent might hold it."""
        self._lock = threading.Lock()

    def add(self, one: Declared) -> None:
        """Add a declaration. Raises AlreadyExists if the program declared the name before.

        A function that is typed again at a prompt or in a notebook replaces the former one.
        """
        spec = one.wanted.spec
        name = spec.name
        with self._lock:
            self._need_free(one)
            # Register the function first: another thread can write the schedule from here on.
            if one.is_process:
                self.process_commands[name] = spec.job.argv
            if one.arguments is not None:
                is_coroutine = iscoroutinefunction(one.arguments.function)
                (self.coroutines if is_coroutine else self.functions)[name] = one.arguments.call
                (self.functions if is_coroutine else self.coroutines).pop(name, None)
            self.offers |= _offered(spec)
            self._declared[name] = self._unkept[name] = one

    def need_free(self, one: Declared) -> None:
        """Raise AlreadyExists if the program declares the name of a schedule to add."""
        with self._lock:
            self._need_free(one)

    def _need_free(self, one: Declared) -> None:
        name = one.wanted.spec.name
        other = self._declared.get(name)
        if other is None or (other.is_added and one.is_added) or one.replaces(other):
            return
        is_added = other.is_added or one.is_added
        raise AlreadyExists(
            f"schedule {name!r} is {'declared and added' if is_added else 'declared twice'} in"
            f" this program: {other.where} and {one.where}",
            hint="give one of them another name: @scheduler.job(..., name='other')",
        )

    def note_added(self, one: Declared) -> None:
        """Note a schedule that was added. A new database gets it, too: see `forget_kept`."""
        with self._lock:
            self._declared[one.wanted.spec.name] = one

    def forget_added(self, name: str) -> None:
        """Forget a schedule that was added, if it was: it is removed, or changed."""
        with self._lock:
            if name in self._declared and self._declared[name].is_added:
                del self._declared[name]
                self._unkept.pop(name, None)

    def find_place(self, name: str) -> str | None:
        """Return file and line of a declaration; None without one."""
        with self._lock:
            one = self._declared.get(name)
            return None if one is None or one.is_added else one.where

    def unkept(self) -> list[Declared]:
        """Return the declarations that the database might not hold yet."""
        with self._lock:
            return list(self._unkept.values())

    def declared(self) -> list[Declared]:
        """Return the declarations, and added schedules that the database might not hold."""
        with self._lock:
            return [
                one
                for name, one in self._declared.items()
                if not one.is_added or name in self._unkept
            ]

    def note_kept(self, declared: list[Declared]) -> None:
        """Note that the database holds these declarations."""
        with self._lock:
            for one in declared:
                self._unkept.pop(one.wanted.spec.name, None)

    def forget_kept(self) -> None:
        """Write every declaration again: the database might be another one now."""
        with self._lock:
            self._unkept = dict(self._declared)


def _offered(spec: ScheduleSpec) -> frozenset[str]:
    """Return what an engine of the program offers for a schedule; nothing for a plain command."""
    if find_program(spec.queue) is None:
        return frozenset()
    return frozenset({offer_of(spec.job.kind, spec.job.argv[0], schedule=spec.name)})


def read_job_name(function: object, name: object) -> str:
    """Return the name of a function's schedule: a given one, or its own.

    Raises InvalidInput for a value that can't be a job: no function, a lambda or a generator.
    """
    if not callable(function):
        raise InvalidInput(
            f"the job is {function!r:.60}, expected a function",
            hint='such as @scheduler.job("@daily"), with a def below it',
        )
    found: Any = getattr(function, "__name__", None) if name is None else name
    if found == "<lambda>":
        raise InvalidInput("a lambda has no name", hint='give it one: job(..., name="poll")')
    if found is None:
        raise InvalidInput(
            f"the job has no name: {function!r:.60}", hint='give it one: job(..., name="poll")'
        )
    check_name(found, what="schedule name")
    if is_generator_function(function):
        raise InvalidInput(
            f"job {found!r} is a generator, which does nothing until a caller iterates over it",
            hint="let a function iterate over it, and make that function the job",
        )
    return str(found)


def place_of(depth: int) -> str:
    """Return file and line of the caller that is `depth` frames above ours."""
    frame = sys._getframe(depth + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
