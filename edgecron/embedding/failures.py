"""What the log of a program says of its jobs: why one failed, and that a result was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.embedding.forks import engine_logger
from edgecron.model.choices import Status
from edgecron.model.claim import Stream

if TYPE_CHECKING:
    from edgecron.model.claim import Outcome

_MOST_TRACE_BYTES = 16 * 1024  # the end of what a process printed on stderr
_WHY_LOST = {
    "result_invalid": "it is not JSON",
    "result_too_big": "it is longer than 64 KiB as JSON",
}


def why_lost(flags: tuple[str, ...]) -> str | None:
    """Why what a run returned was not kept; None if nothing was lost."""
    return next((why for flag, why in _WHY_LOST.items() if flag in flags), None)


def log_end(schedule: str, outcome: Outcome) -> None:
    """Log the end of a job of the program if it failed or if its result was lost."""
    if outcome.status is Status.FAILED:
        reason = "" if outcome.reason is None else outcome.reason.value
        error = outcome.error_msg or reason
        trace = _trace_of(outcome)
        engine_logger().error(
            "job %s failed (run %d, %s): %s%s",
            schedule,
            outcome.execution_id,
            reason,
            error,
            f"\n{trace}" if trace else "",
        )
    why = why_lost(outcome.flags)
    if why is not None and outcome.status is Status.SUCCESS:
        engine_logger().warning(
            "job %s succeeded (run %d), but what it returned was not kept: %s",
            schedule,
            outcome.execution_id,
            why,
        )


def _trace_of(outcome: Outcome) -> str:
    if outcome.output is None:
        return ""
    printed = b"".join(
        chunk.content for chunk in outcome.output.chunks if chunk.stream is Stream.STDERR
    )
    return printed[-_MOST_TRACE_BYTES:].decode("utf-8", "replace").rstrip()
