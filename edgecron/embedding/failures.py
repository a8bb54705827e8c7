"""Exceptions of functions: which are retried, and what `get` raises for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput, RunFailed
from edgecron.base.values import dataclass
from edgecron.model.choices import Reason

if TYPE_CHECKING:
    from edgecron.model.run import Execution

    Errors = type[BaseException] | tuple[type[BaseException], ...]

# What job() takes beside the options of every schedule.
RULE_NAMES = ("retry_on", "give_up_on", "on_failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """Which exceptions of a function are retried: those of `retry_on`, none of `give_up_on`.

    If `retry_on` is None, all exceptions are retried.
    """

    retry_on: tuple[type[BaseException], ...] | None = None
    give_up_on: tuple[type[BaseException], ...] = ()

    def gives_up(self, error: BaseException) -> bool:
        """Report whether an exception is one that the job does not retry."""
        if isinstance(error, self.give_up_on):
            return True
        return self.retry_on is not None and not isinstance(error, self.retry_on)


def read_rules(name: str, given: Mapping[str, Any]) -> RetryRules:
    """Return the rules of a declaration. Raises InvalidInput."""
    retry_on = given.get("retry_on")
    return RetryRules(
        retry_on=None if retry_on is None else _classes(name, "retry_on", retry_on),
        give_up_on=_classes(name, "give_up_on", given.get("give_up_on", ())),
    )


def _classes(name: str, what: str, given: Any) -> tuple[type[BaseException], ...]:
    found = given if isinstance(given, tuple) else (given,)
    for one in found:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise InvalidInput(
                f"schedule {name!r}: {what} is {given!r:.60}, expected exception classes",
                hint=f"such as {what}=(OSError, ValueError)",
            )
    return found


# Tracebacks of exceptions that follow from one another, the first one first.
_HEADER = re.compile(
    r"^(?:  \+ Exception Group )?Traceback \(most recent call last\):$", re.MULTILINE
)
_JOINTS = (
    "\nDuring handling of the above exception, another exception occurred:\n\n",
    "\nThe above exception was the direct cause of the following exception:\n\n",
)


def run_failed(run: Execution, output: str) -> RunFailed:
    """Return what `get` raises for a run that did not succeed. `output` is what it printed."""
    why = run.error_msg or (None if run.reason is None else run.reason.value)
    text = f"run {run.id} of {run.schedule!r} ended as {run.status}" + (f": {why}" if why else "")
    if run.reason is Reason.DECLINED:
        return RunFailed(text, type="Skip", message=why)
    has_raised = run.reason is Reason.EXCEPTION or (
        # A function in a process of its own: a command has no other code without a prefix.
        run.reason is Reason.EXIT and run.error_code != f"exit_{run.exit_code}"
    )
    if not has_raised or run.error_code is None:
        return RunFailed(text, message=why)
    type_, message = _split(run.error_code, run.error_msg or "")
    # A function on a thread prints elsewhere, so this is all of its output.
    trace = output if run.reason is Reason.EXCEPTION else _last_traceback(output)
    return RunFailed(text, type=type_, message=message, traceback=trace or None)


def _split(code: str, line: str) -> tuple[str, str]:
    """Return the qualified type and the message of an exception, from `app.PlcError: no`."""
    head = line.partition("\n")[0].partition(": ")[0]
    if head != code and not head.endswith(f".{code}"):
        return code, line
    return head, line[len(head) :].removeprefix(": ").removeprefix("\n")


def _last_traceback(output: str) -> str | None:
    """Return the last traceback of an output, with those of the exceptions that led to it."""
    found = None
    for header in reversed(list(_HEADER.finditer(output))):
        if found is not None and not output[:found].endswith(_JOINTS):
            break
        found = header.start()
    return None if found is None else output[found:]
