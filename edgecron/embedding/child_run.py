"""Call one function in a process of its own, and write its result for the engine."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from edgecron.base.clock import SystemClock
from edgecron.base.errors import DatabaseUnusable, EdgecronError, InvalidInput, NotFound
from edgecron.client import Client
from edgecron.embedding.context import Arguments, Middleware
from edgecron.embedding.job import Job as Declared
from edgecron.embedding.processes import begin_child, load_function
from edgecron.model.choices import Cause, JobKind, Reason
from edgecron.model.job import Job
from edgecron.model.run import MOST_RESULT_BYTES, Claim
from edgecron.supervisor.calls import Call, Skip, failure_of
from edgecron.supervisor.environment import upstream_of

if TYPE_CHECKING:
    from types import FrameType

_REPORT_WAIT_S = 1.0  # to wait for another process's lock to report progress
_MAIN = "__mp_main__"  # the name that multiprocessing uses, and that guards of programs expect


def call_here(target: str, told: Mapping[str, Any]) -> int:
    """Call the function that `target` names for the run in `told` and our environment.

    Return our exit code. An exception's traceback goes to stderr.
    """
    begin_child()
    client = Client(told["database"], must_exist=True)
    reporting = Client(told["database"], must_exist=True, busy_wait_s=_REPORT_WAIT_S)
    call = ChildCall(_claim(told["run"]), client, reporting=reporting)
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
        traceback.print_exc()
        _leave_error(error, call)
        return 1
    finally:
        client.close()
        reporting.close()
    return 0


class ChildCall(Call):
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


def _leave(result: object, call: ChildCall) -> None:
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
