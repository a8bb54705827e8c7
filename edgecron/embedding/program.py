"""The declarations of a program, and its questions to the database, with an engine or without."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import check_name, check_seconds, check_switch, check_type, suggest
from edgecron.base.clock import Clock, SystemClock
from edgecron.base.errors import DatabaseBusy, InvalidInput, NotFound, NotSupported
from edgecron.base.paths import Location, ServerUrl
from edgecron.base.zones import check_zone
from edgecron.client.opening import OpenDatabase
from edgecron.embedding.concurrency import (
    AWAIT_HINT,
    MOST_WAIT_S,
    ClientPool,
    beside_loop,
    is_on_loop,
)
from edgecron.embedding.context import Arguments, RunContext
from edgecron.embedding.declarations import (
    Declared,
    Registry,
    place_of,
    read_job_name,
)
from edgecron.embedding.declared_options import (
    OPTION_NAMES,
    check_when,
    payload_text,
    read_options,
)
from edgecron.embedding.enqueuing import (
    CALL_OPTIONS,
    Enqueuer,
    read_target,
    sent_payload,
    take_call,
)
from edgecron.embedding.entry import Entry
from edgecron.embedding.failures import RULE_NAMES, FailureCalls, check_on_failure, read_rules
from edgecron.embedding.job import Job
from edgecron.embedding.processes import command_of
from edgecron.embedding.run import Run, Waits
from edgecron.model.engine import PROGRAM, origin_of
from edgecron.planning.retention import Retention
from edgecron.triggers.kinds import ON_DEMAND

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import TypeVar, Unpack

    from edgecron.client import Client
    from edgecron.client.schedule_changes import ScheduleChanges
    from edgecron.embedding.declarations import JobOptions
    from edgecron.embedding.job import Decorate
    from edgecron.model.schedule import Schedule
    from edgecron.triggers import Trigger

    Around = Callable[[RunContext], Iterator[Any]] | Callable[[RunContext], AsyncIterator[Any]]
    M = TypeVar("M", bound=Around)
    Opened = TypeVar("Opened", bound=OpenDatabase)


_CLOCK_METHODS = ("now_ms", "monotonic_ms", "boottime_ms", "boot_id", "is_synchronised")
_A_RETENTION = "edgecron.planning.retention.Retention(history_age_s=30 * 86400)"


class Program:
    """The schedules of a program, by what it declares. See Scheduler for the arguments."""

    def __init__(
        self,
        database: str | Location | None,
        *,
        name: str | None,
        timezone: str | None,
        retention: Retention | None,
        clock: Clock | None,
        busy_wait: float,
    ) -> None:
        if database is not None and not isinstance(database, str | PathLike | ServerUrl):
            raise InvalidInput(
                f"database is {database!r:.60}, expected a path, a URL or None",
                hint="such as Scheduler('app.db') or Scheduler('postgresql://host/app')",
            )
        if database == "":
            raise InvalidInput(
                "database is '', expected a path",
                hint="None is the database that the command line uses",
            )
        check_type(
            "retention", retention, Retention, type(None),
            expected="a Retention or None", hint=f"such as {_A_RETENTION}",
        )  # fmt: skip
        if clock is not None and not all(hasattr(clock, name) for name in _CLOCK_METHODS):
            raise InvalidInput(
                f"clock is {clock!r:.60}, expected a clock or None",
                hint="such as edgecron.embedding.testing.FakeClock(), in a test",
            )
        check_seconds("busy_wait", busy_wait, example="busy_wait=30.0")
        self._clock: Clock = clock or SystemClock()
        self._database = database
        self._retention = retention
        self._busy_wait_s = busy_wait
        self._must_exist = False  # an engine of ours is running: it must not create a new database
        self.pool = ClientPool(self._open_client)
        self.location = self._opened(OpenDatabase).location
        self._database = self.location  # also if the program enters another folder
        self.name = _check_name(name, self.location)
        self.queue = f"{PROGRAM}{self.name}"
        self.timezone = check_zone(timezone)
        self.waits = Waits(
            self.pool, clock=self._clock, holds_up=self._holds_up, serves=self._serves
        )
        self.enqueuer = Enqueuer(self.pool)
        self._registry = Registry()
        self._failures = FailureCalls(self._find_failed)
        self._lock = threading.RLock()
        self._keeping = threading.RLock()  # held while a thread writes the declarations

    @property
    def is_running(self) -> bool:
        """Whether this process has started an engine of the program and not stopped it."""
        return False

    @property
    def path(self) -> Path:
        """The database file; a database of a server has none."""
        if isinstance(self.location, ServerUrl):
            raise NotSupported(
                f"database {self.location} is on a server and has no path", hint="use `location`"
            )
        return self.location

    @property
    def origin(self) -> str:
        """The origin of its changes, for people: `program app`."""
        return origin_of(self.name)

    def job(
        self,
        *when: Trigger | str,
        name: str | None = None,
        payload: object = None,
        process: bool = False,
        **options: Unpack[JobOptions],
    ) -> Decorate:
        """Make a function a job: `@scheduler.job(every("5m"), retries=3)`.

        `when` are triggers, or their texts: `"@daily"`, `"every 5m"`, `"on boot"`; the earliest
        wins. The schedule has the name of the function, or `name`. Scheduled runs call the
        function with `payload`: arguments by name, or in order. A run is a call on a thread, or a
        coroutine on the program's event loop. With `process` each run is a process of its own: it
        can be killed, and it outlives the program. The schedule is written when an engine starts,
        or when the job is first used. Raises InvalidInput for a wrong argument, AlreadyExists if
        the program declares the name twice. A function that you type again at a prompt or in a
        notebook replaces the former one.

        Three options concern exceptions of the function. `retry_on`: only these classes are
        retried. `give_up_on`: these are never retried. `on_failure(run, error)`: a function that
        is called once, after the last attempt failed.
        """
        return self._declaring(when, name, payload, process, options, place_of(1))

    def task(
        self,
        *misused: object,
        name: str | None = None,
        process: bool = False,
        **options: Unpack[JobOptions],
    ) -> Decorate:
        """Make a function a task, which runs only on demand: `@scheduler.task(retries=3)`.

        Call it by `enqueue`. Its parameters need no default. Tasks run beside each other, unless
        `overlap` or `max_running` says otherwise. Everything else is as in `job`, whose trigger
        is then "on demand".
        """
        if misused:
            raise InvalidInput(
                f"task has no trigger, but was given {misused[0]!r:.60}",
                hint="such as @scheduler.task(), with a def below it; with times, use job",
            )
        options = {"overlap": "allow", **options}
        return self._declaring((ON_DEMAND,), name, None, process, options, place_of(1))

    def _declaring(
        self,
        when: Sequence[Trigger | str],
        name: str | None,
        payload: object,
        process: bool,
        options: JobOptions,
        where: str,
    ) -> Decorate:
        """Return the decorator of `job` and `task`; `where` is the line that declares."""
        check_when(when)
        check_switch("process", process)

        def decorate(function: Callable[..., Any]) -> Any:
            job_name = read_job_name(function, name)
            keys: dict[str, object] = {"queue": self.queue, **payload_text(payload, name=job_name)}
            if process:
                keys["command"] = command_of(function, name=job_name)
            else:
                keys["callable"] = job_name
            rules = read_rules(job_name, options)
            on_failure = options.get("on_failure")
            check_on_failure(job_name, on_failure)
            given = {key: value for key, value in options.items() if key not in RULE_NAMES}
            wanted = read_options(
                job_name, when, keys, given, known=OPTION_NAMES, timezone=self.timezone
            )
            arguments = Arguments(
                function, job=job_name, middleware=self._registry.middleware, rules=rules
            )
            if wanted.spec.triggers == (ON_DEMAND,):  # Each call brings its arguments.
                arguments.refuse_names(CALL_OPTIONS)
            else:
                arguments.check(wanted.spec.job.payload)
            self._registry.add(
                Declared(wanted=wanted, where=where, arguments=arguments, is_process=process)
            )
            if on_failure is None:
                self._failures.functions.pop(job_name, None)
            else:
                self._failures.functions[job_name] = on_failure
            if self.is_running:
                self.keep_declared()
            return Job(
                function, name=job_name, arguments=arguments, program=self, is_process=process
            )

        return decorate

    def middleware(self, function: M) -> M:
        """Put a generator function around each call of a job's function for a run.

            @scheduler.middleware
            def timed(run: RunContext) -> Iterator[None]:
                began = time.monotonic()
                try:
                    yield  # the function is called here, and its exceptions are raised here
                finally:
                    print(run.schedule, time.monotonic() - began)

        The first one that is declared is the outermost. A generator is also around coroutines; an
        asynchronous generator is around coroutines only. If it catches an exception, the run
        succeeds. With `process=True` it runs in the process of the run, if the import of the job's
        module declares it. Raises InvalidInput for a function that is not a generator.
        """
        self._registry.middleware.add(function)
        return function

    def keep_declared(self) -> None:
        """Write the declarations that the database might not hold. Equal schedules do not change.

        The start of an engine does this, and each use of a job. Raises AlreadyExists if a name
        belongs to another kind of schedule.
        """
        unkept = self._registry.unkept()
        if not unkept:
            return
        with self._only_one_keeping(), self.pool.client() as client:
            self._declare(client, unkept)

    def _declare(self, client: ScheduleChanges, declared: list[Declared]) -> None:
        from edgecron.client.declaring import declare

        declare(
            client,
            [one.wanted for one in declared],
            queue=self.queue,
            origin=self.origin,
            places={one.wanted.spec.name: one.where for one in declared if not one.is_added},
        )
        self._registry.note_kept(declared)

    @contextmanager
    def _only_one_keeping(self) -> Iterator[None]:
        if not self._keeping.acquire(timeout=MOST_WAIT_S if is_on_loop() else -1):
            raise DatabaseBusy(
                f"another thread of this program waits for database {self.location}",
                hint=AWAIT_HINT,
            )
        try:
            yield
        finally:
            self._keeping.release()

    def prune(self, *, others: bool = False) -> list[str]:
        """Remove the jobs that this program declared once and no longer declares.

        Call it after the last declaration. Returns their names. Added schedules stay: remove them
        with `get(name).remove()`. Jobs of another running version of the program stay, unless
        `others` is true.
        """
        from edgecron.client.declaring import prune_declared

        check_switch("others", others)
        self.keep_declared()
        with self.pool.client() as client:
            return prune_declared(
                client,
                [one.wanted for one in self._registry.declared()],
                queue=self.queue,
                spares_others=not others,
            )

    def get(self, name: str) -> Entry[Any]:
        """Return a schedule of the database by its name, whoever made it. Raises NotFound."""
        if not isinstance(name, str):
            raise InvalidInput(
                f"a schedule's name is text, got {name!r}", hint="for a run by its id: run(41)"
            )
        entry: Entry[Any] = Entry(name, self)
        _ = entry.schedule
        return entry

    def schedules(self) -> list[Schedule]:
        """Return every schedule of the database, by name."""
        self.keep_declared()
        with self.pool.client() as client:
            return client.schedules()

    def run(self, run_id: int) -> Run[Any]:
        """Return a run by its id. Raises NotFound."""
        if isinstance(run_id, bool) or not isinstance(run_id, int):
            raise InvalidInput(
                f"a run's id is a number, got {run_id!r}", hint="for a schedule: get('name')"
            )
        if not 0 <= run_id < 2**63:
            raise NotFound(f"there is no run {run_id}", hint="see: edgecron history")
        with self.pool.client() as client:
            return Run(client.execution(run_id), self.waits)

    def send(self, target: str, *args: Any, **kwargs: Any) -> Run[Any]:
        """Enqueue a function of any program by its name, also without its code:

            Scheduler("app.db").send("app:load", "users", delay="5m")

        `target` is the name of the program, a colon and the name of the schedule. The arguments are
        those of the function, all in order or all by name, and the options of `Job.enqueue`. The
        function checks the arguments when it runs. Nothing is declared. Raises NotFound.
        """
        call = take_call(kwargs)
        program, name = read_target(target)
        payload = sent_payload(target, args, kwargs)
        queue = f"{PROGRAM}{program}"
        try:
            [run_id] = self.enqueuer.enqueue(name, [payload], call=call, queue=queue)
        except NotFound:
            with self.pool.client() as client:
                known = client.store.find_names_in_queue(queue)
            close = suggest(name, known)
            raise NotFound(
                f"program {program!r} has no function {name!r} in {self.location}",
                hint=f"did you mean '{program}:{close}'?"
                if close
                else "a program declares its functions when it starts",
            ) from None
        return Run(run_id, self.waits)

    # The same for coroutines: each call runs on a thread beside the event loop.

    asend = beside_loop(send)
    aget = beside_loop(get)
    aschedules = beside_loop(schedules)
    arun = beside_loop(run)
    aprune = beside_loop(prune)

    def client(self) -> AbstractContextManager[Client]:
        """Lend the database itself to one thread: `with scheduler.client() as client`."""
        return self.pool.client()

    def _holds_up(self) -> bool:
        """Report whether to wait on this thread would block an event loop of our coroutines."""
        return False

    def _find_failed(self, run_id: int) -> Run[Any] | None:
        """Return a run that has ended; None if another attempt follows."""
        run: Run[Any] = Run(run_id, self.waits)
        return run if self.waits.look(run.execution).id == run_id else None

    def _serves(self, queue: str) -> bool:
        """Report whether this process has started an engine for a queue."""
        return False

    def find_declaration(self, name: str) -> str | None:
        """Return file and line at which this program declares a schedule; None if it does not."""
        return self._registry.find_place(name)

    def forget_added(self, name: str) -> None:
        """Forget how this process added a schedule: that schedule was changed or removed."""
        self._registry.forget_added(name)

    def _open_client(self) -> Client:
        from edgecron.client import Client  # 8 ms that an engine at rest does not need

        return self._opened(Client)

    def _opened(self, kind: type[Opened]) -> Opened:
        return kind(
            self._database,
            clock=self._clock,
            retention=self._retention,
            must_exist=self._must_exist,
            busy_wait_s=self._busy_wait_s,
        )

    def _declare_and_hold(self) -> ScheduleChanges:
        """Write all declarations, and return the open database.

        The caller closes it after the engine has opened its own: the last to close moves the log.
        """
        from edgecron.client.schedule_changes import ScheduleChanges  # lighter than a Client

        with ExitStack() as stack:
            client = stack.enter_context(closing(self._opened(ScheduleChanges)))
            _ = client.store  # Creates the file, even without declarations.
            self._declare(client, self._registry.declared())
            stack.pop_all()
        return client


def _check_name(name: str | None, location: Location) -> str:
    usual = location.name if isinstance(location, ServerUrl) else location.stem
    found = usual if name is None else name
    try:
        check_name(found, what="program name")
    except InvalidInput as error:
        hint = "give the Scheduler a name: Scheduler(path, name='app')"
        is_text = isinstance(name, str)
        raise InvalidInput(error.message, hint=error.hint if is_text else hint) from None
    return found
