"""Exceptions that a function raises to say what becomes of its run."""

from __future__ import annotations

from datetime import timedelta

from edgecron.base.errors import EdgecronError, InvalidInput
from edgecron.base.units import MAX_DURATION_MS, parse_duration_ms


class Skip(EdgecronError):
    """A function raises it when there is nothing to do: its run ends as skipped, for this reason.

        raise Skip("no new files")

    The run counts neither as a success nor as a failure, and has no retry.
    """

    code = "skip"

    def __init__(self, reason: str = "the function had nothing to do") -> None:
        super().__init__(reason)


class Retry(EdgecronError):
    """A function raises it to be called again: its run has failed, and the next attempt follows.

        raise Retry("the device is busy", after="30s")

    `after` is the delay: text, seconds or a timedelta. If it is None, the job's options decide.
    Each attempt uses up one of the job's retries. If none is left, the run has failed for good.
    """

    code = "retry"

    def __init__(
        self,
        message: str = "the function asked for another attempt",
        *,
        after: str | float | timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.after_ms = None if after is None else _delay_ms(after)


def _delay_ms(after: object) -> int:
    if isinstance(after, str):
        return parse_duration_ms(after)
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if (
        not isinstance(seconds, int | float)
        or isinstance(seconds, bool)
        or not 0 <= seconds <= MAX_DURATION_MS / 1000
    ):
        raise InvalidInput(
            f"after is {after!r:.60}, expected a delay of at most 100 years",
            hint='such as Retry(after="30s")',
        )
    return round(seconds * 1000)
