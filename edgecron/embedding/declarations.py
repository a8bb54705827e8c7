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
from edgecron.embedding.context import Arguments, is_generator_function
from edgecron.embedding.middleware import Middleware
from edgecron.model.engine import Offers, find_program, offer_of

if TYPE_CHECKING:
    from typing import Literal, TypedDict

    from edgecron.embedding.failures import Errors
    from edgecron.embedding.on_failure import OnFailure
    from edgecron.formats.document_values import Wanted
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
        grace: Duration  # the former name of max_late
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
        keep_awake: bool
        wake: bool
        durability: Literal["full", "normal", "volatile"]
        scopes: Sequence[str]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule that the program declares.

    `arguments` calls its function; None for a command. A function that `is_process` runs in a
    process of its own.
    """

    wanted: Wanted
    where: str  # file and line
    arguments: Arguments | None = None
    is_process: bool = False


class Registry:
    """The declarations of a program. Any thread can change and read them."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[[Call], object]] = {}
        self.coroutines: dict[str, Callable[[Call], Awaitable[object]]] = {}
        self.process_commands: dict[str, tuple[str, ...]] = {}  # by schedule: see `processes`
        self.middleware = Middleware()
        self.offers: Offers = frozenset()  # the jobs of the program's queue that its engines run
        self._lock = threading.Lock()
        self._declared: dict[str, Declared] = {}
        self._unkept: dict[str, Declared] = {}  # the database might hold something else

    @property
    def callables(self) -> frozenset[str]:
        """The names of the program's functions, those with processes of their own included."""
        return frozenset((*self.functions, *self.coroutines))

    def has_callable(self, name: str) -> bool:
        """Report whether `name` is among `callables`."""
        return name in self.functions or name in self.coroutines

    def reset_in_child(self) -> None:
        """Replace the lock, in a forked child: a thread of the parent might hold it."""
        self._lock = threading.Lock()

    def add(self, one: Declared) -> None:
        """Add a declaration. Raises AlreadyExists if the program declared the name before."""
        spec = one.wanted.spec
        name = spec.name
        with self._lock:
            other = self._declared.get(name)
            if other is not None:
                raise AlreadyExists(
                    f"schedule {name!r} is declared twice in this program: {other.where} and"
                    f" {one.where}",
                    hint="give one of them another name: @scheduler.job(..., name='other')",
                )
            # Register the function first: another thread can write the schedule from here on.
            if one.is_process:
                self.process_commands[name] = spec.job.argv
            if one.arguments is not None:
                is_coroutine = iscoroutinefunction(one.arguments.function)
                (self.coroutines if is_coroutine else self.functions)[name] = one.arguments.call
            self.offers |= _offered(spec)
            self._declared[name] = self._unkept[name] = one

    def take_back(self, one: Declared) -> None:
        """Forget a command that could not be written: its caller gets the error."""
        name = one.wanted.spec.name
        with self._lock:
            if self._unkept.get(name) is one:  # no other thread has written it meanwhile
                del self._unkept[name], self._declared[name]

    def unkept(self) -> list[Declared]:
        """Return the declarations that the database might not hold yet."""
        with self._lock:
            return list(self._unkept.values())

    def declared(self) -> list[Declared]:
        with self._lock:
            return list(self._declared.values())

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
