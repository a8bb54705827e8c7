"""What a program declares, and what it can ask of the database, with an engine or without."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.base.clock import Clock, SystemClock
from edgecron.base.errors import AlreadyExists, DatabaseBusy, InvalidInput
from edgecron.base.paths import database_path
from edgecron.embedding.event_loops import AWAIT_HINT, MOST_WAIT_S, beside, is_on_loop
from edgecron.model.engine import PROGRAM, origin_of

if TYPE_CHECKING:
    from typing import TypeVar, Unpack

    from edgecron.client import Client
    from edgecron.client.opening import OpenDatabase
    from edgecron.embedding.decorating import Decorate
    from edgecron.embedding.job import Entry
    from edgecron.embedding.options import CommandOptions, Options
    from edgecron.embedding.run import Run
    from edgecron.model.schedule import Schedule
    from edgecron.planning.retention import Retention
    from edgecron.triggers import Trigger

    Face = TypeVar("Face", bound=OpenDatabase)


class Program:
    """The schedules of a program, by what it declares. See Scheduler for the arguments."""

    def __init__(
        self,
        database: str | Path | None,
        *,
        name: str | None,
        timezone: str | None,
        retention: Retention | None,
        clock: Clock | None,
        busy_wait: float,
    ) -> None:
        from edgecron.embedding.pool import ClientPool
        from edgecron.embedding.processes import Processes
        from edgecron.embedding.registry import Registry
        from edgecron.embedding.waiting import Waits

        if database == "":
            raise InvalidInput(
                "database is '', expected a path",
                hint="None is the database that the command line uses",
            )
        self._clock: Clock = clock or SystemClock()
        self._database = database
        self._retention = retention
        self._busy_wait_s = busy_wait
        self._must_exist = False  # while an engine of ours is at work: it makes no other database
        self.pool = ClientPool(self._open_client)
        # A Client knows it as well, and takes as long to load as all of this.
        self.path = self._open_client().path if database is None else database_path(str(database))
        self.name = _check_name(name, self.path)
        self.queue = f"{PROGRAM}{self.name}"
        self.timezone = _check_timezone(timezone)
        self.waits = Waits(self.pool, clock=self._clock, holds_up=self._holds_up)
        self._registry = Registry()
        self._processes = Processes(self.path)
        self._lock = threading.RLock()
        self._keeping = threading.RLock()  # by who has the database say what was declared

    @property
    def is_running(self) -> bool:
        """Whether this process has started an engine of it, and not stopped it."""
        return False

    def job(
        self,
        *when: Trigger | str,
        name: str | None = None,
        payload: object = None,
        process: bool = False,
        **options: Unpack[Options],
    ) -> Decorate:
        """Make a function a job: `@scheduler.job(every("5m"), retries=3)`.

        `when` are triggers, or their texts: `"@daily"`, `"every 5m"`, `"on boot"`; the earliest
        wins. The schedule is called as the function is, or `name`. `payload` is what a scheduled
        run is called with: arguments by name, or in order. With `process` each run is a process of
        its own, which can be killed, and lives on where the program ends; else a thread, or a
        coroutine of the program's event loop. It is kept when an engine starts, or
        when the job is first used. Raises InvalidInput for what is wrong, AlreadyExists where the
        program declares that name twice.
        """
        from edgecron.embedding.options import check_when
        from edgecron.embedding.registry import place_of

        where = place_of(1)
        check_when(when)

        def decorate(function: Callable[..., Any]) -> Any:
            return self._declare_job(
                function, when, options, name=name, payload=payload, process=process, where=where
            )

        return decorate

    def _declare_job(
        self,
        function: Callable[..., Any],
        when: Sequence[Trigger | str],
        options: Options,
        *,
        name: str | None,
        payload: object,
        process: bool,
        where: str,
    ) -> Any:
        from edgecron.embedding.job import Job
        from edgecron.embedding.options import read_options
        from edgecron.embedding.registry import (
            Declared,
            check_function,
            payload_text,
            register,
            wants_context,
        )
        from edgecron.embedding.signatures import Arguments

        name = str(name or getattr(function, "__name__", ""))
        check_function(function, name=name)
        job: dict[str, object] = {"callable": name}
        if process:
            from edgecron.embedding.processes import command_of

            job = {"command": command_of(function, name=name)}
        keys = {**job, "queue": self.queue, **payload_text(payload, name=name)}
        wanted = read_options(name, when, keys, options, timezone=self.timezone)
        arguments = Arguments(function, job=name, has_context=wants_context(function))
        arguments.check(wanted.spec.job.payload)

        def prepare() -> None:
            if process:
                self._processes.commands[name] = wanted.spec.job.argv
            functions = self._registry.apart if process else self._registry
            register(functions, name, function, arguments)

        self._registry.add(Declared(wanted=wanted, where=where), prepare=prepare)
        if self.is_running:
            self.keep_declared()
        return Job(function, name=name, arguments=arguments, ready=self, is_process=process)

    def add(
        self,
        name: str,
        *when: Trigger | str,
        command: Sequence[str] | None = None,
        shell: str | None = None,
        **options: Unpack[CommandOptions],
    ) -> Entry[None]:
        """Make a schedule of a command, or of a line for /bin/sh, or bring it to what is said now.

        It is kept at once. Raises what `job` does.
        """
        from edgecron.embedding.registry import place_of

        return self._add(name, when, command, shell, options, place_of(1))

    async def aadd(
        self,
        name: str,
        *when: Trigger | str,
        command: Sequence[str] | None = None,
        shell: str | None = None,
        **options: Unpack[CommandOptions],
    ) -> Entry[None]:
        """`add`, for a coroutine."""
        from edgecron.embedding.registry import place_of

        return await beside(self._add, name, when, command, shell, options, place_of(1))

    def _add(
        self,
        name: str,
        when: Sequence[Trigger | str],
        command: Sequence[str] | None,
        shell: str | None,
        options: CommandOptions,
        where: str,
    ) -> Entry[None]:
        from edgecron.embedding.job import Entry
        from edgecron.embedding.options import read_options
        from edgecron.embedding.registry import Declared, payload_text

        if (command is None) == (shell is None):
            raise InvalidInput(
                f"schedule {name!r} has {'no command' if command is None else 'two commands'},"
                " expected command=[...] or shell='...'",
                hint="a function of the program is given a schedule by @scheduler.job",
            )
        keys: dict[str, object] = {"shell": shell}
        if isinstance(command, str | bytes):  # a sequence too, but of letters
            raise InvalidInput(
                f"schedule {name!r}: command is the text {command!r:.60}, expected a list of words",
                hint="such as command=['ls', '-l'], or shell='ls -l' for a line of the shell",
            )
        if command is not None:
            keys = {"command": list(command)}
        given = dict(options)
        keys |= payload_text(given.pop("payload", None), name=name)
        wanted = read_options(name, when, keys, given, timezone=self.timezone)
        declared = Declared(wanted=wanted, where=where)
        self._registry.add(declared)
        try:
            self.keep_declared()
        except (InvalidInput, AlreadyExists, DatabaseBusy):
            # Or no engine of the program would start any more, and a second try would be refused.
            self._registry.take_back(declared)
            raise
        return Entry(name, self)

    def keep_declared(self) -> None:
        """Have the database say what was declared: what says so already is left as it is.

        Starting does this, and what is asked of a job. Raises AlreadyExists where a name is that
        of another kind of schedule.
        """
        unkept = self._registry.unkept()
        if not unkept:
            return
        with self._only_one_keeping(), self.pool.client() as client:
            client.declare([one.wanted for one in unkept], queue=self.queue, origin=self._origin)
            self._registry.note_kept(unkept)

    @contextmanager
    def _only_one_keeping(self) -> Iterator[None]:
        if not self._keeping.acquire(timeout=MOST_WAIT_S if is_on_loop() else -1):
            raise DatabaseBusy(
                f"database {self.path} is waited for by another thread of this program",
                hint=AWAIT_HINT,
            )
        try:
            yield
        finally:
            self._keeping.release()

    def prune(self, *, others: bool = False) -> list[str]:
        """Remove what this program has made and does not declare any more; the names of those.

        For when all is declared. What it added while it ran, in an earlier life, goes, too. What
        another version of it needs that is at work stays, but where `others` says so.
        """
        self.keep_declared()
        with self.pool.client() as client:
            return client.prune_declared(
                [one.wanted for one in self._registry.declared()],
                queue=self.queue,
                origin=self._origin,
                spares_others=not others,
            )

    # What there is.

    def get(self, name: str) -> Entry[Any]:
        """A schedule of the database by its name, whoever made it. Raises NotFound."""
        from edgecron.embedding.job import Entry

        entry: Entry[Any] = Entry(name, self)
        _ = entry.schedule
        return entry

    def schedules(self) -> list[Schedule]:
        """Every schedule of the database, by name."""
        self.keep_declared()
        with self.pool.client() as client:
            return client.schedules()

    def run(self, run_id: int) -> Run[Any]:
        """A run by its id. Raises NotFound."""
        from edgecron.embedding.run import Run

        with self.pool.client() as client:
            return Run(client.execution(run_id), self.waits)

    # The same for coroutines: on a thread beside the event loop, which goes on meanwhile.

    async def aget(self, name: str) -> Entry[Any]:
        """`get`, for a coroutine."""
        return await beside(self.get, name)

    async def aschedules(self) -> list[Schedule]:
        """`schedules`, for a coroutine."""
        return await beside(self.schedules)

    async def arun(self, run_id: int) -> Run[Any]:
        """`run`, for a coroutine."""
        return await beside(self.run, run_id)

    async def aprune(self, *, others: bool = False) -> list[str]:
        """`prune`, for a coroutine."""
        return await beside(self.prune, others=others)

    def client(self) -> AbstractContextManager[Client]:
        """The database itself, for one thread: `with scheduler.client() as client`."""
        return self.pool.client()

    def _holds_up(self) -> bool:
        """Whether who waits on this thread holds up an event loop that coroutines of ours need."""
        return False

    @property
    def _origin(self) -> str:
        return origin_of(self.name)

    def _open_client(self) -> Client:
        from edgecron.client import Client

        return self._opened(Client)

    def _opened(self, face: type[Face]) -> Face:
        return face(
            self._database,
            clock=self._clock,
            retention=self._retention,
            must_exist=self._must_exist,
            busy_wait_s=self._busy_wait_s,
        )

    def _declare_all(self) -> None:
        """Have the database say all that is declared."""
        self._declare_and_hold().close()

    def _declare_and_hold(self) -> OpenDatabase:
        """The same; the database is open still, for who opens it next: the last to close it has to
        move its log."""
        # Not by a Client of the pool: who asks for nothing else has no need of all that it is.
        from edgecron.client.declaring import Declarations

        declared = self._registry.declared()
        with ExitStack() as stack:
            declaring = stack.enter_context(closing(self._opened(Declarations)))
            _ = declaring.store  # It is there from now on, also where nothing was declared.
            declaring.declare(
                [one.wanted for one in declared],
                queue=self.queue,
                origin=self._origin,
            )
            self._registry.note_kept(declared)
            stack.pop_all()
        return declaring


def _check_name(name: str | None, path: Path) -> str:
    from edgecron.base.checks import check_name

    found = path.stem if name is None else name
    try:
        check_name(found, what="program name")
    except InvalidInput as error:
        hint = "give the Scheduler a name: Scheduler(path, name='app')"
        raise InvalidInput(error.message, hint=hint if name is None else error.hint) from None
    return found


def _check_timezone(timezone: str | None) -> str | None:
    from edgecron.triggers import check_zone

    return check_zone(timezone)
