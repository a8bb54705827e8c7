"""Errors as types: callers catch these, never text.

`code` names the error in JSON, `hint` says what to do next, and `exit_code` is the command line's
exit code. 1 failed, 2 bad usage or input, 3 no such thing, 4 already there, 5 database unusable.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

_T = TypeVar("_T")
_U = TypeVar("_U")


class EdgecronError(Exception):
    """The root of every error that edgecron raises on purpose."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")  # below a traceback, too

    @property
    def details(self) -> Mapping[str, Any]:
        """More fields of the error in JSON."""
        return {}


class InvalidInput(EdgecronError, ValueError):
    """A value that a person or a program gave is not acceptable."""

    code = "invalid"
    exit_code = 2


class UsageError(InvalidInput):
    """A command line, or the value of an option, that can't be understood."""

    code = "usage"


class InvalidOptions(UsageError):
    """Several wrong options of one command line; `errors` has an error for each."""

    def __init__(
        self, message: str, *, hint: str | None = None, errors: Sequence[InvalidInput] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.errors = tuple(errors)

    @property
    def details(self) -> Mapping[str, Any]:
        return {"problems": [{"message": one.message, "hint": one.hint} for one in self.errors]}


class Problems:
    """Collects the errors of a command line, so that a person sees all of them."""

    def __init__(self) -> None:
        self._errors: list[InvalidInput] = []

    def __len__(self) -> int:
        return len(self._errors)

    def note(self, error: InvalidInput) -> None:
        self._errors.append(error)

    def read(self, read: Callable[[], _T], otherwise: _U) -> _T | _U:
        """Return what `read` returns; if it raises an error, note it and return `otherwise`."""
        try:
            return read()
        except InvalidInput as error:
            self.note(error)
            return otherwise

    def refuse(self) -> None:
        """Raise the error that was noted; InvalidOptions if there are several."""
        if len(self._errors) > 1:
            words = "; ".join(error.message for error in self._errors)
            raise InvalidOptions(words, errors=self._errors)
        for error in self._errors:
            raise error


class InvalidTrigger(InvalidInput):
    """A trigger text that can't be read, or that can never fire."""

    code = "invalid_trigger"


class UnknownTimezone(InvalidInput):
    """A zone that the tzdata package does not have."""

    code = "unknown_timezone"


class InvalidName(InvalidInput):
    """A schedule, group or scope name outside the allowed letters or length."""

    code = "invalid_name"


class InvalidDuration(InvalidInput):
    """A duration text such as '5 parsecs'."""

    code = "invalid_duration"


class InvalidTime(InvalidInput):
    """A time text that can't be read, or a time that is not allowed."""

    code = "invalid_time"


class UnreadableTime(InvalidTime):
    """A time text that never names a time."""


class InvalidFile(InvalidInput):
    """A file with several entries, some of them wrong. Then no entry is applied.

    `problems` are objects of JSON, one for each thing that is wrong.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        problems: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)

    @property
    def details(self) -> Mapping[str, Any]:
        return {"problems": list(self.problems)}


class InvalidCrontab(InvalidFile):
    """A crontab with lines that are wrong. Each problem has line, text, message and hint."""

    code = "invalid_crontab"


class InvalidDocument(InvalidFile):
    """A file of schedules that is wrong. Each problem has schedule, key, line, message and hint."""

    code = "invalid_document"


class InvalidConfig(InvalidFile):
    """A configuration file that can't be read or trusted, or wrong settings.

    Each problem of a file has key, line, message and hint; the message begins with file and line.
    """

    code = "invalid_config"


class NotFound(EdgecronError, LookupError):
    """The schedule, run or file does not exist."""

    code = "not_found"
    exit_code = 3


class MalformedCall(InvalidInput):
    """A request of another edgecron with an invalid part."""

    code = "malformed"


class KeyReused(InvalidInput):
    """An idempotency key that was used with another request before."""

    code = "idempotency_key_reused"


class AlreadyExists(EdgecronError):
    """A schedule of that name already exists."""

    code = "already_exists"
    exit_code = 4


class Conflict(EdgecronError):
    """Another user or process changed the same thing first; read it again and repeat."""

    code = "conflict"


class ChangedByOthers(Conflict):
    """The change would overwrite the change of another user; confirm it to do so."""


class DatabaseUnusable(EdgecronError):
    """The database can't be opened, read or trusted."""

    code = "database"
    exit_code = 5


class DatabaseBusy(DatabaseUnusable):
    """Another process held the write lock for longer than we were willing to wait."""

    code = "database_busy"


class DatabaseGone(DatabaseUnusable):
    """The file that is open was deleted, moved, replaced or emptied."""

    code = "database_gone"


class LeaseLost(DatabaseUnusable):
    """Engines of other machines took this engine for dead, and ended its runs in the database."""


class LogLost(DatabaseUnusable):
    """The log of an open database was deleted; its content can still be saved."""


class DatabaseDamaged(DatabaseUnusable):
    """The file is damaged, or not a database of edgecron; restore a backup."""


class Unreadable(DatabaseDamaged, InvalidInput):
    """One schedule or run of the database is invalid; the others are valid."""


class DatabaseFull(DatabaseUnusable):
    """The disk is full."""


class SchemaTooNew(DatabaseUnusable):
    """The database was written by a newer edgecron."""

    code = "schema_too_new"


class ServerUnavailable(DatabaseUnusable):
    """The edgecron of another machine can't be reached, does not answer, or is incompatible."""

    code = "server"


class ServerLost(ServerUnavailable):
    """The edgecron of another machine does not answer now; it can be back soon."""


class ServerUnheard(ServerLost):
    """The request certainly did not arrive: nothing was done."""


class AccessRefused(ServerUnavailable):
    """The edgecron of another machine refuses the token, or wants one."""

    code = "access"


class QueryInterrupted(EdgecronError):
    """A query was interrupted on the caller's request."""

    code = "interrupted"


class SupervisorUnavailable(EdgecronError):
    """The process that runs commands could not be started, or has gone."""

    code = "supervisor"


class Cancelled(EdgecronError):
    """A function ends because its run was cancelled; raised by RunContext.check."""

    code = "cancelled"


class RunFailed(EdgecronError):
    """A run whose result was requested did not succeed. Its text says how the run ended.

    - `type`: the qualified name of the exception that the function raised, such as `OSError` or
      `app.PlcError`; None if the run ended in another way.
    - `message`: the text of the exception, or how else the run ended.
    - `traceback`: the traceback as text; None if there is none, or if it was removed.
    """

    code = "run_failed"

    def __init__(
        self,
        text: str,
        *,
        type: str | None = None,
        message: str | None = None,
        traceback: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(text, hint=hint)
        self.type = type
        self.message = text if message is None else message
        self.traceback = traceback
        if traceback is not None:
            self.add_note(f"The function raised:\n{traceback.rstrip()}")

    def is_a(self, kind: builtins.type[BaseException]) -> bool:
        """Report whether the function raised an exception of this class, or of a subclass.

        If this program has not imported the class that was raised, only its name is compared.
        """
        if self.type is None:
            return False
        found = _find_class(self.type)
        if found is not None:
            return issubclass(found, kind)
        return self.type in (kind.__name__, kind.__qualname__)


def _find_class(name: str) -> type[BaseException] | None:
    """Find an exception of Python or of a loaded module by its qualified name."""
    parts = name.split(".")
    for count in range(len(parts) - 1, -1, -1):
        home = sys.modules.get(".".join(parts[:count]) if count else "builtins")
        found: Any = home
        for part in parts[count:]:
            found = getattr(found, part, None)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return None


class ResultLost(EdgecronError):
    """A run succeeded, but its result could not be stored."""

    code = "result_lost"


class NotSupported(EdgecronError):
    """This platform lacks something that edgecron needs."""

    code = "not_supported"


# Raised by stored values that this version never writes: a later version or a person did.
SENSELESS = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def os_words(error: Exception, *, is_named: bool = False) -> str:
    """Write the system's message without its number; `is_named`: also without the file."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    words = error.strerror[:1].lower() + error.strerror[1:]
    return words if is_named or error.filename is None else f"{words}: {error.filename!r}"
