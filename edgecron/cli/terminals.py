"""Whether a terminal is one that the dashboard can be drawn on."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # As type checkers read it; `typing` would cost more than all the rest.
if TYPE_CHECKING:
    from edgecron.base.errors import UsageError

CANT_MOVE = ("dumb", "unknown", "")


def may_show_dashboard() -> bool:
    """Whether the dashboard opens where no verb is given."""
    return find_unfit() is None


def find_unfit() -> UsageError | None:
    """Why the dashboard can't be drawn here, and what to do instead; None where it can."""
    from edgecron.base.errors import UsageError

    # It reads keys from stdin and draws on stderr; stdout is looked at since whoever redirects it
    # wants text.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return UsageError(
            "the dashboard needs a terminal, and stdin, stdout or stderr is none",
            hint="edgecron status tells how it stands; edgecron tui --plain needs no terminal",
        )
    term = os.environ.get("TERM", "")
    if term in CANT_MOVE:
        return UsageError(
            f"the dashboard needs a terminal that can move its cursor, and TERM is {term!r}",
            hint="edgecron tui --plain shows the same as lines",
        )
    encoding = (sys.stderr.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        return UsageError(
            f"the dashboard needs UTF-8, and the locale says {sys.stderr.encoding}",
            hint="try LC_ALL=C.UTF-8 edgecron tui, or edgecron tui --plain",
        )
    return None
