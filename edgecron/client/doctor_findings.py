"""Values that a check returns."""

from __future__ import annotations

from enum import StrEnum

from edgecron.base.values import dataclass


class CheckStatus(StrEnum):
    """How bad it is."""

    OK = "ok"  # as it should be
    WARNING = "warning"  # nothing is lost, but somebody should know
    PROBLEM = "problem"  # something does not work, and will not mend by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found; `hint` says what to do about it, where there is something."""

    check: str
    status: CheckStatus
    message: str
    hint: str | None = None


def well(check: str, message: str) -> Finding:
    return Finding(check=check, status=CheckStatus.OK, message=message)


def warning(check: str, message: str, *, hint: str | None = None) -> Finding:
    return Finding(check=check, status=CheckStatus.WARNING, message=message, hint=hint)


def problem(check: str, message: str, *, hint: str | None = None) -> Finding:
    return Finding(check=check, status=CheckStatus.PROBLEM, message=message, hint=hint)
