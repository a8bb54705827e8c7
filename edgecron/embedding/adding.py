"""Add schedules to the database at run time: commands, and calls of functions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from edgecron.base.checks import check_name, check_switch
from edgecron.embedding.concurrency import beside
from edgecron.embedding.declarations import Declared, place_of
from edgecron.embedding.declared_options import check_names, payload_text, read_options
from edgecron.embedding.entry import AddedJob, Entry
from edgecron.embedding.program import Program

if TYPE_CHECKING:
    from typing import TypeVar, Unpack

    from edgecron.embedding.declarations import AddOptions, CallOptions, CommandOptions
    from edgecron.triggers import Trigger

    T = TypeVar("T")


class Adding(Program):
    """A program that adds schedules: see `add`."""

    @overload
    def add(
        self,
        name: str,
        *when: Trigger | str,
        call: Callable[..., Coroutine[Any, Any, T]],
        **options: Unpack[CallOptions],
    ) -> Entry[T]: ...

    @overload
    def add(
        self,
        name: str,
        *when: Trigger | str,
        call: Callable[..., T],
        **options: Unpack[CallOptions],
    ) -> Entry[T]: ...

    @overload
    def add(
        self, name: str, *when: Trigger | str, **options: Unpack[AddOptions]
    ) -> Entry[None]: ...

    def add(
        self,
        name: str,
        *when: Trigger | str,
        command: Sequence[str] | None = None,
        shell: str | None = None,
        call: Callable[..., Any] | None = None,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        process: bool = False,
        replace: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Entry[Any]:
        """Add a schedule of a command, a shell line, or a call of a function:

            scheduler.add("report-7", "@daily", call=reports.send, args=[7])

        It is written immediately and stays until you remove it, without a declaration. Any engine
        of the program runs the function: edgecron stores its import path, and imports the function
        when the schedule fires. With `process` each run is a process of its own, as in `job`, but
        without middleware. An equal schedule stays as it is. Raises AlreadyExists if another
        schedule has this name, unless you `replace` it. Raises InvalidInput for a wrong argument,
        or if other processes can't import the function: a lambda, a function within a function,
        a method of an instance, or a function of the started program itself.
        """
        job = AddedJob(command, shell, call, args, kwargs, is_process=process)
        return self._add(name, when, job, options, replaces=replace, where=place_of(1))

    @overload
    async def aadd(
        self,
        name: str,
        *when: Trigger | str,
        call: Callable[..., Coroutine[Any, Any, T]],
        **options: Unpack[CallOptions],
    ) -> Entry[T]: ...

    @overload
    async def aadd(
        self,
        name: str,
        *when: Trigger | str,
        call: Callable[..., T],
        **options: Unpack[CallOptions],
    ) -> Entry[T]: ...

    @overload
    async def aadd(
        self, name: str, *when: Trigger | str, **options: Unpack[AddOptions]
    ) -> Entry[None]: ...

    async def aadd(
        self,
        name: str,
        *when: Trigger | str,
        command: Sequence[str] | None = None,
        shell: str | None = None,
        call: Callable[..., Any] | None = None,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        process: bool = False,
        replace: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Entry[Any]:
        """`add`, for a coroutine."""
        job = AddedJob(command, shell, call, args, kwargs, is_process=process)
        return await beside(
            self._add, name, when, job, options, replaces=replace, where=place_of(1)
        )

    def _add(
        self,
        name: str,
        when: Sequence[Trigger | str],
        job: AddedJob,
        options: CommandOptions,
        *,
        replaces: bool,
        where: str,
    ) -> Entry[Any]:
        check_name(name, what="schedule name")
        check_switch("replace", replaces)
        check_switch("process", job.is_process)
        given = dict(options)
        known = job.option_names
        check_names(name, given, known=known)  # A misspelt `command`, too.
        keys = job.keys(name, queue=self.queue)
        keys |= payload_text(given.pop("payload", None), name=name)
        wanted = read_options(name, when, keys, given, known=known, timezone=self.timezone)
        added = Declared(wanted=wanted, where=where)
        self._registry.need_free(added)
        from edgecron.client.declaring import add_one

        with self._only_one_keeping(), self.pool.client() as client:
            origin = f"{self.origin}, {where}"
            add_one(client, wanted, queue=self.queue, origin=origin, replaces=replaces)
            self._registry.note_added(added)
        return Entry(name, self)
