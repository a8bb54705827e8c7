"""Entry: a schedule of the database by its name, to read, run, change and remove; its job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.checks import check_type
from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.values import NamedTuple
from edgecron.embedding.concurrency import beside_loop
from edgecron.embedding.context import Arguments, Middleware
from edgecron.embedding.declared_options import (
    COMMAND_OPTION_NAMES,
    OPTION_NAMES,
    command_keys,
    payload_text,
    read_change,
)
from edgecron.embedding.enqueuing import read_call
from edgecron.embedding.job import Scheduled, payload_json
from edgecron.embedding.processes import bare, find_path, import_path, load_function
from edgecron.formats.document_tables import scope_texts
from edgecron.model.choices import COMMAND_QUEUE, GLOBAL_SCOPE, JobKind
from edgecron.model.engine import CALL
from edgecron.model.schedule import ScheduleSpec

if TYPE_CHECKING:
    from typing import Unpack

    from edgecron.embedding.declarations import CommandOptions
    from edgecron.embedding.enqueuing import CallKeywords
    from edgecron.embedding.run import Run
    from edgecron.formats.document_tables import Wanted
    from edgecron.model.schedule import Schedule
    from edgecron.triggers import Trigger

T = TypeVar("T")
_WITHOUT = GLOBAL_SCOPE[0]  # the scope of a schedule without scopes


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


class Entry(Scheduled[T]):
    """A schedule of the database that this code does not declare: added, or found by its name."""

    def enqueue(self, payload: object = None, **options: Unpack[CallKeywords]) -> Run[T]:
        """Have an engine run it, now or later: `entry.enqueue({"size": 3}, delay="5m")`.

        `payload` is as in `run_now`, and `options` are those of `Job.enqueue`.
        """
        return self._fire_one(payload_json(payload), read_call(options))

    async def aenqueue(self, payload: object = None, **options: Unpack[CallKeywords]) -> Run[T]:
        """`enqueue`, for a coroutine."""
        return await self._afire_one(payload_json(payload), read_call(options))

    def run_now(self, payload: object = None) -> Run[T]:
        """Have an engine run it now. Its next time does not change.

        `payload` is JSON for this run only; None is the schedule's own. Raises InvalidInput for a
        value that JSON can't hold, or if it has several scopes: see `fire`.
        """
        return self._fire_one(payload_json(payload))

    def change(
        self,
        when: Trigger | str | Sequence[Trigger | str] = (),
        *,
        command: Sequence[str] | None = None,
        shell: str | None = None,
        call: Callable[..., Any] | None = None,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[CommandOptions],
    ) -> None:
        """Change the given parts, and keep the others:

            scheduler.get("report-7").change(when="@hourly", retries=3)

        New times count from now. Raises NotFound, InvalidInput as `add` does, and Conflict if this
        program declares the schedule.
        """
        from edgecron.client.declaring import change_one  # Reads documents: 5 ms to load.

        self._need_added("change the declaration")
        triggers = (when,) if isinstance(when, str) or not isinstance(when, Sequence) else when
        job = AddedJob(command, shell, call, args, kwargs)
        given: dict[str, Any] = dict(options)
        payload = payload_text(given.pop("payload", None), name=self.name)

        def changed(schedule: Schedule) -> Wanted:
            job_now = schedule.spec.job
            is_call = job_now.kind is JobKind.CALLABLE or find_path(job_now) is not None
            keys = job.changed_keys(schedule.spec, queue=self._program.queue)
            if is_call and payload:
                raise InvalidInput(
                    f"schedule {self.name!r} calls a function, which has no payload",
                    hint="give args=[...] or kwargs={...}",
                )
            known = OPTION_NAMES if is_call else COMMAND_OPTION_NAMES
            return read_change(schedule, triggers, {**keys, **payload}, given, known=known)

        with self._client() as client:
            change_one(client, self.name, changed, origin=self._program.origin)
        self._program.forget_added(self.name)

    def add_scopes(self, *scopes: str) -> None:
        """Fire it for these scopes, too, such as `device:plc3`. Scopes that it has stay."""
        self._change_scopes(scopes, lambda former: [*former, *scopes])

    def remove_scopes(self, *scopes: str) -> None:
        """Stop firing for these scopes. A scope that it does not have changes nothing.

        Raises InvalidInput for the last scope: it would then fire once, without a scope.
        """

        def remaining(former: list[str]) -> list[str]:
            left = [scope for scope in former if scope not in scopes]
            if former and not left:
                raise InvalidInput(
                    f"schedule {self.name!r} would have no scope left, and fire without one",
                    hint="pause it, remove it, or change it: change(scopes=['global'])",
                )
            return left

        self._change_scopes(scopes, remaining)

    def remove(self) -> None:
        """Remove it: queued runs are cancelled, running ones finish, the history stays.

        Raises NotFound, and Conflict if this program declares the schedule.
        """
        self._need_added("remove the declaration; prune() then removes the schedule")
        with self._client() as client:
            client.remove(self.name)
        self._program.forget_added(self.name)

    # The same for coroutines: each call runs on a thread beside the event loop.

    async def arun_now(self, payload: object = None) -> Run[T]:
        """`run_now`, for a coroutine: `run = await entry.arun_now()`, then `await run`."""
        return await self._afire_one(payload_json(payload))

    achange = beside_loop(change)
    aadd_scopes = beside_loop(add_scopes)
    aremove_scopes = beside_loop(remove_scopes)
    aremove = beside_loop(remove)

    def _change_scopes(
        self, scopes: Sequence[str], change: Callable[[list[str]], list[str]]
    ) -> None:
        from edgecron.client.declaring import change_one

        self._need_added("change the declaration")
        for scope in scopes:
            check_type("scope", scope, str, expected="text", hint="such as 'device:plc3'")

        def changed(schedule: Schedule) -> Wanted:
            former = [text for text in scope_texts(schedule.spec) if text != _WITHOUT]
            named = list(dict.fromkeys(change(former))) or [_WITHOUT]
            return read_change(schedule, (), {}, {"scopes": named}, known=OPTION_NAMES)

        with self._client() as client:
            change_one(client, self.name, changed, origin=self._program.origin)
        self._program.forget_added(self.name)

    def _need_added(self, how: str) -> None:
        """Raise Conflict if this program declares the schedule: its code decides what it is."""
        place = self._program.find_declaration(self.name)
        if place is not None:
            raise Conflict(f"schedule {self.name!r} is declared in code, at {place}", hint=how)


def _arguments(call: object, *, name: str) -> Arguments:
    """Return what a function takes. It is not called here, so nothing is around it."""
    return Arguments(bare(call), job=name, middleware=Middleware())


def _found(name: str, path: str) -> Callable[..., Any]:
    try:
        return load_function(path)
    except ImportError as error:
        raise InvalidInput(
            f"schedule {name!r}: {error}", hint="change it in a program that has this module"
        ) from error


def _another_kind(name: str, what: str, key: str) -> InvalidInput:
    return InvalidInput(
        f"schedule {name!r} {what}, so {key} can't change it",
        hint="remove it, and add it again",
    )
