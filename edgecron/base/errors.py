"""What goes wrong, as types: callers catch these, never text.

`code` names the error in JSON, `hint` says what to do next, and `exit_code` is what the command
line returns: 1 failed, 2 bad usage or input, 3 no such thing, 4 already there, 5 database unusable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class EdgecronError(Exception):
    """The root of every error that edgecron raises on purpose."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            self.add_note(hint)  # below a traceback, too

    @property
    def details(self) -> Mapping[str, Any]:
        """What else JSON says of it, by field."""
        return {}


class InvalidInput(EdgecronError, ValueError):
    """A value that a person or a program gave is not acceptable."""

    code = "invalid"
    exit_code = 2


class UsageError(InvalidInput):
    """A command line, or the value of an option, that can't be understood."""

    code = "usage"


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
    """A time text that can't be read, or lies where it must not."""

    code = "invalid_time"


class UnreadableTime(InvalidTime):
    """A time text that names no time, whenever it is read."""


class InvalidFile(InvalidInput):
    """A file with several entries, of which some are wrong: no entry is taken over.

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


class InvalidConfig(InvalidInput):
    """A configuration file that can't be read or trusted, or what no setting is called."""

    code = "invalid_config"


class NotFound(EdgecronError, LookupError):
    """The schedule, run or file that was asked for is not there."""

    code = "not_found"
    exit_code = 3


class MalformedCall(InvalidInput):
    """A question of another edgecron's, some part of which is not what it must be."""

    code = "malformed"


class KeyReused(InvalidInput):
    """An idempotency key that was given with something else before."""

    code = "idempotency_key_reused"


class AlreadyExists(EdgecronError):
    """A schedule of that name is there already."""

    code = "already_exists"
    exit_code = 4


class Conflict(EdgecronError):
    """Somebody else changed the same thing first; read it again and repeat."""

    code = "conflict"


class ChangedByOthers(Conflict):
    """What is written over the change of somebody else must be wanted so."""


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


class LogLost(DatabaseUnusable):
    """The log of a database was deleted while it is open; what lies in it can still be saved."""


class DatabaseDamaged(DatabaseUnusable):
    """What the file holds is damaged, or no database of ours; a backup may take its place."""


class Unreadable(DatabaseDamaged, InvalidInput):
    """Of all that the database holds, one schedule or run makes no sense; the others do."""


class DatabaseFull(DatabaseUnusable):
    """There is no room on the disk for what was to be written."""


class SchemaTooNew(DatabaseUnusable):
    """The database was written by a newer edgecron."""

    code = "schema_too_new"


class ServerUnavailable(DatabaseUnusable):
    """The edgecron of another machine can't be asked: it is not reached, does not answer, or is
    none that we can talk to."""

    code = "server"


class ServerLost(ServerUnavailable):
    """The edgecron of another machine is not reached, or answers no more: it may be back soon."""


class ServerUnheard(ServerLost):
    """It surely has not heard what it was asked: nothing was done."""


class AccessRefused(ServerUnavailable):
    """The edgecron of another machine answers, and wants a token, or another one."""

    code = "access"


class QueryInterrupted(EdgecronError):
    """What was asked of the database was ended before its answer, on request of who asked."""

    code = "interrupted"


class SupervisorUnavailable(EdgecronError):
    """The process that runs commands could not be started, or has gone."""

    code = "supervisor"


class Cancelled(EdgecronError):
    """A function ends because that was asked of its run; raised by RunContext.check."""

    code = "cancelled"


class RunFailed(EdgecronError):
    """A run whose result was asked for did not succeed; `run` is what is known of it."""

    code = "run_failed"


class ResultLost(EdgecronError):
    """A run succeeded, but what it returned could not be kept."""

    code = "result_lost"


class NotSupported(EdgecronError):
    """This platform lacks something that is needed."""

    code = "not_supported"


# What comes of stored values that no edgecron writes: a later version did, or somebody's hand.
SENSELESS = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def os_words(error: Exception, *, is_named: bool = False) -> str:
    """What the system says of an error, without its number; `is_named`: its file is known."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    words = error.strerror[:1].lower() + error.strerror[1:]
    return words if is_named or error.filename is None else f"{words}: {error.filename!r}"
