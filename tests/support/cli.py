"""What a command line left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Said:
    """What a command line left: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def is_plain_error(self) -> bool:
        """Whether stderr is one error, with at most one hint on a line of its own."""
        error, *hints = self.err.splitlines()
        return error.startswith("error: ") and [one[:6] for one in hints] in ([], ["hint: "])

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error object that --json puts on stderr."""
        found: dict[str, Any] = json.loads(self.err)["error"]
        return found


Edgecron = Callable[..., Said]
